//! A worker process: one line in, one line out, watched until it ends or its time is up.

use super::Watch;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// A reply is some hundred bytes, and hundred more for every operation whose time it holds; a worker that says more than this is not
/// speaking the protocol.
const LONGEST_REPLY: u64 = 4 << 20;
/// How much of a worker's complaints is kept for a report.
const COMPLAINTS: usize = 2048;
/// How often a silent worker is looked at: rarely enough not to disturb what it measures.
const LOOK: Duration = Duration::from_millis(50);
/// How often a worker that has answered is looked at: it is about to end.
const LOOK_CLOSELY: Duration = Duration::from_millis(2);
/// How long output may take to arrive after the worker has ended; longer means that a stray child holds the pipe.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How a worker ended.
#[derive(Debug)]
pub(super) enum End {
    /// By itself, or killed by somebody else.
    Exited(ExitStatus),
    /// Killed by us, at the deadline.
    TimedOut,
    /// Killed by us, after Ctrl-C.
    Interrupted,
}

/// Everything a worker left behind.
#[derive(Debug)]
pub(super) struct Legacy {
    /// How it ended.
    pub end: End,
    /// What it wrote to its standard output.
    pub said: String,
    /// The end of what it wrote to its standard error.
    pub complained: String,
}

/// Starts a worker, hands it `line` and waits for its end, at most `timeout`.
pub(super) fn ask(command: &mut Command, line: &str, timeout: Duration, watch: &Watch<'_>) -> std::io::Result<Legacy> {
    let deadline = Instant::now() + timeout;
    // In a group of its own, Ctrl-C reaches only us, and children of the worker can be killed with it.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    volunteer(&child);
    let said = child.stdout.take().map(|pipe| reader(pipe, first_bytes));
    let complained = child.stderr.take().map(|pipe| reader(pipe, last_bytes));
    if let Some(mut stdin) = child.stdin.take() {
        // A worker that died already reads nothing; how it died tells more than this write.
        let _ = stdin.write_all(line.as_bytes()).and_then(|()| stdin.write_all(b"\n"));
    }
    let mut heard = None;
    let end = loop {
        if let Some(status) = child.try_wait()? {
            break End::Exited(status);
        }
        if watch.cancelled() {
            break End::Interrupted;
        }
        if Instant::now() >= deadline {
            break End::TimedOut;
        }
        match (&heard, &said) {
            (None, Some(said)) => match said.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Timeout) => {}
                result => heard = Some(result.unwrap_or_default()),
            },
            _ => thread::sleep(LOOK_CLOSELY),
        }
    };
    bury(&mut child);
    let heard = heard.unwrap_or_else(|| last_words(said));
    Ok(Legacy { end, said: heard, complained: last_words(complained) })
}

/// Offers the worker to the kernel's out-of-memory killer before everything else on the machine.
fn volunteer(child: &Child) {
    // Where the kernel has no such file, or forbids it, the worker's memory limit still holds.
    let _ = std::fs::write(format!("/proc/{}/oom_score_adj", child.id()), "1000");
}

/// Ends the worker if it still runs, and whatever it started.
fn bury(child: &mut Child) {
    if let Ok(group) = i32::try_from(child.id()) {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    let _ = child.wait();
}

/// Reads a pipe to its end on a thread of its own, so that a full pipe never blocks the worker.
fn reader<R: Read + Send + 'static>(pipe: R, read: fn(R) -> Vec<u8>) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let bytes = read(pipe);
        // Nobody listens any more when the wait for last words is over.
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

fn last_words(receiver: Option<Receiver<String>>) -> String {
    receiver.and_then(|receiver| receiver.recv_timeout(LAST_WORDS).ok()).unwrap_or_default()
}

fn first_bytes<R: Read>(pipe: R) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What was read before a failure is kept.
    let _ = pipe.take(LONGEST_REPLY).read_to_end(&mut bytes);
    bytes
}

fn last_bytes<R: Read>(mut pipe: R) -> Vec<u8> {
    let mut kept = VecDeque::new();
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = pipe.read(&mut buffer) {
        kept.extend(&buffer[..count]);
        kept.drain(..kept.len().saturating_sub(COMPLAINTS));
    }
    kept.into()
}
