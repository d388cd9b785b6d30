//! Where gradients flow in a training step: one rule for what a step costs, keeps and takes.

use super::graph::{Network, Node};
use super::op::Gradient;

impl Network {
    /// For every node, whether the gradient of its result is computed: where weights are trained at it or before it.
    pub fn gradients(&self) -> Vec<bool> {
        let mut asked: Vec<bool> = Vec::with_capacity(self.nodes().len());
        for node in self.nodes() {
            let flows = self.facts(node).gradient != Gradient::Ends;
            asked.push(self.trains(node) || flows && node.inputs.iter().any(|input| asked[input.index()]));
        }
        asked
    }

    /// Whether a node has weights that are trained, its own or those it shares.
    pub fn trains(&self, node: &Node) -> bool {
        self.is_trained(node) && self.owner(node).frozen.contains(&false)
    }
}
