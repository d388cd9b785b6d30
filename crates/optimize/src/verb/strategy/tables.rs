//! What can be changed, and what it brings, as tables.

use super::StrategyResults;
use crate::passes::ChangeProposal;
use perf4sight_base::units::{Milliseconds, Percent};
use perf4sight_report::{Table, TableColumn};

/// What a user of PyTorch can change.
pub(super) fn proposals(shown: &StrategyResults) -> Table {
    let all = shown.found.proposals.iter().chain(&shown.together);
    table("What you can change in PyTorch; first what helps and learns the same", all)
}

/// What other programs read from the files.
pub(super) fn others(shown: &StrategyResults) -> Table {
    table(
        "With other programs, by the files of this folder, or with later versions of PyTorch",
        shown.found.others.iter(),
    )
}

fn table<'a>(title: &str, proposals: impl Iterator<Item = &'a ChangeProposal>) -> Table {
    let columns = [
        TableColumn::text("change", "change"),
        TableColumn::number("step_ms", "a step"),
        TableColumn::number("gain_percent", "shorter by"),
        TableColumn::number("gain_low_percent", "at least"),
        TableColumn::number("gain_high_percent", "at most"),
        TableColumn::text("learns", "learns"),
    ];
    let mut table = Table::new(title, columns);
    for proposal in proposals {
        let [gain, least, most] = proposal.gain().map(Percent);
        table.row([
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
