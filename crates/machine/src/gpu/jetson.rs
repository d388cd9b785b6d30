//! The GPU of a Jetson board, from sysfs: it has no bus address and shares the machine's memory. Its temperatures and
//! power rails are reported with those of the board.

use super::Gpu;
use crate::MachineState;
use crate::description::counter;
use crate::linux::{folders, number};
use perf4sight_base::units::Bytes;
use std::path::{Path, PathBuf};

/// The name of its folder after the address, from TX1 to Orin.
const NAMES: [&str; 4] = ["gpu", "gp10b", "gv11b", "ga10b"];
const MEGAHERTZ: f64 = 1e6;

pub(super) fn open(root: &Path) -> Option<Box<dyn Gpu>> {
    let is_gpu = |folder: &PathBuf| NAMES.iter().any(|name| folder.to_str().is_some_and(|path| path.ends_with(name)));
    let folder = folders(root.join("sys/class/devfreq")).find(is_gpu)?;
    Some(Box::new(JetsonGpu { root: root.to_owned(), folder }))
}

struct JetsonGpu {
    root: PathBuf,
    folder: PathBuf,
}

impl Gpu for JetsonGpu {
    /// Memory in use, by the formula of the published profiler: the GPU shares the memory of the machine.
    fn used_memory(&self) -> Option<Bytes> {
        let kernel = |name: &str| counter(&self.root.join("proc/meminfo"), name);
        let left: u64 = ["MemFree", "Buffers", "Cached"].into_iter().filter_map(kernel).map(|bytes| bytes.0).sum();
        Some(Bytes(kernel("MemTotal")?.0.saturating_sub(left)))
    }

    fn add_to(&self, moment: &mut MachineState) {
        let named = |value: f64| ("gpu".to_owned(), value);
        moment.clocks.extend(number::<f64>(&self.folder.join("cur_freq")).map(|hertz| named(hertz / MEGAHERTZ)));
        // The load is in thousandths; older releases have this file only at a fixed path.
        let load = number::<f64>(&self.folder.join("device/load"));
        let load = load.or_else(|| number(&self.root.join("sys/devices/gpu.0/load")));
        moment.uses.extend(load.map(|thousandths| named(thousandths / 10.0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::tests::{board, one};

    #[test]
    fn a_tx2_tells_its_load_at_a_fixed_path_and_shares_the_memory() {
        let root = board(&[
            ("sys/class/devfreq/17000000.gp10b/cur_freq", "1300500000\n"),
            ("sys/devices/gpu.0/load", "980\n"),
            (
                "proc/meminfo",
                "MemTotal: 8000 kB\nMemFree: 1000 kB\nMemAvailable: 5000 kB\nBuffers: 200 kB\nCached: 3000 kB\n",
            ),
        ]);
        let gpu = open(root.path()).unwrap();
        let mut moment = MachineState::default();
        gpu.add_to(&mut moment);
        assert_eq!(
            moment,
            MachineState { clocks: one("gpu", 1300.5), uses: one("gpu", 98.0), ..MachineState::default() }
        );
        assert_eq!(gpu.used_memory(), Some(Bytes(3800 << 10)));
        assert!(open(board(&[]).path()).is_none());
    }
}
