//! Memory that files of 100 MB take, whatever is in them: never more than 1 GB, in a process of its own.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

use flate2::{Compression, write::GzEncoder};
use perf4sight_traces::read;
use std::fs::{self, File};
use std::io::{BufWriter, Write};

const SIZE: usize = 100_000_000;

/// The largest resident set of this process until now, in bytes.
fn most() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    1024 * line.split_whitespace().next().unwrap().parse::<usize>().unwrap()
}

/// A trace that repeats something for each number.
fn file(repeat: &dyn Fn(usize) -> String) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    let mut target = BufWriter::new(File::create(file.path()).unwrap());
    target.write_all(b"{\"traceEvents\": [").unwrap();
    let mut written = 0;
    for number in 0.. {
        let text = repeat(number);
        target.write_all(text.as_bytes()).unwrap();
        written += text.len();
        if written >= SIZE {
            break;
        }
    }
    target.write_all(b"{\"ph\":\"i\",\"ts\":2}]}").unwrap();
    target.flush().unwrap();
    file
}

/// Small events, names that are all different, collectives, names of a megabyte, and nesting that a billion levels would be like: what is
/// kept of a file is less than its size times some, and of what is no event nothing is.
#[test]
fn no_file_of_100_mb_takes_a_gigabyte() {
    let event = |members: &str| format!(r#"{{"ph":"X","ts":1,"dur":1{members}}},"#);
    let kinds: [(&str, &dyn Fn(usize) -> String); 6] = [
        ("small", &|_| event("")),
        ("named", &|number| event(&format!(r#","name":"{number}""#))),
        ("collective", &|_| event(r#","args":{"Collective name":"a"}"#)),
        ("long", &|number| event(&format!(r#","name":"{number}{}""#, "x".repeat(1 << 20)))),
        ("nested", &|_| "[".to_owned()),
        ("objects", &|_| "{\"a\":".to_owned()),
    ];
    for (kind, repeat) in kinds {
        let file = file(repeat);
        let trace = read(file.path()).unwrap();
        assert!(most() < 1_000_000_000, "{kind}: {} bytes for {} events", most(), trace.events.len());
    }
    let bomb = bomb();
    let trace = read(bomb.path()).unwrap();
    let warnings = trace.damage.warnings().join("; ");
    assert!(warnings.contains("more than 50 times its size"), "{warnings}");
    assert!(trace.events.len() > 1_000_000 && trace.events.len() < 10_000_000, "{}", trace.events.len());
    assert!(most() < 1_000_000_000, "{} bytes for {} events of a bomb", most(), trace.events.len());
}

/// Gzipped, events can be a hundred times as dense as those of any trace, and none of what unpacks to 20 times its size is refused for that:
/// what does not pack goes with what does.
#[test]
fn a_dense_file_is_read_as_far_as_a_trace_of_its_size_would_fill_memory() {
    let file = tempfile::Builder::new().suffix(".json.gz").tempfile().unwrap();
    let mut target = GzEncoder::new(File::create(file.path()).unwrap(), Compression::fast());
    target.write_all(b"{\"traceEvents\": [").unwrap();
    let events = "{\"ph\":\"X\",\"ts\":1,\"dur\":1},".repeat(10_000);
    let mut state = 1u64;
    for _ in 0..1000 {
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            format!("{:x}", state >> 4)
        };
        let noise: String = (0..1400).map(|_| noise()).collect();
        write!(target, "{events}{{\"ph\":\"i\",\"ts\":1,\"args\":{{\"a\":\"{noise}\"}}}},").unwrap();
    }
    target.finish().unwrap();
    let packed = fs::metadata(file.path()).unwrap().len();
    assert!(packed < 25_000_000 && packed > 270_000_000 / 25, "{packed} bytes");
    let trace = read(file.path()).unwrap();
    let warnings = trace.damage.warnings().join("; ");
    assert!(warnings.contains("fills 350 MB of memory"), "{warnings}");
    assert!(trace.events.len() < 9_000_000, "{}", trace.events.len());
    assert!(most() < 1_000_000_000, "{} bytes", most());
}

/// A file of a few megabytes that unpacks to a gigabyte of events.
fn bomb() -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".json.gz").tempfile().unwrap();
    let mut target = GzEncoder::new(File::create(file.path()).unwrap(), Compression::fast());
    target.write_all(b"{\"traceEvents\": [").unwrap();
    let events = "{\"ph\":\"X\",\"ts\":1,\"dur\":1},".repeat(10_000);
    for _ in 0..10 * SIZE / events.len() {
        target.write_all(events.as_bytes()).unwrap();
    }
    target.finish().unwrap();
    file
}
