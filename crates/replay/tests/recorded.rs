//! Recorded ranks: clocks, matched exchanges, waiting and stragglers. Those from `../shared/traces` are not part of the
//! repository: skipped with a message where they are absent.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

#[path = "../../traces/tests/shared/mod.rs"]
mod shared;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use perf4sight_replay::Analysis;
use perf4sight_replay::clocks::RankClocks;
use perf4sight_replay::collectives::{CollectiveOperation, RankExchanges};
use perf4sight_replay::exposed::exposed_communication;
use perf4sight_replay::ranks::TrainingJob;
use perf4sight_replay::replayed_job::ReplayedJob;
use perf4sight_replay::request::ReplayRequest;
use perf4sight_replay::waiting::{JobWaiting, RankActivity, activities, stragglers};
use perf4sight_traces::{RankTrace, read_ranks};
use serde_json::{Value, json};
use shared::{files, shared};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/ranks").join(name)
}

fn clocks(ranks: Vec<RankTrace>) -> (TrainingJob, RankClocks) {
    let job = TrainingJob::from_traces(ranks).unwrap();
    let clocks = RankClocks::estimate(&job, &RankExchanges::find(&job));
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
    let job = TrainingJob::read(&[example("straggler")]).unwrap();
    let exchanges = RankExchanges::find(&job);
    let clocks = RankClocks::estimate(&job, &exchanges);
    let waiting = JobWaiting::compute(&job, &exchanges, &clocks);
    let ranks = stragglers(&job, &waiting, &activities(&job, &exchanges, &clocks));
    let first = &ranks[0];
    assert_eq!((job.ranks[first.rank].number, first.steadiness), (1, 1.0));
    assert!((first.caused.mean - 200.0).abs() < 10.0, "{:?}", first.caused);
    let excess = &first.excess[0];
    assert_eq!(excess.activity, RankActivity::Nothing { before: Some("DistributedDataParallel.forward".to_owned()) });
    assert!((excess.longer() - 200.0).abs() < 10.0, "{excess:?}");
    assert!(ranks[1].caused.mean < 10.0, "{ranks:?}");
}

/// Counted by grep in the files: 12 all-reduces of the straggler's ranks, 30 and 5 barriers of the two ranks.
#[test]
fn every_exchange_of_recorded_ranks_is_matched() {
    for (name, expected) in [("straggler", 12), ("two", 35)] {
        let job = TrainingJob::read(&[example(name)]).unwrap();
        let exchanges = RankExchanges::find(&job);
        assert_eq!(exchanges.complete().count(), expected, "{name}");
        assert!(exchanges.unmatched(&job).is_empty(), "{:?}", exchanges.unmatched(&job));
        let ranks = job.ranks.len();
        assert!(exchanges.all.iter().all(|exchange| exchange.parts.len() == ranks && exchange.step.is_some()));
    }
    let job = TrainingJob::read(&[example("straggler")]).unwrap();
    // 660,490 parameters of four bytes.
    assert!(RankExchanges::find(&job).all.iter().all(|exchange| exchange.bytes == Some(4 * 660_490)));
}

/// Every exchange is exposed or hidden for as long as it lasts, in every recorded job.
#[test]
fn exposed_and_hidden_communication_add_up() {
    for name in ["straggler", "two"] {
        let job = TrainingJob::read(&[example(name)]).unwrap();
        let exchanges = RankExchanges::find(&job);
        let waiting = JobWaiting::compute(&job, &exchanges, &RankClocks::estimate(&job, &exchanges));
        for (rank, own) in exposed_communication(&job, &exchanges, &waiting).into_iter().enumerate() {
            let expected = |is_counted: &dyn Fn(CollectiveOperation) -> bool| {
                let calls = exchanges.calls[rank].iter().filter(|call| is_counted(call.operation));
                let times = perf4sight_traces::intervals::union(calls.map(|call| call.time));
                perf4sight_traces::intervals::length(&times) as f64 / 1e6 / job.steps.len() as f64
            };
            let kinds = own.kinds.iter().map(|one| (one.times, expected(&|operation| operation == one.operation)));
            for (times, expected) in kinds.chain([(own.all, expected(&|_| true))]) {
                assert!((times.exposed + times.hidden - expected).abs() < 1e-6, "{times:?} {expected}");
                assert!(times.waiting <= times.exposed, "{times:?}");
            }
        }
    }
}

/// The pieces of time of every trace that others recorded are read without a panic, and no job has a negative transfer.
#[test]
fn single_ranks_of_all_kinds_are_read() {
    for file in ["hta", "own", "tracelens"].into_iter().flat_map(files) {
        let ranked = RankTrace { rank: 0, trace: perf4sight_traces::read(&file).unwrap() };
        let mut ranked = ranked;
        ranked.trace.header.world_size = None;
        let job = TrainingJob::from_traces(vec![ranked]).unwrap();
        let exchanges = RankExchanges::find(&job);
        let clocks = RankClocks::estimate(&job, &exchanges);
        let waiting = JobWaiting::compute(&job, &exchanges, &clocks);
        let steps = activities(&job, &exchanges, &clocks);
        assert!(waiting.exchanges.is_empty() && exchanges.complete().next().is_none());
        for (step, sums) in job.steps.iter().zip(&steps[0]) {
            let (begin, end) = job.ranks[0].steps[step.of[0]].work;
            assert!(sums.values().sum::<i64>() <= end - begin, "{}", file.display());
        }
    }
}

/// A copy of the four ranks of which rank 1 sleeps 200 ms before every forward pass, with the traces of some changed.
fn changed(ranks: &[usize], change: impl Fn(&mut Value)) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (rank, name) in NAMES.iter().enumerate() {
        let original = example("straggler").join(name);
        if !ranks.contains(&rank) {
            fs::copy(original, folder.path().join(name)).unwrap();
            continue;
        }
        let text = std::io::read_to_string(GzDecoder::new(File::open(original).unwrap())).unwrap();
        let mut trace: Value = serde_json::from_str(&text).unwrap();
        change(&mut trace);
        let mut zipped = GzEncoder::new(File::create(folder.path().join(name)).unwrap(), Compression::fast());
        serde_json::to_writer(&mut zipped, &trace).unwrap();
        zipped.finish().unwrap();
    }
    folder
}

const NAMES: [&str; 4] = ["rank0.json.gz", "rank1.json.gz", "rank2.json.gz", "rank3.json.gz"];

fn events(trace: &mut Value) -> &mut Vec<Value> {
    trace["traceEvents"].as_array_mut().unwrap()
}

/// Multiplies a time of an event, if it has it.
fn scale(event: &mut Value, key: &str, factor: f64) {
    if let Some(time) = event[key].as_f64() {
        event[key] = json!(factor * time);
    }
}

fn analysis(folder: &Path) -> Analysis {
    Analysis::new(TrainingJob::read(&[folder.to_owned()]).unwrap())
}

fn replayed(analysis: &Analysis) -> ReplayedJob {
    let request = ReplayRequest::default();
    ReplayedJob::replay(analysis, &request).unwrap()
}

/// Rank 1 is first, others wait 200 ms for it, and the clocks, that of one machine, are left as they are.
fn assert_straggler(analysis: &Analysis) {
    let first = analysis.first_straggler().unwrap();
    assert_eq!((analysis.job.ranks[first.rank].number, first.steadiness), (1, 1.0));
    assert!((first.caused.mean - 200.0).abs() < 10.0, "{:?}", first.caused);
    for clock in &analysis.clocks.ranks {
        let [low, high] = clock.interval.unwrap();
        assert!(low <= 0.0 && high >= 0.0 && clock.offset == 0.0, "{low} {high}");
    }
}

/// The ranges of one of gloo's two threads and the calls of the first half of the steps are left of rank 2.
#[test]
fn a_rank_that_is_cut_off_in_the_middle_is_not_shifted() {
    let folder = changed(&[], |_| ());
    let file = folder.path().join("rank2.json.gz");
    let text = std::io::read_to_string(GzDecoder::new(File::open(&file).unwrap())).unwrap();
    fs::remove_file(&file).unwrap();
    fs::write(folder.path().join("rank2.json"), &text[..text.len() / 2]).unwrap();
    let analysis = analysis(folder.path());
    assert_straggler(&analysis);
    // All ranks end an all-reduce within milliseconds, and the next one comes 300 ms later.
    for exchange in analysis.exchanges.complete() {
        let ends: Vec<i64> = exchange.parts.iter().map(|part| analysis.exchanges.call(*part).time.1).collect();
        assert!(ends.iter().max().unwrap() - ends.iter().min().unwrap() < 50_000_000, "{ends:?}");
    }
    let warnings = analysis.warnings().join("\n");
    assert!(warnings.contains("left out: exchanges in them are not in the traces of all ranks"), "{warnings}");
}

/// Five of twelve steps are not in the trace of one rank: that says nothing about how the others number theirs.
#[test]
fn a_rank_that_lacks_the_first_steps_is_compared_by_their_numbers() {
    for rank in [0, 2] {
        let folder = changed(&[rank], |trace| {
            let is_sixth = |event: &Value| event["name"] == "ProfilerStep#7";
            let begin = events(trace).iter().find(|event| is_sixth(event)).unwrap()["ts"].as_f64().unwrap();
            events(trace).retain(|event| event["ts"].as_f64().is_none_or(|time| time >= begin));
        });
        let analysis = analysis(folder.path());
        assert_straggler(&analysis);
        let warnings = analysis.warnings().join("\n");
        assert!(analysis.job.steps.len() == 7 && !warnings.contains("numbers its steps"), "{warnings}");
    }
}

#[test]
fn times_that_cannot_be_true_are_named_and_what_is_left_shows_the_straggler() {
    let every = |trace: &mut Value, nth: usize, key: &str, factor: f64| {
        events(trace).iter_mut().step_by(nth).for_each(|event| scale(event, key, factor));
    };
    let negative = changed(&[1], |trace| every(trace, 11, "ts", -1.0));
    let negative = analysis(negative.path());
    let warnings = negative.warnings().join("\n");
    assert!(warnings.contains("rank 1: 1060 events were left out: at a negative time"), "{warnings}");
    let first = negative.first_straggler().unwrap();
    assert!(first.rank == 1 && (first.caused.mean - 200.0).abs() < 10.0, "{:?}", first.caused);
    let overlapping = changed(&[1], |trace| every(trace, 9, "dur", 30.0));
    let overlapping = analysis(overlapping.path());
    let warnings = overlapping.warnings().join("\n");
    assert!(warnings.contains("operators of thread 22357 end after an operator in which they began"), "{warnings}");
    assert!(warnings.contains("rank 1: 8 of 12 steps begin before the one before ended"), "{warnings}");
    assert!(overlapping.clocks.strangers.is_empty(), "{:?}", overlapping.clocks.strangers);
    assert!(!analysis(&example("straggler")).warnings().join("\n").contains("doubtful"));
}

/// Three steps have fewer exchanges than show how clocks differ, but the names of the files say that they are of one host.
#[test]
fn ranks_of_one_host_need_no_exchanges_to_share_a_clock() {
    let three_steps = |trace: &mut Value| {
        let end = |event: &Value| Some(event["ts"].as_f64()? + event["dur"].as_f64()?);
        let third = events(trace).iter().find(|event| event["name"] == "ProfilerStep#4").and_then(end).unwrap();
        events(trace).retain(|event| event["ts"].as_f64().is_none_or(|begin| begin <= third));
    };
    let folder = changed(&[0, 1, 2, 3], three_steps);
    let unnamed = analysis(folder.path());
    assert!(unnamed.waiting.uncertainty > 100.0);
    assert!(unnamed.warnings().join("\n").contains("the clocks of the ranks are known to"));
    for (name, process) in NAMES.iter().zip([22356, 22357, 22358, 22359]) {
        let named = format!("node_{process}.1795722663321054322.pt.trace.json.gz");
        fs::rename(folder.path().join(name), folder.path().join(named)).unwrap();
    }
    let named = analysis(folder.path());
    assert_eq!((named.job.steps.len(), named.waiting.uncertainty), (3, 0.0));
    assert_straggler(&named);
}

/// What takes 200 ms by the clock of one rank takes 100 ms by that of another.
#[test]
fn traces_between_whose_exchanges_other_times_pass_are_of_different_jobs() {
    let faster = changed(&[3], |trace| {
        for event in events(trace).iter_mut() {
            ["ts", "dur"].iter().for_each(|key| scale(event, key, 0.5));
        }
    });
    let analysis = analysis(faster.path());
    assert!(analysis.check_one_job().is_err());
    let strangers = analysis.clocks.strangers;
    let expected = "ranks 0 and 3 look like those of different jobs";
    assert!(strangers.len() == 1 && strangers[0].contains(expected), "{strangers:?}");
}

/// Rank 1 begins some steps later than the others, which its own time does not hold.
#[test]
fn shares_of_the_critical_path_add_up_to_the_step() {
    let replayed = replayed(&analysis(&example("straggler")));
    assert_eq!(replayed.critical.iter().map(|share| share.time).sum::<u64>(), replayed.typical);
}

/// A row of a trace, with its begin and end in microseconds.
fn row(kind: &str, name: &str, thread: u32, [begin, end]: [f64; 2], arguments: Value) -> Value {
    json!({
        "ph": "X", "cat": kind, "name": name, "pid": thread, "tid": thread, "ts": begin, "dur": end - begin,
        "args": arguments,
    })
}

/// A message as PyTorch 2.11 records it with gloo: a row of `c10d::send` or `c10d::recv_`, which names the peer, and a range that
/// begins in it.
fn message(name: &str, thread: u32, peer: u32, [begin, end]: [f64; 2]) -> [Value; 2] {
    let inputs = json!({
        "Concrete Inputs": ["", "", peer.to_string(), "0"], "Input type": ["TensorList", "", "Scalar", "Scalar"],
        "Input Dims": [[[32, 256]], [], [], []],
    });
    let tensor = json!({"Concrete Inputs": [""], "Input type": ["float"], "Input Dims": [[32, 256]]});
    let [call, range] = [format!("c10d::{name}"), format!("gloo:{}", name.trim_end_matches('_'))];
    let call = row("cpu_op", &call, thread, [begin, begin + 50.0], inputs);
    [call, row("user_annotation", &range, thread, [begin + 40.0, end], tensor)]
}

/// Three ranks in a pipeline: each computes and passes on; rank 1 sleeps 50 ms before it does.
fn pipeline(rank: u32) -> Value {
    let thread = 70 + rank;
    let step = |step: u32| {
        let at = f64::from(step) * 100_000.0;
        let during = |begin: f64, end: f64| [at + begin, at + end];
        let messages = match rank {
            0 => vec![message("send", thread, 1, during(2_000.0, 2_500.0))],
            1 => vec![
                message("recv_", thread, 0, during(0.0, 2_500.0)),
                message("send", thread, 2, during(54_500.0, 55_000.0)),
            ],
            _ => vec![message("recv_", thread, 1, during(0.0, 55_000.0))],
        };
        let work = [0.0, 52_500.0, 55_000.0][rank as usize];
        let name = format!("ProfilerStep#{step}");
        let whole = row("user_annotation", &name, thread, during(0.0, 90_000.0), json!({}));
        let work = row("cpu_op", "aten::mm", thread, during(work, work + 2_000.0), json!({}));
        messages.into_iter().flatten().chain([whole, work])
    };
    let information = json!({"backend": "gloo", "rank": rank, "world_size": 3});
    json!({"distributedInfo": information, "traceEvents": (0..6).flat_map(step).collect::<Vec<_>>()})
}

#[test]
fn sends_and_receives_of_gloo_are_matched_by_the_peers_that_their_calls_name() {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..3 {
        fs::write(folder.path().join(format!("rank{rank}.json")), pipeline(rank).to_string()).unwrap();
    }
    let analysis = analysis(folder.path());
    assert_eq!((analysis.exchanges.complete().count(), analysis.exchanges.all.len()), (12, 12));
    // 32 x 256 floats of four bytes.
    assert!(analysis.exchanges.all.iter().all(|exchange| exchange.bytes == Some(32 * 256 * 4)));
    // Rank 2 waits from the begin of the step until rank 1 sends at 54.5, which itself waits for rank 0 for the first 2.
    let waits = |rank, other| analysis.waiting.summary(rank, other).unwrap().mean;
    let found = [waits(2, 1), waits(2, 0), waits(1, 0)];
    assert!(found.iter().zip([52.5, 2.0, 2.0]).all(|(own, truth)| (own - truth).abs() < 1e-6), "{found:?}");
    let first = analysis.first_straggler().unwrap();
    assert_eq!((first.rank, first.steadiness), (1, 1.0));
    let replayed = replayed(&analysis);
    assert_eq!((replayed.steps.len(), replayed.typical), (6, 90_000_000));
    assert!(replayed.worst() < 2.0, "{}", replayed.worst());
}
