//! MnasNet-B1 at depth multiplier 1.0 (Tan et al. 2018, arXiv:1807.11626), as torchvision lays it out.

use super::layers::{ZooLayers, conv, depthwise};
use perf4sight_base::error::Result;

/// Groups of blocks: channels, kernel, stride of the first block, expansion, blocks.
const GROUPS: [[usize; 5]; 6] =
    [[24, 3, 2, 3, 3], [40, 5, 2, 3, 3], [80, 5, 2, 6, 3], [96, 3, 1, 6, 2], [192, 5, 2, 6, 4], [320, 3, 1, 6, 1]];

pub(super) fn mnasnet(layers: &mut ZooLayers, classes: usize) -> Result<()> {
    layers.conv_norm("layers", 0, conv(32, 3, 2, 1))?.relu("layers.2")?;
    layers.conv_norm("layers", 3, depthwise(32, 3, 1))?.relu("layers.5")?;
    layers.conv_norm("layers", 6, conv(16, 1, 1, 0))?;
    for (group, [channels, kernel, first_stride, expansion, blocks]) in GROUPS.into_iter().enumerate() {
        for block in 0..blocks {
            let stride = if block == 0 { first_stride } else { 1 };
            let name = format!("layers.{}.{block}", group + 8);
            inverted_residual(layers, &name, [channels, kernel, stride, expansion])?;
        }
    }
    layers.conv_norm("layers", 14, conv(1280, 1, 1, 0))?.relu("layers.16")?;
    layers.mean()?.dropout("classifier.0", 0.2)?.linear("classifier.1", classes)?;
    Ok(())
}

/// A 1x1 convolution to more channels, a larger depthwise kernel, a 1x1 convolution back to few; summed with the input if the
/// shapes agree.
fn inverted_residual(layers: &mut ZooLayers, name: &str, dims: [usize; 4]) -> Result<()> {
    let [channels, kernel, stride, expansion] = dims;
    let (input, before) = (layers.at, layers.channels());
    let inner = format!("{name}.layers");
    layers.conv_norm(&inner, 0, conv(before * expansion, 1, 1, 0))?.relu(format!("{inner}.2"))?;
    layers.conv_norm(&inner, 3, depthwise(before * expansion, kernel, stride))?.relu(format!("{inner}.5"))?;
    layers.conv_norm(&inner, 6, conv(channels, 1, 1, 0))?;
    if stride == 1 && before == channels {
        layers.add_to(format!("{name}.add"), input)?;
    }
    Ok(())
}
