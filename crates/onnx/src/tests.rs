//! Small files written message by message: each has one form or one fault.

pub(crate) use super::attributes as with;
pub(crate) use super::attributes::text;
pub(crate) use super::schema::tensor_shape_proto::{Dimension, dimension};
pub(crate) use super::schema::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorProto,
    TensorShapeProto, TypeProto, ValueInfoProto, tensor_proto, tensor_proto::DataType, type_proto,
};
pub(crate) use super::*;
pub(crate) use perf4sight_network::{
    Activation, Affine, BinaryFunction, Conv, ElementKind, Linear, NetworkBuilder, NodeId, Op, PaddingFill, PytorchRun,
    Shape, Window,
};
pub(crate) use prost::Message;
use std::os::unix::fs::symlink;

/// An unfinished file. A node and its output have the same name.
#[derive(Clone)]
pub(crate) struct Draft(pub(crate) ModelProto);

/// A dimension of an input: a number or a symbol.
pub(crate) enum Dim {
    Is(i64),
    Named(&'static str),
}

pub(crate) use Dim::{Is, Named};

impl Draft {
    pub(crate) fn opset(version: i64) -> Draft {
        let import = OperatorSetIdProto { domain: Some(String::new()), version: Some(version) };
        Draft(ModelProto {
            ir_version: Some(8),
            opset_import: vec![import],
            graph: Some(GraphProto::default()),
            ..Default::default()
        })
    }

    /// An image of 3x8x8 with a symbolic batch, called `x`.
    pub(crate) fn new() -> Draft {
        Draft::opset(17).image()
    }

    pub(crate) fn image(self) -> Draft {
        self.input("x", [Named("batch"), Is(3), Is(8), Is(8)])
    }

    pub(crate) fn graph(&mut self) -> &mut GraphProto {
        self.0.graph.as_mut().unwrap()
    }

    pub(crate) fn typed(name: &str, dims: impl IntoIterator<Item = Dim>, kind: DataType) -> ValueInfoProto {
        let value = |dim| match dim {
            Is(number) => dimension::Value::DimValue(number),
            Named(symbol) => dimension::Value::DimParam(symbol.into()),
        };
        let dim = dims.into_iter().map(|dim| Dimension { value: Some(value(dim)), ..Default::default() }).collect();
        let tensor = type_proto::Tensor { elem_type: Some(kind as i32), shape: Some(TensorShapeProto { dim }) };
        let r#type = TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..Default::default() };
        ValueInfoProto { name: Some(name.into()), r#type: Some(r#type) }
    }

    pub(crate) fn input(mut self, name: &str, dims: impl IntoIterator<Item = Dim>) -> Draft {
        self.graph().input.push(Self::typed(name, dims, DataType::Float));
        self
    }

    pub(crate) fn weight<const N: usize>(self, name: &str, dims: [i64; N]) -> Draft {
        self.input(name, dims.map(Is))
    }

    pub(crate) fn stored(mut self, name: &str, tensor: TensorProto) -> Draft {
        self.graph().initializer.push(TensorProto { name: Some(name.into()), ..tensor });
        self
    }

    pub(crate) fn node(mut self, operator: &str, inputs: &[&str], name: &str, attribute: Vec<AttributeProto>) -> Draft {
        self.graph().node.push(NodeProto {
            op_type: Some(operator.into()),
            input: inputs.iter().map(ToString::to_string).collect(),
            output: vec![name.into()],
            name: Some(name.into()),
            attribute,
            ..Default::default()
        });
        self
    }

    /// Adds further outputs to the node added last.
    pub(crate) fn also(mut self, outputs: &[&str]) -> Draft {
        self.graph().node.last_mut().unwrap().output.extend(outputs.iter().map(ToString::to_string));
        self
    }

    pub(crate) fn number(self, name: &str, value: f32) -> Draft {
        self.node("Constant", &[], name, vec![with::tensor("value", with::scalar(value))])
    }

    pub(crate) fn numbers(self, name: &str, values: &[i64]) -> Draft {
        self.node("Constant", &[], name, vec![with::tensor("value", with::vector(values.to_vec()))])
    }

    pub(crate) fn output(mut self, name: &str) -> Draft {
        let output = ValueInfoProto { name: Some(name.into()), ..Default::default() };
        self.graph().output.push(output);
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.encode_to_vec()
    }

    pub(crate) fn load(&self) -> LoadedOnnx {
        from_bytes("draft.onnx", &self.bytes()).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn error(&self) -> String {
        from_bytes("draft.onnx", &self.bytes()).unwrap_err().to_string()
    }

    /// The operations after the input.
    pub(crate) fn ops(&self) -> Vec<Op> {
        self.load().network.nodes()[1..].iter().map(|node| node.op.clone()).collect()
    }
}

pub(crate) fn floats(dims: &[i64], values: &[f32]) -> TensorProto {
    TensorProto {
        dims: dims.to_vec(),
        data_type: Some(DataType::Float as i32),
        raw_data: Some(values.iter().flat_map(|value| value.to_le_bytes()).collect()),
        ..Default::default()
    }
}

pub(crate) fn conv(out_channels: usize, window: Window) -> Op {
    Op::Conv(Conv { out_channels, window, groups: 1, bias: false })
}

#[test]
fn relu6_comes_as_attributes_constants_and_casts() {
    let bounds = vec![with::float("min", 0.0), with::float("max", 6.0)];
    let old = Draft::opset(9).image().node("Clip", &["x"], "y", bounds).output("y");
    let to_float = || vec![with::int("to", 1)];
    let cast = Draft::new().number("zero", 0.0).number("six", 6.0).node("Cast", &["zero"], "low", to_float());
    let cast =
        cast.node("Cast", &["six"], "high", to_float()).node("Clip", &["x", "low", "high"], "y", vec![]).output("y");
    let stored = Draft::new().stored("zero", with::scalar(0.0)).stored("six", floats(&[1], &[6.0]));
    let stored = stored.node("Clip", &["x", "zero", "six"], "y", vec![]).output("y");
    let min_of_relu = Draft::new().node("Relu", &["x"], "r", vec![]).number("six", 6.0);
    let min_of_relu = min_of_relu.node("Min", &["r", "six"], "y", vec![]).output("y");
    for draft in [old, cast, stored, min_of_relu] {
        assert_eq!(draft.ops(), [Op::Activation(Activation::Relu6)]);
    }
}

#[test]
fn a_slice_of_all_samples_is_no_operation() {
    // `x[:]` of the default exporter, as in Gemma and CodeGen of transformers.
    for end in [i64::MAX, i64::from(i32::MAX)] {
        let draft = Draft::new().numbers("first", &[0]).numbers("end", &[end]).numbers("axis", &[0]);
        let draft =
            draft.node("Slice", &["x", "first", "end", "axis"], "all", vec![]).node("Relu", &["all"], "y", vec![]);
        assert_eq!(draft.output("y").ops(), [Op::Activation(Activation::Relu)]);
    }
}

#[test]
fn activations_taken_apart_are_put_together() {
    let silu = Draft::new().node("Sigmoid", &["x"], "s", vec![]).node("Mul", &["s", "x"], "y", vec![]);
    let hard_swish = Draft::new().number("3", 3.0).number("0", 0.0).number("6", 6.0);
    let hard_swish = hard_swish.node("Add", &["x", "3"], "a", vec![]).node("Clip", &["a", "0", "6"], "b", vec![]);
    let hard_swish = hard_swish.node("Mul", &["x", "b"], "c", vec![]).node("Div", &["c", "6"], "y", vec![]);
    let gelu = Draft::new().number("root", 2f32.sqrt()).number("1", 1.0).number("half", 0.5);
    let gelu = gelu.node("Div", &["x", "root"], "a", vec![]).node("Erf", &["a"], "b", vec![]);
    let gelu = gelu.node("Add", &["b", "1"], "c", vec![]).node("Mul", &["x", "c"], "d", vec![]);
    let gelu = gelu.node("Mul", &["d", "half"], "y", vec![]);
    let tanh = Draft::new().number("k", 0.044715).number("root", (2.0 / std::f32::consts::PI).sqrt()).number("3", 3.0);
    let tanh = tanh.number("1", 1.0).number("half", 0.5).node("Pow", &["x", "3"], "a", vec![]);
    let tanh = tanh.node("Mul", &["k", "a"], "b", vec![]).node("Add", &["x", "b"], "c", vec![]);
    let tanh = tanh.node("Mul", &["c", "root"], "d", vec![]).node("Tanh", &["d"], "e", vec![]);
    let tanh = tanh.node("Add", &["1", "e"], "f", vec![]).node("Mul", &["half", "x"], "g", vec![]);
    let tanh = tanh.node("Mul", &["g", "f"], "y", vec![]);
    let mish = Draft::new().node("Softplus", &["x"], "a", vec![]).node("Tanh", &["a"], "b", vec![]);
    let mish = mish.node("Mul", &["x", "b"], "y", vec![]);
    let cases = [
        (silu, Activation::Silu),
        (hard_swish, Activation::HardSwish),
        (gelu, Activation::Gelu),
        (tanh, Activation::Gelu),
        (mish, Activation::Mish),
    ];
    for (draft, activation) in cases {
        assert_eq!(draft.output("y").ops(), [Op::Activation(activation)]);
    }
}

#[test]
fn one_operator_is_no_activation_in_steps() {
    // `torch.nn.functional.normalize` keeps norms from zero: `norm.clamp_min(1e-12)`.
    let draft = Draft::new().number("least", 1e-12).node("Clip", &["x", "least"], "y", vec![]).output("y");
    assert_eq!(draft.load().warnings, Vec::<String>::new());
}

#[test]
fn activations_in_steps_are_told_where_no_note_says_whose_steps_they_are() {
    let silu =
        Draft::new().node("Sigmoid", &["x"], "s", vec![]).node("Mul", &["s", "x"], "y", vec![]).output("y").load();
    assert!(silu.warnings.iter().any(|warning| warning.starts_with("silu x1 are exported step by step")));
    let sigmoid = Draft::new().node("Sigmoid", &["x"], "y", vec![]).output("y").load();
    assert!(sigmoid.warnings.is_empty(), "{:?}", sigmoid.warnings);
    assert!(rewritten(&silu.network).warnings.is_empty());
}

#[test]
fn what_is_no_activation_stays_arithmetic() {
    let draft = Draft::new().node("Sigmoid", &["x"], "s", vec![]).node("Add", &["s", "x"], "y", vec![]).output("y");
    assert_eq!(draft.ops(), [Op::Activation(Activation::Sigmoid), Op::Binary(BinaryFunction::Add)]);
    let twice = Draft::new().node("Relu", &["x"], "r", vec![]).node("Relu", &["r"], "y", vec![]).output("y");
    assert_eq!(twice.ops().len(), 2, "both run, although the second changes nothing");
}

#[test]
fn a_product_and_a_sum_are_one_layer() {
    let draft = Draft::new().weight("fc.weight", [8, 5]).weight("fc.bias", [5]);
    let draft = draft.node("MatMul", &["x", "fc.weight"], "p", vec![]).node("Add", &["fc.bias", "p"], "y", vec![]);
    let network = draft.output("y").load().network;
    assert_eq!(network.nodes()[1].op, Op::Linear(Linear { out_features: 5, bias: true }));
    assert_eq!((network.nodes()[1].name.as_str(), network.parameters()), ("fc", 8 * 5 + 5));
}

#[test]
fn layer_normalisation_is_recognised_below_opset_17() {
    let last = || vec![with::ints("axes", vec![-1])];
    let draft = Draft::opset(13).image().weight("norm.weight", [8]).weight("norm.bias", [8]).number("2", 2.0);
    let draft = draft.number("epsilon", 1e-5).node("ReduceMean", &["x"], "mean", last());
    let draft = draft.node("Sub", &["x", "mean"], "centred", vec![]).node("Pow", &["centred", "2"], "square", vec![]);
    let draft = draft.node("ReduceMean", &["square"], "var", last()).node("Add", &["var", "epsilon"], "safe", vec![]);
    let draft = draft.node("Sqrt", &["safe"], "root", vec![]).node("Div", &["centred", "root"], "normal", vec![]);
    let draft = draft.node("Mul", &["normal", "norm.weight"], "scaled", vec![]);
    let draft = draft.node("Add", &["scaled", "norm.bias"], "y", vec![]).output("y");
    assert_eq!(draft.ops(), [Op::LayerNorm { axis: 2, affine: Affine::ScaleAndShift }]);
    assert_eq!(draft.load().network.parameters(), 16);
}

#[test]
fn batch_norm_in_training_form_has_five_outputs_and_statistics_that_are_no_parameters() {
    let draft = ["bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"]
        .iter()
        .fold(Draft::new(), |draft, name| draft.weight(name, [3]));
    let inputs = ["x", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"];
    let draft = draft.node("BatchNormalization", &inputs, "y", vec![]).also(&["a", "b", "c", "d"]).output("y");
    assert_eq!(draft.ops(), [Op::BatchNorm { axis: 0 }]);
    assert_eq!(draft.load().network.parameters(), 6);
}

#[test]
fn dropout_in_all_its_forms() {
    let old = Draft::opset(11).image().node("Dropout", &["x"], "y", vec![with::float("ratio", 0.25)]).also(&["mask"]);
    let new = Draft::new().number("ratio", 0.25).node("Dropout", &["x", "ratio"], "y", vec![]).also(&["mask"]);
    // Stochastic depth as torchvision exports it: survival 0.75, the kept samples scaled up.
    let depth = |drawn: Draft| {
        let depth = drawn.number("0.75", 0.75).node("ConstantOfShape", &["s"], "e", vec![]);
        let depth = depth.node("RandomUniformLike", &["e"], "u", vec![]).node("Less", &["u", "0.75"], "l", vec![]);
        let depth = depth.node("Cast", &["l"], "k", vec![with::int("to", 1)]).node("Div", &["k", "0.75"], "n", vec![]);
        depth.node("Mul", &["x", "n"], "y", vec![])
    };
    let all = Draft::new().node("Shape", &["x"], "s", vec![]);
    for draft in [old, new, depth(all)] {
        assert_eq!(draft.output("y").ops(), [Op::Dropout { rate: 0.25 }]);
    }
    let batch = Draft::new().node("Shape", &["x"], "b", vec![with::int("start", 0), with::int("end", 1)]);
    // Whole samples, and whole channels (`nn.Dropout2d`).
    for drawn in [[1, 1, 1], [3, 1, 1]] {
        let batch = batch.clone().numbers("rest", &drawn);
        let batch = batch.node("Concat", &["b", "rest"], "s", vec![with::int("axis", 0)]);
        assert_eq!(depth(batch).output("y").ops(), [Op::DropPath { rate: 0.25 }]);
    }
    // A dropout with a ratio of 0 differs from one without a ratio, whose default is one half.
    let none = Draft::new().number("ratio", 0.0).node("Dropout", &["x", "ratio"], "y", vec![]);
    assert_eq!(none.output("y").ops(), [Op::Dropout { rate: 0.0 }]);
    assert_eq!(Draft::new().node("Dropout", &["x"], "y", vec![]).output("y").ops(), [Op::Dropout { rate: 0.5 }]);
}

/// `softmax(x x^T) x`, with changes of either factor before, and of the scores.
pub(crate) fn looked_up(query: &str, key: &str, mask: &str) -> Draft {
    let draft = Draft::new().number("s", 0.59).weight("attn.bias", [1, 3, 8, 8]);
    let draft = draft.node("Mul", &["x", "s"], "q", vec![]).node(
        "Transpose",
        &["x"],
        "t",
        vec![with::ints("perm", vec![0, 1, 3, 2])],
    );
    let draft = draft.node("Mul", &["t", "s"], "k", vec![]).node("MatMul", &[query, key], "scores", vec![]);
    let draft = draft.node("Add", &["scores", "attn.bias"], "sum", vec![]);
    draft
        .node("Softmax", &[mask], "w", vec![with::int("axis", -1)])
        .node("MatMul", &["w", "x"], "y", vec![])
        .output("y")
}

#[test]
fn attention_is_one_operation_where_it_was_one_in_pytorch() {
    // As torch/onnx/_internal/torchscript_exporter/symbolic_opset14.py writes scaled_dot_product_attention.
    assert_eq!(looked_up("q", "k", "scores").ops(), [Op::Attention]);
    assert_eq!(looked_up("q", "k", "sum").ops(), [Op::Parameter(Shape::new([3, 8, 8])), Op::Attention]);
    // An attention that scales once was written out by the network.
    for (query, key) in [("q", "t"), ("x", "k"), ("x", "t")] {
        assert!(!looked_up(query, key, "scores").ops().contains(&Op::Attention), "{query} {key}");
    }
    let scaled = |number| vec![with::float("scale", number)];
    let whole = Draft::opset(23).image().node("Attention", &["x", "x", "x"], "y", scaled(0.35)).output("y");
    assert_eq!(whole.ops(), [Op::Attention]);
    // 8 queries and 8 keys of 8 features, and as many products with the values, for each of 3 heads.
    assert_eq!(whole.load().network.macs(), 3 * 2 * 8 * 8 * 8);
}

/// `saved_tensors_hooks` on PyTorch 2.13's attention of 6 heads of queries: with `enable_gqa` it saves keys and values of 3 heads as they are, without it
/// those of one.
#[test]
fn heads_that_queries_share_are_read_where_they_lie() {
    let views = |network: &Network| network.nodes().iter().filter(|node| node.runs == PytorchRun::View).count();
    let queries = |draft: Draft| draft.node("Concat", &["x", "x"], "q", vec![with::int("axis", 1)]);
    let shared = queries(Draft::opset(23).image()).node("Attention", &["q", "x", "x"], "y", vec![]).output("y");
    assert_eq!(views(&shared.load().network), 2);

    let one = Draft::new().numbers("0", &[0]).numbers("1", &[1]).number("s", 0.59);
    let one = one.node("Slice", &["x", "0", "1", "1"], "one", vec![]).node("Mul", &["x", "s"], "scaled", vec![]);
    let turned = one.node("Transpose", &["one"], "t", vec![with::ints("perm", vec![0, 1, 3, 2])]);
    let scores = turned.node("Mul", &["t", "s"], "k", vec![]).node("MatMul", &["scaled", "k"], "scores", vec![]);
    let weights = scores.node("Softmax", &["scores"], "w", vec![with::int("axis", -1)]);
    let ops = weights.node("MatMul", &["w", "one"], "y", vec![]).output("y").ops();
    assert!(
        ops.ends_with(&[Op::Expand(Shape::new([3, 8, 8])), Op::Expand(Shape::new([3, 8, 8])), Op::Attention]),
        "{ops:?}"
    );
}

/// transformers 5 (`use_gqa_in_sdpa`) repeats heads under a mask alone, which it makes in an export and leaves out in a run where nothing is padded.
#[test]
fn heads_that_transformers_repeats_in_an_export_alone_may_be_read_where_they_lie() {
    let of_mask = "File \"/net.py\", line 372, in forward\n    mask = create_causal_mask(**mask_kwargs)";
    let call = "%sdpa : [num_users=1] = call_function[target=torch.ops.aten.scaled_dot_product_attention.default]";
    let repeated = |stack: &str| {
        let draft = Draft::opset(23).image().node("Concat", &["x", "x"], "q", vec![with::int("axis", 1)]);
        let draft =
            draft.noted("pkg.torch.onnx.stack_trace", stack).numbers("2", &[2]).numbers("wide", &[1, 3, 2, 8, 8]);
        let draft = draft.numbers("heads", &[0, 6, 8, 8]).node("Unsqueeze", &["x", "2"], "apart", vec![]);
        let draft = draft.node("Expand", &["apart", "wide"], "copies", vec![]).node(
            "Reshape",
            &["copies", "heads"],
            "k",
            vec![],
        );
        let note = format!("{call}(args = (%q, %k, %k, %mask), kwargs = {{}})");
        draft.node("Attention", &["q", "k", "k"], "y", vec![]).noted("pkg.torch.onnx.fx_node", &note).output("y").load()
    };
    let views = |network: &Network| network.nodes().iter().filter(|node| node.runs == PytorchRun::View).count();
    let of_library = repeated(of_mask);
    let [least, most] = of_library.network.other_readings() else { panic!("two more readings") };
    assert_eq!([least, &of_library.network, most].map(views), [1, 1, 0]);
    assert!(of_library.warnings.iter().any(|warning| warning.contains("whether transformers repeats the heads")));
    assert_eq!(views(&repeated("File \"/net.py\", line 372, in forward\n    mask = make_mask(x)").network), 0);
}

/// Training needs the logits of all tokens: `model(input_ids)` of transformers keeps them, whatever one number the exported file is given.
#[test]
fn logits_of_all_tokens_are_kept_whatever_an_input_says() {
    let mut draft = Draft::new();
    draft.graph().input.push(Draft::typed("logits_to_keep", [], DataType::Int64));
    let draft = draft.node("Gather", &["x", "logits_to_keep"], "y", vec![with::int("axis", 2)]);
    let loaded = draft.output("y").load();
    assert_eq!(loaded.network.nodes().last().unwrap().shape, Shape::new([3, 8, 8]));
    assert_eq!(loaded.network.other_readings()[0].nodes().last().unwrap().shape, Shape::new([3, 8]));
    assert!(loaded.warnings.iter().any(|warning| warning.contains("logits_to_keep")), "{:?}", loaded.warnings);
}

#[test]
fn attention_whose_weights_are_dropped_is_told_in_its_note_alone() {
    // As torch.onnx.export(model.train(), dynamo=True) of PyTorch 2.11 writes it: no Dropout, and the rate as the fifth operand.
    let noted = |query: &str, key: &str, rate: &str| {
        let call = "%scaled_dot_product_attention : [num_users=1] = \
            call_function[target=torch.ops.aten.scaled_dot_product_attention.default]";
        let note = format!("{call}(args = (%q, %k, %v, None, {rate}), kwargs = {{}})");
        looked_up(query, key, "scores").noted("pkg.torch.onnx.fx_node", &note).ops()
    };
    assert_eq!(noted("q", "k", "0.0"), [Op::Attention]);
    // With a scale of 1, onnxscript's `aten_scaled_dot_product_attention` scales neither factor.
    assert!(noted("x", "t", "0.0").contains(&Op::Attention));
    let spelled = noted("q", "k", "0.1");
    let [.., Op::Softmax { .. }, Op::Dropout { rate }, Op::MatMul] = spelled[..] else { panic!("{spelled:?}") };
    assert!((rate - 0.1).abs() < 1e-6);
}

#[test]
fn weights_that_are_made_safe_and_dropped_are_so_in_one_operation_of_pytorch() {
    // A mask of truths, as torch/onnx/_internal/torchscript_exporter/symbolic_opset14.py writes it: PyTorch's `_safe_softmax` is one operation.
    let draft = Draft::new().weight("attn.bias", [1, 3, 8, 8]).node("MatMul", &["x", "x"], "scores", vec![]);
    let draft = draft.node("Add", &["scores", "attn.bias"], "sum", vec![]);
    let draft = draft.node("Softmax", &["sum"], "w", vec![with::int("axis", -1)]).number("zero", 0.0);
    let draft = draft.node("IsNaN", &["w"], "n", vec![]).node("Where", &["n", "zero", "w"], "safe", vec![]);
    let draft = draft.node("Dropout", &["safe"], "d", vec![]).node("MatMul", &["d", "x"], "y", vec![]).output("y");
    let ops = draft.ops();
    assert!(matches!(ops[..], [.., Op::Softmax { .. }, Op::Dropout { rate: 0.5 }, Op::MatMul]), "{ops:?}");
}

#[test]
fn splits_become_slices_and_the_channel_shuffle_its_steps() {
    let split = Draft::new().numbers("sizes", &[1, 2]).node("Split", &["x", "sizes"], "a", vec![with::int("axis", 1)]);
    let split = split.also(&["b"]).node("Concat", &["b", "a"], "y", vec![with::int("axis", 1)]).output("y");
    let slice = |start, length| Op::Slice { axis: 0, start, length };
    assert_eq!(split.ops(), [slice(0, 1), slice(1, 2), Op::Concat { axis: 0 }]);
    let wide = || Draft::opset(17).input("x", [Named("batch"), Is(6), Is(4), Is(4)]);
    let shuffle = wide().node("Shape", &["x"], "s", vec![]).numbers("first", &[0]).numbers("rest", &[2, 3, 4, 4]);
    let shuffle = shuffle.node("Gather", &["s", "first"], "batch", vec![]).numbers("back", &[-1, 6, 4, 4]);
    let shuffle = shuffle.node("Concat", &["batch", "rest"], "folded", vec![with::int("axis", 0)]);
    let shuffle = shuffle.node("Reshape", &["x", "folded"], "f", vec![]);
    let shuffle = shuffle.node("Transpose", &["f"], "t", vec![with::ints("perm", vec![0, 2, 1, 3, 4])]);
    let shuffle = shuffle.node("Reshape", &["t", "back"], "y", vec![]).output("y");
    let reshape = |dims: &[usize]| Op::Reshape(Shape::new(dims));
    let expected = [reshape(&[2, 3, 4, 4]), Op::Transpose { order: vec![1, 0, 2, 3] }, reshape(&[6, 4, 4])];
    assert_eq!(shuffle.ops(), expected);
}

/// PyTorch keeps the padded image for backward. The older exporter writes a mean that counts its padding as two nodes
/// (`_avg_pool` of torch.onnx.symbolic_opset10); a maximum it writes as one, so that a node in front of it is the program's.
#[test]
fn paddings_are_tensors_of_their_own_but_those_of_means() {
    let padded = |fill: Option<f32>| {
        let draft = Draft::new().weight("w", [4, 3, 3, 3]).numbers("pads", &[0, 0, 1, 2, 0, 0, 3, 4]);
        let draft = fill.iter().fold(draft, |draft, &fill| draft.number("fill", fill));
        draft.node("Pad", if fill.is_some() { &["x", "pads", "fill"] } else { &["x", "pads"] }, "p", vec![])
    };
    let sides = vec![[0, 0], [1, 3], [2, 4]];
    let pad = |fill| Op::Pad { sides: sides.clone(), fill };
    let behind = padded(None).node("Conv", &["p", "w"], "y", vec![]).output("y");
    assert_eq!(behind.ops(), [pad(PaddingFill::Zeros), conv(4, Window::square(3, 1, 0))]);
    let kernel = || vec![with::ints("kernel_shape", vec![5, 5])];
    let maximum = padded(Some(f32::NEG_INFINITY)).node("MaxPool", &["p"], "y", kernel()).output("y");
    assert_eq!(maximum.ops(), [pad(PaddingFill::Constant), Op::MaxPool(Window::square(5, 1, 0))]);
    let mean = padded(None).node("AveragePool", &["p"], "y", kernel()).output("y");
    let window = Window { padding: [1, 2, 3, 4], ..Window::square(5, 1, 0) };
    assert_eq!(mean.ops(), [Op::AvgPool { window, count_include_pad: true }]);
}

/// The default exporter merges a `pad` into the convolution behind it; its note has what the convolution pads itself.
#[test]
fn padding_that_an_exporter_merged_is_taken_out_again() {
    let noted = |target: &str, arguments: &str, pads: Vec<i64>| {
        let note = format!("%c : call_function[target=torch.ops.aten.{target}.default](args = ({arguments}))");
        let convolve = |draft: Draft, output: &str| {
            let draft = draft.node("Conv", &["x", "w"], output, vec![with::ints("pads", pads.clone())]);
            draft.noted("pkg.torch.onnx.fx_node", &note).noted("pkg.onnxscript.rewriter.rule_name", "FuseConvPad")
        };
        let draft = convolve(convolve(Draft::new().weight("w", [4, 3, 3, 3]), "a"), "b");
        draft.node("Add", &["a", "b"], "y", vec![]).output("y").ops()
    };
    let pad = |side| Op::Pad { sides: vec![[0, 0], side, side], fill: PaddingFill::Zeros };
    let (add, alone) = (Op::Binary(BinaryFunction::Add), conv(4, Window::square(3, 1, 0)));
    let own = conv(4, Window::square(3, 1, 1));
    let once = noted("conv2d", "%pad, %p_w", vec![1; 4]);
    assert_eq!(once, [pad([1, 1]), alone.clone(), alone.clone(), add.clone()], "both read one pad");
    let (partly, wholly) = (vec![1, 1, 3, 3], vec![1; 4]);
    let arguments = "%pad, %p_w, None, [1, 1], [1, 1]";
    assert_eq!(noted("conv2d", arguments, partly), [pad([0, 2]), own.clone(), own.clone(), add.clone()]);
    assert_eq!(noted("conv2d", arguments, wholly.clone()), [own.clone(), own, add.clone()]);
    let of_norm = noted("relu", "%c", wholly);
    assert_eq!(of_norm, [pad([1, 1]), alone.clone(), pad([1, 1]), alone, add]);
}

#[test]
fn a_padding_that_cuts_the_other_side_stays_one() {
    // NASNet pads by (-1, 1, -1, 1) before a pooling of one pixel; onnxruntime merges a padding that cuts nothing into such a
    // pooling, and refuses the result (pool_attributes.h: a pad is smaller than its kernel).
    let shifted = Draft::new().numbers("pads", &[0, 0, -1, -1, 0, 0, 1, 1]).node("Pad", &["x", "pads"], "p", vec![]);
    let attributes = vec![with::ints("kernel_shape", vec![1, 1]), with::ints("strides", vec![2, 2])];
    let ops = shifted.node("AveragePool", &["p"], "y", attributes).output("y").ops();
    assert_eq!(ops[0], Op::Pad { sides: vec![[0, 0], [-1, 1], [-1, 1]], fill: PaddingFill::Zeros });
    assert_eq!(ops.len(), 2);
    let cut = Draft::new().numbers("pads", &[0, 0, -1, 0, 0, 0, 0, -2]).node("Pad", &["x", "pads"], "y", vec![]);
    let slice = |axis, start, length| Op::Slice { axis, start, length };
    assert_eq!(cut.output("y").ops(), [slice(1, 1, 7), slice(2, 0, 6)]);
}

#[test]
fn automatic_padding_follows_the_specification() {
    // 8 rows, stride 2: 4 positions reach (4 - 1) * 2 + 3 = 9 rows, so one is missing, behind (upper) or in front (lower);
    // along the width a kernel of 5 reaches 11, three columns are missing.
    let same = |mode| {
        let attributes = vec![text("auto_pad", mode), with::ints("strides", vec![2, 2])];
        let draft = Draft::new().weight("w", [4, 3, 3, 5]).node("Conv", &["x", "w"], "y", attributes).output("y");
        draft.ops()
    };
    let window = |padding| Window { kernel: [3, 5], stride: [2, 2], padding, dilation: [1, 1], ceil: false };
    // PyTorch pads the odd row and column before the convolution, which pads both sides alike.
    let odd = |sides: [usize; 2]| {
        let [before, behind] = sides.map(|side| side as i64);
        Op::Pad { sides: vec![[0, 0], [before, behind], [before, behind]], fill: PaddingFill::Zeros }
    };
    assert_eq!(same("SAME_UPPER"), [odd([0, 1]), conv(4, window([0, 1, 0, 1]))]);
    assert_eq!(same("SAME_LOWER"), [odd([1, 0]), conv(4, window([0, 1, 0, 1]))]);
    assert_eq!(same("VALID"), [conv(4, window([0; 4]))]);
}

#[test]
fn a_fixed_batch_is_left_open() {
    let draft = Draft::opset(17).input("x", [Is(8), Is(3), Is(8), Is(8)]).weight("fc.weight", [10, 192]);
    let draft = draft.numbers("shape", &[8, 192]).node("Reshape", &["x", "shape"], "r", vec![]);
    let draft = draft.node("Gemm", &["r", "fc.weight"], "y", vec![with::int("transB", 1)]).output("y");
    assert_eq!(draft.ops(), [Op::Flatten, Op::Linear(Linear { out_features: 10, bias: false })]);
}

#[test]
fn tied_weights_count_once_and_merged_vectors_each_time() {
    let draft = Draft::new().weight("a.weight", [3, 3, 1, 1]).weight("zeros", [3]);
    let draft =
        draft.node("Conv", &["x", "a.weight", "zeros"], "first", vec![]).node("Identity", &["zeros"], "same", vec![]);
    let draft = draft.node("Conv", &["first", "a.weight", "same"], "y", vec![]).output("y");
    let network = draft.load().network;
    assert_eq!(network.parameters(), 9 + 3, "both layers are one, used twice");
    // An input of the graph is no tensor that an exporter stored.
    assert!(draft.load().warnings.iter().all(|warning| !warning.contains("stored as another")));
    let again = from_bytes("draft", &to_bytes(&network)).unwrap().network;
    assert_eq!(again, network);
    let apart = Draft::new().weight("a.weight", [3, 3, 1, 1]).weight("b.weight", [3, 3, 1, 1]).weight("zeros", [3]);
    let apart = apart.node("Conv", &["x", "a.weight", "zeros"], "first", vec![]);
    let apart = apart.node("Conv", &["first", "b.weight", "zeros"], "y", vec![]).output("y");
    assert_eq!(apart.load().network.parameters(), 2 * (9 + 3), "an exporter merged their equal biases");
}

/// As `torch.onnx.export(model.eval(), ..., dynamo=False)` writes two convolutions with equal initial values.
#[test]
fn equal_tensors_that_an_exporter_stored_once_are_told() {
    let draft = Draft::new().stored("layers.0.weight", floats(&[3, 3, 1, 1], &[0.5; 9]));
    let draft = draft.node("Identity", &["layers.0.weight"], "layers.1.weight", vec![]);
    let draft = draft.node("Conv", &["x", "layers.0.weight"], "first", vec![]);
    let loaded = draft.node("Conv", &["first", "layers.1.weight"], "y", vec![]).output("y").load();
    assert_eq!(loaded.network.parameters(), 9);
    let answer = "1 tensor is stored as another that it equals (layers.1.weight as layers.0.weight)";
    assert!(loaded.warnings.iter().any(|warning| warning.starts_with(answer)), "{:?}", loaded.warnings);
}

#[test]
fn tokens_and_position_embeddings_are_parameters() {
    let draft = Draft::new().weight("position", [1, 3, 8, 8]).weight("token", [1, 1, 8, 8]);
    let draft = draft.node("Shape", &["x"], "s", vec![with::int("end", 1)]).numbers("rest", &[-1, -1, -1]);
    let draft = draft.numbers("ones", &[1, 1, 1]).node("Concat", &["s", "ones"], "target", vec![with::int("axis", 0)]);
    let draft = draft.node("Expand", &["token", "target"], "tokens", vec![]);
    let draft = draft.node("Add", &["x", "position"], "a", vec![]);
    let draft = draft.node("Concat", &["tokens", "a"], "y", vec![with::int("axis", 1)]).output("y");
    let network = draft.load().network;
    assert_eq!((network.parameters(), network.output_shape()), (3 * 64 + 64, &Shape::new([4, 8, 8])));
    assert!(network.coverage().is_full());
}

#[test]
fn unknown_operations_are_loaded_named_and_counted() {
    let draft = Draft::new().weight("slopes", [3, 1, 1]).node("Swirl", &["x", "slopes"], "p", vec![]);
    let draft = draft.node("Hardmax", &["p"], "r", vec![]).weight("w", [4, 3, 3, 3]);
    let mut draft = draft.node("Frobnicate", &["r"], "f", vec![]).node("Conv", &["f", "w"], "y", vec![]).output("y");
    draft.graph().node[2].domain = Some("com.acme".into());
    let loaded = draft.load();
    let unknown = loaded.network.coverage().unknown;
    assert_eq!(unknown.keys().collect::<Vec<_>>(), ["Hardmax", "Swirl", "com.acme::Frobnicate"]);
    assert_eq!((unknown["Swirl"].parameters, loaded.network.output_shape()), (3, &Shape::new([4, 6, 6])));
    assert!(loaded.warnings[0].starts_with("1 of 4 operations are known"), "{:?}", loaded.warnings);
    assert_eq!(from_bytes("draft", &to_bytes(&loaded.network)).unwrap().network, loaded.network);
}

#[test]
fn nodes_may_stand_in_any_order() {
    let draft = Draft::new().node("Relu", &["s"], "y", vec![]).node("Sigmoid", &["x"], "s", vec![]).output("y");
    assert_eq!(draft.ops(), [Op::Activation(Activation::Sigmoid), Op::Activation(Activation::Relu)]);
}

#[test]
fn faults_are_told_with_node_and_reason() {
    let cycle = Draft::new().node("Add", &["x", "b"], "a", vec![]).node("Relu", &["a"], "b", vec![]).output("b");
    assert!(cycle.error().contains("node \"a\" (Add) depends on its own result"), "{}", cycle.error());
    let dangling = Draft::new().node("Relu", &["ghost"], "y", vec![]).output("y");
    assert!(dangling.error().contains("node \"y\" (Relu) reads \"ghost\""), "{}", dangling.error());
    let twice = Draft::new().node("Relu", &["x"], "y", vec![]).node("Tanh", &["x"], "y", vec![]).output("y");
    assert!(twice.error().contains("gives \"y\", which exists already"), "{}", twice.error());
    let constant = Draft::new().number("y", 1.0).output("y");
    assert!(constant.error().contains("does not depend on the input"), "{}", constant.error());
    let misfit = Draft::new().weight("w", [4, 7, 3, 3]).node("Conv", &["x", "w"], "y", vec![]).output("y");
    assert!(misfit.error().contains("node \"y\" (Conv) reads 3 channels, its filters see 7"), "{}", misfit.error());
    let large = Draft::new().weight("w", [4, 3, 99, 99]).node("Conv", &["x", "w"], "y", vec![]).output("y");
    assert!(large.error().contains("a kernel that reaches 99"), "{}", large.error());
    let view = Draft::new().numbers("shape", &[7, -1]).node("Reshape", &["x", "shape"], "y", vec![]).output("y");
    assert!(view.error().starts_with("draft.onnx: node \"y\" (Reshape) cannot view"), "{}", view.error());
}

#[test]
fn networks_of_another_kind_are_refused_with_a_remedy() {
    let relu = |draft: Draft| draft.node("Relu", &["x"], "y", vec![]).output("y").error();
    let vector = relu(Draft::opset(17).input("x", [Named("batch")]));
    assert!(vector.contains("input \"x\" of shape [batch] is not a batch of anything\n  help:"), "{vector}");
    let sizes = relu(Draft::opset(17).input("x", [Named("batch"), Is(3), Named("height"), Is(8)]));
    assert!(
        sizes.contains("of shape [batch, 3, height, 8] has no fixed size: set its size with --dim height=SIZE"),
        "{sizes}"
    );
    let absurd = relu(Draft::opset(17).input("x", [Is(1), Is(1 << 40), Is(1 << 40), Is(1 << 40)]));
    assert!(absurd.contains("larger than any device holds"), "{absurd}");
    let old = relu(Draft::opset(6).image());
    assert!(old.contains("opset 6, older than the oldest supported, 7"), "{old}");
    let mut words = Draft::opset(17);
    words.graph().input.push(Draft::typed("x", [Is(1), Is(3), Is(8), Is(8)], DataType::String));
    assert!(relu(words).contains("holds string, which is not supported"));
}

#[test]
fn a_newer_opset_is_read_with_a_warning() {
    let loaded = Draft::opset(99).image().node("Relu", &["x"], "y", vec![]).output("y").load();
    assert!(loaded.warnings[0].contains("opset 99, newer than 27"), "{:?}", loaded.warnings);
}

#[test]
fn absurd_sizes_neither_panic_nor_allocate() {
    let huge = i64::MAX;
    let pad = Draft::new().numbers("p", &[0, 0, huge, huge, 0, 0, huge, huge]).node("Pad", &["x", "p"], "y", vec![]);
    let expand = Draft::new().numbers("s", &[huge, huge]).node("ConstantOfShape", &["s"], "c", vec![]);
    let expand = expand.node("Add", &["x", "c"], "y", vec![]);
    let range = Draft::new().number("0", 0.0).number("end", f32::MAX).number("1", 1.0);
    let range = range.node("Range", &["0", "end", "1"], "r", vec![]).node("Reshape", &["x", "r"], "y", vec![]);
    let weight = Draft::new().weight("w", [huge, huge, huge, huge]).node("Conv", &["x", "w"], "y", vec![]);
    let strides = vec![with::ints("strides", vec![0, 0])];
    let stride = Draft::new().weight("w", [1, 3, 1, 1]).node("Conv", &["x", "w"], "y", strides);
    let group = Draft::new().weight("w", [1, 3, 1, 1]).node("Conv", &["x", "w"], "y", vec![with::int("group", 0)]);
    let shape = Draft::new().numbers("s", &[-1, 0, huge]).node("Reshape", &["x", "s"], "y", vec![]);
    for draft in [pad, expand, range, weight, stride, group, shape] {
        let _ = from_bytes("draft", &draft.output("y").bytes());
    }
}

#[test]
fn folded_batch_norm_is_noticed_and_its_absence_is_not() {
    let plain = Draft::new().weight("a.weight", [3, 3, 3, 3]).weight("a.bias", [3]);
    let plain = plain.node("Conv", &["x", "a.weight", "a.bias"], "c", vec![with::ints("pads", vec![1; 4])]);
    assert_eq!(plain.node("Relu", &["c"], "y", vec![]).output("y").load().warnings, Vec::<String>::new());
    let residual = Draft::new().weight("a.weight", [3, 3, 3, 3]);
    let residual = residual.node("Conv", &["x", "a.weight"], "c", vec![with::ints("pads", vec![1; 4])]);
    let residual = residual.node("Add", &["c", "x"], "y", vec![]).output("y").load();
    assert!(residual.warnings[0].contains("torch.onnx.export(model.train()"), "{:?}", residual.warnings);
    // PyTorch's older exporter renames what it folds, so this network, like EDSR, had no batch-norm.
    let named = Draft::new().weight("a.weight", [3, 3, 3, 3]);
    let named = named.node("Conv", &["x", "a.weight"], "/a/Conv", vec![with::ints("pads", vec![1; 4])]);
    let named = named.node("Add", &["/a/Conv", "x"], "y", vec![]).output("y").load();
    assert_eq!(named.warnings, Vec::<String>::new());
    // ultralytics' model.fuse() before the export: as above, but the convolution has the bias that fusing makes.
    let fused = Draft::new().weight("a.weight", [3, 3, 3, 3]).weight("a.bias", [3]);
    let fused = fused.node("Conv", &["x", "a.weight", "a.bias"], "/a/Conv", vec![with::ints("pads", vec![1; 4])]);
    let fused = fused.node("Add", &["/a/Conv", "x"], "y", vec![]).output("y").load();
    assert!(fused.warnings[0].contains("if batch-norm was fused into its convolutions"), "{:?}", fused.warnings);
    assert!(!fused.network.is_folded());
    assert_eq!(rewritten(&fused.network).warnings, Vec::<String>::new(), "ours say that there was none");
    let renamed = Draft::new().weight("onnx::Conv_12", [3, 3, 3, 3]);
    let renamed = renamed.node("Conv", &["x", "onnx::Conv_12"], "y", vec![]).output("y").load();
    assert!(renamed.warnings[0].contains("cannot be trusted"), "{:?}", renamed.warnings);
    // Sums of images in a network without convolutions, into which a normalisation could be folded.
    let sums = Draft::new().node("Tanh", &["x"], "t", vec![]).node("Add", &["t", "x"], "y", vec![]).output("y").load();
    assert!(!sums.network.is_folded() && sums.warnings.is_empty(), "{:?}", sums.warnings);
}

/// One convolution with a filter of -1, 2 and one of 0.5, 0.5, stored as `weights`.
pub(crate) fn two_filters(weights: TensorProto) -> Draft {
    let draft = Draft::opset(17).input("x", [Named("batch"), Is(2), Is(4), Is(4)]).stored("conv.weight", weights);
    draft.node("Conv", &["x", "conv.weight"], "y", vec![]).output("y")
}

/// Four tokens of two features by three outputs. The weights are stored by output, by input, and by output but transposed.
#[test]
fn magnitudes_of_fully_connected_layers_are_those_of_their_outputs() {
    let folder = tempfile::tempdir().unwrap();
    let by_output = || floats(&[3, 2], &[1.0, -3.0, 0.5, 0.5, -4.0, 0.0]);
    let by_input = || floats(&[2, 3], &[1.0, 0.5, -4.0, -3.0, 0.5, 0.0]);
    let image = || Draft::opset(17).input("x", [Named("batch"), Is(4), Is(2), Is(1)]).numbers("shape", &[-1, 4, 2]);
    let tokens = || image().node("Reshape", &["x", "shape"], "tokens", vec![]);
    let turned = tokens().stored("fc.weight", by_output()).node("Transpose", &["fc.weight"], "t", vec![]);
    let layers = [
        tokens().stored("fc.weight", by_input()).node("MatMul", &["tokens", "fc.weight"], "fc", vec![]),
        turned.node("MatMul", &["tokens", "t"], "fc", vec![]),
    ];
    for (number, draft) in layers.into_iter().enumerate() {
        let path = folder.path().join(format!("{number}.onnx"));
        std::fs::write(&path, draft.node("Relu", &["fc"], "y", vec![]).output("y").bytes()).unwrap();
        let (_, magnitudes) = read_with_magnitudes(&path, &NamedDims::new(), None).unwrap();
        assert_eq!(magnitudes.values().collect::<Vec<_>>(), [&vec![2.0, 0.5, 2.0]], "{number}");
    }
}

#[test]
fn magnitudes_of_convolutions_turned_around_are_those_of_what_they_make() {
    // Two groups of one input and two outputs each: filters are stored by input, then by output of the group.
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("turned.onnx");
    let draft = Draft::opset(17).input("x", [Named("batch"), Is(2), Is(8), Is(8)]);
    let draft = draft.stored("w", floats(&[2, 2, 1, 1], &[1.0, -2.0, 3.0, -4.0]));
    let draft = draft.node("ConvTranspose", &["x", "w"], "y", vec![with::int("group", 2)]).output("y");
    std::fs::write(&path, draft.bytes()).unwrap();
    let (_, magnitudes) = read_with_magnitudes(&path, &NamedDims::new(), None).unwrap();
    assert_eq!(magnitudes.values().collect::<Vec<_>>(), [&vec![1.0, 2.0, 3.0, 4.0]]);
}

#[test]
fn magnitudes_of_filters_come_from_wherever_weights_are_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.onnx");
    let values = [-1.0, 2.0, 0.5, 0.5];
    let raw = floats(&[2, 2, 1, 1], &values);
    let typed = TensorProto { raw_data: None, float_data: values.to_vec(), ..raw.clone() };
    let entry = |key: &str, value: &str| StringStringEntryProto { key: Some(key.into()), value: Some(value.into()) };
    let external = |location: &str| TensorProto {
        raw_data: None,
        data_location: Some(tensor_proto::DataLocation::External as i32),
        external_data: vec![entry("location", location), entry("offset", "3"), entry("length", "16")],
        ..raw.clone()
    };
    let data: Vec<u8> = [0; 3].into_iter().chain(values.iter().flat_map(|value| value.to_le_bytes())).collect();
    std::fs::write(folder.path().join("two.data"), data).unwrap();
    for weights in [raw.clone(), typed, external("two.data")] {
        std::fs::write(&path, two_filters(weights).bytes()).unwrap();
        let (_, magnitudes) = read_with_magnitudes(&path, &NamedDims::new(), None).unwrap();
        assert_eq!(magnitudes, BTreeMap::from([("conv".to_string(), vec![1.5, 0.5])]));
    }
    // A link to a file in the folder, and one out of it; a hub's cache has links to both files in a folder of contents.
    let elsewhere = tempfile::tempdir().unwrap();
    let [inside, outside, hub] = ["inside.data", "outside.data", "hub"].map(|name| folder.path().join(name));
    std::fs::copy(folder.path().join("two.data"), elsewhere.path().join("secret")).unwrap();
    symlink("two.data", &inside).unwrap();
    symlink(elsewhere.path().join("secret"), &outside).unwrap();
    std::fs::write(&path, two_filters(external("inside.data")).bytes()).unwrap();
    assert!(read_with_magnitudes(&path, &NamedDims::new(), None).is_ok());
    std::fs::create_dir(&hub).unwrap();
    [("two.onnx", &path), ("inside.data", &inside)]
        .into_iter()
        .for_each(|(name, target)| symlink(target, hub.join(name)).unwrap());
    assert!(read_with_magnitudes(hub.join("two.onnx"), &NamedDims::new(), None).is_ok());
    let empty = TensorProto { raw_data: Some(vec![]), ..raw.clone() };
    for (weights, why) in [
        (external("gone.data"), "gone.data: No such file"),
        (external("../two.data"), "outside the network's folder"),
        (external("outside.data"), "is a link out of the network's folder"),
        (empty, "empty or cut off"),
    ] {
        std::fs::write(&path, two_filters(weights).bytes()).unwrap();
        assert_eq!(read(&path).unwrap().network.parameters(), 4, "without magnitudes no weight is needed");
        let error = read_with_magnitudes(&path, &NamedDims::new(), None).unwrap_err().to_string();
        assert!(error.contains("for \"conv\"") && error.contains(why) && error.contains("help:"), "{error}");
    }
}

#[test]
fn large_payloads_are_skipped_and_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.onnx");
    let values: Vec<f32> = (0..64 * 1024).map(|i| (i % 2) as f32).collect();
    let draft = Draft::opset(17).input("x", [Named("batch"), Is(1024), Is(4), Is(4)]);
    let draft = draft.stored("conv.weight", floats(&[64, 1024, 1, 1], &values));
    let draft = draft.node("Conv", &["x", "conv.weight"], "y", vec![]).output("y");
    std::fs::write(&path, draft.bytes()).unwrap();
    let file = open(&path).unwrap();
    assert!(file.initializers[0].payload.is_some() && file.initializers[0].tensor.raw_data.is_none());
    let (loaded, magnitudes) = read_with_magnitudes(&path, &NamedDims::new(), None).unwrap();
    assert_eq!((loaded.network.parameters(), &magnitudes["conv"]), (64 * 1024, &vec![0.5; 64]));
}

impl Draft {
    /// Adds an exporter's note to the node added last.
    pub(crate) fn noted(mut self, key: &str, value: &str) -> Draft {
        let note = StringStringEntryProto { key: Some(key.into()), value: Some(value.into()) };
        self.graph().node.last_mut().unwrap().metadata_props.push(note);
        self
    }
}

/// The node of a network that has this name.
pub(crate) fn named<'a>(network: &'a Network, name: &str) -> &'a perf4sight_network::Node {
    network.nodes().iter().find(|node| node.name == name).unwrap_or_else(|| panic!("no {name} in {network:?}"))
}

/// Writes a network and reads it again, which gives the same network.
pub(crate) fn rewritten(network: &Network) -> LoadedOnnx {
    let again = from_bytes(network.name(), &to_bytes(network)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again.network.as_written(), network.as_written());
    again
}

#[test]
fn padding_that_the_graph_computes_is_known() {
    // timm's pad_same for a stride of 2 and a kernel of 3: max((ceil(8 / 2) - 1) * 2 + 3 - 8, 0) = 1, all of it behind.
    let draft = Draft::new().weight("w", [4, 3, 3, 3]).node("Shape", &["x"], "s", vec![]);
    let draft =
        draft.node("Constant", &[], "two", vec![with::int("value_int", 2)]).number("2.0", 2.0).number("1.0", 1.0);
    let draft = draft.node("Gather", &["s", "two"], "h", vec![]).number("0.0", 0.0).number("3.0", 3.0);
    let draft = draft.node("Cast", &["h"], "hf", vec![with::int("to", 1)]).node("Div", &["hf", "2.0"], "d", vec![]);
    let draft = draft.node("Ceil", &["d"], "c", vec![]).node("Sub", &["c", "1.0"], "m", vec![]);
    let draft = draft.node("Mul", &["m", "2.0"], "p", vec![]).node("Add", &["p", "3.0"], "a", vec![]);
    let draft = draft.node("Sub", &["a", "hf"], "r", vec![]).node("Clip", &["r", "0.0", ""], "t", vec![]);
    let draft = draft.node("Div", &["t", "2.0"], "half", vec![]).node("Floor", &["half"], "front", vec![]);
    let draft = draft.node("Sub", &["t", "front"], "back", vec![]).numbers("at", &[0]);
    let whole = || vec![with::int("to", 7)];
    let draft = draft.node("Cast", &["front"], "fi", whole()).node("Cast", &["back"], "bi", whole());
    let draft = draft.node("Unsqueeze", &["fi", "at"], "f", vec![]).node("Unsqueeze", &["bi", "at"], "b", vec![]);
    let draft = draft.numbers("none", &[0, 0]).node(
        "Concat",
        &["none", "f", "f", "none", "b", "b"],
        "pads",
        vec![with::int("axis", 0)],
    );
    let draft = draft.node("Pad", &["x", "pads"], "padded", vec![]);
    let strides = vec![with::ints("strides", vec![2, 2])];
    let window = Window { stride: [2, 2], ..Window::square(3, 1, 0) };
    let pad = Op::Pad { sides: vec![[0, 0], [0, 1], [0, 1]], fill: PaddingFill::Zeros };
    assert_eq!(draft.node("Conv", &["padded", "w"], "y", strides).output("y").ops(), [pad, conv(4, window)]);
}

#[test]
fn a_sum_over_a_stack_loses_the_axis_and_nothing_else() {
    // Selective kernels: two images stacked on a new axis, which a sum removes again.
    let draft = Draft::new().weight("w", [4, 3, 1, 1]).numbers("one", &[1]);
    let draft = draft.node("Unsqueeze", &["x", "one"], "a", vec![]).node("Unsqueeze", &["x", "one"], "b", vec![]);
    let draft = draft.node("Concat", &["a", "b"], "stack", vec![with::int("axis", 1)]);
    let draft = draft.node("ReduceSum", &["stack", "one"], "sum", vec![with::int("keepdims", 0)]);
    let network = draft.node("Conv", &["sum", "w"], "y", vec![]).output("y").load().network;
    assert_eq!(named(&network, "sum").shape, Shape::new([3, 8, 8]));
    assert_eq!((network.output_shape(), network.macs()), (&Shape::new([4, 8, 8]), 4 * 3 * 64));
    rewritten(&network);
}

#[test]
fn shapes_follow_the_operators_rules_where_the_file_is_silent() {
    // Each from the ONNX operator reference, for an image of 3x8x8.
    type Case = (&'static str, &'static [&'static str], Vec<AttributeProto>, &'static [usize]);
    let cases: [Case; 8] = [
        ("LpPool", &["x"], vec![with::ints("kernel_shape", vec![2, 2]), with::ints("strides", vec![2, 2])], &[3, 4, 4]),
        ("Tile", &["x", "repeats"], vec![], &[3, 16, 24]),
        ("ArgMax", &["x"], vec![with::int("axis", 1), with::int("keepdims", 0)], &[8, 8]),
        ("TopK", &["x", "count"], vec![], &[3, 8, 2]),
        ("ReduceL2", &["x"], vec![with::ints("axes", vec![-1])], &[3, 8, 1]),
        ("ConvTranspose", &["x", "w"], vec![with::ints("strides", vec![2, 2])], &[5, 16, 16]),
        ("SpaceToDepth", &["x"], vec![with::int("blocksize", 2)], &[12, 4, 4]),
        ("Einsum", &["x", "x"], vec![text("equation", "bchw,bkhw->bck")], &[3, 3]),
    ];
    for (operator, inputs, attributes, shape) in cases {
        let draft = Draft::new().numbers("repeats", &[1, 1, 2, 3]).numbers("count", &[2]).weight("w", [3, 5, 2, 2]);
        let draft = draft.node(operator, inputs, "u", attributes);
        let mut draft = draft.node("Relu", &["u"], "y", vec![]).output("y");
        if operator == "TopK" {
            draft.graph().node.iter_mut().find(|node| node.op_type() == "TopK").unwrap().output.push("places".into());
        }
        let loaded = draft.load();
        assert_eq!(loaded.network.output_shape(), &Shape::new(shape), "{operator}");
        assert!(loaded.network.coverage().is_full(), "{operator}");
        assert!(loaded.warnings.is_empty(), "no guess: {:?}", loaded.warnings);
        rewritten(&loaded.network);
    }
}

#[test]
fn what_nothing_tells_is_called_a_guess() {
    let draft = Draft::new().node("Frobnicate", &["x"], "f", vec![]).node("Relu", &["f"], "y", vec![]).output("y");
    let loaded = draft.load();
    assert!(
        loaded.warnings[1].contains("nothing gives the shape of what node \"f\" (Frobnicate) gives"),
        "{:?}",
        loaded.warnings
    );
}

#[test]
fn the_default_exporters_zero_biases_are_none() {
    // dynamo=True, optimize=False: Expand(CastLike(0, x), Shape(weight)[0:1]).
    let draft = Draft::new().weight("c.weight", [4, 3, 1, 1]).number("zero", 0.0).numbers("one", &[1]);
    let ends = vec![with::int("start", 0), with::int("end", 1)];
    let draft = draft.node("Shape", &["c.weight"], "n", ends).node("Expand", &["n", "one"], "count", vec![]);
    let draft = draft.node("CastLike", &["zero", "x"], "z", vec![]).node("Expand", &["z", "count"], "bias", vec![]);
    let network = draft.node("Conv", &["x", "c.weight", "bias"], "y", vec![]).output("y").load().network;
    assert_eq!((network.nodes()[1].op.clone(), network.parameters()), (conv(4, Window::square(1, 1, 0)), 12));
}

/// One convolution as PyTorch's default exporter leaves it.
pub(crate) fn one_conv() -> Draft {
    let draft = Draft::new().weight("c.weight", [4, 3, 1, 1]);
    draft.node("Conv", &["x", "c.weight"], "y", vec![]).output("y")
}

#[test]
fn the_default_exporters_folding_is_noticed_and_stays_known() {
    let rule =
        one_conv().noted("pkg.onnxscript.rewriter.rule_name", "FuseBatchNormIntoConv, RemoveOptionalBiasFromConv");
    let operation =
        "%_native_batch_norm_legit_functional : call_function[target=torch.ops.aten._native_batch_norm_legit]";
    let origin = one_conv().noted("pkg.torch.onnx.fx_node", operation);
    let named = Draft::new().weight("c.weight", [4, 3, 1, 1]).weight("c.weight_bias", [4]);
    let named = named.node("Conv", &["x", "c.weight", "c.weight_bias"], "y", vec![]).output("y");
    for draft in [rule, origin, named] {
        let loaded = draft.load();
        assert!(loaded.network.is_folded());
        assert!(
            loaded.warnings[0].contains("dynamo=True")
                && loaded.warnings[0].contains("torch.onnx.export(model.train()")
        );
        assert_eq!(rewritten(&loaded.network).warnings, loaded.warnings, "in what is written from it too");
    }
    let own = one_conv()
        .noted("pkg.torch.onnx.fx_node", "%conv2d : call_function[target=torch.ops.aten.conv2d.default]")
        .load();
    assert!(!own.network.is_folded());
    assert_eq!(own.warnings, Vec::<String>::new());
}

/// `BatchNorm2d(affine=False)` behind a convolution, as the default exporter folds it.
#[test]
fn folded_batch_normalisations_without_parameters_are_restored() {
    let note = "%_native_batch_norm_legit_functional : [num_users=3] = call_function[target=torch.ops.aten._native_batch_norm_legit_functional.default](args = \
                (%conv2d, None, None, %b_n_running_mean, %b_n_running_var, True, 0.1, 1e-05), kwargs = {})";
    let loaded = one_conv().noted("pkg.torch.onnx.fx_node", note).load();
    let [_, conv, norm] = loaded.network.nodes() else { panic!("{:?}", loaded.network.nodes()) };
    assert_eq!((&norm.op, norm.trained), (&Op::BatchNorm { axis: 0 }, Some(0)));
    assert_eq!(loaded.network.parameters(), loaded.network.parameters_of(conv));
}

#[test]
fn tensors_that_the_exporter_computed_ahead_are_told() {
    // A table of 169 rows is trained; 2,401 were looked up in it.
    let draft =
        Draft::new().stored("table", floats(&[3, 8, 8], &[0.5; 192])).stored("bias", floats(&[3, 1, 1], &[0.5; 3]));
    let draft =
        draft.node("Add", &["x", "table"], "a", vec![]).noted("pkg.torch.onnx.fx_node", "%add(args = (%x, %index))");
    let draft = draft
        .node("Add", &["a", "bias"], "y", vec![])
        .noted("pkg.torch.onnx.fx_node", "%add_1(args = (%add, %p_bias))");
    let loaded = draft.output("y").load();
    assert!(loaded.warnings[0].contains("computed 1 tensor ahead (\"table\" is one)"), "{:?}", loaded.warnings);
}

/// timm's ScaledStdConv2d: filters normalised over all but their first axis, times a trained gain.
pub(crate) fn standardised() -> Draft {
    let draft = Draft::new().weight("c.weight", [4, 3, 2, 2]).weight("c.gain", [4, 1, 1, 1]).weight("c.bias", [4]);
    let draft =
        draft.numbers("rows", &[1, 4, -1]).node("Reshape", &["c.weight", "rows"], "flat", vec![]).number("k", 0.25);
    let draft = draft.numbers("vector", &[-1]).node("Mul", &["c.gain", "k"], "scaled", vec![]);
    let draft = draft.node("Reshape", &["scaled", "vector"], "scale", vec![]).number("0.0", 0.0).numbers("four", &[4]);
    let draft = draft.node("Expand", &["0.0", "four"], "shift", vec![]);
    let axes = |keep| vec![with::ints("axes", vec![0, 2]), with::int("keepdims", keep)];
    let draft = draft.node("ReduceMean", &["flat"], "mean", axes(0)).node("ReduceMean", &["flat"], "kept", axes(1));
    let draft =
        draft.node("Sub", &["flat", "kept"], "centred", vec![]).node("Mul", &["centred", "centred"], "square", vec![]);
    let draft = draft.node("ReduceMean", &["square"], "variance", axes(0)).numbers("as", &[4, 3, 2, 2]);
    let draft = draft.node("BatchNormalization", &["flat", "scale", "shift", "mean", "variance"], "normal", vec![]);
    draft.node("Reshape", &["normal", "as"], "filters", vec![]).node("Conv", &["x", "filters", "c.bias"], "c", vec![])
}

#[test]
fn filters_computed_from_weights_are_filters_with_all_that_is_trained() {
    let network = standardised()
        .weight("head", [5, 4, 7, 7])
        .node("Conv", &["c", "head"], "y", vec![])
        .output("y")
        .load()
        .network;
    assert!(network.coverage().is_full(), "{:?}", network.coverage());
    let layer = named(&network, "c");
    assert_eq!(layer.op.kind(), "conv");
    assert_eq!(network.parameters_of(layer), 4 * 3 * 2 * 2 + 4 + 4, "filters, gains, biases");
    assert_eq!(network.macs_of(layer), 4 * 3 * 2 * 2 * 49);
    rewritten(&network);
}

#[test]
fn a_table_computed_from_parameters_is_one_leaf_with_their_number() {
    // Swin v2: a small network computes a table from relative coordinates, a buffer; rows of the table are looked up.
    let draft = Draft::new()
        .weight("attn.relative_coords_table", [1, 15, 15, 2])
        .weight("mlp.0.weight", [2, 16])
        .weight("mlp.0.bias", [16]);
    let draft = draft.weight("mlp.2.weight", [16, 3]).node(
        "MatMul",
        &["attn.relative_coords_table", "mlp.0.weight"],
        "p",
        vec![],
    );
    let draft = draft.node("Add", &["p", "mlp.0.bias"], "s", vec![]).node("Relu", &["s"], "r", vec![]);
    let draft = draft
        .node("MatMul", &["r", "mlp.2.weight"], "t", vec![])
        .numbers("list", &[225, 3])
        .numbers("shape", &[8, 8, 3]);
    let draft = draft.node("Reshape", &["t", "list"], "rows", vec![]);
    let index: Vec<i64> = (0..64).collect();
    let draft = draft.numbers("index", &index).node("Gather", &["rows", "index"], "looked_up", vec![]);
    let draft = draft.node("Reshape", &["looked_up", "shape"], "table", vec![]);
    let draft = draft.node("Transpose", &["table"], "bias", vec![with::ints("perm", vec![2, 0, 1])]);
    let network = draft.node("Add", &["x", "bias"], "y", vec![]).output("y").load().network;
    assert!(network.coverage().is_full(), "{:?}", network.coverage());
    assert_eq!(network.parameters(), 2 * 16 + 16 + 16 * 3);
    assert_eq!(network.output_shape(), &Shape::new([3, 8, 8]));
    rewritten(&network);
}

#[test]
fn a_table_nobody_trains_survives_too() {
    // Repeated for every sample, and not a parameter.
    let draft =
        Draft::new().weight("position.buffer", [1, 3, 8, 8]).node("Shape", &["x"], "s", vec![with::int("end", 1)]);
    let draft = draft.numbers("rest", &[3, 8, 8]).node("Concat", &["s", "rest"], "target", vec![with::int("axis", 0)]);
    let draft = draft.node("Expand", &["position.buffer", "target"], "p", vec![]);
    let network = draft.node("Concat", &["x", "p"], "y", vec![with::int("axis", 1)]).output("y").load().network;
    assert_eq!((network.parameters(), network.output_shape()), (0, &Shape::new([6, 8, 8])));
    rewritten(&network);
}

#[test]
fn buffers_are_no_parameters() {
    let depthwise = || vec![with::int("group", 3), with::ints("strides", vec![2, 2])];
    let named = Draft::new().weight("pool.filt", [3, 1, 2, 2]).node("Conv", &["x", "pool.filt"], "y", depthwise());
    let noted = Draft::new().stored("pool.kernel", floats(&[3, 1, 2, 2], &[0.25; 12]));
    let noted = noted.node("Conv", &["x", "pool.kernel"], "y", depthwise());
    let noted = noted.noted("pkg.torch.onnx.fx_node", "%conv2d : call(args = (%x, %b_pool_kernel, None, [2, 2]))");
    let constant =
        Draft::new().node("Constant", &[], "k", vec![with::tensor("value", floats(&[3, 1, 2, 2], &[0.25; 12]))]);
    let constant = constant.node("Conv", &["x", "k"], "y", depthwise());
    for draft in [named, noted, constant] {
        let network = draft.output("y").load().network;
        assert_eq!((network.parameters(), network.macs()), (0, 3 * 4 * 16));
        rewritten(&network);
    }
}

#[test]
fn running_statistics_are_no_parameters_wherever_the_channels_lie() {
    // LeViT normalises all tokens of all samples together: (B * N) x C.
    let draft = ["weight", "bias", "running_mean", "running_var"]
        .iter()
        .fold(Draft::new(), |draft, name| draft.weight(&format!("bn.{name}"), [8]));
    let draft = draft.numbers("rows", &[-1, 8]).node("Reshape", &["x", "rows"], "r", vec![]);
    let inputs = ["r", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"];
    let draft = draft.node("BatchNormalization", &inputs, "n", vec![]).numbers("image", &[-1, 3, 8, 8]);
    let network = draft.node("Reshape", &["n", "image"], "y", vec![]).output("y").load().network;
    assert_eq!((network.parameters(), network.output_shape()), (16, &Shape::new([3, 8, 8])));
    rewritten(&network);
}

#[test]
fn what_is_not_understood_is_written_as_it_was() {
    // PyTorch never interpolates along the channels.
    let scales = floats(&[4], &[1.0, 2.0, 2.0, 2.0]);
    let draft = Draft::new().stored("scales", scales).stored("c.weight", floats(&[4, 3, 1, 1], &[0.5; 12]));
    let draft = draft.node("Conv", &["x", "c.weight"], "c", vec![]);
    let draft = draft.node("Resize", &["c", "", "scales"], "r", vec![text("mode", "nearest")]);
    let network = draft.node("Relu", &["r"], "y", vec![]).output("y").load().network;
    assert_eq!(network.output_shape(), &Shape::new([8, 16, 16]));
    let written =
        file::read(Cursor::new(to_bytes(&network)), to_bytes(&network).len() as u64).unwrap().model.graph.unwrap();
    let kept = written.node.iter().find(|node| node.op_type() == "Resize").unwrap();
    assert_eq!(
        (kept.domain(), kept.input.len(), kept.attribute.as_slice()),
        ("", 3, [text("mode", "nearest")].as_slice())
    );
    let factors = written.node.iter().find(|node| node.output[0] == kept.input[2]).unwrap();
    assert_eq!(factors.attribute[0].t.as_ref().unwrap().float_data, [1.0, 2.0, 2.0, 2.0]);
    rewritten(&network);
}

#[test]
fn an_operation_keeps_its_layout_its_domain_and_the_batch_in_its_numbers() {
    let draft = Draft::new().numbers("sequence", &[2, 0, 1, 3]).node(
        "Transpose",
        &["x"],
        "t",
        vec![with::ints("perm", vec![2, 0, 1, 3])],
    );
    let mut draft = draft.node("Frobnicate", &["t"], "f", vec![with::int("speed", 3)]);
    draft.graph().node[2].domain = Some("com.acme".into());
    draft.graph().value_info.push(Draft::typed("f", [Is(8), Named("batch"), Is(3), Is(8)], DataType::Float));
    // As many rows as the batch times three: Expand to a shape that the graph computes.
    let draft =
        draft.node("Shape", &["x"], "s", vec![with::int("start", 0), with::int("end", 1)]).numbers("rest", &[3, 8, 8]);
    let draft = draft.node("Transpose", &["f"], "back", vec![with::ints("perm", vec![1, 2, 0, 3])]);
    let draft = draft
        .node("Concat", &["s", "rest"], "target", vec![with::int("axis", 0)])
        .numbers("cut", &[2])
        .numbers("three", &[3]);
    let one = vec![with::ints("axes", vec![2]), with::int("keepdims", 1)];
    let draft = draft.node("ReduceMax", &["back"], "m", one).node("Expand", &["m", "target"], "y", vec![]).output("y");
    let network = draft.load().network;
    assert_eq!(network.output_shape(), &Shape::new([3, 8, 8]));
    rewritten(&network);
}

#[test]
fn transposed_convolutions_of_sequences_run_on_images_with_one_row() {
    let draft = Draft::opset(17).input("x", [Named("batch"), Is(16), Is(24)]).weight("w", [16, 8, 4]);
    let attributes = vec![with::ints("strides", vec![2]), with::ints("pads", vec![1, 1])];
    let network = draft.node("ConvTranspose", &["x", "w"], "y", attributes).output("y").load().network;
    // torch.nn.ConvTranspose1d: (24 - 1) * 2 - 2 * 1 + (4 - 1) + 1. Every number of the input is multiplied with 8 x 4 weights.
    assert_eq!(network.output_shape(), &Shape::new([8, 48]));
    assert_eq!((network.parameters(), network.macs()), (16 * 8 * 4, 16 * 24 * 8 * 4));
    rewritten(&network);
}

#[test]
fn samples_that_are_sorted_are_no_reason_to_refuse_a_network() {
    let draft = Draft::opset(17).input("x", [Named("batch"), Is(8)]).numbers("zero", &[0]);
    let draft = draft.node("Shape", &["x"], "sizes", vec![]).node("Gather", &["sizes", "zero"], "samples", vec![]);
    let sorted = draft.node("TopK", &["x", "samples"], "s", vec![with::int("axis", 0)]);
    let network = sorted.node("Relu", &["s"], "y", vec![]).output("y").load().network;
    assert_eq!(network.coverage().unknown.keys().collect::<Vec<_>>(), ["TopK"]);
}

#[test]
fn sequences_are_their_parts() {
    let draft = Draft::new().numbers("sizes", &[1, 2]).node(
        "SplitToSequence",
        &["x", "sizes"],
        "q",
        vec![with::int("axis", 1)],
    );
    let draft = draft.node("Constant", &[], "last", vec![with::int("value_int", -1)]).node(
        "SequenceAt",
        &["q", "last"],
        "b",
        vec![],
    );
    let ops = draft.node("Relu", &["b"], "y", vec![]).output("y").ops();
    assert_eq!(ops, [Op::Slice { axis: 0, start: 1, length: 2 }, Op::Activation(Activation::Relu)]);
}
