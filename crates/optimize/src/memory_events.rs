//! What a step takes of memory, from the allocator's events in a trace of PyTorch (`profile_memory=True`).

use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_base::units::Bytes;
use perf4sight_base::unzipped::unzipped;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::Path;

/// The memory of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceMemory {
    /// The most that was allocated.
    pub peak: Bytes,
    /// The least: what lasts from step to step.
    pub lasting: Bytes,
}

#[derive(Deserialize)]
struct MemoryTraceFile {
    #[serde(rename = "traceEvents")]
    events: Vec<MemoryEvent>,
}

#[derive(Deserialize)]
struct MemoryEvent {
    name: Option<String>,
    args: Option<MemoryArguments>,
}

#[derive(Deserialize)]
struct MemoryArguments {
    #[serde(rename = "Total Allocated")]
    allocated: Option<u64>,
    #[serde(rename = "Device Type")]
    kind: Option<i64>,
    #[serde(rename = "Device Id")]
    device: Option<i64>,
}

/// The memory of the device that a trace has the most of; none without such events.
///
/// # Errors
/// A file that cannot be read.
pub fn read(file: &Path) -> Result<Option<DeviceMemory>> {
    let doing = "read the memory events of this trace";
    let source = BufReader::new(input_file::open(file, doing)?);
    let source = unzipped(source).map_err(|cause| Error::io(file, doing, &cause))?;
    let MemoryTraceFile { events } = serde_json::from_reader(BufReader::new(source))
        .map_err(|cause| Error::input(format!("is not a trace with memory events: {cause}")).file(file))?;
    let mut devices: BTreeMap<(i64, i64), DeviceMemory> = BTreeMap::new();
    let memory = events.into_iter().filter(|event| event.name.as_deref() == Some("[memory]"));
    for MemoryArguments { allocated, kind, device } in memory.filter_map(|event| event.args) {
        let Some(allocated) = allocated.map(Bytes) else { continue };
        let known = devices.entry((kind.unwrap_or(0), device.unwrap_or(0)));
        let known = known.or_insert(DeviceMemory { peak: allocated, lasting: allocated });
        *known = DeviceMemory { peak: known.peak.max(allocated), lasting: known.lasting.min(allocated) };
    }
    // Accelerators have a type above that of processors.
    Ok(devices.into_iter().next_back().map(|(_, memory)| memory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_the_accelerator_counts_where_there_is_one() {
        let event = |kind: u32, bytes: u64| {
            format!(
                "{{\"name\": \"[memory]\", \"ph\": \"i\", \"args\": {{\"Device Type\": {kind}, \"Device Id\": 0, \"Total Allocated\": {bytes}}}}}"
            )
        };
        let events = [event(0, 900), event(1, 100), event(1, 700), event(1, 300), "{\"ph\": \"M\"}".to_owned()];
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rank0.json");
        std::fs::write(&file, format!("{{\"traceEvents\": [{}]}}", events.join(","))).unwrap();
        assert_eq!(read(&file).unwrap(), Some(DeviceMemory { peak: Bytes(700), lasting: Bytes(100) }));
        std::fs::write(&file, "{\"traceEvents\": []}").unwrap();
        assert_eq!(read(&file).unwrap(), None);
    }
}
