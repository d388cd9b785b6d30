//! A covariance as its Cholesky factor.

use linfa_linalg::cholesky::CholeskyInplace;
use linfa_linalg::triangular::{SolveTriangularInplace, UPLO};
use ndarray::{Array1, Array2, Axis};
use perf4sight_base::error::{Error, Result};

/// Why a triangular system is never refused.
const SQUARE: &str = "a factor is square, and as large as what it solves";

/// The lower factor L of a covariance `L Lᵀ`.
#[derive(Debug, Clone)]
pub(super) struct CovarianceFactor(Array2<f64>);

impl CovarianceFactor {
    /// Factors a covariance.
    ///
    /// # Errors
    /// One that is not positive definite, as of times that are no numbers.
    pub fn new(covariance: Array2<f64>) -> Result<Self> {
        covariance.cholesky_into().map(CovarianceFactor).map_err(|cause| {
            Error::input(format!("the plans give no covariance to fit with: {cause}"))
                .expected("plans of finite sizes and times")
        })
    }

    /// `L⁻¹ M`.
    pub fn whiten(&self, mut matrix: Array2<f64>) -> Array2<f64> {
        self.0.solve_triangular_inplace(&mut matrix, UPLO::Lower).expect(SQUARE);
        matrix
    }

    /// `L⁻¹ v`.
    pub fn whiten_vector(&self, vector: Array1<f64>) -> Array1<f64> {
        self.whiten(vector.insert_axis(Axis(1))).remove_axis(Axis(1))
    }

    /// `(L Lᵀ)⁻¹ v`.
    pub fn solve_vector(&self, vector: Array1<f64>) -> Array1<f64> {
        let mut column = self.whiten(vector.insert_axis(Axis(1)));
        self.0.t().solve_triangular_inplace(&mut column, UPLO::Upper).expect(SQUARE);
        column.remove_axis(Axis(1))
    }

    /// `(L Lᵀ)⁻¹`.
    pub fn inverse(&self) -> Array2<f64> {
        let whitened = self.whiten(Array2::eye(self.0.nrows()));
        whitened.t().dot(&whitened)
    }

    /// The logarithm of the covariance's determinant.
    pub fn log_determinant(&self) -> f64 {
        2.0 * self.0.diag().mapv(f64::ln).sum()
    }
}
