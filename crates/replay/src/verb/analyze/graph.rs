//! `trail_dag.gml`: the operations of the replayed step of all ranks and what waits for what, in the Graph Modelling Language as
//! networkx writes it.

use super::names::PublishedNames;
use crate::graph::TaskGraph;
use std::fmt::Write;
use std::fs::File;
use std::io::Read;

/// The beginning of every file, by which those of this program are recognised.
const HEAD: &str = "Creator \"perf4sight\"\ngraph [\n  directed 1\n";

/// The whole file. The time of an operation, in milliseconds, is called `avg` there.
pub(super) fn graph_file(graph: &TaskGraph, names: &[PublishedNames]) -> String {
    let mut text = HEAD.to_owned();
    for (id, name) in graph.ids().zip(names) {
        let (label, time) = (escaped(&name.long), graph.node(id).duration as f64 / 1e6);
        _ = write!(text, "  node [\n    id {}\n    label \"{label}\"\n    avg {time:.6}\n  ]\n", id.index());
    }
    for (from, to, _) in graph.edges() {
        _ = write!(text, "  edge [\n    source {}\n    target {}\n  ]\n", from.index(), to.index());
    }
    text + "]\n"
}

/// Characters outside of printable ASCII, quotes and ampersands are entities of their numbers, as networkx has them.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '"' | '&' => _ = write!(escaped, "&#{};", u32::from(letter)),
            ' '..='~' => escaped.push(letter),
            other => _ = write!(escaped, "&#{};", u32::from(other)),
        }
    }
    escaped
}

/// Whether a graph was written by this program: by its beginning.
pub(super) fn is_ours(file: File) -> bool {
    let mut head = String::new();
    file.take(HEAD.len() as u64).read_to_string(&mut head).is_ok() && head == HEAD
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{EdgeKind, GraphBuilder, Resource, ResourceKind, TaskNode, WorkKind};

    /// As `networkx.write_gml` writes labels and numbers (networkx 3.4, `escape` of readwrite/gml.py).
    #[test]
    fn graphs_are_written_as_networkx_does() {
        let mut builder = GraphBuilder::default();
        let resource = builder.resource(Resource { rank: None, kind: ResourceKind::Thread, name: String::new() });
        let call = builder.call("a", None);
        let nodes = [1_500_000, 20].map(|duration| {
            builder.node(TaskNode { duration, call, resource, kind: WorkKind::Operation, priority: 0 })
        });
        builder.edge(nodes[0], nodes[1], EdgeKind::Order);
        let named =
            |long: &str| PublishedNames { process: String::new(), standard: String::new(), long: long.to_owned() };
        let text = graph_file(&builder.finish().unwrap(), &[named("host0.rank0->FW.a"), named("\"é\" & b")]);
        let nodes = "  node [\n    id 0\n    label \"host0.rank0->FW.a\"\n    avg 1.500000\n  ]\n  node [\n    id 1\n    label \"&#34;&#233;&#34; &#38; b\"\n    avg 0.000020\n  ]\n";
        assert_eq!(text, format!("{HEAD}{nodes}  edge [\n    source 0\n    target 1\n  ]\n]\n"));
    }
}
