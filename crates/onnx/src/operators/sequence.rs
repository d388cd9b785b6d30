//! Convolutions and poolings of sequences: PyTorch runs them on images with one row.

use super::convolution::{check_channels, check_gives_paddings, layer, size, transposed_layer};
use super::padding::{self, Extent};
use super::stack;
use crate::batch::BatchAxis;
use crate::call::{CallResult, NodeCall, NodeMisfit};
use crate::translate::{GraphTranslation, own_name, single};
use crate::value::{Feature, Value};
use perf4sight_network::{Conv, ConvTranspose, Op, Shape, Window};

pub(super) fn conv(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let [out_channels, seen, length] = call.fixed(1)?;
    let groups = size(call.int("group").unwrap_or(1))?;
    let window = window(to, call, length)?;
    let ([own], added) = padding::split(call, [[window.padding[1], window.padding[3]]]);
    let window = Window { padding: [0, own, 0, own], ..window };
    if let Some(rows) = stack::rows(to, call)? {
        let rows = padding::pad(to, call, rows, &[[0; 2], [0; 2], added[0]])?;
        let result = stack::convolve_every(to, call, rows, &window)?;
        return stack::of_rows(to, call, result);
    }
    let bias = to.has_bias(call);
    let image = image(to, call)?;
    let image = padding::pad(to, call, image, &[[0; 2], added[0]])?;
    check_channels(to, image, seen, groups)?;
    let result = layer(to, call, Op::Conv(Conv { out_channels, window, groups, bias }), image)?;
    of_row(to, call, &result)
}

pub(super) fn transposed(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let [channels, of_group, length] = call.fixed(1)?;
    let groups = size(call.int("group").unwrap_or(1))?;
    check_gives_paddings(call)?;
    let extra = match call.ints("output_padding") {
        None | Some([]) => 0,
        Some(&[after]) => size(after)?,
        Some(_) => return Err(NodeMisfit::Wrong("has an output_padding that is none of a sequence".into())),
    };
    let window = window(to, call, length)?;
    let image = image(to, call)?;
    check_channels(to, image, channels, 1)?;
    let conv = Conv { out_channels: of_group.saturating_mul(groups), window, groups, bias: to.has_bias(call) };
    let result = transposed_layer(to, call, ConvTranspose { conv, extra: [0, extra] }, image)?;
    of_row(to, call, &result)
}

fn of_row(to: &mut GraphTranslation, call: &NodeCall, result: &[Value]) -> CallResult {
    match *result {
        [Value::Feature(result)] => sequence(to, call, result),
        _ => Err(NodeMisfit::Unsupported),
    }
}

pub(super) fn pool(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let Some(&[length]) = call.ints("kernel_shape") else { return Err(NodeMisfit::Unsupported) };
    let window = Window { ceil: call.flag("ceil_mode"), ..window(to, call, size(length)?)? };
    if let Some(rows) = stack::rows(to, call)? {
        let result = stack::pool_every(to, call, rows, &window)?;
        return stack::of_rows(to, call, result);
    }
    let image = image(to, call)?;
    let op = match call.node.op_type() {
        "MaxPool" => Op::MaxPool(window),
        _ => Op::AvgPool { window, count_include_pad: call.flag("count_include_pad") },
    };
    let result = to.add_like(own_name(call), op, &[image])?;
    sequence(to, call, result)
}

/// A sequence as an image with one row.
fn image(to: &mut GraphTranslation, call: &NodeCall) -> Result<Feature, NodeMisfit> {
    let input = call.feature(0)?;
    let &[channels, length] = to.builder.shape(input.id).dims() else { return Err(NodeMisfit::Unsupported) };
    if input.batch != Some(BatchAxis::FIRST) {
        return Err(NodeMisfit::Unsupported);
    }
    to.add_like(&format!("{}_row", own_name(call)), Op::Reshape(Shape::new([channels, 1, length])), &[input])
}

/// An image with one row as a sequence.
fn sequence(to: &mut GraphTranslation, call: &NodeCall, row: Feature) -> CallResult {
    let dims = to.builder.shape(row.id).dims();
    let shape = Shape::new([dims[0], dims[2]]);
    single(to.add_like(&format!("{}_sequence", own_name(call)), Op::Reshape(shape), &[row])?)
}

/// The window as a row of an image.
fn window(to: &GraphTranslation, call: &NodeCall, length: usize) -> Result<Window, NodeMisfit> {
    let one = |name: &str| match call.ints(name) {
        None | Some([]) => Ok(1),
        Some(&[value]) => size(value),
        Some(values) => Err(NodeMisfit::Wrong(format!("has {} {name} for a sequence", values.len()))),
    };
    let (stride, dilation) = (one("strides")?, one("dilations")?);
    let image = to.builder.shape(call.feature(0)?.id).dims().last().map_or(0, |&image| image);
    let extent = Extent { image: [image], kernel: [length], stride: [stride], dilation: [dilation] };
    let [[before, behind]] = extent.sides(call)?;
    let padding = [0, before, 0, behind];
    Ok(Window { kernel: [1, length], stride: [1, stride], padding, dilation: [1, dilation], ceil: false })
}
