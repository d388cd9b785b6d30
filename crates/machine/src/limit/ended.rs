//! What became of a job: how it ended, what it used, and whether that can be believed.

use perf4sight_conventions::units::{Bytes, Percent};
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// Share of the time from which on limits on CPUs that held the job back are what slowed it down, and not other programs.
const THROTTLED: f64 = 0.02;
/// Share of the time that somebody had to wait for a CPU from which on the host counts as under pressure.
const PRESSED: f64 = 0.10;
/// Share of the host's CPU time that others must have taken meanwhile: threads of the job wait for each other too.
const OTHERS: f64 = 0.05;

/// What became of a job; what the means could not tell is missing.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// How it ended.
    pub end: JobEnd,
    /// Time from its start to its end.
    pub wall: Duration,
    /// Whether the kernel killed any of it for want of memory.
    pub ran_out_of_memory: bool,
    /// The most memory that it held at a time, with the page cache where a control group counted it.
    pub peak_memory: Option<Bytes>,
    /// The most memory of its own that it was seen to hold, without pages of files; none where nothing tells them apart.
    pub own_memory: Option<Bytes>,
    /// Seconds of CPU time it used.
    pub cpu_seconds: Option<f64>,
    /// Seconds that its limit on CPUs held it back.
    pub throttled_seconds: Option<f64>,
    /// What it read from storage.
    pub bytes_read: Option<Bytes>,
    /// What the host was like meanwhile.
    pub pressure: Pressure,
    /// The last lines that it wrote, to either stream, before anything ended it.
    pub last_lines: Vec<String>,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnd {
    /// By itself, or killed by somebody else.
    Exited(ExitStatus),
    /// Ended by us: its caller had seen enough.
    Enough,
    /// Ended by us: its time was up.
    TimeUp,
    /// Ended by us: it was stopped because it wanted a terminal.
    WantedTerminal,
}

/// What a host was like while a job ran: shares of the time from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pressure {
    /// Time that something waited for a CPU (PSI, cpu some).
    pub cpu: Option<f64>,
    /// Time that something waited for storage (PSI, io some).
    pub io: Option<f64>,
    /// Time that something waited for memory (PSI, memory some).
    pub memory: Option<f64>,
    /// CPU time of the whole host that programs other than the job used, or that a hypervisor took.
    pub others: Option<f64>,
}

/// What to make of a job that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// What it did counts.
    Sound,
    /// It did not fit into its memory: a result.
    OutOfMemory,
    /// It was not alone, by what is said here: to be repeated.
    Disturbed(String),
    /// It failed, in the way that is said here; its last lines may say why.
    Crashed(String),
}

impl Ended {
    /// What to make of it. A job that its caller or its time ended did not crash.
    pub fn verdict(&self) -> Verdict {
        if self.ran_out_of_memory {
            return Verdict::OutOfMemory;
        }
        match self.end {
            JobEnd::Exited(status) if !status.success() => return Verdict::Crashed(told(status)),
            JobEnd::WantedTerminal => {
                return Verdict::Crashed("it wanted a terminal, and there is none for it".to_owned());
            }
            JobEnd::Exited(_) | JobEnd::Enough | JobEnd::TimeUp => {}
        }
        self.disturbance().map_or(Verdict::Sound, Verdict::Disturbed)
    }

    /// What says that other programs slowed it down: its limit did not hold it back, the host was under pressure, and others used it.
    fn disturbance(&self) -> Option<String> {
        let share = self.throttled_seconds.unwrap_or(0.0) / self.wall.as_secs_f64();
        if share >= THROTTLED {
            return None;
        }
        let others = self.pressure.others.filter(|others| *others >= OTHERS)?;
        let said = format!("others used {} of the CPU time of this machine", Percent(100.0 * others));
        match self.pressure.cpu {
            Some(pressure) if pressure < PRESSED => None,
            Some(pressure) => {
                Some(format!("{said}, and {} of the time something waited for a CPU", Percent(100.0 * pressure)))
            }
            None => Some(said),
        }
    }
}

/// How a process ended, in words.
fn told(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with exit code {code}"),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None) => "it ended in a way that was not told".to_owned(),
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Sound => f.write_str("sound"),
            Verdict::OutOfMemory => f.write_str("out of memory"),
            Verdict::Disturbed(how) => write!(f, "disturbed: {how}"),
            Verdict::Crashed(how) => write!(f, "crashed: {how}"),
        }
    }
}
