//! How much of a board's memory is left for steps, and a limit in words where that is open.

use crate::fingerprint::DeviceFingerprints;
use perf4sight_base::units::Bytes;

/// Memory of the boards that most people have, as an example.
const BOARD: Bytes = Bytes(8 << 30);

/// How much of their memory the systems of boards leave, in a sentence; none where no board is among the devices.
pub(super) fn shared_memory<'a>(devices: impl IntoIterator<Item = &'a DeviceFingerprints>) -> Option<String> {
    let boards: Vec<(&DeviceFingerprints, Bytes)> =
        devices.into_iter().filter_map(|device| Some((device, kept_by_system(device)?))).collect();
    // They are taken to keep as much as the one that was measured.
    let (_, kept) = boards.first()?;
    let names: Vec<&str> = boards.iter().map(|(board, _)| board.subject().device.as_str()).collect();
    Some(format!(
        "memory that boards share with their system ({}): about {kept} is the system's by default, as on a TX2 whose steps used at most 6.16 of its 7.67 GiB; \
         a board of {} leaves about {}, which is what --mem-limit (mem_limit) should say",
        names.join(", "),
        BOARD.in_full(),
        Bytes(BOARD.0.saturating_sub(kept.0))
    ))
}

/// A requested limit in words. Steps on a board that was not profiled get what its system leaves free, so that a limit as large as its
/// memory is no memory that a step may use.
pub(super) fn limit_text<'a>(limit: Bytes, devices: impl IntoIterator<Item = &'a DeviceFingerprints>) -> String {
    match devices.into_iter().any(|device| kept_by_system(device).is_some()) {
        true => format!("{} of free memory", limit.in_full()),
        false => limit.in_full(),
    }
}

fn kept_by_system(device: &DeviceFingerprints) -> Option<Bytes> {
    device.memory.as_ref()?.kept_by_system()
}
