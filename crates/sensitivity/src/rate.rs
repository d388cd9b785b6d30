//! Iterations a second of a job, from when its steps ended, and how sure that is.

use crate::steps::Step;
use serde::{Deserialize, Serialize};

/// Iterations a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// The rate.
    pub per_second: f64,
    /// Its interval of 95 %.
    pub interval: [f64; 2],
}

/// What others did to a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Disturbance {
    /// CPUs that the job might use.
    pub limit: f64,
    /// CPUs that it used on average.
    pub used: f64,
    /// The share of the time that it waited for others, at most.
    pub waited: f64,
}

impl Disturbance {
    /// How many times as fast the job may have been alone, at most: it would not have waited for others, and have used no more than its limit.
    pub fn faster(self) -> f64 {
        let without_waiting = 1.0 / (1.0 - self.waited.clamp(0.0, OPEN));
        let up_to_the_limit = self.limit / self.used.max(f64::MIN_POSITIVE);
        without_waiting.min(up_to_the_limit).max(1.0)
    }
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
    /// Iterations a second in the first half of the blocks and in the second, where those differ by more than chance lets them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<[f64; 2]>,
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
/// So many blocks an interval takes at least.
const FEWEST: usize = 8;
/// The shortest block in seconds: limits of CPUs let a job run and wait in turns of 0.1 s.
const SHORTEST: f64 = 0.25;
/// The shortest run in seconds that a rate may come of.
pub const LEAST_TIME: f64 = FEWEST as f64 * SHORTEST;
/// What Student's t of six to eleven degrees of freedom exceeds, to either side, with a probability of 1 %. A point ends when its interval is
/// narrow, and so more often one that is so by chance: of those that ended points, one in twenty misses at most (see the tests).
const STUDENT: [f64; 6] = [3.707, 3.499, 3.355, 3.250, 3.169, 3.106];
/// Steps that are less certain than this, as a share of their time, have no upper end of rates worth telling.
const OPEN: f64 = 0.9;
/// Halves differ that do so by more than this share, and by more than so many standard errors: with five or six blocks in each, chance does
/// that once in some hundred runs.
const CHANGED: (f64, f64) = (0.1, 4.0);
/// The slowest block is a stall of the machine where it took so many times as long as the next one.
const STALL: f64 = 2.0;

impl Rate {
    /// A rate without any doubt, as one of a table.
    pub fn exactly(per_second: f64) -> Self {
        Rate { per_second, interval: [per_second; 2] }
    }

    /// Of runs at one point that others all disturbed, with what is known of that: the fastest, for others make a job slower. It lies as far
    /// below as the slowest, and as far above as they differ, or as others may have held it back. None of none.
    pub fn disturbed(runs: &[(Rate, Option<Disturbance>)]) -> Option<Self> {
        let (fastest, by) = runs.iter().max_by(|(a, _), (b, _)| a.per_second.total_cmp(&b.per_second))?;
        let lowest = runs.iter().map(|(rate, _)| rate.interval[0]).fold(fastest.interval[0], f64::min);
        let slowest = runs.iter().map(|(rate, _)| rate.per_second).fold(fastest.per_second, f64::min);
        let spread = fastest.interval[1] + fastest.per_second - slowest;
        let alone = by.map_or(0.0, |by| fastest.interval[1] * by.faster());
        Some(Rate { per_second: fastest.per_second, interval: [lowest, spread.max(alone)] })
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
    /// The steps are divided into groups of as many each. The rate is the slope between the means of the first group and the last one, without
    /// a stall of the machine, and its interval Student's t of how the slopes between neighbours differ. Ends of single steps in place of means
    /// of groups do not do: limits of CPUs have steps end in turns of 0.1 s, loaders deliver in bursts, and what one stretch of the run gains
    /// on the next by where it is cut would count as doubt. Nor do medians of slopes: most are one of two or three, and the middle one is not
    /// the mean.
    pub fn of(steps: &[Step], span: Span) -> Option<Self> {
        let counted = span.of(steps)?;
        let (first, last) = (counted.first()?, counted.last()?);
        let seconds = last.time - first.time;
        let blocks = BLOCKS.min(counted.len() - 1).min((seconds / SHORTEST) as usize);
        if blocks < FEWEST {
            return None;
        }
        let ends: Vec<End> = counted.iter().map(|step| End { number: step.number as f64, time: step.time }).collect();
        let divided = divide(&ends, blocks);
        let rate = match stall(&divided) {
            Some(stalled) => rate(&without(&ends, stalled, blocks), blocks - 1),
            None => rate(&ends, blocks),
        };
        let waited: Option<f64> = counted[1..].iter().map(|step| step.wait).sum();
        Some(Measured {
            changed: changed(&divided),
            rate,
            iterations: last.number - first.number,
            seconds,
            blocks,
            waiting: waited.map(|waited| (waited / seconds).clamp(0.0, 1.0)),
        })
    }
}

/// When a step ended, or some of them on average.
#[derive(Debug, Clone, Copy)]
struct End {
    number: f64,
    time: f64,
}

impl End {
    fn mean(of: &[End]) -> End {
        let mean = |what: fn(&End) -> f64| of.iter().map(what).sum::<f64>() / of.len() as f64;
        End { number: mean(|end| end.number), time: mean(|end| end.time) }
    }
}

/// Some iterations on end.
#[derive(Debug, Clone, Copy)]
struct Block {
    iterations: f64,
    seconds: f64,
}

impl Block {
    fn between(first: &End, last: &End) -> Self {
        Block { iterations: last.number - first.number, seconds: last.time - first.time }
    }

    /// Seconds of an iteration.
    fn each(&self) -> f64 {
        self.seconds / self.iterations
    }
}

/// Where one of so many parts of a length begins and ends.
fn cut(length: usize, part: usize, parts: usize) -> (usize, usize) {
    (part * length / parts, (part + 1) * length / parts)
}

/// So many blocks that the ends of steps are cut into.
fn divide(ends: &[End], blocks: usize) -> Vec<Block> {
    let cuts = (0..blocks).map(|block| cut(ends.len() - 1, block, blocks));
    cuts.map(|(from, to)| Block::between(&ends[from], &ends[to])).collect()
}

/// Which block is the slowest, where no other took nearly as long.
fn stall(blocks: &[Block]) -> Option<usize> {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by(|a, b| blocks[*a].each().total_cmp(&blocks[*b].each()));
    let [.., next, slowest] = order.as_slice() else { return None };
    (blocks[*slowest].each() > STALL * blocks[*next].each()).then_some(*slowest)
}

/// The ends of steps as if one of so many blocks had not been: what came behind it follows what was before.
fn without(ends: &[End], block: usize, blocks: usize) -> Vec<End> {
    let (from, to) = cut(ends.len() - 1, block, blocks);
    let gone = Block::between(&ends[from], &ends[to]);
    let moved = |end: &End| End { number: end.number - gone.iterations, time: end.time - gone.seconds };
    ends[..=from].iter().copied().chain(ends[to + 1..].iter().map(moved)).collect()
}

/// The rates of both halves of a run, where they differ.
fn changed(blocks: &[Block]) -> Option<[f64; 2]> {
    let (first, second) = blocks.split_at(blocks.len() / 2);
    let [(before, doubt_before), (after, doubt_after)] = [first, second].map(|half| {
        let count = half.len() as f64;
        let mean = half.iter().map(Block::each).sum::<f64>() / count;
        let squares = half.iter().map(|block| (block.each() - mean).powi(2)).sum::<f64>();
        (mean, squares / (count * (count - 1.0)))
    });
    let (difference, (share, errors)) = ((before - after).abs(), CHANGED);
    let differ = difference > share * before.min(after) && difference > errors * (doubt_before + doubt_after).sqrt();
    differ.then(|| [1.0 / before, 1.0 / after])
}

/// Iterations a second, from so many slopes between neighbouring groups of steps, seven to twelve.
///
/// Where steps take times of their own, means of `m` of them on end differ less than single ends would: by `(2 m^2 + 1) / (3 m^2)` of the
/// variance of `m` steps (a sum of triangular weights), while neighbouring differences add up to more than if they were independent. The
/// deviation is enlarged by that factor.
fn rate(ends: &[End], slopes: usize) -> Rate {
    let cuts = (0..=slopes).map(|group| cut(ends.len(), group, slopes + 1));
    let groups: Vec<End> = cuts.map(|(from, to)| End::mean(&ends[from..to])).collect();
    let whole = Block::between(&groups[0], &groups[slopes]);
    let off = |pair: &[End]| {
        let slope = Block::between(&pair[0], &pair[1]);
        slope.seconds - slope.iterations * whole.each()
    };
    let (count, square) = (slopes as f64, (ends.len() as f64 / groups.len() as f64).powi(2));
    let squares: f64 = groups.windows(2).map(|pair| off(pair).powi(2)).sum();
    let deviation = (squares * count / (count - 1.0) * 3.0 * square / (2.0 * square + 1.0)).sqrt();
    let doubt = STUDENT[slopes + 1 - FEWEST] * deviation / whole.seconds;
    let per_second = 1.0 / whole.each();
    Rate { per_second, interval: [per_second / (1.0 + doubt), per_second / (1.0 - doubt.min(OPEN))] }
}

/// The rank that counts: all wait for the slowest. None where any has too few steps.
pub fn slowest<'a>(ranks: impl IntoIterator<Item = &'a [Step]>, span: Span) -> Option<Measured> {
    let measured: Option<Vec<Measured>> = ranks.into_iter().map(|steps| Measured::of(steps, span)).collect();
    measured?.into_iter().min_by(|a, b| a.rate.per_second.total_cmp(&b.rate.per_second))
}

#[cfg(test)]
mod tests;
