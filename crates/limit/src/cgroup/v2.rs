//! The files of control groups of version 2 (Linux, Documentation/admin-guide/cgroup-v2.rst).

use super::CgroupInterface;
use super::group::{ControlGroup, value};
use crate::Resource;
use crate::backend::JobMemory;
use crate::usage::ResourceUsage;
use perf4sight_base::units::Bytes;
use std::io;

pub(super) struct V2;

impl CgroupInterface for V2 {
    fn controller(&self, resource: Resource) -> &'static str {
        match resource {
            Resource::Cpus => "cpu",
            Resource::Memory => "memory",
            Resource::Storage => "io",
        }
    }

    fn limit_cpus(&self, group: &ControlGroup, quota: f64, period: f64) -> io::Result<()> {
        group.write("cpu.max", &format!("{quota} {period}"))
    }

    fn limit_memory(&self, group: &ControlGroup, memory: Bytes) -> io::Result<()> {
        group.write("memory.max", &memory.0.to_string())?;
        group.write_if_there("memory.swap.max", "0")
    }

    fn limit_reads(&self, group: &ControlGroup, (major, minor): (u64, u64), bandwidth: Bytes) -> io::Result<()> {
        group.write("io.max", &format!("{major}:{minor} rbps={}", bandwidth.0))
    }

    fn memory(&self, group: &ControlGroup) -> Option<JobMemory> {
        // The peak is read first: pages of files that are read meanwhile then do not count as the job's own memory.
        let most = group.number("memory.peak").map(Bytes);
        let all = group.number("memory.current")?;
        let stat = group.read("memory.stat")?;
        let files = value(&stat, "file")? + value(&stat, "slab_reclaimable")?;
        let files = files.saturating_sub(value(&stat, "shmem").unwrap_or(0));
        Some(JobMemory { own: Bytes(all.saturating_sub(files)), files: Bytes(files), most })
    }

    fn usage(&self, group: &ControlGroup) -> ResourceUsage {
        let seconds = |microseconds: u64| microseconds as f64 / 1e6;
        ResourceUsage {
            out_of_memory_kills: group.field("memory.events", "oom_kill"),
            peak: group.number("memory.peak").map(Bytes),
            cpu_seconds: group.field("cpu.stat", "usage_usec").map(seconds),
            throttled_seconds: group.field("cpu.stat", "throttled_usec").map(seconds),
            bytes_read: group.read("io.stat").map(|stat| bytes_read(&stat)),
            ..ResourceUsage::default()
        }
    }
}

/// Parses lines such as `254:0 rbytes=1459200 wbytes=314773504 rios=192 ...`, one for each device in use.
fn bytes_read(stat: &str) -> Bytes {
    Bytes(stat.split_whitespace().filter_map(|word| word.strip_prefix("rbytes=")?.parse::<u64>().ok()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    /// Of 1000 bytes, 600 are pages of files, of which 100 are shared memory, and 150 are reclaimable kernel memory.
    #[test]
    fn memory_that_can_be_reclaimed_is_not_the_jobs_own() {
        let folder = TempDir::new().unwrap();
        let stat = "anon 200\nfile 600\nshmem 100\nslab_reclaimable 150\nslab_unreclaimable 50\nslab 200\n";
        fs::write(folder.path().join("memory.stat"), stat).unwrap();
        fs::write(folder.path().join("memory.current"), "1000\n").unwrap();
        let memory = ControlGroup::of_version_2(folder.path().to_owned()).memory();
        assert_eq!(memory, Some(JobMemory { own: Bytes(350), files: Bytes(650), most: None }));
    }

    #[test]
    fn only_reads_count() {
        // Linux, Documentation/admin-guide/cgroup-v2.rst.
        let stat = "8:16 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0\n8:0 rbytes=90430464 wbytes=299008000 rios=8950 wios=1252 dbytes=50331648 dios=3021\n";
        assert_eq!(bytes_read(stat), Bytes(1_459_200 + 90_430_464));
    }
}
