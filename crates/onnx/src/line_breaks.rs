//! Escapes line breaks in the names of a file, once where they are read: in a message, what follows one would pass for a line of the program.

use super::schema::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, ValueInfoProto, tensor_shape_proto::dimension,
    type_proto,
};

/// Escapes the names in a model and its graph.
pub(super) fn escape(model: &mut ModelProto) {
    model.opset_import.iter_mut().for_each(|set| names(&mut set.domain));
    model.functions.iter_mut().for_each(function);
    model.graph.iter_mut().for_each(graph);
}

/// Escapes names, all of them without line breaks in an ordinary file.
pub(super) fn names<'a>(all: impl IntoIterator<Item = &'a mut String>) {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    for name in all.into_iter().filter(|name| name.contains(breaks)) {
        let escaped = |c: char| if breaks(c) { c.escape_default().to_string() } else { c.to_string() };
        *name = name.chars().map(escaped).collect();
    }
}

fn function(function: &mut FunctionProto) {
    names(function.name.iter_mut().chain(&mut function.domain));
    names(function.input.iter_mut().chain(&mut function.output));
    function.node.iter_mut().for_each(node);
    function.value_info.iter_mut().for_each(value);
}

fn graph(graph: &mut GraphProto) {
    names(graph.initializer.iter_mut().filter_map(|tensor| tensor.name.as_mut()));
    graph.node.iter_mut().for_each(node);
    graph.input.iter_mut().chain(&mut graph.output).chain(&mut graph.value_info).for_each(value);
}

fn node(node: &mut NodeProto) {
    names(node.name.iter_mut().chain(&mut node.op_type).chain(&mut node.domain));
    names(node.input.iter_mut().chain(&mut node.output));
    node.attribute.iter_mut().for_each(attribute);
}

fn attribute(attribute: &mut AttributeProto) {
    attribute.g.iter_mut().map(|inner| &mut **inner).chain(&mut attribute.graphs).for_each(graph);
}

fn value(info: &mut ValueInfoProto) {
    names(&mut info.name);
    let Some(type_proto::Value::TensorType(tensor)) = info.r#type.as_mut().and_then(|kind| kind.value.as_mut()) else {
        return;
    };
    for dim in tensor.shape.iter_mut().flat_map(|shape| &mut shape.dim) {
        if let Some(dimension::Value::DimParam(name)) = &mut dim.value {
            names([name]);
        }
    }
}
