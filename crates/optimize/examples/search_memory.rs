//! What a search of operator fusion takes of memory, against what is said before: `search_memory OPERATIONS SEARCHES`; without searches
//! what a prediction takes.

use perf4sight_base::error::{Error, Result};
use perf4sight_optimize::passes::bytes_of_prediction;
use perf4sight_optimize::search::{FusionState, SearchMethod, SearchOptions, SearchSettings, UnitGraph};
use perf4sight_replay::graph::{EdgeKind, GraphBuilder, NodeId, Resource, ResourceKind, StepGraph, TaskNode, WorkKind};
use perf4sight_replay::simulate::simulate;
use std::fs;

/// Operations of a block of a transformer, again and again.
const BLOCK: [&str; 8] = ["native_layer_norm", "addmm", "gelu", "mul", "addmm", "native_dropout", "add", "sum"];
const MOVES: u64 = 20;

fn main() -> Result<()> {
    let given: Vec<u32> = std::env::args().skip(1).filter_map(|number| number.parse().ok()).collect();
    let [size, count] = given[..] else {
        return Err(Error::usage("two numbers are needed").expected("search_memory OPERATIONS SEARCHES"));
    };
    let step = step(size)?;
    let folder = std::env::temp_dir().join(format!("search_memory.{}", std::process::id()));
    let first = SearchOptions { optimizer: SearchMethod::Mcmc, seed: 0, moves: MOVES };
    let searches = SearchSettings { first, count: count.into(), folder: folder.clone() };
    let before = resident("VmRSS")?;
    if count == 0 {
        predict(&step)?;
        let took = resident("VmHWM")? - before;
        let said = bytes_of_prediction(&step.graph) / 1_000_000;
        println!("{size} operations, a prediction: {took} MB, said {said} MB");
        return Ok(());
    }
    let groups = search(&step, &searches)?;
    let took = resident("VmHWM")? - before;
    let said = searches.bytes(size.into()) / 1_000_000;
    println!("{size} operations, {count} searches: {took} MB, said {said} MB ({groups} groups)");
    fs::remove_dir_all(&folder).map_err(|cause| Error::io(&folder, "remove", &cause))
}

/// A step with other edges, as predictions make and replay it.
fn predict(step: &StepGraph) -> Result<()> {
    let copy = step.clone();
    let before = simulate(&copy.graph);
    let changed = copy.graph.edit().finish()?;
    let after = simulate(&changed);
    println!("{} ns, {} ns", before.makespan(&copy.graph), after.makespan(&changed));
    Ok(())
}

/// As the pass does: the searched graph, the search, the names, and the graph of another rank.
fn search(step: &StepGraph, searches: &SearchSettings) -> Result<usize> {
    let schedule = simulate(&step.graph);
    let graph = UnitGraph::from_step(step, &schedule, 0, &|_| true);
    let walks = searches.run(&searches.all(), &FusionState::new(&graph, false), &|_| true)?;
    let other = UnitGraph::from_step(step, &schedule, 0, &|_| true);
    let names = other.unique_names();
    let best =
        walks.iter().min_by_key(|walk| walk.best_state().step()).map_or(0, |walk| walk.best_state().groups().len());
    Ok(best.min(names.len()))
}

/// A chain on one thread, each operation of which reads the one before it.
fn step(size: u32) -> Result<StepGraph> {
    let mut builder = GraphBuilder::default();
    let resource = builder.resource(Resource { rank: Some(0), kind: ResourceKind::Thread, name: String::new() });
    let mut last: Option<NodeId> = None;
    for place in 0..size {
        let call = builder.call(&format!("aten::{}", BLOCK[place as usize % BLOCK.len()]), None);
        let duration = 20_000 + 1_000 * u64::from(place % 17);
        let own = builder.node(TaskNode { duration, call, resource, kind: WorkKind::Operation, priority: 0 });
        if let Some(last) = last {
            builder.edge(last, own, EdgeKind::Data);
        }
        last = Some(own);
    }
    Ok(StepGraph { graph: builder.finish()?, ..StepGraph::default() })
}

/// Megabytes of a line of /proc/self/status.
fn resident(name: &str) -> Result<i64> {
    let file = "/proc/self/status";
    let text = fs::read_to_string(file).map_err(|cause| Error::io(file, "read", &cause))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<i64>().ok());
    kilobytes.map(|kilobytes| kilobytes / 1_000).ok_or_else(|| Error::input(format!("{file} has no {name}")))
}
