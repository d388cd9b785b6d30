//! Segments of a forward pass that keep their inputs alone and run again in backward (`checkpoint.cpp`).
#![allow(unsafe_code)] // libtorch's hooks for what autograd saves have no Rust interface

use super::shim::checked;
use std::ffi::{CString, c_char, c_void};
use tch::{Device, TchError};

/// Runs the operations of a segment.
type RunAgain = Box<dyn Fn() -> Result<(), TchError>>;

mod functions {
    use super::{c_char, c_void};

    unsafe extern "C" {
        pub fn p4s_checkpoint_begin(
            again: extern "C" fn(*const c_void) -> bool,
            drop: extern "C" fn(*mut c_void),
            context: *mut c_void,
            cuda: bool,
        ) -> bool;
        pub fn p4s_checkpoint_end();
        pub fn p4s_checkpoint_failed(problem: *const c_char);
    }
}

/// Runs a segment's forward without keeping its saved tensors. Backward first runs `again`, which must do the same, and
/// drops it when it is done with the segment. On a GPU that happens on libtorch's own thread, while the thread that
/// called backward waits.
pub(super) fn checkpointed<T>(
    device: Device,
    again: impl Fn() -> Result<(), TchError> + 'static,
    forward: impl FnOnce() -> Result<T, TchError>,
) -> Result<T, TchError> {
    let again: Box<RunAgain> = Box::new(Box::new(again));
    let context = Box::into_raw(again).cast();
    // SAFETY: both functions cast the context to its true type, and no other code frees it. Tensors exist, so libtorch
    // is loaded.
    checked(unsafe { functions::p4s_checkpoint_begin(run, free, context, device.is_cuda()) })?;
    let result = forward();
    // SAFETY: drops a reference that this thread holds.
    unsafe { functions::p4s_checkpoint_end() };
    result
}

extern "C" fn run(context: *const c_void) -> bool {
    // SAFETY: a context of `checkpointed`, which the caller holds.
    let again = unsafe { &*context.cast::<RunAgain>() };
    let Err(problem) = again() else { return true };
    let problem = CString::new(problem.to_string()).unwrap_or_default();
    // SAFETY: a string that ends with a zero, which is copied.
    unsafe { functions::p4s_checkpoint_failed(problem.as_ptr()) };
    false
}

extern "C" fn free(context: *mut c_void) {
    // SAFETY: made by `checkpointed`, freed once.
    drop(unsafe { Box::from_raw(context.cast::<RunAgain>()) });
}
