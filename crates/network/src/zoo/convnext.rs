//! ConvNeXt-T (Liu et al. 2022, arXiv:2201.03545), as torchvision lays it out: layers on vectors read channels last.

use super::layers::{ZooLayers, biased, depthwise};
use crate::{Activation, Conv, Op};
use perf4sight_base::error::Result;

/// Groups of blocks: channels, blocks.
const GROUPS: [[usize; 2]; 4] = [[96, 3], [192, 3], [384, 9], [768, 3]];

/// The share of samples for which the last of all blocks is left out, and the number of the others.
const DROPPED: f32 = 0.1;
const OTHERS: f32 = 17.0;

const LAST: [usize; 3] = [1, 2, 0];
const FIRST: [usize; 3] = [2, 0, 1];

pub(super) fn convnext(layers: &mut ZooLayers, classes: usize) -> Result<()> {
    layers.conv("features.0.0", biased(GROUPS[0][0], 4, 4, 0))?;
    normed(layers, "features.0.1")?;
    let mut before = 0.0;
    for (group, [channels, blocks]) in GROUPS.into_iter().enumerate() {
        if group > 0 {
            let name = format!("features.{}", 2 * group);
            normed(layers, &format!("{name}.0"))?.conv(format!("{name}.1"), biased(channels, 2, 2, 0))?;
        }
        for index in 0..blocks {
            block(layers, &format!("features.{}.{index}", 2 * group + 1), DROPPED * before / OTHERS)?;
            before += 1.0;
        }
    }
    layers.average("avgpool", 1)?;
    normed(layers, "classifier.0")?.flatten()?.linear("classifier.2", classes)?;
    Ok(())
}

/// A 7x7 depthwise convolution and two layers on the channels of every pixel, scaled and added to the input.
fn block(layers: &mut ZooLayers, name: &str, dropped: f32) -> Result<()> {
    let (input, channels) = (layers.at, layers.channels());
    let part = |index: usize| format!("{name}.block.{index}");
    layers.conv(part(0), Conv { bias: true, ..depthwise(channels, 7, 1) })?.transpose(part(1), &LAST)?;
    layers.layer_norm(part(2))?.linear(part(3), 4 * channels)?.activation(part(4), Activation::Gelu)?;
    layers.linear(part(5), channels)?.transpose(part(6), &FIRST)?;
    let scale = layers.parameter(format!("{name}.layer_scale"), &[channels, 1, 1])?;
    layers.times(format!("{name}.mul"), scale)?;
    if dropped > 0.0 {
        layers.add(format!("{name}.stochastic_depth"), Op::DropPath { rate: dropped })?;
    }
    layers.add_to(format!("{name}.add"), input)?;
    Ok(())
}

/// Normalises the channels of every pixel.
fn normed<'a>(layers: &'a mut ZooLayers, name: &str) -> Result<&'a mut ZooLayers> {
    layers.transpose(format!("{name}.last"), &LAST)?.layer_norm(name)?.transpose(format!("{name}.first"), &FIRST)
}
