//! Estimates the iteration time without the profiler, from the times that `perf4sight record` stores next to a trace.

mod costs;
mod held_up;
pub(crate) mod result;
mod take_out;
mod without_recording;

use crate::breakdown::{Iteration, RankBreakdown};
use crate::categories::TimeCategory;
use crate::categories::sets::TimeSets;
use crate::iterations::marks::IterationMarkers;
use costs::RecordingCosts;
use perf4sight_base::stats::{mean, median};
use perf4sight_base::units::Milliseconds;
use perf4sight_record::Recording;
use perf4sight_record::{DOUBTFUL, PeriodTimes, RecordingOverhead, average};
use perf4sight_traces::Trace;
use result::{BreakdownCorrection, CorrectedIteration, DividedTime, RecordingDrift};
use take_out::WAITS;

/// If recording costs more than this many times the known cost of its events, the events do not explain it. The factor
/// allows for other machines and versions of PyTorch than those of [`costs`], and for operators whose cost differs
/// between programs.
const EXPLAINED: f64 = 4.0;
/// A range may be longer than the time measured within it by this many nanoseconds plus this share of that time. That
/// is more than in five programs with iterations of 0.1 to 50 ms (`docs/accuracy/recording.md`).
const AROUND: (f64, f64) = (20_000.0, 0.05);
/// Nanoseconds by which two clocks may differ: some versions of PyTorch write traces in whole microseconds.
const CLOCKS: f64 = 1000.0;

/// The share of an iteration below which it does not matter of which category a time is.
const SMALL: f64 = 0.05;
/// From this share on, what recorded iterations take beyond their processor time is not waiting of the script.
const OF_OTHERS: f64 = 0.25;

/// Nanoseconds of a mean iteration in which its thread was ready to run but had no processor, beyond those of iterations without recording.
fn held_back(recording: &Recording) -> f64 {
    let delayed = recording.delayed.as_ref();
    let means =
        delayed.and_then(|delayed| Some((average(&delayed.recorded.concat())?, average(&delayed.plain.concat())?)));
    means.map_or(0.0, |(recorded, plain)| recorded - plain)
}

impl RankBreakdown {
    /// Corrects the iterations with the file next to the trace, and returns the recording. The trace can be used
    /// without it, so an unreadable file is only a warning.
    pub fn correct_from_file(&mut self, trace: &Trace) -> Option<Recording> {
        let recording = Recording::next_to(&trace.file);
        match &recording {
            Ok(recording) => self.correct(trace, recording.as_ref()),
            Err(error) => {
                let why = error.to_string().lines().map(str::trim).collect::<Vec<_>>().join("; ");
                self.correction.warnings.push(format!("these times are as recorded, and nothing is subtracted: {why}"));
            }
        }
        recording.ok().flatten()
    }

    /// Corrects the iterations if the recording permits it; otherwise adds a warning with the reason.
    pub fn correct(&mut self, trace: &Trace, recording: Option<&Recording>) {
        self.correction = BreakdownCorrection::compute(self, trace, recording);
    }
}

impl BreakdownCorrection {
    fn compute(rank: &RankBreakdown, trace: &Trace, recording: Option<&Recording>) -> Self {
        let mut correction = BreakdownCorrection::default();
        if let Err(why) = correction.fill(rank, trace, recording) {
            correction.warnings.push(format!("these times include what recording takes: {why}"));
        }
        correction
    }

    /// Copies the times of the recording and corrects the iterations, or returns the reason why that is not possible.
    /// Nothing is copied from a recording of another trace.
    fn fill(&mut self, rank: &RankBreakdown, trace: &Trace, recording: Option<&Recording>) -> Result<(), String> {
        let recording =
            recording.ok_or("nothing shows how long iterations take without it (perf4sight record does)")?;
        check_trace(rank, trace, recording)?;
        self.ranks = Some(recording.ranks).filter(|ranks| *ranks > 1);
        self.alone = recording.ranks == 1;
        if rank.markers != IterationMarkers::ProfilerSteps {
            self.drift = RecordingDrift::from_times(&recording.wall);
            return Err("these iterations are not those that were timed without it".to_owned());
        }
        let overhead = RecordingOverhead::from_recording(recording).ok_or("no iterations were timed without it")?;
        let untimed = untimed_nanoseconds(rank, recording)?;
        self.drift = RecordingDrift::from_times(&recording.wall);
        self.processor = of_iterations(rank, recording.processor.as_ref());
        self.delayed = of_iterations(rank, recording.delayed.as_ref());
        self.delayed_plain = recording.delayed.as_ref().and_then(|delayed| average(&delayed.plain.concat()));
        self.rivals = recording.rivals;
        let thread = of_iterations(rank, recording.thread.as_ref());
        self.held_up = held_up::held_up(rank, trace, &thread, &self.processor);
        self.python_threads = recording.python_threads;
        self.processor_drift =
            recording.processor.as_ref().filter(|_| !self.processor.is_empty()).and_then(RecordingDrift::from_times);
        self.slows_python = recording.slows_python();
        self.warnings.extend(overhead.doubts.iter().cloned());
        let contradiction = overhead.contradiction();
        let overhead = self.overhead.insert(overhead);
        match contradiction {
            Some(why) => Err(why),
            None => {
                let added = AddedByRecording::estimate(rank, overhead, &untimed, held_back(recording));
                let divided = added.and_then(|added| divide(rank, trace, overhead, &added, self.slows_python));
                let (iterations, unsplit) = take_out(rank, overhead, &untimed, divided);
                self.iterations = iterations;
                self.warnings
                    .extend(unsplit.map(|why| format!("the cost of recording is not split by category: {why}")));
                self.warnings.extend(check(rank, &self.iterations, overhead));
                Ok(())
            }
        }
    }
}

/// The value of each iteration; empty unless it is stored for all.
fn of_iterations(rank: &RankBreakdown, times: Option<&PeriodTimes>) -> Vec<u64> {
    let times = times.map_or_else(Vec::new, |times| times.recorded.concat());
    let stored = rank.iterations.iter().filter_map(|one| times.get(number(&one.name)?).copied());
    if times.len() == rank.iterations.len() { stored.collect() } else { Vec::new() }
}

fn check_trace(rank: &RankBreakdown, trace: &Trace, recording: &Recording) -> Result<(), String> {
    let stem = |name: &str| name.trim_end_matches(".gz").trim_end_matches(".json").to_owned();
    let name = trace.file.file_name().map(|name| stem(&name.to_string_lossy()));
    if name.is_some_and(|name| name != stem(&recording.trace)) {
        return Err(format!("the recording next to this trace belongs to {}", recording.trace));
    }
    match trace.rank().unwrap_or(rank.rank) {
        own if own == recording.rank => Ok(()),
        own => Err(format!("the recording next to the trace of rank {own} belongs to rank {}", recording.rank)),
    }
}

/// Nanoseconds by which each window is longer than its measured time: the range that marks an iteration begins before
/// the time is taken, and ends afterwards. Negative if the window contains only the script and the measured time
/// includes the recorder.
fn untimed_nanoseconds(rank: &RankBreakdown, recording: &Recording) -> Result<Vec<f64>, String> {
    let timed = recording.wall.recorded.concat();
    let lengths = |iteration: &Iteration| {
        let range = (iteration.range.1 - iteration.range.0) as f64;
        Some([range, iteration.sets.total() as f64, *timed.get(number(&iteration.name)?)? as f64])
    };
    let lengths: Option<Vec<[f64; 3]>> = rank.iterations.iter().map(lengths).collect();
    let lengths = lengths.filter(|lengths| !lengths.is_empty() && lengths.len() == timed.len());
    let lengths = lengths.ok_or("its iterations are not those of the trace")?;
    let untimed: Vec<f64> = lengths.iter().map(|[_, window, timed]| window - timed).collect();
    let around = AROUND.0 + AROUND.1 * median(&lengths.iter().map(|[.., timed]| *timed).collect::<Vec<_>>());
    let torn = |[range, _, timed]: &[f64; 3]| range - timed < -CLOCKS;
    match lengths.iter().any(torn) || median(&untimed) > around {
        true => Err("the recorded times of iterations contradict the trace".to_owned()),
        false => Ok(untimed),
    }
}

/// The number of a recorded iteration, from its name.
fn number(name: &str) -> Option<usize> {
    name.strip_prefix("ProfilerStep#")?.parse().ok()
}

/// What recording adds to a mean iteration, in nanoseconds, and to each iteration beyond what was timed of it.
struct AddedByRecording<'a> {
    /// In proportion to the costs of events.
    work: f64,
    /// The share of the time in which the script may wait.
    of_waits: f64,
    untimed: &'a [f64],
}

impl<'a> AddedByRecording<'a> {
    /// Recording takes no more of what works than the processor time that it adds: the rest is waiting, by chance or because
    /// of recording, unless it was time without a processor (`held_back`). The reason if it was, or if an iteration waits for less than that.
    fn estimate(
        rank: &RankBreakdown,
        overhead: &RecordingOverhead,
        untimed: &'a [f64],
        held_back: f64,
    ) -> Result<Self, String> {
        let (work, _) = overhead.worked();
        let waiting = overhead.subtracted() - work;
        if waiting > SMALL * overhead.recorded && held_back > OF_OTHERS * waiting {
            return Err(format!(
                "iterations take {} more than without recording; for {} of that their thread was ready to run but had no processor, \
                 and nothing shows in which category",
                Milliseconds(overhead.subtracted() / 1e6),
                Milliseconds(held_back.min(overhead.subtracted()) / 1e6)
            ));
        }
        let waits = |one: &Iteration| WAITS.map(|category| one.sets.idle(category) as f64).into_iter().sum::<f64>();
        let waits = mean(&rank.iterations.iter().map(waits).collect::<Vec<_>>());
        match waiting <= waits {
            true => Ok(AddedByRecording { work, of_waits: if waits > 0.0 { waiting / waits } else { 0.0 }, untimed }),
            false => Err(format!(
                "iterations take {} more than without recording, of which {} are processor time, and wait for less than the rest",
                Milliseconds(overhead.subtracted() / 1e6),
                Milliseconds(work / 1e6)
            )),
        }
    }
}

/// The nanoseconds to subtract from an iteration in proportion to the costs of its events.
struct SubtractedTime {
    costs: RecordingCosts,
    nanoseconds: f64,
}

/// What recording adds, divided among the categories of each iteration, or why it cannot be.
fn divide(
    rank: &RankBreakdown,
    trace: &Trace,
    overhead: &RecordingOverhead,
    added: &AddedByRecording<'_>,
    slows_python: bool,
) -> Result<Vec<DividedTime>, String> {
    let costs = costs::costs(rank, trace);
    let subtracted = match slows_python {
        true => from_python(rank, costs, added),
        false => from_events(costs, overhead, added)?,
    };
    check_enough_time(rank, &subtracted)?;
    let divided = rank.iterations.iter().zip(&subtracted);
    let divided = divided
        .map(|(one, less)| DividedTime::subtract(one, &less.costs, less.nanoseconds.round() as i64, added.of_waits));
    Ok(divided.collect())
}

/// The iterations without the overhead of recording, and why it is not split by category, if it is not.
fn take_out(
    rank: &RankBreakdown,
    overhead: &RecordingOverhead,
    untimed: &[f64],
    divided: Result<Vec<DividedTime>, String>,
) -> (Vec<CorrectedIteration>, Option<String>) {
    match divided {
        Ok(divided) => {
            let corrected =
                |divided: DividedTime| CorrectedIteration { total: divided.sets.total(), divided: Some(divided) };
            (divided.into_iter().map(corrected).collect(), None)
        }
        Err(why) => {
            // Every iteration gets the same.
            let whole = |(one, untimed): (&Iteration, &f64)| {
                let idle = one.sets.total() - one.sets.gpu_busy();
                let less = ((overhead.subtracted() + untimed).round() as i64).clamp(0, idle);
                CorrectedIteration { total: one.sets.total() - less, divided: None }
            };
            (rank.iterations.iter().zip(untimed).map(whole).collect(), Some(why))
        }
    }
}

/// If recording slows Python itself down: events get their known cost, at most what was measured, and Python the rest.
fn from_python(rank: &RankBreakdown, costs: Vec<RecordingCosts>, added: &AddedByRecording<'_>) -> Vec<SubtractedTime> {
    let python = |sets: &TimeSets| sets.idle(TimeCategory::Python) as f64;
    let known: Vec<f64> = costs.iter().map(|costs| 1000.0 * costs.values().flatten().sum::<f64>()).collect();
    let all: Vec<f64> = rank.iterations.iter().map(|iteration| python(&iteration.sets)).collect();
    let of_known = (added.work / mean(&known).max(f64::MIN_POSITIVE)).min(1.0);
    let slower = ((added.work - mean(&known)) / mean(&all).max(1.0)).max(0.0);
    let subtracted = |(place, mut costs): (usize, RecordingCosts)| {
        for (operation, sets) in &rank.iterations[place].operations {
            let own = costs.entry(*operation).or_default();
            own[TimeCategory::Python.index()] += slower * python(sets) / 1000.0;
        }
        let nanoseconds = of_known * known[place] + slower * all[place] + added.untimed[place];
        SubtractedTime { costs, nanoseconds }
    };
    costs.into_iter().enumerate().map(subtracted).collect()
}

/// By the cost of each iteration's events, or the reason why these do not explain the overhead.
fn from_events(
    costs: Vec<RecordingCosts>,
    overhead: &RecordingOverhead,
    added: &AddedByRecording<'_>,
) -> Result<Vec<SubtractedTime>, String> {
    let sums: Vec<f64> = costs.iter().map(|costs| costs.values().flatten().sum()).collect();
    let ordinary = sums.iter().zip(&overhead.ordinary).filter(|(_, ordinary)| **ordinary).map(|(sum, _)| *sum);
    let by_events = mean(&ordinary.collect::<Vec<_>>());
    let (known, all) = (1000.0 * by_events, added.work + mean(added.untimed));
    if known * EXPLAINED < all {
        let percent = 100.0 * known / all;
        return Err(format!("by what events are known to cost, they explain {percent:.0} % of it"));
    }
    let each = if by_events > 0.0 { added.work / by_events } else { 0.0 };
    let subtracted = |(place, costs): (usize, RecordingCosts)| SubtractedTime {
        costs,
        nanoseconds: each * sums[place] + added.untimed[place],
    };
    Ok(costs.into_iter().enumerate().map(subtracted).collect())
}

/// Checks that every category has as much time as is to be subtracted from it. If not, some of that belongs to other categories,
/// and nothing tells to which.
fn check_enough_time(rank: &RankBreakdown, subtracted: &[SubtractedTime]) -> Result<(), String> {
    let mut all = [[0.0, 0.0]; TimeCategory::ALL.len()];
    for one in rank.counted_iterations() {
        let SubtractedTime { costs, nanoseconds } = &subtracted[one.number];
        let sum: f64 = costs.values().flatten().sum();
        for category in TimeCategory::ALL {
            let costs: f64 = costs.values().map(|costs| costs[category.index()]).sum();
            let [takes, holds] = &mut all[category.index()];
            *takes += if sum > 0.0 { nanoseconds.max(0.0) * costs / sum } else { 0.0 };
            *holds += one.sets.idle(category) as f64;
        }
    }
    let count = rank.counted_iterations().count().max(1) as f64;
    let out = TimeCategory::ALL.into_iter().find(|category| all[category.index()][0] > all[category.index()][1]);
    out.map_or(Ok(()), |category| {
        let [takes, holds] = all[category.index()].map(|sum| Milliseconds(sum / count / 1e6));
        Err(format!("{takes} of it would be of {}, which has {holds}", category.name()))
    })
}

/// Compares the corrected iterations that are shown with those without recording.
fn check(rank: &RankBreakdown, corrected: &[CorrectedIteration], overhead: &mut RecordingOverhead) -> Vec<String> {
    let counted =
        rank.counted_iterations().map(|one| (corrected[one.number].total as f64, overhead.ordinary.get(one.number)));
    let counted: Vec<(f64, bool)> = counted.filter_map(|(total, ordinary)| Some((total, *ordinary?))).collect();
    let all: Vec<f64> = counted.iter().map(|(total, _)| *total).collect();
    let ordinary: Vec<f64> = counted.iter().filter(|(_, ordinary)| *ordinary).map(|(total, _)| *total).collect();
    if ordinary.is_empty() {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    let longer = mean(&all) / mean(&ordinary) - 1.0;
    if longer > DOUBTFUL {
        warnings.push(format!(
            "the mean of all iterations, which is shown, is {:.0} % above that of the {} of {} that did not take much longer than the \
             others; these are compared with the iterations without recording",
            100.0 * longer,
            ordinary.len(),
            all.len()
        ));
    }
    let off = overhead.percent_off(mean(&ordinary));
    if overhead.off.is_none_or(|other| other.abs() < off.abs()) {
        overhead.off = Some(off);
        if off.abs() > 100.0 * DOUBTFUL {
            warnings.push(format!("corrected iterations are {off:+.0} % off those without recording"));
        }
    }
    warnings
}
