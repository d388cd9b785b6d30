//! Pooling over windows, over the whole image, over chosen axes.

use super::convolution::{size, unpadded, window};
use super::sequence;
use crate::network::onnx::call::{Call, Misfit, Outcome, axis as counted};
use crate::network::onnx::translate::{Translation, own_name, single};
use crate::network::onnx::value::Feature;
use crate::network::{Op, Reduction, Window};

pub(super) fn windowed(to: &mut Translation, call: &Call) -> Outcome {
    if let Some(&[_]) = call.ints("kernel_shape") {
        return sequence::pool(to, call);
    }
    let number = if call.node.op_type() == "MaxPool" { f64::NEG_INFINITY } else { 0.0 };
    let (image, padded) = unpadded(to, call, number)?;
    let Some(&[height, width]) = call.ints("kernel_shape") else { return Err(Misfit::Unsupported) };
    let window = window(call, to.builder.shape(image.id).image(), [size(height)?, size(width)?], padded)?;
    let op = match call.node.op_type() {
        "MaxPool" => Op::MaxPool(window),
        // Zeros that a separate node added do count.
        _ => Op::AvgPool { window, count_include_pad: call.flag("count_include_pad") || padded != [0; 4] },
    };
    single(to.add_like(own_name(call), op, &[image])?)
}

pub(super) fn global(to: &mut Translation, call: &Call) -> Outcome {
    let image = to.image(call)?;
    let kernel = to.builder.shape(image.id).image();
    let op = match call.node.op_type() {
        "GlobalAveragePool" => Op::AdaptiveAvgPool { output: [1, 1] },
        _ => Op::MaxPool(Window { kernel, stride: kernel, padding: [0; 4], dilation: [1; 2], ceil: false }),
    };
    single(to.add_like(own_name(call), op, &[image])?)
}

pub(super) fn reduce(to: &mut Translation, call: &Call, reduction: Reduction) -> Outcome {
    let input = call.feature(0)?;
    let axes = call.integers("axes", 1).filter(|axes| !axes.is_empty()).ok_or(Misfit::Unsupported)?;
    let keep = call.int("keepdims").unwrap_or(1) != 0;
    let rank = to.dims(input).len();
    let mut onnx_axes: Vec<usize> = axes.iter().map(|&axis| counted(axis, rank)).collect::<Result<_, _>>()?;
    onnx_axes.sort_unstable();
    onnx_axes.dedup();
    let axes = onnx_axes.iter().map(|&axis| to.axis(input, axis as i64)).collect::<Result<Vec<_>, _>>()?;
    let node = to.add_like(own_name(call), Op::Reduce { reduction, axes, keep }, &[input])?;
    let gone = |batch: usize| if keep { 0 } else { onnx_axes.iter().filter(|&&axis| axis < batch).count() };
    single(Feature { batch: node.batch.map(|batch| batch.at(batch.axis - gone(batch.axis))), ..node })
}
