//! The kernels of operations that are bound by memory: element-wise functions, normalisation, pooling, copies.

use super::kernel::{Access, Amount, BYTES, Class, Pass};
use super::step::Layer;
use crate::network::{Binary, Op, Window};
use crate::workload::Stage;

/// Elements read and written per sample, forward and, where a gradient flows on, backward.
struct Moved {
    class: Class,
    access: Access,
    forward: f64,
    backward: f64,
}

/// Adds the kernels of any operation that multiplies no matrices.
pub(super) fn add(layer: &mut Layer, op: &Op) {
    let Some(moved) = moved(layer, op) else { return };
    let Moved { class, access, forward, backward } = moved;
    if forward > 0.0 {
        layer.moves(Pass::Forward, class, access, Amount::per_sample(BYTES * forward));
    }
    let trains = layer.stage == Stage::Training && layer.network.trains(layer.node);
    if backward > 0.0 && (layer.passes_on() || trains) {
        layer.moves(Pass::InputGradient, class, access, Amount::per_sample(BYTES * backward));
    }
}

/// None for what moves nothing: views, parameters, what inference leaves out.
fn moved(layer: &Layer, op: &Op) -> Option<Moved> {
    let (inputs, outputs) = (layer.inputs(), layer.outputs());
    let training = layer.stage == Stage::Training;
    let of = |class, access, forward, backward| Some(Moved { class, access, forward, backward });
    match op {
        // Training reads the input for the statistics and again to apply them; the gradient reads input and gradient twice.
        Op::BatchNorm if training => of(Class::Normalisation, Access::Contiguous, 3.0 * outputs, 5.0 * outputs),
        Op::BatchNorm => of(Class::Normalisation, Access::Contiguous, 2.0 * outputs, 0.0),
        Op::LayerNorm { .. } => of(Class::Normalisation, Access::Contiguous, 3.0 * outputs, 5.0 * outputs),
        Op::Activation(_) => of(Class::Activation, Access::Contiguous, 2.0 * outputs, 3.0 * outputs),
        Op::Dropout { .. } if training => of(Class::Dropout, Access::Contiguous, 2.25 * outputs, 2.25 * outputs),
        Op::Binary(_) => Some(arithmetic(layer, op)),
        // Its gradients are views into the one that comes in, but what reads those is as much slower.
        Op::Concat { .. } => of(Class::Copy, Access::Strided, 2.0 * outputs, 2.0 * outputs),
        // The view costs nothing, but what reads it next copies it into order.
        Op::Transpose { .. } => of(Class::Copy, Access::Strided, 2.0 * outputs, 2.0 * outputs),
        // A view too; its gradient is an image of zeros with the slice's in it.
        Op::Slice { .. } => of(Class::Copy, Access::Strided, 0.0, inputs + 2.0 * outputs),
        // Every result looks at its window; two words more say where the maximum was found, and are read back.
        Op::MaxPool(window) => {
            of(Class::Pooling, Access::Contiguous, (area(window) + 3.0) * outputs, 3.0 * outputs + 2.0 * inputs)
        }
        Op::AvgPool { window, .. } => {
            of(Class::Pooling, Access::Contiguous, (1.0 + area(window)) * outputs, inputs + outputs)
        }
        Op::AdaptiveAvgPool { .. } | Op::Mean { .. } => {
            of(Class::Pooling, Access::Contiguous, inputs + outputs, inputs + outputs)
        }
        Op::Softmax { .. } => of(Class::Softmax, Access::Contiguous, 3.0 * outputs, 4.0 * outputs),
        Op::Unknown(_) => of(Class::Unknown, Access::Contiguous, inputs + outputs, inputs + 2.0 * outputs),
        Op::Input(_) | Op::Parameter(_) | Op::Flatten | Op::Reshape(_) | Op::Dropout { .. } => None,
        // These multiply matrices and are told elsewhere.
        Op::Conv(_) | Op::Linear(_) | Op::MatMul => None,
    }
}

/// Sums pass their gradient on as it is; products multiply it with the other operand, for each operand that wants one.
fn arithmetic(layer: &Layer, op: &Op) -> Moved {
    let outputs = layer.outputs();
    let operands: Vec<f64> =
        layer.node.inputs.iter().map(|id| layer.network.node(*id).shape.elements() as f64).collect();
    let stretched = operands.iter().any(|&elements| elements < outputs);
    let sum = matches!(op, Op::Binary(Binary::Add | Binary::Sub));
    let gradients = operands.iter().zip(&layer.gradients).filter(|(_, wanted)| **wanted);
    let backward = gradients.map(|(&elements, _)| match (sum, elements < outputs) {
        (true, false) => 0.0,
        (true, true) => outputs + elements,
        (false, false) => 3.0 * outputs,
        // The full-size product is written, then summed over the stretched axes.
        (false, true) => 4.0 * outputs + elements,
    });
    Moved {
        class: Class::Arithmetic,
        access: if stretched { Access::Strided } else { Access::Contiguous },
        forward: operands.iter().sum::<f64>() + outputs,
        backward: backward.sum(),
    }
}

fn area(window: &Window) -> f64 {
    (window.kernel[0] * window.kernel[1]) as f64
}
