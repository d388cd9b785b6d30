//! Normalisations as exporters write them.

use crate::tests::*;

const OPERATION: &str = "pkg.torch.onnx.fx_node";

impl Draft {
    pub(crate) fn signed(mut self, signature: &str) -> Draft {
        let key = Some("pkg.torch.export.ExportedProgram.graph_signature".into());
        self.graph().metadata_props.push(StringStringEntryProto { key, value: Some(signature.into()) });
        self
    }
}

#[test]
fn a_normalisation_of_groups_is_one_operation_again() {
    // nn.GroupNorm(2, 4) of the older exporter: reshaped groups, ones and zeros as their scale and shift, then the trained ones.
    let ones = |value: f32| with::tensor("value", floats(&[2], &[value; 2]));
    let draft = Draft::opset(17).input("x", [Named("batch"), Is(4), Is(8), Is(8)]);
    let draft = draft.weight("norm.weight", [4]).weight("norm.bias", [4]).numbers("groups", &[0, 2, -1]);
    let draft = draft.node("Constant", &[], "ones", vec![ones(1.0)]).node("Constant", &[], "zeros", vec![ones(0.0)]);
    let draft = draft.node("Reshape", &["x", "groups"], "g", vec![]);
    let draft = draft.node("InstanceNormalization", &["g", "ones", "zeros"], "n", vec![]);
    let draft = draft.node("Shape", &["x"], "shape", vec![]).node("Reshape", &["n", "shape"], "r", vec![]);
    let draft = draft.numbers("axes", &[1, 2]).node("Unsqueeze", &["norm.weight", "axes"], "w", vec![]);
    let draft = draft.node("Unsqueeze", &["norm.bias", "axes"], "b", vec![]).node("Mul", &["r", "w"], "s", vec![]);
    let network = draft.node("Add", &["s", "b"], "y", vec![]).output("y").load().network;
    let ops: Vec<&Op> = network.nodes()[1..].iter().map(|node| &node.op).collect();
    assert_eq!(ops, [&Op::GroupNorm { groups: 2, affine: Affine::ScaleAndShift }]);
    assert_eq!((network.nodes()[1].name.as_str(), network.parameters()), ("norm", 8));
    rewritten(&network);
}

#[test]
fn a_normalisation_of_channels_keeps_what_is_trained_of_it() {
    let draft = Draft::new().weight("norm.weight", [3]).weight("norm.bias", [3]);
    let draft = draft.node("InstanceNormalization", &["x", "norm.weight", "norm.bias"], "y", vec![]).output("y");
    assert_eq!(draft.ops(), [Op::GroupNorm { groups: 3, affine: Affine::ScaleAndShift }]);
    let fixed = |value| with::tensor("value", floats(&[8], &[value; 8]));
    let draft = Draft::new().node("Constant", &[], "ones", vec![fixed(1.0)]);
    let bare = draft.node("LayerNormalization", &["x", "ones"], "y", vec![]).output("y");
    assert_eq!(bare.ops(), [Op::LayerNorm { axis: 2, affine: Affine::None }]);
    rewritten(&bare.load().network);
    let scaled = Draft::new().weight("norm.weight", [8]);
    let scaled = scaled.node("LayerNormalization", &["x", "norm.weight"], "y", vec![]).output("y");
    assert_eq!(
        (scaled.ops(), scaled.load().network.parameters()),
        (vec![Op::LayerNorm { axis: 2, affine: Affine::Scale }], 8)
    );
    rewritten(&scaled.load().network);
}

#[test]
fn tokens_are_normalised_as_samples_of_their_own() {
    // timm's LeViT: Linear, then BatchNorm1d over x.flatten(0, 1).
    let draft = ["bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"]
        .iter()
        .fold(Draft::opset(17).image(), |draft, name| draft.weight(name, [8]));
    let draft = draft.numbers("rows", &[-1, 8]).node("Reshape", &["x", "rows"], "r", vec![]);
    let inputs = ["r", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"];
    let draft = draft.node("BatchNormalization", &inputs, "n", vec![]).also(&["a", "b", "c", "d"]);
    let draft = draft.node("Shape", &["x"], "shape", vec![]).node("Reshape", &["n", "shape"], "y", vec![]).output("y");
    let network = draft.load().network;
    assert_eq!(network.nodes()[2].op, Op::BatchNorm { axis: 1 });
    assert_eq!((network.nodes()[2].shape.dims(), network.parameters()), ([24, 8].as_slice(), 16));
    rewritten(&network);
}

#[test]
fn a_normalisation_of_one_channel_has_a_scale_and_a_shift() {
    // nn.Conv2d(3, 1, 1) and nn.BatchNorm2d(1), stored with their values: 3 + 1 and 1 + 1 parameters, as PyTorch counts.
    let one = |value| floats(&[1], &[value]);
    let stored = [("gate.bias", 0.1), ("norm.weight", 1.0), ("norm.bias", 0.0)];
    let statistics = [("norm.running_mean", 0.0), ("norm.running_var", 1.0)];
    let draft = Draft::new().weight("gate.weight", [1, 3, 1, 1]);
    let draft = stored.into_iter().chain(statistics).fold(draft, |draft, (name, value)| draft.stored(name, one(value)));
    let draft = draft.node("Conv", &["x", "gate.weight", "gate.bias"], "g", vec![]);
    let inputs = ["g", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var"];
    let network = draft.node("BatchNormalization", &inputs, "y", vec![]).output("y").load().network;
    assert_eq!(network.nodes()[2].op, Op::BatchNorm { axis: 0 });
    assert_eq!(network.parameters(), 6);
}

#[test]
fn batch_norm_that_the_default_exporter_folded_is_taken_from_its_notes() {
    let normalisation = "%norm : [num_users=3] = call_function[target=torch.ops.aten._native_batch_norm_legit_functional.default]\
                         (args = (%conv2d, %p_n_1_weight, %p_n_1_bias, %b_n_1_running_mean, %b_n_1_running_var, True, 0.1, 1e-05))";
    let signature = "p_c_weight: PARAMETER target='c.weight'\np_n_1_weight: PARAMETER target='n.1.weight'\n\
                     p_n_1_bias: PARAMETER target='n.1.bias'\nb_n_1_running_mean: BUFFER target='n.1.running_mean' persistent=True";
    let with_bias = format!("{signature}\np_c_bias: PARAMETER target='c.bias'");
    // Filters of 4x3x1x1, scale and shift of 4 each. The bias that folding made is not a parameter; the layer's own may be lost.
    for (signature, parameters) in [(signature, 12 + 8), (with_bias.as_str(), 12 + 4 + 8)] {
        let draft = Draft::new().weight("c.weight", [4, 3, 1, 1]).weight("c.weight_bias", [4]);
        let draft =
            draft.node("Conv", &["x", "c.weight", "c.weight_bias"], "y", vec![]).noted(OPERATION, normalisation);
        let loaded = draft.output("y").signed(signature).load();
        let names: Vec<&str> = loaded.network.nodes()[1..].iter().map(|node| node.name.as_str()).collect();
        assert_eq!((names, loaded.network.parameters()), (vec!["c", "n.1"], parameters));
        assert_eq!(loaded.network.nodes()[2].op, Op::BatchNorm { axis: 0 });
        assert!(!loaded.network.is_folded());
        assert!(loaded.warnings[0].contains("folded 1 batch normalisation "), "{:?}", loaded.warnings);
    }
}

#[test]
fn a_normalisation_that_runs_twice_is_one_in_files_of_ours_too() {
    let mut builder = NetworkBuilder::new("twice", Shape::new([12, 32]));
    let norm = || Op::LayerNorm { axis: 1, affine: Affine::ScaleAndShift };
    let first = builder.add("norm", norm(), &[builder.input()]).unwrap();
    let middle = builder.add("exp", Op::Activation(Activation::Exp), &[first]).unwrap();
    let second = builder.add("elsewhere", norm(), &[middle]).unwrap();
    builder.share(second, first).unwrap();
    let network = builder.finish(second);
    assert_eq!(network.parameters(), 64);
    rewritten(&network);
}

#[test]
fn a_normalisation_of_groups_that_runs_twice_counts_once() {
    // self.h(self.h(x)), h being nn.Sequential with nn.GroupNorm(2, 4) as its second: the older exporter numbers the scope `h.1`.
    let ones = |value: f32| with::tensor("value", floats(&[2], &[value; 2]));
    let mut draft = Draft::opset(17).input("x", [Named("batch"), Is(4), Is(8), Is(8)]);
    draft =
        draft.weight("h.1.weight", [4]).weight("h.1.bias", [4]).numbers("groups", &[0, 2, -1]).numbers("axes", &[1, 2]);
    draft = draft.node("Constant", &[], "ones", vec![ones(1.0)]).node("Constant", &[], "zeros", vec![ones(0.0)]);
    draft = draft.node("Shape", &["x"], "shape", vec![]);
    for (input, scope) in [("x", "/h/h.1"), ("/h/h.1/Add", "/h/h.1_1")] {
        let named = |node: &str| format!("{scope}/{node}");
        draft = draft.node("Reshape", &[input, "groups"], &named("Reshape"), vec![]);
        let operands = [&*named("Reshape"), "ones", "zeros"];
        draft = draft.node("InstanceNormalization", &operands, &named("InstanceNormalization"), vec![]);
        draft = draft.node("Reshape", &[&named("InstanceNormalization"), "shape"], &named("Reshape_1"), vec![]);
        draft = draft.node("Unsqueeze", &["h.1.weight", "axes"], &named("Unsqueeze"), vec![]);
        draft = draft.node("Unsqueeze", &["h.1.bias", "axes"], &named("Unsqueeze_1"), vec![]);
        draft = draft.node("Mul", &[&named("Reshape_1"), &named("Unsqueeze")], &named("Mul"), vec![]);
        draft = draft.node("Add", &[&named("Mul"), &named("Unsqueeze_1")], &named("Add"), vec![]);
    }
    let network = draft.output("/h/h.1_1/Add").load().network;
    assert_eq!((network.parameters(), network.nodes().len()), (8, 3));
    assert!(network.nodes()[2].shares.is_some());
    rewritten(&network);
}
