//! Calls by name and by caller.

pub(crate) mod callers;
pub(crate) mod costs;
pub(crate) mod names;
pub(crate) mod stacks;
