//! `perf4sight inspect`: a network layer by layer, with the theoretical cost of each layer and the share of the
//! network that is understood.

mod order;
mod sheet;
mod tree;

use super::extents::NetworkExtents;
use super::named::NamedNetwork;
use super::step::{OF_STEPS, stages};
use super::{asking, step, timeline};
use crate::fingerprint::check_understood;
use order::LayerOrder;
use perf4sight_base::error::Result;
use perf4sight_base::overwrite;
use perf4sight_base::units::{Bytes, Percent};
use perf4sight_memory::{MemoryTimeline, Simulation};
use perf4sight_network::zoo::Dataset;
use perf4sight_network::{Network, Node, OperationCoverage};
use perf4sight_platform::Platform;
use perf4sight_report::{Block, Page, Table};
use perf4sight_step::workload::{LARGEST_BATCH, Stage, Step, Workload};
use perf4sight_verb::config::{Conflicts, Setting, SettingTable as Settings, SettingValues, flag, integer, text, word};
use perf4sight_verb::{Context, Summary, Verb, VerbSpec};
use serde_json::{Value, json};
use sheet::LayerSheet;
use std::path::PathBuf;

/// `perf4sight inspect`.
pub static VERB: VerbSpec = VerbSpec {
    table: Settings {
        section: "inspect",
        about: "shows a network layer by layer: shapes, parameters, MACs, bytes, and how much of it is understood",
        groups: &[
            &[asking::NETWORK, BATCH, STAGE, SORT, TREE, MEMORY, TARGET, PAGE, asking::OVERWRITE],
            OF_STEPS,
            &[asking::IMAGES_OF],
            asking::EXTENTS,
        ],
    },
    after_help: "",
    parse: |values| Ok(Box::new(Inspect::parse(values)?)),
};

const BATCH: Setting =
    integer("bs", 1, LARGEST_BATCH as i64).or_default("1").value("SIZE").help("Batch size that the costs are for.");

const STAGE: Setting = word("stage", stages)
    .help("Stage of the step; training adds the backward pass [default: inference, with --memory training]");

const SORT: Setting = word("sort", || LayerOrder::ALL.map(LayerOrder::name).to_vec())
    .or_default("run")
    .conflicts(Conflicts::With(&["memory"]))
    .help("Order of the layers: as they run, or by most MACs (in training forward and backward together), largest results or most parameters.");

const TREE: Setting = flag("tree")
    .conflicts(Conflicts::With(&["memory"]))
    .help("Show the modules of the network, each with the sums of its layers, instead of the layers alone.");

const MEMORY: Setting =
    flag("memory").help("Show what is in memory while the step runs, simulated, instead of the layers.");

const TARGET: Setting = text("target")
    .or_default("cpu")
    .requires("memory")
    .value("NAME|FILE.json")
    .completed_by(asking::targets)
    .help("Kind of the device whose memory is simulated, or a file that describes one.");

const PAGE: Setting = asking::HTML.help("Write a page; with --memory, with a chart of the memory over the step.");

#[derive(Debug, Clone, PartialEq, Eq)]
struct Inspect {
    network: String,
    dataset: Dataset,
    workload: Workload,
    order: LayerOrder,
    tree: bool,
    extents: NetworkExtents,
    memory: Option<String>,
    html: Option<PathBuf>,
    overwrite: bool,
}

impl Verb for Inspect {
    /// The table of layers, the totals, the coverage.
    fn run(&self, context: &mut Context) -> Result<Summary> {
        let network =
            NamedNetwork::load_with_extents(&self.network, self.dataset.name(), &self.extents)?.report_remarks(context);
        let step = self.workload.step;
        network.check_step(step)?;
        let sheet = LayerSheet::new(&network, self.workload, self.order);
        let (layers, totals) = (sheet.layers(), sheet.totals());
        let tree = self.tree.then(|| sheet.tree());
        let coverage = network.coverage();
        let cuts: Vec<&str> =
            network.cuts(step.checkpoint).into_iter().map(|cut| network.node(cut).name.as_str()).collect();
        let simulated = self.memory.as_deref().map(|device| self.simulate_memory(device, &network)).transpose()?;
        let page = InspectTables {
            inspect: self,
            layers: tree.as_ref().unwrap_or(&layers),
            totals: &totals,
            simulated: simulated.as_ref(),
        };
        let files = page.write()?;
        Ok(Summary {
            headline: page.headline(&coverage),
            tables: page.tables(),
            files,
            json: json!({
                "network": network.name(),
                "stage": step.stage,
                "step": step.cell(),
                "cuts": cuts,
                "batch": self.workload.batch,
                "input": network.input_shape().dims(),
                "inputs": tensors(network.inputs().map(|(_, node, _)| node)),
                "outputs": tensors(network.outputs().iter().map(|output| network.node(*output))),
                "classes": network.classes(),
                "layers": layers.to_json(),
                "modules": self.tree.then(|| sheet.modules()),
                "totals": totals.to_json()[0],
                "coverage": coverage_json(&coverage),
                "memory": simulated.as_ref().map(SimulatedStepMemory::json),
                "warnings": context.warnings(),
            }),
            ..Summary::default()
        })
    }
}

impl Inspect {
    fn parse(values: &SettingValues<'_>) -> Result<Self> {
        let memory: bool = values.get("memory")?;
        let stage = values.named_if_set("stage", Stage::parse)?;
        let stage = stage.unwrap_or(if memory { Stage::Training } else { Stage::Inference });
        // The layers cost the same with every `zero_grad` setting.
        let asked = if memory { Step::usual(stage) } else { Step::published(stage) };
        let workload = Workload { step: step::changes(values, &[stage])?.of(asked), batch: values.get("bs")? };
        step::check_batches(values, workload.step, &[workload.batch])?;
        Ok(Inspect {
            network: values.get("network")?,
            dataset: values.parse_word("dataset", Dataset::parse)?,
            workload,
            order: values.parse_word("sort", LayerOrder::parse)?,
            tree: values.get("tree")?,
            extents: NetworkExtents::parse(values)?,
            memory: if memory { values.get("target")? } else { None },
            html: asking::html(values)?,
            overwrite: values.get("overwrite")?,
        })
    }

    /// The memory of the step on a kind of device.
    fn simulate_memory(&self, device: &str, network: &Network) -> Result<SimulatedStepMemory> {
        check_understood(network)?;
        let platform = Platform::named_or_read(device)?;
        platform.check_precision(self.workload.step.precision)?;
        let simulation = Simulation::new(network, self.workload.step, &platform);
        let batch = self.workload.batch;
        Ok(SimulatedStepMemory {
            timeline: simulation.timeline(batch),
            between: simulation.bounds(batch).map(|peak| peak.allocated),
        })
    }
}

struct SimulatedStepMemory {
    timeline: MemoryTimeline,
    /// The least and the most that its peak may be: they differ where the network's file can be read in several ways.
    between: [Bytes; 2],
}

impl SimulatedStepMemory {
    fn to_sentences(&self) -> String {
        let at_peak = timeline::at_peak(&self.timeline);
        match self.between.map(|bytes| bytes.to_string()) {
            [least, most] if least == most => at_peak,
            [least, most] => format!(
                "{at_peak} The file does not contain what the module's code keeps: the peak is between {least} and {most}."
            ),
        }
    }

    fn json(&self) -> Value {
        let [least, most] = self.between.map(|bytes| bytes.0);
        let mut json = timeline::json(&self.timeline);
        json["peak_low_bytes"] = least.into();
        json["peak_high_bytes"] = most.into();
        json
    }
}

/// The tables and charts of a network.
struct InspectTables<'a> {
    inspect: &'a Inspect,
    layers: &'a Table,
    totals: &'a Table,
    simulated: Option<&'a SimulatedStepMemory>,
}

impl InspectTables<'_> {
    fn headline(&self, coverage: &OperationCoverage) -> String {
        match self.simulated {
            Some(simulated) => format!("{}\n{}", simulated.to_sentences(), coverage_text(coverage)),
            None => coverage_text(coverage),
        }
    }

    fn timeline(&self) -> Option<&MemoryTimeline> {
        self.simulated.map(|simulated| &simulated.timeline)
    }

    fn tables(&self) -> Vec<Table> {
        match self.timeline() {
            Some(timeline) => vec![timeline::components(timeline), timeline::largest_tensors_table(timeline)],
            None => vec![self.layers.clone(), self.totals.clone()],
        }
    }

    fn write(&self) -> Result<Vec<(&'static str, PathBuf)>> {
        let Some(file) = &self.inspect.html else { return Ok(Vec::new()) };
        let Workload { step, batch } = self.inspect.workload;
        let mut page = Page::new(&self.inspect.network, format!("{step}, batch size {batch}"));
        if let (Some(timeline), Some(device)) = (self.timeline(), &self.inspect.memory) {
            let what = format!("{} on {device}, batch size {batch}", self.inspect.network);
            page.chapter("Memory", timeline::blocks(timeline, &what, None));
        }
        page.chapter("Layers", [Block::Table(self.totals.clone()), Block::Folded(self.layers.clone())]);
        overwrite::save(file, page.to_html(), self.inspect.overwrite)?;
        Ok(vec![("page", file.clone())])
    }
}

/// The network's inputs or outputs: name, shape of one sample, elements.
fn tensors<'a>(nodes: impl Iterator<Item = &'a Node>) -> Vec<Value> {
    let answer =
        nodes.map(|node| json!({ "name": node.name, "shape": node.shape.dims(), "element": node.element.name() }));
    answer.collect()
}

fn coverage_text(coverage: &OperationCoverage) -> String {
    let share = Percent(100.0 * coverage.supported() as f64 / coverage.operations.max(1) as f64);
    format!("{} of {} operations are known ({share})", coverage.supported(), coverage.operations)
}

fn coverage_json(coverage: &OperationCoverage) -> Value {
    let unknown = coverage.unknown.iter().map(|(name, missed)| {
        (name.clone(), json!({ "operations": missed.operations, "parameters": missed.parameters }))
    });
    let unknown: serde_json::Map<String, Value> = unknown.collect();
    json!({ "operations": coverage.operations, "known": coverage.supported(), "unknown": unknown })
}
