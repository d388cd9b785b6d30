//! Operators that change sizes: padding, broadcasting, repetition, interpolation of images, channels laid out as pixels.

use super::convolution::size;
use crate::batch::{BatchAxis, sample};
use crate::call::{CallResult, NodeCall, NodeMisfit, axis as counted};
use crate::infer;
use crate::number::{BatchNumber, TensorDims, as_integers};
use crate::pending_pattern::PendingPattern;
use crate::tensor::KnownTensor;
use crate::translate::{GraphTranslation, own_name, single};
use crate::value::Feature;
use perf4sight_network::{Interpolation, Op, PaddingFill, PytorchRun, Shape};

/// More copies of a tensor next to each other than any network makes.
const MAX_COPIES: i64 = 1 << 12;

/// An explicit padding, which a later mean over windows may include.
pub(super) fn pad(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    let sides = pads(to, call, input)?;
    if sides.iter().flatten().all(|&side| side <= 0) {
        return single(cut(to, call, input, &sides)?);
    }
    let number = call.number("value", 2).unwrap_or(0.0);
    let fill = match call.text("mode") {
        "" | "constant" if number == 0.0 => PaddingFill::Zeros,
        "" | "constant" => PaddingFill::Constant,
        "reflect" => PaddingFill::Reflect,
        "edge" => PaddingFill::Edge,
        "wrap" => PaddingFill::Wrap,
        other => return Err(NodeMisfit::Wrong(format!("pads in a mode \"{other}\""))),
    };
    let constant = matches!(fill, PaddingFill::Zeros | PaddingFill::Constant);
    if !constant && sides.iter().flatten().any(|&side| side < 0) {
        return Err(NodeMisfit::Unsupported);
    }
    let node = to.add_like(own_name(call), Op::Pad { sides: sides.clone(), fill }, &[input])?;
    if let (PaddingFill::Zeros, &[[0, 0], [top, bottom], [left, right]]) = (fill, sides.as_slice())
        && let [Ok(top), Ok(left), Ok(bottom), Ok(right)] = [top, left, bottom, right].map(usize::try_from)
        && input.batch == Some(BatchAxis::FIRST)
    {
        to.pending.insert(node.id, PendingPattern::Padded { source: input, sides: [top, left, bottom, right] });
    }
    single(node)
}

/// The padding before and after every axis of a sample; negative where it is cut.
fn pads(to: &GraphTranslation, call: &NodeCall, input: Feature) -> Result<Vec<[i64; 2]>, NodeMisfit> {
    let rank = to.dims(input).len();
    let pads = call.integers("pads", 1).ok_or(NodeMisfit::Unsupported)?;
    let axes = call.constant(3).map_or_else(|| (0..rank as i64).collect(), KnownTensor::as_integers);
    if pads.len() != 2 * axes.len() {
        return Err(NodeMisfit::Wrong(format!("has {} pads for {} axes", pads.len(), axes.len())));
    }
    let mut sides = vec![[0; 2]; to.builder.shape(input.id).rank()];
    for (index, &axis) in axes.iter().enumerate() {
        let pair = [pads[index], pads[index + axes.len()]];
        if pair != [0, 0] {
            let axis = to.axis(input, counted(axis, rank)? as i64)?;
            sides[axis] = pair;
        }
    }
    Ok(sides)
}

/// Cuts the axes with negative padding.
fn cut(to: &mut GraphTranslation, call: &NodeCall, input: Feature, pads: &[[i64; 2]]) -> Result<Feature, NodeMisfit> {
    let mut result = input;
    for (axis, &[before, after]) in pads.iter().enumerate().filter(|(_, pair)| pair[0] < 0 || pair[1] < 0) {
        let [before, after] = [before, after].map(|pad| pad.min(0).unsigned_abs() as usize);
        let length = to.builder.shape(result.id).dims()[axis];
        let length =
            length.checked_sub(before).and_then(|left| left.checked_sub(after)).ok_or(NodeMisfit::Unsupported)?;
        result = to.add_like(own_name(call), Op::Slice { axis, start: before, length }, &[result])?;
    }
    Ok(result)
}

/// The full output shape by an operator's rule, for the file's batch.
fn shape_by_rule(to: &GraphTranslation, call: &NodeCall) -> Result<TensorDims, NodeMisfit> {
    let inputs: Vec<_> = call.inputs.iter().map(|input| to.input_dims(input, to.samples)).collect();
    infer::outputs(call, &inputs).and_then(|shapes| shapes.into_iter().next()).ok_or(NodeMisfit::Unsupported)
}

/// An image at another size.
pub(super) fn resize(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = to.image(call)?;
    let target = shape_by_rule(to, call)?;
    let target: Vec<usize> = target.get(1..).and_then(as_integers).ok_or(NodeMisfit::Unsupported)?;
    let &[channels, height, width] = target.as_slice() else { return Err(NodeMisfit::Unsupported) };
    let image = [height, width];
    let same = to.builder.shape(input.id).dims();
    if channels != same[0] {
        return Err(NodeMisfit::Unsupported);
    }
    if image == [same[1], same[2]] {
        return single(input);
    }
    let interpolation = match call.text("mode") {
        "" | "nearest" => Interpolation::Nearest,
        "linear" | "bilinear" => Interpolation::Linear,
        "cubic" => Interpolation::Cubic,
        other => return Err(NodeMisfit::Wrong(format!("interpolates in a mode \"{other}\""))),
    };
    let corners = call.text("coordinate_transformation_mode") == "align_corners";
    single(to.add_like(own_name(call), Op::Resize { image, interpolation, corners }, &[input])?)
}

/// Broadcasts axes of length 1, and adds leading axes.
pub(super) fn expand(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    let target = shape_by_rule(to, call)?;
    resize_to(to, call, input, &target)
}

fn resize_to(to: &mut GraphTranslation, call: &NodeCall, input: Feature, target: &[BatchNumber]) -> CallResult {
    let dims = to.dims(input);
    let more = target.len().checked_sub(dims.len()).ok_or(NodeMisfit::Unsupported)?;
    let raised: TensorDims = std::iter::repeat_n(1.into(), more).chain(dims.iter().copied()).collect();
    let batch = match input.batch {
        // A file never broadcasts the batch.
        Some(batch) if target[batch.axis + more] != dims[batch.axis] => return Err(NodeMisfit::Unsupported),
        Some(batch) => Some(batch.moved_to(batch.axis + more)),
        None => copied_for_samples(to, &raised, target),
    };
    let mut result = Feature { batch, ..input };
    for (dims, op) in [(raised.as_slice(), Op::Reshape as fn(Shape) -> Op), (target, Op::Expand)] {
        let shape = sample(dims, batch)?;
        if *to.builder.shape(result.id) != shape {
            result = to.add_like(own_name(call), op(shape), &[result])?;
        }
    }
    single(result)
}

/// Where the batch is in copies for every sample of what is the same for all, such as the table of positions in MPNet and the mask of windows in Swin.
fn copied_for_samples(to: &GraphTranslation, once: &[BatchNumber], target: &[BatchNumber]) -> Option<BatchAxis> {
    let is_batch = |axis: usize| to.samples != 1 && once[axis] == 1 && target[axis] == to.samples;
    super::fixed::place_of_batch(to, target.len(), is_batch).map(BatchAxis::alone_at)
}

pub(super) fn tile(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let input = call.feature(0)?;
    let repeats = call.constant(1).map(KnownTensor::as_integers).ok_or(NodeMisfit::Unsupported)?;
    let mut result = input;
    for (axis, &times) in repeats.iter().enumerate().filter(|(_, times)| **times != 1) {
        let axis = to.axis(result, axis as i64)?;
        if !(1..=MAX_COPIES).contains(&times) {
            return Err(NodeMisfit::Unsupported);
        }
        let mut dims = to.builder.shape(result.id).dims().to_vec();
        let (op, inputs) = match dims[axis] {
            1 => {
                dims[axis] = times as usize;
                (Op::Expand(Shape::new(dims)), vec![result])
            }
            _ => (Op::Concat { axis }, vec![result; times as usize]),
        };
        result = to.add_like(own_name(call), op, &inputs)?;
    }
    single(result)
}

/// Channels laid out as the pixels of blocks, or the reverse: PyTorch's pixel_shuffle is these three steps (PixelShuffle.cpp).
pub(super) fn blocks(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let image = to.image(call)?;
    let block = size(call.int("blocksize").unwrap_or(0))?;
    let &[channels, height, width] = to.builder.shape(image.id).dims() else { return Err(NodeMisfit::Unsupported) };
    let deep = call.node.op_type() == "DepthToSpace";
    let fits = match deep {
        true => block > 0 && channels.is_multiple_of(block * block),
        false => block > 0 && height.is_multiple_of(block) && width.is_multiple_of(block),
    };
    if !fits {
        return Err(NodeMisfit::Wrong(format!("cannot lay out {channels}x{height}x{width} in blocks of {block}")));
    }
    let (parts, order, result) = match (deep, call.text("mode")) {
        (true, "CRD") => {
            let left = channels / (block * block);
            ([left, block, block, height, width], [0, 3, 1, 4, 2], [left, height * block, width * block])
        }
        (true, _) => {
            let left = channels / (block * block);
            ([block, block, left, height, width], [2, 3, 0, 4, 1], [left, height * block, width * block])
        }
        (false, _) => {
            let [rows, columns] = [height / block, width / block];
            ([channels, rows, block, columns, block], [2, 4, 0, 1, 3], [channels * block * block, rows, columns])
        }
    };
    let name = own_name(call);
    let parts = to.add_like(&format!("{name}_blocks"), Op::Reshape(Shape::new(parts)), &[image])?;
    let turned = to.add_like(&format!("{name}_turned"), Op::Transpose { order: order.to_vec() }, &[parts])?;
    let result = to.add_like(name, Op::Reshape(Shape::new(result)), &[turned])?;
    [parts, result].into_iter().for_each(|step| to.builder.set_runs(step.id, PytorchRun::PixelShuffle));
    single(result)
}
