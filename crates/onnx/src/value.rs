//! The values of a graph while a file is read: features, weights, constants.

use super::batch::BatchAxis;
use super::number::{BatchNumber, TensorDims, numbers, product};
use super::schema::tensor_proto::DataType;
use super::tensor::{KnownTensor, is_float};
use perf4sight_network::{ComputedWeight, NodeId};
use std::rc::Rc;

#[derive(Debug, Clone)]
pub(super) enum Value {
    /// Depends on the network's input, or at least is computed by a node of the network.
    Feature(Feature),
    /// A trainable tensor, perhaps in another shape.
    Weight(WeightTensor),
    /// Fixed, with known values: shapes, axes, scalars.
    Constant(Rc<KnownTensor>),
    /// Fixed, with a known shape but unknown values: large tables, masks, quantised weights.
    Opaque(FixedTensor),
    /// A list of values, as SplitToSequence gives it.
    Sequence(Rc<[Value]>),
    Random(RandomTensor),
    Absent,
}

/// A fixed tensor of known shape.
#[derive(Debug, Clone)]
pub(super) struct FixedTensor {
    pub dims: TensorDims,
    /// The tensor of a module that it is made of, if it is a single one.
    pub of: Option<HeldTensor>,
}

#[derive(Debug, Clone)]
pub(super) struct HeldTensor {
    /// Its name in the file.
    pub stored: Rc<str>,
    /// Its size in numbers of four bytes.
    pub elements: u64,
    /// Whether its own elements are used, not values computed from them.
    pub is_seen: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct RandomTensor {
    pub keep: Option<f64>,
    /// How many numbers are drawn for the batch, where that is known.
    pub drawn: Option<BatchNumber>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Feature {
    pub id: NodeId,
    /// `None` when it is the same for every sample.
    pub batch: Option<BatchAxis>,
    /// Whether its shape rests on a guess about an unknown operation.
    pub guessed: bool,
}

/// A trainable tensor, or a value computed from such tensors only.
#[derive(Debug, Clone)]
pub(super) struct WeightTensor {
    /// The name of the initializer or graph input; of the largest one, if it is computed from several.
    pub tensor: Rc<str>,
    /// Its name in the file.
    pub stored: Rc<str>,
    /// Whether it is certainly not a tensor that an exporter merged with an equal one.
    pub certain: bool,
    pub dims: TensorDims,
    pub elements: u64,
    pub view: WeightView,
    /// Whether each element may depend on all stored elements; otherwise it is a part of the tensor, in another order.
    pub computed: bool,
    /// Further trained tensors that it is computed from, and their elements: gains, biases, the layers that compute a table.
    pub others: Rc<[(Rc<str>, u64)]>,
    /// How PyTorch makes it from parameters in every step, if it is no parameter and no view of one.
    pub made: Option<ComputedWeight>,
    /// Its values, if it is small enough to be something other than a weight (the factors of a Resize).
    pub values: Option<Rc<KnownTensor>>,
}

/// How a tensor is used, compared with how it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WeightView {
    Stored,
    /// A matrix whose rows are stored as columns.
    Turned,
    /// A part, in another order, or computed.
    Other,
}

/// Elements of a tensor; the largest integer if they depend on the batch.
pub(super) fn elements<N: Copy + Into<BatchNumber>>(dims: &[N]) -> u64 {
    product(dims).fixed_value().map_or(u64::MAX, |elements| elements as u64)
}

impl FixedTensor {
    /// A table that no module holds.
    pub fn unheld(dims: TensorDims) -> Self {
        FixedTensor { dims, of: None }
    }

    pub fn stored(name: &str, dims: TensorDims, kind: DataType) -> Self {
        let is_seen = is_float(kind);
        let numbers = match kind {
            DataType::Int64 | DataType::Uint64 => elements(&dims).saturating_mul(2),
            DataType::Bool | DataType::Int8 | DataType::Uint8 => elements(&dims).div_ceil(4),
            _ => elements(&dims),
        };
        let held = HeldTensor { stored: name.into(), elements: numbers, is_seen };
        FixedTensor { dims, of: Some(held).filter(|_| !is_made_up(name)) }
    }
}

impl Value {
    pub fn constant(constant: KnownTensor) -> Value {
        Value::Constant(Rc::new(constant))
    }

    pub fn fixed_dims(&self) -> Option<TensorDims> {
        match self {
            Value::Weight(weight) => Some(weight.dims.clone()),
            Value::Constant(constant) => Some(numbers(&constant.dims)),
            Value::Opaque(table) => Some(table.dims.clone()),
            _ => None,
        }
    }

    /// Whether it has no elements, for any batch.
    pub fn is_nothing(&self) -> bool {
        self.fixed_dims().is_some_and(|dims| product(&dims) == 0)
    }

    /// Its value, if it is a constant.
    pub fn as_constant(&self) -> Option<&KnownTensor> {
        match self {
            Value::Constant(constant) => Some(constant),
            _ => None,
        }
    }
}

impl WeightTensor {
    /// Whether it is a matrix or filters; two layers that read it are then tied. Exporters merge equal vectors (all-zero biases,
    /// fresh scales) of unrelated layers; equal matrices and filters are no coincidence.
    pub fn is_matrix(&self) -> bool {
        self.dims.iter().filter(|&&dim| dim > 1).count() > 1
    }

    /// Whether an exporter created it: a folded constant, a mask. Such a tensor is trained only where a layer reads it.
    pub fn is_made_up(&self) -> bool {
        is_made_up(&self.tensor)
    }

    /// The tensor that a module holds, for use as a buffer.
    pub fn as_held(&self) -> Option<HeldTensor> {
        let held = HeldTensor { stored: self.stored.clone(), elements: self.elements, is_seen: !self.computed };
        Some(held).filter(|_| !self.is_made_up() && self.others.is_empty())
    }

    /// The same elements, or some of them, in another shape or order.
    pub fn seen_as(&self, dims: TensorDims) -> Value {
        Value::Weight(WeightTensor { dims, view: WeightView::Other, values: None, ..self.clone() })
    }

    pub fn transposed(&self) -> Value {
        let view = match self.view {
            WeightView::Stored => WeightView::Turned,
            WeightView::Turned => WeightView::Stored,
            WeightView::Other => WeightView::Other,
        };
        let dims = self.dims.iter().rev().copied().collect();
        Value::Weight(WeightTensor { dims, view, values: None, ..self.clone() })
    }

    /// The value computed from all `weights`, at least one, in this shape; it is named after the largest.
    pub fn computed_from(weights: &[&WeightTensor], dims: TensorDims) -> Option<Value> {
        let first = weights.iter().rev().max_by_key(|weight| elements(&weight.dims))?;
        let stored = |weight: &&WeightTensor| {
            std::iter::once((weight.tensor.clone(), weight.elements))
                .chain(weight.others.iter().cloned())
                .collect::<Vec<_>>()
        };
        let mut others: Vec<(Rc<str>, u64)> =
            weights.iter().flat_map(stored).filter(|(name, _)| *name != first.tensor).collect();
        others.sort();
        others.dedup();
        Some(Value::Weight(WeightTensor {
            certain: false,
            dims,
            view: WeightView::Other,
            computed: true,
            others: others.into(),
            values: None,
            ..(*first).clone()
        }))
    }
}

/// How the names begin that PyTorch's older exporter makes up.
pub(super) const MADE_UP: &str = "onnx::";

/// Whether an exporter created the tensor of this name.
fn is_made_up(name: &str) -> bool {
    let numbered = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
    name.starts_with(MADE_UP) || name.strip_prefix("val_").is_some_and(numbered)
}
