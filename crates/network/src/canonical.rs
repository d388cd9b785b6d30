//! Brings operations into a canonical form, the simplest of several equivalent ones, so that networks of any origin compare
//! equal.

use super::op::{Op, Window};
use super::shape::Shape;

/// The simplest operation equivalent to `op` for inputs of these shapes.
pub(super) fn canonical(mut op: Op, inputs: &[&Shape]) -> Op {
    if let (Op::AdaptiveAvgPool { output }, [input]) = (&op, inputs) {
        return adaptive_average(*output, input);
    }
    if let Op::AvgPool { window, count_include_pad } = &mut op {
        *count_include_pad |= window.padding == [0; 4];
    }
    if let Op::AvgPool3d { window, count_include_pad } = &mut op {
        *count_include_pad |= window.padding == [0; 3];
    }
    if matches!(&op, Op::Reshape(target) if target.rank() == 1) { Op::Flatten } else { op }
}

/// Adaptive pooling whose cells tile the image is a pooling with that cell; only the global mean keeps its own name.
fn adaptive_average(output: [usize; 2], input: &Shape) -> Op {
    let image = input.image();
    let tiles = (0..2).all(|axis| output[axis] > 0 && image[axis].is_multiple_of(output[axis]));
    if output == [1, 1] || !tiles || input.rank() != 3 {
        return Op::AdaptiveAvgPool { output };
    }
    let cell = [image[0] / output[0], image[1] / output[1]];
    let window = Window { kernel: cell, stride: cell, padding: [0; 4], dilation: [1; 2], ceil: false };
    Op::AvgPool { window, count_include_pad: true }
}
