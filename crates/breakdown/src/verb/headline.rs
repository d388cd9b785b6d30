//! The headline: the dominant part of an iteration, and the published speedup.

use super::run::TracedRun;
use super::tables::{RankScope, range};
use super::waiting;
use crate::categories::recorded::is_cut_off;
use crate::categories::sets::TimeSets;
use crate::{DeviceTime, GpuWork, Iteration, Metric, RankBreakdown, TimeCategory, TrainingOperation};
use perf4sight_base::units::{Milliseconds, Percent, count_text};
use perf4sight_record::{DOUBTFUL, LongestIterations, ProcessorRivals};
use perf4sight_traces::LOADER_WITH_WORKERS;
use perf4sight_traces::shortened::cut;
use std::collections::BTreeMap;

/// If the two largest parts differ by less than this share of an iteration, both are reported: their order changes from
/// run to run.
const ALIKE: f64 = 0.05;

/// A share above one half: of the time for a dominant operation or function, of all time for rare, long iterations, and
/// of the time without a processor for the time ready to run.
const MOST: f64 = 0.5;

/// Time without a processor is reported from this share of an iteration on. Smaller shares are uncertain, because the
/// two clocks are read one after the other.
pub(super) const NOT_RUNNING: f64 = 0.05;

/// What the name of the part without a processor begins with.
const NOT_RUNNING_NAME: &str = "not running";

/// The part of an iteration in which the main thread waited for other threads of its process.
pub(super) const HELD_UP: &str = "held up by other threads";

const NAME: usize = 60;

/// Profilers do not write events in the order of time: what a trace lacks may be in any iteration.
const CUT_OFF: &str = "what dominates is not known: the trace is cut off, and the time of events that it lacks counts as that of their callers";

type HeadlinePart = (&'static str, f64);

/// The headline: the dominant operation and function of the script, then the dominant category.
pub(super) fn headline(run: &TracedRun) -> String {
    let means = RankScope::main(run).map(IterationMeans);
    let total = means.as_ref().and_then(|means| means.mean(|iteration| Some(iteration.sets.total() as f64)));
    let (Some(means), Some(total)) = (means, total.filter(|total| *total > 0.0)) else {
        return "there is no iteration to break down".to_owned();
    };
    if run.ranks().any(|(ranked, _)| is_cut_off(&ranked.trace)) {
        return CUT_OFF.to_owned();
    }
    let IterationShares { parts, doubted, utilisation } = shares(&means, total, run.has_accelerators());
    let slowed = slowdown_remark(run, &means, &parts);
    let apart = counted_apart(&parts);
    let operation = operation(run);
    let loaders = operation.as_ref().map_or("", |operation| loaders(run, operation, &parts));
    let operation = operation.map(|(name, share)| format!("{} ({})", cut(name, NAME), Percent(100.0 * share)));
    let place = [operation, function(run)].into_iter().flatten().collect::<Vec<_>>().join(", in ");
    let place = if place.is_empty() { place } else { place + ": " };
    let dominating = format!(
        "what dominates: {place}{}{loaders}{slowed}{apart}",
        dominating(parts, doubted, &iteration_time_text(run, &means, total), [means.likely_cause(), means.holders()]),
    );
    let changed = run
        .breakdown
        .changed_iterations()
        .map(|changed| format!("{}, and what follows is the mean of the recorded ones", changed.sentence()));
    let waiting = waiting::waiting(run);
    let sentences =
        [changed, unseen_long_ones(run), waiting, Some(dominating), utilisation, Some(speedup(run, &means))];
    sentences.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn is_slowed(run: &TracedRun) -> bool {
    run.breakdown.ranks.iter().any(|rank| rank.correction.slows_python)
}

/// What recording adds to Python, where that matters.
fn slowdown_remark(run: &TracedRun, means: &IterationMeans<'_>, parts: &[HeadlinePart]) -> &'static str {
    let matters = parts.iter().any(|(name, share)| *name == TimeCategory::Python.name() && *share > ALIKE);
    let is_known = means.0.corrected_time(|sets| sets.category(TimeCategory::Python)).is_some();
    match (is_slowed(run) && matters, is_known) {
        (false, _) => "",
        (true, true) => {
            " (recording slows Python up to 3.11 itself, so that Python's share is too large: see the column corrected)"
        }
        (true, false) => {
            " (recording slows Python up to 3.11 itself, so that Python's share is too large, by how much is not known)"
        }
    }
}

/// Where to look where the script waits for data: the loader's processes leave no events.
fn loaders(run: &TracedRun, (name, _): &(&str, f64), parts: &[HeadlinePart]) -> &'static str {
    let loads = run.ranks().any(|(ranked, _)| {
        let names = &ranked.trace.names;
        TrainingOperation::DataLoading.label(names) == *name
            && names.all().any(|(_, name)| name.contains(LOADER_WITH_WORKERS))
    });
    let most = parts.iter().max_by(|one, other| one.1.total_cmp(&other.1));
    match loads && most.is_some_and(|(name, _)| *name == TimeCategory::Wait.name()) {
        true => " (what loader processes do meanwhile is not recorded; with num_workers=0 it is)",
        false => "",
    }
}

/// The operation that takes most of the time, if one does, and its share.
fn operation(run: &TracedRun) -> Option<(&str, f64)> {
    let mut times: BTreeMap<&str, i64> = BTreeMap::new();
    let mut all = 0;
    for (ranked, rank) in run.ranks() {
        for (operation, sets) in rank.counted_iterations().flat_map(|iteration| &iteration.operations) {
            all += sets.total();
            if *operation != TrainingOperation::Other {
                *times.entry(operation.label(&ranked.trace.names)).or_default() += sets.total();
            }
        }
    }
    let (name, time) = times.into_iter().max_by_key(|(_, time)| *time)?;
    let share = time as f64 / all as f64;
    (share > MOST).then_some((name, share))
}

/// `train.py:17 <listcomp> (60 %)`: the innermost function of the script in which most of the time is spent.
fn function(run: &TracedRun) -> Option<String> {
    let (_, stacks) = run.stacks().next()?;
    let (function, time) = stacks.dominant_function(MOST)?;
    let share = time as f64 / stacks.window as f64;
    Some(format!("{} ({})", function.place(), Percent(100.0 * share)))
}

struct IterationMeans<'a>(RankScope<'a>);

impl IterationMeans<'_> {
    /// The likely cause of time without a processor, from the kernel's count of the time ready to run, if recorded.
    fn likely_cause(&self) -> String {
        let delayed = |rank: &RankBreakdown, one: &Iteration| Some(*rank.correction.delayed.get(one.number)? as f64);
        let delayed = self.0.summary_of(delayed).zip(self.not_running());
        match (delayed.map(|(delayed, not_running)| delayed.mean > MOST * not_running), self.0.has_python()) {
            (Some(true), _) => format!(" (ready to run, but others had the processor: {})", rivals(self.0.rivals())),
            (Some(false), true) => " (it waited in a call that is not known to wait, as for a disk)".to_owned(),
            (Some(false), false) => " (it waited; in which call is not known without --stacks)".to_owned(),
            (None, true) => {
                " (other programs, its own loader processes or a limit on CPUs had the processor, or it waited in a call that is not known to)"
                    .to_owned()
            }
            (None, false) => {
                " (it waited, in which call is not known without --stacks, or other programs, its own loader processes or a limit on CPUs had \
                 the processor)"
                    .to_owned()
            }
        }
    }

    /// Nanoseconds of a mean iteration in which the process had no processor.
    fn not_running(&self) -> Option<f64> {
        self.0.summary_of(|rank, iteration| Some(rank.not_running(iteration)? as f64)).map(|summary| summary.mean)
    }

    /// Nanoseconds of a mean iteration in which other threads of the process ran, and the main thread did not.
    fn held_up(&self) -> Option<f64> {
        self.0.summary_of(|rank, iteration| Some(rank.held_up(iteration)? as f64)).map(|summary| summary.mean)
    }

    /// Which threads may have held the main thread up.
    fn holders(&self) -> String {
        match self.0.python_threads() {
            Some(0) => " (it waited while other threads of the process ran, none of which runs Python)".to_owned(),
            Some(count) => format!(
                " (it waited while other threads of the process ran: {} may have held the interpreter lock, the GIL, which calls then wait for)",
                count_text(count, "other Python thread")
            ),
            None => " (it waited while other threads of the process ran)".to_owned(),
        }
    }

    fn mean(&self, number: impl Fn(&Iteration) -> Option<f64>) -> Option<f64> {
        self.0.summary(number).map(|summary| summary.mean)
    }
}

/// Who had the processors, as far as it was seen.
fn rivals(seen: ProcessorRivals) -> String {
    let share = |time: Option<u64>| Some(time? as f64 / seen.wall.filter(|wall| *wall > 0)? as f64);
    let (children, throttled) = (share(seen.children), share(seen.throttled));
    let limit = throttled.filter(|share| *share > NOT_RUNNING);
    let limit = limit.map(|_| "a limit on CPUs of its container or group stopped it".to_owned());
    let busy = children.filter(|cpus| *cpus > NOT_RUNNING);
    let busy = busy.map(|cpus| format!("its own child processes, as of a loader, kept {cpus:.1} CPUs busy"));
    let seen: Vec<String> = [limit, busy].into_iter().flatten().collect();
    match (seen.is_empty(), children, throttled) {
        (false, ..) => seen.join(", and "),
        (true, None, None) => "other programs, its own loader processes, or a limit on CPUs".to_owned(),
        (true, Some(_), None) => "other programs, or a limit on CPUs".to_owned(),
        (true, None, Some(_)) => "other programs, or its own loader processes".to_owned(),
        (true, Some(_), Some(_)) => "other programs".to_owned(),
    }
}

/// An iteration in parts. With an accelerator they are the kinds of its work, and the categories while it is idle.
struct IterationShares {
    parts: Vec<HeadlinePart>,
    /// What is in no part: work of an accelerator whose recorded duration is impossible. With the parts it adds up to the iteration.
    doubted: f64,
    /// How busy the accelerator is.
    utilisation: Option<String>,
}

fn shares(means: &IterationMeans<'_>, total: f64, accelerators: bool) -> IterationShares {
    let share = |time: f64| time / total;
    let of_categories = |time: &dyn Fn(&Iteration, TimeCategory) -> Option<i64>| -> Vec<HeadlinePart> {
        let mean = |category| means.mean(|iteration| Some(time(iteration, category)? as f64)).map(share);
        TimeCategory::ALL.into_iter().filter_map(|category| Some((category.name(), mean(category)?))).collect()
    };
    if !accelerators {
        let parts = of_categories(&|iteration, category| iteration.sets.category(category));
        let parts = without_processor(parts, means.not_running().map(share));
        let parts = without_interpreter(parts, means.held_up().map(share));
        return IterationShares { parts, doubted: 0.0, utilisation: None };
    }
    let of_device = |time: &dyn Fn(&DeviceTime) -> i64| means.mean(|one| Some(time(&one.device) as f64)).map(share);
    let certain = |work: GpuWork| {
        Some((work.name(), of_device(&|device| device.exposed_time(work) - device.doubted_time(work))?))
    };
    let doubted =
        of_device(&|device| GpuWork::ALL.into_iter().map(|work| device.doubted_time(work)).sum()).unwrap_or(0.0);
    let idle = of_categories(&|iteration, category| iteration.sets.get(category, false));
    let busy = of_device(&|device| device.busy).unwrap_or(0.0);
    let utilisation = format!(
        "the GPU is busy for {} of it, and categories count while it is idle, copies and collectives while no kernel computes",
        Percent(100.0 * busy)
    );
    let parts = GpuWork::ALL.into_iter().filter_map(certain).chain(idle).collect();
    IterationShares { parts, doubted, utilisation: Some(utilisation) }
}

/// Adds the time without a processor as a part of its own. If Python is not recorded, waiting leaves no events either,
/// so that time is subtracted from the joint categories first; the rest is subtracted from all parts that would have
/// run.
fn without_processor(parts: Vec<HeadlinePart>, not_running: Option<f64>) -> Vec<HeadlinePart> {
    let Some(not_running) = not_running.filter(|share| *share > NOT_RUNNING) else { return parts };
    let is = |part: &HeadlinePart, category: TimeCategory| part.0 == category.name();
    let may_wait = |part: &HeadlinePart| is(part, TimeCategory::PythonOrWait) || is(part, TimeCategory::Unrecorded);
    let sum =
        |holds: &dyn Fn(&HeadlinePart) -> bool| parts.iter().filter(|part| holds(part)).map(|part| part.1).sum::<f64>();
    let waiting = sum(&may_wait).min(not_running);
    let running = sum(&|part| !may_wait(part) && !is(part, TimeCategory::Wait));
    let left = |taken: f64, of: f64| if of > 0.0 { (1.0 - taken / of).max(0.0) } else { 1.0 };
    let scale = |part: &HeadlinePart| match (is(part, TimeCategory::Wait), may_wait(part)) {
        (true, _) => 1.0,
        (false, true) => left(waiting, sum(&may_wait)),
        (false, false) => left(not_running - waiting, running),
    };
    let name = if sum(&may_wait) > 0.0 { "not running or waiting" } else { NOT_RUNNING_NAME };
    parts.iter().map(|part| (part.0, part.1 * scale(part))).chain([(name, not_running)]).collect()
}

/// Adds the time in which other threads held the main thread up as a part of its own, and subtracts it from all parts in which it would have run.
fn without_interpreter(parts: Vec<HeadlinePart>, held_up: Option<f64>) -> Vec<HeadlinePart> {
    let Some(held_up) = held_up.filter(|share| *share > NOT_RUNNING) else { return parts };
    let runs = [TimeCategory::Python, TimeCategory::Cpp, TimeCategory::CudaApi, TimeCategory::CppOrCudaApi];
    let is_of = |part: &HeadlinePart| runs.iter().any(|category| category.name() == part.0);
    let running: f64 = parts.iter().filter(|part| is_of(part)).map(|part| part.1).sum();
    let held_up = held_up.min(running);
    let left = if running > 0.0 { 1.0 - held_up / running } else { 1.0 };
    let scaled = |part: &HeadlinePart| (part.0, if is_of(part) { part.1 * left } else { part.1 });
    parts.iter().map(scaled).chain([(HELD_UP, held_up)]).collect()
}

/// The remark that the parts do not hold the time without a processor, or held up, which categories of the table do hold.
fn counted_apart(parts: &[HeadlinePart]) -> String {
    let largest = parts.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    let is_apart = |name: &str| name.starts_with(NOT_RUNNING_NAME) || name == HELD_UP;
    let apart = parts.iter().filter(|(name, share)| is_apart(name) && largest - share >= ALIKE);
    let apart: Vec<String> = apart.map(|(name, share)| format!("{name} {}", Percent(100.0 * share))).collect();
    match apart.is_empty() {
        true => String::new(),
        false => format!(" (besides: {}; categories of the table include that)", apart.join(", ")),
    }
}

/// Long iterations that take most of the time and that the trace has none of, as where a script validates every hundredth step.
fn unseen_long_ones(run: &TracedRun) -> Option<String> {
    let long = run.breakdown.weighty_long_iterations()?;
    let LongestIterations { count, recorded: [recorded, _], share, .. } = long.longest;
    (share > MOST && recorded == 0).then(|| {
        format!(
            "{count} of {} take {} of all time and none of them was recorded: what they do is not known here, and what follows is of the others",
            count_text(long.of as u64, "timed iteration"),
            Percent(100.0 * share)
        )
    })
}

/// The mean of all iterations, where long ones make it another than the one that is shown: what an epoch takes follows from it. How many of them are
/// among the iterations of the trace is chance.
fn mean_of_all_text(run: &TracedRun, means: &IterationMeans<'_>, total: f64) -> Option<String> {
    let (long, all) = (run.breakdown.weighty_long_iterations()?, means.0.mean_of_all()?);
    let shown = means.0.without_recording().filter(|_| means.0.correction_holds()).map_or(total, |shown| shown.mean);
    if (all.mean / shown - 1.0).abs() <= DOUBTFUL && long.share() <= MOST {
        return None;
    }
    let milliseconds = |nanoseconds: f64| Milliseconds(nanoseconds / 1e6);
    let interval = all
        .interval
        .map_or(String::new(), |ends| format!(", with 95 % {}", range(ends.map(|end| milliseconds(end).to_string()))));
    let LongestIterations { count, mean, recorded: [recorded, of_recorded], share } = long.longest;
    Some(format!(
        "; the mean of all, long ones included: {}{interval}, for {count} of {} took {}, {} of all time; {recorded} of the {of_recorded} here did",
        milliseconds(all.mean),
        count_text(long.of as u64, "timed iteration"),
        milliseconds(mean),
        Percent(100.0 * share)
    ))
}

/// The largest part, or the two largest if they are almost equal; unknown if the doubted share is larger.
fn dominating(mut parts: Vec<HeadlinePart>, doubted: f64, whole: &str, [blamed, holders]: [String; 2]) -> String {
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let percent = |share: f64| Percent(100.0 * share);
    if parts.first().is_some_and(|(_, share)| *share < doubted) {
        return format!(
            "not known, for kernels and copies whose recorded times cannot be take {} of {whole}",
            percent(doubted)
        );
    }
    let alike = matches!(parts.as_slice(), [(_, one), (_, two), ..] if one - two < ALIKE);
    parts.truncate(if alike { 2 } else { 1 });
    let shares = match parts.as_slice() {
        [] => return "nothing".to_owned(),
        [(only, share)] => format!("{only}, with {}", percent(*share)),
        [(first, one), (second, two), ..] => {
            format!("{first} and {second} alike, with {} and {}", percent(*one), percent(*two))
        }
    };
    let python = parts.iter().any(|(name, _)| *name == TimeCategory::Python.name());
    let unknown = parts.first().is_some_and(|(name, _)| *name == TimeCategory::PythonOrWait.name());
    let doubt = match parts.first() {
        Some((first, _)) if first.starts_with(NOT_RUNNING_NAME) => blamed,
        _ if parts.iter().any(|(name, _)| *name == HELD_UP) => holders,
        _ if unknown => " (which of them, and in which function, record --stacks shows)".to_owned(),
        _ if python => {
            " (calls into C that leave no event, as NumPy's operators and ctypes, count as Python)".to_owned()
        }
        _ => String::new(),
    };
    let left_out = match doubted > ALIKE {
        true => format!(" ({} more are kernels and copies whose recorded times cannot be)", percent(doubted)),
        false => String::new(),
    };
    format!("{shares} of {whole}{doubt}{left_out}")
}

/// The time of an iteration, with and without recording, and the mean of all where that is another one.
fn iteration_time_text(run: &TracedRun, means: &IterationMeans<'_>, total: f64) -> String {
    let milliseconds = |nanoseconds: f64| Milliseconds(nanoseconds / 1e6);
    let all = mean_of_all_text(run, means, total).unwrap_or_default();
    let without = means.0.without_recording().map(|without| {
        let sure = without.interval.map(|ends| range(ends.map(|end| milliseconds(end).to_string())));
        match (means.0.correction_holds(), sure) {
            (true, Some(sure)) => format!(" ({} without recording, with 95 % {sure}{all})", milliseconds(without.mean)),
            (true, None) => format!(" ({} without recording{all})", milliseconds(without.mean)),
            (false, Some(sure)) => format!(" ({sure} without recording, with 95 %{all})"),
            (false, None) => format!(" (how long it takes without recording is not known{all})"),
        }
    });
    format!("{}'s {}{}", run.iteration_noun(), milliseconds(total), without.unwrap_or_default())
}

/// The published number: the time of an iteration divided by its time in calls into C++ and CUDA. It overestimates the
/// possible gain if Python runs while the GPU is busy. It is the ratio of the means, so that it matches the times shown
/// next to it; the mean of the iterations' own ratios would not.
pub(super) fn theoretical_speedup(whose: RankScope) -> Option<f64> {
    speedup_of(whose, |_, iteration| Some(&iteration.sets))
}

/// The same without what recording takes, where that is known by category, and its 95 % interval, which covers how uncertain the
/// cost of recording is.
fn corrected_speedup(whose: RankScope) -> Option<(f64, [f64; 2])> {
    let corrected = speedup_of(whose, |rank, iteration| rank.corrected(iteration)?.sets())?;
    let ends = [0, 1].map(|end| without_cost(whose, end));
    let [low, high] = [ends[0]?, ends[1]?].map(|(total, calls)| total / calls);
    let both = match whose.is_waiting() {
        // The time of such an iteration is uncertain for other reasons than that of its calls.
        true => {
            let [least, most] = whose.without_recording()?.interval?;
            [least / ends[0]?.1, most / ends[1]?.1]
        }
        false => [low, high],
    };
    let interval = [both[0].min(both[1]).min(corrected), both[0].max(both[1]).max(corrected)];
    whose.correction_holds().then_some((corrected, interval))
}

/// Nanoseconds of a mean iteration and of its calls into C++ and CUDA, if recording costs what one end of its interval says; none if
/// that is more than there is.
fn without_cost(whose: RankScope, end: usize) -> Option<(f64, f64)> {
    let number = |rank: &RankBreakdown, one: &Iteration, of: &dyn Fn(&TimeSets) -> Option<f64>| {
        let (worked, interval) = rank.correction.overhead.as_ref()?.worked();
        let (recorded, corrected) = (of(&one.sets)?, of(rank.corrected(one)?.sets()?)?);
        (worked > 0.0).then(|| recorded - (recorded - corrected) * interval[end] / worked)
    };
    let mean = |of: &dyn Fn(&TimeSets) -> Option<f64>| Some(whose.summary_of(|rank, one| number(rank, one, of))?.mean);
    let (total, calls) =
        (mean(&|sets| Metric::TotalTimeSec.compute(sets))?, mean(&|sets| Metric::CppAndGPUTimeSec.compute(sets))?);
    (calls > 0.0).then_some((1e9 * total, 1e9 * calls))
}

fn speedup_of(
    whose: RankScope,
    sets: for<'a> fn(&'a RankBreakdown, &'a Iteration) -> Option<&'a TimeSets>,
) -> Option<f64> {
    let mean = |metric: Metric| Some(whose.summary_of(|rank, one| metric.compute(sets(rank, one)?))?.mean);
    whose.summary_of(|rank, one| Some(sets(rank, one)?.category(TimeCategory::Python)? as f64))?;
    let calls = mean(Metric::CppAndGPUTimeSec).filter(|calls| *calls > 0.0)?;
    Some(mean(Metric::TotalTimeSec)? / calls)
}

fn speedup(run: &TracedRun, means: &IterationMeans<'_>) -> String {
    let python = means.mean(|iteration| Some(iteration.sets.category(TimeCategory::Python)? as f64));
    match (theoretical_speedup(means.0), python) {
        (Some(speedup), _) => {
            let without = match corrected_speedup(means.0) {
                Some((without, [low, high])) => {
                    format!("; {without:.2} times without what recording takes, with 95 % {low:.2} – {high:.2}")
                }
                None if is_slowed(run) => "; too large, for recording slows Python".to_owned(),
                None if means.0.without_recording().is_some() => {
                    "; without what recording takes it is not known".to_owned()
                }
                None => String::new(),
            };
            let total = means.mean(|one| Some(one.sets.total() as f64)).unwrap_or(0.0);
            let held_up = match means.held_up().is_some_and(|held_up| held_up > NOT_RUNNING * total) {
                true => "; calls hold the wait for other threads, which makes it too small",
                false => "",
            };
            format!(
                "if everything outside C++ and CUDA were free: {speedup:.2} times as fast (TheoreticalSpeedup{without}{held_up})"
            )
        }
        (None, Some(_)) => {
            "nothing of it is in calls into C++ and CUDA, so that there is no TheoreticalSpeedup".to_owned()
        }
        (None, None) => "TheoreticalSpeedup is unknown, for Python is".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(parts: &[(TimeCategory, f64)], not_running: f64) -> Vec<(&'static str, i64)> {
        let parts = parts.iter().map(|(category, share)| (category.name(), *share)).collect();
        let percent = |part: HeadlinePart| (part.0, (100.0 * part.1).round() as i64);
        without_processor(parts, Some(not_running)).into_iter().map(percent).collect()
    }

    /// By hand: in 10 s, child processes worked for 19 s, and a limit stopped the process for 4 s.
    #[test]
    fn who_had_the_processor_is_told_as_far_as_it_was_seen() {
        let second = 1_000_000_000;
        let told = |children: Option<u64>, throttled: Option<u64>| {
            let times = |seconds: u64| seconds * second;
            rivals(ProcessorRivals {
                wall: Some(10 * second),
                children: children.map(times),
                throttled: throttled.map(times),
            })
        };
        let (children, limit) = (
            "its own child processes, as of a loader, kept 1.9 CPUs busy",
            "a limit on CPUs of its container or group stopped it",
        );
        assert_eq!(told(Some(19), Some(0)), children);
        assert_eq!(told(Some(19), Some(4)), format!("{limit}, and {children}"));
        assert_eq!(told(Some(0), Some(0)), "other programs");
        assert_eq!(told(Some(0), None), "other programs, or a limit on CPUs");
        assert_eq!(rivals(ProcessorRivals::default()), "other programs, its own loader processes, or a limit on CPUs");
    }

    /// Calculated by hand: half of an iteration is held up; Python and C++ lose 50 of 90 in proportion to their time.
    #[test]
    fn time_in_which_other_threads_ran_is_no_cpp() {
        let parts = [(TimeCategory::Python, 0.18), (TimeCategory::Cpp, 0.72), (TimeCategory::Wait, 0.1)];
        let parts = without_interpreter(parts.map(|(category, share)| (category.name(), share)).to_vec(), Some(0.5));
        let percent: Vec<_> = parts.into_iter().map(|(name, share)| (name, (100.0 * share).round() as i64)).collect();
        assert_eq!(percent, [("Python", 8), ("C++", 32), ("wait", 10), (HELD_UP, 50)]);
    }

    /// The table has C++ with 90 %: 20 without a processor and 12 held up are in it. What is nearly the largest part is named itself.
    #[test]
    fn what_the_table_counts_within_categories_is_said() {
        let parts = [("C++", 0.58), ("wait", 0.1), (NOT_RUNNING_NAME, 0.2), (HELD_UP, 0.12)];
        let said =
            " (besides: not running 20.0 %, held up by other threads 12.0 %; categories of the table include that)";
        assert_eq!(counted_apart(&parts), said);
        assert_eq!(counted_apart(&[("C++", 0.46), (NOT_RUNNING_NAME, 0.44)]), "");
    }

    /// Calculated by hand: of 60 % without a processor, none of it known waiting, Python and C++ lose in proportion to
    /// their time, 10 of 90 and 80 of 90. If waiting leaves no events, the joint category loses first. Small shares are
    /// ignored.
    #[test]
    fn time_without_a_processor_is_taken_from_what_would_have_run() {
        use TimeCategory::{Cpp, Python, PythonOrWait, Wait};
        let parts = [(Python, 0.1), (Cpp, 0.8), (Wait, 0.1)];
        assert_eq!(shares(&parts, 0.6), [("Python", 3), ("C++", 27), ("wait", 10), ("not running", 60)]);
        assert_eq!(shares(&parts, 0.04), [("Python", 10), ("C++", 80), ("wait", 10)]);
        let unknown = [(Cpp, 0.1), (PythonOrWait, 0.9)];
        assert_eq!(shares(&unknown, 0.9), [("C++", 10), ("Python or wait", 0), ("not running or waiting", 90)]);
    }
}
