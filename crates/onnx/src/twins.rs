//! Whether one of two equal parts of a network looks as if it followed the other without gradients, as in BYOL or with a teacher: no file holds `requires_grad`, and none of the older exporter `torch.no_grad`.

use perf4sight_network::{Network, Node, NodeId};

/// Fewer equal layers are more often two branches.
const LAYERS: usize = 3;

/// Two parts that are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EqualParts {
    /// The name of the part with fewer layers behind it, of equals the later one.
    pub follower: String,
    pub leader: String,
}

impl EqualParts {
    /// The same network without a gradient in the follower.
    pub fn without_gradient(&self, network: &Network) -> Network {
        network.clone().with_frozen(|node| outer_module(node) == Some(&*self.follower))
    }
}

/// The parts of equal layers in the same order, both of which read nothing that layers made. Parts are the modules that the network itself holds.
pub(super) fn twins(network: &Network) -> Option<EqualParts> {
    let mut parts: Vec<(&str, Vec<NodeId>)> = Vec::new();
    for (id, node) in network.iter().filter(|(_, node)| !network.learned_of(node).is_empty()) {
        let Some(name) = outer_module(node) else { continue };
        match parts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, layers)) => layers.push(id),
            None => parts.push((name, vec![id])),
        }
    }
    let after = after_layers(network);
    parts.retain(|(_, layers)| layers.len() >= LAYERS && !after[layers[0].index()]);
    let sizes = |layers: &[NodeId]| -> Vec<_> {
        layers.iter().map(|id| (network.node(*id).op.clone(), network.tensors_of(network.node(*id)))).collect()
    };
    let pairs = parts
        .iter()
        .enumerate()
        .flat_map(|(place, first)| parts[place + 1..].iter().map(move |second| (first, second)));
    let ((first, ours), (second, others)) =
        pairs.into_iter().find(|((_, ours), (_, others))| sizes(ours) == sizes(others))?;
    let [ours, others] =
        [(first, ours), (second, others)].map(|(name, layers)| readers_behind(network, name, layers[0]));
    let (follower, leader) = if ours < others { (first, second) } else { (second, first) };
    Some(EqualParts { follower: (*follower).to_string(), leader: (*leader).to_string() })
}

/// The module of a layer that the network itself holds: `on` of `on.0.conv`.
fn outer_module(node: &Node) -> Option<&str> {
    node.name.split_once('.').map(|(part, _)| part).filter(|part| !part.is_empty() && !part.contains('/'))
}

/// For every node, whether it reads what a layer made.
fn after_layers(network: &Network) -> Vec<bool> {
    let mut after = vec![false; network.nodes().len()];
    for (id, node) in network.iter() {
        let is_made = |input: &NodeId| after[input.index()] || network.parameters_of(network.node(*input)) > 0;
        after[id.index()] = node.inputs.iter().any(is_made);
    }
    after
}

/// How many layers of other parts read what a part made, from its first layer on.
fn readers_behind(network: &Network, name: &str, first: NodeId) -> usize {
    let mut follows = vec![false; network.nodes().len()];
    follows[first.index()] = true;
    for (id, node) in network.iter() {
        follows[id.index()] |= node.inputs.iter().any(|input| follows[input.index()]);
    }
    let is_other = |node: &Node| network.parameters_of(node) > 0 && outer_module(node) != Some(name);
    network.iter().filter(|(id, node)| follows[id.index()] && is_other(node)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Draft, Is, Named};

    fn tower(draft: Draft, input: &str, name: &str) -> Draft {
        (0..3).fold(draft, |draft, layer| {
            let (weight, read) = (format!("{name}.{layer}.weight"), format!("{name}{}", layer - 1));
            let read = if layer == 0 { input } else { &read };
            draft.weight(&weight, [16, 16]).node("MatMul", &[read, &weight], &format!("{name}{layer}"), vec![])
        })
    }

    /// BYOL as published: the target sees another view, and the online network's predictor is behind its equal.
    #[test]
    fn a_target_may_be_without_gradients() {
        let draft = Draft::opset(17).input("x", [Named("batch"), Is(16)]).input("z", [Named("batch"), Is(16)]);
        let draft = tower(tower(draft, "x", "online"), "z", "target").weight("predictor.weight", [16, 16]);
        let draft = draft.node("MatMul", &["online2", "predictor.weight"], "p", vec![]);
        let loaded = draft.node("Mul", &["p", "target2"], "y", vec![]).output("y").load();
        let names = twins(&loaded.network).map(|twins| [twins.follower, twins.leader]);
        assert_eq!(names, Some(["target", "online"].map(String::from)));
        assert!(loaded.warnings.iter().any(|warning| warning.contains("torch.no_grad")), "{:?}", loaded.warnings);
        let [least] = loaded.network.other_readings() else { panic!("{:?}", loaded.network.other_readings()) };
        let learned = |network: &Network| network.nodes().iter().flat_map(|node| network.learned_of(node)).sum::<u64>();
        assert_eq!([learned(&loaded.network), learned(least)], [7 * 256, 4 * 256]);
        // One behind the other.
        let draft = Draft::opset(17).input("x", [Named("batch"), Is(16)]);
        let stages = tower(tower(draft, "x", "first"), "first2", "second").output("second2").load();
        assert!(stages.network.other_readings().is_empty() && twins(&stages.network).is_none());
    }
}
