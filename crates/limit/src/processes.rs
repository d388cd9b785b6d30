//! The processes of this machine: their parents, CPU time and memory (proc(5)).

use perf4sight_base::units::Bytes;
use procfs::FromRead;
use procfs::process::{Io, Stat, Status};
use std::fs;

/// Ticks a second in /proc/PID/stat: USER_HZ, 100 on all supported machines.
const TICKS: f64 = 100.0;
/// The page size that is assumed for /proc/PID/stat.
const PAGE: u64 = 4096;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ProcessEntry {
    pub process: i32,
    /// The state as `ps` shows it: R, S, D, T, Z, ...
    pub state: char,
    pub parent: i32,
    pub group: i32,
    pub session: i32,
    /// Seconds of CPU time, including children that it waited for.
    pub cpu_seconds: f64,
    /// Start time in ticks since boot.
    pub started: u64,
    /// Memory that it holds.
    pub resident: Bytes,
}

impl ProcessEntry {
    /// Reads a process; none where it does not exist.
    pub fn read(process: i32) -> Option<Self> {
        let stat = Stat::from_file(format!("/proc/{process}/stat")).ok()?;
        Some(ProcessEntry {
            process,
            state: stat.state,
            parent: stat.ppid,
            group: stat.pgrp,
            session: stat.session,
            cpu_seconds: (stat.utime as f64 + stat.stime as f64 + stat.cutime as f64 + stat.cstime as f64) / TICKS,
            started: stat.starttime,
            resident: Bytes(stat.rss * PAGE),
        })
    }

    /// All processes, the oldest first: parents before children.
    pub fn all() -> Vec<Self> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut all: Vec<Self> = processes.filter_map(Self::read).collect();
        all.sort_by_key(|entry| (entry.started, entry.process));
        all
    }

    /// Whether it has ended and is not yet waited for.
    pub fn is_over(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    /// Its peak memory.
    pub fn most_resident(&self) -> Bytes {
        let status = Status::from_file(format!("/proc/{}/status", self.process)).ok();
        Bytes(status.and_then(|status| status.vmhwm).unwrap_or(0) << 10)
    }

    /// Its pages of files.
    pub fn resident_files(&self) -> Bytes {
        let status = Status::from_file(format!("/proc/{}/status", self.process)).ok();
        Bytes(status.and_then(|status| status.rssfile).unwrap_or(0) << 10)
    }

    /// Bytes it read from storage, including children that it waited for.
    pub fn bytes_read(&self) -> u64 {
        Io::from_file(format!("/proc/{}/io", self.process)).map_or(0, |io| io.read_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_are_among_all() {
        let own = std::process::id() as i32;
        assert!(ProcessEntry::all().iter().any(|entry| entry.process == own && entry.state != 'Z'));
    }
}
