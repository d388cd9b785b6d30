//! VGG with and without batch normalisation (Simonyan and Zisserman 2014, arXiv:1409.1556), as torchvision lays it out.

use super::layers::{ZooLayers, biased};
use crate::Window;
use perf4sight_base::error::Result;

/// Filters of each of the five groups of 3x3 convolutions; a pool that halves the image follows each group.
const FILTERS: [usize; 5] = [64, 128, 256, 512, 512];

/// `depths`: convolutions in each group.
pub(super) fn vgg(layers: &mut ZooLayers, depths: [usize; 5], classes: usize) -> Result<()> {
    built(layers, depths, false, classes)
}

/// The same, each convolution with batch normalisation.
pub(super) fn normalised(layers: &mut ZooLayers, depths: [usize; 5], classes: usize) -> Result<()> {
    built(layers, depths, true, classes)
}

fn built(layers: &mut ZooLayers, depths: [usize; 5], normalised: bool, classes: usize) -> Result<()> {
    let mut names = (0..).map(|index| format!("features.{index}"));
    let mut name = || names.next().unwrap_or_default();
    for (filters, depth) in FILTERS.into_iter().zip(depths) {
        for _ in 0..depth {
            layers.conv(name(), biased(filters, 3, 1, 1))?;
            if normalised {
                layers.batch_norm(name())?;
            }
            layers.relu(name())?;
        }
        layers.max_pool(name(), Window::square(2, 2, 0))?;
    }
    layers.average("avgpool", 7)?.flatten()?;
    layers.linear("classifier.0", 4096)?.relu("classifier.1")?.dropout("classifier.2", 0.5)?;
    layers.linear("classifier.3", 4096)?.relu("classifier.4")?.dropout("classifier.5", 0.5)?;
    layers.linear("classifier.6", classes)?;
    Ok(())
}
