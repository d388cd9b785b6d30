//! Patterns that exporters spread over several nodes, as far as the nodes read so far have them.

use super::value::Feature;
use hashbrown::HashMap;
use perf4sight_network::NodeId;

/// The first nodes of a pattern, which a later node may complete.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pending {
    /// A scaled layer normalisation of this input from this axis on that lacks its shift.
    Normalised(Feature, usize),
    /// A normalisation of so many groups of this input that lacks its view back.
    Grouped(Feature, usize),
    /// A padding that the convolution or pooling behind it may take over.
    Padded(Padding),
}

pub(super) type Patterns = HashMap<NodeId, Pending>;

/// What was padded, with which number, and how far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Padding {
    pub source: Feature,
    pub number: f64,
    pub sides: [usize; 4],
}

impl Padding {
    /// Whether a window that pads with this number by itself does the same.
    pub fn pads_with(&self, number: f64) -> bool {
        // Exporters write "lower than all" as the lowest single-precision number too.
        self.number == number || number == f64::NEG_INFINITY && self.number <= f64::from(f32::MIN)
    }

    pub fn within(&self, outer: &Padding) -> Option<Padding> {
        let sides = std::array::from_fn(|side| self.sides[side] + outer.sides[side]);
        (self.number == outer.number).then_some(Padding { sides, ..*self })
    }
}
