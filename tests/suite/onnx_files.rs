//! Network files: what is written is read back, official tools accept it, and damaged files are refused politely.

use perf4sight_network::zoo;
use perf4sight_network::zoo::Dataset;
use perf4sight_network::{
    Activation, Affine, ArgMax, BinaryFunction, Conv, ConvTranspose, ElementKind, Embedding, Fold, GridSample,
    Interpolation, Linear, Network, NetworkBuilder, NetworkInput, NodeId, Op, OutsideValues, PaddingFill,
    PickedElements, Recurrent, RecurrentKind, ReductionKind, Shape, TopK, UnknownOperation, VolumeWindow, Window,
};
use perf4sight_onnx as onnx;
use proptest::prelude::*;
use std::path::Path;
use std::process::Command;

fn reread(network: &Network) -> Network {
    onnx::from_bytes(network.name(), &onnx::to_bytes(network)).unwrap().network
}

/// Every zoo network on every dataset that it fits.
fn zoo_networks() -> impl Iterator<Item = Network> {
    let datasets = [Dataset::Imagenet, Dataset::Cifar10, Dataset::Cifar100];
    zoo::names().flat_map(move |name| datasets.into_iter().filter_map(move |dataset| zoo::build(name, dataset).ok()))
}

/// What reads `[6, 20, 20]` and leaves an image.
fn images() -> Vec<Op> {
    let window = Window { kernel: [3, 5], stride: [2, 1], padding: [1, 2, 1, 2], dilation: [1, 2], ceil: false };
    let conv = Op::Conv(Conv { out_channels: 8, window: window.clone(), groups: 2, bias: true });
    let pooling = Window { padding: [0, 1, 0, 1], dilation: [1, 1], ..window };
    let mut chain = vec![conv, Op::BatchNorm { axis: 0 }];
    chain.extend(Activation::ALL.map(Op::Activation));
    chain.extend(BinaryFunction::ALL.map(Op::Binary));
    chain.extend([
        Op::MaxPool(pooling.clone().ceil()),
        Op::AvgPool { window: pooling, count_include_pad: true },
        Op::Unknown(UnknownOperation::new("com.acme::Frobnicate", Shape::new([8, 12, 12]), 7)),
        Op::Unknown(UnknownOperation::new("Resize", Shape::new([8, 11, 11]), 0)),
        Op::ConvTranspose(ConvTranspose {
            conv: Conv { out_channels: 8, window: Window::square(2, 2, 0), groups: 2, bias: true },
            extra: [1, 0],
        }),
        Op::Resize { image: [13, 17], interpolation: Interpolation::Linear, corners: true },
        Op::Resize { image: [12, 12], interpolation: Interpolation::Nearest, corners: false },
        Op::Pad { sides: vec![[0, 0], [2, 1], [0, 3]], fill: PaddingFill::Reflect },
        Op::Pad { sides: vec![[1, 1], [0, 0], [0, 0]], fill: PaddingFill::Zeros },
        Op::Pad { sides: vec![[0, 0], [-1, 1], [1, -1]], fill: PaddingFill::Zeros },
    ]);
    chain
}

/// What names an axis, norms and forms, after [`images`].
fn axes() -> Vec<Op> {
    vec![
        Op::Every { axis: 1, start: 1, step: 3 },
        Op::Pick(PickedElements { axis: 2, count: 3, places: vec![2, 0, 2] }),
        Op::Pick(PickedElements { axis: 0, count: 8, places: vec![] }),
        Op::Reduce { reduction: ReductionKind::L2, axes: vec![1], keep: true },
        Op::Expand(Shape::new([8, 5, 3])),
        Op::GroupNorm { groups: 2, affine: Affine::ScaleAndShift },
        Op::GroupNorm { groups: 8, affine: Affine::None },
        Op::BatchNorm { axis: 1 },
        Op::LayerNorm { axis: 2, affine: Affine::Scale },
        Op::AdaptiveAvgPool { output: [4, 4] },
        Op::LayerNorm { axis: 1, affine: Affine::ScaleAndShift },
        Op::Dropout { rate: 0.2 },
        Op::Dropout { rate: 0.0 },
        Op::DropPath { rate: 0.011764706 },
        Op::Slice { axis: 1, start: 1, length: 2 },
        Op::Transpose { order: vec![2, 0, 1] },
        Op::Contiguous { batch: 0 },
        Op::Contiguous { batch: 1 },
        Op::Contiguous { batch: 3 },
        Op::CumSum { axis: 1 },
        Op::TopK(TopK { axis: 1, count: 8, largest: false, places: false }),
    ]
}

/// Volumes, and the rows that remain of them: `[4, 4, 4]`.
fn volumes() -> Vec<Op> {
    vec![
        Op::Reshape(Shape::new([2, 2, 4, 4])),
        Op::Conv3d(Conv { out_channels: 4, window: VolumeWindow::cube(3, 1, 1), groups: 2, bias: true }),
        Op::BatchNorm { axis: 0 },
        Op::MaxPool3d(VolumeWindow { stride: [1, 2, 2], ..VolumeWindow::cube(2, 1, 1) }),
        Op::AvgPool3d { window: VolumeWindow { ceil: true, ..VolumeWindow::cube(2, 1, 1) }, count_include_pad: false },
        Op::Reshape(Shape::new([16, 16])),
        Op::Fold(Fold { image: [8, 8], window: Window::square(2, 2, 0) }),
        Op::Slice { axis: 1, start: 0, length: 4 },
        Op::Slice { axis: 2, start: 0, length: 4 },
        Op::Linear(Linear { out_features: 4, bias: true }),
        Op::Softmax { axis: 2 },
    ]
}

/// A network with every operation there is.
fn everything() -> Network {
    let mut builder = NetworkBuilder::new("everything", Shape::new([6, 20, 20]));
    let mut last = builder.input();
    let chain = images().into_iter().chain(axes()).chain(volumes());
    for (index, op) in chain.enumerate() {
        last = builder.add(format!("layer{index}"), op, &[last]).unwrap();
    }
    let last = with_places(&mut builder, last);
    let token = builder.add("token", Op::Parameter(Shape::new([1, 4, 4])), &[]).unwrap();
    let sum = attended(&mut builder, last, token);
    let joined = builder.add("joined", Op::Concat { axis: 0 }, &[sum, token]).unwrap();
    let tied = Linear { out_features: 4, bias: false };
    let first = builder.add("first", Op::Linear(tied.clone()), &[joined]).unwrap();
    let second = builder.add("second", Op::Linear(tied), &[first]).unwrap();
    builder.share(second, first).unwrap();
    let mean = builder
        .add("mean", Op::Reduce { reduction: ReductionKind::Mean, axes: vec![1], keep: false }, &[second])
        .unwrap();
    let words = words(&mut builder);
    let mut flat = vec![builder.add("flat", Op::Flatten, &[mean]).unwrap(), words];
    flat.extend(remembered(&mut builder, second));
    let flat = builder.add("all", Op::Concat { axis: 0 }, &flat).unwrap();
    let classes = builder.add("fc", Op::Linear(Linear { out_features: 10, bias: true }), &[flat]).unwrap();
    builder.finish(classes)
}

/// What recurrent layers make of an image's elements as time steps.
fn remembered(builder: &mut NetworkBuilder, image: NodeId) -> Vec<NodeId> {
    let elements = builder.shape(image).elements() as usize;
    let steps = builder.add("steps", Op::Reshape(Shape::new([elements / 2, 2])), &[image]).unwrap();
    let mut states = Vec::new();
    for (cell, name) in RecurrentKind::ALL.into_iter().zip(["lstm", "gru", "tanh", "relu"]) {
        for last in [false, true] {
            let layer = Recurrent { cell, hidden: 3, both_ways: last, bias: !last, last, batch_first: last };
            let layer = builder.add(format!("{name}_{last}"), Op::Recurrent(layer), &[steps]).unwrap();
            states.push(builder.add(format!("{name}_{last}_flat"), Op::Flatten, &[layer]).unwrap());
        }
    }
    states
}

/// What attention makes of a square, alone and with a table.
fn attended(builder: &mut NetworkBuilder, square: NodeId, token: NodeId) -> NodeId {
    let product = builder.add("product", Op::MatMul, &[square, square]).unwrap();
    let product = builder.add("attention", Op::Attention, &[product, square, product]).unwrap();
    let product = builder.add("biased", Op::Attention, &[product, square, square, token]).unwrap();
    let sum = builder.add("sum", Op::Binary(BinaryFunction::Add), &[product, token]).unwrap();
    builder.add("choice", Op::Where, &[sum, token, sum]).unwrap()
}

/// What reads further inputs: ids looked up and places, a mask, and a head that is the table of words.
fn words(builder: &mut NetworkBuilder) -> NodeId {
    let table = |fixed| Op::Embedding(Embedding { rows: 7, width: 4, fixed });
    let ids = builder.add("ids", Op::Input(NetworkInput::integers(Shape::new([3]))), &[]).unwrap();
    let mask = builder.add("mask", Op::Input(NetworkInput::truths(Shape::new([3, 1]))), &[]).unwrap();
    let next = builder.add("next", Op::Binary(BinaryFunction::Add), &[ids]).unwrap();
    let kept = builder.add("kept", Op::Cast(ElementKind::Number), &[mask]).unwrap();
    let known = builder.add("known", Op::Binary(BinaryFunction::Less), &[next]).unwrap();
    let known = builder.add("seen", Op::Reshape(Shape::new([3, 1])), &[known]).unwrap();
    let words = builder.add("words", table(None), &[next]).unwrap();
    let places = builder.add("places", table(Some(Shape::new([3]))), &[]).unwrap();
    let sum = builder.add("word", Op::Binary(BinaryFunction::Add), &[words, places]).unwrap();
    let kept = builder.add("masked", Op::Binary(BinaryFunction::Mul), &[sum, kept]).unwrap();
    let kept = builder.add("chosen", Op::Where, &[known, kept, sum]).unwrap();
    let head = builder.add("head", Op::Linear(Linear { out_features: 7, bias: false }), &[kept]).unwrap();
    builder.share(head, words).unwrap();
    builder.add("vector", Op::Flatten, &[head]).unwrap()
}

/// Of `[4, 4, 4]` what looks elements up by their places, added.
fn with_places(builder: &mut NetworkBuilder, input: NodeId) -> NodeId {
    let grid = builder.add("grid", Op::Slice { axis: 2, start: 0, length: 2 }, &[input]).unwrap();
    let sample = GridSample { interpolation: Interpolation::Cubic, beyond: OutsideValues::Reflect, corners: true };
    let sampled = builder.add("sampled", Op::GridSample(sample), &[input, grid]).unwrap();
    let top = TopK { axis: 2, count: 4, largest: true, places: true };
    let places = builder.add("top", Op::TopK(top), &[sampled]).unwrap();
    let place = ArgMax { axis: 0, keep: true, largest: false };
    let place = builder.add("place", Op::ArgMax(place), &[sampled]).unwrap();
    let added = builder.add("of_places", Op::Binary(BinaryFunction::Add), &[places, place]).unwrap();
    builder.add("of_all", Op::Binary(BinaryFunction::Add), &[sampled, added]).unwrap()
}

#[test]
fn every_operation_and_every_zoo_network_survives_writing() {
    for network in zoo_networks().chain([everything()]) {
        // What recurrent layers keep is open in any file.
        let again = reread(&network).with_readings(Vec::new());
        let changed = network.nodes().iter().zip(again.nodes()).find(|(before, after)| before != after);
        assert_eq!(changed, None, "{}", network.name());
        assert_eq!(again, network);
    }
}

#[test]
fn the_official_checker_accepts_what_is_written() {
    let script = "import sys, onnx\n\
                  for path in sys.argv[1:]:\n    \
                      onnx.checker.check_model(path, full_check=True)\n    \
                      inferred = onnx.shape_inference.infer_shapes(onnx.load(path), data_prop=True)\n    \
                      print([d.dim_param or d.dim_value for d in inferred.graph.output[0].type.tensor_type.shape.dim])\n";
    let has_onnx =
        Command::new("python3").args(["-c", "import onnx"]).output().is_ok_and(|output| output.status.success());
    if !has_onnx {
        eprintln!("skipped: this test needs a python3 with the package onnx (pip install onnx)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<_> = zoo_networks()
        .chain([everything()])
        .enumerate()
        .map(|(index, network)| {
            let path = folder.path().join(format!("{}_{index}.onnx", network.name()));
            onnx::write(&network, &path).unwrap();
            path
        })
        .collect();
    let output = Command::new("python3").args(["-c", script]).args(&paths).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shapes = String::from_utf8(output.stdout).unwrap();
    assert_eq!(shapes.lines().count(), paths.len());
    assert!(shapes.lines().all(|shape| shape.starts_with("['batch', ")), "{shapes}");
}

#[test]
fn files_are_written_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("everything.onnx");
    onnx::write(&everything(), &path).unwrap();
    onnx::write(&everything(), &path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), onnx::to_bytes(&everything()));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing partial is left");
    let error = onnx::write(&everything(), path.join("net.onnx")).unwrap_err();
    assert!(error.to_string().contains("everything.onnx/net.onnx: cannot write the file"), "{error}");
}

#[test]
fn what_is_no_network_file_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let error = |name: &str| onnx::read(folder.path().join(name)).unwrap_err().to_string();
    assert!(error("absent.onnx").contains("absent.onnx: cannot read the network"));
    assert!(error("").contains("is not a file"));
    std::fs::write(folder.path().join("empty.onnx"), b"").unwrap();
    assert!(error("empty.onnx").contains("not an ONNX file or a damaged one"));
    std::fs::write(folder.path().join("text.onnx"), b"<html>404 Not Found</html>").unwrap();
    assert!(error("text.onnx").contains("help: export the network again"), "{}", error("text.onnx"));
}

#[test]
fn pipes_are_no_networks_and_nobody_waits_for_their_writers() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.onnx");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(onnx::read(&pipe).unwrap_err().to_string().contains("not a regular file"));
    assert!(
        onnx::read_with_magnitudes(&pipe, &onnx::NamedDims::new(), None)
            .unwrap_err()
            .to_string()
            .contains("not a regular file")
    );
}

#[test]
fn every_truncation_is_refused_or_at_least_survived() {
    let bytes = onnx::to_bytes(&zoo::build("squeezenet", Dataset::Imagenet).unwrap());
    let mut refused = 0;
    for length in (0..bytes.len()).step_by(7) {
        refused += usize::from(onnx::from_bytes("cut", &bytes[..length]).is_err());
    }
    assert_eq!(refused, bytes.len().div_ceil(7), "the graph is one field: a part of it is none");
}

/// One choice of a layer, made by numbers.
type Choice = (u8, usize, usize, bool);

fn op(choice: Choice, shape: &Shape) -> Op {
    let (kind, a, b, flag) = choice;
    let (axis, rank) = (a % shape.rank(), shape.rank());
    let window = Window {
        kernel: [1 + a % 3, 1 + b % 3],
        stride: [1 + b % 2, 1 + a % 2],
        padding: [a % 2, b % 2, b % 2, a % 2],
        dilation: [1, 1],
        ceil: flag,
    };
    match kind % 16 {
        0 | 1 => {
            let groups = if flag { shape.channels() } else { 1 };
            // What differs between both sides is a padding before the convolution, as PyTorch has it.
            let [rows, columns] = [a % 2, b % 2];
            let padding = [rows, columns, rows, columns];
            let window = Window { ceil: false, dilation: [1 + a % 2, 1], padding, ..window };
            Op::Conv(Conv { out_channels: groups * (1 + b % 4), window, groups, bias: flag })
        }
        2 => Op::BatchNorm { axis: 0 },
        3 => Op::Activation(if flag { Activation::Relu6 } else { Activation::Silu }),
        4 => Op::MaxPool(window),
        5 => Op::AvgPool { window, count_include_pad: flag },
        6 => Op::AdaptiveAvgPool { output: [1 + a % 3, 1 + b % 3] },
        7 => Op::Linear(Linear { out_features: 1 + b % 5, bias: flag }),
        8 => Op::LayerNorm { axis, affine: Affine::ScaleAndShift },
        9 => Op::Binary(BinaryFunction::Sub),
        // Moving nothing and cutting nothing off leave no node behind.
        10 if rank > 1 => Op::Transpose { order: (0..rank).rev().collect() },
        11 if shape.dims()[axis] > 1 => Op::Slice { axis, start: b % 2, length: 1 },
        12 => Op::Softmax { axis },
        13 if rank > 1 => Op::Reduce { reduction: ReductionKind::Mean, axes: vec![axis], keep: flag },
        14 => Op::Dropout { rate: a as f32 / 64.0 },
        _ => Op::Unknown(UnknownOperation::new(format!("Op{a}"), Shape::new([1 + a, 1 + b]), b as u64)),
    }
}

/// A network of the chosen layers, those left out that do not fit, with residual sums, joins and squeeze-and-excite products.
fn generated(choices: &[Choice]) -> Network {
    let mut builder = NetworkBuilder::new("generated", Shape::new([4, 9, 7]));
    let mut last = builder.input();
    for (index, &choice) in choices.iter().enumerate() {
        let layer = op(choice, builder.shape(last));
        let Ok(next) = builder.add(format!("layer{index}"), layer, &[last]) else { continue };
        last = joined(&mut builder, index, [last, next], choice.1);
    }
    builder.finish(last)
}

fn joined(builder: &mut NetworkBuilder, index: usize, [before, after]: [NodeId; 2], how: usize) -> NodeId {
    let join = match how % 4 {
        0 => builder.add(format!("sum{index}"), Op::Binary(BinaryFunction::Add), &[before, after]),
        1 => builder.add(format!("join{index}"), Op::Concat { axis: 0 }, &[after, before, after]),
        2 => {
            let shape = builder.shape(after).clone();
            let scale = builder.add(format!("scale{index}"), Op::Parameter(shape), &[]);
            scale.and_then(|scale| {
                builder.add(format!("scaled{index}"), Op::Binary(BinaryFunction::Mul), &[after, scale])
            })
        }
        _ => return after,
    };
    join.unwrap_or(after)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn generated_networks_survive_writing(choices in prop::collection::vec((any::<u8>(), 0usize..64, 0usize..64, any::<bool>()), 1..24)) {
        let network = generated(&choices);
        let bytes = onnx::to_bytes(&network);
        prop_assert_eq!(&onnx::to_bytes(&network), &bytes);
        let loaded = onnx::from_bytes("generated", &bytes).unwrap();
        prop_assert_eq!(loaded.network, network);
    }

    #[test]
    fn damaged_files_never_panic(
        choices in prop::collection::vec((any::<u8>(), 0usize..64, 0usize..64, any::<bool>()), 4..12),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = onnx::to_bytes(&generated(&choices));
        for (place, value) in damage {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        if let Err(error) = onnx::from_bytes("damaged.onnx", &bytes) {
            prop_assert!(error.to_string().starts_with("damaged.onnx: "));
        }
    }

    #[test]
    fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        prop_assert!(onnx::from_bytes("noise", &bytes).is_err());
    }
}

#[test]
fn a_network_is_called_after_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("resnet18_30.onnx");
    onnx::write(&zoo::build("resnet18", Dataset::Cifar10).unwrap(), &path).unwrap();
    let loaded = onnx::read(Path::new(&path)).unwrap();
    assert_eq!((loaded.network.name(), loaded.network.classes()), ("resnet18_30", 10));
}
