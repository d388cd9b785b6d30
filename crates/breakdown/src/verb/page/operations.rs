//! The time by operation (forward, backward, optimizer) and category.

use super::colours::{of_category, of_gpu};
use super::{TypicalIteration, milliseconds};
use crate::verb::run::TracedRun;
use crate::verb::tables::category_name;
use crate::verb::{BreakdownResults, time_breakdown};
use crate::{RankBreakdown, TimeCategory, TrainingOperation};
use perf4sight_base::units::{Milliseconds, Percent};
use perf4sight_report::{Axis, BarGroup, BarLength, Block, Chart, Plot, Series, StackedBars, Table, TableBuilder};
use perf4sight_traces::shortened::cut;
use perf4sight_traces::{NameTable, RankTrace};
use std::collections::BTreeMap;

/// With more ranks, only one rank has bars for each operation.
const GROUPS: usize = 3;
/// The number of ranges of the script with bars of their own, and their smallest share; the others are merged.
const RANGES: usize = 4;
const LEAST: f64 = 0.02;
/// The maximum length of a range's name in a chart and in a table.
const ROOM: [usize; 2] = [28, 60];

/// The published plot, the same by category, and a table.
pub(super) fn blocks(shown: &BreakdownResults, typical: &TypicalIteration) -> Vec<Block> {
    let all = OperationTimes::from_run(&shown.run);
    let table = all.table(all.ranks.len() > 1);
    let table = if all.ranks.len() > GROUPS { Block::Folded(table) } else { Block::Table(table) };
    vec![Block::Chart(time_breakdown::published_plot(shown).chart), Block::Chart(all.by_category(typical)), table]
}

type OperationName = (usize, String);
type CategorySet = (TimeCategory, bool);

/// Sort positions of ranges of the script, of merged ranges, and of the time outside all operations.
const NAMED: usize = 5;
const REST: usize = 6;
const OTHER: usize = 7;

struct OperationTimes {
    /// In the order of a training step; ranges of the script are ordered by time.
    names: Vec<OperationName>,
    ranks: Vec<RankOperations>,
    has_accelerators: bool,
}

/// Milliseconds of a mean iteration of a rank.
struct RankOperations {
    rank: u32,
    times: BTreeMap<(OperationName, CategorySet), f64>,
}

impl OperationTimes {
    fn from_run(run: &TracedRun) -> Self {
        let mut ranks: Vec<RankOperations> = run.ranks().map(RankOperations::from_breakdown).collect();
        let mut totals: BTreeMap<OperationName, f64> = BTreeMap::new();
        for ((name, _), time) in ranks.iter().flat_map(|rank| &rank.times) {
            *totals.entry(name.clone()).or_default() += time;
        }
        let least = LEAST * totals.values().sum::<f64>();
        let mut named: Vec<(OperationName, f64)> =
            totals.into_iter().filter(|((place, _), _)| *place == NAMED).collect();
        named.sort_by(|a, b| b.1.total_cmp(&a.1));
        let separate: Vec<OperationName> =
            named.into_iter().take(RANGES).filter(|(_, time)| *time >= least).map(|(name, _)| name).collect();
        ranks.iter_mut().for_each(|rank| rank.merge_others(&separate));
        let mut names: Vec<OperationName> =
            ranks.iter().flat_map(|rank| rank.times.keys()).map(|(name, _)| name.clone()).collect();
        names.sort_by_key(|name| (name.0, separate.iter().position(|other| other == name)));
        names.dedup();
        OperationTimes { names, ranks, has_accelerators: run.has_accelerators() }
    }

    fn by_category(&self, typical: &TypicalIteration) -> Chart {
        let every = self.ranks.len() <= GROUPS;
        let shown: Vec<&RankOperations> =
            self.ranks.iter().filter(|rank| every || rank.rank == typical.rank.rank).collect();
        let bars = || shown.iter().flat_map(|rank| self.names.iter().map(move |name| (rank, name)));
        let time = |category, busy| {
            let times = bars().map(|(rank, name)| rank.sum(name, |set| set == (category, busy)));
            let name = category_name(category, busy, self.has_accelerators);
            Series::new(name, times).coloured(of_category(category)).textured(of_gpu(busy))
        };
        let series = TimeCategory::ALL.into_iter().flat_map(|category| [time(category, false), time(category, true)]);
        let names: Vec<String> = self.names.iter().map(|(_, name)| cut(name, ROOM[0])).collect();
        let head = |rank: &RankOperations| if every && self.ranks.len() > 1 { rank.name() } else { String::new() };
        let plot = StackedBars {
            groups: shown.iter().map(|rank| BarGroup { name: head(rank), bars: names.clone() }).collect(),
            value: Axis::linear("time per iteration (ms)"),
            series: series.filter(|series| series.data.iter().any(|time| *time > 0.0)).collect(),
            whole: BarLength::Sum,
            keys: Vec::new(),
            intervals: Vec::new(),
        };
        let whose = if every { String::new() } else { typical.rank_suffix() };
        let striped = if self.has_accelerators { "; striped while a GPU works" } else { "" };
        let caption = format!("What the script is at{whose}, and whose time that is{striped}.");
        Chart::new("Operations by category", caption, Plot::StackedBars(plot))
    }

    fn table(&self, several: bool) -> Table {
        let every = || self.ranks.iter().flat_map(|rank| self.names.iter().map(move |name| (rank, name)));
        let has =
            |category: &TimeCategory| every().any(|(rank, name)| rank.sum(name, |(other, _)| other == *category) > 0.0);
        let categories: Vec<TimeCategory> = TimeCategory::ALL.into_iter().filter(has).collect();
        let of = |(rank, name): &(&RankOperations, &OperationName), holds: &dyn Fn(CategorySet) -> bool| {
            Milliseconds(rank.sum(name, holds))
        };
        let whole = |rank: &RankOperations| Some(rank.times.values().sum::<f64>()).filter(|whole| *whole > 0.0);
        let mut rows = TableBuilder::new("Time by operation, per iteration", every());
        if several {
            rows = rows.number("rank", "rank", |(rank, _)| u64::from(rank.rank));
        }
        rows = rows
            .text("operation", "operation", |(_, name)| cut(&name.1, ROOM[1]))
            .number("mean_ms", "mean", |row| of(row, &|_| true))
            .number("percent", "share", |row| Some(Percent(100.0 * of(row, &|_| true).0 / whole(row.0)?)));
        if self.has_accelerators {
            rows = rows.number("busy_ms", "with the GPU busy", |row| of(row, &|(_, busy)| busy));
        }
        for category in categories {
            rows = rows.number(category.name(), category.name(), |row| of(row, &|(other, _)| other == category));
        }
        rows.table()
    }
}

impl RankOperations {
    fn from_breakdown((ranked, rank): (&RankTrace, &RankBreakdown)) -> Self {
        let count = rank.counted_iterations().count().max(1) as f64;
        let mut times: BTreeMap<(OperationName, CategorySet), f64> = BTreeMap::new();
        for (operation, sets) in rank.counted_iterations().flat_map(|iteration| &iteration.operations) {
            for (category, busy, time) in sets.parts() {
                let name = name(*operation, &ranked.trace.names);
                *times.entry((name, (category, busy))).or_default() += milliseconds(time as f64) / count;
            }
        }
        RankOperations { rank: rank.rank, times }
    }

    fn name(&self) -> String {
        format!("rank {}", self.rank)
    }

    fn merge_others(&mut self, separate: &[OperationName]) {
        let mut times = BTreeMap::new();
        for ((name, set), time) in std::mem::take(&mut self.times) {
            let together = name.0 == NAMED && !separate.contains(&name);
            let name = if together { (REST, "other ranges".to_owned()) } else { name };
            *times.entry((name, set)).or_default() += time;
        }
        self.times = times;
    }

    fn sum(&self, name: &OperationName, holds: impl Fn(CategorySet) -> bool) -> f64 {
        self.times.iter().filter(|((other, set), _)| other == name && holds(*set)).map(|(_, time)| time).sum()
    }
}

fn name(operation: TrainingOperation, names: &NameTable) -> OperationName {
    let place = match operation {
        TrainingOperation::Forward => 0,
        TrainingOperation::Backward => 1,
        TrainingOperation::Optimizer => 2,
        TrainingOperation::DataLoading => 3,
        TrainingOperation::ZeroGrad => 4,
        TrainingOperation::Named(_) => NAMED,
        TrainingOperation::Other => OTHER,
    };
    (place, operation.label(names).to_owned())
}
