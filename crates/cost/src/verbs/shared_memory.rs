//! How much of a board's memory is left for steps.

use crate::fingerprint::Fingerprints;
use perf4sight_base::units::Bytes;

/// Memory of the boards that most people have, as an example.
const BOARD: Bytes = Bytes(8 << 30);

/// How much of a board's memory its system leaves.
pub(super) fn shared_memory(fingerprints: &Fingerprints) -> Option<String> {
    let kept = fingerprints.memory.as_ref()?.kept_by_system()?;
    let (name, left) = (&fingerprints.subject().device, Bytes(BOARD.0.saturating_sub(kept.0)));
    Some(format!(
        "{name} shares its memory with its system, which keeps about {kept} by default, as on a TX2 whose steps used at most 6.16 of its 7.67 GiB: a board \
         of {} leaves about {left}, which is what --mem-limit (mem_limit) should say",
        BOARD.in_full()
    ))
}
