//! The simulation against a second implementation, and what is read of it against finite differences.

mod random;

use perf4sight_base::error::Result;
use perf4sight_replay::graph::{EdgeKind, GraphBuilder, NodeId, Resource, ResourceKind, TaskGraph, TaskNode, WorkKind};
use perf4sight_replay::simulate::{critical_path, sensitivity, shares, simulate, slack};

/// Starts of nodes by going through time from event to event, looking at every node in each round. Nodes that start and
/// end in a round let others start in the next round at the same moment.
fn starts_by_brute_force(graph: &TaskGraph) -> Vec<u64> {
    let mut before: Vec<Vec<NodeId>> = vec![Vec::new(); graph.nodes().len()];
    graph.edges().for_each(|(from, to, _)| before[to.index()].push(from));
    let mut ends: Vec<Option<u64>> = vec![None; graph.nodes().len()];
    let mut starts = vec![0; graph.nodes().len()];
    let mut now = 0;
    loop {
        let chosen = started_in_a_round(graph, &before, &ends, now);
        for id in &chosen {
            starts[id.index()] = now;
            ends[id.index()] = Some(now + graph.node(*id).duration);
        }
        if chosen.is_empty() {
            match ends.iter().flatten().filter(|end| **end > now).min() {
                Some(next) => now = *next,
                None => return starts,
            }
        }
    }
}

/// For each resource that is free the node that starts.
fn started_in_a_round(graph: &TaskGraph, before: &[Vec<NodeId>], ends: &[Option<u64>], now: u64) -> Vec<NodeId> {
    let is_done = |id: &NodeId| ends[id.index()].is_some_and(|end| end <= now);
    let waits = |id: &NodeId| ends[id.index()].is_none() && before[id.index()].iter().all(is_done);
    let ready_at = |id: &NodeId| before[id.index()].iter().filter_map(|other| ends[other.index()]).max().unwrap_or(0);
    let on = |resource: usize| graph.ids().filter(move |id| graph.node(*id).resource.index() == resource);
    let is_free = |resource: &usize| !on(*resource).any(|id| ends[id.index()].is_some_and(|end| end > now));
    let first = |resource| on(resource).filter(waits).min_by_key(|id| (graph.node(*id).priority, ready_at(id), *id));
    (0..graph.resources().len()).filter(is_free).filter_map(first).collect()
}

#[test]
fn nodes_start_when_a_second_implementation_starts_them() -> Result<()> {
    for seed in 0..40 {
        let graph = random::graph(seed, 120, 1 + seed as u32 % 7)?;
        let schedule = simulate(&graph);
        let starts: Vec<u64> = graph.ids().map(|id| schedule.start(id)).collect();
        assert_eq!(starts, starts_by_brute_force(&graph), "seed {seed}");
    }
    Ok(())
}

fn longer_by(graph: &TaskGraph, id: NodeId, change: i64) -> u64 {
    let mut changed = graph.clone();
    changed.set_duration(id, graph.node(id).duration.saturating_add_signed(change));
    simulate(&changed).makespan(&changed)
}

#[test]
fn the_sensitivity_of_every_node_is_the_finite_difference() -> Result<()> {
    let (mut longer, mut shorter) = (0, 0);
    for seed in 100..130 {
        // Where two nodes are ready at the same moment, one nanosecond changes which runs first and the step by more:
        // the order is fixed.
        let graph = chained(&random::graph(seed, 150, 4)?)?;
        let schedule = simulate(&graph);
        let makespan = schedule.makespan(&graph);
        let rows = sensitivity(&graph, &schedule);
        for id in graph.ids() {
            assert_eq!(longer_by(&graph, id, 1) - makespan, u64::from(rows[id.index()].longer), "seed {seed}, {id:?}");
            if graph.node(id).duration > 0 {
                let gained = makespan - longer_by(&graph, id, -1);
                assert_eq!(gained, u64::from(rows[id.index()].shorter), "seed {seed}, {id:?}");
                shorter += gained;
            }
            longer += longer_by(&graph, id, 1) - makespan;
        }
    }
    assert!(longer > 100 && shorter > 100, "{longer} {shorter}");
    Ok(())
}

#[test]
fn a_node_that_takes_as_long_as_its_slack_longer_ends_the_step_no_later() -> Result<()> {
    let mut positive = 0;
    for seed in 200..220 {
        // One node a resource at a time in a fixed order: a chain of edges, so that no other order can come up.
        let graph = chained(&random::graph(seed, 100, 5)?)?;
        let schedule = simulate(&graph);
        let makespan = schedule.makespan(&graph);
        for (id, slack) in graph.ids().zip(slack(&graph, &schedule)) {
            assert_eq!(longer_by(&graph, id, slack as i64), makespan);
            assert_eq!(longer_by(&graph, id, slack as i64 + 1), makespan + 1);
            positive += usize::from(slack > 0);
        }
    }
    assert!(positive > 100);
    Ok(())
}

/// The graph with edges that fix the order in which its resources did their work.
fn chained(graph: &TaskGraph) -> Result<TaskGraph> {
    let schedule = simulate(graph);
    let mut builder = graph.edit();
    let mut last = vec![None; graph.resources().len()];
    for id in schedule.order() {
        if let Some(last) = last[graph.node(id).resource.index()].replace(id) {
            builder.edge(last, id, EdgeKind::Order);
        }
    }
    builder.finish()
}

#[test]
fn the_critical_path_has_no_gaps_and_its_shares_add_up_to_the_step() -> Result<()> {
    for seed in 300..320 {
        let graph = random::graph(seed, 200, 3)?;
        let schedule = simulate(&graph);
        let path = critical_path(&graph, &schedule);
        assert_eq!(path.first().map(|id| schedule.start(*id)), Some(0));
        assert!(path.windows(2).all(|pair| schedule.end(&graph, pair[0]) == schedule.start(pair[1])));
        let total: u64 = shares(&graph, &path, u64::MAX).iter().map(|share| share.time).sum();
        assert_eq!(total, schedule.makespan(&graph));
        let half: u64 = shares(&graph, &path, total / 2).iter().map(|share| share.time).sum();
        assert_eq!(half, total / 2);
    }
    Ok(())
}

/// Two collective operations on one link, launched by two ranks: worked out by hand. Rank 0 is ready at 10 and 30, rank
/// 1 at 25 and 26; the transfers take 40 each: 25-65 and 65-105.
#[test]
fn a_transfer_waits_for_the_last_rank_and_for_the_link() -> Result<()> {
    let mut builder = GraphBuilder::default();
    let call = builder.call("all_reduce", None);
    let link = builder.resource(Resource { rank: None, kind: ResourceKind::Link, name: "0".to_owned() });
    let durations = [[10, 20], [25, 1]];
    let threads = [0, 1]
        .map(|rank| builder.resource(Resource { rank: Some(rank), kind: ResourceKind::Thread, name: "1".to_owned() }));
    let row = |duration, resource, kind| TaskNode { duration, call, resource, kind, priority: 0 };
    let transfers = [0, 1].map(|_| builder.node(row(40, link, WorkKind::Transfer)));
    for (thread, durations) in threads.into_iter().zip(durations) {
        let work = durations.map(|duration| builder.node(row(duration, thread, WorkKind::Operation)));
        builder.edge(work[0], work[1], EdgeKind::Order);
        work.iter().zip(transfers).for_each(|(work, transfer)| builder.edge(*work, transfer, EdgeKind::Rendezvous));
    }
    let graph = builder.finish()?;
    let schedule = simulate(&graph);
    assert_eq!(transfers.map(|transfer| schedule.start(transfer)), [25, 65]);
    assert_eq!(schedule.makespan(&graph), 105);
    assert_eq!(schedule.ends_of_ranks(&graph), [(0, 30), (1, 26)]);
    Ok(())
}

#[test]
fn operations_that_wait_for_each_other_are_refused_by_name() -> Result<()> {
    let mut builder = GraphBuilder::default();
    let thread = builder.resource(Resource { rank: Some(3), kind: ResourceKind::Thread, name: "1".to_owned() });
    let ids = ["a", "b", "c", "d"].map(|name| {
        let call = builder.call(name, None);
        builder.node(TaskNode { duration: 1, call, resource: thread, kind: WorkKind::Operation, priority: 0 })
    });
    [(0, 1), (1, 2), (2, 1), (2, 3)].iter().for_each(|&(from, to)| builder.edge(ids[from], ids[to], EdgeKind::Data));
    let error = builder.clone().finish().err().map(|error| error.to_string()).unwrap_or_default();
    assert!(
        error.contains("b (rank 3) -> c (rank 3) -> b (rank 3)") || error.contains("c (rank 3) -> b (rank 3) -> c"),
        "{error}"
    );
    builder.remove(ids[2]);
    assert_eq!(simulate(&builder.finish()?).order().count(), 4);
    Ok(())
}
