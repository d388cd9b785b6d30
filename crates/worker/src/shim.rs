//! How calls of the C++ shim fail (`attempt.h`).
#![allow(unsafe_code)] // reads a C string

use std::ffi::{CStr, c_char};
use tch::TchError;

mod functions {
    use super::c_char;

    unsafe extern "C" {
        pub fn p4s_problem() -> *const c_char;
    }
}

/// The reason of a call that returned false.
pub(super) fn checked(done: bool) -> Result<(), TchError> {
    if done {
        return Ok(());
    }
    // SAFETY: a C string that lives until this thread's next failure.
    let problem = unsafe { CStr::from_ptr(functions::p4s_problem()) };
    Err(TchError::Torch(problem.to_string_lossy().into_owned()))
}
