//! Traces that others recorded, from `../shared/traces`, which is not part of the repository: skipped, and said so, where it is absent.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

mod shared;

use perf4sight_traces::intervals::{length, union};
use perf4sight_traces::{EventCategory, Trace, read};
use shared::{files, shared};
use std::fs;

/// Nanoseconds during which any stream works.
fn busy(trace: &Trace) -> i64 {
    let device = trace.events.iter().filter(|event| event.category.on_device());
    length(&union(device.map(|event| (event.start, event.end()))))
}

/// The reference is TraceLens' own sum of what its GPUs did, in milliseconds.
#[test]
fn gpus_are_busy_as_long_as_the_reference_says() {
    for file in files("tracelens") {
        let reference = file.to_string_lossy().replace(".json.gz", ".gpu_timeline.csv");
        let Ok(reference) = fs::read_to_string(reference) else { continue };
        let line = reference.lines().find_map(|line| line.strip_prefix("busy_time,")).unwrap();
        let expected: f64 = line.split(',').next().unwrap().parse().unwrap();
        let found = busy(&read(&file).unwrap()) as f64 / 1e6;
        assert!((found - expected).abs() < 1e-3, "{}: {found} ms, not {expected}", file.display());
    }
}

#[test]
fn traces_of_many_versions_are_read_without_damage() {
    for file in ["hta", "own", "tracelens", "ddp"].into_iter().flat_map(files) {
        let trace = read(&file).unwrap();
        assert!(trace.damage.is_none(), "{}: {:?}", file.display(), trace.damage);
        assert!(!trace.events.is_empty(), "{}", file.display());
    }
    // The number of events is what Python's json counts, without 42 that name tracks.
    let Some(file) = shared("hta/df_index_resolver.json.gz") else { return };
    let trace = read(&file).unwrap();
    assert_eq!((trace.events.len(), trace.header.rank, trace.header.world_size), (216_092 - 38, Some(1), Some(2)));
    assert_eq!(trace.header.devices, ["Tesla V100-SXM2-32GB"; 2]);
}

#[test]
fn old_categories_are_known_in_capitals() {
    let Some(file) = shared("hta/capitalised_categories.json.gz") else { return };
    let trace = read(&file).unwrap();
    assert!(trace.events.iter().any(|event| event.category == EventCategory::Kernel));
    assert!(trace.events.iter().any(|event| event.category == EventCategory::Runtime));
}

#[test]
fn collectives_tell_what_they_move() {
    let Some(file) = shared("hta/nccl_data.json.gz") else { return };
    let trace = read(&file).unwrap();
    let collectives: Vec<_> = trace.events.iter().filter_map(|event| trace.collective(event)).collect();
    // As grep counts them in the JSON.
    let largest: Vec<_> = collectives.iter().filter(|found| found.elements == Some([7_875_584; 2])).collect();
    assert!(largest.iter().all(|found| (found.operation.as_str(), found.group_size) == ("allreduce", 2)));
    assert_eq!((largest.len(), largest[0].element_type.as_str(), largest[0].group.as_str()), (6, "Float", "0"));
}
