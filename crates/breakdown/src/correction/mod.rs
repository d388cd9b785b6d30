//! Estimates the iteration time without the profiler, from the times that `perf4sight record` stores next to a trace.

mod costs;
pub(crate) mod result;
mod take_out;
mod without_recording;

use crate::breakdown::{Iteration, RankBreakdown};
use crate::categories::TimeCategory;
use crate::categories::sets::Sets;
use crate::iterations::marks::Markers;
use perf4sight_base::stats::{mean, median};
use perf4sight_record::Recording;
use perf4sight_record::{DOUBTFUL, Overhead, Times};
use perf4sight_traces::Trace;
use result::{Corrected, Correction, Divided, Drift};

/// If recording costs more than this many times the known cost of its events, the events do not explain it. The factor
/// allows for other machines and versions of PyTorch than those of [`costs`], and for operators whose cost differs
/// between programs.
const EXPLAINED: f64 = 4.0;
/// A range may be longer than the time measured within it by this many nanoseconds plus this share of that time. That
/// is more than in five programs with iterations of 0.1 to 50 ms (`docs/accuracy/recording.md`).
const AROUND: (f64, f64) = (20_000.0, 0.05);
/// Nanoseconds by which two clocks may differ: some versions of PyTorch write traces in whole microseconds.
const CLOCKS: f64 = 1000.0;

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
        self.correction = Correction::of(self, trace, recording);
    }
}

impl Correction {
    fn of(rank: &RankBreakdown, trace: &Trace, recording: Option<&Recording>) -> Self {
        let mut correction = Correction::default();
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
        if rank.markers != Markers::ProfilerSteps {
            self.drift = Drift::of(&recording.wall);
            return Err("these iterations are not those that were timed without it".to_owned());
        }
        let overhead = Overhead::of(recording).ok_or("no iterations were timed without it")?;
        let untimed = untimed(rank, recording)?;
        self.drift = Drift::of(&recording.wall);
        self.processor = of_iterations(rank, recording.processor.as_ref());
        self.delayed = of_iterations(rank, recording.delayed.as_ref());
        self.rivals = recording.rivals;
        self.processor_drift = recording.processor.as_ref().filter(|_| !self.processor.is_empty()).and_then(Drift::of);
        self.slows_python = recording.slows_python();
        self.warnings.extend(overhead.doubts.iter().cloned());
        let contradiction = overhead.contradiction();
        let overhead = self.overhead.insert(overhead);
        match contradiction {
            Some(why) => Err(why),
            None => {
                self.iterations = match self.slows_python {
                    true => take_out_of_python(rank, trace, overhead, &untimed),
                    false => take_out(rank, trace, overhead, &untimed, &mut self.warnings),
                };
                self.warnings.extend(check(rank, &self.iterations, overhead));
                Ok(())
            }
        }
    }
}

/// The value of each iteration; empty unless it is stored for all.
fn of_iterations(rank: &RankBreakdown, times: Option<&Times>) -> Vec<u64> {
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
fn untimed(rank: &RankBreakdown, recording: &Recording) -> Result<Vec<f64>, String> {
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

/// The correction if recording slows Python itself down: events get their known cost, and Python the rest.
fn take_out_of_python(rank: &RankBreakdown, trace: &Trace, overhead: &Overhead, untimed: &[f64]) -> Vec<Corrected> {
    let mut costs = costs::costs(rank, trace);
    let python = |sets: &Sets| sets.idle(TimeCategory::Python) as f64;
    let known: Vec<f64> = costs.iter().map(|costs| 1000.0 * costs.values().flatten().sum::<f64>()).collect();
    let all: Vec<f64> = rank.iterations.iter().map(|iteration| python(&iteration.sets)).collect();
    let slower = ((overhead.taken() - mean(&known)) / mean(&all).max(1.0)).max(0.0);
    let corrected = |(place, iteration): (usize, &Iteration)| {
        for (operation, sets) in &iteration.operations {
            let own = costs[place].entry(*operation).or_default();
            own[TimeCategory::Python.index()] += slower * python(sets) / 1000.0;
        }
        let nanoseconds = known[place] + slower * all[place] + untimed[place];
        let divided = Divided::of(iteration, &costs[place], nanoseconds.round() as i64);
        Corrected { total: divided.sets.total(), divided: Some(divided) }
    };
    rank.iterations.iter().enumerate().map(corrected).collect()
}

/// The iterations without the overhead of recording, which is split by the cost of each iteration's events.
fn take_out(
    rank: &RankBreakdown,
    trace: &Trace,
    overhead: &Overhead,
    untimed: &[f64],
    warnings: &mut Vec<String>,
) -> Vec<Corrected> {
    let costs = costs::costs(rank, trace);
    let sums: Vec<f64> = costs.iter().map(|costs| costs.values().flatten().sum()).collect();
    let ordinary = sums.iter().zip(&overhead.ordinary).filter(|(_, ordinary)| **ordinary).map(|(sum, _)| *sum);
    let (added, by_events) = (overhead.taken(), mean(&ordinary.collect::<Vec<_>>()));
    let (known, all) = (1000.0 * by_events, added + mean(untimed));
    let explained = known * EXPLAINED >= all;
    if !explained {
        let percent = 100.0 * known / all;
        warnings.push(format!(
            "the cost of recording is not split by category: by what events are known to cost, they explain {percent:.0} % of it"
        ));
    }
    let corrected = |(place, iteration): (usize, &Iteration)| {
        // If the events do not explain the cost, every iteration gets the same.
        let own = if explained && by_events > 0.0 { added / by_events * sums[place] } else { added };
        let divided = Divided::of(iteration, &costs[place], (own + untimed[place]).round() as i64);
        Corrected { total: divided.sets.total(), divided: explained.then_some(divided) }
    };
    rank.iterations.iter().enumerate().map(corrected).collect()
}

/// Compares the corrected iterations that are shown with those without recording.
fn check(rank: &RankBreakdown, corrected: &[Corrected], overhead: &mut Overhead) -> Vec<String> {
    let counted = rank.counted().map(|one| (corrected[one.number].total as f64, overhead.ordinary.get(one.number)));
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
