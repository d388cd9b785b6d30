//! Copies without a node in the file, and values of which every sample has its own.

use crate::tests::*;
use perf4sight_network::{Embedding, PytorchRun};

/// Five tokens of eight numbers, with tokens or samples on the first axis.
fn tokens(samples_first: bool) -> Draft {
    let dims = if samples_first { [Named("batch"), Is(5), Is(8)] } else { [Is(5), Named("batch"), Is(8)] };
    Draft::opset(17).input("x", dims)
}

fn transposed(draft: Draft, input: &str, name: &str, order: &[i64]) -> Draft {
    draft.node("Transpose", &[input], name, vec![with::ints("perm", order.to_vec())])
}

/// The steps of `_in_projection_packed` of torch/nn/functional.py, for tokens on the first axis.
fn packed(draft: Draft, input: &str) -> Draft {
    let draft = draft.weight("w", [8, 24]).node("MatMul", &[input, "w"], "projected", vec![]);
    let draft = draft.numbers("apart", &[0, 0, 3, 8]).node("Reshape", &["projected", "apart"], "parts", vec![]);
    let draft = draft.numbers("front", &[0]).node("Unsqueeze", &["parts", "front"], "fronted", vec![]);
    let draft = transposed(draft, "fronted", "exchanged", &[3, 1, 2, 0, 4]).numbers("gone", &[-2]);
    draft.node("Squeeze", &["exchanged", "gone"], "y", vec![]).output("y")
}

#[test]
fn queries_keys_and_values_of_one_projection_are_copied_apart() {
    let linear = Op::Linear(Linear { out_features: 24, bias: false });
    let seen = |dims: &[usize]| Op::Reshape(Shape::new(dims));
    let apart = [seen(&[5, 3, 8]), seen(&[1, 5, 3, 8]), Op::Transpose { order: vec![2, 1, 0, 3] }];
    let copied = [Op::Contiguous { batch: 2 }, seen(&[3, 5, 8])];
    // If tokens come first, the layer reads them in memory order.
    let own = packed(tokens(false), "x");
    assert_eq!(own.ops(), [std::slice::from_ref(&linear), &apart, &copied].concat());
    // If samples come first, they are moved behind the tokens, and the layer reads a copy.
    let moved = packed(transposed(tokens(true), "x", "moved", &[1, 0, 2]), "moved");
    let folded = Op::Contiguous { batch: 1 };
    assert_eq!(moved.ops(), [&[folded, linear], apart.as_slice(), copied.as_slice()].concat());
    [own, moved].iter().for_each(|draft| drop(rewritten(&draft.load().network)));
}

#[test]
fn what_is_moved_and_moved_back_is_read_where_it_lies() {
    let back = transposed(transposed(tokens(true), "x", "moved", &[1, 0, 2]), "moved", "back", &[1, 0, 2]);
    let ops = back.weight("w", [8, 4]).node("MatMul", &["back", "w"], "y", vec![]).output("y").ops();
    assert_eq!(ops, [Op::Linear(Linear { out_features: 4, bias: false })]);
}

#[test]
fn learned_queries_that_are_stretched_behind_tokens_are_those_of_every_sample() {
    // torch.nn.Parameter [4, 1, 8], .expand(-1, batch, -1) and .repeat(1, batch, 1), then a layer.
    let draft = tokens(true).weight("q", [4, 1, 8]).node("Shape", &["x"], "shape", vec![]).numbers("first", &[0]);
    let draft = draft.node("Gather", &["shape", "first"], "batch", vec![]).numbers("one", &[1]);
    let target =
        |draft: Draft, parts: &[&str], name: &str| draft.node("Concat", parts, name, vec![with::int("axis", 0)]);
    let layer = |draft: Draft| {
        let ops = draft.weight("w", [8, 4]).node("MatMul", &["stretched", "w"], "z", vec![]).node(
            "ReduceSum",
            &["z"],
            "s",
            vec![],
        );
        ops.node("Add", &["x", "s"], "y", vec![]).output("y").load().network
    };
    let stretched =
        target(draft.clone(), &["one", "batch", "one"], "to").node("Expand", &["q", "to"], "stretched", vec![]);
    let network = layer(stretched);
    let linear = network.nodes().iter().find(|node| matches!(node.op, Op::Linear(_))).unwrap();
    assert_eq!((network.node(linear.inputs[0]).name.as_str(), linear.shape.dims()), ("q", [4, 4].as_slice()));
    let repeated = target(draft, &["one", "batch", "one"], "to").node("Tile", &["q", "to"], "stretched", vec![]);
    let network = layer(repeated);
    let linear = network.nodes().iter().find(|node| matches!(node.op, Op::Linear(_))).unwrap();
    // `repeat` copies.
    assert_eq!(network.node(linear.inputs[0]).op, Op::Contiguous { batch: 1 });
}

#[test]
fn zeros_that_every_sample_begins_with_are_its_own() {
    let draft = tokens(true).node("Shape", &["x"], "shape", vec![]);
    let draft = draft.node("ConstantOfShape", &["shape"], "zeros", vec![]).weight("w", [8, 8]);
    let draft = draft.node("MatMul", &["zeros", "w"], "z", vec![]).node("Add", &["x", "z"], "y", vec![]).output("y");
    let network = draft.load().network;
    let [_, zeros, linear, _] = network.nodes() else { panic!("{network:?}") };
    assert_eq!((&zeros.op, zeros.trained), (&Op::Parameter(Shape::new([5, 8])), Some(0)));
    assert_eq!((linear.shape.dims(), network.macs()), ([5, 8].as_slice(), 5 * 8 * 8));
}

#[test]
fn samples_with_fewer_axes_are_added_to_others_wherever_these_have_their_batch() {
    // nn.RNN by the default exporter: [1, batch, 8] + [batch, 8].
    let draft = Draft::opset(17).input("h", [Is(1), Named("batch"), Is(8)]).input("x", [Named("batch"), Is(8)]);
    let network = draft.node("Add", &["h", "x"], "y", vec![]).output("y").load().network;
    assert_eq!(network.output_shape().dims(), [1, 8]);
}

#[test]
fn rows_of_a_longer_table_are_looked_up_in_all_of_it() {
    let draft = tokens(true).stored("p", floats(&[12, 8], &[0.5; 96])).numbers("axes", &[0]);
    let part = |draft: Draft, from: i64, to: i64, name: &str| {
        let [first, last] = ["from", "to"].map(|what| format!("{name}_{what}"));
        let draft = draft.numbers(&first, &[from]).numbers(&last, &[to]);
        draft.node("Slice", &["p", &first, &last, "axes"], name, vec![])
    };
    let draft = part(part(draft, 0, 5, "front"), 5, 10, "behind").node("Add", &["x", "front"], "sum", vec![]);
    let network = draft.node("Add", &["sum", "behind"], "y", vec![]).output("y").load().network;
    let lookup = Op::Embedding(Embedding { rows: 12, width: 8, fixed: Some(Shape::new([5])) });
    let tables: Vec<_> = network.iter().filter(|(_, node)| node.op == lookup).collect();
    let [(first, _), (_, second)] = tables[..] else { panic!("{:?}", network.nodes()) };
    assert_eq!((network.parameters(), second.shares), (96, Some(first)));
    let again = from_bytes("draft", &to_bytes(&network)).unwrap().network;
    assert_eq!(again, network);
}

#[test]
fn columns_of_a_wider_table_are_told() {
    let draft = tokens(true).stored("p", floats(&[5, 12], &[0.5; 60])).numbers("axes", &[1]);
    let draft =
        draft.numbers("from", &[0]).numbers("to", &[8]).node("Slice", &["p", "from", "to", "axes"], "q", vec![]);
    let loaded = draft.node("Add", &["x", "q"], "y", vec![]).output("y").load();
    assert_eq!(loaded.network.parameters(), 40);
    let answer = "only 40 of 60 numbers of p are read";
    assert!(loaded.warnings.iter().any(|warning| warning.starts_with(answer)), "{:?}", loaded.warnings);
}

/// Positions of "Attention is all you need", stored as in PyTorch's own tutorial.
#[test]
fn what_nothing_reads_of_a_buffer_lies_there_all_the_same() {
    let draft = tokens(true).weight("pe", [1, 12, 8]).numbers("axes", &[1]).numbers("from", &[0]).numbers("to", &[5]);
    let draft = draft.node("Slice", &["pe", "from", "to", "axes"], "first", vec![]);
    let network = draft.node("Add", &["x", "first"], "y", vec![]).output("y").load().network;
    // The five rows that are read are added directly, so no operation holds them either.
    assert_eq!((network.parameters(), network.unread()), (0, 96));
    let again = from_bytes("draft", &to_bytes(&network)).unwrap().network;
    assert_eq!(again, network);
}

#[test]
fn a_product_of_one_matrix_is_not_understood() {
    let draft = tokens(true).node("MatMul", &["x"], "y", vec![]).output("y");
    assert!(!draft.load().network.coverage().is_full());
}

/// The steps of `table.unsqueeze(0).expand(batch, -1, -1, -1)`, whose copies are added to scores of four heads.
fn copied_for_every_sample(draft: Draft) -> Draft {
    let draft = draft.numbers("front", &[0]).node("Unsqueeze", &["table", "front"], "fronted", vec![]);
    let draft = draft.node("Shape", &["x"], "sizes", vec![]).node("Gather", &["sizes", "front"], "samples", vec![]);
    let draft = draft.numbers("same", &[1, 1, 1]);
    let draft = draft.node("Concat", &["samples", "same"], "target", vec![with::int("axis", 0)]);
    draft
        .node("Expand", &["fronted", "target"], "copied", vec![])
        .node("Add", &["x", "copied"], "y", vec![])
        .output("y")
}

fn scores() -> Draft {
    Draft::opset(17).input("x", [Named("batch"), Is(4), Is(6), Is(6)])
}

#[test]
fn positions_that_are_looked_up_once_are_those_of_every_sample() {
    // MPNet of transformers (`compute_position_bias`): rows of an `nn.Embedding`, by distances that are the same for all.
    let places = (0..36).map(|place| place % 8).collect::<Vec<i64>>();
    let draft = scores().weight("positions.weight", [8, 4]).numbers("flat", &places).numbers("square", &[6, 6]);
    let draft = draft.node("Reshape", &["flat", "square"], "places", vec![]);
    let draft = draft.node("Gather", &["positions.weight", "places"], "rows", vec![]);
    let draft = copied_for_every_sample(transposed(draft, "rows", "table", &[2, 0, 1]));
    let network = draft.load().network;
    assert_eq!(*network.output_shape(), Shape::new([4, 6, 6]));
    assert_eq!(network.parameters(), 8 * 4);
    drop(rewritten(&network));
}

#[test]
fn a_mask_that_is_computed_once_is_that_of_every_sample() {
    // Swin of transformers (`get_attn_mask`): what an exporter computes of numbers alone.
    let mask = with::tensor("value", floats(&[1, 6, 6], &[-100.0; 36]));
    let draft = copied_for_every_sample(scores().node("Constant", &[], "table", vec![mask]));
    let network = draft.load().network;
    assert_eq!((network.output_shape().clone(), network.parameters()), (Shape::new([4, 6, 6]), 0));
}

/// 16 tokens of 8 numbers turned into an image of 8 x 4 x 4, which a convolution reads.
fn turned_image(contiguous: bool) -> Draft {
    let draft = transposed(Draft::opset(17).input("x", [Named("batch"), Is(16), Is(8)]), "x", "channels", &[0, 2, 1]);
    let mut draft = draft.node(if contiguous { "Contiguous" } else { "Identity" }, &["channels"], "laid", vec![]);
    draft.graph().node[1].domain = contiguous.then(|| crate::DOMAIN.into());
    let draft = draft.numbers("as", &[0, 8, 4, 4]).node("Reshape", &["laid", "as"], "image", vec![]);
    draft.weight("w", [2, 8, 3, 3]).node("Conv", &["image", "w"], "y", vec![]).output("y")
}

fn copies(network: &Network) -> usize {
    network.nodes().iter().filter(|node| matches!(node.op, Op::Contiguous { .. })).count()
}

/// `y.transpose(1, 2).view(b, 8, 4, 4)` has its channels last, with `contiguous()` in between it has not: the older exporter writes the same of both.
#[test]
fn an_image_that_was_turned_may_have_been_made_contiguous() {
    let loaded = turned_image(false).load();
    assert_eq!(copies(&loaded.network), 0);
    let others: Vec<usize> = loaded.network.other_readings().iter().map(copies).collect();
    assert!(others.contains(&1), "{others:?}");
    assert!(loaded.warnings.iter().any(|warning| warning.contains("was made contiguous")), "{:?}", loaded.warnings);
}

#[test]
fn a_copy_that_the_python_module_names_is_made() {
    assert_eq!(copies(&turned_image(true).load().network), 1);
}

/// `x.permute(...).reshape(batch * 6, 64, 12, 12)`: no view of x, for what is between its samples and its frames moved (`Tensor.view` refuses it). The second one joins
/// the two without any other change.
#[test]
fn frames_behind_other_axes_join_their_batch_in_a_copy() {
    let shapes: [(&[i64], &[i64]); 2] = [(&[144, 6, 64], &[0, 2, 3, 1]), (&[12, 12, 64, 6], &[0, 4, 3, 1, 2])];
    for (dims, order) in shapes {
        let dims = std::iter::once(Named("batch")).chain(dims.iter().map(|&dim| Is(dim)));
        let draft =
            transposed(Draft::opset(17).input("x", dims), "x", "turned", order).numbers("images", &[-1, 64, 12, 12]);
        let network = draft.node("Reshape", &["turned", "images"], "y", vec![]).output("y").load().network;
        let last = network.node(network.output());
        assert_eq!(
            (&last.op, last.runs),
            (&Op::Reshape(Shape::new([6, 64, 12, 12])), PytorchRun::Joining),
            "{order:?}"
        );
        assert_eq!(rewritten(&network).network.nodes(), network.as_written().nodes(), "{order:?}");
    }
}
