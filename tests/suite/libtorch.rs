//! The libtorch worker as a process of the real program: exact memory, real out-of-memory, clear refusals.

use crate::device::{conforms, job, measure};
use perf4sight::device::local::Local;
use perf4sight::device::protocol::{MemoryReading, StepRule};
use perf4sight::device::{Job, Measurement};
use perf4sight::network::zoo::{self, Dataset};
use perf4sight::network::{Activation, Linear, Network, NetworkBuilder, Op, Shape, Unknown, onnx};
use perf4sight::records::Setting;
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

#[test]
fn a_limit_makes_running_out_of_memory_real() {
    let (_folder, path) = file(&zoo::build("resnet18", Dataset::Imagenet).unwrap());
    let limit = Bytes::from_mib(100.0);
    let device = Local { mem_limit: Some(limit), ..libtorch() };
    // Its weights and their gradients take 89 MiB; a batch of 4 needs more than twice the limit, in inference less than half.
    let Measurement::OutOfMemory { memory: Some(memory) } = measure(&device, &job(&path)) else {
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
