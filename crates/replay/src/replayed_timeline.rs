//! Writes a replayed step in Chrome's trace format: each rank a process, each thread, stream and link a row.

use crate::graph::StepGraph;
use crate::simulate::simulate;
use serde_json::json;
use std::io::{self, Write};

/// Writes when each operation of a step starts in its replay. Work that takes no time is left out.
///
/// # Errors
/// A failure to write.
pub fn write(step: &StepGraph, mut target: impl Write) -> io::Result<()> {
    let (graph, schedule) = (&step.graph, simulate(&step.graph));
    target.write_all(crate::timeline::HEAD)?;
    let mut separator = "";
    for id in graph.ids().filter(|id| graph.node(*id).duration > 0) {
        let resource = graph.resource_of(id);
        let event = json!({
            "ph": "X", "name": graph.name(id), "cat": "replayed",
            "pid": resource.rank.map_or_else(|| "links".to_owned(), |rank| format!("rank {rank}")), "tid": resource.name,
            "ts": schedule.start(id) as f64 / 1e3, "dur": graph.node(id).duration as f64 / 1e3,
        });
        write!(target, "{separator}\n{event}")?;
        separator = ",";
    }
    target.write_all(b"\n]}\n")
}
