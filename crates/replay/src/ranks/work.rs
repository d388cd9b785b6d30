//! When the work of steps is done: where threads run ahead of their GPU, later than they launch it.

use super::launches;
use super::steps::TrainingStep;
use perf4sight_traces::Trace;
use perf4sight_traces::intervals::Interval;

/// Sets the work of steps, where the GPU is done with most of them later than the thread might be with the next.
pub(super) fn set(steps: &mut [TrainingStep], trace: &Trace) {
    let Some(works) = work_intervals(steps, trace) else { return };
    let is_behind = |step: &TrainingStep, work: &Interval| work.1 - step.window.1 > step.window.1 - step.window.0;
    let behind = steps.iter().zip(&works).filter(|(step, work)| is_behind(step, work)).count();
    if 2 * behind > steps.len() {
        steps.iter_mut().zip(works).for_each(|(step, work)| step.work = work);
    }
}

/// From the end of what was launched before a step to that of what it launched, the first from its begin; none if a step launched nothing.
fn work_intervals(steps: &[TrainingStep], trace: &Trace) -> Option<Vec<Interval>> {
    let launched = launches::launch_time(trace);
    let mut ends: Vec<Option<i64>> = vec![None; steps.len()];
    let mut between: Vec<i64> = vec![i64::MIN; steps.len()];
    let mut begin = None;
    for event in trace.events.iter().filter(|event| event.category.on_device()) {
        let moment = launched(event);
        let step = steps.partition_point(|step| step.window.0 <= moment).checked_sub(1);
        let Some(step) = step else { continue };
        if moment < steps[step].window.1 {
            begin = begin.or(Some(event.start));
            ends[step] = ends[step].max(Some(event.end()));
        } else {
            between[step] = between[step].max(event.end());
        }
    }
    let mut begin = begin?;
    let work = |(end, between): (Option<i64>, i64)| {
        let work = (begin, end?.max(begin));
        begin = work.1.max(between);
        Some(work)
    };
    ends.into_iter().zip(between).map(work).collect()
}
