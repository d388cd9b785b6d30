//! Folders of traces: one of each rank, of a rank's further processes, and of a profiler that wrote several.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

use perf4sight_traces::{read_ranks, read_recordings};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A trace of one event of a process, from one microsecond to another.
fn write(folder: &Path, name: &str, process: u32, [start, end]: [u32; 2]) {
    let event = format!(
        r#"{{"ph": "X", "cat": "cpu_op", "name": "op {start}", "pid": {process}, "tid": 1, "ts": {start}, "dur": {}}}"#,
        end - start
    );
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join(name), format!(r#"{{"baseTimeNanoseconds": 1000, "traceEvents": [{event}]}}"#)).unwrap();
}

fn ranks_and_events(folder: &Path) -> Vec<(u32, usize)> {
    let ranks = read_ranks(&[folder.to_owned()]).unwrap();
    ranks.iter().map(|ranked| (ranked.rank, ranked.trace.events.len())).collect()
}

/// As `tensorboard_trace_handler` names them: `schedule(..., repeat=3)` writes three.
#[test]
fn what_a_profiler_wrote_one_after_the_other_is_one_trace() {
    let folder = TempDir::new().unwrap();
    for (stamp, start) in [(30, 300), (10, 100), (20, 200)] {
        write(folder.path(), &format!("vm_77.{stamp}.pt.trace.json"), 77, [start, start + 50]);
    }
    let ranks = read_ranks(&[folder.path().to_owned()]).unwrap();
    let trace = &ranks[0].trace;
    assert_eq!(ranks.len(), 1);
    let events: Vec<(&str, i64)> = trace.events.iter().map(|event| (trace.name(event), event.start)).collect();
    assert_eq!(events, [("op 100", 100_000), ("op 200", 200_000), ("op 300", 300_000)]);
    assert_eq!(trace.tracks.len(), 1);
    // Another process, and one that goes on meanwhile, are others.
    write(folder.path(), "vm_78.40.pt.trace.json", 78, [400, 450]);
    assert_eq!(ranks_and_events(folder.path()), [(0, 3), (1, 1)]);
    write(folder.path(), "vm_77.41.pt.trace.json", 77, [320, 340]);
    assert_eq!(ranks_and_events(folder.path()).len(), 3);
}

/// A script that forks: the recorder names the files of the second process of a rank by its number.
#[test]
fn further_processes_of_a_rank_have_numbers_of_their_own() {
    let folder = TempDir::new().unwrap();
    for (name, process) in [("rank0.json", 5), ("rank0-6.json", 6), ("rank1.json", 7)] {
        write(folder.path(), name, process, [0, 100]);
    }
    assert_eq!(ranks_and_events(folder.path()), [(0, 1), (1, 1), (2, 1)]);
    let ranks = read_ranks(&[folder.path().to_owned()]).unwrap();
    let told = &ranks[2].trace.damage.others;
    assert!(told.len() == 1 && told[0].ends_with("another process of rank 0; it is shown as rank 2"), "{told:?}");
    // Alone, as where the other one wrote nothing, it is rank 0.
    let alone = TempDir::new().unwrap();
    write(alone.path(), "rank0-6.json", 6, [0, 100]);
    assert_eq!(ranks_and_events(alone.path()), [(0, 1)]);
}

#[test]
fn folders_of_the_same_rank_are_recordings() {
    let folder = TempDir::new().unwrap();
    let [one, two, other] = ["one", "two", "other"].map(|name| folder.path().join(name));
    write(&one, "rank0.json", 5, [0, 100]);
    write(&two, "rank0.json", 6, [0, 100]);
    write(&other, "rank1.json", 7, [0, 100]);
    let shape = |paths: &[&Path]| -> Vec<Vec<u32>> {
        let paths: Vec<_> = paths.iter().map(|path| path.to_path_buf()).collect();
        let recordings = read_recordings(&paths).unwrap();
        recordings.iter().map(|ranks| ranks.iter().map(|ranked| ranked.rank).collect()).collect()
    };
    assert_eq!(shape(&[&one, &two]), [[0], [0]]);
    assert_eq!(shape(&[&other, &one]), [[0, 1]]);
    assert_eq!(shape(&[&one, &other, &two]), [vec![0, 1], vec![0]]);
}
