//! Where the time of a step goes: by class of operation and by layer.

use perf4sight_base::units::Milliseconds;

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

/// One operation of a step, forward or backward, or what belongs to none: measured and predicted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimedOperation {
    /// The class in words.
    pub class: &'static str,
    /// As the profile timed it, in place.
    pub measured: Milliseconds,
    /// By itself: what operations do at the same time or to one another's caches is not in it.
    pub predicted: Milliseconds,
}
