//! Breaks down the traces of a run.

use crate::breakdown::{Breakdown, Iteration, Place, RankBreakdown};
use crate::categories::recorded::Recorded;
use crate::categories::sets::Sets;
use crate::correction::result::Correction;
use crate::gpu::device::Device;
use crate::gpu::idle::Causes;
use crate::iterations;
use crate::iterations::marks::Mark;
use crate::operations;
use crate::ranks::{missing, stragglers};
use crate::threads::{main_thread, threads};
use crate::warnings::{self, Evidence};
use perf4sight_base::error::Result;
use perf4sight_record::WarmUp;
use perf4sight_traces::RankTrace;
use std::sync::Arc;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The name of the events that mark iterations: of a range, a function or an operator.
    pub iteration: Option<String>,
}

impl Breakdown {
    /// Breaks down the traces of a run, one per rank.
    ///
    /// # Errors
    /// An iteration name that a trace does not have.
    pub fn of(ranks: &[RankTrace], options: &Options) -> Result<Self> {
        let all_of_several = ranks.len() > 1 && missing::are_all(ranks);
        let broken_down: Vec<RankBreakdown> =
            ranks.iter().map(|ranked| RankBreakdown::of(ranked, options, all_of_several)).collect::<Result<_>>()?;
        let mut run = Breakdown { ranks: broken_down, warnings: Vec::new() };
        let stragglers = if ranks.len() > 1 { stragglers::warning(ranks, &run) } else { None };
        run.warnings = warnings::apart(ranks).into_iter().chain(warnings::uneven(&run)).chain(stragglers).collect();
        Ok(run)
    }
}

impl RankBreakdown {
    /// Breaks down one trace; `all_of_several` is true if all ranks of a distributed run are given.
    fn of(ranked: &RankTrace, options: &Options, all_of_several: bool) -> Result<Self> {
        let trace = &ranked.trace;
        let threads = threads(trace);
        let likely = main_thread::find(trace, &threads, None).map(|thread| threads[thread].track);
        let found = iterations::find(trace, options.iteration.as_deref(), likely)?;
        let main = main_thread::find(trace, &threads, found.track);
        let python = main.is_some_and(|main| main_thread::has_python(trace, &threads[main]));
        let recorded = Recorded::of(trace, python);
        let device = if recorded.gpu { Device::of(trace) } else { Device::default() };
        let timeline = main.map_or_else(Arc::default, |main| main_thread::timeline(trace, &threads, main));
        let durations: Vec<i64> = found.marks.iter().map(|mark| mark.window.1 - mark.window.0).collect();
        let warm_up = WarmUp::of(&durations);
        let (operations, merged) =
            main.map_or_else(Default::default, |main| operations::find(trace, threads[main].track, &found, python));
        let causes = Causes::of(trace, &timeline, main.map(|main| threads[main].track));
        let shows_ranks = all_of_several && recorded.cpp;
        let split = |window| Sets::split(window, &timeline, &device.busy, recorded);
        let iteration = |(at, mark): (usize, &Mark)| Iteration {
            number: at,
            name: mark.name.clone(),
            window: mark.window,
            range: mark.range,
            sets: split(mark.window),
            operations: operations::split(mark.window, &operations, split),
            device: device.within(mark.window),
            idle: device.is_recorded().then(|| causes.within(mark.window, &device, shows_ranks)),
            warm_up: at < warm_up.iterations,
        };
        let warnings = Evidence { trace, found: &found, threads: &threads, main, recorded, merged, device: &device }
            .warnings(&warm_up);
        Ok(RankBreakdown {
            rank: ranked.rank,
            place: Place::of(ranked),
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
            correction: Correction::default(),
        })
    }
}
