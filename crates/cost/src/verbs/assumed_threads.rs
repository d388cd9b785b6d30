//! On how many threads a step is taken to run.

use crate::fingerprint::{DeviceFingerprints, Fingerprint};
use perf4sight_base::units::count_text;

/// On how many threads a step is taken to run, in a sentence; none where no processor is among devices that were not measured.
pub(super) fn assumed_threads<'a>(devices: impl IntoIterator<Item = &'a DeviceFingerprints>) -> Option<String> {
    let threads =
        devices.into_iter().find_map(|device| device.memory.as_ref().and_then(Fingerprint::assumed_threads))?;
    Some(format!(
        "on a processor the step is taken to run on {}, each with buffers of its own; --threads (threads) names another number",
        count_text(threads, "thread")
    ))
}
