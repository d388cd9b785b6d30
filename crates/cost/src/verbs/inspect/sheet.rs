//! The costs of a network at one workload, as tables of layers, modules and totals.

use super::order::LayerOrder;
use super::tree::{self, ModuleBranch};
use perf4sight_base::units::Bytes;
use perf4sight_network::{Network, Node};
use perf4sight_report::{Table, TableBuilder};
use perf4sight_step::workload::{Stage, Workload};
use serde_json::{Value, json};
use std::ops::AddAssign;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LayerCosts {
    pub parameters: u64,
    /// Multiply-accumulates of the batch, forward and backward, which inference does not run.
    pub macs: [u64; 2],
    /// Bytes of the batch, read and written.
    pub bytes: [u64; 2],
}

impl AddAssign for LayerCosts {
    fn add_assign(&mut self, more: Self) {
        let sum = |own: [u64; 2], more: [u64; 2]| [own[0].saturating_add(more[0]), own[1].saturating_add(more[1])];
        self.parameters = self.parameters.saturating_add(more.parameters);
        (self.macs, self.bytes) = (sum(self.macs, more.macs), sum(self.bytes, more.bytes));
    }
}

/// Name, operation, output shape and costs of a layer, or of a module without a shape.
type SheetRow = (String, String, Option<String>, LayerCosts);

pub(super) struct LayerSheet<'a> {
    network: &'a Network,
    workload: Workload,
    order: LayerOrder,
    costs: Vec<LayerCosts>,
}

impl<'a> LayerSheet<'a> {
    pub fn new(network: &'a Network, workload: Workload, order: LayerOrder) -> Self {
        let backward = match workload.step.stage {
            Stage::Training => network.trained_in(workload.step.trainable).backward_macs(),
            Stage::Inference => vec![0; network.nodes().len()],
        };
        let nodes = network.nodes().iter().zip(backward);
        let costs = nodes.map(|(node, backward)| {
            let times = network.times_of(node, workload.batch);
            LayerCosts {
                parameters: network.parameters_of(node),
                macs: [network.macs_of(node), backward].map(|macs| macs.saturating_mul(times)),
                bytes: [network.bytes_in(node, workload), network.bytes_out(node, workload)],
            }
        });
        LayerSheet { network, workload, order, costs: costs.collect() }
    }

    fn title(&self) -> String {
        let Workload { step, batch } = self.workload;
        format!("{} ({step}, batch size {batch})", self.network.name())
    }

    pub fn layers(&self) -> Table {
        let mut all: Vec<(&Node, &LayerCosts)> = self.network.nodes().iter().zip(&self.costs).collect();
        self.order.sort(&mut all, |(_, costs)| **costs);
        let rows = all.into_iter().map(|(node, costs)| self.layer(node.name.clone(), node, *costs));
        self.rows(self.title(), rows.collect())
    }

    /// Every module with the sums of its layers, as a tree; modules next to each other in the order of the sheet.
    pub fn tree(&self) -> Table {
        let mut rows = Vec::new();
        self.grow(&self.branches(), 0, &mut rows);
        self.rows(format!("{}, by module", self.title()), rows)
    }

    fn grow(&self, branches: &[ModuleBranch], depth: usize, rows: &mut Vec<SheetRow>) {
        for ModuleBranch { name, layers, costs, parts, .. } in branches {
            // Blanks at the start of a line are kept neither in HTML nor by readers of CSV.
            let name = format!("{}{name}", "\u{a0}\u{a0}".repeat(depth));
            rows.push(match (parts.as_slice(), layers.as_slice()) {
                ([], [layer, ..]) => self.layer(name, &self.network.nodes()[*layer], *costs),
                _ => (name, format!("{} operations", layers.len()), None, *costs),
            });
            self.grow(parts, depth + 1, rows);
        }
    }

    /// The modules for programs: path, layers, costs, the modules and layers in them.
    pub fn modules(&self) -> Value {
        self.branches().iter().map(|branch| self.module(branch)).collect()
    }

    fn module(&self, branch: &ModuleBranch) -> Value {
        let LayerCosts { parameters, macs: [forward, backward], bytes: [read, written] } = branch.costs;
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

    fn branches(&self) -> Vec<ModuleBranch> {
        let names: Vec<&str> = self.network.nodes().iter().map(|node| node.name.as_str()).collect();
        tree::branches(&names, &self.costs, self.order)
    }

    /// The sums of the whole network.
    pub fn totals(&self) -> Table {
        let (network, batch) = (self.network, self.workload.batch);
        let mut sum = LayerCosts::default();
        self.costs.iter().for_each(|costs| sum += *costs);
        // Layers that share weights each read them, but they exist once.
        sum.parameters = network.parameters();
        let rows = TableBuilder::new("Totals", [sum])
            .number("operations", "operations", |_| network.coverage().operations)
            .number("activations", "conv outputs", |_| network.activations().saturating_mul(batch));
        self.with_costs(rows, |sum| sum)
    }

    fn layer(&self, name: String, node: &Node, costs: LayerCosts) -> SheetRow {
        (name, node.op.kind().to_owned(), Some(output(node, self.workload.batch)), costs)
    }

    fn rows(&self, title: String, rows: Vec<SheetRow>) -> Table {
        let rows = TableBuilder::new(title, rows)
            .text("layer", "layer", |row| row.0.clone())
            .text("operation", "operation", |row| row.1.clone())
            .number("output", "output", |row| row.2.clone());
        self.with_costs(rows, |row| &row.3)
    }

    fn with_costs<T>(&self, rows: TableBuilder<T>, costs: impl Fn(&T) -> &LayerCosts) -> Table {
        let mut rows = rows.number("parameters", "parameters", |row| costs(row).parameters).number(
            "forward_macs",
            "forward MACs",
            |row| costs(row).macs[0],
        );
        if self.workload.step.stage == Stage::Training {
            rows = rows.number("backward_macs", "backward MACs", |row| costs(row).macs[1]);
        }
        rows.number("bytes_in", "read", |row| Bytes(costs(row).bytes[0]))
            .number("bytes_out", "written", |row| Bytes(costs(row).bytes[1]))
            .table()
    }
}

/// The output shape of a batch: `8x64x56x56`.
fn output(node: &Node, batch: u64) -> String {
    match node.shape.rank() {
        0 => batch.to_string(),
        _ => format!("{batch}x{}", node.shape),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_network::zoo::{Dataset, build};

    #[test]
    fn layers_are_sorted_by_the_products_that_are_shown() {
        let network = build("resnet18", Dataset::Imagenet).unwrap();
        let first = |stage| {
            let csv = LayerSheet::new(&network, Workload::published(stage, 1), LayerOrder::Macs).layers().to_csv();
            csv.lines().nth(1).unwrap_or_default().to_owned()
        };
        // 64 filters of 3 x 7 x 7 at 112 x 112 places are 118,013,952; 64 of 64 x 3 x 3 at 56 x 56 are 115,605,504, in training three
        // times, for only the first layer of all has no gradient of its input.
        assert!(first(Stage::Inference).starts_with("conv1,") && first(Stage::Inference).contains("118013952"));
        assert!(first(Stage::Training).starts_with("layer1.0.conv1,"));
    }
}
