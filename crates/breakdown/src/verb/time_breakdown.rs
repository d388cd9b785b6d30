//! The published plot of time by operation: the colour is the operation, the stripes are the category.

use super::BreakdownResults;
use super::bars::RunBars;
use super::data_rows::{self, runs};
use super::published::PublishedPlot;
use crate::{RankBreakdown, TimeCategory, TimeSets, TrainingOperation};
use perf4sight_report::{Chart, Colour, Plot, Series, StackedBars, Texture};
use perf4sight_traces::shortened::cut;
use std::collections::{BTreeMap, BTreeSet};

/// The number of operations with a colour of their own; further ranges of the script share one.
const COLOURS: usize = 7;
/// The maximum length of a name in the plot; the data files have full names.
const NAME: usize = 40;
const MORE: &str = "more ranges";
const REST: &str = "other";

/// The category of a moment: the GPU whenever it is busy, else the category of the thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PartShare {
    Gpu,
    Idle(TimeCategory),
}

/// The time of an operation on a rank that belongs to one share.
struct TimePart {
    run: &'static str,
    rank: u32,
    operation: String,
    share: PartShare,
    time: MeanTime,
}

/// Nanoseconds of a mean iteration, and their standard deviation.
#[derive(Clone, Copy)]
struct MeanTime {
    mean: f64,
    spread: Option<f64>,
}

pub(super) fn published_plot(shown: &BreakdownResults) -> PublishedPlot {
    let parts = parts(shown);
    let data = data_rows::rows(shown, parts.iter().map(|part| (part.run, part)))
        .text("rank", "rank", |(_, part)| u64::from(part.rank))
        .text("operation", "operation", |(_, part)| part.operation.clone())
        .text("class", "class", |(_, part)| part.share.label())
        .text("mean_sec", "mean_sec", |(_, part)| part.time.mean / 1e9)
        .text("std_sec", "std_sec", |(_, part)| part.time.spread.map(|spread| spread / 1e9))
        .table();
    PublishedPlot { name: "time_breakdown".to_owned(), chart: chart(shown, &parts), data }
}

fn parts(shown: &BreakdownResults) -> Vec<TimePart> {
    let mut all = Vec::new();
    for (run, of) in runs(shown) {
        for (ranked, rank) in of.ranks() {
            for (operation, share, time) in times(rank) {
                let operation = operation.label(&ranked.trace.names).to_owned();
                all.push(TimePart { run, rank: rank.rank, operation, share, time });
            }
        }
    }
    all
}

/// The time of each operation of a rank over the iterations that count, by share; iterations without the operation
/// count as zero.
fn times(rank: &RankBreakdown) -> Vec<(TrainingOperation, PartShare, MeanTime)> {
    let mut values: BTreeMap<(TrainingOperation, PartShare), Vec<f64>> = BTreeMap::new();
    for (operation, sets) in rank.counted_iterations().flat_map(|iteration| &iteration.operations) {
        for (share, time) in PartShare::all().filter_map(|share| Some((share, share.nanoseconds(sets)?))) {
            values.entry((*operation, share)).or_default().push(time as f64);
        }
    }
    let count = rank.counted_iterations().count();
    values
        .into_iter()
        .map(|((operation, share), values)| (operation, share, MeanTime::from_values(&values, count)))
        .collect()
}

impl MeanTime {
    /// The mean and spread of `count` values; those not given are zero.
    fn from_values(values: &[f64], count: usize) -> Self {
        let mean = values.iter().sum::<f64>() / count as f64;
        let zeros = (count - values.len()) as f64 * mean.powi(2);
        let squares = zeros + values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        MeanTime { mean, spread: (count > 1).then(|| (squares / (count - 1) as f64).sqrt()) }
    }
}

fn chart(shown: &BreakdownResults, parts: &[TimePart]) -> Chart {
    let mut seen = BTreeSet::new();
    let operations = parts.iter().map(|part| part.operation.as_str()).filter(|operation| seen.insert(*operation));
    let operations: Vec<&str> = operations.collect();
    let coloured =
        if operations.len() == COLOURS + 1 { &operations[..] } else { &operations[..operations.len().min(COLOURS)] };
    let named = |operation: &str| match coloured.iter().position(|known| *known == operation) {
        Some(_) if operation == REST => (Colour::Rival, operation.to_owned()),
        Some(place) => (Colour::Nth(place), cut(operation, NAME)),
        None => (Colour::Nth(COLOURS), MORE.to_owned()),
    };
    let bars = RunBars(runs(shown));
    let places: Vec<(&str, u32)> = bars.ranks().map(|(run, _, rank)| (run, rank.rank)).collect();
    let mut series: Vec<Series<f64>> = Vec::new();
    for part in parts.iter().filter(|part| part.time.mean > 0.0) {
        let Some(bar) = places.iter().position(|place| *place == (part.run, part.rank)) else { continue };
        let (colour, operation) = named(&part.operation);
        let name = format!("{operation}: {}", part.share.label());
        let own = series.iter().position(|series| series.name == name).unwrap_or_else(|| {
            let new = Series::new(name, vec![0.0; places.len()]).coloured(colour).textured(part.share.texture());
            series.push(new);
            series.len() - 1
        });
        series[own].data[bar] += part.time.mean / 1e6;
    }
    let colours = operations.iter().take(COLOURS + 1).map(|operation| named(operation));
    let colours = colours.map(|(colour, name)| key(&name, colour, Texture::Plain));
    let shares = PartShare::all().filter(|share| parts.iter().any(|part| part.share == *share && part.time.mean > 0.0));
    let shares = shares.map(|share| key(share.label(), Colour::Subject, share.texture()));
    let keys = colours.chain(shares).collect();
    let plot = StackedBars { keys, ..bars.plot("time per iteration (ms)", series, Vec::new()) };
    let caption = "The colour is the operation, the stripes are whose time it is: the GPU's whenever it works, else the category's. Means; standard deviations are in the data file next to it.";
    Chart::new("Time by operation", caption, Plot::StackedBars(plot))
}

fn key(name: &str, colour: Colour, texture: Texture) -> Series<f64> {
    Series::new(name, [0.0; 0]).coloured(colour).textured(texture)
}

impl PartShare {
    fn all() -> impl Iterator<Item = Self> {
        [PartShare::Gpu].into_iter().chain(TimeCategory::ALL.map(PartShare::Idle))
    }

    fn label(self) -> &'static str {
        match self {
            PartShare::Gpu => "GPU",
            PartShare::Idle(category) => category.name(),
        }
    }

    /// Nanoseconds; none if the trace lacks them.
    fn nanoseconds(self, sets: &TimeSets) -> Option<i64> {
        match self {
            PartShare::Gpu => Some(sets.gpu_busy()),
            PartShare::Idle(category) => sets.get(category, false),
        }
    }

    /// As published: GPU `\\`, C++ `|`, Python `/`; the toolkit did not distinguish the others.
    fn texture(self) -> Texture {
        match self {
            PartShare::Gpu => Texture::Falling,
            PartShare::Idle(TimeCategory::Python) => Texture::Rising,
            PartShare::Idle(TimeCategory::CudaApi) => Texture::Crossed,
            PartShare::Idle(TimeCategory::Wait) => Texture::Plain,
            PartShare::Idle(TimeCategory::Cpp | TimeCategory::CppOrCudaApi) => Texture::Upright,
            PartShare::Idle(TimeCategory::PythonOrWait | TimeCategory::Unrecorded) => Texture::Level,
        }
    }
}
