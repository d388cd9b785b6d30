//! A pass of gradient accumulation that is not the last: nothing is reduced, nothing updated.

use perf4sight_base::error::Result;
use perf4sight_replay::buckets::buckets_of;
use perf4sight_replay::graph::Kind;
use perf4sight_replay::what_if::{Change, Scenario, parse};

/// What the profiler names the update by.
const UPDATE: [&str; 2] = ["Optimizer.step*", "Optimizer.zero_grad*"];

/// `no_sync()` of DistributedDataParallel.
#[derive(Debug, Clone, Copy)]
pub struct NoSync;

impl Change for NoSync {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let mut builder = scenario.step.graph.edit();
        let removed: Vec<usize> = buckets_of(&scenario.step)?.into_iter().map(|(index, _)| index).collect();
        removed.iter().for_each(|index| builder.remove(scenario.step.transfers[*index].node));
        let launches = removed.iter().flat_map(|index| &scenario.step.transfers[*index].parts).map(|part| part.launch);
        let launches = launches.filter(|id| scenario.step.graph.node(*id).kind == Kind::Launch);
        launches.for_each(|id| builder.node_mut(id).duration = 0);
        scenario.step.graph = builder.finish()?;
        let mut index = 0;
        scenario.step.transfers.retain(|_| {
            index += 1;
            !removed.contains(&(index - 1))
        });
        for pattern in UPDATE {
            // A script without such a range has an update that nobody named: it is counted in every pass.
            if let Ok(change) = parse(&format!("remove operations '{pattern}'")) {
                let _ = change.apply(scenario);
            }
        }
        Ok(())
    }
}
