//! What Linux tells of a machine as files: clocks, temperatures, throttling, stolen time; of a Jetson also release and power mode.

use super::{Moment, Setting};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What the folder of a Jetson's GPU is called after its address, from TX1 to Orin.
const GPUS: [&str; 4] = ["gpu", "gp10b", "gv11b", "ga10b"];
/// Zones that are switched off report -256 degrees.
const COLDEST: f64 = -100.0;
/// In the names of cooling devices that cool by slowing down: of the kernel's drivers for processors and accelerators (`cpufreq-cpu0`,
/// `thermal-cpufreq-0`, `devfreq-17000000.gpu`), of ACPI (`Processor`), of Jetson boards (`gpu-balanced`, `cpu-throttle-alert`). Others
/// are fans.
const BRAKES: [&str; 5] = ["cpufreq", "devfreq", "Processor", "balanced", "throttle"];
/// Counts of thermal throttling, kept by Intel's processors (Linux, drivers/thermal/intel/therm_throt.c).
const THROTTLES: [&str; 2] = ["thermal_throttle/core_throttle_count", "thermal_throttle/package_throttle_count"];
/// Ticks a second of the times in /proc/stat: USER_HZ, 100 on everything this runs on.
const TICKS: f64 = 100.0;
/// Kilohertz in a megahertz.
const KILOHERTZ: f64 = 1e3;
/// The meter of Jetson boards, and its channels (Linux, Documentation/hwmon/ina3221.rst).
const METER: &str = "ina3221";
const CHANNELS: [u32; 3] = [1, 2, 3];

/// What measurements depend on and a run does not change, by name. `root` is the root of the file system.
pub(super) fn facts(root: &Path) -> Setting {
    let facts = [("board_release", release(root)), ("power_mode", power_mode(root))];
    facts.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), fact?))).collect()
}

/// The machine now.
pub fn moment(root: &Path) -> Moment {
    let cores: Vec<PathBuf> = folders(root.join("sys/devices/system/cpu")).filter(|path| is_core(path)).collect();
    let (busy, stolen) = processors(&root.join("proc/stat")).unzip();
    let named = |clocks: [(&str, Option<f64>); 2]| -> BTreeMap<String, f64> {
        clocks.into_iter().filter_map(|(name, clock)| Some((name.to_owned(), clock?))).collect()
    };
    Moment {
        clocks: named([
            ("cpu", cores.iter().filter_map(|core| clock(core)).reduce(f64::max)),
            ("gpu", gpu_clock(root)),
        ]),
        promised: named([("cpu", cores.iter().filter_map(|core| base_clock(core)).reduce(f64::max)), ("gpu", None)]),
        temperatures: folders(root.join("sys/class/thermal")).filter_map(|zone| temperature(&zone)).collect(),
        powers: folders(root.join("sys/class/hwmon")).flat_map(|meter| powers(&meter)).collect(),
        uses: gpu(root).and_then(|gpu| Some(("gpu".to_owned(), use_of(&gpu)?))).into_iter().collect(),
        held_by: brakes(root),
        throttles: cores.iter().flat_map(|core| throttles(core)).reduce(|sum, count| sum + count),
        busy,
        stolen,
        ..Moment::default()
    }
}

/// `cpu0`, but not `cpufreq`.
fn is_core(folder: &Path) -> bool {
    let number = folder.file_name().and_then(|name| name.to_str()?.strip_prefix("cpu"));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

fn clock(core: &Path) -> Option<f64> {
    Some(number::<f64>(&core.join("cpufreq/scaling_cur_freq"))? / KILOHERTZ)
}

/// The clock a core keeps up under any load, in MHz: Intel's drivers call it base frequency, ACPI nominal. Whoever limits the
/// clock below it wants it so.
fn base_clock(core: &Path) -> Option<f64> {
    let base = number::<f64>(&core.join("cpufreq/base_frequency")).map(|kilohertz| kilohertz / KILOHERTZ);
    let base = base.or_else(|| number(&core.join("acpi_cppc/nominal_freq")).filter(|megahertz| *megahertz > 0.0))?;
    let allowed = number::<f64>(&core.join("cpufreq/scaling_max_freq"))? / KILOHERTZ;
    Some(base.min(allowed))
}

fn throttles(core: &Path) -> Vec<u64> {
    THROTTLES.iter().filter_map(|count| number(&core.join(count))).collect()
}

/// Seconds that all processors worked, and that a hypervisor took from them, since the machine started: the first line of /proc/stat
/// counts user, nice, system, idle, iowait, irq, softirq and steal (Linux, Documentation/filesystems/proc.rst).
fn processors(stat: &Path) -> Option<(f64, f64)> {
    text(stat)?.lines().next()?.strip_prefix("cpu ").and_then(worked)
}

/// Seconds that one or all worked, and that were taken from them, by what stands behind the name in a line of /proc/stat.
pub fn worked(counts: &str) -> Option<(f64, f64)> {
    let ticks: Vec<f64> = counts.split_whitespace().map_while(|n| n.parse().ok()).collect();
    let [user, nice, system, _, _, irq, softirq, steal] = *ticks.first_chunk()?;
    Some(((user + nice + system + irq + softirq) / TICKS, steal / TICKS))
}

/// Cooling devices that slow something down at this moment.
fn brakes(root: &Path) -> Vec<String> {
    let active = |device: PathBuf| {
        let name = text(&device.join("type")).filter(|name| BRAKES.iter().any(|brake| name.contains(brake)))?;
        (number::<i64>(&device.join("cur_state"))? > 0).then_some(name)
    };
    let mut brakes: Vec<String> = folders(root.join("sys/class/thermal")).filter_map(active).collect();
    brakes.sort();
    brakes
}

/// `# R36 (release), REVISION: 3.0, GCID: ...`: what stands before the second comma.
fn release(root: &Path) -> Option<String> {
    let line = text(&root.join("etc/nv_tegra_release"))?;
    let parts: Vec<&str> = line.trim_start_matches('#').split(',').take(2).map(str::trim).collect();
    Some(parts.join(", "))
}

/// nvpmodel keeps the mode's number in `pmode:0002 fmode:quiet`; its configuration says `< POWER_MODEL ID=2 NAME=15W >`.
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

/// The folder of a Jetson's GPU.
fn gpu(root: &Path) -> Option<PathBuf> {
    let is_gpu = |folder: &PathBuf| GPUS.iter().any(|gpu| folder.to_str().is_some_and(|name| name.ends_with(gpu)));
    folders(root.join("sys/class/devfreq")).find(is_gpu)
}

fn gpu_clock(root: &Path) -> Option<f64> {
    Some(number::<f64>(&gpu(root)?.join("cur_freq"))? / KILOHERTZ / KILOHERTZ)
}

/// Percent of the time that a Jetson's GPU is at work; its driver tells thousandths.
fn use_of(gpu: &Path) -> Option<f64> {
    Some(number::<f64>(&gpu.join("device/load"))? / 10.0)
}

/// Watts of the rails that a board's meter watches, by name: its channels tell millivolts and milliamperes.
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

fn folders(parent: PathBuf) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn number<T: FromStr>(file: &Path) -> Option<T> {
    text(file)?.parse().ok()
}

fn text(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// A root with the files that a board has.
    fn board(files: &[(&str, &str)]) -> TempDir {
        let root = TempDir::new().unwrap();
        for (name, content) in files {
            let file = root.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        root
    }

    fn one(name: &str, value: f64) -> BTreeMap<String, f64> {
        [(name.to_owned(), value)].into()
    }

    fn named(facts: &[(&str, &str)]) -> Setting {
        facts.iter().map(|(name, fact)| ((*name).to_owned(), (*fact).to_owned())).collect()
    }

    #[test]
    fn an_orin_on_jetpack_6_tells_all() {
        let root = board(&[
            ("etc/nv_tegra_release", "# R36 (release), REVISION: 3.0, GCID: 36923193, BOARD: generic, EABI: aarch64\n"),
            ("var/lib/nvpmodel/status", "pmode:0002 fmode:quiet\n"),
            (
                "etc/nvpmodel.conf",
                "< PARAM TYPE=FILE NAME=CPU_ONLINE >\n< POWER_MODEL ID=0 NAME=MAXN >\n< POWER_MODEL ID=2 NAME=30W >\n",
            ),
            ("sys/class/devfreq/17000000.gpu/cur_freq", "612000000\n"),
            ("sys/class/devfreq/17000000.gpu/device/load", "375\n"),
            ("sys/class/hwmon/hwmon1/name", "ina3221\n"),
            ("sys/class/hwmon/hwmon1/in1_label", "VDD_IN\n"),
            ("sys/class/hwmon/hwmon1/in1_input", "5000\n"),
            ("sys/class/hwmon/hwmon1/curr1_input", "2100\n"),
            ("sys/class/hwmon/hwmon0/name", "pwmfan\n"),
            ("sys/class/devfreq/15340000.vic/cur_freq", "115200000\n"),
            ("sys/class/thermal/thermal_zone0/type", "cpu-thermal\n"),
            ("sys/class/thermal/thermal_zone0/temp", "48406\n"),
            ("sys/class/thermal/thermal_zone1/type", "gpu-thermal\n"),
            ("sys/class/thermal/thermal_zone1/temp", "-256000\n"),
        ]);
        let facts = [("board_release", "R36 (release), REVISION: 3.0"), ("power_mode", "2 30W")];
        assert_eq!(super::facts(root.path()), named(&facts));
        let now = Moment {
            clocks: one("gpu", 612.0),
            temperatures: one("cpu-thermal", 48.406),
            // 375 thousandths of the time; 5 V at 2.1 A.
            uses: one("gpu", 37.5),
            powers: one("VDD_IN", 10.5),
            ..Moment::default()
        };
        assert_eq!(moment(root.path()), now);
    }

    #[test]
    fn a_tx2_names_its_gpu_after_the_chip() {
        let root = board(&[
            ("var/lib/nvpmodel/status", "pmode:0000\n"),
            ("sys/class/devfreq/17000000.gp10b/cur_freq", "1300500000\n"),
        ]);
        // Without nvpmodel's configuration there is only the number.
        assert_eq!(super::facts(root.path()), named(&[("power_mode", "0")]));
        assert_eq!(moment(root.path()).clocks, one("gpu", 1300.5));
    }

    #[test]
    fn a_machine_that_tells_nothing_has_no_facts() {
        let root = board(&[("sys/class/thermal/thermal_zone0/type", "acpitz\n")]);
        assert_eq!((super::facts(root.path()), moment(root.path())), (Setting::new(), Moment::default()));
    }

    #[test]
    fn an_intel_processor_tells_its_clocks_and_counts_its_throttling() {
        let root = board(&[
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2400000\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "4700000\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/base_frequency", "2800000\n"),
            ("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n"),
            ("sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "40\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3100000\n"),
            ("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "2\n"),
            ("sys/devices/system/cpu/cpufreq/scaling_cur_freq", "9900000\n"),
            ("sys/class/thermal/thermal_zone0/type", "x86_pkg_temp\n"),
            ("sys/class/thermal/thermal_zone0/temp", "71000\n"),
            ("proc/stat", "cpu  1000 200 300 90000 50 6 4 120 0 0\ncpu0 500 100 150 45000 25 3 2 60 0 0\nintr 1\n"),
        ]);
        let now = Moment {
            clocks: one("cpu", 3100.0),
            promised: one("cpu", 2800.0),
            temperatures: one("x86_pkg_temp", 71.0),
            throttles: Some(3 + 40 + 2),
            // (1000 + 200 + 300 + 6 + 4) and 120 hundredths of a second.
            busy: Some(15.1),
            stolen: Some(1.2),
            ..Moment::default()
        };
        assert_eq!(moment(root.path()), now);
    }

    #[test]
    fn a_clock_that_somebody_limited_is_promised_no_higher() {
        let core = "sys/devices/system/cpu/cpu0";
        let root = board(&[
            (&format!("{core}/cpufreq/scaling_max_freq"), "1500000\n"),
            (&format!("{core}/acpi_cppc/nominal_freq"), "2450\n"),
        ]);
        assert_eq!(moment(root.path()).promised, one("cpu", 1500.0));
    }

    #[test]
    fn cooling_devices_that_brake_are_told_from_fans_and_idle_ones() {
        let devices = [("cpufreq-cpu0", "2"), ("pwm-fan", "3"), ("devfreq-17000000.gpu", "0"), ("gpu-balanced", "1")];
        let files: Vec<(String, &str)> = (0..)
            .zip(devices)
            .flat_map(|(number, (name, state))| {
                let device = format!("sys/class/thermal/cooling_device{number}");
                [(format!("{device}/type"), name), (format!("{device}/cur_state"), state)]
            })
            .collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(file, text)| (file.as_str(), *text)).collect();
        assert_eq!(moment(board(&files).path()).held_by, ["cpufreq-cpu0", "gpu-balanced"]);
    }

    #[test]
    fn files_that_hold_something_else_are_not_believed() {
        let root = board(&[
            ("proc/stat", "cpu  1000 200\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "<unknown>\n"),
            ("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "\n"),
        ]);
        assert_eq!(moment(root.path()), Moment::default());
    }
}
