//! Random graphs: a few resources, edges forward only.

use perf4sight_base::error::Result;
use perf4sight_replay::graph::{
    EdgeKind, GraphBuilder, NodeId, Resource, ResourceId, ResourceKind, TaskGraph, TaskNode, WorkKind,
};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A graph of so many nodes on so many resources, the same for the same seed. Durations are multiples of 1,000 ns plus
/// one to nine hundred, so that few ends coincide; one node in ten takes no time.
pub fn graph(seed: u64, nodes: u32, resources: u32) -> Result<TaskGraph> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut builder = GraphBuilder::default();
    let threads: Vec<ResourceId> = (0..resources).map(|number| builder.resource(thread(number))).collect();
    let call = builder.call("work", None);
    let mut ids: Vec<NodeId> = Vec::new();
    for _ in 0..nodes {
        let duration = if random.random_bool(0.1) { 0 } else { random.random_range(1_000..1_000_000) };
        let resource = threads[random.random_range(0..threads.len())];
        let priority = random.random_range(0..3);
        let id = builder.node(TaskNode { duration, call, resource, kind: WorkKind::Operation, priority });
        let near = ids.len().saturating_sub(20);
        for _ in 0..random.random_range(0..3).min(ids.len()) {
            builder.edge(ids[random.random_range(near..ids.len())], id, EdgeKind::Data);
        }
        ids.push(id);
    }
    builder.finish()
}

fn thread(number: u32) -> Resource {
    Resource { rank: Some(number), kind: ResourceKind::Thread, name: number.to_string() }
}
