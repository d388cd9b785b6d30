//! Which networks are levels of one another: the same graph at different widths.

use perf4sight_base::checksum::checksum;
use perf4sight_network::{Conv, ConvTranspose, Network, Node, Op, OperationNature};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum width of a level's nodes, relative to the profiled ones. Pruning makes networks narrower, so a wider
/// network means that the profiled ones were pruned; the networks published as "wide" are twice as wide.
const WIDER: f64 = 1.5;

/// A checksum of a network's operations and image sizes without its widths: pruned versions of a network share it.
pub(in crate::fingerprint) fn architecture(network: &Network) -> String {
    let words = network.nodes().iter().map(|node| format!("{};", form(network, node)));
    checksum(words.flat_map(String::into_bytes))
}

pub(in crate::fingerprint) fn level(network: &Network) -> String {
    checksum(architecture(network).bytes().chain(widths(network).into_iter().flat_map(u64::to_le_bytes)))
}

/// The operation of a node, its inputs, and its image size.
fn form(network: &Network, node: &Node) -> String {
    let attributes = match network.facts(node).nature {
        OperationNature::Convolution(conv) => {
            format!("{:?} {} {}", conv.window, grouping(network, node, conv), conv.bias)
        }
        OperationNature::Volume(conv) => format!("{:?} {} {}", conv.window, grouping(network, node, conv), conv.bias),
        OperationNature::Transposed(transposed) => {
            let ConvTranspose { conv, extra } = transposed;
            format!("{:?} {extra:?} {} {}", conv.window, grouping(network, node, conv), conv.bias)
        }
        OperationNature::Pooling(Some(window)) => {
            let counted =
                if let Op::AvgPool { count_include_pad, .. } = node.op { Some(count_include_pad) } else { None };
            counted.map_or_else(|| format!("{window:?}"), |counted| format!("{window:?} {counted}"))
        }
        OperationNature::Linear(linear) => format!("{}", linear.bias),
        OperationNature::Embedding(embedding) => format!("{} {:?}", embedding.rows, embedding.fixed),
        // The kind and the inputs are enough here.
        OperationNature::Input
        | OperationNature::Parameter
        | OperationNature::MatMul
        | OperationNature::Attention
        | OperationNature::Pooling(None) => String::new(),
        // A dropout rate of zero costs nothing, at any width.
        OperationNature::Dropout if matches!(node.op, Op::Dropout { rate: 0.0 }) => "nothing".to_owned(),
        OperationNature::Normalisation
        | OperationNature::Softmax
        | OperationNature::Activation(_)
        | OperationNature::Dropout => String::new(),
        OperationNature::Recurrent(layer) => format!("{} {} {}", layer.both_ways, layer.bias, layer.last),
        OperationNature::Arithmetic(_)
        | OperationNature::Choice
        | OperationNature::Movement
        | OperationNature::Unknown(_) => String::new(),
    };
    let inputs: Vec<usize> = node.inputs.iter().map(|input| input.index()).collect();
    let image = match node.shape.dims() {
        [_, image @ ..] if image.len() > 1 => image,
        _ => &[],
    };
    format!("{} {attributes} {inputs:?} {image:?}", node.op.kind())
}

/// Depthwise groups follow the width; the number of other groups is fixed.
fn grouping<W>(network: &Network, node: &Node, conv: &Conv<W>) -> usize {
    if conv.is_depthwise(network.input_of(node, 0).channels()) { 0 } else { conv.groups }
}

/// Networks by architecture, each with the elements of one sample of every node, at its largest width.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct ArchitectureFamilies(BTreeMap<String, Vec<u64>>);

impl ArchitectureFamilies {
    pub fn add(&mut self, network: &Network) {
        let widths = widths(network);
        let widest = self.0.entry(architecture(network)).or_insert_with(|| widths.clone());
        widest.iter_mut().zip(widths).for_each(|(widest, width)| *widest = (*widest).max(width));
    }

    /// The architecture of `network`, if it is a level of one of these.
    pub fn family(&self, network: &Network) -> Option<&str> {
        let (architecture, widest) = self.0.get_key_value(&architecture(network))?;
        let is_level =
            widths(network).iter().zip(widest).all(|(&width, &widest)| width as f64 <= WIDER * widest as f64);
        is_level.then_some(architecture)
    }
}

fn widths(network: &Network) -> Vec<u64> {
    network.nodes().iter().map(|node| node.shape.elements()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_network::{NetworkBuilder, Shape, Window};

    /// A bottleneck as in residual networks: `inner` channels between `outer` ones, its middle convolution in groups.
    fn bottleneck([outer, inner]: [usize; 2], groups: usize, side: usize) -> Network {
        let mut builder = NetworkBuilder::new("bottleneck", Shape::new([outer, side, side]));
        let conv = |out_channels, kernel, groups| {
            Op::Conv(Conv { out_channels, window: Window::square(kernel, 1, kernel / 2), groups, bias: false })
        };
        let first = builder.add("first", conv(inner, 1, 1), &[builder.input()]).unwrap();
        let second = builder.add("second", conv(inner, 3, groups), &[first]).unwrap();
        let third = builder.add("third", conv(outer, 1, 1), &[second]).unwrap();
        builder.finish(third)
    }

    #[test]
    fn a_level_is_the_same_graph_and_not_wider() {
        let mut families = ArchitectureFamilies::default();
        families.add(&bottleneck([64, 16], 1, 14));
        families.add(&bottleneck([64, 8], 1, 14));
        let is_level = |network: &Network| families.family(network).is_some();
        // Pruned further, and between.
        assert!(is_level(&bottleneck([64, 4], 1, 14)) && is_level(&bottleneck([64, 12], 1, 14)));
        // Wider as wide_resnet50_2, in groups as resnext50 (both compared with resnet50), and another image size.
        assert!(!is_level(&bottleneck([64, 32], 1, 14)));
        assert!(!is_level(&bottleneck([64, 16], 4, 14)));
        assert!(!is_level(&bottleneck([64, 16], 1, 7)));
    }

    #[test]
    fn depthwise_convolutions_follow_the_width() {
        let [wide, narrow] = [16, 8].map(|inner| architecture(&bottleneck([64, inner], inner, 14)));
        assert_eq!(wide, narrow);
    }
}
