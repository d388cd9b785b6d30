//! MobileNetV3 (Howard et al. 2019, arXiv:1905.02244), as torchvision lays it out.

use super::layers::{ZooLayers, conv, depthwise};
use crate::Activation;
use Activation::{HardSigmoid, HardSwish, Relu};
use perf4sight_base::error::Result;

/// A block: kernel, inner channels, channels, whether it has a gate, its function, its stride.
type InvertedBlock = (usize, usize, usize, bool, Activation, usize);

/// Table 1 of the paper.
const LARGE: [InvertedBlock; 15] = [
    (3, 16, 16, false, Relu, 1),
    (3, 64, 24, false, Relu, 2),
    (3, 72, 24, false, Relu, 1),
    (5, 72, 40, true, Relu, 2),
    (5, 120, 40, true, Relu, 1),
    (5, 120, 40, true, Relu, 1),
    (3, 240, 80, false, HardSwish, 2),
    (3, 200, 80, false, HardSwish, 1),
    (3, 184, 80, false, HardSwish, 1),
    (3, 184, 80, false, HardSwish, 1),
    (3, 480, 112, true, HardSwish, 1),
    (3, 672, 112, true, HardSwish, 1),
    (5, 672, 160, true, HardSwish, 2),
    (5, 960, 160, true, HardSwish, 1),
    (5, 960, 160, true, HardSwish, 1),
];

/// Table 2 of the paper.
const SMALL: [InvertedBlock; 11] = [
    (3, 16, 16, true, Relu, 2),
    (3, 72, 24, false, Relu, 2),
    (3, 88, 24, false, Relu, 1),
    (5, 96, 40, true, HardSwish, 2),
    (5, 240, 40, true, HardSwish, 1),
    (5, 240, 40, true, HardSwish, 1),
    (5, 120, 48, true, HardSwish, 1),
    (5, 144, 48, true, HardSwish, 1),
    (5, 288, 96, true, HardSwish, 2),
    (5, 576, 96, true, HardSwish, 1),
    (5, 576, 96, true, HardSwish, 1),
];

pub(super) fn large(layers: &mut ZooLayers, classes: usize) -> Result<()> {
    mobilenetv3(layers, &LARGE, 1280, classes)
}

pub(super) fn small(layers: &mut ZooLayers, classes: usize) -> Result<()> {
    mobilenetv3(layers, &SMALL, 1024, classes)
}

fn mobilenetv3(layers: &mut ZooLayers, blocks: &[InvertedBlock], hidden: usize, classes: usize) -> Result<()> {
    layers.conv_norm_activation("features.0", conv(16, 3, 2, 1), HardSwish)?;
    for (index, block) in (1..).zip(blocks) {
        inverted(layers, &format!("features.{index}"), *block)?;
    }
    let widest = 6 * layers.channels();
    layers.conv_norm_activation(&format!("features.{}", blocks.len() + 1), conv(widest, 1, 1, 0), HardSwish)?;
    layers.average("avgpool", 1)?.flatten()?.linear("classifier.0", hidden)?.activation("classifier.1", HardSwish)?;
    layers.dropout("classifier.2", 0.2)?.linear("classifier.3", classes)?;
    Ok(())
}

/// A 1x1 convolution to the inner channels unless there are as many, a depthwise one, a gate, and a 1x1 convolution back to few;
/// summed with the input if the shapes agree.
fn inverted(
    layers: &mut ZooLayers,
    name: &str,
    (kernel, inner, channels, gated, function, stride): InvertedBlock,
) -> Result<()> {
    let (input, before) = (layers.at, layers.channels());
    let mut parts = (0..).map(|index| format!("{name}.block.{index}"));
    let mut part = || parts.next().unwrap_or_default();
    if inner != before {
        layers.conv_norm_activation(&part(), conv(inner, 1, 1, 0), function)?;
    }
    layers.conv_norm_activation(&part(), depthwise(inner, kernel, stride), function)?;
    if gated {
        layers.squeeze_excite(&part(), divisible(inner / 4), [Relu, HardSigmoid])?;
    }
    layers.conv_norm(&part(), 0, conv(channels, 1, 1, 0))?;
    if stride == 1 && before == channels {
        layers.add_to(format!("{name}.add"), input)?;
    }
    Ok(())
}

/// The nearest multiple of 8 that is at most a tenth smaller (torchvision's `_make_divisible`).
fn divisible(channels: usize) -> usize {
    let nearest = ((channels + 4) / 8 * 8).max(8);
    if 10 * nearest < 9 * channels { nearest + 8 } else { nearest }
}
