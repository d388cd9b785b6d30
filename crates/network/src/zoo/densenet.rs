//! DenseNet (Huang et al. 2016, arXiv:1608.06993), as torchvision lays it out: every layer reads all earlier ones of its block.

use super::layers::{ZooLayers, conv};
use crate::{NodeId, Op, Window};
use perf4sight_base::error::Result;

/// Channels that a layer adds, and filters of its 1x1 convolution.
const GROWTH: usize = 32;
const REDUCED: usize = 4 * GROWTH;

pub(super) fn densenet(layers: &mut ZooLayers, depths: [usize; 4], classes: usize) -> Result<()> {
    layers.conv("features.conv0", conv(64, 7, 2, 3))?.batch_norm("features.norm0")?.relu("features.relu0")?;
    layers.max_pool("features.pool0", Window::square(3, 2, 1))?;
    for (index, depth) in (1..).zip(depths) {
        block(layers, &format!("features.denseblock{index}"), depth)?;
        if index < depths.len() {
            transition(layers, &format!("features.transition{index}"))?;
        }
    }
    layers.batch_norm("features.norm5")?.relu("relu")?;
    layers.average("avgpool", 1)?.flatten()?.linear("classifier", classes)?;
    Ok(())
}

fn block(layers: &mut ZooLayers, name: &str, depth: usize) -> Result<()> {
    let mut results: Vec<NodeId> = vec![layers.at];
    for index in 1..=depth {
        let layer = format!("{name}.denselayer{index}");
        if let [_, _, ..] = results.as_slice() {
            layers.concat(format!("{layer}.cat"), &results)?;
        }
        normed(layers, &layer, 1)?.conv(format!("{layer}.conv1"), conv(REDUCED, 1, 1, 0))?;
        normed(layers, &layer, 2)?.conv(format!("{layer}.conv2"), conv(GROWTH, 3, 1, 1))?;
        results.push(layers.at);
    }
    layers.concat(format!("{name}.cat"), &results)?;
    Ok(())
}

/// Half of the channels and half of the height and width.
fn transition(layers: &mut ZooLayers, name: &str) -> Result<()> {
    let half = layers.channels() / 2;
    layers.batch_norm(format!("{name}.norm"))?.relu(format!("{name}.relu"))?;
    layers.conv(format!("{name}.conv"), conv(half, 1, 1, 0))?;
    let pool = Op::AvgPool { window: Window::square(2, 2, 0), count_include_pad: true };
    layers.add(format!("{name}.pool"), pool)?;
    Ok(())
}

fn normed<'a>(layers: &'a mut ZooLayers, name: &str, index: usize) -> Result<&'a mut ZooLayers> {
    layers.batch_norm(format!("{name}.norm{index}"))?.relu(format!("{name}.relu{index}"))
}
