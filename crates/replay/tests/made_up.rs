//! Made-up clusters whose true step time is known by formula: in the simulation, and from traces with clocks that are off.

use perf4sight_base::error::{Error, Result};
use perf4sight_replay::clocks::RankClocks;
use perf4sight_replay::collectives::RankExchanges;
use perf4sight_replay::communication::{CollectiveAlgorithm, fit};
use perf4sight_replay::graph::ProcessGroup;
use perf4sight_replay::graph::recorded::RecordedSteps;
use perf4sight_replay::plain_step::{self, PlainStep};
use perf4sight_replay::ranks::TrainingJob;
use perf4sight_replay::simulate::simulate;
use perf4sight_replay::synthetic::{SyntheticCluster, SyntheticStep, cluster, write_traces};
use perf4sight_replay::what_if::{Scenario, StepChange, one_rank, parse, predict};
use std::path::Path;
use tempfile::TempDir;

#[test]
fn steps_of_two_to_128_ranks_take_as_long_as_the_formula() -> Result<()> {
    for (seed, ranks) in [2, 3, 8, 16, 64, 128].into_iter().enumerate() {
        for straggler in [None, Some((ranks - 1, 50_000_000))] {
            let shape = SyntheticCluster { ranks, straggler, jitter: 0.05, ..SyntheticCluster::default() };
            let made = cluster(&shape, seed as u64)?;
            let time = made.job.time(&simulate(&made.job.graph));
            assert_eq!(time, made.truth, "{ranks} ranks, straggler {straggler:?}");
        }
    }
    Ok(())
}

/// Steps of a cluster through traces whose clocks are up to 50 ms off, back into a graph.
fn recorded(steps: &[SyntheticStep]) -> Result<RecordedSteps> {
    let job = job(steps, folder()?.path())?;
    let exchanges = RankExchanges::find(&job);
    RecordedSteps::build(&job, &exchanges, &RankClocks::estimate(&job, &exchanges))
}

fn folder() -> Result<TempDir> {
    tempfile::tempdir().map_err(|cause| Error::io(".", "make a folder", &cause))
}

/// The job of traces that are written into a folder.
fn job(steps: &[SyntheticStep], folder: &Path) -> Result<TrainingJob> {
    let skew: Vec<i64> = (0..steps[0].job.ranks.len() as i64).map(|rank| (rank * 7_919_000) % 50_000_000).collect();
    write_traces(steps, &skew, folder)?;
    TrainingJob::read(&[folder.to_owned()])
}

fn steps(shape: &SyntheticCluster, count: u64) -> Result<Vec<SyntheticStep>> {
    (0..count).map(|seed| cluster(shape, seed)).collect()
}

#[test]
fn traces_with_clocks_that_are_off_are_replayed_within_one_percent() -> Result<()> {
    for (ranks, straggler) in [(2, None), (8, Some((5, 30_000_000))), (16, None)] {
        let shape = SyntheticCluster { ranks, straggler, jitter: 0.02, per_byte: 1.0, ..SyntheticCluster::default() };
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

/// Of twelve steps each is left out of a graph once; they differ by less than one percent, as their operations by two.
#[test]
fn steps_that_were_left_out_are_predicted_by_the_others() -> Result<()> {
    let shape = SyntheticCluster { ranks: 4, jitter: 0.02, per_byte: 1.0, ..SyntheticCluster::default() };
    let (steps, folder) = (steps(&shape, 12)?, folder()?);
    let job = job(&steps, folder.path())?;
    let exchanges = RankExchanges::find(&job);
    let (_, left_out) = RecordedSteps::with_left_out(&job, &exchanges, &RankClocks::estimate(&job, &exchanges))?;
    assert_eq!(left_out.iter().map(|one| one.step).collect::<Vec<_>>(), (0..12).collect::<Vec<_>>());
    assert!(left_out.iter().all(|one| one.error().abs() < 1.0), "{left_out:?}");
    Ok(())
}

/// Three steps without the profiler, whose slower ranks take 40, 90 and 50 ms.
#[test]
fn the_plain_step_is_the_median_of_the_slowest_ranks() -> Result<()> {
    let shape = SyntheticCluster { ranks: 2, ..SyntheticCluster::default() };
    let folder = folder()?;
    let job = job(&steps(&shape, 2)?, folder.path())?;
    assert_eq!(plain_step::from_recording(&job, 1), Ok(None));
    let write = |rank: usize, plain: [u64; 3], recorded: &[u64]| {
        let text = serde_json::json!({
            "format": 2, "trace": format!("rank{rank}.json"), "rank": rank, "ranks": 2, "kineto": true,
            "iterations_are": "optimizer steps", "plain": [plain[..1], plain[1..]], "recorded": [recorded],
        });
        let file = folder.path().join(format!("rank{rank}.recording.json"));
        std::fs::write(&file, text.to_string()).map_err(|cause| Error::io(&file, "write times", &cause))
    };
    write(0, [40_000_000, 10_000_000, 50_000_000], &[1, 2])?;
    assert!(plain_step::from_recording(&job, 1).is_err(), "rank 1 was not timed");
    write(1, [30_000_000, 90_000_000, 20_000_000], &[1, 2])?;
    assert_eq!(
        plain_step::from_recording(&job, 1),
        Ok(Some(PlainStep { time: 50_000_000, mean: 60_000_000, steps: Some(3) }))
    );
    write(1, [30_000_000, 90_000_000, 20_000_000], &[1])?;
    assert!(plain_step::from_recording(&job, 1).is_err_and(|why| why.contains("rank 1") && why.contains("1 recorded")));
    Ok(())
}

/// Two of eight ranks are given. A process group that not all ranks are in, as of tensor parallel layers, stays as it is.
#[test]
fn more_ranks_are_those_of_the_job_and_its_largest_groups() -> Result<()> {
    let folder = folder()?;
    job(&steps(&SyntheticCluster::default(), 1)?, folder.path())?;
    let job = TrainingJob::read(&[0, 1].map(|rank| folder.path().join(format!("rank{rank}.json"))))?;
    let exchanges = RankExchanges::find(&job);
    let recorded = RecordedSteps::build(&job, &exchanges, &RankClocks::estimate(&job, &exchanges))?;
    let communication = fit(&recorded, CollectiveAlgorithm::Ring);
    let mut scenario = Scenario { step: recorded.typical, communication };
    assert_eq!(scenario.step.ranks.iter().map(|rank| rank.stands_for).sum::<u32>(), 8);
    let inner = ProcessGroup { name: "tensor".to_owned(), size: 2, link: scenario.step.groups[0].link };
    scenario.step.groups.push(inner);
    scenario.step.transfers[0].group = 1;
    let first = scenario.step.transfers[0].node;
    let before = scenario.step.graph.node(first).duration;
    parse("ranks = 64")?.apply(&mut scenario)?;
    assert_eq!(scenario.step.groups.iter().map(|group| group.size).collect::<Vec<_>>(), [64, 2]);
    assert_eq!(scenario.step.graph.node(first).duration, before);
    assert_eq!(scenario.step.ranks.iter().map(|rank| rank.stands_for).sum::<u32>(), 64);
    Ok(())
}

/// The median step of a cluster, by formula.
fn truth(shape: &SyntheticCluster) -> Result<f64> {
    let mut times: Vec<u64> = steps(shape, 5)?.iter().map(|made| made.truth).collect();
    times.sort_unstable();
    Ok(times[2] as f64)
}

#[test]
fn what_ifs_say_what_another_cluster_takes() -> Result<()> {
    // Buckets of 20, 20 and 6 layers, between which the link has nothing to do: latency shows.
    let straggler = Some((5, 30_000_000));
    let shape = SyntheticCluster {
        layers: 46,
        layers_per_bucket: 20,
        per_byte: 0.01,
        jitter: 0.005,
        straggler,
        ..SyntheticCluster::default()
    };
    let recorded = recorded(&steps(&shape, 5)?)?;
    let communication = fit(&recorded, CollectiveAlgorithm::Ring);
    let cases = [
        ("bandwidth x 0.1", SyntheticCluster { per_byte: 10.0 * shape.per_byte, ..shape.clone() }),
        ("bandwidth x 4", SyntheticCluster { per_byte: 0.25 * shape.per_byte, ..shape.clone() }),
        ("ranks = 64", SyntheticCluster { ranks: 64, ..shape.clone() }),
        ("rank 5 as the others", SyntheticCluster { straggler: None, ..shape.clone() }),
        ("cpu x 2", SyntheticCluster { layer_time: shape.layer_time / 2, ..shape.clone() }),
    ];
    for (text, other) in cases {
        let changes: Vec<Box<dyn StepChange>> = vec![parse(text)?];
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
    let shape = SyntheticCluster { per_byte: 0.05, ..SyntheticCluster::default() };
    let SyntheticStep { job, communication, .. } = cluster(&shape, 1)?;
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
    let shape = SyntheticCluster { straggler: Some((5, 30_000_000)), ..SyntheticCluster::default() };
    let (slow, healthy) = (cluster(&shape, 1)?, cluster(&SyntheticCluster { straggler: None, ..shape }, 1)?);
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
