//! Reads the traces of one run and breaks them down.

use super::warnings;
use crate::{Breakdown, BreakdownOptions, CallStacks, IterationMarkers, RankBreakdown};
use perf4sight_base::error::{Error, Result};
use perf4sight_report::Progress;
use perf4sight_traces as traces;
use perf4sight_traces::{EventCategory, RankTrace, Trace};
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The traces of one run and their breakdown, rank by rank.
pub(super) struct TracedRun {
    pub traces: Vec<RankTrace>,
    /// The breakdown, with the same ranks in the same order.
    pub breakdown: Breakdown,
    /// The stacks of the same ranks in the same order, computed when first needed.
    stacks: OnceCell<Vec<CallStacks>>,
    /// The versions and threads of the run, from the recordings.
    pub origins: BTreeSet<String>,
}

/// A run that was recorded once or several times.
pub(super) struct TracedRecordings {
    pub first: TracedRun,
    others: Vec<TracedRun>,
}

impl TracedRecordings {
    pub fn all(&self) -> impl Iterator<Item = &TracedRun> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

impl TracedRun {
    /// Reads files and folders, and breaks them down. If there is a recording next to a trace, the overhead of
    /// recording is subtracted, too.
    ///
    /// # Errors
    /// Traces without any time in them; see [`traces::read_ranks`] and [`Breakdown::from_traces`].
    pub fn read(paths: &[PathBuf], options: &BreakdownOptions, progress: &Progress) -> Result<Self> {
        progress.set_item("reading traces");
        let traces = traces::read_ranks(paths)?;
        progress.advance(1);
        progress.set_item("breaking traces down");
        let run = TracedRun::from_traces(traces, options)?;
        progress.advance(1);
        Ok(run)
    }

    /// Reads a run that was recorded once or several times, a folder for each.
    pub fn read_recordings(
        paths: &[PathBuf],
        options: &BreakdownOptions,
        progress: &Progress,
    ) -> Result<TracedRecordings> {
        progress.set_item("reading traces");
        let mut recordings = traces::read_recordings(paths)?.into_iter();
        progress.advance(1);
        progress.set_item("breaking traces down");
        let first = TracedRun::from_traces(recordings.next().unwrap_or_default(), options)?;
        let others = recordings.map(|traces| TracedRun::from_traces(traces, options)).collect::<Result<_>>()?;
        progress.advance(1);
        Ok(TracedRecordings { first, others })
    }

    fn from_traces(traces: Vec<RankTrace>, options: &BreakdownOptions) -> Result<Self> {
        let mut breakdown = Breakdown::from_traces(&traces, options)?;
        let mut origins = BTreeSet::new();
        for (ranked, rank) in traces.iter().zip(&mut breakdown.ranks) {
            let recording = rank.correct_from_file(&ranked.trace);
            origins.extend(recording.and_then(|recording| recording.origin()));
        }
        let run = TracedRun { traces, breakdown, stacks: OnceCell::new(), origins };
        let timed =
            run.breakdown.ranks.iter().flat_map(RankBreakdown::counted_iterations).any(|one| one.sets.total() > 0);
        if timed { Ok(run) } else { Err(run.nothing_recorded()) }
    }

    /// The noun for the unit of time that is broken down.
    pub fn iteration_noun(&self) -> &'static str {
        let whole = self.breakdown.ranks.iter().all(|rank| rank.markers == IterationMarkers::WholeTrace);
        if whole { "the whole trace" } else { "an iteration" }
    }

    fn nothing_recorded(&self) -> Error {
        let error = Error::input("nothing of threads or accelerators that takes any time is in the trace");
        let error = error.expected("a trace of iterations");
        let Some(RankTrace { trace, .. }) = self.traces.first() else { return error };
        if is_of_xla(trace) {
            return Error::input("is a trace of JAX or TensorFlow (XLA), whose events do not say what they are")
                .file(&trace.file)
                .expected("a trace of PyTorch's profiler, of Nsight Systems or of nvprof");
        }
        if trace.events.iter().any(|event| event.duration > 0)
            && trace.events.iter().all(|event| event.category == EventCategory::Other)
        {
            return Error::input(
                "has events, none of which says in its category (cat) what it is, such as cpu_op or kernel",
            )
            .file(&trace.file)
            .expected("a trace of PyTorch's profiler, of Nsight Systems or of nvprof");
        }
        let error = error.file(&trace.file);
        // The events that were left out may be the reason.
        match trace.damage.warnings().first() {
            Some(warning) => error.help(warning),
            None => error,
        }
    }

    /// Whether both are the same recording, regardless of file names.
    pub fn is_same_as(&self, other: &TracedRun) -> bool {
        let same = |(own, other): (&RankTrace, &RankTrace)| {
            own.trace.header.base == other.trace.header.base && own.trace.events == other.trace.events
        };
        self.traces.len() == other.traces.len() && self.traces.iter().zip(&other.traces).all(same)
    }

    /// Whether any trace is of a run with several processes.
    pub fn is_distributed(&self) -> bool {
        self.traces.iter().any(|ranked| ranked.trace.header.world_size.is_some_and(|ranks| ranks > 1))
    }

    pub fn devices(&self) -> BTreeSet<&str> {
        self.traces.iter().flat_map(|ranked| &ranked.trace.header.devices).map(String::as_str).collect()
    }

    pub fn stacks(&self) -> impl DoubleEndedIterator<Item = (&RankBreakdown, &CallStacks)> {
        let all = || self.ranks().map(|(ranked, rank)| CallStacks::from_trace(&ranked.trace, rank)).collect();
        self.breakdown.ranks.iter().zip(self.stacks.get_or_init(all))
    }

    pub fn stacks_of(&self, wanted: &RankBreakdown) -> Option<&CallStacks> {
        self.stacks().find(|(rank, _)| rank.rank == wanted.rank).map(|(_, stacks)| stacks)
    }

    pub fn ranks(&self) -> impl DoubleEndedIterator<Item = (&RankTrace, &RankBreakdown)> {
        self.traces.iter().zip(&self.breakdown.ranks)
    }

    /// The number of iterations to list for each rank if `room` can be listed in total; at least ten.
    pub fn iterations_to_list(&self, room: usize) -> usize {
        (room / self.traces.len().max(1)).max(10)
    }

    /// Whether any rank's trace has work of accelerators.
    pub fn has_accelerators(&self) -> bool {
        self.breakdown.ranks.iter().any(|rank| rank.device.is_recorded())
    }

    /// All warnings; those of several ranks are merged.
    pub fn warnings(&self) -> Vec<String> {
        let ranks = &self.breakdown.ranks;
        let all = ranks.iter().flat_map(|rank| rank.all_warnings().map(|warning| (rank.rank, warning.clone())));
        let mut warnings = warnings::of_ranks(all, ranks.len());
        warnings.extend(self.breakdown.absent());
        warnings.extend(self.breakdown.warnings.iter().cloned());
        if self.breakdown.iterations_on_all_ranks().is_empty() && ranks.len() > 1 {
            warnings.push("no iteration is on all ranks, so that there are no figures of all together".to_owned());
        }
        warnings
    }
}

/// Whether XLA's profiler wrote a trace: no event has a category, and processes are named after its devices
/// (`/device:GPU:0`, `/host:CPU`).
fn is_of_xla(trace: &Trace) -> bool {
    let is_device = |name: &String| name.starts_with("/device:") || name.starts_with("/host:");
    trace.events.iter().all(|event| event.category == EventCategory::Other)
        && trace.tracks.iter().any(|track| track.process_name.as_ref().is_some_and(is_device))
}
