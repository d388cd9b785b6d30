//! The files of control groups of version 1 (Linux, Documentation/admin-guide/cgroup-v1).

use super::CgroupInterface;
use super::group::{ControlGroup, value};
use crate::Resource;
use crate::backend::JobMemory;
use crate::usage::ResourceUsage;
use perf4sight_base::units::Bytes;
use std::io;

pub(super) struct V1;

impl CgroupInterface for V1 {
    fn controller(&self, resource: Resource) -> &'static str {
        match resource {
            Resource::Cpus => "cpu",
            Resource::Memory => "memory",
            Resource::Storage => "blkio",
        }
    }

    fn limit_cpus(&self, group: &ControlGroup, quota: f64, period: f64) -> io::Result<()> {
        group.write("cpu.cfs_period_us", &period.to_string())?;
        group.write("cpu.cfs_quota_us", &quota.to_string())
    }

    fn limit_memory(&self, group: &ControlGroup, memory: Bytes) -> io::Result<()> {
        group.write("memory.limit_in_bytes", &memory.0.to_string())?;
        group.write_if_there("memory.memsw.limit_in_bytes", &memory.0.to_string())
    }

    fn limit_reads(&self, group: &ControlGroup, (major, minor): (u64, u64), bandwidth: Bytes) -> io::Result<()> {
        group.write("blkio.throttle.read_bps_device", &format!("{major}:{minor} {}", bandwidth.0))
    }

    fn memory(&self, group: &ControlGroup) -> Option<JobMemory> {
        // The peak is read first: pages of files that are read meanwhile then do not count as the job's own memory.
        let most = group.number("memory.max_usage_in_bytes").map(Bytes);
        let all = group.number("memory.usage_in_bytes")?;
        let stat = group.read("memory.stat")?;
        let files = value(&stat, "total_cache")?.saturating_sub(value(&stat, "total_shmem").unwrap_or(0));
        Some(JobMemory { own: Bytes(all.saturating_sub(files)), files: Bytes(files), most })
    }

    fn usage(&self, group: &ControlGroup) -> ResourceUsage {
        let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
        ResourceUsage {
            out_of_memory_kills: group.field("memory.oom_control", "oom_kill"),
            peak: group.number("memory.max_usage_in_bytes").map(Bytes),
            cpu_seconds: group.number("cpuacct.usage").map(seconds),
            throttled_seconds: group.field("cpu.stat", "throttled_time").map(seconds),
            bytes_read: group.read("blkio.throttle.io_service_bytes").map(|stat| bytes_read(&stat)),
            ..ResourceUsage::default()
        }
    }
}

/// Parses lines such as `254:0 Read 1459200`, several for each device in use.
fn bytes_read(stat: &str) -> Bytes {
    let read = |line: &str| line.split_once(" Read ").and_then(|(_, bytes)| bytes.trim().parse::<u64>().ok());
    Bytes(stat.lines().filter_map(read).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reads_count() {
        let stat = "254:0 Read 1048576\n254:0 Write 77\n254:0 Total 1048653\n8:0 Read 24\nTotal 1048677\n";
        assert_eq!(bytes_read(stat), Bytes(1_048_600));
    }
}
