//! A worker process: one line in, one line out, watched until it ends or its time is up.

use super::Watch;
use crate::records::Conditions;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::collections::VecDeque;
use std::io::{self, Cursor, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// A reply is some hundred bytes, and hundred more for every operation whose time it holds; a worker that says more than this is not
/// speaking the protocol.
pub(super) const LONGEST_REPLY: u64 = 4 << 20;
/// How much of a worker's complaints is kept for a report.
const COMPLAINTS: usize = 2048;
/// How often a silent worker is looked at: rarely enough not to disturb what it measures.
const LOOK: Duration = Duration::from_millis(50);
/// How often a worker that has answered is looked at: it is about to end.
const LOOK_CLOSELY: Duration = Duration::from_millis(2);
/// How long output may take to arrive after the worker has ended; longer means that a stray child holds the pipe.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How a worker ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// By itself, or killed by somebody else.
    Exited(ExitStatus),
    /// Killed by us, at the deadline.
    TimedOut,
    /// With the connection to its machine, that many times in a row.
    Lost(usize),
}

/// Everything a worker left behind.
#[derive(Debug, Clone, PartialEq)]
pub struct Legacy {
    /// How it ended.
    pub end: End,
    /// What it wrote to its standard output.
    pub said: String,
    /// The end of what it wrote to its standard error.
    pub complained: String,
    /// Whether the kernel killed for want of memory meanwhile.
    pub for_memory: bool,
    /// What the machine told before and after, where it was looked at from here.
    pub conditions: Box<Conditions>,
}

impl Legacy {
    /// What a process said, and nothing else known.
    pub(super) fn of(end: End, said: String, complained: String) -> Self {
        Legacy { end, said, complained, for_memory: false, conditions: Box::default() }
    }
}

/// What a process is handed, and how long it may take.
pub(super) struct Errand {
    /// What it reads from its standard input.
    pub input: Box<dyn Read + Send>,
    /// Whether its input stays open until it has ended.
    pub held: bool,
    /// Time after which it is killed.
    pub timeout: Duration,
}

impl Errand {
    /// One line.
    pub fn line(line: &str, timeout: Duration) -> Self {
        Errand { input: Box::new(Cursor::new(format!("{line}\n"))), held: false, timeout }
    }
}

/// Starts a process, hands it its errand and waits for its end; none after Ctrl-C.
pub(super) fn ask(command: &mut Command, errand: Errand, watch: &Watch<'_>) -> io::Result<Option<Legacy>> {
    let deadline = Instant::now() + errand.timeout;
    // In a group of its own, Ctrl-C reaches only us, and children of the worker can be killed with it.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    volunteer(&child);
    let said = child.stdout.take().map(|pipe| reader(pipe, first_bytes));
    let complained = child.stderr.take().map(|pipe| reader(pipe, last_bytes));
    let _held = child.stdin.take().map(|pipe| feed(pipe, errand));
    let mut heard = None;
    let end = loop {
        if let Some(status) = child.try_wait()? {
            break Some(End::Exited(status));
        }
        if watch.cancelled() {
            break None;
        }
        if Instant::now() >= deadline {
            break Some(End::TimedOut);
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
    let Some(end) = end else { return Ok(None) };
    let said = heard.unwrap_or_else(|| last_words(said));
    Ok(Some(Legacy::of(end, said, last_words(complained))))
}

/// Writes the input on a thread of its own, so that a slow reader can be given up; what is held stays open until the result is
/// dropped.
fn feed(mut pipe: ChildStdin, mut errand: Errand) -> Sender<()> {
    let (sender, dropped) = channel();
    thread::spawn(move || {
        // A worker that died already reads nothing; how it died tells more than this write.
        let _ = io::copy(&mut errand.input, &mut pipe).and_then(|_| pipe.flush());
        if errand.held {
            let _ = dropped.recv();
        }
    });
    sender
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
