//! `replay` as a whole, on made-up traces and dumps.

use super::*;
use crate::communication::CollectiveAlgorithm;
use crate::synthetic::{SyntheticCluster, cluster, write_traces};
use crate::waiting::LongWait;
use perf4sight_base::overwrite::PROGRAM;
use perf4sight_report::{Console, ConsoleSettings, OutputMode};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;
use tempfile::TempDir;

fn context() -> Context {
    let settings = ConsoleSettings { mode: OutputMode::Json, colour: false, bars: false, width: None };
    let console = Console::writing_to(settings, std::io::sink(), std::io::sink());
    Context::new(console, || SystemTime::UNIX_EPOCH, Arc::default(), PathBuf::new(), String::new())
}

fn replay(traces: Vec<PathBuf>, out: &Path, what_ifs: &[&str], algorithm: CollectiveAlgorithm) -> ReplayVerb {
    let what_ifs = what_ifs.iter().map(|text| (*text).to_owned()).collect();
    let request = ReplayRequest { what_ifs, algorithm, ..ReplayRequest::default() };
    ReplayVerb { record: None, traces, out: out.to_owned(), as_all_ranks: false, request }
}

/// A folder with three steps of a cluster of four ranks on a slow link.
fn traces() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let shape = SyntheticCluster { ranks: 4, layers: 8, per_byte: 1.0, jitter: 0.01, ..SyntheticCluster::default() };
    let steps: Vec<_> = (0..3).map(|seed| cluster(&shape, seed).unwrap()).collect();
    write_traces(&steps, &[], folder.path()).unwrap();
    folder
}

fn read(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join(files::JSON)).unwrap()).unwrap()
}

/// The change of each what-if in percent; none for one without an answer.
fn changes(json: &Value) -> Vec<Option<f64>> {
    let rows = json["replay"]["what_ifs"].as_array().unwrap();
    rows.iter().map(|row| row["change_percent"].as_f64()).collect()
}

#[test]
fn what_the_traces_cannot_answer_leaves_the_other_answers() {
    let (traces, out) = (traces(), tempfile::tempdir().unwrap());
    let what_ifs =
        ["operations 'gelu*' x 0.5", "rank 9 as the others", "bandwidth x 1e-6; bandwidth x 1e-6", "bandwidth x 0.5"];
    let replay = replay(vec![traces.path().to_owned()], out.path(), &what_ifs, CollectiveAlgorithm::Ring);
    let mut context = context();
    let summary = replay.run(&mut context).unwrap();
    let failure = summary.failure.map(|failure| failure.to_string()).unwrap_or_default();
    assert!(failure.contains("3 of 4 what-ifs have no answer: \"operations 'gelu*' x 0.5\", \"rank 9"), "{failure}");
    let json = read(out.path());
    let changes = changes(&json);
    assert_eq!(changes[..3], [None; 3]);
    assert!(changes[3].is_some_and(|change| change > 10.0), "{changes:?}");
    let row = &json["replay"]["what_ifs"][0]["critical"];
    assert_eq!(row, "cannot be asked: no operation in the replayed step is named 'gelu*'");
    let reasons = ["nearest names: '", "rank 9 has no trace", "more than 100 days"];
    for (place, reason) in reasons.into_iter().enumerate() {
        let reply = json["replay"]["what_ifs_unanswered"][place]["cannot_be_asked"].as_str().unwrap();
        assert!(reply.contains(reason), "{reply}");
        assert!(context.warnings().iter().any(|warning| warning.contains(reason)), "{:?}", context.warnings());
    }
}

/// A what-if of another GPU needs a model: without one it is the only one that has no answer, and the run has failed.
#[test]
fn another_gpu_without_a_model_leaves_the_other_answers() {
    let (traces, out) = (traces(), tempfile::tempdir().unwrap());
    let what_ifs = ["gpu = H100", "bandwidth x 0.5"];
    let replay = replay(vec![traces.path().to_owned()], out.path(), &what_ifs, CollectiveAlgorithm::Ring);
    let mut context = context();
    let summary = replay.run(&mut context).unwrap();
    let failure = summary.failure.map(|failure| failure.to_string()).unwrap_or_default();
    assert!(failure.contains("1 of 2 what-ifs has no answer: \"gpu = H100\""), "{failure}");
    assert!(
        context.warnings().iter().any(|warning| warning.contains("give one (cost_model)")),
        "{:?}",
        context.warnings()
    );
    let json = read(out.path());
    let changes = changes(&json);
    assert!(changes[0].is_none() && changes[1].is_some(), "{changes:?}");
}

/// Of four ranks a what-if of four ranks, done as they are taken to be, is the same step.
#[test]
fn as_many_ranks_by_the_same_algorithm_change_nothing() {
    let (traces, out) = (traces(), tempfile::tempdir().unwrap());
    for (algorithm, same) in
        [(CollectiveAlgorithm::Ring, "ranks = 4 by ring"), (CollectiveAlgorithm::Tree, "ranks = 4 by tree")]
    {
        replay(vec![traces.path().to_owned()], out.path(), &["ranks = 4", same], algorithm)
            .run(&mut context())
            .unwrap();
        assert_eq!(changes(&read(out.path())), [Some(0.0); 2], "{algorithm:?}");
    }
}

/// All operations have one size, which does not show the latency: a table does.
#[test]
fn an_assumed_latency_is_said_and_a_table_knows_it() {
    let (traces, out) = (traces(), tempfile::tempdir().unwrap());
    let table = out.path().join("table.txt");
    fs::write(&table, "1000 250 float sum -1 40.0 0 0 0\n8000000 2000000 float sum -1 9000.0 0 0 0\n").unwrap();
    let what_ifs = ["bandwidth x 2", "latency x 2"];
    for (nccl_tests, answered) in [(None, [true, false]), (Some(table), [true, true])] {
        let mut replay =
            replay(vec![traces.path().to_owned()], &out.path().join("replay"), &what_ifs, CollectiveAlgorithm::Ring);
        replay.request.nccl_tests = nccl_tests;
        let mut context = context();
        replay.run(&mut context).unwrap();
        let changes = changes(&read(&out.path().join("replay")));
        assert_eq!(changes.iter().map(Option::is_some).collect::<Vec<_>>(), answered, "{:?}", context.warnings());
        let rests = context.warnings().iter().any(|warning| warning.contains("rests on how long a message takes"));
        assert_eq!(rests, !answered[1], "{:?}", context.warnings());
    }
}

/// The results of a replay in the folder of the traces, twice, and what other verbs write there.
#[test]
fn results_among_the_traces_are_no_traces() {
    let traces = traces();
    let here = vec![traces.path().to_owned()];
    collect::verb(here.clone(), traces.path().join("collected.json.gz")).run(&mut context()).unwrap();
    for _ in 0..2 {
        let mut context = context();
        replay(here.clone(), traces.path(), &[], CollectiveAlgorithm::Ring).run(&mut context).unwrap();
        assert_eq!(read(traces.path())["ranks"].as_array().unwrap().len(), 4);
        let skipped = context.warnings().iter().find(|warning| warning.contains("skipped"));
        assert_eq!(skipped, None);
    }
}

/// Slices of a timeline by process and row, as nanoseconds of begin and end.
fn slices(timeline: &Path) -> BTreeMap<[u64; 2], Vec<[i64; 2]>> {
    let file = flate2::read::GzDecoder::new(fs::File::open(timeline).unwrap());
    let json: Value = serde_json::from_reader(file).unwrap();
    let mut rows: BTreeMap<[u64; 2], Vec<[i64; 2]>> = BTreeMap::new();
    for event in json["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X") {
        let [begin, long] = ["ts", "dur"].map(|key| (event[key].as_f64().unwrap() * 1e3).round() as i64);
        rows.entry(["pid", "tid"].map(|key| event[key].as_u64().unwrap())).or_default().push([begin, begin + long]);
    }
    rows
}

/// Two ranks whose exchanges overlap in part, as those of threads do, with a clock whose zero lies behind all events.
#[test]
fn timelines_begin_at_zero_and_no_slices_of_a_row_overlap_in_part() {
    let (traces, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for rank in 0..2 {
        let exchange = |at: i32, long: i32| {
            let collective =
                r#""Collective name": "allreduce", "In msg nelems": 64, "dtype": "Float", "Group size": 2"#;
            format!(
                r#"{{"ph": "X", "cat": "kernel", "name": "ncclKernel", "pid": 0, "tid": 7, "ts": {}, "dur": {long}, "args": {{{collective}}}}}"#,
                at - 1_000_000 + 300 * rank
            )
        };
        let events: Vec<String> =
            (0..8).flat_map(|step| [exchange(step * 10_000, 3_000), exchange(step * 10_000 + 1_000, 4_000)]).collect();
        let text = format!(
            r#"{{"distributedInfo": {{"rank": {rank}, "world_size": 2}}, "traceEvents": [{}]}}"#,
            events.join(", ")
        );
        fs::write(traces.path().join(format!("rank{rank}.json")), text).unwrap();
    }
    let here = vec![traces.path().to_owned()];
    let joined = out.path().join("all.json.gz");
    collect::verb(here.clone(), joined.clone()).run(&mut context()).unwrap();
    replay(here, out.path(), &[], CollectiveAlgorithm::Ring).run(&mut context()).unwrap();
    for timeline in [joined, out.path().join(files::TIMELINE)] {
        let rows = slices(&timeline);
        assert_eq!(rows.values().flatten().map(|[begin, _]| *begin).min(), Some(0), "{}", timeline.display());
        for row in rows.values() {
            for [begin, end] in row {
                let overlaps = |[from, to]: &&[i64; 2]| begin < from && from < end && end < to;
                assert_eq!(row.iter().find(overlaps), None, "{}: {begin} {end}", timeline.display());
            }
        }
        // Kernels, and waiting and transfer, of either rank.
        assert!(rows.keys().filter(|[process, _]| *process == 0).count() >= 4, "{:?}", rows.keys());
    }
}

/// The traces of four ranks in steps of 35 ms, and of 50 from a step on, since rank 2 computes for 45 ms instead of 30. The zero of the clocks is at a second.
fn traces_of_a_rank_that_becomes_slow(steps: u32, from: u32) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..4 {
        let mut begin = 1_000_000.0;
        let of_step = |number: u32| {
            let length = if number < from { 35_000.0 } else { 50_000.0 };
            let own = if number >= from && rank == 2 { 45_000.0 } else { 30_000.0 };
            let exchange = r#""Collective name": "allreduce", "In msg nelems": 64, "Out msg nelems": 64, "dtype": "Float", "Group size": 4"#;
            let event = |category: &str, name: &str, [start, long]: [f64; 2], args: &str| {
                format!(
                    r#"{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": 0, "tid": 7, "ts": {start:?}, "dur": {long:?}, "args": {{{args}}}}}"#
                )
            };
            let events = [
                event("user_annotation", &format!("ProfilerStep#{number}"), [begin, length], ""),
                event("kernel", "gemm", [begin, own], ""),
                event("kernel", "ncclDevKernel_AllReduce", [begin + own, length - own], exchange),
            ];
            begin += length;
            events.join(", ")
        };
        let events: Vec<String> = (0..steps).map(of_step).collect();
        let text = format!(
            r#"{{"distributedInfo": {{"rank": {rank}, "world_size": 4}}, "traceEvents": [{}]}}"#,
            events.join(", ")
        );
        fs::write(folder.path().join(format!("rank{rank}.json")), text).unwrap();
    }
    folder
}

/// However many of twenty steps are the slow ones. All waiting is for rank 2: 15 ms in each of them.
#[test]
fn a_rank_that_becomes_slow_is_named() {
    let when = |from| format!("from ProfilerStep#{from} on");
    for (from, says) in [(0, "in every step".to_owned()), (3, when(3)), (8, when(8)), (12, when(12))] {
        let traces = traces_of_a_rank_that_becomes_slow(20, from);
        let analysis = Analysis::new(TrainingJob::read(&[traces.path().to_owned()]).unwrap());
        let sentence = headline::headline(&analysis, None);
        assert!(
            sentence.starts_with("rank 2 makes the others wait ") && sentence.contains(&says),
            "{from}: {sentence}"
        );
    }
}

/// Rank 3 passes twice as much into each all-reduce as the others: in four steps, 16 calls that match nowhere.
#[test]
fn ranks_of_several_jobs_are_an_error_in_tables_and_joined_traces_too() {
    let (traces, out) = (traces_of_a_rank_that_becomes_slow(4, 2), tempfile::tempdir().unwrap());
    let here = || vec![traces.path().to_owned()];
    let failures = |name: &str| {
        let table = statistic::new(here(), out.path().join(format!("{name}.csv"))).run(&mut context()).unwrap();
        let joined = collect::verb(here(), out.path().join(format!("{name}.json"))).run(&mut context()).unwrap();
        [table, joined].map(|summary| summary.failure.map(|failure| failure.to_string()))
    };
    assert_eq!(failures("one"), [None, None]);
    let file = traces.path().join("rank3.json");
    let other = fs::read_to_string(&file).unwrap().replace(r#"msg nelems": 64"#, r#"msg nelems": 128"#);
    fs::write(&file, other).unwrap();
    for failure in failures("several") {
        assert!(
            failure.as_ref().is_some_and(
                |failure| failure.contains("16 of 16 exchanges in the steps of these ranks have no counterpart")
            ),
            "{failure:?}"
        );
    }
}

/// Events that begin at 0 on the common timeline are at a second in the trace of the first rank.
#[test]
fn a_timeline_tells_where_its_zero_is_in_the_trace_of_the_first_rank() {
    let (traces, mut joined) = (traces_of_a_rank_that_becomes_slow(4, 2), Vec::new());
    let analysis = Analysis::new(TrainingJob::read(&[traces.path().to_owned()]).unwrap());
    crate::timeline::write(&analysis, None, None, &mut joined).unwrap();
    let joined: serde_json::Value = serde_json::from_slice(&joined).unwrap();
    assert_eq!(joined["otherData"]["first_rank_at_zero_us"], 1_000_000.0);
}

/// Thirty exchanges of two ranks, one every 50 ms, whose ends agree to the nanosecond by one clock, or drift by 100 µs a second: over 1.5 s. Files that are
/// named after one host have one clock, whose uncertainty is no figure; others are known to a microsecond at best.
#[test]
fn one_clock_has_no_uncertainty_and_a_drift_is_no_offset_alone() {
    let clocks = |names: [&str; 2], rate: f64| {
        let (traces, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (rank, name) in names.into_iter().enumerate() {
            let process = 4711 + rank;
            let own = |moment: f64| moment * if rank == 1 { 1.0 + rate } else { 1.0 };
            let events = (0..30).flat_map(|number| {
                let begin = 50_000.0 * f64::from(number);
                let event = |name: &str, category: &str, thread: usize, from: f64, to: f64| {
                    let (from, long) = (own(from), own(to) - own(from));
                    format!(
                        r#"{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": {process}, "tid": {thread}, "ts": {from:.3}, "dur": {long:.3}, "args": {{"Collective name": "allreduce", "In msg nelems": 8, "dtype": "Float", "Group size": 2}}}}"#
                    )
                };
                [
                    event(&format!("ProfilerStep#{number}"), "user_annotation", process, begin, begin + 49_000.0),
                    event("ncclKernel", "kernel", 7, begin + 1_000.0, begin + 20_000.0),
                ]
            });
            let events: Vec<String> = events.collect();
            let text = format!(
                r#"{{"distributedInfo": {{"rank": {rank}, "world_size": 2}}, "traceEvents": [{}]}}"#,
                events.join(", ")
            );
            fs::write(traces.path().join(name), text).unwrap();
        }
        replay(vec![traces.path().to_owned()], out.path(), &[], CollectiveAlgorithm::Ring).run(&mut context()).unwrap();
        let row = read(out.path())["ranks"][1].clone();
        ["clock_sure_ms", "clock_drift_us_per_s"].map(|key| row[key].as_f64())
    };
    let (host, others) = (["a_4711.17.pt.trace.json", "a_4712.18.pt.trace.json"], ["rank0.json", "rank1.json"]);
    assert_eq!(clocks(host, 0.0), [None, None]);
    assert_eq!(clocks(others, 0.0), [Some(0.001), None]);
    let [_, drift] = clocks(others, 100e-6);
    assert!(drift.is_some_and(|drift| (drift + 100.0).abs() < 1.0), "{drift:?}");
}

/// The first operators of each step are lost from the trace of rank 2: one, two and three of them.
#[test]
fn a_rank_whose_trace_lost_events_is_named_where_no_two_of_its_steps_are_alike() {
    let (traces, out) = (traces(), tempfile::tempdir().unwrap());
    let file = traces.path().join("rank2.json");
    let (mut step, mut lost) = (0, 0);
    let text: String = fs::read_to_string(&file).unwrap();
    let is_left = |line: &&str| {
        (step, lost) = if line.contains("ProfilerStep#") { (step + 1, 0) } else { (step, lost) };
        lost += usize::from(line.contains("cpu_op"));
        !line.contains("cpu_op") || lost > step
    };
    fs::write(&file, text.lines().filter(is_left).collect::<Vec<_>>().join("\n")).unwrap();
    let replay = replay(vec![traces.path().to_owned()], out.path(), &[], CollectiveAlgorithm::Ring);
    let mut context = context();
    replay.run(&mut context).unwrap();
    let warnings = context.warnings().join("\n");
    assert!(warnings.contains("1 of 3 steps are replayed"), "{warnings}");
    assert!(
        warnings.contains("rank 2 has other events in each step than in any other, as a trace that lost some"),
        "{warnings}"
    );
}

/// The others wait long for the first rank in each of three steps, though not longest; and for no rank at all.
#[test]
fn all_steps_are_not_most_and_no_time_is_none() {
    let traces = traces();
    let mut analysis = Analysis::new(TrainingJob::read(&[traces.path().to_owned()]).unwrap());
    let first = &mut analysis.stragglers[0];
    let late = |step: usize| LongWait { step, milliseconds: 100.0 };
    (first.share, first.steadiness, first.of_all, first.stands_out) = (0.5, 0.0, 1.0, true);
    first.occasions = (0..3).map(late).collect();
    let sentence = headline::headline(&analysis, None);
    assert!(sentence.contains(" wait in all steps: ") && !sentence.contains("3 of 3"), "{sentence}");
    analysis.stragglers[0].occasions.truncate(2);
    let sentence = headline::headline(&analysis, None);
    assert!(sentence.contains(": 100 ms in 2 of 3 steps, "), "{sentence}");
    let first = &mut analysis.stragglers[0];
    (first.share, first.caused.mean) = (0.0, 0.0);
    assert_eq!(headline::headline(&analysis, None), "no rank in particular makes the others wait");
}

/// Dumps without times give the same keys as traces, into the folder that was chosen.
#[test]
fn a_hang_is_written_with_the_keys_of_every_replay() {
    let [out, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let flight = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/flight");
    let dumps = (0..3).map(|rank| flight.join(format!("gloo_trace_rank_{rank}"))).collect();
    let hanging = replay(dumps, out.path(), &["bandwidth x 2"], CollectiveAlgorithm::Ring);
    // Twice: what it wrote is its own to replace.
    for _ in 0..2 {
        let summary = hanging.run(&mut context()).unwrap();
        assert!(summary.files.iter().all(|(_, file)| file.metadata().unwrap().len() > 100));
    }
    let hang = read(out.path());
    assert!(hang["answer"].as_str().unwrap().contains("rank 2 has not come to all_reduce 6"));
    assert!(hang["hang"]["operations"].is_array() && hang["generator"] == PROGRAM);
    assert!(hang["warnings"].to_string().contains("what changes would bring"));
    let traces = traces();
    replay(vec![traces.path().to_owned()], other.path(), &[], CollectiveAlgorithm::Ring).run(&mut context()).unwrap();
    let keys = |json: &Value| json.as_object().unwrap().keys().cloned().collect::<BTreeSet<String>>();
    assert_eq!(keys(&hang), keys(&read(other.path())));
    assert!(fs::read_to_string(out.path().join(files::REPORT)).unwrap().contains("all_reduce"));
}

/// The advice names what there is: no verb with a folder of results replaces files of others.
#[test]
fn a_folder_of_others_is_refused_with_advice_that_works() {
    let (traces, out) = (traces(), tempfile::tempdir().unwrap());
    fs::write(out.path().join(files::JSON), "own").unwrap();
    let refused =
        replay(vec![traces.path().to_owned()], out.path(), &[], CollectiveAlgorithm::Ring).run(&mut context()).err();
    assert_eq!(refused.as_ref().and_then(Error::remedy), Some("choose another folder (out)"));
}

/// Rank 0 works 80 ms after the exchange, so that it begins every step but the first 80 ms after the other: a step takes 100 ms,
/// 10 of work, 10 of exchange and these 80, which are not in the files twice.
#[test]
fn a_rank_that_ends_late_is_not_late_twice_in_the_files() {
    let (traces, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for rank in 0..2 {
        let event = |tid: u32, cat: &str, name: &str, ts: u32, dur: u32, args: &str| {
            format!(
                r#"{{"ph": "X", "cat": "{cat}", "name": "{name}", "pid": 1, "tid": {tid}, "ts": {ts}, "dur": {dur}, "args": {{{args}}}}}"#
            )
        };
        let step = |step: u32| {
            let begin = 100_000 * step + if rank == 0 { 80_000 } else { 0 };
            let exchanged = 100_000 * step + 90_000;
            let late = if rank == 0 { 80_000 } else { 0 };
            let (from, end) = (begin + 10_000, exchanged + 10_000 + late);
            let args = r#""Input Dims": [[100]], "Input type": ["float"]"#;
            [
                event(1, "user_annotation", &format!("ProfilerStep#{step}"), begin, end - begin, ""),
                event(1, "cpu_op", "aten::mm", begin, 10_000, ""),
                event(1, "cpu_op", "c10d::allreduce_", from, exchanged + 10_000 - from, args),
                event(2, "user_annotation", "gloo:all_reduce", from, exchanged + 10_000 - from, args),
                event(1, "cpu_op", "aten::add", exchanged + 10_000, late.max(1), ""),
            ]
        };
        let events: Vec<String> = (0..8).flat_map(step).collect();
        let text = format!(
            r#"{{"distributedInfo": {{"rank": {rank}, "world_size": 2}}, "traceEvents": [{}]}}"#,
            events.join(", ")
        );
        fs::write(traces.path().join(format!("rank{rank}.json")), text).unwrap();
    }
    replay(vec![traces.path().to_owned()], out.path(), &[], CollectiveAlgorithm::Ring).run(&mut context()).unwrap();
    assert_eq!(read(out.path())["replay"]["typical_ms"], 100.0);
    let table = fs::read_to_string(out.path().join(files::OPERATIONS)).unwrap();
    let ends = table.lines().skip(1).map(|line| {
        let cells: Vec<f64> = line.split(',').skip(4).take(2).map(|cell| cell.parse().unwrap()).collect();
        cells[0] + cells[1]
    });
    let end = ends.fold(0.0, f64::max);
    assert!((end - 100.0).abs() < 0.1, "{end}");
}

/// Ctrl-C before the traces were read, or while they are: nothing is written.
#[test]
fn nothing_is_written_after_ctrl_c() {
    let (traces, out) = (traces(), tempfile::tempdir().unwrap());
    let here = || vec![traces.path().to_owned()];
    let context = || {
        let context = context();
        context.cancel.store(true, Ordering::Relaxed);
        context
    };
    let place = |name: &str| out.path().join(name);
    replay(here(), &place("replay"), &[], CollectiveAlgorithm::Ring).run(&mut context()).unwrap();
    collect::verb(here(), place("all.json.gz")).run(&mut context()).unwrap();
    statistic::new(here(), place("statistic.csv")).run(&mut context()).unwrap();
    let written: Vec<PathBuf> = fs::read_dir(out.path()).unwrap().flatten().map(|entry| entry.path()).collect();
    assert!(written.iter().all(|path| path.is_dir() && fs::read_dir(path).unwrap().next().is_none()), "{written:?}");
    // A file of which a part is written is not there.
    let target = until_cancelled::UntilCancelled { target: Vec::new(), cancel: context().cancel };
    assert!(crate::timeline::write(&Analysis::new(TrainingJob::read(&here()).unwrap()), None, None, target).is_err());
}

#[test]
fn as_all_ranks_is_of_one_rank() {
    let (traces, out) = (traces(), tempfile::tempdir().unwrap());
    let verb = replay(vec![traces.path().to_owned()], out.path(), &[], CollectiveAlgorithm::Ring);
    let refused = ReplayVerb { as_all_ranks: true, ..verb }.run(&mut context()).unwrap_err().to_string();
    assert!(refused.contains("one rank alone can stand for all, and there are traces of 4"), "{refused}");
}

/// The folder twice, and one of its files.
#[test]
fn what_is_named_twice_is_read_once() {
    let (traces, out) = (traces(), tempfile::tempdir().unwrap());
    let paths = vec![traces.path().to_owned(), traces.path().join("."), traces.path().join("rank0.json")];
    replay(paths, out.path(), &[], CollectiveAlgorithm::Ring).run(&mut context()).unwrap();
    assert_eq!(read(out.path())["ranks"].as_array().unwrap().len(), 4);
}

/// One step of five, whose transfers take a hundred times as long, is in neither the replayed step nor what-ifs.
#[test]
fn a_step_that_is_longer_than_all_others_is_told() {
    let (traces, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let shape = SyntheticCluster { ranks: 2, layers: 4, per_byte: 1.0, ..SyntheticCluster::default() };
    let late = SyntheticCluster { per_byte: 100.0, ..shape.clone() };
    let steps: Vec<_> = (0..5).map(|seed| cluster(if seed == 3 { &late } else { &shape }, seed).unwrap()).collect();
    write_traces(&steps, &[], traces.path()).unwrap();
    let mut context = context();
    replay(vec![traces.path().to_owned()], out.path(), &[], CollectiveAlgorithm::Ring).run(&mut context).unwrap();
    let warning = context.warnings().iter().find(|warning| warning.contains("what made that one longer"));
    assert!(warning.is_some_and(|warning| warning.starts_with("ProfilerStep#")), "{:?}", context.warnings());
}
