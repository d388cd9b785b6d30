//! The results as tables: the combinations that fit, and the effect of every single change.

use super::Advice;
use super::search::AdviceCandidate;
use crate::fingerprint::{FitDecision, Prediction};
use crate::verbs::verdict::{decision_text, interval_cell};
use perf4sight_base::units::Bytes;
use perf4sight_report::{Cell, Table, TableBuilder, TableColumn};
use perf4sight_step::workload::{Setting, Workload};

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
            fitting(true, &format!("Fits, and {} the same", self.learns())),
            fitting(false, &format!("Fits, but {} otherwise", self.learns())),
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
            Some(FitDecision::Borderline) => "Not sure to fit, but needs the least",
            Some(FitDecision::Fits | FitDecision::DoesNotFit) | None => "Does not fit, but needs the least",
        }
    }

    /// The requested step, then every single change, the one that saves the most first.
    fn single(&self) -> Vec<&AdviceCandidate> {
        let mut single: Vec<&AdviceCandidate> = self.findings.single.iter().collect();
        single.sort_by(|one, other| one.by_need(other));
        [&self.findings.asked].into_iter().chain(single).collect()
    }

    pub(super) fn table(&self, title: String, rows: Vec<&AdviceCandidate>) -> Table {
        let timed = rows.iter().any(|one| one.time.is_some());
        let limited = self.findings.asked.need.verdict.is_some();
        let columns = [
            Some(TableColumn::text("change", "change")),
            Some(TableColumn::number("memory", "memory")),
            Some(TableColumn::number("memory_interval", "90 %")),
            limited.then(|| TableColumn::number("verdict", "verdict")),
            timed.then(|| TableColumn::number("latency", "a step")),
            timed.then(|| TableColumn::number("latency_interval", "90 %")),
            timed.then(|| TableColumn::number("per_sample", "a sample")),
        ];
        let mut table = Table::new(title, columns.into_iter().flatten());
        for one in rows {
            let memory =
                [self.changes_text(one).into(), one.need.all.value.to_string().into(), interval_cell(&one.need.all)];
            let verdict = limited.then(|| one.need.verdict.map(decision_text).into());
            let time = timed.then(|| match &one.time {
                Some(time) => [time.value.to_string().into(), interval_cell(time), self.slower(one)],
                None => ["not known".into(), Cell::Missing, Cell::Missing],
            });
            table.row(memory.into_iter().chain(verdict).chain(time.into_iter().flatten()));
        }
        table
    }

    /// The changes: "accumulate = 4, batch = 8".
    pub(super) fn changes_text(&self, one: &AdviceCandidate) -> String {
        let changes: Vec<String> = self.changes(one).into_iter().map(|(key, word)| format!("{key} = {word}")).collect();
        if changes.is_empty() { "as asked".to_owned() } else { changes.join(", ") }
    }

    pub(super) fn changes(&self, one: &AdviceCandidate) -> Vec<(&'static str, String)> {
        let Workload { step, batch } = self.asked;
        let to = one.workload.step;
        let of_step = to.differences(step).map(|(setting, word)| (setting.key(), word));
        // predict takes another optimizer with its own way to clear gradients.
        let is_left = to.optimizer != step.optimizer && to.zero_grad == step.zero_grad;
        let is_said = is_left && to.optimizer.zero_grad() != to.zero_grad;
        let zero_grad = is_said.then(|| (Setting::ZeroGrad.key(), to.zero_grad.name().to_owned()));
        let samples = (one.workload.batch != batch).then(|| ("batch", one.workload.batch.to_string()));
        of_step.chain(zero_grad).chain(samples).collect()
    }

    /// The additional time per sample, compared with the requested step: "+12.3 %".
    fn slower(&self, one: &AdviceCandidate) -> Cell {
        self.longer(one).map(|percent| format!("{percent:+.1} %")).into()
    }

    pub(super) fn longer(&self, one: &AdviceCandidate) -> Option<f64> {
        Some(100.0 * (one.per_sample()? / self.findings.asked.per_sample()? - 1.0))
    }

    pub(super) fn flat(&self, rows: &[AdviceCandidate]) -> Table {
        let mib = |value: f64| Cell::from(Bytes::from_mib(value));
        let rows = TableBuilder::new("", rows)
            .text("change", "", |one| self.changes_text(one))
            .number("bs", "", |one| one.workload.batch)
            .text("step", "", |one| one.workload.step.cell());
        let rows = numbers(rows, ["memory", "bytes"], |one| Some(&one.need.all), mib)
            .number("need_bytes", "", |one| mib(one.need.counted.value()))
            .text("verdict", "", |one| one.need.verdict.map(|verdict| verdict.call.name()))
            .number("fits_probability", "", |one| one.need.verdict.map(|verdict| verdict.fits));
        numbers(rows, ["latency", "ms"], |one| one.time.as_ref(), Cell::from)
            .number("longer_percent", "", |one| self.longer(one))
            .text("learns", "", |one| if one.learns_the_same { "the same" } else { "otherwise" })
            .table()
    }
}

/// Adds a prediction and the ends of its interval.
fn numbers<'a>(
    rows: TableBuilder<&'a AdviceCandidate>,
    [quantity, unit]: [&str; 2],
    of: fn(&'a AdviceCandidate) -> Option<&'a Prediction>,
    cell: impl Fn(f64) -> Cell,
) -> TableBuilder<&'a AdviceCandidate> {
    let values: [fn(&Prediction) -> Option<f64>; 3] = [
        |prediction| Some(prediction.value.value()),
        |prediction| Some(prediction.interval?.low.value()),
        |prediction| Some(prediction.interval?.high.value()),
    ];
    ["", "_low", "_high"].into_iter().zip(values).fold(rows, |rows, (end, value)| {
        rows.number(&format!("{quantity}{end}_{unit}"), "", |one| of(one).and_then(value).map(&cell))
    })
}
