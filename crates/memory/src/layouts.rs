//! How the result of every operation of a network lies in memory.

use super::attention;
use super::layout::Layout;
use perf4sight_network::{Embedding, Network, Node, Op};
use perf4sight_step::workload::Step;

/// For every node, how its result lies for so many samples; `tracked` says of which a gradient is asked for.
pub(super) fn layouts(network: &Network, step: Step, tracked: &[bool], batch: u64) -> Vec<Layout> {
    let mut layouts: Vec<Layout> = Vec::with_capacity(network.nodes().len());
    for node in network.nodes() {
        let dims = node.shape.dims().iter().map(|&dim| dim as u64);
        let sizes: Vec<u64> = std::iter::once(batch).chain(dims).collect();
        let inputs: Vec<&Layout> = node.inputs.iter().map(|input| &layouts[input.index()]).collect();
        let apart = attention::is_apart(network, node, (step, tracked), &inputs);
        let layout = result(node, sizes, &inputs, (apart, reads_row(network, node)));
        layouts.push(layout);
    }
    layouts
}

/// Whether a node reads an image of one row that a convolution of one axis made of what it was given.
pub(super) fn reads_row(network: &Network, node: &Node) -> bool {
    let Some(row) = node.inputs.first().map(|input| network.node(*input)) else { return false };
    let (Op::Reshape(_), &[channels, 1, width]) = (&row.op, row.shape.dims()) else { return false };
    network.input_of(row, 0).dims() == [channels, width]
}

fn result(node: &Node, sizes: Vec<u64>, inputs: &[&Layout], (apart, reads_row): (bool, bool)) -> Layout {
    match &node.op {
        Op::Parameter(_) | Op::Embedding(Embedding { fixed: Some(_), .. }) => {
            let once = std::iter::once(1).chain(sizes[1..].iter().copied()).collect();
            Layout::contiguous(once).expanded(sizes)
        }
        Op::Conv(_) if reads_row => Layout::contiguous(sizes),
        Op::Conv(_) | Op::ConvTranspose(_) | Op::MaxPool(_) | Op::AvgPool { .. } | Op::AdaptiveAvgPool { .. } => {
            image(sizes, inputs)
        }
        Op::BatchNorm { .. } | Op::GroupNorm { .. } | Op::Resize { .. } | Op::Pad { .. } | Op::Concat { .. } => {
            image(sizes, inputs)
        }
        Op::Activation(_) | Op::Cast(_) | Op::Binary(_) | Op::Where | Op::Dropout { .. } | Op::DropPath { .. } => {
            // What is stretched has no say.
            let first = inputs.iter().find(|input| input.has(&sizes));
            first.map_or_else(|| Layout::contiguous(sizes.clone()), |first| first.followed(sizes.clone()))
        }
        Op::Flatten | Op::Reshape(_) => inputs[0].viewed(&sizes).unwrap_or_else(|| Layout::contiguous(sizes)),
        Op::Transpose { order } => inputs[0].permuted(order),
        Op::Contiguous { batch } => Layout::behind(sizes, *batch),
        Op::Slice { axis, .. } => inputs[0].cut(sizes, axis + 1, 1),
        Op::Every { axis, step, .. } => inputs[0].cut(sizes, axis + 1, *step as u64),
        Op::Expand(_) => inputs[0].expanded(sizes),
        // As the queries (`empty_like` in `_scaled_dot_product_flash_attention_for_cpu`).
        Op::Attention if !apart => inputs[0].followed(sizes),
        Op::Linear(_) => Layout::behind(sizes, inputs[0].folds_behind().unwrap_or(0)),
        Op::Attention | Op::MatMul | Op::LayerNorm { .. } | Op::Softmax { .. } => Layout::contiguous(sizes),
        Op::Conv3d(_) | Op::MaxPool3d(_) | Op::AvgPool3d { .. } | Op::ArgMax(_) | Op::TopK(_) | Op::Fold(_) => {
            Layout::contiguous(sizes)
        }
        Op::CumSum { .. } | Op::GridSample(_) => Layout::contiguous(sizes),
        Op::Input(_) | Op::Embedding(_) | Op::Pick(_) | Op::Reduce { .. } | Op::Unknown(_) => Layout::contiguous(sizes),
    }
}

/// Images whose channels lie last give such.
fn image(sizes: Vec<u64>, inputs: &[&Layout]) -> Layout {
    match inputs.iter().all(|input| input.is_channels_last()) && sizes.len() == 4 {
        true => Layout::channels_last(sizes),
        false => Layout::contiguous(sizes),
    }
}
