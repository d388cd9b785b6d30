//! The results of a profile: rows by network and outcome, and the time they took.

use super::failures::RunFailures;
use super::profile_log::ProfileEntry;
use crate::plan::PlanEnding;
use crate::records::{MeasurementOutcome, MemoryColumns, Repeatability, RowReading, RowRecord};
use perf4sight_base::error::Error;
use perf4sight_base::units::{Milliseconds, Percent};
use perf4sight_report::{Table, TableBuilder, TableColumn};
use perf4sight_verb::{Summary, TableFinding};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The rows of a profile, including those of earlier runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProfileCounts {
    /// Rows of earlier runs, then those of this one; skipped ones are included even if they leave no row in the
    /// profile.
    pub rows: Vec<RowRecord>,
    /// Whether Ctrl-C ended the run.
    pub interrupted: bool,
    /// The reason why the plan ended the run; none if it did not.
    pub ending: Option<PlanEnding>,
    /// Layer rows of this run.
    pub layers: usize,
    /// How often this run repeated a row, and how often the repetition changed the row.
    pub repeated: [usize; 2],
    /// The agreement of the repetitions of all rows, if rows were repeated.
    pub repeatability: Option<Repeatability>,
    /// The failures of this run for reasons other than memory.
    pub failures: RunFailures,
    /// The networks of the run in the requested order: rows come in random order.
    asked: Vec<String>,
    earlier: usize,
    spent: BTreeMap<String, TimeSpent>,
}

/// The time that configurations took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TimeSpent {
    /// Seconds from the start of a worker to its end.
    pub seconds: f64,
    /// Seconds of them that the device spent in steps; the rest is start-up and bookkeeping.
    pub measuring: f64,
    /// Additional seconds of waiting, for other measurements on the machine or for a machine with a lost connection.
    pub waiting: f64,
}

impl std::ops::AddAssign for TimeSpent {
    fn add_assign(&mut self, other: TimeSpent) {
        self.seconds += other.seconds;
        self.measuring += other.measuring;
        self.waiting += other.waiting;
    }
}

/// The outcomes that are counted together, with key and heading.
const COUNTS: [(&str, &str, &[MeasurementOutcome]); 7] = [
    (
        "rows_measured",
        "measured",
        &[
            MeasurementOutcome::Measured,
            MeasurementOutcome::Disturbed,
            MeasurementOutcome::Throttled,
            MeasurementOutcome::Unexpected,
        ],
    ),
    ("rows_disturbed", "of them disturbed", &[MeasurementOutcome::Disturbed]),
    ("rows_throttled", "throttled", &[MeasurementOutcome::Throttled]),
    ("rows_unexpected", "unexpected", &[MeasurementOutcome::Unexpected]),
    ("rows_out_of_memory", "out of memory", &[MeasurementOutcome::OutOfMemory]),
    ("rows_skipped", "skipped", &[MeasurementOutcome::Skipped]),
    (
        "rows_broken",
        "failed",
        &[
            MeasurementOutcome::Failed,
            MeasurementOutcome::Crashed,
            MeasurementOutcome::TimedOut,
            MeasurementOutcome::Garbled,
        ],
    ),
];

/// A row for programs: the configuration, its outcome, and the measured values, in milliseconds and bytes.
fn measurement(row: &RowRecord) -> Value {
    let step = row.workload.step;
    let asked = json!({
        "network": row.variant.to_string(), "stage": step.stage, "step": step.cell(), "bs": row.workload.batch,
        "outcome": row.outcome, "steps": row.steps,
    });
    let read = match row.reading {
        RowReading::Latency(latency) => json!({
            "variable": "latency", "latency_ms": latency.map(|latency| latency.0), "spread": row.spread, "visits_ms": row.visits,
        }),
        RowReading::Memory(MemoryColumns { allocated, reserved, used, available, free, capacity, heap }) => json!({
            "variable": "memory", "mem_alloc_bytes": allocated, "mem_reserved_bytes": reserved, "mem_used_bytes": used,
            "mem_avail_bytes": available, "mem_free_bytes": free, "capacity_bytes": capacity, "mem_heap_bytes": heap,
        }),
    };
    let both =
        [asked, read].into_iter().filter_map(|part| if let Value::Object(part) = part { Some(part) } else { None });
    Value::Object(both.flatten().collect())
}

impl ProfileCounts {
    pub(super) fn new(earlier: usize) -> Self {
        ProfileCounts { earlier, ..ProfileCounts::default() }
    }

    pub(super) fn of_networks(self, asked: impl Iterator<Item = String>) -> Self {
        ProfileCounts { asked: asked.collect(), ..self }
    }

    /// Adds the rows of one configuration of a network and the time it took.
    pub(super) fn add(&mut self, network: &str, entry: &ProfileEntry, spent: TimeSpent) {
        *self.spent.entry(network.to_owned()).or_default() += spent;
        self.layers += entry.layers.len();
    }

    /// Adds a repetition of a network's row, and whether it changed the row.
    pub(super) fn repeat(&mut self, network: &str, kept: bool, spent: TimeSpent) {
        *self.spent.entry(network.to_owned()).or_default() += spent;
        self.repeated[0] += 1;
        self.repeated[1] += usize::from(kept);
    }

    /// The time that the configurations of this run took.
    pub(super) fn time_spent(&self) -> TimeSpent {
        let mut all = TimeSpent::default();
        self.spent.values().for_each(|spent| all += *spent);
        all
    }

    /// The rows of other machines are those of this run.
    pub(super) fn of_all_machines(self) -> Self {
        ProfileCounts { earlier: 0, ..self }
    }

    pub(super) fn summary(&self, files: Vec<(&'static str, PathBuf)>) -> Summary {
        let (table, failures) = (self.table(), self.failures.table(self.is_spent()));
        let TimeSpent { seconds, measuring, waiting } = self.time_spent();
        let json = json!({
            "networks": table.to_json(), "earlier_rows": self.earlier, "rows": self.rows.len(), "layer_rows": self.layers,
            "measurements": self.rows.iter().map(measurement).collect::<Value>(), "failures": failures.as_ref().map(Table::to_json), "visits": self.repeated[0], "wander": self.repeatability, "seconds": seconds, "seconds_measuring": measuring, "seconds_waiting": waiting,
        });
        Summary {
            headline: self.headline(),
            findings: self.findings(),
            tables: [Some(table), failures].into_iter().flatten().collect(),
            files,
            json,
            failure: self.failure(),
            ..Summary::default()
        }
    }

    /// A run that tried configurations and measured none is a failure, unless Ctrl-C ended it.
    fn failure(&self) -> Option<Error> {
        let new = &self.rows[self.earlier..];
        let measured = new.iter().any(|row| row.outcome.passed() || row.outcome == MeasurementOutcome::OutOfMemory);
        if measured || self.repeated[1] > 0 || self.interrupted { None } else { self.failures.error() }
    }

    fn headline(&self) -> String {
        let (new, earlier) = (self.rows.len() - self.earlier, self.earlier);
        let ending = if self.interrupted { "; interrupted: run the same command again to go on from here" } else { "" };
        let layers = if self.layers > 0 { format!(" and {} of layers", self.layers) } else { String::new() };
        let earlier = if earlier > 0 { format!(", {earlier} more from earlier runs") } else { String::new() };
        let (steadiness, shares) = (self.steadiness(), self.shares());
        let why = self
            .ending
            .filter(|ending| *ending != PlanEnding::Complete)
            .map_or(String::new(), |why| format!("; {why}"));
        format!("{new} rows{layers}{earlier}{steadiness}{shares}{why}{ending}")
    }

    /// How precisely the machine could be measured.
    fn steadiness(&self) -> String {
        let Some(Repeatability { rows, single, marked, median, .. }) = self.repeatability else { return String::new() };
        let spread = Percent(100.0 * median);
        let twice =
            format!("; {rows} rows were measured twice or more, and the times of half of them agree within ±{spread}");
        let parts = [(single, "rows were measured once"), (marked, "rows stayed noisy and are marked")];
        let parts = parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("; {count} {what}"));
        twice + &parts.collect::<String>()
    }

    /// How the time was spent; empty for devices that run nothing.
    fn shares(&self) -> String {
        let TimeSpent { seconds, measuring, waiting } = self.time_spent();
        let waited = match waiting {
            0.0 => String::new(),
            _ => format!("; in addition, {waiting:.1} s of waiting for the machine, which no budget counts"),
        };
        if measuring == 0.0 {
            return waited;
        }
        let rest = (seconds - measuring).max(0.0);
        let percent = 100.0 * rest / seconds;
        format!("; measuring {measuring:.1} s, start-up and bookkeeping {rest:.1} s ({percent:.0} %){waited}")
    }

    /// Whether the budget ended the run.
    fn is_spent(&self) -> bool {
        matches!(self.ending, Some(PlanEnding::Budget { .. }))
    }

    /// Networks with rows: those of this run in the requested order, then others of earlier runs.
    fn networks(&self) -> Vec<&str> {
        let with_rows: BTreeSet<&str> = self.rows.iter().map(|row| row.variant.network.as_str()).collect();
        let asked = self.asked.iter().map(String::as_str).filter(|network| with_rows.contains(network));
        let others = with_rows.iter().copied().filter(|network| !self.asked.iter().any(|one| one == network));
        asked.chain(others).collect()
    }

    fn count(&self, network: &str, outcomes: &[MeasurementOutcome]) -> usize {
        self.rows.iter().filter(|row| row.variant.network == network && outcomes.contains(&row.outcome)).count()
    }

    fn table(&self) -> Table {
        let time = |network: &&str| self.spent.get(*network).map(|spent| Milliseconds(spent.seconds * 1e3));
        let rows =
            TableBuilder::new("Rows of the profile", self.networks()).text("network", "network", |network| *network);
        let count = |rows: TableBuilder<_>, (key, heading, outcomes): (&str, &str, &[MeasurementOutcome])| {
            rows.number(key, heading, |network: &&str| self.count(network, outcomes))
        };
        COUNTS.into_iter().fold(rows, count).number("milliseconds", "time", time).table()
    }

    /// For the last lines of the run: rows measured, and rows that ran out of memory.
    fn findings(&self) -> Vec<TableFinding> {
        let closing = [(&COUNTS[0], "rows measured"), (&COUNTS[4], "out of memory")];
        let of_network = |network: &&str| {
            closing.map(|((key, _, outcomes), heading)| TableFinding {
                about: (*network).to_owned(),
                column: TableColumn::number(*key, heading),
                cell: self.count(network, outcomes).into(),
            })
        };
        self.networks().iter().flat_map(of_network).collect()
    }
}
