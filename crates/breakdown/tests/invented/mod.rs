//! Traces that tests make up, written as PyTorch's profiler would and read as users' are.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

use perf4sight_traces::{RankTrace, read};
use std::fmt::Write;

/// A trace in the making; times are whole nanoseconds.
#[derive(Default)]
pub struct Invented {
    events: Vec<String>,
    header: String,
}

impl Invented {
    /// The main thread's track; process and thread have one number.
    pub const MAIN: [u32; 2] = [9, 9];

    /// An event on a track from one moment to another.
    pub fn event(
        &mut self,
        [process, thread]: [u32; 2],
        (category, name): (&str, &str),
        [start, end]: [i64; 2],
    ) -> &mut Self {
        let mut text =
            format!(r#"{{"ph": "X", "cat": {category:?}, "name": {name:?}, "pid": {process}, "tid": {thread}, "#);
        let duration = end - start;
        let microseconds = |time: i64| {
            format!("{}{}.{:03}", if time < 0 { "-" } else { "" }, (time / 1000).abs(), (time % 1000).abs())
        };
        write!(text, r#""ts": {}, "dur": {}}}"#, microseconds(start), microseconds(duration)).unwrap();
        self.events.push(text);
        self
    }

    /// The beginning of an arrow from an operator of the main thread to its backward.
    pub fn arrow(&mut self, moment: i64) -> &mut Self {
        let [process, thread] = Self::MAIN;
        let text = format!(
            r#"{{"ph": "s", "id": 1, "cat": "fwdbwd", "name": "fwdbwd", "pid": {process}, "tid": {thread}, "ts": 0.{moment:03}}}"#
        );
        self.events.push(text);
        self
    }

    /// A call of the runtime on the main thread, and the kernel of stream 7 that it launches.
    pub fn launch(&mut self, correlation: u32, call: [i64; 2], kernel: [i64; 2]) -> &mut Self {
        self.main(("cuda_runtime", "cudaLaunchKernel"), call).correlated(correlation);
        self.kernel("gemm", kernel).correlated(correlation)
    }

    fn correlated(&mut self, correlation: u32) -> &mut Self {
        let event = self.events.last_mut().unwrap();
        event.truncate(event.len() - 1);
        write!(event, r#", "args": {{"correlation": {correlation}}}}}"#).unwrap();
        self
    }

    /// What an accelerator's stream 7 does.
    pub fn kernel(&mut self, name: &str, times: [i64; 2]) -> &mut Self {
        self.event([0, 7], ("kernel", name), times)
    }

    /// What the main thread does.
    pub fn main(&mut self, event: (&str, &str), times: [i64; 2]) -> &mut Self {
        self.event(Self::MAIN, event, times)
    }

    /// A member of the outermost object, such as `"baseTimeNanoseconds": 5`.
    pub fn header(&mut self, member: &str) -> &mut Self {
        self.header.push_str(member);
        self.header.push(',');
        self
    }

    /// The trace, read as that of a rank.
    pub fn read(&self, rank: u32) -> RankTrace {
        let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
        let text = format!("{{{} \"traceEvents\": [{}]}}", self.header, self.events.join(",\n"));
        std::fs::write(file.path(), text).unwrap();
        RankTrace { rank, trace: read(file.path()).unwrap() }
    }
}
