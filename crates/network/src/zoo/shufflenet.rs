//! ShuffleNetV2 of width 1 (Ma et al. 2018, arXiv:1807.11164), as torchvision lays it out.

use super::layers::{ZooLayers, conv, depthwise};
use crate::{NodeId, Window};
use perf4sight_base::error::Result;

/// Groups of blocks: channels, blocks (table 5 of the paper).
const GROUPS: [[usize; 2]; 3] = [[116, 4], [232, 8], [464, 4]];

pub(super) fn shufflenet(layers: &mut ZooLayers, classes: usize) -> Result<()> {
    layers.conv_norm("conv1", 0, conv(24, 3, 2, 1))?.relu("conv1.2")?.max_pool("maxpool", Window::square(3, 2, 1))?;
    for (group, [channels, blocks]) in (2..).zip(GROUPS) {
        for index in 0..blocks {
            let name = format!("stage{group}.{index}");
            let both = if index == 0 { smaller(layers, &name, channels / 2) } else { alike(layers, &name) }?;
            shuffled(layers, &name, &both)?;
        }
    }
    layers.conv_norm("conv5", 0, conv(1024, 1, 1, 0))?.relu("conv5.2")?;
    layers.mean()?.linear("fc", classes)?;
    Ok(())
}

/// Two branches that halve height and width.
fn smaller(layers: &mut ZooLayers, name: &str, filters: usize) -> Result<[NodeId; 2]> {
    let (input, branch) = (layers.at, format!("{name}.branch1"));
    layers.conv_norm(&branch, 0, depthwise(layers.channels(), 3, 2))?;
    let first = layers.conv_norm(&branch, 2, conv(filters, 1, 1, 0))?.relu(format!("{branch}.4"))?.at;
    layers.at = input;
    Ok([first, branch2(layers, name, [filters, 2])?])
}

/// The first half of the channels as it is, and a branch on the second.
fn alike(layers: &mut ZooLayers, name: &str) -> Result<[NodeId; 2]> {
    let (input, half) = (layers.at, layers.channels() / 2);
    let first = layers.slice(format!("{name}.chunk"), [0, 0, half])?.at;
    layers.at = input;
    layers.slice(format!("{name}.chunk_1"), [0, half, half])?;
    Ok([first, branch2(layers, name, [half, 1])?])
}

fn branch2(layers: &mut ZooLayers, name: &str, [filters, stride]: [usize; 2]) -> Result<NodeId> {
    let branch = format!("{name}.branch2");
    layers.conv_norm(&branch, 0, conv(filters, 1, 1, 0))?.relu(format!("{branch}.2"))?;
    layers.conv_norm(&branch, 3, depthwise(filters, 3, stride))?;
    Ok(layers.conv_norm(&branch, 5, conv(filters, 1, 1, 0))?.relu(format!("{branch}.7"))?.at)
}

/// Joins both branches and takes their channels in turns.
fn shuffled(layers: &mut ZooLayers, name: &str, both: &[NodeId]) -> Result<()> {
    layers.concat(format!("{name}.cat"), both)?;
    let [channels, height, width] = *layers.shape().dims() else { unreachable!("images have three axes") };
    layers.reshape(format!("{name}.view"), &[2, channels / 2, height, width])?;
    layers.transpose(format!("{name}.transpose"), &[1, 0, 2, 3])?;
    layers.reshape(format!("{name}.view_1"), &[channels, height, width])?;
    Ok(())
}
