//! Notices exports that may have left out what a network draws while it trains.
//!
//! Dropout and stochastic depth are nothing at all in a module in evaluation mode, and its file looks like one of a network that never had any.
//! Without batch-norm nothing else tells the mode. Networks of tokens mostly have one or the other, whose masks are a good part of their memory. The
//! older exporter is called with training=TRAINING where it keeps the weights of products as they are; where it turned them round ahead
//! (`onnx::MatMul_498`) it was most likely not. The default one (`dynamo=True`) leaves no such sign.

use super::schema::GraphProto;
use perf4sight_network::{Nature, Network, Op};

/// What to tell of a network, of which its exporter perhaps noted where nodes come from.
pub(super) fn warning(graph: &GraphProto, network: &Network, noted: bool) -> Option<String> {
    let turned = graph.node.iter().any(|node| node.input.get(1).is_some_and(|read| read.starts_with("onnx::MatMul_")));
    let natures = || network.nodes().iter().map(|node| network.facts(node).nature);
    let draws = natures().any(|nature| matches!(nature, Nature::Dropout));
    let is_of_tokens = |op: &Op| matches!(op, Op::Attention | Op::LayerNorm { .. });
    let may_draw = network.nodes().iter().any(|node| is_of_tokens(&node.op));
    ((noted || turned) && may_draw && !draws).then(|| {
        "draws nothing in training: that is so where its module has no dropout and no stochastic depth, and wherever it was exported after \
         model.eval(), which leaves both out; what training takes comes out too low then, and model.train() before the export (with \
         dynamo=False also training=torch.onnx.TrainingMode.TRAINING and do_constant_folding=False) keeps them"
            .to_owned()
    })
}
