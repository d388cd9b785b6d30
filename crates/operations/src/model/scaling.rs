//! How times of kernels change from one GPU to another, by class, precision and length: short ones by launches, long ones by
//! rates. Kernels of a trace without shapes are compared with operations that take as long.

use super::physical::PeakRates;
use super::{KnownGpu, LeftOutGroups, OperationModel};
use crate::class::OperationClass;
use crate::element::ElementType;
use crate::row::OperationRow;
use crate::work::OperationWork;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Operations of a kind that are kept, from the smallest to the largest.
const MOST: usize = 60;
/// Operations count by the inverse fourth power of how far their length is from that of a kernel (Shepard's method), as a logarithm, and of
/// this much more, within which times scatter.
const SCATTER: f64 = 0.2;

/// An operation that kernels are compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ComparedOperation {
    class: String,
    half: bool,
    flops: f64,
    bytes: f64,
    shapes: String,
}

/// Operations of each class and precision, evenly from all.
pub(super) fn samples(rows: &[OperationRow]) -> Vec<ComparedOperation> {
    let mut kept = Vec::new();
    for class in OperationClass::ALL {
        for half in [false, true] {
            let mut own: Vec<&OperationRow> =
                rows.iter().filter(|row| row.class == class && row.element.is_half() == half).collect();
            own.sort_by(|one, other| one.time_us.total_cmp(&other.time_us));
            kept.extend(own.iter().step_by(own.len().div_ceil(MOST).max(1)).map(|row| ComparedOperation {
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

impl ComparedOperation {
    pub fn class(&self) -> Option<OperationClass> {
        OperationClass::ALL.into_iter().find(|class| class.name() == self.class)
    }

    /// A row without a time, to be predicted, in a precision.
    fn row(&self, half: bool) -> Option<OperationRow> {
        let element = if half { ElementType::Fp16 } else { ElementType::Fp32 };
        let stored = if self.half { ElementType::Fp16 } else { ElementType::Fp32 };
        let bytes = self.bytes * element.bytes() / stored.bytes();
        Some(OperationRow {
            gpu: String::new(),
            network: String::new(),
            operation: self.class.clone(),
            class: self.class()?,
            shapes: self.shapes.clone(),
            element,
            work: OperationWork { flops: self.flops, bytes },
            time_us: 0.0,
            count: 1,
        })
    }
}

/// Ratios of times on two GPUs, or in two precisions.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeScaling {
    points: Vec<ScalingPoint>,
    /// The logarithm that sums of ratios are within, nine times of ten, of the class and precision that is off most.
    pub off: f64,
    /// The least and the greatest ratio by data sheets: of FLOPs a second, of bytes a second, of a launch, which stays.
    sheets: [f64; 2],
}

/// An operation whose times before and after are predicted.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ScalingPoint {
    class: OperationClass,
    half: bool,
    /// The logarithm of the time before.
    before: f64,
    /// The logarithm of the ratio.
    ratio: f64,
    /// The logarithm that sums of such ratios are within.
    off: f64,
}

/// The least and the greatest ratio of times between two GPUs by their data sheets alone.
pub(crate) fn by_sheets(from: &str, to: &str) -> [f64; 2] {
    let ratios = PeakRates::for_gpu(from).ratios(&PeakRates::for_gpu(to));
    ratios.into_iter().fold([1.0; 2], |[least, most], ratio| [f64::min(least, ratio), f64::max(most, ratio)])
}

impl TimeScaling {
    pub(super) fn new(model: &OperationModel, from: &KnownGpu, to: &KnownGpu) -> Self {
        let point = |class, half, [before, after]: [f64; 2]| {
            let off = |device| model.class_error(device, class, half, LeftOutGroups::total);
            let off = if from == to { 0.0 } else { off(from).hypot(off(to)) };
            ScalingPoint { class, half, before, ratio: after - before, off }
        };
        let points = model.samples.iter().filter_map(|sample| {
            let row = sample.row(sample.half)?;
            let log = |device: &KnownGpu| model.fitted.log(&row, &device.name, model.share);
            Some(point(row.class, sample.half, [log(from)?, log(to)?]))
        });
        let launches = kinds(model).into_iter().filter_map(|(class, half)| {
            let log = |device: &KnownGpu| launch(model, device, class, half);
            Some(point(class, half, [log(from)?, log(to)?]))
        });
        TimeScaling::from_points(points.chain(launches).collect(), by_sheets(&from.name, &to.name))
    }

    fn from_points(points: Vec<ScalingPoint>, sheets: [f64; 2]) -> Self {
        TimeScaling { off: points.iter().map(|point| point.off).fold(0.0, f64::max), points, sheets }
    }

    /// Whether operations of a class, and of a precision where it is known, were measured.
    pub fn knows(&self, class: OperationClass, half: Option<bool>) -> bool {
        self.points.iter().any(|point| point.class == class && half.is_none_or(|half| half == point.half))
    }

    /// From single to half precision, by classes that were measured in both.
    pub(super) fn to_half(model: &OperationModel, device: &KnownGpu) -> Self {
        let kinds = kinds(model);
        let is_known = |class: OperationClass| [false, true].into_iter().all(|half| kinds.contains(&(class, half)));
        let point = |class, [before, after]: [f64; 2]| {
            let off = |half| model.class_error(device, class, half, LeftOutGroups::total);
            ScalingPoint { class, half: false, before, ratio: after - before, off: off(false).hypot(off(true)) }
        };
        let points = model.samples.iter().filter_map(|sample| {
            let [single, half] = [sample.row(false)?, sample.row(true)?];
            let log = |row: &OperationRow| model.fitted.log(row, &device.name, model.share);
            Some(point(single.class, [log(&single)?, log(&half)?]))
        });
        let launches = kinds.iter().filter_map(|(class, _)| {
            Some(point(*class, [launch(model, device, *class, false)?, launch(model, device, *class, true)?]))
        });
        let known = points.chain(launches).filter(|point| is_known(point.class));
        TimeScaling::from_points(known.collect(), PeakRates::for_gpu(&device.name).to_half())
    }

    /// The factor by which a kernel of this class, precision and length gets longer. Without a class, or one that was never
    /// measured, of all operations that take as long.
    pub fn ratio(&self, class: Option<OperationClass>, half: Option<bool>, time_us: f64) -> f64 {
        let log = time_us.max(1e-3).ln();
        let of = |is_own: &dyn Fn(&ScalingPoint) -> bool| {
            let weighted = self.points.iter().filter(|point| is_own(point)).map(|point| {
                let weight = ((point.before - log).abs() + SCATTER).powi(-4);
                [weight, weight * point.ratio]
            });
            let [weight, sum] = weighted.fold([0.0, 0.0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
            (weight > 0.0).then(|| (sum / weight).exp())
        };
        of(&|point| class == Some(point.class) && half.is_none_or(|half| half == point.half))
            .or_else(|| of(&|point| class == Some(point.class)))
            .or_else(|| of(&|_| true))
            .unwrap_or(1.0)
    }

    /// The same at a bound of its error (-1 or 1; 0 is none): what was measured is off as such operations are, all else between what the data sheets allow.
    pub fn ratio_at(&self, bound: f64, class: Option<OperationClass>, half: Option<bool>, time_us: f64) -> f64 {
        let [least, most] = self.sheets;
        let ratio = self.ratio(class, half, time_us);
        match class.filter(|class| self.knows(*class, half)) {
            Some(class) => ratio * (bound * self.off_of(class, half)).exp(),
            None if bound == 0.0 => ratio.clamp(least, most),
            None if bound < 0.0 => least,
            None => most,
        }
    }

    /// The logarithm that sums over operations of a class and precision are within.
    fn off_of(&self, class: OperationClass, half: Option<bool>) -> f64 {
        let own = self.points.iter().filter(|point| point.class == class && half.is_none_or(|half| half == point.half));
        own.map(|point| point.off).fold(0.0, f64::max)
    }
}

/// A GPU as one that was measured only if operations of the class and precision were measured on it.
pub(super) fn measured_in(model: &OperationModel, device: &KnownGpu, class: OperationClass, half: bool) -> KnownGpu {
    let measured = device.measured && model.fitted.physical.is_measured(&device.name, class, half);
    KnownGpu { measured, ..device.clone() }
}

/// Classes and precisions of which operations are kept.
fn kinds(model: &OperationModel) -> BTreeSet<(OperationClass, bool)> {
    model.samples.iter().filter_map(|sample| Some((sample.class()?, sample.half))).collect()
}

/// Whether products, or convolutions, were measured in both precisions.
pub(super) fn has_both(model: &OperationModel) -> bool {
    let kinds = kinds(model);
    let is_known = |class: OperationClass| [false, true].into_iter().all(|half| kinds.contains(&(class, half)));
    [OperationClass::Product, OperationClass::Convolution].into_iter().any(is_known)
}

/// The logarithm of a launch, which is what the shortest kernels take.
fn launch(model: &OperationModel, device: &KnownGpu, class: OperationClass, half: bool) -> Option<f64> {
    let nothing = OperationWork { flops: 0.0, bytes: 0.0 };
    Some(model.fitted.physical.parts(&device.name, class, half, nothing)?.launch.ln())
}
