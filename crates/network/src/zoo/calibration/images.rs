//! Operations on images other than convolutions: resizing, padding, group norms, pooling as a mixer, functions of single pixels.

use super::builder::CalibrationBuilder;
use crate::zoo::layers::{biased, conv};
use crate::{Activation, BinaryFunction, ConvTranspose, Interpolation, Op, PaddingFill, Window};
use perf4sight_base::error::Result;

pub(super) fn images(network: &mut CalibrationBuilder) -> Result<()> {
    for [side, width] in [[4, 64], [8, 128], [16, 320]] {
        pooled(network, side, width)?;
    }
    for [side, width] in [[8, 64], [16, 192]] {
        grown(network, side, width)?;
    }
    for [side, width] in [[4, 32], [8, 96], [16, 192]] {
        functions(network, side, width)?;
    }
    Ok(())
}

/// Blocks of PoolFormer (Yu et al. 2021, arXiv:2111.11418): differences to the mean of neighbours, then a perceptron of convolutions.
fn pooled(network: &mut CalibrationBuilder, side: usize, width: usize) -> Result<()> {
    let before = network.patches(side, width)?.last_node();
    let normed = network.group_norm(1)?.last_node();
    let mean = Op::AvgPool { window: Window::square(3, 1, 1), count_include_pad: false };
    network.append(mean)?.with(BinaryFunction::Sub, normed)?.with_parameter(BinaryFunction::Mul, &[width, 1, 1])?;
    let mixed = network.with(BinaryFunction::Add, before)?.last_node();
    network.group_norm(1)?.conv(biased(4 * width, 1, 1, 0))?.activation(Activation::Gelu)?;
    network.conv(biased(width, 1, 1, 0))?.with_parameter(BinaryFunction::Mul, &[width, 1, 1])?;
    network.with(BinaryFunction::Add, mixed)?.conv(biased(width, 3, 2, 1))?.end_images()
}

/// Images enlarged in four ways, concatenated and padded.
fn grown(network: &mut CalibrationBuilder, side: usize, width: usize) -> Result<()> {
    let small = network.patches(side, width)?.group_norm(width / 16)?.last_node();
    let twice = [2 * 224 / side; 2];
    let mut grown = Vec::new();
    let resized = |interpolation| Op::Resize { image: twice, interpolation, corners: false };
    grown.push(network.append(resized(Interpolation::Linear))?.last_node());
    grown.push(network.back_to(small).append(resized(Interpolation::Nearest))?.last_node());
    let spread = Op::ConvTranspose(ConvTranspose { conv: biased(width / 2, 2, 2, 0), extra: [0; 2] });
    grown.push(network.back_to(small).append(spread)?.last_node());
    // Channels laid out as pixels (Shi et al. 2016, arXiv:1609.05158).
    let pixels = 224 / side;
    network.back_to(small).reshape(&[width / 4, 2, 2, pixels, pixels])?.transpose(&[0, 3, 1, 4, 2])?;
    grown.push(network.reshape(&[width / 4, 2 * pixels, 2 * pixels])?.last_node());
    network.join(Op::Concat { axis: 0 }, &grown)?;
    let sides = vec![[0, 0], [1, 1], [1, 1]];
    network.append(Op::Pad { sides: sides.clone(), fill: PaddingFill::Zeros })?;
    network.conv(conv(width / 2, 3, 1, 0))?.group_norm(width / 2)?.activation(Activation::LeakyRelu)?;
    network.append(Op::Pad { sides, fill: PaddingFill::Reflect })?.end_images()
}

/// Functions of single pixels, from those that cost a comparison to those that cost a logarithm.
fn functions(network: &mut CalibrationBuilder, side: usize, width: usize) -> Result<()> {
    network.patches(side, width)?;
    for function in [
        Activation::Elu,
        Activation::Tanh,
        Activation::Mish,
        Activation::Softplus,
        Activation::Sigmoid,
        Activation::HardSwish,
        Activation::Silu,
        Activation::Gelu,
        Activation::HardSigmoid,
        Activation::LeakyRelu,
        Activation::Relu6,
    ] {
        network.activation(function)?;
    }
    let instance = network.shape().channels();
    network.group_norm(instance)?.end_images()
}
