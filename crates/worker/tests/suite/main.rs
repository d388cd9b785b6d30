//! The libtorch worker as a process: what every worker must do, exact memory, layers that add up, GPUs, and the program that starts it.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

// What every worker must do, and the folder to run a program in, are those of the suite of the program.
#[path = "../../../../tests/suite/conformance.rs"]
mod conformance;
#[path = "../../../../tests/suite/fixtures.rs"]
mod fixtures;
mod gpu;
mod libtorch;
mod memory_of_steps;
mod memory_on_cpu;
mod operations;
mod program;

use conformance::asked;
use perf4sight_cost::device::program::WorkerProgram;
use std::path::{Path, PathBuf};

/// The root of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The worker.
const WORKER: &str = env!("CARGO_BIN_EXE_perf4sight-worker");

/// The program in whose folder the worker is.
fn program() -> PathBuf {
    let program = Path::new(WORKER).with_file_name("perf4sight");
    assert!(program.exists(), "{} is missing; cargo build makes it, cargo test --workspace too", program.display());
    program
}

fn own_worker() -> WorkerProgram {
    asked(&[WORKER])
}
