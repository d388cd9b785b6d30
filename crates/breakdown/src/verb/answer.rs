//! The line that says what dominates an iteration, and what the published speedup would be.

use super::run::Run;
use super::tables::{Whose, range};
use crate::{Class, Iteration, Metric, Work};
use perf4sight_base::units::{Milliseconds, Percent};

/// Parts whose shares of an iteration lie closer than this are said to weigh alike: they change places from one run to the next.
const ALIKE: f64 = 0.05;

/// The share of all time in iterations that come seldom from which what dominates the others is not what dominates.
const MOST: f64 = 0.5;

/// A part of an iteration by its name, with its share of it.
type Part = (&'static str, f64);

/// What dominates, in one line.
pub(super) fn of(run: &Run) -> String {
    let means = Whose::main(run).map(Means);
    let total = means.as_ref().and_then(|means| means.of(|iteration| Some(iteration.sets.total() as f64)));
    match (means, total.filter(|total| *total > 0.0)) {
        (Some(means), Some(total)) => {
            let (parts, accelerators) = parts(&means, total, run.has_accelerators());
            let cut_off = run.ranks().any(|(ranked, _)| ranked.trace.damage.truncated.is_some());
            let doubt = if cut_off {
                " (of what was read: the trace is cut off, and what it lacks counts nowhere)"
            } else {
                ""
            };
            let dominating = format!("{}{doubt}{}", dominating(parts, &whole(run, &means, total)), seldom(run));
            let sentences = [Some(dominating), accelerators, Some(speedup(&means))];
            sentences.into_iter().flatten().collect::<Vec<_>>().join("; ")
        }
        _ => "there is no iteration to break down".to_owned(),
    }
}

/// Means over the iterations that count.
struct Means<'a>(Whose<'a>);

impl Means<'_> {
    fn of(&self, number: impl Fn(&Iteration) -> Option<f64>) -> Option<f64> {
        self.0.summary(number).map(|summary| summary.mean)
    }
}

/// The parts of which one may dominate, which add up to the iteration, and how far an accelerator is in use where there is one: what it
/// works on, and who keeps it idle.
fn parts(means: &Means<'_>, total: f64, accelerators: bool) -> (Vec<Part>, Option<String>) {
    let share = |time: f64| time / total;
    let of_classes = |time: &dyn Fn(&Iteration, Class) -> Option<i64>| -> Vec<Part> {
        let mean = |class| means.of(|iteration| Some(time(iteration, class)? as f64)).map(share);
        Class::ALL.into_iter().filter_map(|class| Some((class.label(), mean(class)?))).collect()
    };
    if !accelerators {
        return (of_classes(&|iteration, class| iteration.sets.class(class)), None);
    }
    let exposed =
        |work: Work| Some((work.label(), share(means.of(|iteration| Some(iteration.device.exposed(work) as f64))?)));
    let idle = of_classes(&|iteration, class| iteration.sets.get(class, false));
    let busy = means.of(|iteration| Some(iteration.device.busy as f64)).map_or(0.0, share);
    let told = format!(
        "the GPU is busy for {} of it, and classes count while it is idle, copies and collectives while no kernel computes",
        Percent(100.0 * busy)
    );
    (Work::ALL.into_iter().filter_map(exposed).chain(idle).collect(), Some(told))
}

/// That most of the time is in iterations that come seldom, as those with an evaluation, which those that were recorded need not hold.
fn seldom(run: &Run) -> String {
    let long = run.ranks().filter_map(|(_, rank)| Some((rank.overhead.as_ref()?.long?.share(), rank)));
    let most = long.max_by(|(one, _), (other, _)| one.total_cmp(other));
    let Some((share, rank)) = most.filter(|(share, _)| *share > MOST) else { return String::new() };
    let usual = rank.overhead.iter().flat_map(|overhead| &overhead.usual);
    let counted = || rank.iterations.iter().zip(usual.clone()).filter(|(iteration, _)| !iteration.warm_up);
    format!(
        " ({} of all time is in iterations that took much longer, as with an evaluation or a wait for data in them: {} of the {} here, as it \
         happened)",
        Percent(100.0 * share),
        counted().filter(|(_, usual)| !**usual).count(),
        counted().count()
    )
}

/// The largest part, or the two largest where they weigh alike.
fn dominating(mut parts: Vec<Part>, whole: &str) -> String {
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let percent = |share: f64| Percent(100.0 * share);
    let alike = matches!(parts.as_slice(), [(_, one), (_, two), ..] if one - two < ALIKE);
    parts.truncate(if alike { 2 } else { 1 });
    let told = match parts.as_slice() {
        [] => return "nothing dominates".to_owned(),
        [(only, share)] => format!("{only}, with {}", percent(*share)),
        [(first, one), (second, two), ..] => {
            format!("{first} and {second} alike, with {} and {}", percent(*one), percent(*two))
        }
    };
    let doubt = match parts.iter().any(|(name, _)| *name == Class::Python.label()) {
        true => " (calls into C that leave no event, as NumPy's operators and ctypes, count as Python)",
        false => "",
    };
    format!("what dominates: {told} of {whole}{doubt}")
}

/// How long an iteration takes, with recording and without.
fn whole(run: &Run, means: &Means<'_>, total: f64) -> String {
    let milliseconds = |nanoseconds: f64| Milliseconds(nanoseconds / 1e6);
    let without = means.0.without_recording().map(|without| {
        let sure = without.interval.map(|ends| range(ends.map(|end| milliseconds(end).to_string())));
        match (means.0.correction_holds(), sure) {
            (true, Some(sure)) => format!(" ({} without recording, with 95 % {sure})", milliseconds(without.mean)),
            (true, None) => format!(" ({} without recording)", milliseconds(without.mean)),
            (false, Some(sure)) => format!(" ({sure} without recording, with 95 %)"),
            (false, None) => " (how long it takes without recording cannot be told)".to_owned(),
        }
    });
    format!("{}'s {}{}", run.stretch(), milliseconds(total), without.unwrap_or_default())
}

/// The published number: an iteration by what of it is in calls into C++ and CUDA, which promises more than there is to gain where
/// Python runs beside the GPU. A mean of iterations' own ratios would not be that of the times shown beside it.
pub(super) fn theoretical_speedup(whose: Whose) -> Option<f64> {
    let mean = |metric: Metric| Some(whose.summary(|iteration| metric.of(&iteration.sets))?.mean);
    whose.summary(|iteration| Some(iteration.sets.class(Class::Python)? as f64))?;
    let calls = mean(Metric::CppAndGPUTimeSec).filter(|calls| *calls > 0.0)?;
    Some(mean(Metric::TotalTimeSec)? / calls)
}

fn speedup(means: &Means<'_>) -> String {
    let python = means.of(|iteration| Some(iteration.sets.class(Class::Python)? as f64));
    match (theoretical_speedup(means.0), python) {
        (Some(speedup), _) => format!("TheoreticalSpeedup, all time by that in calls into C++ and CUDA: {speedup:.2}"),
        (None, Some(_)) => {
            "nothing of it is in calls into C++ and CUDA, so that there is no TheoreticalSpeedup".to_owned()
        }
        (None, None) => "TheoreticalSpeedup is unknown, for Python is".to_owned(),
    }
}
