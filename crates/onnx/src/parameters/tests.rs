//! The owner of a parameter: layers that share one, and parameters that PyTorch's default exporter merged or computed ahead.

use crate::tests::*;
use perf4sight_step::workload::Trainable;

const OPERATION: &str = "pkg.torch.onnx.fx_node";

/// A convolution of three channels by `w`, with a bias of that name if it has one.
fn layer(draft: Draft, input: &str, bias: Option<&str>, name: &str) -> Draft {
    let inputs: Vec<&str> = [input, "w"].into_iter().chain(bias).collect();
    draft.node("Conv", &inputs, name, vec![])
}

#[test]
fn layers_that_share_a_weight_keep_biases_of_their_own() {
    let draft = || Draft::new().weight("w", [3, 3, 1, 1]).weight("a", [3]).weight("b", [3]);
    let own = |first, second| layer(layer(draft(), "x", first, "c"), "c", second, "y").output("y").load().network;
    // Filters of 3 x 3, and 3 for each bias.
    for (first, second, parameters) in [
        (Some("a"), Some("a"), 9 + 3),
        (Some("a"), Some("b"), 9 + 6),
        (Some("a"), None, 9 + 3),
        (None, Some("b"), 9 + 3),
        (None, None, 9),
    ] {
        let network = own(first, second);
        assert_eq!(network.parameters(), parameters, "{first:?} {second:?}");
        assert_eq!(network.nodes().iter().filter(|node| node.shares.is_some()).count(), 1, "{first:?} {second:?}");
        rewritten(&network);
    }
}

#[test]
fn fully_connected_layers_share_a_weight_and_not_a_bias_too() {
    let draft = Draft::new().weight("w", [8, 8]).weight("a", [8]).weight("b", [8]);
    let draft = draft.node("MatMul", &["x", "w"], "m", vec![]).node("Add", &["m", "a"], "s", vec![]);
    let draft = draft.node("MatMul", &["s", "w"], "n", vec![]).node("Add", &["n", "b"], "y", vec![]).output("y");
    let network = draft.load().network;
    assert_eq!(network.parameters(), 64 + 8 + 8);
    rewritten(&network);
}

#[test]
fn a_weight_in_two_shapes_counts_once_and_is_told_of() {
    // An autoencoder whose decoder is its transposed encoder.
    let draft = Draft::new().weight("w", [8, 4]).node("MatMul", &["x", "w"], "code", vec![]);
    let turn = vec![with::ints("perm", vec![1, 0])];
    let draft = draft.node("Transpose", &["w"], "t", turn).node("MatMul", &["code", "t"], "y", vec![]).output("y");
    let loaded = draft.load();
    assert_eq!(loaded.network.parameters(), 32);
    assert!(
        loaded.warnings[0].starts_with("two layers read the same in different shapes, of 1 weight (\"w\" is one)"),
        "{:?}",
        loaded.warnings
    );
    rewritten(&loaded.network);
}

#[test]
fn parts_of_one_weight_are_layers_of_their_own() {
    // nn.MultiheadAttention for cross-attention: three blocks of one matrix.
    let draft = Draft::new().weight("in_proj_weight", [8, 24]).numbers("sizes", &[8, 8, 8]);
    let draft = draft.node("Split", &["in_proj_weight", "sizes"], "q", vec![with::int("axis", 1)]).also(&["k", "v"]);
    let draft = draft.node("MatMul", &["x", "q"], "a", vec![]).node("MatMul", &["a", "k"], "b", vec![]);
    let loaded = draft.node("MatMul", &["b", "v"], "y", vec![]).output("y").load();
    assert_eq!(loaded.network.parameters(), 8 * 24);
    let answer =
        "a, b, y read parts of parameters (\"in_proj_weight\" is one): where channels are pruned each of them goes on";
    assert!(loaded.warnings[0].starts_with(answer), "{:?}", loaded.warnings);
}

#[test]
fn a_weight_cut_into_a_sequence_is_its_parts() {
    // `self.w.split(2)` by the default exporter with optimize=False.
    let draft = Draft::new().weight("w", [4, 3, 1, 1]);
    let draft = draft.numbers("lengths", &[2, 2]).numbers("first", &[0]).numbers("second", &[1]);
    let draft = draft.node("SplitToSequence", &["w", "lengths"], "parts", vec![with::int("axis", 0)]);
    let draft = draft.node("SequenceAt", &["parts", "first"], "u", vec![]).node("Conv", &["x", "u"], "a", vec![]);
    let draft = draft.node("SequenceAt", &["parts", "second"], "v", vec![]).node("Conv", &["x", "v"], "b", vec![]);
    let network = draft.node("Add", &["a", "b"], "y", vec![]).output("y").load().network;
    assert_eq!((network.parameters(), network.coverage().unknown.len()), (12, 0));
}

#[test]
fn positions_repeated_for_every_sample_stand_beside_its_heads() {
    // DeBERTa: heads of tokens and samples on one axis; those of positions are tiled to as many.
    let draft = Draft::new().weight("p", [3, 8, 8]).node("Shape", &["x"], "s", vec![]).numbers("zero", &[0]);
    let draft =
        draft.node("Gather", &["s", "zero"], "n", vec![]).numbers("ones", &[1, 1]).numbers("heads", &[-1, 8, 8]);
    let draft = draft.node("Concat", &["n", "ones"], "times", vec![with::int("axis", 0)]);
    let draft = draft.node("Tile", &["p", "times"], "t", vec![]).node("Reshape", &["x", "heads"], "h", vec![]);
    let draft = draft.node("MatMul", &["h", "t"], "scores", vec![]).numbers("apart", &[-1, 3, 8, 8]);
    let network = draft.node("Reshape", &["scores", "apart"], "y", vec![]).output("y").load().network;
    assert_eq!((network.parameters(), network.output_shape().dims()), (3 * 8 * 8, [3, 8, 8].as_slice()));
    assert_eq!(network.coverage().unknown.len(), 0);
}

#[test]
fn a_tensor_that_is_tiled_once_stays_what_it_is_for_all_samples() {
    // `self.pos.repeat(1, 1) + x` of a single sample, and DETR's `query_embed.weight.unsqueeze(1).repeat(1, 1, 1)`: no copy for a sample.
    for (fixed, turned) in [(vec![8, 8], vec![0, 1]), (vec![8, 1, 8], vec![1, 0, 2])] {
        let draft = Draft::opset(17).input("x", [Is(1), Is(8), Is(8)]).stored("p", floats(&fixed, &[0.5; 64]));
        let draft = draft.numbers("once", &vec![1; fixed.len()]).node("Tile", &["p", "once"], "t", vec![]);
        let draft = draft.node("Transpose", &["t"], "r", vec![with::ints("perm", turned)]);
        let network = draft.node("Add", &["r", "x"], "y", vec![]).output("y").load().network;
        assert_eq!((network.parameters(), network.coverage().unknown.len()), (64, 0), "{fixed:?}");
        assert_eq!(network.output_shape().dims(), [8, 8]);
    }
}

#[test]
fn what_is_taken_for_a_buffer_by_its_name_is_told() {
    // `self.pe = nn.Parameter(...)` by the older exporter, with weights: nothing distinguishes parameters from buffers.
    let draft = Draft::new().stored("pe", floats(&[8, 8], &[0.5; 64])).node("Add", &["x", "pe"], "s", vec![]);
    let draft = draft.stored("w", floats(&[8, 8], &[0.5; 64])).node("MatMul", &["s", "w"], "y", vec![]).output("y");
    let loaded = draft.load();
    assert_eq!(loaded.network.parameters(), 64);
    let answer = "by their names alone these count as buffers, which nobody trains: pe of 64 numbers; ";
    assert!(loaded.warnings[0].starts_with(answer), "{:?}", loaded.warnings);
}

#[test]
fn places_looked_up_for_every_sample_are_integers_of_it() {
    // DeBERTa: scores by distance become scores by position, with samples and heads on one axis.
    let draft = Draft::new().node("Shape", &["x"], "s", vec![]).numbers("zero", &[0]).numbers("three", &[3]);
    let draft = draft.node("Gather", &["s", "zero"], "n", vec![]).node("Mul", &["n", "three"], "rows", vec![]);
    let draft = draft.numbers("sides", &[8, 8]).numbers("heads", &[-1, 8, 8]).numbers("apart", &[-1, 3, 8, 8]);
    let draft = draft.node("Concat", &["rows", "sides"], "all", vec![with::int("axis", 0)]);
    let draft = draft.numbers("places", &[7, 6, 5, 4, 3, 2, 1, 0]).node("Expand", &["places", "all"], "index", vec![]);
    let draft = draft.node("Reshape", &["x", "heads"], "h", vec![]);
    let draft = draft.node("GatherElements", &["h", "index"], "g", vec![with::int("axis", 2)]);
    let network = draft.node("Reshape", &["g", "apart"], "y", vec![]).output("y").load().network;
    let looked_up = network.nodes().iter().find(|node| matches!(node.op, Op::Unknown(_))).unwrap();
    let places = network.node(looked_up.inputs[1]);
    assert_eq!((places.element, places.shape.dims()), (ElementKind::Integer, [3, 8, 8].as_slice()));
    rewritten(&network);
}

#[test]
fn parts_that_the_exporter_cut_ahead_are_told_of() {
    // F.conv2d(x, self.w[:2]) next to F.conv2d(x, self.w): the first has a tensor of its own, named after the slice.
    let conv =
        |weight: &str| format!("%c : f[target=torch.ops.aten.conv2d.default](args = (%x, %{weight}, None, [1, 1]))");
    let draft = Draft::new().stored("slice_1", floats(&[2, 3, 1, 1], &[0.5; 6]));
    let draft = draft.node("Conv", &["x", "slice_1"], "a", vec![]).noted(OPERATION, &conv("slice_1"));
    let draft = draft.stored("w", floats(&[4, 3, 1, 1], &[0.5; 12]));
    let draft = draft.node("Conv", &["x", "w"], "b", vec![]).noted(OPERATION, &conv("p_w"));
    let draft = draft.node("Concat", &["a", "b"], "y", vec![with::int("axis", 1)]).output("y");
    let loaded = draft.signed("p_w: PARAMETER target='w'").load();
    assert_eq!(loaded.network.parameters(), 12);
    let answer = "a read parts of parameters (\"slice_1\" is one)";
    assert!(loaded.warnings.iter().any(|warning| warning.starts_with(answer)), "{:?}", loaded.warnings);
}

#[test]
fn parts_of_a_weight_that_another_layer_reads_whole_count_once() {
    // nn.MultiheadAttention for self-attention, one product, and then for cross-attention, two: a third of its rows, and the
    // others.
    let axis = || vec![with::int("axis", 1)];
    let draft = Draft::new().weight("in_proj_weight", [8, 24]).weight("in_proj_bias", [24]).numbers("sizes", &[8, 16]);
    let draft = draft.node("MatMul", &["x", "in_proj_weight"], "m", vec![]);
    let draft = draft.node("Add", &["m", "in_proj_bias"], "/Add", vec![]).numbers("thirds", &[8, 8, 8]);
    let draft = draft.node("Split", &["/Add", "thirds"], "t", vec![with::int("axis", -1)]).also(&["u", "v"]);
    let draft = draft.node("Split", &["in_proj_weight", "sizes"], "q", axis()).also(&["kv"]);
    let draft = draft.node("Split", &["in_proj_bias", "sizes"], "qb", vec![]).also(&["kvb"]);
    let draft = draft.node("MatMul", &["t", "q"], "n", vec![]).node("Add", &["n", "qb"], "/Add_1", vec![]);
    let draft = draft.node("MatMul", &["u", "kv"], "o", vec![]).node("Add", &["o", "kvb"], "/Add_2", vec![]);
    let loaded = draft.node("Concat", &["/Add_1", "/Add_2", "v"], "y", vec![with::int("axis", -1)]).output("y").load();
    assert_eq!(loaded.network.parameters(), 8 * 24 + 24);
    assert!(loaded.warnings[0].contains("of 1 weight (\"in_proj_weight\" is one)"), "{:?}", loaded.warnings);
}

#[test]
fn a_vector_of_the_network_itself_that_two_sums_read_counts_once() {
    // Snake: x + sin²(Ax) / (A + 1e-9), whose sum with A comes first.
    let draft = Draft::new().weight("A", [8]).number("safe", 1e-9).node("Mul", &["x", "A"], "/Mul", vec![]);
    let draft = draft.node("Sin", &["/Mul"], "s", vec![]).node("Add", &["A", "safe"], "/Add", vec![]);
    let network = draft.node("Div", &["s", "/Add"], "/Div", vec![]).output("/Div").load().network;
    assert_eq!(network.parameters(), 8);
}

#[test]
fn a_norm_that_runs_twice_counts_once_and_one_merged_with_it_again() {
    let norm = |draft: Draft, name: &str, input: &str| {
        let draft = draft.node("LayerNormalization", &[input, "norm.weight", "norm.bias"], name, vec![]);
        Draft(draft.0)
    };
    let twice = |second: &str| {
        let draft = Draft::new().weight("norm.weight", [8]).weight("norm.bias", [8]);
        let draft = norm(norm(draft, "/norm/LayerNormalization", "x"), second, "/norm/LayerNormalization");
        draft.output(second).load().network.parameters()
    };
    assert_eq!(twice("/norm_1/LayerNormalization"), 16);
    assert_eq!(twice("/other/LayerNormalization"), 32);
}

#[test]
fn slopes_of_prelu_are_trained() {
    for (slopes, trained) in [(vec![3, 1, 1], 3), (vec![1], 1)] {
        let stored = floats(&slopes, &vec![0.25; trained]);
        let draft = Draft::new().stored("act.weight", stored).node("PRelu", &["x", "act.weight"], "y", vec![]);
        let network = draft.output("y").load().network;
        assert!(network.coverage().is_full());
        assert_eq!(network.parameters(), trained as u64);
        assert_eq!(network.nodes()[2].op, Op::Binary(BinaryFunction::PRelu));
        rewritten(&network);
    }
}

/// `a` and `b` are equal at the export, so the exporter keeps only `a`.
fn merged() -> Draft {
    let draft = Draft::new().stored("a.weight", floats(&[8], &[1.0; 8])).stored("a.bias", floats(&[8], &[0.0; 8]));
    let noted = |layer: &str| {
        format!(
            "%norm : f[target=torch.ops.aten.layer_norm.default](args = (%x, [8], %p_{layer}_weight, %p_{layer}_bias))"
        )
    };
    let norm = |draft: Draft, input: &str, name: &str, layer: &str| {
        draft.node("LayerNormalization", &[input, "a.weight", "a.bias"], name, vec![]).noted(OPERATION, &noted(layer))
    };
    let draft = norm(norm(norm(draft, "x", "m", "a"), "m", "n", "b"), "n", "y", "b").output("y");
    let names = ["a.weight", "a.bias", "b.weight", "b.bias"];
    let lines = names.map(|name| format!("p_{}: PARAMETER target='{name}'", name.replace('.', "_")));
    draft.signed(&lines.join("\n"))
}

#[test]
fn tensors_that_the_default_exporter_merged_are_told_apart_by_its_notes() {
    let network = merged().load().network;
    let names: Vec<&str> = network.nodes()[1..].iter().map(|node| node.name.as_str()).collect();
    // Scale and shift of 8 of two norms, the second of which runs twice.
    assert_eq!((names, network.parameters()), (vec!["a", "b", "y"], 32));
}

impl Draft {
    /// An image plus a table of 2 heads and 49 x 49 positions. The table was computed from the parameter `table` of module
    /// `attn`, and is named after the last operation.
    pub(crate) fn looked_up(table: &str, last: &str) -> LoadedOnnx {
        let draft = Draft::opset(17).input("x", [Is(2), Is(2), Is(49), Is(49)]);
        let draft = draft
            .stored(last, floats(&[1, 2, 49, 49], &[0.5; 4802]))
            .stored("attn.gain", floats(&[2, 1, 1], &[1.0; 2]));
        let draft = draft.node("Mul", &["x", "attn.gain"], "m", vec![]);
        let draft = draft.noted(OPERATION, "%mul : f[target=torch.ops.aten.mul.Tensor](args = (%x, %p_attn_gain))");
        let draft = draft.node("Add", &["m", last], "y", vec![]);
        let add = format!("%add : f[target=torch.ops.aten.add.Tensor](args = (%mul, %{last}))");
        let draft = draft.noted(OPERATION, &add);
        let draft = draft.noted("pkg.torch.onnx.name_scopes", "['', 'attn', 'add']").output("y");
        draft.signed(&format!("p_attn_gain: PARAMETER target='attn.gain'{table}")).load()
    }
}

#[test]
fn tables_computed_ahead_are_as_large_as_what_they_are_looked_up_in() {
    // Swin's table for windows of 7 x 7: 13 x 13 offsets for each of 2 heads.
    let loaded = Draft::looked_up("\np_attn_t: PARAMETER target='attn.relative_position_bias_table'", "unsqueeze");
    assert_eq!(loaded.network.parameters(), 2 + 13 * 13 * 2);
    assert!(loaded.warnings[0].contains("taken for those of the networks"), "{:?}", loaded.warnings);
    // An unknown parameter is as large as the computed tensor, or its size is unknown.
    let bias = "\np_attn_t: PARAMETER target='attn.bias'";
    assert_eq!(Draft::looked_up(bias, "unsqueeze").network.parameters(), 2 + 2 * 49 * 49);
    let loaded = Draft::looked_up(bias, "select");
    assert!(loaded.warnings[0].contains("(\"select\" is one) from parameters whose sizes"), "{:?}", loaded.warnings);
    // A table of zeros comes from no parameter, as ConViT's table of positions.
    assert_eq!(Draft::looked_up(bias, "zeros_1").network.parameters(), 2);
    // No parameter is missing, so the tensor came from none.
    let loaded = Draft::looked_up("", "unsqueeze");
    assert_eq!((loaded.network.parameters(), loaded.warnings.len()), (2, 0));
}

#[test]
fn rows_of_a_table_that_an_exporter_merged_count_each() {
    // EfficientViT adds a row of the table to one head after the other: here two of 49 numbers, all of them equal.
    let draft =
        Draft::opset(17).input("x", [Is(2), Is(49), Is(49)]).stored("select_3", floats(&[49, 49], &[0.0; 2401]));
    let add = |draft: Draft, input: &str, name: &str| {
        let draft = draft.node("Add", &[input, "select_3"], name, vec![]);
        let draft = draft.noted(OPERATION, "%add : f[target=torch.ops.aten.add.Tensor](args = (%x, %select_3))");
        draft.noted("pkg.torch.onnx.name_scopes", "['', 'attn', 'add']")
    };
    let draft = add(add(draft, "x", "m"), "m", "y").output("y");
    let network = draft.signed("p_attn_t: PARAMETER target='attn.attention_biases'").load().network;
    assert_eq!(network.parameters(), 2 * 49);
}

#[test]
fn parameters_of_capital_names_are_parameters() {
    // PyTorch marks them in small letters: of a module's `A` and `a` one is `p_a`, the other `p_a_1`.
    let draft = Draft::opset(17).input("x", [Is(2), Is(64), Is(32)]);
    let draft = draft.stored("A", floats(&[32], &[0.5; 32])).stored("a", floats(&[32], &[0.25; 32]));
    let sum = |draft: Draft, inputs: [&str; 2], name: &str, mark: &str| {
        let note = format!("%{name} : f[target=torch.ops.aten.mul.Tensor](args = (%{}, %{mark}))", inputs[0]);
        draft.node("Mul", &inputs, name, vec![]).noted(OPERATION, &note)
    };
    let draft = sum(sum(draft, ["x", "A"], "m", "p_a"), ["m", "a"], "y", "p_a_1").output("y");
    let loaded = draft.signed("p_a: PARAMETER target='A'\np_a_1: PARAMETER target='a'").load();
    assert_eq!((loaded.network.parameters(), loaded.warnings), (2 * 32, vec![]));
}

const SCOPES: &str = "pkg.torch.onnx.name_scopes";

/// Words are looked up, and a head multiplies by `head.weight`, which is also the table if `looked` names it so.
fn words_and_head(looked: &str) -> Draft {
    let mut draft = Draft::opset(17);
    draft.graph().input.push(Draft::typed("ids", [Is(2), Is(16)], DataType::Int64));
    let draft = draft.stored("head.weight", floats(&[10, 8], &[0.5; 80]));
    let draft = draft.stored("embedding_1", floats(&[16, 8], &[0.5; 128]));
    let draft = draft.node("Gather", &["head.weight", "ids"], "embedding", vec![]);
    let note = format!("%embedding : f[target=torch.ops.aten.embedding.default](args = (%{looked}, %ids))");
    let draft = draft.noted(OPERATION, &note).noted(SCOPES, "['', 'words', 'embedding']");
    let draft = draft.node("Add", &["embedding", "embedding_1"], "add", vec![]);
    let add = "%add : f[target=torch.ops.aten.add.Tensor](args = (%embedding, %embedding_1))";
    let draft = draft.noted(OPERATION, add).noted(SCOPES, "['', 'add']");
    let turn = vec![with::ints("perm", vec![1, 0])];
    let draft = draft.node("Transpose", &["head.weight"], "t", turn).node("MatMul", &["add", "t"], "y", vec![]);
    let linear = "%linear : f[target=torch.ops.aten.linear.default](args = (%add, %p_head_weight))";
    draft.noted(OPERATION, linear).noted(SCOPES, "['', 'head', 'linear']").output("y")
}

#[test]
fn a_table_that_a_head_uses_too_is_not_missed_and_one_that_was_looked_up_is() {
    let signature = "p_words_weight: PARAMETER target='words.weight'\np_head_weight: PARAMETER target='head.weight'";
    let tied = words_and_head("p_head_weight").signed(signature).load();
    assert_eq!((tied.network.parameters(), tied.warnings), (80, vec![]));
    let places = format!("{signature}\np_places_weight: PARAMETER target='places.weight'");
    let loaded = words_and_head("p_head_weight").signed(&places).load();
    // Sixteen positions of a larger table, which the file no longer has.
    assert_eq!(loaded.network.parameters(), 80 + 128);
    let expected = "1 tensor ahead (\"embedding_1\" is one, perhaps of \"places.weight\")";
    assert!(loaded.warnings[0].contains(expected) && loaded.warnings.len() == 1, "{:?}", loaded.warnings);
}

#[test]
fn filters_that_were_computed_ahead_are_told_of() {
    // Filters times a mask, both of the module that multiplies by them.
    let draft = Draft::opset(17).input("x", [Is(2), Is(8)]).stored("val_7", floats(&[8, 8], &[0.5; 64]));
    let draft = draft.node("MatMul", &["x", "val_7"], "y", vec![]);
    let linear = "%linear : f[target=torch.ops.aten.linear.default](args = (%x, %mul))";
    let draft = draft.noted(OPERATION, linear).noted(SCOPES, "['', 'blk', 'linear']").output("y");
    let loaded = draft.signed("p_blk_w: PARAMETER target='blk.w'").load();
    assert_eq!(loaded.network.parameters(), 64);
    assert!(loaded.warnings[0].contains("(\"val_7\" is one) from parameters whose sizes"), "{:?}", loaded.warnings);
}

#[test]
fn what_is_only_compared_or_scales_the_input_is_no_parameter() {
    // A causal mask, as nanoGPT keeps it.
    let draft = Draft::new().weight("bias", [1, 1, 8, 8]).number("zero", 0.0).number("never", f32::NEG_INFINITY);
    let draft = draft.node("Equal", &["bias", "zero"], "hidden", vec![]);
    let draft = draft.node("Where", &["hidden", "never", "x"], "y", vec![]).output("y");
    assert_eq!(draft.load().network.parameters(), 0);
    // Means and deviations of images.
    let draft = Draft::new().weight("mean", [1, 3, 1, 1]).weight("std", [1, 3, 1, 1]).weight("gain", [1, 3, 1, 1]);
    let draft = draft.node("Sub", &["x", "mean"], "less", vec![]).node("Div", &["less", "std"], "d", vec![]);
    assert_eq!(draft.node("Mul", &["d", "gain"], "y", vec![]).output("y").load().network.parameters(), 3);
    // Sinusoidal positions, as PyTorch's tutorials keep them, and a parameter with the same name.
    let draft = || Draft::new().node("Add", &["x", "m.pe"], "y", vec![]);
    let buffer = draft().weight("m.pe", [3, 8, 8]).output("y").load();
    assert_eq!(buffer.network.parameters(), 0);
    let add = "%add : f[target=torch.ops.aten.add.Tensor](args = (%x, %p_m_pe))";
    let draft = draft().stored("m.pe", floats(&[3, 8, 8], &[0.5; 192])).noted(OPERATION, add).output("y");
    assert_eq!(draft.signed("p_m_pe: PARAMETER target='m.pe'").load().network.parameters(), 192);
}

#[test]
fn layers_computed_from_a_weight_that_another_has_are_told_of() {
    // Filters that the graph computes from the weight of the layer before: they are counted there.
    let draft = Draft::new().weight("w", [8, 8]).node("MatMul", &["x", "w"], "a", vec![]);
    let draft = draft.node("Mul", &["w", "w"], "v", vec![]).node("MatMul", &["a", "v"], "y", vec![]).output("y");
    let loaded = draft.load();
    assert_eq!(loaded.network.parameters(), 64);
    assert!(
        loaded.warnings[0].starts_with("two layers read the same in different shapes, of 1 weight (\"w\" is one)"),
        "{:?}",
        loaded.warnings
    );
}

/// Trained elements of a network's layers, where only those that match are trained.
fn trained(network: &Network, patterns: &str) -> u64 {
    let part = network.trained_in(Trainable::parse(patterns).unwrap()).into_owned();
    part.nodes().iter().flat_map(|node| part.learned_of(node)).sum()
}

#[test]
fn parameters_of_no_layer_are_selected_by_their_own_names() {
    // `self.base(x) + x @ self.down @ self.up`, a low-rank adapter (Hu et al. 2021) within a module `q`, all else frozen.
    let draft = Draft::new().weight("q.base.weight", [8, 8]).weight("q.down", [8, 2]).weight("q.up", [2, 8]);
    let draft = draft.node("MatMul", &["x", "q.base.weight"], "/q/base/MatMul", vec![]);
    let draft = draft.node("MatMul", &["x", "q.down"], "/q/MatMul", vec![]);
    let draft = draft.node("MatMul", &["/q/MatMul", "q.up"], "/q/MatMul_1", vec![]);
    let network = draft.node("Add", &["/q/base/MatMul", "/q/MatMul_1"], "y", vec![]).output("y").load().network;
    assert_eq!(trained(&network, "q.down,q.up"), 2 * 8 * 2);
    assert_eq!(trained(&network, "q.up"), 8 * 2);
    assert_eq!(trained(&rewritten(&network).network, "q.down"), 8 * 2);
}

#[test]
fn layers_whose_weights_an_exporter_named_are_selected_by_their_modules() {
    // PyTorch's older exporter stores the transposed matrices of layers on tokens under names of its own.
    let draft = Draft::new().weight("onnx::MatMul_7", [8, 4]).weight("onnx::MatMul_8", [4, 2]);
    let draft = draft.node("MatMul", &["x", "onnx::MatMul_7"], "/blocks/blocks.0/attn/MatMul", vec![]);
    let first = "/blocks/blocks.0/attn/MatMul";
    let network = draft
        .node("MatMul", &[first, "onnx::MatMul_8"], "/blocks/blocks.1/attn/MatMul", vec![])
        .output("/blocks/blocks.1/attn/MatMul");
    let network = network.load().network;
    assert_eq!((trained(&network, "blocks.0.*"), trained(&network, "blocks.1.attn")), (8 * 4, 4 * 2));
}
