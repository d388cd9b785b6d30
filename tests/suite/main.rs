//! The one integration binary: every topic is a module, fixtures are shared.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

mod adaptive;
mod advise;
mod attack;
mod breakdown;
mod breakdown_report;
mod calibrate;
mod check;
mod check_noise;
mod command_line;
mod config;
mod conformance;
mod console;
mod cost_model;
mod dataset;
mod dependency_groups;
mod detection;
mod device;
mod docs;
mod example;
mod exhaustive;
mod features;
mod fingerprint;
mod fingerprint_report;
mod fingerprint_stage;
mod fixtures;
mod foreign_exports;
mod gpu;
mod hybrid_memory;
mod inspect;
mod invented;
mod latency;
mod layering;
mod layers;
mod left_out;
mod memory;
mod mutated;
mod mutation;
mod networks;
mod onnx_files;
mod pipeline;
mod predict;
mod profile;
mod prune_verb;
mod pruning;
mod python_module;
mod record;
mod records;
mod remeasured;
mod remote;
mod replay;
mod sensitivity;
mod sensitivity_nodes;
mod slurm;
mod slurm_cluster;
mod target;
mod teach;
mod trees;
mod workers;

/// The root of the repository.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The program.
fn program() -> std::path::PathBuf {
    env!("CARGO_BIN_EXE_perf4sight").into()
}
