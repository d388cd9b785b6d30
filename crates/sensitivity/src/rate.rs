//! Iterations a second of a job, from when its steps ended, and how sure that is.

use crate::steps::Step;
use perf4sight_conventions::stats;
use serde::{Deserialize, Serialize};

/// Iterations a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// The rate.
    pub per_second: f64,
    /// Where it lies with a probability of 95 %.
    pub interval: [f64; 2],
}

/// What the steps of one rank come to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Its rate.
    pub rate: Rate,
    /// How many iterations it rests on.
    pub iterations: u64,
    /// How many seconds they took.
    pub seconds: f64,
    /// How many blocks they were divided into.
    pub blocks: usize,
    /// Which share of the time the job waited for data; none where its steps do not tell.
    pub waiting: Option<f64>,
}

/// Which steps of a rank count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// So many at the beginning do not.
    pub warm_up: usize,
    /// Those of so many iterations behind them do; all where nothing is said.
    pub most: Option<u64>,
}

impl Span {
    /// All behind the warm-up.
    pub fn behind(warm_up: usize) -> Self {
        Span { warm_up, most: None }
    }

    /// How many iterations of these steps count.
    pub fn iterations(self, steps: &[Step]) -> u64 {
        let ends = self.of(steps).and_then(|counted| Some((counted.first()?, counted.last()?)));
        ends.map_or(0, |(first, last)| last.number - first.number)
    }

    /// The steps that count.
    fn of(self, steps: &[Step]) -> Option<&[Step]> {
        let counted = steps.get(self.warm_up..)?;
        let last = counted.first()?.number.saturating_add(self.most.unwrap_or(u64::MAX));
        Some(&counted[..counted.partition_point(|step| step.number <= last)])
    }
}

/// A rate is known well enough when its interval reaches no further than this share of it to either side.
pub const KNOWN: f64 = 0.03;

/// So many blocks the steps are divided into at most.
const BLOCKS: usize = 12;
/// So few blocks have no interval: even their least and their greatest miss the median too often (2 / 2^7).
const TOO_FEW: usize = 7;
/// The shortest block in seconds: limits of CPUs let a job run and wait in turns of 0.1 s.
const SHORTEST: f64 = 0.25;
/// The probability that an interval misses that is looked at once. A point ends when its interval is narrow, and so more often one that is
/// so by chance: of those that ended points, one in twenty misses at most (see the tests).
const MISSES: f64 = 0.01;

impl Rate {
    /// A rate without any doubt, as one of a table.
    pub fn exactly(per_second: f64) -> Self {
        Rate { per_second, interval: [per_second; 2] }
    }

    /// How far its interval reaches to the further side, as a share of it.
    pub fn doubt(self) -> f64 {
        let [low, high] = self.interval;
        (self.per_second - low).max(high - self.per_second) / self.per_second
    }
}

impl Measured {
    /// Iterations a second in all: a stall counts, and so does what changes over an epoch.
    pub fn mean(&self) -> f64 {
        self.iterations as f64 / self.seconds
    }

    /// Whether it is known well enough to stop. Few blocks are alike by chance too often to be asked again and again.
    pub fn is_known(&self) -> bool {
        self.blocks == BLOCKS && self.rate.doubt() <= KNOWN
    }

    /// Of the steps of one rank in this span; none where too few are in it for an interval.
    ///
    /// The steps are divided into blocks of as many steps each. The rate is the median of the blocks' rates, so that a stall of the machine
    /// does not count; its interval is that of a median, by the order of the blocks alone (sign test: Conover, Practical Nonparametric
    /// Statistics, 3.2).
    pub fn of(steps: &[Step], span: Span) -> Option<Self> {
        let counted = span.of(steps)?;
        let (first, last) = (counted.first()?, counted.last()?);
        let seconds = last.time - first.time;
        let blocks = BLOCKS.min(counted.len() - 1).min((seconds / SHORTEST) as usize);
        if blocks <= TOO_FEW {
            return None;
        }
        let edge = |block: usize| &counted[block * (counted.len() - 1) / blocks];
        let rate = |block: usize| edge(block).rate_until(edge(block + 1));
        let mut rates: Vec<f64> = (0..blocks).map(rate).collect();
        rates.sort_by(f64::total_cmp);
        let outside = outside(blocks);
        let interval = [rates[outside], rates[blocks - 1 - outside]];
        let waited: Option<f64> = counted[1..].iter().map(|step| step.wait).sum();
        Some(Measured {
            rate: Rate { per_second: stats::median(&rates), interval },
            iterations: last.number - first.number,
            seconds,
            blocks,
            waiting: waited.map(|waited| (waited / seconds).clamp(0.0, 1.0)),
        })
    }
}

/// The rank that counts: all wait for the slowest. None where any has too few steps.
pub fn slowest<'a>(ranks: impl IntoIterator<Item = &'a [Step]>, span: Span) -> Option<Measured> {
    let measured: Option<Vec<Measured>> = ranks.into_iter().map(|steps| Measured::of(steps, span)).collect();
    measured?.into_iter().min_by(|a, b| a.rate.per_second.total_cmp(&b.rate.per_second))
}

/// How many of so many values lie outside the interval of their median at each end: the most so that it misses seldom enough.
fn outside(blocks: usize) -> usize {
    let ways = |chosen: usize| (0..chosen).map(|at| (blocks - at) as f64 / (at + 1) as f64).product::<f64>();
    let tail = |outside: usize| (0..=outside).map(ways).sum::<f64>() / 2f64.powi(blocks as i32);
    (0..blocks / 2).take_while(|outside| 2.0 * tail(*outside) <= MISSES).last().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use statrs::distribution::{ContinuousCDF, Exp, Normal};

    fn steps(durations: &[f64]) -> Vec<Step> {
        let mut time = 0.0;
        let end = |(number, duration): (usize, &f64)| {
            time += duration;
            Step { number: number as u64 + 1, time, wait: None }
        };
        durations.iter().enumerate().map(end).collect()
    }

    /// Binomial tails of one half: for 8 values 2/256 below .01, with one more outside 18/256; for 12 values 2 (1 + 12)/4096 = .006, with 66
    /// more .039.
    #[test]
    fn intervals_of_medians_are_those_of_the_tables() {
        assert_eq!([8, 11, 12].map(outside), [0, 0, 1]);
    }

    #[test]
    fn the_rate_is_that_behind_the_warm_up() {
        let durations: Vec<f64> = [[2.0; 3].as_slice(), &[0.1; 100]].concat();
        let measured = Measured::of(&steps(&durations), Span::behind(3)).unwrap();
        assert!((measured.rate.per_second - 10.0).abs() < 1e-9 && measured.is_known(), "{measured:?}");
        assert_eq!((measured.iterations, measured.waiting), (99, None));
        assert!(Measured::of(&steps(&durations), Span::behind(103)).is_none(), "nothing is left");
        assert!(Measured::of(&steps(&[0.5; 8]), Span::behind(0)).is_none(), "seven blocks have no interval");
    }

    /// An epoch of ten iterations at 10 and ten at 2.5 a second: 4 a second on the whole, whatever follows it.
    #[test]
    fn whole_epochs_have_a_mean_which_what_follows_does_not_move() {
        let epoch = [[0.1; 10], [0.4; 10]].concat();
        let durations = [&[1.0; 4], epoch.as_slice(), &epoch, &[0.1; 7]].concat();
        let measured = Measured::of(&steps(&durations), Span { warm_up: 3, most: Some(40) }).unwrap();
        assert_eq!(measured.iterations, 40);
        assert!((measured.mean() - 4.0).abs() < 1e-9, "{measured:?}");
    }

    #[test]
    fn a_stall_does_not_count_and_waiting_does() {
        let mut durations = vec![0.1; 100];
        durations[50] = 5.0;
        let mut steps = steps(&durations);
        steps.iter_mut().for_each(|step| step.wait = Some(0.025));
        let measured = Measured::of(&steps, Span::behind(0)).unwrap();
        assert!((measured.rate.per_second - 10.0).abs() < 1e-9, "{measured:?}");
        // 99 times 0.025 of 9.8 + 5 seconds.
        assert!((measured.waiting.unwrap() - 2.475 / 14.8).abs() < 1e-9, "{measured:?}");
    }

    #[test]
    fn the_slowest_rank_counts_and_none_may_be_missing() {
        let (slow, fast, short) = (steps(&[0.2; 50]), steps(&[0.1; 50]), steps(&[0.1; 3]));
        let rate = |ranks: &[&[Step]]| {
            slowest(ranks.iter().copied(), Span::behind(0)).map(|measured| measured.rate.per_second)
        };
        assert!((rate(&[&fast, &slow]).unwrap() - 5.0).abs() < 1e-9);
        assert_eq!(rate(&[&fast, &short]), None);
    }

    /// How often the interval holds the truth, where the point ends as soon as it is known to 3 %.
    fn holds(mut duration: impl FnMut(&mut Xoshiro256PlusPlus, usize) -> f64, truth: f64) -> f64 {
        let held = (0..400).filter(|seed| {
            let mut draws = Xoshiro256PlusPlus::seed_from_u64(*seed);
            let durations: Vec<f64> = (0..3000).map(|step| duration(&mut draws, step)).collect();
            let all = steps(&durations);
            let known =
                |until: usize| Measured::of(&all[..until], Span::behind(5)).filter(|measured| measured.is_known());
            let looks = std::iter::successors(Some(20), |at| Some(at + at / 10 + 1)).take_while(|at| *at < 3000);
            let measured = looks.into_iter().find_map(known).expect("3000 steps are enough");
            let [low, high] = measured.rate.interval;
            low <= truth && truth <= high
        });
        held.count() as f64 / 400.0
    }

    /// Steps of 0.1 s: with 10 % normal noise; with exponential pauses; in bursts of four, as loaders with four workers deliver.
    #[test]
    fn intervals_hold_though_points_end_when_they_are_narrow() {
        let normal = Normal::new(0.1, 0.01).unwrap();
        let pause = Exp::new(1.0 / 0.02).unwrap();
        let shares = [
            holds(|draws, _| normal.inverse_cdf(draws.random()).max(0.01), 10.0),
            holds(|draws, _| 0.08 + pause.inverse_cdf(draws.random()), 10.0),
            holds(|draws, step| if step % 4 == 0 { 0.37 } else { 0.01 } * draws.random_range(0.9..1.1), 10.0),
        ];
        assert!(shares.iter().all(|share| *share >= 0.95), "{shares:?}");
    }
}
