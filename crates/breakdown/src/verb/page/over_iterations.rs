//! The duration of each iteration, and its categories, in order.

use super::colours::{GPU, of_category};
use super::{TypicalIteration, length, milliseconds};
use crate::verb::bars::rank_name;
use crate::verb::run::TracedRun;
use crate::{Iteration, RankBreakdown, TimeCategory};
use perf4sight_report::{Axis, Block, Chart, Line, Plot, Reference, Series, Value};

/// The largest number of points; more iterations are averaged in groups.
const POINTS: usize = 100;
const RANKS: usize = 8;

/// A line for each rank, and one for each category of the rank shown in full.
pub(super) fn blocks(run: &TracedRun, typical: &TypicalIteration) -> Vec<Block> {
    if run.breakdown.ranks.iter().all(|rank| rank.iterations.len() < 2) {
        return vec![Block::Text("There is one iteration only.".to_owned())];
    }
    vec![Block::Chart(ranks(run, typical)), Block::Chart(categories(run, typical))]
}

fn ranks(run: &TracedRun, typical: &TypicalIteration) -> Chart {
    let shown = run.breakdown.ranks.iter().take(RANKS);
    let series = shown.map(|rank| Series::new(rank_name(rank), line(rank, length))).collect();
    let left_out = match run.breakdown.ranks.len().saturating_sub(RANKS) {
        0 => String::new(),
        more => format!(" {more} more ranks are not drawn."),
    };
    let caption = format!("How long each iteration takes.{}{left_out}", grouped(typical.rank));
    Chart::new("Length of iterations", caption, Plot::Line(plot(series, typical.rank)))
}

fn categories(run: &TracedRun, typical: &TypicalIteration) -> Chart {
    let time = |category| {
        let values = line(typical.rank, move |own| own.sets.category(category).map(|time| time as f64));
        Series::new(category.name(), values).coloured(of_category(category))
    };
    let some = |series: &Series<Value>| series.data.iter().any(|value| value.y > 0.0);
    let mut series: Vec<Series<Value>> = TimeCategory::ALL.map(time).into_iter().filter(some).collect();
    if run.has_accelerators() {
        series.push(Series::new("GPU busy", line(typical.rank, |own| Some(own.sets.gpu_busy() as f64))).coloured(GPU));
    }
    let caption = format!("Whose time each iteration is{}.{}", typical.rank_suffix(), grouped(typical.rank));
    Chart::new("Categories over iterations", caption, Plot::Line(plot(series, typical.rank)))
}

fn plot(series: Vec<Series<Value>>, rank: &RankBreakdown) -> Line {
    let mut line = Line::new(Axis::linear("iteration"), Axis::linear("time (ms)"), series);
    if rank.warm_up.iterations > 0 {
        line.references.push(Reference::Upright(rank.warm_up.iterations as f64 + 0.5, "counted from here".to_owned()));
    }
    line
}

fn iterations_per_point(rank: &RankBreakdown) -> usize {
    rank.iterations.len().div_ceil(POINTS).max(1)
}

fn grouped(rank: &RankBreakdown) -> String {
    match iterations_per_point(rank) {
        1 => String::new(),
        count => format!(" A point is the mean of {count} iterations; the band holds the shortest and the longest."),
    }
}

/// Milliseconds by iteration, counted from 1.
fn line(rank: &RankBreakdown, number: impl Fn(&Iteration) -> Option<f64>) -> Vec<Value> {
    let together = iterations_per_point(rank);
    let value = |(at, group): (usize, &[Iteration])| {
        let times: Vec<f64> = group.iter().filter_map(&number).map(milliseconds).collect();
        let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
        let ends =
            times.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), time| (time.min(low), time.max(high)));
        let x = (at * together) as f64 + (group.len() as f64 + 1.0) / 2.0;
        (!times.is_empty()).then_some(Value { x, y: mean, interval: (together > 1).then_some(ends) })
    };
    rank.iterations.chunks(together).enumerate().filter_map(value).collect()
}
