//! The results as tables: the combinations that fit, and the effect of every single change.

use super::Advice;
use super::search::Candidate;
use crate::fingerprint::{Call, Prediction, Verdict};
use crate::verbs::verdict::{called, ends};
use perf4sight_base::units::Bytes;
use perf4sight_report::{Cell, Column, Table};
use perf4sight_step::workload::Workload;

/// The maximum number of rows of each kind on the console; programs and pages get all of them.
const SHOWN: usize = 10;

impl Advice {
    /// For the console: combinations that train the same, combinations that do not, single changes; the cheapest ones
    /// if there are many.
    pub(super) fn tables(&self) -> Vec<Table> {
        let fitting = |same: bool, title: &str| {
            let all = self.findings.fitting.iter().filter(|one| one.learns_the_same == same).collect::<Vec<_>>();
            let (shown, count) = (all.iter().copied().take(SHOWN).collect::<Vec<_>>(), all.len());
            let title =
                if count > SHOWN { format!("{title}: {SHOWN} of {count}, all with --json") } else { title.to_owned() };
            (title, shown)
        };
        let rows = [
            fitting(true, "Fits, and learns the same"),
            fitting(false, "Fits, but learns otherwise"),
            (self.nearest_title().to_owned(), self.findings.nearest.iter().collect()),
            (format!("Every change by itself, compared with {}", self.asked_words()), self.single()),
        ];
        let rows = rows.into_iter().filter(|(_, rows)| !rows.is_empty());
        rows.map(|(title, rows)| self.table(title, rows)).collect()
    }

    /// The combination that needs the least memory may be too close to the limit for a certain verdict.
    fn nearest_title(&self) -> &'static str {
        let verdict = self.findings.nearest.as_ref().and_then(|nearest| nearest.need.verdict);
        match verdict.map(|verdict| verdict.call) {
            Some(Call::Borderline) => "Not sure to fit, but needs the least",
            Some(Call::Fits | Call::DoesNotFit) | None => "Does not fit, but needs the least",
        }
    }

    /// The requested step, then every single change, the one that saves the most first.
    fn single(&self) -> Vec<&Candidate> {
        let mut single: Vec<&Candidate> = self.findings.single.iter().collect();
        single.sort_by(|one, other| one.by_need(other));
        [&self.findings.asked].into_iter().chain(single).collect()
    }

    pub(super) fn table(&self, title: String, rows: Vec<&Candidate>) -> Table {
        let timed = rows.iter().any(|one| one.time.is_some());
        let limited = self.findings.asked.need.verdict.is_some();
        let columns = [
            Some(Column::text("change", "change")),
            Some(Column::number("memory", "memory")),
            Some(Column::number("memory_interval", "90 %")),
            limited.then(|| Column::number("verdict", "verdict")),
            timed.then(|| Column::number("latency", "a step")),
            timed.then(|| Column::number("latency_interval", "90 %")),
            timed.then(|| Column::number("per_sample", "a sample")),
        ];
        let mut table = Table::new(title, columns.into_iter().flatten());
        for one in rows {
            let memory = [self.words(one).into(), one.need.all.value.to_string().into(), ends(&one.need.all)];
            let verdict = limited.then(|| one.need.verdict.map(called).into());
            let time = timed.then(|| match &one.time {
                Some(time) => [time.value.to_string().into(), ends(time), self.slower(one)],
                None => ["not known".into(), Cell::Missing, Cell::Missing],
            });
            table.row(memory.into_iter().chain(verdict).chain(time.into_iter().flatten()));
        }
        table
    }

    /// The changes: "accumulate = 4, batch = 8".
    pub(super) fn words(&self, one: &Candidate) -> String {
        let changes: Vec<String> = self.changes(one).into_iter().map(|(key, word)| format!("{key} = {word}")).collect();
        if changes.is_empty() { "as asked".to_owned() } else { changes.join(", ") }
    }

    pub(super) fn changes(&self, one: &Candidate) -> Vec<(&'static str, String)> {
        let Workload { step, batch } = self.asked;
        let of_step = one.workload.step.differences(step).map(|(setting, word)| (setting.key(), word));
        let samples = (one.workload.batch != batch).then(|| ("batch", one.workload.batch.to_string()));
        of_step.chain(samples).collect()
    }

    /// The additional time per sample, compared with the requested step: "+12.3 %".
    fn slower(&self, one: &Candidate) -> Cell {
        self.longer(one).map(|percent| format!("{percent:+.1} %")).into()
    }

    pub(super) fn longer(&self, one: &Candidate) -> Option<f64> {
        Some(100.0 * (one.per_sample()? / self.findings.asked.per_sample()? - 1.0))
    }

    pub(super) fn flat(&self, rows: &[Candidate]) -> Table {
        let numbers = |quantity: &str, unit: &str| {
            ["", "_low", "_high"].map(|end| Column::number(format!("{quantity}{end}_{unit}"), ""))
        };
        let heads = [Column::text("change", ""), Column::number("bs", ""), Column::text("step", "")];
        let candidate =
            [Column::number("need_bytes", ""), Column::text("verdict", ""), Column::number("fits_probability", "")];
        let tail = [Column::number("longer_percent", ""), Column::text("learns", "")];
        let columns = heads.into_iter().chain(numbers("memory", "bytes")).chain(candidate);
        let mut table = Table::new("", columns.chain(numbers("latency", "ms")).chain(tail));
        rows.iter().for_each(|one| table.row(self.cells(one)));
        table
    }

    fn cells(&self, one: &Candidate) -> Vec<Cell> {
        let mib = |value: f64| Cell::from(Bytes::from_mib(value));
        let verdict = one.need.verdict;
        let mut cells = vec![self.words(one).into(), one.workload.batch.into(), one.workload.step.cell().into()];
        cells.extend(numbers(Some(&one.need.all), mib));
        cells.extend([
            mib(one.need.counted.value()),
            verdict.map(|Verdict { call, .. }| call.to_string()).into(),
            verdict.map(|Verdict { fits, .. }| fits).into(),
        ]);
        cells.extend(numbers(one.time.as_ref(), Cell::from));
        cells.extend([self.longer(one).into(), if one.learns_the_same { "the same" } else { "otherwise" }.into()]);
        cells
    }
}

fn numbers(prediction: Option<&Prediction>, cell: impl Fn(f64) -> Cell) -> [Cell; 3] {
    let end = |value: Option<f64>| value.map_or(Cell::Missing, &cell);
    let interval = prediction.and_then(|prediction| prediction.interval);
    [
        end(prediction.map(|prediction| prediction.value.value())),
        end(interval.map(|interval| interval.low.value())),
        end(interval.map(|interval| interval.high.value())),
    ]
}
