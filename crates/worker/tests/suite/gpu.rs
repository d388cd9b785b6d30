//! GPUs in the libtorch worker: what is said where something is missing, and, on a machine that has one, the conformance suite.

use crate::conformance::{conforms_as_worker, file, job, measure, memory_of, processor, python_worker};
use crate::fixtures::Scene;
use crate::{WORKER, asked};
use perf4sight_cost::device::hardware::Hardware;
use perf4sight_cost::device::kind::DeviceKind;
use perf4sight_cost::device::program::WorkerProgram;
use perf4sight_cost::device::protocol::WorkerAbout;
use perf4sight_cost::device::{Measurement, MeasurementJob};
use perf4sight_network::zoo;
use perf4sight_network::zoo::Dataset;
use perf4sight_onnx as onnx;
use perf4sight_step::workload::{Stage, Workload};
use std::process::Command;

/// An NVIDIA driver with one GPU, as far as questions before any work go: what it answers is the case that a test is about.
const DRIVER: &str = r#"
#include <stddef.h>
#include <string.h>
int cuInit(unsigned flags) { return ANSWER; }
int cuDriverGetVersion(int *version) { *version = VERSION; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetName(char *name, int length, int device) { strncpy(name, "a GPU", length); return 0; }
int cuDeviceGetPCIBusId(char *bus, int length, int device) { strncpy(bus, "0000:3B:00.0", length); return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = (size_t)8 << 30; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = 0; return 0; }
int cuGetErrorName(int code, const char **name) { *name = "CUDA_ERROR_OF_A_TEST"; return 0; }
"#;

/// Builds a shared library in the scene's folder.
fn library(scene: &Scene, name: &str, source: &str, defines: &[&str]) {
    let library = scene.path(name);
    std::fs::create_dir_all(library.parent().unwrap()).unwrap();
    let code = scene.path("source.c");
    std::fs::write(&code, source).unwrap();
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-w", "-o"]).arg(&library).arg(&code).args(defines).status();
    assert!(built.unwrap().success());
}

fn driver(scene: &Scene, answer: i32, version: i32) {
    library(scene, "driver/libcuda.so.1", DRIVER, &[&format!("-DANSWER={answer}"), &format!("-DVERSION={version}")]);
}

/// The worker in the scene's folder, ready for arguments.
fn worker(scene: &Scene) -> Command {
    let mut command = Command::new(WORKER);
    command.current_dir(scene.folder());
    command
}

/// What the worker says of itself, asked to look for GPUs, where that driver is installed.
fn about(scene: &Scene, cuda: &str) -> WorkerAbout {
    let mut command = worker(scene);
    command.args(["--about", cuda]).env("LD_LIBRARY_PATH", scene.path("driver")).env_remove("LIBTORCH_CUDA");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn why_no_gpu(scene: &Scene, cuda: &str) -> String {
    let about = about(scene, cuda);
    assert!(about.gpus.is_empty() && about.places.keys().eq(["cpu"]), "{about:?}");
    about.no_gpu.unwrap()
}

const VERSION: &str = "__version__ = '2.11.0+cu130'\n";

/// A folder that says it is PyTorch's, with a library in it.
fn pytorch() -> Scene {
    let scene = Scene::new().file("torch/version.py", VERSION);
    library(&scene, "torch/lib/libtorch_cuda.so", "int nothing;", &[]);
    scene
}

#[test]
fn asking_a_worker_for_the_processor_only_looks_for_no_gpu() {
    let scene = pytorch();
    driver(&scene, 100, 13000);
    let mut command = worker(&scene);
    command.arg("--about").env("LIBTORCH_CUDA", scene.path("torch"));
    let about: WorkerAbout = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    assert_eq!((about.no_gpu, about.gpus.len()), (None, 0));
}

#[test]
fn a_driver_that_refuses_is_quoted_with_what_helps() {
    let scene = pytorch();
    for (answer, help) in [(100, "CUDA_VISIBLE_DEVICES"), (803, "different versions"), (2, "nvidia-smi")] {
        driver(&scene, answer, 13000);
        let why = why_no_gpu(&scene, "--cuda=torch");
        assert!(why.contains(&format!("CUDA_ERROR_OF_A_TEST ({answer})")) && why.contains(help), "{why}");
    }
}

#[test]
fn a_library_that_is_damaged_or_brings_no_cuda_is_named() {
    let scene = pytorch();
    driver(&scene, 0, 13000);
    let why = why_no_gpu(&scene, "--cuda=torch");
    assert!(
        why.contains("libtorch 2.11.0+cu130 was loaded, but it cannot use the GPU: it can use 0 of 1 GPUs"),
        "{why}"
    );
    let scene = scene.file("torch/lib/libtorch_cuda.so", "no library");
    let why = why_no_gpu(&scene, "--cuda=torch");
    assert!(why.contains("libtorch 2.11.0+cu130 cannot be loaded") && why.contains("file too short"), "{why}");
    assert!(why.contains("torch/lib/libtorch_cuda.so") && why.contains("--force-reinstall"), "{why}");
}

/// The order in which it is looked for: the key, the environment variable, the Python of the environment.
#[test]
fn the_cuda_half_is_looked_for_in_the_documented_order() {
    let python = "#!/bin/sh\necho \"$PYTHONS_TORCH\"\n";
    let scene = Scene::new().file("venv/bin/python3", python);
    assert!(Command::new("chmod").arg("+x").arg(scene.path("venv/bin/python3")).status().unwrap().success());
    let said = |key: Option<&str>, variable: Option<&str>, python: &str| {
        let mut command = worker(&scene);
        command.args(["--about", &key.map_or("--cuda".into(), |key| format!("--cuda={key}"))]);
        command.env("VIRTUAL_ENV", scene.path("venv")).env("PYTHONS_TORCH", python).env_remove("LIBTORCH_CUDA");
        variable.map(|path| command.env("LIBTORCH_CUDA", path));
        let about: WorkerAbout = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        about.no_gpu.unwrap()
    };
    for (key, variable, found) in
        [(Some("key"), Some("variable"), "key: "), (None, Some("variable"), "variable: "), (None, None, "python: ")]
    {
        let why = said(key, variable, "python");
        assert!(why.starts_with(found) && why.contains("no such path"), "{why}");
    }
    let why = said(None, None, "");
    assert!(why.contains("no libtorch for GPUs is named by libtorch_cuda or LIBTORCH_CUDA, and"), "{why}");
    assert!(why.contains("venv/bin/python3 has no PyTorch") && why.contains("pip install torch==2.11.0"), "{why}");
}

/// A profile of one network on a GPU, by perf4sight's own worker.
fn profile(more: &str) -> Scene {
    let config = format!(
        "[profile]\ndevice = cuda\ndataset = imagenet\nlocal_model_loc = nets\nnetwork = ['squeezenet']\nbs = [2]\n{more}\n"
    );
    let network = onnx::to_bytes(&zoo::build("squeezenet", Dataset::Imagenet).unwrap());
    Scene::new().file("config.ini", config).file("nets/squeezenet_0.onnx", network)
}

#[test]
fn a_profile_on_a_gpu_that_cannot_be_used_says_why_before_anything_runs() {
    let other = "__version__ = '2.9.1+cu128'\n";
    let scene = profile("libtorch_cuda = torch").file("torch/version.py", other).file("torch/lib/libtorch_cuda.so", "");
    for check in ["", " --check"] {
        scene
            .run(&format!("--config-file config.ini{check}"))
            .fails(5)
            .says("cannot run networks on cuda:0: torch/lib/libtorch_cuda.so: this is libtorch 2.9.1+cu128")
            .says("perf4sight is built for 2.11.0")
            .says("help: pip install torch==2.11.0");
    }
    assert!(!scene.path("profiling_csvs/cuda").join("imagenet/latency").exists());
}

/// The real CUDA half in the worker's process, sharing the libraries of its CPU half; the driver is a test's, for an older CUDA.
#[test]
#[ignore = "needs PyTorch 2.11 with CUDA, by LIBTORCH_CUDA or in python3; run with: cargo test -p perf4sight-worker cuda_half -- --ignored"]
fn the_real_cuda_half_loads_into_the_worker() {
    let scene = Scene::new();
    driver(&scene, 0, 12040);
    let mut command = worker(&scene);
    command.args(["--about", "--cuda"]).env("LD_LIBRARY_PATH", scene.path("driver"));
    let about: WorkerAbout = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    let why = about.no_gpu.unwrap();
    println!("{why}");
    assert!(why.contains("the NVIDIA driver runs CUDA 12.4, and libtorch 2.11.0+cu13"), "{why}");
    assert!(why.contains("needs 13.0") && why.contains("update the NVIDIA driver"), "{why}");
}

fn gpu(worker: WorkerProgram) -> Hardware {
    Hardware { kind: DeviceKind::parse("cuda").unwrap(), ..processor(worker) }
}

fn own_gpu() -> Hardware {
    let worker = asked(&[WORKER, "--cuda"]);
    println!("{:#?}", worker.about);
    assert_eq!(worker.about.no_gpu, None);
    gpu(worker)
}

#[test]
#[ignore = "needs an NVIDIA GPU and PyTorch 2.11; run with: cargo test -p perf4sight-worker on_a_gpu -- --ignored --nocapture --test-threads 1"]
fn the_libtorch_worker_conforms_on_a_gpu() {
    let device = own_gpu();
    conforms_as_worker(&device);
    let (_folder, path) = file(&zoo::build("resnet18", Dataset::Imagenet).unwrap());
    let measured = measure(&device, &job(&path));
    println!("{measured:#?}");
    let Measurement::Measured { conditions, .. } = measured else { panic!("it fits") };
    assert!(conditions.end.clocks.contains_key("gpu"), "NVML reports the clock");
}

#[test]
#[ignore = "needs an NVIDIA GPU and python3 with PyTorch; run with: cargo test -p perf4sight-worker on_a_gpu -- --ignored --nocapture --test-threads 1"]
fn the_python_worker_conforms_on_a_gpu_and_counts_the_same_memory() {
    let python = gpu(python_worker().expect("python3 with PyTorch"));
    conforms_as_worker(&python);
    let own = own_gpu();
    for name in ["resnet18", "mobilenetv2", "googlenet"] {
        let (_folder, path) = file(&zoo::build(name, Dataset::Imagenet).unwrap());
        for stage in Stage::ALL {
            let job = MeasurementJob { workload: Workload::published(stage, 8), ..job(&path) };
            let [theirs, ours] = [&python, &own].map(|device| memory_of(device, &job));
            println!("{name} {stage}: {theirs:?} {ours:?}");
            let apart = |theirs: u64, ours: u64| (theirs as f64 / ours as f64 - 1.0).abs();
            assert!(apart(theirs.allocated, ours.allocated) < 0.01, "{name}, {stage}");
            assert!(apart(theirs.reserved, ours.reserved) < 0.05, "{name}, {stage}");
        }
    }
}
