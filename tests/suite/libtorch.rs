//! The libtorch worker as a process of the real program: exact memory, real out-of-memory, clear refusals.

use crate::device::{conforms, job, measure};
use perf4sight::device::local::Local;
use perf4sight::device::protocol::{LayersReading, MemoryReading, StepRule};
use perf4sight::device::{Job, Measurement};
use perf4sight::network::zoo::{self, Dataset};
use perf4sight::network::{Activation, Linear, Network, NetworkBuilder, Op, Shape, Unknown, onnx};
use perf4sight::records::Setting;
use perf4sight::records::layers::Pass;
use perf4sight::units::Bytes;
use perf4sight::workload::{Stage, Workload};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// This machine as a device, kept to few and short steps.
fn libtorch() -> Local {
    Local {
        worker: (env!("CARGO_BIN_EXE_perf4sight").into(), vec!["worker".into()]),
        software: Setting::new(),
        // One, so that whatever else runs on the machine costs a fair share of time: OpenMP threads wait for each other.
        threads: 1,
        mem_limit: Some(Bytes(1 << 30)),
        timeout: Duration::from_secs(120),
        seed: 7,
        steps: StepRule { minimum: 3, minimum_seconds: 0.0, spread: 1.0, maximum_seconds: 1.0 },
    }
}

/// A network in a file of its own.
fn file(network: &Network) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join(format!("{}_0.onnx", network.name()));
    onnx::write(network, &path).unwrap();
    (folder, path)
}

fn memory_of(device: &Local, job: &Job) -> MemoryReading {
    match measure(device, &Job { latency: false, ..job.clone() }) {
        Measurement::Measured { memory: Some(memory), .. } => memory,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_libtorch_worker_conforms() {
    let (_folder, path) = file(&zoo::build("squeezenet", Dataset::Cifar10).unwrap());
    conforms(&libtorch(), &job(&path));
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
    let job = |stage| Job { workload: Workload { stage, batch: 8 }, ..job(&path) };
    // fp32: weights 1200 x 1000, input 8 x 1200, result 8 x 1000 that the ReLU overwrites.
    let (weights, input, result) = (4_800_000, 38_400, 32_000);
    assert_eq!(memory_of(&libtorch(), &job(Stage::Inference)).allocated, weights + input + result);
    // From the second step on: weights, their gradients and momentum, and once more while new gradients are added to the old.
    let training = memory_of(&libtorch(), &job(Stage::Training)).allocated;
    let tensors = 4 * weights + input;
    assert!((tensors..tensors + 6 * result).contains(&training), "{training} bytes, {tensors} in the large tensors");
}

/// The layers of a job, and what they add up to over the plain step.
fn layers_of(device: &Local, job: &Job) -> (LayersReading, f64) {
    match measure(device, &Job { memory: false, layers: true, ..job.clone() }) {
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
        let job = Job { workload: Workload { stage, batch: 1 }, ..job(&path) };
        let (layers, share) = layers_of(&libtorch(), &job);
        let timed = |pass| -> Vec<&str> {
            let times = layers.times.iter().filter(|time| time.pass == pass);
            times.map(|time| time.node.as_deref().unwrap_or("-")).collect()
        };
        let training = stage == Stage::Training;
        assert_eq!(timed(Pass::Forward), names);
        assert!(timed(Pass::Backward).len() <= names.len() && timed(Pass::Backward).contains(&names[0]) == training);
        for pass in [Pass::Loss, Pass::ZeroGrad, Pass::Optimizer] {
            assert_eq!(timed(pass), if training { vec!["-"] } else { vec![] }, "{pass:?}");
        }
        // Three steps beside other tests; the command below looks closely.
        assert!((0.5..2.0).contains(&share), "{stage}: {share}");
    }
}

/// How closely the operations add up, on a machine that does nothing else.
#[test]
#[ignore = "needs a quiet machine for two minutes; run with: cargo test --release --test suite in_place -- --ignored --nocapture"]
fn operations_timed_in_place_add_up_to_the_plain_step() {
    let steps = StepRule { minimum: 5, minimum_seconds: 0.7, ..StepRule::default() };
    let device = Local { threads: 2, mem_limit: Some(Bytes(8 << 30)), steps, ..libtorch() };
    println!("| network | stage | batch | plain step | operations over it |\n|---|---|---|---|---|");
    let mut shares = Vec::new();
    for name in ["squeezenet", "mnasnet", "mobilenetv2", "resnet18", "resnet50"] {
        let (_folder, path) = file(&zoo::build(name, Dataset::Imagenet).unwrap());
        for (stage, batch) in Stage::ALL.into_iter().flat_map(|stage| [1, 8].map(|batch| (stage, batch))) {
            let job = Job { workload: Workload { stage, batch }, ..job(&path) };
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
    let device = Local { threads: 2, ..libtorch() };
    let used = [0; 3].map(|_| memory_of(&device, &job(&path)).used as f64);
    let [low, high] = [f64::min, f64::max].map(|fold| used.into_iter().reduce(fold).unwrap());
    assert!(high / low < 1.005, "{used:?}");
}

#[test]
fn a_limit_makes_running_out_of_memory_real() {
    let (_folder, path) = file(&zoo::build("resnet18", Dataset::Imagenet).unwrap());
    let limit = Bytes::from_mib(100.0);
    let device = Local { mem_limit: Some(limit), ..libtorch() };
    // Its weights and their gradients take 89 MiB; a batch of 4 needs more than twice the limit, in inference less than half.
    let Measurement::OutOfMemory { memory: Some(memory), .. } = measure(&device, &job(&path)) else {
        panic!("{:?}", measure(&device, &job(&path)));
    };
    assert!(memory.allocated > limit.0 / 2 && memory.allocated <= limit.0, "{memory:?}");
    let inference = Job { workload: Workload { stage: Stage::Inference, batch: 4 }, ..job(&path) };
    assert!(memory_of(&device, &inference).allocated <= limit.0);
}

#[test]
fn what_cannot_run_is_refused_by_name() {
    let mut builder = NetworkBuilder::new("odd", Shape::new([3, 8, 8]));
    let unknown = Unknown { op_type: "Einsum".into(), shape: Shape::new([10]), parameters: 0 };
    let output = builder.add("odd", Op::Unknown(unknown), &[builder.input()]).unwrap();
    let (_folder, path) = file(&builder.finish(output));
    for (path, words) in [(path, "Einsum"), (PathBuf::from("missing.onnx"), "missing.onnx")] {
        let Measurement::Broken { reason, .. } = measure(&libtorch(), &job(&path)) else { panic!("{words} ran") };
        assert!(reason.contains(words), "{reason}");
    }
}
