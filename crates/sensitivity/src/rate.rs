//! Iterations a second of a job and their uncertainty, from the end times of its steps.

use crate::steps::ReportedStep;
use serde::{Deserialize, Serialize};

/// Iterations a second, with an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct IterationRate {
    /// The rate.
    pub per_second: f64,
    /// Its 95 % interval.
    pub interval: [f64; 2],
}

/// How other programs disturbed a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Disturbance {
    /// The CPU limit of the job.
    pub limit: f64,
    /// CPUs that the job used on average.
    pub used: f64,
    /// The share of the time that it waited for other programs, at most.
    pub waited: f64,
}

impl Disturbance {
    /// How many times as fast the job may have been alone, at most: without waiting for others, and with its CPU use at
    /// its limit.
    pub fn faster(self) -> f64 {
        let without_waiting = 1.0 / (1.0 - self.waited.clamp(0.0, OPEN));
        let up_to_the_limit = self.limit / self.used.max(f64::MIN_POSITIVE);
        without_waiting.min(up_to_the_limit).max(1.0)
    }
}

/// A measured rate of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRate {
    /// The rate.
    pub rate: IterationRate,
    /// Iterations it was measured over.
    pub iterations: u64,
    /// Seconds that these took.
    pub seconds: f64,
    /// How many blocks they were divided into.
    pub blocks: usize,
    /// The share of the time that the job waited for data; none where its steps do not report it.
    pub waiting: Option<f64>,
    /// Iterations a second in the first and the second half of the blocks, where they differ by more than chance
    /// explains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<[f64; 2]>,
}

/// The steps that count for a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepSpan {
    /// Steps at the beginning that do not count.
    pub warm_up: usize,
    /// Iterations after the warm-up that count; none for all of them.
    pub most: Option<u64>,
}

impl StepSpan {
    /// All steps after the warm-up.
    pub fn after_warm_up(warm_up: usize) -> Self {
        StepSpan { warm_up, most: None }
    }

    /// How many iterations of these steps count.
    pub fn iterations(self, steps: &[ReportedStep]) -> u64 {
        let ends = self.counted_steps(steps).and_then(|counted| Some((counted.first()?, counted.last()?)));
        ends.map_or(0, |(first, last)| last.number - first.number)
    }

    /// How many of these steps count, and the seconds from the first to the last of them.
    pub fn reports(self, steps: &[ReportedStep]) -> (usize, f64) {
        let counted = self.counted_steps(steps).unwrap_or(&[]);
        let ends = counted.first().zip(counted.last());
        (counted.len(), ends.map_or(0.0, |(first, last)| last.time - first.time))
    }

    fn counted_steps(self, steps: &[ReportedStep]) -> Option<&[ReportedStep]> {
        let counted = steps.get(self.warm_up..)?;
        let last = counted.first()?.number.saturating_add(self.most.unwrap_or(u64::MAX));
        Some(&counted[..counted.partition_point(|step| step.number <= last)])
    }
}

/// A rate is known well enough when its interval reaches at most this share of it to either side.
pub const KNOWN: f64 = 0.03;

/// The steps are divided into at most this many blocks.
const BLOCKS: usize = 12;
/// An interval needs at least this many blocks.
const FEWEST: usize = 8;
/// The shortest block in seconds: the CPU limits of control groups let a job run and wait in periods of 0.1 s.
const SHORTEST: f64 = 0.25;
/// The shortest run, in seconds, from which a rate is computed.
pub const LEAST_TIME: f64 = FEWEST as f64 * SHORTEST;
/// The fewest ends of iterations from which a rate is computed.
pub const LEAST_REPORTS: usize = FEWEST + 1;
/// Two-sided critical values of Student's t at 1 %, for six to eleven degrees of freedom. A point ends when its
/// interval is narrow, so intervals that are narrow by chance are more frequent: of those that ended a point, at most
/// one in twenty misses the rate (see the tests).
const STUDENT: [f64; 6] = [3.707, 3.499, 3.355, 3.250, 3.169, 3.106];
/// Above this uncertainty, as a share of the time, the upper end of a rate is meaningless.
const OPEN: f64 = 0.9;
/// The halves of a run differ if they do so by more than this share and by more than so many standard errors. With five
/// or six blocks in each, chance does that once in about a hundred runs.
const CHANGED: (f64, f64) = (0.1, 4.0);
/// The slowest block is a stall of the machine if it took this many times as long as the next slowest.
const STALL: f64 = 2.0;

impl IterationRate {
    /// A rate without uncertainty, as from a table.
    pub fn exactly(per_second: f64) -> Self {
        IterationRate { per_second, interval: [per_second; 2] }
    }

    /// The rate of a configuration whose runs were all disturbed: the fastest one, because other programs only make a
    /// job slower. The lower end is that of the slowest run. The upper end adds the spread of the runs, or assumes the
    /// largest possible delay by others. None without runs.
    pub fn disturbed(runs: &[(IterationRate, Option<Disturbance>)]) -> Option<Self> {
        let (fastest, by) = runs.iter().max_by(|(a, _), (b, _)| a.per_second.total_cmp(&b.per_second))?;
        let lowest = runs.iter().map(|(rate, _)| rate.interval[0]).fold(fastest.interval[0], f64::min);
        let slowest = runs.iter().map(|(rate, _)| rate.per_second).fold(fastest.per_second, f64::min);
        let spread = fastest.interval[1] + fastest.per_second - slowest;
        let alone = by.map_or(0.0, |by| fastest.interval[1] * by.faster());
        Some(IterationRate { per_second: fastest.per_second, interval: [lowest, spread.max(alone)] })
    }

    /// The longer side of its interval, as a share of the rate.
    pub fn uncertainty(self) -> f64 {
        let [low, high] = self.interval;
        (self.per_second - low).max(high - self.per_second) / self.per_second
    }
}

impl MeasuredRate {
    /// The average rate, including stalls and changes over an epoch.
    pub fn mean(&self) -> f64 {
        self.iterations as f64 / self.seconds
    }

    /// Whether the rate is known well enough to stop. Few blocks agree by chance too often to be tested repeatedly.
    pub fn is_known(&self) -> bool {
        self.blocks == BLOCKS && self.rate.uncertainty() <= KNOWN
    }

    /// The rate of one rank's steps in this span; none where it has too few steps for an interval.
    ///
    /// The steps are divided into groups of equal size. The rate is the slope between the means of the first and the
    /// last group, without a stall of the machine. Its interval is Student's t of the slopes between neighbouring
    /// groups. Single end times instead of group means do not work: under CPU limits steps end in periods of 0.1 s, and
    /// data loaders deliver in bursts, so the position of each cut would count as uncertainty. Medians of slopes do not
    /// work either: most slopes take one of two or three values, and the middle one is not the mean.
    pub fn from_steps(steps: &[ReportedStep], span: StepSpan) -> Option<Self> {
        let counted = span.counted_steps(steps)?;
        let (first, last) = (counted.first()?, counted.last()?);
        let seconds = last.time - first.time;
        let blocks = BLOCKS.min(counted.len() - 1).min((seconds / SHORTEST) as usize);
        if blocks < FEWEST {
            return None;
        }
        let ends: Vec<StepEnd> =
            counted.iter().map(|step| StepEnd { number: step.number as f64, time: step.time }).collect();
        let divided = divide(&ends, blocks);
        let rate = match stall(&divided) {
            Some(stalled) => rate(&without(&ends, stalled, blocks), blocks - 1),
            None => rate(&ends, blocks),
        };
        let waited: Option<f64> = counted[1..].iter().map(|step| step.wait).sum();
        Some(MeasuredRate {
            changed: changed(&divided),
            rate,
            iterations: last.number - first.number,
            seconds,
            blocks,
            waiting: waited.map(|waited| (waited / seconds).clamp(0.0, 1.0)),
        })
    }
}

/// The end time of a step, or the mean of several.
#[derive(Debug, Clone, Copy)]
struct StepEnd {
    number: f64,
    time: f64,
}

impl StepEnd {
    fn mean(of: &[StepEnd]) -> StepEnd {
        let mean = |what: fn(&StepEnd) -> f64| of.iter().map(what).sum::<f64>() / of.len() as f64;
        StepEnd { number: mean(|end| end.number), time: mean(|end| end.time) }
    }
}

/// Consecutive iterations.
#[derive(Debug, Clone, Copy)]
struct IterationBlock {
    iterations: f64,
    seconds: f64,
}

impl IterationBlock {
    fn from_ends(first: &StepEnd, last: &StepEnd) -> Self {
        IterationBlock { iterations: last.number - first.number, seconds: last.time - first.time }
    }

    fn iteration_seconds(&self) -> f64 {
        self.seconds / self.iterations
    }
}

/// The first and the last index of part number `part` of `parts`.
fn cut(length: usize, part: usize, parts: usize) -> (usize, usize) {
    (part * length / parts, (part + 1) * length / parts)
}

/// Divides the end times of steps into blocks.
fn divide(ends: &[StepEnd], blocks: usize) -> Vec<IterationBlock> {
    let cuts = (0..blocks).map(|block| cut(ends.len() - 1, block, blocks));
    cuts.map(|(from, to)| IterationBlock::from_ends(&ends[from], &ends[to])).collect()
}

/// The slowest block, where no other took nearly as long.
fn stall(blocks: &[IterationBlock]) -> Option<usize> {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by(|a, b| blocks[*a].iteration_seconds().total_cmp(&blocks[*b].iteration_seconds()));
    let [.., next, slowest] = order.as_slice() else { return None };
    (blocks[*slowest].iteration_seconds() > STALL * blocks[*next].iteration_seconds()).then_some(*slowest)
}

/// The end times of steps without one block: later steps move up to close the gap.
fn without(ends: &[StepEnd], block: usize, blocks: usize) -> Vec<StepEnd> {
    let (from, to) = cut(ends.len() - 1, block, blocks);
    let gone = IterationBlock::from_ends(&ends[from], &ends[to]);
    let moved = |end: &StepEnd| StepEnd { number: end.number - gone.iterations, time: end.time - gone.seconds };
    ends[..=from].iter().copied().chain(ends[to + 1..].iter().map(moved)).collect()
}

/// The rates of both halves of a run, where they differ.
fn changed(blocks: &[IterationBlock]) -> Option<[f64; 2]> {
    let (first, second) = blocks.split_at(blocks.len() / 2);
    let [(before, doubt_before), (after, doubt_after)] = [first, second].map(|half| {
        let count = half.len() as f64;
        let mean = half.iter().map(IterationBlock::iteration_seconds).sum::<f64>() / count;
        let squares = half.iter().map(|block| (block.iteration_seconds() - mean).powi(2)).sum::<f64>();
        (mean, squares / (count * (count - 1.0)))
    });
    let (difference, (share, errors)) = ((before - after).abs(), CHANGED);
    let differ = difference > share * before.min(after) && difference > errors * (doubt_before + doubt_after).sqrt();
    differ.then(|| [1.0 / before, 1.0 / after])
}

/// Iterations a second, from seven to twelve slopes between neighbouring groups of steps.
///
/// Where step times are independent, the means of `m` consecutive ones differ less than single end times would: by
/// `(2 m^2 + 1) / (3 m^2)` of the variance of `m` steps (a sum of triangular weights), while neighbouring differences
/// add up to more than independent ones. The deviation is enlarged by that factor.
fn rate(ends: &[StepEnd], slopes: usize) -> IterationRate {
    let cuts = (0..=slopes).map(|group| cut(ends.len(), group, slopes + 1));
    let groups: Vec<StepEnd> = cuts.map(|(from, to)| StepEnd::mean(&ends[from..to])).collect();
    let whole = IterationBlock::from_ends(&groups[0], &groups[slopes]);
    let off = |pair: &[StepEnd]| {
        let slope = IterationBlock::from_ends(&pair[0], &pair[1]);
        slope.seconds - slope.iterations * whole.iteration_seconds()
    };
    let (count, square) = (slopes as f64, (ends.len() as f64 / groups.len() as f64).powi(2));
    let squares: f64 = groups.windows(2).map(|pair| off(pair).powi(2)).sum();
    let deviation = (squares * count / (count - 1.0) * 3.0 * square / (2.0 * square + 1.0)).sqrt();
    let doubt = STUDENT[slopes + 1 - FEWEST] * deviation / whole.seconds;
    let per_second = 1.0 / whole.iteration_seconds();
    IterationRate { per_second, interval: [per_second / (1.0 + doubt), per_second / (1.0 - doubt.min(OPEN))] }
}

/// The rate of the slowest rank, because all ranks wait for it; none where any rank has too few steps.
pub fn slowest<'a>(ranks: impl IntoIterator<Item = &'a [ReportedStep]>, span: StepSpan) -> Option<MeasuredRate> {
    let measured: Option<Vec<MeasuredRate>> =
        ranks.into_iter().map(|steps| MeasuredRate::from_steps(steps, span)).collect();
    measured?.into_iter().min_by(|a, b| a.rate.per_second.total_cmp(&b.rate.per_second))
}

#[cfg(test)]
mod tests;
