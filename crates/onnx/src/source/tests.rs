//! Several inputs: ids of words, masks, and the tables that ids are looked up in.

use crate::tests::*;
use perf4sight_network::{ElementKind, Embedding, NetworkInput};

impl Draft {
    pub(crate) fn ids(mut self, name: &str, dims: impl IntoIterator<Item = Dim>) -> Draft {
        self.graph().input.push(Draft::typed(name, dims, DataType::Int64));
        self
    }

    /// Sixteen words of a vocabulary of 100, as rows of 8.
    pub(crate) fn words() -> Draft {
        let draft = Draft::opset(17).ids("ids", [Named("batch"), Is(16)]).weight("words.weight", [100, 8]);
        draft.node("Gather", &["words.weight", "ids"], "looked", vec![])
    }
}

fn table(rows: usize, width: usize, fixed: Option<Shape>) -> Op {
    Op::Embedding(Embedding { rows, width, fixed })
}

#[test]
fn words_are_looked_up_in_tables() {
    let network = Draft::words().output("looked").load().network;
    assert_eq!(network.nodes()[0].op, Op::Input(NetworkInput::integers(Shape::new([16]))));
    assert_eq!(network.nodes()[1].op, table(100, 8, None));
    assert_eq!((network.nodes()[0].name.as_str(), network.nodes()[1].name.as_str()), ("input", "words"));
    assert_eq!((network.output_shape(), network.parameters(), network.macs()), (&Shape::new([16, 8]), 800, 0));
    // An inference step on two samples reads their ids, eight bytes each, and as many rows as it writes.
    let workload = perf4sight_step::workload::Workload::published(perf4sight_step::workload::Stage::Inference, 2);
    let [ids, looked_up] = [&network.nodes()[0], &network.nodes()[1]];
    assert_eq!(network.bytes_out(ids, workload), 2 * 16 * 8);
    assert_eq!(network.bytes_in(looked_up, workload), 2 * 16 * 8 + 2 * 16 * 8 * 4);
    rewritten(&network);
}

#[test]
fn one_word_a_sample_is_an_input() {
    let draft = Draft::opset(17).ids("user", [Named("batch")]).weight("users.weight", [50, 16]);
    let network = draft.node("Gather", &["users.weight", "user"], "y", vec![]).output("y").load().network;
    assert_eq!(network.nodes()[0].op, Op::Input(NetworkInput::integers(Shape::new([]))));
    assert_eq!((network.output_shape(), network.parameters()), (&Shape::new([16]), 800));
    rewritten(&network);
}

#[test]
fn places_are_looked_up_once_for_all_samples() {
    let places: Vec<i64> = (0..16).collect();
    let draft = Draft::words().weight("places.weight", [64, 8]).numbers("at", &places);
    let draft = draft.node("Gather", &["places.weight", "at"], "p", vec![]);
    let network = draft.node("Add", &["looked", "p"], "y", vec![]).output("y").load().network;
    assert_eq!(named(&network, "places").op, table(64, 8, Some(Shape::new([16]))));
    assert_eq!(network.parameters(), 800 + 512, "all places count, looked up or not");
    rewritten(&network);
    let error = Draft::words().weight("p.weight", [8, 8]).numbers("at", &[8]);
    let error = error.node("Gather", &["p.weight", "at"], "p", vec![]).node("Add", &["looked", "p"], "y", vec![]);
    assert!(error.output("y").error().contains("looks up row 8 of a table of 8"));
}

#[test]
fn a_head_that_is_the_table_of_words_counts_once() {
    let turned = vec![with::ints("perm", vec![1, 0])];
    let draft = Draft::words().node("Transpose", &["words.weight"], "turned", turned);
    let network = draft.node("MatMul", &["looked", "turned"], "y", vec![]).output("y").load().network;
    let head = &network.nodes()[2];
    assert_eq!((head.op.kind(), head.shares.map(|owner| network.node(owner).name.as_str())), ("linear", Some("words")));
    assert_eq!((network.parameters(), network.macs()), (800, 16 * 8 * 100));
    assert_eq!(
        network.labels(network.output()),
        (100, Shape::new([16])),
        "one of 100 words may come next, at each of 16 places"
    );
    rewritten(&network);
}

#[test]
fn several_inputs_keep_their_names() {
    let draft = Draft::words().image().node("Flatten", &["x"], "flat", vec![]);
    let draft = draft.node("Flatten", &["looked"], "rows", vec![]);
    let draft = draft.node("Concat", &["flat", "rows"], "y", vec![with::int("axis", 1)]);
    let network = draft.output("y").load().network;
    let inputs = network.inputs().map(|(_, node, input)| (node.name.as_str(), input.element));
    assert_eq!(inputs.collect::<Vec<_>>(), [("ids", ElementKind::Integer), ("x", ElementKind::Number)]);
    assert_eq!((network.read().as_str(), network.output_shape()), ("16 integers, 3x8x8", &Shape::new([3 * 64 + 128])));
    rewritten(&network);
}

#[test]
fn masks_become_numbers_where_the_file_says_so() {
    let mut draft = Draft::words();
    draft.graph().input.push(Draft::typed("mask", [Named("batch"), Is(16), Is(1)], DataType::Bool));
    let draft = draft.node("Cast", &["mask"], "kept", vec![with::int("to", DataType::Float as i64)]);
    let network = draft.node("Mul", &["looked", "kept"], "y", vec![]).output("y").load().network;
    assert_eq!(named(&network, "kept").op, Op::Cast(ElementKind::Number));
    assert_eq!(named(&network, "kept").element, ElementKind::Number);
    rewritten(&network);
}

#[test]
fn what_is_no_number_does_not_equal_itself() {
    // Fully masked rows of attention, as the older exporter writes them with dropout of the weights.
    let draft = Draft::words().node("Softmax", &["looked"], "weights", vec![with::int("axis", -1)]);
    let draft = draft.node("IsNaN", &["weights"], "nowhere", vec![]).stored("zero", floats(&[], &[0.0]));
    let network = draft.node("Where", &["nowhere", "zero", "weights"], "y", vec![]).output("y").load().network;
    let kinds: Vec<&str> = network.nodes().iter().map(|node| node.op.kind()).collect();
    assert_eq!(kinds, ["input", "embedding", "softmax", "equal", "not", "parameter", "where"]);
    rewritten(&network);
}

#[test]
fn inputs_that_read_ids_are_found_without_a_symbol() {
    let draft = Draft::opset(17).ids("ids", [Is(2), Is(16)]).ids("at", [Is(16)]).ids("m.places", [Is(1), Is(9)]);
    let draft = draft.weight("words.weight", [100, 8]).weight("places.weight", [64, 8]);
    let draft = draft.node("Gather", &["words.weight", "ids"], "w", vec![]);
    let draft = draft.node("Gather", &["places.weight", "at"], "p", vec![]);
    let network = draft.node("Add", &["w", "p"], "y", vec![]).output("y").load().network;
    assert_eq!((network.read().as_str(), network.parameters()), ("16 integers", 800 + 512));
}

/// `y = adjacency / adjacency.mean(-1, keepdim=True) @ linear(x)` of the older exporter, whose inputs were given no names.
#[test]
fn inputs_without_names_are_no_parameters() {
    let draft = Draft::opset(17).input("onnx::MatMul_0", [Is(4), Is(5), Is(8)]);
    let draft = draft.input("onnx::ReduceSum_1", [Is(4), Is(5), Is(5)]).weight("l.weight", [8, 8]);
    let draft = draft.node("MatMul", &["onnx::MatMul_0", "l.weight"], "/l/MatMul", vec![]);
    let mean = vec![with::ints("axes", vec![-1]), with::int("keepdims", 1)];
    let draft = draft.node("ReduceMean", &["onnx::ReduceSum_1"], "/ReduceMean", mean);
    let draft = draft.node("Div", &["onnx::ReduceSum_1", "/ReduceMean"], "/Div", vec![]);
    let network = draft.node("MatMul", &["/Div", "/l/MatMul"], "y", vec![]).output("y").load().network;
    assert_eq!((network.inputs().count(), network.parameters()), (2, 64));
}

#[test]
fn batches_that_differ_are_told() {
    let fixed =
        Draft::opset(17).input("a", [Is(2), Is(4)]).input("b", [Is(3), Is(4)]).stored("w", floats(&[4, 4], &[]));
    let fixed =
        fixed.node("MatMul", &["a", "w"], "c", vec![]).node("Concat", &["c", "b"], "y", vec![with::int("axis", 1)]);
    let error = fixed.output("y").error();
    assert!(error.contains("has inputs with different batches: \"a\" has 2 samples, \"b\" has 3 samples"), "{error}");
}

#[test]
fn a_batch_that_is_called_so_need_not_come_first() {
    // By default, PyTorch's own recurrent layers and attention have the batch on the second axis.
    let draft = Draft::opset(17).input("x", [Is(16), Named("batch"), Is(8)]).weight("w", [8, 4]);
    let network = draft.node("MatMul", &["x", "w"], "y", vec![]).output("y").load().network;
    assert_eq!((network.input_shape(), network.output_shape()), (&Shape::new([16, 8]), &Shape::new([16, 4])));
}

#[test]
fn all_that_is_open_is_asked_for_at_once() {
    let draft = Draft::words().input("image", [Named("batch"), Is(3), Named("height"), Named("width")]);
    let draft = draft.ids("mask", [Named("batch"), Named("words")]);
    let error = draft.node("Relu", &["image"], "y", vec![]).output("y").error();
    let expected = "input \"image\" of shape [batch, 3, height, width] has no fixed size: set its size with \
                    --dim height=SIZE --dim width=SIZE --dim words=SIZE";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_word_of_each_sample_is_picked_by_a_place_that_the_network_finds() {
    // As CLIP selects its last word: the words of all samples follow each other, and one is picked for each sample.
    let last = vec![with::int("axis", -1), with::int("keepdims", 0)];
    let draft = Draft::words().node("ArgMax", &["ids"], "at", last);
    let draft = draft.node("Flatten", &["looked"], "row", vec![with::int("axis", 2)]);
    let network = draft.node("Gather", &["row", "at"], "y", vec![]).output("y").load().network;
    assert_eq!((network.output_shape(), network.coverage().is_full()), (&Shape::new([8]), true));
    rewritten(&network);
}
