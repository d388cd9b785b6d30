//! AlexNet in its one-GPU form (Krizhevsky 2014, arXiv:1404.5997), as torchvision lays it out.

use super::layers::{ZooLayers, biased};
use crate::{Conv, Window};
use perf4sight_base::error::Result;

pub(super) fn alexnet(layers: &mut ZooLayers, classes: usize) -> Result<()> {
    let pool = || Window::square(3, 2, 0);
    stage(layers, 0, biased(64, 11, 4, 2))?.max_pool("features.2", pool())?;
    stage(layers, 3, biased(192, 5, 1, 2))?.max_pool("features.5", pool())?;
    stage(layers, 6, biased(384, 3, 1, 1))?;
    stage(layers, 8, biased(256, 3, 1, 1))?;
    stage(layers, 10, biased(256, 3, 1, 1))?.max_pool("features.12", pool())?;
    layers.average("avgpool", 6)?.flatten()?;
    layers.dropout("classifier.0", 0.5)?.linear("classifier.1", 4096)?.relu("classifier.2")?;
    layers.dropout("classifier.3", 0.5)?.linear("classifier.4", 4096)?.relu("classifier.5")?;
    layers.linear("classifier.6", classes)?;
    Ok(())
}

fn stage(layers: &mut ZooLayers, index: usize, conv: Conv) -> Result<&mut ZooLayers> {
    layers.conv(format!("features.{index}"), conv)?.relu(format!("features.{}", index + 1))
}
