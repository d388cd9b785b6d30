//! The last lines of a run: what the sections found per network, and the files worth opening.

use super::Ending;
use crate::frame::{Context, Finding, Summary};
use crate::report::{Cell, Column, Console, Table};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// What is kept of the sections that ran.
#[derive(Default)]
pub(super) struct Closing {
    findings: Vec<Finding>,
    files: Vec<(&'static str, PathBuf)>,
    sections: Map<String, Value>,
}

impl Closing {
    pub fn add(&mut self, section: &str, summary: Summary) {
        self.findings.extend(summary.findings);
        self.files.extend(summary.files);
        self.sections.insert(section.to_string(), summary.json);
    }

    pub fn show(&self, ending: Ending, context: &Context) {
        let console = &context.console;
        if ending == Ending::Interrupted {
            console.warn("interrupted; what was finished is kept, and the same command goes on from there");
        }
        if !self.findings.is_empty() {
            console.table(&self.table());
        }
        show_files(&self.files, console);
        console.json(&json!({
            "finished": ending == Ending::Finished,
            "sections": self.sections,
            "networks": self.networks(),
            "files": self.files.iter().map(|(what, path)| json!({ "what": what, "path": path })).collect::<Value>(),
            "warnings": context.warnings(),
        }));
    }

    /// One row per network, one column per kind of finding, both in the order in which they came up.
    fn table(&self) -> Table {
        let columns = distinct(self.findings.iter().map(|finding| &finding.column));
        let heads = std::iter::once(Column::text("network", "network")).chain(columns.iter().copied().cloned());
        let mut table = Table::new("Result", heads);
        for network in distinct(self.findings.iter().map(|finding| finding.network.as_str())) {
            let cells = columns.iter().map(|column| self.cell(network, &column.key));
            table.row(std::iter::once(network.into()).chain(cells));
        }
        table
    }

    fn cell(&self, network: &str, key: &str) -> Cell {
        let found = self.findings.iter().rfind(|finding| finding.network == network && finding.column.key == key);
        found.map_or(Cell::Missing, |finding| finding.cell.clone())
    }

    fn networks(&self) -> Map<String, Value> {
        let mut networks: Map<String, Value> = Map::new();
        for finding in &self.findings {
            networks.entry(&finding.network).or_insert_with(|| json!({}))[&finding.column.key] = finding.cell.to_json();
        }
        networks
    }
}

pub(super) fn show_files(files: &[(&'static str, PathBuf)], console: &Console) {
    files.iter().for_each(|(what, path)| console.line(format_args!("{what}: {}", path.display())));
}

fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    all.fold(Vec::new(), |mut seen, item| {
        if !seen.contains(&item) {
            seen.push(item);
        }
        seen
    })
}
