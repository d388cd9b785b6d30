//! Bad input: what a file must not do, and what is said of it.

use super::*;
use crate::network::onnx::schema::FunctionProto;

#[test]
fn an_operator_set_of_tomorrow_is_read_with_a_warning() {
    let loaded = Draft::opset(25).image().node("Relu", &["x"], "y", vec![]).output("y").load();
    assert!(loaded.warnings[0].starts_with("uses opset 25, newer than 24"), "{:?}", loaded.warnings);
}

#[test]
fn weights_in_sixteen_bits_are_parameters_like_others() {
    for kind in [DataType::Float16, DataType::Bfloat16, DataType::Double] {
        let stored =
            |dims: &[i64]| TensorProto { dims: dims.to_vec(), data_type: Some(kind as i32), ..Default::default() };
        let draft = Draft::new().stored("c.weight", stored(&[4, 3, 1, 1])).stored("c.bias", stored(&[4]));
        let network = draft.node("Conv", &["x", "c.weight", "c.bias"], "y", vec![]).output("y").load().network;
        assert_eq!((network.parameters(), network.coverage().is_full()), (16, true), "{kind:?}");
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
    let error = read_with_magnitudes(&path, &Dims::new()).unwrap_err().to_string();
    assert!(error.contains("nowhere.data") && error.contains("export_params=True"), "{error}");
}

#[test]
fn functions_that_call_each_other_end() {
    let call = |name: &str, of: &str| FunctionProto {
        name: Some(name.into()),
        domain: Some("local".into()),
        input: vec!["a".into()],
        output: vec!["b".into()],
        node: vec![NodeProto {
            op_type: Some(of.into()),
            domain: Some("local".into()),
            input: vec!["a".into()],
            output: vec!["b".into()],
            ..Default::default()
        }],
        ..Default::default()
    };
    let mut draft = Draft::new().node("Ping", &["x"], "y", vec![]).output("y");
    draft.graph().node[0].domain = Some("local".into());
    draft.0.functions = vec![call("Ping", "Pong"), call("Pong", "Ping")];
    let error = draft.error();
    assert!(error.contains("that calls itself"), "{error}");
}

#[test]
fn dimensions_that_a_file_leaves_open_are_said_by_name() {
    let draft = Draft::opset(17).input("x", [Named("batch"), Named("tokens"), Is(8)]).weight("w", [8, 4]);
    let draft = draft.node("MatMul", &["x", "w"], "y", vec![]).output("y");
    let error = draft.error();
    assert!(
        error.contains("of shape [batch, tokens, 8] has no fixed size: say how large it is by --dim tokens=SIZE"),
        "{error}"
    );
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("tokens.onnx");
    std::fs::write(&path, draft.bytes()).unwrap();
    let sized = |name: &str| read_sized(&path, &Dims::from([(name.to_string(), 197)]));
    let network = sized("tokens").unwrap().network;
    assert_eq!((network.output_shape(), network.macs()), (&Shape::new([197, 4]), 197 * 8 * 4));
    rewritten(&network);
    let error = sized("words").unwrap_err().to_string();
    assert!(error.contains("leaves no dimension \"words\" open; those that it leaves open: batch, tokens"), "{error}");
}
