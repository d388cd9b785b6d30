//! Workers: one conformance suite for every program that measures, run on perf4sight's own, on the one in plain Python and,
//! if asked for, on a cross-compiled one under emulation.

use crate::device::{conforms, job, measure};
use crate::fixtures::Scene;
use perf4sight::device::hardware::Hardware;
use perf4sight::device::machine::Here;
use perf4sight::device::names::DeviceName;
use perf4sight::device::program::Program;
use perf4sight::device::protocol::{MemoryReading, Reply, StepRule};
use perf4sight::device::{Device, Job, Measurement};
use perf4sight::network::zoo::{self, Dataset};
use perf4sight::network::{
    Activation, Binary, Conv, Linear, Network, NetworkBuilder, NodeId, Op, Shape, Unknown, Window, onnx,
};
use perf4sight::records::Provenance;
use perf4sight::units::Bytes;
use perf4sight::workload::{Stage, Workload};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const PYTHON_WORKER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/workers/torch_worker.py");

/// This machine's processor measured by a worker, kept to few and short steps.
pub(crate) fn processor(worker: Program) -> Hardware {
    Hardware {
        name: DeviceName::Cpu,
        machine: Arc::new(Here),
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

pub(crate) fn memory_of(device: &Hardware, job: &Job) -> MemoryReading {
    match measure(device, &Job { latency: false, ..job.clone() }) {
        Measurement::Measured { memory: Some(memory), .. } => memory,
        other => panic!("{other:?}"),
    }
}

fn asked(words: &[&str]) -> Program {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    Program::ask(&Here, words, Duration::from_secs(60)).unwrap()
}

/// The first Python that has PyTorch; Debian's belongs to the system's Python, which may not be the first on the path.
fn python() -> Option<&'static str> {
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

pub(crate) fn python_worker() -> Option<Program> {
    Some(asked(&[python()?, PYTHON_WORKER]))
}

/// What every worker must do.
pub(crate) fn conforms_as_worker(device: &Hardware) {
    let (_folder, path) = file(&zoo::build("squeezenet", Dataset::Cifar10).unwrap());
    conforms(device, &job(&path));
    what_it_says_of_itself_is_in_the_setting(device);
    memory_repeats(device, &job(&path));
    layers_are_timed_or_refused(device, &job(&path));
    a_limit_makes_running_out_of_memory_real(device);
    what_cannot_run_is_refused_by_name(device);
    lines_that_are_no_requests_fail(&device.worker);
    the_machine_is_told_of(&device.worker, &path);
    every_operation_runs(device);
}

fn what_it_says_of_itself_is_in_the_setting(device: &Hardware) {
    let setting = device.setting();
    let about = &device.worker.about;
    assert!(!about.software.is_empty() && about.places.contains_key("cpu"), "{about:?}");
    assert!(about.software.iter().all(|(name, version)| setting.get(name) == Some(version)), "{setting:?}");
}

fn memory_repeats(device: &Hardware, job: &Job) {
    for stage in Stage::ALL {
        let job = Job { workload: Workload { stage, batch: 3 }, ..job.clone() };
        let (first, second) = (memory_of(device, &job), memory_of(device, &job));
        assert_eq!(first.allocated, second.allocated, "{stage}");
        assert!(first.used as f64 > 0.9 * first.allocated as f64, "the kernel saw less than was allocated: {first:?}");
        assert!(first.free <= first.available, "{first:?}");
    }
}

fn layers_are_timed_or_refused(device: &Hardware, job: &Job) {
    let job = Job { layers: true, memory: false, ..job.clone() };
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
    let limit = Bytes::from_mib(100.0);
    let device = Hardware { mem_limit: Some(limit), ..device.clone() };
    // Its weights and their gradients take 89 MiB; a batch of 4 needs more than twice the limit, in inference less than half.
    for latency in [false, true] {
        let too_large = Job { latency, ..job(&path) };
        let Measurement::OutOfMemory { memory: Some(memory), .. } = measure(&device, &too_large) else {
            panic!("{:?}", measure(&device, &too_large));
        };
        assert!(memory.allocated > limit.0 / 2 && memory.allocated <= limit.0, "{memory:?}");
    }
    let inference = Job { workload: Workload { stage: Stage::Inference, batch: 4 }, ..job(&path) };
    assert!(memory_of(&device, &inference).allocated <= limit.0);
}

fn what_cannot_run_is_refused_by_name(device: &Hardware) {
    let mut builder = NetworkBuilder::new("odd", Shape::new([3, 8, 8]));
    let unknown = Unknown::new("Einsum", Shape::new([10]), 0);
    let output = builder.add("odd", Op::Unknown(unknown), &[builder.input()]).unwrap();
    let (_folder, path) = file(&builder.finish(output));
    for (path, words) in [(path, "Einsum"), (PathBuf::from("missing.onnx"), "missing.onnx")] {
        let Measurement::Broken { reason, .. } = measure(device, &job(&path)) else { panic!("{words} ran") };
        assert!(reason.contains(words), "{reason}");
    }
}

/// What a worker answers to a line.
fn reply(worker: &Program, line: &str) -> Reply {
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

fn lines_that_are_no_requests_fail(worker: &Program) {
    // A later version may leave out or add anything but its number.
    let cases = [
        ("garbage", "no request"),
        ("{}", "no request"),
        (r#"{"protocol":1}"#, "protocol 1"),
        (r#"{"protocol":99}"#, "99"),
    ];
    for (line, words) in cases {
        let Reply::Failed { reason } = reply(worker, line) else { panic!("{line} was answered") };
        assert!(reason.contains(words), "{line}: {reason}");
    }
    let elsewhere = r#"{"protocol":2,"place":"cuda:99","network":"x","stage":"training","batch":1,"latency":true,"memory":true,
        "layers":false,"threads":1,"mem_limit":null,"seed":0,
        "steps":{"minimum":1,"minimum_seconds":0,"spread":1,"maximum_seconds":1}}"#;
    let Reply::Failed { reason } = reply(worker, &elsewhere.replace('\n', "")) else { panic!("ran on cuda:99") };
    assert!(reason.contains("cuda:99") && reason.contains("cpu"), "{reason}");
}

/// Whatever else a machine does not tell, Linux counts the time that its processors work, and so the worker that worked.
fn the_machine_is_told_of(worker: &Program, network: &Path) {
    let request = format!(
        r#"{{"protocol":2,"place":"cpu","network":{network:?},"stage":"training","batch":4,"latency":true,"memory":false,
        "layers":false,"threads":1,"mem_limit":null,"seed":0,
        "steps":{{"minimum":1,"minimum_seconds":0.1,"spread":1,"maximum_seconds":1}}}}"#
    );
    let Reply::Measured { conditions, .. } = reply(worker, &request.replace('\n', "")) else { panic!("it fits") };
    let [start, end] = [&conditions.start, &conditions.end].map(|moment| moment.busy.expect("/proc/stat"));
    assert!(end > start + 0.05, "a tenth of a second of steps, and {} s of work", end - start);
}

fn every_operation_runs(device: &Hardware) {
    let (_folder, path) = file(&every_operation());
    for stage in Stage::ALL {
        let job = Job { workload: Workload { stage, batch: 3 }, ..job(&path) };
        let measured = measure(device, &job);
        assert!(matches!(measured, Measurement::Measured { .. }), "{stage}: {measured:?}");
    }
}

fn conv(out_channels: usize, window: Window, groups: usize) -> Op {
    Op::Conv(Conv { out_channels, window, groups, bias: true })
}

fn padded(kernel: usize, stride: usize, padding: [usize; 4]) -> Window {
    Window { padding, ..Window::square(kernel, stride, 0) }
}

/// Every kind of operation on the same input, their results joined and weighed: a result of another shape than the inferred
/// one could not be.
fn every_operation() -> Network {
    use Activation::*;
    let mut builder = NetworkBuilder::new("everything", Shape::new([4, 8, 8]));
    let input = builder.input();
    let token = builder.add("token", Op::Parameter(Shape::new([1, 8, 8])), &[]).unwrap();
    let scale = builder.add("scale", Op::Parameter(Shape::new([4, 1, 1])), &[]).unwrap();
    let normalised = builder.add("normalised", Op::BatchNorm, &[input]).unwrap();
    let activations = [Relu, Relu6, LeakyRelu, Elu, Sigmoid, HardSigmoid, Tanh, Silu, HardSwish, Gelu, Mish, Softplus];
    let activations = activations.map(|activation| (Op::Activation(activation), vec![input]));
    let binaries = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div];
    let binaries = binaries.into_iter().flat_map(|binary| {
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
        (Op::LayerNorm { axis: 1 }, vec![input]),
        (Op::MaxPool(Window::square(3, 2, 1).ceil()), vec![input]),
        (Op::MaxPool(padded(2, 2, [1, 1, 1, 1]).ceil()), vec![input]),
        (Op::MaxPool(padded(3, 2, [0, 0, 1, 1]).ceil()), vec![input]),
        (Op::MaxPool(padded(2, 3, [2, 2, 2, 2]).ceil()), vec![input]),
        (average(padded(3, 2, [1, 0, 0, 1]), false), vec![input]),
        (average(Window::square(2, 2, 1).ceil(), true), vec![input]),
        (Op::AdaptiveAvgPool { output: [2, 4] }, vec![input]),
        (Op::AdaptiveAvgPool { output: [1, 1] }, vec![input]),
        (Op::Mean { axes: vec![1, 2], keep: false }, vec![input]),
        (Op::Mean { axes: vec![0], keep: true }, vec![input]),
        (Op::Concat { axis: 0 }, vec![input, token]),
        (Op::Reshape(Shape::new([8, 32])), vec![input]),
        (Op::Transpose { order: vec![2, 0, 1] }, vec![input]),
        (Op::Slice { axis: 2, start: 3, length: 4 }, vec![input]),
        (Op::MatMul, vec![input, normalised]),
        (Op::Softmax { axis: 0 }, vec![input]),
        (Op::Dropout { rate: 0.5 }, vec![input]),
    ];
    let all = activations.into_iter().chain(binaries).chain(others);
    let flat: Vec<NodeId> = all
        .enumerate()
        .map(|(number, (op, inputs))| {
            let node = builder.add(format!("op{number}"), op, &inputs).unwrap();
            builder.add(format!("flat{number}"), Op::Flatten, &[node]).unwrap()
        })
        .collect();
    let joined = builder.add("joined", Op::Concat { axis: 0 }, &flat).unwrap();
    let weighed = Op::Linear(Linear { out_features: 10, bias: true });
    let output = builder.add("weighed", weighed, &[joined]).unwrap();
    builder.finish(output)
}

#[cfg(feature = "torch")]
pub(crate) fn own_worker() -> Program {
    asked(&[env!("CARGO_BIN_EXE_perf4sight"), "worker"])
}

#[cfg(feature = "torch")]
#[test]
fn the_libtorch_worker_conforms() {
    assert_eq!(own_worker(), Program::own(env!("CARGO_BIN_EXE_perf4sight").as_ref()).unwrap(), "asked and known");
    conforms_as_worker(&processor(own_worker()));
}

#[test]
fn the_python_worker_conforms() {
    if let Some(worker) = python_worker() {
        conforms_as_worker(&processor(worker));
    }
}

/// Same network, same step, same memory, as far as libtorch 2.11 and Debian's PyTorch 1.13 agree.
#[cfg(feature = "torch")]
#[test]
fn workers_count_the_same_memory() {
    let Some(python) = python_worker() else { return };
    let (python, own) = (processor(python), processor(own_worker()));
    for name in ["resnet18", "squeezenet", "mobilenetv2", "googlenet"] {
        let (_folder, path) = file(&zoo::build(name, Dataset::Cifar10).unwrap());
        for stage in Stage::ALL {
            let job = Job { workload: Workload { stage, batch: 8 }, ..job(&path) };
            let [theirs, ours] = [&python, &own].map(|device| memory_of(device, &job).allocated as f64);
            println!("{name} {stage}: {theirs} / {ours} = {:.4}", theirs / ours);
            assert!((theirs / ours - 1.0).abs() < 0.01, "{name}, {stage}: {theirs} and {ours} bytes");
        }
    }
}

#[test]
fn the_python_worker_is_written_in_python_3_6() {
    let parse = "import ast, sys; ast.parse(open(sys.argv[1]).read(), feature_version=(3, 6))";
    let Ok(output) = Command::new("python3").args(["-c", parse, PYTHON_WORKER]).output() else {
        return eprintln!("skipped: this test needs a python3");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A profile of squeezenet by a worker in a line of shell that tells `about` and measures everything alike.
pub(crate) fn scripted(device: &str, about: &str, more: &str) -> Scene {
    let script = format!(
        "case \"$*\" in *--about*) echo '{about}';; *) read request; echo \"$request\" >> heard; echo '{MEASURED}';; esac"
    );
    let config = format!(
        "[profile]\ndevice = {device}\nworker = sh worker.sh\ndataset = imagenet\nlocal_model_loc = nets\n\
         network = ['squeezenet']\nbs = [2]\n{more}\n"
    );
    let network = onnx::to_bytes(&zoo::build("squeezenet", Dataset::Imagenet).unwrap());
    Scene::new().file("worker.sh", script).file("config.ini", config).file("nets/squeezenet_0.onnx", network)
}

pub(crate) const MEASURED: &str = r#"{"outcome":"measured","latency":{"median":12.5,"spread":0.01,"steps":40,"discarded":2,"disturbed":false},"memory":{"allocated":1048576,"reserved":2097152,"used":3145728,"available":4194304,"free":4194304}}"#;
pub(crate) const TX2: &str = r#"{"protocol":2,"software":{"python":"3.6.9","torch":"1.10.0"},"places":{"cpu":{},"cuda:0":{"gpu":"NVIDIA Tegra X2"}},"layers":false}"#;

#[test]
fn a_board_is_profiled_by_the_worker_that_the_configuration_names() {
    let scene = scripted("tx2", TX2, "stage = ['training', 'inference']");
    scene.run("--config-file config.ini").succeeds().prints("squeezenet");
    let heard = scene.read("heard");
    // Two stages, each step visited twice.
    assert_eq!(heard.lines().count(), 4);
    assert!(heard.lines().all(|line| line.contains(r#""place":"cuda:0""#)), "{heard}");
    let setting = Provenance::load(&scene.path("profiling_csvs/tx2/imagenet")).unwrap().unwrap().setting;
    let told = ["device", "python", "torch", "gpu", "target"].map(|name| setting[name].as_str());
    assert_eq!(told, ["tx2", "3.6.9", "1.10.0", "NVIDIA Tegra X2", "jetson"]);
    assert!(!setting.contains_key("libtorch"), "ours measured nothing");
    // Another PyTorch would give other rows.
    let script = scene.read("worker.sh").replace("1.10.0", "1.9.0");
    let scene = scene.file("worker.sh", script);
    let again = scene.run("--config-file config.ini --set profile.bs=[2,4]");
    again.fails(4).says("torch was 1.10.0, is 1.9.0");
}

#[test]
fn no_shell_sees_the_command_of_a_worker() {
    let scene = scripted("tx2", TX2, "");
    let script = scene.read("worker.sh");
    let scene = scene.file("my worker.sh", script);
    let mut command = scene.command();
    command.args([
        "--config-file",
        "config.ini",
        "--set",
        "profile.worker=['sh', 'my worker.sh', '$(touch', 'pwned)']",
    ]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(!scene.path("pwned").exists() && !scene.path("pwned)").exists());
}

#[test]
fn workers_that_cannot_do_what_is_asked_are_refused_before_anything_runs() {
    let other = TX2.replace("\"protocol\":2", "\"protocol\":1");
    let told =
        TX2.replace("\"layers\"", r#""gpus":{"cuda:0":{"name":"X2","memory":8000000000,"unified":true}},"layers""#);
    let cases = [
        (TX2, "device = tx2\ngpu_id = 3", "cannot run networks on cuda:3", "expected: cpu, cuda:0"),
        (&told, "device = tx2\ngpu_id = 3", "cannot run networks on cuda:3: there is 1 GPU", "expected: cpu, cuda:0"),
        (TX2, "device = tx2\nprofile_variables = ['latency', 'layers']", "does not time single operations", "layers"),
        (&other, "device = tx2", "protocol 1 instead of 2", "--about"),
        ("hello", "device = tx2", "does not say what it can do", "torch_worker.py"),
        (TX2, "device = simulated", "needs no worker", "leave worker out"),
    ];
    for (about, more, problem, help) in cases {
        let (device, more) = more.strip_prefix("device = ").unwrap().split_once('\n').unwrap_or((&more[9..], ""));
        let scene = scripted(device, about, more);
        let outcome = scene.run("--config-file config.ini --check").says(problem).says(help);
        assert!(outcome.stderr().contains("error: "), "{outcome}");
        assert!(!scene.path("heard").exists() && !scene.path("profiling_csvs").exists(), "{more}");
    }
    let scene = scripted("tx2", TX2, "");
    let run = |worker: &str| scene.run(&format!("--config-file config.ini --check --set profile.worker={worker}"));
    run("nonexistent-worker").fails(5).says("`nonexistent-worker` cannot be started");
    run("false").fails(5).says("does not say what it can do: no answer");
}

/// The launcher of a cross-compiled folder finds its libraries wherever it is called from.
#[test]
fn a_launcher_brings_the_libraries_beside_it() {
    let launcher = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/board/perf4sight")).unwrap();
    let program = "#!/bin/sh\necho \"$LD_LIBRARY_PATH\"\nprintf '%s\\n' \"$@\"\n";
    let scene = Scene::new().file("a folder/perf4sight", launcher).file("a folder/bin/perf4sight", program);
    for file in ["a folder/perf4sight", "a folder/bin/perf4sight"] {
        assert!(Command::new("chmod").arg("+x").arg(scene.path(file)).status().unwrap().success());
    }
    std::os::unix::fs::symlink(scene.path("a folder/perf4sight"), scene.path("link")).unwrap();
    let output = Command::new(scene.path("link")).args(["--bs", "1 2"]).env_remove("LD_LIBRARY_PATH").output().unwrap();
    let libraries = scene
        .path("a folder/lib")
        .canonicalize()
        .unwrap_or_else(|_| scene.folder().canonicalize().unwrap().join("a folder/lib"));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{}\n--bs\n1 2\n", libraries.display()));
}

/// The cross-compiled program, measuring for real: `./main cross aarch64-unknown-linux-gnu`, then
/// `cargo test --test suite emulation -- --ignored --nocapture`. Packages: g++-aarch64-linux-gnu (with libc6-arm64-cross,
/// libstdc++6-arm64-cross and libgcc-s1-arm64-cross) and qemu-user.
#[test]
#[ignore = "needs ./main cross aarch64-unknown-linux-gnu and qemu-user; run with: cargo test --test suite emulation -- --ignored"]
fn a_cross_compiled_program_measures_under_emulation() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/target/perf4sight-aarch64-unknown-linux-gnu");
    let libraries = format!("LD_LIBRARY_PATH={folder}/lib");
    let program = format!("{folder}/bin/perf4sight");
    let emulated = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "-E", &libraries, &program];
    let worker = asked(&[&emulated[..], &["worker"]].concat());
    println!("worker: {:?}", worker.about);
    let device = processor(worker);
    let network = tiny();
    let (_file, path) = file(&network);
    for stage in Stage::ALL {
        let job = Job { workload: Workload { stage, batch: 2 }, ..job(&path) };
        let measured = measure(&device, &job);
        println!("{stage}: {measured:?}");
        let Measurement::Measured { latency: Some(latency), memory: Some(memory), .. } = measured else { panic!() };
        assert!(latency.median > 0.0 && latency.steps >= 3);
        // fp32, in training with gradients and momentum; the input is 2 x 3 x 16 x 16.
        let copies = if stage == Stage::Training { 3 } else { 1 };
        assert!(memory.allocated >= 4 * (copies * network.parameters() + 2 * 3 * 16 * 16), "{memory:?}");
        assert_eq!(memory.allocated, memory_of(&device, &job).allocated);
    }
    what_cannot_run_is_refused_by_name(&device);
    lines_that_are_no_requests_fail(&device.worker);
    emulated_sweep(&emulated, &network);
}

/// A whole configuration inside the emulated program, which starts emulated workers.
fn emulated_sweep(emulated: &[&str], network: &Network) {
    let quoted: Vec<String> = emulated.iter().chain(&["worker"]).map(|word| format!("'{word}'")).collect();
    let config = format!(
        "[profile]\nworker = [{}]\ndataset = imagenet\nlocal_model_loc = nets\nnetwork = ['tiny']\nbs = [1, 2]\nthreads = 1\n",
        quoted.join(", ")
    );
    let scene = Scene::new().file("config.ini", config).file("nets/tiny_0.onnx", onnx::to_bytes(network));
    let mut command = Command::new(emulated[0]);
    command.args(&emulated[1..]).args(["--config-file", "config.ini"]).current_dir(scene.folder());
    let output = command.output().unwrap();
    println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
    let rows = scene.read("profiling_csvs/cpu/imagenet/latency/tiny_0-gt.csv");
    println!("{rows}");
    assert_eq!(rows.lines().count(), 3, "a header and a row for each batch size");
    let provenance = Provenance::load(&scene.path("profiling_csvs/cpu/imagenet")).unwrap().unwrap();
    assert_eq!(provenance.setting["instruction_set"], "aarch64");
}

/// Convolution, batch-norm, ReLU, mean, classes: enough of everything to be a network, little enough to be emulated.
fn tiny() -> Network {
    let mut builder = NetworkBuilder::new("tiny", Shape::new([3, 16, 16]));
    let conv = Conv { out_channels: 8, window: Window::square(3, 2, 1), groups: 1, bias: false };
    let conv = builder.add("conv", Op::Conv(conv), &[builder.input()]).unwrap();
    let norm = builder.add("norm", Op::BatchNorm, &[conv]).unwrap();
    let relu = builder.add("relu", Op::Activation(Activation::Relu), &[norm]).unwrap();
    let mean = builder.add("mean", Op::AdaptiveAvgPool { output: [1, 1] }, &[relu]).unwrap();
    let flat = builder.add("flat", Op::Flatten, &[mean]).unwrap();
    let output = Op::Linear(Linear { out_features: 10, bias: true });
    let output = builder.add("classes", output, &[flat]).unwrap();
    builder.finish(output)
}
