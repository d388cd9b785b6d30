//! Notices exports whose batch-norm was folded into the convolutions.
//!
//! `model.eval()` makes exporters do that. What is left infers as fast, but trains otherwise than the network it came from:
//! no batch statistics, no saved inputs of the normalisation. A folded network looks like one that never had a batch-norm,
//! and AlexNet, VGG and SqueezeNet never had one. The signs of folding are therefore
//! - weights of convolutions that lost their names (`onnx::Conv_498`): the older exporter computed them while folding;
//! - no normalisation of any kind in a network with residual sums, depthwise convolutions or squeeze-and-excite products: all
//!   published families with these train with one. (The rare ones that do without, such as NFNet, get a warning too many.)

use crate::network::{Binary, Network, Op};
use std::collections::BTreeMap;

/// The export that keeps batch-norm, weightless and with a symbolic batch.
const EXPORT: &str = "torch.onnx.export(model.train(), torch.randn(1, 3, 224, 224), \"network.onnx\", export_params=False, \
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, dynamo=False, \
                      input_names=[\"input\"], dynamic_axes={\"input\": {0: \"batch\"}})";

/// The warning for a network that looks folded; `filters` are the names of its convolutions' weights.
pub(super) fn warning(network: &Network, filters: &BTreeMap<String, String>) -> Option<String> {
    let renamed = filters.values().any(|name| name.starts_with("onnx::Conv_"));
    let bare = !normalises(network) && network.nodes().iter().any(|node| needs_normalisation(network, node));
    (renamed || bare).then(|| {
        format!(
            "its batch-norm seems to be folded into the convolutions (an export of model.eval()): what it costs to train \
             cannot be trusted; export it with\n  {EXPORT}"
        )
    })
}

fn normalises(network: &Network) -> bool {
    network.nodes().iter().any(|node| match &node.op {
        Op::BatchNorm | Op::LayerNorm { .. } => true,
        Op::Unknown(unknown) => unknown.op_type.contains("Normalization"),
        _ => false,
    })
}

/// Residual sums, depthwise convolutions, products of an image with one factor a channel.
fn needs_normalisation(network: &Network, node: &crate::network::Node) -> bool {
    match &node.op {
        Op::Conv(conv) => conv.groups > 1 && conv.groups == network.input_of(node, 0).channels(),
        Op::Binary(Binary::Add) => node.inputs.len() == 2 && node.shape.rank() == 3,
        Op::Binary(Binary::Mul) => {
            node.inputs.iter().any(|id| network.node(*id).shape.image() == [1, 1] && node.shape.rank() == 3)
        }
        _ => false,
    }
}
