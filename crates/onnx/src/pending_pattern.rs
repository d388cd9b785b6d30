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
    /// Padding that the next convolution or pooling may include.
    Padded(PendingPadding),
}

pub(super) type PendingPatterns = HashMap<NodeId, PendingPattern>;

/// The padded input, the value and the sizes of the padding.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingPadding {
    pub source: Feature,
    pub number: f64,
    pub sides: [usize; 4],
}

impl PendingPadding {
    /// Whether a window that pads with this number gives the same result.
    pub fn pads_with(&self, number: f64) -> bool {
        // Exporters also write minus infinity as the lowest single-precision number.
        self.number == number || number == f64::NEG_INFINITY && self.number <= f64::from(f32::MIN)
    }

    pub fn combined(&self, outer: &PendingPadding) -> Option<PendingPadding> {
        let sides = std::array::from_fn(|side| self.sides[side] + outer.sides[side]);
        (self.number == outer.number).then_some(PendingPadding { sides, ..*self })
    }
}
