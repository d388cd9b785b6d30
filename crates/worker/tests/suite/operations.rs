//! Operations one by one, each in a network of a few layers as PyTorch exports it: read, counted, run by both workers, simulated, pruned,
//! written and read again.

use crate::conformance::{measure, python_worker};
use crate::memory_on_cpu::{compare, pruned, worker};
use crate::{ROOT, own_worker};
use perf4sight_cost::device::hardware::Hardware;
use perf4sight_cost::device::{Measurement, MeasurementJob, RunAllowance};
use perf4sight_cost::features::physical::{KernelClass, kernels};
use perf4sight_cost::records::Variant;
use perf4sight_network::{Network, NodeId, Op};
use perf4sight_onnx as onnx;
use perf4sight_step::workload::{Stage, Step, Workload};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// What is known by name and price alone; max_unpool2d is exported as ScatterND.
const ONLY_PRICED: [&str; 2] = ["DeformConv", "ScatterND"];

/// An export and what PyTorch counts of its network.
struct Export {
    name: String,
    file: PathBuf,
    parameters: u64,
    macs: u64,
}

/// The exports of a folder, in order of their names.
fn exports(folder: &Path) -> Vec<Export> {
    let files =
        std::fs::read_dir(folder).unwrap_or_else(|_| panic!("{}: see scripts/export_operations.py", folder.display()));
    let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "onnx"));
    files.sort();
    let export = |file: PathBuf| {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let counts = file.with_file_name(format!("{}.json", name.split_once('.').unwrap().0));
        let counts: serde_json::Value = serde_json::from_slice(&std::fs::read(counts).unwrap()).unwrap();
        let count = |what: &str| counts[what].as_u64().unwrap_or_else(|| panic!("{name}: {counts}"));
        Export { parameters: count("parameters"), macs: count("macs"), name, file }
    };
    files.into_iter().map(export).collect()
}

/// What is wrong with the reading of an export; its network.
fn read(export: &Export) -> Result<Network, String> {
    let loaded = onnx::read(&export.file).map_err(|error| error.to_string())?;
    let (network, mut wrong) = (loaded.network, Vec::new());
    let unknown: Vec<String> = network.coverage().unknown.into_keys().collect();
    if unknown.iter().any(|name| !ONLY_PRICED.contains(&name.as_str())) {
        wrong.push(format!("not understood: {unknown:?}"));
    }
    let answer = loaded.warnings.iter().any(|warning| warning.contains("its parameters are not the network's"));
    if network.parameters() != export.parameters && !answer {
        wrong.push(format!("{} parameters, not {}", network.parameters(), export.parameters));
    }
    // PyTorch's counter has no word for a deformable convolution.
    if network.macs() != export.macs && !unknown.iter().any(|name| name == "DeformConv") {
        wrong.push(format!("{} MACs, not {}", network.macs(), export.macs));
    }
    let again = onnx::from_bytes(network.name(), &onnx::to_bytes(&network)).map_err(|error| error.to_string())?;
    if again.network.nodes() != network.as_written().nodes() {
        wrong.push("is another network where it is written and read again".to_string());
    }
    let classes = kernels(&network, Step::published(Stage::Training));
    if unknown.is_empty() && classes.iter().any(|kernel| kernel.class == KernelClass::Unknown) {
        wrong.push("has kernels of no class".to_string());
    }
    if wrong.is_empty() { Ok(network) } else { Err(wrong.join("; ")) }
}

/// What goes wrong where a worker runs the network.
fn run(worker: &Hardware, network: &Network, stage: Stage) -> Result<(), String> {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("network.onnx");
    onnx::write(network, &file).unwrap();
    let (variant, workload) = (Variant::new("operation", 0), Workload::published(stage, 3));
    let allowance = RunAllowance::default();
    let job =
        MeasurementJob { variant, file, workload, latency: false, memory: true, layers: false, round: 1, allowance };
    match measure(worker, &job) {
        Measurement::Measured { .. } => Ok(()),
        other => Err(format!("{stage}: {other:?}")),
    }
}

/// The greatest error of simulated memory of a network and of its half, percent.
fn memory(network: &Network) -> f64 {
    let pairs = Stage::ALL.into_iter().flat_map(|stage| {
        [0, 50]
            .into_iter()
            .flat_map(move |level| compare(&pruned(network, level), level, Step::published(stage), &[1, 4]))
    });
    pairs.map(|pair| pair.error()).max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(0.0)
}

#[test]
#[ignore = "needs exports; run with: python scripts/export_operations.py target/operations, cargo test -p perf4sight-worker operations_as -- --ignored --nocapture"]
fn operations_as_pytorch_exports_them() {
    let python = python_worker().map(|worker| Hardware { worker, ..self::worker() });
    let own = Hardware { worker: own_worker(), ..self::worker() };
    let (mut wrong, mut seen) = (0, Vec::new());
    println!("| export | reading | workers | simulated memory |\n|---|---|---|---|");
    for export in exports(&Path::new(ROOT).join("target/operations")) {
        let network = match read(&export) {
            Ok(network) => network.renamed("operation"),
            Err(why) => {
                wrong += 1;
                println!("| {} | {why} | | |", export.name);
                continue;
            }
        };
        // Both exporters say the same of most.
        let form: Vec<(Op, Vec<NodeId>)> =
            network.nodes().iter().map(|node| (node.op.clone(), node.inputs.clone())).collect();
        if !network.coverage().is_full() || seen.contains(&form) {
            println!("| {} | right | | |", export.name);
            continue;
        }
        let ran = python.iter().chain([&own]).flat_map(|worker| Stage::ALL.map(|stage| run(worker, &network, stage)));
        let failed: Vec<String> = ran.filter_map(Result::err).collect();
        wrong += usize::from(!failed.is_empty());
        let memory = if failed.is_empty() { format!("{:+.1} %", memory(&network)) } else { String::new() };
        let ran = if failed.is_empty() { "right".to_string() } else { failed.join("; ") };
        println!("| {} | right | {ran} | {memory} |", export.name);
        seen.push(form);
    }
    assert_eq!(wrong, 0);
}
