//! Pooling over windows, over the whole image, over chosen axes.

use super::convolution::{size, window, without_padding_node};
use super::{sequence, stack, volume};
use crate::batch::BatchAxis;
use crate::call::{CallResult, NodeCall, NodeMisfit, axis as counted};
use crate::translate::{GraphTranslation, own_name, single};
use crate::value::Feature;
use perf4sight_network::{Op, ReductionKind, Window};

pub(super) fn window_of(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    match call.ints("kernel_shape") {
        Some([_]) => return sequence::pool(to, call),
        Some([_, _, _]) => return volume::pool(to, call),
        Some([_, _]) if stack::is_stack(to, call) => return stack::pool(to, call),
        _ => {}
    }
    let number = if call.node.op_type() == "MaxPool" { f64::NEG_INFINITY } else { 0.0 };
    let Some(&[height, width]) = call.ints("kernel_shape") else { return Err(NodeMisfit::Unsupported) };
    let (image, padded, window) = padded_input(to, call, [size(height)?, size(width)?], number)?;
    let op = match call.node.op_type() {
        "MaxPool" => Op::MaxPool(window),
        // Zeros that a separate node added are counted.
        _ => Op::AvgPool { window, count_include_pad: call.flag("count_include_pad") || padded != [0; 4] },
    };
    single(to.add_like(own_name(call), op, &[image])?)
}

/// The input of a pooling: the image before a padding node, if the window can include that padding, otherwise the padded image. A
/// window with as much padding as its extent may be entirely outside the image, which runtimes refuse.
fn padded_input(
    to: &GraphTranslation,
    call: &NodeCall,
    kernel: [usize; 2],
    number: f64,
) -> Result<(Feature, [usize; 4], Window), NodeMisfit> {
    let (source, sides) = without_padding_node(to, call, number)?;
    let whole = window(call, to.builder.shape(source.id).image(), kernel, sides)?;
    if sides == [0; 4] || (0..4).all(|side| whole.padding[side] < kernel[side % 2]) {
        return Ok((source, sides, whole));
    }
    let image = to.image(call)?;
    Ok((image, [0; 4], window(call, to.builder.shape(image.id).image(), kernel, [0; 4])?))
}

pub(super) fn global(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    let rank = to.builder.shape(input.id).rank();
    if input.batch == Some(BatchAxis::FIRST) && rank > 1 && rank != 3 {
        let reduction =
            if call.node.op_type() == "GlobalAveragePool" { ReductionKind::Mean } else { ReductionKind::Max };
        let op = Op::Reduce { reduction, axes: (1..rank).collect(), keep: true };
        return single(to.add_like(own_name(call), op, &[input])?);
    }
    let image = to.image(call)?;
    let kernel = to.builder.shape(image.id).image();
    let op = match call.node.op_type() {
        "GlobalAveragePool" => Op::AdaptiveAvgPool { output: [1, 1] },
        _ => Op::MaxPool(Window { kernel, stride: kernel, padding: [0; 4], dilation: [1; 2], ceil: false }),
    };
    single(to.add_like(own_name(call), op, &[image])?)
}

pub(super) fn reduce(to: &mut GraphTranslation, call: &NodeCall, reduction: ReductionKind) -> CallResult {
    let input = call.feature(0)?;
    let axes = call.integers("axes", 1).filter(|axes| !axes.is_empty()).ok_or(NodeMisfit::Unsupported)?;
    let keep = call.int("keepdims").unwrap_or(1) != 0;
    let rank = to.dims(input).len();
    let mut onnx_axes: Vec<usize> = axes.iter().map(|&axis| counted(axis, rank)).collect::<Result<_, _>>()?;
    onnx_axes.sort_unstable();
    onnx_axes.dedup();
    let axes = onnx_axes.iter().map(|&axis| to.axis(input, axis as i64)).collect::<Result<Vec<_>, _>>()?;
    let along = axes.len();
    let node = to.add_like(own_name(call), Op::Reduce { reduction, axes, keep }, &[input])?;
    if let ReductionKind::Max | ReductionKind::Min = reduction {
        to.keep_places(call, node.id, along);
    }
    let gone = |batch: usize| if keep { 0 } else { onnx_axes.iter().filter(|&&axis| axis < batch).count() };
    single(Feature { batch: node.batch.map(|batch| batch.moved_to(batch.axis - gone(batch.axis))), ..node })
}
