//! Waiting and transfer of exchanges, who waits for whom, and what the rank does that the others wait for.

mod activity;
mod blocked;
mod layers;
mod origin;
mod spans;
mod straggler;
mod timed;

pub use activity::{Activity, activities};
pub(crate) use blocked::blocked;
pub use spans::{Span, State, spans};
pub(crate) use straggler::WORTH;
pub use straggler::{Excess, Straggler, stragglers};
pub use timed::Timed;

use crate::clocks::Clocks;
use crate::collectives::Exchanges;
use crate::ranks::{Job, JobStep};
use origin::Wait;
use perf4sight_base::summary::Summary;
use std::cmp::Reverse;

/// Who waits for whom in a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiting {
    /// The exchanges of which all parts are known, on the common timeline, ordered by the begin of their transfer.
    pub exchanges: Vec<Timed>,
    /// For each step of [`Job::steps`], who waits for whom.
    pub steps: Vec<Matrix>,
    /// By how many milliseconds waiting may be off because clocks are uncertain, to either side.
    pub uncertainty: f64,
}

/// How long each rank waits for each other one in a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    /// Nanoseconds by indices of the rank that waits and of the one that it waits for.
    rows: Vec<Vec<i64>>,
    /// Its nanoseconds on the rank whose steps take longest together.
    pub length: i64,
}

impl Matrix {
    /// Nanoseconds that a rank waits for another one, directly or by ranks that wait themselves.
    pub fn waits(&self, rank: usize, other: usize) -> i64 {
        self.rows[rank][other]
    }

    /// Nanoseconds that the other ranks wait for a rank, on average over them.
    pub fn caused(&self, rank: usize) -> f64 {
        let others = self.rows.len().saturating_sub(1).max(1);
        self.rows.iter().map(|row| row[rank]).sum::<i64>() as f64 / others as f64
    }
}

impl Waiting {
    /// Computes waiting in a job.
    pub fn of(job: &Job, exchanges: &Exchanges, clocks: &Clocks) -> Self {
        let (timed, longest) = (timed::of(exchanges, clocks), longest(job));
        let mut steps: Vec<Matrix> = job.steps.iter().map(|step| empty(job, longest, &step.of)).collect();
        let waits: Vec<Vec<Wait>> = (0..job.ranks.len()).map(|rank| of_rank(exchanges, &timed, rank)).collect();
        for (rank, own) in waits.iter().enumerate() {
            for wait in own {
                let Some(step) = wait.step else { continue };
                for (origin, time) in origin::origins(&waits, rank, wait.awaited, wait.time) {
                    steps[step].rows[rank][origin] += time;
                }
            }
        }
        Waiting { exchanges: timed, steps, uncertainty: clocks.uncertainty() / 1e6 }
    }

    /// Of a job whose exchanges cannot be told apart.
    pub fn unknown(job: &Job, clocks: &Clocks) -> Self {
        let longest = longest(job);
        let steps = job.steps.iter().map(|step| empty(job, longest, &step.of)).collect();
        Waiting { exchanges: Vec::new(), steps, uncertainty: clocks.uncertainty() / 1e6 }
    }

    /// Milliseconds that a rank waits for another one in a step, over the steps; none without steps.
    pub fn summary(&self, rank: usize, other: usize) -> Option<Summary> {
        self.over_steps(|step| step.waits(rank, other) as f64)
    }

    /// Milliseconds of a step from nanoseconds of each, over the steps; none without steps. The interval holds the
    /// uncertainty of the clocks, too, which is the same in all steps.
    pub fn over_steps(&self, nanoseconds: impl Fn(&Matrix) -> f64) -> Option<Summary> {
        let mut summary = Summary::of(&self.steps.iter().map(|step| nanoseconds(step) / 1e6).collect::<Vec<_>>())?;
        summary.interval =
            summary.interval.map(|[low, high]| [(low - self.uncertainty).max(0.0), high + self.uncertainty]);
        Some(summary)
    }
}

/// When a rank waits. Of exchanges at the same time, a moment is waited for the one that began first.
fn of_rank(exchanges: &Exchanges, timed: &[Timed], rank: usize) -> Vec<Wait> {
    let part = |timed: &Timed| Some((timed.exchange, timed.part(rank)?.0, timed.waits_until(rank)?));
    let mut own: Vec<(usize, i64, (usize, i64))> = timed.iter().filter_map(part).collect();
    own.sort_by_key(|(_, start, _)| *start);
    let mut waited = i64::MIN;
    let wait = |(exchange, start, (awaited, until)): (usize, i64, (usize, i64))| {
        let from = start.max(waited);
        waited = waited.max(until);
        (from < until).then(|| Wait { time: (from, until), awaited, step: exchanges.all[exchange].step })
    };
    own.into_iter().filter_map(wait).collect()
}

fn empty(job: &Job, longest: usize, of: &[usize]) -> Matrix {
    let (begin, end) = job.ranks[longest].steps[of[longest]].work;
    Matrix { rows: vec![vec![0; job.ranks.len()]; job.ranks.len()], length: end - begin }
}

/// The rank whose steps take longest together. The longest rank of each step is another one where ranks are ahead of each other by
/// different times, and such steps together are longer than the job.
fn longest(job: &Job) -> usize {
    let time = |rank: &usize| -> i64 {
        let work = |step: &JobStep| job.ranks[*rank].steps[step.of[*rank]].work;
        job.steps.iter().map(work).map(|(begin, end)| end - begin).sum()
    };
    (0..job.ranks.len()).max_by_key(|rank| (time(rank), Reverse(*rank))).unwrap_or(0)
}
