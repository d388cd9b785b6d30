//! Convolutions and poolings of volumes.

use super::convolution::{check_channels, layer, size};
use crate::batch::BatchAxis;
use crate::call::{CallResult, NodeCall, NodeMisfit};
use crate::translate::{GraphTranslation, own_name, single};
use crate::value::Feature;
use perf4sight_network::{Conv, Op, PaddingFill, VolumeWindow};

pub(super) fn conv(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let [out_channels, seen, depth, height, width] = call.fixed(1)?;
    let groups = size(call.int("group").unwrap_or(1))?;
    let (window, sides) = window(call, [depth, height, width])?;
    let volume = volume(to, call)?;
    check_channels(to, volume, seen, groups)?;
    let volume = pad_volume(to, call, volume, sides)?;
    let bias = to.has_bias(call);
    layer(to, call, Op::Conv3d(Conv { out_channels, window, groups, bias }), volume)
}

pub(super) fn pool(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let Some(&[depth, height, width]) = call.ints("kernel_shape") else { return Err(NodeMisfit::Unsupported) };
    let (window, sides) = window(call, [size(depth)?, size(height)?, size(width)?])?;
    let window = VolumeWindow { ceil: call.flag("ceil_mode"), ..window };
    let volume = volume(to, call)?;
    let count_include_pad = call.flag("count_include_pad");
    let is_mean = call.node.op_type() == "AveragePool";
    // Zeros that are added first would change a maximum and the denominator of a mean.
    if sides.is_some() && !(is_mean && count_include_pad) {
        return Err(NodeMisfit::Unsupported);
    }
    let volume = pad_volume(to, call, volume, sides)?;
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

/// The padding of a volume that is not padded equally on both sides.
pub(super) type UnequalPadding = Option<[[usize; 2]; 3]>;

pub(super) fn pad_volume(
    to: &mut GraphTranslation,
    call: &NodeCall,
    volume: Feature,
    sides: UnequalPadding,
) -> Result<Feature, NodeMisfit> {
    let Some(sides) = sides else { return Ok(volume) };
    let sides = std::iter::once([0, 0]).chain(sides.map(|side| side.map(|added| added as i64))).collect();
    to.add_like(&format!("{}_padded", own_name(call)), Op::Pad { sides, fill: PaddingFill::Zeros }, &[volume])
}

fn window(call: &NodeCall, kernel: [usize; 3]) -> Result<(VolumeWindow, UnequalPadding), NodeMisfit> {
    let pads = match (call.text("auto_pad"), call.ints("pads")) {
        ("" | "NOTSET", None) | ("VALID", _) => [0; 6],
        ("" | "NOTSET", Some(pads)) => numbers(pads)?,
        _ => return Err(NodeMisfit::Unsupported),
    };
    let sides: [[usize; 2]; 3] = std::array::from_fn(|axis| [pads[axis], pads[axis + 3]]);
    let alike = sides.iter().all(|[before, behind]| before == behind);
    let one = |name: &str| call.ints(name).filter(|values| !values.is_empty()).map_or(Ok([1; 3]), numbers);
    let padding = if alike { sides.map(|side| side[0]) } else { [0; 3] };
    let window = VolumeWindow { kernel, stride: one("strides")?, padding, dilation: one("dilations")?, ceil: false };
    Ok((window, (!alike).then_some(sides)))
}

fn numbers<const N: usize>(values: &[i64]) -> Result<[usize; N], NodeMisfit> {
    let sizes: Vec<usize> = values.iter().map(|&value| size(value)).collect::<Result<_, _>>()?;
    sizes.try_into().map_err(|_| NodeMisfit::Wrong(format!("has {} numbers where a volume needs {N}", values.len())))
}
