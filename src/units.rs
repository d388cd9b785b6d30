//! Milliseconds, bytes and percent as types, each with the one way it is written.

use serde::{Deserialize, Serialize};
use std::fmt;

/// One mebibyte, the unit of every memory column, in bytes.
pub const MIB: f64 = 1024.0 * 1024.0;

/// A duration in milliseconds.
///
/// ```
/// use perf4sight::units::Milliseconds;
/// assert_eq!(Milliseconds(0.1234).to_string(), "0.123 ms");
/// assert_eq!(Milliseconds(12.3).to_string(), "12.3 ms");
/// assert_eq!(Milliseconds(12_345.6).to_string(), "12.3 s");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Milliseconds(pub f64);

/// An amount of memory in bytes.
///
/// ```
/// use perf4sight::units::Bytes;
/// assert_eq!(Bytes(2_621_440).to_string(), "2.5 MiB");
/// assert_eq!(Bytes(2_621_440).mib(), 2.5);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A share in percent: 5.5 is 5.5 %.
///
/// ```
/// use perf4sight::units::Percent;
/// assert_eq!(Percent(5.54).to_string(), "5.5 %");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Percent(pub f64);

impl Bytes {
    /// From mebibytes, as the CSV columns hold them.
    pub fn from_mib(mib: f64) -> Self {
        Bytes((mib * MIB).round() as u64)
    }

    /// In mebibytes.
    pub fn mib(self) -> f64 {
        self.0 as f64 / MIB
    }
}

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.abs() {
            v if v >= 10_000.0 => write!(f, "{:.1} s", self.0 / 1000.0),
            v if v >= 1000.0 => write!(f, "{:.2} s", self.0 / 1000.0),
            v if v >= 100.0 => write!(f, "{:.0} ms", self.0),
            v if v >= 10.0 => write!(f, "{:.1} ms", self.0),
            v if v >= 1.0 => write!(f, "{:.2} ms", self.0),
            _ => write!(f, "{:.3} ms", self.0),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..1024 => write!(f, "{} B", self.0),
            1024..1_048_576 => write!(f, "{:.1} KiB", bytes / 1024.0),
            1_048_576..1_073_741_824 => write!(f, "{:.1} MiB", bytes / MIB),
            _ => write!(f, "{:.2} GiB", bytes / MIB / 1024.0),
        }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} %", self.0)
    }
}

/// A count with thousands separators.
///
/// ```
/// use perf4sight::units::grouped;
/// assert_eq!(grouped(25_557_032), "25,557,032");
/// assert_eq!(grouped(7), "7");
/// ```
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
