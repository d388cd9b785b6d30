//! Symmetric positive definite systems of a few dozen unknowns.

use super::cholesky::Cholesky;

/// A symmetric matrix and a right-hand side that are summed up row by row: the normal equations of least squares.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Normal<const N: usize> {
    pub(super) matrix: [[f64; N]; N],
    pub(super) right: [f64; N],
}

impl<const N: usize> Normal<N> {
    pub(super) fn zero() -> Self {
        Normal { matrix: [[0.0; N]; N], right: [0.0; N] }
    }

    /// This matrix as what is already known `offset` away from its center: the equations there and their loss.
    pub(super) fn pulled(&self, offset: &[f64; N]) -> (Self, f64) {
        let pull = self.matrix.map(|row| -row.iter().zip(offset).map(|(cell, offset)| cell * offset).sum::<f64>());
        let loss = -pull.iter().zip(offset).map(|(pull, offset)| pull * offset).sum::<f64>();
        (Normal { matrix: self.matrix, right: pull }, loss)
    }

    /// Adds one equation `slopes . x = -residual` with a weight.
    pub(super) fn add(&mut self, slopes: &[f64; N], residual: f64, weight: f64) {
        for row in 0..N {
            let scaled = weight * slopes[row];
            if scaled != 0.0 {
                self.matrix[row].iter_mut().zip(slopes).for_each(|(cell, slope)| *cell += scaled * slope);
                self.right[row] -= scaled * residual;
            }
        }
    }

    /// The solution, every diagonal element raised by `damping` of itself; none where the matrix is
    /// not positive definite.
    pub(super) fn solve(&self, damping: f64) -> Option<[f64; N]> {
        let raised = |row: usize, column: usize| {
            let raise = if row == column { 1.0 + damping } else { 1.0 };
            raise * self.matrix[row][column]
        };
        let solution = Cholesky::of(N, raised)?.solve(&self.right);
        Some(std::array::from_fn(|index| solution[index]))
    }
}
