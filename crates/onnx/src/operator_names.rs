//! ONNX names of element-wise functions and reductions: one table for the reader, the writer and the rules for shapes.

use perf4sight_network::{Activation, BinaryFunction, ReductionKind};

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

pub(super) fn of_binary(binary: BinaryFunction) -> &'static str {
    match binary {
        BinaryFunction::Add => "Add",
        BinaryFunction::Sub => "Sub",
        BinaryFunction::Mul => "Mul",
        BinaryFunction::Div => "Div",
        BinaryFunction::Pow => "Pow",
        BinaryFunction::Max => "Max",
        BinaryFunction::Min => "Min",
        BinaryFunction::Mod => "Mod",
        BinaryFunction::Equal => "Equal",
        BinaryFunction::Less => "Less",
        BinaryFunction::LessOrEqual => "LessOrEqual",
        BinaryFunction::Greater => "Greater",
        BinaryFunction::GreaterOrEqual => "GreaterOrEqual",
        BinaryFunction::And => "And",
        BinaryFunction::Or => "Or",
        BinaryFunction::Xor => "Xor",
        BinaryFunction::PRelu => "PRelu",
    }
}

pub(super) fn of_reduction(reduction: ReductionKind) -> &'static str {
    match reduction {
        ReductionKind::Mean => "ReduceMean",
        ReductionKind::Sum => "ReduceSum",
        ReductionKind::Max => "ReduceMax",
        ReductionKind::Min => "ReduceMin",
        ReductionKind::L1 => "ReduceL1",
        ReductionKind::L2 => "ReduceL2",
        ReductionKind::Product => "ReduceProd",
        ReductionKind::LogSumExp => "ReduceLogSumExp",
    }
}

pub(super) fn activation(operator: &str) -> Option<Activation> {
    Activation::ALL.into_iter().find(|&known| of_activation(known) == operator)
}

/// A `Sum` of two is an `Add`.
pub(super) fn binary(operator: &str) -> Option<BinaryFunction> {
    let operator = if operator == "Sum" { "Add" } else { operator };
    BinaryFunction::ALL.into_iter().find(|&known| of_binary(known) == operator)
}

pub(super) fn reduction(operator: &str) -> Option<ReductionKind> {
    ReductionKind::ALL.into_iter().find(|&known| of_reduction(known) == operator)
}
