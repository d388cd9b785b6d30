//! Operators without a PyTorch operation, as the steps that PyTorch runs for them (torch/nn/functional.py).

use super::convolution::{size, window};
use crate::call::{CallResult, NodeCall, NodeMisfit};
use crate::translate::{GraphTranslation, own_name, single};
use crate::value::Feature;
use perf4sight_network::{Activation, BinaryFunction, Op, PaddingFill, Shape, VolumeWindow};

/// Adds operations one after the other; the last one gets the name of the call.
fn chain(
    to: &mut GraphTranslation,
    call: &NodeCall,
    first: Feature,
    steps: &[(&str, Op)],
) -> Result<Feature, NodeMisfit> {
    steps
        .iter()
        .try_fold(first, |last, (what, op)| to.add_like(&format!("{}_{what}", own_name(call)), op.clone(), &[last]))
}

/// `local_response_norm`: squares are averaged over neighbouring channels, as a volume with one channel.
pub(super) fn local_response(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let image = to.image(call)?;
    let neighbours = size(call.int("size").unwrap_or(0))?;
    let shape = to.builder.shape(image.id).clone();
    let volume = Shape::new([&[1], shape.dims()].concat());
    let behind = neighbours.checked_sub(1).ok_or_else(|| NodeMisfit::Wrong("has a size of 0".into()))? / 2;
    let sides = vec![[0, 0], [neighbours / 2, behind].map(|added| added as i64), [0, 0], [0, 0]];
    let window = VolumeWindow { kernel: [neighbours, 1, 1], ..VolumeWindow::cube(1, 1, 0) };
    let name = own_name(call);
    let squares = to.add_like(&format!("{name}_squares"), Op::Binary(BinaryFunction::Mul), &[image, image])?;
    let steps = [
        ("volume", Op::Reshape(volume)),
        ("padded", Op::Pad { sides, fill: PaddingFill::Zeros }),
        ("mean", Op::AvgPool3d { window, count_include_pad: true }),
        ("image", Op::Reshape(shape)),
        ("scaled", Op::Binary(BinaryFunction::Mul)),
        ("safe", Op::Binary(BinaryFunction::Add)),
        ("power", Op::Binary(BinaryFunction::Pow)),
    ];
    let divisor = chain(to, call, squares, &steps)?;
    single(to.add_like(name, Op::Binary(BinaryFunction::Div), &[image, divisor])?)
}

/// `lp_pool2d`: powers are averaged over windows.
pub(super) fn power_pool(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let image = to.image(call)?;
    let Some(&[height, width]) = call.ints("kernel_shape") else { return Err(NodeMisfit::Unsupported) };
    let window = window(call, to.builder.shape(image.id).image(), [size(height)?, size(width)?])?;
    let mean = [("powers", Op::Binary(BinaryFunction::Pow)), ("mean", Op::AvgPool { window, count_include_pad: true })];
    let mean = chain(to, call, image, &mean)?;
    let sign = chain(to, call, mean, &[("sign", Op::Activation(Activation::Sign))])?;
    let size = [("magnitude", Op::Activation(Activation::Abs)), ("positive", Op::Activation(Activation::Relu))];
    let size = chain(to, call, mean, &size)?;
    let name = own_name(call);
    let signed = to.add_like(&format!("{name}_signed"), Op::Binary(BinaryFunction::Mul), &[sign, size])?;
    let sum = chain(to, call, signed, &[("sum", Op::Binary(BinaryFunction::Mul))])?;
    single(to.add_like(name, Op::Binary(BinaryFunction::Pow), &[sum])?)
}
