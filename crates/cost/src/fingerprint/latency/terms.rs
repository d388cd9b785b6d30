//! The building blocks of kernels' terms on any device.
//!
//! Every term is positive and grows with the batch size for all (positive) parameters, except where PyTorch switches
//! to another library (`super::processor`); therefore so do all times made of them. Work is counted in millions,
//! rates in billions a second, so that times are milliseconds.

use super::term::Term;
use crate::features::physical::{Access, Class, Filter, Kernel, Pass, Product};
use perf4sight_platform::{Asked, Parameter, Platform, Speed};

/// The computation rules of a kind of device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) speed: &'a Speed,
    pub(super) platform: &'a Platform,
}

pub(super) const MILLION: f64 = 1e6;

pub(super) type KernelTerms = [Option<Term>; 5];

impl Rules<'_> {
    /// Bytes over a bandwidth.
    pub(super) fn movement(&self, kernel: &Kernel, batch: f64) -> Term {
        let traffic = self.effort(kernel) * kernel.traffic.at(batch) / MILLION;
        match kernel.access {
            // A GPU thread does not share its window with neighbouring threads.
            Access::Windowed => Term::new(kernel.windows.at(batch) / MILLION, of_windows(kernel.pass), [None; 2]),
            Access::Strided => Term::new(traffic, Parameter::Bandwidth, [of_kind(kernel), Some(Parameter::Strided)]),
            Access::Contiguous => Term::new(traffic, Parameter::Bandwidth, [of_kind(kernel), None]),
        }
    }

    /// Time of the kernel's function relative to the simplest element-wise function.
    pub(super) fn effort(&self, kernel: &Kernel) -> f64 {
        let times = kernel.function.and_then(|function| self.speed.functions.get(function.name()));
        times.map_or(1.0, |[forward, backward]| if kernel.pass == Pass::Forward { *forward } else { *backward })
    }

    /// A matrix product. It is slower where rows (as many as are computed), the summed axis or the tiles in flight
    /// are few, and padding multiplies its size.
    pub(super) fn padded(&self, kernel: &Kernel, product: &Product, batch: f64, [computed, padded]: [f64; 2]) -> Term {
        let Speed { quantum, tile, .. } = *self.speed;
        let [rows, columns, inner, blocks] =
            [product.rows, product.columns, product.inner, product.blocks].map(|amount| amount.at(batch));
        // Columns and blocks grow with the batch. They are neither rounded up to tiles nor checked for raggedness, or
        // a larger batch could take less time.
        let tiles = (rows / tile).ceil() * (columns / tile).max(1.0) * blocks;
        let ragged = [product.rows, product.inner].iter().any(|axis| axis.sample == 0.0 && axis.fixed % quantum != 0.0);
        let work = padded * product.flops(batch) / MILLION;
        Term::new(work, Parameter::Compute, [of_shape(kernel.class), of_pass(kernel.pass)]).losing([
            (Parameter::RowLoss, 1.0 / computed),
            (Parameter::InnerLoss, 1.0 / inner),
            (Parameter::TileLoss, 1.0 / tiles),
            (Parameter::RaggedLoss, f64::from(u8::from(ragged))),
            (Parameter::SmallBatchLoss, if is_dense(kernel.class) { small_batch(batch) } else { 0.0 }),
        ])
    }
}

pub(super) fn asked(filter: &Filter) -> Asked {
    let channels = filter.channels[0];
    Asked {
        kernel: filter.kernel,
        moves_by_one: filter.moves_by_one(),
        groups: filter.groups,
        channels: channels as usize,
        elements: (channels * filter.pixels()) as u64,
    }
}

pub(super) fn up(size: f64, step: f64) -> f64 {
    (size / step).ceil() * step
}

/// The share of the small-batch loss: all of it up to a batch of 8, none from 16 on. In between the time lost shrinks no faster than
/// the work grows, as long as the loss is at most 1.
pub(super) fn small_batch(batch: f64) -> f64 {
    (16.0 / batch - 1.0).clamp(0.0, 1.0)
}

fn is_dense(class: Class) -> bool {
    matches!(class, Class::Pointwise | Class::Conv3x3 | Class::ConvLarge | Class::Grouped)
}

pub(super) fn of_shape(class: Class) -> Option<Parameter> {
    match class {
        Class::Conv3x3 => Some(Parameter::Conv3x3),
        Class::ConvLarge => Some(Parameter::ConvLarge),
        Class::Grouped => Some(Parameter::Grouped),
        // The speed of products that were not measured is taken from these.
        Class::Linear | Class::MatMul | Class::Unknown => Some(Parameter::Linear),
        // The reference for the speed of the others.
        Class::Pointwise => None,
        // These multiply no matrices.
        Class::Depthwise | Class::Normalisation | Class::Activation | Class::Dropout | Class::Arithmetic => None,
        Class::Copy | Class::Pooling | Class::Softmax | Class::Loss | Class::Update => None,
    }
}

pub(super) fn of_pass(pass: Pass) -> Option<Parameter> {
    match pass {
        Pass::InputGradient => Some(Parameter::InputGradient),
        Pass::WeightGradient => Some(Parameter::WeightGradient),
        Pass::Forward | Pass::Loss | Pass::Fork | Pass::Update => None,
    }
}

fn of_windows(pass: Pass) -> Parameter {
    if pass == Pass::WeightGradient { Parameter::WindowGradient } else { Parameter::Windows }
}

fn of_kind(kernel: &Kernel) -> Option<Parameter> {
    match kernel.class {
        // Its gradient multiplies by the mask drawn before.
        Class::Dropout if kernel.pass == Pass::Forward => Some(Parameter::Dropout),
        Class::Dropout => Some(Parameter::Activation),
        Class::Normalisation | Class::Softmax => Some(Parameter::Normalisation),
        Class::Activation => Some(Parameter::Activation),
        Class::Pooling => Some(Parameter::Pooling),
        Class::Update => Some(Parameter::Update),
        Class::Arithmetic | Class::Copy | Class::Loss | Class::Unknown => None,
        // Their traffic besides the products.
        Class::Pointwise | Class::Conv3x3 | Class::ConvLarge | Class::Grouped | Class::Depthwise => None,
        Class::Linear | Class::MatMul => None,
    }
}
