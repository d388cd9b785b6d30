//! The outcome of a job: how it ended, what it used, and whether its measurements are valid.

use super::MemoryRise;
use perf4sight_base::units::{Bytes, Percent};
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// A job that used this share of the CPU time of its limit had all of it, so that only the limit slowed it down.
const ALL: f64 = 0.97;
/// From this share of the time that something waited for a CPU, and of its CPUs' time that others used, both count. One
/// alone means little: threads of a job wait for each other too, and others may use CPU time that the job leaves.
const COUNTS: f64 = 0.05;
/// How a job ended that a signal had stopped. The kernel does not tell which signal it was.
const STOPPED: &str =
    "it was stopped by a signal and did not go on: it stopped itself (SIGSTOP), or wanted a terminal, and it has none";

/// The outcome of a job; values that the back-end does not count are none.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedJob {
    /// By itself, or by us.
    pub end: JobEnd,
    /// Time from its start to its end, or until we interrupted it.
    pub wall: Duration,
    /// The same, with the time that it took to end after it was interrupted.
    pub until_gone: Duration,
    /// CPUs that it might use.
    pub cpus: f64,
    /// Whether the kernel killed any of its processes because memory ran out.
    pub ran_out_of_memory: bool,
    /// Its peak memory, with the page cache where a control group counted it.
    pub peak_memory: Option<Bytes>,
    /// Its observed peak of own memory, without pages of files; none where these are not counted apart.
    pub own_memory: Option<Bytes>,
    /// How far its memory still rose when it ended; none where it did not, or that is not known.
    pub rise: Option<MemoryRise>,
    /// Whether its peak counts pages that its processes share more than once, so that it may be less.
    pub counts_shared: bool,
    /// Seconds of CPU time it used.
    pub cpu_seconds: Option<f64>,
    /// Seconds that its CPU limit throttled it.
    pub throttled_seconds: Option<f64>,
    /// From storage, not from the page cache.
    pub bytes_read: Option<Bytes>,
    /// Pressure on the host meanwhile.
    pub pressure: HostPressure,
    /// The last lines that it wrote to either stream before it was ended.
    pub last_lines: Vec<String>,
}

/// Who ended a job, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnd {
    /// By itself, or killed by another process.
    Exited(ExitStatus),
    /// Ended by us: its caller had enough.
    Enough,
    /// Ended by us, at its time limit.
    TimeUp,
    /// Ended by us: a signal had stopped it, as one of its own does, or the kernel where it reads from a terminal.
    Stopped,
}

/// Pressure on a host while a job ran: shares of the time from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HostPressure {
    /// Time that a task waited for a CPU (PSI, cpu some).
    pub cpu: Option<f64>,
    /// Time that a task waited for storage (PSI, io some).
    pub io: Option<f64>,
    /// Time that a task waited for memory (PSI, memory some).
    pub memory: Option<f64>,
    /// Share of the CPU time of the job's CPUs that other programs used or a hypervisor took.
    pub others: Option<f64>,
    /// Share of the CPU time of those CPUs that a hypervisor took.
    pub stolen: Option<f64>,
}

/// What the measurements of a job are worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobVerdict {
    /// Its measurements count.
    Sound,
    /// It ran out of memory: a result.
    OutOfMemory,
    /// Other programs disturbed it, for this reason: to be repeated.
    Disturbed(String),
    /// It failed in this way; its last lines may give the reason.
    Crashed(String),
}

impl EndedJob {
    /// The verdict. A job that was ended by its caller or its timeout did not crash.
    pub fn verdict(&self) -> JobVerdict {
        if self.ran_out_of_memory {
            return JobVerdict::OutOfMemory;
        }
        match self.end {
            JobEnd::Exited(status) if !status.success() => return JobVerdict::Crashed(how_it_ended(status)),
            JobEnd::Stopped => return JobVerdict::Crashed(STOPPED.to_owned()),
            JobEnd::Exited(_) | JobEnd::Enough | JobEnd::TimeUp => {}
        }
        self.disturbance().map_or(JobVerdict::Sound, JobVerdict::Disturbed)
    }

    /// The share of the time that it waited for others, at most: others used one of its CPUs, and either a task waited
    /// for a CPU, or a hypervisor had it. None where that is unknown.
    pub fn waited_share(&self) -> Option<f64> {
        let HostPressure { cpu, others, stolen, .. } = self.pressure;
        let cpus = self.cpus.ceil().max(1.0);
        let waited = cpu.zip(stolen).map_or(1.0, |(waited, stolen)| waited + stolen * cpus);
        others.map(|others| waited.min(others * cpus).min(1.0))
    }

    /// The evidence that other programs slowed it down: it used less CPU time than its limit allows, others used its
    /// CPUs, and the host was under pressure. The limit may throttle it at times, and others delay it at other times.
    fn disturbance(&self) -> Option<String> {
        let allowed = self.cpus * self.wall.as_secs_f64();
        if self.cpu_seconds.is_some_and(|used| used >= ALL * allowed) {
            return None;
        }
        let others = self.pressure.others.filter(|others| *others >= COUNTS)?;
        let said = format!("others used {} of the time of its CPUs", Percent(100.0 * others));
        match self.pressure.cpu {
            Some(pressure) if pressure < COUNTS => None,
            Some(pressure) => {
                Some(format!("{said}, and {} of the time something waited for a CPU", Percent(100.0 * pressure)))
            }
            None => Some(said),
        }
    }
}

fn how_it_ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with exit code {code}"),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None) => "it ended in an unknown way".to_owned(),
    }
}

impl fmt::Display for JobVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobVerdict::Sound => f.write_str("sound"),
            JobVerdict::OutOfMemory => f.write_str("out of memory"),
            JobVerdict::Disturbed(how) => write!(f, "disturbed: {how}"),
            JobVerdict::Crashed(how) => write!(f, "crashed: {how}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job that ran for ten seconds with half a CPU and used so much CPU time; others used this share of it.
    fn ended(used: f64, throttled: f64, others: f64) -> EndedJob {
        EndedJob {
            end: JobEnd::Enough,
            wall: Duration::from_secs(10),
            until_gone: Duration::from_secs(10),
            cpus: 0.5,
            ran_out_of_memory: false,
            peak_memory: None,
            own_memory: None,
            rise: None,
            counts_shared: false,
            cpu_seconds: Some(used),
            throttled_seconds: Some(throttled),
            bytes_read: None,
            pressure: HostPressure { cpu: Some(0.9), others: Some(others), ..HostPressure::default() },
            last_lines: Vec::new(),
        }
    }

    /// 4.4 CPU seconds where a quota allows 5.0, throttled for 3 s: others took the rest.
    #[test]
    fn a_job_that_has_less_than_its_quota_while_others_use_its_cpus_is_disturbed() {
        let disturbed = "others used 50.0 % of the time of its CPUs, and 90.0 % of the time something waited for a CPU";
        assert_eq!(ended(4.4, 3.0, 0.5).verdict(), JobVerdict::Disturbed(disturbed.to_owned()));
        assert_eq!(ended(4.95, 4.5, 0.5).verdict(), JobVerdict::Sound, "it had what its quota allows");
        assert_eq!(ended(4.4, 3.0, 0.02).verdict(), JobVerdict::Sound, "nobody else used its CPU: it waited by itself");
        assert_eq!(
            ended(4.4, 3.0, 0.5).waited_share(),
            Some(0.5),
            "while they used its one CPU, and not whenever something waited"
        );
        let stolen = |cpu: f64| HostPressure { cpu: Some(cpu), stolen: Some(0.1), ..ended(4.4, 3.0, 0.5).pressure };
        assert!(
            (EndedJob { pressure: stolen(0.2), ..ended(4.4, 3.0, 0.5) }.waited_share().unwrap() - 0.3).abs() < 1e-9
        );
        let idle = HostPressure { cpu: Some(0.04), ..ended(4.4, 3.0, 0.5).pressure };
        assert_eq!(EndedJob { pressure: idle, ..ended(4.4, 3.0, 0.5) }.verdict(), JobVerdict::Sound);
    }
}
