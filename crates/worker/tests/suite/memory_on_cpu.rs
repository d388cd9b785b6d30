//! Simulated memory against what libtorch allocates on this processor, counted to the byte by the worker.

use crate::conformance::measure;
use crate::{ROOT, own_worker};
use perf4sight_base::stats::ErrorScores;
use perf4sight_base::units::Bytes;
use perf4sight_cost::device::hardware::Hardware;
use perf4sight_cost::device::kind::DeviceKind;
use perf4sight_cost::device::program::WorkerProgram;
use perf4sight_cost::device::protocol::StepRule;
use perf4sight_cost::device::{Device, Measurement, MeasurementJob, RunAllowance};
use perf4sight_cost::pruning::{FilterRanking, Pruner, PruningGoal, generator};
use perf4sight_cost::records::Variant;
use perf4sight_machine::LocalMachine;
use perf4sight_machine::description::MachineDescription;
use perf4sight_memory::Simulation;
use perf4sight_network::Network;
use perf4sight_network::zoo;
use perf4sight_network::zoo::Dataset;
use perf4sight_onnx as onnx;
use perf4sight_platform::Platform;
use perf4sight_step::workload::{Stage, Step, Workload};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) fn worker() -> Hardware {
    counting(own_worker())
}

/// The instructions of the kernels that the rules are of: on processors with AMX, oneDNN has others for bfloat16, which borrow more
/// (docs/accuracy/simulated-memory.md, "Other precisions").
const INSTRUCTIONS: &str = "AVX512_CORE_BF16";

/// Counting needs no timing: one step to warm up and one more, in which the optimizer has its state.
pub(crate) fn counting(worker: WorkerProgram) -> Hardware {
    limited_to(INSTRUCTIONS, worker)
}

/// The same, with instructions that oneDNN calls by that name at most.
pub(crate) fn limited_to(instructions: &str, mut worker: WorkerProgram) -> Hardware {
    worker.words.splice(0..0, ["env".to_owned(), format!("ONEDNN_MAX_CPU_ISA={instructions}")]);
    Hardware {
        kind: DeviceKind::Cpu,
        machine: Arc::new(LocalMachine),
        gpu: Default::default(),
        worker,
        threads: 2,
        mem_limit: Some(Bytes(8 << 30)),
        timeout: Duration::from_secs(1200),
        seed: 7,
        steps: StepRule { minimum: 1, minimum_seconds: 0.0, spread: 1.0, maximum_seconds: 1.0 },
    }
}

/// A network of the zoo, pruned.
fn variant(name: &str, level: u8) -> Network {
    pruned(&zoo::build(name, Dataset::Imagenet).unwrap(), level)
}

pub(crate) fn pruned(network: &Network, level: u8) -> Network {
    let pruner = Pruner::new(network);
    let ranking = FilterRanking::random(&pruner, &mut generator(7, network.name(), level, 0));
    pruner.prune(&ranking, PruningGoal::percent(network, f64::from(level))).unwrap().network
}

/// Bytes that libtorch counted and bytes that were simulated.
pub(crate) struct Pair {
    counted: Bytes,
    simulated: Bytes,
}

impl Pair {
    /// MiB counted, and how far off the simulation is.
    pub(crate) fn cell(&self) -> String {
        format!("{:.1} MiB, {:+.2} %", self.counted.mib(), self.error())
    }

    /// Whether so many MiB or more were counted: of fewer, what kernels borrow is most.
    pub(crate) fn is_at_least(&self, mib: f64) -> bool {
        self.counted.mib() >= mib
    }

    pub(crate) fn error(&self) -> f64 {
        100.0 * (self.simulated.0 as f64 / self.counted.0 as f64 - 1.0)
    }
}

/// One network at some batch sizes.
pub(crate) fn compare(network: &Network, level: u8, step: Step, batches: &[u64]) -> Vec<Pair> {
    compare_by(&worker(), network, level, step, batches)
}

/// The same, counted by any worker.
pub(crate) fn compare_by(device: &Hardware, network: &Network, level: u8, step: Step, batches: &[u64]) -> Vec<Pair> {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("network.onnx");
    onnx::write(network, &file).unwrap();
    let platform = Platform::processor(MachineDescription::here().wide_vectors()).unwrap();
    let simulation = Simulation::new(network, step, &platform);
    let pair = |&batch: &u64| {
        let (variant, workload) = (Variant::new(network.name(), level), Workload { step, batch });
        let allowance = RunAllowance::default();
        let file = file.clone();
        let job = MeasurementJob {
            variant,
            file,
            workload,
            latency: false,
            memory: true,
            layers: false,
            round: 1,
            allowance,
        };
        match measure(device, &job) {
            Measurement::Measured { memory: Some(memory), .. } => {
                Pair { counted: Bytes(memory.allocated), simulated: simulation.peak(batch).allocated }
            }
            other => panic!("{} batch {batch}: {other:?}", network.name()),
        }
    };
    batches.iter().map(pair).collect()
}

pub(crate) fn check(pairs: &[Pair]) -> ErrorScores {
    let mib = |part: fn(&Pair) -> Bytes| pairs.iter().map(|pair| part(pair).mib()).collect::<Vec<f64>>();
    let scores = ErrorScores::compute(&mib(|pair| pair.counted), &mib(|pair| pair.simulated)).unwrap();
    let worst = pairs.iter().map(|pair| pair.error().abs()).fold(0.0, f64::max);
    assert!(scores.mape <= 2.0, "off by {:.2} % on average", scores.mape);
    assert!(worst <= 6.0, "off by {worst:.2} % at worst");
    scores
}

#[test]
fn the_allocator_of_this_processor_is_reproduced() {
    let pairs: Vec<Pair> = [("squeezenet", 0), ("mobilenetv2", 0), ("mnasnet", 50)]
        .into_iter()
        .flat_map(|(name, level)| {
            let network = variant(name, level);
            Stage::ALL
                .into_iter()
                .flat_map(move |stage| compare(&network, level, Step::published(stage), &[1]))
                .collect::<Vec<_>>()
        })
        .collect();
    check(&pairs);
}

/// The table in `docs/accuracy/simulated-memory.md`, an hour on two cores.
#[test]
#[ignore = "takes half an hour; run with: cargo test -p perf4sight-worker the_whole_zoo -- --ignored --nocapture"]
fn the_whole_zoo() {
    let batches = [1, 4, 16];
    println!(
        "{:?}\n{}\n",
        worker().setting(),
        Platform::processor(MachineDescription::here().wide_vectors()).unwrap().title
    );
    println!("| network | level | stage | batch 1 | batch 4 | batch 16 |\n|---|---|---|---|---|---|");
    let mut all = Vec::new();
    for (name, level) in zoo::names().flat_map(|name| [0, 30, 70].map(|level| (name, level))) {
        let network = variant(name, level);
        for stage in Stage::ALL {
            let pairs = compare(&network, level, Step::published(stage), &batches);
            let cells = pairs.iter().map(Pair::cell);
            println!("| {name} | {level} | {stage} | {} |", cells.collect::<Vec<_>>().join(" | "));
            all.extend(pairs);
        }
    }
    println!("\n{:?}", check(&all));
}

/// Transformers and modern CNNs of timm and torchvision, as `scripts/export_networks.py` exports them; deit3_small_patch16_224 and
/// mixer_s32_224 are to be named to it, since `scripts/networks.txt` has other sizes of theirs.
const MODERN: [&str; 22] = [
    "cait_xxs24_224",
    "coat_tiny",
    "convit_tiny",
    "convnextv2_atto",
    "crossvit_tiny_240",
    "deit3_small_patch16_224",
    "edgenext_xx_small",
    "efficientformer_l1",
    "efficientformerv2_s0",
    "fastvit_t8",
    "levit_128s",
    "mambaout_femto",
    "mixer_s32_224",
    "mobilevitv2_050",
    "poolformer_s12",
    "pvt_v2_b0",
    "repvit_m1",
    "seg.lraspp_mobilenet_v3_large",
    "tiny_vit_5m_224",
    "tv.convnext_tiny",
    "tv.swin_t",
    "xcit_nano_12_p8_224",
];

/// The second table in `docs/accuracy/simulated-memory.md`, ten minutes on two cores.
#[test]
#[ignore = "needs exports; run with: python scripts/export_networks.py target/exports, cargo test -p perf4sight-worker modern -- --ignored --nocapture"]
fn modern_networks() {
    println!("| network | level | stage | batch 1 | batch 3 |\n|---|---|---|---|---|");
    let mut errors = Vec::new();
    for name in MODERN {
        let file = Path::new(ROOT).join(format!("target/exports/{name}.legacy.onnx"));
        let network = onnx::read(&file).unwrap_or_else(|error| panic!("{error}")).network.renamed(name);
        for (level, stage) in [0, 50].into_iter().flat_map(|level| Stage::ALL.map(|stage| (level, stage))) {
            let pairs = compare(&pruned(&network, level), level, Step::published(stage), &[1, 3]);
            let cells = pairs.iter().map(Pair::cell);
            println!("| {name} | {level} | {stage} | {} |", cells.collect::<Vec<_>>().join(" | "));
            errors.extend(pairs.iter().map(|pair| pair.error().abs()));
        }
    }
    let (mean, worst) = (errors.iter().sum::<f64>() / errors.len() as f64, errors.iter().copied().fold(0.0, f64::max));
    println!("\n{} rows, off by {mean:.2} % on average, {worst:.2} % at worst", errors.len());
    assert!(mean <= 3.0 && worst <= 8.0);
}

/// Networks with the operations that the zoo has none of: the exports of `tests/suite/exports`.
#[test]
#[ignore = "a table to look at; run with: cargo test -p perf4sight-worker exports_as_pytorch -- --ignored --nocapture"]
fn exports_as_pytorch_writes_them() {
    println!("| network | stage | batch 1 | batch 4 |\n|---|---|---|---|");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/suite/exports");
    let of = |folder: &Path, way: &str| {
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.to_string_lossy().ends_with(way)).collect::<Vec<_>>()
    };
    let mut files = [of(&folder, ".legacy.onnx"), of(&folder.join("attention"), ".default.onnx")].concat();
    files.sort();
    let mut errors = Vec::new();
    for file in files {
        let network = onnx::read(&file).unwrap().network;
        for stage in Stage::ALL {
            let pairs = compare(&network, 0, Step::published(stage), &[1, 4]);
            let cells = pairs.iter().map(Pair::cell);
            println!("| {} | {stage} | {} |", network.name(), cells.collect::<Vec<_>>().join(" | "));
            errors.extend(pairs.iter().map(|pair| pair.error().abs()));
        }
    }
    let worst = errors.iter().copied().fold(0.0, f64::max);
    println!("off by {:.2} % on average, {worst:.2} % at worst", errors.iter().sum::<f64>() / errors.len() as f64);
}
