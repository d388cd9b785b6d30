//! Replays a graph: when each operation starts if every resource does one thing at a time, the earliest first.

mod critical_path;
mod event_loop;
mod schedule;
mod sensitivity;
mod slack;

pub use critical_path::{CriticalShare, critical_path, shares};
pub use event_loop::simulate;
pub(crate) use event_loop::simulate_with;
pub use schedule::NodeSchedule;
pub use sensitivity::{NodeSensitivity, of_names, sensitivity};
pub use slack::slack;

/// The memory in bytes that simulating so many nodes takes in addition to the graph; a resource takes more if many nodes
/// wait for it.
pub fn bytes_of(nodes: u64, resources: u64) -> u64 {
    event_loop::BYTES_OF_NODE * nodes + event_loop::BYTES_OF_RESOURCE * resources
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{EdgeKind, GraphBuilder, Resource, ResourceKind, TaskNode, WorkKind};

    /// The sum of two times that are near the greatest one is the greatest.
    #[test]
    fn times_end_at_the_greatest() {
        let mut builder = GraphBuilder::default();
        let resource = builder.resource(Resource { rank: Some(0), kind: ResourceKind::Thread, name: String::new() });
        let call = builder.call("a", None);
        let node = TaskNode { duration: u64::MAX - 5, call, resource, kind: WorkKind::Operation, priority: 0 };
        let [first, second] = [builder.node(node), builder.node(node)];
        builder.edge(first, second, EdgeKind::Order);
        let graph = builder.finish().unwrap();
        let schedule = simulate(&graph);
        assert_eq!(schedule.makespan(&graph), u64::MAX);
        let path = critical_path(&graph, &schedule);
        assert_eq!(shares(&graph, &path, u64::MAX)[0].time, u64::MAX);
        assert_eq!((slack(&graph, &schedule).len(), sensitivity(&graph, &schedule).len()), (2, 2));
        assert_eq!(of_names(&graph, &path, u64::MAX), [("a", u64::MAX)]);
    }
}
