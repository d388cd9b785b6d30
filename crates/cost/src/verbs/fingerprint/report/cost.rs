//! The time that the profile of a fingerprint took.

use super::Evidence;
use crate::records::{Outcome, Provenance, Reading, Record, Run};
use perf4sight_base::units::Milliseconds;
use perf4sight_report::{Block, Cell, Column, Fact, Table};

/// Milliseconds in a second.
const MILLISECONDS: f64 = 1000.0;

/// The blocks of the section.
pub fn blocks(evidence: &Evidence) -> Vec<Block> {
    let runs: Vec<&Run> = evidence.profiles.iter().flat_map(|profile| &profile.runs).collect();
    let rows = evidence.records().count();
    let mut blocks = vec![match runs.is_empty() {
        true => Block::Text("The profile does not say how long its runs took.".into()),
        false => Block::Headline(headline(&runs, rows)),
    }];
    blocks.push(Block::Table(by_network(evidence)));
    if !runs.is_empty() {
        blocks.push(Block::Folded(by_run(&evidence.profiles)));
    }
    blocks
}

fn headline(runs: &[&Run], rows: usize) -> Vec<Fact> {
    let seconds: f64 = runs.iter().map(|run| run.seconds).sum();
    let measured: usize = runs.iter().map(|run| run.rows).sum();
    vec![
        Fact::new("time on the device", duration(seconds * MILLISECONDS)).remark("all runs of the profile"),
        Fact::new("rows measured", measured).remark(format!("{rows} of them in this report")),
        Fact::new("per row", duration(seconds * MILLISECONDS / measured.max(1) as f64)).remark("start-up included"),
    ]
}

/// Rows by outcome, and the time in timed steps if the rows count them.
fn by_network(evidence: &Evidence) -> Table {
    let columns = [
        Column::text("network", "network"),
        Column::number("rows", "rows"),
        Column::number("passed", "passed"),
        Column::number("disturbed", "disturbed"),
        Column::number("throttled", "throttled"),
        Column::number("out_of_memory", "out of memory"),
        Column::number("skipped", "not tried"),
        Column::number("other", "other failures"),
        Column::number("steps_ms", "time in timed steps"),
    ];
    let mut table = Table::new("Rows of this report", columns);
    for network in evidence.networks() {
        let records: Vec<&Record> = evidence.records().filter(|record| record.variant.network == network).collect();
        let count = |outcome: Outcome| records.iter().filter(|record| record.outcome == outcome).count();
        let [disturbed, throttled] = [Outcome::Disturbed, Outcome::Throttled].map(count);
        let [ran_out, skipped] = [Outcome::OutOfMemory, Outcome::Skipped].map(count);
        let passed = records.iter().filter(|record| record.outcome.passed()).count();
        let other = records.len() - passed - ran_out - skipped;
        let counts = [records.len(), passed, disturbed, throttled, ran_out, skipped, other];
        let cells = counts.into_iter().map(Cell::from);
        table.row([network.into()].into_iter().chain(cells).chain([time_in_steps(&records)]));
    }
    table
}

fn time_in_steps(records: &[&Record]) -> Cell {
    let times = records.iter().filter_map(|record| match record.reading {
        Reading::Latency(latency) => Some(latency?.0 * record.steps? as f64),
        Reading::Memory(_) => None,
    });
    Some(times.sum::<f64>()).filter(|total| *total > 0.0).map(duration).into()
}

fn by_run(profiles: &[Provenance]) -> Table {
    let columns = [
        Column::text("date", "date"),
        Column::number("rows", "rows added"),
        Column::number("milliseconds", "took"),
        Column::number("seed", "seed"),
        Column::text("conditions_at_start", "at the start"),
        Column::text("conditions_at_end", "at the end"),
    ];
    let mut table = Table::new("Runs of the profile", columns);
    for run in profiles.iter().flat_map(|profile| &profile.runs) {
        let took = duration(run.seconds * MILLISECONDS);
        let conditions = [&run.conditions.start, &run.conditions.end].map(|moment| Cell::from(moment.to_string()));
        table.row(
            [run.date.as_str().into(), run.rows.into(), took, run.seed.to_string().into()]
                .into_iter()
                .chain(conditions),
        );
    }
    table
}

fn duration(milliseconds: f64) -> Cell {
    Milliseconds(milliseconds).into()
}
