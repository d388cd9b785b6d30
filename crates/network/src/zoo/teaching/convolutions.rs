//! Convolutions as networks after 2019 have them: wide depthwise kernels between layers on vectors, gates over channels, groups, dilation.

use super::lesson::Lesson;
use crate::zoo::layers::{conv, depthwise};
use crate::{Activation, Binary, Conv, Op, Reduction, Window};
use perf4sight_base::error::Result;

/// Blocks of ConvNeXt (Liu et al. 2022, arXiv:2201.03545): channels turned behind the image and back.
pub(super) fn channels_last(lesson: &mut Lesson) -> Result<()> {
    for [side, width, kernel] in [[4, 64, 7], [8, 160, 7], [16, 448, 7], [32, 640, 5]] {
        lesson.patches(side, width)?.transpose(&[1, 2, 0])?.layer_norm()?.transpose(&[2, 0, 1])?;
        for _ in 0..2 {
            let before = lesson.at();
            lesson.conv(Conv { bias: true, ..depthwise(width, kernel, 1) })?.transpose(&[1, 2, 0])?.layer_norm()?;
            lesson.linear(4 * width)?.activation(Activation::Gelu)?.linear(width)?.transpose(&[2, 0, 1])?;
            lesson.with_parameter(Binary::Mul, &[width, 1, 1])?.then(Op::DropPath { rate: 0.1 })?;
            lesson.with(Binary::Add, before)?;
        }
        lesson.transpose(&[1, 2, 0])?.layer_norm()?.transpose(&[2, 0, 1])?;
        if side < 32 {
            lesson.conv(Conv { bias: true, ..conv(2 * width, 2, 2, 0) })?;
        }
        lesson.end_images()?;
    }
    Ok(())
}

/// Inverted bottlenecks with gates over channels (Tan and Le 2021, arXiv:2104.00298; Howard et al. 2019, arXiv:1905.02244), then
/// bottlenecks in groups (Radosavovic et al. 2020, arXiv:2003.13678).
pub(super) fn gates(lesson: &mut Lesson) -> Result<()> {
    use Activation::{HardSigmoid, HardSwish, Sigmoid, Silu};
    lesson.patches(2, 24)?.batch_norm()?.activation(Silu)?;
    let before = lesson.at();
    lesson.conv(conv(96, 3, 1, 1))?.batch_norm()?.activation(Silu)?.conv(conv(24, 1, 1, 0))?.batch_norm()?;
    lesson.with(Binary::Add, before)?.end_images()?;
    for (side, width, kernel, [inner, gate]) in [
        (4, 32, 3, [Silu, Sigmoid]),
        (8, 64, 5, [HardSwish, HardSigmoid]),
        (16, 160, 3, [Silu, Sigmoid]),
        (32, 256, 5, [HardSwish, HardSigmoid]),
    ] {
        let before = lesson.patches(side, width)?.at();
        lesson.conv(conv(4 * width, 1, 1, 0))?.batch_norm()?.activation(inner)?;
        lesson.conv(depthwise(4 * width, kernel, 1))?.batch_norm()?.activation(inner)?;
        gated(lesson, gate)?.conv(conv(width, 1, 1, 0))?.batch_norm()?;
        lesson.then(Op::DropPath { rate: 0.1 })?.with(Binary::Add, before)?.end_images()?;
    }
    for [side, width, groups, dilation] in [[8, 128, 8, 1], [16, 320, 20, 1], [16, 128, 1, 2]] {
        lesson.patches(side, width)?.conv(conv(width, 1, 1, 0))?.batch_norm()?.activation(Activation::Relu)?;
        let window = Window { dilation: [dilation; 2], ..Window::square(3, 1, dilation) };
        lesson.conv(Conv { groups, window, ..conv(width, 3, 1, 1) })?.batch_norm()?.end_images()?;
    }
    Ok(())
}

/// Every channel times a number that its mean gives.
fn gated(lesson: &mut Lesson, gate: Activation) -> Result<&mut Lesson> {
    let (before, channels) = (lesson.at(), lesson.shape().channels());
    let dense = |out_channels| Conv { bias: true, ..conv(out_channels, 1, 1, 0) };
    lesson.then(Op::Reduce { reduction: Reduction::Mean, axes: vec![1, 2], keep: true })?;
    lesson.conv(dense(channels / 8))?.activation(Activation::Relu)?.conv(dense(channels))?.activation(gate)?;
    lesson.with(Binary::Mul, before)
}
