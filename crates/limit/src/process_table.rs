//! What /proc tells of processes: who started whom, how much CPU time and memory each has taken.

use perf4sight_base::units::Bytes;
use std::fs;

/// Ticks a second of the times in /proc/PID/stat: USER_HZ, 100 on everything this runs on.
const TICKS: f64 = 100.0;
/// Bytes of a page as /proc/PID/stat counts them where nothing else is known.
const PAGE: u64 = 4096;

/// A process.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub process: i32,
    /// As `ps` shows it: R, S, D, T, Z, ...
    pub state: char,
    pub parent: i32,
    pub group: i32,
    pub session: i32,
    /// Seconds of CPU time, its own and that of the children it waited for.
    pub cpu_seconds: f64,
    /// In ticks since the machine was started.
    pub started: u64,
    /// Memory that it holds.
    pub resident: Bytes,
}

impl Entry {
    /// What there is of a process; none where there is none.
    pub fn read(process: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    /// All processes, the oldest first: parents before children.
    pub fn all() -> Vec<Self> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut all: Vec<Self> = processes.filter_map(Self::read).collect();
        all.sort_by_key(|entry| (entry.started, entry.process));
        all
    }

    /// proc_pid_stat(5): the name, in brackets, may hold anything; fields are counted from it.
    fn parse(stat: &str) -> Option<Self> {
        let (before, after) = stat.rsplit_once(')')?;
        let process = before.split(' ').next()?.parse().ok()?;
        let fields: Vec<&str> = after.split_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<i64>().ok();
        let ticks = |fields: std::ops::RangeInclusive<usize>| fields.map(number).sum::<Option<i64>>();
        Some(Entry {
            process,
            state: fields.first()?.chars().next()?,
            parent: number(4)? as i32,
            group: number(5)? as i32,
            session: number(6)? as i32,
            cpu_seconds: ticks(14..=17)? as f64 / TICKS,
            started: number(22)? as u64,
            resident: Bytes(number(24)?.max(0) as u64 * PAGE),
        })
    }

    /// Whether it has ended and only waits to be noticed.
    pub fn is_over(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    /// The most memory that it ever held.
    pub fn most_resident(&self) -> Bytes {
        let told = fs::read_to_string(format!("/proc/{}/status", self.process)).unwrap_or_default();
        let kibibytes =
            told.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB")?.trim().parse::<u64>().ok());
        Bytes(kibibytes.map_or(0, |kibibytes| kibibytes << 10))
    }

    /// What it read from storage, with what the children did that it waited for.
    pub fn bytes_read(&self) -> u64 {
        let told = fs::read_to_string(format!("/proc/{}/io", self.process)).unwrap_or_default();
        told.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_fields() {
        let line = "4711 (a) R (b) S 12 13 14 0 -1 4194304 102 0 0 0 150 50 25 75 20 0 1 0 4648496 3133440 413 18446744073709551615 1";
        let entry = Entry::parse(line).unwrap();
        let expected = Entry {
            process: 4711,
            state: 'S',
            parent: 12,
            group: 13,
            session: 14,
            cpu_seconds: 3.0,
            started: 4_648_496,
            resident: Bytes(413 * 4096),
        };
        assert_eq!(entry, expected);
        assert_eq!(Entry::parse("4711 (cat) R 1"), None);
    }

    #[test]
    fn we_are_among_all() {
        let own = std::process::id() as i32;
        assert!(Entry::all().iter().any(|entry| entry.process == own && entry.state != 'Z'));
    }
}
