//! Values that drivers report for GPUs: memory, clocks, temperature, power, processes. Each driver has a file; those of cards have an
//! entry in `CARDS`, that of boards is [`on_board`]. Values that a driver does not report are none or empty.

mod amd;
mod jetson;
mod nvml;

use super::MachineState;
use perf4sight_base::units::Bytes;
use std::path::Path;

/// A GPU as its driver reports it.
pub trait Gpu {
    /// The version of the driver, as its own tools print it.
    fn driver(&self) -> Option<String> {
        None
    }

    /// Memory in use by all processes.
    fn used_memory(&self) -> Option<Bytes>;

    /// Adds its clock, temperature, power and utilization, and the reasons for low clocks.
    fn add_to(&self, moment: &mut MachineState);

    /// The other processes that compute on it, for messages: `pid 4711 (python3), 4321 MiB`.
    fn processes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether it lists this process, which must be computing on it, under its process id here.
    fn lists_this(&self) -> bool {
        false
    }
}

/// Opens a GPU by its bus address, on the machine whose files are in this folder.
type OpenGpu = fn(&Path, &str) -> Option<Box<dyn Gpu>>;

const CARDS: [OpenGpu; 2] = [nvml::open, amd::open];

/// The card with this bus address.
pub fn open(bus: &str) -> Option<Box<dyn Gpu>> {
    CARDS.iter().find_map(|open| open(Path::new("/"), bus))
}

/// The GPU of a board, which has no bus address, on the machine whose files are in this folder.
pub fn on_board(root: &Path) -> Option<Box<dyn Gpu>> {
    jetson::open(root)
}

/// Version of the driver of the GPU at a bus address.
pub fn driver(bus: &str) -> Option<String> {
    open(bus)?.driver()
}

/// Memory in use by all processes, of the GPU at a bus address.
pub fn used_memory(bus: &str) -> Option<Bytes> {
    open(bus)?.used_memory()
}

/// Adds what [`Gpu::add_to`] reads, of the GPU at a bus address.
pub fn add(bus: &str, moment: &mut MachineState) {
    open(bus).into_iter().for_each(|gpu| gpu.add_to(moment));
}

/// Other processes that compute on the GPU at a bus address.
pub fn processes(bus: &str) -> Vec<String> {
    open(bus).map_or(Vec::new(), |gpu| gpu.processes())
}

/// Whether the GPU at a bus address lists this process.
pub fn lists_this(bus: &str) -> bool {
    open(bus).is_some_and(|gpu| gpu.lists_this())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_gpu_that_is_not_there_nothing_is_known() {
        let nowhere = "ffff:ff:1f.7";
        let mut moment = MachineState::default();
        add(nowhere, &mut moment);
        assert_eq!((used_memory(nowhere), moment, processes(nowhere)), (None, MachineState::default(), Vec::new()));
        assert!(!lists_this(nowhere));
    }
}
