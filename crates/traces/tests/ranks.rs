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
    // A process of another run may have the same number.
    let warnings = trace.damage.warnings();
    assert!(
        warnings.len() == 1 && warnings[0].contains("vm_77.30") && warnings[0].contains("that process 77 wrote"),
        "{warnings:?}"
    );
    // Another process, and one that goes on meanwhile, are others.
    write(folder.path(), "vm_78.40.pt.trace.json", 78, [400, 450]);
    assert_eq!(ranks_and_events(folder.path()), [(0, 3), (1, 1)]);
    write(folder.path(), "vm_77.41.pt.trace.json", 77, [320, 340]);
    assert_eq!(ranks_and_events(folder.path()).len(), 3);
}

/// In a container every script is process 7: traces that their host or a recorder distinguishes are not merged, and without either there is a warning.
#[test]
fn processes_of_the_same_number_are_not_one_where_anything_tells_them_apart() {
    let ranks = |names: [&str; 2], recorded: Option<&str>| {
        let folder = TempDir::new().unwrap();
        names.into_iter().zip([0, 100]).for_each(|(name, start)| write(folder.path(), name, 7, [start, start + 50]));
        recorded.into_iter().for_each(|name| fs::write(folder.path().join(name), "{}").unwrap());
        ranks_and_events(folder.path()).into_iter().map(|(_, events)| events).collect::<Vec<usize>>()
    };
    assert_eq!(ranks(["one.json", "two.json"], None), [2]);
    assert_eq!(ranks(["one.json", "two.json"], Some("two.recording.json")), [1, 1]);
    assert_eq!(ranks(["one.json", "two.json"], Some("one.recording.json")), [1, 1]);
    let [first, second] = ["a1_7.10.pt.trace.json", "b2_7.20.pt.trace.json"];
    assert_eq!(ranks([first, second], None), [1, 1]);
    assert_eq!(ranks([first, "a1_7.20.pt.trace.json"], None), [2]);
    assert_eq!(ranks(["rank0.json", "rank1.json"], None), [1, 1]);
}

/// Files whose names do not have the order of their times.
#[test]
fn parts_come_in_any_order() {
    let folder = TempDir::new().unwrap();
    for (name, start) in [("a.json", 100), ("b.json", 300), ("c.json", 200)] {
        write(folder.path(), name, 77, [start, start + 50]);
    }
    assert_eq!(ranks_and_events(folder.path()), [(0, 3)]);
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
    let warnings = &ranks[2].trace.damage.others;
    assert!(
        warnings.len() == 1 && warnings[0].ends_with("another process of rank 0; it is shown as rank 2"),
        "{warnings:?}"
    );
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

#[test]
fn a_folder_without_traces_says_where_they_are() {
    let folder = TempDir::new().unwrap();
    let refused = || read_ranks(&[folder.path().to_owned()]).unwrap_err().to_string();
    assert!(refused().contains("holds no trace") && !refused().contains("help"), "{}", refused());
    fs::write(folder.path().join("traces.tar.gz"), "").unwrap();
    assert!(refused().contains("traces.tar.gz first"), "{}", refused());
    write(&folder.path().join("job1"), "rank0.json", 1, [0, 1]);
    assert!(refused().contains("such as") && refused().ends_with("job1"), "{}", refused());
}

/// A link to nothing, and a file that is no trace.
#[test]
fn what_cannot_be_read_is_named_with_its_reason() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), "rank0.json", 1, [100, 200]);
    std::os::unix::fs::symlink("nothing", folder.path().join("rank1.json")).unwrap();
    fs::write(folder.path().join("rank2.json"), "null").unwrap();
    let ranks = read_ranks(&[folder.path().to_owned()]).unwrap();
    let warnings = ranks[0].trace.damage.warnings().join("\n");
    for reason in
        ["rank1.json: cannot read the trace: No such file", "rank2.json: is not a trace: it is empty or no JSON"]
    {
        assert!(ranks.len() == 1 && warnings.contains(reason), "{warnings}");
    }
}
