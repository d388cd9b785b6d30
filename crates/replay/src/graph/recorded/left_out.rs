//! Steps as they are predicted by a graph that was built without them: what a replay is worth for a step that it has not
//! seen.

use super::slowdown::{SlowdownFactors, WorkIndex};
use super::{StepRows, longest_rank};
use crate::collectives::RankExchanges;
use crate::graph::StepGraph;
use crate::ranks::TrainingJob;
use crate::simulate::simulate;
use perf4sight_base::error::Result;
use rayon::prelude::*;

/// Graphs that are built at most; each is without one step, or without every tenth of more steps.
const GRAPHS: usize = 10;

/// A step that a graph without it predicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOutStep {
    /// Its index in [`TrainingJob::steps`].
    pub step: usize,
    /// Nanoseconds as recorded: the longest of the ranks'.
    pub recorded: u64,
    /// Nanoseconds of a step as the others were recorded, replayed.
    pub predicted: u64,
    /// Nanoseconds of a step of the others under its load: with one factor for each rank, kind of work and stretch between the
    /// rank's exchanges, of how much longer that took in it.
    pub under_load: u64,
}

impl LeftOutStep {
    /// By how much the prediction is longer than the record, in percent.
    pub fn error(&self) -> f64 {
        self.percent_longer(self.predicted)
    }

    /// By how much the prediction under its load is longer than the record, in percent.
    pub fn error_under_load(&self) -> f64 {
        self.percent_longer(self.under_load)
    }

    fn percent_longer(&self, time: u64) -> f64 {
        100.0 * (time as f64 / self.recorded.max(1) as f64 - 1.0)
    }
}

fn time(step: &StepGraph) -> u64 {
    step.time(&simulate(&step.graph))
}

/// Each of the steps by the others; none if there is one alone.
pub(super) fn predict(rows: &StepRows, job: &TrainingJob, exchanges: &RankExchanges) -> Result<Vec<LeftOutStep>> {
    let graphs = rows.alike.len().min(GRAPHS);
    let mut predicted = Vec::new();
    for left_out in (0..graphs).filter(|_| graphs > 1) {
        let (others, durations) = rows.graph(job, exchanges, |position| position % graphs != left_out)?;
        // Once for all steps: the median of every operation over many steps takes longer than a replay.
        let usual = others.median_step();
        let predicted_time = time(&others.as_recorded_by(&usual));
        let index = WorkIndex::from_step(&usual);
        let own: Vec<_> = rows.alike.iter().skip(left_out).step_by(graphs).zip(&durations).collect();
        let under_load = |own: &[u64]| {
            let mut loaded = usual.clone();
            SlowdownFactors::compute(&usual, &index, own).apply_to(&mut loaded, &index);
            time(&loaded)
        };
        predicted.par_extend(own.into_par_iter().map(|((step, ranks), own)| LeftOutStep {
            step: *step,
            recorded: longest_rank(ranks),
            predicted: predicted_time,
            under_load: under_load(own),
        }));
    }
    predicted.sort_by_key(|one| one.step);
    Ok(predicted)
}
