//! `no_sync()` of DistributedDataParallel: a pass of gradient accumulation that is not the last reduces nothing, and updates nothing.

use super::left_out::leave_out;
use super::recompute::{NodePhase, Recompute, is_operator};
use perf4sight_base::error::Result;
use perf4sight_replay::buckets::buckets_behind_gradients;
use perf4sight_replay::graph::{NodeId, ResourceId, ResourceKind, StepGraph, TaskGraph, TransferPart, WorkKind};
use perf4sight_replay::simulate::simulate;
use perf4sight_replay::what_if::{Scenario, StepChange, parse};
use std::collections::BTreeMap;
use std::ops::Range;

/// What the profiler names the update by. A script without such a range has an update that nobody named: it is counted in every pass.
const UPDATE: [&str; 2] = ["Optimizer.step", "Optimizer.zero_grad"];

/// What the assumption of several passes is.
const SAME_PARAMETERS: &str = "the step's backward passes reduce gradients of the same sizes, and are taken to add up those of the same parameters";

/// A step of which nothing is reduced, as of a batch that no update follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSync {
    /// All else happens for each batch.
    RestOfStep,
    /// What threads do before forward and after backward happens once an update, but for loading batches.
    PassesAlone,
}

/// A step of several backward passes of which the last alone reduces.
#[derive(Debug, Clone, Copy)]
pub struct NoSyncUntilLast;

/// How many backward passes of a step reduce gradients of the same sizes, as those of one model do; none where it is one, or where they differ.
pub fn alike_passes(step: &StepGraph) -> Option<usize> {
    let gradients: Vec<(u32, u64)> = step.ranks.first()?.gradients.iter().map(|one| (one.pass, one.bytes)).collect();
    alike(&gradients)
}

/// The same of gradients with their passes and bytes.
fn alike(gradients: &[(u32, u64)]) -> Option<usize> {
    let sizes = |pass: &[(u32, u64)]| {
        let mut sizes: Vec<u64> = pass.iter().map(|(_, bytes)| *bytes).collect();
        sizes.sort_unstable();
        sizes
    };
    let passes: Vec<Vec<u64>> = gradients.chunk_by(|one, next| one.0 == next.0).map(sizes).collect();
    (passes.len() > 1 && passes.windows(2).all(|pair| pair[0] == pair[1])).then_some(passes.len())
}

/// The transfers of the buckets that are reduced.
fn reducing(step: &StepGraph, is_own: impl Fn(&Range<usize>) -> bool) -> Result<Vec<usize>> {
    let buckets = buckets_behind_gradients(step, &simulate(&step.graph))?;
    Ok(buckets.into_iter().filter(|(_, bucket)| is_own(bucket)).map(|(index, _)| index).collect())
}

/// The transfers within the update, as of shards of an optimizer's states.
fn updating(step: &StepGraph) -> Vec<usize> {
    let calls = step.graph.calls();
    let is_within = |part: &TransferPart| {
        let mut path = calls.path(step.graph.node(part.issuing.0).call);
        path.any(|name| UPDATE.iter().any(|update| name.starts_with(update)))
    };
    (0..step.transfers.len()).filter(|index| step.transfers[*index].parts.iter().any(is_within)).collect()
}

/// What the reducer of PyTorch names copies into buckets and out of them (`torch/csrc/distributed/c10d/reducer.cpp`).
const COPIES: [&str; 2] = ["reducer::mul_out", "reducer::copy_bucket_to_grad"];

/// Takes out the time of copies into buckets and out of them: under `no_sync` the reducer does not look at gradients.
fn copy_nothing(graph: &mut TaskGraph) {
    let is_copy = |id: &NodeId| {
        let mut path = graph.calls().path(graph.node(*id).call);
        path.any(|name| COPIES.iter().any(|copy| name.ends_with(copy)))
    };
    let copies: Vec<NodeId> = graph.ids().filter(is_copy).collect();
    copies.into_iter().for_each(|id| graph.set_duration(id, 0));
}

impl StepChange for NoSyncUntilLast {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let step = &mut scenario.step;
        let gradients = step.ranks.first().map(|rank| rank.gradients.clone()).unwrap_or_default();
        let last = gradients.last().map(|gradient| gradient.pass);
        let removed = reducing(step, |bucket| Some(gradients[bucket.start].pass) != last)?;
        leave_out(step, &removed, [])
    }

    fn assumption(&self) -> Option<String> {
        Some(SAME_PARAMETERS.to_owned())
    }
}

/// Part of the names of what loads a batch.
const LOADER: &str = "DataLoader";

/// What threads do before forward and after backward besides loading batches and operators: Python, writing logs, a pause.
fn around_passes(graph: &TaskGraph) -> Vec<NodeId> {
    let phases = Recompute::Module.phases(graph);
    let mut passes: BTreeMap<ResourceId, [usize; 2]> = BTreeMap::new();
    for (id, _) in graph.ids().zip(&phases).filter(|(_, phase)| **phase != NodePhase::Neither) {
        passes.entry(graph.node(id).resource).or_insert([id.index(); 2])[1] = id.index();
    }
    let is_around = |id: &NodeId| {
        let own = passes.get(&graph.node(*id).resource);
        let is_outside = own.is_some_and(|[first, last]| !(*first..=*last).contains(&id.index()));
        let mut path = graph.calls().path(graph.node(*id).call);
        let is_work = matches!(graph.node(*id).kind, WorkKind::Gap | WorkKind::Operation);
        let is_on_thread = graph.resource_of(*id).kind == ResourceKind::Thread;
        is_outside && is_work && is_on_thread && !path.any(|name| name.contains(LOADER) || is_operator(name))
    };
    graph.ids().filter(is_around).collect()
}

impl StepChange for NoSync {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let removed = [reducing(&scenario.step, |_| true)?, updating(&scenario.step)].concat();
        leave_out(&mut scenario.step, &removed, [])?;
        copy_nothing(&mut scenario.step.graph);
        if *self == NoSync::PassesAlone {
            let once = around_passes(&scenario.step.graph);
            once.into_iter().for_each(|id| scenario.step.graph.set_duration(id, 0));
        }
        for prefix in UPDATE {
            if scenario.step.graph.calls().names().any(|name| name.starts_with(prefix)) {
                parse(&format!("remove operations '{prefix}*'"))?.apply(scenario)?;
            }
        }
        Ok(())
    }

    fn bounds(&self) -> Vec<Box<dyn StepChange>> {
        vec![Box::new(NoSync::PassesAlone)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_replay::graph::{GraphBuilder, Resource, TaskNode};

    /// A thread pauses, loads, copies its batch, runs forward with a pause in it and backward, and writes a log; another one with backward alone is not paused.
    #[test]
    fn what_is_around_passes_may_happen_once_an_update() -> Result<()> {
        let mut builder = GraphBuilder::default();
        let [main, other] = ["1", "2"].map(|name| {
            builder.resource(Resource { rank: Some(0), kind: ResourceKind::Thread, name: name.to_owned() })
        });
        let rows = [
            (main, "(no event)", WorkKind::Gap),
            (main, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", WorkKind::Operation),
            (main, "aten::copy_", WorkKind::Operation),
            (main, "DistributedDataParallel.forward", WorkKind::Operation),
            (main, "(no event)", WorkKind::Gap),
            (main, "autograd::engine::evaluate_function: AddmmBackward0", WorkKind::Operation),
            (main, "write_logs", WorkKind::Operation),
            (other, "autograd::engine::evaluate_function: AddmmBackward0", WorkKind::Operation),
        ];
        let ids = rows.map(|(resource, name, kind)| {
            let call = builder.call(name, None);
            builder.node(TaskNode { duration: 10, call, resource, kind, priority: 0 })
        });
        assert_eq!(around_passes(&builder.finish()?), [ids[0], ids[6]]);
        Ok(())
    }

    /// A generator and a discriminator have other gradients; the same ones may be ready in another order.
    #[test]
    fn passes_of_one_model_have_gradients_of_the_same_sizes() {
        assert_eq!(alike(&[(0, 4), (0, 8), (1, 8), (1, 4)]), Some(2));
        assert_eq!(alike(&[(0, 4), (0, 8), (1, 4), (1, 12)]), None);
        assert_eq!(alike(&[(0, 4), (0, 8)]), None);
    }
}
