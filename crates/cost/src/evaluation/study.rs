//! The protocols side by side on the same rows.

use super::learning::Learned;
use super::noise::Noise;
use super::trial::Trial;
use crate::fingerprint::{Fingerprint, Gathered, Method};

/// Everything that tells how far a fingerprint can be trusted.
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// The fingerprint's own method.
    pub own: Protocols,
    /// The published method on the same rows; none where it is the fingerprint's own, or was not fitted.
    pub published: Option<Protocols>,
    /// How much the device differs from itself; none where nothing was measured twice.
    pub noise: Option<Noise>,
    /// Why protocols are missing, in words.
    pub missing: Vec<String>,
}

/// One method, tested in different ways on the same rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Protocols {
    /// The method.
    pub method: Method,
    /// Fitted on all rows there are to fit on.
    pub whole: Trial,
    /// Every network answered by a fit that never saw it, at all its levels; none where that cannot be.
    pub left_out: Option<Trial>,
    /// Error against rows fitted on, in ascending rows; empty where no tested level is unseen.
    pub learning: Vec<Learned>,
}

impl Study {
    /// What can be said without fitting anything again, and why that is all.
    pub fn without_fits(fingerprint: &Fingerprint, tested: &Gathered, reason: impl Into<String>) -> Self {
        let whole = Trial::of(fingerprint, &tested.rows, &tested.failed);
        let own = Protocols { method: fingerprint.recipe().method, whole, left_out: None, learning: Vec::new() };
        Study { own, published: None, noise: Noise::of(&tested.rows), missing: vec![reason.into()] }
    }

    /// The published method, whether it is the fingerprint's own or was fitted for comparison.
    pub fn published(&self) -> Option<&Protocols> {
        match self.own.method {
            Method::Perf4sight => Some(&self.own),
            Method::Hybrid => self.published.as_ref(),
        }
    }
}
