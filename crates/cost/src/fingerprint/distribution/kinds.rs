//! Kinds of operations: operations of one kind are computed alike.

use perf4sight_network::zoo::calibration;
use perf4sight_network::{Conv, Network, Node, Op, Window};
use std::collections::BTreeSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OperationKind<'a> {
    Other(&'a str),
    /// A fully connected layer applied to many positions, as in transformers.
    Positions,
    Convolution {
        grouping: &'static str,
        kernel: [usize; 2],
        stride: [usize; 2],
        dilation: [usize; 2],
    },
}

impl<'a> OperationKind<'a> {
    /// None for operations without cost.
    pub fn new(network: &Network, node: &'a Node) -> Option<Self> {
        if let Op::Conv(conv) = &node.op {
            let Window { kernel, stride, dilation, .. } = conv.window;
            let grouping = grouping(conv, network.input_of(node, 0).channels());
            return Some(OperationKind::Convolution { grouping, kernel, stride, dilation });
        }
        let is_positions = matches!(node.op, Op::Linear(_)) && node.shape.rank() > 1;
        let kind = if is_positions { OperationKind::Positions } else { OperationKind::Other(node.op.kind()) };
        (!matches!(node.op, Op::Input(_) | Op::Dropout { rate: 0.0 })).then_some(kind)
    }

    /// Its properties as text, each of which may be new.
    pub fn names(&self) -> Vec<String> {
        match *self {
            OperationKind::Other(kind) => vec![format!("{kind} operations")],
            OperationKind::Positions => vec!["linear operations on many positions".to_owned()],
            OperationKind::Convolution { grouping, kernel: [height, width], stride: [down, right], dilation } => {
                let dilated = (dilation != [1, 1]).then(|| "dilated convolutions".to_owned());
                let names = [
                    format!("{grouping} convolutions"),
                    format!("{height}x{width} {grouping} convolutions"),
                    format!("convolutions of stride {}", down.max(right)),
                ];
                names.into_iter().chain(dilated).collect()
            }
        }
    }
}

/// The kinds of a network's operations, each once: networks repeat themselves, and only distinct kinds become text.
pub(super) fn kinds(network: &Network) -> impl Iterator<Item = OperationKind<'_>> {
    let kinds: BTreeSet<OperationKind> =
        network.nodes().iter().filter_map(|node| OperationKind::new(network, node)).collect();
    kinds.into_iter()
}

/// Kinds of operations; of convolutions also kernels, strides and groupings.
pub(super) fn operations(network: &Network) -> BTreeSet<String> {
    kinds(network).flat_map(|kind| kind.names()).collect()
}

/// The same for the calibration networks.
pub fn calibration_kinds() -> BTreeSet<String> {
    calibration::all().into_iter().flatten().flat_map(|network| operations(&network)).collect()
}

fn grouping(conv: &Conv, channels: usize) -> &'static str {
    match conv.groups {
        1 => "dense",
        _ if conv.is_depthwise(channels) => "depthwise",
        _ => "grouped",
    }
}
