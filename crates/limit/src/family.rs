//! A process and all its descendants, including those whose parents have ended: from /proc, without privileges.

use super::orphans::OrphanProcesses;
use super::peaks::{ProcessPeak, ProcessPeaks};
use super::processes::ProcessEntry;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use perf4sight_base::units::Bytes;
use std::collections::BTreeMap;

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
    peaks: ProcessPeaks,
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
            peaks: ProcessPeaks::default(),
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
        let processes: Vec<ProcessPeak> = self.members.values().map(ProcessPeak::from_entry).collect();
        self.peak = self.peak.max(self.peaks.add_poll(Bytes(self.resident()), &processes));
    }

    /// Reads the usage of the known members again.
    pub fn glance(&mut self) {
        let entries = self.members.values().filter_map(|known| {
            ProcessEntry::read(known.process).filter(|entry| entry.started == known.started && !entry.is_over())
        });
        let members = entries.map(|entry| (entry.process, entry)).collect();
        self.count(members);
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
        self.peak = self.peak.max(Bytes(self.resident()));
    }

    /// Bytes that its members hold now.
    fn resident(&self) -> u64 {
        self.members.values().map(|entry| entry.resident.0).sum()
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

    /// Their peak memory together; shared pages count for each process.
    pub fn peak(&self) -> Bytes {
        self.peak
    }

    /// Bytes they read from storage; of ended processes only if a process of the family waited for them.
    pub fn bytes_read(&self) -> Bytes {
        self.read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process frees its 256 MB before its child allocates as many: never 512 MB at a time.
    #[test]
    fn memory_that_two_processes_hold_one_after_the_other_is_not_added_up() {
        const JOB: &str = "import subprocess, sys, time\nhold = b'x' * (256 * 10**6)\ntime.sleep(0.4)\ndel hold\ntime.sleep(0.4)\n\
            subprocess.run([sys.executable, '-c', 'import time; hold = bytes([1]) * (256 * 10**6); time.sleep(0.6)'])";
        let mut job = std::process::Command::new("python3").args(["-c", JOB]).spawn().unwrap();
        let mut family = ProcessFamily::new(job.id() as i32, -1);
        while job.try_wait().unwrap().is_none() {
            family.look();
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let peak = family.peak().0 / 1_000_000;
        assert!((256..400).contains(&peak), "{peak} MB");
    }
}
