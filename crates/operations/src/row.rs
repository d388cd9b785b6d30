//! A row: an operation of a network on a GPU, its work and its time.

use crate::class::OperationClass;
use crate::element::ElementType;
use crate::work::{OperationWork, TensorShape};
use perf4sight_base::error::{Error, Result};

/// An operation that was measured, or is to be predicted.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationRow {
    /// The GPU, as its folder is named.
    pub gpu: String,
    /// The network, as its folder is named.
    pub network: String,
    /// The operation, as the framework calls it.
    pub operation: String,
    /// Its class.
    pub class: OperationClass,
    /// The shapes of its tensors, such as `128x1024;1024x512`; may be empty.
    pub shapes: String,
    /// The type of its elements.
    pub element: ElementType,
    /// Its FLOPs and bytes.
    pub work: OperationWork,
    /// Microseconds of a call; 0 where it is to be predicted.
    pub time_us: f64,
    /// How often it ran.
    pub count: u32,
}

/// FLOPs a microsecond that no GPU reaches: ten PFLOP/s, twice what a B200 does in 8 bits without sparsity.
const MOST_FLOPS: f64 = 1e10;
/// Bytes a microsecond that no memory reaches: 100 TB/s, above the caches of any GPU.
const MOST_BYTES: f64 = 1e8;

/// Microseconds of an operation: no clock of a profiler is finer than a nanosecond, and nobody waits a quarter of an hour.
const PLAUSIBLE_US: std::ops::RangeInclusive<f64> = 1e-3..=1e9;

impl OperationRow {
    /// Refuses times that no operation takes, and work that no GPU does in this time, or, without one, in the longest of these: another unit.
    ///
    /// # Errors
    /// Such a time; rates beyond all GPUs.
    pub fn check(&self) -> Result<()> {
        if self.time_us > 0.0 && !PLAUSIBLE_US.contains(&self.time_us) {
            return Err(Error::input(format!("{} takes {:e} us", self.operation, self.time_us)).expected(format!(
                "{:e} to {:e} microseconds",
                PLAUSIBLE_US.start(),
                PLAUSIBLE_US.end()
            )));
        }
        let rates = [(self.work.flops, MOST_FLOPS, "TFLOP/s", 1e6), (self.work.bytes, MOST_BYTES, "TB/s", 1e6)];
        let time_us = if self.time_us > 0.0 { self.time_us } else { *PLAUSIBLE_US.end() };
        match rates.into_iter().find(|(amount, most, ..)| amount / time_us > *most) {
            Some((amount, _, unit, scale)) => Err(Error::input(format!(
                "{} of {:e} FLOPs and {:e} bytes in {time_us} us would be {:.0} {unit}, more than any GPU does",
                self.operation,
                self.work.flops,
                self.work.bytes,
                amount / time_us / scale
            ))
            .expected("times in microseconds (time_us) or milliseconds (time_ms), FLOPs and bytes as counts")),
            None => Ok(()),
        }
    }

    /// Whether what it computes with is of a type whose rate is known: what only moves data takes its bytes, of whatever type.
    pub(crate) fn has_rate(&self) -> bool {
        match self.class {
            OperationClass::Product | OperationClass::Convolution | OperationClass::Attention => {
                self.element.has_rate()
            }
            OperationClass::Normalization
            | OperationClass::Reduction
            | OperationClass::Elementwise
            | OperationClass::Movement => true,
        }
    }

    /// The sizes in its shapes.
    pub(crate) fn sizes(&self) -> Vec<f64> {
        self.shapes.split([';', 'x']).filter_map(|size| size.trim().parse().ok()).collect()
    }
}

/// `128x1024;1024x512`.
pub(crate) fn shapes(tensors: &[TensorShape]) -> String {
    let shape = |tensor: &TensorShape| tensor.shape.iter().map(u64::to_string).collect::<Vec<_>>().join("x");
    tensors.iter().map(shape).filter(|shape| !shape.is_empty()).collect::<Vec<_>>().join(";")
}

/// The columns of [`rows_to_csv`].
const COLUMNS: [&str; 9] = ["gpu", "network", "operation", "shapes", "type", "flops", "bytes", "time_us", "count"];

/// The rows as CSV, in the form that [`read_table`](crate::read_table) reads.
pub fn rows_to_csv(rows: &[OperationRow]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let records = rows.iter().map(|row| {
        let OperationRow { gpu, network, operation, shapes, element, work, time_us, count, class: _ } = row;
        let words = [gpu.as_str(), network, operation, shapes, element.name()].map(str::to_owned);
        let numbers = [work.flops, work.bytes, *time_us, f64::from(*count)].map(|number| number.to_string());
        words.into_iter().chain(numbers).collect::<Vec<_>>()
    });
    let header = COLUMNS.map(str::to_owned).to_vec();
    for record in std::iter::once(header).chain(records) {
        // A vector takes any record.
        let _ = writer.write_record(record);
    }
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}
