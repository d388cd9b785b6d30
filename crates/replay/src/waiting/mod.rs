//! Waiting and transfer of exchanges, who waits for whom, and what the rank does that the others wait for.

mod activity;
mod blocked;
mod layers;
mod messages;
mod origin;
mod slow_link;
mod spans;
mod straggler;
mod timed;

pub use activity::{RankActivity, activities};
pub(crate) use blocked::blocked_times;
pub use slow_link::SlowLink;
pub use spans::{RankSpan, RankState, spans};
pub(crate) use straggler::LEAST_SHARE;
pub use straggler::{ActivityExcess, LongWait, Straggler, stragglers};
pub use timed::TimedExchange;

use crate::clocks::RankClocks;
use crate::collectives::RankExchanges;
use crate::ranks::{JobRank, TrainingJob};
use layers::ActivityId;
use origin::RankWait;
use perf4sight_base::summary::ValueSummary;
use perf4sight_traces::intervals::{Interval, clipped};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Who waits for whom in a job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobWaiting {
    /// The exchanges of which all parts are known, on the common timeline, ordered by the begin of their transfer.
    pub exchanges: Vec<TimedExchange>,
    /// For each step of [`TrainingJob::steps`], who waits for whom.
    pub steps: Vec<WaitingMatrix>,
    /// By how many milliseconds waiting may be off because clocks are uncertain, to either side.
    pub uncertainty: f64,
}

/// How long each rank waits for each other one in a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingMatrix {
    /// Nanoseconds by indices of the rank that waits and of the one that it waits for.
    rows: Vec<Vec<i64>>,
    /// For each rank, how many others it exchanges with, directly or through others.
    others: Arc<[usize]>,
    /// Nanoseconds of the step on the rank whose steps have the largest sum.
    pub length: i64,
}

impl WaitingMatrix {
    /// Nanoseconds that a rank waits for another one, directly or through ranks that wait themselves.
    pub fn waiting_time(&self, rank: usize, other: usize) -> i64 {
        self.rows[rank][other]
    }

    /// Nanoseconds that the other ranks wait for a rank, on average over those that exchange with it, directly or through others.
    pub fn caused_waiting(&self, rank: usize) -> f64 {
        self.rows.iter().map(|row| row[rank]).sum::<i64>() as f64 / self.others[rank].max(1) as f64
    }
}

impl JobWaiting {
    /// Computes waiting in a job.
    pub fn compute(job: &TrainingJob, exchanges: &RankExchanges, clocks: &RankClocks) -> Self {
        let timed = timed::time_exchanges(exchanges, clocks);
        let mut steps = empty(job, &exchanges.islands(job.ranks.len()));
        let idle = idle(job, exchanges, clocks);
        let waits = idle.iter().enumerate().map(|(rank, idle)| of_rank(exchanges, &timed, rank, idle));
        let waits: Vec<Vec<RankWait>> = waits.collect();
        for (rank, own) in origin::origins(&waits).into_iter().enumerate() {
            for piece in own {
                let step = piece.step.map(|step| &mut steps[step]);
                step.into_iter().for_each(|step| step.rows[rank][piece.origin] += piece.length());
            }
        }
        JobWaiting { exchanges: timed, steps, uncertainty: clocks.uncertainty() / 1e6 }
    }

    /// For a job whose exchanges cannot be distinguished: nothing is known.
    pub fn unknown(job: &TrainingJob, clocks: &RankClocks) -> Self {
        let alone: Vec<usize> = (0..job.ranks.len()).collect();
        JobWaiting { exchanges: Vec::new(), steps: empty(job, &alone), uncertainty: clocks.uncertainty() / 1e6 }
    }

    /// Milliseconds that a rank waits for another one in a step, over the steps; none without steps.
    pub fn summary(&self, rank: usize, other: usize) -> Option<ValueSummary> {
        self.over_steps(|step| step.waiting_time(rank, other) as f64)
    }

    /// Milliseconds of a step from nanoseconds of each, over the steps; none without steps. The interval holds the
    /// uncertainty of the clocks, too, which is the same in all steps.
    pub fn over_steps(&self, nanoseconds: impl Fn(&WaitingMatrix) -> f64) -> Option<ValueSummary> {
        let mut summary =
            ValueSummary::compute(&self.steps.iter().map(|step| nanoseconds(step) / 1e6).collect::<Vec<_>>())?;
        summary.interval =
            summary.interval.map(|[low, high]| [(low - self.uncertainty).max(0.0), high + self.uncertainty]);
        Some(summary)
    }
}

/// When a rank waits. A moment in several exchanges counts for the one that began first. `idle`: when the rank does nothing else.
fn of_rank(exchanges: &RankExchanges, timed: &[TimedExchange], rank: usize, idle: &[Interval]) -> Vec<RankWait> {
    let part = |timed: &TimedExchange| Some((timed.exchange, timed.part(rank)?.0, timed.waits_until(rank)?));
    let mut own: Vec<(usize, i64, (usize, i64))> = timed.iter().filter_map(part).collect();
    own.sort_by_key(|(_, start, _)| *start);
    let mut waited = i64::MIN;
    let wait = |(exchange, start, (awaited, until)): (usize, i64, (usize, i64))| {
        let from = start.max(waited);
        waited = waited.max(until);
        (from < until).then(|| {
            let held: i64 = clipped(idle, (from, until)).map(|((begin, end), _)| end - begin).sum();
            RankWait {
                time: (from, until),
                awaited,
                is_held: 2 * held > until - from,
                step: exchanges.all[exchange].step,
            }
        })
    };
    own.into_iter().filter_map(wait).collect()
}

/// When each rank does nothing but take part in exchanges, on the common timeline. Empty if all ranks exchange with all: then no rank passes on an
/// earlier delay.
fn idle(job: &TrainingJob, exchanges: &RankExchanges, clocks: &RankClocks) -> Vec<Vec<Interval>> {
    let ranks: BTreeSet<Vec<usize>> =
        exchanges.complete().map(|exchange| exchange.parts.iter().map(|part| part.rank).collect()).collect();
    let of_rank = |(index, rank): (usize, &JobRank)| {
        let pieces = if ranks.len() < 2 { Vec::new() } else { layers::find_pieces(rank, &exchanges.calls[index]) };
        let exchanging = pieces.into_iter().filter(|(_, doing)| *doing == ActivityId::Exchanging);
        exchanging.map(|((begin, end), _)| (clocks.common(index, begin), clocks.common(index, end))).collect()
    };
    job.ranks.iter().enumerate().map(of_rank).collect()
}

/// A matrix of each step in which nobody waits; `islands` are those of [`RankExchanges::islands`].
fn empty(job: &TrainingJob, islands: &[usize]) -> Vec<WaitingMatrix> {
    let lengths = job.own_lengths();
    let others = |island: &usize| islands.iter().filter(|other| *other == island).count() - 1;
    let others: Arc<[usize]> = islands.iter().map(others).collect();
    let of_step = |length: i64| WaitingMatrix {
        rows: vec![vec![0; islands.len()]; islands.len()],
        others: Arc::clone(&others),
        length,
    };
    lengths.into_iter().map(of_step).collect()
}
