//! MobileNetV2 (Sandler et al. 2018, arXiv:1801.04381), as torchvision lays it out: no expansion in the first block.

use super::layers::{ZooLayers, conv, depthwise};
use crate::Activation;
use perf4sight_base::error::Result;

/// Groups of blocks: expansion, channels, blocks, stride of the first one (table 2 of the paper).
const GROUPS: [[usize; 4]; 7] =
    [[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 3, 2], [6, 64, 4, 2], [6, 96, 3, 1], [6, 160, 3, 2], [6, 320, 1, 1]];

pub(super) fn mobilenetv2(layers: &mut ZooLayers, classes: usize) -> Result<()> {
    layers.conv_norm_activation("features.0", conv(32, 3, 2, 1), Activation::Relu6)?;
    let mut index = 1;
    for [expansion, channels, blocks, first_stride] in GROUPS {
        for block in 0..blocks {
            let stride = if block == 0 { first_stride } else { 1 };
            inverted_residual(layers, &format!("features.{index}"), [expansion, channels, stride])?;
            index += 1;
        }
    }
    layers.conv_norm_activation("features.18", conv(1280, 1, 1, 0), Activation::Relu6)?;
    layers.average("avgpool", 1)?.flatten()?;
    layers.dropout("classifier.0", 0.2)?.linear("classifier.1", classes)?;
    Ok(())
}

/// A 1x1 convolution to more channels, a 3x3 depthwise one, a 1x1 one back to few; summed with the input if the shapes
/// agree.
fn inverted_residual(layers: &mut ZooLayers, name: &str, [expansion, channels, stride]: [usize; 3]) -> Result<()> {
    let (input, before) = (layers.at, layers.channels());
    let mut index = 0;
    if expansion != 1 {
        layers.conv_norm_activation(
            &format!("{name}.conv.{index}"),
            conv(before * expansion, 1, 1, 0),
            Activation::Relu6,
        )?;
        index += 1;
    }
    layers.conv_norm_activation(
        &format!("{name}.conv.{index}"),
        depthwise(before * expansion, 3, stride),
        Activation::Relu6,
    )?;
    layers.conv_norm(&format!("{name}.conv"), index + 1, conv(channels, 1, 1, 0))?;
    if stride == 1 && before == channels {
        layers.add_to(format!("{name}.add"), input)?;
    }
    Ok(())
}
