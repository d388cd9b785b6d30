//! The place of the batch in a tensor: for ONNX it is an axis like any other, but networks here are per sample.

use super::call::NodeMisfit;
use super::number::{BatchNumber, TensorDims, as_integers, numbers, product};
use perf4sight_network::{BatchLayout, Shape};

/// The batch in the axes of an ONNX tensor: `axis` has length `before` x batch x `after`.
///
/// Usually `before` and `after` are 1 and the axis is the batch alone, which is then no axis of the sample. Attention and
/// window partitions fold the batch into another axis; that axis is then one of the sample too, without the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchAxis {
    pub axis: usize,
    before: usize,
    after: usize,
}

impl BatchAxis {
    /// The outermost axis, as in every image.
    pub const FIRST: BatchAxis = BatchAxis::alone_at(0);

    pub const fn alone_at(axis: usize) -> BatchAxis {
        BatchAxis { axis, before: 1, after: 1 }
    }

    /// On an axis `times` as long as the batch. The part before the batch is that of `source`, if its axis is as long.
    pub fn holding(axis: usize, times: usize, source: Option<BatchAxis>) -> BatchAxis {
        match source {
            Some(source) if source.times() == times => source.moved_to(axis),
            _ => BatchAxis { axis, before: 1, after: times },
        }
    }

    /// The length of its axis for a single sample.
    pub fn times(self) -> BatchNumber {
        product(&[self.before, self.after])
    }

    /// Whether an axis of length `dim` can hold `batch` samples.
    pub fn fits(self, dim: BatchNumber, batch: BatchNumber) -> bool {
        batch * self.times() == dim
    }

    pub fn is_alone(self) -> bool {
        self.before == 1 && self.after == 1
    }

    /// Whether it is the outer part of the first axis.
    pub fn is_leading(self) -> bool {
        (self.axis, self.before) == (0, 1) && !self.is_alone()
    }

    pub fn layout(self) -> Option<BatchLayout> {
        match self {
            BatchAxis { axis, before: 1, after: 1 } => Some(BatchLayout::Alone(axis)),
            BatchAxis { axis: 0, before: 1, .. } => Some(BatchLayout::Rows),
            _ => None,
        }
    }

    /// The same batch on an axis that moved to `axis`.
    pub fn moved_to(self, axis: usize) -> BatchAxis {
        BatchAxis { axis, ..self }
    }

    /// The axis of the sample that is axis `axis` of the tensor; `None` for the one that holds the batch.
    pub fn sample_axis(self, axis: usize) -> Option<usize> {
        match axis {
            _ if axis == self.axis => None,
            _ if axis > self.axis && self.is_alone() => Some(axis - 1),
            _ => Some(axis),
        }
    }

    pub fn tensor_dims(self, sample: &Shape, batch: BatchNumber) -> TensorDims {
        let mut dims = numbers(sample.dims());
        match self.is_alone() {
            true => dims.insert(self.axis.min(dims.len()), batch),
            false => dims[self.axis] = dims[self.axis] * batch,
        }
        dims
    }

    /// # Errors
    /// As [`shape`].
    pub fn sample(self, tensor: &[BatchNumber]) -> Result<Shape, NodeMisfit> {
        let mut dims = tensor.to_vec();
        match self.is_alone() {
            true => drop(dims.remove(self.axis)),
            false => dims[self.axis] = self.times(),
        }
        shape(&dims)
    }

    /// The place of the batch after a reshape from `from` to `to`; `None` if the reshape splits it.
    ///
    /// In memory order, `elements` elements precede the batch. It is on the axis of `to` that begins there or contains that
    /// position. With a batch of 1 there may be several such axes: then it is the one that is the batch alone. Otherwise, if axes
    /// were merged, it is the one that ends with the batch (`[L, 1, E]` as `[L, E]` before a fully connected layer); if axes were
    /// split, it is the one that begins with it (`[L, 1, E]` as `[L, heads, E / heads]`).
    pub fn reshaped(self, from: &[BatchNumber], to: &[BatchNumber], batch: BatchNumber) -> Option<BatchAxis> {
        let elements = product(&from[..self.axis]) * self.before;
        let candidates = (0..to.len()).filter_map(|axis| {
            let before = (elements / product(&to[..axis])).as_integer()?;
            Some(BatchAxis { axis, before, after: (to[axis] / (batch * before)).as_integer()? })
        });
        let candidates: Vec<BatchAxis> = candidates.collect();
        let meant = |place: &&BatchAxis| if to.len() < from.len() { place.after == 1 } else { place.before == 1 };
        let alone = candidates.iter().find(|place| place.is_alone());
        alone.or_else(|| candidates.iter().find(meant)).or(candidates.first()).copied()
    }
}

/// The shape of one sample of a tensor, which has the batch at this place.
///
/// # Errors
/// As [`shape`].
pub(super) fn sample(tensor: &[BatchNumber], batch: Option<BatchAxis>) -> Result<Shape, NodeMisfit> {
    batch.map_or_else(|| shape(tensor), |batch| batch.sample(tensor))
}

/// The shape of a tensor for one sample.
///
/// # Errors
/// Wrong if it is as long as the batch along an axis: one sample then has no cost of its own.
pub(super) fn shape(dims: &[BatchNumber]) -> Result<Shape, NodeMisfit> {
    as_integers(dims).map(Shape::new).ok_or_else(|| {
        NodeMisfit::Wrong(format!("makes {dims:?} of every sample, so that one sample has no cost of its own: {ALONE}"))
    })
}

const ALONE: &str = "export the network without what mixes the samples of a batch, such as a contrastive loss";

#[cfg(test)]
mod tests {
    use super::*;

    fn reshaped(batch: BatchAxis, from: &[i64], to: &[i64], samples: i64) -> Option<BatchAxis> {
        batch.reshaped(&numbers(from), &numbers(to), samples.into())
    }

    fn of_one(batch: BatchAxis, tensor: &[i64]) -> Shape {
        batch.sample(&numbers(tensor)).unwrap()
    }

    #[test]
    fn a_flatten_keeps_the_batch_first() {
        assert_eq!(reshaped(BatchAxis::FIRST, &[8, 512, 7, 7], &[8, 25088], 8), Some(BatchAxis::FIRST));
        // A batch of 1: every axis could hold it, the first is alone.
        assert_eq!(reshaped(BatchAxis::FIRST, &[1, 512, 1, 1], &[1, 512], 1), Some(BatchAxis::FIRST));
    }

    #[test]
    fn attention_folds_the_batch_into_the_heads_and_back() {
        // nn.MultiheadAttention, 197 tokens, 12 heads of 64: [L, B, E] -> [L, B * heads, 64] -> [B * heads, L, 64].
        let sequence = BatchAxis::alone_at(1);
        let folded = reshaped(sequence, &[197, 5, 768], &[197, 60, 64], 5).unwrap();
        assert_eq!(of_one(folded, &[197, 60, 64]), Shape::new([197, 12, 64]));
        assert_eq!(folded.moved_to(0).sample_axis(1), Some(1));
        // Behind the heads: [L, B, E] -> [L * B, E] -> [L, B, E].
        let merged = reshaped(sequence, &[197, 5, 768], &[985, 768], 5).unwrap();
        assert_eq!(of_one(merged, &[985, 768]), Shape::new([197, 768]));
        assert_eq!(reshaped(merged, &[985, 768], &[197, 5, 768], 5), Some(sequence));
    }

    #[test]
    fn a_batch_of_one_is_followed_through_attention() {
        let sequence = BatchAxis::alone_at(1);
        let split = reshaped(sequence, &[197, 1, 768], &[197, 12, 64], 1).unwrap();
        assert_eq!((split.axis, of_one(split, &[197, 12, 64])), (1, Shape::new([197, 12, 64])));
        let merged = reshaped(sequence, &[197, 1, 768], &[197, 768], 1).unwrap();
        assert_eq!((merged.axis, of_one(merged, &[197, 768])), (0, Shape::new([197, 768])));
    }

    #[test]
    fn a_torn_batch_is_none() {
        assert_eq!(reshaped(BatchAxis::FIRST, &[8, 6], &[4, 12], 8), None);
    }
}
