//! The time that the profile of a fingerprint took.

use super::ReportEvidence;
use crate::records::{MeasurementOutcome, ProfileProvenance, ProfileRun, RowReading, RowRecord};
use perf4sight_base::units::Milliseconds;
use perf4sight_report::{Block, Cell, Fact, Table, TableBuilder};

const MILLISECONDS: f64 = 1000.0;

pub fn blocks(evidence: &ReportEvidence) -> Vec<Block> {
    let runs: Vec<&ProfileRun> = evidence.profiles.iter().flat_map(|profile| &profile.runs).collect();
    let rows = evidence.records().count();
    let mut blocks = vec![match runs.is_empty() {
        true => Block::Text("The profile has no durations of its runs.".into()),
        false => Block::Headline(headline(&runs, rows)),
    }];
    blocks.push(Block::Table(by_network(evidence)));
    if !runs.is_empty() {
        blocks.push(Block::Folded(by_run(&evidence.profiles)));
    }
    blocks
}

fn headline(runs: &[&ProfileRun], rows: usize) -> Vec<Fact> {
    let seconds: f64 = runs.iter().map(|run| run.seconds).sum();
    let measured: usize = runs.iter().map(|run| run.rows).sum();
    vec![
        Fact::new("time on the device", duration(seconds * MILLISECONDS)).remark("all runs of the profile"),
        Fact::new("rows measured", measured).remark(format!("{rows} of them in this report")),
        Fact::new("per row", duration(seconds * MILLISECONDS / measured.max(1) as f64)).remark("start-up included"),
    ]
}

/// Rows by outcome, and the time in timed steps if the rows count them.
fn by_network(evidence: &ReportEvidence) -> Table {
    let of_network = |network: &String| -> Vec<&RowRecord> {
        evidence.records().filter(|record| record.variant.network == *network).collect()
    };
    let networks = evidence.networks().into_iter().map(|network| (of_network(&network), network));
    let count = |records: &[&RowRecord], is: fn(MeasurementOutcome) -> bool| {
        records.iter().filter(|one| is(one.outcome)).count()
    };
    TableBuilder::new("Rows of this report", networks)
        .text("network", "network", |(_, network)| network.clone())
        .number("rows", "rows", |(records, _)| records.len())
        .number("passed", "passed", |(records, _)| count(records, MeasurementOutcome::passed))
        .number("disturbed", "disturbed", |(records, _)| count(records, |one| one == MeasurementOutcome::Disturbed))
        .number("throttled", "throttled", |(records, _)| count(records, |one| one == MeasurementOutcome::Throttled))
        .number("out_of_memory", "out of memory", |(records, _)| {
            count(records, |one| one == MeasurementOutcome::OutOfMemory)
        })
        .number("skipped", "not tried", |(records, _)| count(records, |one| one == MeasurementOutcome::Skipped))
        .number("other", "other failures", |(records, _)| count(records, MeasurementOutcome::broken))
        .number("steps_ms", "time in timed steps", |(records, _)| time_in_steps(records))
        .table()
}

fn time_in_steps(records: &[&RowRecord]) -> Cell {
    let times = records.iter().filter_map(|record| match record.reading {
        RowReading::Latency(latency) => Some(latency?.0 * record.steps? as f64),
        RowReading::Memory(_) => None,
    });
    Some(times.sum::<f64>()).filter(|total| *total > 0.0).map(duration).into()
}

fn by_run(profiles: &[ProfileProvenance]) -> Table {
    TableBuilder::new("Runs of the profile", profiles.iter().flat_map(|profile| &profile.runs))
        .text("date", "date", |run| run.date.clone())
        .number("rows", "rows added", |run| run.rows)
        .number("milliseconds", "took", |run| duration(run.seconds * MILLISECONDS))
        .number("seed", "seed", |run| run.seed.to_string())
        .text("conditions_at_start", "at the start", |run| run.conditions.start.to_string())
        .text("conditions_at_end", "at the end", |run| run.conditions.end.to_string())
        .table()
}

fn duration(milliseconds: f64) -> Cell {
    Milliseconds(milliseconds).into()
}
