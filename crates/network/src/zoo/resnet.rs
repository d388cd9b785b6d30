//! Residual networks (He et al. 2015, arXiv:1512.03385), as torchvision lays them out: a bottleneck strides in its 3x3.

use super::layers::{ZooLayers, conv};
use crate::{Conv, Window};
use perf4sight_base::error::Result;

type ResidualBlock = fn(&mut ZooLayers, name: &str, width: usize, stride: usize) -> Result<()>;

/// `depths`: blocks in each of the four groups.
pub(super) fn resnet(layers: &mut ZooLayers, block: ResidualBlock, depths: [usize; 4], classes: usize) -> Result<()> {
    layers.conv("conv1", conv(64, 7, 2, 3))?.batch_norm("bn1")?.relu("relu")?;
    layers.max_pool("maxpool", Window::square(3, 2, 1))?;
    for (group, depth) in depths.into_iter().enumerate() {
        for index in 0..depth {
            let stride = if index == 0 && group > 0 { 2 } else { 1 };
            residual(layers, block, &format!("layer{}.{index}", group + 1), (64 << group, stride))?;
        }
    }
    layers.average("avgpool", 1)?.flatten()?.linear("fc", classes)?;
    Ok(())
}

/// Two 3x3 convolutions (resnet18 and 34).
pub(super) fn basic(layers: &mut ZooLayers, name: &str, width: usize, stride: usize) -> Result<()> {
    normed(layers, name, 1, conv(width, 3, stride, 1))?.relu(format!("{name}.relu"))?;
    normed(layers, name, 2, conv(width, 3, 1, 1))?;
    Ok(())
}

/// 1x1, 3x3, 1x1 with four times the channels (resnet50 and deeper).
pub(super) fn bottleneck(layers: &mut ZooLayers, name: &str, width: usize, stride: usize) -> Result<()> {
    bottlenecked(layers, name, 4 * width, conv(width, 3, stride, 1))
}

/// A bottleneck of twice the width (Zagoruyko and Komodakis 2016, arXiv:1605.07146).
pub(super) fn wide_bottleneck(layers: &mut ZooLayers, name: &str, width: usize, stride: usize) -> Result<()> {
    bottlenecked(layers, name, 4 * width, conv(2 * width, 3, stride, 1))
}

/// A bottleneck of twice the width in 32 groups (Xie et al. 2016, arXiv:1611.05431).
pub(super) fn grouped(layers: &mut ZooLayers, name: &str, width: usize, stride: usize) -> Result<()> {
    bottlenecked(layers, name, 4 * width, Conv { groups: 32, ..conv(2 * width, 3, stride, 1) })
}

/// 1x1 to the filters of the `middle` convolution, which follows, and 1x1 to `channels`.
fn bottlenecked(layers: &mut ZooLayers, name: &str, channels: usize, middle: Conv) -> Result<()> {
    normed(layers, name, 1, conv(middle.out_channels, 1, 1, 0))?.relu(format!("{name}.relu"))?;
    normed(layers, name, 2, middle)?.relu(format!("{name}.relu_1"))?;
    normed(layers, name, 3, conv(channels, 1, 1, 0))?;
    Ok(())
}

/// A block and its shortcut, which is a 1x1 convolution if the block changes the shape.
fn residual(layers: &mut ZooLayers, block: ResidualBlock, name: &str, (width, stride): (usize, usize)) -> Result<()> {
    let (input, before) = (layers.at, layers.channels());
    block(layers, name, width, stride)?;
    let (result, after) = (layers.at, layers.channels());
    layers.at = input;
    if stride != 1 || before != after {
        layers.conv_norm(&format!("{name}.downsample"), 0, conv(after, 1, stride, 0))?;
    }
    let shortcut = std::mem::replace(&mut layers.at, result);
    layers.add_to(format!("{name}.add"), shortcut)?.relu(format!("{name}.relu_out"))?;
    Ok(())
}

fn normed<'a>(layers: &'a mut ZooLayers, name: &str, index: usize, conv: Conv) -> Result<&'a mut ZooLayers> {
    layers.conv(format!("{name}.conv{index}"), conv)?.batch_norm(format!("{name}.bn{index}"))
}
