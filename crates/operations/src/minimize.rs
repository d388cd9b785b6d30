//! Levenberg-Marquardt: the parameters that minimise a sum of squares.

use linfa_linalg::cholesky::SolveC;
use ndarray::{Array1, Array2, Axis};
use perf4sight_base::error::{Error, Result};

/// The most steps.
const MOST_STEPS: usize = 100;
/// A fit has settled where a step changes its cost by less than this share.
const SETTLED: f64 = 1e-9;
/// Step of finite differences: the square root of the precision, rounded.
const DIFFERENCE: f64 = 1e-6;
/// Damping beyond which no step helps.
const MOST_DAMPING: f64 = 1e9;

/// The parameters near `start` with the least sum of squared residuals. Parameters ought to be of order one, such as
/// logarithms; residuals of priors keep those determined of which the rest says nothing.
///
/// # Errors
/// Residuals that are no numbers.
pub fn minimize<const N: usize>(start: [f64; N], residuals: impl Fn(&[f64; N]) -> Array1<f64>) -> Result<[f64; N]> {
    let (mut at, mut left, mut damping) = (start, residuals(&start), 1e-3);
    for _ in 0..MOST_STEPS {
        let next = step(&at, &left, damping, &residuals)?;
        let next_left = residuals(&next);
        let (cost, next_cost) = (left.dot(&left), next_left.dot(&next_left));
        if next_cost < cost {
            (at, left, damping) = (next, next_left, damping / 4.0);
            if cost - next_cost < SETTLED * cost {
                break;
            }
        } else {
            damping *= 8.0;
            if damping > MOST_DAMPING {
                break;
            }
        }
    }
    Ok(at)
}

fn step<const N: usize>(
    at: &[f64; N],
    left: &Array1<f64>,
    damping: f64,
    residuals: &impl Fn(&[f64; N]) -> Array1<f64>,
) -> Result<[f64; N]> {
    let mut jacobian = Array2::zeros((left.len(), N));
    for (place, mut column) in jacobian.axis_iter_mut(Axis(1)).enumerate() {
        let mut moved = *at;
        moved[place] += DIFFERENCE;
        column.assign(&((residuals(&moved) - left) / DIFFERENCE));
    }
    let mut normal = jacobian.t().dot(&jacobian);
    normal.diag_mut().mapv_inplace(|one| one * (1.0 + damping));
    let right = jacobian.t().dot(left).insert_axis(Axis(1));
    let change = normal.solvec(&right).map_err(|cause| {
        Error::input(format!("these measurements cannot be fitted: {cause}")).expected("finite sizes and times")
    })?;
    let mut next = *at;
    next.iter_mut().zip(change).for_each(|(one, change)| *one -= change);
    Ok(next)
}

/// A residual that counts by its size once it is large: the square of the result is `2 (sqrt(1 + r²) - 1)`.
pub fn robust(residual: f64) -> f64 {
    residual.signum() * (2.0 * ((1.0 + residual * residual).sqrt() - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rosenbrock's valley, whose minimum is 0 at (1, 1).
    #[test]
    fn rosenbrock_is_solved() -> Result<()> {
        let [x, y] = minimize([-1.2, 1.0], |[x, y]: &[f64; 2]| Array1::from_vec(vec![10.0 * (y - x * x), 1.0 - x]))?;
        assert!((x - 1.0).abs() < 1e-4 && (y - 1.0).abs() < 1e-4, "{x} {y}");
        Ok(())
    }

    /// Of 1, 2, 3 and an outlier of 1000, a mean is 251; robust residuals stay near the three.
    #[test]
    fn an_outlier_hardly_moves_a_robust_fit() -> Result<()> {
        let data = [1.0, 2.0, 3.0, 1000.0];
        let [middle] = minimize([0.0], |[at]: &[f64; 1]| data.iter().map(|one| robust(one - at)).collect())?;
        assert!((1.5..3.5).contains(&middle), "{middle}");
        Ok(())
    }
}
