//! Replays a graph: when each operation starts if every resource does one thing at a time, the earliest first.

mod critical_path;
mod event_loop;
mod schedule;
mod sensitivity;
mod slack;

pub use critical_path::{Share, critical_path, shares};
pub use event_loop::simulate;
pub use schedule::Schedule;
pub use sensitivity::{Sensitivity, of_names, sensitivity};
pub use slack::slack;

/// The memory in bytes that simulating so many nodes takes in addition to the graph; a resource takes more if many nodes
/// wait for it.
pub fn bytes_of(nodes: u64, resources: u64) -> u64 {
    event_loop::BYTES_OF_NODE * nodes + event_loop::BYTES_OF_RESOURCE * resources
}
