//! Operators without an operation of their own here: shapes for any batch, parameters, products, and the files written from them.

use crate::tests::*;
use perf4sight_step::workload::{Stage, Workload};

/// The expected values for a node with an unsupported operator.
struct ExpectedNode {
    operator: &'static str,
    attributes: Vec<AttributeProto>,
    /// Shapes of the weights it reads after `x`, an image of 3 x 8 x 8.
    weights: Vec<Vec<i64>>,
    /// Integers it reads after the weights.
    integers: Vec<Vec<i64>>,
    shape: Vec<usize>,
    macs: u64,
}

/// Expected shapes and products follow the operators' specification, by hand.
fn operators() -> Vec<ExpectedNode> {
    let known = |operator, attributes, shape: &[usize]| ExpectedNode {
        operator,
        attributes,
        weights: vec![],
        integers: vec![],
        shape: shape.to_vec(),
        macs: 0,
    };
    vec![
        ExpectedNode { integers: vec![vec![2]], ..known("CumSum", vec![with::int("reverse", 1)], &[3, 8, 8]) },
        known("Hardmax", vec![], &[3, 8, 8]),
        known(
            "MaxUnpool",
            vec![with::ints("kernel_shape", vec![2, 2]), with::ints("strides", vec![2, 2])],
            &[3, 16, 16],
        ),
        known("LpNormalization", vec![with::int("axis", 1)], &[3, 8, 8]),
        known("Trilu", vec![], &[3, 8, 8]),
    ]
}

fn draft(known: &ExpectedNode, batch: Dim) -> Draft {
    let mut draft = Draft::opset(18).input("x", [batch, Is(3), Is(8), Is(8)]);
    let mut inputs = vec!["x".to_string()];
    for (place, dims) in known.weights.iter().enumerate() {
        let name = format!("w{place}");
        draft.graph().input.push(Draft::typed(&name, dims.iter().map(|&dim| Is(dim)), DataType::Float));
        inputs.push(name);
    }
    for (place, numbers) in known.integers.iter().enumerate() {
        let name = format!("n{place}");
        draft = draft.numbers(&name, numbers);
        inputs.push(name);
    }
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    draft.node(known.operator, &inputs, "y", known.attributes.clone()).output("y")
}

#[test]
fn what_is_not_understood_has_shape_cost_and_name_for_any_batch() {
    for known in operators() {
        for batch in [Named("batch"), Is(2), Is(1)] {
            let loaded = draft(&known, batch).load();
            let (network, operator) = (&loaded.network, known.operator);
            let node = network.node(network.output());
            assert_eq!(node.shape.dims(), known.shape, "{operator}");
            assert_eq!(network.macs(), known.macs, "{operator}");
            assert_eq!(network.coverage().unknown.keys().collect::<Vec<_>>(), [operator]);
            assert!(loaded.warnings.iter().any(|warning| warning.contains(&format!("{operator} x1"))), "{operator}");
            let workload = Workload::published(Stage::Inference, 4);
            let elements = known.shape.iter().product::<usize>() as u64;
            assert_eq!(network.bytes_out(node, workload), 4 * 4 * elements, "{operator}");
            rewritten(network);
        }
    }
}

/// One node on a sequence of 6 steps of 5 features, its first outputs `y` and `last`.
fn recurrent(operator: &str, gates: i64) -> Network {
    let draft = Draft::opset(18).input("x", [Named("batch"), Is(6), Is(1), Is(5)]);
    let draft = draft.numbers("as", &[0, 6, 5]).node("Reshape", &["x", "as"], "s", vec![]);
    let draft = draft.node("Transpose", &["s"], "t", vec![with::ints("perm", vec![1, 0, 2])]);
    let draft = draft.weight("w", [1, gates * 7, 5]).weight("r", [1, gates * 7, 7]).weight("b", [1, 2 * gates * 7]);
    let draft = draft.node(operator, &["t", "w", "r", "b"], "y", vec![with::int("hidden_size", 7)]).also(&["last"]);
    draft.output("y").load().network
}

#[test]
fn recurrent_layers_cost_the_products_they_are() {
    for (operator, gates) in [("LSTM", 4), ("GRU", 3), ("RNN", 1)] {
        let network = recurrent(operator, gates);
        // In each of 6 steps, each gate's 7 numbers are computed from 5 inputs and 7 hidden numbers.
        let gates = gates as u64;
        assert_eq!(network.macs(), 6 * gates * 7 * (5 + 7), "{operator}");
        assert_eq!(network.parameters(), gates * 7 * (5 + 7 + 2), "{operator}");
        // PyTorch's GRU resets behind the product, which an attribute says.
        assert_eq!(network.coverage().unknown.len(), usize::from(operator == "GRU"), "{operator}");
        let warnings = rewritten(&network).warnings;
        let answer = format!("read and write, that of {operator} from the products too");
        let is_warned = warnings.iter().any(|warning| warning.contains(&answer));
        assert_eq!(is_warned, operator == "GRU", "{warnings:?}");
        assert!(operator == "GRU" || warnings[0].contains("1 recurrent layer was measured"), "{warnings:?}");
    }
}

#[test]
fn a_recurrent_layer_reads_samples_first_if_its_file_permutes_them() {
    // With `batch_first=True` exporters permute what `nn.GRU` reads for ONNX's layer, without it they do not.
    for (batch_first, sizes) in [(true, [Named("batch"), Is(6), Is(5)]), (false, [Is(6), Named("batch"), Is(5)])] {
        let draft = Draft::opset(18).input("x", sizes).weight("w", [1, 21, 5]).weight("r", [1, 21, 7]);
        let draft = match batch_first {
            true => draft.node("Transpose", &["x"], "t", vec![with::ints("perm", vec![1, 0, 2])]),
            false => draft.node("Identity", &["x"], "t", vec![]),
        };
        let attributes = vec![with::int("hidden_size", 7), with::int("linear_before_reset", 1)];
        let network = draft.node("GRU", &["t", "w", "r"], "y", attributes).output("y").load().network;
        let reads = |network: &Network| {
            let layers = network
                .nodes()
                .iter()
                .filter_map(|node| if let Op::Recurrent(layer) = &node.op { Some(layer.batch_first) } else { None });
            layers.collect::<Vec<_>>()
        };
        assert_eq!(reads(&network), [batch_first]);
        assert_eq!(reads(&rewritten(&network).network), [batch_first]);
    }
}

#[test]
fn weights_of_an_einstein_sum_are_no_part_of_any_sample() {
    // 5 numbers at each position become 3 heads of 7: 6 * 5 * 21 products per sample, of 105 weights that are stored once.
    let draft = Draft::opset(18).input("x", [Named("batch"), Is(6), Is(5)]).weight("w", [3, 5, 7]);
    let draft = draft.node("Einsum", &["x", "w"], "y", vec![text("equation", "bti,eio->bteo")]).output("y");
    let network = draft.load().network;
    assert_eq!((network.parameters(), network.macs()), (105, 6 * 5 * 21));
    assert_eq!(network.output_shape(), &Shape::new([6, 3, 7]));
    let copies = network.nodes().iter().filter(|node| matches!(node.op, Op::Transpose { .. })).count();
    assert_eq!(copies, 0, "the weight is not turned for every sample: {:?}", network.nodes());
    rewritten(&network);
}

#[test]
fn a_size_that_the_data_tell_is_no_batch() {
    // NonZero gives the positions of nonzero elements; the file cannot state their number.
    let mut draft = Draft::opset(18).input("x", [Named("batch"), Is(8)]).node("NonZero", &["x"], "y", vec![]);
    draft.graph().output.push(Draft::typed("y", [Is(2), Named("found")], DataType::Int64));
    let warnings = draft.load().warnings;
    assert!(
        warnings.iter().any(|warning| warning.contains("nothing gives the shape of what node \"y\" (NonZero)")),
        "{warnings:?}"
    );
}

/// `(g > 0).nonzero()` of zeros as many as samples, as Longformer finds its global tokens: the shape of a table that nothing but data tells
/// once was asked for without end.
#[test]
fn a_table_whose_shape_its_data_tell_is_unknown() {
    let draft = Draft::opset(17).input("x", [Named("batch"), Is(6)]).node("Shape", &["x"], "s", vec![]);
    let draft = draft.node("ConstantOfShape", &["s"], "zeros", vec![]).node("NonZero", &["zeros"], "found", vec![]);
    let draft = draft.node("Cast", &["found"], "numbers", vec![with::int("to", 1)]);
    let most = draft.node("ReduceMax", &["numbers"], "most", vec![with::int("keepdims", 0)]);
    let network = most.node("Mul", &["x", "most"], "y", vec![]).output("y").load().network;
    assert!(network.coverage().unknown.contains_key("NonZero"), "{:?}", network.coverage());
    assert_eq!(network.output_shape(), &Shape::new([6]));
}

/// A recurrent layer whose outputs `read` are joined; its weights are made of parts, as PyTorch's older exporter makes them.
fn recurrent_outputs(operator: &str, gates: i64, read: &[&str]) -> Network {
    let draft = Draft::opset(18).input("x", [Named("batch"), Is(6), Is(5)]);
    let draft = draft.node("Transpose", &["x"], "t", vec![with::ints("perm", vec![1, 0, 2])]).numbers("0", &[0]);
    let draft = draft.weight("w", [gates * 7, 5]).weight("r", [gates * 7, 7]).weight("b", [gates * 7]);
    let draft = draft.numbers("7", &[7]).numbers("end", &[gates * 7]).weight("d", [gates * 7]);
    let part = |draft: Draft, from: &str, to: &str, name: &str| {
        draft.node("Slice", &["w", from, to, "0"], name, vec![]).node(
            "Slice",
            &["r", from, to, "0"],
            &format!("r{name}"),
            vec![],
        )
    };
    let along = || vec![with::int("axis", 0)];
    let draft = part(part(draft, "0", "7", "head"), "7", "end", "tail");
    let draft =
        draft.node("Concat", &["tail", "head"], "wt", along()).node("Concat", &["rtail", "rhead"], "rt", along());
    let draft = draft.node("Concat", &["b", "d"], "bc", along()).node("Unsqueeze", &["bc", "0"], "B", vec![]);
    let draft = draft.node("Unsqueeze", &["wt", "0"], "W", vec![]).node("Unsqueeze", &["rt", "0"], "R", vec![]);
    let draft = draft.node(operator, &["t", "W", "R", "B"], "y", vec![with::int("hidden_size", 7)]).also(&["h", "c"]);
    read.iter().fold(draft, |draft, output| draft.output(output)).load().network
}

#[test]
fn weights_and_products_of_recurrent_layers_count_once_whichever_outputs_are_read() {
    // The weights of `recurrent_layers_cost_the_products_they_are`, and its products.
    for (operator, gates, outputs) in
        [("LSTM", 4, &["y", "h", "c"][..]), ("GRU", 3, &["y", "h"]), ("RNN", 1, &["y", "h"])]
    {
        let all: Vec<Vec<&str>> =
            outputs.iter().map(|output| vec![*output]).chain([outputs.to_vec(), outputs[1..].to_vec()]).collect();
        for read in all {
            let network = recurrent_outputs(operator, gates, &read);
            let gates = gates as u64;
            assert_eq!(network.parameters(), gates * 7 * (5 + 7 + 2), "{operator} {read:?}");
            assert_eq!(network.macs(), 6 * gates * 7 * (5 + 7), "{operator} {read:?}");
            assert_eq!(rewritten(&network).network.parameters(), network.parameters());
        }
    }
}

#[test]
fn a_recurrent_layer_that_runs_twice_has_its_weights_once_and_its_products_twice() {
    let draft = Draft::opset(18).input("x", [Named("batch"), Is(6), Is(7)]);
    let draft = draft.node("Transpose", &["x"], "t", vec![with::ints("perm", vec![1, 0, 2])]).numbers("1", &[1]);
    let draft = draft.weight("w", [1, 21, 7]).weight("r", [1, 21, 7]);
    let size = || vec![with::int("hidden_size", 7)];
    let draft = draft.node("GRU", &["t", "w", "r"], "a", size()).node("Squeeze", &["a", "1"], "s", vec![]);
    let network = draft.node("GRU", &["s", "w", "r"], "y", size()).output("y").load().network;
    assert_eq!((network.parameters(), network.macs()), (2 * 21 * 7, 2 * 6 * 2 * 21 * 7));
    rewritten(&network);
}

/// Forward and in reverse over the same steps, as Y and Y_h of each are read: weights of 2 * 21 * 7, products of 6 steps twice.
#[test]
fn two_recurrent_layers_with_the_same_weights_on_the_same_data_are_two() {
    let draft = Draft::opset(18).input("x", [Named("batch"), Is(6), Is(7)]);
    let draft = draft.node("Transpose", &["x"], "t", vec![with::ints("perm", vec![1, 0, 2])]);
    let draft = draft.weight("w", [1, 21, 7]).weight("r", [1, 21, 7]);
    let way = |way: &str| vec![with::int("hidden_size", 7), with::text("direction", way)];
    let draft = draft.node("GRU", &["t", "w", "r"], "a", way("forward")).also(&["ah"]);
    let draft = draft.node("GRU", &["t", "w", "r"], "b", way("reverse")).also(&["bh"]);
    for read in [&["a", "b"][..], &["a", "b", "bh"], &["a", "ah", "b", "bh"], &["ah", "bh"], &["a", "bh"]] {
        let network = read.iter().fold(draft.clone(), |draft, output| draft.output(output)).load().network;
        assert_eq!((network.parameters(), network.macs()), (2 * 21 * 7, 2 * 6 * 2 * 21 * 7), "{read:?}");
        let again = rewritten(&network).network;
        assert_eq!(again.macs(), network.macs(), "{read:?}");
    }
}

#[test]
fn samples_that_meet_all_others_cost_as_often_as_there_are() {
    // x @ x.t() of 4 samples of 32 features: 4 * 4 * 32 products, as counted by PyTorch's flop counter, which is 128 per sample.
    let equation = || vec![text("equation", "nd,md->nm")];
    for (operator, attributes) in [("MatMul", vec![]), ("Gemm", vec![with::int("transB", 1)]), ("Einsum", equation())] {
        for batch in [Named("batch"), Is(4)] {
            let draft = Draft::opset(17).input("f", [batch, Is(32)]);
            let draft = draft.node("Transpose", &["f"], "t", vec![with::ints("perm", vec![1, 0])]);
            let second = if operator == "MatMul" { "t" } else { "f" };
            let loaded = draft.node(operator, &["f", second], "y", attributes.clone()).output("y").load();
            let network = &loaded.network;
            let node = network.node(network.output());
            assert_eq!(network.macs_of(node) * network.times_of(node, 4), 4 * 4 * 32, "{operator}");
            let answer = |part: &str| loaded.warnings.iter().any(|warning| warning.contains(part));
            assert!(answer("meets all others of its batch in y"), "{operator}: {:?}", loaded.warnings);
            assert!(network.nodes().iter().all(|node| node.shape.elements() < 1000), "{operator}");
            rewritten(network);
        }
    }
}

#[test]
fn what_is_scattered_into_zeros_has_any_batch_and_places_are_integers() {
    for batch in [Named("batch"), Is(2)] {
        let draft = Draft::opset(18).input("x", [batch, Is(6), Is(5)]).numbers("k", &[2]);
        let draft = draft.node("TopK", &["x", "k"], "v", vec![]).also(&["p"]).node("Shape", &["x"], "s", vec![]);
        let draft = draft.node("ConstantOfShape", &["s"], "z", vec![]);
        let along = vec![with::int("axis", 2)];
        let network = draft.node("ScatterElements", &["z", "p", "v"], "y", along).output("y").load().network;
        let scatter = network.node(network.output());
        let read: Vec<(ElementKind, &[usize])> =
            scatter.inputs.iter().map(|id| network.node(*id)).map(|node| (node.element, node.shape.dims())).collect();
        // ONNX: indices are int32 or int64; data has the result's shape.
        assert_eq!(
            read,
            [(ElementKind::Number, &[6, 5][..]), (ElementKind::Integer, &[6, 2]), (ElementKind::Number, &[6, 2])]
        );
        rewritten(&network);
        let written = ModelProto::decode(to_bytes(&network).as_slice()).unwrap().graph.unwrap();
        let known = written.input.iter().filter_map(source::dims).flatten().flatten();
        assert!(known.into_iter().all(|dim| dim < 100), "{:?}", written.input);
    }
}

#[test]
fn a_convolution_of_volumes_costs_the_product_it_is() {
    let draft = Draft::new().numbers("as", &[0, 3, 4, 4, 4]).node("Reshape", &["x", "as"], "v", vec![]);
    let draft = draft.weight("w", [5, 3, 3, 3, 3]).node("Conv", &["v", "w"], "y", vec![]).output("y");
    let network = draft.load().network;
    // 2 x 2 x 2 of 4 x 4 x 4 positions remain.
    assert_eq!(network.output_shape(), &Shape::new([5, 2, 2, 2]));
    assert_eq!((network.macs(), network.parameters()), (5 * 8 * 3 * 27, 5 * 3 * 27));
    assert!(network.coverage().is_full());
    rewritten(&network);
}

/// Images sampled at a computed grid: 4 x 4 positions for each, computed from the image itself.
#[test]
fn sampling_by_a_grid_and_picking_by_tuples_have_shapes() {
    let grid = Draft::opset(20).image().numbers("as", &[0, 4, 24, 2]).node("Reshape", &["x", "as"], "g", vec![]);
    let grid = grid.node("GridSample", &["x", "g"], "y", vec![]).output("y").load().network;
    assert_eq!(grid.output_shape(), &Shape::new([3, 4, 24]));
    rewritten(&grid);
    let places = TensorProto { dims: vec![2, 1], ..with::vector(vec![0, 2]) };
    let picked = Draft::new().stored("places", places);
    let picked = picked.node("Transpose", &["x"], "t", vec![with::ints("perm", vec![1, 0, 2, 3])]);
    let picked = picked.node("GatherND", &["t", "places"], "y", vec![]).output("y").load().network;
    assert_eq!(picked.output_shape(), &Shape::new([2, 8, 8]));
    assert!(grid.coverage().is_full() && picked.coverage().is_full());
    rewritten(&picked);
}

#[test]
fn columns_back_to_an_image_have_its_shape() {
    // Adjacent windows of 2 x 2: 12 = 3 x 2 x 2 numbers at each of 16 positions make 3 x 8 x 8.
    let draft = Draft::opset(18).image().numbers("as", &[0, 12, 16]).node("Reshape", &["x", "as"], "c", vec![]);
    let draft = draft.numbers("image", &[8, 8]).numbers("block", &[2, 2]);
    let strides = vec![with::ints("strides", vec![2, 2])];
    let network = draft.node("Col2Im", &["c", "image", "block"], "y", strides).output("y").load().network;
    assert_eq!(network.output_shape(), &Shape::new([3, 8, 8]));
    assert!(network.coverage().is_full());
    rewritten(&network);
}

/// Queries, keys and values of 8 tokens in 3 heads of 8 features, in the form of opset 23.
fn attention(attributes: Vec<AttributeProto>, mask: bool) -> Network {
    let draft = Draft::opset(23).image().stored("mask", floats(&[8, 8], &[0.0; 64]));
    let inputs: &[&str] = if mask { &["x", "x", "x", "mask"] } else { &["x", "x", "x"] };
    draft.node("Attention", inputs, "y", attributes).output("y").load().network
}

#[test]
fn fused_attention_is_its_products() {
    for (attributes, mask) in
        [(vec![], false), (vec![with::int("is_causal", 1)], false), (vec![with::float("softcap", 5.0)], true)]
    {
        let network = attention(attributes, mask);
        assert!(network.coverage().is_full(), "{:?}", network.coverage());
        assert_eq!(network.output_shape(), &Shape::new([3, 8, 8]));
        // For each of 3 heads: 8 x 8 scores of 8 features, then 8 x 8 numbers of 8 values.
        assert_eq!((network.macs(), network.output_shape().dims()), (2 * 3 * 8 * 8 * 8, [3, 8, 8].as_slice()));
        rewritten(&network);
    }
}

#[test]
fn fused_attention_of_tokens_has_its_heads_taken_apart() {
    // 8 tokens of 24 features: 4 heads of queries, 2 of keys and values.
    let draft = Draft::opset(24).image().numbers("as", &[0, 8, 24]).node("Reshape", &["x", "as"], "t", vec![]);
    let draft = draft.weight("k", [24, 12]).node("MatMul", &["t", "k"], "keys", vec![]);
    let heads = vec![with::int("q_num_heads", 4), with::int("kv_num_heads", 2)];
    let network = draft.node("Attention", &["t", "keys", "keys"], "y", heads).output("y").load().network;
    assert!(network.coverage().is_full());
    assert_eq!(network.output_shape(), &Shape::new([8, 24]));
    assert_eq!(network.macs(), 8 * 24 * 12 + 2 * 4 * 8 * 8 * 6);
    rewritten(&network);
}

/// One node on an image of 3 x 8 x 8, followed by integers.
fn read_node(operator: &str, attributes: Vec<AttributeProto>, integers: &[&[i64]]) -> Network {
    let mut draft = Draft::opset(18).image();
    let names: Vec<String> = (0..integers.len()).map(|place| format!("n{place}")).collect();
    for (name, numbers) in names.iter().zip(integers) {
        draft = draft.numbers(name, numbers);
    }
    let inputs: Vec<&str> = std::iter::once("x").chain(names.iter().map(String::as_str)).collect();
    let network = draft.node(operator, &inputs, "y", attributes).output("y").load().network;
    assert!(network.coverage().is_full(), "{operator}: {:?}", network.coverage());
    rewritten(&network);
    network
}

/// Expected shapes follow the operators' specification, by hand.
#[test]
fn operators_that_look_elements_up_are_understood() {
    let axis = |axis| with::int("axis", axis);
    let square = || with::ints("kernel_shape", vec![2, 2]);
    type Case = (&'static str, Vec<AttributeProto>, &'static [&'static [i64]], &'static [usize]);
    let cases: [Case; 7] = [
        ("LRN", vec![with::int("size", 5)], &[], &[3, 8, 8]),
        ("LpPool", vec![square()], &[], &[3, 7, 7]),
        ("ArgMax", vec![axis(1), with::int("keepdims", 0)], &[], &[8, 8]),
        ("ArgMin", vec![axis(-1)], &[], &[3, 8, 1]),
        ("TopK", vec![axis(-1)], &[&[2]], &[3, 8, 2]),
        ("CumSum", vec![], &[&[2]], &[3, 8, 8]),
        ("GlobalMaxPool", vec![], &[], &[3, 1, 1]),
    ];
    for (operator, attributes, integers, shape) in cases {
        assert_eq!(read_node(operator, attributes, integers).output_shape().dims(), shape, "{operator}");
    }
}

#[test]
fn both_results_of_a_top_k_are_nodes() {
    let draft =
        Draft::opset(18).image().numbers("k", &[2]).node("TopK", &["x", "k"], "values", vec![]).also(&["places"]);
    let draft = draft.node("Cast", &["places"], "numbers", vec![with::int("to", 1)]);
    let network = draft.node("Add", &["values", "numbers"], "y", vec![]).output("y").load().network;
    let kinds: Vec<&str> = network.nodes().iter().map(|node| node.op.kind()).collect();
    assert_eq!(kinds, ["input", "top-k", "top-k", "add"]);
    rewritten(&network);
}

#[test]
fn volumes_have_windows_and_means() {
    let volume = || Draft::new().numbers("as", &[0, 3, 4, 4, 4]).node("Reshape", &["x", "as"], "v", vec![]);
    let pads = |pads: &[i64]| with::ints("pads", pads.to_vec());
    let cube = || with::ints("kernel_shape", vec![2, 2, 2]);
    // (4 + 1 - 2) / 1 + 1 = 4 deep, (4 - 2) / 1 + 1 = 3 high and wide.
    let padded = volume().node(
        "AveragePool",
        &["v"],
        "y",
        vec![cube(), pads(&[1, 0, 0, 0, 0, 0]), with::int("count_include_pad", 1)],
    );
    let padded = padded.output("y").load().network;
    assert_eq!(padded.output_shape().dims(), [3, 4, 3, 3]);
    let mean = volume().node("MaxPool", &["v"], "p", vec![cube()]).node("GlobalAveragePool", &["p"], "y", vec![]);
    let mean = mean.output("y").load().network;
    assert_eq!(mean.output_shape().dims(), [3, 1, 1, 1]);
    for network in [padded, mean] {
        assert!(network.coverage().is_full());
        rewritten(&network);
    }
}

#[test]
fn a_deformable_convolution_costs_the_product_it_is() {
    // Two offsets for each of 3 x 3 positions of the kernel, at every one of 6 x 6 results.
    let draft = Draft::opset(19).image().weight("o", [18, 3, 3, 3]).weight("w", [4, 3, 3, 3]);
    let draft = draft.node("Conv", &["x", "o"], "offsets", vec![]);
    let network = draft.node("DeformConv", &["x", "w", "offsets"], "y", vec![]).output("y").load().network;
    assert_eq!(network.output_shape(), &Shape::new([4, 6, 6]));
    assert_eq!((network.macs(), network.parameters()), (36 * 27 * (18 + 4), 27 * (18 + 4)));
    assert_eq!(network.coverage().unknown.keys().collect::<Vec<_>>(), ["DeformConv"]);
    rewritten(&network);
}

/// 3 images of 5 x 8 for each sample, on the batch's axis.
fn stack() -> Draft {
    let draft = Draft::new().numbers("as", &[-1, 1, 8, 8]).node("Reshape", &["x", "as"], "s", vec![]);
    draft.weight("w", [4, 1, 3, 3]).weight("b", [4])
}

#[test]
fn images_stacked_in_the_batch_are_slices_of_a_volume() {
    let pads = || with::ints("pads", vec![1, 1, 1, 1]);
    let draft = stack().node("Conv", &["s", "w", "b"], "c", vec![pads()]);
    let square = with::ints("kernel_shape", vec![2, 2]);
    let draft = draft.node("MaxPool", &["c"], "p", vec![square, with::ints("strides", vec![2, 2])]);
    let draft = draft.numbers("back", &[-1, 12, 4, 4]).node("Reshape", &["p", "back"], "y", vec![]).output("y");
    let network = draft.load().network;
    assert!(network.coverage().is_full(), "{:?}", network.coverage());
    // Each of 3 images with one channel is convolved with 4 filters of 3 x 3.
    assert_eq!((network.macs(), network.parameters()), (3 * 64 * 4 * 9, 4 * 9 + 4));
    assert_eq!(network.output_shape().dims(), [12, 4, 4]);
    rewritten(&network);
}

/// Words of a sentence: 4 sequences of 3 channels and 16 letters for each sample, on the batch's axis.
#[test]
fn sequences_stacked_in_the_batch_are_slices_of_a_volume() {
    let draft = Draft::new().numbers("as", &[-1, 3, 4]).node("Reshape", &["x", "as"], "s", vec![]);
    let draft = draft.weight("w", [5, 3, 3]).weight("b", [5]);
    let draft = draft.node("Conv", &["s", "w", "b"], "c", vec![with::ints("pads", vec![1, 1])]);
    let pair = vec![with::ints("kernel_shape", vec![2]), with::ints("strides", vec![2])];
    let draft = draft.node("MaxPool", &["c"], "p", pair).numbers("back", &[-1, 16, 10]);
    let network = draft.node("Reshape", &["p", "back"], "y", vec![]).output("y").load().network;
    assert!(network.coverage().is_full(), "{:?}", network.coverage());
    // An image of 3 x 8 x 8 is 16 sequences of 3 x 4: each position of each is 5 filters of 3 x 3.
    assert_eq!((network.macs(), network.parameters()), (16 * 4 * 5 * 9, 5 * 9 + 5));
    assert_eq!(network.output_shape().dims(), [16, 10]);
    rewritten(&network);
}

#[test]
fn operators_of_other_domains_keep_the_version_of_their_set() {
    let mut draft = Draft::new().node("Frobnicate", &["x"], "y", vec![]).output("y");
    draft.graph().output[0].r#type = Draft::typed("y", [Named("batch"), Is(3), Is(8), Is(8)], DataType::Float).r#type;
    draft.graph().node[0].domain = Some("com.acme".into());
    draft.0.opset_import.push(OperatorSetIdProto { domain: Some("com.acme".into()), version: Some(7) });
    let written = ModelProto::decode(to_bytes(&draft.load().network).as_slice()).unwrap();
    let versions: Vec<_> = written.opset_import.iter().map(|import| (import.domain(), import.version())).collect();
    assert_eq!(versions[1], ("com.acme", 7), "{versions:?}");
}

#[test]
fn a_pooling_takes_no_padding_as_large_as_its_kernel() {
    // timm's nasnet pads by one row and column, then pools 1 x 1 with a stride of 2.
    let draft = Draft::new().numbers("pads", &[0, 0, 0, 0, 0, 0, 1, 1]).node("Pad", &["x", "pads"], "p", vec![]);
    let attributes = vec![with::ints("kernel_shape", vec![1, 1]), with::ints("strides", vec![2, 2])];
    let network = draft.node("AveragePool", &["p"], "y", attributes).output("y").load().network;
    let kinds: Vec<&str> = network.nodes().iter().map(|node| node.op.kind()).collect();
    assert_eq!(kinds, ["input", "pad", "avg-pool"]);
    rewritten(&network);
}

#[test]
fn one_number_in_a_tensor_stretches_what_it_is_added_to_as_any_numbers_do() {
    let mean = vec![with::ints("axes", vec![2]), with::int("keepdims", 1)];
    let draft = Draft::new().node("ReduceMean", &["x"], "row", mean).stored("ones", floats(&[1, 1, 8, 1], &[1.0; 8]));
    let network = draft.node("Add", &["row", "ones"], "y", vec![]).output("y").load().network;
    assert_eq!(network.output_shape(), &Shape::new([3, 8, 8]));
    rewritten(&network);
}

#[test]
fn an_attention_that_was_taken_apart_stays_so_where_it_is_written() {
    let mut builder = NetworkBuilder::new("apart", Shape::new([3, 8, 4]));
    let input = builder.input();
    let mut add = |name: &str, op: Op, inputs: &[NodeId]| builder.add(name, op, inputs).unwrap();
    let query = add("query", Op::Binary(BinaryFunction::Mul), &[input]);
    let turned = add("turned", Op::Transpose { order: vec![0, 2, 1] }, &[input]);
    let key = add("key", Op::Binary(BinaryFunction::Mul), &[turned]);
    let scores = add("scores", Op::MatMul, &[query, key]);
    let weights = add("weights", Op::Softmax { axis: 2 }, &[scores]);
    let product = add("product", Op::MatMul, &[weights, input]);
    rewritten(&builder.finish(product));
}

/// VQ-VAE: the row of a table that is nearest to each pixel of each image. PyTorch 2.15's default exporter declares the lookup as [256*batch, 16]; two samples of 16 x 16 pixels give
/// [2, 16, 16, 16].
#[test]
fn rows_are_looked_up_by_places_of_all_pixels() {
    let draft = Draft::opset(18).input("x", [Named("batch"), Is(16), Is(16), Is(16)]).weight("w", [64, 16]);
    let draft = draft.node("Transpose", &["x"], "turned", vec![with::ints("perm", vec![0, 2, 3, 1])]);
    let draft = draft.numbers("flat", &[-1, 16]).node("Reshape", &["turned", "flat"], "pixels", vec![]);
    let draft = draft.weight("t", [16, 64]).node("MatMul", &["pixels", "t"], "near", vec![]);
    let keep = vec![with::int("axis", 1), with::int("keepdims", 0)];
    let draft = draft.node("ArgMin", &["near"], "place", keep).node("Gather", &["w", "place"], "row", vec![]);
    let draft = draft.numbers("as", &[-1, 16, 16, 16]).node("Reshape", &["row", "as"], "y", vec![]).output("y");
    let network = draft.load().network;
    assert_eq!(network.output_shape(), &Shape::new([16, 16, 16]));
    assert!(network.coverage().is_full());
    let tables: Vec<_> = network.nodes().iter().filter(|node| matches!(node.op, Op::Embedding(_))).collect();
    assert_eq!(tables.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["w"]);
    rewritten(&network);
}
