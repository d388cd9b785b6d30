//! What is left of the weights of small networks, by hand.

use super::*;
use crate::attributes;
use crate::tests::{Draft, floats};
use perf4sight_network::{Conv, NetworkBuilder, Op, Shape, Window};

#[test]
fn rows_and_columns_stay_in_order() {
    // A matrix of 3 rows and 4 columns of one byte each.
    let matrix = || TensorValues { dims: vec![3, 4], raw: (0..12).collect() };
    let mut values = matrix();
    values.keep(0, Some(&[0, 2]));
    values.keep(1, Some(&[1, 3]));
    assert_eq!((values.dims, values.raw), (vec![2, 2], vec![1, 3, 9, 11]));
    let mut whole = matrix();
    whole.keep(0, Some(&[5]));
    whole.keep(7, Some(&[0]));
    whole.keep(1, None);
    assert_eq!(whole.raw, matrix().raw);
}

/// A file of a network, with weights that count up from 0 in every tensor.
fn counting_file(network: &Network) -> Vec<u8> {
    let mut model = ModelProto::decode(crate::to_bytes(network).as_slice()).expect("what was written can be read");
    let graph = model.graph.as_mut().expect("a network has a graph");
    let weights = graph.input.split_off(1).into_iter().map(|input| {
        let Some(type_proto::Value::TensorType(tensor)) = input.r#type.and_then(|kind| kind.value) else {
            return TensorProto::default();
        };
        let sizes = tensor.shape.unwrap_or_default().dim.into_iter().filter_map(|size| size.value);
        let dims: Vec<i64> =
            sizes.map(|size| if let dimension::Value::DimValue(size) = size { size } else { 0 }).collect();
        let values = (0..dims.iter().product::<i64>()).map(|value| value as f32);
        TensorProto {
            name: input.name,
            dims,
            data_type: Some(1),
            float_data: values.collect(),
            ..TensorProto::default()
        }
    });
    graph.initializer = weights.collect();
    model.encode_to_vec()
}

/// The values of every initializer of a file, by name.
fn weights(file: &Path) -> BTreeMap<String, (Vec<i64>, Vec<f64>)> {
    let bytes = std::fs::read(file).expect("it was written");
    let model = ModelProto::decode(bytes.as_slice()).expect("it is ONNX");
    let tensors = model.graph.unwrap_or_default().initializer.into_iter();
    let values = |tensor: &TensorProto| tensor::values(tensor).unwrap_or_default();
    tensors.map(|tensor| (tensor.name().to_owned(), (tensor.dims.clone(), values(&tensor)))).collect()
}

/// 2 channels, a convolution to `filters`, a normalisation, a depthwise convolution, and one back to 2.
fn network(filters: usize) -> Result<Network> {
    let mut builder = NetworkBuilder::new("small", Shape::new([2, 4, 4]));
    let conv = |out_channels, groups| {
        Op::Conv(Conv { out_channels, window: Window::square(1, 1, 0), groups, bias: groups == 1 })
    };
    let mut at = builder.input();
    let layers = [
        ("wide", conv(filters, 1)),
        ("norm", Op::BatchNorm { axis: 0 }),
        ("deep", conv(filters, filters)),
        ("back", conv(2, 1)),
    ];
    for (name, op) in layers {
        at = builder.add(name, op, &[at])?;
    }
    Ok(builder.finish(at))
}

#[test]
fn the_remaining_weights_are_those_of_the_original() -> Result<()> {
    let folder = tempfile::TempDir::new().expect("a folder for the test");
    let [source, out] = ["small.onnx", "smaller.onnx"].map(|name| folder.path().join(name));
    std::fs::write(&source, counting_file(&network(3)?)).expect("a new folder can be written to");
    // The middle one of three filters goes.
    let left = [0, 2];
    let kept = |inputs, outputs| KeptPositions { inputs, outputs, axis_from_last: 3 };
    let kept = BTreeMap::from([
        ("wide", kept(None, Some(left.as_slice()))),
        ("norm", kept(Some(&left), Some(&left))),
        ("deep", kept(Some(&left), Some(&left))),
        ("back", kept(Some(&left), None)),
    ]);
    write_pruned([&source, &out], &NamedDims::new(), &network(2)?, &kept, false)?;
    let weights = weights(&out);
    // Rows of two of the first matrix of 3 x 2, columns of the last of 2 x 3, by hand.
    let expected = [
        ("wide.weight", vec![2, 2, 1, 1], vec![0.0, 1.0, 4.0, 5.0]),
        ("wide.bias", vec![2], vec![0.0, 2.0]),
        ("norm.running_var", vec![2], vec![0.0, 2.0]),
        ("deep.weight", vec![2, 1, 1, 1], vec![0.0, 2.0]),
        ("back.weight", vec![2, 2, 1, 1], vec![0.0, 2.0, 3.0, 5.0]),
        ("back.bias", vec![2], vec![0.0, 1.0]),
    ];
    for (name, dims, values) in expected {
        assert_eq!(weights.get(name), Some(&(dims, values)), "{name} of {:?}", weights.keys());
    }
    // What was written is the pruned network. It is replaced, by the network without weights too, until somebody trains its weights.
    assert_eq!(crate::read(&out)?.network.nodes().len(), network(2)?.nodes().len());
    crate::write(&network(2)?, &out)?;
    write_pruned([&source, &out], &NamedDims::new(), &network(2)?, &kept, false)?;
    let mut trained = std::fs::read(&out).expect("it was written");
    let middle = trained.len() / 2;
    trained[middle] ^= 1;
    std::fs::write(&out, &trained).expect("it can be written to");
    assert!(write_pruned([&source, &out], &NamedDims::new(), &network(2)?, &kept, false).is_err());
    assert!(crate::write(&network(2)?, &out).is_err());
    // Without the cut of the depthwise layer it would be another network.
    let less = kept.into_iter().filter(|(layer, _)| *layer != "deep").collect();
    let refused = write_pruned([&source, &out], &NamedDims::new(), &network(2)?, &less, true);
    assert!(refused.is_err_and(|error| error.to_string().contains("perf4sight.prune")));
    Ok(())
}

#[test]
fn filters_of_groups_keep_the_channels_of_their_group() {
    // Four filters in two groups, each of which reads three of six channels: filter 2 is the first of the second group.
    let mut values = TensorValues { dims: vec![4, 3, 1], raw: (0..12).collect() };
    let kept = KeptPositions { inputs: Some(&[0, 2, 4, 5]), outputs: Some(&[1, 2]), axis_from_last: 3 };
    values.keep_of_groups(2, [kept.outputs, kept.inputs]);
    assert_eq!((values.dims, values.raw), (vec![2, 2, 1], vec![3, 5, 7, 8]));
}

/// A tensor whose values count up from 0.
fn counting(dims: &[i64]) -> TensorProto {
    floats(dims, &(0..dims.iter().product()).map(|value: i64| value as f32).collect::<Vec<_>>())
}

/// A convolution to `filters`, and a layer to `features`, whose biases are added behind them; their names tell nothing, as of files of PyTorch before 1.4.
fn with_biases_behind(filters: usize, features: usize) -> Draft {
    let [wide, high] = [filters, features].map(|channels| channels as i64);
    let draft = Draft::new().stored("1", counting(&[wide, 3, 1, 1])).stored("2", counting(&[1, wide, 1, 1]));
    let draft =
        draft.stored("3", counting(&[wide, high])).stored("4", counting(&[high])).stored("5", counting(&[high, 2]));
    let draft = draft.node("Conv", &["x", "1"], "wide", vec![]).node("Add", &["wide", "2"], "sum", vec![]);
    let draft = draft.node("GlobalAveragePool", &["sum"], "mean", vec![]).node("Flatten", &["mean"], "flat", vec![]);
    let draft = draft.node("MatMul", &["flat", "3"], "high", vec![]).node("Add", &["high", "4"], "bent", vec![]);
    draft.node("MatMul", &["bent", "5"], "y", vec![]).output("y")
}

#[test]
fn a_bias_that_is_added_behind_its_layer_is_cut_with_it() -> Result<()> {
    let folder = tempfile::TempDir::new().expect("a folder for the test");
    let [source, out] = ["old.onnx", "smaller.onnx"].map(|name| folder.path().join(name));
    std::fs::write(&source, with_biases_behind(3, 4).bytes()).expect("a new folder can be written to");
    let (wide, high) = ([0, 2], [1, 2, 3]);
    let kept = |inputs, outputs, axis_from_last| KeptPositions { inputs, outputs, axis_from_last };
    let kept = BTreeMap::from([
        ("wide", kept(None, Some(wide.as_slice()), 3)),
        ("high", kept(Some(&wide), Some(&high), 1)),
        ("y", kept(Some(&high), None, 1)),
    ]);
    write_pruned([&source, &out], &NamedDims::new(), &with_biases_behind(2, 3).load().network, &kept, false)?;
    let weights = weights(&out);
    // The second of three filters goes, and the first of four features.
    assert_eq!(weights["2"], (vec![1, 2, 1, 1], vec![0.0, 2.0]));
    assert_eq!(weights["3"], (vec![2, 3], vec![1.0, 2.0, 3.0, 9.0, 10.0, 11.0]));
    assert_eq!(weights["4"], (vec![3], vec![1.0, 2.0, 3.0]));
    Ok(())
}

/// A convolution to `filters` of one pixel, seen as features in the sizes that PyTorch's default exporter writes, through a dropout.
fn with_view(filters: usize) -> Draft {
    let wide = filters as i64;
    let draft = Draft::new().stored("c.weight", counting(&[wide, 3, 8, 8])).stored("f.weight", counting(&[2, wide]));
    let draft = draft.stored("sizes", attributes::vector(vec![-1, wide]));
    let draft = draft.node("Conv", &["x", "c.weight"], "c", vec![]).node("Reshape", &["c", "sizes"], "view", vec![]);
    let draft = draft.node("Dropout", &["view"], "dropped", vec![]);
    draft.node("Gemm", &["dropped", "f.weight"], "f", vec![attributes::int("transB", 1)]).output("f")
}

#[test]
fn a_view_with_written_sizes_gives_what_the_layer_behind_it_reads() -> Result<()> {
    let folder = tempfile::TempDir::new().expect("a folder for the test");
    let [source, out] = ["view.onnx", "smaller.onnx"].map(|name| folder.path().join(name));
    std::fs::write(&source, with_view(4).bytes()).expect("a new folder can be written to");
    let left = [0, 3];
    let kept = |inputs, outputs, axis_from_last| KeptPositions { inputs, outputs, axis_from_last };
    let kept =
        BTreeMap::from([("c", kept(None, Some(left.as_slice()), 3)), ("f", kept(Some(left.as_slice()), None, 1))]);
    write_pruned([&source, &out], &NamedDims::new(), &with_view(2).load().network, &kept, false)?;
    let weights = weights(&out);
    assert_eq!(weights["view.sizes"], (vec![2], vec![-1.0, 2.0]));
    assert_eq!(weights["f.weight"], (vec![2, 2], vec![0.0, 3.0, 4.0, 7.0]));
    assert!(!weights.contains_key("sizes"), "nothing reads the sizes of before");
    Ok(())
}

#[test]
fn a_file_without_weights_is_refused_as_one() {
    let folder = tempfile::TempDir::new().expect("a folder for the test");
    let [source, out] = ["bare.onnx", "smaller.onnx"].map(|name| folder.path().join(name));
    let bare = network(3).expect("it can be built");
    std::fs::write(&source, crate::to_bytes(&bare)).expect("a new folder can be written to");
    let kept = BTreeMap::from([("wide", KeptPositions { inputs: None, outputs: Some(&[0, 2]), axis_from_last: 3 })]);
    let refused =
        write_pruned([&source, &out], &NamedDims::new(), &bare, &kept, false).map_err(|error| error.to_string());
    assert!(refused.is_err_and(|error| error.contains("holds no weights for \"wide\"")));
}

/// Two convolutions to `first` and `second` filters, whose biases are equal: the older exporter of PyTorch stores them once, behind an `Identity`.
fn with_equal_biases(first: usize, second: usize) -> Draft {
    let [one, two] = [first, second].map(|channels| channels as i64);
    let draft =
        Draft::new().stored("a.weight", counting(&[one, 3, 1, 1])).stored("b.weight", counting(&[two, one, 1, 1]));
    let draft = draft.stored("a.bias", counting(&[one])).stored("c.weight", counting(&[2, two, 1, 1]));
    let draft = match one == two {
        true => draft.node("Identity", &["a.bias"], "b.bias", vec![]),
        false => draft.stored("b.bias", counting(&[two])),
    };
    let draft = draft.node("Conv", &["x", "a.weight", "a.bias"], "a", vec![]);
    let draft = draft.node("Conv", &["a", "b.weight", "b.bias"], "b", vec![]);
    draft.node("Conv", &["b", "c.weight"], "y", vec![]).output("y")
}

/// Two convolutions to so many filters that read the same bias.
fn with_one_bias(filters: usize) -> Draft {
    let all = filters as i64;
    let draft = Draft::new().stored("a.weight", counting(&[all, 3, 1, 1])).stored("a.bias", counting(&[all]));
    let draft = draft.stored("b.weight", counting(&[all, all, 1, 1])).stored("c.weight", counting(&[2, all, 1, 1]));
    let draft = draft.node("Conv", &["x", "a.weight", "a.bias"], "a", vec![]);
    let draft = draft.node("Conv", &["a", "b.weight", "a.bias"], "b", vec![]);
    draft.node("Conv", &["b", "c.weight"], "y", vec![]).output("y")
}

#[test]
fn equal_biases_that_are_stored_once_keep_the_channels_of_their_layers() -> Result<()> {
    let folder = tempfile::TempDir::new().expect("a folder for the test");
    let [source, out] = ["equal.onnx", "smaller.onnx"].map(|name| folder.path().join(name));
    std::fs::write(&source, with_equal_biases(3, 3).bytes()).expect("a new folder can be written to");
    let (first, second) = ([0, 2], [1]);
    let kept = |inputs, outputs| KeptPositions { inputs, outputs, axis_from_last: 3 };
    let kept = BTreeMap::from([
        ("a", kept(None, Some(first.as_slice()))),
        ("b", kept(Some(&first), Some(&second))),
        ("c", kept(Some(&second), None)),
    ]);
    write_pruned([&source, &out], &NamedDims::new(), &with_equal_biases(2, 1).load().network, &kept, false)?;
    let weights = weights(&out);
    assert_eq!(weights["a.bias"], (vec![2], vec![0.0, 2.0]));
    assert_eq!(weights["b.bias"], (vec![1], vec![1.0]));
    Ok(())
}

/// Some exporters have two convolutions read one tensor, which is stored for each of them where they keep other channels.
#[test]
fn a_bias_that_two_layers_read_keeps_the_channels_of_each() -> Result<()> {
    let folder = tempfile::TempDir::new().expect("a folder for the test");
    let [source, out] = ["once.onnx", "smaller.onnx"].map(|name| folder.path().join(name));
    std::fs::write(&source, with_one_bias(3).bytes()).expect("a new folder can be written to");
    let both = |first: &[usize], second: &[usize]| {
        let of = [[None, Some(first)], [Some(first), Some(second)], [Some(second), None]];
        let kept = ["a", "b", "c"].into_iter().zip(of);
        let kept = kept.map(|(layer, [inputs, outputs])| (layer, KeptPositions { inputs, outputs, axis_from_last: 3 }));
        write_pruned([&source, &out], &NamedDims::new(), &with_one_bias(2).load().network, &kept.collect(), false)
    };
    both(&[0, 2], &[0, 1])?;
    let own = weights(&out);
    assert_eq!(own["a.bias"], (vec![2], vec![0.0, 2.0]));
    assert_eq!(own["a.copy1.bias"], (vec![2], vec![0.0, 1.0]));
    std::fs::remove_file(&out).expect("it was written");
    both(&[0, 2], &[0, 2])?;
    let one = weights(&out);
    assert_eq!(one["a.bias"], (vec![2], vec![0.0, 2.0]));
    assert!(!one.contains_key("a.copy1.bias"), "both read one tensor, which is stored once");
    Ok(())
}

/// Two convolutions, each behind a normalisation whose numbers are equal and stored once, with a scale that its block sees as an image of one pixel, as
/// timm's `LayerScale2d` does (`x * self.gamma.view(1, -1, 1, 1)`).
fn with_scales(first: usize, second: usize) -> Draft {
    let [one, two] = [first, second].map(|channels| channels as i64);
    let mut draft =
        Draft::new().stored("a.weight", counting(&[one, 3, 1, 1])).stored("b.weight", counting(&[two, one, 1, 1]));
    draft = draft.stored("c.weight", counting(&[2, two, 1, 1])).stored("n.weight", counting(&[one]));
    for name in ["n.bias", "m.bias", "m.weight", "b_scale", "a_scale"] {
        draft = match one == two {
            true => draft.node("Identity", &["n.weight"], name, vec![]),
            false => draft.stored(name, counting(&[if name.starts_with(['n', 'a']) { one } else { two }])),
        };
    }
    for (name, norm, scale, input, size) in [("a", "n", "a_scale", "x", one), ("b", "m", "b_scale", "da", two)] {
        let [weight, scales, bias] = [format!("{name}.weight"), format!("{norm}.weight"), format!("{norm}.bias")];
        let [made, normal, view, sizes, done] = ["", "n", "v", "s", "d"].map(|letter| format!("{letter}{name}"));
        draft = draft.stored(&sizes, attributes::vector(vec![1, size, 1, 1]));
        draft = draft.node("Conv", &[input, &weight], &made, vec![]);
        let read = [made.as_str(), &scales, &bias, &bias, &scales];
        draft = draft.node("BatchNormalization", &read, &normal, vec![]);
        draft = draft.node("Reshape", &[scale, &sizes], &view, vec![]).node("Mul", &[&normal, &view], &done, vec![]);
    }
    draft.node("Conv", &["db", "c.weight"], "y", vec![]).output("y")
}

#[test]
fn scales_and_normalisations_that_are_stored_once_keep_the_channels_of_their_layers() -> Result<()> {
    let folder = tempfile::TempDir::new().expect("a folder for the test");
    let [source, out] = ["scales.onnx", "smaller.onnx"].map(|name| folder.path().join(name));
    std::fs::write(&source, with_scales(3, 3).bytes()).expect("a new folder can be written to");
    let names: Vec<String> = crate::read(&source)?.network.nodes().iter().map(|node| node.name.to_string()).collect();
    let (first, second) = ([0, 2], [1]);
    // Input; a convolution, its normalisation, a scale and a product; the same again; the last convolution.
    let left = |index: usize| -> [Option<&[usize]>; 2] {
        match index {
            1 => [None, Some(&first)],
            2..=4 => [Some(&first), Some(&first)],
            5 => [Some(&first), Some(&second)],
            9 => [Some(&second), None],
            _ => [Some(&second), Some(&second)],
        }
    };
    assert_eq!(names.len(), 10, "{names:?}");
    let kept = names.iter().enumerate().skip(1).map(|(index, name)| {
        let [inputs, outputs] = left(index);
        (name.as_str(), KeptPositions { inputs, outputs, axis_from_last: 3 })
    });
    write_pruned([&source, &out], &NamedDims::new(), &with_scales(2, 1).load().network, &kept.collect(), false)?;
    let weights = weights(&out);
    for name in ["n.weight", "n.bias", "a_scale"] {
        assert_eq!(weights[name], (vec![2], vec![0.0, 2.0]), "{name}");
    }
    for name in ["m.weight", "m.bias", "b_scale"] {
        assert_eq!(weights[name], (vec![1], vec![1.0]), "{name}");
    }
    Ok(())
}

#[test]
fn what_is_stored_once_stays_so_where_nothing_is_cut() -> Result<()> {
    let folder = tempfile::TempDir::new().expect("a folder for the test");
    let [source, out] = ["whole.onnx", "same.onnx"].map(|name| folder.path().join(name));
    std::fs::write(&source, with_scales(3, 3).bytes()).expect("a new folder can be written to");
    write_pruned([&source, &out], &NamedDims::new(), &crate::read(&source)?.network, &BTreeMap::new(), false)?;
    assert_eq!(weights(&out).keys().collect::<Vec<_>>(), weights(&source).keys().collect::<Vec<_>>());
    Ok(())
}

/// The weights of a file by name, and its nodes.
type WrittenGraph = (BTreeMap<String, (Vec<i64>, Vec<f64>)>, Vec<NodeProto>);

/// Writes what remains of the nodes of a draft, by name.
fn written(
    [whole, less]: [&Draft; 2],
    kept: &[(&str, [Option<&[usize]>; 2])],
    axis_from_last: usize,
) -> Result<WrittenGraph> {
    let folder = tempfile::TempDir::new().expect("a folder for the test");
    let [source, out] = ["whole.onnx", "smaller.onnx"].map(|name| folder.path().join(name));
    std::fs::write(&source, whole.bytes()).expect("a new folder can be written to");
    let kept = kept
        .iter()
        .map(|(name, [inputs, outputs])| (*name, KeptPositions { inputs: *inputs, outputs: *outputs, axis_from_last }));
    write_pruned([&source, &out], &NamedDims::new(), &less.load().network, &kept.collect(), false)?;
    let bytes = std::fs::read(&out).expect("it was written");
    let model = ModelProto::decode(bytes.as_slice()).expect("it is ONNX");
    Ok((weights(&out), model.graph.unwrap_or_default().node))
}

/// A convolution whose result is scaled by numbers of an exporter, an image of one pixel, and shifted by a constant.
fn with_folded_scale(filters: usize) -> Draft {
    let wide = filters as i64;
    let draft = Draft::new().stored("a.weight", counting(&[wide, 3, 1, 1])).stored("view", counting(&[1, wide, 1, 1]));
    let draft = draft.stored("b.weight", counting(&[2, wide, 1, 1]));
    let draft = draft.node("Constant", &[], "shift", vec![attributes::tensor("value", counting(&[wide, 1, 1]))]);
    let draft = draft.node("Conv", &["x", "a.weight"], "a", vec![]).node("Mul", &["a", "view"], "scaled", vec![]);
    let draft = draft.node("Add", &["scaled", "shift"], "shifted", vec![]);
    draft.node("Conv", &["shifted", "b.weight"], "b", vec![]).output("b")
}

#[test]
fn scales_that_an_exporter_folded_are_cut_by_the_channels_that_they_meet() -> Result<()> {
    let left: Option<&[usize]> = Some(&[0, 2]);
    let kept = [("a", [None, left]), ("scaled", [None, left]), ("shifted", [None, left]), ("b", [left, None])];
    let (weights, nodes) = written([&with_folded_scale(3), &with_folded_scale(2)], &kept, 3)?;
    assert_eq!(weights["view"], (vec![1, 2, 1, 1], vec![0.0, 2.0]));
    let shift = nodes.iter().find_map(places::constant).expect("the shift is a constant still");
    assert_eq!((shift.dims.as_slice(), tensor::values(shift)), ([2, 1, 1].as_slice(), Some(vec![0.0, 2.0])));
    Ok(())
}

/// A convolution to `first` channels and a transposed one to `second`, in two groups.
fn with_transposed_groups(first: usize, second: usize) -> Draft {
    let [one, two] = [first, second].map(|channels| channels as i64);
    let draft = Draft::new().stored("a.weight", counting(&[one, 3, 1, 1]));
    let draft = draft.stored("u.weight", counting(&[one, two / 2, 1, 1])).stored("u.bias", counting(&[two]));
    let draft = draft.stored("b.weight", counting(&[2, two, 1, 1])).node("Conv", &["x", "a.weight"], "a", vec![]);
    let groups = vec![attributes::int("group", 2)];
    let draft = draft.node("ConvTranspose", &["a", "u.weight", "u.bias"], "u", groups);
    draft.node("Conv", &["u", "b.weight"], "b", vec![]).output("b")
}

#[test]
fn transposed_convolutions_in_groups_keep_the_channels_of_their_groups() -> Result<()> {
    let (first, second): (Option<&[usize]>, Option<&[usize]>) = (Some(&[1, 2]), Some(&[0, 2, 4, 5]));
    let kept = [("a", [None, first]), ("u", [first, second]), ("b", [second, None])];
    let (weights, _) = written([&with_transposed_groups(4, 6), &with_transposed_groups(2, 4)], &kept, 3)?;
    // Row 1 is of the first group and keeps its channels 0 and 2, row 2 of the second keeps 4 and 5, the last two of three.
    assert_eq!(weights["u.weight"], (vec![2, 2, 1, 1], vec![3.0, 5.0, 7.0, 8.0]));
    assert_eq!(weights["u.bias"], (vec![4], vec![0.0, 2.0, 4.0, 5.0]));
    Ok(())
}

/// Channels shuffled in two groups, a part of them, and a layer, with all numbers in the graph as PyTorch's default exporter writes them.
fn with_shuffle(each: usize, [start, end]: [i64; 2]) -> Draft {
    let (each, part) = (each as i64, end - start);
    let draft = Draft::new().stored("a.weight", counting(&[2 * each, 3, 1, 1]));
    let draft = draft.stored("apart", attributes::vector(vec![-1, 2, each, 8, 8]));
    let draft = draft.stored("whole", attributes::vector(vec![-1, 2 * each, 8, 8]));
    let draft = draft.stored("start", attributes::vector(vec![start])).stored("end", attributes::vector(vec![end]));
    let draft = draft.stored("axis", attributes::vector(vec![1])).stored("b.weight", counting(&[2, part, 1, 1]));
    let draft = draft.node("Conv", &["x", "a.weight"], "a", vec![]).node("Reshape", &["a", "apart"], "view", vec![]);
    let order = vec![attributes::ints("perm", vec![0, 2, 1, 3, 4])];
    let draft = draft.node("Transpose", &["view"], "turned", order);
    let draft = draft.node("Reshape", &["turned", "whole"], "shuffled", vec![]);
    let draft = draft.node("Slice", &["shuffled", "start", "end", "axis"], "part", vec![]);
    draft.node("Conv", &["part", "b.weight"], "b", vec![]).output("b")
}

#[test]
fn numbers_of_channels_in_the_graph_are_those_that_remain() -> Result<()> {
    // The shuffled channels are 0, 3, 1, 4, 2, 5; of the part from the second to the fourth 3, 1 and 4. Channels 2 and 5 go, and the part keeps all three.
    let (all, shuffled): (Option<&[usize]>, Option<&[usize]>) = (Some(&[0, 1, 3, 4]), Some(&[0, 1, 2, 3]));
    let kept = [("a", [None, all]), ("shuffled", [None, shuffled])];
    let (weights, _) = written([&with_shuffle(3, [1, 4]), &with_shuffle(2, [1, 4])], &kept, 3)?;
    assert_eq!(weights["view.sizes"].1, [-1.0, 2.0, 2.0, 8.0, 8.0]);
    assert_eq!(weights["shuffled.sizes"].1, [-1.0, 4.0, 8.0, 8.0]);
    // Channels 0 and 3 go, the first two when they are shuffled.
    let all: Option<&[usize]> = Some(&[1, 2, 4, 5]);
    let shuffled: Option<&[usize]> = Some(&[2, 3, 4, 5]);
    let part: Option<&[usize]> = Some(&[1, 2]);
    let kept = [("a", [None, all]), ("shuffled", [None, shuffled]), ("part", [None, part]), ("b", [part, None])];
    let (weights, _) = written([&with_shuffle(3, [1, 4]), &with_shuffle(2, [0, 2])], &kept, 3)?;
    assert_eq!((&weights["part.starts"].1, &weights["part.ends"].1), (&vec![0.0], &vec![2.0]));
    assert_eq!(weights["b.weight"], (vec![2, 2, 1, 1], vec![1.0, 2.0, 4.0, 5.0]));
    Ok(())
}

/// The key of an exporter's note on a node.
const OPERATION: &str = "pkg.torch.onnx.fx_node";

/// A layer that reads the transposed matrix of another, stored again as an exporter folds it.
fn with_folded_transpose(width: usize) -> Draft {
    let wide = width as i64;
    let mut draft = Draft::new().stored("w", counting(&[wide, 3])).stored("t", counting(&[3, wide]));
    let turned = || vec![attributes::int("transB", 1)];
    draft = draft.node("GlobalAveragePool", &["x"], "mean", vec![]).node("Flatten", &["mean"], "flat", vec![]);
    let note = |name: &str, weight: &str| {
        format!("%{name} : call_function[target=torch.ops.aten.linear.default](args = (%x, %{weight}), kwargs = {{}})")
    };
    draft = draft.node("Gemm", &["flat", "w"], "high", turned()).noted(OPERATION, &note("high", "p_w"));
    draft.node("Gemm", &["high", "t"], "low", turned()).noted(OPERATION, &note("low", "t")).output("low")
}

#[test]
fn a_matrix_that_an_exporter_transposed_is_cut_as_it_is_stored() -> Result<()> {
    let left: Option<&[usize]> = Some(&[0, 3]);
    let network = with_folded_transpose(4).load().network;
    let names: Vec<&str> = network.nodes().iter().rev().take(2).map(|node| &*node.name).collect();
    let kept = [(names[1], [None, left]), (names[0], [left, None])];
    let (weights, _) = written([&with_folded_transpose(4), &with_folded_transpose(2)], &kept, 1)?;
    assert_eq!(weights["w"], (vec![2, 3], vec![0.0, 1.0, 2.0, 9.0, 10.0, 11.0]));
    assert_eq!(weights["t"], (vec![3, 2], vec![0.0, 3.0, 4.0, 7.0, 8.0, 11.0]));
    Ok(())
}
