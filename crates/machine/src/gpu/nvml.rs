//! A card with NVIDIA's driver, from its management library (NVML). Jetson boards have no NVML, or one without memory
//! information.

use super::Gpu;
use crate::MachineState;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};
use perf4sight_base::units::Bytes;
use std::fs;
use std::path::Path;

/// The library as drivers install it; the unversioned name is for compilers only.
const NAME: &str = "libnvidia-ml.so.1";

/// Reasons for low clocks that count as throttling. Idleness does not, nor does the power cap, at which large cards run
/// under any heavy load.
const HELD: ThrottleReasons = ThrottleReasons::HW_SLOWDOWN
    .union(ThrottleReasons::SW_THERMAL_SLOWDOWN)
    .union(ThrottleReasons::HW_THERMAL_SLOWDOWN)
    .union(ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN);

/// The GPU with a bus address; none without NVML or such a GPU.
pub(super) fn open(_: &Path, bus: &str) -> Option<Box<dyn Gpu>> {
    let nvml = library()?;
    nvml.device_by_pci_bus_id(bus).ok()?;
    Some(Box::new(NvmlGpu { nvml, bus: bus.to_owned() }))
}

struct NvmlGpu {
    nvml: Nvml,
    bus: String,
}

impl NvmlGpu {
    fn query<T>(&self, question: impl FnOnce(&Device<'_>) -> Option<T>) -> Option<T> {
        question(&self.nvml.device_by_pci_bus_id(self.bus.as_str()).ok()?)
    }

    fn users(&self) -> Vec<ProcessInfo> {
        self.query(|gpu| gpu.running_compute_processes().ok()).unwrap_or_default()
    }
}

impl Gpu for NvmlGpu {
    fn driver(&self) -> Option<String> {
        self.nvml.sys_driver_version().ok()
    }

    fn used_memory(&self) -> Option<Bytes> {
        self.query(|gpu| Some(Bytes(gpu.memory_info().ok()?.used)))
    }

    fn add_to(&self, moment: &mut MachineState) {
        self.query(|gpu| {
            let named = |value: Option<f64>| value.map(|value| ("gpu".to_owned(), value));
            moment.clocks.extend(named(gpu.clock_info(Clock::SM).ok().map(f64::from)));
            moment.temperatures.extend(named(gpu.temperature(TemperatureSensor::Gpu).ok().map(f64::from)));
            moment.powers.extend(named(gpu.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3)));
            moment.uses.extend(named(gpu.utilization_rates().ok().map(|rates| f64::from(rates.gpu))));
            moment.held_by.extend(gpu.current_throttle_reasons().map(held_by).unwrap_or_default());
            Some(())
        });
    }

    fn processes(&self) -> Vec<String> {
        let users = self.users();
        let others = users.iter().filter(|process| process.pid != std::process::id());
        others.map(|process| process_text(process.pid, &process.used_gpu_memory)).collect()
    }

    fn lists_this(&self) -> bool {
        self.users().iter().any(|process| process.pid == std::process::id())
    }
}

/// The reasons as text, in the driver's terms: `hw thermal slowdown`.
fn held_by(reasons: ThrottleReasons) -> Vec<String> {
    let held = reasons.intersection(HELD);
    held.iter_names().map(|(name, _)| name.to_lowercase().replace('_', " ")).collect()
}

fn process_text(pid: u32, memory: &UsedGpuMemory) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm"));
    let name = name.map_or(String::new(), |name| format!(" ({})", name.trim()));
    match memory {
        UsedGpuMemory::Used(bytes) => format!("pid {pid}{name}, {:.0} MiB", Bytes(*bytes).mib()),
        UsedGpuMemory::Unavailable => format!("pid {pid}{name}"),
    }
}

fn library() -> Option<Nvml> {
    Nvml::builder().lib_path(NAME.as_ref()).init().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_by_its_number_name_and_memory() {
        let own = std::process::id();
        let name = fs::read_to_string("/proc/self/comm").unwrap();
        let text = process_text(own, &UsedGpuMemory::Used(3 << 20));
        assert_eq!(text, format!("pid {own} ({}), 3 MiB", name.trim()));
        // No process has the largest id.
        assert_eq!(process_text(u32::MAX, &UsedGpuMemory::Unavailable), "pid 4294967295");
    }

    #[test]
    fn idle_capped_and_chosen_clocks_are_not_held_down() {
        let usual =
            ThrottleReasons::GPU_IDLE | ThrottleReasons::SW_POWER_CAP | ThrottleReasons::APPLICATIONS_CLOCKS_SETTING;
        assert_eq!(held_by(usual), Vec::<String>::new());
        assert_eq!(held_by(usual | ThrottleReasons::HW_THERMAL_SLOWDOWN), ["hw thermal slowdown"]);
    }
}
