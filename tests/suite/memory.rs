//! Simulated memory: against a published device, against arithmetic by hand, and at the edges.

use crate::fixtures;
use perf4sight_cost::features::physical::kernels;
use perf4sight_memory::{PeakMemory, Simulation, Simulations, TensorRole, TensorsAtPeak};
use perf4sight_network::zoo;
use perf4sight_network::zoo::Dataset;
use perf4sight_network::{
    Activation, Affine, BinaryFunction, Conv, Linear, Network, NetworkBuilder, Op, ReductionKind, Shape,
    UnknownOperation, Window,
};
use perf4sight_onnx as onnx;

use perf4sight_base::stats::{ErrorScores, mean, median};
use perf4sight_base::units::Bytes;
use perf4sight_cost::records;
use perf4sight_cost::records::{RowReading, Variant};
use perf4sight_platform::{Platform, UpdateOrder};
use perf4sight_step::workload::{Accumulate, Checkpoint, Optimizer, Quantity, Stage, Step, Trainable, ZeroGrad};
use std::path::Path;

const PUBLISHED: [&str; 5] = ["resnet18", "resnet50", "mobilenetv2", "squeezenet", "mnasnet"];

/// The unpruned network of the published profile, and per batch that passed its measured peaks in MiB: allocated, reserved.
fn published(folder: &Path, name: &str) -> (Network, Vec<(u64, [f64; 2])>) {
    let network = onnx::read(folder.join(format!("networks/{name}_0.onnx"))).unwrap().network;
    let file = records::log_file(&folder.join("profiling_csvs"), Quantity::Memory, &Variant::new(name, 0));
    let log = records::read(&file, Quantity::Memory, Stage::Training).unwrap();
    let measured = log.records.iter().filter(|record| record.outcome.passed());
    let rows = measured.map(|record| match &record.reading {
        RowReading::Memory(memory) => {
            (record.workload.batch, [memory.allocated, memory.reserved].map(|bytes| bytes.unwrap().mib()))
        }
        other => panic!("{name}: {other:?} in a memory log"),
    });
    (network, rows.collect())
}

fn simulated(network: &Network, platform: &Platform, batch: u64) -> PeakMemory {
    Simulation::new(network, Step::published(Stage::Training), platform).peak(batch)
}

#[test]
fn a_published_device_is_reproduced_without_a_fitted_number() {
    let Some(folder) = fixtures::shared("tx2") else { return };
    let platform = Platform::for_name("tx2").unwrap();
    let errors = PUBLISHED.map(|name| {
        let (network, rows) = published(&folder, name);
        let peaks: Vec<PeakMemory> = rows.iter().map(|(batch, _)| simulated(&network, &platform, *batch)).collect();
        let error = |part: fn(&PeakMemory) -> f64, index: usize| {
            let truth: Vec<f64> = rows.iter().map(|(_, measured)| measured[index]).collect();
            ErrorScores::compute(&truth, &peaks.iter().map(part).collect::<Vec<_>>()).unwrap().mape
        };
        let [allocated, reserved] = [error(|peak| peak.allocated.mib(), 0), error(|peak| peak.reserved.mib(), 1)];
        println!("{name:12} mem_alloc {allocated:.2} %, mem_reserved {reserved:.2} %");
        [allocated, reserved]
    });
    let [allocated, reserved] = [0, 1].map(|index| mean(&errors.map(|error| error[index])));
    println!("mean         mem_alloc {allocated:.2} %, mem_reserved {reserved:.2} %");
    assert!(allocated <= 1.0, "mem_alloc is off by {allocated:.2} % on average");
    assert!(reserved <= 2.6, "mem_reserved is off by {reserved:.2} % on average");
}

/// The unpruned networks of `profiling_csvs/h100`, by libtorch, convolutions in full single precision. What cuDNN borrows is known least for single
/// images, and where channels are few.
#[test]
fn an_h100_is_reproduced_without_a_fitted_number() {
    let libtorch = [("libtorch".to_owned(), "2.11.0+cu130".to_owned())].into();
    let platform = Platform::for_name("hopper").unwrap().run_by(&libtorch);
    let mut off = Vec::new();
    for name in ["resnet18", "resnet50", "mobilenetv2", "squeezenet", "mnasnet", "googlenet"] {
        let network = zoo::build(name, Dataset::Imagenet).unwrap();
        let rows = Path::new(crate::ROOT).join("profiling_csvs/h100/imagenet");
        let file = records::log_file(&rows, Quantity::Memory, &Variant::new(name, 0));
        for record in records::read(&file, Quantity::Memory, Stage::Training).unwrap().records {
            let RowReading::Memory(memory) = &record.reading else { panic!("{name}: no memory in a memory log") };
            let workload = record.workload;
            let peak = Simulation::new(&network, workload.step, &platform).peak(workload.batch);
            let measured = memory.allocated.unwrap().mib();
            let error = 100.0 * (peak.allocated.mib() / measured - 1.0);
            println!("{name} {}, batch {}: {measured:.1} MiB, {error:+.2} %", workload.step.stage, workload.batch);
            off.push(error.abs());
        }
    }
    let near = off.iter().filter(|off| **off < 3.5).count();
    println!("{near} of {} within 3.5 %, median {:.2} %", off.len(), median(&off));
    assert!(4 * near >= 3 * off.len() && median(&off) < 0.7, "{off:?}");
}

/// Depthwise networks borrow no workspace, so nothing is left to chance: five peaks added up, not one byte differs.
#[test]
fn depthwise_networks_are_reproduced_to_the_byte() {
    let Some(folder) = fixtures::shared("tx2") else { return };
    let platform = Platform::for_name("tx2").unwrap();
    for (name, largest) in [("mobilenetv2", 16), ("mnasnet", 8)] {
        let (network, rows) = published(&folder, name);
        for (batch, [allocated, _]) in rows.into_iter().filter(|(batch, _)| *batch <= largest) {
            let simulated = simulated(&network, &platform, batch).allocated;
            assert_eq!(simulated, Bytes::from_mib(allocated), "{name}, batch {batch}");
        }
    }
}

/// A fully connected layer from 3x8x8 to ten classes.
fn layer() -> Network {
    let mut builder = NetworkBuilder::new("layer", Shape::new([3, 8, 8]));
    let flat = builder.add("flat", Op::Flatten, &[builder.input()]).unwrap();
    let scores = builder.add("scores", Op::Linear(Linear { out_features: 10, bias: true }), &[flat]).unwrap();
    builder.finish(scores)
}

#[test]
fn one_layer_comes_to_what_a_hand_counts() {
    let (network, cpu) = (layer(), Platform::for_name("cpu").unwrap());
    // Batch 2. Weights 4 * (192 * 10 + 10) = 7720, batch 2 * 4 * 192 = 1536, labels 2 * 8 = 16, scores 2 * 4 * 10 = 80.
    let inference = Simulation::new(&network, Step::published(Stage::Inference), &cpu).peak(2);
    assert_eq!(inference.allocated, Bytes(7720 + 1536 + 80));
    assert_eq!(inference.reserved, inference.allocated);
    // At most in the linear layer's backward of a later step: weights, their gradients and momentum; batch and labels; the
    // loss and its gradient, 4 each; the gradient of the scores; the new gradients, about to be added to the old ones.
    let training = Simulation::new(&network, Step::published(Stage::Training), &cpu);
    assert_eq!(training.peak(2).allocated, Bytes(3 * 7720 + 1536 + 16 + 4 + 4 + 80 + 7720));
    let alive = training.alive(2);
    let held =
        [TensorRole::Weights, TensorRole::WeightGradients, TensorRole::OptimizerState].map(|role| alive.bytes(role));
    assert_eq!(held, [Bytes(7720), Bytes(2 * 7720), Bytes(7720)]);
    let [gradients, workspace] = [TensorRole::ActivationGradients, TensorRole::Workspace].map(|role| alive.bytes(role));
    assert_eq!((gradients, workspace, alive.fragmentation()), (Bytes(84), Bytes(0), Bytes(0)));
    assert_eq!((activations(&alive, "input"), activations(&alive, "scores")), (1536, 16 + 4));
    assert_eq!(alive.bytes(TensorRole::Activations), Bytes(1536 + 16 + 4));
    assert_eq!(alive.total(), training.peak(2).reserved);
}

/// Bytes of the activations of one layer.
fn activations(alive: &TensorsAtPeak, layer: &str) -> u64 {
    let own = alive.tensors.iter().filter(|tensor| tensor.layer == layer && tensor.role == TensorRole::Activations);
    own.map(|tensor| tensor.bytes.0).sum()
}

#[test]
fn optimizers_differ_by_the_state_they_keep() {
    let (network, cpu) = (layer(), Platform::for_name("cpu").unwrap());
    let alive =
        |optimizer| Simulation::new(&network, Step { optimizer, ..Step::published(Stage::Training) }, &cpu).alive(1);
    let states = Optimizer::ALL.map(|optimizer| alive(optimizer).bytes(TensorRole::OptimizerState));
    assert_eq!(states, [1, 1, 0, 2, 2, 1].map(|tensors| Bytes(tensors * 7720)));
    let peak = |optimizer| {
        Simulation::new(&network, Step { optimizer, ..Step::published(Stage::Training) }, &cpu).peak(1).allocated
    };
    let [published, momentum, sgd, adam, adamw, rmsprop] = Optimizer::ALL.map(peak);
    assert!(sgd < momentum && momentum <= published && published < adam);
    assert_eq!([adamw, rmsprop], [adam, published], "the same states and as much borrowed");
    assert!(Optimizer::parse("adamv").unwrap_err().to_string().contains("did you mean \"adam"));
}

#[test]
fn freed_gradients_and_updates_at_once_come_to_what_a_hand_counts() {
    let (network, cpu) = (layer(), Platform::for_name("cpu").unwrap());
    let free = |optimizer| Step { optimizer, zero_grad: ZeroGrad::Free, ..Step::published(Stage::Training) };
    let peak = |step, platform: &Platform| Simulation::new(&network, step, platform).peak(2).allocated;
    // As above, but gradients lie there once: at most in the optimizer, with batch, labels and the loss, 4. SGD makes the decayed gradient of
    // the weight, 7680.
    assert_eq!(peak(free(Optimizer::Sgd), &cpu), Bytes(3 * 7720 + 1536 + 16 + 4 + 7680));
    // Adam makes root and denominator of the weight, or one tensor for the weight and one for the bias at once.
    assert_eq!(peak(free(Optimizer::Adam), &cpu), Bytes(4 * 7720 + 1536 + 16 + 4 + 2 * 7680));
    let mut at_once = cpu;
    at_once.framework.updates = UpdateOrder::AtOnce;
    assert_eq!(peak(free(Optimizer::Adam), &at_once), Bytes(4 * 7720 + 1536 + 16 + 4 + 7720));
    // The published step goes through the weights one by one wherever it runs.
    assert_eq!(peak(free(Optimizer::Sgd), &at_once), Bytes(3 * 7720 + 1536 + 16 + 4 + 7680));
}

#[test]
fn pytorch_2_gives_accelerators_all_weights_at_once() {
    let run_by = |platform: &str, software: &[(&str, &str)]| {
        let software = software.iter().map(|(name, version)| (name.to_string(), version.to_string())).collect();
        Platform::for_name(platform).unwrap().run_by(&software).framework.updates
    };
    assert_eq!(run_by("cuda", &[("python", "3.11.2"), ("torch", "2.11.0+cu130")]), UpdateOrder::AtOnce);
    assert_eq!(run_by("tx2", &[("python", "3.6.9"), ("torch", "1.10.0")]), UpdateOrder::OneByOne);
    assert_eq!(run_by("cuda", &[("libtorch", "2.11.0")]), UpdateOrder::OneByOne);
    assert_eq!(run_by("cuda", &[("torch", "1.13.1")]), UpdateOrder::OneByOne);
    // Of devices that nobody measured, what runs on them today.
    let kinds = ["cuda", "hopper_tf32", "orin", "jetson", "tx2", "cpu", "cpu_avx2"];
    use UpdateOrder::{AtOnce, OneByOne};
    let today = [AtOnce, AtOnce, AtOnce, OneByOne, OneByOne, OneByOne, OneByOne];
    assert_eq!(kinds.map(|kind| run_by(kind, &[])), today);
    assert_eq!(run_by("cpu", &[("torch", "2.11.0")]), UpdateOrder::OneByOne);
}

#[test]
fn parts_add_up_on_every_device_for_every_network() {
    for platform in Platform::names().map(|name| Platform::for_name(name).unwrap()) {
        for network in zoo::names().map(|name| zoo::build(name, Dataset::Imagenet).unwrap()) {
            for stage in Stage::ALL {
                let simulation = Simulation::new(&network, Step::published(stage), &platform);
                let (peak, alive) = (simulation.peak(2), simulation.alive(2));
                assert!(alive.total() >= peak.reserved && peak.reserved >= peak.allocated, "{}", network.name());
                assert!(simulation.peak(3).allocated > peak.allocated, "{}", network.name());
                assert!(alive.bytes(TensorRole::Weights).0 >= 4 * network.parameters());
            }
        }
    }
}

/// Twice the same layer: its weights lie there once, and the gradients of both uses meet.
#[test]
fn shared_weights_count_once() {
    let cpu = Platform::for_name("cpu").unwrap();
    let mut builder = NetworkBuilder::new("twice", Shape::new([3, 8, 8]));
    let linear = || Op::Linear(Linear { out_features: 8, bias: false });
    let token = builder.add("token", Op::Parameter(Shape::new([3, 8, 8])), &[]).unwrap();
    let again = builder.add("again", Op::Parameter(Shape::new([3, 8, 8])), &[]).unwrap();
    let sum = builder.add("sum", Op::Binary(BinaryFunction::Add), &[builder.input(), token]).unwrap();
    let sum = builder.add("sum2", Op::Binary(BinaryFunction::Add), &[sum, again]).unwrap();
    let first = builder.add("first", linear(), &[sum]).unwrap();
    let second = builder.add("second", linear(), &[first]).unwrap();
    builder.share(again, token).unwrap();
    builder.share(second, first).unwrap();
    let network = builder.finish(second);
    let alive = Simulation::new(&network, Step::published(Stage::Training), &cpu).alive(1);
    // 192 for the token, 8 x 8 for the layer.
    let [weights, state] = [TensorRole::Weights, TensorRole::OptimizerState].map(|role| alive.bytes(role));
    assert_eq!((weights, state), (Bytes(4 * (192 + 64)), Bytes(4 * (192 + 64))));
}

#[test]
fn absurd_batches_and_unknown_operations_are_simulated_too() {
    let mut builder = NetworkBuilder::new("odd", Shape::new([3, 8, 8]));
    let unknown = UnknownOperation::new("Odd", Shape::new([10]), 7);
    let odd = builder.add("odd", Op::Unknown(unknown), &[builder.input()]).unwrap();
    let odd = builder.finish(odd);
    // Blur-pooling: filters that nobody trains.
    let mut builder = NetworkBuilder::new("pooled", Shape::new([3, 8, 8]));
    let conv = Conv { out_channels: 3, window: Window::square(3, 2, 1), groups: 3, bias: true };
    let pooled = builder.add("pool", Op::Conv(conv), &[builder.input()]).unwrap();
    builder.set_trained(pooled, 3);
    let pooled = builder.finish(pooled);
    for network in [odd, pooled, zoo::build("resnet50", Dataset::Imagenet).unwrap()] {
        for platform in Platform::names().map(|name| Platform::for_name(name).unwrap()) {
            let simulation = Simulation::new(
                &network,
                Step { optimizer: Optimizer::Adam, ..Step::published(Stage::Training) },
                &platform,
            );
            for batch in [0, 1, 1_000_000_000, u64::MAX] {
                assert!(simulation.alive(batch).total() >= simulation.peak(batch).reserved);
            }
        }
    }
}

#[test]
fn a_group_norm_keeps_its_input_and_makes_one_result() {
    let mut builder = NetworkBuilder::new("normed", Shape::new([3, 16, 16]));
    let conv = Conv { out_channels: 8, window: Window::square(1, 1, 0), groups: 1, bias: false };
    let conv = builder.add("conv", Op::Conv(conv), &[builder.input()]).unwrap();
    let normalised = Op::GroupNorm { groups: 4, affine: Affine::ScaleAndShift };
    let normed = builder.add("normalised", normalised, &[conv]).unwrap();
    let pooled = builder
        .add("pooled", Op::Reduce { reduction: ReductionKind::Mean, axes: vec![1, 2], keep: false }, &[normed])
        .unwrap();
    let network = builder.finish(pooled);
    let alive =
        Simulation::new(&network, Step::published(Stage::Training), &Platform::for_name("tx2").unwrap()).alive(64);
    // native_group_norm (aten/src/ATen/native/group_norm.cpp) saves its input: 64 x 8 x 16 x 16 floats, 512 KiB, and mean and deviation of
    // four groups a sample, 1 KiB each. Its result is the only other one, freed or not.
    let image = 64 * 8 * 16 * 16 * 4;
    assert_eq!(activations(&alive, "conv"), image);
    assert!(activations(&alive, "normalised") <= image + 2 * 64 * 4 * 4, "{alive:?}");
}

/// The second convolution of VGG, 64 to 64 channels on 224 x 224 images, borrows per sample what two libraries' papers say.
#[test]
fn tensor_cores_borrow_copies_where_older_gpus_transform_tiles() {
    let mut builder = NetworkBuilder::new("wide", Shape::new([64, 224, 224]));
    let conv = || Op::Conv(Conv { out_channels: 64, window: Window::square(3, 1, 1), groups: 1, bias: false });
    let first = builder.add("first", conv(), &[builder.input()]).unwrap();
    let second = builder.add("second", conv(), &[first]).unwrap();
    let network = builder.finish(second);
    let borrowed = |name: &str| {
        let platform = Platform::for_name(name).unwrap();
        let alive = |batch| {
            Simulation::new(
                &network,
                Step { optimizer: Optimizer::SgdWithoutMomentum, ..Step::published(Stage::Training) },
                &platform,
            )
            .alive(batch)
            .bytes(TensorRole::Workspace)
            .0
        };
        alive(3) - alive(2)
    };
    // F(4x4, 3x3): 36 points of 56 x 56 tiles of 64 + 64 channels. Channels-last: 64 + 64 channels of 224 x 224 pixels.
    assert_eq!(borrowed("cuda"), 4 * 36 * 56 * 56 * 128);
    assert_eq!(borrowed("cuda_tf32"), 4 * 224 * 224 * 128);
}

/// aten/src/ATen/cuda/CublasHandlePool.cpp: each thread that multiplies matrices keeps 2 x 4 MiB and 8 x 16 KiB, on Hopper 32 MiB.
#[test]
fn every_thread_that_multiplies_matrices_keeps_a_workspace() {
    let of = |op: Op| {
        let mut builder = NetworkBuilder::new("one", Shape::new([8, 4, 4]));
        let output = builder.add("one", op, &[builder.input()]).unwrap();
        builder.finish(output)
    };
    let product = of(Op::Linear(Linear { out_features: 5, bias: false }));
    let bent = of(Op::Activation(Activation::Relu));
    let kept = |network: &Network, stage: Stage, platform: &Platform| {
        Simulation::new(network, Step::published(stage), platform).alive(2).bytes(TensorRole::Workspace).0
    };
    for (name, workspace) in [("cuda", 8 * 1024 * 1024 + 8 * 16 * 1024), ("hopper_tf32", 32 << 20), ("tx2", 0)] {
        let platform = Platform::for_name(name).unwrap();
        assert_eq!(kept(&product, Stage::Inference, &platform), workspace, "{name}");
        assert_eq!(kept(&product, Stage::Training, &platform), 2 * workspace, "{name}");
        assert_eq!(kept(&bent, Stage::Training, &platform), 0, "{name}");
        // Before PyTorch 2 it was cudaMalloc's, and not the allocator's.
        let old = platform.run_by(&[("torch".to_owned(), "1.12.1".to_owned())].into());
        assert_eq!(kept(&product, Stage::Training, &old), 0, "{name}");
    }
}

/// `use_mkldnn` of aten/src/ATen/native/Convolution.cpp: on one thread few samples under a 1x1 kernel are not oneDNN's, so nothing is copied.
#[test]
fn one_thread_copies_nothing_for_few_samples_under_pointwise_kernels() {
    let mut builder = NetworkBuilder::new("point", Shape::new([32, 64, 64]));
    let conv = Conv { out_channels: 32, window: Window::square(1, 1, 0), groups: 1, bias: false };
    let conv = builder.add("conv", Op::Conv(conv), &[builder.input()]).unwrap();
    let network = builder.finish(conv);
    let allocated = |threads, batch| {
        let platform = Platform::for_name("cpu").unwrap().on_threads(threads);
        Simulation::new(
            &network,
            Step { optimizer: Optimizer::SgdWithoutMomentum, ..Step::published(Stage::Inference) },
            &platform,
        )
        .peak(batch)
        .allocated
        .0
    };
    let (weights, image) = (32 * 32 * 4, 32 * 64 * 64 * 4);
    assert_eq!(allocated(1, 15), weights + 15 * 2 * image);
    assert!(allocated(1, 16) > weights + 16 * 2 * image && allocated(2, 15) > weights + 15 * 2 * image);
}

/// `nn.Dropout(0.0)` returns its input (`_dropout_impl`, aten/src/ATen/native/Dropout.cpp): PyTorch takes 638 CPU-ms for a step without it,
/// 650 with it and 960 where half is dropped.
#[test]
fn a_dropout_that_drops_nothing_costs_nothing() {
    let with = |rate: Option<f32>| {
        let mut builder = NetworkBuilder::new("dropping", Shape::new([3, 16, 16]));
        let conv = || Op::Conv(Conv { out_channels: 8, window: Window::square(3, 1, 1), groups: 1, bias: false });
        let mut at = builder.add("first", conv(), &[builder.input()]).unwrap();
        at = builder.add("relu", Op::Activation(Activation::Relu), &[at]).unwrap();
        at = rate.map_or(at, |rate| builder.add("dropout", Op::Dropout { rate }, &[at]).unwrap());
        let last = builder.add("last", conv(), &[at]).unwrap();
        let pooled = builder
            .add("pooled", Op::Reduce { reduction: ReductionKind::Mean, axes: vec![1, 2], keep: false }, &[last])
            .unwrap();
        builder.finish(pooled)
    };
    let [none, zero, half] = [None, Some(0.0), Some(0.5)].map(with);
    for stage in Stage::ALL {
        for platform in Platform::names().map(|name| Platform::for_name(name).unwrap()) {
            let peak = |network: &Network| Simulation::new(network, Step::published(stage), &platform).peak(8);
            assert_eq!(peak(&zero), peak(&none), "{stage}");
            assert!(peak(&half).allocated > peak(&none).allocated || stage == Stage::Inference);
        }
        let kernels = |network: &Network| kernels(network, Step::published(stage)).len();
        assert_eq!(kernels(&zero), kernels(&none), "{stage}");
    }
}

#[test]
fn inference_keeps_no_statistics_for_a_backward_that_never_comes() {
    let mut builder = NetworkBuilder::new("rows", Shape::new([3, 8, 8]));
    let norm = Op::LayerNorm { axis: 2, affine: Affine::ScaleAndShift };
    let result =
        (0..3).fold(builder.input(), |at, number| builder.add(format!("norm{number}"), norm.clone(), &[at]).unwrap());
    let (network, cpu) = (builder.finish(result), Platform::for_name("cpu").unwrap());
    let simulation = Simulation::new(&network, Step::published(Stage::Inference), &cpu);
    // Three times a scale and a shift of 8; the batch, what a normalisation reads and gives, 192 numbers each; two numbers for each of 24 rows.
    assert_eq!(simulation.peak(1).allocated, Bytes(4 * (3 * 2 * 8 + 3 * 192 + 2 * 24)));
}

#[test]
fn attention_holds_a_number_for_each_query_and_no_scores() {
    let mut builder = NetworkBuilder::new("attention", Shape::new([2, 4, 8]));
    let linear = Op::Linear(Linear { out_features: 8, bias: false });
    let read = ["query", "key", "value"].map(|name| builder.add(name, linear.clone(), &[builder.input()]).unwrap());
    let attention = builder.add("attention", Op::Attention, &read).unwrap();
    let (network, cpu) = (builder.finish(attention), Platform::for_name("cpu").unwrap());
    let simulation = Simulation::new(&network, Step::published(Stage::Inference), &cpu);
    // Three matrices of 8 x 8; the batch, queries, keys, values and the result, 64 numbers each; 2 x 4 queries. For each of two threads the 4 x 4 scores
    // of a head, for each query its sum and its maximum, and a row of 8 of the result.
    assert_eq!(simulation.peak(1).allocated, Bytes(4 * (3 * 64 + 5 * 64 + 8 + 2 * (16 + 8 + 32))));
}

/// By `benches/recurrent.py` 64 steps of 16 samples through nn.LSTM(128, 128) take 25.6 times their result at most, backward, of which the result and
/// its gradient are two; nn.GRU takes 12.0 times, forward, with the result; nn.RNN 5.3 times, backward.
#[test]
fn recurrent_layers_keep_what_every_time_step_needs() {
    let peak = |kind: &str| {
        let mut builder = NetworkBuilder::new(kind, Shape::new([64, 128]));
        let read = Op::Linear(Linear { out_features: 128, bias: false });
        let read = builder.add("read", read, &[builder.input()]).unwrap();
        let layer = Op::Unknown(UnknownOperation::new(kind, Shape::new([64, 1, 128]), 1000));
        let layer = builder.add("layer", layer, &[read]).unwrap();
        let mean = Op::Reduce { reduction: ReductionKind::Mean, axes: vec![0, 1], keep: false };
        let mean = builder.add("mean", mean, &[layer]).unwrap();
        simulated(&builder.finish(mean), &Platform::for_name("cpu").unwrap(), 16).allocated.0 as f64
    };
    let result = f64::from(4 * 16 * 64 * 128);
    for (kind, measured) in [("LSTM", 25.6 - 2.0), ("GRU", 12.0 - 1.0), ("RNN", 5.3 - 2.0)] {
        // An operation of another kind keeps what it reads, of which these have a copy.
        let beside = (peak(kind) - peak("Anything")) / result + 1.0;
        assert!((beside / measured - 1.0).abs() < 0.15, "{kind}: {beside} times its result, measured {measured}");
    }
}

#[test]
fn tables_that_nobody_trains_have_no_gradients() {
    let mut builder = NetworkBuilder::new("table", Shape::new([3, 8, 8]));
    let table = builder.add("table", Op::Parameter(Shape::new([3, 8, 8])), &[]).unwrap();
    builder.set_trained(table, 0);
    let sum = builder.add("sum", Op::Binary(BinaryFunction::Add), &[builder.input(), table]).unwrap();
    let norm = builder.add("norm", Op::BatchNorm { axis: 0 }, &[sum]).unwrap();
    let (network, cpu) = (builder.finish(norm), Platform::for_name("cpu").unwrap());
    let alive = Simulation::new(&network, Step::published(Stage::Training), &cpu).alive(1);
    // The table lies there, beside scale, shift and running statistics; of these, scale and shift of 3 are trained.
    let [weights, gradients] = [TensorRole::Weights, TensorRole::WeightGradients].map(|role| alive.bytes(role));
    assert_eq!((weights, gradients), (Bytes(4 * (192 + 4 * 3)), Bytes(4 * 2 * 3)));
}

/// Training steps that differ in what is trained, how, and in how many passes.
fn steps() -> Vec<Step> {
    let published = Step::published(Stage::Training);
    let mut steps = Vec::new();
    for optimizer in [Optimizer::Sgd, Optimizer::AdamW] {
        for zero_grad in [ZeroGrad::Keep, ZeroGrad::Free] {
            for passes in [1, 2, 4] {
                for checkpoint in [Checkpoint::None, Checkpoint::Segments(4)] {
                    for trainable in [Trainable::All, Trainable::Bias] {
                        let accumulate = Accumulate::new(passes).unwrap();
                        steps.push(Step { optimizer, zero_grad, accumulate, checkpoint, trainable, ..published });
                    }
                }
            }
        }
    }
    steps
}

#[test]
fn steps_that_share_what_is_known_need_what_each_needs_by_itself() {
    let network = zoo::build("mobilenetv2", Dataset::Cifar10).unwrap();
    for platform in ["cpu", "orin", "tx2"].map(|name| Platform::for_name(name).unwrap()) {
        let simulations = Simulations::new(&network, &platform);
        for (step, batch) in steps().into_iter().flat_map(|step| [4, 8].map(|batch| (step, batch))) {
            let alone = Simulation::new(&network, step, &platform);
            assert_eq!(simulations.simulation(step).peak(batch), alone.peak(batch), "{} {step} {batch}", platform.name);
            assert_eq!(
                simulations.simulation(step).timeline(batch),
                alone.timeline(batch),
                "{} {step} {batch}",
                platform.name
            );
        }
    }
}

#[test]
fn a_caching_allocator_takes_no_less_than_what_lies_there() {
    let network = zoo::build("squeezenet", Dataset::Imagenet).unwrap();
    for platform in ["orin", "tx2"].map(|name| Platform::for_name(name).unwrap()) {
        for (step, batch) in steps().into_iter().flat_map(|step| [4, 16].map(|batch| (step, batch))) {
            let simulation = Simulation::new(&network, step, &platform);
            let (least, peak) = (simulation.peak_at_least(batch).unwrap(), simulation.peak(batch));
            assert!(
                least.reserved <= peak.reserved && least.allocated <= peak.allocated,
                "{} {step} {batch}",
                platform.name
            );
            assert!(2 * least.reserved.0 > peak.reserved.0, "{} {step} {batch}", platform.name);
        }
    }
    let cpu = Platform::for_name("cpu").unwrap();
    assert!(Simulation::new(&network, Step::published(Stage::Training), &cpu).peak_at_least(4).is_none());
}
