//! SqueezeNet 1.0 (Iandola et al. 2016, arXiv:1602.07360), as torchvision lays it out: the classifier is a convolution.

use super::layers::{ZooLayers, biased};
use crate::Window;
use perf4sight_base::error::Result;

pub(super) fn squeezenet(layers: &mut ZooLayers, classes: usize) -> Result<()> {
    let pool = || Window::square(3, 2, 0).ceil();
    layers.conv("features.0", biased(96, 7, 2, 0))?.relu("features.1")?.max_pool("features.2", pool())?;
    fires(layers, 3, &[[16, 64], [16, 64], [32, 128]])?.max_pool("features.6", pool())?;
    fires(layers, 7, &[[32, 128], [48, 192], [48, 192], [64, 256]])?.max_pool("features.11", pool())?;
    fires(layers, 12, &[[64, 256]])?;
    layers.dropout("classifier.0", 0.5)?.conv("classifier.1", biased(classes, 1, 1, 0))?;
    layers.relu("classifier.2")?.average("classifier.3", 1)?.flatten()?;
    Ok(())
}

/// Fire modules, numbered from `first`: number of squeeze filters, and of the filters in each of the two expand
/// branches.
fn fires<'a>(layers: &'a mut ZooLayers, first: usize, modules: &[[usize; 2]]) -> Result<&'a mut ZooLayers> {
    for (index, &[squeeze, expand]) in (first..).zip(modules) {
        let name = format!("features.{index}");
        layers.conv(format!("{name}.squeeze"), biased(squeeze, 1, 1, 0))?;
        let squeezed = layers.relu(format!("{name}.squeeze_activation"))?.at;
        layers.conv(format!("{name}.expand1x1"), biased(expand, 1, 1, 0))?;
        let small = layers.relu(format!("{name}.expand1x1_activation"))?.at;
        layers.at = squeezed;
        layers.conv(format!("{name}.expand3x3"), biased(expand, 3, 1, 1))?;
        let large = layers.relu(format!("{name}.expand3x3_activation"))?.at;
        layers.concat(format!("{name}.cat"), &[small, large])?;
    }
    Ok(layers)
}
