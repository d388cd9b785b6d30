//! Recorded ranks: clocks, matched exchanges, waiting and stragglers. Those from `../shared/traces` are not part of the
//! repository: skipped with a message where they are absent.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

#[path = "../../traces/tests/shared/mod.rs"]
mod shared;

use perf4sight_replay::clocks::Clocks;
use perf4sight_replay::collectives::Exchanges;
use perf4sight_replay::exposed::exposed;
use perf4sight_replay::ranks::Job;
use perf4sight_replay::waiting::{Activity, Waiting, activities, stragglers};
use perf4sight_traces::{Ranked, read_ranks};
use shared::{files, shared};
use std::path::{Path, PathBuf};
use std::process::Command;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/ranks").join(name)
}

fn clocks(ranks: Vec<Ranked>) -> (Job, Clocks) {
    let job = Job::of(ranks).unwrap();
    let clocks = Clocks::of(&job, &Exchanges::of(&job));
    (job, clocks)
}

/// The eight ranks of a DLRM step on V100s, whose clocks agree to some microseconds; the skews are within 50 ms.
#[test]
fn injected_skew_of_eight_ranks_is_found_to_ten_microseconds() {
    let Some(archive) = shared("dlrm/dlrm_kineto.tar.gz") else { return };
    let folder = tempfile::tempdir().unwrap();
    assert!(Command::new("tar").arg("xzf").arg(&archive).arg("-C").arg(folder.path()).status().unwrap().success());
    let mut ranks = read_ranks(&[folder.path().join("dlrm_kineto")]).unwrap();
    let skews: [i64; 8] = [0, 50_000_000, -50_000_000, 17_300_000, -31_000_001, 49_999_999, -1_000_000, 8_765_432];
    for (ranked, skew) in ranks.iter_mut().zip(skews) {
        ranked.trace.header.base += skew;
    }
    let (_, clocks) = clocks(ranks);
    for (clock, skew) in clocks.ranks.iter().zip(skews) {
        let off = clock.offset + skew as f64;
        assert!(off.abs() < 10_000.0, "{off} ns of {skew}");
        let [low, high] = clock.interval.unwrap();
        assert!(low <= clock.offset && clock.offset <= high && high - low < 20_000.0, "{low} {high}");
    }
}

/// All ranks of these recordings ran on one machine, so that their true offset is zero.
#[test]
fn clocks_of_one_machine_are_left_as_they_are() {
    for folder in ["ranks/ddp4_straggler", "ranks/ddp2_gpt256_1gbit", "ranks/fsdp2_gpt256_1gbit"] {
        let Some(folder) = shared(folder) else { return };
        let (_, clocks) = clocks(read_ranks(&[folder]).unwrap());
        for clock in &clocks.ranks {
            let [low, high] = clock.interval.unwrap();
            assert!(low <= 0.0 && high >= 0.0 && clock.offset == 0.0, "{low} {high}");
        }
    }
}

/// Rank 1 of four sleeps 200 ms before every forward pass; all ranks' steps take 320 ms.
#[test]
fn the_straggler_is_first_although_all_steps_take_equally_long() {
    let job = Job::read(&[example("straggler")]).unwrap();
    let exchanges = Exchanges::of(&job);
    let clocks = Clocks::of(&job, &exchanges);
    let waiting = Waiting::of(&job, &exchanges, &clocks);
    let ranks = stragglers(&job, &waiting, &activities(&job, &exchanges, &clocks));
    let first = &ranks[0];
    assert_eq!((job.ranks[first.rank].number, first.steadiness), (1, 1.0));
    assert!((first.caused.mean - 200.0).abs() < 10.0, "{:?}", first.caused);
    let excess = &first.excess[0];
    assert_eq!(excess.activity, Activity::Nothing { before: Some("DistributedDataParallel.forward".to_owned()) });
    assert!((excess.longer() - 200.0).abs() < 10.0, "{excess:?}");
    assert!(ranks[1].caused.mean < 10.0, "{ranks:?}");
}

/// Counted by grep in the files: 12 all-reduces of the straggler's ranks, 30 and 5 barriers of the two ranks.
#[test]
fn every_exchange_of_recorded_ranks_is_matched() {
    for (name, expected) in [("straggler", 12), ("two", 35)] {
        let job = Job::read(&[example(name)]).unwrap();
        let exchanges = Exchanges::of(&job);
        assert_eq!(exchanges.whole().count(), expected, "{name}");
        assert!(exchanges.unmatched(&job).is_empty(), "{:?}", exchanges.unmatched(&job));
        let ranks = job.ranks.len();
        assert!(exchanges.all.iter().all(|exchange| exchange.parts.len() == ranks && exchange.step.is_some()));
    }
    let job = Job::read(&[example("straggler")]).unwrap();
    // 660,490 parameters of four bytes.
    assert!(Exchanges::of(&job).all.iter().all(|exchange| exchange.bytes == Some(4 * 660_490)));
}

/// Every exchange is exposed or hidden for as long as it lasts, in every recorded job.
#[test]
fn exposed_and_hidden_communication_add_up() {
    for name in ["straggler", "two"] {
        let job = Job::read(&[example(name)]).unwrap();
        let exchanges = Exchanges::of(&job);
        let waiting = Waiting::of(&job, &exchanges, &Clocks::of(&job, &exchanges));
        for one in exposed(&job, &exchanges, &waiting) {
            let calls = exchanges.calls[one.rank].iter().filter(|call| call.operation == one.operation);
            let times = perf4sight_traces::intervals::union(calls.map(|call| call.time));
            let expected = perf4sight_traces::intervals::length(&times) as f64 / 1e6 / job.steps.len() as f64;
            assert!((one.exposed + one.hidden - expected).abs() < 1e-6, "{one:?} {expected}");
            assert!(one.waiting.unwrap() <= one.exposed, "{one:?}");
        }
    }
}

/// The pieces of time of every trace that others recorded are read without a panic, and no job has a negative transfer.
#[test]
fn single_ranks_of_all_kinds_are_read() {
    for file in ["hta", "own", "tracelens"].into_iter().flat_map(files) {
        let ranked = Ranked { rank: 0, trace: perf4sight_traces::read(&file).unwrap() };
        let mut ranked = ranked;
        ranked.trace.header.world_size = None;
        let job = Job::of(vec![ranked]).unwrap();
        let exchanges = Exchanges::of(&job);
        let clocks = Clocks::of(&job, &exchanges);
        let waiting = Waiting::of(&job, &exchanges, &clocks);
        let steps = activities(&job, &exchanges, &clocks);
        assert!(waiting.exchanges.is_empty() && exchanges.whole().next().is_none());
        for (step, sums) in job.steps.iter().zip(&steps[0]) {
            let (begin, end) = job.ranks[0].steps[step.of[0]].window;
            assert!(sums.values().sum::<i64>() <= end - begin, "{}", file.display());
        }
    }
}
