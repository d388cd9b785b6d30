//! Images stacked in the batch's axis, such as those of heads or windows. They become slices of a volume, which a kernel of depth
//! 1 does not mix.

use super::convolution::{check_channels, layer, size, window};
use super::volume::{Sides, padded};
use crate::batch::Batch;
use crate::call::{Call, Misfit, Outcome};
use crate::translate::{Translation, own_name, single};
use crate::value::{Feature, Value};
use perf4sight_network::{Conv, Op, Volume, Window};

/// The batch of a call's input, if it holds several images of each sample.
fn held(to: &Translation, call: &Call) -> Option<Batch> {
    let input = call.feature(0).ok()?;
    let stacked = |batch: &Batch| batch.axis == 0 && !batch.alone() && to.builder.shape(input.id).rank() == 4;
    input.batch.filter(stacked)
}

pub(super) fn is_stack(to: &Translation, call: &Call) -> bool {
    held(to, call).is_some()
}

pub(super) fn conv(to: &mut Translation, call: &Call) -> Outcome {
    let [out_channels, seen, height, width] = call.fixed(1)?;
    let groups = size(call.int("group").unwrap_or(1))?;
    let bias = to.has_bias(call);
    over(to, call, [height, width], |to, slices, window| {
        check_channels(to, slices, seen, groups)?;
        match layer(to, call, Op::Conv3d(Conv { out_channels, window, groups, bias }), slices)?.as_slice() {
            &[Value::Feature(result)] => Ok(result),
            _ => Err(Misfit::Unsupported),
        }
    })
}

pub(super) fn pool(to: &mut Translation, call: &Call) -> Outcome {
    let Some(&[height, width]) = call.ints("kernel_shape") else { return Err(Misfit::Unsupported) };
    let count_include_pad = call.flag("count_include_pad");
    over(to, call, [size(height)?, size(width)?], |to, slices, window| {
        let op = match call.node.op_type() {
            "MaxPool" => Op::MaxPool3d(window),
            _ => Op::AvgPool3d { window, count_include_pad },
        };
        to.add_like(own_name(call), op, &[slices])
    })
}

/// Applies an operation with such a kernel to every image.
fn over(
    to: &mut Translation,
    call: &Call,
    kernel: [usize; 2],
    apply: impl FnOnce(&mut Translation, Feature, Volume) -> Result<Feature, Misfit>,
) -> Outcome {
    let (input, batch) = (call.feature(0)?, held(to, call).ok_or(Misfit::Unsupported)?);
    let image = [2, 3].map(|axis| to.builder.shape(input.id).dims()[axis]);
    let (window, sides) = deepened(&window(call, image, kernel, [0; 4])?);
    // Moves the channels in front of the images.
    let turn = |to: &mut Translation, what: &str, input: Feature| {
        to.add_like(&format!("{}_{what}", own_name(call)), Op::Transpose { order: vec![1, 0, 2, 3] }, &[input])
    };
    let slices = Feature { batch: Some(batch.at(1)), ..turn(to, "slices", input)? };
    if sides.is_some() && call.node.op_type() != "Conv" {
        return Err(Misfit::Unsupported);
    }
    let slices = padded(to, call, slices, sides)?;
    let result = apply(to, slices, window)?;
    single(Feature { batch: Some(batch), ..turn(to, "images", result)? })
}

fn deepened(window: &Window) -> (Volume, Sides) {
    let Window { kernel, stride, padding: [top, left, bottom, right], dilation, ceil } = *window;
    let alike = [top, left] == [bottom, right];
    let deep = |shallow: usize, [height, width]: [usize; 2]| [shallow, height, width];
    let padding = if alike { deep(0, [top, left]) } else { [0; 3] };
    let volume =
        Volume { kernel: deep(1, kernel), stride: deep(1, stride), padding, dilation: deep(1, dilation), ceil };
    (volume, (!alike).then_some([[0, 0], [top, bottom], [left, right]]))
}
