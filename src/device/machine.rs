//! What this machine is: processor, instruction set, memory, kernel.

use super::cgroup;
use crate::records::Setting;
use crate::units::Bytes;
use std::fs;
use std::thread;

/// Share of the available memory that a measurement may take where no limit is set, so that a profile leaves the
/// machine usable.
const DEFAULT_SHARE: f64 = 0.8;

/// The memory a process here could take at most: the machine's, or its control group's where that is less.
pub fn memory() -> Bytes {
    let machine = counter("/proc/meminfo", "MemTotal").unwrap_or(Bytes(0));
    cgroup::allowances().iter().map(|group| group.limit).fold(machine, Bytes::min)
}

/// The memory a process here could take now without pushing anything else out.
pub fn available() -> Bytes {
    let machine = counter("/proc/meminfo", "MemAvailable").unwrap_or(Bytes(0));
    let groups = cgroup::allowances();
    groups.iter().map(|group| Bytes(group.limit.0.saturating_sub(group.used.0))).fold(machine, Bytes::min)
}

/// The memory limit of measurements where none is set.
pub fn default_limit() -> Bytes {
    Bytes((available().0 as f64 * DEFAULT_SHARE) as u64)
}

/// Threads that run at the same time; control groups and affinity count.
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The facts that measurements on this machine depend on, by name.
pub fn facts() -> Setting {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_else(|_| "unknown".to_owned());
    let facts = [
        ("processor", processor()),
        ("instruction_set", instruction_set().to_owned()),
        ("memory", format!("{:.0} MiB", memory().mib())),
        ("kernel", kernel.trim().to_owned()),
    ];
    facts.map(|(name, fact)| (name.to_owned(), fact)).into()
}

/// A "Name:  123 kB" line of a file under /proc.
pub(super) fn counter(file: &str, name: &str) -> Option<Bytes> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(Bytes(kib * 1024))
}

/// The processor's model; ARM kernels leave it out of cpuinfo, boards name themselves in the device tree.
fn processor() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = ["model name", "Hardware", "cpu model"].iter().find_map(|name| field(&cpuinfo, name));
    let board = || fs::read_to_string("/proc/device-tree/model").ok();
    let name = named.map(str::to_owned).or_else(board).unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    name.trim_end_matches('\0').trim().to_owned()
}

fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':').map(str::trim))
}

/// The widest vector instructions, because libtorch picks its kernels by them.
fn instruction_set() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        let sets = [
            ("avx512f", std::arch::is_x86_feature_detected!("avx512f")),
            ("avx2", std::arch::is_x86_feature_detected!("avx2")),
            ("avx", std::arch::is_x86_feature_detected!("avx")),
        ];
        sets.into_iter().find(|(_, present)| *present).map_or("sse2", |(name, _)| name)
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::env::consts::ARCH
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
    fn limits_are_ordered() {
        assert!(default_limit() < available() && available() <= memory());
    }
}
