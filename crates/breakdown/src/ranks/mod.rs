//! Several ranks of one run: which are missing, and which the others wait for.

pub(crate) mod missing;
pub(crate) mod stragglers;
