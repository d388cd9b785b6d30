//! How times of kernels change from one GPU to another, by class, precision and length: short ones by launches, long ones by
//! rates. Kernels of a trace without shapes are compared with operations that take as long.

use super::physical::PeakRates;
use super::uncertainty::RATE_BY_SIZE;
use super::{KnownGpu, LeftOutGroups, NINE_OF_TEN, OperationModel, UNLIKE};
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
    change: ScalingRatio,
}

/// By how much a time changes, and how certain that is, as logarithms.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct ScalingRatio {
    log: f64,
    /// What sums of ratios of measured operations are within.
    off: f64,
    /// What this one is off beyond that, since it is unlike them.
    beyond: f64,
}

impl ScalingRatio {
    fn is_unlike(&self) -> bool {
        self.beyond > self.off.max(UNLIKE)
    }
}

/// The least and the greatest ratio of times between two GPUs by their data sheets alone.
pub(crate) fn by_sheets(from: &str, to: &str) -> [f64; 2] {
    let ratios = PeakRates::for_gpu(from).ratios(&PeakRates::for_gpu(to));
    ratios.into_iter().fold([1.0; 2], |[least, most], ratio| [f64::min(least, ratio), f64::max(most, ratio)])
}

impl TimeScaling {
    pub(super) fn new(model: &OperationModel, from: &KnownGpu, to: &KnownGpu) -> Self {
        let point = |class, half, work: Option<OperationWork>, [before, after]: [f64; 2]| {
            let together = |of: &dyn Fn(&KnownGpu) -> f64| if from == to { 0.0 } else { of(from).hypot(of(to)) };
            let off = together(&|device| model.class_error(device, class, half, LeftOutGroups::total));
            let beyond = together(&|device| beyond(model, device, class, half, work));
            ScalingPoint { class, half, before, change: ScalingRatio { log: after - before, off, beyond } }
        };
        let points = model.samples.iter().filter_map(|sample| {
            let row = sample.row(sample.half)?;
            let log = |device: &KnownGpu| model.fitted.log(&row, &device.name, model.share);
            Some(point(row.class, sample.half, Some(row.work), [log(from)?, log(to)?]))
        });
        let launches = kinds(model).into_iter().filter_map(|(class, half)| {
            let log = |device: &KnownGpu| launch(model, device, class, half);
            Some(point(class, half, None, [log(from)?, log(to)?]))
        });
        TimeScaling::from_points(points.chain(launches).collect(), by_sheets(&from.name, &to.name))
    }

    fn from_points(points: Vec<ScalingPoint>, sheets: [f64; 2]) -> Self {
        TimeScaling { off: points.iter().map(|point| point.change.off).fold(0.0, f64::max), points, sheets }
    }

    /// Whether operations of a class, and of a precision where it is known, were measured.
    pub fn knows(&self, class: OperationClass, half: Option<bool>) -> bool {
        self.points.iter().any(|point| point.class == class && half.is_none_or(|half| half == point.half))
    }

    /// From single to half precision, by classes that were measured in both.
    pub(super) fn to_half(model: &OperationModel, device: &KnownGpu) -> Self {
        let kinds = kinds(model);
        let is_known = |class: OperationClass| [false, true].into_iter().all(|half| kinds.contains(&(class, half)));
        let point = |class, works: [Option<OperationWork>; 2], [before, after]: [f64; 2]| {
            let together = |of: &dyn Fn(bool) -> f64| of(false).hypot(of(true));
            let off = together(&|half| model.class_error(device, class, half, LeftOutGroups::total));
            let beyond = together(&|half| beyond(model, device, class, half, works[usize::from(half)]));
            ScalingPoint { class, half: false, before, change: ScalingRatio { log: after - before, off, beyond } }
        };
        let points = model.samples.iter().filter_map(|sample| {
            let [single, half] = [sample.row(false)?, sample.row(true)?];
            let log = |row: &OperationRow| model.fitted.log(row, &device.name, model.share);
            Some(point(single.class, [single.work, half.work].map(Some), [log(&single)?, log(&half)?]))
        });
        let launches = kinds.iter().filter_map(|(class, _)| {
            let times = [launch(model, device, *class, false)?, launch(model, device, *class, true)?];
            Some(point(*class, [None; 2], times))
        });
        let known = points.chain(launches).filter(|point| is_known(point.class));
        TimeScaling::from_points(known.collect(), PeakRates::for_gpu(&device.name).to_half())
    }

    /// The factor by which a kernel of this class, precision and length gets longer. Without a class, or one that was never
    /// measured, of all operations that take as long.
    pub fn ratio(&self, class: Option<OperationClass>, half: Option<bool>, time_us: f64) -> f64 {
        self.measured_ratio(class, half, time_us)
            .or_else(|| self.measured_ratio(class, None, time_us))
            .or_else(|| self.ratio_at_length(|_| true, time_us))
            .map_or(1.0, |ratio| ratio.log.exp())
    }

    /// The same at a bound of its error (-1 or 1; 0 is none): what was measured is off as such operations are, and more where it is unlike them; all else is
    /// between what the data sheets allow. Of an unknown precision the bounds are those of both.
    pub fn ratio_at(&self, bound: f64, class: Option<OperationClass>, half: Option<bool>, time_us: f64) -> f64 {
        let [least, most] = self.sheets;
        let is_known = class.is_some_and(|class| self.knows(class, half));
        if bound == 0.0 {
            let ratio = self.ratio(class, half, time_us);
            return if is_known { ratio } else { ratio.clamp(least, most) };
        }
        if !is_known {
            return if bound < 0.0 { least } else { most };
        }
        let known = precisions(half).iter().filter_map(|half| self.measured_ratio(class, Some(*half), time_us));
        let bounds = known.map(|known| self.bound_of(bound, &known));
        if bound < 0.0 { bounds.fold(f64::INFINITY, f64::min) } else { bounds.fold(0.0, f64::max) }
    }

    /// A bound of a ratio. Being unlike the measured operations makes it no smaller or greater than data sheets allow.
    fn bound_of(&self, bound: f64, known: &ScalingRatio) -> f64 {
        let [least, most] = self.sheets;
        let [off, all] = [known.off, known.off.hypot(known.beyond)].map(|off| (known.log + bound * off).exp());
        match bound < 0.0 {
            true => all.max(least * (bound * known.off).exp()).min(off),
            false => all.min(most * (bound * known.off).exp()).max(off),
        }
    }

    /// Whether a kernel is so unlike the measured operations of its class, mostly in size, that its ratio rests on what is usual of GPUs.
    pub fn is_unlike(&self, class: OperationClass, half: Option<bool>, time_us: f64) -> bool {
        self.measured_ratio(Some(class), half, time_us).is_some_and(|ratio| ratio.is_unlike())
    }

    /// What operations of a class and precision that take as long say; none where none was measured.
    fn measured_ratio(&self, class: Option<OperationClass>, half: Option<bool>, time_us: f64) -> Option<ScalingRatio> {
        let is_own = |point: &ScalingPoint| class == Some(point.class) && half.is_none_or(|half| half == point.half);
        self.ratio_at_length(is_own, time_us)
    }

    /// What some operations say of one that takes so long; the less, the further all of them are from it.
    fn ratio_at_length(&self, is_own: impl Fn(&ScalingPoint) -> bool, time_us: f64) -> Option<ScalingRatio> {
        let length = time_us.max(1e-3).ln();
        let (mut weights, mut sum) = (0.0, ScalingRatio::default());
        let mut lengths = [f64::INFINITY, f64::NEG_INFINITY];
        for ScalingPoint { before, change, .. } in self.points.iter().filter(|point| is_own(point)) {
            let weight = ((before - length).abs() + SCATTER).powi(-4);
            weights += weight;
            sum.log += weight * change.log;
            sum.off += weight * change.off;
            sum.beyond += weight * change.beyond;
            lengths = [lengths[0].min(*before), lengths[1].max(*before)];
        }
        let outside = (lengths[0] - length).max(length - lengths[1]).max(0.0);
        let ScalingRatio { log, off, beyond } = sum;
        (weights > 0.0).then(|| ScalingRatio {
            log: log / weights,
            off: off / weights,
            beyond: (beyond / weights).hypot(OF_BOTH * NINE_OF_TEN * RATE_BY_SIZE * outside),
        })
    }
}

/// Both GPUs are uncertain beyond what was measured, each by itself.
const OF_BOTH: f64 = std::f64::consts::SQRT_2;

/// The precisions that a kernel may have.
fn precisions(half: Option<bool>) -> &'static [bool] {
    match half {
        None => &[false, true],
        Some(false) => &[false],
        Some(true) => &[true],
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

/// What the shortest kernels do.
pub(super) const NOTHING: OperationWork = OperationWork { flops: 0.0, bytes: 0.0 };

/// The logarithm that a time is off beyond what is usual, or a launch where there is no work.
fn beyond(
    model: &OperationModel,
    device: &KnownGpu,
    class: OperationClass,
    half: bool,
    work: Option<OperationWork>,
) -> f64 {
    let known = match work {
        Some(work) => model.error_beyond_range(device, class, half, work),
        None => model.launch_error_beyond(device, class, half),
    };
    known.unwrap_or_default()
}

/// The logarithm of a launch, which is what the shortest kernels take.
fn launch(model: &OperationModel, device: &KnownGpu, class: OperationClass, half: bool) -> Option<f64> {
    Some(model.fitted.physical.parts(&device.name, class, half, NOTHING)?.launch.ln())
}
