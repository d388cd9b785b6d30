//! Convolutions and poolings of volumes.

use super::convolution::{check_channels, layer, size};
use super::padding::{self, Extent, Sides};
use crate::batch::BatchAxis;
use crate::call::{CallResult, NodeCall, NodeMisfit};
use crate::translate::{GraphTranslation, own_name, single};
use crate::value::Feature;
use perf4sight_network::{Conv, Op, VolumeWindow};

pub(super) fn conv(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let [out_channels, seen, depth, height, width] = call.fixed(1)?;
    let groups = size(call.int("group").unwrap_or(1))?;
    let (window, sides) = window(to, call, [depth, height, width])?;
    let volume = volume(to, call)?;
    check_channels(to, volume, seen, groups)?;
    let (padding, added) = padding::split(call, sides);
    let volume = padding::pad(to, call, volume, &added)?;
    let window = VolumeWindow { padding, ceil: false, ..window };
    let bias = to.has_bias(call);
    layer(to, call, Op::Conv3d(Conv { out_channels, window, groups, bias }), volume)
}

pub(super) fn pool(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let Some(&[depth, height, width]) = call.ints("kernel_shape") else { return Err(NodeMisfit::Unsupported) };
    let (window, sides) = window(to, call, [size(depth)?, size(height)?, size(width)?])?;
    let volume = volume(to, call)?;
    let count_include_pad = call.flag("count_include_pad");
    let is_mean = call.node.op_type() == "AveragePool";
    let is_alike = sides.iter().all(|[before, behind]| before == behind);
    // Zeros that are added first would change a maximum and the denominator of a mean.
    if !(is_alike || is_mean && count_include_pad) {
        return Err(NodeMisfit::Unsupported);
    }
    let (padding, added) = if is_alike { (sides.map(|side| side[0]), [[0; 2]; 3]) } else { ([0; 3], sides) };
    let volume = padding::pad(to, call, volume, &added)?;
    let window = VolumeWindow { padding, ..window };
    let op = if is_mean { Op::AvgPool3d { window, count_include_pad } } else { Op::MaxPool3d(window) };
    single(to.add_like(own_name(call), op, &[volume])?)
}

/// The first input, if its batch comes first and alone, as in volumes.
fn volume(to: &GraphTranslation, call: &NodeCall) -> Result<Feature, NodeMisfit> {
    let feature = call.feature(0)?;
    match feature.batch == Some(BatchAxis::FIRST) && to.builder.shape(feature.id).rank() == 4 {
        true => Ok(feature),
        false => Err(NodeMisfit::Unsupported),
    }
}

/// The window without its padding, and the padding.
fn window(to: &GraphTranslation, call: &NodeCall, kernel: [usize; 3]) -> Result<(VolumeWindow, Sides<3>), NodeMisfit> {
    let &[_, depth, height, width] = to.builder.shape(volume(to, call)?.id).dims() else {
        return Err(NodeMisfit::Unsupported);
    };
    let one = |name: &str| call.ints(name).filter(|values| !values.is_empty()).map_or(Ok([1; 3]), numbers);
    let (stride, dilation) = (one("strides")?, one("dilations")?);
    let sides = Extent { image: [depth, height, width], kernel, stride, dilation }.sides(call)?;
    Ok((VolumeWindow { kernel, stride, padding: [0; 3], dilation, ceil: call.flag("ceil_mode") }, sides))
}

fn numbers<const N: usize>(values: &[i64]) -> Result<[usize; N], NodeMisfit> {
    let sizes: Vec<usize> = values.iter().map(|&value| size(value)).collect::<Result<_, _>>()?;
    sizes.try_into().map_err(|_| NodeMisfit::Wrong(format!("has {} numbers where a volume needs {N}", values.len())))
}
