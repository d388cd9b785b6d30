//! The counting allocator under libtorch's tensors (`shim.cpp`): exact bytes, and a cap that makes running out real.
//!
//! Counted is what libtorch asks its CPU allocator for, to the byte: weights, tensors, what autograd saves, and oneDNN's
//! reordered weights and scratchpads, some of whose sizes depend on the number of threads. Not counted, as a trace of every
//! malloc and mmap of a step shows: oneDNN's compiled kernels (256 KiB mappings, a hundred or two), MKL's packing buffers (under 1 MB a thread), code
//! and stacks. Those show in the resident set only.
#![allow(unsafe_code)] // the only room of the crate that needs it: three C functions over atomics

mod shim {
    unsafe extern "C" {
        pub fn p4s_install(limit: u64);
        pub fn p4s_peak() -> u64;
        pub fn p4s_refused() -> bool;
    }
}

/// Puts the counting allocator under all tensors from now on, refusing past `limit` bytes. Call before the first tensor.
pub(super) fn install(limit: Option<u64>) {
    // SAFETY: the shim hands libtorch an object of static lifetime, and no other thread runs libtorch yet.
    unsafe { shim::p4s_install(limit.unwrap_or(u64::MAX)) }
}

/// Most bytes in use at once so far.
pub(super) fn peak() -> u64 {
    // SAFETY: reads one atomic.
    unsafe { shim::p4s_peak() }
}

/// Whether an allocation was ever refused: what tells running out of memory from every other failure of libtorch.
pub(super) fn refused() -> bool {
    // SAFETY: reads one atomic.
    unsafe { shim::p4s_refused() }
}
