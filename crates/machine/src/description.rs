//! The properties of a machine from its files: processor, instruction set, memory, kernel, board.

use super::{MachineProperties, cgroup, linux};
use perf4sight_base::units::Bytes;
use std::fs;
use std::path::{Path, PathBuf};

/// Share of the available memory that a measurement may use where no limit is set, so that the machine stays usable.
const DEFAULT_SHARE: f64 = 0.8;
/// NVIDIA's driver has a folder here for each visible GPU.
const GPUS: &str = "proc/driver/nvidia/gpus";

/// A machine, described by its files: those of this machine, or copies of another machine's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineDescription {
    root: PathBuf,
    architecture: String,
}

impl MachineDescription {
    /// The machine that this process runs on.
    pub fn here() -> Self {
        MachineDescription { root: "/".into(), architecture: std::env::consts::ARCH.to_owned() }
    }

    /// A machine whose files are stored in `root`, with the architecture as printed by `uname -m`.
    pub fn copied(root: &Path, architecture: &str) -> Self {
        MachineDescription { root: root.to_owned(), architecture: architecture.to_owned() }
    }

    /// The most memory a process could use: the machine's, or its control group's where that is less.
    pub fn memory(&self) -> Bytes {
        let machine = self.meminfo("MemTotal");
        cgroup::allowances(&self.root).iter().map(|group| group.limit).fold(machine, Bytes::min)
    }

    /// The memory a process could use without evicting anything.
    pub fn available(&self) -> Bytes {
        let machine = self.meminfo("MemAvailable");
        let groups = cgroup::allowances(&self.root);
        groups.iter().map(|group| Bytes(group.limit.0.saturating_sub(group.used.0))).fold(machine, Bytes::min)
    }

    /// A warning about a memory limit that has no effect because the machine has less memory; none for other limits.
    pub fn ineffective_limit_warning(&self, name: &str, limit: Option<Bytes>) -> Option<String> {
        let (memory, limit) = (self.memory(), limit?);
        (limit > memory).then(|| format!("{name} is {limit}, but this machine has {memory}: the limit holds nothing"))
    }

    /// The memory limit of measurements where none is set.
    pub fn default_limit(&self) -> Bytes {
        Bytes((self.available().0 as f64 * DEFAULT_SHARE) as u64)
    }

    /// Its host name, or `unknown`.
    pub fn name(&self) -> String {
        self.text("proc/sys/kernel/hostname").map_or("unknown".to_owned(), |text| text.trim().to_owned())
    }

    /// An id that is unique to this boot of this machine; none where the kernel has none.
    pub fn boot(&self) -> Option<String> {
        self.text("proc/sys/kernel/random/boot_id").map(|text| text.trim().to_owned())
    }

    /// Properties that affect measurements and that a run does not change, by name.
    pub fn facts(&self) -> MachineProperties {
        let facts = [
            ("processor", self.processor()),
            ("instruction_set", self.instruction_set().to_owned()),
            ("memory", format!("{:.0} MiB", self.memory().mib())),
            (
                "kernel",
                self.text("proc/sys/kernel/osrelease").map_or("unknown".to_owned(), |text| text.trim().to_owned()),
            ),
        ];
        let facts = facts.map(|(name, fact)| (name.to_owned(), fact));
        facts.into_iter().chain(linux::facts(&self.root)).collect()
    }

    /// Number of GPUs that NVIDIA's driver lists; none on boards, which have another driver.
    pub fn gpus(&self) -> u32 {
        fs::read_dir(self.root.join(GPUS)).map_or(0, |all| all.flatten().count() as u32)
    }

    /// Whether oneDNN uses tensor layouts for 512-bit vectors.
    pub fn wide_vectors(&self) -> bool {
        self.has("avx512bw")
    }

    /// The processor's model; ARM kernels omit it from cpuinfo, but the device tree names the board.
    fn processor(&self) -> String {
        let cpuinfo = self.text("proc/cpuinfo").unwrap_or_default();
        let named = ["model name", "Hardware", "cpu model"].iter().find_map(|name| field(&cpuinfo, name));
        let board = || self.text("proc/device-tree/model");
        let name = named.map(str::to_owned).or_else(board).unwrap_or_else(|| self.architecture.clone());
        name.trim_end_matches('\0').trim().to_owned()
    }

    /// The widest vector instructions, because libtorch selects its kernels by them.
    fn instruction_set(&self) -> &str {
        match self.architecture.as_str() {
            "x86_64" => ["avx512f", "avx2", "avx"].into_iter().find(|set| self.has(set)).unwrap_or("sse2"),
            architecture => architecture,
        }
    }

    /// Whether an x86 processor has an instruction set.
    fn has(&self, set: &str) -> bool {
        let cpuinfo = self.text("proc/cpuinfo").unwrap_or_default();
        field(&cpuinfo, "flags").is_some_and(|flags| flags.split_whitespace().any(|flag| flag == set))
    }

    fn meminfo(&self, name: &str) -> Bytes {
        counter(&self.root.join("proc/meminfo"), name).unwrap_or(Bytes(0))
    }

    fn text(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.root.join(file)).ok()
    }
}

/// Parses a "Name:  123 kB" line of a file under /proc.
pub fn counter(file: &Path, name: &str) -> Option<Bytes> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(Bytes(kib * 1024))
}

fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':').map(str::trim))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_cpuinfo_are_found_whatever_stands_between() {
        let cpuinfo = "processor\t: 0\nmodel\t\t: 2\nmodel name\t: AMD EPYC \n";
        assert_eq!(field(cpuinfo, "model name"), Some("AMD EPYC"));
        assert_eq!(field(cpuinfo, "Hardware"), None);
    }

    #[test]
    fn each_folder_of_the_driver_is_a_gpu() {
        let root = tempfile::tempdir().unwrap();
        let machine = MachineDescription::copied(root.path(), "x86_64");
        assert_eq!(machine.gpus(), 0);
        for bus in ["0000:17:00.0", "0000:65:00.0"] {
            fs::create_dir_all(root.path().join(GPUS).join(bus)).unwrap();
        }
        assert_eq!(machine.gpus(), 2);
    }

    #[test]
    fn limits_are_ordered() {
        let here = MachineDescription::here();
        assert!(here.default_limit() < here.available() && here.available() <= here.memory());
    }

    /// The compiler's own detection uses CPUID, not /proc/cpuinfo.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_kernel_lists_the_instruction_sets_that_the_processor_has() {
        let here = MachineDescription::here();
        assert_eq!(here.has("avx2"), std::arch::is_x86_feature_detected!("avx2"));
        assert_eq!(here.wide_vectors(), std::arch::is_x86_feature_detected!("avx512bw"));
    }
}
