//! Functions of one element, arithmetic of two, and dropout.

use super::facts::{At, Backward, Coupling, Facts, Gradient, Nature, Needs, Storage, Traffic};
use crate::network::Shape;

/// Element-wise functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are the documentation
pub enum Activation {
    Relu,
    Relu6,
    LeakyRelu,
    Elu,
    Sigmoid,
    HardSigmoid,
    Tanh,
    Silu,
    HardSwish,
    Gelu,
    Mish,
    Softplus,
}

/// Element-wise arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are the documentation
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
}

impl Activation {
    /// Its name as tables print it.
    pub fn name(self) -> &'static str {
        match self {
            Activation::Relu => "relu",
            Activation::Relu6 => "relu6",
            Activation::LeakyRelu => "leaky-relu",
            Activation::Elu => "elu",
            Activation::Sigmoid => "sigmoid",
            Activation::HardSigmoid => "hard-sigmoid",
            Activation::Tanh => "tanh",
            Activation::Silu => "silu",
            Activation::HardSwish => "hard-swish",
            Activation::Gelu => "gelu",
            Activation::Mish => "mish",
            Activation::Softplus => "softplus",
        }
    }

    pub(super) fn facts<'a>(self, at: At) -> Facts<'a> {
        let outputs = at.outputs();
        // Where the gradient can be read off the result, PyTorch does (tools/autograd/derivatives.yaml).
        let needs = match self {
            Activation::Relu | Activation::Sigmoid | Activation::Tanh => Needs::Result,
            Activation::Relu6 | Activation::LeakyRelu | Activation::Elu | Activation::HardSigmoid => Needs::Inputs,
            Activation::Silu | Activation::HardSwish | Activation::Gelu | Activation::Mish => Needs::Inputs,
            Activation::Softplus => Needs::Inputs,
        };
        Facts {
            needs,
            storage: Storage::Needed,
            traffic: Traffic::of(2.0 * outputs, 3.0 * outputs),
            ..Facts::of(Nature::Activation(self), Coupling::Same, Gradient::Made)
        }
    }
}

impl Binary {
    /// Its name as tables print it.
    pub fn name(self) -> &'static str {
        match self {
            Binary::Add => "add",
            Binary::Sub => "sub",
            Binary::Mul => "mul",
            Binary::Div => "div",
        }
    }

    /// Whether it adds, so that gradients pass as they are.
    pub fn is_sum(self) -> bool {
        match self {
            Binary::Add | Binary::Sub => true,
            Binary::Mul | Binary::Div => false,
        }
    }

    pub(super) fn shape(inputs: &[&Shape]) -> Result<Shape, String> {
        match inputs {
            [one] => Ok((*one).clone()),
            [a, b] => broadcast(a, b),
            _ => Err(format!("takes one or two inputs, has {}", inputs.len())),
        }
    }

    /// Sums pass their gradient on as it is; products multiply it with the other operand, for each operand that wants one.
    pub(super) fn facts<'a>(self, at: At) -> Facts<'a> {
        let outputs = at.outputs();
        let operands: Vec<f64> = at.inputs().map(|shape| shape.elements() as f64).collect();
        let backward = |&elements: &f64| match (self.is_sum(), elements < outputs) {
            (true, false) => 0.0,
            (true, true) => outputs + elements,
            (false, false) => 3.0 * outputs,
            // The full-size product is written, then summed over the stretched axes.
            (false, true) => 4.0 * outputs + elements,
        };
        let traffic = Traffic {
            strided: operands.iter().any(|&elements| elements < outputs),
            backward: Backward::Each(operands.iter().map(backward).collect()),
            ..Traffic::of(operands.iter().sum::<f64>() + outputs, 0.0)
        };
        let (nature, gradient) =
            (Nature::Arithmetic(self), if self.is_sum() { Gradient::Passed } else { Gradient::Made });
        let needs = if self.is_sum() || operands.len() < 2 { Needs::Nothing } else { Needs::Inputs };
        Facts { needs, traffic, ..Facts::of(nature, Coupling::Tied, gradient) }
    }
}

/// Axes of length 1 stretch. The ranks must be equal: with the batch in front, shorter shapes would meet the wrong axes.
fn broadcast(a: &Shape, b: &Shape) -> Result<Shape, String> {
    let misfit = || format!("cannot combine {a} and {b} element by element");
    let stretched = |(&x, &y): (&usize, &usize)| match (x, y) {
        _ if x == y || y == 1 => Ok(x),
        (1, _) => Ok(y),
        _ => Err(misfit()),
    };
    if a.rank() != b.rank() {
        return Err(misfit());
    }
    Ok(Shape::new(a.dims().iter().zip(b.dims()).map(stretched).collect::<Result<Vec<_>, _>>()?))
}

/// Draws a number for every element in training and does nothing in inference, nor where it drops nothing: `_dropout_impl` of
/// aten/src/ATen/native/Dropout.cpp returns its input itself for a rate of 0.
pub(super) fn dropout<'a>(rate: f32, at: At) -> Facts<'a> {
    if rate == 0.0 {
        return Facts { storage: Storage::View, ..Facts::of(Nature::Dropout, Coupling::Same, Gradient::Passed) };
    }
    let outputs = at.outputs();
    let traffic = Traffic { inference: 0.0, ..Traffic::of(2.25 * outputs, 2.25 * outputs) };
    Facts { storage: Storage::Needed, traffic, ..Facts::of(Nature::Dropout, Coupling::Same, Gradient::Made) }
}
