//! Whether iterations grew longer or shorter while they were recorded, so that their mean is neither of what they took first nor last.

use crate::recording::PeriodTimes;
use perf4sight_base::stats::{mean, median, trend};
use perf4sight_base::units::Milliseconds;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cmp::Ordering;

/// The times of iterations that changed during a recording, without the profiler.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangedIterations {
    /// Nanoseconds of an iteration when the recording began.
    pub first: f64,
    /// Nanoseconds of an iteration when it ended.
    pub last: f64,
    /// Whether the change came at once; otherwise bit by bit.
    pub at_once: bool,
}

/// A smaller change is within what a shared machine does to a script that stays the same.
const LEAST: f64 = 0.25;
/// A change is reported if so many of the orders of the same periods at most look as much like one. With [`LEAST`] at most 5 of 100 recordings of a steady
/// script are then said to change, also where other programs slow some of its iterations down (a test simulates them).
const CHANCE: f64 = 0.01;
/// So many random orders show that.
const ORDERS: usize = 1_000;
/// So many periods at least are on each side of a change that came at once: a single one may be another program's.
const SIDE: usize = 2;

/// How periods changed, and how much of their variation that explains, from 0 to 1.
#[derive(Clone, Copy)]
struct PeriodChange {
    ends: [f64; 2],
    at_once: bool,
    explains: f64,
}

impl ChangedIterations {
    /// By wall-clock time of iterations in periods, with those that settle before each; none if they stayed as they were.
    pub(crate) fn find(times: &PeriodTimes, settled: &PeriodTimes) -> Option<Self> {
        let levels = levels(times, settled)?;
        let change = PeriodChange::find(&levels)?;
        let size = (change.ends[1] - change.ends[0]).abs();
        if size < LEAST.ln_1p() || change.chance(&levels) > CHANCE {
            return None;
        }
        let [first, last] = change.ends.map(f64::exp);
        Some(ChangedIterations { first, last, at_once: change.at_once })
    }

    /// The larger change, in proportion, is the greater one.
    pub fn compare_sizes(&self, other: &Self) -> Ordering {
        let size = |one: &Self| (one.last / one.first).ln().abs();
        size(self).total_cmp(&size(other))
    }

    /// From the shorter to the longer of both.
    pub fn range(&self) -> [f64; 2] {
        [self.first.min(self.last), self.first.max(self.last)]
    }

    /// `iterations grew from 20.1 ms to 60.2 ms, at once, while they were recorded`
    pub fn sentence(&self) -> String {
        let how = if self.at_once { "at once" } else { "bit by bit" };
        let verb = if self.last > self.first { "grew" } else { "shrank" };
        let [first, last] = [self.first, self.last].map(|nanoseconds| Milliseconds(nanoseconds / 1e6));
        format!("iterations {verb} from {first} to {last}, {how}, while they were recorded")
    }
}

impl PeriodChange {
    /// The change that explains most: one at once between two periods, or the same from each to the next.
    fn find(levels: &[f64]) -> Option<Self> {
        let all = mean(levels);
        let squares: f64 = levels.iter().map(|level| (level - all).powi(2)).sum();
        let at_once = (SIDE..=levels.len().checked_sub(SIDE)?).map(|at| {
            let (before, after) = levels.split_at(at);
            let ends = [mean(before), mean(after)];
            let between = before.len() as f64 * (ends[0] - all).powi(2) + after.len() as f64 * (ends[1] - all).powi(2);
            PeriodChange { ends, at_once: true, explains: between / squares }
        });
        let places: Vec<(f64, f64)> = levels.iter().enumerate().map(|(at, level)| (at as f64, *level)).collect();
        let steady = trend(&places).map(|(slope, _)| {
            let half = slope * (levels.len() - 1) as f64 / 2.0;
            let ends = [all - half, all + half];
            let between: f64 = places.iter().map(|(at, _)| (ends[0] + slope * at - all).powi(2)).sum();
            PeriodChange { ends, at_once: false, explains: between / squares }
        });
        let changes = at_once.chain(steady).filter(|change| change.explains.is_finite());
        changes.max_by(|one, other| one.explains.total_cmp(&other.explains))
    }

    /// The share of random orders of the same levels in which some change explains as much: a test by permutation, which assumes nothing of how the levels
    /// vary.
    fn chance(&self, levels: &[f64]) -> f64 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(0);
        let mut levels = levels.to_vec();
        let alike = (0..ORDERS).filter(|_| {
            levels.shuffle(&mut random);
            // Sums of the same numbers in another order may differ in the last digit.
            PeriodChange::find(&levels).is_some_and(|other| other.explains >= self.explains - 1e-9)
        });
        (1 + alike.count()) as f64 / (1 + ORDERS) as f64
    }
}

/// The logarithms of the periods' median iterations in the order of time, without what recording adds. Medians are no longer for a few long iterations, nor
/// for those that settle. None without recorded and plain periods next to each other.
fn levels(times: &PeriodTimes, settled: &PeriodTimes) -> Option<Vec<f64>> {
    let plain = medians(&times.plain, &settled.plain);
    let recorded = medians(&times.recorded, &settled.recorded);
    let added = recorded.iter().enumerate().filter_map(|(at, recorded)| {
        let around = [plain.get(at)?.as_ref()?, plain.get(at + 1)?.as_ref()?];
        Some((*recorded)? - (around[0] + around[1]) / 2.0)
    });
    let added: Vec<f64> = added.collect();
    // Of the median a change between two periods is no part.
    let added = (!added.is_empty()).then(|| median(&added))?;
    let in_turn = (0..plain.len().max(recorded.len())).flat_map(|at| {
        let recorded = recorded.get(at).copied().flatten().map(|recorded| recorded - added);
        [plain.get(at).copied().flatten(), recorded]
    });
    Some(in_turn.flatten().collect())
}

fn medians(periods: &[Vec<u64>], settled: &[Vec<u64>]) -> Vec<Option<f64>> {
    let settled = settled.iter().map(Vec::as_slice).chain(std::iter::repeat(&[][..]));
    let of_period = |(period, settled): (&Vec<u64>, &[u64])| {
        let times: Vec<f64> = period.iter().chain(settled).filter(|time| **time > 0).map(|time| *time as f64).collect();
        (!times.is_empty()).then(|| median(&times).ln())
    };
    periods.iter().zip(settled).map(of_period).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    /// Iterations in the order in which `record` takes them by default (docs/recording.md): 2 plain ones, 4 recorded, 4 plain, ... 4 recorded, 2 plain, and 5
    /// to 10 that settle between these.
    fn recorded_as(mut iteration: impl FnMut(usize) -> f64, random: &mut Xoshiro256PlusPlus) -> [PeriodTimes; 2] {
        let (mut times, mut settled) = (PeriodTimes::default(), PeriodTimes::default());
        let mut number = 0;
        let mut take = |count: usize, factor: f64| -> Vec<u64> {
            let first = number;
            number += count;
            (first..number).map(|number| (1e6 * factor * iteration(number)) as u64).collect()
        };
        for at in 0..11 {
            let settle = if at == 0 { 0 } else { random.random_range(5..=10) };
            let count = if at == 0 || at == 10 { 2 } else { 4 };
            let [factor, with, kind] = if at % 2 == 0 { [1.0, 1.0, 0.0] } else { [1.3, 1.5, 1.0] };
            let (settle, counted) = (take(settle, with), take(count, factor));
            match kind == 0.0 {
                true => (settled.plain.push(settle), times.plain.push(counted)),
                false => (settled.recorded.push(settle), times.recorded.push(counted)),
            };
        }
        [times, settled]
    }

    /// Noise of a shared machine: each iteration by itself, one that lasts for about ten iterations, and other programs that make some in a row 1.5 to 2.5 times
    /// as long.
    struct MachineNoise {
        random: Xoshiro256PlusPlus,
        slow: f64,
        left: usize,
        factor: f64,
    }

    impl MachineNoise {
        fn new(seed: u64) -> Self {
            MachineNoise { random: Xoshiro256PlusPlus::seed_from_u64(seed), slow: 0.0, left: 0, factor: 1.0 }
        }

        /// About normal, with standard deviation 1.
        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.random.random::<f64>()).sum::<f64>() - 6.0
        }

        fn next(&mut self) -> f64 {
            self.slow = 0.9 * self.slow + 0.12 * 0.19_f64.sqrt() * self.normal();
            self.left = self.left.saturating_sub(1);
            if self.left == 0 {
                self.factor = 1.0;
                if self.random.random::<f64>() < 0.04 {
                    (self.left, self.factor) = (self.random.random_range(1..20), 1.5 + self.random.random::<f64>());
                }
            }
            let own = 0.1 * self.normal();
            self.factor * (own + self.slow).exp()
        }
    }

    fn found(seed: u64, iteration: impl Fn(usize) -> f64) -> Option<ChangedIterations> {
        let mut noise = MachineNoise::new(seed);
        let [times, settled] =
            recorded_as(|number| iteration(number) * noise.next(), &mut Xoshiro256PlusPlus::seed_from_u64(seed));
        ChangedIterations::find(&times, &settled)
    }

    #[test]
    fn of_100_steady_jobs_on_a_noisy_machine_at_most_5_are_said_to_change() {
        let said = (0..200).filter(|seed| found(*seed, |_| 20.0).is_some()).count();
        assert!(said <= 10, "{said} of 200");
    }

    #[test]
    fn most_jobs_that_change_are_said_to() {
        let grows = (0..50).filter_map(|seed| found(seed, |number| 20.0 * 1.03_f64.powi(number as i32)));
        assert!(grows.filter(|change| change.last > 10.0 * change.first).count() >= 45);
        let jumps = (0..50).filter_map(|seed| found(seed, |number| if number < 55 { 20.0 } else { 60.0 }));
        let jumps = jumps.filter(|change| (1.8..5.0).contains(&(change.last / change.first)));
        assert!(jumps.count() >= 35);
    }

    /// Without noise, by hand: 20 ms at first and 60 ms from a moment between two periods on; the same backwards; and 3 % more in each iteration.
    #[test]
    fn both_levels_are_named() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut said = |of: &dyn Fn(usize) -> f64| {
            let [times, settled] = recorded_as(of, &mut random);
            ChangedIterations::find(&times, &PeriodTimes::default()).zip(ChangedIterations::find(&times, &settled))
        };
        let (without, change) = said(&|number| if number < 50 { 20.0 } else { 60.0 }).unwrap();
        assert!(change.at_once && without.at_once);
        assert!((change.first / 20e6 - 1.0).abs() < 0.1 && (change.last / 60e6 - 1.0).abs() < 0.1, "{change:?}");
        assert!(change.sentence().starts_with("iterations grew from 2"), "{}", change.sentence());
        let (_, shrinks) = said(&|number| if number < 50 { 60.0 } else { 20.0 }).unwrap();
        assert!(shrinks.sentence().starts_with("iterations shrank from "), "{}", shrinks.sentence());
        let (_, grows) = said(&|number| 20.0 * 1.03_f64.powi(number as i32)).unwrap();
        assert!(!grows.at_once && grows.first < 25e6 && grows.last > 300e6, "{grows:?}");
    }
}
