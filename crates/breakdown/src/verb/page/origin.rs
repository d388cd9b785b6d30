//! The input of the breakdown: the traces, and the marks of their iterations.

use crate::verb::run::TracedRun;
use crate::{IterationMarkers, RankBreakdown};
use perf4sight_base::units::list_text;
use perf4sight_report::{Block, Fact, Table, TableBuilder};
use perf4sight_traces::RankTrace;
use perf4sight_traces::shortened::cut;
use std::collections::BTreeSet;
use std::path::Path;

/// The maximum length of a name in a title.
const ROOM: usize = 60;
/// The largest number of ranges, accelerators or files that are named.
const NAMED: usize = 8;

/// A short name for the run: the name of its file; or of the folder, if there are several files or if `record` named
/// the file after its rank.
pub(super) fn name(run: &TracedRun) -> String {
    let files: Vec<&Path> = run.traces.iter().map(|ranked| ranked.trace.file.as_path()).collect();
    let last = |path: Option<&Path>| Some(path?.file_name()?.to_string_lossy().into_owned());
    let folder = || last(files.first().and_then(|file| file.parent()));
    let stem = |name: String| name.trim_end_matches(".gz").trim_end_matches(".json").to_owned();
    let is_rank = |name: &String| name.strip_prefix("rank").is_some_and(|rank| rank.parse::<u32>().is_ok());
    let own = if files.len() == 1 { last(files.first().copied()).map(stem) } else { None };
    let found = own.clone().filter(|name| !is_rank(name)).or_else(folder).or(own);
    cut(&found.unwrap_or_else(|| format!("{} ranks", files.len())), ROOM)
}

/// The facts, and a table of the ranks.
pub(super) fn blocks(run: &TracedRun) -> Vec<Block> {
    let devices: BTreeSet<&str> =
        run.traces.iter().flat_map(|ranked| &ranked.trace.header.devices).map(String::as_str).collect();
    let mut facts = vec![Fact::new("traces", run.traces.len())];
    if !devices.is_empty() {
        facts.push(Fact::new("accelerators", listed_names(devices.into_iter())));
    }
    let markers: BTreeSet<String> = run.breakdown.ranks.iter().map(|rank| markers(&rank.markers)).collect();
    facts.push(Fact::new("iterations are", listed_names(markers.iter().map(String::as_str))));
    facts.push(Fact::new("perf4sight", env!("CARGO_PKG_VERSION")));
    vec![Block::Facts(facts), Block::Table(ranks(run))]
}

fn listed_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    list_text(names.map(|name| cut(name, ROOM)), NAMED)
}

fn markers(markers: &IterationMarkers) -> String {
    match markers {
        IterationMarkers::Named(name) => format!("the events named {name:?}, as requested"),
        IterationMarkers::ProfilerSteps => "steps of the profiler".to_owned(),
        IterationMarkers::OptimizerSteps(name) => format!("from one step of the optimizer to the next ({name})"),
        IterationMarkers::Period { event, certainty } => {
            format!("what begins with {event:?}, which repeats: {:.0} % certain", 100.0 * certainty)
        }
        IterationMarkers::WholeTrace => "none: the whole trace counts as one".to_owned(),
    }
}

fn ranks(run: &TracedRun) -> Table {
    let streams = |rank: &RankBreakdown| {
        let all = rank.iterations.iter().flat_map(|iteration| &iteration.device.streams);
        all.map(|(track, _)| *track).collect::<BTreeSet<_>>().len()
    };
    let file = |ranked: &RankTrace| Some(cut(&ranked.trace.file.file_name()?.to_string_lossy(), ROOM));
    TableBuilder::new("Traces", run.ranks())
        .number("rank", "rank", |(_, rank)| u64::from(rank.rank))
        .number("events", "events", |(ranked, _)| ranked.trace.events.len())
        .number("threads", "threads", |(_, rank)| rank.threads.len())
        .number("streams", "streams", |(_, rank)| streams(rank))
        .number("iterations", "iterations", |(_, rank)| rank.counted_iterations().count())
        .number("warm_up", "left out as warm-up", |(_, rank)| rank.warm_up.iterations)
        .text("file", "file", |(ranked, _)| file(ranked))
        .table()
}
