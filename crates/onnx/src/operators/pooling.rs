//! Pooling over windows, over the whole image, over chosen axes.

use super::convolution::{size, window};
use super::{sequence, stack, volume};
use crate::batch::BatchAxis;
use crate::call::{CallResult, NodeCall, NodeMisfit, axis as counted};
use crate::pending_pattern::PendingPattern;
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
    let Some(&[height, width]) = call.ints("kernel_shape") else { return Err(NodeMisfit::Unsupported) };
    let kernel = [size(height)?, size(width)?];
    let (image, window, counts_padding) = match with_padding_node(to, call, kernel)? {
        Some((image, window)) => (image, window, true),
        None => {
            let image = to.image(call)?;
            (image, window(call, to.builder.shape(image.id).image(), kernel)?, call.flag("count_include_pad"))
        }
    };
    let op = match call.node.op_type() {
        "MaxPool" => Op::MaxPool(window),
        _ => Op::AvgPool { window, count_include_pad: counts_padding },
    };
    single(to.add_like(own_name(call), op, &[image])?)
}

/// The image before a padding node and the window with that padding. The older exporter writes a mean that counts its own zeros
/// (`count_include_pad`) as two nodes. A window with as much padding as its extent may be entirely outside the image, which runtimes refuse.
fn with_padding_node(
    to: &GraphTranslation,
    call: &NodeCall,
    kernel: [usize; 2],
) -> Result<Option<(Feature, Window)>, NodeMisfit> {
    let padded = to.image(call)?;
    let Some(&PendingPattern::Padded { source, sides }) = to.pending.get(&padded.id) else { return Ok(None) };
    if call.node.op_type() == "MaxPool" || to.ours || to.exporter.has_notes() {
        return Ok(None);
    }
    let mut window = window(call, to.builder.shape(padded.id).image(), kernel)?;
    window.padding.iter_mut().zip(sides).for_each(|(own, outer)| *own += outer);
    Ok((0..4).all(|side| window.padding[side] < kernel[side % 2]).then_some((source, window)))
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
