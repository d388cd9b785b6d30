//! Networks as PyTorch exports them, against what PyTorch counts of them: a few small ones always, hundreds where somebody exported them.

use perf4sight_cost::pruning::{FilterRanking, Pruner, PruningGoal, generator};
use perf4sight_memory::Simulation;
use perf4sight_network::Network;
use perf4sight_onnx as onnx;
use perf4sight_platform::Platform;
use perf4sight_step::workload::{Stage, Step, ZeroGrad};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What PyTorch counts of a network.
#[derive(Clone, Copy)]
struct Counts {
    parameters: f64,
    macs: f64,
}

/// What is made of an export.
struct Read {
    network: Network,
    warnings: Vec<String>,
    seconds: f64,
}

impl Read {
    fn of(path: &Path) -> Result<Read, String> {
        let start = Instant::now();
        let loaded = onnx::read(path).map_err(|error| error.to_string().replace('\n', " "))?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(Read { network: loaded.network, warnings: loaded.warnings, seconds })
    }

    fn unknown(&self) -> Vec<String> {
        let unknown = self.network.coverage().unknown;
        unknown.iter().map(|(name, missed)| format!("{name} x{}", missed.operations)).collect()
    }

    /// Multiply-accumulates as a share of PyTorch's.
    fn macs(&self, counts: Counts) -> f64 {
        self.network.macs() as f64 / counts.macs
    }

    fn parameters_are(&self, counts: Counts) -> bool {
        self.network.parameters() as f64 == counts.parameters
    }

    /// Whether the file warns that it does not hold the network's own parameters.
    fn warns(&self) -> bool {
        self.warnings.iter().any(|warning| warning.contains("its parameters are not the network's"))
    }

    fn survives_writing(&self) -> bool {
        let again = onnx::from_bytes(self.network.name(), &onnx::to_bytes(&self.network));
        again.is_ok_and(|again| again.network.nodes() == self.network.as_written().nodes())
    }
}

/// The exports in a folder, in order of their names: the network, the exporter, the file.
fn exports(folder: &Path) -> Vec<(String, String, PathBuf)> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|_| panic!("{}: see scripts/export_networks.py", folder.display()));
    let mut exports: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "onnx"))
        .map(|path| {
            let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
            let (name, way) = stem.rsplit_once('.').unwrap();
            (name.to_string(), way.to_string(), path)
        })
        .collect();
    exports.sort();
    exports
}

/// What PyTorch says of the networks in `tests/suite/exports`.
fn sampled(folder: &Path) -> BTreeMap<String, Counts> {
    let mut rows = csv::ReaderBuilder::new().comment(Some(b'#')).from_path(folder.join("counts.csv")).unwrap();
    let row = |row: csv::Result<(String, f64, f64)>| {
        let (name, parameters, macs) = row.unwrap();
        (name, Counts { parameters, macs })
    };
    rows.deserialize().map(row).collect()
}

/// Multiply-accumulates of positions that are computed from a table, once a step whatever the batch; PyTorch counts them for its one image.
fn of_positions(name: &str, way: &str) -> f64 {
    let products: u32 = match name {
        // EdgeNeXt computes them for each sample, of which only the file tells that leaves the batch open.
        "edgenext" if way == "legacy" => 0,
        // 15 x 15 offsets through 2 -> 512 -> heads features: two heads once, four heads twice.
        "swin_v2" => 225 * (2 * 512 + 512 * 2) + 2 * 225 * (2 * 512 + 512 * 4),
        // A convolution of 64 sines to the channels, 16 and 128, of 8 x 8 places.
        "edgenext" => 64 * 16 * 64,
        "xcit" => 64 * 128 * 64,
        _ => 0,
    };
    f64::from(products)
}

#[test]
fn exports_that_are_hard_to_read_are_understood_and_counted_as_pytorch_does() {
    let folder = Path::new(crate::ROOT).join("tests/suite/exports");
    let counts = sampled(&folder);
    let mut wrong = Vec::new();
    for (name, way, path) in exports(&folder) {
        let (read, counts) = (Read::of(&path).unwrap_or_else(|error| panic!("{error}")), counts[&name]);
        let counts = Counts { macs: counts.macs - of_positions(&name, &way), ..counts };
        let macs = (read.macs(counts) - 1.0).abs() < 0.005;
        let parameters = read.parameters_are(counts) || way == "default" && read.warns();
        if !read.unknown().is_empty() || !macs || !parameters || !read.survives_writing() {
            let missing = read.network.parameters() as f64 - counts.parameters;
            wrong.push(format!(
                "{name}.{way}: {:?}, MACs {:.4}, {missing:+} parameters",
                read.unknown(),
                read.macs(counts)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Within a half of a percent: what Python's own frames hold is no matter of the network.
#[test]
fn attention_however_it_is_written_takes_the_memory_that_pytorch_takes() {
    let folder = Path::new(crate::ROOT).join("tests/suite/exports/attention");
    let mut rows = csv::ReaderBuilder::new().comment(Some(b'#')).from_path(folder.join("peaks.csv")).unwrap();
    let measured: BTreeMap<String, (u64, f64)> =
        rows.deserialize().map(|row| row.unwrap()).map(|(name, batch, bytes)| (name, (batch, bytes))).collect();
    let cpu = Platform::for_name("cpu").unwrap().on_threads(1);
    let step = Step { zero_grad: ZeroGrad::Free, ..Step::published(Stage::Training) };
    let mut seen = BTreeSet::new();
    for (name, way, path) in exports(&folder) {
        let network = Read::of(&path).unwrap_or_else(|error| panic!("{error}")).network;
        let (batch, bytes) = measured[&name];
        let simulated = Simulation::new(&network, step, &cpu).peak(batch).allocated.0 as f64;
        println!("{name}.{way}: {simulated} of {bytes} bytes");
        assert!((simulated / bytes - 1.0).abs() < 0.005, "{name}.{way}: {simulated}, measured {bytes}");
        seen.insert(name);
    }
    assert_eq!(seen.len(), measured.len());
}

/// Operations that are named and priced, not understood, in the samples that have them; max_unpool2d is exported as ScatterND.
const NAMED: [(&str, &str); 2] = [("deformable", "DeformConv x1"), ("max_unpool", "ScatterND x1")];

#[test]
fn operations_are_understood_or_named_and_counted_as_pytorch_does() {
    let folder = Path::new(crate::ROOT).join("tests/suite/exports/operations");
    let counts = sampled(&folder);
    let mut wrong = Vec::new();
    for (name, _, path) in exports(&folder) {
        let (read, counts) = (Read::of(&path).unwrap_or_else(|error| panic!("{error}")), counts[&name]);
        let named: Vec<&str> = NAMED.iter().filter(|(sample, _)| *sample == name).map(|(_, named)| *named).collect();
        // PyTorch's counter has no word for a deformable convolution: 8 filters of 8 x 3 x 3 on 16 x 16 pixels.
        let missed = if name == "deformable" { f64::from(8 * 16 * 16 * 8 * 9) } else { 0.0 };
        let macs = read.network.macs() as f64 == counts.macs + missed;
        let parameters = read.parameters_are(counts) || read.warns();
        if read.unknown() != named || !macs || !parameters || !read.survives_writing() {
            let [macs, parameters] = [read.network.macs(), read.network.parameters()];
            wrong.push(format!("{name}: {:?}, {macs} MACs, {parameters} parameters", read.unknown()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// One line of the table: what the export is, what was made of it, and whether all of that is right.
fn line(name: &str, path: &Path, counts: Counts) -> [String; 8] {
    let read = match Read::of(path) {
        Ok(read) => read,
        Err(error) => {
            let mut line = [const { String::new() }; 8];
            (line[0], line[1]) = ("no".into(), error);
            return line;
        }
    };
    let explained = !read.parameters_are(counts) && read.warns();
    let pruner = Pruner::new(&read.network);
    let ranking = FilterRanking::random(&pruner, &mut generator(0, name, 50, 0));
    let pruned = pruner.prune(&ranking, PruningGoal::percent(&read.network, 50.0)).unwrap();
    let folder = path.with_file_name("pruned");
    fs::create_dir_all(&folder).unwrap();
    onnx::write(&pruned.network, folder.join(path.file_name().unwrap())).unwrap();
    [
        "yes".into(),
        read.unknown().join(" "),
        format!("{:+}", read.network.parameters() as f64 - counts.parameters),
        if explained { "answer".into() } else { String::new() },
        format!("{:.4}", read.macs(counts)),
        read.survives_writing().to_string(),
        format!("{:.1}", pruned.percent),
        format!("{:.0}", 1000.0 * read.seconds),
    ]
}

#[test]
#[ignore = "needs exports, see scripts/export_networks.py; run with: cargo test --test suite foreign_exports -- --ignored --nocapture"]
fn foreign_exports_count_as_pytorch_does() {
    let folder = Path::new(crate::ROOT).join("target/exports");
    let mut table = csv::Writer::from_path(folder.join("table.csv")).unwrap();
    let titles =
        ["network", "exporter", "loads", "not understood", "parameters too many", "explained", "MACs to PyTorch's"];
    table.write_record(titles.iter().chain(&["read again as written", "pruned to 50, %", "read in ms"])).unwrap();
    let mut totals: BTreeMap<String, [usize; 7]> = BTreeMap::new();
    for (name, way, path) in exports(&folder) {
        let counts = fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
        let counts: Value = serde_json::from_str(&counts).unwrap();
        let [Some(parameters), Some(macs)] = ["parameters", "macs"].map(|key| counts[key].as_f64()) else { continue };
        let line = line(&name, &path, Counts { parameters, macs });
        let total = totals.entry(way.clone()).or_default();
        let [ratio, percent] = [4, 6].map(|column| line[column].parse::<f64>().unwrap_or(0.0));
        let facts = [
            true,
            line[0] == "yes",
            line[0] == "yes" && line[1].is_empty(),
            line[2] == "+0",
            line[3] == "answer",
            (ratio - 1.0).abs() < 0.005,
            (percent - 50.0).abs() <= 2.0,
        ];
        total.iter_mut().zip(facts).for_each(|(total, fact)| *total += usize::from(fact));
        table.write_record([name, way].iter().chain(&line)).unwrap();
    }
    table.flush().unwrap();
    println!("{}", folder.join("table.csv").display());
    for (way, [all, load, whole, parameters, explained, macs, pruned]) in totals {
        println!(
            "{way}: {all} exports, {load} load, {whole} understood whole; as PyTorch counts: parameters of {parameters} (of {explained} \
             others the file no longer tells and is said not to), MACs of {macs}; {pruned} pruned to 48-52 %"
        );
        assert!(load * 100 >= all * 98 && whole * 100 >= all * 95, "{way}");
    }
}
