//! 90 % intervals from how far predictions were off for networks that were left out.

use super::prediction::Basis;
use serde::{Deserialize, Serialize};

/// The share of measurements that intervals shall hold.
const COVERAGE: f64 = 0.9;

/// From this many networks on the share is guaranteed: a new network is one more among them whose residuals are unknown, so of n
/// known ones a share of 0.9 (n + 1) / n must lie inside, which nine cannot give without their very worst.
const NETWORKS: usize = 10;

/// How far off predictions were for networks that were left out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Spread {
    /// Natural logarithm of the factor between a prediction and either end of its interval.
    width: f64,
    networks: usize,
}

/// Natural logarithms of measured over predicted of one network that was left out.
pub(super) type Residuals = Vec<f64>;

impl Spread {
    /// From the residuals of each network; none where there is not a single one.
    ///
    /// Every network weighs the same, however many rows it has: hierarchical conformal prediction (Y. Lee, R. F. Barber, R. Willett,
    /// "Distribution-free inference with hierarchical data", 2023).
    pub fn new(networks: &[Residuals]) -> Option<Self> {
        let known: Vec<&Residuals> = networks.iter().filter(|residuals| !residuals.is_empty()).collect();
        let count = known.len() as f64;
        let share = if known.len() >= NETWORKS { COVERAGE * (count + 1.0) / count } else { COVERAGE };
        let weighted = known.iter().flat_map(|residuals| {
            let weight = 1.0 / (count * residuals.len() as f64);
            residuals.iter().map(move |residual| (residual.abs(), weight))
        });
        let width = quantile(weighted.collect(), share)?;
        Some(Spread { width, networks: known.len() })
    }

    /// What the 90 % rest on.
    pub fn basis(&self) -> Basis {
        match self.networks >= NETWORKS {
            true => Basis::Conformal,
            false => Basis::Estimated,
        }
    }

    /// Natural logarithm of the factor between a prediction and either end of its interval.
    pub fn width(&self) -> f64 {
        self.width
    }
}

/// The smallest value up to which at least `share` of the weight lies.
fn quantile(mut weighted: Vec<(f64, f64)>, share: f64) -> Option<f64> {
    weighted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut below = 0.0;
    let reached = weighted.iter().find(|(_, weight)| {
        below += weight;
        below >= share
    });
    reached.or(weighted.last()).map(|(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_many_rows_weighs_as_much_as_one_of_few() {
        // Nine networks that are exact and one that is off: 1.1 x 0.9 = 99 % must lie inside, so its ten thousand rows count.
        let mut networks = vec![vec![0.0]; 9];
        networks.push(vec![-0.5; 10_000]);
        let spread = Spread::new(&networks).unwrap();
        assert_eq!((spread.width(), spread.basis()), (0.5, Basis::Conformal));
        // Of five networks 90 % need the fifth, too.
        let few = Spread::new(&networks[5..]).unwrap();
        assert_eq!((few.width(), few.basis()), (0.5, Basis::Estimated));
        assert!(Spread::new(&[vec![]]).is_none());
    }
}
