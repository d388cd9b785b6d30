//! A card with AMD's driver, from sysfs (Linux, Documentation/gpu/amdgpu/thermal.rst and driver-misc.rst).

use super::Gpu;
use crate::MachineState;
use crate::linux::{folders, number};
use perf4sight_base::units::Bytes;
use std::path::{Path, PathBuf};

pub(super) fn open(root: &Path, bus: &str) -> Option<Box<dyn Gpu>> {
    let folder = root.join("sys/bus/pci/devices").join(bus.to_lowercase());
    folder.join("mem_info_vram_total").exists().then(|| Box::new(AmdGpu { folder }) as Box<dyn Gpu>)
}

struct AmdGpu {
    folder: PathBuf,
}

impl Gpu for AmdGpu {
    fn used_memory(&self) -> Option<Bytes> {
        number(&self.folder.join("mem_info_vram_used")).map(Bytes)
    }

    fn add_to(&self, moment: &mut MachineState) {
        let named = |value: Option<f64>| value.map(|value| ("gpu".to_owned(), value));
        moment.uses.extend(named(number(&self.folder.join("gpu_busy_percent"))));
        let Some(sensors) = folders(self.folder.join("hwmon")).next() else { return };
        let sensor = |name: &str, unit: f64| number::<f64>(&sensors.join(name)).map(|value| value / unit);
        moment.clocks.extend(named(sensor("freq1_input", 1e6)));
        moment.temperatures.extend(named(sensor("temp1_input", 1e3)));
        moment.powers.extend(named(sensor("power1_average", 1e6).or_else(|| sensor("power1_input", 1e6))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::tests::{board, one};

    /// 1.5 GHz, 63 degrees, 180 W.
    #[test]
    fn a_card_is_found_by_its_address() {
        let files = [
            ("mem_info_vram_total", "17163091968\n"),
            ("mem_info_vram_used", "1073741824\n"),
            ("gpu_busy_percent", "87\n"),
            ("hwmon/hwmon3/freq1_input", "1500000000\n"),
            ("hwmon/hwmon3/temp1_input", "63000\n"),
            ("hwmon/hwmon3/power1_average", "180000000\n"),
        ];
        let files = files.map(|(name, text)| (format!("sys/bus/pci/devices/0000:0c:00.0/{name}"), text));
        let root = board(&files.each_ref().map(|(name, text)| (name.as_str(), *text)));
        let gpu = open(root.path(), "0000:0C:00.0").unwrap();
        let mut moment = MachineState::default();
        gpu.add_to(&mut moment);
        let expected = MachineState {
            clocks: one("gpu", 1500.0),
            temperatures: one("gpu", 63.0),
            powers: one("gpu", 180.0),
            uses: one("gpu", 87.0),
            ..MachineState::default()
        };
        assert_eq!((moment, gpu.used_memory()), (expected, Some(Bytes(1 << 30))));
        assert!(open(root.path(), "0000:0d:00.0").is_none());
    }
}
