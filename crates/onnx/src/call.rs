//! One ONNX node with its inputs resolved: typed access to attributes and inputs across opsets.

use super::number::{Number, numbers, wholes};
use super::schema::{AttributeProto, NodeProto};
use super::tensor::Constant;
use super::value::{Feature, Value};

/// Why a node does not become an operation of the network.
#[derive(Debug)]
pub(super) enum Misfit {
    /// Valid, but this crate has no operation for it: it is loaded as an unknown one.
    Unsupported,
    /// The file contradicts itself; one clause describes how.
    Wrong(String),
}

impl From<String> for Misfit {
    fn from(problem: String) -> Self {
        Misfit::Wrong(problem)
    }
}

impl From<Misfit> for String {
    fn from(misfit: Misfit) -> String {
        match misfit {
            Misfit::Wrong(problem) => problem,
            Misfit::Unsupported => "reads a value that this operator cannot take".to_string(),
        }
    }
}

pub(super) type Outcome = Result<Vec<Value>, Misfit>;

pub(super) struct Call<'a> {
    pub node: &'a NodeProto,
    pub inputs: Vec<Value>,
}

impl<'a> Call<'a> {
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

    pub fn feature(&self, index: usize) -> Result<Feature, Misfit> {
        match self.input(index) {
            Value::Feature(feature) => Ok(*feature),
            Value::Absent => Err(Misfit::Wrong(format!("has no input {index}"))),
            _ => Err(Misfit::Unsupported),
        }
    }

    pub fn features(&self) -> impl Iterator<Item = Feature> + '_ {
        self.inputs.iter().filter_map(|input| match input {
            Value::Feature(feature) => Some(*feature),
            _ => None,
        })
    }

    pub fn constant(&self, index: usize) -> Option<&Constant> {
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
    pub fn numbers(&self, attribute: &str, input: usize) -> Option<Vec<Number>> {
        match self.ints(attribute) {
            Some(values) => Some(numbers(values)),
            None => self.constant(input).map(|constant| constant.values.clone()),
        }
    }

    /// The shape of a fixed input of `AXES` axes.
    pub fn fixed<const AXES: usize>(&self, index: usize) -> Result<[usize; AXES], Misfit> {
        let dims = self.input(index).fixed_dims().and_then(|dims| wholes(&dims));
        dims.and_then(|dims| dims.try_into().ok()).ok_or(Misfit::Unsupported)
    }

    pub fn number(&self, attribute: &str, input: usize) -> Option<f64> {
        match self.float(attribute) {
            Some(value) => Some(value),
            None => self.constant(input).and_then(Constant::uniform),
        }
    }
}

/// Far more axes than any tensor has; a larger number is refused before any loop over the axes.
const MAX_RANK: usize = 64;

/// An axis counted from the front; negative ones count from the back.
pub(super) fn axis(axis: i64, rank: usize) -> Result<usize, Misfit> {
    if rank > MAX_RANK {
        return Err(Misfit::Wrong(format!("has {rank} axes, at most {MAX_RANK} make sense")));
    }
    let counted = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
    usize::try_from(counted)
        .ok()
        .filter(|&counted| counted < rank)
        .ok_or_else(|| Misfit::Wrong(format!("names axis {axis} of a tensor with {rank}")))
}
