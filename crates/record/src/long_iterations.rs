//! Iterations that take much longer than their neighbours (evaluation, checkpoint), and their effect on the mean.

use crate::ordinary::{OrdinaryIterations, ordinary_settled};
use crate::overhead::average;
use crate::recording::PeriodTimes;
use perf4sight_base::stats::mean;
use perf4sight_base::summary::{MISSES, ValueSummary};
use perf4sight_base::units::count_text;
use statrs::distribution::{ChiSquared, ContinuousCDF};

/// Of iterations that took longer than others, those whose extra time is at least this share of the longest one's are alike: an evaluation takes as long each
/// time, and what other programs add is mostly a fraction of that.
const ALIKE: f64 = 0.25;

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
    /// Nanoseconds that the long iterations add to the mean iteration: at the observed frequency, or where they come at equal intervals, at that of these.
    pub adds: f64,
    /// The 95 % confidence interval of [`LongIterations::adds`], from the uncertainty of the frequency alone.
    pub interval: [f64; 2],
    /// Those that are about as long as the longest one.
    pub longest: LongestIterations,
}

/// The longest of the long iterations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LongestIterations {
    /// How many of them there are.
    pub count: usize,
    /// Mean nanoseconds of one of them, without the profiler.
    pub mean: f64,
    /// How many of them were recorded, and how many iterations were.
    pub recorded: [usize; 2],
    /// Their share of the time of all iterations without the profiler.
    pub share: f64,
}

/// An iteration's nanoseconds beyond the usual, and whether it is an ordinary one.
type ComparedIteration = (f64, bool);

impl LongIterations {
    /// Finds them by wall-clock time, also among those between the periods; none if there are no such iterations.
    pub(crate) fn find(times: &PeriodTimes, ordinary: &OrdinaryIterations, settled: &PeriodTimes) -> Option<Self> {
        let others = ordinary.select(times);
        let [plain, with_profiler] = [&others.plain, &others.recorded].map(|periods| average(&periods.concat()));
        let (plain, with_profiler) = (plain?, with_profiler?);
        let recorded = compare(&times.recorded, &ordinary.recorded, with_profiler);
        let by_time = in_order([
            compare_settled(&settled.plain, &others.plain),
            compare(&times.plain, &ordinary.plain, plain),
            compare_settled(&settled.recorded, &others.recorded),
            recorded.clone(),
        ]);
        let extras = long_extras(&by_time);
        let (count, of) = (extras.len(), by_time.iter().map(Vec::len).sum::<usize>());
        let sum: f64 = extras.iter().sum();
        // Without those between the periods nothing shows how far apart they are.
        let added = AddedTime::by_rhythm(&by_time, of).filter(|_| *settled != PeriodTimes::default());
        let added = added.unwrap_or_else(|| AddedTime::by_chance(by_time.iter().flat_map(|period| events(period)), of));
        let found = || LongIterations {
            count,
            of,
            mean: plain + sum / count as f64,
            others: plain,
            adds: added.mean,
            interval: added.interval,
            longest: LongestIterations::find(&extras, &recorded, plain, of as f64 * plain + sum),
        };
        (count > 0 && sum > 0.0).then(found)
    }

    /// Their share of the total time without the profiler.
    pub fn share(&self) -> f64 {
        let extra = (self.mean - self.others) * self.count as f64;
        self.mean * self.count as f64 / (self.of as f64 * self.others + extra)
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

impl LongestIterations {
    /// By the extra times of all long iterations, and the iterations that were recorded; `all` is the time of all iterations.
    fn find(extras: &[f64], recorded: &[Vec<ComparedIteration>], plain: f64, all: f64) -> Self {
        let least = least_alike(extras);
        let longest = |extras: &[f64]| extras.iter().copied().filter(|extra| *extra >= least).collect::<Vec<f64>>();
        let own = longest(extras);
        let time = own.iter().map(|extra| plain + extra).sum::<f64>();
        let of_recorded = recorded.iter().map(Vec::len).sum();
        LongestIterations {
            count: own.len(),
            mean: time / own.len() as f64,
            recorded: [longest(&long_extras(recorded)).len(), of_recorded],
            share: time / all,
        }
    }
}

/// Iterations of periods, compared with a mean.
fn compare(periods: &[Vec<u64>], ordinary: &[Vec<bool>], mean: f64) -> Vec<Vec<ComparedIteration>> {
    let of_period = |(times, ordinary): (&Vec<u64>, &Vec<bool>)| {
        times.iter().zip(ordinary).map(|(&time, &ordinary)| (time as f64 - mean, ordinary)).collect()
    };
    periods.iter().zip(ordinary).map(of_period).collect()
}

/// Iterations that settle, each compared with those as many iterations after the profiler was started or stopped: that makes the first ones longer, and what a
/// loader got ready meanwhile makes them shorter. Long ones are longer than all ordinary ones of the periods, too.
fn compare_settled(periods: &[Vec<u64>], others: &[Vec<u64>]) -> Vec<Vec<ComparedIteration>> {
    let longest = others.iter().flatten().copied().max().unwrap_or(0);
    let last = periods.iter().map(Vec::len).max().unwrap_or(0);
    let places: Vec<Vec<u64>> =
        (0..last).map(|place| periods.iter().filter_map(|times| times.get(place).copied()).collect()).collect();
    let compared = places.iter().zip(ordinary_settled(&places)).map(|(times, ordinary)| {
        let ordinary = || times.iter().zip(&ordinary).map(|(&time, &ordinary)| (time, ordinary || time <= longest));
        let usual: Vec<u64> = ordinary().filter(|(_, ordinary)| *ordinary).map(|(time, _)| time).collect();
        let usual = average(&usual).unwrap_or(0.0);
        ordinary().map(|(time, ordinary)| (time as f64 - usual, ordinary)).collect::<Vec<ComparedIteration>>()
    });
    let mut left: Vec<std::vec::IntoIter<ComparedIteration>> = compared.map(Vec::into_iter).collect();
    periods.iter().map(|times| left.iter_mut().take(times.len()).filter_map(Iterator::next).collect()).collect()
}

/// The least extra time of those that are about as long as the longest one.
fn least_alike(extras: &[f64]) -> f64 {
    ALIKE * extras.iter().copied().fold(0.0, f64::max)
}

/// The extra time of each long iteration.
fn long_extras(periods: &[Vec<ComparedIteration>]) -> Vec<f64> {
    periods.iter().flatten().filter(|(_, ordinary)| !ordinary).map(|(extra, _)| *extra).collect()
}

/// The extra time of the long iterations of a period; consecutive ones count as one event.
fn events(period: &[ComparedIteration]) -> impl Iterator<Item = f64> {
    let runs = period.chunk_by(|one, next| one.1 == next.1).filter(|run| !run[0].1);
    runs.map(|run| run.iter().map(|(extra, _)| extra).sum())
}

/// Periods in the order of time: those that settle before plain ones, plain ones, those that settle before recorded ones, recorded ones.
fn in_order(kinds: [Vec<Vec<ComparedIteration>>; 4]) -> Vec<Vec<ComparedIteration>> {
    let rounds = kinds.iter().map(Vec::len).max().unwrap_or(0);
    (0..rounds).flat_map(|round| kinds.iter().filter_map(move |kind| kind.get(round).cloned())).collect()
}

/// So many of the longest iterations at least show that they come at equal intervals, if the longest interval is at most so many times the shortest: that
/// happens by chance in 6 of 1,000 cases (four exponential times; by hand, `4 (1/4 - 3/4.5 + 3/5 - 1/5.5)`).
const RHYTHM: (usize, f64) = (5, 1.5);

/// Nanoseconds that long iterations add to the mean iteration.
struct AddedTime {
    mean: f64,
    interval: [f64; 2],
}

impl AddedTime {
    /// Events that come by chance, of so many iterations.
    fn by_chance(events: impl Iterator<Item = f64>, of: usize) -> Self {
        let events: Vec<f64> = events.collect();
        let mean = events.iter().sum::<f64>() / of as f64;
        let interval = if mean > 0.0 { rate(alike(&events)).map(|times| times * mean) } else { [mean; 2] };
        AddedTime { mean, interval }
    }

    /// Where the longest iterations come at equal intervals, as evaluations do, their frequency is that of these intervals; the others come by
    /// chance. None if they do not.
    fn by_rhythm(by_time: &[Vec<ComparedIteration>], of: usize) -> Option<Self> {
        // An ordinary iteration takes nothing extra.
        let extras: Vec<f64> =
            by_time.iter().flatten().map(|(extra, ordinary)| if *ordinary { 0.0 } else { *extra }).collect();
        let least = least_alike(&extras);
        let longest: Vec<usize> = (0..extras.len()).filter(|at| least > 0.0 && extras[*at] >= least).collect();
        let gaps: Vec<f64> = longest.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let shortest = gaps.iter().copied().fold(f64::INFINITY, f64::min);
        let furthest = gaps.iter().copied().fold(0.0, f64::max);
        if longest.len() < RHYTHM.0 || furthest > RHYTHM.1 * shortest {
            return None;
        }
        let own = ValueSummary::compute(&longest.iter().map(|at| extras[*at]).collect::<Vec<_>>())?;
        let [low, high] = own.interval?;
        let rest = AddedTime::by_chance(extras.into_iter().filter(|extra| *extra > 0.0 && *extra < least), of);
        let regular = own.mean / mean(&gaps);
        let (down, up) = (regular - low / furthest, high / shortest - regular);
        let mean = regular + rest.mean;
        Some(AddedTime {
            mean,
            interval: [mean - down.hypot(rest.mean - rest.interval[0]), mean + up.hypot(rest.interval[1] - rest.mean)],
        })
    }
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
        let long = LongIterations::find(&times, &OrdinaryIterations::find(&times), &PeriodTimes::default()).unwrap();
        assert_eq!((long.count, long.of, long.mean, long.others), (3, 20, 700.0, 100.0));
        assert!((long.adds - 90.0).abs() < 1e-9 && (long.share() - 2100.0 / 3800.0).abs() < 1e-9, "{long:?}");
        assert!((long.interval[0] - 45.0 * 0.2422).abs() < 0.1 && (long.interval[1] - 45.0 * 7.225).abs() < 0.1);
        // A quarter of the longest extra time, 900 - 120, is that of all of them.
        assert_eq!((long.longest.count, long.longest.recorded), (3, [2, 10]));
        assert!(long.warning().starts_with("3 of 20 iterations took much longer"), "{}", long.warning());
    }

    /// By hand: a save of 2,000 in each of two pauses, 1,900 more than others with the profiler stopped and 1,880 with it, and a neighbour that made three
    /// recorded iterations 150 longer. After the profiler started, the first iteration takes 300 each time, which is no event.
    #[test]
    fn iterations_between_periods_count_and_noise_is_no_save() {
        let recorded = vec![vec![120, 120, 270, 120], vec![120, 270, 120, 120], vec![120, 120, 120, 270]];
        let times = PeriodTimes { plain: vec![vec![100; 4]; 3], recorded };
        let settled = PeriodTimes {
            plain: vec![vec![], vec![100, 100, 2000], vec![100, 100, 100]],
            recorded: vec![vec![300, 120, 120], vec![300, 120], vec![300, 120, 2000]],
        };
        let ordinary = OrdinaryIterations::find(&times);
        let long = LongIterations::find(&times, &ordinary, &settled).unwrap();
        assert_eq!((long.count, long.of, long.longest.count, long.longest.recorded), (5, 38, 2, [0, 12]), "{long:?}");
        assert!((long.adds - (1900.0 + 1880.0 + 450.0) / 38.0).abs() < 1e-9, "{long:?}");
        assert!((long.longest.mean - 1990.0).abs() < 1e-9, "{long:?}");
        // Without the pauses there are no saves.
        let periods = LongIterations::find(&times, &ordinary, &PeriodTimes::default()).unwrap();
        assert_eq!((periods.count, periods.of, periods.longest.recorded), (3, 24, [3, 12]));
    }

    /// By hand: every twentieth of 110 iterations takes 700 instead of 100. Five of 110 would be 27.3 more on the mean; 600 / 20 is 30. Where they come
    /// by chance, five of 110 it is, and the limits are Garwood's for five, 1.623 and 11.67.
    #[test]
    fn what_comes_at_equal_intervals_is_as_frequent_as_these() {
        for (at, adds, interval) in [
            ([8, 28, 48, 68, 88], 30.0, [30.0, 30.0]),
            ([8, 12, 48, 68, 88], 3000.0 / 110.0, [600.0 * 1.623 / 110.0, 600.0 * 11.67 / 110.0]),
        ] {
            let all: Vec<u64> = (0..110).map(|place| if at.contains(&place) { 700 } else { 100 }).collect();
            let periods: Vec<Vec<u64>> = all.chunks(5).map(<[u64]>::to_vec).collect();
            let of = |first: usize| periods.iter().skip(first).step_by(4).cloned().collect::<Vec<_>>();
            let times = PeriodTimes { plain: of(1), recorded: of(3) };
            let settled = PeriodTimes { plain: of(0), recorded: of(2) };
            let long = LongIterations::find(&times, &OrdinaryIterations::find(&times), &settled).unwrap();
            assert!((long.adds - adds).abs() < 1e-9, "{at:?}: {long:?}");
            let close = |end: usize| (long.interval[end] - interval[end]).abs() < 0.01 * interval[end];
            assert!(close(0) && close(1), "{at:?}: {long:?}");
        }
    }

    #[test]
    fn without_long_iterations_there_is_no_warning() {
        let times = PeriodTimes { plain: vec![vec![100; 4]], recorded: vec![vec![120; 4]] };
        assert_eq!(LongIterations::find(&times, &OrdinaryIterations::find(&times), &PeriodTimes::default()), None);
    }
}
