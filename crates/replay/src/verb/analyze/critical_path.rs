//! `critical_path.json`: the replayed step in Chrome's format, each operation named `Y` if it is on the critical path, else `N`; its
//! published name is among the arguments.

use super::names::{self, PublishedNames};
use crate::graph::NodeId;
use crate::replayed_job::ReplayedJob;
use crate::simulate::critical_path;
use crate::timeline::{JsonList, microseconds};
use serde_json::json;
use std::collections::HashSet;
use std::io;

/// The whole file.
///
/// # Errors
/// None that is known: it is written to memory.
pub(super) fn write_file(replayed: &ReplayedJob, names: &[PublishedNames]) -> io::Result<Vec<u8>> {
    let (graph, schedule) = (&replayed.step.graph, &replayed.schedule);
    let critical: HashSet<NodeId> = critical_path(graph, schedule).into_iter().collect();
    let mut text = Vec::new();
    let mut list = JsonList::begin(&mut text)?;
    for id in schedule.order().filter(|id| graph.node(*id).duration > 0) {
        let PublishedNames { process, standard, long } = &names[id.index()];
        let category = names::category(standard).split('.').next();
        list.add(&json!({
            "name": if critical.contains(&id) { "Y" } else { "N" }, "ph": "X", "cat": category, "pid": process,
            "tid": graph.resource_of(id).name, "args": {"name": long, "cnt": 0},
            "ts": microseconds(schedule.start(id).cast_signed()),
            "dur": microseconds(graph.node(id).duration.cast_signed()),
        }))?;
    }
    list.end()?;
    Ok(text)
}
