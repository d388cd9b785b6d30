//! The place of the batch in a tensor: for ONNX it is an axis like any other, but networks here are per sample.

use perf4sight_network::{Layout, Shape};

/// The batch in the axes of an ONNX tensor: `axis` has length `before` x batch x `after`.
///
/// Usually `before` and `after` are 1 and the axis is the batch alone, which is then no axis of the sample. Attention and
/// window partitions fold the batch into another axis; that axis is then one of the sample too, without the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Batch {
    pub axis: usize,
    before: usize,
    after: usize,
}

impl Batch {
    /// The outermost axis, as in every image.
    pub const FIRST: Batch = Batch::alone_at(0);

    pub const fn alone_at(axis: usize) -> Batch {
        Batch { axis, before: 1, after: 1 }
    }

    /// On an axis `times` as long as the batch. The part before the batch is that of `source`, if its axis is as long.
    pub fn holding(axis: usize, times: u64, source: Option<Batch>) -> Batch {
        let times = times as usize;
        match source {
            Some(source) if source.before.checked_mul(source.after) == Some(times) => source.at(axis),
            _ => Batch { axis, before: 1, after: times },
        }
    }

    /// Whether an axis of length `dim` can hold `batch` samples.
    pub fn fits(self, dim: u64, batch: u64) -> bool {
        (self.before as u64).checked_mul(self.after as u64).and_then(|times| times.checked_mul(batch)) == Some(dim)
    }

    pub fn alone(self) -> bool {
        self.before == 1 && self.after == 1
    }

    pub fn layout(self) -> Option<Layout> {
        match self {
            Batch { axis, before: 1, after: 1 } => Some(Layout::Alone(axis)),
            Batch { axis: 0, before: 1, .. } => Some(Layout::Rows),
            _ => None,
        }
    }

    /// The same batch on an axis that moved to `axis`.
    pub fn at(self, axis: usize) -> Batch {
        Batch { axis, ..self }
    }

    /// The axis of the sample that is axis `axis` of the tensor; `None` for the one that holds the batch.
    pub fn sample_axis(self, axis: usize) -> Option<usize> {
        match axis {
            _ if axis == self.axis => None,
            _ if axis > self.axis && self.alone() => Some(axis - 1),
            _ => Some(axis),
        }
    }

    pub fn tensor_dims(self, sample: &Shape, batch: u64) -> Vec<u64> {
        let mut dims: Vec<u64> = sample.dims().iter().map(|&dim| dim as u64).collect();
        match self.alone() {
            true => dims.insert(self.axis.min(dims.len()), batch),
            false => dims[self.axis] = dims[self.axis].saturating_mul(batch),
        }
        dims
    }

    pub fn sample(self, tensor: &[u64]) -> Shape {
        let mut dims: Vec<usize> = tensor.iter().map(|&dim| dim as usize).collect();
        match self.alone() {
            true => drop(dims.remove(self.axis)),
            false => dims[self.axis] = self.before * self.after,
        }
        Shape::new(dims)
    }

    /// The place of the batch after a reshape from `from` to `to`; `None` if the reshape splits it.
    ///
    /// In memory order, `elements` elements precede the batch. It is on the axis of `to` that begins there or contains that
    /// position. With a batch of 1 there may be several such axes: then it is the one that is the batch alone. Otherwise, if axes
    /// were merged, it is the one that ends with the batch (`[L, 1, E]` as `[L, E]` before a fully connected layer); if axes were
    /// split, it is the one that begins with it (`[L, 1, E]` as `[L, heads, E / heads]`).
    pub fn reshaped(self, from: &[u64], to: &[u64], batch: u64) -> Option<Batch> {
        let elements = product(&from[..self.axis])?.checked_mul(self.before as u64)?;
        let candidates = (0..to.len()).filter_map(|axis| {
            let outer = product(&to[..axis])?;
            let before = (outer > 0 && elements.is_multiple_of(outer)).then(|| elements / outer)?;
            let held = before.checked_mul(batch).filter(|&held| held > 0)?;
            to[axis].is_multiple_of(held).then(|| Batch {
                axis,
                before: before as usize,
                after: (to[axis] / held) as usize,
            })
        });
        let candidates: Vec<Batch> = candidates.collect();
        let meant = |place: &&Batch| if to.len() < from.len() { place.after == 1 } else { place.before == 1 };
        let alone = candidates.iter().find(|place| place.alone());
        alone.or_else(|| candidates.iter().find(meant)).or(candidates.first()).copied()
    }
}

/// Stands in for an open batch in the file's shape arithmetic: a prime of which no real dimension is a multiple.
const OPEN: u64 = 1_000_003;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Samples(u64);

impl Samples {
    pub fn new(fixed: Option<u64>) -> Self {
        Samples(fixed.unwrap_or(OPEN))
    }

    pub fn is_open(self) -> bool {
        self.0 == OPEN
    }

    pub fn number(self) -> u64 {
        self.0
    }

    /// Splits an integer of the file's arithmetic into a multiple of the open batch and a rest.
    pub fn parted(self, value: i64) -> [i64; 2] {
        let batch = self.0 as i64;
        // A value near the largest integer means "to the end".
        match self.is_open() && value >= batch && value < 1 << 40 {
            true => [value / batch, value % batch],
            false => [0, value],
        }
    }
}

/// Whether an axis of a sample is as long as the open batch, or a multiple of it: the samples are combined with each other.
pub(super) fn is_across(sample: &Shape) -> bool {
    sample.dims().iter().any(|&dim| dim > 0 && (dim as u64).is_multiple_of(OPEN))
}

/// A dimension for messages, which names multiples of the open batch.
pub(super) fn written(dim: impl Into<i128>) -> String {
    match dim.into() {
        dim if dim == i128::from(OPEN) => "batch".to_string(),
        dim if dim > 0 && dim % i128::from(OPEN) == 0 => format!("{} x batch", dim / i128::from(OPEN)),
        dim => dim.to_string(),
    }
}

pub(super) fn listed<D: Copy + Into<i128>>(dims: &[D]) -> String {
    format!("[{}]", dims.iter().map(|&dim| written(dim)).collect::<Vec<_>>().join(", "))
}

/// Elements of a tensor; `None` beyond 64 bits.
pub(super) fn product(dims: &[u64]) -> Option<u64> {
    dims.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flatten_keeps_the_batch_first() {
        assert_eq!(Batch::FIRST.reshaped(&[8, 512, 7, 7], &[8, 25088], 8), Some(Batch::FIRST));
        // A batch of 1: every axis could hold it, the first is alone.
        assert_eq!(Batch::FIRST.reshaped(&[1, 512, 1, 1], &[1, 512], 1), Some(Batch::FIRST));
    }

    #[test]
    fn attention_folds_the_batch_into_the_heads_and_back() {
        // nn.MultiheadAttention, 197 tokens, 12 heads of 64: [L, B, E] -> [L, B * heads, 64] -> [B * heads, L, 64].
        let sequence = Batch::alone_at(1);
        let folded = sequence.reshaped(&[197, 5, 768], &[197, 60, 64], 5).unwrap();
        assert_eq!(folded.sample(&[197, 60, 64]), Shape::new([197, 12, 64]));
        assert_eq!(folded.at(0).sample_axis(1), Some(1));
        // Behind the heads: [L, B, E] -> [L * B, E] -> [L, B, E].
        let merged = sequence.reshaped(&[197, 5, 768], &[985, 768], 5).unwrap();
        assert_eq!(merged.sample(&[985, 768]), Shape::new([197, 768]));
        assert_eq!(merged.reshaped(&[985, 768], &[197, 5, 768], 5), Some(sequence));
    }

    #[test]
    fn a_batch_of_one_is_followed_through_attention() {
        let sequence = Batch::alone_at(1);
        let split = sequence.reshaped(&[197, 1, 768], &[197, 12, 64], 1).unwrap();
        assert_eq!((split.axis, split.sample(&[197, 12, 64])), (1, Shape::new([197, 12, 64])));
        let merged = sequence.reshaped(&[197, 1, 768], &[197, 768], 1).unwrap();
        assert_eq!((merged.axis, merged.sample(&[197, 768])), (0, Shape::new([197, 768])));
    }

    #[test]
    fn messages_call_an_open_batch_so() {
        let [batch, four] = [1, 4].map(|times| times * Samples::new(None).number());
        assert_eq!((listed(&[batch, 6]), listed(&[four, 2])), ("[batch, 6]".into(), "[4 x batch, 2]".into()));
        assert_eq!((written(batch + 1), written(0u64)), ((batch + 1).to_string(), "0".into()));
    }

    #[test]
    fn a_torn_batch_is_none() {
        assert_eq!(Batch::FIRST.reshaped(&[8, 6], &[4, 12], 8), None);
    }
}
