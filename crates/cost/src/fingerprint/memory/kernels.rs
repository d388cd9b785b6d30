//! What the libraries that a network uses take beside its tensors: pages of code, kernels for channels that fill no blocks, handles.

use crate::features::physical::kernels;
use crate::fingerprint::depthwise::is_general;
use perf4sight_base::units::Bytes;
use perf4sight_network::{Activation, BinaryFunction, Network, Node, Op};
use perf4sight_platform::{ConvolutionWorkspace, Platform};
use perf4sight_step::workload::Step;
use serde::{Deserialize, Serialize};

/// The kernels of one network. Code in the memory of the process is none in that of a device apart from it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkKernels {
    /// MiB of the library's file that its kinds of operations load into memory, or that handles take.
    pub code: f64,
    /// Share of the convolutions whose channels fill no whole blocks, and which use other kernels, as in pruned
    /// networks.
    pub ragged: f64,
}

/// MiB of libtorch 2.11's file that the first operation of a kind loads into memory (`RssFile` of
/// `/proc/self/status`, operations in three orders; the part that all convolutions share does not distinguish
/// networks).
const BATCH_NORM: f64 = 0.75;
const LINEAR: f64 = 1.8;
const GLOBAL_MEAN: f64 = 1.7;
const ADD: f64 = 0.6;
const MAX_POOL: f64 = 0.5;
const RELU6: f64 = 0.5;
const DEPTHWISE: f64 = 0.4;
const CONCAT: f64 = 0.4;
const RELU: f64 = 0.2;
const GENERAL: f64 = 3.6;

/// More MiB than any library has.
const MOST_CODE: f64 = 1024.0;

impl NetworkKernels {
    /// Whether the values of a file are possible for a network.
    pub fn is_valid(&self) -> bool {
        (0.0..=MOST_CODE).contains(&self.code) && (0.0..=1.0).contains(&self.ragged)
    }

    pub fn new(network: &Network, step: Step, platform: &Platform) -> Self {
        let block = platform.workspaces.iter().find_map(|workspace| match workspace {
            ConvolutionWorkspace::BlockedCopies { channels, .. } => Some(*channels),
            ConvolutionWorkspace::Winograd { .. } | ConvolutionWorkspace::ChannelsLast { .. } => None,
        });
        match block {
            Some(block) => {
                NetworkKernels { code: code(network, step, platform), ragged: ragged_memory(network, block) }
            }
            None => NetworkKernels { code: handle_memory(network, step, platform), ragged: 0.0 },
        }
    }
}

/// MiB of the handles of the threads that multiply matrices: the program's, and autograd's in training.
fn handle_memory(network: &Network, step: Step, platform: &Platform) -> f64 {
    let threads = network.products().next().map_or(0, |_| 1 + u64::from(step.trains()));
    Bytes(threads * platform.framework.products.map_or(0, |kept| kept.handle)).mib()
}

type NodeTest<'a> = &'a dyn Fn(&Node) -> bool;

/// MiB of code; every kind of operation counts once.
fn code(network: &Network, step: Step, platform: &Platform) -> f64 {
    let any = |is: NodeTest| network.nodes().iter().any(is);
    let is_depthwise =
        |node: &Node| matches!(&node.op, Op::Conv(conv) if conv.is_depthwise(network.input_of(node, 0).channels()));
    // Only these may lack kernels; listing all kernels of a step is slow.
    let general =
        any(&is_depthwise) && kernels(network, step).iter().any(|kernel| is_general(kernel, platform.speed.depthwise));
    let kinds: [(f64, NodeTest); 10] = [
        (BATCH_NORM, &|node| matches!(node.op, Op::BatchNorm { .. })),
        (LINEAR, &|node| matches!(node.op, Op::Linear(_) | Op::MatMul | Op::Attention)),
        (GLOBAL_MEAN, &|node| matches!(node.op, Op::AdaptiveAvgPool { .. } | Op::Reduce { .. })),
        (ADD, &|node| matches!(node.op, Op::Binary(BinaryFunction::Add))),
        (MAX_POOL, &|node| matches!(node.op, Op::MaxPool(_))),
        (RELU6, &|node| matches!(node.op, Op::Activation(Activation::Relu6))),
        (RELU, &|node| matches!(node.op, Op::Activation(Activation::Relu))),
        (CONCAT, &|node| matches!(node.op, Op::Concat { .. })),
        (DEPTHWISE, &|node| matches!(&node.op, Op::Conv(conv) if conv.groups > 1)),
        (GENERAL, &|_| general),
    ];
    kinds.iter().filter(|(_, is)| any(is)).map(|(code, _)| code).sum()
}

/// Images with at most this many channels have special kernels.
const IMAGE: usize = 3;

fn ragged_memory(network: &Network, block: u64) -> f64 {
    let convolutions = network.nodes().iter().filter(|node| matches!(node.op, Op::Conv(_)));
    let fills = |channels: usize| (channels as u64).is_multiple_of(block) || channels <= IMAGE;
    let whole = convolutions.map(|node| fills(network.input_of(node, 0).channels()) && fills(node.shape.channels()));
    let whole: Vec<bool> = whole.collect();
    whole.iter().filter(|whole| !**whole).count() as f64 / whole.len().max(1) as f64
}
