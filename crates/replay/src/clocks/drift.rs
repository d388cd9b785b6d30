//! The drift of a clock: the slope of its residuals over time, by Theil and Sen.

use super::order::median;

/// With fewer exchanges, and over a shorter time in nanoseconds, no drift is looked for: crystals differ by some
/// microseconds a second, which is what ends of exchanges differ by.
const FEWEST: usize = 10;
const SHORTEST: f64 = 1e9;
/// More points take time and give no more certainty than is needed.
const MOST: usize = 400;
/// The quantile of the normal distribution for 99.9 % on both sides: drift is looked for on every rank.
const QUANTILE: f64 = 3.2905;

/// The slope of points in time and residual, and its 99.9 % interval (Sen 1968); none of too few or too close points.
pub(super) fn slope(points: &[(f64, f64)]) -> Option<(f64, [f64; 2])> {
    let times = points.iter().map(|point| point.0);
    let span = times.clone().fold(f64::MIN, f64::max) - times.fold(f64::MAX, f64::min);
    if points.len() < FEWEST || span < SHORTEST {
        return None;
    }
    let points: Vec<(f64, f64)> = points.iter().copied().step_by(points.len().div_ceil(MOST)).collect();
    let pairs = points.iter().enumerate().flat_map(|(at, one)| points[at + 1..].iter().map(move |other| (one, other)));
    let apart = pairs.filter(|(one, other)| one.0 != other.0);
    let mut slopes: Vec<f64> = apart.map(|(one, other)| (other.1 - one.1) / (other.0 - one.0)).collect();
    slopes.sort_unstable_by(f64::total_cmp);
    let count = points.len() as f64;
    let spread = QUANTILE * (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt();
    let rank = ((slopes.len() as f64 - spread) / 2.0).floor().max(0.0) as usize;
    let interval = [*slopes.get(rank)?, *slopes.get(slopes.len().checked_sub(rank + 1)?)?];
    Some((median(&slopes), interval))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The residuals vary by 2 us to either side, which no slope explains.
    #[test]
    fn a_slope_is_found_in_noise_and_none_where_there_is_none() {
        let points = |rate: f64| -> Vec<(f64, f64)> {
            let point = |at: u32| {
                let time = f64::from(at) * 1e8;
                (time, rate * time + (f64::from(at * 37 % 11) - 5.0) * 400.0)
            };
            (0..100).map(point).collect()
        };
        let (rate, [low, high]) = slope(&points(20e-6)).unwrap_or_default();
        assert!((rate - 20e-6).abs() < 1e-6 && low > 0.0 && high < 30e-6, "{rate} {low} {high}");
        let (_, [low, high]) = slope(&points(0.0)).unwrap_or_default();
        assert!(low < 0.0 && high > 0.0, "{low} {high}");
        assert_eq!(slope(&points(20e-6)[..9]), None);
    }
}
