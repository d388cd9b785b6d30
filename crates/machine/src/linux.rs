//! Reads a machine's state from Linux files: clocks, temperatures, throttling, stolen time; on a Jetson also release
//! and power mode.

use super::{MachineProperties, MachineState, gpu};
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Disabled zones report -256 degrees.
const COLDEST: f64 = -100.0;
/// Parts of the names of cooling devices that lower clocks: of the kernel's drivers for processors and accelerators
/// (`cpufreq-cpu0`, `thermal-cpufreq-0`, `devfreq-17000000.gpu`), of ACPI (`Processor`), of Jetson boards
/// (`gpu-balanced`, `cpu-throttle-alert`). Others are fans.
const BRAKES: [&str; 5] = ["cpufreq", "devfreq", "Processor", "balanced", "throttle"];
/// Counters of thermal throttling on Intel's processors (Linux, drivers/thermal/intel/therm_throt.c).
const THROTTLES: [&str; 2] = ["thermal_throttle/core_throttle_count", "thermal_throttle/package_throttle_count"];
/// Ticks a second in /proc/stat: USER_HZ, 100 on all supported machines.
const TICKS: f64 = 100.0;
const KILOHERTZ: f64 = 1e3;
/// The power monitor of Jetson boards, and its channels (Linux, Documentation/hwmon/ina3221.rst).
const METER: &str = "ina3221";
const CHANNELS: [u32; 3] = [1, 2, 3];

/// Properties that affect measurements and that a run does not change, by name. `root` is the root of the file system.
pub(super) fn facts(root: &Path) -> MachineProperties {
    let facts = [("board_release", release(root)), ("power_mode", power_mode(root))];
    facts.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), fact?))).collect()
}

/// The state of the machine now.
pub fn moment(root: &Path) -> MachineState {
    let cores: Vec<PathBuf> = folders(root.join("sys/devices/system/cpu")).filter(|path| is_core(path)).collect();
    let (busy, stolen) = processors(&root.join("proc/stat")).unzip();
    let named = |clock: Option<f64>| clock.map(|clock| ("cpu".to_owned(), clock)).into_iter().collect();
    let mut moment = MachineState {
        clocks: named(cores.iter().filter_map(|core| clock(core)).reduce(f64::max)),
        promised: named(cores.iter().filter_map(|core| base_clock(core)).reduce(f64::max)),
        temperatures: folders(root.join("sys/class/thermal")).filter_map(|zone| temperature(&zone)).collect(),
        powers: folders(root.join("sys/class/hwmon")).flat_map(|meter| powers(&meter)).collect(),
        held_by: throttling_devices(root),
        throttles: cores.iter().flat_map(|core| throttles(core)).reduce(|sum, count| sum + count),
        busy,
        stolen,
        ..MachineState::default()
    };
    gpu::on_board(root).into_iter().for_each(|gpu| gpu.add_to(&mut moment));
    moment
}

/// Whether a folder is a core: `cpu0`, but not `cpufreq`.
fn is_core(folder: &Path) -> bool {
    let number = folder.file_name().and_then(|name| name.to_str()?.strip_prefix("cpu"));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

fn clock(core: &Path) -> Option<f64> {
    Some(number::<f64>(&core.join("cpufreq/scaling_cur_freq"))? / KILOHERTZ)
}

/// The guaranteed clock of a core under load, in MHz: Intel's drivers call it base frequency, ACPI nominal. A user's
/// own limit below it is intended.
fn base_clock(core: &Path) -> Option<f64> {
    let base = number::<f64>(&core.join("cpufreq/base_frequency")).map(|kilohertz| kilohertz / KILOHERTZ);
    let base = base.or_else(|| number(&core.join("acpi_cppc/nominal_freq")).filter(|megahertz| *megahertz > 0.0))?;
    let allowed = number::<f64>(&core.join("cpufreq/scaling_max_freq"))? / KILOHERTZ;
    Some(base.min(allowed))
}

fn throttles(core: &Path) -> Vec<u64> {
    THROTTLES.iter().filter_map(|count| number(&core.join(count))).collect()
}

/// Busy and stolen seconds of all processors since boot. The first line of /proc/stat counts user, nice, system, idle,
/// iowait, irq, softirq and steal (Linux, Documentation/filesystems/proc.rst).
fn processors(stat: &Path) -> Option<(f64, f64)> {
    text(stat)?.lines().next()?.strip_prefix("cpu ").and_then(busy_and_stolen)
}

/// Busy and stolen seconds from the fields after the name in a line of /proc/stat.
pub fn busy_and_stolen(counts: &str) -> Option<(f64, f64)> {
    let ticks: Vec<f64> = counts.split_whitespace().map_while(|n| n.parse().ok()).collect();
    let [user, nice, system, _, _, irq, softirq, steal] = *ticks.first_chunk()?;
    Some(((user + nice + system + irq + softirq) / TICKS, steal / TICKS))
}

/// Cooling devices that lower clocks at this moment.
fn throttling_devices(root: &Path) -> Vec<String> {
    let active = |device: PathBuf| {
        let name = text(&device.join("type")).filter(|name| BRAKES.iter().any(|brake| name.contains(brake)))?;
        (number::<i64>(&device.join("cur_state"))? > 0).then_some(name)
    };
    let mut brakes: Vec<String> = folders(root.join("sys/class/thermal")).filter_map(active).collect();
    brakes.sort();
    brakes
}

/// The text before the second comma of `# R36 (release), REVISION: 3.0, GCID: ...`.
fn release(root: &Path) -> Option<String> {
    let line = text(&root.join("etc/nv_tegra_release"))?;
    let parts: Vec<&str> = line.trim_start_matches('#').split(',').take(2).map(str::trim).collect();
    Some(parts.join(", "))
}

/// nvpmodel stores the number of the mode as `pmode:0002 fmode:quiet`; its configuration has
/// `< POWER_MODEL ID=2 NAME=15W >`.
fn power_mode(root: &Path) -> Option<String> {
    let status = text(&root.join("var/lib/nvpmodel/status"))?;
    let number: u32 = status.split_whitespace().find_map(|word| word.strip_prefix("pmode:"))?.parse().ok()?;
    let known = text(&root.join("etc/nvpmodel.conf")).unwrap_or_default();
    let id = format!("ID={number}");
    let named = known.lines().filter(|line| line.contains("POWER_MODEL")).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words
            .contains(&id.as_str())
            .then(|| words.iter().find_map(|word| word.strip_prefix("NAME=")).map(str::to_owned))?
    });
    Some(named.map_or_else(|| number.to_string(), |name| format!("{number} {name}")))
}

/// Power of a board's rails in watts, by name: the channels of the monitor report millivolts and milliamperes.
fn powers(meter: &Path) -> Vec<(String, f64)> {
    if text(&meter.join("name")).as_deref() != Some(METER) {
        return Vec::new();
    }
    let channel = |channel: u32| {
        let of = |what: &str| number::<f64>(&meter.join(format!("{what}{channel}_input")));
        Some((text(&meter.join(format!("in{channel}_label")))?, of("in")? * of("curr")? / 1e6))
    };
    CHANNELS.into_iter().filter_map(channel).collect()
}

fn temperature(zone: &Path) -> Option<(String, f64)> {
    let degrees = number::<f64>(&zone.join("temp"))? / 1e3;
    (degrees > COLDEST).then_some((text(&zone.join("type"))?, degrees))
}

pub(super) fn folders(parent: PathBuf) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path())
}

pub(super) fn number<T: FromStr>(file: &Path) -> Option<T> {
    text(file)?.parse().ok()
}

fn text(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

#[cfg(test)]
pub(super) mod tests;
