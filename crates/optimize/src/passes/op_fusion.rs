//! Which operations to compute together: what `torch.compile` fuses, searched on the graph of one rank.

use super::merges::merges;
use super::recorded_optimizer::{OF_CLOSURE, OF_PASSES, calls_closure, optimizer};
use super::{
    ChangeProposal, FusedOperations, LearningEffect, OptimizationPass, PassResults, PassSettings, bytes_of_prediction,
};
use crate::changes::{FusedGroup, FusedGroups, FusedUpdate, has_kernels};
use crate::search::{ContinueSearch, EvaluatedMove, FusionClass, FusionState, SearchWalk, UnitGraph, operation};
use crate::start::RecordedStart;
use perf4sight_base::error::{Error, Result, nearest};
use perf4sight_base::input_file;
use perf4sight_base::units::count_text;
use perf4sight_operations::class_of;
use perf4sight_replay::graph::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// Kinds of groups that the proposal names.
const NAMED: usize = 3;

/// Groups of more operations are named by their first and last.
const LONG: usize = 4;

/// The pass.
#[derive(Debug)]
pub(super) struct OpFusion;

pub(super) const NAME: &str = "op_fusion";

/// The published file of groups.
pub(super) const CLUSTERS: &str = "cluster_mapping.txt";

impl OptimizationPass for OpFusion {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, start: &RecordedStart, wanted: &PassSettings) -> Result<()> {
        FusionCandidates::read(start, wanted).map(drop)
    }

    fn memory(&self, start: &RecordedStart, wanted: &PassSettings) -> u64 {
        let graph = &start.recorded.typical.graph;
        let of_rank = |rank: u32| {
            graph.ids().filter(|id| graph.resource_of(*id).rank.is_none_or(|own| own == rank)).count() as u64
        };
        wanted.searches.bytes(of_rank(start.slowest())).max(bytes_of_prediction(graph))
    }

    fn run(&self, start: &RecordedStart, wanted: &PassSettings, go_on: &ContinueSearch<'_>) -> Result<PassResults> {
        let candidates = FusionCandidates::read(start, wanted)?;
        let (graph, launches) = candidates.slowest(start);
        let mut found = PassResults::default();
        fused_update(start, &mut found);
        found.nothing.extend(launches.err().map(|why| {
            format!("the model of operations does not say what launches take, and fusion saves traffic alone: {why}")
        }));
        if graph.pairs().next().is_none() {
            let of =
                if wanted.candidates.is_some() { "candidates are neighbours" } else { "neighbours are operations" };
            found.nothing.push(format!("torch.compile fuses nothing here: no {of} that compilers fuse"));
            return Ok(found);
        }
        let first = FusionState::new(&graph, wanted.simulate);
        let walks = wanted.searches.run(&wanted.searches.all(), &first, go_on)?;
        let Some(walk) = walks.iter().min_by_key(|walk| walk.best_state().step()) else { return Ok(found) };
        let groups = walk.best_state().groups();
        found.nothing.extend(assumption_text(&graph));
        found.unanswered.extend(interruption_text(&walks));
        found.files.push(("search_trajectory.txt", trajectory(walk.trajectory())));
        if !groups.is_empty() {
            let numbers = start.recorded.typical.ranks.iter().map(|rank| rank.number);
            // One graph at a time: of all ranks they would take most of the memory.
            let ranks = numbers.filter_map(|number| {
                let other = candidates.graph(start, number);
                is_alike(&graph, &other).then(|| on_rank(&graph, &other, walk.best_state()))
            });
            let ranks: Vec<Vec<FusedGroup>> = ranks.collect();
            let fused = fused_operations(&graph, &groups, &ranks, wanted.simulate);
            let edit = Arc::new(edit(&fused));
            found.nothing.extend(products_apart(&graph, &groups));
            let change = format!("{}: fuses {}", compiler(start, &fused), fusion_text(&graph, &groups));
            keep(fused, ChangeProposal::new(NAME, change, edit, LearningEffect::Rounded, start)?, &mut found);
        }
        found.trajectory = walk.trajectory().to_vec();
        Ok(found)
    }
}

/// Proposes the optimizer's update in one kernel, where PyTorch has it.
fn fused_update(start: &RecordedStart, found: &mut PassResults) {
    let Some(optimizer) = optimizer(&start.recorded.typical.graph) else { return };
    let Some(share) = optimizer.fused else { return };
    if calls_closure(&start.recorded.typical.graph) {
        found.nothing.push(format!("fused=True of {}: {OF_CLOSURE}", optimizer.name));
        return;
    }
    // PyTorch has it on processors since 2.4 and on GPUs since 2.12 (its pull requests 124905 and 177672).
    let is_new = optimizer.name == "Adagrad" && has_kernels(&start.recorded.typical);
    let since = if is_new { ", with PyTorch 2.12 or later" } else { "" };
    let change = format!("torch.optim.{}(..., fused=True){since}", optimizer.name);
    found.propose(
        ChangeProposal::new(NAME, &change, Arc::new(FusedUpdate(share)), LearningEffect::Rounded, start),
        &change,
    );
}

/// The operations that may be fused; all that compilers fuse, if none are named.
struct FusionCandidates(Option<BTreeSet<String>>);

impl FusionCandidates {
    fn read(start: &RecordedStart, wanted: &PassSettings) -> Result<Self> {
        wanted.candidates.as_deref().map(|file| candidates(start, file)).transpose().map(FusionCandidates)
    }

    /// The graph of a rank.
    fn graph(&self, start: &RecordedStart, rank: u32) -> UnitGraph {
        let is_candidate = |name: &str| self.0.as_ref().is_none_or(|named| named.contains(name));
        UnitGraph::from_step(&start.recorded.typical, &start.schedule, rank, &is_candidate)
    }

    /// The graph that is searched, and whether the model of operations says what its launches take.
    fn slowest(&self, start: &RecordedStart) -> (UnitGraph, Result<()>) {
        let mut graph = self.graph(start, start.slowest());
        let launches = set_launches(&mut graph, start);
        (graph, launches)
    }
}

/// The graph that is searched; none if nothing may be fused.
///
/// # Errors
/// Candidates that nobody recorded.
pub fn searched_graph(start: &RecordedStart, wanted: &PassSettings) -> Result<Option<UnitGraph>> {
    let (graph, _) = FusionCandidates::read(start, wanted)?.slowest(start);
    Ok(Some(graph).filter(|graph| graph.pairs().next().is_some()))
}

/// Sets what kernels take however little they move, where a model of operations says it.
fn set_launches(graph: &mut UnitGraph, start: &RecordedStart) -> Result<()> {
    let Some((model, device)) = start.known.device()? else { return Ok(()) };
    for unit in graph.units.iter_mut().filter(|unit| !unit.launches.is_empty()) {
        let launch = class_of(&unit.name).and_then(|class| model.launch_us(class, &device));
        unit.fixed = launch.map_or(0, |launch| (1e3 * launch) as u64).min(unit.duration);
    }
    Ok(())
}

/// Groups with their names and what they are on each rank.
fn fused_operations(
    graph: &UnitGraph,
    groups: &[Vec<u32>],
    ranks: &[Vec<FusedGroup>],
    simulate: bool,
) -> Vec<FusedOperations> {
    let names = graph.unique_names();
    let one = |(place, group): (usize, &Vec<u32>)| FusedOperations {
        names: group.iter().map(|unit| names[*unit as usize].clone()).collect(),
        merges: merges("+", &group.iter().map(|unit| graph.units[*unit as usize].name.as_str()).collect::<Vec<_>>()),
        on_ranks: ranks.iter().map(|rank| rank[place].clone()).collect(),
        simulate,
    };
    groups.iter().enumerate().map(one).collect()
}

/// The change of the step on all ranks.
pub(super) fn edit(fused: &[FusedOperations]) -> FusedGroups {
    let groups = fused.iter().flat_map(|one| one.on_ranks.iter().cloned()).collect();
    FusedGroups { groups, simulate: fused.iter().any(|one| one.simulate), bound: 0.0 }
}

/// Keeps what the search found if the replay of all ranks finds it no longer than the step as it is.
fn keep(fused: Vec<FusedOperations>, proposal: ChangeProposal, found: &mut PassResults) {
    if proposal.gain()[0] < 0.0 {
        found
            .nothing
            .push("what the search found is not shorter where all ranks are replayed, and not proposed".to_owned());
        return;
    }
    found.files.push((CLUSTERS, cluster_mapping(&fused)));
    found.strategy = fused.iter().flat_map(|one| one.merges.clone()).collect();
    found.fused = fused;
    found.proposals.push(proposal);
}

/// The lines of a file of operations that may be fused, numbered from 1.
///
/// # Errors
/// A file that cannot be read, or that names no operation.
pub fn candidate_lines(file: &Path) -> Result<Vec<(usize, String)>> {
    let text = input_file::text(file, "read the operations that may be fused")?;
    let lines = text.lines().enumerate().map(|(line, text)| (line + 1, text.trim().to_owned()));
    let lines: Vec<(usize, String)> = lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('#')).collect();
    match lines.is_empty() {
        true => Err(Error::input("no operation is named that may be fused")
            .file(file)
            .expected("names of operations as in the traces, one a line")),
        false => Ok(lines),
    }
}

/// The operations of a file, one a line, each of which was recorded.
fn candidates(start: &RecordedStart, file: &Path) -> Result<BTreeSet<String>> {
    let recorded: BTreeSet<&str> = start.recorded.typical.graph.calls().names().collect();
    let name = |(line, text): (usize, String)| {
        let found = [text.clone(), format!("aten::{text}")].into_iter().find(|name| recorded.contains(name.as_str()));
        found.ok_or_else(|| {
            let error = Error::input(format!("no operation \"{text}\" was recorded")).file(file).line(line);
            match nearest(&text, recorded.iter().copied()) {
                Some(near) => error.help(format!("did you mean {near}?")),
                None => error.expected("names of operations as in the traces, one a line"),
            }
        })
    };
    candidate_lines(file)?.into_iter().map(name).collect()
}

/// What the searches rest on.
fn assumption_text(graph: &UnitGraph) -> Option<String> {
    (!graph.data_known).then(|| {
        "the traces do not say who reads what: neighbours on a thread or stream are taken for writer and reader"
            .to_owned()
    })
}

/// That they did not end.
fn interruption_text(walks: &[SearchWalk<'_>]) -> Option<String> {
    let evaluated: u64 = walks.iter().map(SearchWalk::evaluated).sum();
    walks.iter().any(|walk| !walk.has_ended()).then(|| {
        format!(
            "the search was interrupted after {}; the best so far counts, and the same command goes on",
            count_text(evaluated, "move")
        )
    })
}

/// `operation cluster`, a line for each operation of a group.
pub(super) fn cluster_mapping(fused: &[FusedOperations]) -> String {
    let mut text = String::new();
    for (cluster, group) in fused.iter().enumerate() {
        for name in &group.names {
            // A string takes any text.
            let _ = writeln!(text, "{name} {cluster}");
        }
    }
    text
}

/// As published, but with the number of the move instead of the time, so that the same seed gives the same file:
/// `number: number,gain of the state,gain of the best` in percent.
fn trajectory(visits: &[EvaluatedMove]) -> String {
    let first = visits.first().map_or(1, |visit| visit.current).max(1) as f64;
    let gain = |step: u64| 100.0 * (1.0 - step as f64 / first);
    visits.iter().fold(String::new(), |mut text, EvaluatedMove { number, current, best }| {
        let _ = writeln!(text, "{number}: {number},{},{}", gain(*current), gain(*best));
        text
    })
}

/// What the program has to do, and which groups come most often.
fn fusion_text(graph: &UnitGraph, groups: &[Vec<u32>]) -> String {
    let bare = |unit: &u32| graph.units[*unit as usize].name.trim_start_matches("aten::").to_owned();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for group in groups {
        let names: Vec<String> = group.iter().map(bare).collect();
        let pattern = match names.len() > LONG {
            true => format!("{} + ... + {} ({} operations)", names[0], names[names.len() - 1], names.len()),
            false => names.join(" + "),
        };
        *counts.entry(pattern).or_default() += 1;
    }
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let more = counts.len().saturating_sub(NAMED);
    let named = counts.iter().take(NAMED).map(|(pattern, count)| format!("{pattern} ({})", count_text(*count, "time")));
    let more = (more > 0).then(|| format!("{more} more kinds"));
    named.chain(more).collect::<Vec<_>>().join(", ")
}

/// That some groups are fused in another mode alone (`epilogue_fusion` of torch/_inductor/config.py: templates of products are for max-autotune).
fn products_apart(graph: &UnitGraph, groups: &[Vec<u32>]) -> Option<String> {
    let is_product = |unit: &u32| {
        operation(&graph.units[*unit as usize].name).is_some_and(|operation| operation.class == FusionClass::Product)
    };
    let with_products = groups.iter().filter(|group| group.iter().any(is_product)).count();
    (with_products > 0).then(|| {
        format!(
            "{with_products} of {} groups begin with a product or convolution, which torch.compile leaves to a library unless mode=\"max-autotune\" finds a faster one",
            groups.len()
        )
    })
}

/// The ranges that PyTorch's profiler makes of compiled code (torch/_dynamo and torch/_functorch/_aot_autograd).
const COMPILED: [&str; 2] = ["Torch-Compiled Region", "CompiledFunction"];

/// What a script calls to have operations fused; part of it may be compiled already, and some of the operations may be of the loss.
pub(super) fn compiler(start: &RecordedStart, fused: &[FusedOperations]) -> &'static str {
    let graph = &start.recorded.typical.graph;
    let starts = |name: &str, ranges: &[&str]| ranges.iter().any(|range| name.starts_with(range));
    let of_passes = |id: &NodeId| graph.calls().path(graph.node(*id).call).any(|name| starts(name, &OF_PASSES));
    let mut nodes = fused.iter().flat_map(|one| &one.on_ranks).flat_map(|group| &group.nodes);
    if graph.calls().names().any(|name| starts(name, &COMPILED)) {
        "torch.compile of what is not compiled yet"
    } else if graph.calls().names().any(|name| starts(name, &OF_PASSES)) && !nodes.all(of_passes) {
        "torch.compile of one function with the model and the loss"
    } else {
        "torch.compile(model)"
    }
}

/// Where each unit is: the place of its thread, stream or link among those of the rank, and its place there.
fn unit_places(graph: &UnitGraph) -> Vec<(usize, usize)> {
    let resources: BTreeSet<u32> = graph.units.iter().map(|unit| unit.resource).collect();
    let numbers: BTreeMap<u32, usize> = resources.into_iter().enumerate().map(|(place, one)| (one, place)).collect();
    let mut counts = vec![0; numbers.len()];
    let place = |unit: &crate::search::FusionUnit| {
        let resource = numbers[&unit.resource];
        counts[resource] += 1;
        (resource, counts[resource] - 1)
    };
    graph.units.iter().map(place).collect()
}

/// The units of a rank by where they are.
fn by_place(graph: &UnitGraph) -> BTreeMap<(usize, usize), usize> {
    unit_places(graph).into_iter().enumerate().map(|(unit, place)| (place, unit)).collect()
}

/// Whether two ranks do the same in the same order.
fn is_alike(one: &UnitGraph, other: &UnitGraph) -> bool {
    let names = |graph: &'_ UnitGraph| by_place(graph).into_values();
    let is_same = |(own, others): (usize, usize)| one.units[own].name == other.units[others].name;
    one.units.len() == other.units.len() && names(one).zip(names(other)).all(is_same)
}

/// The groups of the searched rank on one that does the same.
fn on_rank(searched: &UnitGraph, rank: &UnitGraph, best: &FusionState<'_>) -> Vec<FusedGroup> {
    let (own, other) = (unit_places(searched), by_place(rank));
    let unit = |unit: &u32| &rank.units[other[&own[*unit as usize]]];
    let group = |members: Vec<u32>| {
        let last = members[members.len() - 1];
        let all: u64 = members.iter().map(|member| searched.units[*member as usize].duration).sum();
        let gone = members.iter().filter(|member| **member != last && unit(member).launch_goes());
        let launches = gone.flat_map(|member| &unit(member).launches);
        let launches = launches.flat_map(|launch| rank.units[*launch as usize].nodes.iter().copied());
        let nodes: Vec<NodeId> = members.iter().flat_map(|member| unit(member).nodes.iter().copied()).collect();
        let share = best.time_of(last) as f64 / all.max(1) as f64;
        FusedGroup { takes: unit(&last).nodes[0], launches: launches.collect(), nodes, share }
    };
    best.groups().into_iter().map(group).collect()
}
