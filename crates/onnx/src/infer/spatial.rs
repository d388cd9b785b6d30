//! Shapes of operators on images, sequences and volumes: one batch axis, one channel axis, any number of others.

use super::{Dims, product_of};
use crate::call::{Call, axis};
use crate::tensor::Constant;

pub(super) fn output(call: &Call, inputs: &[Option<Dims>]) -> Option<Dims> {
    let input = |index: usize| inputs.get(index)?.as_deref();
    let data = input(0)?;
    match call.node.op_type() {
        "Pad" => padded(call, data),
        "Resize" | "Upsample" => resized(call, data),
        "Conv" | "DeformConv" => windowed(call, data, *input(1)?.first()?, input(1)?.get(2..)?),
        "MaxPool" | "AveragePool" | "LpPool" => windowed(
            call,
            data,
            *data.get(1)?,
            &Constant::integers(call.ints("kernel_shape")?.iter().copied()).sizes::<u64>()?,
        ),
        "ConvTranspose" => transposed(call, data, input(1)?),
        "MaxUnpool" => unpooled(call, data),
        "GlobalAveragePool" | "GlobalMaxPool" | "GlobalLpPool" => {
            Some(data.iter().enumerate().map(|(axis, &dim)| if axis < 2 { dim } else { 1 }).collect())
        }
        "DepthToSpace" | "SpaceToDepth" => blocks(call, data),
        "Col2Im" => columns_back(call, data),
        "GridSample" => Some([data.get(..2)?, input(1)?.get(1..data.len() - 1)?].concat()),
        "AffineGrid" => {
            let wanted = call.constant(1)?.sizes::<u64>()?;
            let (_, image) = wanted.split_at_checked(2)?;
            Some(wanted[..1].iter().chain(image).copied().chain([image.len() as u64]).collect())
        }
        "RoiAlign" => {
            let [height, width] =
                ["output_height", "output_width"].map(|name| u64::try_from(call.int(name).unwrap_or(1)));
            Some(vec![*input(1)?.first()?, *data.get(1)?, height.ok()?, width.ok()?])
        }
        _ => None,
    }
}

/// Every column holds a window of every channel.
fn columns_back(call: &Call, data: &[u64]) -> Option<Dims> {
    let (image, window) = (call.constant(1)?.sizes::<u64>()?, call.constant(2)?.sizes::<u64>()?);
    let &[batch, elements, _] = data else { return None };
    let channels = elements.checked_div(product_of(&window)?)?;
    Some([batch, channels].into_iter().chain(image).collect())
}

/// Pairs of the padding before and after; negative ones cut. From opset 18 on, the axes may be given.
fn padded(call: &Call, data: &[u64]) -> Option<Dims> {
    let pads = call.integers("pads", 1)?;
    let axes = call.constant(3).map_or_else(|| (0..data.len() as i64).collect(), Constant::as_integers);
    if pads.len() != 2 * axes.len() {
        return None;
    }
    let mut dims = data.to_vec();
    for (index, &along) in axes.iter().enumerate() {
        let along = axis(along, dims.len()).ok()?;
        let added = pads[index].checked_add(pads[index + axes.len()])?;
        dims[along] = dims[along].checked_add_signed(added)?;
    }
    Some(dims)
}

/// Factors are input 2 (input 1 in opset 10 and in Upsample), or sizes are input 3; from opset 18 on, the axes may be given.
fn resized(call: &Call, data: &[u64]) -> Option<Dims> {
    let axes: Vec<usize> = match call.ints("axes") {
        Some(axes) => axes.iter().map(|&one| axis(one, data.len()).ok()).collect::<Option<_>>()?,
        None => (0..data.len()).collect(),
    };
    let mut dims = data.to_vec();
    if let Some(wanted) = call.constant(3).and_then(Constant::sizes::<u64>) {
        // The batch stays, whatever batch the file was exported with.
        axes.iter().zip(wanted).filter(|(along, _)| **along > 0).for_each(|(&along, wanted)| dims[along] = wanted);
        return Some(dims);
    }
    let factors = match call.floats("scales") {
        Some(factors) => factors.iter().map(|&factor| f64::from(factor)).collect(),
        None => {
            [2, 1].into_iter().filter_map(|at| call.constant(at)).find(|c| c.values.len() == axes.len())?.values.clone()
        }
    };
    axes.iter().zip(factors).for_each(|(&along, factor)| dims[along] = (data[along] as f64 * factor).floor() as u64);
    Some(dims)
}

/// Values of an attribute for every spatial axis, or `default` for all.
fn numbers(call: &Call, name: &str, count: usize, default: u64) -> Option<Dims> {
    match call.ints(name) {
        None | Some([]) => Some(vec![default; count]),
        Some(values) if values.len() == count => values.iter().map(|&value| u64::try_from(value).ok()).collect(),
        Some(_) => None,
    }
}

/// The extent of a window, and its movement.
struct Moves {
    reach: Dims,
    strides: Dims,
    pads: Dims,
}

fn moves(call: &Call, kernel: &[u64]) -> Option<Moves> {
    let count = kernel.len();
    let dilations = numbers(call, "dilations", count, 1)?;
    let reach = kernel
        .iter()
        .zip(dilations)
        .map(|(kernel, dilation)| kernel.checked_sub(1)?.checked_mul(dilation)?.checked_add(1));
    Some(Moves {
        reach: reach.collect::<Option<_>>()?,
        strides: numbers(call, "strides", count, 1)?,
        pads: numbers(call, "pads", 2 * count, 0)?,
    })
}

fn windowed(call: &Call, data: &[u64], channels: u64, kernel: &[u64]) -> Option<Dims> {
    let Moves { reach, strides, pads } = moves(call, kernel)?;
    let mut dims = vec![*data.first()?, channels];
    let same = call.text("auto_pad").starts_with("SAME");
    for (at, &size) in data.get(2..)?.iter().enumerate() {
        let stride = strides.get(at).copied().filter(|&stride| stride > 0)?;
        let pads = if call.text("auto_pad") == "VALID" { 0 } else { pads[at].checked_add(pads[at + kernel.len()])? };
        let room = size.checked_add(pads)?.checked_sub(reach[at]);
        dims.push(match (same, call.flag("ceil_mode")) {
            (true, _) => size.div_ceil(stride),
            (false, true) => room?.div_ceil(stride) + 1,
            (false, false) => room? / stride + 1,
        });
    }
    Some(dims)
}

fn transposed(call: &Call, data: &[u64], filters: &[u64]) -> Option<Dims> {
    let channels = filters.get(1)?.checked_mul(u64::try_from(call.int("group").unwrap_or(1)).ok()?)?;
    let kernel = filters.get(2..)?;
    let Moves { reach, strides, pads } = moves(call, kernel)?;
    let extra = numbers(call, "output_padding", kernel.len(), 0)?;
    let mut dims = vec![*data.first()?, channels];
    if let Some(wanted) = call.ints("output_shape") {
        dims.extend(wanted.iter().map(|&dim| u64::try_from(dim).ok()).collect::<Option<Dims>>()?);
        return Some(dims);
    }
    for (at, &size) in data.get(2..)?.iter().enumerate() {
        let stride = *strides.get(at)?;
        let spread = size.checked_sub(1)?.checked_mul(stride)?.checked_add(reach[at])?.checked_add(extra[at])?;
        let full = spread.checked_sub(pads[at].checked_add(pads[at + kernel.len()])?)?;
        dims.push(if call.text("auto_pad").starts_with("SAME") { size.checked_mul(stride)? } else { full });
    }
    Some(dims)
}

/// The smallest image that a pooling with these windows reduces to this size, unless an input gives another.
fn unpooled(call: &Call, data: &[u64]) -> Option<Dims> {
    if let Some(wanted) = call.constant(2) {
        return wanted.sizes::<u64>();
    }
    let kernel = Constant::integers(call.ints("kernel_shape")?.iter().copied()).sizes::<u64>()?;
    let Moves { reach, strides, pads } = moves(call, &kernel)?;
    let mut dims = data.get(..2)?.to_vec();
    for (at, &size) in data.get(2..)?.iter().enumerate() {
        let spread = size.checked_sub(1)?.checked_mul(*strides.get(at)?)?.checked_add(*reach.get(at)?)?;
        dims.push(spread.checked_sub(pads[at].checked_add(pads[at + kernel.len()])?)?);
    }
    Some(dims)
}

fn blocks(call: &Call, data: &[u64]) -> Option<Dims> {
    let &[batch, channels, height, width] = data else { return None };
    let block = call.int("blocksize").and_then(|block| u64::try_from(block).ok()).filter(|&block| block > 0)?;
    let area = product_of(&[block, block])?;
    Some(match call.node.op_type() {
        "DepthToSpace" => vec![batch, channels / area, height.checked_mul(block)?, width.checked_mul(block)?],
        _ => vec![batch, channels.checked_mul(area)?, height / block, width / block],
    })
}
