//! EfficientNet-B0 (Tan and Le 2019, arXiv:1905.11946), as torchvision lays it out.

use super::layers::{ZooLayers, conv, depthwise};
use crate::{Activation, Op};
use perf4sight_base::error::Result;

/// Groups of blocks: expansion, kernel, stride of the first block, channels, blocks (table 1 of the paper).
const GROUPS: [[usize; 5]; 7] = [
    [1, 3, 1, 16, 1],
    [6, 3, 2, 24, 2],
    [6, 5, 2, 40, 2],
    [6, 3, 2, 80, 3],
    [6, 5, 1, 112, 3],
    [6, 5, 2, 192, 4],
    [6, 3, 1, 320, 1],
];

/// All blocks, and the share of samples for which the last would leave out its convolutions.
const BLOCKS: usize = 16;
const DROPPED: f32 = 0.2;

pub(super) fn efficientnet(layers: &mut ZooLayers, classes: usize) -> Result<()> {
    layers.conv_norm_activation("features.0", conv(32, 3, 2, 1), Activation::Silu)?;
    let mut before = 0;
    for (group, [expansion, kernel, first_stride, channels, blocks]) in (1..).zip(GROUPS) {
        for block in 0..blocks {
            let stride = if block == 0 { first_stride } else { 1 };
            let dropped = DROPPED * before as f32 / BLOCKS as f32;
            let name = format!("features.{group}.{block}");
            inverted(layers, &name, [expansion, kernel, stride, channels], dropped)?;
            before += 1;
        }
    }
    layers.conv_norm_activation("features.8", conv(1280, 1, 1, 0), Activation::Silu)?;
    layers.average("avgpool", 1)?.flatten()?;
    layers.dropout("classifier.0", 0.2)?.linear("classifier.1", classes)?;
    Ok(())
}

/// A 1x1 convolution to more channels, a depthwise one, a gate, and a 1x1 convolution back to few; summed with the input if the
/// shapes agree.
fn inverted(layers: &mut ZooLayers, name: &str, dims: [usize; 4], dropped: f32) -> Result<()> {
    let [expansion, kernel, stride, channels] = dims;
    let (input, before) = (layers.at, layers.channels());
    let mut parts = (0..).map(|index| format!("{name}.block.{index}"));
    let mut part = || parts.next().unwrap_or_default();
    if expansion != 1 {
        layers.conv_norm_activation(&part(), conv(before * expansion, 1, 1, 0), Activation::Silu)?;
    }
    layers.conv_norm_activation(&part(), depthwise(before * expansion, kernel, stride), Activation::Silu)?;
    layers.squeeze_excite(&part(), before / 4, [Activation::Silu, Activation::Sigmoid])?;
    layers.conv_norm(&part(), 0, conv(channels, 1, 1, 0))?;
    if stride == 1 && before == channels {
        layers.add(format!("{name}.stochastic_depth"), Op::DropPath { rate: dropped })?;
        layers.add_to(format!("{name}.add"), input)?;
    }
    Ok(())
}
