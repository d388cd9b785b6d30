//! Whether a network looks as if only a part of it were trained: files do not hold `requires_grad`.

use perf4sight_network::{BinaryFunction, Linear, Network, NodeId, Op};

/// The inner width of an adapter is at most one in so many of those that it leads between.
const NARROW: usize = 4;

/// The narrow layer and the one behind it whose result is added to that of a layer with the same input after a narrow one, as in LoRA: `base(x) + b(a(x)) * scale`.
pub(super) fn adapters(network: &Network) -> Vec<[String; 2]> {
    let sums = network.nodes().iter().filter(|node| matches!(node.op, Op::Binary(BinaryFunction::Add)));
    let found = sums.filter_map(|sum| {
        let &[first, second] = sum.inputs.as_slice() else { return None };
        [[first, second], [second, first]].into_iter().find_map(|[base, added]| {
            let (_, wide, read) = layer(network, base)?;
            let (added, out, inner) = layer(network, added)?;
            let (inner, narrow, of_narrow) = layer(network, inner)?;
            let features = network.node(of_narrow).shape.features();
            let is_narrow = narrow.saturating_mul(NARROW) <= features.min(out);
            (wide == out && is_narrow && of_narrow == read)
                .then(|| [inner, added].map(|layer| network.node(layer).name.clone()))
        })
    });
    found.collect()
}

/// The same network where nothing else is trained, as adapters are meant to be.
pub(super) fn trained_alone(network: &Network, adapters: &[[String; 2]]) -> Network {
    network.clone().with_frozen(|node| !adapters.iter().flatten().any(|name| *name == node.name))
}

/// The fully connected layer that a result is of, perhaps scaled or with elements dropped, with its width and what it reads, likewise.
fn layer(network: &Network, of: NodeId) -> Option<(NodeId, usize, NodeId)> {
    let of = before_scaling(network, of);
    let Op::Linear(Linear { out_features, .. }) = network.node(of).op else { return None };
    Some((of, out_features, before_scaling(network, network.node(of).inputs[0])))
}

fn before_scaling(network: &Network, mut of: NodeId) -> NodeId {
    while let (Op::Binary(BinaryFunction::Mul | BinaryFunction::Div) | Op::Dropout { .. }, &[read]) =
        (&network.node(of).op, network.node(of).inputs.as_slice())
    {
        of = read;
    }
    of
}

#[cfg(test)]
mod tests {
    use crate::tests::{Draft, Is, Named};
    use perf4sight_network::Network;

    /// LoRA as published: `base(x) + (x @ A.T @ B.T) * 2`, of rank 4, and of rank 16, which is no small part of 32.
    #[test]
    fn a_low_rank_beside_a_layer_may_be_all_that_is_trained() {
        for (rank, expected) in [(4, true), (16, false)] {
            let draft = Draft::opset(17).input("x", [Named("batch"), Is(32)]).weight("w", [32, 32]);
            let draft =
                draft.weight("a", [32, rank]).weight("b", [rank, 32]).node("MatMul", &["x", "w"], "base", vec![]);
            let draft = draft.node("MatMul", &["x", "a"], "down", vec![]).node("MatMul", &["down", "b"], "up", vec![]);
            let draft = draft.number("two", 2.0);
            let draft = draft.node("Mul", &["up", "two"], "scaled", vec![]);
            let loaded = draft.node("Add", &["base", "scaled"], "y", vec![]).output("y").load();
            let has = loaded.warnings.iter().any(|warning| warning.contains("--trainable"));
            assert_eq!(has, expected, "{rank}: {:?}", loaded.warnings);
            // The interval of memory begins where the adapter alone is trained.
            let learned =
                |network: &Network| -> u64 { network.nodes().iter().flat_map(|node| network.learned_of(node)).sum() };
            let others: Vec<u64> = loaded.network.other_readings().iter().map(learned).collect();
            assert_eq!(others, if expected { vec![2 * 32 * 4] } else { vec![] }, "{rank}");
        }
    }
}
