//! The counting allocator under libtorch's tensors (`allocator.cpp`): exact bytes, and a cap that makes running out real.
//!
//! It counts the requests of libtorch to its CPU allocator, to the byte: weights, tensors, tensors that autograd saves,
//! and oneDNN's reordered weights and scratchpads, some of whose sizes depend on the number of threads. Not counted, as
//! a trace of every malloc and mmap of a step shows: oneDNN's compiled kernels (256 KiB mappings, a hundred or two),
//! MKL's packing buffers (under 1 MB a thread), code and stacks. Those show in the resident set only.
#![allow(unsafe_code)] // calls of C functions over atomics

mod shim {
    unsafe extern "C" {
        pub fn p4s_install(limit: u64);
        pub fn p4s_map_large(on: bool);
        pub fn p4s_peak() -> u64;
        pub fn p4s_refused() -> bool;
    }

    #[cfg(test)]
    unsafe extern "C" {
        pub fn p4s_take(bytes: u64) -> *mut u8;
        pub fn p4s_give_back(block: *mut u8);
        pub fn p4s_current() -> u64;
    }
}

/// Puts the counting allocator under all tensors from now on, refusing past `limit` bytes. Call before the first tensor.
pub(super) fn install(limit: Option<u64>) {
    // SAFETY: the shim hands libtorch an object of static lifetime, and no other thread runs libtorch yet.
    unsafe { shim::p4s_install(limit.unwrap_or(u64::MAX)) }
}

/// Whether blocks from 128 KiB on get mappings of their own from now on, which end when they are freed, or come from a
/// heap that keeps freed memory.
///
/// With mappings the resident set is the need of the step. With the heap it is 1.4 to 1.9 times the tensors: freed
/// blocks of up to 32 MiB stay there and fragment it. That repeats on one thread; on more, threads race for heaps and
/// equal runs differ by up to 13 %. But mapping costs time, so latency is measured with the heap.
pub(super) fn map_large(on: bool) {
    // SAFETY: sets one atomic; every block stores how it is freed.
    unsafe { shim::p4s_map_large(on) }
}

/// Most bytes in use at once so far.
pub(super) fn peak() -> u64 {
    // SAFETY: reads one atomic.
    unsafe { shim::p4s_peak() }
}

/// Whether an allocation was ever refused: distinguishes out of memory from every other failure of libtorch.
pub(super) fn refused() -> bool {
    // SAFETY: reads one atomic.
    unsafe { shim::p4s_refused() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of that many bytes, every one of them written; nothing else is counted, for the allocator is not
    /// installed.
    fn block(bytes: u64, value: u8) -> (*mut u8, u64, u8) {
        // SAFETY: the block has that many bytes and belongs to this test alone.
        unsafe {
            let start = shim::p4s_take(bytes);
            start.write_bytes(value, bytes as usize);
            (start, bytes, value)
        }
    }

    fn give_back((start, bytes, value): (*mut u8, u64, u8)) {
        // SAFETY: `block` wrote all of it, and it is freed once.
        unsafe {
            let written = std::slice::from_raw_parts(start, bytes as usize);
            assert!(written.iter().all(|byte| *byte == value), "{bytes} bytes were overwritten");
            shim::p4s_give_back(start);
        }
    }

    #[test]
    fn blocks_are_counted_and_go_back_the_way_they_came() {
        // Around the smallest mapped block, which is 128 KiB with its 64 bytes of header, and around a page.
        let sizes = [1, 4032, 4033, (128 << 10) - 65, (128 << 10) - 64, 128 << 10, (1 << 20) + 3];
        let mut held = Vec::new();
        for (round, mapped) in [true, false, true].into_iter().enumerate() {
            map_large(mapped);
            held.extend(sizes.map(|size| block(size, 1 + round as u8)));
        }
        let total: u64 = 3 * sizes.iter().sum::<u64>();
        // SAFETY: reads one atomic.
        let current = || unsafe { shim::p4s_current() };
        assert_eq!((current(), peak()), (total, total));
        assert!(
            held.iter().all(|(start, ..)| (*start as usize).is_multiple_of(64)),
            "vector instructions need 64 bytes"
        );
        // Half of them are freed under the other setting than they were obtained under.
        map_large(false);
        held.into_iter().rev().for_each(give_back);
        assert_eq!((current(), peak(), refused()), (0, total, false));
    }
}
