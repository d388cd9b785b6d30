//! Tests of `linux`.

use super::*;
use std::collections::BTreeMap;
use tempfile::TempDir;

/// A root folder with the files of a board.
pub fn board(files: &[(&str, &str)]) -> TempDir {
    let root = TempDir::new().unwrap();
    for (name, content) in files {
        let file = root.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }
    root
}

pub fn one(name: &str, value: f64) -> BTreeMap<String, f64> {
    [(name.to_owned(), value)].into()
}

fn named(facts: &[(&str, &str)]) -> MachineProperties {
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
    let now = MachineState {
        clocks: one("gpu", 612.0),
        temperatures: one("cpu-thermal", 48.406),
        // 375 thousandths of the time; 5 V at 2.1 A.
        uses: one("gpu", 37.5),
        powers: one("VDD_IN", 10.5),
        ..MachineState::default()
    };
    assert_eq!(moment(root.path()), now);
}

#[test]
fn a_tx2_names_its_gpu_after_the_chip() {
    let root = board(&[
        ("var/lib/nvpmodel/status", "pmode:0000\n"),
        ("sys/class/devfreq/17000000.gp10b/cur_freq", "1300500000\n"),
    ]);
    // Without nvpmodel's configuration only the number is known.
    assert_eq!(super::facts(root.path()), named(&[("power_mode", "0")]));
    assert_eq!(moment(root.path()).clocks, one("gpu", 1300.5));
}

#[test]
fn a_machine_that_tells_nothing_has_no_facts() {
    let root = board(&[("sys/class/thermal/thermal_zone0/type", "acpitz\n")]);
    assert_eq!((super::facts(root.path()), moment(root.path())), (MachineProperties::new(), MachineState::default()));
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
    let now = MachineState {
        clocks: one("cpu", 3100.0),
        promised: one("cpu", 2800.0),
        temperatures: one("x86_pkg_temp", 71.0),
        throttles: Some(3 + 40 + 2),
        // (1000 + 200 + 300 + 6 + 4) and 120 hundredths of a second.
        busy: Some(15.1),
        stolen: Some(1.2),
        ..MachineState::default()
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
    assert_eq!(moment(root.path()), MachineState::default());
}
