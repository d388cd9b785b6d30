//! A process: handed its input, supervised until it ends or its time is up, ended with what it started.

use super::guard::Guarded;
use super::{Conditions, Watch};
use crate::affinity;
use std::io::{self, Cursor, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How much of the standard output is kept. What a worker tells of a step is some hundred bytes, and hundred more for every operation.
pub(super) const LONGEST_OUTPUT: u64 = 4 << 20;
/// How much of the end of the standard error is kept, for a report.
const LONGEST_COMPLAINT: usize = 2048;
/// What is kept of a line of the standard error that has not ended.
const LONGEST_LINE: usize = 64 << 10;
/// How often a silent process is looked at: rarely enough not to disturb what it measures.
const LOOK: Duration = Duration::from_millis(50);
/// How often a process that has answered is looked at: it is about to end.
const LOOK_CLOSELY: Duration = Duration::from_millis(2);
/// How long output may take to arrive after the process has ended; longer means that something else holds the pipe.
const LAST_OUTPUT: Duration = Duration::from_millis(500);
/// How long a process that has answered may take to end: libraries of GPUs wind up for seconds, and some never get to an end.
const WIND_UP: Duration = Duration::from_secs(10);

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// By itself, or killed by somebody else.
    Exited(ExitStatus),
    /// Killed by us, at the deadline.
    TimedOut,
    /// With the connection to its machine, that many times in a row.
    Lost(usize),
}

/// Everything that is known of a process that ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// How it ended.
    pub end: End,
    /// The beginning of what it wrote to its standard output.
    pub stdout: String,
    /// The end of what it wrote to its standard error.
    pub stderr: String,
    /// Whether the kernel killed for want of memory meanwhile.
    pub killed_for_memory: bool,
    /// What the machine told before and after, where it was looked at from here.
    pub conditions: Box<Conditions>,
}

impl Output {
    /// What a process wrote, and nothing else known.
    pub fn new(end: End, stdout: String, stderr: String) -> Self {
        Output { end, stdout, stderr, killed_for_memory: false, conditions: Box::default() }
    }
}

/// What a process is handed, and how it is supervised.
pub struct Call {
    /// What it reads from its standard input.
    pub input: Box<dyn Read + Send>,
    /// Whether its input stays open until it has ended.
    pub keeps_input: bool,
    /// Whether one line is all that it says, and nothing that it starts outlives it.
    pub one_line: bool,
    /// Time after which it is killed.
    pub timeout: Duration,
    /// What it may not leave.
    pub bounds: Bounds,
}

/// What a process may not leave.
#[derive(Debug, Default)]
pub struct Bounds {
    /// What ends what only that can end, when we die.
    pub farewell: Vec<String>,
    /// The CPUs that it may run on; none: those that we may.
    pub cpus: Option<Vec<usize>>,
}

impl Call {
    /// One line in, one line out.
    pub fn line(line: &str, timeout: Duration) -> Self {
        let input = Box::new(Cursor::new(format!("{line}\n")));
        Call { input, keeps_input: false, one_line: true, timeout, bounds: Bounds::default() }
    }

    /// The same, within bounds.
    pub fn within(self, bounds: Bounds) -> Self {
        Call { bounds, ..self }
    }
}

/// Starts a process, hands it its input and waits for its end; none after Ctrl-C.
pub fn run(command: &mut Command, call: Call, watch: &Watch<'_>) -> io::Result<Option<Output>> {
    let (mut deadline, one_line) = (Instant::now() + call.timeout, call.one_line);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut start = || Guarded::start_with_farewell(command, one_line, &call.bounds.farewell);
    let mut guarded = match &call.bounds.cpus {
        Some(cpus) => affinity::within(cpus, start)?,
        None => start()?,
    };
    let child = &mut guarded.child;
    volunteer(child);
    let stdout = child.stdout.take().map(|pipe| Listener::new(pipe, Part::Beginning));
    let stderr = child.stderr.take().map(|pipe| Listener::new(pipe, Part::End));
    let mut told = Told::default();
    let _kept = child.stdin.take().map(|pipe| feed(pipe, call));
    let mut answered = false;
    let end = loop {
        stderr.iter().flat_map(|stderr| told.lines(stderr)).for_each(|line| (watch.heard)(&line));
        if let Some(status) = child.try_wait()? {
            break Some(End::Exited(status));
        }
        if watch.cancelled() {
            break None;
        }
        if Instant::now() >= deadline {
            break Some(End::TimedOut);
        }
        if one_line && !answered && stdout.as_ref().is_some_and(Listener::has_line) {
            answered = true;
            deadline = deadline.min(Instant::now() + WIND_UP);
        }
        if stdout.as_ref().is_none_or(|stdout| stdout.ends_within(LOOK)) {
            thread::sleep(LOOK_CLOSELY);
        }
    };
    drop(guarded);
    let text = |listener: Option<Listener>| listener.map_or(String::new(), Listener::text);
    Ok(end.map(|end| Output::new(end, text(stdout), text(stderr))))
}

/// Writes the input on a thread of its own, so that a slow reader can be given up; what is kept open stays so until the result is
/// dropped.
fn feed(mut pipe: ChildStdin, mut call: Call) -> Sender<()> {
    let (sender, dropped) = channel();
    thread::spawn(move || {
        // A process that died already reads nothing; how it died tells more than this write.
        let _ = io::copy(&mut call.input, &mut pipe).and_then(|_| pipe.flush());
        if call.keeps_input {
            let _ = dropped.recv();
        }
    });
    sender
}

/// Offers the process to the kernel's out-of-memory killer before everything else on the machine.
fn volunteer(child: &Child) {
    // Where the kernel has no such file, or forbids it, its own memory limit still holds.
    let _ = std::fs::write(format!("/proc/{}/oom_score_adj", child.id()), "1000");
}

/// What comes out of a pipe, read on a thread of its own, so that a full pipe never blocks the process.
struct Listener {
    read: Arc<Mutex<Vec<u8>>>,
    /// What was read since somebody looked, if anybody does; closed at the pipe's end.
    fresh: Receiver<Vec<u8>>,
    /// Likewise.
    ended: Receiver<()>,
}

/// Lines that a process has told so far, of which the last may not have ended.
#[derive(Default)]
struct Told(Vec<u8>);

impl Told {
    /// Those that have ended since the last call.
    fn lines(&mut self, listener: &Listener) -> Vec<String> {
        self.0.extend(listener.fresh.try_iter().flatten());
        let Some(end) = self.0.iter().rposition(|byte| *byte == b'\n') else {
            self.0.truncate(LONGEST_LINE);
            return Vec::new();
        };
        let ended: Vec<u8> = self.0.drain(..=end).collect();
        String::from_utf8_lossy(&ended).lines().map(str::to_owned).collect()
    }
}

impl Listener {
    /// Listens until the pipe ends or the part that is wanted is there.
    fn new(mut pipe: impl Read + Send + 'static, part: Part) -> Self {
        let (open, ended) = channel();
        let (tell, fresh) = channel();
        let read = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&read);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                let mut read = shared.lock().unwrap_or_else(PoisonError::into_inner);
                read.extend_from_slice(&buffer[..count]);
                if let Part::End = part {
                    // Nobody looks any more once the process has ended.
                    let _ = tell.send(buffer[..count].to_vec());
                }
                if part.is_there(&mut read) {
                    break;
                }
            }
            drop(open);
        });
        Listener { read, fresh, ended }
    }

    /// Waits so long for the end of the pipe, and tells whether it came.
    fn ends_within(&self, time: Duration) -> bool {
        self.ended.recv_timeout(time) == Err(RecvTimeoutError::Disconnected)
    }

    fn has_line(&self) -> bool {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).contains(&b'\n')
    }

    /// Everything that came; what still holds the pipe when the process is dead is not waited for.
    fn text(self) -> String {
        self.ends_within(LAST_OUTPUT);
        String::from_utf8_lossy(&self.read.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

/// What is wanted of endless output.
#[derive(Clone, Copy)]
enum Part {
    /// As much as an answer may have.
    Beginning,
    /// As much as a report quotes.
    End,
}

impl Part {
    /// Drops what is not wanted, and tells whether no more is.
    fn is_there(self, read: &mut Vec<u8>) -> bool {
        match self {
            Part::Beginning => read.len() as u64 >= LONGEST_OUTPUT,
            Part::End => {
                read.drain(..read.len().saturating_sub(LONGEST_COMPLAINT));
                false
            }
        }
    }
}
