//! Views whose sizes are written into a file: PyTorch's default exporter writes how many features a flatten gives.

use crate::attributes;
use crate::schema::{GraphProto, NodeProto, TensorProto};
use crate::tensor::values;
use std::collections::BTreeMap;

/// Has views give as many features as the layers behind them read; `read` gives that number before and now, by the weights of layers.
pub(super) fn resize(graph: &mut GraphProto, read: &BTreeMap<String, [usize; 2]>) {
    let mut wanted: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    let mut sizes = Vec::new();
    for node in graph.node.iter_mut().rev() {
        let features = match node.op_type() {
            "Gemm" | "MatMul" => node.input.get(1).and_then(|weight| read.get(weight)),
            _ => node.output.first().and_then(|output| wanted.get(output)),
        };
        let Some(features) = features.copied() else { continue };
        match node.op_type() {
            "Gemm" | "MatMul" | "Dropout" | "Relu" | "Identity" => {
                wanted.extend(node.input.first().map(|input| (input.clone(), features)));
            }
            "Reshape" => sizes.extend(resized(node, &graph.initializer, features)),
            _ => {}
        }
    }
    let is_read = |name: &str| graph.node.iter().any(|node| node.input.iter().any(|input| input == name));
    graph
        .initializer
        .retain(|tensor| !sizes.iter().any(|(_, before)| before == tensor.name()) || is_read(tensor.name()));
    graph.initializer.extend(sizes.into_iter().map(|(sizes, _)| sizes));
}

/// The sizes of a view with another last one, which it reads from now on, and the name of those that it read: other views may read them too.
fn resized(node: &mut NodeProto, stored: &[TensorProto], [before, now]: [usize; 2]) -> Option<(TensorProto, String)> {
    let sizes = node.input.get_mut(1)?;
    let tensor = stored.iter().find(|tensor| tensor.name() == sizes)?;
    let mut all: Vec<i64> = values(tensor)?.into_iter().map(|size| size as i64).collect();
    let last = all.last_mut().filter(|last| **last == before as i64)?;
    *last = now as i64;
    let before = std::mem::replace(sizes, format!("{}.sizes", node.output.first()?));
    Some((TensorProto { name: Some(sizes.clone()), ..attributes::vector(all) }, before))
}
