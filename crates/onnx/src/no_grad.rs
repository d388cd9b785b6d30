//! Parts of a program that run within `torch.no_grad`: PyTorch's default exporter traces them again, as it does those within `torch.autocast`, so that their notes have the
//! generated code in place of the program's lines.

use super::notes;
use super::schema::NodeProto;
use super::translate::TranslationNotes;
use super::warning::UnsureReason;
use perf4sight_network::{KeptReading, Network, NetworkBuilder};
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

/// The parts that an exporter traced again, by the names that PyTorch gave their code.
#[derive(Debug, Default)]
pub(super) struct TracedAgain<'a>(BTreeMap<&'a str, TracedPart>);

#[derive(Debug, Default)]
struct TracedPart {
    /// The places of its nodes.
    nodes: Vec<Range<usize>>,
    /// Whether it computes with numbers of 16 bits, as `torch.autocast` does.
    casts: bool,
}

impl<'a> TracedAgain<'a> {
    /// Records that a node of a file became these nodes of the network.
    pub fn record(&mut self, node: &'a NodeProto, nodes: Range<usize>) {
        let Some(code) = notes::generated_code(node) else { return };
        let part = self.0.entry(code).or_default();
        part.casts |= notes::casts_to_16_bits(node);
        part.nodes.push(nodes);
    }

    /// The names of the nodes of each part that may run without gradients.
    pub fn names(&self, builder: &NetworkBuilder) -> Vec<HashSet<String>> {
        let ids: Vec<_> = builder.ids().collect();
        let names = |part: &TracedPart| {
            let places = part.nodes.iter().cloned().flatten();
            places.map(|place| builder.node(ids[place]).name.clone()).collect()
        };
        self.0.values().filter(|part| !part.casts).map(names).collect()
    }
}

/// The network without gradients in parts that ran within `torch.no_grad`. A part that others need for their gradients
/// more likely ran within `torch.autocast(enabled=False)`, which looks the same.
pub(super) fn without_gradients(
    mut network: Network,
    parts: &[HashSet<String>],
    keeping: KeptReading,
    noticed: &mut TranslationNotes,
) -> Network {
    for part in parts {
        let detached = network.clone().with_detached(|node| part.contains(&node.name));
        if detached.gradients() == network.gradients() {
            continue;
        }
        let [before, after] = [&network, &detached].map(trained);
        if !after.contains(&true) {
            continue;
        }
        let is_needed = network
            .nodes()
            .iter()
            .zip(before.into_iter().zip(after))
            .any(|(node, (before, after))| before && !after && !part.contains(&node.name));
        noticed.unsure(UnsureReason::NoGrad);
        let is_taken = match keeping {
            KeptReading::Likely => !is_needed,
            KeptReading::Least => true,
            KeptReading::Most => false,
        };
        if is_taken {
            network = detached;
        }
    }
    network
}

/// For every node, whether training changes weights of it.
fn trained(network: &Network) -> Vec<bool> {
    network.nodes().iter().map(|node| !network.learned_of(node).is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use crate::tests::Draft;
    use perf4sight_network::{KeptReading, Network};

    const STACK: &str = "pkg.torch.onnx.stack_trace";

    /// A layer; the stacks are PyTorch 2.15's.
    fn layer(draft: Draft, [name, read, made]: [&str; 3], code: &str) -> Draft {
        let weight = format!("{name}.weight");
        let draft = draft.weight(&weight, [8, 8]).node("MatMul", &[read, &weight], made, vec![]);
        let line = "in forward\n    linear = torch.ops.aten.linear.default(x, p_a_weight);  x = p_a_weight = None";
        draft.noted(STACK, &format!("File \"{code}\", line 5, {line}"))
    }

    fn learned(network: &Network) -> Vec<&str> {
        let learned = network.nodes().iter().filter(|node| !network.learned_of(node).is_empty());
        learned.map(|node| node.name.as_str()).collect()
    }

    fn most(network: &Network) -> Vec<&str> {
        learned(network.other_readings().iter().find(|one| one.keeping() == KeptReading::Most).unwrap())
    }

    /// `with torch.no_grad(): y = a(x)`, then `b(y)`.
    #[test]
    fn a_part_that_was_traced_again_is_not_trained() {
        let draft = layer(Draft::new(), ["a", "x", "features"], "<eval_with_key>.42");
        let loaded = layer(draft, ["b", "features", "y"], "train.py").output("y").load();
        assert_eq!(learned(&loaded.network), ["b"]);
        assert_eq!(most(&loaded.network), ["a", "b"]);
        assert!(loaded.warnings.iter().any(|one| one.contains("torch.no_grad")), "{:?}", loaded.warnings);
    }

    /// `y = a(x)`, `with torch.autocast("cpu", enabled=False): y = relu(y)`, `b(y)`: else `a` would be trained by nothing.
    #[test]
    fn a_part_that_others_are_trained_through_has_gradients() {
        let draft = layer(Draft::new(), ["a", "x", "features"], "train.py").node("Relu", &["features"], "r", vec![]);
        let relu = "in forward\n    relu = torch.ops.aten.relu.default(linear);  linear = None";
        let draft = draft.noted(STACK, &format!("File \"<eval_with_key>.7\", line 5, {relu}"));
        let loaded = layer(draft, ["b", "r", "y"], "train.py").output("y").load();
        assert_eq!(learned(&loaded.network), ["a", "b"]);
        let least = loaded.network.other_readings().iter().find(|one| one.keeping() == KeptReading::Least).unwrap();
        assert_eq!(learned(least), ["b"]);
    }

    #[test]
    fn a_network_that_was_traced_again_as_a_whole_is_trained() {
        let draft = layer(Draft::new(), ["a", "x", "features"], "<eval_with_key>.42");
        let whole = layer(draft, ["b", "features", "y"], "<eval_with_key>.42").output("y").load();
        assert_eq!(learned(&whole.network), ["a", "b"]);
        assert!(whole.network.other_readings().is_empty() && whole.warnings.is_empty(), "{:?}", whole.warnings);
    }
}
