//! Images and sequences stacked in the batch's axis, such as those of heads, windows or words. They become slices of a volume, which a kernel of depth
//! 1 does not mix.

use super::convolution::{check_channels, layer, own_padding, size, window};
use super::padding;
use crate::batch::BatchAxis;
use crate::call::{CallResult, NodeCall, NodeMisfit};
use crate::number::as_integers;
use crate::translate::{GraphTranslation, own_name, single};
use crate::value::{Feature, Value};
use perf4sight_network::{Conv, Op, Shape, VolumeWindow, Window};

/// The batch of a tensor, if it holds several images of each sample, or sequences, whose tensors have an axis less.
fn stacked_batch(to: &GraphTranslation, input: Feature, rank: usize) -> Option<BatchAxis> {
    let stacked = |batch: &BatchAxis| batch.axis == 0 && !batch.is_alone() && to.builder.shape(input.id).rank() == rank;
    input.batch.filter(stacked)
}

pub(super) fn is_stack(to: &GraphTranslation, call: &NodeCall) -> bool {
    call.feature(0).is_ok_and(|input| stacked_batch(to, input, 4).is_some())
}

/// Sequences stacked in the batch's axis, as images with one row.
pub(super) fn rows(to: &mut GraphTranslation, call: &NodeCall) -> Result<Option<Feature>, NodeMisfit> {
    let input = call.feature(0)?;
    let &[times, channels, length] = to.builder.shape(input.id).dims() else { return Ok(None) };
    if stacked_batch(to, input, 3).is_none() {
        return Ok(None);
    }
    let shape = Shape::new([times, channels, 1, length]);
    to.add_like(&format!("{}_rows", own_name(call)), Op::Reshape(shape), &[input]).map(Some)
}

/// Images with one row as sequences.
pub(super) fn of_rows(to: &mut GraphTranslation, call: &NodeCall, rows: Feature) -> CallResult {
    let dims = to.builder.shape(rows.id).dims();
    let shape = Shape::new([dims[0], dims[1], dims[3]]);
    single(to.add_like(&format!("{}_sequences", own_name(call)), Op::Reshape(shape), &[rows])?)
}

pub(super) fn conv(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let [_, _, height, width] = call.fixed(1)?;
    let window = image_window(to, call, [height, width])?;
    let (window, [rows, columns]) = own_padding(call, window);
    let images = padding::pad(to, call, call.feature(0)?, &[[0; 2], rows, columns])?;
    single(convolve_every(to, call, images, &window)?)
}

/// A convolution of every image of a stack.
pub(super) fn convolve_every(
    to: &mut GraphTranslation,
    call: &NodeCall,
    images: Feature,
    window: &Window,
) -> Result<Feature, NodeMisfit> {
    let filters = call.input(1).fixed_dims().and_then(|dims| as_integers(&dims)).ok_or(NodeMisfit::Unsupported)?;
    let &[out_channels, seen, ..] = filters.as_slice() else { return Err(NodeMisfit::Unsupported) };
    let groups = size(call.int("group").unwrap_or(1))?;
    let bias = to.has_bias(call);
    apply_to_every(to, call, (images, window), |to, slices, window| {
        check_channels(to, slices, seen, groups)?;
        match layer(to, call, Op::Conv3d(Conv { out_channels, window, groups, bias }), slices)?.as_slice() {
            &[Value::Feature(result)] => Ok(result),
            _ => Err(NodeMisfit::Unsupported),
        }
    })
}

pub(super) fn pool(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let Some(&[height, width]) = call.ints("kernel_shape") else { return Err(NodeMisfit::Unsupported) };
    let images = call.feature(0)?;
    let window = image_window(to, call, [size(height)?, size(width)?])?;
    single(pool_every(to, call, images, &window)?)
}

/// A pooling of every image of a stack.
pub(super) fn pool_every(
    to: &mut GraphTranslation,
    call: &NodeCall,
    images: Feature,
    window: &Window,
) -> Result<Feature, NodeMisfit> {
    let count_include_pad = call.flag("count_include_pad");
    apply_to_every(to, call, (images, window), |to, slices, window| {
        let op = match call.node.op_type() {
            "MaxPool" => Op::MaxPool3d(window),
            _ => Op::AvgPool3d { window, count_include_pad },
        };
        to.add_like(own_name(call), op, &[slices])
    })
}

fn image_window(to: &GraphTranslation, call: &NodeCall, kernel: [usize; 2]) -> Result<Window, NodeMisfit> {
    let &[_, _, height, width] = to.builder.shape(call.feature(0)?.id).dims() else {
        return Err(NodeMisfit::Unsupported);
    };
    window(call, [height, width], kernel)
}

/// Applies an operation with such a window to every image.
fn apply_to_every(
    to: &mut GraphTranslation,
    call: &NodeCall,
    (images, window): (Feature, &Window),
    apply: impl FnOnce(&mut GraphTranslation, Feature, VolumeWindow) -> Result<Feature, NodeMisfit>,
) -> Result<Feature, NodeMisfit> {
    let batch = stacked_batch(to, images, 4).ok_or(NodeMisfit::Unsupported)?;
    let window = as_volume_window(window)?;
    // Moves the channels in front of the images.
    let turn = |to: &mut GraphTranslation, what: &str, input: Feature| {
        to.add_like(&format!("{}_{what}", own_name(call)), Op::Transpose { order: vec![1, 0, 2, 3] }, &[input])
    };
    let slices = Feature { batch: Some(batch.moved_to(1)), ..turn(to, "slices", images)? };
    let result = apply(to, slices, window)?;
    Ok(Feature { batch: Some(batch), ..turn(to, "images", result)? })
}

fn as_volume_window(window: &Window) -> Result<VolumeWindow, NodeMisfit> {
    let Window { kernel, stride, padding: [top, left, bottom, right], dilation, ceil } = *window;
    if [top, left] != [bottom, right] {
        return Err(NodeMisfit::Unsupported);
    }
    let deep = |shallow: usize, [height, width]: [usize; 2]| [shallow, height, width];
    let padding = deep(0, [top, left]);
    Ok(VolumeWindow { kernel: deep(1, kernel), stride: deep(1, stride), padding, dilation: deep(1, dilation), ceil })
}
