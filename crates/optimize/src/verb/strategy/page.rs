//! Writes `report.html`: the answer, what to change, the step before and after, how the search went.

use super::{StrategyResults, tables};
use perf4sight_base::units::{Milliseconds, grouped_digits};
use perf4sight_replay::graph::{ResourceKind, StepGraph, WorkKind};
use perf4sight_replay::simulate::{NodeSchedule, simulate};
use perf4sight_report::{
    Axis, Block, Chart, Colour, Fact, Line, Page, Plot, Series, Texture, Timeline, TimelineSpan, Value, sentence,
};

/// The whole page.
pub(super) fn build_page(shown: &StrategyResults) -> Page {
    let mut page = Page::new("What to change in distributed training", subtitle(shown));
    page.chapter("The answer", answer_blocks(shown));
    page.chapter("The step before and after", timelines(shown));
    let others = tables::others(shown);
    if !others.is_empty() {
        page.chapter("For other programs", [Block::Table(others)]);
    }
    if shown.found.trajectory.len() > 1 {
        page.chapter("The search of operator fusion", [Block::Chart(trajectory(shown))]);
    }
    page
}

fn subtitle(shown: &StrategyResults) -> String {
    let step = &shown.start.recorded.typical;
    format!("{} ranks, {} operations a step.", step.ranks.len(), grouped_digits(step.graph.nodes().len() as u64))
}

fn answer_blocks(shown: &StrategyResults) -> Vec<Block> {
    let facts =
        vec![Fact::new(format!("the {} as it is", shown.start.step()), Milliseconds(shown.start.before as f64 / 1e6))];
    let mut blocks =
        vec![Block::Text(shown.answer.clone()), Block::Headline(facts), Block::Table(tables::proposals(shown))];
    let remarks: Vec<String> =
        shown.found.nothing.iter().chain(&shown.warnings).map(|remark| sentence(remark)).collect();
    blocks.extend(Some(remarks).filter(|remarks| !remarks.is_empty()).map(Block::List));
    blocks
}

/// The step as it is, and after what brings most.
fn timelines(shown: &StrategyResults) -> Vec<Block> {
    let (start, rank) = (&shown.start, shown.start.slowest());
    let best = shown.together.iter().chain(&shown.found.proposals).find(|proposal| proposal.edit.is_some());
    let before = timeline("As it is", &start.recorded.typical, &start.schedule, rank);
    // The change was made to this step before; if it failed then, there would be no proposal.
    let after = best.and_then(|best| Some((best, start.with_change(best.edit.as_ref()?).ok()?)));
    let after = after.map(|(best, step)| timeline(&best.change, &step, &simulate(&step.graph), rank));
    std::iter::once(before).chain(after).map(Block::Chart).collect()
}

/// The series of the timelines.
const SERIES: [(&str, Colour, &[WorkKind]); 4] = [
    ("kernel", Colour::Nth(3), &[WorkKind::Kernel]),
    ("operation", Colour::Nth(0), &[WorkKind::Operation, WorkKind::Launch]),
    ("nothing recorded", Colour::Nth(7), &[WorkKind::Gap, WorkKind::Start, WorkKind::Backlog, WorkKind::Wait]),
    ("transfer", Colour::Nth(4), &[WorkKind::Transfer]),
];

/// A step of one rank and its links.
fn timeline(title: &str, step: &StepGraph, schedule: &NodeSchedule, rank: u32) -> Chart {
    let graph = &step.graph;
    let resources: Vec<usize> = (0..graph.resources().len())
        .filter(|resource| graph.resources()[*resource].rank.is_none_or(|own| own == rank))
        .collect();
    let name = |resource: &usize| {
        let own = &graph.resources()[*resource];
        match own.kind {
            ResourceKind::Thread => format!("thread {}", own.name),
            ResourceKind::Stream => format!("stream {}", own.name),
            ResourceKind::Link => format!("link {}", own.name),
        }
    };
    let series = SERIES.map(|(series, colour, kinds)| {
        let own = graph.ids().filter(|id| kinds.contains(&graph.node(*id).kind) && graph.node(*id).duration > 0);
        let spans = own.filter_map(|id| {
            let track = resources.iter().position(|resource| *resource == graph.node(id).resource.index())?;
            let [start, end] = [schedule.start(id), schedule.end(graph, id)].map(|time| time as f64 / 1e6);
            Some(TimelineSpan { track, start, end, name: graph.name(id).to_owned() })
        });
        Series::new(series, spans).coloured(colour).textured(Texture::Plain)
    });
    let plot = Timeline {
        time: Axis::linear("time (ms)"),
        tracks: resources.iter().map(name).collect(),
        series: series.into_iter().filter(|series: &Series<TimelineSpan>| !series.data.is_empty()).collect(),
    };
    Chart::new(title, format!("A replayed step of rank {rank}, whose work ends last as it is."), Plot::Timeline(plot))
}

/// How much shorter the step of the searched rank got. A random search goes on from longer ones too, which are not drawn.
fn trajectory(shown: &StrategyResults) -> Chart {
    let visits = &shown.found.trajectory;
    let first = visits.first().map_or(1, |visit| visit.current).max(1);
    let gain = |step: u64| 100.0 * (1.0 - step as f64 / first as f64);
    let series = |name: &str, step: fn(&crate::search::EvaluatedMove) -> u64| {
        let shorter = visits.iter().filter(|visit| step(visit) <= first);
        Series::<Value>::new(name, shorter.map(|visit| (visit.number as f64, gain(step(visit)))))
    };
    let both = vec![series("current", |visit| visit.current), series("best", |visit| visit.best)];
    let plot = Line::new(Axis::linear("evaluated moves"), Axis::linear("shorter by (%)"), both);
    let words =
        format!("The step of rank {}, replayed by itself. Each marker is a move that was kept.", shown.start.slowest());
    Chart::new("How the step got shorter", words, Plot::Line(plot))
}
