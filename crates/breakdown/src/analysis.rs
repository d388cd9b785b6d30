//! Breaks down the traces of a run.

use crate::breakdown::{Breakdown, Iteration, RankBreakdown, RankPlace};
use crate::categories::recorded::RecordedKinds;
use crate::categories::sets::TimeSets;
use crate::correction::result::BreakdownCorrection;
use crate::gpu::device::GpuActivity;
use crate::gpu::idle::IdleCauses;
use crate::iterations;
use crate::iterations::marks::IterationMark;
use crate::operations;
use crate::ranks::missing;
use crate::ranks::stragglers::ExchangeWaits;
use crate::threads::{main_thread, threads};
use crate::warnings::{self, WarningEvidence};
use perf4sight_base::error::Result;
use perf4sight_record::WarmUp;
use perf4sight_traces::RankTrace;
use std::sync::Arc;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BreakdownOptions {
    /// The name of the events that mark iterations: of a range, a function or an operator.
    pub iteration: Option<String>,
}

impl Breakdown {
    /// Breaks down the traces of a run, one per rank.
    ///
    /// # Errors
    /// An iteration name that a trace does not have.
    pub fn from_traces(ranks: &[RankTrace], options: &BreakdownOptions) -> Result<Self> {
        let all_of_several = ranks.len() > 1 && missing::are_all(ranks);
        let broken_down: Vec<RankBreakdown> = ranks
            .iter()
            .map(|ranked| RankBreakdown::from_trace(ranked, options, all_of_several))
            .collect::<Result<_>>()?;
        let mut run = Breakdown { ranks: broken_down, waits: None, warnings: Vec::new() };
        run.waits = ExchangeWaits::find(ranks, &run);
        run.warnings = warnings::clocks_apart(ranks)
            .into_iter()
            .chain(warnings::uneven_iterations(&run))
            .chain(run.waits.as_ref().and_then(|waits| waits.warning(ranks)))
            .collect();
        Ok(run)
    }
}

impl RankBreakdown {
    /// Breaks down one trace; `all_of_several` is true if all ranks of a distributed run are given.
    fn from_trace(ranked: &RankTrace, options: &BreakdownOptions, all_of_several: bool) -> Result<Self> {
        let trace = &ranked.trace;
        let threads = threads(trace);
        let likely = main_thread::find(trace, &threads, None).map(|thread| threads[thread].track);
        let found = iterations::find(trace, options.iteration.as_deref(), likely)?;
        let main = main_thread::find(trace, &threads, found.track);
        let python = main.is_some_and(|main| main_thread::has_python(trace, &threads[main]));
        let recorded = RecordedKinds::from_trace(trace, python);
        let device = if recorded.gpu { GpuActivity::from_trace(trace) } else { GpuActivity::default() };
        let timeline = main.map_or_else(Arc::default, |main| main_thread::timeline(trace, &threads, main));
        let durations: Vec<i64> = found.marks.iter().map(|mark| mark.window.1 - mark.window.0).collect();
        let warm_up = WarmUp::find(&durations);
        let (operations, merged) =
            main.map_or_else(Default::default, |main| operations::find(trace, threads[main].track, &found, python));
        let causes = IdleCauses::from_trace(trace, &timeline, main.map(|main| threads[main].track));
        let shows_ranks = all_of_several && recorded.cpp;
        let split = |window| TimeSets::divide(window, &timeline, &device.busy, recorded);
        let iteration = |(at, mark): (usize, &IterationMark)| Iteration {
            number: at,
            name: mark.name.clone(),
            window: mark.window,
            range: mark.range,
            sets: split(mark.window),
            operations: operations::divide_operations(mark.window, &operations, split),
            device: device.in_window(mark.window),
            idle: device.is_recorded().then(|| causes.idle_in(mark.window, &device, shows_ranks)),
            warm_up: at < warm_up.iterations,
        };
        let warnings =
            WarningEvidence { trace, found: &found, threads: &threads, main, recorded, merged, device: &device }
                .warnings(&warm_up);
        Ok(RankBreakdown {
            rank: ranked.rank,
            place: RankPlace::from_trace(ranked),
            recorded,
            iterations: found.marks.iter().enumerate().map(iteration).collect(),
            warm_up,
            main: main.map(|main| threads[main].track),
            warnings,
            markers: found.markers,
            threads,
            timeline,
            operations,
            device,
            correction: BreakdownCorrection::default(),
        })
    }
}
