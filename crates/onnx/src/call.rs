//! One ONNX node with its inputs resolved: typed access to attributes and inputs across opsets.

use super::number::{BatchNumber, as_integers, numbers};
use super::schema::{AttributeProto, NodeProto};
use super::tensor::KnownTensor;
use super::value::{Feature, Value};

/// Why a node does not become an operation of the network.
#[derive(Debug)]
pub(super) enum NodeMisfit {
    /// Valid, but this crate has no operation for it: it is loaded as an unknown one.
    Unsupported,
    /// The file contradicts itself; one clause describes how.
    Wrong(String),
}

impl From<String> for NodeMisfit {
    fn from(problem: String) -> Self {
        NodeMisfit::Wrong(problem)
    }
}

impl From<NodeMisfit> for String {
    fn from(misfit: NodeMisfit) -> String {
        match misfit {
            NodeMisfit::Wrong(problem) => problem,
            NodeMisfit::Unsupported => "reads a value that this operator cannot take".to_string(),
        }
    }
}

pub(super) type CallResult = Result<Vec<Value>, NodeMisfit>;

pub(super) struct NodeCall<'a> {
    pub node: &'a NodeProto,
    pub inputs: Vec<Value>,
}

impl<'a> NodeCall<'a> {
    fn attribute(&self, name: &str) -> Option<&'a AttributeProto> {
        self.node.attribute.iter().find(|attribute| attribute.name() == name)
    }

    pub fn int(&self, name: &str) -> Option<i64> {
        self.attribute(name).and_then(|attribute| attribute.i)
    }

    pub fn flag(&self, name: &str) -> bool {
        self.int(name).is_some_and(|value| value != 0)
    }

    pub fn float(&self, name: &str) -> Option<f64> {
        self.attribute(name).and_then(|attribute| attribute.f).map(f64::from)
    }

    pub fn ints(&self, name: &str) -> Option<&'a [i64]> {
        self.attribute(name).map(|attribute| attribute.ints.as_slice())
    }

    pub fn text(&self, name: &str) -> &'a str {
        self.attribute(name).and_then(|attribute| std::str::from_utf8(attribute.s()).ok()).unwrap_or("")
    }

    pub fn texts(&self, name: &str) -> Vec<String> {
        let words = self.attribute(name).map_or(&[][..], |attribute| attribute.strings.as_slice());
        words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    pub fn has(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }

    pub fn tensor(&self, name: &str) -> Option<&'a super::schema::TensorProto> {
        self.attribute(name).and_then(|attribute| attribute.t.as_deref())
    }

    pub fn graph(&self, name: &str) -> Option<&'a super::schema::GraphProto> {
        self.attribute(name).and_then(|attribute| attribute.g.as_deref())
    }

    pub fn floats(&self, name: &str) -> Option<&'a [f32]> {
        self.attribute(name).map(|attribute| attribute.floats.as_slice())
    }

    pub fn input(&self, index: usize) -> &Value {
        self.inputs.get(index).unwrap_or(&Value::Absent)
    }

    pub fn is_absent(&self, index: usize) -> bool {
        matches!(self.input(index), Value::Absent)
    }

    pub fn feature(&self, index: usize) -> Result<Feature, NodeMisfit> {
        match self.input(index) {
            Value::Feature(feature) => Ok(*feature),
            Value::Absent => Err(NodeMisfit::Wrong(format!("has no input {index}"))),
            _ => Err(NodeMisfit::Unsupported),
        }
    }

    pub fn features(&self) -> impl Iterator<Item = Feature> + '_ {
        self.inputs.iter().filter_map(|input| match input {
            Value::Feature(feature) => Some(*feature),
            _ => None,
        })
    }

    pub fn constant(&self, index: usize) -> Option<&KnownTensor> {
        match self.input(index) {
            Value::Weight(weight) => weight.values.as_deref(),
            other => other.as_constant(),
        }
    }

    /// Integers that are an attribute in early opsets, and an input in later ones.
    pub fn integers(&self, attribute: &str, input: usize) -> Option<Vec<i64>> {
        self.numbers(attribute, input).map(|values| values.iter().map(|value| value.nearest()).collect())
    }

    /// As [`integers`](Self::integers), also those that depend on the batch.
    pub fn numbers(&self, attribute: &str, input: usize) -> Option<Vec<BatchNumber>> {
        match self.ints(attribute) {
            Some(values) => Some(numbers(values)),
            None => self.constant(input).map(|constant| constant.values.clone()),
        }
    }

    /// The shape of a fixed input of `AXES` axes.
    pub fn fixed<const AXES: usize>(&self, index: usize) -> Result<[usize; AXES], NodeMisfit> {
        let dims = self.input(index).fixed_dims().and_then(|dims| as_integers(&dims));
        dims.and_then(|dims| dims.try_into().ok()).ok_or(NodeMisfit::Unsupported)
    }

    pub fn number(&self, attribute: &str, input: usize) -> Option<f64> {
        match self.float(attribute) {
            Some(value) => Some(value),
            None => self.constant(input).and_then(KnownTensor::uniform),
        }
    }
}

/// Far more axes than any tensor has; a larger number is refused before any loop over the axes.
const MAX_RANK: usize = 64;

/// An axis counted from the front; negative ones count from the back.
pub(super) fn axis(axis: i64, rank: usize) -> Result<usize, NodeMisfit> {
    if rank > MAX_RANK {
        return Err(NodeMisfit::Wrong(format!("has {rank} axes, at most {MAX_RANK} make sense")));
    }
    let counted = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
    usize::try_from(counted)
        .ok()
        .filter(|&counted| counted < rank)
        .ok_or_else(|| NodeMisfit::Wrong(format!("names axis {axis} of a tensor with {rank}")))
}
