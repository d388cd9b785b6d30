//! The category of every moment, and the published metrics that follow from it.

pub(crate) mod category;
pub(crate) mod metrics;
pub(crate) mod recorded;
pub(crate) mod sets;
pub(crate) mod thread_state;
