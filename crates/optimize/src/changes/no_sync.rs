//! A pass of gradient accumulation that is not the last: nothing is reduced, nothing updated.

use perf4sight_base::error::Result;
use perf4sight_replay::buckets::buckets_of;
use perf4sight_replay::graph::{Kind, TransferPart};
use perf4sight_replay::what_if::{Change, Scenario, parse};

/// What the profiler names the update by. A script without such a range has an update that nobody named: it is counted in every pass.
const UPDATE: [&str; 2] = ["Optimizer.step", "Optimizer.zero_grad"];

/// `no_sync()` of DistributedDataParallel.
#[derive(Debug, Clone, Copy)]
pub struct NoSync;

impl Change for NoSync {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let step = &mut scenario.step;
        let removed: Vec<usize> = buckets_of(step)?.into_iter().map(|(index, _)| index).collect();
        let mut builder = step.graph.edit();
        for transfer in removed.iter().map(|index| &step.transfers[*index]) {
            builder.remove(transfer.node);
            let launches = transfer.parts.iter().map(|part| part.launch);
            let launches = launches.filter(|id| step.graph.node(*id).kind == Kind::Launch);
            let calls = transfer.parts.iter().flat_map(TransferPart::issuing_nodes);
            launches.chain(calls).for_each(|id| builder.node_mut(id).duration = 0);
        }
        step.graph = builder.finish()?;
        let kept = step.transfers.iter().enumerate().filter(|(index, _)| !removed.contains(index));
        step.transfers = kept.map(|(_, transfer)| transfer.clone()).collect();
        for prefix in UPDATE {
            if scenario.step.graph.calls().names().any(|name| name.starts_with(prefix)) {
                parse(&format!("remove operations '{prefix}*'"))?.apply(scenario)?;
            }
        }
        Ok(())
    }
}
