//! Convolutions, and the paddings they take over.

use crate::network::onnx::call::{Call, Misfit, Outcome};
use crate::network::onnx::translate::{Translation, own_name, single};
use crate::network::onnx::value::{Feature, Value};
use crate::network::{Conv, Op, Shape, Window};

pub(super) fn conv(to: &mut Translation, call: &Call) -> Outcome {
    let (image, padded) = unpadded(to, call)?;
    let filters = call.input(1).fixed_dims().ok_or(Misfit::Unsupported)?;
    let &[out_channels, seen, height, width] = filters else { return Err(Misfit::Unsupported) };
    let groups = size(call.int("group").unwrap_or(1))?;
    let channels = to.builder.shape(image.id).channels();
    if seen.checked_mul(groups) != Some(channels) {
        return Err(Misfit::Wrong(format!(
            "reads {channels} channels, its filters see {seen} in each of {groups} groups"
        )));
    }
    if call.ints("kernel_shape").is_some_and(|kernel| kernel != [height as i64, width as i64]) {
        return Err(Misfit::Wrong(format!("has a kernel_shape that differs from its filters' {height}x{width}")));
    }
    let window = window(call, to.builder.shape(image.id).image(), [height, width], padded)?;
    let bias = is_trained_bias(call.input(2));
    let conv = Conv { out_channels, window, groups, bias };
    let node = to.add_like(&to.name(call), Op::Conv(conv), &[image])?;
    to.own(node.id, call.input(1));
    to.count(node.id, &[call.input(1), call.input(2)]);
    if let Value::Weight(weight) = call.input(1)
        && weight.plain
    {
        to.filters.insert(to.builder.node(node.id).name.clone(), weight.tensor.to_string());
    }
    single(node)
}

/// Whether a layer has a bias. PyTorch's default exporter gives one of zeros to those that have none.
pub(super) fn is_trained_bias(bias: &Value) -> bool {
    match bias {
        Value::Weight(_) => true,
        Value::Constant(values) => values.uniform() != Some(0.0),
        _ => false,
    }
}

/// The image a window moves over, without a padding node in front of it, and that node's padding.
pub(super) fn unpadded(to: &Translation, call: &Call) -> Result<(Feature, [usize; 4]), Misfit> {
    let image = to.image(call)?;
    Ok(to.paddings.get(&image.id).copied().unwrap_or((image, [0; 4])))
}

/// Reads kernel movement; `padded` is added to its own padding.
pub(super) fn window(call: &Call, image: [usize; 2], kernel: [usize; 2], padded: [usize; 4]) -> Result<Window, Misfit> {
    let stride = pair(call, "strides")?;
    let dilation = pair(call, "dilations")?;
    let ceil = call.flag("ceil_mode");
    let mut window = Window { kernel, stride, padding: [0; 4], dilation, ceil };
    window.padding = match call.text("auto_pad") {
        same @ ("SAME_UPPER" | "SAME_LOWER") => {
            let whole = [image[0] + padded[0] + padded[2], image[1] + padded[1] + padded[3]];
            same_padding(&window, whole, same == "SAME_UPPER")
        }
        "VALID" => [0; 4],
        _ => match call.ints("pads") {
            None => [0; 4],
            Some(&[top, left, bottom, right]) => [size(top)?, size(left)?, size(bottom)?, size(right)?],
            Some(pads) => return Err(Misfit::Wrong(format!("has {} pads for an image", pads.len()))),
        },
    };
    for (own, outer) in window.padding.iter_mut().zip(padded) {
        *own += outer;
    }
    Ok(window)
}

/// Padding that gives ceil(size / stride) positions, the odd row or column behind (upper) or in front (lower).
fn same_padding(window: &Window, image: [usize; 2], upper: bool) -> [usize; 4] {
    let mut padding = [0; 4];
    for axis in 0..2 {
        let stride = window.stride[axis].max(1);
        let reach = window.kernel[axis].saturating_sub(1).saturating_mul(window.dilation[axis]).saturating_add(1);
        let last = (image[axis].div_ceil(stride).saturating_sub(1)).saturating_mul(stride);
        let total = last.saturating_add(reach).saturating_sub(image[axis]);
        let (less, more) = (total / 2, total - total / 2);
        (padding[axis], padding[axis + 2]) = if upper { (less, more) } else { (more, less) };
    }
    padding
}

fn pair(call: &Call, attribute: &str) -> Result<[usize; 2], Misfit> {
    match call.ints(attribute) {
        None | Some([]) => Ok([1, 1]),
        Some(&[height, width]) => Ok([size(height)?, size(width)?]),
        Some(values) => Err(Misfit::Wrong(format!("has {} {attribute} for an image", values.len()))),
    }
}

/// A size attribute: no real one has more than 31 bits.
pub(super) fn size(value: i64) -> Result<usize, Misfit> {
    usize::try_from(value)
        .ok()
        .filter(|&value| value < 1 << 31)
        .ok_or_else(|| Misfit::Wrong(format!("has an attribute of {value}")))
}

/// An explicit padding becomes an operation of its own only where nothing behind it can take it over.
pub(super) fn pad(to: &mut Translation, call: &Call) -> Outcome {
    let pads = call.integers("pads", 1).ok_or(Misfit::Unsupported)?;
    if pads.iter().all(|&pad| pad == 0) {
        return single(call.feature(0)?);
    }
    let image = to.image(call)?;
    let &[0, 0, top, left, 0, 0, bottom, right] = pads.as_slice() else { return Err(Misfit::Unsupported) };
    let pads = [size(top)?, size(left)?, size(bottom)?, size(right)?];
    let [channels, height, width] = to.builder.shape(image.id).dims() else { return Err(Misfit::Unsupported) };
    let shape = Shape::new([*channels, height + pads[0] + pads[2], width + pads[1] + pads[3]]);
    let op = super::unknown::unweighted(to, call, shape);
    let node = to.add_like(own_name(call), op, &[image])?;
    let zeros = matches!(call.text("mode"), "" | "constant");
    if zeros {
        let (source, earlier) = to.paddings.get(&image.id).copied().unwrap_or((image, [0; 4]));
        let sum = std::array::from_fn(|side| pads[side] + earlier[side]);
        to.paddings.insert(node.id, (source, sum));
    }
    single(node)
}
