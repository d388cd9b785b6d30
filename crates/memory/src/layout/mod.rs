//! Layouts of results in memory: which results are views, and which tensors are copied before a library reads them.
//!
//! The rules are PyTorch's: views and their strides (aten/src/ATen/TensorUtils.cpp, `computeStride`), element by
//! element in the order of the first operand (aten/src/ATen/TensorIterator.cpp, `reorder_dimensions`), images
//! channels-last where their inputs are (c10/core/MemoryFormat.h).

mod gradients;
mod results;

pub(crate) use gradients::gradient_layouts;
pub(crate) use results::{layouts, reads_row, reshape_view, samples_after, uses_math_kernel};

/// A tensor's sizes and strides, the batch axis first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TensorLayout {
    sizes: Vec<u64>,
    strides: Vec<u64>,
}

impl TensorLayout {
    /// Contiguous, the last axis innermost.
    pub fn contiguous(sizes: Vec<u64>) -> Self {
        let order = (0..sizes.len()).collect::<Vec<_>>();
        TensorLayout::dense(sizes, &order)
    }

    /// Without gaps, axes from the outermost to the innermost in this order.
    pub fn dense(sizes: Vec<u64>, order: &[usize]) -> Self {
        let (mut strides, mut reach) = (vec![0; sizes.len()], 1u64);
        for &axis in order.iter().rev() {
            strides[axis] = reach;
            reach = reach.saturating_mul(sizes[axis].max(1));
        }
        TensorLayout { sizes, strides }
    }

    /// Without gaps, with the batch after that many of the other axes in memory.
    pub fn with_batch_after(sizes: Vec<u64>, axes: usize) -> Self {
        let order = axes_with_batch_after(axes, sizes.len());
        TensorLayout::dense(sizes, &order)
    }

    /// An image with its channels innermost.
    pub fn channels_last(sizes: Vec<u64>) -> Self {
        TensorLayout::dense(sizes, &[0, 2, 3, 1])
    }

    /// Of other sizes, without gaps, axes in the order they have here.
    pub fn with_sizes(&self, sizes: Vec<u64>) -> Self {
        let mut order: Vec<usize> = (0..self.sizes.len()).collect();
        if sizes.len() != order.len() || self.strides.contains(&0) {
            return TensorLayout::contiguous(sizes);
        }
        // Axes of length 1 stay between their neighbours.
        order.sort_by(|&a, &b| {
            let one = self.sizes[a] == 1 || self.sizes[b] == 1;
            if one { std::cmp::Ordering::Equal } else { self.strides[b].cmp(&self.strides[a]) }
        });
        TensorLayout::dense(sizes, &order)
    }

    /// How long its axes are.
    pub fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    pub fn has(&self, sizes: &[u64]) -> bool {
        self.sizes == sizes
    }

    pub fn is_contiguous(&self) -> bool {
        self.lies_like(&TensorLayout::contiguous(self.sizes.clone()))
    }

    /// Whether it is a channels-last image, perhaps a part of the channels of a larger one
    /// (`is_channels_last_strides_2d`).
    pub fn is_channels_last(&self) -> bool {
        if self.sizes.len() != 4 || self.strides[1] == 0 {
            return false;
        }
        let mut least = 0;
        for axis in [1, 3, 2, 0] {
            let stride = self.strides[axis];
            if stride < least || axis == 0 && least == self.strides[1] {
                return false;
            }
            least = stride * self.sizes[axis];
        }
        true
    }

    /// A volume whose planes are images that follow each other in memory: samples of a 2-D convolution (`x.reshape(batch * frames, ...)`).
    pub fn of_frames(sizes: Vec<u64>) -> Self {
        TensorLayout::dense(sizes, &[0, 2, 1, 3, 4])
    }

    /// Whether it is such a volume.
    pub fn is_of_frames(&self) -> bool {
        self.sizes.len() == 5 && self.lies_like(&TensorLayout::of_frames(self.sizes.clone()))
    }

    /// Whether it has no gaps, in channels-last order where it is such an image.
    pub fn is_dense(&self) -> bool {
        match self.is_channels_last() {
            true => self.lies_like(&TensorLayout::channels_last(self.sizes.clone())),
            false => self.is_contiguous(),
        }
    }

    /// Equal but for axes of length 1.
    fn lies_like(&self, other: &TensorLayout) -> bool {
        (0..self.sizes.len()).all(|axis| self.sizes[axis] == 1 || self.strides[axis] == other.strides[axis])
    }

    /// Axes in another order; the batch stays in front.
    pub fn permute(&self, order: &[usize]) -> Self {
        let moved = |axes: &[u64]| std::iter::once(axes[0]).chain(order.iter().map(|&axis| axes[axis + 1])).collect();
        TensorLayout { sizes: moved(&self.sizes), strides: moved(&self.strides) }
    }

    /// A part of it, of these sizes, every `step`-th element along an axis.
    pub fn cut(&self, sizes: Vec<u64>, axis: usize, step: u64) -> Self {
        let mut strides = self.strides.clone();
        strides[axis] *= step;
        TensorLayout { sizes, strides }
    }

    /// Axes of length 1 repeated.
    pub fn expand(&self, sizes: Vec<u64>) -> Self {
        let repeated = |axis: usize| if self.sizes[axis] == sizes[axis] { self.strides[axis] } else { 0 };
        let strides = (0..sizes.len()).map(repeated).collect();
        TensorLayout { sizes, strides }
    }

    /// The same elements as other axes, where that needs no copy.
    pub fn view_as(&self, sizes: &[u64]) -> Option<Self> {
        let mut strides = vec![0; sizes.len()];
        let (mut open, mut end) = (sizes.len(), self.sizes.len());
        while end > 0 {
            // Neighbouring axes that can be merged into one.
            let mut start = end - 1;
            let inner = self.strides[start];
            let mut elements = self.sizes[start];
            while start > 0 && (self.sizes[start - 1] == 1 || self.strides[start - 1] == elements * inner) {
                start -= 1;
                elements *= self.sizes[start];
            }
            let mut filled = 1;
            while open > 0 && (filled < elements || sizes[open - 1] == 1) {
                open -= 1;
                strides[open] = filled * inner;
                filled *= sizes[open];
            }
            if filled != elements {
                return None;
            }
            end = start;
        }
        (open == 0).then(|| TensorLayout { sizes: sizes.to_vec(), strides })
    }

    /// The same where the batch and the axis behind it are one axis of the tensor.
    pub fn viewed_joining(&self, sizes: &[u64]) -> Option<Self> {
        let [batch, first, rest @ ..] = sizes else { return self.view_as(sizes) };
        let joined: Vec<u64> = [batch * first].iter().chain(rest).copied().collect();
        self.view_as(&joined)?.view_as(sizes)
    }

    /// Whether the elements of an axis are adjacent in memory, and there are several.
    pub fn is_innermost(&self, axis: usize) -> bool {
        self.sizes[axis] > 1 && self.strides[axis] == 1
    }

    /// Whether the elements of the last axis are adjacent in memory.
    pub fn ends_dense(&self) -> bool {
        self.sizes.last() == Some(&1) || self.strides.last() == Some(&1)
    }

    /// Whether all axes before the last `kept` can be viewed as one.
    pub fn folds_before(&self, kept: usize) -> bool {
        let cut = self.sizes.len().saturating_sub(kept);
        let folded = [self.sizes[..cut].iter().product()].into_iter().chain(self.sizes[cut..].iter().copied());
        self.view_as(&folded.collect::<Vec<_>>()).is_some()
    }

    /// After how many axes the batch must be so that all but the last can be viewed as one, if that is possible.
    pub fn folds_behind(&self) -> Option<usize> {
        (0..self.sizes.len().saturating_sub(1)).find(|&axes| self.batch_moved_after(axes).folds_before(1))
    }

    /// Whether it can be viewed as stacked matrices that have the samples in one of their axes, where the batch is moved after that many axes: the axis behind it is
    /// joined to it, and all but the last two axes are the stack.
    pub fn folds_samples_after(&self, axes: usize) -> bool {
        let there = self.batch_moved_after(axes);
        let (before, rows) = there.sizes.split_at(axes);
        let (stack, inner) = before.split_at(self.sizes.len() - 3);
        let folded = [stack.iter().product()].into_iter().chain(inner.iter().copied());
        let folded = folded.chain([rows[..2].iter().product()]).chain(rows[2..].iter().copied());
        there.view_as(&folded.collect::<Vec<_>>()).is_some()
    }

    fn batch_moved_after(&self, axes: usize) -> Self {
        let order = axes_with_batch_after(axes, self.sizes.len());
        let moved = |of: &[u64]| order.iter().map(|&axis| of[axis]).collect();
        TensorLayout { sizes: moved(&self.sizes), strides: moved(&self.strides) }
    }
}

/// The axes in order, but the batch after that many.
fn axes_with_batch_after(axes: usize, rank: usize) -> Vec<usize> {
    (1..=axes).chain([0]).chain(axes + 1..rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_what_pytorch_can_view() {
        // torch.empty(2, 5, 3, 4, 6).permute(0, 2, 3, 1, 4)[:, 0] of tokens x 3 x heads x features; .stride() and the
        // result of .view().
        let whole = TensorLayout::contiguous(vec![2, 5, 3, 4, 6]).permute(&[1, 2, 0, 3]);
        let query = whole.cut(vec![2, 1, 4, 5, 6], 1, 1).view_as(&[2, 4, 5, 6]).unwrap();
        assert_eq!(query.strides, [360, 6, 72, 1]);
        assert!(query.view_as(&[8, 5, 6]).is_none() && !query.folds_before(2) && !query.is_contiguous());
        // A batch of one has no distance.
        let one = TensorLayout { sizes: vec![1, 4, 5, 6], strides: vec![360, 6, 72, 1] };
        assert!(one.folds_before(2));
        // Turned back, heads and features are one axis.
        let turned = TensorLayout::dense(vec![2, 4, 5, 6], &[0, 2, 1, 3]).permute(&[1, 0, 2]);
        assert!(turned.is_contiguous());
        assert_eq!(turned.view_as(&[2, 5, 24]), Some(TensorLayout::contiguous(vec![2, 5, 24])));
        // Tokens first, which [2, 5, 24] is no view of but [5, 2, 24] is.
        let first = TensorLayout::with_batch_after(vec![2, 5, 24], 1);
        assert_eq!(first.strides, [24, 48, 1]);
        assert_eq!((first.folds_before(1), first.folds_behind()), (false, Some(1)));
        assert_eq!((TensorLayout::contiguous(vec![2, 5, 24]).folds_behind(), whole.folds_behind()), (Some(0), None));
        let repeated = TensorLayout::contiguous(vec![1, 5, 5, 3]).expand(vec![2, 5, 5, 3]);
        assert!(repeated.view_as(&[50, 3]).is_none() && repeated.view_as(&[2, 25, 3]).is_some());
    }

    #[test]
    fn images_keep_their_channels_last() {
        let image = TensorLayout::contiguous(vec![2, 7, 7, 8]).permute(&[2, 0, 1]);
        assert!(image.is_channels_last() && image.with_sizes(vec![2, 8, 7, 7]) == image);
        assert!(!TensorLayout::contiguous(vec![2, 8, 7, 7]).is_channels_last());
        // Half of the channels, adjacent to the others.
        let half = image.cut(vec![2, 4, 7, 7], 1, 1);
        assert!(half.is_channels_last() && !half.is_dense() && image.is_dense());
    }
}
