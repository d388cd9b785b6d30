//! Which gradients a training step computes: one rule for its cost, its memory and its time.

use super::graph::{Network, Node};
use super::op::Gradient;

impl Network {
    /// For every node, whether the gradient of its result is computed: if weights are trained at it or before it.
    pub fn gradients(&self) -> Vec<bool> {
        let mut asked: Vec<bool> = Vec::with_capacity(self.nodes().len());
        for node in self.nodes() {
            let flows = self.facts(node).gradient != Gradient::Ends;
            asked.push(self.trains(node) || flows && node.inputs.iter().any(|input| asked[input.index()]));
        }
        asked
    }

    /// Whether a node has trained weights, its own or shared ones.
    pub fn trains(&self, node: &Node) -> bool {
        self.is_trained(node) && self.owner(node).frozen.contains(&false)
    }
}
