//! Made-up clusters whose true step time is known by formula: in the simulation, and from traces with clocks that are off.

use perf4sight_base::error::{Error, Result};
use perf4sight_replay::clocks::Clocks;
use perf4sight_replay::collectives::Exchanges;
use perf4sight_replay::communication::{Algorithm, fit};
use perf4sight_replay::graph::recorded::Recorded;
use perf4sight_replay::ranks::Job;
use perf4sight_replay::simulate::simulate;
use perf4sight_replay::synthetic::{Cluster, Made, cluster, write_traces};
use perf4sight_replay::what_if::{Change, Scenario, one_rank, parse, predict};

#[test]
fn steps_of_two_to_128_ranks_take_as_long_as_the_formula() -> Result<()> {
    for (seed, ranks) in [2, 3, 8, 16, 64, 128].into_iter().enumerate() {
        for straggler in [None, Some((ranks - 1, 50_000_000))] {
            let shape = Cluster { ranks, straggler, jitter: 0.05, ..Cluster::default() };
            let made = cluster(&shape, seed as u64)?;
            let time = made.job.time(&simulate(&made.job.graph));
            assert_eq!(time, made.truth, "{ranks} ranks, straggler {straggler:?}");
        }
    }
    Ok(())
}

/// Steps of a cluster through traces whose clocks are up to 50 ms off, back into a graph.
fn recorded(steps: &[Made]) -> Result<Recorded> {
    let folder = tempfile::tempdir().map_err(|cause| Error::io(".", "make a folder", &cause))?;
    let skew: Vec<i64> = (0..steps[0].job.ranks.len() as i64).map(|rank| (rank * 7_919_000) % 50_000_000).collect();
    write_traces(steps, &skew, folder.path())?;
    let job = Job::read(&[folder.path().to_owned()])?;
    let exchanges = Exchanges::of(&job);
    Recorded::of(&job, &exchanges, &Clocks::of(&job, &exchanges))
}

fn steps(shape: &Cluster, count: u64) -> Result<Vec<Made>> {
    (0..count).map(|seed| cluster(shape, seed)).collect()
}

#[test]
fn traces_with_clocks_that_are_off_are_replayed_within_one_percent() -> Result<()> {
    for (ranks, straggler) in [(2, None), (8, Some((5, 30_000_000))), (16, None)] {
        let shape = Cluster { ranks, straggler, jitter: 0.02, per_byte: 1.0, ..Cluster::default() };
        let steps = steps(&shape, 5)?;
        let recorded = recorded(&steps)?;
        assert_eq!(recorded.steps.len(), 5);
        for (index, made) in steps.iter().enumerate() {
            let step = recorded.step(index);
            let replayed = step.time(&simulate(&step.graph)) as f64;
            assert!((replayed / made.truth as f64 - 1.0).abs() < 0.01, "{ranks} ranks: {replayed} {}", made.truth);
        }
    }
    Ok(())
}

/// The median step of a cluster, by formula.
fn truth(shape: &Cluster) -> Result<f64> {
    let mut times: Vec<u64> = steps(shape, 5)?.iter().map(|made| made.truth).collect();
    times.sort_unstable();
    Ok(times[2] as f64)
}

#[test]
fn what_ifs_say_what_another_cluster_takes() -> Result<()> {
    // Buckets of 20, 20 and 6 layers, between which the link has nothing to do: latency shows.
    let straggler = Some((5, 30_000_000));
    let shape =
        Cluster { layers: 46, layers_per_bucket: 20, per_byte: 0.01, jitter: 0.005, straggler, ..Cluster::default() };
    let recorded = recorded(&steps(&shape, 5)?)?;
    let communication = fit(&recorded, Algorithm::Ring);
    let cases = [
        ("bandwidth x 0.1", Cluster { per_byte: 10.0 * shape.per_byte, ..shape.clone() }),
        ("bandwidth x 4", Cluster { per_byte: 0.25 * shape.per_byte, ..shape.clone() }),
        ("ranks = 64", Cluster { ranks: 64, ..shape.clone() }),
        ("rank 5 as the others", Cluster { straggler: None, ..shape.clone() }),
        ("cpu x 2", Cluster { layer_time: shape.layer_time / 2, ..shape.clone() }),
    ];
    for (text, other) in cases {
        let changes: Vec<Box<dyn Change>> = vec![parse(text)?];
        let outcome = predict(&recorded, &communication, &changes)?;
        let truth = truth(&other)?;
        let error = 100.0 * (outcome.after.time / truth - 1.0);
        assert!(error.abs() < 1.0, "{text}: {} ms, truly {} ms", outcome.after.time / 1e6, truth / 1e6);
    }
    Ok(())
}

/// A few simulated ranks stand for ten thousand: the graph stays as large as it is.
#[test]
fn ten_thousand_ranks_are_simulated_from_eight() -> Result<()> {
    let shape = Cluster { per_byte: 0.05, ..Cluster::default() };
    let Made { job, communication, .. } = cluster(&shape, 1)?;
    let nodes = job.graph.nodes().len();
    let mut scenario = Scenario { step: job, communication };
    parse("ranks = 10000")?.apply(&mut scenario)?;
    let time = scenario.step.time(&simulate(&scenario.step.graph)) as f64;
    // By formula, as `cluster` has it: without jitter all ranks are alike, so that two of 10,000 messages' cost show it.
    let bytes = 4.0 * 8e6;
    let one = 2.0 * 9_999.0 * 5_000.0 + 0.05 * 2.0 * 9_999.0 / 10_000.0 * bytes;
    let first_ready = 48.0 * 400_000.0 + 4.0 * 800_000.0;
    let truth = first_ready + 12.0 * one + 400_000.0;
    assert!((time / truth - 1.0).abs() < 0.001, "{time} {truth}");
    assert_eq!(scenario.step.graph.nodes().len(), nodes);
    assert_eq!(scenario.step.ranks.iter().map(|rank| rank.stands_for).sum::<u32>(), 10_000);
    Ok(())
}

/// A rank by itself takes what it waits for as communication: without its straggler the step gets 30 ms shorter, which
/// only a replay of all ranks shows.
#[test]
fn one_rank_by_itself_does_not_show_what_a_straggler_costs() -> Result<()> {
    let shape = Cluster { straggler: Some((5, 30_000_000)), ..Cluster::default() };
    let (slow, healthy) = (cluster(&shape, 1)?, cluster(&Cluster { straggler: None, ..shape }, 1)?);
    let alone = one_rank(&slow.job, 0)?;
    assert_eq!(alone.time(&simulate(&alone.graph)), slow.truth);
    let mut all = Scenario { step: slow.job.clone(), communication: slow.communication.clone() };
    parse("rank 5 as the others")?.apply(&mut all)?;
    assert_eq!(all.step.time(&simulate(&all.step.graph)), healthy.truth);
    let mut one = Scenario { step: alone, communication: slow.communication };
    assert!(parse("rank 5 as the others")?.apply(&mut one).is_err());
    parse("bandwidth x 1000000")?.apply(&mut one)?;
    // The link costs nothing then; the straggler's 30 ms are taken for the link's.
    let error = one.step.time(&simulate(&one.step.graph)) as f64 / slow.truth as f64;
    assert!(error < 0.7, "{error}");
    Ok(())
}
