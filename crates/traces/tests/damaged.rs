//! Files that are no traces, and traces with holes: an error or a warning that names what is wrong, and all that can be read.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

use perf4sight_traces::{DamageKind, EventCategory, Trace, read, read_ranks};
use std::fs;
use std::io::Write;
use std::path::PathBuf;

/// A folder of a test's own.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("perf4sight-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let file = self.0.join(name);
        fs::write(&file, content).unwrap();
        file
    }

    fn trace(&self, events: &str) -> Trace {
        read(&self.file("trace.json", format!("{{\"traceEvents\": [{events}]}}").as_bytes())).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn event(name: &str, start: &str, duration: &str) -> String {
    format!(r#"{{"ph": "X", "cat": "cpu_op", "name": {name:?}, "pid": 1, "tid": 1, "ts": {start}, "dur": {duration}}}"#)
}

#[test]
fn what_is_no_trace_is_refused_with_what_was_expected() {
    let folder = Folder::new("no-traces");
    let contents: [&[u8]; 8] =
        [b"", b"  \n ", b"{}", b"{\"a\": 1}", b"hello", b"\x1f\x8bhello", b"[", b"{\"traceEvents\": 7}"];
    for content in contents {
        let events = read(&folder.file("none.json", content)).map(|trace| trace.events.len());
        match content {
            // The array was begun, so that it is a trace with nothing in it.
            b"[" => assert_eq!(events.unwrap(), 0),
            _ => assert!(events.unwrap_err().to_string().contains("torch.profiler"), "{content:?}"),
        }
    }
    assert!(read(&folder.0.join("missing.json")).unwrap_err().to_string().contains("missing.json"));
}

#[test]
fn a_trace_that_is_cut_off_is_read_up_to_there() {
    let folder = Folder::new("cut");
    let events: Vec<String> = (0..50).map(|at| event("op", &at.to_string(), "1")).collect();
    let text = format!("{{\"traceEvents\": [{}]}}", events.join(","));
    for length in [text.len() - 1, text.len() - 2, text.len() / 2, 60] {
        let trace = read(&folder.file("cut.json", &text.as_bytes()[..length])).unwrap();
        let whole = text[..length].matches("\"dur\": 1}").count();
        assert_eq!((trace.events.len(), trace.damage.truncated.is_some()), (whole, true), "{length}");
    }
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let trace = read(&folder.file("cut.json.gz", &gzip[..gzip.len() - 12])).unwrap();
    assert!(trace.damage.truncated.unwrap().contains("could be read up to"));
}

#[test]
fn damaged_events_are_counted_and_the_others_read() {
    let folder = Folder::new("holes");
    let good = event("op", "5", "1");
    let trace = folder.trace(&format!(
        r#"{good}, {}, {}, {{"ph": "X", "name": "quo"te", "ts": 1, "dur": 1, "args": {{"a": [}}}}, {good}, 7, {{"ph": "X", "name": "n", "dur": 1}}, {}, {good}"#,
        event("early", "9", "-3"),
        event("late", "99999999999999999999", "1"),
        event("long", "0", "1000000000000000"),
    ));
    assert_eq!(trace.events.iter().filter(|event| trace.name(event) == "op").count(), 3);
    let counts: Vec<(DamageKind, u64)> = trace.damage.events.iter().map(|(kind, (count, _))| (*kind, *count)).collect();
    // 10^18 ns are 31 years.
    let expected = [
        (DamageKind::Unreadable, 2),
        (DamageKind::Timeless, 1),
        (DamageKind::NegativeDuration, 1),
        (DamageKind::OutOfRange, 1),
        (DamageKind::LongerThanADay, 1),
    ];
    assert_eq!(counts, expected);
    assert_eq!(trace.damage.warnings().len(), 5);
}

#[test]
fn every_one_of_many_damaged_events_is_counted() {
    let folder = Folder::new("many");
    let bad = r#"{"ph": "X", "name": ["no text"], "pid": 1, "tid": 1, "ts": 1, "dur": 1, "args": {"External id": 1}}"#;
    let good = event("op", "5", "1");
    let trace = folder.trace(&format!("{good}, {}, {good}", [bad; 200].join(", ")));
    assert_eq!((trace.events.len(), trace.damage.events[&DamageKind::Unreadable].0), (2, 200));
    assert!(trace.damage.truncated.is_none());
    // The list ends as it should.
    let trace = folder.trace(&[bad; 3].join(", "));
    assert_eq!((trace.damage.events[&DamageKind::Unreadable].0, trace.damage.truncated), (3, None));
    let trace = folder.trace(&bad.replace("ph\"", "ph"));
    assert!(trace.damage.truncated.unwrap().starts_with("no event could be read from byte"));
}

/// Each is one, wherever it stands; what writers put behind the last comma breaks no file.
#[test]
fn values_that_are_no_events_are_counted_one_by_one() {
    let folder = Folder::new("values");
    let good = event("op", "5", "1");
    for (between, count) in [("{}", 1), (r#"null, 5, "x", [1]"#, 4), (r#"{"args": {"ph": "X"}}, [{}, {}]"#, 2)] {
        for events in [format!("{good}, {between}"), format!("{between}, {good}"), format!("{good}, {between}, {good}")]
        {
            let trace = folder.trace(&events);
            assert_eq!(trace.events.len(), events.matches("cpu_op").count(), "{events}");
            assert_eq!(trace.damage.events[&DamageKind::Unreadable].0, count, "{events}");
            assert_eq!(trace.damage.truncated, None, "{events}");
        }
    }
}

/// A name that was cut in the middle of a pair of surrogates, and one that is no UTF-8: what is no text in them is replaced.
#[test]
fn names_that_are_no_text_are_read_as_far_as_they_are() {
    let folder = Folder::new("surrogates");
    let mut text =
        format!("{{\"traceEvents\": [{}, {}", r#"{"ph": "X", "name": "a\ud83d", "ts": 1, "dur": 1}"#, "").into_bytes();
    text.extend_from_slice(b"{\"ph\": \"X\", \"name\": \"b\xff\", \"ts\": 2, \"dur\": 1}, ");
    text.extend_from_slice(r#"{"ph": "X", "name": "\ud83d\ude00", "ts": 3, "dur": 1}]}"#.as_bytes());
    let trace = read(&folder.file("trace.json", &text)).unwrap();
    let names: Vec<&str> = trace.events.iter().map(|event| trace.name(event)).collect();
    assert!(names[0].starts_with("a\u{fffd}") && names[1..] == ["b\u{fffd}", "\u{1f600}"], "{names:?}");
    assert!(trace.damage.is_none());
}

#[test]
fn a_mark_before_a_trace_two_lists_of_events_and_what_lies_behind_are_read_around() {
    let folder = Folder::new("around");
    let list = |name: &str| format!("\"traceEvents\": [{}]", event(name, "1", "2"));
    let whole = format!("{{{}, {}}}", list("first"), list("second"));
    let read_it = |text: &str| read(&folder.file("trace.json", text.as_bytes())).unwrap();
    let marked = read_it(&format!("\u{feff}{whole}\n"));
    assert_eq!((marked.events.len(), marked.damage.is_none()), (2, true));
    for behind in ["}", "garbage", "{\"traceEvents\": []}", "\0"] {
        let trace = read_it(&format!("{whole}{behind}"));
        assert_eq!(trace.events.len(), 2);
        assert!(
            trace.damage.truncated.is_none() && trace.damage.others[0].contains("the rest was not read"),
            "{behind:?}"
        );
    }
    // The array alone, with something behind it.
    let trace = read_it(&format!("[{}] x", event("op", "1", "2")));
    assert_eq!((trace.events.len(), trace.damage.others.len()), (1, 1));
}

/// Events in any order, of a clock that was set back, come by their beginnings.
#[test]
fn a_clock_that_runs_backwards_gives_events_in_order() {
    let folder = Folder::new("backwards");
    let events: Vec<String> = (-3..3).rev().map(|at: i32| event("op", &at.to_string(), "0.5")).collect();
    let trace = folder.trace(&events.join(","));
    let starts: Vec<i64> = trace.events.iter().map(|event| event.start).collect();
    assert_eq!(starts, [-3000, -2000, -1000, 0, 1000, 2000]);
    assert!(trace.damage.is_none());
}

#[test]
fn endless_nesting_and_names_of_megabytes_take_bounded_time_and_memory() {
    let folder = Folder::new("endless");
    let name = "x".repeat(1 << 20);
    let trace = folder.trace(&event(&name, "1", "2"));
    assert_eq!(trace.name(&trace.events[0]).len(), 1 << 20);
    let nested = "{\"args\": ".repeat(3 << 20);
    assert_eq!(folder.trace(&nested).events.len(), 0);
    let nested = format!("{}{}", "{\"a\": [".repeat(1 << 20), event("inner", "1", "2"));
    let trace = folder.trace(&nested);
    assert!(!trace.damage.is_none());
}

#[test]
fn ranks_come_from_the_trace_or_from_the_name_and_once_each() {
    let folder = Folder::new("ranks");
    let trace = |rank: &str| format!("{{{rank} \"traceEvents\": [{}]}}", event("op", "1", "2"));
    folder.file("a_rank_12.json", trace("").as_bytes());
    folder.file("b.json", trace("\"distributedInfo\": {\"rank\": 3, \"world_size\": 16},").as_bytes());
    let ranks: Vec<u32> =
        read_ranks(std::slice::from_ref(&folder.0)).unwrap().iter().map(|ranked| ranked.rank).collect();
    assert_eq!(ranks, [3, 12]);
    let nameless = Folder::new("nameless");
    for name in ["worker-b.json", "worker-a.json"] {
        nameless.file(name, trace("").as_bytes());
    }
    let ranks = read_ranks(std::slice::from_ref(&nameless.0)).unwrap();
    let warning = &ranks[0].trace.damage.of_other_files[0];
    assert!(warning.ends_with("numbered in that order: rank 0 is worker-a.json, rank 1 is worker-b.json"), "{warning}");
    folder.file("c_rank3.json", trace("").as_bytes());
    assert!(read_ranks(std::slice::from_ref(&folder.0)).unwrap_err().to_string().contains("of rank 3, as is"));
}

/// A configuration and what is no JSON next to traces, and nothing else in a folder.
#[test]
fn what_is_no_trace_beside_traces_is_passed_over_and_told() {
    let folder = Folder::new("others");
    folder.file("config.json", b"{\"lr\": 1}");
    assert!(read_ranks(std::slice::from_ref(&folder.0)).unwrap_err().to_string().contains("config.json"));
    folder.file("junk.json.gz", b"abc");
    let trace = format!("{{\"traceEvents\": [{}]}}", event("op", "1", "2"));
    folder.file("trace_rank_2.json", trace.as_bytes());
    let ranks = read_ranks(std::slice::from_ref(&folder.0)).unwrap();
    let warnings = ranks[0].trace.damage.warnings();
    assert_eq!((ranks.len(), ranks[0].rank, warnings.len()), (1, 2, 1));
    assert!(warnings[0].contains("config.json") && warnings[0].contains("junk.json.gz"), "{warnings:?}");
    // One that is named is meant.
    assert!(read_ranks(&[folder.0.join("config.json")]).is_err());
}

/// As other programs write Chrome's format; counters have no time that could be missed.
#[test]
fn events_in_halves_are_told() {
    let folder = Folder::new("halves");
    let half =
        |phase: &str| format!(r#"{{"ph": "{phase}", "name": "half", "pid": 1, "tid": 1, "ts": 1, "id": "0x1f"}}"#);
    let halves = ["B", "E", "b", "e", "C", "s", "f"].map(half).join(", ");
    let trace = folder.trace(&format!("{}, {halves}", event("op", "1", "2")));
    let warnings = trace.damage.warnings();
    assert!(
        warnings.len() == 1 && warnings[0].starts_with("4 events were left out: written in halves"),
        "{warnings:?}"
    );
    let arrows: Vec<u64> = trace.events.iter().map(|event| event.correlation).filter(|id| *id != 0).collect();
    assert_eq!(arrows, [31, 31]);
}

#[test]
fn a_rank_that_is_none_is_told() {
    let folder = Folder::new("odd-rank");
    for rank in ["-1", "1180591620717411303424", "\"x\"", "1.5"] {
        let text =
            format!("{{\"distributedInfo\": {{\"rank\": {rank}}}, \"traceEvents\": [{}]}}", event("op", "1", "2"));
        let trace = read(&folder.file("odd.json", text.as_bytes())).unwrap();
        assert_eq!(trace.header.rank, None);
        assert!(trace.damage.warnings()[0].starts_with("the trace names rank"), "{rank}");
    }
}

/// As torch/autograd/profiler_util.py of PyTorch 1.13 writes a trace where PyTorch was built without Kineto.
#[test]
fn events_without_a_category_are_told_apart_by_process_and_name() {
    let folder = Folder::new("without-kineto");
    let event = |name: &str, process: &str| {
        format!(r#"{{"name": "{name}", "ph": "X", "ts": 96, "dur": 26, "tid": 1, "pid": "{process}", "args": {{}}}}"#)
    };
    let host = "CPU functions";
    let events = [
        (event("aten::zeros", host), EventCategory::Operator),
        (event("autograd::engine::evaluate_function: AddmmBackward0", host), EventCategory::Operator),
        (event("AddmmBackward0", host), EventCategory::Operator),
        (event("torchvision::nms", host), EventCategory::Operator),
        (event("ProfilerStep#0", host), EventCategory::Annotation),
        (event("Optimizer.step#SGD.step", host), EventCategory::Annotation),
        (event("aten::zeros", "of another program"), EventCategory::Other),
    ];
    for (event, category) in events {
        let trace = read(&folder.file("trace.json", format!("[{event}]").as_bytes())).unwrap();
        assert_eq!(trace.events[0].category, category, "{event}");
    }
}

/// PyTorch on Windows wrote paths without escaping their backslashes (pytorch#60187), whatever escapes these then look like.
#[test]
fn paths_of_windows_are_read_as_they_are() {
    let names = [r"C:\work\train.py(12): main", r"D:\users\net\model.py(7): forward", r"src\train.py(3): step"];
    let event = |name: &&str| {
        format!(r#"{{"ph": "X", "cat": "python_function", "name": "{name}", "pid": 1, "tid": 1, "ts": 1, "dur": 1}}"#)
    };
    let trace = Folder::new("windows").trace(&names.iter().map(event).collect::<Vec<_>>().join(","));
    let read: Vec<&str> = trace.events.iter().map(|event| trace.name(event)).collect();
    assert_eq!((read, trace.damage.is_none()), (names.to_vec(), true));
}
