//! A process and all its descendants, including those whose parents have ended: from /proc, without privileges.

use super::orphans::OrphanProcesses;
use super::peaks::{ProcessPeak, ProcessPeaks};
use super::processes::ProcessEntry;
use super::shared::SharedMemory;
use super::{MemoryHistory, MemoryRise};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use perf4sight_base::units::Bytes;
use std::collections::BTreeMap;
use std::time::Instant;

#[derive(Debug)]
pub(super) struct ProcessFamily {
    first: i32,
    /// The guard, which is in the same process group and does not count.
    guard: i32,
    orphans: OrphanProcesses,
    members: BTreeMap<i32, ProcessEntry>,
    /// Seconds of CPU time of processes that ended and that no process of the family waited for.
    lost: f64,
    cpu_seconds: f64,
    peak: Bytes,
    /// Whether the peak counts pages that processes share more than once.
    counts_shared: bool,
    peaks: ProcessPeaks,
    shared: SharedMemory,
    begun: Instant,
    held: MemoryHistory,
    read: Bytes,
}

impl ProcessFamily {
    pub fn new(first: i32, guard: i32) -> Self {
        ProcessFamily {
            first,
            guard,
            orphans: OrphanProcesses::of_this_process(),
            members: BTreeMap::new(),
            lost: 0.0,
            cpu_seconds: 0.0,
            peak: Bytes(0),
            counts_shared: false,
            peaks: ProcessPeaks::default(),
            shared: SharedMemory::new(),
            begun: Instant::now(),
            held: MemoryHistory::default(),
            read: Bytes(0),
        }
    }

    /// Finds all members and reads their usage.
    pub fn look(&mut self) {
        let mut members = BTreeMap::new();
        for entry in ProcessEntry::all() {
            let known = self.members.get(&entry.process).is_some_and(|known| known.started == entry.started);
            let born = members.contains_key(&entry.parent) || entry.process == self.first || entry.group == self.guard;
            if (known || born || self.orphans.has(&entry)) && entry.process != self.guard && !entry.is_over() {
                members.insert(entry.process, entry);
            }
        }
        self.read = self.read.max(Bytes(members.values().map(ProcessEntry::bytes_read).sum()));
        self.count(members);
        self.shared.look(&self.members);
        let processes: Vec<ProcessPeak> = self.members.values().map(ProcessPeak::from_entry).collect();
        let now = self.resident();
        let most = self.peaks.add_poll(now, &processes);
        self.held.add(self.begun.elapsed(), now);
        self.grow(most);
    }

    /// Reads the usage of the known members again.
    pub fn glance(&mut self) {
        let entries = self.members.values().filter_map(|known| {
            ProcessEntry::read(known.process).filter(|entry| entry.started == known.started && !entry.is_over())
        });
        let members = entries.map(|entry| (entry.process, entry)).collect();
        self.count(members);
        self.grow(self.resident());
    }

    fn grow(&mut self, most: Bytes) {
        if most > self.peak {
            self.peak = most;
            self.counts_shared = !self.shared.is_known(&self.members);
        }
    }

    fn count(&mut self, members: BTreeMap<i32, ProcessEntry>) {
        let gone = self.members.values().filter(|known| !members.contains_key(&known.process));
        // A process with a parent in the family is waited for by it and counted there.
        let unseen =
            gone.filter(|gone| !members.contains_key(&gone.parent) && !self.members.contains_key(&gone.parent));
        self.lost += unseen.map(|gone| gone.cpu_seconds).sum::<f64>();
        let living: f64 = members.values().map(|entry| entry.cpu_seconds).sum();
        self.cpu_seconds = self.cpu_seconds.max(self.lost + living);
        self.members = members;
    }

    /// Bytes that its members hold now, each page once, as far as that is known.
    fn resident(&self) -> Bytes {
        Bytes(self.members.values().map(|entry| self.shared.without(entry, entry.resident).0).sum())
    }

    /// Sends a signal to every member.
    pub fn signal(&self, signal: Signal) {
        for process in self.members.keys() {
            // It may have ended meanwhile.
            let _ = kill(Pid::from_raw(*process), signal);
        }
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Seconds of CPU time that all of them used so far.
    pub fn cpu_seconds(&self) -> f64 {
        self.cpu_seconds
    }

    /// Their peak memory together.
    pub fn peak(&self) -> Bytes {
        self.peak
    }

    /// Whether that counts pages which they share more than once.
    pub fn counts_shared(&self) -> bool {
        self.counts_shared
    }

    /// How far their memory still rose.
    pub fn rise(&self) -> Option<MemoryRise> {
        self.held.rise()
    }

    /// Bytes they read from storage; of ended processes only if a process of the family waited for them.
    pub fn bytes_read(&self) -> Bytes {
        self.read
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::thread;
    use std::time::Duration;

    /// A process holds 200 MB, and three that it forks hold the same pages.
    #[test]
    fn memory_that_processes_share_counts_once() {
        const JOB: &str = "import os, time\nhold = b'x' * (200 * 10**6)\nfor _ in range(3):\n    if os.fork() == 0:\n        time.sleep(60)\ntime.sleep(60)";
        let mut job = Command::new("python3").args(["-c", JOB]).spawn().unwrap();
        let mut family = ProcessFamily::new(job.id() as i32, -1);
        let until = Instant::now() + Duration::from_secs(30);
        while family.len() < 4 && Instant::now() < until {
            family.look();
            thread::sleep(Duration::from_millis(20));
        }
        thread::sleep(Duration::from_millis(600));
        family.look();
        family.signal(Signal::SIGKILL);
        job.wait().unwrap();
        let peak = family.peak().0 / 1_000_000;
        assert!((200..260).contains(&peak) && !family.counts_shared(), "{peak} MB");
    }

    /// A process frees its 256 MB before its child allocates as many: never 512 MB at a time.
    #[test]
    fn memory_that_two_processes_hold_one_after_the_other_is_not_added_up() {
        const JOB: &str = "import subprocess, sys, time\nhold = b'x' * (256 * 10**6)\ntime.sleep(0.4)\ndel hold\ntime.sleep(0.4)\n\
            subprocess.run([sys.executable, '-c', 'import time; hold = bytes([1]) * (256 * 10**6); time.sleep(0.6)'])";
        let mut job = Command::new("python3").args(["-c", JOB]).spawn().unwrap();
        let mut family = ProcessFamily::new(job.id() as i32, -1);
        while job.try_wait().unwrap().is_none() {
            family.look();
            thread::sleep(Duration::from_millis(50));
        }
        let peak = family.peak().0 / 1_000_000;
        assert!((256..400).contains(&peak), "{peak} MB");
    }
}
