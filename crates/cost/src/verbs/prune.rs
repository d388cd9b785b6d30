//! `perf4sight prune`: removes channels of one network, and reports which of its weights remain.

use super::asking;
use super::extents::NetworkExtents;
use super::named::{NamedNetwork, NetworkRemarks, is_file};
use crate::pruning::{
    FilterRanking, LayerCut, PrunedNetwork, Pruner, PruningGoal, PruningLimit, RankingMode, RemainingPositions,
    Unprunable, generator,
};
use glob::Pattern;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::{Percent, count_text};
use perf4sight_network::zoo::Dataset;
use perf4sight_onnx as onnx;
use perf4sight_onnx::{KeptPositions, Magnitudes};
use perf4sight_report::{Table, TableBuilder};
use perf4sight_verb::config::{
    Conflicts, Setting, SettingTable as Settings, SettingValues, flag, integer, number, path, text, word,
};
use perf4sight_verb::{Context, Summary, Verb, VerbSpec};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// `perf4sight prune`.
pub static VERB: VerbSpec = VerbSpec {
    table: Settings {
        section: "prune",
        about: "prunes one network to a level, and lists the remaining channels of every layer",
        groups: &[
            &[NETWORK, LEVEL, MODE, SEED, KEEP, EQUAL_PARTS, OUT, WEIGHTS, asking::OVERWRITE, asking::IMAGES_OF],
            asking::EXTENTS,
        ],
    },
    after_help: "",
    parse: |values| Ok(Box::new(Prune::parse(values)?)),
};

const NETWORK: Setting =
    asking::NETWORK.positional("NET.onnx|NAME").help("An ONNX file or the name of a known network.");

const LEVEL: Setting = number("level", 0.0).required().value("PERCENT").help("Percent of all parameters to remove.");

const MODE: Setting = word("mode", || RankingMode::ALL.map(RankingMode::name).to_vec()).or_default("random")
    .help("Which filters are removed first: at random, at random with late or early layers preferred, or those with the smallest mean magnitude (needs a file with weights).");

const SEED: Setting = integer("seed", 0, i64::MAX).or_default("0").help("Seed of the random choice.");

const KEEP: Setting = text("keep").many_values().value("PATTERN")
    .help("Layers that keep all their input and output channels, as patterns of names such as 'encoder.*.attn.*'; may be given several times.");

const EQUAL_PARTS: Setting = flag("equal_parts")
    .help("Remove the same channels from the equally long parts of a divided tensor, as code that calls chunk needs.");

const OUT: Setting = path("out").value("FILE.onnx").help("Where to write the smaller network.");

const WEIGHTS: Setting = flag("weights")
    .requires("out")
    .conflicts(Conflicts::With(&["input", "classes"]))
    .help("Write the remaining weights too, instead of shapes alone.");

/// What a file of operations alone does not have of the file that it was made from.
const CLOSED: &str = "where the memory of the original is predicted with an interval, that of this file has none: it holds the likeliest operations alone; with --weights it \
                      keeps the form of the original, and its interval";

/// Layers that are listed at most where the level cannot be reached.
const SHOWN: usize = 8;

#[derive(Debug, Clone, PartialEq)]
struct Prune {
    network: String,
    level: f64,
    mode: RankingMode,
    seed: u64,
    keep: Vec<Pattern>,
    equal_parts: bool,
    out: Option<PathBuf>,
    weights: bool,
    overwrite: bool,
    dataset: Dataset,
    extents: NetworkExtents,
}

impl Verb for Prune {
    /// Reports the remaining channels of every layer, and writes the smaller network if requested.
    fn run(&self, context: &mut Context) -> Result<Summary> {
        let (NamedNetwork { network, remarks }, magnitudes) = self.load()?;
        remarks.report(context);
        if let Some(idle) = self.keep.iter().find(|kept| network.nodes().iter().all(|node| !kept.matches(&node.name))) {
            return Err(Error::usage(format!("no layer is called \"{idle}\" (--keep)"))
                .help("perf4sight inspect lists the layers"));
        }
        let keeps = |name: &str| self.keep.iter().any(|kept| kept.matches(name));
        let pruner = Pruner::keeping(&network, keeps, self.equal_parts);
        let draws = &mut generator(self.seed, network.name(), self.level.round() as u8, 0);
        let ranking = FilterRanking::by(self.mode, &pruner, draws, &magnitudes)?;
        for layer in ranking.skipped_layers(&pruner) {
            context.warn(format!(
                "the weights of {layer} are computed while the network runs: its filters are not ranked"
            ));
        }
        let pruned = pruner.prune(&ranking, PruningGoal::percent(&network, self.level))?;
        self.check_reached(&pruner, &pruned)?;
        if let Some(file) = &self.out {
            self.write(&pruned, file)?;
            if !self.weights && !network.other_readings().is_empty() {
                context.warn(format!("{}: {CLOSED}", file.display()));
            }
        }
        let before = network.parameters();
        Ok(Summary {
            headline: format!(
                "{} of the parameters are gone, from {}{}",
                Percent(pruned.percent),
                count_text(pruned.cuts.len() as u64, "layer"),
                if self.out.is_some() && !self.weights { self.weightless() } else { String::new() }
            ),
            json: json!({
                "network": network.name(),
                "percent": pruned.percent,
                "parameters": { "before": before, "after": pruned.network.parameters() },
                "layers": pruned.cuts.iter().map(cut).collect::<Value>(),
                "warnings": context.warnings(),
            }),
            tables: vec![table(&pruned.cuts)],
            files: self.out.iter().map(|file| ("pruned network", file.clone())).collect(),
            ..Summary::default()
        })
    }
}

impl Prune {
    fn parse(values: &SettingValues<'_>) -> Result<Self> {
        let keep = values.get::<Option<Vec<String>>>("keep")?.unwrap_or_default();
        let keep = keep.iter().map(|pattern| Pattern::new(pattern)).collect::<std::result::Result<_, _>>();
        Ok(Prune {
            network: values.get("network")?,
            level: level(values)?,
            mode: values.parse_word("mode", RankingMode::parse)?,
            seed: values.get("seed")?,
            keep: keep.map_err(|cause| values.error("keep", cause))?,
            equal_parts: values.get("equal_parts")?,
            out: values.get("out")?,
            weights: values.get("weights")?,
            overwrite: values.get("overwrite")?,
            dataset: values.parse_word("dataset", Dataset::parse)?,
            extents: NetworkExtents::parse(values)?,
        })
    }

    /// The network, with the magnitudes of its filters if the pruning depends on them.
    fn load(&self) -> Result<(NamedNetwork, Magnitudes)> {
        if self.mode != RankingMode::L1 || !is_file(&self.network) {
            return Ok((
                NamedNetwork::load_with_extents(&self.network, self.dataset.name(), &self.extents)?,
                Magnitudes::new(),
            ));
        }
        let (onnx::LoadedOnnx { network, warnings }, magnitudes) = self.extents.read_with_magnitudes(&self.network)?;
        let warnings = warnings.iter().map(|warning| format!("{}: {warning}", self.network)).collect();
        Ok((NamedNetwork { network, remarks: NetworkRemarks { warnings, notes: Vec::new() } }, magnitudes))
    }

    /// The first problem with a file without weights: onnxruntime requires every weight as an input.
    fn weightless(&self) -> String {
        let with = match is_file(&self.network) {
            true => format!(" With --weights it holds what is left of those of {}, if that has them.", self.network),
            false => String::new(),
        };
        format!(
            "\nThe file holds shapes and no weights: they are inputs of its graph.{with} perf4sight.prune of the Python module prunes a module of PyTorch with its weights."
        )
    }

    fn write(&self, pruned: &PrunedNetwork, file: &Path) -> Result<()> {
        let source = Path::new(&self.network);
        let is_itself = matches!((file.canonicalize(), source.canonicalize()), (Ok(out), Ok(own)) if out == own);
        if is_itself && !self.overwrite {
            onnx::check_replaced(file, false)?;
            return Err(Error::usage("the pruned network would replace the network")
                .file(file)
                .help("choose another place, or replace it (--overwrite)"));
        }
        match self.weights {
            false => onnx::write_over(&pruned.network, file, self.overwrite),
            true if !is_file(&self.network) => {
                Err(Error::usage(format!("--weights: the known network {} has no weights", self.network))
                    .expected("an ONNX file that was exported with its weights"))
            }
            true => {
                let cuts = pruned.cuts.iter().chain(&pruned.shared_cuts).chain(&pruned.passed);
                let kept = cuts.map(|cut| (cut.layer.as_str(), kept_positions(cut))).collect();
                onnx::write_pruned([source, file], &self.extents.dims, &pruned.network, &kept, self.overwrite)
            }
        }
    }

    /// Refuses a result that is further from the level than allowed, and says which channels stay, and why.
    fn check_reached(&self, pruner: &Pruner, pruned: &PrunedNetwork) -> Result<()> {
        let Some(limit) = pruned.limit.filter(|_| (self.level - pruned.percent).abs() > PruningGoal::TOLERANCE) else {
            return Ok(());
        };
        let (reached, asked) = (Percent(pruned.percent), Percent(self.level));
        let error = Error::input(format!(
            "{} cannot lose {asked} of its parameters, the nearest is {reached}: {limit}{}",
            self.network,
            staying(&pruner.unprunable())
        ));
        Err(match (limit, self.keep.is_empty()) {
            (PruningLimit::NothingToPrune, true) => {
                error.expected("channels that only layers read; those of the input, the output and sums with them stay")
            }
            (PruningLimit::NothingToPrune, false) => error.help("keep fewer layers"),
            (PruningLimit::TooMany | PruningLimit::Together | PruningLimit::Minimums { .. }, none_kept) => error
                .expected(format!("a level within {} percentage points of the nearest", PruningGoal::TOLERANCE))
                .help(if none_kept { "ask for another level" } else { "ask for another level, or keep fewer layers" }),
        })
    }
}

/// A line for each of the first layers that keep channels, with the reason.
fn staying(layers: &[Unprunable]) -> String {
    let line = |stays: &Unprunable| {
        format!("\n  {} keeps {}: {}", stays.layer, count_text(stays.channels as u64, "channel"), stays.reason)
    };
    let more = match layers.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("\n  and {more} more of this kind"),
    };
    layers.iter().take(SHOWN).map(line).collect::<String>() + &more
}

/// A percentage below 100. A value between 0 and 1 is refused, because it is likely meant as a fraction.
fn level(values: &SettingValues<'_>) -> Result<f64> {
    let level: f64 = values.get("level")?;
    match level {
        percent if percent == 0.0 || (1.0..100.0).contains(&percent) => Ok(percent),
        share if share < 1.0 => Err(values
            .error("level", format!("{share} is less than one percent"))
            .expected("a percentage from 1 to below 100, or 0")
            .help(format!("did you mean {}?", 100.0 * share))),
        much => Err(values
            .error("level", format!("{much} is not a percentage from 0 to below 100"))
            .help("write such as 50")),
    }
}

fn table(cuts: &[LayerCut]) -> Table {
    let left =
        |left: &Option<RemainingPositions>| left.as_ref().map(|left| format!("{} of {}", left.kept.len(), left.of));
    TableBuilder::new("Layers that are smaller", cuts)
        .text("layer", "layer", |cut| cut.layer.clone())
        .text("operation", "operation", |cut| cut.operation.clone())
        .number("inputs", "inputs left", |cut| left(&cut.inputs))
        .number("outputs", "outputs left", |cut| left(&cut.outputs))
        .table()
}

fn kept_positions(cut: &LayerCut) -> KeptPositions<'_> {
    let [inputs, outputs] = [&cut.inputs, &cut.outputs].map(Option::as_ref);
    KeptPositions {
        inputs: inputs.map(|left| left.kept.as_slice()),
        outputs: outputs.map(|left| left.kept.as_slice()),
        axis_from_last: outputs.map_or(1, |left| left.axis_from_last),
    }
}

fn cut(cut: &LayerCut) -> Value {
    let left =
        |left: &RemainingPositions| json!({ "axis": -(left.axis_from_last as i64), "of": left.of, "kept": left.kept });
    json!({
        "layer": cut.layer, "operation": cut.operation,
        "inputs": cut.inputs.as_ref().map(left), "outputs": cut.outputs.as_ref().map(left),
    })
}
