//! Networks on the processor: what every worker must do, exact memory, layers that add up.

use crate::conformance::{conforms_as_worker, file, job, measure, memory_of, processor, python_worker};
use crate::own_worker;
use perf4sight_base::units::Bytes;
use perf4sight_cost::device::hardware::Hardware;
use perf4sight_cost::device::protocol::{LayersReading, StepRule};
use perf4sight_cost::device::{Measurement, MeasurementJob};
use perf4sight_cost::records::layers::StepPart;
use perf4sight_network::zoo;
use perf4sight_network::zoo::Dataset;
use perf4sight_network::{Activation, Linear, NetworkBuilder, Op, Shape};
use perf4sight_step::workload::{Stage, Workload};

fn libtorch() -> Hardware {
    processor(own_worker())
}

#[test]
fn the_libtorch_worker_conforms() {
    conforms_as_worker(&libtorch());
}

/// Same network, same step, same memory, as far as libtorch 2.11 and Debian's PyTorch 1.13 agree.
#[test]
fn workers_count_the_same_memory() {
    let Some(python) = python_worker() else { return };
    let (python, own) = (processor(python), libtorch());
    for name in ["resnet18", "squeezenet", "mobilenetv2", "googlenet"] {
        let (_folder, path) = file(&zoo::build(name, Dataset::Cifar10).unwrap());
        for stage in Stage::ALL {
            let job = MeasurementJob { workload: Workload::published(stage, 8), ..job(&path) };
            let [theirs, ours] = [&python, &own].map(|device| memory_of(device, &job).allocated as f64);
            println!("{name} {stage}: {theirs} / {ours} = {:.4}", theirs / ours);
            assert!((theirs / ours - 1.0).abs() < 0.01, "{name}, {stage}: {theirs} and {ours} bytes");
        }
    }
}

#[test]
fn allocated_memory_repeats_to_the_byte_and_shows_in_the_resident_set() {
    let (_folder, path) = file(&zoo::build("resnet18", Dataset::Imagenet).unwrap());
    let job = job(&path);
    let (first, second) = (memory_of(&libtorch(), &job), memory_of(&libtorch(), &job));
    assert_eq!(first.allocated, second.allocated);
    // The kernel counts pages of the process, code included; nothing that was counted can have been missing there.
    assert!(first.used as f64 > 0.95 * first.allocated as f64 && first.used < 3 * first.allocated, "{first:?}");
    assert!(first.free <= first.available, "{first:?}");
}

#[test]
fn allocated_memory_is_what_the_tensors_add_up_to() {
    let mut builder = NetworkBuilder::new("matrix", Shape::new([3, 20, 20]));
    let flat = builder.add("flatten", Op::Flatten, &[builder.input()]).unwrap();
    let linear = Op::Linear(Linear { out_features: 1000, bias: false });
    let linear = builder.add("linear", linear, &[flat]).unwrap();
    let relu = builder.add("relu", Op::Activation(Activation::Relu), &[linear]).unwrap();
    let (_folder, path) = file(&builder.finish(relu));
    let job = |stage| MeasurementJob { workload: Workload::published(stage, 8), ..job(&path) };
    // fp32: weights 1200 x 1000, input 8 x 1200, result 8 x 1000 that the ReLU overwrites.
    let (weights, input, result) = (4_800_000, 38_400, 32_000);
    let inference = memory_of(&libtorch(), &job(Stage::Inference));
    assert_eq!(inference.allocated, weights + input + result);
    // Auxiliary them are compiled kernels, packing buffers and code that a step runs: not the 34 MiB more of looking for GPUs to seed.
    assert!(inference.used < inference.allocated + (32 << 20), "{inference:?}");
    // From the second step on: weights, their gradients and momentum, and once more while new gradients are added to the old.
    let training = memory_of(&libtorch(), &job(Stage::Training)).allocated;
    let tensors = 4 * weights + input;
    assert!((tensors..tensors + 6 * result).contains(&training), "{training} bytes, {tensors} in the large tensors");
}

/// The layers of a job, and what they add up to over the plain step.
fn layers_of(device: &Hardware, job: &MeasurementJob) -> (LayersReading, f64) {
    match measure(device, &MeasurementJob { memory: false, layers: true, ..job.clone() }) {
        Measurement::Measured { layers: Some(layers), .. } => {
            let sum: f64 = layers.times.iter().map(|time| time.milliseconds).sum();
            (layers.clone(), sum / layers.step)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_operation_of_a_step_is_timed_and_together_they_are_the_step() {
    let network = zoo::build("squeezenet", Dataset::Imagenet).unwrap();
    let (_folder, path) = file(&network);
    let names: Vec<&str> = network.nodes().iter().skip(1).map(|node| node.name.as_str()).collect();
    for stage in Stage::ALL {
        let job = MeasurementJob { workload: Workload::published(stage, 1), ..job(&path) };
        let (layers, share) = layers_of(&libtorch(), &job);
        let timed = |pass| -> Vec<&str> {
            let times = layers.times.iter().filter(|time| time.pass == pass);
            times.map(|time| time.node.as_deref().unwrap_or("-")).collect()
        };
        let training = stage == Stage::Training;
        assert_eq!(timed(StepPart::Forward), names);
        assert!(
            timed(StepPart::Backward).len() <= names.len() && timed(StepPart::Backward).contains(&names[0]) == training
        );
        for pass in [StepPart::Loss, StepPart::ZeroGrad, StepPart::Optimizer] {
            assert_eq!(timed(pass), if training { vec!["-"] } else { vec![] }, "{pass:?}");
        }
        // Three steps next to other tests; the command below looks closely.
        assert!((0.5..2.0).contains(&share), "{stage}: {share}");
    }
}

/// How closely the operations add up, on a machine that does nothing else.
#[test]
#[ignore = "needs a quiet machine for two minutes; run with: cargo test --release -p perf4sight-worker in_place -- --ignored --nocapture"]
fn operations_timed_in_place_add_up_to_the_plain_step() {
    let steps = StepRule { minimum: 5, minimum_seconds: 0.7, ..StepRule::default() };
    let device = Hardware { threads: 2, mem_limit: Some(Bytes(8 << 30)), steps, ..libtorch() };
    println!("| network | stage | batch | plain step | operations over it |\n|---|---|---|---|---|");
    let mut shares = Vec::new();
    for name in ["squeezenet", "mnasnet", "mobilenetv2", "resnet18", "resnet50"] {
        let (_folder, path) = file(&zoo::build(name, Dataset::Imagenet).unwrap());
        for (stage, batch) in Stage::ALL.into_iter().flat_map(|stage| [1, 8].map(|batch| (stage, batch))) {
            let job = MeasurementJob { workload: Workload::published(stage, batch), ..job(&path) };
            let (layers, share) = layers_of(&device, &job);
            println!("| {name} | {stage} | {batch} | {:.1} ms | {share:.3} |", layers.step);
            shares.push(share);
        }
    }
    assert!(shares.iter().all(|share| (share - 1.0).abs() <= 0.03), "{shares:?}");
}

#[test]
fn used_memory_repeats_on_every_number_of_threads() {
    let (_folder, path) = file(&zoo::build("mobilenetv2", Dataset::Imagenet).unwrap());
    let device = Hardware { threads: 2, ..libtorch() };
    let used = [0; 3].map(|_| memory_of(&device, &job(&path)).used as f64);
    let [low, high] = [f64::min, f64::max].map(|fold| used.into_iter().reduce(fold).unwrap());
    assert!(high / low < 1.005, "{used:?}");
}
