//! Sizes that grow with the batch, so that one schedule holds for every batch size.

use perf4sight_network::{Node, Shape};

/// Bytes of an index or a counter, int64 in PyTorch.
pub(crate) const INDEX: u64 = 8;

/// More than any device holds; larger amounts count as this, so that sums of them still fit a u64.
const LIMIT: u64 = 1 << 44;

/// Bytes as a function of the batch size: a constant and a share per sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchBytes {
    once: u64,
    per_sample: u64,
}

impl BatchBytes {
    /// The same for every batch.
    pub fn constant(bytes: u64) -> Self {
        BatchBytes { once: bytes, per_sample: 0 }
    }

    /// So much for every sample.
    pub fn per_sample(bytes: u64) -> Self {
        BatchBytes { once: 0, per_sample: bytes }
    }

    /// A batch of tensors of this shape, with `element` bytes an element.
    pub fn tensor(shape: &Shape, element: u64) -> Self {
        BatchBytes::per_sample(element.saturating_mul(shape.elements()))
    }

    /// The result of an operation for a batch, with `number` bytes an element; once where it is the same for every
    /// sample.
    pub fn result(node: &Node, number: u64) -> Self {
        let bytes = node.held.bytes(number).saturating_mul(node.shape.elements());
        if node.is_common() { BatchBytes::constant(bytes) } else { BatchBytes::per_sample(bytes) }
    }

    /// Both together.
    pub fn plus(self, other: BatchBytes) -> Self {
        let once = self.once.saturating_add(other.once);
        let per_sample = self.per_sample.saturating_add(other.per_sample);
        BatchBytes { once, per_sample }
    }

    pub fn times(self, factor: u64) -> Self {
        let [once, per_sample] = [self.once, self.per_sample].map(|bytes| bytes.saturating_mul(factor));
        BatchBytes { once, per_sample }
    }

    pub fn divided_by(self, parts: u64) -> Self {
        BatchBytes { once: self.once / parts, per_sample: self.per_sample / parts }
    }

    /// This amount if a condition holds, else nothing.
    pub fn only_if(self, holds: bool) -> Self {
        if holds { self } else { BatchBytes::constant(0) }
    }

    /// Bytes of what grows with the batch, for one sample.
    pub fn of_a_sample(self) -> u64 {
        self.per_sample
    }

    /// Bytes for `batch` samples; absurdly many count as 16 TiB.
    pub fn bytes(self, batch: u64) -> u64 {
        self.per_sample.saturating_mul(batch).saturating_add(self.once).min(LIMIT)
    }
}

/// The product of some factors; absurd ones saturate, at so much that a few of them can be added and rounded up.
pub(crate) fn product(factors: impl IntoIterator<Item = u64>) -> u64 {
    factors.into_iter().fold(1, u64::saturating_mul).min(1 << 58)
}
