//! Replays of recorded steps, and what-ifs against steps that were measured with other buckets and links.

use perf4sight_base::error::{Error, Result};
use perf4sight_base::stats::median;
use perf4sight_replay::clocks::RankClocks;
use perf4sight_replay::collectives::RankExchanges;
use perf4sight_replay::communication::{CollectiveAlgorithm, fit};
use perf4sight_replay::graph::EdgeKind;
use perf4sight_replay::graph::recorded::{RecordedSteps, StepCorrection};
use perf4sight_replay::plain_step::PlainStep;
use perf4sight_replay::ranks::TrainingJob;
use perf4sight_replay::simulate::simulate;
use perf4sight_replay::what_if::{StepChange, parse, predict};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[path = "../../traces/tests/shared/mod.rs"]
mod shared;

use shared::{files, shared};

fn recorded(files: &[PathBuf]) -> Result<RecordedSteps> {
    let job = TrainingJob::read(files)?;
    let exchanges = RankExchanges::find(&job);
    RecordedSteps::build(&job, &exchanges, &RankClocks::estimate(&job, &exchanges))
}

/// The traces of the MLP on a link of so many Gb/s, none where they are absent.
fn mlp(gigabits: u32) -> Vec<PathBuf> {
    let is_own = |file: &PathBuf| file.to_string_lossy().contains(&format!("/{gigabits}gbit_mlp"));
    files("ddp").into_iter().filter(is_own).collect()
}

/// The files of each recording of several ranks, none where they are absent.
fn recordings() -> impl Iterator<Item = Vec<PathBuf>> {
    let folders =
        ["ranks/ddp2_gpt256_1gbit", "ranks/ddp2_gpt256_2gbit", "ranks/ddp4_straggler", "ranks/fsdp2_gpt256_1gbit"];
    folders.map(files).into_iter().chain([mlp(1), mlp(2)]).filter(|files| !files.is_empty())
}

#[test]
fn every_recorded_step_is_replayed_within_two_percent() -> Result<()> {
    for files in recordings() {
        let job = TrainingJob::read(&files)?;
        let steps = job.steps.len();
        let recorded = recorded(&files)?;
        // All steps did the same operations, so that the edges are those of all of them.
        assert_eq!(recorded.steps.len(), steps, "{files:?}");
        for (index, time) in recorded.recorded.iter().enumerate() {
            let step = recorded.step(index);
            let replayed = step.time(&simulate(&step.graph));
            assert!((replayed as f64 / *time as f64 - 1.0).abs() < 0.02, "{files:?}, step {index}: {replayed} {time}");
        }
        let typical = recorded.typical.time(&simulate(&recorded.typical.graph)) as f64;
        let lengths: Vec<f64> = recorded.recorded.iter().map(|time| *time as f64).collect();
        assert!(typical < 1.02 * median(&lengths), "{files:?}: {typical}");
    }
    Ok(())
}

/// Other programs made some steps half as long again as others. With one factor for each rank, kind of work and stretch between
/// exchanges, graphs that were built without a step predict it all the same.
#[test]
fn steps_are_predicted_from_the_others_and_their_load() -> Result<()> {
    for files in recordings() {
        let job = TrainingJob::read(&files)?;
        let exchanges = RankExchanges::find(&job);
        let (recorded, left_out) =
            RecordedSteps::with_left_out(&job, &exchanges, &RankClocks::estimate(&job, &exchanges))?;
        assert_eq!(left_out.len(), job.steps.len());
        assert!(left_out.iter().all(|step| step.error_under_load().abs() < 2.0), "{files:?}: {left_out:?}");
        let lengths: Vec<f64> = recorded.recorded.iter().map(|time| *time as f64).collect();
        let step = recorded.as_recorded();
        let off = step.time(&simulate(&step.graph)) as f64 / median(&lengths) - 1.0;
        assert!(off.abs() < 0.02, "{files:?}: {off}");
    }
    Ok(())
}

/// Median seconds of the job's plain steps by `bucket_cap_mb`: a step is the longest of its ranks'.
type Measured = BTreeMap<String, f64>;

fn measured(files: &[PathBuf]) -> Result<Measured> {
    let mut longest: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(file).map_err(|cause| Error::io(file, "read measured steps", &cause))?;
        let json: Value = serde_json::from_str(&text).map_err(|cause| Error::input(cause.to_string()).file(file))?;
        for (cap, rows) in json["seconds"].as_object().or(json["times"].as_object()).into_iter().flatten() {
            let seconds = rows.as_array().into_iter().flatten().filter_map(|row| row.as_f64().or(row[0].as_f64()));
            let steps = longest.entry(cap.clone()).or_default();
            let seconds: Vec<f64> = seconds.collect();
            steps.resize(seconds.len(), 0.0);
            steps.iter_mut().zip(seconds).for_each(|(longest, seconds)| *longest = seconds.max(*longest));
        }
    }
    longest.remove("nocomm");
    Ok(longest.into_iter().map(|(cap, steps)| (cap, median(&steps))).collect())
}

fn measured_in(folder: &str, prefix: &str) -> Result<Measured> {
    let Some(folder) = shared(folder) else { return Ok(Measured::new()) };
    let file = |rank: u32| folder.join(format!("{prefix}rank{rank}_measured.json"));
    measured(&[file(0), file(1)])
}

/// Errors in percent of predicting the steps of another job from a recording whose plain steps take `plain` seconds.
fn errors(traces: &[PathBuf], plain: f64, link: Option<&str>, others: &Measured) -> Result<BTreeMap<String, [f64; 2]>> {
    let mut recorded = recorded(traces)?;
    recorded.take_out_distortion(PlainStep::from_mean((1e9 * plain) as u64));
    let communication = fit(&recorded, CollectiveAlgorithm::Ring);
    let error = |(cap, seconds): (&String, &f64)| {
        let buckets = (others.len() > 1).then(|| format!("bucket_cap_mb = {cap}"));
        let changes: Result<Vec<Box<dyn StepChange>>> =
            link.map(str::to_owned).into_iter().chain(buckets).map(|text| parse(&text)).collect();
        let after = predict(&recorded, &communication, &changes?)?.after.time / 1e9;
        Ok((cap.clone(), [after, 100.0 * (after / seconds - 1.0)]))
    };
    others.iter().map(error).collect()
}

/// Checks that the mean error is at most `most` percent, and that the cap of the shortest predicted step takes at most 2 %
/// longer than the best measured one.
fn check(name: &str, errors: &BTreeMap<String, [f64; 2]>, measured: &Measured, most: f64) {
    let mean = errors.values().map(|[_, error]| error.abs()).sum::<f64>() / errors.len() as f64;
    assert!(mean <= most, "{name}: mean error {mean:.2} %: {errors:?}");
    let best = errors.iter().min_by(|(_, a), (_, b)| a[0].total_cmp(&b[0])).map(|(cap, _)| measured[cap]);
    let least = measured.values().copied().fold(f64::INFINITY, f64::min);
    assert!(best.is_some_and(|best| best <= 1.02 * least), "{name}: {best:?} {least}");
}

/// Two ranks share a loopback of 1 Gb/s, 8 ns a byte. A ring of two sends as many bytes from each rank as the all-reduce has, 16 ns for each of these. gloo runs two
/// all-reduces at once, each of which seems to take longer or shorter than that.
#[test]
fn all_reduces_that_run_at_once_show_the_bandwidth_of_their_link() -> Result<()> {
    let recorded = recorded(&[Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/ranks/two")])?;
    let cost = fit(&recorded, CollectiveAlgorithm::Ring).groups[0];
    assert!(cost.is_some_and(|cost| (cost.per_byte.value / 16.0 - 1.0).abs() < 0.05), "{cost:?}");
    Ok(())
}

#[test]
fn steps_with_other_buckets_are_predicted_from_one_recording() -> Result<()> {
    for (gigabits, most) in [(1, 2.0), (2, 3.0)] {
        let (files, measured) = (mlp(gigabits), measured_in("ddp", &format!("{gigabits}gbit_mlp_"))?);
        if let Some(plain) = measured.get("8.0") {
            check("MLP", &errors(&files, *plain, None, &measured)?, &measured, most);
        }
        let folder = format!("ranks/ddp2_gpt256_{gigabits}gbit");
        let (traces, measured) = (files_of(&folder), measured_in(&folder, "")?);
        if let Some(plain) = measured.get("25.0") {
            check("transformer", &errors(&traces, *plain, None, &measured)?, &measured, 3.0);
        }
    }
    Ok(())
}

fn files_of(folder: &str) -> Vec<PathBuf> {
    files(folder).into_iter().filter(|file| file.extension() == Some(Path::new("gz").as_os_str())).collect()
}

#[test]
fn steps_on_another_link_are_predicted_from_one_recording() -> Result<()> {
    let mlp_steps = [1, 2].map(|gigabits| measured_in("ddp", &format!("{gigabits}gbit_mlp_")));
    let [mlp_at_one, mlp_at_two] = mlp_steps;
    let (at_one, at_two) = (mlp_at_one?, mlp_at_two?);
    if let Some(plain) = at_two.get("8.0") {
        check("MLP", &errors(&mlp(2), *plain, Some("bandwidth x 0.5"), &at_one)?, &at_one, 2.0);
    }
    let folders = ["ranks/ddp2_gpt256_1gbit", "ranks/ddp2_gpt256_2gbit"];
    for (from, to, link) in [(0, 1, "bandwidth x 2"), (1, 0, "bandwidth x 0.5")] {
        let (own, other) = (measured_in(folders[from], "")?, measured_in(folders[to], "")?);
        if let Some(plain) = own.get("25.0") {
            check("transformer", &errors(&files_of(folders[from]), *plain, Some(link), &other)?, &other, 4.0);
        }
    }
    let [at_one, at_two] =
        ["ranks/fsdp2_gpt256_1gbit", "ranks/fsdp2_gpt256_2gbit"].map(|folder| measured_in(folder, ""));
    let (at_one, at_two) = (at_one?, at_two?);
    if let Some(plain) = at_one.get("25.0") {
        let traces = files_of("ranks/fsdp2_gpt256_1gbit");
        check("FSDP2", &errors(&traces, *plain, Some("bandwidth x 2"), &at_two)?, &at_two, 5.0);
    }
    Ok(())
}

/// Rank 1 of four sleeps for 200 ms before its forward pass; the steps take 320 ms.
#[test]
fn without_its_straggler_a_step_takes_200_ms_less() -> Result<()> {
    let files = files_of("ranks/ddp4_straggler");
    if files.is_empty() {
        return Ok(());
    }
    let recorded = recorded(&files)?;
    let communication = fit(&recorded, CollectiveAlgorithm::Ring);
    let outcome = predict(&recorded, &communication, &[parse("rank 1 as the others")?])?;
    let gained = outcome.before as f64 - outcome.after.time;
    assert!((gained / 200e6 - 1.0).abs() < 0.05, "{} ms", gained / 1e6);
    Ok(())
}

#[test]
fn recording_made_the_steps_on_the_faster_link_longer() -> Result<()> {
    let plain = measured_in("ranks/ddp2_gpt256_2gbit", "")?;
    if let Some(plain) = plain.get("25.0") {
        let mut recorded = recorded(&files_of("ranks/ddp2_gpt256_2gbit"))?;
        let distortion = recorded.take_out_distortion(PlainStep::from_mean((1e9 * plain) as u64));
        // Steps of the recording take 338 to 549 ms, plain ones 320. Other programs made most of them longer, the replayed one not.
        assert!((100.0 * 18.0 / 320.0..100.0 * 229.0 / 320.0).contains(&distortion.percent()), "{distortion:?}");
        assert!((338e6..360e6).contains(&(distortion.replayed as f64)), "{distortion:?}");
        assert!(matches!(distortion.correction, StepCorrection::Threads(factor) if factor < 1.0));
        let typical = recorded.typical.time(&simulate(&recorded.typical.graph)) as f64;
        assert!((typical / (1e9 * plain) - 1.0).abs() < 0.001);
    }
    Ok(())
}

/// A forward and a backward operation on two threads, and a stream that waits for another by an event, as PyTorch 2.3 writes
/// them.
const TWO_THREADS: &str = r#"{"traceEvents": [
{"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 1, "tid": 1, "ts": 0, "dur": 10},
{"ph": "s", "id": 3, "pid": 1, "tid": 1, "ts": 0, "cat": "fwdbwd", "name": "fwdbwd"},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 2, "dur": 1, "args": {"correlation": 4}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaEventRecord", "pid": 1, "tid": 1, "ts": 4, "dur": 1, "args": {"correlation": 5}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamWaitEvent", "pid": 1, "tid": 1, "ts": 5, "dur": 1, "args": {"correlation": 6}},
{"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "pid": 0, "tid": 9, "ts": 5, "dur": 1, "args": {"correlation": 6,
  "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 5, "stream": 9}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 7, "dur": 1, "args": {"correlation": 7}},
{"ph": "X", "cat": "kernel", "name": "first", "pid": 0, "tid": 7, "ts": 12, "dur": 13, "args": {"correlation": 4}},
{"ph": "X", "cat": "kernel", "name": "second", "pid": 0, "tid": 9, "ts": 26, "dur": 4, "args": {"correlation": 7}},
{"ph": "X", "cat": "cpu_op", "name": "AddmmBackward0", "pid": 1, "tid": 2, "ts": 15, "dur": 5},
{"ph": "f", "id": 3, "pid": 1, "tid": 2, "ts": 15, "cat": "fwdbwd", "name": "fwdbwd", "bp": "e"}
]}"#;

#[test]
fn backward_operations_wait_for_forward_ones_and_streams_for_events() -> Result<()> {
    let folder = tempfile::tempdir().map_err(|cause| Error::io(Path::new("."), "make a folder", &cause))?;
    let file = folder.path().join("rank0.json");
    std::fs::write(&file, TWO_THREADS).map_err(|cause| Error::io(&file, "write this trace", &cause))?;
    let graph = recorded(&[file])?.typical.graph;
    let edges: Vec<(&str, &str, EdgeKind)> =
        graph.edges().map(|(from, to, kind)| (graph.name(from), graph.name(to), kind)).collect();
    assert!(edges.contains(&("aten::linear", "AddmmBackward0", EdgeKind::ForwardBackward)), "{edges:?}");
    // The row before the second kernel is the delay until it starts.
    assert!(edges.contains(&("first", "(no event)", EdgeKind::Synchronisation)), "{edges:?}");
    Ok(())
}
