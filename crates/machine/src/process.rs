//! Runs a process: writes its input, supervises it until it ends or times out, and ends it with its descendants.

use super::guard::GuardedProcess;
use super::{Conditions, RunWatch};
use crate::affinity;
use crate::lines::{OutputLines, OutputStream};
use std::io::{self, Cursor, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The most standard output that is kept. A worker reports some hundred bytes for each step and hundreds for each
/// operation.
pub(super) const LONGEST_OUTPUT: u64 = 4 << 20;
/// The number of bytes that are kept from the end of the standard error, for a report.
const LONGEST_COMPLAINT: usize = 2048;
/// The polling interval of a silent process: long enough not to disturb its measurement.
const LOOK: Duration = Duration::from_millis(50);
/// The polling interval of a process that has answered and is about to end.
const LOOK_CLOSELY: Duration = Duration::from_millis(2);
/// How long output may arrive after the process has ended; after that another process holds the pipe.
const LAST_OUTPUT: Duration = Duration::from_millis(500);
/// How long a process that has answered may take to end: GPU libraries shut down for seconds, and some hang.
const WIND_UP: Duration = Duration::from_secs(10);

/// Who ended a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessEnd {
    /// By itself, or killed by another process.
    Exited(ExitStatus),
    /// Killed by us, at the deadline.
    TimedOut,
    /// The connection to its machine was lost this many times in a row.
    Lost(usize),
}

/// What a process wrote, and how it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessOutput {
    /// By itself, by us, or unknown.
    pub end: ProcessEnd,
    /// The beginning of its standard output.
    pub stdout: String,
    /// The end of its standard error.
    pub stderr: String,
    /// Whether the kernel killed a process meanwhile because memory ran out.
    pub killed_for_memory: bool,
    /// The machine's state before and after, where it was observed from here.
    pub conditions: Box<Conditions>,
}

impl ProcessOutput {
    /// A result without conditions and waiting times.
    pub fn new(end: ProcessEnd, stdout: String, stderr: String) -> Self {
        ProcessOutput { end, stdout, stderr, killed_for_memory: false, conditions: Box::default() }
    }
}

/// The input of a process and its supervision.
pub struct ProcessCall {
    /// Written to its standard input.
    pub input: Box<dyn Read + Send>,
    /// Whether its input stays open until it has ended.
    pub keeps_input: bool,
    /// Whether it answers with one line, and no descendant outlives it.
    pub one_line: bool,
    /// It is killed after this time.
    pub timeout: Duration,
    /// Its affinity and cleanup.
    pub bounds: ProcessBounds,
}

/// The affinity and the cleanup of a process.
#[derive(Debug, Default)]
pub struct ProcessBounds {
    /// A command that the guard runs if this process dies.
    pub cleanup: Vec<String>,
    /// The CPUs that it may run on; none for ours.
    pub cpus: Option<Vec<usize>>,
}

impl ProcessCall {
    /// One line of input, one line of output.
    pub fn line(line: &str, timeout: Duration) -> Self {
        let input = Box::new(Cursor::new(format!("{line}\n")));
        ProcessCall { input, keeps_input: false, one_line: true, timeout, bounds: ProcessBounds::default() }
    }

    /// The same call with time limit and cancellation.
    pub fn bounded(self, bounds: ProcessBounds) -> Self {
        ProcessCall { bounds, ..self }
    }
}

/// Starts a process, writes its input and waits for its end; none after Ctrl-C.
pub fn run(command: &mut Command, call: ProcessCall, watch: &RunWatch<'_>) -> io::Result<Option<ProcessOutput>> {
    let (mut deadline, one_line) = (Instant::now() + call.timeout, call.one_line);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut start = || GuardedProcess::start_with_cleanup(command, one_line, &call.bounds.cleanup);
    let mut guarded = match &call.bounds.cpus {
        Some(cpus) => affinity::with_affinity(cpus, start)?,
        None => start()?,
    };
    let child = &mut guarded.child;
    volunteer(child);
    let stdout = child.stdout.take().map(PipeBeginning::read_from);
    let mut lines = OutputLines::new(Instant::now());
    child.stderr.take().into_iter().for_each(|pipe| lines.listen(pipe, OutputStream::Error));
    let _kept = child.stdin.take().map(|pipe| feed(pipe, call));
    let mut answered = false;
    let end = loop {
        lines.take().iter().for_each(|line| (watch.heard)(&line.text));
        if let Some(status) = child.try_wait()? {
            break Some(ProcessEnd::Exited(status));
        }
        if watch.cancelled() {
            break None;
        }
        if Instant::now() >= deadline {
            break Some(ProcessEnd::TimedOut);
        }
        if one_line && !answered && stdout.as_ref().is_some_and(PipeBeginning::has_line) {
            answered = true;
            deadline = deadline.min(Instant::now() + WIND_UP);
        }
        if stdout.as_ref().is_none_or(|stdout| stdout.ends_within(LOOK)) {
            thread::sleep(LOOK_CLOSELY);
        }
    };
    drop(guarded);
    let stdout = stdout.map_or(String::new(), PipeBeginning::text);
    lines.finish(LAST_OUTPUT);
    Ok(end.map(|end| ProcessOutput::new(end, stdout, complaint(&lines))))
}

/// Writes the input on a separate thread, so that a slow reader can be abandoned. An input that is kept open is closed
/// when the result is dropped.
fn feed(mut pipe: ChildStdin, mut call: ProcessCall) -> Sender<()> {
    let (sender, dropped) = channel();
    thread::spawn(move || {
        // If the process has already died, its exit status is more useful than the error of this write.
        let _ = io::copy(&mut call.input, &mut pipe).and_then(|_| pipe.flush());
        if call.keeps_input {
            let _ = dropped.recv();
        }
    });
    sender
}

/// Makes the process the first candidate of the kernel's out-of-memory killer.
fn volunteer(child: &Child) {
    // Where the kernel has no such file or denies access, the worker's own memory limit still applies.
    let _ = std::fs::write(format!("/proc/{}/oom_score_adj", child.id()), "1000");
}

/// The beginning of a pipe's output, read on a separate thread, so that a full pipe never blocks the process.
struct PipeBeginning {
    read: Arc<Mutex<Vec<u8>>>,
    /// Closed at the pipe's end.
    ended: Receiver<()>,
}

impl PipeBeginning {
    /// Reads until the pipe ends or the longest output is reached.
    fn read_from(mut pipe: impl Read + Send + 'static) -> Self {
        let (open, ended) = channel();
        let read = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&read);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                let mut read = shared.lock().unwrap_or_else(PoisonError::into_inner);
                read.extend_from_slice(&buffer[..count]);
                if read.len() as u64 >= LONGEST_OUTPUT {
                    break;
                }
            }
            drop(open);
        });
        PipeBeginning { read, ended }
    }

    /// Waits for the end of the pipe at most this long, and returns whether it ended.
    fn ends_within(&self, time: Duration) -> bool {
        self.ended.recv_timeout(time) == Err(RecvTimeoutError::Disconnected)
    }

    fn has_line(&self) -> bool {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).contains(&b'\n')
    }

    /// All output so far; after the process has ended, it does not wait for another holder of the pipe.
    fn text(self) -> String {
        self.ends_within(LAST_OUTPUT);
        String::from_utf8_lossy(&self.read.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

fn complaint(lines: &OutputLines) -> String {
    let text = lines.last().join("\n");
    let from = text.ceil_char_boundary(text.len().saturating_sub(LONGEST_COMPLAINT));
    text[from..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;

    /// Errors without a line end for a second: hundreds of megabytes. The tests of `lines` verify the bounded memory.
    #[test]
    fn a_process_that_floods_its_errors_ends_in_time() {
        let heard = Mutex::new(0);
        let hear = |line: &str| *heard.lock().unwrap() += line.len();
        let mut command = Command::new("sh");
        command.args(["-c", "exec tr '\\0' x < /dev/zero >&2"]);
        let cancelled = AtomicBool::new(false);
        let watch = RunWatch { heard: &hear, ..RunWatch::quiet(&cancelled) };
        let begun = Instant::now();
        let output = run(&mut command, ProcessCall::line("", Duration::from_secs(1)), &watch).unwrap().unwrap();
        assert_eq!(output.end, ProcessEnd::TimedOut);
        assert!(begun.elapsed() < Duration::from_secs(20) && output.stderr.len() <= LONGEST_COMPLAINT);
        assert_eq!(*heard.lock().unwrap(), 0, "no line has ended");
    }
}
