//! Whose time an iteration is, rank by rank, and by what the script is at.

use super::colours::{key, of_class, of_gpu, of_operation};
use super::names::cut;
use super::{length, milliseconds};
use crate::breakdown::{Class, Iteration, Operation, RankBreakdown, Sets};
use crate::report::{Axis, Block, Chart, Colour, Column, Group, Plot, Series, StackedBars, Table, Texture, Whole};
use crate::sections::breakdown::run::Run;
use crate::sections::breakdown::tables;
use crate::traces::{Names, Ranked};
use crate::units::Milliseconds;
use std::collections::BTreeMap;

/// Ranks beyond these are left out of charts, and told in tables.
const RANKS: usize = 64;
/// More ranks have no bars of their own for each operation.
const GROUPS: usize = 8;
/// Ranges that the script named beyond these are told together.
const RANGES: usize = 8;

/// Who has the word, and whether a GPU works meanwhile, of every rank.
pub(super) fn by_class(run: &Run) -> Vec<Block> {
    let ranks: Vec<&RankBreakdown> = run.breakdown.ranks.iter().take(RANKS).collect();
    let time = |class, busy: bool| {
        let of_rank = move |rank: &&RankBreakdown| {
            mean(rank, |iteration| iteration.sets.get(class, busy).map(|time| time as f64)).unwrap_or(0.0)
        };
        Series::new(class_name(class, busy, run.has_accelerators()), ranks.iter().map(of_rank))
            .coloured(of_class(class))
            .textured(of_gpu(busy))
    };
    let interval = |rank: &&RankBreakdown| {
        let [low, high] = rank.summary(length)?.interval?;
        Some((milliseconds(low), milliseconds(high)))
    };
    let plot = StackedBars {
        groups: vec![Group { name: String::new(), bars: ranks.iter().map(|rank| rank_name(rank)).collect() }],
        value: Axis::linear("time per iteration (ms)"),
        series: used(Class::ALL.into_iter().flat_map(|class| [time(class, false), time(class, true)])),
        whole: Whole::Sum,
        keys: Vec::new(),
        intervals: ranks.iter().map(interval).collect(),
    };
    let caption = match run.has_accelerators() {
        true => {
            "Who has the word, mean over the iterations that count; striped while a GPU works. The whisker holds the mean with 95 %."
        }
        false => "Who has the word, mean over the iterations that count. The whisker holds the mean with 95 %.",
    };
    let chart = Chart::new("Time by class", caption, Plot::StackedBars(plot));
    vec![Block::Chart(chart), Block::Chart(published(run)), Block::Table(tables::classes(run))]
}

/// What the script is at, with whose time that is.
pub(super) fn by_operation(run: &Run) -> Vec<Block> {
    let ranks: Vec<Operations> = run.ranks().take(RANKS).map(Operations::of).collect();
    let shown: &[Operations] = if ranks.len() <= GROUPS { &ranks } else { &ranks[..1] };
    let bars: Vec<(usize, &String)> =
        shown.iter().enumerate().flat_map(|(rank, of)| of.times.iter().map(move |(name, _)| (rank, name))).collect();
    let time = |class, busy| {
        let of_bar = |(rank, name): &(usize, &String)| {
            let sets = shown[*rank].times.iter().find(|(other, _)| other == *name).map(|(_, time)| &time.sets);
            sets.and_then(|sets| sets.get(&(class, busy))).copied().unwrap_or(0.0)
        };
        Series::new(class_name(class, busy, run.has_accelerators()), bars.iter().map(of_bar))
            .coloured(of_class(class))
            .textured(of_gpu(busy))
    };
    let group = |of: &Operations| Group {
        name: if run.traces.len() > 1 { format!("rank {}", of.rank) } else { String::new() },
        bars: of.times.iter().map(|(name, _)| cut(name, 28)).collect(),
    };
    let plot = StackedBars {
        groups: shown.iter().map(group).collect(),
        value: Axis::linear("time per iteration (ms)"),
        series: used(Class::ALL.into_iter().flat_map(|class| [time(class, false), time(class, true)])),
        whole: Whole::Sum,
        keys: Vec::new(),
        intervals: Vec::new(),
    };
    let left_out = match ranks.len() {
        ranks if ranks > GROUPS => format!(" Of the first of {} ranks; all are in the table.", run.traces.len()),
        _ => String::new(),
    };
    let caption = format!("What the script is at and who has the word meanwhile; striped while a GPU works.{left_out}");
    let chart = Chart::new("Time by operation", caption, Plot::StackedBars(plot));
    vec![Block::Chart(chart), Block::Table(operations(run))]
}

/// As published: the colour is the operation, the texture whose time it is.
pub(in crate::sections::breakdown) fn published(run: &Run) -> Chart {
    let ranks: Vec<Operations> = run.ranks().take(RANKS).map(Operations::of).collect();
    let mut names: Vec<(&String, Colour)> = Vec::new();
    for (name, time) in ranks.iter().flat_map(|rank| &rank.times) {
        if names.iter().all(|(known, _)| *known != name) {
            names.push((name, of_operation(time.operation, names.len())));
        }
    }
    let times = |name: &str, share: fn(&BTreeMap<(Class, bool), f64>) -> f64| -> Vec<f64> {
        let of = |rank: &Operations| {
            rank.times.iter().find(|(other, _)| other == name).map_or(0.0, |(_, time)| share(&time.sets))
        };
        ranks.iter().map(of).collect()
    };
    let part = |(operation, colour): &(&String, Colour)| {
        PUBLISHED.map(|(class, texture, share)| {
            Series::new(format!("{}, {class}", cut(operation, 28)), times(operation, share))
                .coloured(*colour)
                .textured(texture)
        })
    };
    let keys = names.iter().map(|(name, colour)| key(&cut(name, 28), *colour, Texture::Plain));
    let series = used(names.iter().flat_map(part));
    let textures = PUBLISHED.into_iter().filter(|(class, ..)| series.iter().any(|one| one.name.ends_with(class)));
    let textures = textures.map(|(class, texture, _)| key(class, Colour::Subject, texture));
    let plot = StackedBars {
        groups: vec![Group { name: String::new(), bars: ranks.iter().map(|of| format!("rank {}", of.rank)).collect() }],
        value: Axis::linear("time per iteration (ms)"),
        keys: keys.chain(textures).collect(),
        series,
        whole: Whole::Sum,
        intervals: Vec::new(),
    };
    let caption = "The colour is the operation, the texture whose time it is: the GPU's whenever it works, else that of Python, of calls into C++ and CUDA, or of waiting.";
    Chart::new("Operations, and whose time they are", caption, Plot::StackedBars(plot))
}

/// A class of the published plot, its texture, and its share of the sets.
type Published = (&'static str, Texture, fn(&BTreeMap<(Class, bool), f64>) -> f64);

const PUBLISHED: [Published; 5] = [
    ("GPU", Texture::Plain, |sets| sets.iter().filter(|((_, busy), _)| *busy).map(|(_, time)| time).sum()),
    ("C++", Texture::Crossed, |sets| idle(sets, &[Class::Cpp, Class::CudaApi])),
    ("Python", Texture::Rising, |sets| idle(sets, &[Class::Python])),
    ("wait", Texture::Upright, |sets| idle(sets, &[Class::Wait])),
    ("Python or wait", Texture::Level, |sets| idle(sets, &[Class::PythonOrWait])),
];

fn idle(sets: &BTreeMap<(Class, bool), f64>, classes: &[Class]) -> f64 {
    classes.iter().filter_map(|class| sets.get(&(*class, false))).sum()
}

/// The series that have anything.
fn used(series: impl Iterator<Item = Series<f64>>) -> Vec<Series<f64>> {
    series.filter(|series| series.data.iter().any(|time| *time > 0.0)).collect()
}

pub(super) fn class_name(class: Class, busy: bool, gpu: bool) -> String {
    match (gpu, busy) {
        (true, true) => format!("{}, GPU busy", class.label()),
        (true, false) => format!("{}, GPU idle", class.label()),
        (false, _) => class.label().to_owned(),
    }
}

pub(super) fn rank_name(rank: &RankBreakdown) -> String {
    format!("rank {}", rank.rank)
}

/// The mean of a rank's iterations that count, nanoseconds as milliseconds.
pub(super) fn mean(rank: &RankBreakdown, number: impl Fn(&Iteration) -> Option<f64>) -> Option<f64> {
    rank.summary(number).map(|summary| milliseconds(summary.mean))
}

/// The operations of a rank, in the order in which a step does them.
struct Operations {
    rank: u32,
    times: Vec<(String, Time)>,
}

/// The time of an operation.
struct Time {
    operation: Operation,
    /// Milliseconds of a mean iteration by class and whether a GPU works.
    sets: BTreeMap<(Class, bool), f64>,
}

impl Operations {
    fn of((ranked, rank): (&Ranked, &RankBreakdown)) -> Self {
        let count = rank.counted().count().max(1) as f64;
        let mut sums: BTreeMap<Operation, BTreeMap<(Class, bool), f64>> = BTreeMap::new();
        for (operation, sets) in rank.counted().flat_map(|iteration| &iteration.operations) {
            add(sums.entry(*operation).or_default(), sets, count);
        }
        let named = |operation: &Operation| matches!(operation, Operation::Named(_));
        let mut named: Vec<(Operation, f64)> = sums
            .iter()
            .filter(|(operation, _)| named(operation))
            .map(|(own, sets)| (*own, sets.values().sum()))
            .collect();
        named.sort_by(|a, b| b.1.total_cmp(&a.1));
        let told: Vec<Operation> = named.into_iter().take(RANGES).map(|(operation, _)| operation).collect();
        let mut times: Vec<(String, Time)> = Vec::new();
        for (operation, sets) in sums {
            let name = label(operation, &told, &ranked.trace.names);
            match times.iter_mut().find(|(known, _)| *known == name) {
                Some((_, time)) => sets.into_iter().for_each(|(set, more)| *time.sets.entry(set).or_default() += more),
                None => times.push((name, Time { operation, sets })),
            }
        }
        Operations { rank: rank.rank, times }
    }
}

fn add(sum: &mut BTreeMap<(Class, bool), f64>, sets: &Sets, count: f64) {
    for (class, busy, time) in sets.parts() {
        *sum.entry((class, busy)).or_default() += milliseconds(time as f64) / count;
    }
}

fn label(operation: Operation, told: &[Operation], names: &Names) -> String {
    match matches!(operation, Operation::Named(_)) && !told.contains(&operation) {
        true => "other ranges".to_owned(),
        false => operation.label(names).to_owned(),
    }
}

/// Every rank's operations.
fn operations(run: &Run) -> Table {
    let several = run.traces.len() > 1;
    let mut columns: Vec<Column> = Vec::new();
    columns.extend(several.then(|| Column::number("rank", "rank")));
    columns.push(Column::text("operation", "operation"));
    columns.push(Column::number("mean_ms", "mean"));
    columns.push(Column::number("percent", "share"));
    columns.extend(run.has_accelerators().then(|| Column::number("busy_ms", "with the GPU busy")));
    let classes = Class::ALL.into_iter().filter(|class| has(run, *class));
    let classes: Vec<Class> = classes.collect();
    columns.extend(classes.iter().map(|class| Column::number(class.label(), class.label())));
    let mut table = Table::new("Time by operation, per iteration", columns);
    for of in run.ranks().map(Operations::of) {
        let all: f64 = of.times.iter().flat_map(|(_, time)| time.sets.values()).sum();
        for (name, time) in &of.times {
            let sum = |holds: &dyn Fn(Class, bool) -> bool| -> f64 {
                time.sets.iter().filter(|((class, busy), _)| holds(*class, *busy)).map(|(_, time)| time).sum()
            };
            let total = sum(&|_, _| true);
            let mut row = Vec::new();
            row.extend(several.then(|| u64::from(of.rank).into()));
            row.extend([cut(name, 60).into(), Milliseconds(total).into()]);
            row.push((all > 0.0).then(|| crate::units::Percent(100.0 * total / all)).into());
            row.extend(run.has_accelerators().then(|| Milliseconds(sum(&|_, busy| busy)).into()));
            row.extend(classes.iter().map(|class| Milliseconds(sum(&|other, _| other == *class)).into()));
            table.row(row);
        }
    }
    table
}

fn has(run: &Run, class: Class) -> bool {
    let iterations = run.breakdown.ranks.iter().flat_map(|rank| rank.counted());
    iterations.filter_map(|iteration| iteration.sets.class(class)).any(|time| time > 0)
}
