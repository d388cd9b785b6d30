//! How much of the memory of a job's processes they share, as after a fork: the kernel divides each page by the number
//! of its processes (PSS, Linux, Documentation/filesystems/proc.rst). Reading that takes milliseconds for each process,
//! in which the process cannot map memory.

use super::processes::ProcessEntry;
use perf4sight_base::units::Bytes;
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// At most this share of the time is spent on reading: less than the 3 % to which rates are known.
const SPENT: f64 = 0.01;
/// So much may be spent at the start, where most processes are made.
const AT_FIRST: Duration = Duration::from_millis(50);
/// What is shared is read again after this time, because a process may have written to shared pages.
const AGAIN: Duration = Duration::from_millis(500);

/// A process: its number, and when it began.
type Key = (i32, u64);

/// What the processes of a job share.
#[derive(Debug)]
pub(super) struct SharedMemory {
    /// Bytes of each process that another one of the job counts; empty while there is one process.
    of: BTreeMap<Key, u64>,
    begun: Instant,
    read: Option<Instant>,
    spent: Duration,
}

impl SharedMemory {
    pub fn new() -> Self {
        SharedMemory { of: BTreeMap::new(), begun: Instant::now(), read: None, spent: Duration::ZERO }
    }

    /// Reads what these processes share, where that is not known, or was read some time ago, and is not too expensive.
    /// Where a process has ended, nothing is known any more: its pages are those of fewer.
    pub fn look(&mut self, members: &BTreeMap<i32, ProcessEntry>) {
        let remains = |(process, started): &Key| members.get(process).is_some_and(|entry| entry.started == *started);
        if members.len() < 2 || !self.of.keys().all(remains) {
            self.of.clear();
        }
        let is_recent = self.read.is_some_and(|read| read.elapsed() < AGAIN);
        let is_dear = self.spent > AT_FIRST + self.begun.elapsed().mul_f64(SPENT);
        if members.len() < 2 || is_dear || is_recent && self.is_known(members) {
            return;
        }
        let begun = Instant::now();
        self.of = shared(members);
        self.spent += begun.elapsed();
        self.read = Some(Instant::now());
    }

    /// So much memory of a process, without what another one of the job counts.
    pub fn without(&self, entry: &ProcessEntry, memory: Bytes) -> Bytes {
        Bytes(memory.0.saturating_sub(self.of.get(&key(entry)).copied().unwrap_or(0)))
    }

    /// Whether it is known of all of these.
    pub fn is_known(&self, members: &BTreeMap<i32, ProcessEntry>) -> bool {
        members.len() < 2 || members.values().all(|entry| self.of.contains_key(&key(entry)))
    }
}

fn key(entry: &ProcessEntry) -> Key {
    (entry.process, entry.started)
}

/// What each process shares; without those that may not be read. Pages of files are shared with other programs too, and
/// count where those do not run: the process with the most counts all of its own.
fn shared(members: &BTreeMap<i32, ProcessEntry>) -> BTreeMap<Key, u64> {
    let parts = members.values().filter_map(|entry| Some((key(entry), SharedParts::of(entry)?)));
    let parts: Vec<(Key, SharedParts)> = parts.collect();
    let most = parts.iter().max_by_key(|(_, parts)| parts.files).map(|(key, _)| *key);
    parts.into_iter().map(|(key, parts)| (key, if Some(key) == most { parts.memory } else { parts.all })).collect()
}

/// Bytes of a process that are part of others too, beyond its part of them.
struct SharedParts {
    all: u64,
    /// The same without pages of files.
    memory: u64,
    /// Its pages of files.
    files: u64,
}

impl SharedParts {
    fn of(entry: &ProcessEntry) -> Option<Self> {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", entry.process)).ok()?;
        Self::parse(&rollup, entry.resident_files())
    }

    fn parse(rollup: &str, files: Bytes) -> Option<Self> {
        let bytes = |name: &str| {
            let number = rollup.lines().find_map(|line| line.strip_prefix(name))?.trim().strip_suffix("kB")?;
            number.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
        };
        let all = bytes("Rss:")?.saturating_sub(bytes("Pss:")?);
        // Older kernels do not tell pages of files apart.
        let of_files = bytes("Pss_File:").map_or(all, |part| files.0.saturating_sub(part));
        Some(SharedParts { all, memory: all.saturating_sub(of_files), files: files.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process with 150 MiB that three others share, 8 MiB of its own, and 6 of files, half of which others map too.
    #[test]
    fn what_is_shared_is_told_from_pages_of_files() {
        let rollup =
            "00400000-7ffe [rollup]\nRss:    167936 kB\nPss:     49664 kB\nPss_Anon:  46592 kB\nPss_File:   3072 kB\n";
        let parts = SharedParts::parse(rollup, Bytes(6 << 20)).unwrap();
        assert_eq!((parts.all, parts.memory), (118_272 << 10, (118_272 - 3072) << 10));
        assert!(SharedParts::parse("Rss: much\n", Bytes(0)).is_none());
    }
}
