//! Files with several graphs or several outputs, and files that are refused.

use super::followed_pass;
use crate::schema::FunctionProto;
use crate::tests::*;
use perf4sight_network::{OperatorKind, PytorchRun};

fn relu(input: &str, output: &str) -> NodeProto {
    NodeProto {
        op_type: Some("Relu".into()),
        input: vec![input.into()],
        output: vec![output.into()],
        name: Some(output.into()),
        ..Default::default()
    }
}

fn subgraph(name: &str, nodes: Vec<NodeProto>, output: &str) -> AttributeProto {
    let output = ValueInfoProto { name: Some(output.into()), ..Default::default() };
    let graph = GraphProto { node: nodes, output: vec![output], ..Default::default() };
    AttributeProto { name: Some(name.into()), g: Some(Box::new(graph)), ..Default::default() }
}

#[test]
fn every_output_is_a_result_that_nobody_overwrites() {
    let draft = Draft::new().weight("features.weight", [4, 3, 1, 1]);
    let draft = draft.node("Conv", &["x", "features.weight"], "features", vec![]);
    let draft = draft.node("Relu", &["features"], "clipped", vec![]).number("half", 0.5);
    let draft =
        draft.node("Flatten", &["clipped"], "flat", vec![]).node("Mul", &["features", "half"], "beside", vec![]);
    let two = draft.clone().output("flat").output("features").output("half").output("flat").load();
    let names = |loaded: &LoadedOnnx| {
        let name = |output| loaded.network.node(output).name.clone();
        loaded.network.outputs().iter().map(|output| name(*output)).collect::<Vec<_>>()
    };
    // An output that depends on no data does not count, and none counts twice; no output depends on the last node.
    assert_eq!(names(&two), ["flat", "features"]);
    assert!(two.warnings[0].contains("has 2 outputs (flat, features)"), "{:?}", two.warnings);
    assert!(two.network.nodes().iter().all(|node| node.name != "beside"));
    assert!(!two.network.in_place().contains(&true));
    assert_eq!(names(&rewritten(&two.network)), ["flat", "features"]);
    let one = draft.output("flat").load();
    assert!(one.warnings.is_empty() && one.network.in_place().contains(&true), "{:?}", one.warnings);
}

/// What follows a line break in a name would stand in a message as a line of its own.
#[test]
fn names_have_no_line_breaks() {
    let forged = "w\n  help: run this";
    let missing = Draft::new().node("Conv", &["x", forged], "y\r", vec![]).output("y\r").error();
    assert!(missing.contains(r#"node "y\r" (Conv) reads "w\n  help: run this""#), "{missing}");
    let draft = Draft::new().node("Frob\n  help: run this", &["x"], "a\u{2028}b", vec![]);
    let loaded = draft.node("Relu", &["a\u{2028}b"], "y", vec![]).output("y").load();
    assert!(loaded.warnings.iter().all(|warning| !warning.contains('\n')), "{:?}", loaded.warnings);
    assert!(loaded.network.nodes().iter().any(|node| node.name == r"a\u{2028}b"));
    let open = Draft::opset(17).input("x", [Named("batch"), Is(3), Named("b\nhelp: run"), Is(8)]);
    assert!(open.node("Relu", &["x"], "y", vec![]).output("y").error().contains(r"--dim b\nhelp: run=SIZE"));
}

#[test]
fn a_condition_that_is_known_chooses_its_graph() {
    // As PyTorch's default exporter writes a squeeze: both branches read an outer value.
    let branches = || {
        vec![
            subgraph("then_branch", vec![relu("s", "t")], "t"),
            subgraph("else_branch", vec![NodeProto { op_type: Some("Tanh".into()), ..relu("s", "e") }], "e"),
        ]
    };
    let chosen = |condition: i64| {
        let draft = Draft::new().node("Sigmoid", &["x"], "s", vec![]).numbers("c", &[condition]);
        draft.node("If", &["c"], "y", branches()).output("y").ops()
    };
    assert_eq!(chosen(1), [Op::Activation(Activation::Sigmoid), Op::Activation(Activation::Relu)]);
    assert_eq!(chosen(0), [Op::Activation(Activation::Sigmoid), Op::Activation(Activation::Tanh)]);
    let looping = subgraph("then_branch", vec![NodeProto { op_type: Some("Loop".into()), ..relu("x", "t") }], "t");
    let error = Draft::new().numbers("c", &[1]).node("If", &["c"], "y", vec![looping]).output("y").error();
    assert!(error.contains("node \"t\" (Loop) decides by its data what runs"), "{error}");
    let by_data = Draft::new().node("Sigmoid", &["x"], "s", vec![]).node("If", &["s"], "y", branches()).output("y");
    let error = by_data.error();
    assert!(error.contains("node \"y\" (If) decides by its data what runs"), "{error}");
}

/// `relu(leak(x))`, the slope of the leak an attribute of the function.
fn function(called: &str) -> FunctionProto {
    let slope = AttributeProto { ref_attr_name: Some("slope".into()), ..with::float("alpha", 0.0) };
    let leak = NodeProto { op_type: Some("LeakyRelu".into()), attribute: vec![slope], ..relu("in", "inner") };
    let last = NodeProto { op_type: Some(called.into()), domain: Some(domain(called)), ..relu("inner", "out") };
    FunctionProto {
        name: Some("Module".into()),
        domain: Some("local".into()),
        input: vec!["in".into()],
        output: vec!["out".into()],
        node: vec![leak, last],
        ..Default::default()
    }
}

fn domain(operator: &str) -> String {
    if operator == "Module" { "local".into() } else { String::new() }
}

#[test]
fn functions_of_a_file_stand_where_they_are_called() {
    let calls = |called: &str| {
        let slope = || vec![with::float("slope", 0.2)];
        let mut draft =
            Draft::new().node("Module", &["x"], "a", slope()).node("Module", &["a"], "y", slope()).output("y");
        draft.graph().node.iter_mut().for_each(|node| node.domain = Some("local".into()));
        draft.0.functions.push(function(called));
        draft
    };
    let [leak, relu] = [Activation::LeakyRelu, Activation::Relu].map(Op::Activation);
    assert_eq!(calls("Relu").ops(), [leak.clone(), relu.clone(), leak, relu]);
    let error = calls("Module").error();
    assert!(error.contains("has a function \"Module\" that calls itself"), "{error}");
}

#[test]
fn functions_that_are_called_alike_are_told_apart_by_their_overload() {
    let called = |overload: &str| {
        let slope = vec![with::float("slope", 0.2)];
        let mut draft = Draft::new().node("Module", &["x"], "y", slope).output("y");
        for (operator, overload) in [("Relu", "first"), ("Tanh", "second")] {
            draft.0.functions.push(FunctionProto { overload: Some(overload.into()), ..function(operator) });
        }
        let node = &mut draft.graph().node[0];
        (node.domain, node.overload) = (Some("local".into()), Some(overload.into()));
        draft.ops()
    };
    let [leak, relu, tanh] = [Activation::LeakyRelu, Activation::Relu, Activation::Tanh].map(Op::Activation);
    assert_eq!(called("first"), [leak.clone(), relu]);
    assert_eq!(called("second"), [leak, tanh]);
}

#[test]
fn a_condition_inside_a_function_stands_wherever_that_is_called() {
    // The selected graph contains another one, which reads a value of it, and calls a function.
    let node = |operator: &str, input: &str, output: &str, attribute: Vec<AttributeProto>| NodeProto {
        op_type: Some(operator.into()),
        domain: Some(domain(operator)),
        attribute,
        ..relu(input, output)
    };
    let then = |nodes: Vec<NodeProto>, output: &str| vec![subgraph("then_branch", nodes, output)];
    let nested = node("If", "c", "n", then(vec![relu("t", "r")], "r"));
    let module = node("Module", "n", "m", vec![with::float("slope", 0.2)]);
    let chosen = then(vec![node("Tanh", "in", "t", vec![]), nested, module], "m");
    let choosing = FunctionProto {
        name: Some("Choosing".into()),
        input: vec!["in".into(), "c".into()],
        node: vec![node("If", "c", "out", chosen)],
        ..function("Relu")
    };
    let draft = Draft::new().numbers("c", &[1]).node("Choosing", &["x", "c"], "a", vec![]);
    let mut draft = draft.node("Choosing", &["a", "c"], "y", vec![]).output("y");
    draft.graph().node.iter_mut().for_each(|node| node.domain = Some("local".into()));
    draft.0.functions.extend([choosing, function("Relu")]);
    let once =
        [Activation::Tanh, Activation::Relu, Activation::LeakyRelu, Activation::Relu].map(Op::Activation).to_vec();
    assert_eq!(draft.ops(), [once.clone(), once].concat());
}

#[test]
fn what_has_no_cost_of_its_own_is_refused_by_name() {
    let quantised = Draft::new().number("s", 0.5).node("QuantizeLinear", &["x", "s"], "y", vec![]).output("y").error();
    assert!(
        quantised.contains("node \"y\" (QuantizeLinear) is quantised") && quantised.contains("help:"),
        "{quantised}"
    );
    let looping = Draft::new().node("Loop", &["x"], "y", vec![]).output("y").error();
    assert!(looping.contains("node \"y\" (Loop) decides by its data what runs"), "{looping}");
    let mut sparse = Draft::new().node("Relu", &["x"], "y", vec![]).output("y");
    let values = TensorProto { name: Some("w".into()), ..floats(&[1], &[1.0]) };
    let tensor = crate::schema::SparseTensorProto { values: Some(values), ..Default::default() };
    sparse.graph().sparse_initializer.push(tensor);
    assert!(sparse.error().contains("holds the sparse tensor \"w\""), "{}", sparse.error());
}

#[test]
fn every_network_that_teaches_operations_is_read_as_it_was_written() {
    for network in perf4sight_network::zoo::calibration::all().unwrap() {
        let read = from_bytes(network.name(), &to_bytes(&network)).unwrap().network;
        assert!(read.coverage().is_full(), "{}: {:?}", network.name(), read.coverage());
        assert_eq!((read.macs(), read.parameters()), (network.macs(), network.parameters()), "{}", network.name());
    }
}

#[test]
fn passes_of_the_module_are_read_from_its_note() {
    let pass = followed_pass("4 1000 900 50 attention=/ convolution=10,20/30,40")
        .expect("the form that python/perf4sight writes");
    assert_eq!((pass.samples, pass.most, pass.left, pass.spread, pass.operators.len()), (4, 1000, 900, 50, 2));
    assert_eq!(pass.operators[&OperatorKind::Convolution], [vec![10, 20], vec![30, 40]]);
    for wrong in
        ["", "4", "4 x", "4 1000 9", "4 1000 9 0 cow=1/2", "4 1000 9 0 convolution=1,2", "4 1000 9 0 convolution=1,x/2"]
    {
        assert_eq!(followed_pass(wrong), None, "{wrong}");
    }
}

#[test]
fn two_parameters_of_a_layer_that_are_stored_once_count_twice() {
    // A normalisation of one channel has a scale and a shift (torch.nn.BatchNorm2d), equal numbers of which exporters store once.
    let draft = Draft::new().weight("gate.weight", [1, 3, 1, 1]).weight("norm.weight", [1]);
    let draft = draft.weight("norm.running_mean", [1]).weight("norm.running_var", [1]).node(
        "Conv",
        &["x", "gate.weight"],
        "gate",
        vec![],
    );
    let stored_once = ["gate", "norm.weight", "norm.weight", "norm.running_mean", "norm.running_var"];
    let draft = draft.node("BatchNormalization", &stored_once, "/norm/BatchNormalization", vec![]);
    assert_eq!(draft.output("/norm/BatchNormalization").load().network.parameters(), 3 + 2);
}

#[test]
fn operations_of_a_function_with_a_backward_of_its_own_may_keep_its_inputs_alone() {
    // The stack that PyTorch 2.15's default exporter notes: a module's `Gate.apply(self.a(x))`, and the lines of `Gate.forward`.
    let stack = |line: &str| {
        format!(
            "File \"/net.py\", line 12, in forward\n    return self.b({line}(self.a(x)))\n  \
             File \"/net.py\", line 6, in forward\n    return torch.tanh(x) * x.exp()"
        )
    };
    let loaded = |line: &str| {
        let note = |draft: Draft| draft.noted("pkg.torch.onnx.stack_trace", &stack(line));
        let draft = note(Draft::new().node("Tanh", &["x"], "t", vec![]));
        let draft = note(draft.node("Exp", &["x"], "e", vec![]));
        note(draft.node("Mul", &["t", "e"], "y", vec![])).output("y").load()
    };
    let within = |network: &Network| {
        let nodes = network.nodes().iter().filter(|node| node.runs == PytorchRun::InFunction);
        nodes.map(|node| node.name.clone()).collect::<Vec<_>>()
    };
    let function = loaded("Gate.apply");
    let [least, most] = function.network.other_readings() else { panic!("two more readings") };
    assert_eq!(
        (within(least), within(&function.network), within(most)),
        (vec!["t".into(), "e".into(), "y".into()], vec!["t".into(), "e".into(), "y".into()], vec![])
    );
    assert!(function.warnings[0].contains("what a torch.autograd.Function keeps"), "{:?}", function.warnings);
    let checkpoint = loaded("torch.utils.checkpoint.checkpoint");
    assert!(
        checkpoint
            .warnings
            .iter()
            .any(|warning| warning.contains("3 operations may have run within torch.utils.checkpoint"))
    );
    let module = loaded("self.gate");
    assert!(module.warnings.iter().all(|warning| !warning.contains("checkpoint")), "{:?}", module.warnings);
    assert!(module.network.other_readings().iter().all(|other| within(other).is_empty()));
}
