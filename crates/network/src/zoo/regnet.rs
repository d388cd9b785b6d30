//! RegNetY-400MF (Radosavovic et al. 2020, arXiv:2003.13678), as torchvision lays it out.

use super::layers::{ZooLayers, conv};
use crate::{Activation, Conv};
use perf4sight_base::error::Result;

/// Groups of blocks: channels, blocks (what depth 16, w_0 48, w_a 27.89 and w_m 2.09 give).
const GROUPS: [[usize; 2]; 4] = [[48, 1], [104, 3], [208, 6], [440, 6]];

/// Channels of a group of a 3x3 convolution.
const GROUP: usize = 8;

pub(super) fn regnet(layers: &mut ZooLayers, classes: usize) -> Result<()> {
    layers.conv_norm("stem", 0, conv(32, 3, 2, 1))?.relu("stem.2")?;
    for (group, [channels, blocks]) in (1..).zip(GROUPS) {
        for index in 0..blocks {
            let stride = if index == 0 { 2 } else { 1 };
            let name = format!("trunk_output.block{group}.block{group}-{index}");
            block(layers, &name, [channels, stride])?;
        }
    }
    layers.average("avgpool", 1)?.flatten()?.linear("fc", classes)?;
    Ok(())
}

/// 1x1, 3x3 in groups, a gate, 1x1; added to the input, which a 1x1 convolution brings to the same shape.
fn block(layers: &mut ZooLayers, name: &str, [channels, stride]: [usize; 2]) -> Result<()> {
    let (input, before) = (layers.at, layers.channels());
    if stride != 1 || before != channels {
        layers.conv_norm(&format!("{name}.proj"), 0, conv(channels, 1, stride, 0))?;
    }
    let shortcut = std::mem::replace(&mut layers.at, input);
    let part = |letter: &str| format!("{name}.f.{letter}");
    layers.conv_norm(&part("a"), 0, conv(channels, 1, 1, 0))?.relu(part("a.2"))?;
    let grouped = Conv { groups: channels / GROUP, ..conv(channels, 3, stride, 1) };
    layers.conv_norm(&part("b"), 0, grouped)?.relu(part("b.2"))?;
    // A quarter of what the block reads, rounded as Python does: half to even.
    let squeezed = (before as f64 / 4.0).round_ties_even() as usize;
    layers.squeeze_excite(&part("se"), squeezed, [Activation::Relu, Activation::Sigmoid])?;
    layers.conv_norm(&part("c"), 0, conv(channels, 1, 1, 0))?;
    layers.add_to(format!("{name}.add"), shortcut)?.relu(format!("{name}.activation"))?;
    Ok(())
}
