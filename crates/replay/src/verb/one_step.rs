//! The replayed step as the files of its operations hold it: as long as it is reported, from the first begin to the last end.

use crate::replayed_job::ReplayedJob;
use crate::simulate::simulate;

/// The same replay with ranks that begin less late. A rank that is late for the whole step because of the end of the one
/// before would have that time twice: before its begin, and at its end.
pub(super) fn single_step(replayed: &ReplayedJob) -> ReplayedJob {
    let mut one = replayed.clone();
    let graph = &mut one.step.graph;
    let twice = replayed.schedule.makespan(graph).saturating_sub(replayed.step.time(&replayed.schedule));
    for start in one.step.ranks.iter().map(|rank| rank.start) {
        graph.set_duration(start, graph.node(start).duration.saturating_sub(twice));
    }
    one.schedule = simulate(graph);
    one
}
