//! The line that says what takes most of an iteration, and what the published speedup would be.

use super::run::Run;
use super::tables::corrected_total;
use crate::breakdown::{Class, Metric};
use crate::units::{Milliseconds, Percent};

/// What dominates, in one line.
pub(super) fn of(run: &Run) -> String {
    let mean = |number: &dyn Fn(&crate::breakdown::Iteration) -> Option<f64>| {
        let all = run.breakdown.summary(number);
        all.or_else(|| run.breakdown.ranks.first()?.summary(number)).map(|summary| summary.mean)
    };
    let Some(total) = mean(&|iteration| Some(iteration.sets.total() as f64)).filter(|total| *total > 0.0) else {
        return "there is no iteration to break down".to_owned();
    };
    let busy = mean(&|iteration| Some(iteration.sets.gpu_busy() as f64)).map(|time| (time, None));
    let idle = Class::ALL.into_iter().filter_map(|class| {
        mean(&|iteration| Some(iteration.sets.get(class, false)? as f64)).map(|time| (time, Some(class)))
    });
    let most = busy.into_iter().chain(idle).max_by(|a, b| a.0.total_cmp(&b.0));
    let (time, class) = most.unwrap_or((0.0, None));
    let share = Percent(100.0 * time / total);
    let without = mean(&corrected_total).map(|time| format!(" ({} without recording)", Milliseconds(time / 1e6)));
    let of = format!("{share} of an iteration's {}{}", Milliseconds(total / 1e6), without.unwrap_or_default());
    let dominates = match (class, run.has_accelerators()) {
        (None, _) => format!("the GPU dominates: it is busy for {of}"),
        (Some(class), true) => format!("{} dominates: it keeps the GPU idle for {of}", class.label()),
        (Some(class), false) => format!("{} dominates: it takes {of}", class.label()),
    };
    let speedup = match mean(&|iteration| Metric::TheoreticalSpeedup.of(&iteration.sets)) {
        Some(speedup) => {
            format!(
                "were only calls into C++ and CUDA to take time, it would be {speedup:.2} times as fast (TheoreticalSpeedup)"
            )
        }
        None if has_python(run) => {
            "nothing of it is in calls into C++ and CUDA, so that there is no TheoreticalSpeedup".to_owned()
        }
        None => "TheoreticalSpeedup is unknown, for Python is".to_owned(),
    };
    format!("{dominates}; {speedup}")
}

/// Whether all iterations tell their share of Python.
fn has_python(run: &Run) -> bool {
    let mut iterations = run.breakdown.ranks.iter().flat_map(|rank| &rank.iterations);
    iterations.all(|iteration| iteration.sets.python_recorded)
}
