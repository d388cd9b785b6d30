//! What every device and every worker must do, run on each of them; the suite of the libtorch worker reads this file too.

use perf4sight_base::units::Bytes;
use perf4sight_cost::device::hardware::Hardware;
use perf4sight_cost::device::kind::DeviceKind;
use perf4sight_cost::device::program::WorkerProgram;
use perf4sight_cost::device::protocol::{MemoryReading, StepRule, WorkerReply};
use perf4sight_cost::device::{Device, Measurement, MeasurementJob, RunAllowance};
use perf4sight_cost::records::Variant;
use perf4sight_machine::{LocalMachine, RunWatch};
use perf4sight_network::zoo;
use perf4sight_network::zoo::Dataset;
use perf4sight_network::{
    Activation, Affine, ArgMax, BinaryFunction, Conv, ConvTranspose, ElementKind, Embedding, Fold, GridSample,
    Interpolation, Linear, Network, NetworkBuilder, NetworkInput, NodeId, Op, OutsideValues, PaddingFill,
    PickedElements, Recurrent, RecurrentKind, ReductionKind, Shape, TopK, UnknownOperation, VolumeWindow, Window,
};
use perf4sight_onnx as onnx;
use perf4sight_step::workload::{Checkpoint, Precision, Stage, Step, Workload};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) fn job(file: &Path) -> MeasurementJob {
    let workload = Workload::published(Stage::Training, 4);
    MeasurementJob {
        variant: Variant::new("resnet18", 0),
        file: file.to_owned(),
        workload,
        latency: true,
        memory: true,
        layers: false,
        round: 1,
        allowance: RunAllowance::default(),
    }
}

pub(crate) fn measure(device: &dyn Device, job: &MeasurementJob) -> Measurement {
    let cancelled = AtomicBool::new(false);
    device.measure(job, &RunWatch::quiet(&cancelled)).unwrap()
}

/// What every backend must do with a configuration that fits.
pub(crate) fn conforms(device: &dyn Device, fits: &MeasurementJob) {
    assert_eq!(DeviceKind::parse(device.name()).unwrap().name(), device.name());
    let setting = device.setting();
    assert_eq!(setting["device"], device.name());
    assert!(setting.contains_key("perf4sight"));
    assert_eq!(setting, device.setting(), "rows could never be continued");
    assert!(device.capacity().is_none_or(|capacity| capacity > Bytes(0)));

    device.check(fits).unwrap();
    for (latency, memory) in [(true, true), (true, false), (false, true)] {
        let job = MeasurementJob { latency, memory, ..fits.clone() };
        let Measurement::Measured { latency: time, memory: counted, .. } = measure(device, &job) else {
            panic!("{} does not fit on {}", fits.variant, device.name());
        };
        assert_eq!((time.is_some(), counted.is_some()), (latency, memory));
        assert!(time.is_none_or(|time| time.median > 0.0 && time.steps > 0));
        assert!(counted.is_none_or(|counted| counted.reserved >= counted.allocated && counted.used > 0));
    }

    let cancelled = AtomicBool::new(true);
    let watch = RunWatch::quiet(&cancelled);
    assert_eq!(device.measure(fits, &watch).unwrap(), Measurement::Interrupted);

    let nowhere = MeasurementJob { variant: Variant::new("nowhere", 0), file: "nowhere_0.onnx".into(), ..fits.clone() };
    let error = device.check(&nowhere).unwrap_err().to_string();
    assert!(error.contains("nowhere"), "{error}");
}

/// This machine's processor measured by a worker, kept to few and short steps.
pub(crate) fn processor(worker: WorkerProgram) -> Hardware {
    Hardware {
        kind: DeviceKind::Cpu,
        machine: Arc::new(LocalMachine),
        gpu: Default::default(),
        worker,
        // One, so that whatever else runs on the machine costs a fair share of time: OpenMP threads wait for each other.
        threads: 1,
        mem_limit: Some(Bytes(1 << 30)),
        timeout: Duration::from_secs(120),
        seed: 7,
        steps: StepRule { minimum: 3, minimum_seconds: 0.0, spread: 1.0, maximum_seconds: 1.0 },
    }
}

/// A network in a file of its own.
pub(crate) fn file(network: &Network) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join(format!("{}_0.onnx", network.name()));
    onnx::write(network, &path).unwrap();
    (folder, path)
}

/// Where that device is, in a worker's words.
fn place(device: &Hardware) -> String {
    device.kind.place(device.gpu.index)
}

pub(crate) fn memory_of(device: &Hardware, job: &MeasurementJob) -> MemoryReading {
    match measure(device, &MeasurementJob { latency: false, ..job.clone() }) {
        Measurement::Measured { memory: Some(memory), .. } => memory,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn asked(words: &[&str]) -> WorkerProgram {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    WorkerProgram::query(&LocalMachine, words, Duration::from_secs(60)).unwrap()
}

/// The worker in plain Python.
fn python_worker_file() -> String {
    format!("{}/workers/torch_worker.py", crate::ROOT)
}

/// The first Python that has PyTorch; Debian's belongs to the system's Python, which may not be the first on the path.
pub(crate) fn python() -> Option<&'static str> {
    let has_torch = |python: &&str| {
        let import = Command::new(python).args(["-c", "import torch"]).stderr(Stdio::null()).status();
        import.is_ok_and(|status| status.success())
    };
    let found = ["python3", "/usr/bin/python3"].into_iter().find(has_torch);
    if found.is_none() {
        eprintln!("skipped: this test needs a python3 that can import torch, such as Debian's python3-torch");
    }
    found
}

pub(crate) fn python_worker() -> Option<WorkerProgram> {
    Some(asked(&[python()?, &python_worker_file()]))
}

/// What every worker must do.
pub(crate) fn conforms_as_worker(device: &Hardware) {
    let (_folder, path) = file(&zoo::build("squeezenet", Dataset::Cifar10).unwrap());
    conforms(device, &job(&path));
    what_it_says_of_itself_is_in_the_setting(device);
    memory_repeats(device, &job(&path));
    it_computes_with_what_it_says(device, &job(&path));
    layers_are_timed_or_refused(device, &job(&path));
    a_limit_makes_running_out_of_memory_real(device);
    what_cannot_run_is_refused_by_name(device);
    lines_that_are_no_requests_fail(&device.worker);
    the_machine_is_told_of(&device.worker, &path);
    every_operation_runs(device);
    segments_run_again(device, &job(&path));
}

/// What is not kept does not lie there; what cuts a network is its business.
fn segments_run_again(device: &Hardware, job: &MeasurementJob) {
    let of = |checkpoint: Checkpoint| {
        let step = Step { checkpoint, ..Step::published(Stage::Training) };
        memory_of(device, &MeasurementJob { workload: Workload { step, batch: 16 }, ..job.clone() }).allocated
    };
    let [kept, again] = [Checkpoint::None, Checkpoint::EveryBlock].map(of);
    assert!(again < kept, "{again} of {kept} bytes");
}

fn what_it_says_of_itself_is_in_the_setting(device: &Hardware) {
    let setting = device.setting();
    let about = &device.worker.about;
    assert!(!about.software.is_empty() && about.places.contains_key("cpu"), "{about:?}");
    // A GPU's place knows its software more closely: the CUDA half has a version of its own.
    let mut said = about.software.clone();
    said.extend(about.places[&place(device)].clone());
    assert!(said.iter().all(|(name, fact)| setting.get(name) == Some(fact)), "{said:?} {setting:?}");
}

fn memory_repeats(device: &Hardware, job: &MeasurementJob) {
    for stage in Stage::ALL {
        let job = MeasurementJob { workload: Workload::published(stage, 3), ..job.clone() };
        let (first, second) = (memory_of(device, &job), memory_of(device, &job));
        assert_eq!(first.allocated, second.allocated, "{stage}");
        assert!(first.used as f64 > 0.9 * first.allocated as f64, "the kernel saw less than was allocated: {first:?}");
        assert!(first.free <= first.available, "{first:?}");
    }
}

/// Brain floats take less than single precision; autocast holds both.
fn it_computes_with_what_it_says(device: &Hardware, job: &MeasurementJob) {
    let known = device.worker.about.precisions.get(&place(device)).cloned().unwrap_or_default();
    let of = |precision| {
        let step = Step { precision, ..Step::published(Stage::Training) };
        memory_of(device, &MeasurementJob { workload: Workload { step, batch: 16 }, ..job.clone() }).allocated
    };
    let precisions = Precision::ALL.into_iter().filter(|precision| known.iter().any(|word| word == precision.name()));
    let allocated: BTreeMap<Precision, u64> = precisions.map(|precision| (precision, of(precision))).collect();
    let single = allocated[&Precision::Fp32] as f64;
    let share = |precision| allocated.get(&precision).map(|&bytes| bytes as f64 / single);
    assert!(share(Precision::Bf16).is_none_or(|share| (0.45..0.7).contains(&share)), "{allocated:?}");
    let autocast = [Precision::AmpBf16, Precision::AmpFp16].into_iter().filter_map(share);
    assert!(autocast.into_iter().all(|share| (0.5..1.0).contains(&share)), "{allocated:?}");
}

fn layers_are_timed_or_refused(device: &Hardware, job: &MeasurementJob) {
    let job = MeasurementJob { layers: true, memory: false, ..job.clone() };
    match device.check(&job) {
        Ok(()) => assert!(matches!(measure(device, &job), Measurement::Measured { layers: Some(_), .. })),
        Err(error) => {
            assert!(!device.worker.about.layers && error.to_string().contains("take layers out"), "{error}");
            let Measurement::Broken { reason, .. } = measure(device, &job) else { panic!("refused layers were timed") };
            assert!(reason.contains("layers"), "{reason}");
        }
    }
}

fn a_limit_makes_running_out_of_memory_real(device: &Hardware) {
    let (_folder, path) = file(&zoo::build("resnet18", Dataset::Imagenet).unwrap());
    let limit = Bytes::from_mib(150.0);
    let device = Hardware { mem_limit: Some(limit), ..device.clone() };
    // Its weights (11,689,512 numbers, as torchvision counts) and their gradients take 89 MiB, and a batch of 4 more than the limit; in inference
    // less, with what the allocator of a GPU reserves beyond it (98 MiB for 80 when it refused the next 2).
    let weights = 11_689_512 * 4;
    for latency in [false, true] {
        let too_large = MeasurementJob { latency, ..job(&path) };
        let Measurement::OutOfMemory { memory: Some(memory), .. } = measure(&device, &too_large) else {
            panic!("{:?}", measure(&device, &too_large));
        };
        assert!(memory.allocated > weights && memory.allocated <= limit.0, "{memory:?}");
    }
    let inference = MeasurementJob { workload: Workload::published(Stage::Inference, 4), ..job(&path) };
    assert!(memory_of(&device, &inference).allocated <= limit.0);
}

pub(crate) fn what_cannot_run_is_refused_by_name(device: &Hardware) {
    let mut builder = NetworkBuilder::new("odd", Shape::new([3, 8, 8]));
    let unknown = UnknownOperation::new("Einsum", Shape::new([10]), 0);
    let output = builder.add("odd", Op::Unknown(unknown), &[builder.input()]).unwrap();
    let (_folder, path) = file(&builder.finish(output));
    for (path, words) in [(path, "Einsum"), (PathBuf::from("missing.onnx"), "missing.onnx")] {
        let Measurement::Broken { reason, .. } = measure(device, &job(&path)) else { panic!("{words} ran") };
        assert!(reason.contains(words), "{reason}");
    }
}

/// What a worker answers to a line.
fn reply(worker: &WorkerProgram, line: &str) -> WorkerReply {
    let mut child = Command::new(&worker.words[0])
        .args(&worker.words[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(child.stdin.take().unwrap(), "{line}").unwrap();
    let output = child.wait_with_output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|cause| panic!("{cause}: {output:?}"))
}

pub(crate) fn lines_that_are_no_requests_fail(worker: &WorkerProgram) {
    // A later version may leave out or add anything but its number.
    let cases = [
        ("garbage", "no request"),
        ("{}", "no request"),
        (r#"{"protocol":1}"#, "protocol 1"),
        (r#"{"protocol":99}"#, "99"),
        (r#"{"protocol":2,"task":"paint","place":"cpu","threads":1,"mem_limit":null,"seed":0}"#, "paint"),
    ];
    for (line, words) in cases {
        let WorkerReply::Failed { reason } = reply(worker, line) else { panic!("{line} was answered") };
        assert!(reason.contains(words), "{line}: {reason}");
    }
    let elsewhere = r#"{"protocol":2,"place":"cuda:99","network":"x","stage":"training","batch":1,"latency":true,"memory":true,
        "layers":false,"threads":1,"mem_limit":null,"seed":0,
        "steps":{"minimum":1,"minimum_seconds":0,"spread":1,"maximum_seconds":1}}"#;
    let WorkerReply::Failed { reason } = reply(worker, &elsewhere.replace('\n', "")) else { panic!("ran on cuda:99") };
    assert!(reason.contains("cuda:99") && reason.contains("cpu"), "{reason}");
}

/// Whatever else a machine does not report, Linux counts the time that its processors work, and so the worker that worked.
fn the_machine_is_told_of(worker: &WorkerProgram, network: &Path) {
    let request = format!(
        r#"{{"protocol":2,"place":"cpu","network":{network:?},"stage":"training","batch":4,"latency":true,"memory":false,
        "layers":false,"threads":1,"mem_limit":null,"seed":0,
        "steps":{{"minimum":1,"minimum_seconds":0.1,"spread":1,"maximum_seconds":1}}}}"#
    );
    let WorkerReply::Measured { conditions, .. } = reply(worker, &request.replace('\n', "")) else { panic!("it fits") };
    let [start, end] = [&conditions.start, &conditions.end].map(|moment| moment.busy.expect("/proc/stat"));
    assert!(end > start + 0.05, "a tenth of a second of steps, and {} s of work", end - start);
}

fn every_operation_runs(device: &Hardware) {
    let (_folder, path) = file(&every_operation());
    for stage in Stage::ALL {
        let job = MeasurementJob { workload: Workload::published(stage, 3), ..job(&path) };
        let measured = measure(device, &job);
        assert!(matches!(measured, Measurement::Measured { .. }), "{stage}: {measured:?}");
    }
}

fn conv(out_channels: usize, window: Window, groups: usize) -> Op {
    Op::Conv(Conv { out_channels, window, groups, bias: true })
}

fn transposed(out_channels: usize, window: Window, extra: [usize; 2]) -> Op {
    let conv = Conv { out_channels, window, groups: 2, bias: true };
    Op::ConvTranspose(ConvTranspose { conv, extra })
}

fn padded(kernel: usize, stride: usize, padding: [usize; 4]) -> Window {
    Window { padding, ..Window::square(kernel, stride, 0) }
}

/// What gives an image, or something that joins it, another size.
fn of_other_sizes([input, normalised, token, scale]: [NodeId; 4]) -> Vec<(Op, Vec<NodeId>)> {
    vec![
        (transposed(6, Window::square(2, 2, 0), [0, 0]), vec![input]),
        (transposed(4, Window::square(3, 2, 1), [1, 1]), vec![input]),
        (Op::Where, vec![normalised, input, token]),
        (Op::Resize { image: [5, 11], interpolation: Interpolation::Nearest, corners: false }, vec![input]),
        (Op::Resize { image: [16, 16], interpolation: Interpolation::Linear, corners: true }, vec![input]),
        (Op::Resize { image: [16, 4], interpolation: Interpolation::Cubic, corners: false }, vec![input]),
        (Op::Pad { sides: vec![[1, 0], [0, 0], [2, 1]], fill: PaddingFill::Zeros }, vec![input]),
        (Op::Pad { sides: vec![[0, 0], [-1, 1], [2, -3]], fill: PaddingFill::Zeros }, vec![input]),
        (Op::Pad { sides: vec![[0, 0], [1, 1], [2, 0]], fill: PaddingFill::Reflect }, vec![input]),
        (Op::Pad { sides: vec![[0, 0], [1, 1], [2, 0]], fill: PaddingFill::Edge }, vec![input]),
        (Op::Pad { sides: vec![[0, 0], [1, 1], [2, 0]], fill: PaddingFill::Wrap }, vec![input]),
        (Op::Every { axis: 1, start: 1, step: 3 }, vec![input]),
        (Op::Pick(PickedElements { axis: 2, count: 3, places: vec![7, 0, 7] }), vec![input]),
        (Op::Pick(PickedElements { axis: 1, count: 9, places: vec![] }), vec![input]),
        (Op::Expand(Shape::new([4, 8, 8])), vec![scale]),
        (Op::MatMul, vec![input, token]),
    ]
}

/// What looks elements up by where they lie, and what has windows in volumes.
fn of_places(builder: &mut NetworkBuilder, input: NodeId) -> Vec<(Op, Vec<NodeId>)> {
    let mut view = |name: &str, dims: &[usize]| builder.add(name, Op::Reshape(Shape::new(dims)), &[input]).unwrap();
    let (volume, columns, grid) =
        (view("volume", &[4, 2, 4, 8]), view("columns", &[16, 16]), view("grid", &[8, 16, 2]));
    let window = VolumeWindow { stride: [1, 2, 2], ..VolumeWindow::cube(2, 1, 1) };
    let convolution = |groups| Conv { out_channels: 6, window: window.clone(), groups, bias: true };
    let sampled = |interpolation, beyond, corners| {
        (Op::GridSample(GridSample { interpolation, beyond, corners }), vec![input, grid])
    };
    let top = TopK { axis: 1, count: 3, largest: true, places: false };
    vec![
        (Op::Conv3d(convolution(1)), vec![volume]),
        (Op::Conv3d(convolution(2)), vec![volume]),
        (Op::Contiguous { batch: 2 }, vec![volume]),
        (Op::MaxPool3d(window.clone()), vec![volume]),
        (
            Op::AvgPool3d { window: VolumeWindow { ceil: true, ..window.clone() }, count_include_pad: false },
            vec![volume],
        ),
        (Op::ArgMax(ArgMax { axis: 0, keep: false, largest: true }), vec![input]),
        (Op::ArgMax(ArgMax { axis: 2, keep: true, largest: false }), vec![input]),
        (Op::TopK(top), vec![input]),
        (Op::TopK(TopK { places: true, largest: false, ..top }), vec![input]),
        (Op::CumSum { axis: 2 }, vec![input]),
        (Op::Fold(Fold { image: [8, 8], window: Window::square(2, 2, 0) }), vec![columns]),
        sampled(Interpolation::Linear, OutsideValues::Zeros, false),
        sampled(Interpolation::Nearest, OutsideValues::Edge, true),
        sampled(Interpolation::Cubic, OutsideValues::Reflect, false),
    ]
}

fn normalisations(input: NodeId) -> Vec<(Op, Vec<NodeId>)> {
    vec![
        (Op::BatchNorm { axis: 1 }, vec![input]),
        (Op::LayerNorm { axis: 1, affine: Affine::ScaleAndShift }, vec![input]),
        (Op::LayerNorm { axis: 2, affine: Affine::Scale }, vec![input]),
        (Op::LayerNorm { axis: 2, affine: Affine::None }, vec![input]),
        (Op::GroupNorm { groups: 2, affine: Affine::ScaleAndShift }, vec![input]),
        (Op::GroupNorm { groups: 4, affine: Affine::None }, vec![input]),
    ]
}

/// Every kind of operation on the same input, their results joined and weighed: a result of another shape than the inferred
/// one could not be.
fn every_operation() -> Network {
    use Activation::*;
    let mut builder = NetworkBuilder::new("everything", Shape::new([4, 8, 8]));
    let input = builder.input();
    let token = builder.add("token", Op::Parameter(Shape::new([1, 8, 8])), &[]).unwrap();
    let scale = builder.add("scale", Op::Parameter(Shape::new([4, 1, 1])), &[]).unwrap();
    let normalised = builder.add("normalised", Op::BatchNorm { axis: 0 }, &[input]).unwrap();
    let activations = Activation::ALL.map(|activation| (Op::Activation(activation), vec![input]));
    let binaries = BinaryFunction::ALL.into_iter().flat_map(|binary| {
        [vec![input], vec![normalised, input], vec![input, scale]].map(|inputs| (Op::Binary(binary), inputs))
    });
    let average = |window, count_include_pad| Op::AvgPool { window, count_include_pad };
    let others = [
        (Op::Activation(Relu), vec![normalised]),
        (conv(6, Window::square(3, 2, 1), 2), vec![input]),
        (conv(8, padded(3, 1, [0, 2, 1, 0]), 4), vec![input]),
        (conv(8, Window { dilation: [2, 1], ..padded(3, 2, [1, 1, 2, 1]) }, 1), vec![input]),
        (Op::Linear(Linear { out_features: 5, bias: false }), vec![input]),
        (Op::Linear(Linear { out_features: 5, bias: true }), vec![input]),
        (Op::MaxPool(Window::square(3, 2, 1).ceil()), vec![input]),
        (Op::MaxPool(padded(2, 2, [1, 1, 1, 1]).ceil()), vec![input]),
        (Op::MaxPool(padded(3, 2, [0, 0, 1, 1]).ceil()), vec![input]),
        (Op::MaxPool(padded(2, 3, [2, 2, 2, 2]).ceil()), vec![input]),
        (average(padded(3, 2, [1, 0, 0, 1]), false), vec![input]),
        (average(Window::square(2, 2, 1).ceil(), true), vec![input]),
        (Op::AdaptiveAvgPool { output: [2, 4] }, vec![input]),
        (Op::AdaptiveAvgPool { output: [1, 1] }, vec![input]),
        (Op::Reduce { reduction: ReductionKind::Mean, axes: vec![1, 2], keep: false }, vec![input]),
        (Op::Reduce { reduction: ReductionKind::Mean, axes: vec![0], keep: true }, vec![input]),
        (Op::Reduce { reduction: ReductionKind::Product, axes: vec![0, 2], keep: false }, vec![input]),
        (Op::Concat { axis: 0 }, vec![input, token]),
        (Op::Reshape(Shape::new([8, 32])), vec![input]),
        (Op::Transpose { order: vec![2, 0, 1] }, vec![input]),
        (Op::Slice { axis: 2, start: 3, length: 4 }, vec![input]),
        (Op::MatMul, vec![input, normalised]),
        (Op::Softmax { axis: 0 }, vec![input]),
        (Op::Dropout { rate: 0.5 }, vec![input]),
        (Op::Dropout { rate: 0.0 }, vec![input]),
        (Op::DropPath { rate: 0.2 }, vec![input]),
        (Op::Attention, vec![input, normalised, input]),
        (Op::Attention, vec![input, input, normalised, token]),
    ];
    let places = of_places(&mut builder, input);
    let sizes =
        of_other_sizes([input, normalised, token, scale]).into_iter().chain(normalisations(input)).chain(places);
    let reductions =
        ReductionKind::ALL.map(|reduction| (Op::Reduce { reduction, axes: vec![0, 1], keep: false }, vec![input]));
    let all = activations.into_iter().chain(binaries).chain(others).chain(sizes).chain(reductions);
    let flat: Vec<NodeId> = all
        .enumerate()
        .map(|(number, (op, inputs))| {
            let node = builder.add(format!("op{number}"), op, &inputs).unwrap();
            builder.add(format!("flat{number}"), Op::Flatten, &[node]).unwrap()
        })
        .collect();
    let words = words(&mut builder);
    let flat: Vec<NodeId> = flat.into_iter().chain([words]).chain(recurrent(&mut builder, input)).collect();
    let joined = builder.add("joined", Op::Concat { axis: 0 }, &flat).unwrap();
    let weighed = Op::Linear(Linear { out_features: 10, bias: true });
    let output = builder.add("weighed", weighed, &[joined]).unwrap();
    builder.finish(output)
}

/// Recurrent layers over an image's elements as time steps, one of which runs twice.
fn recurrent(builder: &mut NetworkBuilder, input: NodeId) -> Vec<NodeId> {
    let steps = builder.add("steps", Op::Reshape(Shape::new([16, 16])), &[input]).unwrap();
    let mut layers = Vec::new();
    for (cell, name) in RecurrentKind::ALL.into_iter().zip(["lstm", "gru", "tanh", "relu"]) {
        for (both_ways, bias, last) in [(false, true, false), (true, false, true)] {
            let layer = Op::Recurrent(Recurrent { cell, hidden: 8, both_ways, bias, last, batch_first: true });
            layers.push(builder.add(format!("{name}_{last}"), layer, &[steps]).unwrap());
        }
    }
    let layer = Recurrent {
        cell: RecurrentKind::Gru,
        hidden: 16,
        both_ways: false,
        bias: true,
        last: false,
        batch_first: true,
    };
    let first = builder.add("first", Op::Recurrent(layer), &[steps]).unwrap();
    let between = builder.add("between", Op::Reshape(Shape::new([16, 16])), &[first]).unwrap();
    let again = builder.add("again", Op::Recurrent(layer), &[between]).unwrap();
    builder.share(again, first).unwrap();
    let flat = layers.into_iter().chain([again]).enumerate();
    flat.map(|(number, layer)| builder.add(format!("state{number}"), Op::Flatten, &[layer]).unwrap()).collect()
}

/// What reads further inputs: ids looked up and places, masks of integers and of truths, and a head that is the table of words.
fn words(builder: &mut NetworkBuilder) -> NodeId {
    let table = |fixed| Op::Embedding(Embedding { rows: 7, width: 4, fixed });
    let ids = builder.add("ids", Op::Input(NetworkInput::integers(Shape::new([9]))), &[]).unwrap();
    let mask = builder.add("mask", Op::Input(NetworkInput::truths(Shape::new([9, 1]))), &[]).unwrap();
    let counted = builder.add("counted", Op::Input(NetworkInput::integers(Shape::new([9, 1]))), &[]).unwrap();
    let [kept, held] = [("kept", mask), ("held", counted)]
        .map(|(name, mask)| builder.add(name, Op::Cast(ElementKind::Number), &[mask]).unwrap());
    let less = builder.add("less", Op::Binary(BinaryFunction::Sub), &[held]).unwrap();
    let part = builder.add("part", Op::Slice { axis: 0, start: 0, length: 9 }, &[ids]).unwrap();
    let words = builder.add("words", table(None), &[part]).unwrap();
    let places = builder.add("places", table(Some(Shape::new([9]))), &[]).unwrap();
    let sum = builder.add("word", Op::Binary(BinaryFunction::Add), &[words, places]).unwrap();
    let masked = builder.add("masked", Op::Binary(BinaryFunction::Mul), &[sum, kept]).unwrap();
    let chosen = builder.add("chosen", Op::Where, &[mask, masked, less]).unwrap();
    let head = builder.add("head", Op::Linear(Linear { out_features: 7, bias: false }), &[chosen]).unwrap();
    builder.share(head, words).unwrap();
    builder.add("vector", Op::Flatten, &[head]).unwrap()
}
