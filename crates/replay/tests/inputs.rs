//! Files of other programs than PyTorch's profiler: dPRO's folders, Horovod's timelines, dumps of the flight recorder,
//! Chakra traces, execution traces. What they should show is known by how they were made.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

#[path = "../../traces/tests/shared/mod.rs"]
#[expect(dead_code, reason = "other tests read folders of traces, too")]
mod shared;

mod published;

use perf4sight_replay::Analysis;
use perf4sight_replay::hang::HangReport;
use perf4sight_replay::inputs;
use perf4sight_replay::ranks::TrainingJob;
use perf4sight_replay::replayed_job::ReplayedJob;
use perf4sight_replay::request::ReplayRequest;
use perf4sight_replay::verb::analyze;
use perf4sight_report::{Console, ConsoleSettings, OutputMode};
use perf4sight_verb::Context;
use perf4sight_verb::config::{ConfigDocument, ConfigEntry, SettingTable, SettingValues, Value, ValueOrigin};
use published::{Published, Transport};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::SystemTime;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn replayed(analysis: &Analysis) -> ReplayedJob {
    ReplayedJob::replay(analysis, &ReplayRequest::default()).unwrap()
}

fn error(paths: &[PathBuf]) -> String {
    inputs::read(paths).and_then(|inputs| TrainingJob::from_traces(inputs.ranks)).unwrap_err().to_string()
}

/// Four GPUs on two machines whose clocks are a second apart; rank 3 begins 20 ms later.
#[test]
fn a_published_folder_is_aligned_and_replayed() {
    for transport in [Transport::Ring, Transport::Tree, Transport::MessagesOnly, Transport::BytePs] {
        let folder = tempfile::tempdir().unwrap();
        // A worker of BytePS is a machine.
        let (machines, gpus) = if transport == Transport::BytePs { (4, 1) } else { (2, 2) };
        let made = Published { machines, gpus, transport, straggler: Some((3, 20_000.0)), ..Published::default() };
        let truth = made.write(folder.path());
        let analysis = Analysis::new(TrainingJob::read(&[folder.path().to_owned()]).unwrap());
        assert_eq!((analysis.job.ranks.len(), analysis.job.steps.len()), (4, 5), "{transport:?}");
        let off = analysis.clocks.ranks[3].offset + made.skew * 1e3 * (machines - 1) as f64;
        assert!(off.abs() < 1e6, "{transport:?}: {off} ns");
        // Messages begin on all ranks when the last one is ready.
        if transport != Transport::MessagesOnly {
            let first = &analysis.stragglers[0];
            assert_eq!(analysis.job.ranks[first.rank].number, 3, "{transport:?}");
        }
        let replayed = replayed(&analysis);
        assert_eq!(replayed.steps.len(), 5, "{transport:?}");
        for (step, truth) in replayed.steps.iter().zip(&truth) {
            let error = step.replayed() as f64 / (truth * 1e3) - 1.0;
            assert!(error.abs() < 0.02, "{transport:?}: {} {truth}", step.replayed());
        }
    }
}

/// Two machines with two GPUs: without the folder of its first GPU, the second machine has rank 3 alone.
#[test]
fn missing_and_broken_folders_of_a_published_layout_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let made = Published { machines: 2, gpus: 2, transport: Transport::Ring, steps: 2, ..Published::default() };
    made.write(folder.path());
    for gpu in ["host0/0", "host0/1", "host1/0", "host1/1"] {
        let _ = fs::remove_file(folder.path().join(gpu).join("nccl_rank_graph.json"));
    }
    fs::write(folder.path().join("host1/1/dag.gml"), "graph [\n node [ id 0 label \"FW.l0\"\n edge [").unwrap();
    fs::remove_dir_all(folder.path().join("host1/0")).unwrap();
    let job = TrainingJob::read(&[folder.path().to_owned()]).unwrap();
    assert_eq!(job.ranks.iter().map(|rank| rank.number).collect::<Vec<_>>(), [0, 1, 3]);
    let warnings = job.warnings().join("\n");
    assert!(warnings.contains("rank 2 of 4 is missing"), "{warnings}");
    assert!(warnings.contains("host1/1/dag.gml:3: ends in the middle of a list"), "{warnings}");
    assert!(
        !warnings.contains(&format!("rank 0: {}/host1", folder.path().display())),
        "it is not rank 0's: {warnings}"
    );
}

/// Runs the published call on a folder.
fn analyze(option: &str, folder: &Path) {
    let entry = |(key, value): (&str, &str)| ConfigEntry {
        key: key.to_owned(),
        value: Value::Text(value.to_owned()),
        origin: ValueOrigin::Argument(format!("--{key}")),
    };
    let arguments = [("option", option), ("path", folder.to_str().unwrap())].map(entry);
    let groups = &[analyze::SETTINGS, analyze::PUBLISHED, analyze::ACCEPTED];
    let table = SettingTable { section: "analyze", about: "", groups };
    let document = ConfigDocument::of_arguments("analyze", arguments.to_vec());
    let verb = analyze::parse(&SettingValues::of_arguments(&document, &table).unwrap()).unwrap();
    let settings = ConsoleSettings { mode: OutputMode::Json, colour: false, bars: false, width: None };
    let console = Console::writing_to(settings, std::io::sink(), std::io::sink());
    let mut context = Context::new(console, || SystemTime::UNIX_EPOCH, Arc::default(), PathBuf::new(), String::new());
    verb.run(&mut context).unwrap();
}

/// The numbers are those that dPRO (joapolarbear/dpro at 16a9d2f) wrote of the same folder, which the example `published_folder`
/// writes. Its times of single `Sync` ranges are not among them: of ranges that overlap it ends the one that began last, whatever
/// its name. Their sum is right.
#[test]
fn statistics_are_those_of_the_published_program() {
    let folder = tempfile::tempdir().unwrap();
    Published { layers: 3, steps: 3, straggler: Some((3, 20_000.0)), ..Published::default() }.write(folder.path());
    analyze("statistic", folder.path());
    let text = fs::read_to_string(folder.path().join("statistic.txt")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "2,2,0,51.000000");
    let [operations, categories] = [lines[1], lines[2]].map(|line| serde_json::from_str::<Json>(line).unwrap());
    assert_eq!((operations.as_object().unwrap().len(), lines.len()), (240, 3));
    let is = |found: &Json, expected: f64| (found.as_f64().unwrap() - expected).abs() < 1e-4;
    for (name, cat, id, avg) in [
        ("host1.rank1->FW.mlp/layer1/MatMul", "operator.FW", 7, 23.0),
        ("host0.rank0->BW.gradients/mlp/layer0/MatMul_1", "operator.BW", 20, 6.0),
        ("host1.rank0->Comm.2.MEMCPY_IN_FUSION_BUFFER", "Comm.other", 39, 0.1),
        ("host0.rank1->Comm.1.RECV~>0_0_3_0", "Comm.RECV", 140, 0.183_333),
        ("host0.rank0->UPDATE_.SGD/update_2", "operator.UPDATE", 236, 0.5),
    ] {
        let own = &operations[name];
        assert_eq!(
            (own["cnt"].as_u64(), own["cat"].as_str(), own["id"].as_u64()),
            (Some(3), Some(cat), Some(id)),
            "{name}"
        );
        assert!(
            ["avg", "median", "min_t", "max_t"].iter().all(|key| is(&own[key], avg)) && is(&own["var"], 0.0),
            "{own}"
        );
    }
    for (name, most, time, count, of) in [
        ("operator.FW", 23.0, 168.0, 36, 12),
        ("operator.BW", 6.0, 216.0, 36, 12),
        ("Comm.SEND", 0.183_333, 39.6, 216, 72),
        ("Comm.RECV", 0.183_333, 39.6, 216, 72),
        ("operator.UPDATE", 0.5, 18.0, 36, 12),
    ] {
        let own = &categories[name];
        assert_eq!((own["cnt"].as_u64(), own["op_cnt"].as_u64()), (Some(count), Some(of)), "{name}");
        assert!(is(&own["max_t"], most) && is(&own["time"], time), "{own}");
    }
    assert!(is(&categories["Comm.other"]["time"], 630.0), "{}", categories["Comm.other"]);
    assert_eq!(categories["operator.FW"]["max_name"], "host1.rank1->FW.mlp/layer1/MatMul");
    assert_eq!(categories.as_object().unwrap().len(), 6);
}

#[test]
fn damaged_published_folders_are_refused_or_named() {
    let folder = tempfile::tempdir().unwrap();
    let made = Published::default();
    made.write(folder.path());
    let gpu = folder.path().join("host1/1");
    let dag = fs::read_to_string(folder.path().join("host0/0/dag.gml")).unwrap();
    let circle = dag.replacen("  edge [", "  edge [\n    source 1\n    target 0\n  ]\n  edge [", 1);
    fs::write(folder.path().join("host0/0/dag.gml"), circle).unwrap();
    assert!(error(&[folder.path().to_owned()]).contains("in a circle"));
    fs::write(folder.path().join("host0/0/dag.gml"), &dag).unwrap();
    // One rank cut off in the middle, one without its folder.
    let comm = fs::read(gpu.join("comm.json")).unwrap();
    fs::write(gpu.join("comm.json"), &comm[..comm.len() / 2]).unwrap();
    fs::remove_dir_all(folder.path().join("host0/1")).unwrap();
    let analysis = Analysis::new(TrainingJob::read(&[folder.path().to_owned()]).unwrap());
    let warnings = analysis.warnings().join("\n");
    assert!(warnings.contains("rank 1 of 4 is missing"), "{warnings}");
    assert!(warnings.contains("in the middle of the list"), "{warnings}");
    assert!(warnings.contains("no counterpart"), "{warnings}");
    fs::copy(folder.path().join("host0/0/nccl_rank_graph.json"), gpu.join("nccl_rank_graph.json")).unwrap();
    assert!(error(&[folder.path().to_owned()]).contains("is rank 0, as"));
}

/// One timeline of the coordinator contains all ranks: rank 1 is ready 4 ms after rank 0, in each of three steps.
#[test]
fn a_timeline_of_horovod_alone_shows_who_waits() {
    let mut lines = vec!["[".to_owned()];
    for (pid, tensor) in ["grad_a", "grad_b"].iter().enumerate() {
        lines.push(format!(r#"{{"name": "process_name", "ph": "M", "pid": {pid}, "args": {{"name": "{tensor}"}}}},"#));
    }
    for step in 0..3 {
        for pid in 0..2 {
            let t = step * 100_000 + pid * 10_000;
            let event = |ph: &str, name: &str, at: i32, more: &str| {
                format!(r#"{{"ph": "{ph}", "name": "{name}", "ts": {at}, "pid": {pid}{more}}},"#)
            };
            lines.push(event("B", "NEGOTIATE_ALLREDUCE", t, ""));
            lines.push(event("X", "0", t, r#", "dur": 0"#));
            lines.push(event("X", "1", t + 4_000, r#", "dur": 0"#));
            lines.push(format!(r#"{{"ph": "E", "ts": {}, "pid": {pid}}},"#, t + 4_000));
            lines.push(event("B", "ALLREDUCE", t + 4_100, ""));
            lines.push(event("B", "NCCL_ALLREDUCE", t + 4_200, ""));
            lines.push(format!(r#"{{"ph": "E", "ts": {}, "pid": {pid}}},"#, t + 5_200));
            let size = r#", "args": {"dtype": "float32", "shape": "[250, 1000]"}"#;
            lines.push(format!(r#"{{"ph": "E", "ts": {}, "pid": {pid}{size}}},"#, t + 5_300));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("timeline.json"), lines.join("\n")).unwrap();
    let analysis = Analysis::new(TrainingJob::read(&[folder.path().to_owned()]).unwrap());
    // The first step, whose begin is not known, is left out.
    assert_eq!((analysis.job.ranks.len(), analysis.job.steps.len()), (2, 2));
    assert_eq!(analysis.exchanges.complete().count(), 6);
    // 250 x 1,000 numbers of four bytes, as at the end of what is around the transfer.
    assert!(analysis.exchanges.complete().all(|exchange| exchange.bytes == Some(1_000_000)));
    let waits = analysis.waiting.summary(0, 1).unwrap().mean;
    assert!((waits - 8.0).abs() < 1e-9, "{waits}");
    // From the end of the last transfer to that of the next step's.
    assert_eq!(analysis.steps(0), [100.0; 2]);
    // Without the 4 ms of rank 1 before the first tensor, after which the second one is ready 10 ms later on both ranks.
    let what_ifs = vec!["rank 1 as the others".to_owned()];
    let replayed = ReplayedJob::replay(&analysis, &ReplayRequest { what_ifs, ..ReplayRequest::default() }).unwrap();
    let (_, outcome) = replayed.answered_scenarios().next().unwrap();
    assert_eq!([replayed.typical as f64, outcome.after.time].map(|time| (time / 1e3).round()), [100e3, 96e3]);
}

/// A process may be killed while it writes its dump: the others still show who did not come.
#[test]
fn a_dump_that_cannot_be_read_is_passed_over_where_others_can() {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..3 {
        let name = format!("gloo_trace_rank_{rank}");
        let whole = fs::read(data(&format!("flight/{name}"))).unwrap();
        let end = if rank == 1 { whole.len() / 2 } else { whole.len() };
        fs::write(folder.path().join(name), &whole[..end]).unwrap();
    }
    let inputs = inputs::read(&[folder.path().to_owned()]).unwrap();
    assert_eq!(inputs.dumps.iter().map(|dump| dump.rank).collect::<Vec<_>>(), [0, 2]);
    let damage = inputs.ranks.first().map_or(&[][..], |first| &first.trace.damage.of_other_files);
    let said = [&inputs.passed_over, damage].concat().join("\n");
    assert!(said.contains("skipped") && said.contains("gloo_trace_rank_1"), "{said}");
}

#[test]
fn a_dump_names_the_rank_that_has_not_come() {
    for suffix in ["", ".json"] {
        let files: Vec<PathBuf> = (0..3).map(|rank| data(&format!("flight/gloo_trace_rank_{rank}{suffix}"))).collect();
        let inputs = inputs::read(&files).unwrap();
        assert_eq!(inputs.dumps.iter().map(|dump| dump.entries.len()).collect::<Vec<_>>(), [7, 7, 5]);
        let hang = HangReport::from_dumps(&inputs.dumps);
        let blocked = &hang.blocked[0];
        assert_eq!((blocked.operation.as_str(), blocked.sequence), ("all_reduce", Some(6)));
        assert_eq!((&blocked.waiting, blocked.sizes.as_slice()), (&BTreeSet::from([0, 1]), [vec![64]].as_slice()));
        assert_eq!(blocked.missing.keys().copied().collect::<Vec<_>>(), [2]);
        assert_eq!((hang.blocked.len(), &hang.culprits), (1, &BTreeSet::from([2])));
        let headline = hang.headline().unwrap();
        assert!(
            headline
                .starts_with("rank 2 has not come to all_reduce 6 of group default_pg, in which ranks 0 and 1 wait"),
            "{headline}"
        );
        assert!(headline.ends_with("the last of rank 2 in that group is all_gather 5"), "{headline}");
        assert_eq!(headline.contains("train.py"), suffix.is_empty(), "{headline}");
    }
}

/// An operation of a dump of NCCL with timing; the fields are those that FlightRecorderDetail.hpp writes.
fn flight_entry(sequence: u32, name: &str, sizes: &str, [state, end]: [&str; 2], duration: f64) -> String {
    format!(
        r#"{{"process_group": ["0", "default_pg"], "collective_seq_id": {sequence}, "p2p_seq_id": 0, "is_p2p": false,
        "profiling_name": "nccl:{name}", "time_created_ns": 1, "time_discovered_completed_ns": {end}, "time_discovered_started_ns": 0,
        "duration_ms": {duration}, "state": "{state}", "retired": false, "input_sizes": {sizes}, "output_sizes": {sizes}, "input_dtypes": ["Float"], "output_dtypes": ["Float"]}}"#
    )
}

/// An all-reduce that ended at the second of its number.
fn done(sequence: u32, duration: f64) -> String {
    let end = (1_000_000_000 * u64::from(sequence)).to_string();
    flight_entry(sequence, "all_reduce", "[[100]]", ["completed", &end], duration)
}

fn write_dump(folder: &Path, rank: u32, ranks: &str, entries: &[String]) {
    let text = format!(
        r#"{{"version": "2.5", "pg_config": {{"0": {{"name": "0", "desc": "default_pg", "ranks": "{ranks}"}}}}, "entries": [{}]}}"#,
        entries.join(", ")
    );
    fs::write(folder.join(format!("nccl_trace_rank_{rank}")), text).unwrap();
}

#[test]
fn mismatches_missing_dumps_and_times_of_dumps_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..2 {
        let [sizes, state] = [["[[100]]", "started"], ["[[50], [7]]", "scheduled"]][rank as usize];
        let last = flight_entry(11, "all_reduce", sizes, [state, "0"], 0.0);
        let entries: Vec<String> =
            (1..=10).map(|number| done(number, if rank == 0 { 5.0 } else { 2.0 })).chain([last]).collect();
        write_dump(folder.path(), rank, "[0, 1, 2]", &entries);
    }
    let inputs = inputs::read(&[folder.path().to_owned()]).unwrap();
    let hang = HangReport::from_dumps(&inputs.dumps);
    assert_eq!(hang.silent, BTreeSet::from([2]));
    let headline = hang.headline().unwrap();
    assert!(headline.contains("rank 1 enqueued all_reduce of [[50], [7]], not [[100]]"), "{headline}");
    // Rank 0 waits three of five milliseconds in each of ten.
    let analysis = Analysis::new(TrainingJob::from_traces(inputs.ranks).unwrap());
    let waits = analysis.waiting.summary(0, 1).unwrap().mean;
    assert!((waits - 30.0).abs() < 1e-6, "{waits}");
    assert!(analysis.job.warnings().join(" ").contains("rank 2 of 3 is missing"));
}

/// Dumps of recorders that keep the last operations, each an all-reduce and a message from rank 0 to rank 1 behind it, one every 20 ms; rank 1 comes
/// 5 ms later. `kept`: the first and the last number of each rank.
fn write_wrapped(folder: &Path, kept: &[[u64; 2]]) {
    for (rank, [first, last]) in kept.iter().enumerate() {
        let entry = |number: u64, name: &str, is_message: bool, [start, end]: [u64; 2]| {
            let from = 1_700_000_000_000_000_000 + 20_000_000 * number;
            json!({
                "record_id": 2 * number, "process_group": ["0", "default_pg"], "collective_seq_id": number, "p2p_seq_id": number,
                "profiling_name": format!("nccl:{name}"), "is_p2p": is_message, "state": "completed",
                "time_discovered_started_ns": from + start, "time_discovered_completed_ns": from + end,
                "input_sizes": [[100]], "output_sizes": [[100]], "input_dtypes": ["Float"], "output_dtypes": ["Float"],
            })
        };
        let message = [Some("send 0->1"), Some("recv 1<-0"), None][rank];
        let late = if rank == 1 { 5_000_000 } else { 0 };
        let entries = (*first..=*last).flat_map(|number| {
            let reduced = entry(number, "all_reduce", false, [late, 9_000_000]);
            let message = message.map(|name| entry(number, name, true, [10_000_000, 12_000_000]));
            std::iter::once(reduced).chain(message)
        });
        let ranks = format!("{:?}", (0..kept.len()).collect::<Vec<_>>());
        let dump = json!({
            "version": "2.10", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}},
            "entries": entries.collect::<Vec<_>>(),
        });
        fs::write(folder.join(format!("nccl_trace_rank_{rank}")), dump.to_string()).unwrap();
    }
}

/// Numbers 61 to 100 are in all dumps, whether these hold as many operations or not; the first send of rank 0 in its dump is not that of
/// the first receive of rank 1.
#[test]
fn of_recorders_that_keep_the_last_operations_those_are_compared_that_all_have() {
    for (kept, left_out) in
        [([[1, 100], [61, 160], [31, 130]], [120, 120, 60]), ([[1, 100], [61, 200], [61, 200]], [120, 200, 100])]
    {
        let folder = tempfile::tempdir().unwrap();
        write_wrapped(folder.path(), &kept);
        let analysis = Analysis::new(TrainingJob::read(&[folder.path().to_owned()]).unwrap());
        assert!(analysis.check_one_job().is_ok());
        assert_eq!((analysis.exchanges.all.len(), analysis.exchanges.complete().count()), (80, 80));
        let waits = [0, 2].map(|rank| analysis.waiting.summary(rank, 1).unwrap().mean);
        assert_eq!(waits, [200.0; 2]);
        assert!(analysis.clocks.ranks.iter().all(|clock| clock.offset == 0.0));
        let warnings = analysis.job.warnings().join("\n");
        for (rank, count) in left_out.iter().enumerate() {
            let sentence = format!("rank {rank}: {count} operations of the flight recorder are left out");
            assert!(warnings.contains(&sentence), "{warnings}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    write_wrapped(folder.path(), &[[1, 100], [201, 300]]);
    let inputs = inputs::read(&[folder.path().to_owned()]).unwrap();
    assert_eq!((inputs.dumps.len(), inputs.ranks.len()), (2, 0), "nothing is common");
}

#[test]
fn hostile_and_broken_dumps_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nccl_trace_rank_0");
    fs::write(&file, b"\x80\x02cposix\nsystem\nq\x00X\x0c\x00\x00\x00touch /tmp/xq\x01\x85q\x02Rq\x03.").unwrap();
    assert!(error(std::slice::from_ref(&file)).contains("never run"));
    fs::write(&file, b"\x80\x02}q\x00(X").unwrap();
    assert!(error(std::slice::from_ref(&file)).contains("ends in the middle"));
    // Of what is in no format, all that are read are named.
    fs::write(&file, b"cposix\nsystem\np0\n(S'touch /tmp/x'\ntR.").unwrap();
    for given in [file, folder.path().to_owned()] {
        let error = error(&[given]);
        assert!(error.contains("dumps of the flight recorder") && error.contains("Chakra"), "{error}");
    }
    for name in ["a_rank_0", "b_rank_0"] {
        fs::copy(data("flight/gloo_trace_rank_0"), folder.path().join(name)).unwrap();
    }
    assert!(error(&["a_rank_0", "b_rank_0"].map(|name| folder.path().join(name))).contains("is a dump of rank 0, as"));
}

/// By hand: rank 1 is ready with its first gradient at 9 + 6 ms and with the last at 27 ms, whose all-reduce takes 1.5 ms;
/// then the update. Rank 0 is ready at 10, 14 and 18 ms.
#[test]
fn chakra_traces_without_times_are_replayed_together() {
    let analysis = Analysis::new(TrainingJob::read(&[data("chakra")]).unwrap());
    assert_eq!(analysis.exchanges.complete().count(), 3);
    assert!(analysis.exchanges.all.iter().all(|exchange| exchange.bytes == Some(4_000_000)));
    let replayed = replayed(&analysis);
    assert_eq!(replayed.typical, 29_000_000);
    assert_eq!(analysis.job.ranks[analysis.stragglers[0].rank].number, 1);
    let waits = analysis.waiting.summary(0, 1).unwrap().mean;
    assert!(waits > 9.0, "{waits}");
}

/// Three operations in a row, the second of which takes -7 us: it is left out, and the third waits for what it waited for.
#[test]
fn negative_durations_of_chakra_are_left_out_and_said() {
    let folder = tempfile::tempdir().unwrap();
    for (nth, runtime) in [json!(-7), json!(-7.5), json!("-7")].into_iter().enumerate() {
        let node = |id: u32, runtime: &Json, before: &[u32]| json!({"Id": id, "Name": format!("n{id}"), "NodeType": 4, "runtime": runtime, "data_deps": before});
        let nodes = [node(1, &json!(5), &[]), node(2, &runtime, &[1]), node(3, &json!(4), &[2])];
        let file = folder.path().join(format!("{nth}.json"));
        fs::write(&file, json!({"workload_graph": nodes}).to_string()).unwrap();
        let trace = &inputs::read(&[file]).unwrap().ranks[0].trace;
        let times: Vec<[i64; 2]> = trace.events.iter().map(|event| [event.start, event.end()]).collect();
        assert_eq!((times, &trace.dependencies), (vec![[0, 5_000], [5_000, 9_000]], &vec![[0, 1]]));
        let warnings = trace.damage.warnings().join("\n");
        assert!(warnings.contains("1 event was left out: with a negative duration"), "{warnings}");
    }
}

/// Messages written by hand as et_def.proto says: a node behind its length, whose id, name, type and dependencies are
/// fields 1, 2, 3 and 5.
#[test]
fn broken_chakra_traces_are_refused_or_named() {
    let node = |id: u8, on: u8| vec![13, 8, id, 18, 1, b'n', 24, 4, 42, 1, on, 56, 1, 64 + 2];
    let node = |id: u8, on: u8| {
        let mut message = node(id, on);
        message.truncate(13);
        message[0] = 12;
        message
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.0.et");
    let read = |bytes: &[u8]| {
        fs::write(&file, [&[0u8], bytes].concat()).unwrap();
        inputs::read(std::slice::from_ref(&file))
    };
    let error = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert!(error(&[node(1, 2), node(2, 1)].concat()).contains("in a circle: n (rank 0)"));
    assert!(error(&[node(1, 1), node(1, 1)].concat()).contains("two nodes with the id 1"));
    // Field 7 is the duration in microseconds: 2^63.
    let endless = [vec![18, 8, 1, 18, 1, b'n', 24, 4, 56], vec![0x80; 9], vec![1]].concat();
    assert!(error(&endless).contains("take 292 years or more, node 1 most"), "{}", error(&endless));
    assert!(error(&[]).contains("no node"));
    assert!(error(&[200, 200, 200]).contains("not a Chakra trace"));
    let warnings = |bytes: &[u8]| read(bytes).unwrap().ranks[0].trace.damage.warnings().join("\n");
    assert!(warnings(&node(1, 9)).contains("1 dependency on nodes that the file does not have: node 1 waits for 9"));
    let cut = warnings(&[node(1, 9), node(2, 1)[..5].to_vec()].concat());
    assert!(cut.contains("in the middle of the message at byte 14"), "{cut}");
}

/// The eight ranks of a DLRM step with execution traces, of which the first operator is not in the trace.
#[test]
fn execution_traces_add_what_threads_read_of_each_other() {
    let archives = ["dlrm/dlrm_kineto.tar.gz", "dlrm/dlrm_pytorch_et.tar.gz"].map(shared::shared);
    let [Some(traces), Some(observed)] = archives else { return };
    let folder = tempfile::tempdir().unwrap();
    for archive in [traces, observed] {
        assert!(Command::new("tar").arg("xzf").arg(&archive).arg("-C").arg(folder.path()).status().unwrap().success());
    }
    let plain = inputs::read(&[folder.path().join("dlrm_kineto")]).unwrap();
    let both = inputs::read(&["dlrm_kineto", "dlrm_pytorch_et"].map(|name| folder.path().join(name))).unwrap();
    for (plain, both) in plain.ranks.iter().zip(&both.ranks) {
        assert!(plain.trace.dependencies.is_empty() && plain.trace.events == both.trace.events);
        let events = &both.trace.events;
        // The backward pass runs on another thread, and reads what forward wrote.
        assert!(both.trace.dependencies.len() > 10, "rank {}: {}", both.rank, both.trace.dependencies.len());
        for [on, event] in &both.trace.dependencies {
            let (on, event) = (&events[*on as usize], &events[*event as usize]);
            assert!(on.end() <= event.start && on.track != event.track);
        }
    }
    let analysis = Analysis::new(TrainingJob::from_traces(both.ranks).unwrap());
    assert!(replayed(&analysis).worst() < 2.0);
}

/// Files with changed, missing and repeated bytes are read or refused: none makes the program panic, hang or fill the memory.
#[test]
fn damaged_files_of_all_formats_are_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [ring, byteps] = ["ring", "byteps"].map(|name| folder.path().join(name));
    let made = Published { steps: 2, layers: 2, ..Published::default() };
    made.write(&ring);
    Published { gpus: 1, transport: Transport::BytePs, ..made }.write(&byteps);
    let names = ["comm.json", "comm_detail.json", "dag.gml", "metadata.json", "nccl_rank_graph.json", "trace.json.gz"];
    let mut files: Vec<(PathBuf, PathBuf)> = names.map(|name| (ring.join("host0/0").join(name), ring.clone())).to_vec();
    files.push((byteps.join("comm_timeline.json"), byteps));
    for name in ["flight/gloo_trace_rank_0", "flight/gloo_trace_rank_0.json", "chakra/mlp.0.et"] {
        let copy = folder.path().join(Path::new(name).file_name().unwrap());
        fs::copy(data(name), &copy).unwrap();
        files.push((copy.clone(), copy));
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    for (file, read) in files {
        let whole = fs::read(&file).unwrap();
        for _ in 0..60 {
            let mut bytes = whole.clone();
            let at = random.random_range(0..bytes.len());
            match random.random_range(0..4) {
                0 => bytes.truncate(at),
                1 => bytes[at] = random.random(),
                2 => drop(bytes.drain(at..(at + 20).min(whole.len()))),
                _ => drop(bytes.splice(at..at, whole[..at.min(500)].to_vec())),
            }
            fs::write(&file, bytes).unwrap();
            let Ok(inputs) = inputs::read(std::slice::from_ref(&read)) else { continue };
            let _ = HangReport::from_dumps(&inputs.dumps).headline();
            let Ok(job) = TrainingJob::from_traces(inputs.ranks) else { continue };
            let analysis = Analysis::new(job);
            let _ = (analysis.warnings(), ReplayedJob::replay(&analysis, &ReplayRequest::default()));
        }
        fs::write(&file, whole).unwrap();
    }
}
