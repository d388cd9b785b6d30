//! Where the time of a step goes: by class of operation and by layer.

use crate::units::Milliseconds;

/// What a step's predicted latency is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Shares {
    /// By class of operation, the costliest first; together the whole latency.
    pub classes: Vec<Share>,
    /// By layer of the network, the costliest first; what no layer owns, such as the loss, is in none.
    pub layers: Vec<Share>,
}

/// One part of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// The class in words, or the layer's name.
    pub name: String,
    /// Its part of the predicted latency.
    pub latency: Milliseconds,
}
