//! Writes `report.html`: the headline and the data it rests on, from whole runs down to single calls.

mod accelerators;
mod by_category;
mod colours;
mod flame_graph;
mod iteration;
mod longest_calls;
mod operations;
mod origin;
mod over_iterations;

use super::run::TracedRun;
use super::{BreakdownResults, differences, headline, tables};
use crate::{CallStacks, Iteration, Metric, RankBreakdown, TimeCategory};
use perf4sight_base::summary::ValueSummary;
use perf4sight_base::units::{Milliseconds, Percent};
use perf4sight_report::{Block, Cell, Fact, Page, Table, TableBuilder, sentence};
use perf4sight_traces::RankTrace;
use tables::RankScope;

pub(super) fn build_page(shown: &BreakdownResults) -> Page {
    let run = &shown.run;
    let mut page = Page::new(format!("Where an iteration of {} spends its time", origin::name(run)), subtitle(run));
    page.chapter("What takes the time", answers(shown));
    let Some(typical) = TypicalIteration::select(run) else {
        page.chapter("Traces", origin::blocks(run));
        return page;
    };
    if shown.after.is_some() {
        page.chapter("Before and after", by_category::before_and_after(shown));
    }
    page.chapter("Whose time it is", by_category::blocks(run));
    page.chapter("By operation", operations::blocks(shown, &typical));
    if run.has_accelerators() {
        page.chapter("Accelerators", accelerators::blocks(run));
    }
    page.chapter("One iteration", iteration::blocks(&typical));
    page.chapter("What takes longest", longest_calls::blocks(run, &typical));
    page.chapter("Who calls what", flame_graph::blocks(&typical));
    page.chapter("Iterations over time", over_iterations::blocks(run, &typical));
    page.chapter("Published metrics", [Block::Table(metrics(run))]);
    page.chapter("Traces", origin::blocks(run));
    page
}

/// The rank and the iteration that are shown in full.
struct TypicalIteration<'a> {
    ranked: &'a RankTrace,
    rank: &'a RankBreakdown,
    iteration: &'a Iteration,
    stacks: &'a CallStacks,
    of_several: bool,
}

impl<'a> TypicalIteration<'a> {
    /// Selects the rank whose iterations take longest, because the others wait for it.
    fn select(run: &'a TracedRun) -> Option<Self> {
        let mean = |rank: &RankBreakdown| rank.summary(length).map_or(0.0, |summary| summary.mean);
        let counting = run.ranks().filter(|(_, rank)| rank.counted_iterations().next().is_some());
        let (ranked, rank) = counting.min_by(|(_, a), (_, b)| mean(b).total_cmp(&mean(a)))?;
        let median = rank.summary(length)?.median;
        let off = |iteration: &&Iteration| (length(iteration).unwrap_or(0.0) - median).abs();
        let iteration = rank.counted_iterations().min_by(|a, b| off(a).total_cmp(&off(b)))?;
        let stacks = run.stacks_of(rank)?;
        Some(TypicalIteration { ranked, rank, iteration, stacks, of_several: run.traces.len() > 1 })
    }

    /// The end of a title that names the rank, if there are others.
    fn rank_suffix(&self) -> String {
        match self.of_several {
            true => format!(" of rank {}, whose iterations take longest", self.rank.rank),
            false => String::new(),
        }
    }
}

fn length(iteration: &Iteration) -> Option<f64> {
    Some(iteration.sets.total() as f64)
}

fn milliseconds(nanoseconds: f64) -> f64 {
    nanoseconds / 1e6
}

fn subtitle(run: &TracedRun) -> String {
    let files: Vec<String> = run.traces.iter().map(|ranked| ranked.trace.file.display().to_string()).collect();
    match files.as_slice() {
        [] => "No trace.".to_owned(),
        [file] => format!("From the trace {file}."),
        [first, .., last] => format!("From {} traces, {first} to {last}.", files.len()),
    }
}

fn answers(shown: &BreakdownResults) -> Vec<Block> {
    let mut blocks = vec![Block::Text(sentence(&headline::headline(&shown.run)))];
    blocks.extend(RankScope::main(&shown.run).map(|whose| Block::Headline(headline(&shown.run, whose))));
    if let Some((_, comparison)) = &shown.after {
        blocks.push(Block::Text(sentence(&differences::answer_line(comparison))));
    }
    let warnings: Vec<String> = shown.warnings.iter().map(|warning| sentence(warning)).collect();
    blocks.extend(Some(warnings).filter(|warnings| !warnings.is_empty()).map(Block::List));
    blocks
}

fn headline(run: &TracedRun, whose: RankScope) -> Vec<Fact> {
    let total = whose.summary(length);
    let mean = |summary: Option<ValueSummary>| summary.map(|summary| Milliseconds(milliseconds(summary.mean)));
    let share = |number: &dyn Fn(&Iteration) -> Option<f64>| {
        let (part, whole) = (whose.summary(number)?.mean, total?.mean);
        (whole > 0.0).then(|| Percent(100.0 * part / whole))
    };
    let sure = |interval: Option<[f64; 2]>| {
        let [low, high] = interval?.map(|end| Milliseconds(milliseconds(end)));
        Some(format!("95 %: {low} – {high}"))
    };
    let iterations = match whose.count() {
        1 => "of 1 iteration".to_owned(),
        count => format!("mean of {count} iterations"),
    };
    let mut facts =
        vec![
            Fact::new("an iteration", mean(total)).remark(
                sure(total.and_then(|total| total.interval))
                    .map_or(iterations.clone(), |sure| format!("{iterations}; {sure}")),
            ),
        ];
    if let Some(without) = whose.without_recording() {
        let (mean, taken) = match whose.correction_holds() {
            true => (Milliseconds(milliseconds(without.mean)).into(), "what the profiler takes is taken out"),
            false => (Cell::Missing, "what the profiler takes is taken out, which failed where it was checked"),
        };
        facts.push(
            Fact::new("without recording", mean)
                .remark(sure(without.interval).map_or(taken.to_owned(), |sure| format!("{taken}; {sure}"))),
        );
    }
    let python = share(&|iteration| Some(iteration.sets.category(TimeCategory::Python)? as f64));
    let unknown = if python.is_some() { "of the iteration" } else { "unknown: not in the trace" };
    facts.push(Fact::new("in Python", python).remark(unknown));
    if run.has_accelerators() {
        let busy = share(&|iteration| Some(iteration.sets.gpu_busy() as f64));
        facts.push(Fact::new("GPU busy", busy).remark("of the iteration"));
    }
    let speedup =
        headline::theoretical_speedup(whose).map_or(Cell::Missing, |speedup| Cell::Text(format!("{speedup:.2}")));
    facts.push(Fact::new("TheoreticalSpeedup", speedup).remark("all time by that in calls into C++ and CUDA"));
    facts
}

fn metrics(run: &TracedRun) -> Table {
    let whose = RankScope::main(run);
    let summary = |metric: Metric| whose?.summary(|iteration| metric.compute(&iteration.sets));
    let is_shown = |metric: &Metric| {
        let is_zero = || summary(*metric).is_some_and(|none| none.mean == 0.0);
        !(metric.is_of_gpu() && !run.has_accelerators() && is_zero())
    };
    let mean = |metric: Metric| summary(metric).map_or(Cell::from("unknown"), |summary| summary.mean.into());
    let shown = Metric::ALL.into_iter().filter(|metric| whose.is_some() && is_shown(metric));
    TableBuilder::new("Published metrics, per iteration", shown)
        .text("metric", "metric", |metric| metric.name())
        .text("unit", "in", |metric| metric.unit().name())
        .number("mean", "mean", |metric| mean(*metric))
        .number("spread", "spread", |metric| summary(*metric)?.spread)
        .number("low", "95 % from", |metric| Some(summary(*metric)?.interval?[0]))
        .number("high", "to", |metric| Some(summary(*metric)?.interval?[1]))
        .text("about", "which is", |metric| metric.about())
        .table()
}
