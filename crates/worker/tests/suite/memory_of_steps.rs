//! Simulated memory of other steps than the published one, against what libtorch allocates on this processor.

use crate::conformance::python_worker;
use crate::memory_on_cpu::{Pair, check, compare, compare_by, counting, limited_to, worker};
use crate::own_worker;
use perf4sight_cost::device::hardware::Hardware;
use perf4sight_network::zoo;
use perf4sight_network::zoo::Dataset;
use perf4sight_network::{
    Activation, BinaryFunction, Conv, ConvTranspose, Interpolation, Linear, Network, NetworkBuilder, Op, Shape, Window,
};
use perf4sight_step::workload::{
    Accumulate, Checkpoint, FrozenNormalisation, Loss, Optimizer, Precision, Stage, Step, Trainable, ZeroGrad,
};

/// Every optimizer, with gradients kept and freed.
fn optimizers() -> impl Iterator<Item = Step> {
    let step = Step::published(Stage::Training);
    Optimizer::ALL
        .into_iter()
        .flat_map(move |optimizer| ZeroGrad::ALL.map(|zero_grad| Step { optimizer, zero_grad, ..step }))
}

#[test]
fn every_optimizer_takes_what_is_simulated() {
    let network = zoo::build("squeezenet", Dataset::Cifar10).unwrap();
    let pairs = optimizers().flat_map(|step| compare(&network, 0, step, &[2]));
    check(&pairs.collect::<Vec<_>>());
}

/// A table in `docs/accuracy/simulated-memory.md`.
#[test]
#[ignore = "takes minutes; run with: cargo test -p perf4sight-worker optimizers_of_whole_networks -- --ignored --nocapture"]
fn optimizers_of_whole_networks() {
    let mut all = Vec::new();
    println!("| network | step | batch 1 | batch 4 |\n|---|---|---|---|");
    for name in ["alexnet", "vgg11", "resnet50", "mobilenetv2", "squeezenet", "googlenet"] {
        let network = zoo::build(name, Dataset::Imagenet).unwrap();
        for step in optimizers() {
            let pairs = compare(&network, 0, step, &[1, 4]);
            println!("| {name} | {step} | {} |", pairs.iter().map(Pair::cell).collect::<Vec<_>>().join(" | "));
            all.extend(pairs);
        }
    }
    println!("\n{:?}", check(&all));
}

/// Every part of a network that can be trained, at its place with weights below and without.
const TRAINABLE: [&str; 5] = ["last 10", "classifier", "bias", "normalisation", "layer3.*,fc"];

fn part(trainable: &str) -> Step {
    Step { trainable: Trainable::parse(trainable).unwrap(), ..Step::published(Stage::Training) }
}

/// Shown, so that a failure says of what.
fn answer(network: &Network, step: Step, batch: u64) -> Pair {
    told_by(&worker(), network, step, batch)
}

fn told_by(device: &Hardware, network: &Network, step: Step, batch: u64) -> Pair {
    let pair = compare_by(device, network, 0, step, &[batch]).remove(0);
    println!("{} {step}, batch {batch}: {}", network.name(), pair.cell());
    pair
}

#[test]
fn what_is_not_trained_is_not_kept() {
    let network = zoo::build("resnet18", Dataset::Cifar10).unwrap();
    let steps = TRAINABLE.map(part);
    let evaluated = Step { frozen_normalisation: FrozenNormalisation::Eval, ..part("last 10") };
    let pairs: Vec<Pair> = steps.into_iter().chain([evaluated]).map(|step| answer(&network, step, 16)).collect();
    check(&pairs);
}

#[test]
fn gradients_of_several_passes_meet() {
    let network = zoo::build("mobilenetv2", Dataset::Cifar10).unwrap();
    let accumulate = Accumulate::new(4).unwrap();
    let published = Step::published(Stage::Training);
    let freed = Step { zero_grad: ZeroGrad::Free, optimizer: Optimizer::AdamW, ..published };
    let steps = [published, freed].map(|step| Step { accumulate, ..step });
    // The last has passes of a single sample.
    let pairs = steps.into_iter().flat_map(|step| [16, 4].map(|batch| answer(&network, step, batch)));
    check(&pairs.collect::<Vec<_>>());
}

#[test]
fn segments_that_run_again_take_what_is_simulated() {
    let published = Step::published(Stage::Training);
    let checkpoints = [Checkpoint::Segments(4), Checkpoint::EveryBlock];
    let mut pairs = Vec::new();
    for name in ["resnet18", "squeezenet", "mobilenetv2"] {
        let network = zoo::build(name, Dataset::Cifar10).unwrap();
        let steps = checkpoints.map(|checkpoint| Step { checkpoint, ..published });
        pairs.extend(steps.map(|step| answer(&network, step, 16)));
    }
    // Of a part of the weights, and one pass after the other.
    let network = zoo::build("resnet18", Dataset::Cifar10).unwrap();
    let some = Step { checkpoint: Checkpoint::Segments(4), ..part("layer3.*,fc") };
    let passes = Step { accumulate: Accumulate::new(4).unwrap(), ..some };
    pairs.extend([some, passes].map(|step| answer(&network, step, 16)));
    check(&pairs);
}

/// A segment runs again under an autocast of its own, which casts its weights once more.
#[test]
fn segments_that_run_again_under_autocast_take_what_is_simulated() {
    let mut pairs = Vec::new();
    for name in ["resnet18", "squeezenet", "mobilenetv2"] {
        let network = zoo::build(name, Dataset::Cifar10).unwrap();
        for checkpoint in [Checkpoint::Segments(4), Checkpoint::EveryBlock] {
            for step in [part("all"), part("last 10"), Step { accumulate: Accumulate::new(4).unwrap(), ..part("all") }]
            {
                pairs.push(answer(&network, Step { precision: Precision::AmpBf16, checkpoint, ..step }, 16));
            }
        }
    }
    check(&pairs);
}

/// Steps that compute in bfloat16, under autocast and with weights in it: all of the network trained or its end, in one pass or several.
#[test]
fn brain_floats_take_what_is_simulated() {
    let accumulate = Accumulate::new(4).unwrap();
    for name in ["resnet18", "mobilenetv2", "convnext_tiny"] {
        let network = zoo::build(name, Dataset::Cifar10).unwrap();
        let pairs = [Precision::AmpBf16, Precision::Bf16].into_iter().flat_map(|precision| {
            let inference = Step { precision, ..Step::published(Stage::Inference) };
            let steps = [part("all"), part("last 10"), Step { accumulate, ..part("all") }];
            let steps = steps.map(|step| Step { precision, ..step });
            steps.into_iter().chain([inference]).map(|step| answer(&network, step, 16)).collect::<Vec<_>>()
        });
        check(&pairs.collect::<Vec<_>>());
    }
}

/// Pixels of 64 x 64 in five classes, at the size of the image again: a segmentation in small.
fn segmentation() -> Network {
    let mut builder = NetworkBuilder::new("segmentation", Shape::new([3, 64, 64]));
    let conv = |out_channels, window| Op::Conv(Conv { out_channels, window, groups: 1, bias: true });
    let image = builder.input();
    let narrow = builder.add("narrow", conv(16, Window::square(3, 2, 1)), &[image]).unwrap();
    let normalised = builder.add("normalised", Op::BatchNorm { axis: 0 }, &[narrow]).unwrap();
    let relu = builder.add("relu", Op::Activation(Activation::Relu), &[normalised]).unwrap();
    let deep = builder.add("deep", conv(32, Window::square(3, 1, 1)), &[relu]).unwrap();
    let classes = builder.add("classes", conv(5, Window::square(1, 1, 0)), &[deep]).unwrap();
    let resize = Op::Resize { image: [64, 64], interpolation: Interpolation::Linear, corners: false };
    let wide = builder.add("wide", resize, &[classes]).unwrap();
    builder.finish(wide)
}

/// A small image that is made four times as wide and high, which takes the most memory of all.
fn magnified() -> Network {
    let mut builder = NetworkBuilder::new("magnified", Shape::new([3, 16, 16]));
    let image = builder.input();
    let conv = Op::Conv(Conv { out_channels: 32, window: Window::square(3, 1, 1), groups: 1, bias: true });
    let conv = builder.add("conv", conv, &[image]).unwrap();
    let resize = Op::Resize { image: [64, 64], interpolation: Interpolation::Linear, corners: false };
    let wide = builder.add("wide", resize, &[conv]).unwrap();
    let mean = builder.add("mean", Op::AdaptiveAvgPool { output: [1, 1] }, &[wide]).unwrap();
    let flat = builder.add("flat", Op::Flatten, &[mean]).unwrap();
    let head = builder.add("head", Op::Linear(Linear { out_features: 10, bias: true }), &[flat]).unwrap();
    builder.finish(head)
}

/// Transposed convolutions that make an image twice as wide and high each.
fn generator() -> Network {
    let mut builder = NetworkBuilder::new("generator", Shape::new([16, 16, 16]));
    let mut made = builder.input();
    for (place, out_channels) in [32, 16, 3].into_iter().enumerate() {
        let conv = Conv { out_channels, window: Window::square(4, 2, 1), groups: 1, bias: true };
        let op = Op::ConvTranspose(ConvTranspose { conv, extra: [0, 0] });
        made = builder.add(format!("wider{place}"), op, &[made]).unwrap();
    }
    builder.finish(made)
}

/// A vector of classes and an auxiliary one before it, each with a loss of its own.
fn two_headed() -> Network {
    let mut builder = NetworkBuilder::new("two_headed", Shape::new([3, 32, 32]));
    let conv = |out_channels| Op::Conv(Conv { out_channels, window: Window::square(3, 2, 1), groups: 1, bias: true });
    let linear = |out_features| Op::Linear(Linear { out_features, bias: true });
    let image = builder.input();
    let trunk = builder.add("trunk", conv(32), &[image]).unwrap();
    let relu = builder.add("relu", Op::Activation(Activation::Relu), &[trunk]).unwrap();
    let beside = builder.add("beside", Op::Flatten, &[relu]).unwrap();
    let auxiliary = builder.add("auxiliary", linear(100), &[beside]).unwrap();
    let deep = builder.add("deep", conv(64), &[relu]).unwrap();
    let flat = builder.add("flat", Op::Flatten, &[deep]).unwrap();
    let head = builder.add("head", linear(100), &[flat]).unwrap();
    builder.finish_with(&[head, auxiliary])
}

/// A pyramid of three levels of features, of which the finer ones are made of the coarser: what one result is made of is the next.
fn pyramid() -> Network {
    let mut builder = NetworkBuilder::new("pyramid", Shape::new([3, 64, 64]));
    let conv = |kernel, stride| {
        Op::Conv(Conv { out_channels: 24, window: Window::square(kernel, stride, kernel / 2), groups: 1, bias: true })
    };
    let mut features = vec![builder.input()];
    for level in 0..4 {
        let down = builder.add(format!("down{level}"), conv(3, 2), &[features[level]]).unwrap();
        features.push(builder.add(format!("relu{level}"), Op::Activation(Activation::Relu), &[down]).unwrap());
    }
    let mut levels = vec![builder.add("top", conv(1, 1), &[features[4]]).unwrap()];
    for level in [3, 2] {
        let side = [8, 16][3 - level];
        let resize = Op::Resize { image: [side, side], interpolation: Interpolation::Nearest, corners: false };
        let wide = builder.add(format!("wide{level}"), resize, &[levels[3 - level]]).unwrap();
        let lateral = builder.add(format!("lateral{level}"), conv(1, 1), &[features[level]]).unwrap();
        levels.push(builder.add(format!("sum{level}"), Op::Binary(BinaryFunction::Add), &[lateral, wide]).unwrap());
    }
    builder.finish_with(&levels.into_iter().rev().collect::<Vec<_>>())
}

/// The first step of a generator, of which a single image takes much of the memory that threads fill up.
#[test]
fn each_thread_of_a_transposed_convolution_fills_up_an_image() {
    let network = generator();
    let steps = Stage::ALL.map(Step::published);
    check(&steps.map(|step| answer(&network, step, 1)));
}

/// How much more than is simulated for `AVX512_CORE_BF16` processors with other instructions take in bfloat16.
#[test]
#[ignore = "needs AMX; run with: cargo test -p perf4sight-worker other_instructions -- --ignored --nocapture"]
fn other_instructions() {
    let known = "resnet18 mobilenetv2 squeezenet mnasnet googlenet mobilenet_v3_small densenet121 convnext_tiny efficientnet_b0 vit_b_16";
    let known = known.split(' ').map(|name| zoo::build(name, Dataset::Cifar10).unwrap());
    let networks: Vec<Network> =
        [segmentation(), generator(), two_headed(), pyramid()].into_iter().chain(known).collect();
    for instructions in ["AVX512_CORE_BF16", "AVX512_CORE_AMX", "AVX512_CORE"] {
        let device = limited_to(instructions, own_worker());
        let mut within = Vec::new();
        let low =
            |stage| [Precision::AmpBf16, Precision::Bf16].map(|precision| Step { precision, ..Step::published(stage) });
        let steps: Vec<Step> = Stage::ALL.into_iter().flat_map(low).collect();
        for network in &networks {
            for (step, batch) in steps.iter().flat_map(|step| [(*step, 1), (*step, 16)]) {
                let (precision, stage) = (step.precision, step.stage);
                let pair = told_by(&device, network, step, batch);
                println!(
                    "{instructions} | {} | {} | {stage} | {batch} | {}",
                    network.name(),
                    precision.name(),
                    pair.cell()
                );
                within.extend(pair.is_at_least(5.0).then(|| (1.0 + pair.error() / 100.0).ln().abs() <= 0.12));
            }
        }
        let held = within.iter().filter(|within| **within).count();
        println!("{instructions}: {held} of {} of 5 MiB and more within 12 %", within.len());
        assert!(10 * held >= 9 * within.len());
    }
}

/// Cross-entropy of vectors, of pixels and of several heads, and squared differences from as many numbers; in single precision and under autocast.
fn losses(told_by: impl Fn(&Network, Step, u64) -> Pair) {
    let mut pairs = Vec::new();
    for network in [segmentation(), magnified(), generator(), two_headed(), pyramid()] {
        for loss in Loss::ALL {
            for precision in [Precision::Fp32, Precision::AmpBf16] {
                let step = Step { loss, precision, ..part("all") };
                pairs.push(told_by(&network, step, 16));
            }
            let passes = Step { loss, accumulate: Accumulate::new(4).unwrap(), ..part("all") };
            pairs.push(told_by(&network, passes, 16));
        }
        // Of some results nothing is learned, and some lie in segments that run again.
        pairs.push(told_by(&network, part("classifier"), 16));
        if network.outputs().len() > 1 {
            pairs.push(told_by(&network, Step { checkpoint: Checkpoint::Segments(2), ..part("all") }, 16));
        }
    }
    println!("{:?}", check(&pairs));
}

#[test]
fn every_loss_takes_what_is_simulated() {
    losses(answer);
}

/// The same as the first Python with PyTorch runs them.
#[test]
#[ignore = "needs PyTorch; run with: cargo test -p perf4sight-worker losses_in_python -- --ignored --nocapture"]
fn losses_in_python() {
    let Some(worker) = python_worker() else { return };
    let worker = counting(worker);
    losses(|network, step, batch| self::told_by(&worker, network, step, batch));
}

/// Networks x optimizers x precisions x what is trained x passes and segments x batch sizes, of which every seventh, a stride that meets all of each.
#[test]
#[ignore = "takes ten minutes; run with: cargo test -p perf4sight-worker grid_of_steps -- --ignored --nocapture"]
fn grid_of_steps() {
    grid(&worker(), 7);
}

/// The same, fewer, as the first Python with PyTorch runs them.
#[test]
#[ignore = "takes ten minutes; run with: cargo test -p perf4sight-worker grid_in_python -- --ignored --nocapture"]
fn grid_in_python() {
    let Some(worker) = python_worker() else { return };
    grid(&counting(worker), 23);
}

/// Every so manieth of the grid.
fn grid(device: &Hardware, stride: usize) {
    let networks = ["alexnet", "resnet18", "mobilenetv2", "squeezenet", "googlenet", "mnasnet"];
    let mut cells = Vec::new();
    for network in networks {
        for optimizer in Optimizer::ALL {
            for trainable in ["all", "last 10", "classifier", "bias"] {
                let [checkpointed, accumulated] = [(1, Checkpoint::Segments(4)), (4, Checkpoint::None)];
                for how in [(1, Checkpoint::None), accumulated, checkpointed] {
                    for precision in [Precision::Fp32, Precision::AmpBf16] {
                        cells.extend([4, 16].map(|batch| (network, optimizer, trainable, how, precision, batch)));
                    }
                }
            }
        }
    }
    let mut all = Vec::new();
    for (name, optimizer, trainable, (passes, checkpoint), precision, batch) in cells.into_iter().step_by(stride) {
        let (accumulate, zero_grad) = (Accumulate::new(passes).unwrap(), optimizer.zero_grad());
        let step = Step { optimizer, zero_grad, accumulate, checkpoint, precision, ..part(trainable) };
        all.push(told_by(device, &zoo::build(name, Dataset::Imagenet).unwrap(), step, batch));
    }
    println!("{} cells: {:?}", all.len(), check(&all));
}
