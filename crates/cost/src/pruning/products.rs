//! The axes that matrix products multiply; batch axes of a product, such as the heads of an attention, can be pruned.

use perf4sight_network::{ChannelCoupling, Network, Node, NodeId};

/// For every node, the axes of its result that reach a matrix product as one of its two multiplied axes.
pub(super) fn multiplied_axes(network: &Network) -> Vec<Vec<bool>> {
    let mut marked: Vec<Vec<bool>> = network.nodes().iter().map(|node| vec![false; node.shape.rank()]).collect();
    for (id, node) in network.iter().rev() {
        let result = marked[id.index()].clone();
        for &input in &node.inputs {
            for axis in read_as(network, node, input, &result) {
                marked[input.index()][axis] = true;
            }
        }
    }
    marked
}

/// The axes of an input that become marked axes of the result, or are multiplied here.
fn read_as(network: &Network, node: &Node, input: NodeId, result: &[bool]) -> Vec<usize> {
    let dims = network.node(input).shape.dims();
    let marked = |axis: usize| result.get(axis) == Some(&true);
    let every = 0..dims.len();
    match network.facts(node).channels {
        ChannelCoupling::Multiplied => every.rev().take(2).collect(),
        ChannelCoupling::Permuted(order) => {
            every.filter(|axis| order.iter().position(|at| at == axis).is_some_and(marked)).collect()
        }
        ChannelCoupling::Regrouped => {
            every.filter(|&axis| same_axis(dims, axis, node.shape.dims()).is_some_and(marked)).collect()
        }
        ChannelCoupling::OtherAxes { axis: turned } => every.filter(|&axis| axis != turned && marked(axis)).collect(),
        ChannelCoupling::Same
        | ChannelCoupling::Each(_)
        | ChannelCoupling::Grouped { .. }
        | ChannelCoupling::Kept
        | ChannelCoupling::Stretched => every.filter(|&axis| marked(axis)).collect(),
        ChannelCoupling::Image
        | ChannelCoupling::Part { .. }
        | ChannelCoupling::Joined { .. }
        | ChannelCoupling::Tied => {
            let added = node.shape.rank().saturating_sub(dims.len());
            every.filter(|axis| marked(axis + added)).collect()
        }
        ChannelCoupling::Given
        | ChannelCoupling::Partner
        | ChannelCoupling::Filters(_)
        | ChannelCoupling::Features(_) => Vec::new(),
        ChannelCoupling::Spread(_) | ChannelCoupling::Rows(_) | ChannelCoupling::Volumes(_) | ChannelCoupling::Lost => {
            Vec::new()
        }
        ChannelCoupling::Reduced { .. } | ChannelCoupling::Remembered(_) | ChannelCoupling::Unknown(_) => Vec::new(),
    }
}

/// The axis of a reshaped tensor that equals this one of the tensor before: as long, between as many elements.
fn same_axis(dims: &[usize], axis: usize, reshaped: &[usize]) -> Option<usize> {
    let place = |dims: &[usize], axis: usize| (dims[axis], dims[axis + 1..].iter().product::<usize>());
    (0..reshaped.len()).find(|&other| place(reshaped, other) == place(dims, axis))
}
