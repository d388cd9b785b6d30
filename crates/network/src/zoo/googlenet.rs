//! GoogLeNet without auxiliary heads (Szegedy et al. 2014, arXiv:1409.4842), as torchvision lays it out: with batch
//! normalisation, and 3x3 where the paper has 5x5.

use super::layers::{ZooLayers, conv};
use crate::{Conv, NodeId, Window};
use perf4sight_base::error::Result;

/// Filters of one inception module (table 1 of the paper): 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool projection.
type Inception = (&'static str, [usize; 6]);

pub(super) fn googlenet(layers: &mut ZooLayers, classes: usize) -> Result<()> {
    let pool = |kernel| Window::square(kernel, 2, 0).ceil();
    basic(layers, "conv1", conv(64, 7, 2, 3))?.max_pool("maxpool1", pool(3))?;
    basic(layers, "conv2", conv(64, 1, 1, 0))?;
    basic(layers, "conv3", conv(192, 3, 1, 1))?.max_pool("maxpool2", pool(3))?;
    inceptions(layers, &[("3a", [64, 96, 128, 16, 32, 32]), ("3b", [128, 128, 192, 32, 96, 64])])?;
    layers.max_pool("maxpool3", pool(3))?;
    inceptions(
        layers,
        &[
            ("4a", [192, 96, 208, 16, 48, 64]),
            ("4b", [160, 112, 224, 24, 64, 64]),
            ("4c", [128, 128, 256, 24, 64, 64]),
            ("4d", [112, 144, 288, 32, 64, 64]),
            ("4e", [256, 160, 320, 32, 128, 128]),
        ],
    )?;
    layers.max_pool("maxpool4", pool(2))?;
    inceptions(layers, &[("5a", [256, 160, 320, 32, 128, 128]), ("5b", [384, 192, 384, 48, 128, 128])])?;
    layers.average("avgpool", 1)?.flatten()?.dropout("dropout", 0.2)?.linear("fc", classes)?;
    Ok(())
}

fn inceptions(layers: &mut ZooLayers, modules: &[Inception]) -> Result<()> {
    for (suffix, [one, three_reduce, three, five_reduce, five, projection]) in modules {
        let (name, input) = (format!("inception{suffix}"), layers.at);
        let branch1 = basic(layers, &format!("{name}.branch1"), conv(*one, 1, 1, 0))?.at;
        let branch2 = reduced(layers, &format!("{name}.branch2"), input, [*three_reduce, *three])?;
        let branch3 = reduced(layers, &format!("{name}.branch3"), input, [*five_reduce, *five])?;
        layers.at = input;
        layers.max_pool(format!("{name}.branch4.0"), Window::square(3, 1, 1).ceil())?;
        let branch4 = basic(layers, &format!("{name}.branch4.1"), conv(*projection, 1, 1, 0))?.at;
        layers.concat(format!("{name}.cat"), &[branch1, branch2, branch3, branch4])?;
    }
    Ok(())
}

/// A 1x1 convolution that reduces channels, followed by a 3x3 one.
fn reduced(layers: &mut ZooLayers, name: &str, input: NodeId, [reduce, filters]: [usize; 2]) -> Result<NodeId> {
    layers.at = input;
    basic(layers, &format!("{name}.0"), conv(reduce, 1, 1, 0))?;
    Ok(basic(layers, &format!("{name}.1"), conv(filters, 3, 1, 1))?.at)
}

fn basic<'a>(layers: &'a mut ZooLayers, name: &str, conv: Conv) -> Result<&'a mut ZooLayers> {
    layers.conv(format!("{name}.conv"), conv)?.batch_norm(format!("{name}.bn"))?.relu(format!("{name}.relu"))
}
