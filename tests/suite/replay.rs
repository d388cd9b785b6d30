//! `replay`, `statistic` and `collect` from the command line, on the recorded ranks of the repository and on bad input.

use crate::ROOT;
use crate::fixtures::{Outcome, Scene, shows_what_is_printed};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

/// A scene with recorded ranks of the repository, under `ranks`.
fn recorded(name: &str) -> Scene {
    with(Scene::new(), name, "ranks")
}

/// A scene with all recorded ranks of the repository, where they are.
fn examples() -> Scene {
    ["straggler", "two"]
        .into_iter()
        .fold(Scene::new(), |scene, name| with(scene, name, &format!("examples/ranks/{name}")))
}

fn with(scene: Scene, name: &str, below: &str) -> Scene {
    let folder = Path::new(ROOT).join("examples/ranks").join(name);
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.fold(scene, |scene, file| {
        let name = format!("{below}/{}", file.file_name().unwrap().to_string_lossy());
        scene.file(&name, fs::read(&file).unwrap())
    })
}

#[test]
fn what_the_page_shows_is_what_it_prints() {
    shows_what_is_printed("docs/replay.md", "replay", examples);
}

fn replayed(scene: &Scene, arguments: &str) -> Outcome {
    scene.run(&format!("replay {arguments}"))
}

fn unzipped(scene: &Scene, name: &str) -> Value {
    serde_json::from_reader(GzDecoder::new(File::open(scene.path(name)).unwrap())).unwrap()
}

/// Rank 1 sleeps 200 ms before every forward pass.
#[test]
fn the_rank_that_sleeps_is_named_with_what_it_does() {
    let scene = recorded("straggler");
    replayed(&scene, "ranks")
        .succeeds()
        .prints("rank 1 makes the others wait")
        .prints("before DistributedDataParallel.forward");
    let json: Value = serde_json::from_str(&scene.read("replay/replay.json")).unwrap();
    let first = &json["stragglers"][0];
    assert_eq!(first["rank"], 1);
    let longer = first["longer"][0]["longer_ms"].as_f64().unwrap();
    assert!((longer - 200.0).abs() < 10.0, "{longer}");
    let page = scene.read("replay/report.html");
    assert!(page.contains("rank that waits") && page.contains("One step on all ranks"));
    let rows = scene.read("replay/replay.csv");
    // 12 all-reduces of 4 ranks, and the header.
    assert_eq!(rows.lines().count(), 12 * 4 + 1);
}

/// What Perfetto and Chrome's viewer need of an event: phase, process, thread, time and duration; names of processes.
#[test]
fn the_timeline_holds_all_ranks_of_one_step() {
    let scene = recorded("straggler");
    replayed(&scene, "ranks").succeeds();
    let trace = unzipped(&scene, "replay/timeline.json.gz");
    let events = trace["traceEvents"].as_array().unwrap();
    let spans: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
    assert!(spans.iter().all(|span| ["pid", "tid", "ts", "dur"].iter().all(|key| span[*key].is_number())));
    let is_step = |span: &&&Value| span["name"].as_str().unwrap().starts_with("ProfilerStep#");
    let with_step: BTreeSet<u64> = spans.iter().filter(is_step).map(|span| span["pid"].as_u64().unwrap()).collect();
    let ranks = events.iter().filter(|event| event["name"] == "process_name").count();
    // Each as recorded and as replayed, and the links between them.
    assert_eq!((with_step.len(), ranks), (4, 9));
}

#[test]
fn collect_joins_all_events_and_statistic_counts_them() {
    let scene = recorded("two");
    scene.run("collect ranks").succeeds();
    let trace = unzipped(&scene, "collected.json.gz");
    let reduces = trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["name"] == "gloo:all_reduce");
    // 30 on each rank, as grep counts them.
    assert_eq!(reduces.count(), 60);
    scene.run("statistic ranks").succeeds();
    let table = scene.read("statistic.csv");
    let row = table.lines().find(|row| row.starts_with("exchange,gloo:all_reduce,")).unwrap();
    // Of five steps, 30 on each rank.
    assert_eq!(row.split(',').nth(2), Some("6"));
    // The same again is ours to replace; what others wrote is not.
    scene.run("collect ranks").succeeds();
    let scene = recorded("two").file("collected.json.gz", "own");
    scene.run("collect ranks").fails(2).says("did not write");
    assert_eq!(scene.read("collected.json.gz"), "own");
}

/// Of rank 2 there is no trace, only results that lie next to the others.
#[test]
fn results_among_the_traces_are_left_out_by_every_verb() {
    let scene = recorded("two");
    scene.run("collect ranks --out ranks/rank2.json.gz").succeeds();
    for _ in 0..2 {
        let json: Value =
            replayed(&scene, "ranks --out ranks --algorithm tree --what-if ranks=2 --json").succeeds().json();
        assert_eq!(json["replay"]["what_ifs"][0]["change_percent"], 0.0);
    }
    let outcome = scene.run("breakdown ranks").succeeds();
    assert!(!outcome.stderr().contains("ranks/"), "{outcome}");
    scene.run("statistic ranks").succeeds().prints("2 ranks");
}

/// Two ranks on links that `tc` holds to 1 and 2 Gb/s, where PERF4SIGHT_LIVE names a Python with PyTorch: needs root, and some minutes.
#[test]
fn other_buckets_and_links_take_as_long_as_predicted() {
    let Some(python) = env::var_os("PERF4SIGHT_LIVE") else { return };
    let script = Path::new(ROOT).join("benches/replay_live.py");
    let program = env!("CARGO_BIN_EXE_perf4sight");
    let status =
        Command::new("python3").arg(script).arg(program).arg(python).args(["--within", "10"]).status().unwrap();
    assert!(status.success());
}

#[test]
fn what_is_recorded_first_is_a_command() {
    let scene = recorded("two");
    replayed(&scene, "ranks --record -- python3 train.py").fails(2);
    replayed(&scene, "--record").fails(2);
    replayed(&scene, "").fails(2).says("PATH");
    replayed(&scene, "ranks --iterations 3").fails(2).says("--record");
    replayed(&scene, "ranks -- python3 train.py").fails(2).says("no command is run");
    replayed(&scene, "--record --recording replay -- python3 train.py").fails(2).says("folder of the results");
    let outcome = replayed(&scene, "--record -- sh -c true");
    outcome.says("nothing was recorded");
    assert!(!scene.path("replay").exists() && !scene.path("recording").exists());
}

#[test]
fn ranks_that_are_no_job_are_refused_and_nothing_is_written() {
    let scene = recorded("two");
    replayed(&scene, "ranks/rank0.json.gz").fails(4).says("is rank 0 of 2, alone").says("--as-all-ranks");
    assert!(!scene.path("replay").exists());
    replayed(&scene, "ranks/rank0.json.gz --as-all-ranks").succeeds().prints("one rank alone");
    replayed(&scene, "ranks/rank0.json.gz ranks/rank0.json.gz").fails(4).says("is rank 0 of 2, alone");
    replayed(&scene, "nowhere").fails(6);
    let scene = recorded("two").file("replay/replay.json", "{}");
    replayed(&scene, "ranks").fails(2).says("did not write");
    assert_eq!(scene.read("replay/replay.json"), "{}");
}
