//! `perf4sight inspect`: a network layer by layer, with the theoretical cost of each layer and the share of the
//! network that is understood.

use super::extents::Extents;
use super::named::Named;
use super::step::{OF_STEPS, stages};
use super::{asking, step, timeline};
use crate::fingerprint::check_understood;
use perf4sight_base::error::Result;
use perf4sight_base::overwrite;
use perf4sight_base::units::{Bytes, Percent};
use perf4sight_memory::{Simulation, Timeline};
use perf4sight_network::zoo::Dataset;
use perf4sight_network::{Coverage, Network, Node};
use perf4sight_platform::Platform;
use perf4sight_report::{Block, Cell, Column, Page, Table};
use perf4sight_step::workload::{LARGEST_BATCH, Stage, Step, Workload};
use perf4sight_verb::config::{Setting, Table as Settings, Values, flag, integer, text, word};
use perf4sight_verb::{Context, Summary, Verb, VerbSpec};
use serde_json::{Value, json};
use std::path::PathBuf;

/// `perf4sight inspect`.
pub static VERB: VerbSpec = VerbSpec {
    table: Settings {
        section: "inspect",
        about: "shows a network layer by layer: shapes, parameters, MACs, bytes, and how much of it is understood",
        groups: &[
            &[asking::NETWORK, BATCH, STAGE, MEMORY, TARGET, PAGE, asking::OVERWRITE],
            OF_STEPS,
            &[asking::IMAGES_OF],
            asking::EXTENTS,
        ],
    },
    after_help: "",
    parse: |values| Ok(Box::new(Inspect::parse(values)?)),
};

const BATCH: Setting =
    integer("bs", 1, LARGEST_BATCH as i64).or("1").value("SIZE").help("Batch size that the costs are for.");

const STAGE: Setting = word("stage", stages)
    .help("What one step does; training adds the backward pass [default: inference, with --memory training]");

const MEMORY: Setting =
    flag("memory").help("Show what is in memory while the step runs, simulated, instead of the layers.");

const TARGET: Setting = text("target")
    .or("cpu")
    .requires("memory")
    .value("NAME|FILE.json")
    .known(asking::targets)
    .help("On what kind of device memory is simulated; a file describes another.");

const PAGE: Setting = asking::HTML.help("Write a page, with --memory with a chart of it over the step.");

/// The request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspect {
    network: String,
    dataset: Dataset,
    workload: Workload,
    extents: Extents,
    memory: Option<String>,
    html: Option<PathBuf>,
    overwrite: bool,
}

impl Verb for Inspect {
    /// The table of layers, the totals, the coverage.
    ///
    /// # Errors
    /// A network that cannot be used.
    fn run(&self, context: &mut Context) -> Result<Summary> {
        let network = Named::asked(&self.network, self.dataset.name(), &self.extents)?.told(context);
        let step = self.workload.step;
        network.check_step(step)?;
        let backward = network.trained_in(step.trainable).backward_macs();
        let sheet = Sheet { network: &network, workload: self.workload, backward };
        let (layers, totals) = (sheet.layers(), sheet.totals());
        let coverage = network.coverage();
        let cuts: Vec<&str> =
            network.cuts(step.checkpoint).into_iter().map(|cut| network.node(cut).name.as_str()).collect();
        let timeline = self.memory.as_deref().map(|device| self.timeline(device, &network)).transpose()?;
        let page = Sheets { inspect: self, layers: &layers, totals: &totals, timeline: timeline.as_ref() };
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
                "totals": totals.to_json()[0],
                "coverage": coverage_json(&coverage),
                "memory": timeline.as_ref().map(timeline::json),
                "warnings": context.warnings(),
            }),
            ..Summary::default()
        })
    }
}

impl Inspect {
    fn parse(values: &Values<'_>) -> Result<Self> {
        let memory: bool = values.get("memory")?;
        let stage = values.named_if_set("stage", Stage::parse)?;
        let stage = stage.unwrap_or(if memory { Stage::Training } else { Stage::Inference });
        // The layers cost the same with every `zero_grad` setting.
        let asked = if memory { Step::usual(stage) } else { Step::published(stage) };
        let workload = Workload { step: step::changes(values, &[stage])?.of(asked), batch: values.get("bs")? };
        step::check_batches(values, workload.step, &[workload.batch])?;
        Ok(Inspect {
            network: values.get("network")?,
            dataset: values.named("dataset", Dataset::parse)?,
            workload,
            extents: Extents::parse(values)?,
            memory: if memory { values.get("target")? } else { None },
            html: asking::html(values)?,
            overwrite: values.get("overwrite")?,
        })
    }

    /// The memory timeline of the step on a kind of device.
    fn timeline(&self, device: &str, network: &Network) -> Result<Timeline> {
        check_understood(network)?;
        let platform = Platform::named_or_read(device)?;
        platform.check_precision(self.workload.step.precision)?;
        Ok(Simulation::new(network, self.workload.step, &platform).timeline(self.workload.batch))
    }
}

/// The tables and charts of a network.
struct Sheets<'a> {
    inspect: &'a Inspect,
    layers: &'a Table,
    totals: &'a Table,
    /// Only if memory was requested.
    timeline: Option<&'a Timeline>,
}

impl Sheets<'_> {
    fn headline(&self, coverage: &Coverage) -> String {
        match self.timeline {
            Some(timeline) => format!("{}\n{}", timeline::at_peak(timeline), covered(coverage)),
            None => covered(coverage),
        }
    }

    fn tables(&self) -> Vec<Table> {
        match self.timeline {
            Some(timeline) => vec![timeline::components(timeline), timeline::largest(timeline)],
            None => vec![self.layers.clone(), self.totals.clone()],
        }
    }

    /// Writes the page, if requested.
    fn write(&self) -> Result<Vec<(&'static str, PathBuf)>> {
        let Some(file) = &self.inspect.html else { return Ok(Vec::new()) };
        let Workload { step, batch } = self.inspect.workload;
        let mut page = Page::new(&self.inspect.network, format!("{step}, batch size {batch}"));
        if let (Some(timeline), Some(device)) = (self.timeline, &self.inspect.memory) {
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
    let told =
        nodes.map(|node| json!({ "name": node.name, "shape": node.shape.dims(), "element": node.element.name() }));
    told.collect()
}

/// A network's costs at one workload.
struct Sheet<'a> {
    network: &'a Network,
    workload: Workload,
    backward: Vec<u64>,
}

impl Sheet<'_> {
    fn layers(&self) -> Table {
        let Workload { step, batch } = self.workload;
        let network = self.network;
        let title = format!("{} ({step}, batch size {batch})", network.name());
        let words = ["layer", "operation"].map(|word| Column::text(word, word));
        let mut table =
            Table::new(title, words.into_iter().chain([Column::number("output", "output")]).chain(self.columns()));
        for (node, &backward) in network.nodes().iter().zip(&self.backward) {
            let macs = [network.macs_of(node), backward].map(|macs| macs.saturating_mul(network.times_of(node, batch)));
            let bytes = [network.bytes_in(node, self.workload), network.bytes_out(node, self.workload)];
            let words = [node.name.as_str().into(), node.op.kind().into(), output(node, batch).into()];
            table.row(words.into_iter().chain(self.costs(network.parameters_of(node), macs, bytes)));
        }
        table
    }

    fn totals(&self) -> Table {
        let (network, batch) = (self.network, self.workload.batch);
        let heads = [Column::number("operations", "operations"), Column::number("activations", "conv outputs")];
        let mut table = Table::new("Totals", heads.into_iter().chain(self.columns()));
        let bytes = |of: fn(&Network, &Node, Workload) -> u64| {
            network.nodes().iter().map(|node| of(network, node, self.workload)).sum()
        };
        let moved = [bytes(Network::bytes_in), bytes(Network::bytes_out)];
        let counts = [network.coverage().operations.into(), network.activations().saturating_mul(batch).into()];
        let times = |node: &Node| network.times_of(node, batch);
        let forward = network.nodes().iter().map(|node| network.macs_of(node).saturating_mul(times(node)));
        let backward = network.nodes().iter().zip(&self.backward).map(|(node, macs)| macs.saturating_mul(times(node)));
        let macs = [forward.fold(0, u64::saturating_add), backward.fold(0, u64::saturating_add)];
        table.row(counts.into_iter().chain(self.costs(network.parameters(), macs, moved)));
        table
    }

    /// The headings of the values of [`costs`](Self::costs).
    fn columns(&self) -> Vec<Column> {
        let mut columns =
            vec![Column::number("parameters", "parameters"), Column::number("forward_macs", "forward MACs")];
        if self.workload.step.stage == Stage::Training {
            columns.push(Column::number("backward_macs", "backward MACs"));
        }
        columns.extend([Column::number("bytes_in", "read"), Column::number("bytes_out", "written")]);
        columns
    }

    /// The costs of the whole batch.
    fn costs(&self, parameters: u64, [forward, backward]: [u64; 2], bytes: [u64; 2]) -> Vec<Cell> {
        let mut cells = vec![parameters.into(), forward.into()];
        if self.workload.step.stage == Stage::Training {
            cells.push(backward.into());
        }
        cells.extend(bytes.map(|bytes| Bytes(bytes).into()));
        cells
    }
}

/// The output shape of a batch: `8x64x56x56`.
fn output(node: &Node, batch: u64) -> String {
    match node.shape.rank() {
        0 => batch.to_string(),
        _ => format!("{batch}x{}", node.shape),
    }
}

fn covered(coverage: &Coverage) -> String {
    let share = Percent(100.0 * coverage.known() as f64 / coverage.operations.max(1) as f64);
    format!("{} of {} operations are known ({share})", coverage.known(), coverage.operations)
}

fn coverage_json(coverage: &Coverage) -> Value {
    let unknown = coverage.unknown.iter().map(|(name, missed)| {
        (name.clone(), json!({ "operations": missed.operations, "parameters": missed.parameters }))
    });
    let unknown: serde_json::Map<String, Value> = unknown.collect();
    json!({ "operations": coverage.operations, "known": coverage.known(), "unknown": unknown })
}
