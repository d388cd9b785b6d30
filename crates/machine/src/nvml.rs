//! What NVIDIA's management library (NVML) tells of a GPU, by its bus address: memory, clocks, temperature, power, who uses it.
//!
//! Everything here is `None` or empty where there is no NVML or it does not know, as of memory on Jetson boards.

use super::Moment;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::{Device, Nvml};
use perf4sight_base::units::Bytes;
use std::fs;

/// The library as drivers install it; the name without a number is there for compilers only.
const NAME: &str = "libnvidia-ml.so.1";

/// Reasons for low clocks that are no choice of anybody's. Idleness is none, nor is the power cap, at which large cards run under any
/// heavy load.
const HELD: ThrottleReasons = ThrottleReasons::HW_SLOWDOWN
    .union(ThrottleReasons::SW_THERMAL_SLOWDOWN)
    .union(ThrottleReasons::HW_THERMAL_SLOWDOWN)
    .union(ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN);

/// Version of the driver.
pub fn driver() -> Option<String> {
    open()?.sys_driver_version().ok()
}

/// Memory in use, whoever uses it.
pub fn used(bus: &str) -> Option<Bytes> {
    ask(bus, |gpu| Some(Bytes(gpu.memory_info().ok()?.used)))
}

/// Adds its clock, temperature and power at this moment, and what holds the clock down.
pub fn add(bus: &str, moment: &mut Moment) {
    ask(bus, |gpu| {
        let named = |value: Option<f64>| value.map(|value| ("gpu".to_owned(), value));
        moment.clocks.extend(named(gpu.clock_info(Clock::SM).ok().map(f64::from)));
        moment.temperatures.extend(named(gpu.temperature(TemperatureSensor::Gpu).ok().map(f64::from)));
        moment.powers.extend(named(gpu.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3)));
        moment.uses.extend(named(gpu.utilization_rates().ok().map(|rates| f64::from(rates.gpu))));
        moment.held_by.extend(gpu.current_throttle_reasons().map(held_by).unwrap_or_default());
        Some(())
    });
}

/// The processes that compute on it, this one left out, for people: `pid 4711 (python3), 4321 MiB`.
pub fn processes(bus: &str) -> Vec<String> {
    let processes = ask(bus, |gpu| gpu.running_compute_processes().ok()).unwrap_or_default();
    let others = processes.iter().filter(|process| process.pid != std::process::id());
    others.map(|process| described(process.pid, &process.used_gpu_memory)).collect()
}

/// Whether it lists this process, which must be computing on it, under the number that it has here.
pub fn lists_this(bus: &str) -> bool {
    let processes = ask(bus, |gpu| gpu.running_compute_processes().ok()).unwrap_or_default();
    processes.iter().any(|process| process.pid == std::process::id())
}

/// `hw thermal slowdown`, as the driver's interface calls them.
fn held_by(reasons: ThrottleReasons) -> Vec<String> {
    let held = reasons.intersection(HELD);
    held.iter_names().map(|(name, _)| name.to_lowercase().replace('_', " ")).collect()
}

fn described(pid: u32, memory: &UsedGpuMemory) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm"));
    let name = name.map_or(String::new(), |name| format!(" ({})", name.trim()));
    match memory {
        UsedGpuMemory::Used(bytes) => format!("pid {pid}{name}, {:.0} MiB", Bytes(*bytes).mib()),
        UsedGpuMemory::Unavailable => format!("pid {pid}{name}"),
    }
}

fn ask<T>(bus: &str, question: impl FnOnce(&Device<'_>) -> Option<T>) -> Option<T> {
    let nvml = open()?;
    let gpu = nvml.device_by_pci_bus_id(bus).ok()?;
    question(&gpu)
}

fn open() -> Option<Nvml> {
    Nvml::builder().lib_path(NAME.as_ref()).init().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_by_its_number_name_and_memory() {
        let own = std::process::id();
        let name = fs::read_to_string("/proc/self/comm").unwrap();
        let told = described(own, &UsedGpuMemory::Used(3 << 20));
        assert_eq!(told, format!("pid {own} ({}), 3 MiB", name.trim()));
        // No process has the highest number.
        assert_eq!(described(u32::MAX, &UsedGpuMemory::Unavailable), "pid 4294967295");
    }

    #[test]
    fn a_machine_without_such_a_gpu_tells_nothing() {
        let nowhere = "ffff:ff:1f.7";
        let mut moment = Moment::default();
        add(nowhere, &mut moment);
        assert_eq!((used(nowhere), moment, processes(nowhere)), (None, Moment::default(), Vec::new()));
    }

    #[test]
    fn idle_capped_and_chosen_clocks_are_not_held_down() {
        let usual =
            ThrottleReasons::GPU_IDLE | ThrottleReasons::SW_POWER_CAP | ThrottleReasons::APPLICATIONS_CLOCKS_SETTING;
        assert_eq!(held_by(usual), Vec::<String>::new());
        assert_eq!(held_by(usual | ThrottleReasons::HW_THERMAL_SLOWDOWN), ["hw thermal slowdown"]);
    }
}
