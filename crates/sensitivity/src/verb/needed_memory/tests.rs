//! Tests of `needed_memory`.

use super::super::points::ResourceConfiguration;
use super::super::points::tests::{profile_of, run};
use super::super::profile::{JobFacts, ProfileLimit};
use super::super::tables::requests;
use super::*;
use crate::CpuGrid;

const MIB: u64 = 1 << 20;

/// A profile with one point whose run held so many MiB, limited to `cap` by `by`.
fn profile(held: u64, rise: Option<MemoryRise>, cap: Option<(Bytes, &str)>) -> SensitivityProfile {
    let memory = cap.map(|(cap, _)| cap);
    let point = MeasuredPoint {
        configuration: ResourceConfiguration { cpus: 1.0, memory, storage: None },
        runs: vec![PointRun { peak_memory: Some(Bytes(held * MIB)), rise, ..run(20.0, 4.05) }],
    };
    let held = |by: &str| ProfileLimit { axis: "memory".to_owned(), by: Some(by.to_owned()), refused: Vec::new() };
    let profile = profile_of(vec![point], 1.0);
    let profile = SensitivityProfile {
        job: JobFacts { memory, ..profile.job },
        limits: cap.map(|(_, by)| held(by)).into_iter().collect(),
        ..profile
    };
    profile.concluded(&CpuGrid::new(1.0, 1.0))
}

/// 2 MiB more in each of 20 iterations a second: a request of what was held, and a tenth more, would end the job.
#[test]
fn memory_that_still_rose_is_not_requested() {
    let rise = MemoryRise { bytes: Bytes(70 * MIB), seconds: 1.75 };
    let rising = profile(150, Some(rise), Some((Bytes(400 * MIB), "control group v2")));
    let requested = rising.request.clone().unwrap();
    assert_eq!(requested.request.memory, None);
    let words = "it still rose, by 70.0 MiB in the last 1.75 s of a run of 4.05 s";
    for line in [&requested.kubernetes, &requested.slurm, &requested.docker] {
        assert!(line.starts_with(&format!("# no limit on memory: {words}\n")) && !line.contains("mem="), "{line}");
    }
    assert!(requests(&rising).contains(&format!("request 1 CPU, without a limit on memory, for {words}:")));
    assert!(rising.rise_warning().unwrap().contains("more than 150.0 MiB"), "{:?}", rising.rise_warning());
    let level = profile(150, None, None);
    assert_eq!((level.rise_warning(), level.request.as_ref().unwrap().request.memory), (None, Some(Bytes(165 * MIB))));
    assert!(requests(&level).contains("(seen for 4.05 s at the longest: "), "{}", requests(&level));
}

/// A job that held 340 MiB under a limit of 340 takes no more; one whose page cache alone was limited may.
#[test]
fn no_more_is_requested_than_was_enough() {
    let asked = |cap: u64, by: &str| profile(340, None, Some((Bytes(cap * MIB), by))).request.unwrap().request.memory;
    assert_eq!(asked(340, "control group v2"), Some(Bytes(340 * MIB)));
    assert_eq!(asked(400, "control group v1"), Some(Bytes(374 * MIB)));
    assert_eq!(asked(340, "residency governor"), Some(Bytes(374 * MIB)));
}

#[test]
fn the_floor_of_the_lines_is_told() {
    let little = profile(4, None, None);
    let requested = little.request.clone().unwrap();
    assert_eq!(requested.request.memory, Some(Bytes((4.4 * MIB as f64) as u64)));
    assert!(requested.slurm.starts_with("# 32.0 MiB of memory: with less,") && requested.slurm.contains("--mem=32M"));
    assert!(requests(&little).contains("in the lines 32.0 MiB, for pods and jobs do not start with less"));
}
