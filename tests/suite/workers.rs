//! Workers that the configuration names: the one in plain Python, lines of shell and, if asked for, a cross-compiled one under
//! emulation. perf4sight's own has its tests in its crate.

use crate::conformance::{
    asked, conforms_as_worker, file, job, lines_that_are_no_requests_fail, measure, memory_of, processor,
    python_worker, what_cannot_run_is_refused_by_name,
};
use crate::fixtures::Scene;
use perf4sight_cost::device::{Measurement, MeasurementJob};
use perf4sight_cost::records::ProfileProvenance;
use perf4sight_network::zoo;
use perf4sight_network::zoo::Dataset;
use perf4sight_network::{Activation, Conv, Linear, Network, NetworkBuilder, Op, Shape, Window};
use perf4sight_onnx as onnx;
use perf4sight_step::workload::{Optimizer, Precision, Stage, Workload};
use std::collections::BTreeSet;
use std::process::Command;

#[test]
fn the_python_worker_conforms() {
    if let Some(worker) = python_worker() {
        conforms_as_worker(&processor(worker));
    }
}

#[test]
fn python_is_written_in_python_3_6() {
    let parse = "import ast, sys\nfor file in sys.argv[1:]: ast.parse(open(file).read(), feature_version=(3, 6))";
    let files = glob::glob(&format!("{}/workers/**/*.py", crate::ROOT)).unwrap().map(Result::unwrap);
    let Ok(output) = Command::new("python3").args(["-c", parse]).args(files).output() else {
        return eprintln!("skipped: this test needs a python3");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The words of the program, each in every list of Python's that names them: a word that is missing there is refused late, or measured as another.
#[test]
fn python_knows_every_optimizer_and_precision() {
    let keys = "import ast, sys\nfile, name = sys.argv[1:]\nfor node in ast.parse(open(file).read()).body:\n  targets = getattr(node, 'targets', [getattr(node, 'target', None)])\n  \
                if any(getattr(target, 'id', None) == name for target in targets): print(' '.join(key.value.lower().replace(' ', '_') for key in node.value.keys))";
    let [optimizers, precisions] =
        [Optimizer::ALL.map(Optimizer::name).to_vec(), Precision::ALL.map(Precision::name).to_vec()];
    let lists = [
        ("workers/torch_worker.py", "OPTIMIZERS", &optimizers),
        ("python/perf4sight/_settings.py", "PLAIN", &optimizers),
        ("workers/torch_worker.py", "PRECISIONS", &precisions),
    ];
    for (file, name, words) in lists {
        let Ok(output) = Command::new("python3").args(["-c", keys, &format!("{}/{file}", crate::ROOT), name]).output()
        else {
            return eprintln!("skipped: this test needs a python3");
        };
        let found = String::from_utf8(output.stdout).unwrap();
        let found: BTreeSet<&str> = found.split_whitespace().collect();
        assert_eq!(found, words.iter().copied().collect(), "{name} of {file}");
    }
}

/// A profile of squeezenet by a worker in a line of shell that reports `about` and measures everything alike.
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
    let setting = ProfileProvenance::load(&scene.path("profiling_csvs/tx2/imagenet")).unwrap().unwrap().setting;
    let reply = ["device", "python", "torch", "gpu", "target"].map(|name| setting[name].as_str());
    assert_eq!(reply, ["tx2", "3.6.9", "1.10.0", "NVIDIA Tegra X2", "jetson"]);
    assert!(!setting.contains_key("libtorch"), "ours measured nothing");
    // Another PyTorch would give other rows.
    let script = scene.read("worker.sh").replace("1.10.0", "1.9.0");
    let scene = scene.file("worker.sh", script);
    let again = scene.run("--config-file config.ini --set profile.bs=[2,4]");
    again.fails(4).says("torch was 1.10.0, is 1.9.0");
}

#[test]
fn rows_that_no_fingerprint_can_be_fitted_to_are_told_before_they_are_measured() {
    // Boards of all kinds: an older one has no arithmetic in bfloat16, where PyTorch runs such steps all the same.
    let knows = TX2.replace("\"layers\"", r#""settings":["precision"],"precisions":{"cuda:0":["amp_bf16"]},"layers""#);
    let scene = scripted("tx2", &knows, "precision = amp_bf16");
    let run = scene.run("--config-file config.ini").succeeds();
    run.says("no fingerprint can be fitted to such rows: what a step with precision = amp_bf16 takes on jetson (");
    let published = scripted("tx2", TX2, "").run("--config-file config.ini").succeeds();
    assert!(!published.stderr().contains("no fingerprint"), "{published}");
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
    let reply =
        TX2.replace("\"layers\"", r#""gpus":{"cuda:0":{"name":"X2","memory":8000000000,"unified":true}},"layers""#);
    let cases = [
        (TX2, "device = tx2\ngpu_id = 3", "cannot run networks on cuda:3", "expected: cpu, cuda:0"),
        (&reply, "device = tx2\ngpu_id = 3", "cannot run networks on cuda:3: there is 1 GPU", "expected: cpu, cuda:0"),
        (TX2, "device = tx2\nprofile_variables = ['latency', 'layers']", "does not time single operations", "layers"),
        (&other, "device = tx2", "protocol 1 instead of 2", "--about"),
        ("hello", "device = tx2", "does not report its features", "torch_worker.py"),
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
    run("false").fails(5).says("does not report its features: no answer");
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
    let [program, worker] = ["perf4sight", "perf4sight-worker"].map(|name| format!("{folder}/bin/{name}"));
    let emulated = |program| ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "-E", &libraries, program];
    let worker_words = emulated(&worker);
    let worker = asked(&worker_words);
    println!("worker: {:?}", worker.about);
    let device = processor(worker);
    let network = tiny();
    let (_file, path) = file(&network);
    for stage in Stage::ALL {
        let job = MeasurementJob { workload: Workload::published(stage, 2), ..job(&path) };
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
    emulated_sweep(&emulated(&program), &worker_words, &network);
}

/// A whole configuration inside the emulated program, which starts emulated workers.
fn emulated_sweep(program: &[&str], worker: &[&str], network: &Network) {
    let quoted: Vec<String> = worker.iter().map(|word| format!("'{word}'")).collect();
    let config = format!(
        "[profile]\nworker = [{}]\ndataset = imagenet\nlocal_model_loc = nets\nnetwork = ['tiny']\nbs = [1, 2]\nthreads = 1\n",
        quoted.join(", ")
    );
    let scene = Scene::new().file("config.ini", config).file("nets/tiny_0.onnx", onnx::to_bytes(network));
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).args(["--config-file", "config.ini"]).current_dir(scene.folder());
    let output = command.output().unwrap();
    println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
    let rows = scene.read("profiling_csvs/cpu/imagenet/latency/tiny_0-gt.csv");
    println!("{rows}");
    assert_eq!(rows.lines().count(), 3, "a header and a row for each batch size");
    let provenance = ProfileProvenance::load(&scene.path("profiling_csvs/cpu/imagenet")).unwrap().unwrap();
    assert_eq!(provenance.setting["instruction_set"], "aarch64");
}

/// Convolution, batch-norm, ReLU, mean, classes: enough of everything to be a network, little enough to be emulated.
fn tiny() -> Network {
    let mut builder = NetworkBuilder::new("tiny", Shape::new([3, 16, 16]));
    let conv = Conv { out_channels: 8, window: Window::square(3, 2, 1), groups: 1, bias: false };
    let conv = builder.add("conv", Op::Conv(conv), &[builder.input()]).unwrap();
    let norm = builder.add("norm", Op::BatchNorm { axis: 0 }, &[conv]).unwrap();
    let relu = builder.add("relu", Op::Activation(Activation::Relu), &[norm]).unwrap();
    let mean = builder.add("mean", Op::AdaptiveAvgPool { output: [1, 1] }, &[relu]).unwrap();
    let flat = builder.add("flat", Op::Flatten, &[mean]).unwrap();
    let output = Op::Linear(Linear { out_features: 10, bias: true });
    let output = builder.add("classes", output, &[flat]).unwrap();
    builder.finish(output)
}
