//! The search against exhaustive search, and partial replays against whole ones, on made-up graphs.

use super::*;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeSet;

/// A stream of operations, of which each reads one before it or two, and a link that sends the results of some.
pub(super) fn made_up(seed: u64, count: u32) -> UnitGraph {
    let mut draws = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut graph = UnitGraph { data_known: true, ..UnitGraph::default() };
    for place in 0..count {
        let name = ["aten::add", "aten::tanh", "aten::mm", "aten::sum"][draws.random_range(0..4)];
        graph.units.push(unit(name, 0, draws.random_range(1_000..100_000)));
        graph.outputs.push(Vec::new());
        graph.inputs.push(Vec::new());
        let computes = |place: u32| graph.units[place as usize].resource == 0;
        let before: Vec<u32> =
            (0..graph.units.len() as u32 - 1).rev().filter(|place| computes(*place)).take(3).collect();
        let own = graph.units.len() as u32 - 1;
        let reads: BTreeSet<u32> = (0..2).filter_map(|_| before.get(draws.random_range(0..3)).copied()).collect();
        reads.into_iter().for_each(|read| connect(&mut graph, read, own));
        if place % 4 == 3 {
            graph.units.push(unit("all-reduce", 1, draws.random_range(1_000..200_000)));
            graph.outputs.push(Vec::new());
            graph.inputs.push(Vec::new());
            connect(&mut graph, own, own + 1);
        }
    }
    let is_fused =
        |unit: u32| graph.units[unit as usize].operation.is_some_and(|one| one.class != FusionClass::Product);
    let read = |unit: usize| graph.outputs[unit].iter().copied().filter(|to| is_fused(*to)).collect::<Vec<_>>();
    let is_first = |unit: &usize| graph.units[*unit].operation.is_some();
    graph.readers = (0..graph.units.len()).map(|unit| if is_first(&unit) { read(unit) } else { Vec::new() }).collect();
    graph
}

fn unit(name: &str, resource: u32, duration: u64) -> FusionUnit {
    FusionUnit {
        nodes: Vec::new(),
        duration,
        resource,
        operation: operation(name),
        name: name.to_owned(),
        fixed: 0,
        launches: Vec::new(),
    }
}

fn connect(graph: &mut UnitGraph, from: u32, to: u32) {
    graph.outputs[from as usize].push(to);
    graph.inputs[to as usize].push(from);
}

/// When the last group ends, by asking each in turn until none moves any more: only the order of each thread or link is taken
/// from the state.
fn by_relaxation(graph: &UnitGraph, state: &FusionState<'_>) -> u64 {
    let queue: Vec<(u32, Vec<u32>)> = state.in_order().map(|group| (group, state.members(group))).collect();
    let mut ends = vec![0; graph.units.len()];
    for _ in 0..=queue.len() {
        let mut free = [0, 0];
        for (group, members) in &queue {
            let resource = graph.units[*group as usize].resource as usize;
            let inputs = members.iter().flat_map(|unit| &graph.inputs[*unit as usize]);
            let ready = inputs.filter(|input| !members.contains(input)).map(|input| ends[*input as usize]).max();
            free[resource] = free[resource].max(ready.unwrap_or(0)) + state.time_of(*group);
            members.iter().for_each(|unit| ends[*unit as usize] = free[resource]);
        }
    }
    ends.into_iter().max().unwrap_or(0)
}

#[test]
fn partial_replays_give_the_step_of_whole_ones_after_any_moves() {
    for seed in 0..60 {
        let graph = made_up(seed, 30);
        let mut draws = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut state = FusionState::new(&graph, seed % 2 == 0);
        assert_eq!(state.step(), by_relaxation(&graph, &state), "{seed}: at first");
        for _ in 0..40 {
            let moves = state.candidate_moves();
            if moves.is_empty() {
                break;
            }
            let made = moves[draws.random_range(0..moves.len())];
            let before = state.groups();
            let mut next = state.clone();
            if next.apply(made) {
                assert_ne!(next.groups(), before, "{seed}: {made:?}");
                state = next;
            }
            assert_eq!(state.step(), by_relaxation(&graph, &state), "{seed}: {made:?}, {:?}", state.groups());
        }
    }
}

/// The shortest step of all states that fusing pairs in any order reaches, each order on its own.
fn exhaustive(state: &FusionState<'_>, pairs: &[(u32, u32)]) -> u64 {
    let after = |(first, second): &(u32, u32)| {
        let mut next = state.clone();
        let left: Vec<(u32, u32)> = pairs.iter().copied().filter(|pair| pair != &(*first, *second)).collect();
        next.apply(FusionMove::Fuse(*first, *second)).then(|| exhaustive(&next, &left))
    };
    pairs.iter().filter_map(after).fold(state.step(), u64::min)
}

/// A search of a state to its end.
fn searched<'a>(optimizer: SearchMethod, seed: u64, moves: u64, start: &FusionState<'a>) -> SearchWalk<'a> {
    let mut walk = SearchWalk::new(SearchOptions { optimizer, seed, moves }, start);
    walk.run(&mut |_| true);
    walk
}

#[test]
fn the_search_finds_the_optimum_of_small_graphs() {
    for seed in 0..60 {
        let graph = made_up(seed, 6);
        let pairs: Vec<(u32, u32)> = graph.pairs().collect();
        let start = FusionState::new(&graph, false);
        let best = exhaustive(&start, &pairs);
        for optimizer in [SearchMethod::Mcmc, SearchMethod::Mcts] {
            let walk = searched(optimizer, 1, 5_000, &start);
            let found = walk.best_state();
            // Parting groups leads to orders that fusing alone does not.
            let (step, groups) = (found.step(), found.groups());
            assert!(step <= best, "{seed}: {optimizer:?} found {groups:?}, {step} for {best}");
        }
    }
}

#[test]
fn the_same_seed_finds_the_same_and_nothing_is_worse_than_the_start() {
    let graph = made_up(7, 200);
    let start = FusionState::new(&graph, false);
    for optimizer in SearchMethod::ALL {
        let [one, other] = [(); 2].map(|()| searched(optimizer, 5, 500, &start));
        assert_eq!(one.checkpoint(), other.checkpoint(), "{optimizer:?}");
        // A step of the tree is seventeen moves at most.
        assert!(one.best_state().step() <= start.step() && one.evaluated() < 500 + 17, "{optimizer:?}");
    }
}

/// However often it is interrupted, and by files: the same as in one go.
#[test]
fn an_interrupted_search_goes_on_as_if_it_had_not_been() {
    let folder = tempfile::tempdir().unwrap();
    for (optimizer, operations) in SearchMethod::ALL.into_iter().flat_map(|one| [(one, 200), (one, 6)]) {
        let graph = made_up(7, operations);
        let start = FusionState::new(&graph, false);
        let first = SearchOptions { optimizer, seed: 3, moves: 900 };
        let searches = SearchSettings { first, count: 1, folder: folder.path().join(operations.to_string()) };
        let mut parts = 0;
        let last = loop {
            let begun = searches.resume(first, &start).unwrap().evaluated();
            let looks = std::sync::atomic::AtomicU64::new(0);
            let enough = |_| looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 20;
            let walk = searches.run(&[first], &start, &enough).unwrap().remove(0);
            parts += 1;
            assert!(walk.has_ended() || walk.evaluated() > begun || parts < 100, "it goes no further");
            if walk.has_ended() {
                break walk;
            }
        };
        assert_eq!(last.checkpoint(), searched(optimizer, 3, 900, &start).checkpoint(), "{optimizer:?} {operations}");
        assert!(parts > 1 || operations == 6);
    }
}

#[test]
fn a_search_is_gone_on_with_if_it_is_the_same_and_whole() {
    let folder = tempfile::tempdir().unwrap();
    let [graph, other] = [7, 8].map(|seed| made_up(seed, 60));
    let [start, changed] = [&graph, &other].map(|graph| FusionState::new(graph, false));
    let first = SearchOptions { optimizer: SearchMethod::Mcmc, seed: 0, moves: 300 };
    let searches = SearchSettings { first, count: 1, folder: folder.path().to_owned() };
    searches.run(&[first], &start, &|_| true).unwrap();
    let known = |search: SearchOptions, start: &FusionState<'_>| searches.resume(search, start).unwrap().evaluated();
    assert!(known(first, &start) >= 300);
    // More moves go on; fewer may lie before where the file is.
    assert!(known(SearchOptions { moves: 400, ..first }, &start) >= 300);
    assert_eq!(known(SearchOptions { moves: 200, ..first }, &start), 0);
    assert_eq!([known(first, &changed), known(first, &FusionState::new(&graph, true))], [0, 0]);
    let file = SearchSettings::file(folder.path(), first);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"evaluated\":3", "\"evaluated\":2")).unwrap();
    assert_eq!(known(first, &start), 0);
    std::fs::write(&file, "mine").unwrap();
    let error = searches.run(&[first], &start, &|_| true).unwrap_err().to_string();
    assert!(error.contains("not written by perf4sight"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

/// A chain of element-wise operations that each read and write one tensor: together they read one and write one, which is what a single one
/// takes.
#[test]
fn a_long_chain_becomes_one_group() {
    let count: u32 = 1_000;
    let mut graph = UnitGraph { data_known: true, ..UnitGraph::default() };
    graph.units = (0..count).map(|_| unit("aten::relu", 0, 1_000)).collect();
    [graph.inputs, graph.outputs] = [vec![Vec::new(); count as usize], vec![Vec::new(); count as usize]];
    (1..count).for_each(|own| connect(&mut graph, own - 1, own));
    graph.readers = graph.outputs.clone();
    let start = FusionState::new(&graph, false);
    let mut walk = SearchWalk::new(SearchOptions { optimizer: SearchMethod::Dp, seed: 0, moves: count.into() }, &start);
    walk.run(&mut |_| true);
    assert_eq!((walk.best_state().groups().len(), walk.best_state().step()), (1, 1_000));
}

/// A product inside of the call that PyTorch's layers make, and what follows it, are candidates by their own names; a name that is none leaves nothing to fuse.
#[test]
fn candidates_inside_of_calls_that_compute_nothing_are_found() {
    use perf4sight_replay::graph::{EdgeKind, GraphBuilder, Resource, ResourceKind, StepGraph, TaskNode, WorkKind};
    let mut builder = GraphBuilder::default();
    let resource = builder.resource(Resource { rank: Some(0), kind: ResourceKind::Thread, name: String::new() });
    let module = builder.call("DistributedDataParallel.forward", None);
    let linear = builder.call("aten::linear", Some(module));
    let [product, gelu] =
        [("aten::addmm", linear), ("aten::gelu", module)].map(|(name, around)| builder.call(name, Some(around)));
    let nodes = [linear, product, linear, gelu]
        .map(|call| builder.node(TaskNode { duration: 10, call, resource, kind: WorkKind::Operation, priority: 0 }));
    nodes.windows(2).for_each(|pair| builder.edge(pair[0], pair[1], EdgeKind::Order));
    let step = StepGraph { graph: builder.finish().unwrap(), ..StepGraph::default() };
    let schedule = perf4sight_replay::simulate::simulate(&step.graph);
    let fused = |candidates: &[&str]| {
        let graph = UnitGraph::from_step(&step, &schedule, 0, &|name| candidates.contains(&name));
        let name = |unit: u32| graph.units[unit as usize].name.clone();
        graph.pairs().map(|(one, other)| (name(one), name(other))).collect::<Vec<_>>()
    };
    assert_eq!(fused(&["aten::addmm", "aten::gelu"]), [("aten::addmm".to_owned(), "aten::gelu".to_owned())]);
    assert_eq!(fused(&["aten::addmm"]), []);
}
