//! The gradients of a step, and the link that reduces them.

use super::{AllReduceLink, ReadyGradient, check};
use perf4sight_base::error::Result;
use perf4sight_replay::buckets::{buckets_behind_gradients, gradient_sizes};
use perf4sight_replay::collectives::CollectiveOperation;
use perf4sight_replay::communication::CommunicationCosts;
use perf4sight_replay::graph::StepGraph;
use perf4sight_replay::simulate::NodeSchedule;

/// Bytes of an all-reduce whose latency does not matter.
const MANY: u64 = 1 << 40;

/// The gradients with when they are ready on all ranks, and the link that reduces them.
///
/// # Errors
/// Steps without gradients, ranks with different ones, all-reduces that are not those of their buckets.
pub fn of_step(
    step: &StepGraph,
    communication: &CommunicationCosts,
    schedule: &NodeSchedule,
) -> Result<(Vec<ReadyGradient>, AllReduceLink)> {
    let buckets = buckets_behind_gradients(step, schedule)?;
    let ready = |place: usize| {
        let ends = step.ranks.iter().flat_map(|rank| {
            let own = &rank.gradients[place];
            [Some(own.ready), own.kernel]
        });
        ends.flatten().map(|node| schedule.end(&step.graph, node)).max().unwrap_or(0) as f64 / 1e6
    };
    let mut latest: f64 = 0.0;
    let gradients = gradient_sizes(step)?.into_iter().enumerate().map(|(place, bytes)| {
        latest = latest.max(ready(place));
        ReadyGradient { ready_ms: latest, bytes, pass: step.ranks[0].gradients[place].pass }
    });
    let gradients: Vec<ReadyGradient> = gradients.collect();
    let group = step.transfers[buckets[0].0].group;
    let time = |bytes| {
        communication.time(group, CollectiveOperation::AllReduce, step.groups[group].size, bytes).unwrap_or(0.0) / 1e6
    };
    let link = AllReduceLink { alpha_ms: time(0), ms_per_byte: (time(MANY) - time(0)) / MANY as f64 };
    check(&gradients, link)?;
    Ok((gradients, link))
}
