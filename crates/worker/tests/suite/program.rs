//! The program and its worker: a real profile, real kills.

use crate::conformance::asked;
use crate::fixtures::{Scene, runs, within_patience};
use crate::{own_worker, program};
use perf4sight_cost::records;
use perf4sight_cost::records::{ProfileProvenance, Variant};
use perf4sight_network::zoo;
use perf4sight_network::zoo::Dataset;
use perf4sight_onnx as onnx;
use perf4sight_step::workload::{Quantity, Stage};
use std::fs;
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::Duration;

/// A profile of squeezenet on this processor.
fn scene(more: &str) -> Scene {
    let config = format!(
        "[profile]\nnetwork = squeezenet\nlocal_model_loc = nets\ndataset = cifar10\nthreads = 1\ndevice_name = here\n{more}\n"
    );
    let network = onnx::to_bytes(&zoo::build("squeezenet", Dataset::Cifar10).unwrap());
    Scene::new().file("config.ini", config).file("nets/squeezenet_0.onnx", network)
}

#[test]
fn the_program_starts_the_worker_beside_it() {
    let started = asked(&[program().to_str().unwrap(), "worker"]);
    assert_eq!(started.about, own_worker().about);
    assert_eq!(started.about.software["libtorch"], "2.11.0");
    let version = format!("perf4sight {} (libtorch: yes)\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(Scene::new().run("--version").succeeds().stdout(), version);
}

/// A limit that the larger batch really meets.
#[test]
fn a_real_profile_stops_where_memory_ends() {
    // Half a MiB an image (25 MiB were measured at 224 x 224, 49 times as many pixels), weights and gradients aside.
    let scene = scene("bs = [2, 512, 1024]\nmem_limit = 100");
    let profile = || scene.run("--config-file config.ini").succeeds();
    profile();
    let log_dir = scene.path("profiling_csvs/here/cifar10");
    for quantity in Quantity::ALL {
        let file = records::log_file(&log_dir, quantity, &Variant::new("squeezenet", 0));
        let mut rows = records::read(&file, quantity, Stage::Training).unwrap().records;
        rows.sort_by_key(|row| row.workload.batch);
        let ended: Vec<String> = rows.iter().map(|row| format!("{}@{}", row.outcome, row.workload.batch)).collect();
        assert!(rows[0].outcome.passed() && ended[1] == "out_of_memory@512", "{ended:?}");
        // Where chance has it run before 512, it fails by itself.
        assert!(["skipped@1024", "out_of_memory@1024"].contains(&ended[2].as_str()), "{ended:?}");
    }
    let setting = ProfileProvenance::load(&log_dir).unwrap().unwrap().setting;
    assert_eq!((setting["libtorch"].as_str(), setting["threads"].as_str()), ("2.11.0", "1"));
    profile().says("skipping 3 of 3 configurations");
}

/// A program that is killed just after it started a worker leaves none, although no library of the worker is loaded yet.
#[test]
fn a_real_worker_is_no_orphan_for_long() {
    let scene = scene("bs = [1, 2]");
    for delay in [0, 2, 5, 10, 40] {
        let mut program = scene.start();
        within_patience("a worker", || children(&program).len() > 1);
        thread::sleep(Duration::from_millis(delay));
        let started = children(&program);
        program.kill().unwrap();
        program.wait().unwrap();
        within_patience("the end of the workers", || !started.iter().any(|one| runs(*one)));
    }
}

/// The processes that a program started and that still run: a worker's guard, a worker.
fn children(program: &Child) -> Vec<i32> {
    let threads = fs::read_dir(Path::new("/proc").join(program.id().to_string()).join("task")).unwrap().flatten();
    let children: String =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok()).collect();
    children.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}
