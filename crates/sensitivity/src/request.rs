//! The request for a scheduler, in its own syntax.

use perf4sight_base::units::Bytes;
use serde::{Deserialize, Serialize};

/// The resources to request for a job.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ResourceRequest {
    /// CPUs, also fractions.
    pub cpus: f64,
    /// Memory with the page cache; none where it is unknown.
    pub memory: Option<Bytes>,
    /// GPUs.
    pub gpus: u32,
}

impl ResourceRequest {
    /// The least memory in the lines of a request. Docker refuses less than 6 MiB and CRI-O less than 12 MiB, and Slurm
    /// gives no job less than 30 MiB, in which its own process of the job starts (`MinRAMSpace` of cgroup.conf).
    pub const LEAST_MEMORY: Bytes = Bytes(32 << 20);

    /// Whether its lines have more memory than it, because nothing starts with less.
    pub fn is_below_floor(&self) -> bool {
        self.memory.is_some_and(|memory| memory < Self::LEAST_MEMORY)
    }

    /// The `resources` of a Kubernetes container, with thousandths of a CPU.
    ///
    /// ```
    /// use perf4sight_base::units::Bytes;
    /// use perf4sight_sensitivity::ResourceRequest;
    /// let request = ResourceRequest { cpus: 2.5, memory: Some(Bytes(3 << 30)), gpus: 1 };
    /// assert_eq!(
    ///     request.kubernetes(),
    ///     "resources:\n  requests: {cpu: 2500m, memory: 3072Mi}\n  limits: {memory: 3072Mi, nvidia.com/gpu: 1}"
    /// );
    /// assert_eq!(request.slurm(1), "#SBATCH --cpus-per-task=3 --mem=3072M --gpus=1");
    /// assert_eq!(
    ///     request.slurm(2),
    ///     "#SBATCH --nodes=2 --ntasks-per-node=1 --cpus-per-task=3 --mem=3072M --gpus-per-node=1"
    /// );
    /// assert_eq!(request.docker(), "docker run --cpus=2.5 --memory=3072m --gpus=1");
    /// ```
    pub fn kubernetes(&self) -> String {
        let cpus =
            if self.cpus.fract() == 0.0 { format!("{}", self.cpus) } else { format!("{:.0}m", 1000.0 * self.cpus) };
        let memory = self.mebibytes().map(|mebibytes| format!("memory: {mebibytes}Mi"));
        let gpus = (self.gpus > 0).then(|| format!("nvidia.com/gpu: {}", self.gpus));
        let requests = join_parts([Some(format!("cpu: {cpus}")), memory.clone()], ", ");
        let limits = join_parts([memory, gpus], ", ");
        let limits = if limits.is_empty() { limits } else { format!("\n  limits: {{{limits}}}") };
        format!("resources:\n  requests: {{{requests}}}{limits}")
    }

    /// A line of a Slurm batch script, with whole CPUs and the same resources on each node. Slurm's memory is per node,
    /// and its GPUs are per job by default.
    pub fn slurm(&self, nodes: usize) -> String {
        let several = nodes > 1;
        let each = several.then(|| format!("--nodes={nodes} --ntasks-per-node=1"));
        let cpus = format!("--cpus-per-task={:.0}", self.cpus.ceil());
        let memory = self.mebibytes().map(|mebibytes| format!("--mem={mebibytes}M"));
        let of = if several { "--gpus-per-node" } else { "--gpus" };
        let gpus = (self.gpus > 0).then(|| format!("{of}={}", self.gpus));
        join_parts([Some("#SBATCH".to_owned()), each, Some(cpus), memory, gpus], " ")
    }

    /// The options of `docker run`.
    pub fn docker(&self) -> String {
        let memory = self.mebibytes().map(|mebibytes| format!("--memory={mebibytes}m"));
        let gpus = (self.gpus > 0).then(|| format!("--gpus={}", self.gpus));
        join_parts([Some(format!("docker run --cpus={}", self.cpus)), memory, gpus], " ")
    }

    /// Memory in MiB, the unit of all three, rounded up, and not below the floor.
    fn mebibytes(&self) -> Option<u64> {
        self.memory.map(|memory| memory.max(Self::LEAST_MEMORY).0.div_ceil(1 << 20))
    }
}

fn join_parts<const N: usize>(parts: [Option<String>; N], by: &str) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(by)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_not_asked_for() {
        let request = ResourceRequest { cpus: 2.0, memory: None, gpus: 0 };
        assert_eq!(request.kubernetes(), "resources:\n  requests: {cpu: 2}");
        assert_eq!(request.slurm(1), "#SBATCH --cpus-per-task=2");
        assert_eq!(request.docker(), "docker run --cpus=2");
    }

    #[test]
    fn memory_is_never_rounded_down() {
        let request = ResourceRequest { cpus: 1.0, memory: Some(Bytes((40 << 20) + 1)), gpus: 0 };
        assert!(request.slurm(1).ends_with("--mem=41M"), "{}", request.slurm(1));
    }

    #[test]
    fn lines_have_memory_that_pods_and_jobs_start_with() {
        let little = ResourceRequest { cpus: 1.0, memory: Some(Bytes(1)), gpus: 0 };
        assert!(little.is_below_floor());
        assert!(little.slurm(1).ends_with("--mem=32M"), "{}", little.slurm(1));
        assert!(little.docker().ends_with("--memory=32m"), "{}", little.docker());
        assert!(little.kubernetes().ends_with("limits: {memory: 32Mi}"), "{}", little.kubernetes());
    }
}
