//! libtorch on this machine's processor: the worker that runs one configuration and counts what it cost.

pub mod allocator;
