//! The costs of a network at one workload, as tables of layers, modules and totals.

use super::order::Order;
use super::tree::{self, Branch};
use perf4sight_base::units::Bytes;
use perf4sight_network::{Network, Node};
use perf4sight_report::{Cell, Column, Table};
use perf4sight_step::workload::{Stage, Workload};
use serde_json::{Value, json};
use std::ops::AddAssign;

/// What a layer or a module costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Costs {
    pub parameters: u64,
    /// Multiply-accumulates of the batch, forward and backward.
    pub macs: [u64; 2],
    /// Bytes of the batch, read and written.
    pub bytes: [u64; 2],
}

impl AddAssign for Costs {
    fn add_assign(&mut self, more: Self) {
        let sum = |own: [u64; 2], more: [u64; 2]| [own[0].saturating_add(more[0]), own[1].saturating_add(more[1])];
        self.parameters = self.parameters.saturating_add(more.parameters);
        (self.macs, self.bytes) = (sum(self.macs, more.macs), sum(self.bytes, more.bytes));
    }
}

/// A network's costs at one workload.
pub(super) struct Sheet<'a> {
    network: &'a Network,
    workload: Workload,
    order: Order,
    /// Of every node.
    costs: Vec<Costs>,
}

impl<'a> Sheet<'a> {
    pub fn new(network: &'a Network, workload: Workload, order: Order) -> Self {
        let backward = network.trained_in(workload.step.trainable).backward_macs();
        let nodes = network.nodes().iter().zip(backward);
        let costs = nodes.map(|(node, backward)| {
            let times = network.times_of(node, workload.batch);
            Costs {
                parameters: network.parameters_of(node),
                macs: [network.macs_of(node), backward].map(|macs| macs.saturating_mul(times)),
                bytes: [network.bytes_in(node, workload), network.bytes_out(node, workload)],
            }
        });
        Sheet { network, workload, order, costs: costs.collect() }
    }

    fn title(&self) -> String {
        let Workload { step, batch } = self.workload;
        format!("{} ({step}, batch size {batch})", self.network.name())
    }

    /// Every layer, in the order of the sheet.
    pub fn layers(&self) -> Table {
        let mut table = self.table(self.title());
        let mut all: Vec<(&Node, &Costs)> = self.network.nodes().iter().zip(&self.costs).collect();
        self.order.sort(&mut all, |(_, costs)| **costs);
        for (node, costs) in all {
            table.row(self.row(&node.name, node, costs));
        }
        table
    }

    /// Every module with the sums of its layers, as a tree; modules next to each other in the order of the sheet.
    pub fn tree(&self) -> Table {
        let mut table = self.table(format!("{}, by module", self.title()));
        self.grow(&self.branches(), 0, &mut table);
        table
    }

    fn grow(&self, branches: &[Branch], depth: usize, table: &mut Table) {
        for Branch { name, layers, costs, parts, .. } in branches {
            // Blanks at the start of a line are kept neither in HTML nor by readers of CSV.
            let name = format!("{}{name}", "\u{a0}\u{a0}".repeat(depth));
            match (parts.as_slice(), layers.as_slice()) {
                ([], [layer, ..]) => table.row(self.row(&name, &self.network.nodes()[*layer], costs)),
                _ => {
                    let count = format!("{} operations", layers.len());
                    table.row([name.into(), count.into(), Cell::Missing].into_iter().chain(self.cells(costs)));
                }
            }
            self.grow(parts, depth + 1, table);
        }
    }

    /// The modules for programs: path, layers, costs, the modules and layers in them.
    pub fn modules(&self) -> Value {
        self.branches().iter().map(|branch| self.module(branch)).collect()
    }

    fn module(&self, branch: &Branch) -> Value {
        let Costs { parameters, macs: [forward, backward], bytes: [read, written] } = branch.costs;
        let training = self.workload.step.stage == Stage::Training;
        json!({
            "module": branch.path,
            "operations": branch.layers.len(),
            "parameters": parameters,
            "forward_macs": forward,
            "backward_macs": training.then_some(backward),
            "bytes_in": read,
            "bytes_out": written,
            "parts": branch.parts.iter().map(|part| self.module(part)).collect::<Value>(),
        })
    }

    fn branches(&self) -> Vec<Branch> {
        let names: Vec<&str> = self.network.nodes().iter().map(|node| node.name.as_str()).collect();
        tree::branches(&names, &self.costs, self.order)
    }

    /// The sums of the whole network.
    pub fn totals(&self) -> Table {
        let (network, batch) = (self.network, self.workload.batch);
        let heads = [Column::number("operations", "operations"), Column::number("activations", "conv outputs")];
        let mut table = Table::new("Totals", heads.into_iter().chain(self.columns()));
        let counts = [network.coverage().operations.into(), network.activations().saturating_mul(batch).into()];
        let mut sum = Costs::default();
        self.costs.iter().for_each(|costs| sum += *costs);
        // Layers that share weights each read them, but they exist once.
        sum.parameters = network.parameters();
        table.row(counts.into_iter().chain(self.cells(&sum)));
        table
    }

    fn table(&self, title: String) -> Table {
        let words = ["layer", "operation"].map(|word| Column::text(word, word));
        Table::new(title, words.into_iter().chain([Column::number("output", "output")]).chain(self.columns()))
    }

    fn row(&self, name: &str, node: &Node, costs: &Costs) -> Vec<Cell> {
        let words: [Cell; 3] = [name.into(), node.op.kind().into(), output(node, self.workload.batch).into()];
        words.into_iter().chain(self.cells(costs)).collect()
    }

    /// The headings of [`cells`](Self::cells).
    fn columns(&self) -> Vec<Column> {
        let mut columns =
            vec![Column::number("parameters", "parameters"), Column::number("forward_macs", "forward MACs")];
        if self.workload.step.stage == Stage::Training {
            columns.push(Column::number("backward_macs", "backward MACs"));
        }
        columns.extend([Column::number("bytes_in", "read"), Column::number("bytes_out", "written")]);
        columns
    }

    fn cells(&self, costs: &Costs) -> Vec<Cell> {
        let mut cells = vec![costs.parameters.into(), costs.macs[0].into()];
        if self.workload.step.stage == Stage::Training {
            cells.push(costs.macs[1].into());
        }
        cells.extend(costs.bytes.map(|bytes| Bytes(bytes).into()));
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
