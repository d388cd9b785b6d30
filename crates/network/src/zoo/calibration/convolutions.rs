//! Convolutions of networks after 2019: wide depthwise kernels between layers on vectors, gates over channels, groups, dilation.

use super::builder::CalibrationBuilder;
use crate::zoo::layers::{conv, depthwise};
use crate::{Activation, BinaryFunction, Conv, Op, ReductionKind, Window};
use perf4sight_base::error::Result;

/// Blocks of ConvNeXt (Liu et al. 2022, arXiv:2201.03545): channels are moved to the last axis and back.
pub(super) fn channels_last(network: &mut CalibrationBuilder) -> Result<()> {
    for [side, width, kernel] in [[4, 64, 7], [8, 160, 7], [16, 448, 7], [32, 640, 5]] {
        network.patches(side, width)?.transpose(&[1, 2, 0])?.layer_norm()?.transpose(&[2, 0, 1])?;
        for _ in 0..2 {
            let before = network.last_node();
            network.conv(Conv { bias: true, ..depthwise(width, kernel, 1) })?.transpose(&[1, 2, 0])?.layer_norm()?;
            network.linear(4 * width)?.activation(Activation::Gelu)?.linear(width)?.transpose(&[2, 0, 1])?;
            network.with_parameter(BinaryFunction::Mul, &[width, 1, 1])?.append(Op::DropPath { rate: 0.1 })?;
            network.with(BinaryFunction::Add, before)?;
        }
        network.transpose(&[1, 2, 0])?.layer_norm()?.transpose(&[2, 0, 1])?;
        if side < 32 {
            network.conv(Conv { bias: true, ..conv(2 * width, 2, 2, 0) })?;
        }
        network.end_images()?;
    }
    Ok(())
}

/// Inverted bottlenecks with gates over channels (Tan and Le 2021, arXiv:2104.00298; Howard et al. 2019, arXiv:1905.02244), then
/// grouped bottlenecks (Radosavovic et al. 2020, arXiv:2003.13678).
pub(super) fn gates(network: &mut CalibrationBuilder) -> Result<()> {
    use Activation::{HardSigmoid, HardSwish, Sigmoid, Silu};
    network.patches(2, 24)?.batch_norm()?.activation(Silu)?;
    let before = network.last_node();
    network.conv(conv(96, 3, 1, 1))?.batch_norm()?.activation(Silu)?.conv(conv(24, 1, 1, 0))?.batch_norm()?;
    network.with(BinaryFunction::Add, before)?.end_images()?;
    for (side, width, kernel, [inner, gate]) in [
        (4, 32, 3, [Silu, Sigmoid]),
        (8, 64, 5, [HardSwish, HardSigmoid]),
        (16, 160, 3, [Silu, Sigmoid]),
        (32, 256, 5, [HardSwish, HardSigmoid]),
    ] {
        let before = network.patches(side, width)?.last_node();
        network.conv(conv(4 * width, 1, 1, 0))?.batch_norm()?.activation(inner)?;
        network.conv(depthwise(4 * width, kernel, 1))?.batch_norm()?.activation(inner)?;
        gated(network, gate)?.conv(conv(width, 1, 1, 0))?.batch_norm()?;
        network.append(Op::DropPath { rate: 0.1 })?.with(BinaryFunction::Add, before)?.end_images()?;
    }
    for [side, width, groups, dilation] in [[8, 128, 8, 1], [16, 320, 20, 1], [16, 128, 1, 2]] {
        network.patches(side, width)?.conv(conv(width, 1, 1, 0))?.batch_norm()?.activation(Activation::Relu)?;
        let window = Window { dilation: [dilation; 2], ..Window::square(3, 1, dilation) };
        network.conv(Conv { groups, window, ..conv(width, 3, 1, 1) })?.batch_norm()?.end_images()?;
    }
    Ok(())
}

/// Multiplies every channel by a gate computed from the channels' means.
fn gated(network: &mut CalibrationBuilder, gate: Activation) -> Result<&mut CalibrationBuilder> {
    let (before, channels) = (network.last_node(), network.shape().channels());
    let dense = |out_channels| Conv { bias: true, ..conv(out_channels, 1, 1, 0) };
    network.append(Op::Reduce { reduction: ReductionKind::Mean, axes: vec![1, 2], keep: true })?;
    network.conv(dense(channels / 8))?.activation(Activation::Relu)?.conv(dense(channels))?.activation(gate)?;
    network.with(BinaryFunction::Mul, before)
}
