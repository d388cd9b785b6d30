//! What is done to images beside convolutions: other sizes, edges, norms of groups, pooling as a mixer, functions of single pixels.

use super::lesson::Lesson;
use crate::zoo::layers::{biased, conv};
use crate::{Activation, Binary, ConvTranspose, Fill, Interpolation, Op, Window};
use perf4sight_base::error::Result;

pub(super) fn images(lesson: &mut Lesson) -> Result<()> {
    for [side, width] in [[4, 64], [8, 128], [16, 320]] {
        pooled(lesson, side, width)?;
    }
    for [side, width] in [[8, 64], [16, 192]] {
        grown(lesson, side, width)?;
    }
    for [side, width] in [[4, 32], [8, 96], [16, 192]] {
        functions(lesson, side, width)?;
    }
    Ok(())
}

/// Blocks of PoolFormer (Yu et al. 2021, arXiv:2111.11418): differences to the mean of neighbours, then a perceptron of convolutions.
fn pooled(lesson: &mut Lesson, side: usize, width: usize) -> Result<()> {
    let before = lesson.patches(side, width)?.at();
    let normed = lesson.group_norm(1)?.at();
    let mean = Op::AvgPool { window: Window::square(3, 1, 1), count_include_pad: false };
    lesson.then(mean)?.with(Binary::Sub, normed)?.with_parameter(Binary::Mul, &[width, 1, 1])?;
    let mixed = lesson.with(Binary::Add, before)?.at();
    lesson.group_norm(1)?.conv(biased(4 * width, 1, 1, 0))?.activation(Activation::Gelu)?;
    lesson.conv(biased(width, 1, 1, 0))?.with_parameter(Binary::Mul, &[width, 1, 1])?;
    lesson.with(Binary::Add, mixed)?.conv(biased(width, 3, 2, 1))?.end_images()
}

/// Images grown in four ways, joined, edges laid around them.
fn grown(lesson: &mut Lesson, side: usize, width: usize) -> Result<()> {
    let small = lesson.patches(side, width)?.group_norm(width / 16)?.at();
    let twice = [2 * 224 / side; 2];
    let mut grown = Vec::new();
    let resized = |interpolation| Op::Resize { image: twice, interpolation, corners: false };
    grown.push(lesson.then(resized(Interpolation::Linear))?.at());
    grown.push(lesson.back_to(small).then(resized(Interpolation::Nearest))?.at());
    let spread = Op::ConvTranspose(ConvTranspose { conv: biased(width / 2, 2, 2, 0), extra: [0; 2] });
    grown.push(lesson.back_to(small).then(spread)?.at());
    // Channels laid out as pixels (Shi et al. 2016, arXiv:1609.05158).
    let pixels = 224 / side;
    lesson.back_to(small).reshape(&[width / 4, 2, 2, pixels, pixels])?.transpose(&[0, 3, 1, 4, 2])?;
    grown.push(lesson.reshape(&[width / 4, 2 * pixels, 2 * pixels])?.at());
    lesson.join(Op::Concat { axis: 0 }, &grown)?;
    let sides = vec![[0, 0], [1, 1], [1, 1]];
    lesson.then(Op::Pad { sides: sides.clone(), fill: Fill::Zeros })?;
    lesson.conv(conv(width / 2, 3, 1, 0))?.group_norm(width / 2)?.activation(Activation::LeakyRelu)?;
    lesson.then(Op::Pad { sides, fill: Fill::Reflect })?.end_images()
}

/// Functions of single pixels, those that cost a comparison beside those that cost a logarithm.
fn functions(lesson: &mut Lesson, side: usize, width: usize) -> Result<()> {
    lesson.patches(side, width)?;
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
        lesson.activation(function)?;
    }
    let instance = lesson.shape().channels();
    lesson.group_norm(instance)?.end_images()
}
