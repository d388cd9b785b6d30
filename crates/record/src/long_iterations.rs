//! Iterations that take much longer than those around them, as an evaluation or a checkpoint makes them: what they make of the mean.

use crate::ordinary::Ordinary;
use crate::overhead::average;
use crate::recording::Times;
use perf4sight_base::summary::MISSES;
use perf4sight_base::units::counted;
use statrs::distribution::{ChiSquared, ContinuousCDF};

/// Iterations that took much longer than those around them, with the profiler or without. They come seldom, so that some dozens of
/// iterations hold none of them or several as it happens, and yet they may be most of the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LongIterations {
    /// How many.
    pub count: usize,
    /// Of how many.
    pub of: usize,
    /// Mean nanoseconds of one.
    pub mean: f64,
    /// Mean nanoseconds of the others, without the profiler.
    pub others: f64,
    /// Nanoseconds by which they make the mean iteration longer, as often as they came.
    pub adds: f64,
    /// Where those lie over many more iterations, with 95 %, by how often they came alone.
    pub interval: [f64; 2],
}

impl LongIterations {
    /// Of the times by the clock on the wall; none where there are no such iterations.
    pub(crate) fn of(times: &Times, ordinary: &Ordinary) -> Option<Self> {
        let others = ordinary.among(times);
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

    /// Their share of all time without the profiler.
    pub fn share(&self) -> f64 {
        self.mean * self.count as f64 / (self.of as f64 * (self.others + self.adds))
    }

    /// What a reader has to know of a mean that they are in, or are not.
    pub(crate) fn told(&self) -> String {
        let milliseconds = |nanoseconds: f64| format!("{:.3} ms", nanoseconds / 1e6);
        format!(
            "{} of {} took much longer than the others, as where an evaluation, a wait for data or another program lies in them: {} on average without \
             recording, {:.0} % of all time, where the others took {}. How many of them come into what is recorded is chance, \
             and they tell nothing of what recording takes",
            self.count,
            counted(self.of as u64, "iteration"),
            milliseconds(self.mean),
            100.0 * self.share(),
            milliseconds(self.others)
        )
    }
}

/// By how much the long iterations of a period take longer than the others; those one after another are one event.
fn excesses(times: &[u64], ordinary: &[bool], middle: f64) -> Vec<f64> {
    let all: Vec<(f64, bool)> =
        times.iter().zip(ordinary).map(|(&time, &ordinary)| (time as f64 - middle, ordinary)).collect();
    let runs = all.chunk_by(|one, next| one.1 == next.1).filter(|run| !run[0].1);
    runs.map(|run| run.iter().map(|(excess, _)| excess).sum()).collect()
}

/// How many events of one length tell as much as these (Kish, Survey Sampling, 1965).
fn alike(excesses: &[f64]) -> f64 {
    let squares: f64 = excesses.iter().map(|excess| excess.powi(2)).sum();
    excesses.iter().sum::<f64>().powi(2) / squares
}

/// Where the rate of events lies that came so often by chance, as a multiple of that: the limits of a Poisson distribution's mean (Garwood,
/// Biometrika 28, 1936).
fn rate(count: f64) -> [f64; 2] {
    let limit = |freedom: f64, below: f64| {
        ChiSquared::new(freedom).map_or(f64::NAN, |distribution| distribution.inverse_cdf(below)) / 2.0 / count
    };
    [limit(2.0 * count, MISSES / 2.0), limit(2.0 * count + 2.0, 1.0 - MISSES / 2.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the published table (Garwood 1936, 95 %): of one event 0.0253 to 5.572, of ten 4.795 to 18.39.
    #[test]
    fn limits_are_garwoods() {
        for (count, limits) in [(1.0, [0.0253, 5.572]), (10.0, [4.795, 18.39])] {
            let found = rate(count).map(|times| times * count);
            assert!(found.iter().zip(limits).all(|(found, limit)| (found / limit - 1.0).abs() < 1e-3), "{found:?}");
        }
    }

    /// By hand: ten plain and ten recorded iterations of 100 and 120, but for one plain one of 1,000 and two recorded ones, one after the
    /// other, of 500 and 640. Two events of 900 in 20 are 90 each; two alike tell of 0.2422 to 7.225.
    #[test]
    fn what_comes_one_after_the_other_is_one_event() {
        let mut plain = vec![100; 10];
        plain[4] = 1000;
        let mut recorded = vec![120; 10];
        (recorded[2], recorded[3]) = (500, 640);
        let times = Times { plain: vec![plain], recorded: vec![recorded] };
        let long = LongIterations::of(&times, &Ordinary::of(&times)).unwrap();
        assert_eq!((long.count, long.of, long.mean, long.others), (3, 20, 700.0, 100.0));
        assert!((long.adds - 90.0).abs() < 1e-9 && (long.share() - 2100.0 / 3800.0).abs() < 1e-9, "{long:?}");
        assert!((long.interval[0] - 45.0 * 0.2422).abs() < 0.1 && (long.interval[1] - 45.0 * 7.225).abs() < 0.1);
        assert!(long.told().starts_with("3 of 20 iterations took much longer"), "{}", long.told());
    }

    #[test]
    fn where_none_are_long_there_is_nothing_to_tell() {
        let times = Times { plain: vec![vec![100; 4]], recorded: vec![vec![120; 4]] };
        assert_eq!(LongIterations::of(&times, &Ordinary::of(&times)), None);
    }
}
