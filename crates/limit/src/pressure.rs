//! The load of a host while a job ran: the kernel's pressure stall information, and the use of its CPUs.

use super::HostPressure;
use perf4sight_machine::linux;
use procfs::{CpuPressure, Current, IoPressure, MemoryPressure};
use std::fs;
use std::time::Instant;

#[derive(Debug)]
pub(super) struct HostLoad {
    at: Instant,
    /// Seconds since boot that a task waited: for a CPU, for storage, for memory.
    waited: [Option<f64>; 3],
    /// Seconds of CPU time on some CPUs that were used by anything, or taken by a hypervisor.
    busy: Option<f64>,
    /// Seconds of them that a hypervisor took.
    stolen: Option<f64>,
    cpus: usize,
}

impl HostLoad {
    /// The counters now, of these CPUs.
    pub fn now(of: &[usize]) -> Self {
        let waited = [
            CpuPressure::current().map(|of| of.some),
            IoPressure::current().map(|of| of.some),
            MemoryPressure::current().map(|of| of.some),
        ];
        // Microseconds (Linux, Documentation/accounting/psi.rst).
        let waited = waited.map(|some| Some(some.ok()?.total as f64 / 1e6));
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let (busy, stolen) = worked(&stat, of).map(|(busy, stolen)| (busy + stolen, stolen)).unzip();
        HostLoad { at: Instant::now(), waited, busy, stolen, cpus: of.len() }
    }

    /// The pressure since an earlier moment, while a job used so many seconds of CPU time. CPU time of this program on
    /// the job's CPUs counts as that of others, because it delays the job just as much.
    pub fn since(&self, start: &HostLoad, job: Option<f64>) -> HostPressure {
        let wall = self.at.duration_since(start.at).as_secs_f64();
        let share = |seconds: f64, whole: f64| (whole > 0.0).then(|| (seconds / whole).clamp(0.0, 1.0));
        let [cpu, io, memory] = [0, 1, 2].map(|what| share(self.waited[what]? - start.waited[what]?, wall));
        let busy = self.busy.zip(start.busy).map(|(end, start)| end - start);
        let others = busy.zip(job).and_then(|(busy, job)| share(busy - job, wall * self.cpus as f64));
        let stolen = self.stolen.zip(start.stolen).and_then(|(end, start)| share(end - start, wall * self.cpus as f64));
        HostPressure { cpu, io, memory, others, stolen }
    }
}

/// Seconds that these CPUs were busy, and seconds stolen from them, from their lines in /proc/stat; none where one has
/// no line.
fn worked(stat: &str, cpus: &[usize]) -> Option<(f64, f64)> {
    cpus.iter().try_fold((0.0, 0.0), |(busy, stolen), cpu| {
        let name = format!("cpu{cpu} ");
        let more = linux::busy_and_stolen(stat.lines().find_map(|line| line.strip_prefix(name.as_str()))?)?;
        Some((busy + more.0, stolen + more.1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_waited_is_a_share_of_the_time_and_others_of_all_cpus() {
        let at = Instant::now();
        let start =
            HostLoad { at, waited: [Some(10.0), None, Some(1.0)], busy: Some(100.0), stolen: Some(2.0), cpus: 4 };
        let later = at + Duration::from_secs(10);
        let end = HostLoad {
            at: later,
            waited: [Some(14.0), Some(3.0), Some(1.0)],
            busy: Some(126.0),
            stolen: Some(6.0),
            cpus: 4,
        };
        // Of 40 seconds of four CPUs 26 were used, 10 by the job.
        let expected =
            HostPressure { cpu: Some(0.4), io: None, memory: Some(0.0), others: Some(0.4), stolen: Some(0.1) };
        assert_eq!(end.since(&start, Some(10.0)), expected);
        assert_eq!(end.since(&start, None).others, None);
    }

    /// In /proc/stat, the fields of a CPU are user, nice, system, idle, iowait, irq, softirq, steal, in hundredths of a
    /// second.
    #[test]
    fn only_the_cpus_of_a_job_count() {
        let stat = "cpu  900 0 300 5000 0 0 0 0 0 0\ncpu0 100 20 30 2000 7 1 2 40 0 0\ncpu1 800 0 270 3000 0 0 0 0 0 0\ncpu10 5 0 0 0 0 0 0 0 0 0\n";
        let of = |cpus: &[usize]| {
            worked(stat, cpus).map(|(busy, stolen)| [busy, stolen].map(|seconds| (100.0 * seconds).round()))
        };
        assert_eq!((of(&[0]), of(&[0, 1]), of(&[2])), (Some([153.0, 40.0]), Some([1223.0, 40.0]), None));
    }
}
