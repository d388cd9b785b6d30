//! How times of kernels change from one GPU to another, by class, precision and length: short ones by launches, long ones by
//! rates. Kernels of a trace without shapes are compared with operations that take as long.

use super::{KnownGpu, LeftOut, OperationModel};
use crate::class::Class;
use crate::element::Element;
use crate::row::Row;
use crate::work::Work;
use perf4sight_base::stats::median;
use serde::{Deserialize, Serialize};

/// Operations of a kind that are kept, from the smallest to the largest.
const MOST: usize = 60;
/// The nearest by length that a ratio is the median of.
const NEAREST: usize = 9;

/// An operation that kernels are compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Sample {
    class: String,
    half: bool,
    flops: f64,
    bytes: f64,
    shapes: String,
}

/// Operations of each class and precision, evenly from all.
pub(super) fn samples(rows: &[Row]) -> Vec<Sample> {
    let mut kept = Vec::new();
    for class in Class::ALL {
        for half in [false, true] {
            let mut own: Vec<&Row> =
                rows.iter().filter(|row| row.class == class && row.element.is_half() == half).collect();
            own.sort_by(|one, other| one.time_us.total_cmp(&other.time_us));
            kept.extend(own.iter().step_by(own.len().div_ceil(MOST).max(1)).map(|row| Sample {
                class: class.name().to_owned(),
                half,
                flops: row.work.flops,
                bytes: row.work.bytes,
                shapes: row.shapes.clone(),
            }));
        }
    }
    kept
}

impl Sample {
    pub fn class(&self) -> Option<Class> {
        Class::ALL.into_iter().find(|class| class.name() == self.class)
    }

    /// A row without a time, to be predicted, in a precision.
    fn row(&self, half: bool) -> Option<Row> {
        let element = if half { Element::Fp16 } else { Element::Fp32 };
        let stored = if self.half { Element::Fp16 } else { Element::Fp32 };
        let bytes = self.bytes * element.bytes() / stored.bytes();
        Some(Row {
            gpu: String::new(),
            network: String::new(),
            operation: self.class.clone(),
            class: self.class()?,
            shapes: self.shapes.clone(),
            element,
            work: Work { flops: self.flops, bytes },
            time_us: 0.0,
            count: 1,
        })
    }
}

/// Ratios of times on two GPUs, or in two precisions.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaling {
    /// Class and precision, logarithms of the time before and of the ratio.
    points: Vec<(Class, bool, f64, f64)>,
    /// The logarithm that sums of ratios are within, nine times of ten.
    pub off: f64,
}

impl Scaling {
    pub(super) fn new(model: &OperationModel, from: &KnownGpu, to: &KnownGpu) -> Self {
        let off = |device| model.off(device, LeftOut::total);
        let off = if from == to { 0.0 } else { off(from).hypot(off(to)) };
        let points = model.samples.iter().filter_map(|sample| {
            let row = sample.row(sample.half)?;
            let log = |device: &KnownGpu| model.fitted.log(&row, &device.name, model.share);
            Some((row.class, sample.half, log(from)?, log(to)? - log(from)?))
        });
        Scaling { points: points.collect(), off }
    }

    pub(super) fn to_half(model: &OperationModel, device: &KnownGpu) -> Self {
        let points = model.samples.iter().filter_map(|sample| {
            let rows = [sample.row(false)?, sample.row(true)?];
            let [single, half] = rows.map(|row| Some((row.class, model.fitted.log(&row, &device.name, model.share)?)));
            let ((class, single), (_, half)) = (single?, half?);
            Some((class, false, single, half - single))
        });
        Scaling { points: points.collect(), off: model.off(device, LeftOut::total) * f64::sqrt(2.0) }
    }

    /// The factor by which a kernel of this class, precision and length gets longer. Without a class, or one that was never
    /// measured, of all operations that take as long.
    pub fn ratio(&self, class: Option<Class>, half: Option<bool>, time_us: f64) -> f64 {
        let log = time_us.max(1e-3).ln();
        let of = |is_own: &dyn Fn(Class, bool) -> bool| {
            let own = self.points.iter().filter(|(class, half, ..)| is_own(*class, *half));
            let mut near: Vec<(f64, f64)> = own.map(|(_, _, before, ratio)| ((before - log).abs(), *ratio)).collect();
            near.sort_by(|one, other| one.0.total_cmp(&other.0));
            near.truncate(NEAREST);
            near.into_iter().map(|(_, ratio)| ratio).collect::<Vec<_>>()
        };
        let own = of(&|other, precision| class == Some(other) && half.is_none_or(|half| half == precision));
        let alike = if own.is_empty() { of(&|other, _| class == Some(other)) } else { own };
        let all = if alike.is_empty() { of(&|_, _| true) } else { alike };
        if all.is_empty() { 1.0 } else { median(&all).exp() }
    }
}
