//! Backward one operation at a time (`tape.cpp`), for timing each: computations, allocations and frees of a step stay
//! the same.
#![allow(unsafe_code)] // tch differentiates whole graphs only

use super::shim::checked;
use std::ffi::c_void;
use std::marker::PhantomData;
use tch::{Kind, TchError, Tensor};

mod functions {
    use super::c_void;

    unsafe extern "C" {
        pub fn p4s_tape_new() -> *mut c_void;
        pub fn p4s_tape_free(tape: *mut c_void);
        pub fn p4s_tape_record(tape: *mut c_void, result: *const c_void) -> bool;
        pub fn p4s_tape_begin(tape: *mut c_void, gradient: *const c_void) -> bool;
        pub fn p4s_tape_differentiate(tape: *mut c_void, operation: usize) -> bool;
    }
}

/// The results of one step's operations, in the order they ran, and the gradients on their way back.
pub(super) struct AutogradTape {
    tape: *mut c_void,
    /// libtorch's gradient mode and the functions' order are a thread's own.
    _one_thread: PhantomData<*const ()>,
}

impl AutogradTape {
    pub fn new() -> Self {
        // SAFETY: makes an object that only this value points to.
        AutogradTape { tape: unsafe { functions::p4s_tape_new() }, _one_thread: PhantomData }
    }

    /// Takes note of the result of the operation that just ran.
    pub fn record(&mut self, result: &Tensor) -> Result<(), TchError> {
        // SAFETY: the tape is alive, and so is the tensor, whose pointer tch holds as an `at::Tensor *`.
        checked(unsafe { functions::p4s_tape_record(self.tape, result.as_ptr().cast()) })
    }

    /// Begins backward at the last result, a loss.
    pub fn begin(&mut self, loss: &Tensor) -> Result<(), TchError> {
        let one = loss.f_ones_like()?.f_to_kind(Kind::Float)?;
        // SAFETY: as in `record`; the tape keeps a reference of its own.
        checked(unsafe { functions::p4s_tape_begin(self.tape, one.as_ptr().cast()) })
    }

    /// Runs backward of one operation, by its position among the recorded ones; all later ones must have run.
    pub fn differentiate(&mut self, operation: usize) -> Result<(), TchError> {
        // SAFETY: the tape is alive; a position that was never recorded is an exception, which the shim catches.
        checked(unsafe { functions::p4s_tape_differentiate(self.tape, operation) })
    }
}

impl Drop for AutogradTape {
    fn drop(&mut self) {
        // SAFETY: made by `new`, freed once.
        unsafe { functions::p4s_tape_free(self.tape) }
    }
}
