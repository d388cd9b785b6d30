//! Steps as they are predicted by a graph that was built without them: what a replay is worth for a step that it has not
//! seen.

use super::{Rows, longest};
use crate::collectives::Exchanges;
use crate::ranks::Job;
use crate::simulate::simulate;
use perf4sight_base::error::Result;

/// Graphs that are built at most; each is without one step, or without every tenth of more steps.
const GRAPHS: usize = 10;

/// A step that a graph without it predicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    /// Its index in [`Job::steps`].
    pub step: usize,
    /// Nanoseconds as recorded: the longest of the ranks'.
    pub recorded: u64,
    /// Nanoseconds of the typical step of the others, replayed.
    pub predicted: u64,
}

impl LeftOut {
    /// By how much the prediction is longer than the record, in percent.
    pub fn error(&self) -> f64 {
        100.0 * (self.predicted as f64 / self.recorded.max(1) as f64 - 1.0)
    }
}

/// Each of the steps by the others; none if there is one alone.
pub(super) fn predict(rows: &Rows, job: &Job, exchanges: &Exchanges) -> Result<Vec<LeftOut>> {
    let graphs = rows.alike.len().min(GRAPHS);
    let mut predicted = Vec::new();
    for left_out in (0..graphs).filter(|_| graphs > 1) {
        let others = rows.graph(job, exchanges, |position| position % graphs != left_out)?;
        let time = others.typical.time(&simulate(&others.typical.graph));
        let own = rows.alike.iter().skip(left_out).step_by(graphs);
        predicted.extend(own.map(|(step, ranks)| LeftOut { step: *step, recorded: longest(ranks), predicted: time }));
    }
    predicted.sort_by_key(|one| one.step);
    Ok(predicted)
}
