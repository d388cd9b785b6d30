//! Iterations that take much longer than their neighbours (evaluation, checkpoint), and their effect on the mean.

use crate::ordinary::OrdinaryIterations;
use crate::overhead::average;
use crate::recording::PeriodTimes;
use perf4sight_base::summary::MISSES;
use perf4sight_base::units::count_text;
use statrs::distribution::{ChiSquared, ContinuousCDF};

/// Iterations that took much longer than their neighbours, with the profiler or without. They are rare: a few dozen
/// iterations contain none or several of them by chance, and yet they may take most of the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LongIterations {
    /// How many of them there are.
    pub count: usize,
    /// How many iterations there are in all.
    pub of: usize,
    /// Mean nanoseconds of one of them, without the profiler.
    pub mean: f64,
    /// Mean nanoseconds of the others, without the profiler.
    pub others: f64,
    /// Nanoseconds that the long iterations add to the mean iteration at the observed frequency.
    pub adds: f64,
    /// The 95 % confidence interval of [`LongIterations::adds`], from the uncertainty of the frequency alone.
    pub interval: [f64; 2],
}

impl LongIterations {
    /// Finds them by wall-clock time; none if there are no such iterations.
    pub(crate) fn find(times: &PeriodTimes, ordinary: &OrdinaryIterations) -> Option<Self> {
        let others = ordinary.select(times);
        let [plain, recorded] = [&others.plain, &others.recorded].map(|periods| average(&periods.concat()));
        let (plain, recorded) = (plain?, recorded?);
        let sides = [(&times.plain, &ordinary.plain, plain), (&times.recorded, &ordinary.recorded, recorded)];
        let periods = sides.iter().flat_map(|(times, ordinary, middle)| {
            times.iter().zip(*ordinary).map(|(times, ordinary)| excesses(times, ordinary, *middle))
        });
        let excesses: Vec<f64> = periods.flatten().collect();
        let [count, of] = ordinary.others();
        let all: f64 = excesses.iter().sum();
        let adds = all / of as f64;
        let long = || LongIterations {
            count,
            of,
            mean: (all + (plain * count as f64)) / count as f64,
            others: plain,
            adds,
            interval: rate(alike(&excesses)).map(|times| times * adds),
        };
        (count > 0 && adds > 0.0).then(long)
    }

    /// Their share of the total time without the profiler.
    pub fn share(&self) -> f64 {
        self.mean * self.count as f64 / (self.of as f64 * (self.others + self.adds))
    }

    /// The warning about a mean that includes or excludes them.
    pub(crate) fn warning(&self) -> String {
        let milliseconds = |nanoseconds: f64| format!("{:.3} ms", nanoseconds / 1e6);
        format!(
            "{} of {} took much longer than the others, as with an evaluation, a wait for data or another program in them: {} on average without \
             recording, {:.0} % of all time, where the others took {}. How many of them are recorded is chance, and they show \
             nothing of what recording costs",
            self.count,
            count_text(self.of as u64, "iteration"),
            milliseconds(self.mean),
            100.0 * self.share(),
            milliseconds(self.others)
        )
    }
}

/// The extra time of the long iterations of a period; consecutive ones count as one event.
fn excesses(times: &[u64], ordinary: &[bool], middle: f64) -> Vec<f64> {
    let all: Vec<(f64, bool)> =
        times.iter().zip(ordinary).map(|(&time, &ordinary)| (time as f64 - middle, ordinary)).collect();
    let runs = all.chunk_by(|one, next| one.1 == next.1).filter(|run| !run[0].1);
    runs.map(|run| run.iter().map(|(excess, _)| excess).sum()).collect()
}

/// The effective number of events: as many events of equal length have the same uncertainty (Kish, Survey Sampling,
/// 1965).
fn alike(excesses: &[f64]) -> f64 {
    let squares: f64 = excesses.iter().map(|excess| excess.powi(2)).sum();
    excesses.iter().sum::<f64>().powi(2) / squares
}

/// The confidence interval of the rate of events that were observed this often, relative to the observed rate: the
/// limits of a Poisson distribution's mean (Garwood, Biometrika 28, 1936).
fn rate(count: f64) -> [f64; 2] {
    let limit = |freedom: f64, below: f64| {
        ChiSquared::new(freedom).map_or(f64::NAN, |distribution| distribution.inverse_cdf(below)) / 2.0 / count
    };
    [limit(2.0 * count, MISSES / 2.0), limit(2.0 * count + 2.0, 1.0 - MISSES / 2.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the published table (Garwood 1936, 95 %): 0.0253 to 5.572 for one event, 4.795 to 18.39 for ten.
    #[test]
    fn limits_are_garwoods() {
        for (count, limits) in [(1.0, [0.0253, 5.572]), (10.0, [4.795, 18.39])] {
            let found = rate(count).map(|times| times * count);
            assert!(found.iter().zip(limits).all(|(found, limit)| (found / limit - 1.0).abs() < 1e-3), "{found:?}");
        }
    }

    /// Calculated by hand: ten plain iterations of 100 and ten recorded ones of 120, except one plain one of 1,000 and
    /// two consecutive recorded ones of 500 and 640. Two events of 900 in 20 iterations are 90 each; the limits for two
    /// equal events are 0.2422 and 7.225.
    #[test]
    fn what_comes_one_after_the_other_is_one_event() {
        let mut plain = vec![100; 10];
        plain[4] = 1000;
        let mut recorded = vec![120; 10];
        (recorded[2], recorded[3]) = (500, 640);
        let times = PeriodTimes { plain: vec![plain], recorded: vec![recorded] };
        let long = LongIterations::find(&times, &OrdinaryIterations::find(&times)).unwrap();
        assert_eq!((long.count, long.of, long.mean, long.others), (3, 20, 700.0, 100.0));
        assert!((long.adds - 90.0).abs() < 1e-9 && (long.share() - 2100.0 / 3800.0).abs() < 1e-9, "{long:?}");
        assert!((long.interval[0] - 45.0 * 0.2422).abs() < 0.1 && (long.interval[1] - 45.0 * 7.225).abs() < 0.1);
        assert!(long.warning().starts_with("3 of 20 iterations took much longer"), "{}", long.warning());
    }

    #[test]
    fn without_long_iterations_there_is_no_warning() {
        let times = PeriodTimes { plain: vec![vec![100; 4]], recorded: vec![vec![120; 4]] };
        assert_eq!(LongIterations::find(&times, &OrdinaryIterations::find(&times)), None);
    }
}
