//! Functions of one element and of two, choices, and dropout.

use super::facts::{At, Backward, Beside, Coupling, Facts, Gradient, Nature, Needs, Storage, Traffic};
use crate::Shape;

/// Element-wise functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are the documentation
pub enum Activation {
    Relu,
    Relu6,
    LeakyRelu,
    Elu,
    Selu,
    Celu,
    Sigmoid,
    HardSigmoid,
    Tanh,
    Silu,
    HardSwish,
    Gelu,
    Mish,
    Softplus,
    Clip,
    Abs,
    Neg,
    Exp,
    Log,
    Sqrt,
    Reciprocal,
    Erf,
    Sin,
    Cos,
    Sign,
    Floor,
    Ceil,
    Round,
    Not,
}

/// Element-wise functions of two: arithmetic, comparisons, logic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are the documentation
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    Max,
    Min,
    Mod,
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    And,
    Or,
    Xor,
    /// The first where it is positive, else times the second, the trained slopes.
    PRelu,
}

impl Activation {
    /// All there are.
    pub const ALL: [Activation; 29] = [
        Activation::Relu,
        Activation::Relu6,
        Activation::LeakyRelu,
        Activation::Elu,
        Activation::Selu,
        Activation::Celu,
        Activation::Sigmoid,
        Activation::HardSigmoid,
        Activation::Tanh,
        Activation::Silu,
        Activation::HardSwish,
        Activation::Gelu,
        Activation::Mish,
        Activation::Softplus,
        Activation::Clip,
        Activation::Abs,
        Activation::Neg,
        Activation::Exp,
        Activation::Log,
        Activation::Sqrt,
        Activation::Reciprocal,
        Activation::Erf,
        Activation::Sin,
        Activation::Cos,
        Activation::Sign,
        Activation::Floor,
        Activation::Ceil,
        Activation::Round,
        Activation::Not,
    ];

    /// Its name as tables print it.
    pub fn name(self) -> &'static str {
        match self {
            Activation::Relu => "relu",
            Activation::Relu6 => "relu6",
            Activation::LeakyRelu => "leaky-relu",
            Activation::Elu => "elu",
            Activation::Selu => "selu",
            Activation::Celu => "celu",
            Activation::Sigmoid => "sigmoid",
            Activation::HardSigmoid => "hard-sigmoid",
            Activation::Tanh => "tanh",
            Activation::Silu => "silu",
            Activation::HardSwish => "hard-swish",
            Activation::Gelu => "gelu",
            Activation::Mish => "mish",
            Activation::Softplus => "softplus",
            Activation::Clip => "clip",
            Activation::Abs => "abs",
            Activation::Neg => "neg",
            Activation::Exp => "exp",
            Activation::Log => "log",
            Activation::Sqrt => "sqrt",
            Activation::Reciprocal => "reciprocal",
            Activation::Erf => "erf",
            Activation::Sin => "sin",
            Activation::Cos => "cos",
            Activation::Sign => "sign",
            Activation::Floor => "floor",
            Activation::Ceil => "ceil",
            Activation::Round => "round",
            Activation::Not => "not",
        }
    }

    pub(super) fn facts<'a>(self, at: At) -> Facts<'a> {
        let outputs = at.outputs();
        // Where the gradient can be read off the result, PyTorch does (tools/autograd/derivatives.yaml).
        let needs = match self {
            Activation::Relu
            | Activation::Sigmoid
            | Activation::Tanh
            | Activation::Exp
            | Activation::Sqrt
            | Activation::Reciprocal => Needs::Result,
            Activation::Relu6
            | Activation::LeakyRelu
            | Activation::Elu
            | Activation::Selu
            | Activation::Celu
            | Activation::HardSigmoid
            | Activation::Silu
            | Activation::HardSwish
            | Activation::Gelu
            | Activation::Mish
            | Activation::Softplus
            | Activation::Clip
            | Activation::Abs
            | Activation::Log
            | Activation::Erf
            | Activation::Sin
            | Activation::Cos => Needs::Inputs,
            Activation::Neg
            | Activation::Sign
            | Activation::Floor
            | Activation::Ceil
            | Activation::Round
            | Activation::Not => Needs::Nothing,
        };
        // Truth has none.
        let gradient = if self == Activation::Not { Gradient::Ends } else { Gradient::Made };
        Facts {
            needs,
            storage: Storage::Needed,
            traffic: Traffic::of(2.0 * outputs, 3.0 * outputs),
            ..Facts::of(Nature::Activation(self), Coupling::Same, gradient)
        }
    }
}

impl Binary {
    /// All there are.
    pub const ALL: [Binary; 17] = [
        Binary::Add,
        Binary::Sub,
        Binary::Mul,
        Binary::Div,
        Binary::Pow,
        Binary::Max,
        Binary::Min,
        Binary::Mod,
        Binary::Equal,
        Binary::Less,
        Binary::LessOrEqual,
        Binary::Greater,
        Binary::GreaterOrEqual,
        Binary::And,
        Binary::Or,
        Binary::Xor,
        Binary::PRelu,
    ];

    /// Its name as tables print it.
    pub fn name(self) -> &'static str {
        match self {
            Binary::Add => "add",
            Binary::Sub => "sub",
            Binary::Mul => "mul",
            Binary::Div => "div",
            Binary::Pow => "pow",
            Binary::Max => "max",
            Binary::Min => "min",
            Binary::Mod => "mod",
            Binary::Equal => "equal",
            Binary::Less => "less",
            Binary::LessOrEqual => "less-or-equal",
            Binary::Greater => "greater",
            Binary::GreaterOrEqual => "greater-or-equal",
            Binary::And => "and",
            Binary::Or => "or",
            Binary::Xor => "xor",
            Binary::PRelu => "prelu",
        }
    }

    /// Whether it adds, so that gradients pass as they are.
    pub fn is_sum(self) -> bool {
        match self {
            Binary::Add | Binary::Sub => true,
            Binary::Mul | Binary::Div | Binary::Pow | Binary::Max | Binary::Min | Binary::Mod => false,
            Binary::Equal | Binary::Less | Binary::LessOrEqual | Binary::Greater | Binary::GreaterOrEqual => false,
            Binary::And | Binary::Or | Binary::Xor | Binary::PRelu => false,
        }
    }

    /// Whether it tells what holds, instead of computing.
    pub fn says_truth(self) -> bool {
        match self {
            Binary::Equal | Binary::Less | Binary::LessOrEqual | Binary::Greater | Binary::GreaterOrEqual => true,
            Binary::And | Binary::Or | Binary::Xor => true,
            Binary::Add | Binary::Sub | Binary::Mul | Binary::Div | Binary::Pow => false,
            Binary::Max | Binary::Min | Binary::Mod | Binary::PRelu => false,
        }
    }

    /// What backward needs, of one operand and a constant or of two, and what becomes of the gradient; as derivatives.yaml has it.
    fn backward(self, operands: usize) -> (Needs, Gradient) {
        match self {
            Binary::Add | Binary::Sub => (Needs::Nothing, Gradient::Passed),
            Binary::Mul | Binary::Div | Binary::Mod if operands < 2 => (Needs::Nothing, Gradient::Made),
            Binary::Mul | Binary::Div | Binary::Mod => (Needs::Inputs, Gradient::Made),
            Binary::Pow if operands > 1 => (Needs::All, Gradient::Made),
            Binary::Pow | Binary::Max | Binary::Min | Binary::PRelu => (Needs::Inputs, Gradient::Made),
            // Truth has none.
            Binary::Equal | Binary::Less | Binary::LessOrEqual | Binary::Greater | Binary::GreaterOrEqual => {
                (Needs::Nothing, Gradient::Ends)
            }
            Binary::And | Binary::Or | Binary::Xor => (Needs::Nothing, Gradient::Ends),
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
        let (needs, gradient) = self.backward(operands.len());
        let storage = if self == Binary::Pow { Storage::Needed } else { Storage::Own };
        Facts { needs, storage, traffic, ..Facts::of(Nature::Arithmetic(self), Coupling::Tied, gradient) }
    }
}

/// A copy as other elements. None but numbers have a gradient.
pub(super) fn cast<'a>(at: At) -> Facts<'a> {
    let traffic = Traffic::of(2.0 * at.outputs(), 0.0);
    let storage = Storage::Needed;
    Facts { storage, traffic, ..Facts::of(Nature::Movement, Coupling::Same, Gradient::Ends) }
}

/// What is chosen where a condition holds and where it does not, all three stretched to one shape.
pub(super) fn choice_shape(inputs: &[&Shape]) -> Result<Shape, String> {
    match inputs {
        [condition, yes, no] => broadcast(&broadcast(condition, yes)?, no),
        _ => Err(format!("takes three inputs, has {}", inputs.len())),
    }
}

/// `where` saves its condition; each of the others gets the gradient where it was chosen, zeros elsewhere.
pub(super) fn choice<'a>(at: At) -> Facts<'a> {
    let outputs = at.outputs();
    let read: f64 = at.inputs().map(|shape| shape.elements() as f64).sum();
    let traffic = Traffic {
        backward: Backward::Each(vec![0.0, 3.0 * outputs, 3.0 * outputs]),
        ..Traffic::of(read + outputs, 0.0)
    };
    Facts { needs: Needs::First, traffic, ..Facts::of(Nature::Choice, Coupling::Tied, Gradient::Made) }
}

/// Draws a number for every sample in training: torchvision's `stochastic_depth` and timm's `drop_path` multiply with it, for whose gradient
/// the numbers drawn are enough.
pub(super) fn drop_path<'a>(rate: f32, at: At) -> Facts<'a> {
    let outputs = at.outputs();
    let traffic = Traffic { inference: 0.0, ..Traffic::of(2.0 * outputs, 2.0 * outputs) };
    Facts { traffic, beside: Some(Beside::Draw), ..dropout(rate, at) }
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
