//! Execution traces (`torch.profiler.ExecutionTraceObserver`), which know the shapes of inputs and outputs that a trace lacks.

use super::kineto::tensors;
use crate::work::TensorShape;
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

/// An operation: version 1.0 writes shapes and types of inputs beside them, 1.1 inside.
#[derive(Deserialize)]
pub(super) struct TraceNode {
    #[serde(default)]
    name: String,
    #[serde(default)]
    rf_id: u64,
    #[serde(default)]
    input_shapes: Value,
    #[serde(default)]
    input_types: Value,
    #[serde(default)]
    output_shapes: Value,
    #[serde(default)]
    output_types: Value,
    #[serde(default)]
    inputs: Value,
    #[serde(default)]
    outputs: Value,
    #[serde(default)]
    attrs: Vec<NodeAttribute>,
}

#[derive(Deserialize)]
struct NodeAttribute {
    name: String,
    #[serde(default)]
    value: Value,
}

/// The tensors of each operation by the number that the profiler gives it, too.
#[derive(Default)]
pub(super) struct RecordedTensors(HashMap<(u64, String), OperationTensors>);

/// Inputs and outputs.
type OperationTensors = (Vec<TensorShape>, Vec<TensorShape>);

impl RecordedTensors {
    pub fn add(&mut self, nodes: Vec<TraceNode>) {
        for node in nodes {
            let attribute = node.attrs.iter().find(|attribute| attribute.name == "rf_id");
            let number = attribute.and_then(|attribute| attribute.value.as_u64()).unwrap_or(node.rf_id);
            let shapes = (
                side(&node.input_shapes, &node.input_types, &node.inputs),
                side(&node.output_shapes, &node.output_types, &node.outputs),
            );
            self.0.insert((number, node.name), shapes);
        }
    }

    /// The tensors of a call; none where no operation of this number has its name.
    pub fn node(&self, number: Option<u64>, name: &str) -> Option<OperationTensors> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&(number?, name.to_owned())).cloned()
    }
}

/// The tensors of one side: `{"values": [..], "shapes": [..], "types": ["Tensor(float)"]}`, or the last two by themselves.
fn side(shapes: &Value, types: &Value, joined: &Value) -> Vec<TensorShape> {
    let [shapes, types] = match joined.get("shapes") {
        Some(inner) => [inner, joined.get("types").unwrap_or(&Value::Null)],
        None => [shapes, types],
    };
    tensors(shapes, &type_names(types), None).unwrap_or_default()
}

/// `Tensor(float)` without its shell; `GenericList[Tensor(float),Tensor(long)]` as the types of both.
fn type_names(types: &Value) -> Value {
    let inner = |text: &str| {
        let shells = text.split("Tensor(").skip(1).map(|own| own.split([')', ',']).next().unwrap_or(own));
        match (text.contains("List["), shells.collect::<Vec<_>>()) {
            (true, of_list) => Value::from(of_list),
            (false, own) => Value::from(own.first().copied().unwrap_or(text)),
        }
    };
    types.as_array().into_iter().flatten().map(|kind| kind.as_str().map_or(Value::Null, inner)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::ElementType;
    use serde_json::json;

    #[test]
    fn both_versions_know_inputs_and_outputs() {
        let old = json!({"name": "aten::mm", "rf_id": 4, "input_shapes": [[8, 16], [16, 32]],
            "input_types": ["Tensor(float)", "Tensor(float)"], "output_shapes": [[8, 32]], "output_types": ["Tensor(float)"]});
        let new = json!({"name": "aten::mm", "attrs": [{"name": "rf_id", "value": 5}],
            "inputs": {"values": [], "shapes": [[8, 16], [16, 32]], "types": ["Tensor(c10::Half)", "Tensor(c10::Half)"]},
            "outputs": {"shapes": [[8, 32]], "types": ["Tensor(c10::Half)"]}});
        let mut recorded = RecordedTensors::default();
        recorded.add(vec![serde_json::from_value(old).unwrap(), serde_json::from_value(new).unwrap()]);
        let (inputs, outputs) = recorded.node(Some(4), "aten::mm").unwrap();
        assert_eq!((inputs.len(), outputs[0].shape.as_slice()), (2, &[8, 32][..]));
        assert_eq!(recorded.node(Some(5), "aten::mm").unwrap().1[0].element, ElementType::Fp16);
        assert!(recorded.node(Some(5), "aten::add").is_none());
    }

    /// Indices next to values: 8 and 2 bytes.
    #[test]
    fn each_tensor_of_a_list_has_its_own_type() {
        let types = json!(["GenericList[Tensor(long int),Tensor(c10::BFloat16)]", "Int"]);
        let found = side(&json!([[[4, 4], [8, 8]], []]), &types, &Value::Null);
        assert_eq!(found.iter().map(|tensor| tensor.element.bytes()).collect::<Vec<_>>(), [8.0, 2.0]);
    }
}
