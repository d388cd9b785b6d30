//! Symmetric positive definite matrices, decomposed into a triangle times its transpose (A.-L. Cholesky).

/// The lower triangle, row by row.
#[derive(Debug, Clone)]
pub(super) struct Cholesky(Vec<Vec<f64>>);

impl Cholesky {
    /// Decomposes a matrix of which only the lower triangle is read; none where it is not positive definite.
    pub(super) fn decompose(size: usize, matrix: impl Fn(usize, usize) -> f64) -> Option<Self> {
        let mut lower: Vec<Vec<f64>> = Vec::with_capacity(size);
        for row in 0..size {
            let mut cells = Vec::with_capacity(row + 1);
            for column in 0..row {
                let cell = matrix(row, column) - dot(&cells, &lower[column][..column]);
                cells.push(cell / lower[column][column]);
            }
            let square = matrix(row, row) - dot(&cells, &cells);
            if square.is_nan() || square <= 0.0 {
                return None;
            }
            cells.push(square.sqrt());
            lower.push(cells);
        }
        Some(Cholesky(lower))
    }

    /// The solution x of triangle x = right; its squared length is right^T inverse(matrix) right.
    pub(super) fn whiten(&self, right: &[f64]) -> Vec<f64> {
        let mut solution: Vec<f64> = Vec::with_capacity(right.len());
        for (cells, right) in self.0.iter().zip(right) {
            let known = dot(cells, &solution);
            solution.push((right - known) / cells[solution.len()]);
        }
        solution
    }

    /// The solution of matrix x = right.
    pub(super) fn solve(&self, right: &[f64]) -> Vec<f64> {
        let mut solution = self.whiten(right);
        for row in (0..solution.len()).rev() {
            solution[row] /= self.0[row][row];
            let known = solution[row];
            solution.iter_mut().zip(&self.0[row][..row]).for_each(|(other, cell)| *other -= cell * known);
        }
        solution
    }

    /// Natural logarithm of the matrix's determinant.
    pub(super) fn log_determinant(&self) -> f64 {
        self.0.iter().enumerate().map(|(row, cells)| 2.0 * cells[row].ln()).sum()
    }
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// A symmetric matrix and a right-hand side that are summed up row by row: the normal equations of least squares.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NormalEquations<const N: usize> {
    pub(super) matrix: [[f64; N]; N],
    pub(super) right: [f64; N],
}

impl<const N: usize> NormalEquations<N> {
    pub(super) fn zero() -> Self {
        NormalEquations { matrix: [[0.0; N]; N], right: [0.0; N] }
    }

    /// The normal equations of this matrix as a prior, `offset` away from its center, and their loss.
    pub(super) fn with_prior_offset(&self, offset: &[f64; N]) -> (Self, f64) {
        let pull = self.matrix.map(|row| -row.iter().zip(offset).map(|(cell, offset)| cell * offset).sum::<f64>());
        let loss = -pull.iter().zip(offset).map(|(pull, offset)| pull * offset).sum::<f64>();
        (NormalEquations { matrix: self.matrix, right: pull }, loss)
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
        let solution = Cholesky::decompose(N, raised)?.solve(&self.right);
        Some(std::array::from_fn(|index| solution[index]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_solved_by_hand() {
        // 4 2 | 2 3 with 8, 8 on the right: x = 1, y = 2; determinant 8; the triangle is 2 | 1 sqrt(2).
        let matrix = [[4.0, 2.0], [2.0, 3.0]];
        let cholesky = Cholesky::decompose(2, |row, column| matrix[row][column]).unwrap();
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(close(&cholesky.solve(&[8.0, 8.0]), &[1.0, 2.0]));
        assert!(close(&cholesky.whiten(&[8.0, 8.0]), &[4.0, 4.0 / 2f64.sqrt()]));
        assert!((cholesky.log_determinant() - 8f64.ln()).abs() < 1e-12);
        assert!(Cholesky::decompose(2, |_, _| 1.0).is_none());
    }
}
