//! SQLite files as Nsight Systems exports them and as nvprof writes them. Their tables are made up after the published schemas, but for one:
//! no other file that either tool wrote was at hand.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

use perf4sight_traces::{EventCategory, EventPhase, RankTrace, Trace, TraceEvent, read, read_ranks};
use rusqlite::Connection;
use std::path::PathBuf;
use tempfile::TempDir;

/// The tables of <https://docs.nvidia.com/nsight-systems/2021.5/nsys-exporter/exported_data.html> that are read, and a row or two of each:
/// thread 100 of process 100 and thread 201 of process 200, whose global ids have the process above 24 bits of thread.
const NSYS: &str = r#"
    CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT NOT NULL, end INT NOT NULL, eventClass INT NOT NULL, globalTid INT NOT NULL,
        correlationId INT NOT NULL, nameId INT NOT NULL, returnValue INT NOT NULL);
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT NOT NULL, end INT NOT NULL, deviceId INT NOT NULL, contextId INT NOT NULL,
        streamId INT NOT NULL, correlationId INT, globalPid INT, demangledName INT NOT NULL, shortName INT NOT NULL, gridX INT NOT NULL);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT NOT NULL, end INT NOT NULL, deviceId INT NOT NULL, contextId INT NOT NULL,
        streamId INT NOT NULL, correlationId INT, globalPid INT, bytes INT NOT NULL, copyKind INT NOT NULL, srcKind INT, dstKind INT);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INT NOT NULL, end INT NOT NULL, deviceId INT NOT NULL, contextId INT NOT NULL,
        streamId INT NOT NULL, correlationId INT, globalPid INT, value INT NOT NULL, bytes INT NOT NULL, memKind INT);
    CREATE TABLE NVTX_EVENTS (start INT NOT NULL, end INT, eventType INT NOT NULL, rangeId INT, category INT, color INT, text TEXT,
        globalTid INT, endGlobalTid INT, textId INT, domainId INT);
    CREATE TABLE ThreadNames (nameId INT NOT NULL, priority INT, globalTid INT NOT NULL);
    CREATE TABLE TARGET_INFO_GPU (id INT NOT NULL, name TEXT, busLocation TEXT);
    CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INT, utcTime TEXT, localTime TEXT);
    INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'void gemm<float>(float*)'), (3, 'gemm'), (4, 'ProfilerStep#1'),
        (5, 'python3'), (6, 'cudaStreamSynchronize_ptsz_v7000');
    INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000, 1500, 0, 100 * 16777216 + 100, 11, 1, 0),
        (2000, 2600, 0, 100 * 16777216 + 100, 12, 6, 0), (1000, 1400, 0, 200 * 16777216 + 201, 11, 1, 0);
    INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1600, 2500, 0, 1, 7, 11, 100 * 16777216, 2, 3, 64),
        (1700, 1800, 1, 1, 7, 11, 200 * 16777216, 2, 3, 64), (5000, 4000, 0, 1, 7, 13, 100 * 16777216, 2, 3, 64);
    INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (3000, 3100, 0, 1, 8, 14, 100 * 16777216, 4096, 1, 1, 2);
    INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (3200, 3210, 0, 1, 7, 15, 100 * 16777216, 0, 64, 2);
    INSERT INTO NVTX_EVENTS VALUES (900, 4000, 59, NULL, NULL, NULL, NULL, 100 * 16777216 + 100, NULL, 4, 0),
        (950, 1550, 59, NULL, NULL, NULL, 'aten::mm, seq = 5, op_id = 7', 100 * 16777216 + 100, NULL, NULL, 0),
        (0, NULL, 75, NULL, NULL, NULL, 'NCCL', 100 * 16777216 + 100, NULL, NULL, 1),
        (960, NULL, 34, NULL, NULL, NULL, 'a moment', 100 * 16777216 + 100, NULL, NULL, 0);
    INSERT INTO ThreadNames VALUES (5, 1, 100 * 16777216 + 100);
    INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100', '0000:01:00.0');
    INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000, '', '');
"#;

/// Tables of nvprof with the columns of its newest version, which has no more than one process; markers have their thread in bytes.
const NVPROF: &str = r#"
    CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT NOT NULL UNIQUE);
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (_id_ INTEGER PRIMARY KEY AUTOINCREMENT, cbid INT NOT NULL, start INT NOT NULL,
        end INT NOT NULL, processId INT NOT NULL, threadId INT NOT NULL, correlationId INT NOT NULL, returnValue INT NOT NULL);
    CREATE TABLE CUPTI_ACTIVITY_KIND_DRIVER (_id_ INTEGER PRIMARY KEY AUTOINCREMENT, cbid INT NOT NULL, start INT NOT NULL,
        end INT NOT NULL, processId INT NOT NULL, threadId INT NOT NULL, correlationId INT NOT NULL, returnValue INT NOT NULL);
    CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (_id_ INTEGER PRIMARY KEY AUTOINCREMENT, start INT NOT NULL, end INT NOT NULL,
        completed INT NOT NULL, deviceId INT NOT NULL, contextId INT NOT NULL, streamId INT NOT NULL, correlationId INT NOT NULL,
        gridId INT NOT NULL, name INT NOT NULL);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (_id_ INTEGER PRIMARY KEY AUTOINCREMENT, copyKind INT NOT NULL, bytes INT NOT NULL,
        start INT NOT NULL, end INT NOT NULL, deviceId INT NOT NULL, contextId INT NOT NULL, streamId INT NOT NULL, correlationId INT NOT NULL);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY2 (_id_ INTEGER PRIMARY KEY AUTOINCREMENT, copyKind INT NOT NULL, bytes INT NOT NULL,
        start INT NOT NULL, end INT NOT NULL, deviceId INT NOT NULL, contextId INT NOT NULL, streamId INT NOT NULL, correlationId INT NOT NULL);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (_id_ INTEGER PRIMARY KEY AUTOINCREMENT, value INT NOT NULL, bytes INT NOT NULL,
        start INT NOT NULL, end INT NOT NULL, deviceId INT NOT NULL, contextId INT NOT NULL, streamId INT NOT NULL, correlationId INT NOT NULL);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MARKER (_id_ INTEGER PRIMARY KEY AUTOINCREMENT, flags INT NOT NULL, timestamp INT NOT NULL,
        id INT NOT NULL, objectKind INT NOT NULL, objectId BLOB NOT NULL, name INT NOT NULL, domain INT NOT NULL);
    INSERT INTO StringTable VALUES (1, '_Z4gemmIfEvPT_'), (2, 'ncclAllReduceRingLLKernel_sum_f32'), (3, 'train_iter');
    INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 211, 1496933427584000100, 1496933427584000200, 100, 77, 5, 0),
        (2, 165, 1496933427584000300, 1496933427584000900, 100, 77, 6, 0);
    INSERT INTO CUPTI_ACTIVITY_KIND_DRIVER VALUES (1, 307, 1496933427584000110, 1496933427584000120, 100, 77, 5, 0);
    INSERT INTO CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL VALUES (1, 1496933427584000250, 1496933427584000450, 0, 0, 1, 7, 5, 1, 1),
        (2, 1496933427584000500, 1496933427584000800, 0, 0, 1, 8, 7, 2, 2);
    INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1, 2, 64, 1496933427584000810, 1496933427584000820, 0, 1, 7, 8);
    INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY2 VALUES (1, 10, 64, 1496933427584000830, 1496933427584000840, 0, 1, 7, 9);
    INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (1, 0, 64, 1496933427584000850, 1496933427584000860, 0, 1, 7, 10);
    INSERT INTO CUPTI_ACTIVITY_KIND_MARKER VALUES (1, 2, 1496933427584000000, 9, 2, x'640000004d000000', 3, 0),
        (2, 4, 1496933427584001000, 9, 2, x'640000004d000000', 0, 0);
"#;

fn file(folder: &TempDir, name: &str, tables: &str) -> PathBuf {
    let file = folder.path().join(name);
    Connection::open(&file).unwrap().execute_batch(tables).unwrap();
    file
}

/// Each event of a kind as name, track, beginning and duration.
fn events(trace: &Trace, category: EventCategory) -> Vec<(&str, String, i64, i64)> {
    let kind = |event: &TraceEvent| {
        let track = &trace.tracks[event.track.index()];
        (trace.name(event).to_owned(), format!("{}/{}", track.process, track.thread), event.start, event.duration)
    };
    let all = trace.events.iter().filter(|event| event.category == category && event.phase == EventPhase::Complete);
    all.map(|event| (trace.name(event), kind(event).1, event.start, event.duration)).collect()
}

/// Tables with times that are not read; an empty table has none.
#[test]
fn tables_that_are_not_read_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let more = "CREATE TABLE OSRT_API (start INT, end INT, globalTid INT, nameId INT); INSERT INTO OSRT_API VALUES (1, 2, 3, 4);
        CREATE TABLE COMPOSITE_EVENTS (id INT, start INT);";
    let warnings = |file| read_ranks(&[file]).unwrap().remove(0).trace.damage.warnings().join("; ");
    let with = warnings(file(&folder, "with.sqlite", &format!("{NSYS}{more}")));
    assert!(with.contains("not read: calls of the operating system") && !with.contains("COMPOSITE_EVENTS"), "{with}");
    assert!(!warnings(file(&folder, "without.sqlite", NSYS)).contains("not read"));
}

/// A file of SQLite has no bytes of JSON to name. A folder is no trace, whatever it is called.
#[test]
fn events_that_are_left_out_have_no_place_in_a_json() {
    let folder = tempfile::tempdir().unwrap();
    let ends_first = "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 1;";
    file(&folder, "rank0.sqlite", &format!("{NSYS}{ends_first}"));
    std::fs::create_dir(folder.path().join("rank1.json")).unwrap();
    let ranks = read_ranks(&[folder.path().to_owned()]).unwrap();
    let warnings: Vec<String> = ranks.iter().flat_map(|ranked| ranked.trace.damage.warnings()).collect();
    assert!(warnings.iter().any(|warning| warning.contains("left out")), "{warnings:?}");
    assert!(
        !warnings.iter().any(|warning| warning.contains("JSON") || warning.contains("passed over")),
        "{warnings:?}"
    );
}

/// A kernel that goes on where recording stops has no end, and takes more than no time.
#[test]
fn work_without_an_end_is_left_out_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let endless = NSYS.replace("(1600, 2500, 0, 1, 7, 11", "(1600, NULL, 0, 1, 7, 11").replace(
        "CUPTI_ACTIVITY_KIND_KERNEL (start INT NOT NULL, end INT NOT NULL",
        "CUPTI_ACTIVITY_KIND_KERNEL (start INT NOT NULL, end INT",
    );
    let ranks = read_ranks(&[file(&folder, "endless.sqlite", &endless)]).unwrap();
    let warnings: Vec<String> = ranks.iter().flat_map(|ranked| ranked.trace.damage.warnings()).collect();
    assert!(warnings.contains(&"1 event was left out: without an end".to_owned()), "{warnings:?}");
    assert!(events(&ranks[0].trace, EventCategory::Kernel).is_empty());
}

/// A graph of CUDA that was recorded as a whole, an export of a schema to come, and one that lacks columns.
#[test]
fn what_is_not_sure_of_an_export_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let graphs =
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT NOT NULL, end INT NOT NULL, deviceId INT NOT NULL,
            graphId INT NOT NULL, contextId INT NOT NULL, streamId INT NOT NULL, correlationId INT, globalPid INT);
        INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (2000, 2400, 0, 5, 1, 7, 12, 100 * 16777216);
        CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
        INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '4.1.0');";
    let trace = read_ranks(&[file(&folder, "graphs.sqlite", &format!("{NSYS}{graphs}"))]).unwrap().remove(0).trace;
    let kernels = events(&trace, EventCategory::Kernel);
    assert!(kernels.contains(&("CUDA graph 5", "0/7".to_owned(), 2000, 400)), "{kernels:?}");
    let warnings = trace.damage.warnings().join("; ");
    assert!(
        warnings.contains("graphs of CUDA were recorded as wholes") && warnings.contains("of schema 4.1.0"),
        "{warnings}"
    );
    assert!(!warnings.contains("no columns"), "{warnings}");
    let lacking = NSYS.replace(
        "streamId INT NOT NULL, correlationId INT, globalPid INT, demangledName",
        "a INT, correlationId INT, globalPid INT, demangledName",
    );
    let trace = read_ranks(&[file(&folder, "lacking.sqlite", &lacking)]).unwrap().remove(0).trace;
    let warnings = trace.damage.warnings().join("; ");
    assert!(warnings.contains("no columns CUPTI_ACTIVITY_KIND_KERNEL.streamId:"), "{warnings}");
}

#[test]
fn an_export_of_nsight_systems_is_one_trace_a_process() {
    let folder = tempfile::tempdir().unwrap();
    let ranks = read_ranks(&[file(&folder, "report.sqlite", NSYS)]).unwrap();
    let [RankTrace { rank: 0, trace }, RankTrace { rank: 1, trace: other }] = ranks.as_slice() else {
        panic!("{ranks:?}")
    };
    let stream = |stream: &str| format!("0/{stream}");
    let thread = || "100/100".to_owned();
    assert_eq!(events(trace, EventCategory::Kernel), [("void gemm<float>(float*)", stream("7"), 1600, 900)]);
    assert_eq!(events(trace, EventCategory::Copy), [("Memcpy HtoD", stream("8"), 3000, 100)]);
    assert_eq!(events(trace, EventCategory::Set), [("Memset", stream("7"), 3200, 10)]);
    let calls = [("cudaLaunchKernel", thread(), 1000, 500), ("cudaStreamSynchronize", thread(), 2000, 600)];
    assert_eq!(events(trace, EventCategory::Runtime), calls);
    assert_eq!(events(trace, EventCategory::Annotation), [("ProfilerStep#1", thread(), 900, 3100)]);
    assert_eq!(events(trace, EventCategory::Operator), [("aten::mm", thread(), 950, 600)]);
    let launched: Vec<u64> =
        trace.events.iter().filter(|event| event.correlation == 11).map(|event| event.correlation).collect();
    assert_eq!(launched.len(), 2, "a call and what it launched");
    assert_eq!(
        (trace.header.devices.as_slice(), trace.header.base),
        (["NVIDIA H100".to_owned()].as_slice(), 1_700_000_000_000_000_000)
    );
    assert!(trace.tracks.iter().any(|track| track.thread_name.as_deref() == Some("python3")));
    assert_eq!(trace.damage.warnings().len(), 1, "an event ends before it begins");
    assert_eq!(events(other, EventCategory::Kernel), [("void gemm<float>(float*)", "1/7".to_owned(), 1700, 100)]);
    assert!(read(&folder.path().join("report.sqlite")).unwrap_err().to_string().contains("2 processes"));
}

#[test]
fn a_file_of_nvprof_has_the_same_events_with_names_as_in_the_source() {
    let folder = tempfile::tempdir().unwrap();
    let trace = read(&file(&folder, "report.nvprof", NVPROF)).unwrap();
    let at = |nanoseconds: i64| 1_496_933_427_584_000_000 + nanoseconds;
    let kernels = [
        ("void gemm<float>(float*)", "0/7".to_owned(), at(250), 200),
        ("ncclAllReduceRingLLKernel_sum_f32", "0/8".to_owned(), at(500), 300),
    ];
    assert_eq!(events(&trace, EventCategory::Kernel), kernels);
    let copies = [("Memcpy DtoH", "0/7".to_owned(), at(810), 10), ("Memcpy PtoP", "0/7".to_owned(), at(830), 10)];
    assert_eq!(events(&trace, EventCategory::Copy), copies);
    let thread = || "100/77".to_owned();
    let calls = [
        ("cudaLaunchKernel", thread(), at(100), 100),
        ("driver call 307", thread(), at(110), 10),
        ("cudaDeviceSynchronize", thread(), at(300), 600),
    ];
    assert_eq!(events(&trace, EventCategory::Runtime), calls);
    assert_eq!(events(&trace, EventCategory::Annotation), [("train_iter", thread(), at(0), 1000)]);
    assert_eq!(events(&trace, EventCategory::Set).len(), 1);
}

/// Rows that nsys 2022.4 exported of a script that marks ranges with `torch.cuda.nvtx` on a machine without a GPU, the main thread of process
/// 17223: global ids have a machine's number above the process, names are in the table, marks have no end, and a started range is like a
/// pushed one. Threads of other processes have names, too.
#[test]
fn ranges_that_nsys_exported_are_read() {
    let export = "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
        INSERT INTO StringIds VALUES (17, 'Debug output write'), (139, 'python'), (36, 'systemd');
        CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);
        INSERT INTO ThreadNames VALUES (36, 20, 281474993487873), (139, 20, 281763930719047);
        CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
        INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1795355403839540868, '2026-11-22T13:50:03', '2026-11-22T13:50:03');
        CREATE TABLE PROFILER_OVERHEAD (start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER, nameId INTEGER NOT NULL,
            returnValue INTEGER NOT NULL);
        INSERT INTO PROFILER_OVERHEAD VALUES (2560342109, 2560357670, 281763930719047, 17, 0);
        CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER,
            color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER,
            int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL, jsonTextId INTEGER, jsonText TEXT);
        INSERT INTO NVTX_EVENTS (start, end, eventType, rangeId, text, globalTid, domainId) VALUES
            (2560368140, 2571219306, 59, NULL, 'ProfilerStep#0', 281763930719047, 0),
            (2560371250, 2568113641, 59, NULL, 'forward', 281763930719047, 0),
            (2568120241, 2571209876, 60, 1, 'started', 281763930719047, 0),
            (2710763984, NULL, 34, NULL, 'a moment', 281763930719047, 0);";
    let folder = tempfile::tempdir().unwrap();
    let trace = read(&file(&folder, "one.sqlite", export)).unwrap();
    let at = |start: i64, end: i64| (start, end - start);
    let ranges: Vec<(&str, (i64, i64))> = events(&trace, EventCategory::Annotation)
        .into_iter()
        .map(|(name, track, start, duration)| {
            assert_eq!(track, "17223/17223");
            (name, (start, duration))
        })
        .collect();
    let expected = [
        ("ProfilerStep#0", at(2_560_368_140, 2_571_219_306)),
        ("forward", at(2_560_371_250, 2_568_113_641)),
        ("started", at(2_568_120_241, 2_571_209_876)),
    ];
    assert_eq!(ranges, expected);
    assert_eq!(events(&trace, EventCategory::Overhead)[0].0, "Debug output write");
    assert_eq!(trace.tracks.iter().map(|track| track.thread_name.as_deref()).collect::<Vec<_>>(), [Some("python")]);
    assert_eq!((trace.header.base, trace.damage.is_none()), (1_795_355_403_839_540_868, true));
}

/// The first versions of Nsight Systems do not say which process a kernel is of: where only one calls the runtime, it is that one's.
#[test]
fn early_exports_are_read_where_they_are_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let early = NSYS.replace("globalPid INT, demangledName", "another INT, demangledName");
    let error = read_ranks(&[file(&folder, "two.sqlite", &early)]).unwrap_err().to_string();
    assert!(error.contains("which of 2 processes"), "{error}");
    let one = early + "DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE globalTid > 200 * 16777216;";
    let trace = read_ranks(&[file(&folder, "one.sqlite", &one)]).unwrap().remove(0).trace;
    assert_eq!(events(&trace, EventCategory::Kernel).len(), 2);
    let warnings = trace.damage.warnings().join("; ");
    let assumed = "of the one process that calls CUDA: in CUPTI_ACTIVITY_KIND_KERNEL";
    assert!(warnings.contains(assumed) && !warnings.contains("no columns"), "{warnings}");
}

#[test]
fn sqlite_that_is_no_trace_or_damaged_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let fails = |file: &PathBuf, why: &str| {
        let error = read_ranks(std::slice::from_ref(file)).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains(file.file_name().unwrap().to_str().unwrap()), "{why}: {error}");
    };
    fails(&file(&folder, "other.sqlite", "CREATE TABLE a (b INT);"), "no events of CUDA");
    fails(&file(&folder, "empty.sqlite", "CREATE TABLE StringIds (id INT, value TEXT);"), "no events of CUDA");
    let whole = std::fs::read(file(&folder, "whole.sqlite", NSYS)).unwrap();
    for (name, content) in [("cut.sqlite", &whole[..whole.len() / 2]), ("head.sqlite", &whole[..16])] {
        let damaged = folder.path().join(name);
        std::fs::write(&damaged, content).unwrap();
        fails(&damaged, "cannot be read as a SQLite file");
    }
    // Rows without end, which were read until the end of days.
    let view = "ALTER TABLE NVTX_EVENTS RENAME TO ranges; CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE r(i) AS
        (SELECT 0 UNION ALL SELECT i + 1 FROM r) SELECT i AS start, i + 1 AS end, 59 AS eventType, 'x' AS text, NULL AS textId,
        1 AS globalTid FROM r;";
    fails(&file(&folder, "view.sqlite", &format!("{NSYS}{view}")), "has NVTX_EVENTS as a view");
    let none = folder.path().join("none.sqlite");
    std::fs::write(&none, "SQLite").unwrap();
    fails(&none, "is not a trace");
}
