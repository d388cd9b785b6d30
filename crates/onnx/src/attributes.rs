//! Attributes and constant tensors as ONNX messages.

use super::schema::{AttributeProto, TensorProto, attribute_proto::AttributeType, tensor_proto::DataType};

fn attribute(name: &str, kind: AttributeType) -> AttributeProto {
    AttributeProto { name: Some(name.into()), r#type: Some(kind as i32), ..Default::default() }
}

pub(super) fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto { i: Some(value), ..attribute(name, AttributeType::Int) }
}

pub(super) fn ints(name: &str, values: Vec<i64>) -> AttributeProto {
    AttributeProto { ints: values, ..attribute(name, AttributeType::Ints) }
}

pub(super) fn float(name: &str, value: f32) -> AttributeProto {
    AttributeProto { f: Some(value), ..attribute(name, AttributeType::Float) }
}

pub(super) fn text(name: &str, value: &str) -> AttributeProto {
    AttributeProto { s: Some(value.as_bytes().to_vec()), ..attribute(name, AttributeType::String) }
}

pub(super) fn texts(name: &str, values: &[&str]) -> AttributeProto {
    let strings = values.iter().map(|value| value.as_bytes().to_vec()).collect();
    AttributeProto { strings, ..attribute(name, AttributeType::Strings) }
}

pub(super) fn tensor(name: &str, value: TensorProto) -> AttributeProto {
    AttributeProto { t: Some(Box::new(value)), ..attribute(name, AttributeType::Tensor) }
}

pub(super) fn scalar(value: f32) -> TensorProto {
    TensorProto { data_type: Some(DataType::Float as i32), float_data: vec![value], ..Default::default() }
}

pub(super) fn truth(value: bool) -> TensorProto {
    TensorProto { data_type: Some(DataType::Bool as i32), int32_data: vec![i32::from(value)], ..Default::default() }
}

pub(super) fn integer(value: i64) -> TensorProto {
    TensorProto { dims: vec![], ..vector(vec![value]) }
}

pub(super) fn vector(values: Vec<i64>) -> TensorProto {
    TensorProto {
        dims: vec![values.len() as i64],
        data_type: Some(DataType::Int64 as i32),
        int64_data: values,
        ..Default::default()
    }
}
