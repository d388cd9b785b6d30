//! Shapes of operators on images, sequences and volumes: one batch axis, one channel axis, any number of others.

use crate::call::{NodeCall, axis};
use crate::number::{BatchNumber, TensorDims, numbers, product};
use crate::tensor::KnownTensor;

pub(super) fn output(call: &NodeCall, inputs: &[Option<TensorDims>]) -> Option<TensorDims> {
    let input = |index: usize| inputs.get(index)?.as_deref();
    let data = input(0)?;
    match call.node.op_type() {
        "Pad" => padded_dims(call, data),
        "Resize" | "Upsample" => resized_dims(call, data),
        "Conv" | "DeformConv" => windowed_dims(call, data, *input(1)?.first()?, input(1)?.get(2..)?),
        "MaxPool" | "AveragePool" | "LpPool" => {
            windowed_dims(call, data, *data.get(1)?, &numbers(call.ints("kernel_shape")?))
        }
        "ConvTranspose" => transposed_dims(call, data, input(1)?),
        "MaxUnpool" => unpooled_dims(call, data),
        "GlobalAveragePool" | "GlobalMaxPool" | "GlobalLpPool" => {
            Some(data.iter().enumerate().map(|(axis, &dim)| if axis < 2 { dim } else { 1.into() }).collect())
        }
        "DepthToSpace" | "SpaceToDepth" => blocks(call, data),
        "Col2Im" => columns_back(call, data),
        "GridSample" => Some([data.get(..2)?, input(1)?.get(1..data.len() - 1)?].concat()),
        "AffineGrid" => {
            let wanted = &call.constant(1)?.values;
            let (_, image) = wanted.split_at_checked(2)?;
            Some(wanted[..1].iter().chain(image).copied().chain([image.len().into()]).collect())
        }
        "RoiAlign" => {
            let [height, width] = ["output_height", "output_width"].map(|name| call.int(name).unwrap_or(1).into());
            Some(vec![*input(1)?.first()?, *data.get(1)?, height, width])
        }
        _ => None,
    }
}

/// Every column holds a window of every channel.
fn columns_back(call: &NodeCall, data: &[BatchNumber]) -> Option<TensorDims> {
    let (image, window) = (&call.constant(1)?.values, &call.constant(2)?.values);
    let &[batch, elements, _] = data else { return None };
    let channels = (elements / product(window)).map(f64::floor);
    Some([&[batch, channels], image.as_slice()].concat())
}

/// Pairs of the padding before and after; negative ones cut. From opset 18 on, the axes may be given.
fn padded_dims(call: &NodeCall, data: &[BatchNumber]) -> Option<TensorDims> {
    let pads = call.numbers("pads", 1)?;
    let axes = call.constant(3).map_or_else(|| (0..data.len() as i64).collect(), KnownTensor::as_integers);
    if pads.len() != 2 * axes.len() {
        return None;
    }
    let mut dims = data.to_vec();
    for (index, &along) in axes.iter().enumerate() {
        let along = axis(along, dims.len()).ok()?;
        dims[along] = dims[along] + pads[index] + pads[index + axes.len()];
    }
    Some(dims)
}

/// Factors are input 2 (input 1 in opset 10 and in Upsample), or sizes are input 3; from opset 18 on, the axes may be given.
fn resized_dims(call: &NodeCall, data: &[BatchNumber]) -> Option<TensorDims> {
    let axes: Vec<usize> = match call.ints("axes") {
        Some(axes) => axes.iter().map(|&one| axis(one, data.len()).ok()).collect::<Option<_>>()?,
        None => (0..data.len()).collect(),
    };
    let mut dims = data.to_vec();
    if let Some(wanted) = call.constant(3).map(|wanted| &wanted.values) {
        // The batch stays, whatever batch the file was exported with.
        axes.iter().zip(wanted).filter(|(along, _)| **along > 0).for_each(|(&along, &wanted)| dims[along] = wanted);
        return Some(dims);
    }
    let factors = match call.floats("scales") {
        Some(factors) => factors.iter().map(|&factor| f64::from(factor).into()).collect(),
        None => {
            [2, 1].into_iter().filter_map(|at| call.constant(at)).find(|c| c.values.len() == axes.len())?.values.clone()
        }
    };
    axes.iter().zip(factors).for_each(|(&along, factor)| dims[along] = (data[along] * factor).map(f64::floor));
    Some(dims)
}

/// Values of an attribute for every spatial axis, or `default` for all.
fn values(call: &NodeCall, name: &str, count: usize, default: i32) -> Option<TensorDims> {
    match call.ints(name) {
        None | Some([]) => Some(vec![default.into(); count]),
        Some(values) => Some(numbers(values)).filter(|values| values.len() == count),
    }
}

/// The extent of a window, its movement, and the padding of both sides.
struct WindowMoves {
    reach: TensorDims,
    strides: TensorDims,
    pads: TensorDims,
}

fn window_moves(call: &NodeCall, kernel: &[BatchNumber]) -> Option<WindowMoves> {
    let count = kernel.len();
    let dilations = values(call, "dilations", count, 1)?;
    let pads = values(call, "pads", 2 * count, 0)?;
    Some(WindowMoves {
        reach: kernel.iter().zip(dilations).map(|(&kernel, dilation)| (kernel - 1) * dilation + 1).collect(),
        strides: values(call, "strides", count, 1)?,
        pads: (0..count).map(|at| pads[at] + pads[at + count]).collect(),
    })
}

fn windowed_dims(
    call: &NodeCall,
    data: &[BatchNumber],
    channels: BatchNumber,
    kernel: &[BatchNumber],
) -> Option<TensorDims> {
    let WindowMoves { reach, strides, pads } = window_moves(call, kernel)?;
    let mut dims = vec![*data.first()?, channels];
    let padding = call.text("auto_pad");
    for (at, &size) in data.get(2..)?.iter().enumerate() {
        let stride = *strides.get(at)?;
        let room = size - reach[at] + if padding == "VALID" { 0.into() } else { pads[at] };
        dims.push(match (padding.starts_with("SAME"), call.flag("ceil_mode")) {
            (true, _) => (size / stride).map(f64::ceil),
            (false, _) if room < 0 => return None,
            (false, true) => (room / stride).map(f64::ceil) + 1,
            (false, false) => (room / stride).map(f64::floor) + 1,
        });
    }
    Some(dims)
}

fn transposed_dims(call: &NodeCall, data: &[BatchNumber], filters: &[BatchNumber]) -> Option<TensorDims> {
    let (&[_, of_group], kernel) = filters.split_first_chunk()?;
    let WindowMoves { reach, strides, pads } = window_moves(call, kernel)?;
    let extra = values(call, "output_padding", kernel.len(), 0)?;
    let mut dims = vec![*data.first()?, of_group * call.int("group").unwrap_or(1)];
    if let Some(wanted) = call.ints("output_shape") {
        dims.extend(numbers(wanted));
        return Some(dims);
    }
    for (at, &size) in data.get(2..)?.iter().enumerate() {
        let stride = *strides.get(at)?;
        let full = (size - 1) * stride + reach[at] + extra[at] - pads[at];
        dims.push(if call.text("auto_pad").starts_with("SAME") { size * stride } else { full });
    }
    Some(dims)
}

/// The smallest image that a pooling with these windows reduces to this size, unless an input gives another.
fn unpooled_dims(call: &NodeCall, data: &[BatchNumber]) -> Option<TensorDims> {
    if let Some(wanted) = call.constant(2) {
        return Some(wanted.values.clone());
    }
    let WindowMoves { reach, strides, pads } = window_moves(call, &numbers(call.ints("kernel_shape")?))?;
    let mut dims = data.get(..2)?.to_vec();
    for (at, &size) in data.get(2..)?.iter().enumerate() {
        dims.push((size - 1) * *strides.get(at)? + reach[at] - pads[at]);
    }
    Some(dims)
}

fn blocks(call: &NodeCall, data: &[BatchNumber]) -> Option<TensorDims> {
    let &[batch, channels, height, width] = data else { return None };
    let block = call.int("blocksize")?;
    let split = |dim: BatchNumber, into: BatchNumber| (dim / into).map(f64::floor);
    let area = BatchNumber::from(block) * block;
    Some(match call.node.op_type() {
        "DepthToSpace" => vec![batch, split(channels, area), height * block, width * block],
        _ => vec![batch, channels * area, split(height, block.into()), split(width, block.into())],
    })
}
