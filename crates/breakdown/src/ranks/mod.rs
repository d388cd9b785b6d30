//! Analyses several ranks of one run: missing ranks, and stragglers.

pub(crate) mod missing;
pub(crate) mod stragglers;
