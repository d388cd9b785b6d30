//! The building blocks of kernels' terms on any device.
//!
//! Every term is positive and grows with the batch size for all (positive) parameters, except where PyTorch switches
//! to another library (`super::processor`); therefore so do all times made of them. Work is counted in millions,
//! rates in billions a second, so that times are milliseconds.

use super::term::TimeTerm;
use crate::features::physical::{AccessPattern, FilterGeometry, Kernel, KernelClass, KernelPass, MatrixProduct};
use perf4sight_platform::{AssumedSpeed, ConvolutionQuery, Platform, SpeedParameter};

/// The computation rules of a kind of device.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeviceRules<'a> {
    pub(super) speed: &'a AssumedSpeed,
    pub(super) platform: &'a Platform,
}

pub(super) const MILLION: f64 = 1e6;

pub(super) type KernelTerms = [Option<TimeTerm>; 5];

impl DeviceRules<'_> {
    /// Bytes over a bandwidth.
    pub(super) fn movement(&self, kernel: &Kernel, batch: f64) -> TimeTerm {
        let traffic = self.effort(kernel) * kernel.traffic.for_batch(batch) / MILLION;
        match kernel.access {
            // A GPU thread does not share its window with neighbouring threads.
            AccessPattern::Windowed => {
                TimeTerm::new(kernel.windows.for_batch(batch) / MILLION, of_windows(kernel.pass), [None; 2])
            }
            AccessPattern::Strided => {
                TimeTerm::new(traffic, SpeedParameter::Bandwidth, [of_kind(kernel), Some(SpeedParameter::Strided)])
            }
            AccessPattern::Contiguous => TimeTerm::new(traffic, SpeedParameter::Bandwidth, [of_kind(kernel), None]),
        }
    }

    /// Time of the kernel's function relative to the simplest element-wise function.
    pub(super) fn effort(&self, kernel: &Kernel) -> f64 {
        let times = kernel.function.and_then(|function| self.speed.functions.get(function.name()));
        times.map_or(1.0, |[forward, backward]| if kernel.pass == KernelPass::Forward { *forward } else { *backward })
    }

    /// A matrix product. It is slower where rows (as many as are computed), the summed axis or the tiles in flight
    /// are few, and padding multiplies its size.
    pub(super) fn padded_product(
        &self,
        kernel: &Kernel,
        product: &MatrixProduct,
        batch: f64,
        [computed, padded]: [f64; 2],
    ) -> TimeTerm {
        let AssumedSpeed { quantum, tile, .. } = *self.speed;
        let [rows, columns, inner, blocks] =
            [product.rows, product.columns, product.inner, product.blocks].map(|amount| amount.for_batch(batch));
        // Columns and blocks grow with the batch. They are neither rounded up to tiles nor checked for raggedness, or
        // a larger batch could take less time.
        let tiles = (rows / tile).ceil() * (columns / tile).max(1.0) * blocks;
        let ragged = [product.rows, product.inner].iter().any(|axis| axis.sample == 0.0 && axis.fixed % quantum != 0.0);
        let work = padded * product.flops(batch) / MILLION;
        TimeTerm::new(work, SpeedParameter::Compute, [of_shape(kernel.class), of_pass(kernel.pass)]).with_losses([
            (SpeedParameter::RowLoss, 1.0 / computed),
            (SpeedParameter::InnerLoss, 1.0 / inner),
            (SpeedParameter::TileLoss, 1.0 / tiles),
            (SpeedParameter::RaggedLoss, f64::from(u8::from(ragged))),
            (SpeedParameter::SmallBatchLoss, if is_dense(kernel.class) { small_batch(batch) } else { 0.0 }),
        ])
    }
}

pub(super) fn convolution_query(filter: &FilterGeometry) -> ConvolutionQuery {
    let channels = filter.channels[0];
    ConvolutionQuery {
        kernel: filter.kernel,
        moves_by_one: filter.moves_by_one(),
        groups: filter.groups,
        channels: channels as usize,
        elements: (channels * filter.pixels()) as u64,
    }
}

pub(super) fn round_up(size: f64, step: f64) -> f64 {
    (size / step).ceil() * step
}

/// The share of the small-batch loss: all of it up to a batch of 8, none from 16 on. In between the time lost shrinks no faster than
/// the work grows, as long as the loss is at most 1.
pub(super) fn small_batch(batch: f64) -> f64 {
    (16.0 / batch - 1.0).clamp(0.0, 1.0)
}

fn is_dense(class: KernelClass) -> bool {
    matches!(class, KernelClass::Pointwise | KernelClass::Conv3x3 | KernelClass::ConvLarge | KernelClass::Grouped)
}

pub(super) fn of_shape(class: KernelClass) -> Option<SpeedParameter> {
    match class {
        KernelClass::Conv3x3 => Some(SpeedParameter::Conv3x3),
        KernelClass::ConvLarge => Some(SpeedParameter::ConvLarge),
        KernelClass::Grouped => Some(SpeedParameter::Grouped),
        // The speed of products that were not measured is taken from these.
        KernelClass::Linear | KernelClass::MatMul | KernelClass::Unknown => Some(SpeedParameter::Linear),
        // The reference for the speed of the others.
        KernelClass::Pointwise => None,
        // These multiply no matrices.
        KernelClass::Depthwise
        | KernelClass::Normalisation
        | KernelClass::Activation
        | KernelClass::Dropout
        | KernelClass::Arithmetic => None,
        KernelClass::Copy | KernelClass::Pooling | KernelClass::Softmax | KernelClass::Loss | KernelClass::Update => {
            None
        }
    }
}

pub(super) fn of_pass(pass: KernelPass) -> Option<SpeedParameter> {
    match pass {
        KernelPass::InputGradient => Some(SpeedParameter::InputGradient),
        KernelPass::WeightGradient => Some(SpeedParameter::WeightGradient),
        KernelPass::Forward | KernelPass::Loss | KernelPass::Fork | KernelPass::Update => None,
    }
}

fn of_windows(pass: KernelPass) -> SpeedParameter {
    if pass == KernelPass::WeightGradient { SpeedParameter::WindowGradient } else { SpeedParameter::Windows }
}

fn of_kind(kernel: &Kernel) -> Option<SpeedParameter> {
    match kernel.class {
        // Its gradient multiplies by the mask drawn before.
        KernelClass::Dropout if kernel.pass == KernelPass::Forward => Some(SpeedParameter::Dropout),
        KernelClass::Dropout => Some(SpeedParameter::Activation),
        KernelClass::Normalisation | KernelClass::Softmax => Some(SpeedParameter::Normalisation),
        KernelClass::Activation => Some(SpeedParameter::Activation),
        KernelClass::Pooling => Some(SpeedParameter::Pooling),
        KernelClass::Update => Some(SpeedParameter::Update),
        KernelClass::Arithmetic | KernelClass::Copy | KernelClass::Loss | KernelClass::Unknown => None,
        // Their traffic besides the products.
        KernelClass::Pointwise
        | KernelClass::Conv3x3
        | KernelClass::ConvLarge
        | KernelClass::Grouped
        | KernelClass::Depthwise => None,
        KernelClass::Linear | KernelClass::MatMul => None,
    }
}
