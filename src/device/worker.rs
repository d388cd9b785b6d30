//! A worker process: one line in, one line out, watched until it ends or its time is up.

use super::Watch;
use super::guard::Guarded;
use crate::records::Conditions;
use std::io::{self, Cursor, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
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
/// How long output may take to arrive after the worker has ended; longer means that something else holds the pipe.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long a worker that has answered may take to end: libraries of GPUs wind up for seconds, and some never get to an end.
const WIND_UP: Duration = Duration::from_secs(10);

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
    /// Whether it is a worker: one line is all that it says, and nothing that it starts outlives it.
    pub worker: bool,
    /// Time after which it is killed.
    pub timeout: Duration,
}

impl Errand {
    /// One line for a worker.
    pub fn line(line: &str, timeout: Duration) -> Self {
        Errand { input: Box::new(Cursor::new(format!("{line}\n"))), held: false, worker: true, timeout }
    }
}

/// Starts a process, hands it its errand and waits for its end; none after Ctrl-C.
pub(super) fn ask(command: &mut Command, errand: Errand, watch: &Watch<'_>) -> io::Result<Option<Legacy>> {
    let (mut deadline, is_worker) = (Instant::now() + errand.timeout, errand.worker);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut guarded = Guarded::start(command, is_worker)?;
    let child = &mut guarded.child;
    volunteer(child);
    let said = child.stdout.take().map(|pipe| Listener::new(pipe, Part::Beginning));
    let complained = child.stderr.take().map(|pipe| Listener::new(pipe, Part::End));
    let _held = child.stdin.take().map(|pipe| feed(pipe, errand));
    let mut answered = false;
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
        if is_worker && !answered && said.as_ref().is_some_and(Listener::has_line) {
            answered = true;
            deadline = deadline.min(Instant::now() + WIND_UP);
        }
        if said.as_ref().is_none_or(|said| said.ends_within(LOOK)) {
            thread::sleep(LOOK_CLOSELY);
        }
    };
    drop(guarded);
    let last_words = |listener: Option<Listener>| listener.map_or(String::new(), Listener::last_words);
    Ok(end.map(|end| Legacy::of(end, last_words(said), last_words(complained))))
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

/// What comes out of a pipe, read on a thread of its own, so that a full pipe never blocks the worker.
struct Listener {
    heard: Arc<Mutex<Vec<u8>>>,
    /// Closed at the pipe's end.
    ended: Receiver<()>,
}

impl Listener {
    /// Listens until the pipe ends or the part that is wanted is there.
    fn new(mut pipe: impl Read + Send + 'static, part: Part) -> Self {
        let (open, ended) = channel();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&heard);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                let mut heard = shared.lock().unwrap_or_else(PoisonError::into_inner);
                heard.extend_from_slice(&buffer[..count]);
                if part.is_there(&mut heard) {
                    break;
                }
            }
            drop(open);
        });
        Listener { heard, ended }
    }

    /// Waits so long for the end of the pipe, and tells whether it came.
    fn ends_within(&self, time: Duration) -> bool {
        self.ended.recv_timeout(time) == Err(RecvTimeoutError::Disconnected)
    }

    fn has_line(&self) -> bool {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).contains(&b'\n')
    }

    /// Everything that was heard; what still holds the pipe when the worker is dead is not waited for.
    fn last_words(self) -> String {
        self.ends_within(LAST_WORDS);
        String::from_utf8_lossy(&self.heard.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

/// What is wanted of endless words.
#[derive(Clone, Copy)]
enum Part {
    /// As much as a reply may have.
    Beginning,
    /// As much as a report quotes.
    End,
}

impl Part {
    /// Drops what is not wanted, and tells whether no more is.
    fn is_there(self, heard: &mut Vec<u8>) -> bool {
        match self {
            Part::Beginning => heard.len() as u64 >= LONGEST_REPLY,
            Part::End => {
                heard.drain(..heard.len().saturating_sub(COMPLAINTS));
                false
            }
        }
    }
}
