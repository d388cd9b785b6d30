//! ONNX names of element-wise functions and reductions: one table for the reader, the writer and the rules for shapes.

use perf4sight_network::{Activation, Binary, Reduction};

/// The operator of this function; some need attributes or constants. Below opset 24, files have `Silu` as a product with a gate.
pub(super) fn of_activation(activation: Activation) -> &'static str {
    match activation {
        Activation::Relu => "Relu",
        Activation::Relu6 | Activation::Clip => "Clip",
        Activation::LeakyRelu => "LeakyRelu",
        Activation::Elu => "Elu",
        Activation::Selu => "Selu",
        Activation::Celu => "Celu",
        Activation::Sigmoid => "Sigmoid",
        Activation::HardSigmoid => "HardSigmoid",
        Activation::Tanh => "Tanh",
        Activation::Silu => "Swish",
        Activation::HardSwish => "HardSwish",
        Activation::Gelu => "Gelu",
        Activation::Mish => "Mish",
        Activation::Softplus => "Softplus",
        Activation::Abs => "Abs",
        Activation::Neg => "Neg",
        Activation::Exp => "Exp",
        Activation::Log => "Log",
        Activation::Sqrt => "Sqrt",
        Activation::Reciprocal => "Reciprocal",
        Activation::Erf => "Erf",
        Activation::Sin => "Sin",
        Activation::Cos => "Cos",
        Activation::Sign => "Sign",
        Activation::Floor => "Floor",
        Activation::Ceil => "Ceil",
        Activation::Round => "Round",
        Activation::Not => "Not",
    }
}

pub(super) fn of_binary(binary: Binary) -> &'static str {
    match binary {
        Binary::Add => "Add",
        Binary::Sub => "Sub",
        Binary::Mul => "Mul",
        Binary::Div => "Div",
        Binary::Pow => "Pow",
        Binary::Max => "Max",
        Binary::Min => "Min",
        Binary::Mod => "Mod",
        Binary::Equal => "Equal",
        Binary::Less => "Less",
        Binary::LessOrEqual => "LessOrEqual",
        Binary::Greater => "Greater",
        Binary::GreaterOrEqual => "GreaterOrEqual",
        Binary::And => "And",
        Binary::Or => "Or",
        Binary::Xor => "Xor",
        Binary::PRelu => "PRelu",
    }
}

pub(super) fn of_reduction(reduction: Reduction) -> &'static str {
    match reduction {
        Reduction::Mean => "ReduceMean",
        Reduction::Sum => "ReduceSum",
        Reduction::Max => "ReduceMax",
        Reduction::Min => "ReduceMin",
        Reduction::L1 => "ReduceL1",
        Reduction::L2 => "ReduceL2",
        Reduction::Product => "ReduceProd",
        Reduction::LogSumExp => "ReduceLogSumExp",
    }
}

pub(super) fn activation(operator: &str) -> Option<Activation> {
    Activation::ALL.into_iter().find(|&known| of_activation(known) == operator)
}

/// A `Sum` of two is an `Add`.
pub(super) fn binary(operator: &str) -> Option<Binary> {
    let operator = if operator == "Sum" { "Add" } else { operator };
    Binary::ALL.into_iter().find(|&known| of_binary(known) == operator)
}

pub(super) fn reduction(operator: &str) -> Option<Reduction> {
    Reduction::ALL.into_iter().find(|&known| of_reduction(known) == operator)
}
