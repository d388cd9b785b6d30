//! Refuses graphs whose cost cannot be computed: quantised and sparse tensors, graphs whose control flow depends on data.

use super::schema::{GraphProto, ValueInfoProto, type_proto};
use super::source::{FileProblem, node_text};

#[cfg(test)]
mod tests;

/// The problem of a node whose data decide what runs.
pub(super) const BY_DATA: &str = "decides by its data what runs, so that what a step costs depends on the image";

const BEFORE: &str = "bring the network as it was before it was quantised: export it from PyTorch in floating point";

/// Refuses a graph with such nodes or tensors.
pub(super) fn check(graph: &GraphProto) -> Result<(), FileProblem> {
    let sparse =
        graph.sparse_initializer.first().map(|sparse| sparse.values.as_ref().map_or("", |values| values.name()));
    if let Some(name) = sparse.or_else(|| graph.input.iter().find(|input| is_sparse(input)).map(|input| input.name())) {
        let problem = format!("holds the sparse tensor \"{name}\", which is not supported");
        return Err((problem, Some("export the network with dense tensors")));
    }
    for node in &graph.node {
        if is_quantised(node.op_type()) {
            return Err((format!("{} is quantised, which is not supported", node_text(node)), Some(BEFORE)));
        }
        if matches!(node.op_type(), "Loop" | "Scan") {
            let help = "export it with sizes that are fixed (torch.jit.trace and torch.export unroll loops)";
            return Err((format!("{} {BY_DATA}", node_text(node)), Some(help)));
        }
    }
    Ok(())
}

fn is_sparse(input: &ValueInfoProto) -> bool {
    let kind = input.r#type.as_ref().and_then(|kind| kind.value.as_ref());
    matches!(kind, Some(type_proto::Value::SparseTensorType(_)))
}

fn is_quantised(operator: &str) -> bool {
    const QUANTISED: [&str; 5] =
        ["QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger"];
    QUANTISED.contains(&operator) || operator.starts_with("QLinear")
}
