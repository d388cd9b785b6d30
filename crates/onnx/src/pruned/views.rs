//! Views whose sizes are written into a file: PyTorch's default exporter writes how many features a flatten gives.

use crate::attributes;
use crate::schema::{GraphProto, NodeProto, TensorProto};
use crate::tensor::values;
use std::collections::{BTreeMap, BTreeSet};

/// Has views give as many features as the layers behind them read; `read` gives that number before and now, by the weights of layers. Views of a
/// layer's own vector give as many as `vectors` has of it.
pub(super) fn resize(
    graph: &mut GraphProto,
    read: &BTreeMap<String, [usize; 2]>,
    vectors: &BTreeMap<String, [usize; 2]>,
) {
    let stored = stored_sizes(graph);
    let mut wanted: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    let mut sizes = Vec::new();
    for node in graph.node.iter_mut().rev() {
        let features = match node.op_type() {
            "Gemm" | "MatMul" => node.input.get(1).and_then(|weight| read.get(weight)),
            _ => {
                let of_vector = node.input.first().and_then(|input| vectors.get(input));
                of_vector.or_else(|| node.output.first().and_then(|output| wanted.get(output)))
            }
        };
        let Some(features) = features.copied() else { continue };
        match node.op_type() {
            "Gemm" | "MatMul" | "Dropout" | "Relu" | "Identity" => {
                wanted.extend(node.input.first().map(|input| (input.clone(), features)));
            }
            "Reshape" => sizes.extend(resized_view(node, &stored, features)),
            _ => {}
        }
    }
    let is_read = |name: &str| graph.node.iter().any(|node| node.input.iter().any(|input| input == name));
    graph
        .initializer
        .retain(|tensor| !sizes.iter().any(|(_, before)| before == tensor.name()) || is_read(tensor.name()));
    graph.initializer.extend(sizes.into_iter().map(|(sizes, _)| sizes));
}

/// The sizes of views that are written into a file, as initializers or constants.
fn stored_sizes(graph: &GraphProto) -> BTreeMap<String, Vec<i64>> {
    let read: BTreeSet<&str> = graph
        .node
        .iter()
        .filter(|node| node.op_type() == "Reshape")
        .filter_map(|node| node.input.get(1))
        .map(String::as_str)
        .collect();
    let constants = graph.node.iter().filter(|node| node.op_type() == "Constant").filter_map(|node| {
        Some((node.output.first()?.as_str(), node.attribute.iter().find_map(|attribute| attribute.t.as_deref())?))
    });
    let tensors = graph.initializer.iter().map(|tensor| (tensor.name(), tensor)).chain(constants);
    let of_views = tensors.filter(|(name, _)| read.contains(name));
    of_views
        .filter_map(|(name, tensor)| {
            Some((name.to_owned(), values(tensor)?.into_iter().map(|size| size as i64).collect()))
        })
        .collect()
}

/// The sizes of a view with another of them, the last that is as before, which it reads from now on, and the name of those that it read: other views may
/// read them too.
fn resized_view(
    node: &mut NodeProto,
    stored: &BTreeMap<String, Vec<i64>>,
    [before, now]: [usize; 2],
) -> Option<(TensorProto, String)> {
    let sizes = node.input.get_mut(1)?;
    let mut all = stored.get(sizes)?.clone();
    let size = all.iter_mut().rev().find(|size| **size == before as i64)?;
    *size = now as i64;
    let before = std::mem::replace(sizes, format!("{}.sizes", node.output.first()?));
    Some((TensorProto { name: Some(sizes.clone()), ..attributes::vector(all) }, before))
}
