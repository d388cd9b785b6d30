//! Patterns that exporters spread over several nodes, as found in the nodes read so far.

use super::value::Feature;
use hashbrown::HashMap;
use perf4sight_network::NodeId;

/// The first nodes of a pattern, which a later node may complete.
#[derive(Debug, Clone, Copy)]
pub(super) enum PendingPattern {
    /// A scaled layer normalisation of this input from this axis on, still without its shift.
    Normalised(Feature, usize),
    /// A normalisation of this input in this many groups, still without its view back.
    Grouped(Feature, usize),
    /// Zeros around this input, at its top, left, bottom and right, that the next mean over windows may include.
    Padded { source: Feature, sides: [usize; 4] },
}

pub(super) type PendingPatterns = HashMap<NodeId, PendingPattern>;
