//! The tables on the console: an iteration by category, by rank, and the activity of the accelerators.

use super::run::TracedRun;
use super::{BreakdownResults, differences, headline};
use crate::categories::sets::TimeSets;
use crate::{Breakdown, GpuWork, IdleCause, Iteration, RankBreakdown, TimeCategory};
use perf4sight_base::summary::ValueSummary;
use perf4sight_base::units::{Milliseconds, Percent};
use perf4sight_record::ProcessorRivals;
use perf4sight_record::WithoutRecording;
use perf4sight_report::{Cell, Table, TableBuilder, TableColumn};
use std::cmp::Reverse;

const RANKS: usize = 16;

pub(super) fn console_tables(shown: &BreakdownResults) -> Vec<Table> {
    let run = &shown.run;
    let mut tables = vec![categories(run)];
    tables.extend((run.traces.len() > 1).then(|| ranks(run)));
    if let (true, Some(whose)) = (run.has_accelerators(), RankScope::main(run)) {
        tables.extend([work(whose), idle(run, whose)]);
    }
    tables.extend(shown.after.as_ref().map(|(_, comparison)| differences::table(comparison)));
    tables
}

#[derive(Clone, Copy)]
pub(super) enum RankScope<'a> {
    All(&'a Breakdown),
    Rank(&'a RankBreakdown),
}

impl<'a> RankScope<'a> {
    /// All ranks if they have iterations in common, else the first rank.
    pub fn main(run: &'a TracedRun) -> Option<Self> {
        match run.breakdown.ranks.as_slice() {
            [] => None,
            [rank] => Some(RankScope::Rank(rank)),
            [first, ..] if run.breakdown.iterations_on_all_ranks().is_empty() => Some(RankScope::Rank(first)),
            _ => Some(RankScope::All(&run.breakdown)),
        }
    }

    pub fn summary(self, number: impl Fn(&Iteration) -> Option<f64>) -> Option<ValueSummary> {
        self.summary_of(|_, iteration| number(iteration))
    }

    pub fn summary_of(self, number: impl Fn(&RankBreakdown, &Iteration) -> Option<f64>) -> Option<ValueSummary> {
        match self {
            RankScope::All(all) => all.summary_of(number),
            RankScope::Rank(rank) => rank.summary_of(number),
        }
    }

    /// The time of an iteration without recording; none if it is unknown.
    pub fn without_recording(self) -> Option<WithoutRecording> {
        match self {
            RankScope::All(all) => all.without_recording(),
            RankScope::Rank(rank) => rank.without_recording(),
        }
    }

    /// The mean of all iterations that were timed, long ones included, without recording; none if it is unknown.
    pub fn mean_of_all(self) -> Option<WithoutRecording> {
        match self {
            RankScope::All(all) => all.mean_of_all(),
            RankScope::Rank(rank) => rank.mean_of_all(),
        }
    }

    /// Whether the mean of the iterations without recording is reliable.
    pub fn correction_holds(self) -> bool {
        match self {
            RankScope::All(all) => all.correction_holds(),
            RankScope::Rank(rank) => rank.correction_holds(),
        }
    }

    /// A time without recording; none where it is not known, or not reliable.
    pub fn corrected_time(self, time: impl Fn(&TimeSets) -> Option<i64>) -> Option<ValueSummary> {
        let corrected = self.summary_of(|rank, one| Some(time(rank.corrected(one)?.sets()?)? as f64));
        corrected.filter(|_| self.correction_holds())
    }

    /// The number of other threads that run Python: of several ranks, of the one with most.
    pub fn python_threads(self) -> Option<u64> {
        match self {
            RankScope::All(all) => all.ranks.iter().map(|rank| rank.correction.python_threads).max().flatten(),
            RankScope::Rank(rank) => rank.correction.python_threads,
        }
    }

    /// Whether the traces have calls of Python, which show where a script waits.
    pub fn has_python(self) -> bool {
        match self {
            RankScope::All(all) => all.ranks.iter().all(|rank| rank.recorded.python),
            RankScope::Rank(rank) => rank.recorded.python,
        }
    }

    /// Whether the script waits, so that recording made its calls longer by processor time alone.
    pub fn is_waiting(self) -> bool {
        let waits = |rank: &RankBreakdown| rank.correction.overhead.as_ref().is_some_and(|one| one.work.is_some());
        match self {
            RankScope::All(all) => all.ranks.iter().any(waits),
            RankScope::Rank(rank) => waits(rank),
        }
    }

    /// Who else had the processors: of several ranks, those of the one that a limit stopped longest.
    pub fn rivals(self) -> ProcessorRivals {
        match self {
            RankScope::All(all) => {
                let ranks = all.ranks.iter().map(|rank| rank.correction.rivals);
                ranks.max_by_key(|seen| (seen.throttled, seen.children)).unwrap_or_default()
            }
            RankScope::Rank(rank) => rank.correction.rivals,
        }
    }

    pub fn count(self) -> usize {
        match self {
            RankScope::All(all) => all.iterations_on_all_ranks().len(),
            RankScope::Rank(rank) => rank.counted_iterations().count(),
        }
    }

    /// The number of warm-up iterations of the rank that has most of them.
    fn warm_up(self) -> usize {
        match self {
            RankScope::All(all) => all.ranks.iter().map(|rank| rank.warm_up.iterations).max().unwrap_or(0),
            RankScope::Rank(rank) => rank.warm_up.iterations,
        }
    }

    fn total(self) -> Option<ValueSummary> {
        self.summary(|iteration| Some(iteration.sets.total() as f64))
    }
}

pub(super) fn category_name(category: TimeCategory, busy: bool, gpu: bool) -> String {
    match (gpu, busy) {
        (true, true) => format!("{}, GPU busy", category.name()),
        (true, false) => format!("{}, GPU idle", category.name()),
        (false, _) => category.name().to_owned(),
    }
}

/// The main table: {Python, C++, CUDA API, wait} x {GPU busy, idle}.
pub(super) fn categories(run: &TracedRun) -> Table {
    let gpu = run.has_accelerators();
    let mut columns = vec![TableColumn::text("class", "category")];
    columns.extend(gpu.then(|| TableColumn::text("gpu", "GPU")));
    let numbered = [("mean_ms", "mean"), ("percent", "share"), ("median_ms", "median"), ("spread_ms", "spread")];
    columns.extend(numbered.map(|(key, heading)| TableColumn::number(key, heading)));
    columns.push(TableColumn::number("interval_ms", "95 %"));
    let corrected = RankScope::main(run).and_then(RankScope::without_recording);
    let numbered = [("corrected_ms", "corrected"), ("corrected_interval_ms", "its 95 %")];
    columns.extend(corrected.iter().flat_map(|_| numbered.map(|(key, heading)| TableColumn::number(key, heading))));
    let Some((whose, total)) = RankScope::main(run).and_then(|whose| Some((whose, whose.total()?))) else {
        return Table::new("Where an iteration's time goes: no iterations", columns);
    };
    let mut table = Table::new(title(run, whose), columns);
    let sets = TimeCategory::ALL.into_iter().flat_map(|category| [(category, true), (category, false)]);
    for (category, busy) in sets.filter(|(_, busy)| gpu || !busy) {
        let summary = whose.summary(|iteration| Some(iteration.sets.get(category, busy)? as f64));
        let name = gpu.then(|| Cell::from(if busy { "busy" } else { "idle" }));
        // Without a GPU, a row for CUDA calls that take no time is useless.
        let absent = !gpu && category == TimeCategory::CudaApi && summary.is_some_and(|none| none.mean == 0.0);
        if !absent && (summary.is_some() || !category.is_joint()) {
            let head = [category.name().into()].into_iter().chain(name).chain(numbers(summary.as_ref(), &total));
            let without = whose.corrected_time(|sets| sets.get(category, busy));
            let without = Cell::from(without.map(|without| milliseconds(without.mean)));
            table.row(head.chain(corrected.iter().flat_map(|_| [without.clone(), Cell::Missing])));
        }
    }
    let blank = gpu.then(|| Cell::from(""));
    for (name, time) in within_categories(whose) {
        if let Some(time) = time.filter(|time| time.mean > headline::NOT_RUNNING * total.mean) {
            let name = format!("{name}, in the above");
            let head = [name.into()].into_iter().chain(blank.clone()).chain(numbers(Some(&time), &total));
            table.row(head.chain(corrected.iter().flat_map(|_| [Cell::Missing, Cell::Missing])));
        }
    }
    let mean = |of: f64| Cell::from(whose.correction_holds().then(|| milliseconds(of)));
    let without = corrected.iter().flat_map(|whole| [mean(whole.mean), interval(whole.interval)]);
    table.row(["iteration".into()].into_iter().chain(blank).chain(numbers(Some(&total), &total)).chain(without));
    table
}

/// Times that belong to several categories; a trace does not show to which.
fn within_categories(whose: RankScope) -> [(&'static str, Option<ValueSummary>); 2] {
    [
        ("not running", whose.summary_of(|rank, one| Some(rank.not_running(one)? as f64))),
        (headline::HELD_UP, whose.summary_of(|rank, one| Some(rank.held_up(one)? as f64))),
    ]
}

/// Mean, share, median, spread and interval of nanoseconds; *unknown* if the trace lacks the number.
fn numbers(summary: Option<&ValueSummary>, total: &ValueSummary) -> [Cell; 5] {
    let Some(summary) = summary else {
        return ["unknown".into(), Cell::Missing, Cell::Missing, Cell::Missing, Cell::Missing];
    };
    [
        milliseconds(summary.mean).into(),
        share(summary.mean, total).into(),
        milliseconds(summary.median).into(),
        summary.spread.map(milliseconds).into(),
        interval(summary.interval),
    ]
}

fn interval(nanoseconds: Option<[f64; 2]>) -> Cell {
    nanoseconds.map(|interval| range(interval.map(|end| milliseconds(end).to_string()))).into()
}

/// `1.20 – 1.34 ms`: the unit is written once if both have the same.
pub(super) fn range([low, high]: [String; 2]) -> String {
    let unit = |text: &str| text.split_once(' ').map(|(_, unit)| unit.to_owned());
    match low.split_once(' ') {
        Some((number, own)) if unit(&high).as_deref() == Some(own) => format!("{number} – {high}"),
        _ => format!("{low} – {high}"),
    }
}

fn milliseconds(nanoseconds: f64) -> Milliseconds {
    Milliseconds(nanoseconds / 1e6)
}

fn share(nanoseconds: f64, total: &ValueSummary) -> Option<Percent> {
    (total.mean > 0.0).then(|| Percent(100.0 * nanoseconds / total.mean))
}

fn title(run: &TracedRun, whose: RankScope) -> String {
    let iterations = match whose.count() {
        1 => "1 iteration".to_owned(),
        count => format!("{count} iterations"),
    };
    let of = match whose {
        RankScope::All(all) if all.are_processes() => format!(", mean of {} processes", all.ranks.len()),
        RankScope::All(all) => format!(", mean of {} ranks", all.ranks.len()),
        RankScope::Rank(rank) if run.traces.len() > 1 => format!(" of rank {}", rank.rank),
        RankScope::Rank(_) => String::new(),
    };
    let warm_up = match whose.warm_up() {
        0 => String::new(),
        left_out => format!(", {left_out} before them left out as warm-up"),
    };
    format!("Where {}'s time goes: {iterations}{of}{warm_up}", run.iteration_noun())
}

/// One row for each rank; if there are many, only those with the longest iterations.
pub(super) fn ranks(run: &TracedRun) -> Table {
    let known = |category| {
        let times =
            run.breakdown.ranks.iter().filter_map(|rank| rank.summary(|one| Some(one.sets.category(category)? as f64)));
        let worth = |time: ValueSummary| time.mean > 0.0 || category != TimeCategory::CudaApi || run.has_accelerators();
        times.into_iter().any(worth)
    };
    let categories: Vec<TimeCategory> = TimeCategory::ALL.into_iter().filter(|category| known(*category)).collect();
    let mut all: Vec<(&RankBreakdown, ValueSummary)> =
        run.breakdown.ranks.iter().filter_map(|rank| Some((rank, RankScope::Rank(rank).total()?))).collect();
    let title = match all.len() {
        ..=RANKS => "By rank".to_owned(),
        count => format!("The {RANKS} of {count} ranks whose iterations take longest"),
    };
    if all.len() > RANKS {
        all.sort_by_key(|(rank, total)| (Reverse(total.mean as i64), rank.rank));
        all.truncate(RANKS);
    }
    let part = |(rank, total): &(&RankBreakdown, ValueSummary), number: &dyn Fn(&Iteration) -> Option<f64>| {
        share(rank.summary(number)?.mean, total)
    };
    let mut rows = TableBuilder::new(title, all)
        .number("rank", "rank", |(rank, _)| u64::from(rank.rank))
        .number("iterations", "iterations", |(_, total)| total.count)
        .number("mean_ms", "mean", |(_, total)| milliseconds(total.mean));
    for category in categories {
        let time = |one: &Iteration| Some(one.sets.category(category)? as f64);
        rows = rows.number(category.name(), category.name(), |row| part(row, &time));
    }
    if run.has_accelerators() {
        let busy = |one: &Iteration| Some(one.sets.gpu_busy() as f64);
        rows = rows.number("gpu_busy", "GPU busy", |row| part(row, &busy).filter(|_| row.0.device.is_recorded()));
    }
    rows.table()
}

pub(super) fn work(whose: RankScope) -> Table {
    let mean = |number: &dyn Fn(&Iteration) -> i64| {
        whose.summary(|one| Some(number(one) as f64)).map_or(0.0, |time| time.mean)
    };
    let kind = |work: GpuWork| {
        let [exposed, hidden] = [mean(&|one| one.device.exposed_time(work)), mean(&|one| one.device.hidden_time(work))];
        (work.name(), exposed, Some(hidden))
    };
    let busy = || ("busy", mean(&|one| one.device.busy), None);
    let total = whose.total();
    let rows = total.iter().flat_map(|_| GpuWork::ALL.map(kind).into_iter().chain([busy()]));
    let all = |(_, exposed, hidden): &(&str, f64, Option<f64>)| exposed + hidden.unwrap_or(0.0);
    TableBuilder::new("The work of the GPU; work that runs at the same time as work of a row above is hidden", rows)
        .text("work", "work", |row| row.0)
        .number("total_ms", "mean", |row| milliseconds(all(row)))
        .number("percent", "share", |row| share(all(row), total.as_ref()?))
        .number("exposed_ms", "exposed", |row| milliseconds(row.1))
        .number("hidden_ms", "hidden", |row| row.2.map(milliseconds))
        .table()
}

pub(super) fn idle(run: &TracedRun, whose: RankScope) -> Table {
    let cause = |cause: IdleCause| {
        let time = whose.summary(|one| Some(one.idle?.get(cause)? as f64)).map(|time| time.mean);
        // A single process has no other ranks to wait for.
        (time.is_some() || run.is_distributed()).then_some((cause.name(), time))
    };
    let idle = || ("idle", Some(whose.summary(|one| Some(one.device.idle as f64)).map_or(0.0, |time| time.mean)));
    let total = whose.total();
    let rows = total.iter().flat_map(|_| IdleCause::ALL.into_iter().filter_map(cause).chain([idle()]));
    let mean = |time: Option<f64>| time.map_or(Cell::from("unknown"), |time| milliseconds(time).into());
    TableBuilder::new("Why the GPU is idle", rows)
        .text("cause", "cause", |row| row.0)
        .number("mean_ms", "mean", |row| mean(row.1))
        .number("percent", "share", |row| share(row.1?, total.as_ref()?))
        .table()
}
