//! PyTorch's autocast (`autocast.cpp`), and the scaler that keeps half-precision gradients within range.
#![allow(unsafe_code)] // tch supports autocast on CUDA only

use super::shim::checked;
use perf4sight_step::workload::{NumberFormat, Precision};
use std::ffi::c_void;
use tch::{Device, Kind, TchError, Tensor};

mod functions {
    use super::c_void;

    unsafe extern "C" {
        pub fn p4s_autocast_begin(gpu: bool, half: bool) -> bool;
        pub fn p4s_autocast_end(gpu: bool) -> bool;
        pub fn p4s_unscale(
            gradients: *const *const c_void,
            count: usize,
            found: *mut c_void,
            inverse_scale: *const c_void,
        ) -> bool;
    }
}

/// Runs a closure at a precision: under autocast, whose casts of weights are freed at its end, or without.
pub(super) fn casting<T>(
    precision: Precision,
    device: Device,
    run: impl FnOnce() -> Result<T, TchError>,
) -> Result<T, TchError> {
    let half = match precision.autocast() {
        None | Some(NumberFormat::Fp32) => return run(),
        Some(NumberFormat::Fp16) => true,
        Some(NumberFormat::Bf16) => false,
    };
    let gpu = device.is_cuda();
    // SAFETY: libtorch's switches of this thread.
    checked(unsafe { functions::p4s_autocast_begin(gpu, half) })?;
    let result = run();
    // SAFETY: as above.
    checked(unsafe { functions::p4s_autocast_end(gpu) })?;
    result
}

/// The state of `torch.amp.GradScaler`, with its default numbers.
pub(super) struct Scaler {
    scale: Tensor,
    growth: Tensor,
    found: Tensor,
}

impl Scaler {
    const FIRST_SCALE: f64 = 65536.0;
    const GROWTH: f64 = 2.0;
    const BACKOFF: f64 = 0.5;
    const INTERVAL: i64 = 2000;
    /// Halving the scale so often leaves nothing of it.
    pub const MOST_LEFT_OUT: u32 = 40;

    /// On a device; none where a precision has none.
    pub fn new(precision: Precision, device: Device) -> Result<Option<Self>, TchError> {
        if !precision.autocast().is_some_and(NumberFormat::needs_scaler) {
            return Ok(None);
        }
        let number: [i64; 0] = [];
        let scale = Tensor::f_full(number, Self::FIRST_SCALE, (Kind::Float, device))?;
        let growth = Tensor::f_zeros(number, (Kind::Int, device))?;
        Ok(Some(Scaler { scale, growth, found: Tensor::f_zeros(number, (Kind::Float, device))? }))
    }

    /// The loss, scaled to keep its gradients within range.
    pub fn scaled(&self, loss: &Tensor) -> Result<Tensor, TchError> {
        loss.f_mul(&self.scale)
    }

    /// Divides gradients by the scale; whether all of them are numbers.
    pub fn unscale(&mut self, gradients: &[Tensor]) -> Result<bool, TchError> {
        let _ = self.found.f_zero_()?;
        let inverse = self.scale.f_to_kind(Kind::Double)?.f_reciprocal()?.f_to_kind(Kind::Float)?;
        let pointers: Vec<*const c_void> =
            gradients.iter().map(|gradient| gradient.as_ptr().cast::<c_void>()).collect();
        let found = self.found.as_mut_ptr().cast();
        // SAFETY: all tensors are alive; tch holds each as an `at::Tensor *`.
        let done = unsafe { functions::p4s_unscale(pointers.as_ptr(), pointers.len(), found, inverse.as_ptr().cast()) };
        checked(done)?;
        self.lets_through()
    }

    /// Whether all gradients that it saw last were numbers.
    pub fn lets_through(&self) -> Result<bool, TchError> {
        Ok(self.found.f_double_value(&[])? == 0.0)
    }

    /// Grows the scale after many steps without trouble, shrinks it after one with.
    pub fn update(&mut self) -> Result<(), TchError> {
        let Scaler { scale, growth, found } = self;
        scale.f_internal_amp_update_scale_(growth, found, Self::GROWTH, Self::BACKOFF, Self::INTERVAL).map(drop)
    }
}
