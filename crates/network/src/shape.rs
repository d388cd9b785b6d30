//! Per-sample tensor shapes.

use std::fmt;

/// More elements per sample than any real activation or weight has; larger shapes are refused before any multiplication.
pub const MAX_ELEMENTS: u64 = 1 << 40;

/// The shape of one sample of a tensor, without the batch, so that it holds for every batch size.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shape(Vec<usize>);

impl Shape {
    /// From its dimensions, outermost first; an image is channels, height, width.
    pub fn new(dims: impl Into<Vec<usize>>) -> Self {
        Shape(dims.into())
    }

    /// All dimensions.
    pub fn dims(&self) -> &[usize] {
        &self.0
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Elements of one sample; saturates far above [`MAX_ELEMENTS`], which no tensor of a built network exceeds.
    pub fn elements(&self) -> u64 {
        self.0.iter().fold(1u64, |product, &dim| product.saturating_mul(dim as u64))
    }

    /// Length of the channel axis (the first one); 1 for a scalar.
    pub fn channels(&self) -> usize {
        self.0.first().copied().unwrap_or(1)
    }

    /// Height and width of an image; 1 for other shapes.
    pub fn image(&self) -> [usize; 2] {
        match self.0.as_slice() {
            [_, height, width] => [*height, *width],
            _ => [1, 1],
        }
    }

    /// Length of the last axis, over which fully connected layers and matrix products sum; 1 for a scalar.
    pub fn features(&self) -> usize {
        self.0.last().copied().unwrap_or(1)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.0.iter().map(usize::to_string).collect();
        write!(f, "{}", dims.join("x"))
    }
}
