//! Convolutions, also transposed ones, and the windows of convolutions and poolings.

use super::normalisation::restore_batch_norm;
use super::padding::{self, Extent, Sides};
use super::{contiguous, sequence, stack, volume};
use crate::call::{CallResult, NodeCall, NodeMisfit};
use crate::translate::{GraphTranslation, single};
use crate::value::Feature;
use perf4sight_network::{Conv, ConvTranspose, Op, Window};

pub(super) fn conv(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    match call.input(1).fixed_dims().as_deref() {
        Some([_, _, _]) => return sequence::conv(to, call),
        Some([_, _, _, _, _]) => return volume::conv(to, call),
        Some([_, _, _, _]) if stack::is_stack(to, call) => return stack::conv(to, call),
        _ => {}
    }
    let image = to.image(call)?;
    let image = contiguous::laid_out_image(to, call, image)?;
    let [out_channels, seen, height, width] = call.fixed(1)?;
    let groups = size(call.int("group").unwrap_or(1))?;
    check_channels(to, image, seen, groups)?;
    if call.ints("kernel_shape").is_some_and(|kernel| kernel != [height as i64, width as i64]) {
        return Err(NodeMisfit::Wrong(format!("has a kernel_shape that differs from its filters' {height}x{width}")));
    }
    let window = window(call, to.builder.shape(image.id).image(), [height, width])?;
    let (window, added) = own_padding(call, window);
    let image = padding::pad(to, call, image, &added)?;
    let bias = to.has_bias(call);
    layer(to, call, Op::Conv(Conv { out_channels, window, groups, bias }), image)
}

/// Checks that the filters of all groups together read every channel.
pub(super) fn check_channels(
    to: &GraphTranslation,
    image: Feature,
    seen: usize,
    groups: usize,
) -> Result<(), NodeMisfit> {
    let channels = to.builder.shape(image.id).channels();
    match seen.checked_mul(groups) == Some(channels) {
        true => Ok(()),
        false => Err(NodeMisfit::Wrong(format!(
            "reads {channels} channels, its filters see {seen} in each of {groups} groups"
        ))),
    }
}

/// The convolution of a call on an image, and the batch normalisation that its exporter folded into it.
pub(super) fn layer(to: &mut GraphTranslation, call: &NodeCall, conv: Op, image: Feature) -> CallResult {
    let node = to.add_like(&to.name(call), conv, &[image])?;
    to.store_filters(node.id, call.input(1), 0);
    let bias = to.has_bias(call).then(|| to.builder.shape(node.id).channels());
    let result = to.count_layer(node, call, bias)?;
    single(restore_batch_norm(to, call, result, 0)?)
}

/// Reads the window's kernel, stride, padding and dilation.
pub(super) fn window(call: &NodeCall, image: [usize; 2], kernel: [usize; 2]) -> Result<Window, NodeMisfit> {
    let (stride, dilation) = (pair(call, "strides")?, pair(call, "dilations")?);
    let [[top, bottom], [left, right]] = Extent { image, kernel, stride, dilation }.sides(call)?;
    Ok(Window { kernel, stride, padding: [top, left, bottom, right], dilation, ceil: call.flag("ceil_mode") })
}

/// The window of a convolution with the padding that it does itself, and what was padded before it.
pub(super) fn own_padding(call: &NodeCall, window: Window) -> (Window, Sides<2>) {
    let [top, left, bottom, right] = window.padding;
    let ([height, width], added) = padding::split(call, [[top, bottom], [left, right]]);
    (Window { padding: [height, width, height, width], ..window }, added)
}

fn pair(call: &NodeCall, attribute: &str) -> Result<[usize; 2], NodeMisfit> {
    match call.ints(attribute) {
        None | Some([]) => Ok([1, 1]),
        Some(&[height, width]) => Ok([size(height)?, size(width)?]),
        Some(values) => Err(NodeMisfit::Wrong(format!("has {} {attribute} for an image", values.len()))),
    }
}

/// A size attribute; no real one has more than 31 bits.
pub(super) fn size(value: i64) -> Result<usize, NodeMisfit> {
    usize::try_from(value)
        .ok()
        .filter(|&value| value < 1 << 31)
        .ok_or_else(|| NodeMisfit::Wrong(format!("has an attribute of {value}")))
}

/// A transposed convolution, whose filters are stored by input, then by output channels of a group.
pub(super) fn transposed(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    if call.input(1).fixed_dims().is_some_and(|dims| dims.len() == 3) {
        return sequence::transposed(to, call);
    }
    let image = to.image(call)?;
    let [channels, of_group, height, width] = call.fixed(1)?;
    let groups = size(call.int("group").unwrap_or(1))?;
    check_channels(to, image, channels, 1)?;
    check_gives_paddings(call)?;
    let window = window(call, to.builder.shape(image.id).image(), [height, width])?;
    let extra = match call.ints("output_padding") {
        None | Some([]) => [0, 0],
        Some(&[bottom, right]) => [size(bottom)?, size(right)?],
        Some(_) => return Err(NodeMisfit::Wrong("has an output_padding that is none of an image".into())),
    };
    let conv = Conv { out_channels: of_group.saturating_mul(groups), window, groups, bias: to.has_bias(call) };
    transposed_layer(to, call, ConvTranspose { conv, extra }, image)
}

/// PyTorch never writes the form that gives sizes instead of paddings.
pub(super) fn check_gives_paddings(call: &NodeCall) -> Result<(), NodeMisfit> {
    match call.ints("output_shape").is_some() || call.text("auto_pad").starts_with("SAME") {
        true => Err(NodeMisfit::Unsupported),
        false => Ok(()),
    }
}

pub(super) fn transposed_layer(
    to: &mut GraphTranslation,
    call: &NodeCall,
    layer: ConvTranspose,
    image: Feature,
) -> CallResult {
    let outputs = layer.conv.bias.then_some(layer.conv.out_channels);
    let node = to.add_like(&to.name(call), Op::ConvTranspose(layer), &[image])?;
    to.store_filters(node.id, call.input(1), 1);
    let result = to.count_layer(node, call, outputs)?;
    single(restore_batch_norm(to, call, result, 0)?)
}
