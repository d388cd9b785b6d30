//! Bad input: files that are refused, and the errors.

use crate::schema::FunctionProto;
use crate::tests::*;

#[test]
fn an_operator_set_of_tomorrow_is_read_with_a_warning() {
    let of = |opset| Draft::opset(opset).image().node("Relu", &["x"], "y", vec![]).output("y").load().warnings;
    assert!(of(28)[0].starts_with("uses opset 28, newer than 27"), "{:?}", of(28));
    // 25 to 27 add operators, and number widths of earlier operators.
    assert_eq!(of(27), Vec::<String>::new());
}

#[test]
fn weights_in_sixteen_bits_are_parameters_like_others() {
    for kind in [DataType::Float16, DataType::Bfloat16, DataType::Double] {
        let stored =
            |dims: &[i64]| TensorProto { dims: dims.to_vec(), data_type: Some(kind as i32), ..Default::default() };
        let draft = Draft::new().stored("c.weight", stored(&[4, 3, 1, 1])).stored("c.bias", stored(&[4]));
        let mut draft = draft.node("Conv", &["x", "c.weight", "c.bias"], "y", vec![]).output("y");
        draft.graph().input[0] = Draft::typed("x", [Named("batch"), Is(3), Is(8), Is(8)], kind);
        let LoadedOnnx { network, warnings } = draft.load();
        assert_eq!((network.parameters(), network.coverage().is_full()), (16, true), "{kind:?}");
        let name = kind.as_str_name().to_lowercase();
        let expected = format!("holds its numbers in {name}: they are counted, measured and predicted as float32");
        assert!(warnings.iter().any(|warning| warning.starts_with(&expected)), "{warnings:?}");
    }
}

#[test]
fn declared_shapes_that_contradict_the_operators_are_named() {
    let mut draft = Draft::new().node("Relu", &["x"], "r", vec![]).node("Sigmoid", &["r"], "y", vec![]).output("y");
    let declared =
        |dims: [i64; 3]| Draft::typed("r", std::iter::once(Named("batch")).chain(dims.map(Is)), DataType::Float);
    draft.graph().value_info.push(declared([3, 8, 9]));
    let warnings = draft.load().warnings;
    let expected = "declares [?, 3, 8, 9] for \"r\", which node \"r\" (Relu) makes [batch, 3, 8, 8]";
    assert!(warnings.iter().any(|warning| warning.contains(expected)), "{warnings:?}");
    draft.graph().value_info[0] = declared([3, 8, 8]);
    assert_eq!(draft.load().warnings, Vec::<String>::new());
}

#[test]
fn fifty_thousand_nodes_are_read_and_none_overflows_the_stack() {
    let mut draft = Draft::new();
    for index in 0..50_000 {
        let input = if index == 0 { "x".to_string() } else { format!("n{}", index - 1) };
        draft = draft.node("Relu", &[&input], &format!("n{index}"), vec![]);
    }
    let network = draft.output("n49999").load().network;
    assert_eq!(network.nodes().len(), 50_001);
}

#[test]
fn ten_gigabytes_of_weights_elsewhere_are_never_looked_for() {
    let entry = |key: &str, value: &str| StringStringEntryProto { key: Some(key.into()), value: Some(value.into()) };
    let tensor = TensorProto {
        dims: vec![50_000, 50_000],
        data_type: Some(DataType::Float as i32),
        external_data: vec![entry("location", "nowhere.data"), entry("length", "10000000000")],
        ..Default::default()
    };
    let draft = Draft::opset(17).input("x", [Named("batch"), Is(1), Is(1), Is(50_000)]);
    let draft = draft.stored("w", tensor).node("MatMul", &["x", "w"], "y", vec![]).output("y");
    assert_eq!(draft.load().network.parameters(), 2_500_000_000);
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("large.onnx");
    std::fs::write(&path, draft.bytes()).unwrap();
    let error = read_with_magnitudes(&path, &NamedDims::new(), None).unwrap_err().to_string();
    assert!(error.contains("nowhere.data") && error.contains("export_params=True"), "{error}");
}

#[test]
fn functions_that_call_each_other_end() {
    let error = calling("Ping", vec![function("Ping", &["Pong"]), function("Pong", &["Ping"])]);
    assert!(error.contains("that calls itself"), "{error}");
}

/// A function of one operand that calls these one after the other, each on the result of the one before.
fn function(name: &str, calls: &[&str]) -> FunctionProto {
    let value = |place: usize| if place == calls.len() { "out".to_string() } else { format!("v{place}") };
    let node = |(place, of): (usize, &&str)| NodeProto {
        op_type: Some(of.to_string()),
        domain: Some("local".into()),
        input: vec![value(place)],
        output: vec![value(place + 1)],
        ..Default::default()
    };
    FunctionProto {
        name: Some(name.into()),
        domain: Some("local".into()),
        input: vec!["v0".into()],
        output: vec!["out".into()],
        node: calls.iter().enumerate().map(node).collect(),
        ..Default::default()
    }
}

/// The error of a file that calls one of these functions.
fn calling(first: &str, functions: Vec<FunctionProto>) -> String {
    let mut draft = Draft::new().node(first, &["x"], "y", vec![]).output("y");
    draft.graph().node[0].domain = Some("local".into());
    draft.0.functions = functions;
    draft.error()
}

#[test]
fn functions_that_are_only_many_call_nobody_wrongly_themselves() {
    let name = |number: usize| format!("F{number}");
    let chain = (1..100).map(|number| function(&name(number), &[&name(number - 1)])).collect();
    let error = calling("F99", chain);
    assert!(error.contains("nests its functions more than 64 deep") && !error.contains("not an ONNX file"), "{error}");
    // Each calls the one before twice, together 2^40 times; the limit is not their depth.
    let double = (1..40).map(|number| function(&name(number), &[&name(number - 1), &name(number - 1)])).collect();
    let error = calling("F39", double);
    assert!(error.contains("functions that make more than 1048576 nodes"), "{error}");
    // Nor the number of nodes they contain, which is zero.
    let double = (1..41).map(|number| function(&name(number), &[&name(number - 1), &name(number - 1)]));
    let error = calling("F40", double.chain([function("F0", &[])]).collect());
    assert!(error.contains("functions that make more than 1048576 nodes or calls"), "{error}");
}

#[test]
fn what_is_refused_is_called_what_it_is() {
    let stored = TensorProto { name: Some("w".into()), ..floats(&[1], &[1.0]) };
    let mut sparse = Draft::new().node("MatMul", &["x", "w"], "y", vec![]).output("y");
    let tensor = crate::schema::SparseTensorProto { values: Some(stored), ..Default::default() };
    sparse.graph().sparse_initializer.push(tensor);
    assert!(sparse.error().contains("holds the sparse tensor \"w\""), "{}", sparse.error());
    let mut input = Draft::new().node("Relu", &["x"], "y", vec![]).output("y");
    let kind = type_proto::Value::SparseTensorType(type_proto::SparseTensor::default());
    input.graph().input[0].r#type = Some(TypeProto { value: Some(kind), ..Default::default() });
    assert!(input.error().contains("holds the sparse tensor \"x\""), "{}", input.error());
    let bytes = |node: &str, kind: DataType| {
        let mut draft = Draft::new().node(node, &["x"], "y", vec![]).output("y");
        draft.graph().input[0] = Draft::typed("x", [Named("batch"), Is(3), Is(8), Is(8)], kind);
        draft.error()
    };
    // Images in bytes are not a quantised network.
    let error = bytes("Cast", DataType::Uint8);
    assert!(error.contains("input \"x\" of shape [batch, 3, 8, 8] holds uint8, which is not supported"), "{error}");
    assert!(!error.contains("quantised"), "{error}");
    let error = bytes("QLinearConv", DataType::Uint8);
    assert!(error.contains("node \"y\" (QLinearConv) is quantised"), "{error}");
    let error = Draft::new().output("x").error();
    assert!(error.contains("holds no operation"), "{error}");
}

/// Files of older exporters list stored tensors among their inputs: a stored mask in bytes is not data.
#[test]
fn bytes_that_a_file_stores_are_no_data_though_it_lists_them_as_an_input() {
    let mask = TensorProto { data_type: Some(DataType::Uint8 as i32), int32_data: vec![1, 0], ..floats(&[2], &[]) };
    let mut draft = Draft::new().stored("mask", mask).node("Relu", &["x"], "y", vec![]).output("y");
    draft.graph().input.push(Draft::typed("mask", [Is(2)], DataType::Uint8));
    assert_eq!(draft.load().network.nodes().len(), 2);
}

#[test]
fn dimensions_that_a_file_leaves_open_are_said_by_name() {
    let draft = Draft::opset(17).input("x", [Named("batch"), Named("tokens"), Is(8)]).weight("w", [8, 4]);
    let draft = draft.node("MatMul", &["x", "w"], "y", vec![]).output("y");
    let error = draft.error();
    assert!(
        error.contains("of shape [batch, tokens, 8] has no fixed size: set its size with --dim tokens=SIZE"),
        "{error}"
    );
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("tokens.onnx");
    std::fs::write(&path, draft.bytes()).unwrap();
    let sized = |name: &str| read_sized(&path, &NamedDims::from([(name.to_string(), 197)]));
    let network = sized("tokens").unwrap().network;
    assert_eq!((network.output_shape(), network.macs()), (&Shape::new([197, 4]), 197 * 8 * 4));
    rewritten(&network);
    let error = sized("words").unwrap_err().to_string();
    assert!(error.contains("leaves no dimension \"words\" open; those that it leaves open: batch, tokens"), "{error}");
    let error = sized("batch").unwrap_err().to_string();
    assert!(error.contains("has its batch in dimension \"batch\", which stays open"), "{error}");
}

/// As the mask of a contrastive loss, which compares every sample with all others.
#[test]
fn a_table_as_long_as_the_batch_along_two_axes_is_refused() {
    let part = vec![with::int("start", 0), with::int("end", 1)];
    let draft = Draft::opset(17).input("x", [Named("batch"), Is(1)]).node("Shape", &["x"], "n", part);
    let draft = draft.node("Concat", &["n", "n"], "square", vec![with::int("axis", 0)]);
    let error = draft.node("ConstantOfShape", &["square"], "mask", vec![]).node("Mul", &["x", "mask"], "y", vec![]);
    let error = error.output("y").error();
    let expected = "node \"y\" (Mul) makes [batch] of every sample, so that one sample has no cost of its own";
    assert!(error.contains(expected), "{error}");
}
