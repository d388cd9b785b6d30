//! What can be changed, and what it brings, as tables.

use super::StrategyResults;
use crate::passes::ChangeProposal;
use perf4sight_base::units::{Milliseconds, Percent};
use perf4sight_report::{Table, TableColumn};

/// What a user of PyTorch can change.
pub(super) fn proposals(shown: &StrategyResults) -> Table {
    let all = shown.found.proposals.iter().chain(&shown.together);
    table("What you can change in PyTorch; first what helps and learns the same", 1, all)
}

/// What other programs read from the files.
pub(super) fn others(shown: &StrategyResults) -> Table {
    let before = shown.found.proposals.iter().chain(&shown.together).count();
    table("For other programs, by the files of this folder", 1 + before, shown.found.others.iter())
}

/// Rows with the numbers by which warnings name changes.
fn table<'a>(title: &str, first: usize, proposals: impl Iterator<Item = &'a ChangeProposal>) -> Table {
    let columns = [
        TableColumn::number("number", "no."),
        TableColumn::text("change", "change"),
        TableColumn::number("step_ms", "takes"),
        TableColumn::number("gain_percent", "shorter by"),
        TableColumn::number("gain_low_percent", "at least"),
        TableColumn::number("gain_high_percent", "at most"),
        TableColumn::text("learns", "learns"),
    ];
    let mut table = Table::new(title, columns);
    for (number, proposal) in (first..).zip(proposals) {
        let [gain, least, most] = proposal.gain().map(Percent);
        table.row([
            number.into(),
            proposal.change.as_str().into(),
            Milliseconds(proposal.outcome.after.time / 1e6).into(),
            gain.into(),
            least.into(),
            most.into(),
            proposal.learns.to_text().into(),
        ]);
    }
    table
}
