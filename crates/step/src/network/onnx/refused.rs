//! What no cost can be told of: quantised and sparse tensors, graphs that data decide about.

use super::schema::GraphProto;
use super::source::{Problem, described};

/// What is wrong with a node whose data decide what runs.
pub(super) const BY_DATA: &str = "decides by its data what runs, so that what a step costs depends on the image";

const BEFORE: &str = "bring the network as it was before it was quantised: export it from PyTorch in floating point";

/// Refuses a graph that holds such.
pub(super) fn check(graph: &GraphProto) -> Result<(), Problem> {
    if let Some(sparse) = graph.sparse_initializer.first() {
        let name = sparse.values.as_ref().map_or("", |values| values.name());
        let problem = format!("holds the sparse tensor \"{name}\", which is not supported");
        return Err((problem, Some("export the network with dense weights")));
    }
    for node in &graph.node {
        if is_quantised(node.op_type()) {
            return Err((format!("{} is quantised, which is not supported", described(node)), Some(BEFORE)));
        }
        if matches!(node.op_type(), "Loop" | "Scan") {
            let help = "export it with sizes that are fixed (torch.jit.trace and torch.export unroll loops)";
            return Err((format!("{} {BY_DATA}", described(node)), Some(help)));
        }
    }
    Ok(())
}

fn is_quantised(operator: &str) -> bool {
    const QUANTISED: [&str; 5] =
        ["QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger"];
    QUANTISED.contains(&operator) || operator.starts_with("QLinear")
}
