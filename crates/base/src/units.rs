//! Milliseconds, bytes and percent as types, each with the one way it is written.

use serde::{Deserialize, Serialize};
use std::fmt;

/// One mebibyte, the unit of every memory column, in bytes.
pub const MIB: f64 = 1024.0 * 1024.0;

/// A duration in milliseconds.
///
/// ```
/// use perf4sight_base::units::Milliseconds;
/// assert_eq!(Milliseconds(0.1234).to_string(), "0.123 ms");
/// assert_eq!([-0.0004, -0.0, -0.001].map(|ms| Milliseconds(ms).to_string()), ["0.000 ms", "0.000 ms", "-0.001 ms"]);
/// assert_eq!(Milliseconds(12.3).to_string(), "12.3 ms");
/// assert_eq!(Milliseconds(12_345.6).to_string(), "12.3 s");
/// assert_eq!(Milliseconds(754_000.0).to_string(), "12 min 34 s");
/// assert_eq!(Milliseconds(59_753_400.0).to_string(), "16 h 36 min");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Milliseconds(pub f64);

/// An amount of memory in bytes.
///
/// ```
/// use perf4sight_base::units::Bytes;
/// assert_eq!(Bytes(2_621_440).to_string(), "2.5 MiB");
/// assert_eq!(Bytes(2_621_440).mib(), 2.5);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A share in percent: 5.5 is 5.5 %.
///
/// ```
/// use perf4sight_base::units::Percent;
/// assert_eq!([5.54, -5.54, -0.04].map(|share| Percent(share).to_string()), ["5.5 %", "-5.5 %", "0.0 %"]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Percent(pub f64);

impl Bytes {
    /// From mebibytes, as the CSV columns hold them.
    pub fn from_mib(mib: f64) -> Self {
        Bytes((mib * MIB).round() as u64)
    }

    /// Mebibytes, 2^20 bytes each.
    pub fn mib(self) -> f64 {
        self.0 as f64 / MIB
    }

    /// An amount as people write it: a number with its unit, of 1024 (`8GiB`, `8Gi`, `8G`) or of 1000 (`8 GB`); a number alone is MiB. None where it
    /// is no such thing, or not positive, or more than can be counted.
    ///
    /// ```
    /// use perf4sight_base::units::Bytes;
    /// assert_eq!(Bytes::parse("8GiB"), Some(Bytes(8 << 30)));
    /// assert_eq!(["8 GiB", "8Gi", "8G"].map(Bytes::parse), [Some(Bytes(8 << 30)); 3]);
    /// assert_eq!(Bytes::parse("1.5 GB"), Some(Bytes(1_500_000_000)));
    /// assert_eq!(Bytes::parse("1300"), Some(Bytes(1300 << 20)));
    /// assert_eq!(Bytes::parse("much"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim().to_ascii_lowercase();
        let (_, bytes) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(&unit))?;
        let bytes = number.parse::<f64>().ok()? * bytes;
        // The largest amount that every counter of bytes holds, with its sign.
        (1.0..i64::MAX as f64).contains(&bytes).then_some(Bytes(bytes.round() as u64))
    }

    /// Exactly, as limits are written: as a whole number of the largest possible unit.
    ///
    /// ```
    /// use perf4sight_base::units::Bytes;
    /// assert_eq!([8192.0, 1300.0, 0.5].map(|mib| Bytes::from_mib(mib).in_full()), ["8 GiB", "1300 MiB", "512 KiB"]);
    /// assert_eq!([8_000_000_000, 1_500_000_000].map(|bytes| Bytes(bytes).in_full()), ["8 GB", "1500 MB"]);
    /// assert_eq!([Bytes(1_500_000_001), Bytes::from_mib(28.5)].map(Bytes::in_full), ["1430.5 MiB", "28.5 MiB"]);
    /// ```
    pub fn in_full(self) -> String {
        let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1 << 10, "KiB")];
        let is_whole = |unit: u64| self.0.is_multiple_of(unit) && (unit != 1 << 10 || self.0 < 1 << 20);
        match units.into_iter().find(|(unit, _)| is_whole(*unit)) {
            Some((unit, name)) => format!("{} {name}", self.0 / unit),
            None => format!("{:.1} MiB", self.mib()),
        }
    }
}

/// Units of memory, in bytes: as Kubernetes writes them (`Gi`), and as Slurm, docker and systemd do (`G`, of 1024).
const UNITS: [(&str, f64); 18] = [
    ("", MIB),
    ("B", 1.0),
    ("K", 1024.0),
    ("Ki", 1024.0),
    ("KiB", 1024.0),
    ("M", MIB),
    ("Mi", MIB),
    ("MiB", MIB),
    ("G", 1024.0 * MIB),
    ("Gi", 1024.0 * MIB),
    ("GiB", 1024.0 * MIB),
    ("T", 1024.0 * 1024.0 * MIB),
    ("Ti", 1024.0 * 1024.0 * MIB),
    ("TiB", 1024.0 * 1024.0 * MIB),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
];

/// From ten minutes on a time is not written in seconds.
const SPELT: f64 = 600_000.0;

/// A long time in its two largest units: `16 h 36 min`.
fn spelt(milliseconds: f64) -> String {
    let seconds = (milliseconds / 1000.0).round() as u64;
    let (minutes, hours) = (seconds.saturating_add(30) / 60, seconds.saturating_add(1800) / 3600);
    match seconds {
        ..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", minutes / 60, minutes % 60),
        _ => format!("{} d {} h", hours / 24, hours % 24),
    }
}

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.abs() {
            v if v >= SPELT && v.is_finite() => write!(f, "{}{}", if self.0 < 0.0 { "-" } else { "" }, spelt(v)),
            v if v >= 10_000.0 => write!(f, "{:.1} s", self.0 / 1000.0),
            v if v >= 1000.0 => write!(f, "{:.2} s", self.0 / 1000.0),
            v if v >= 100.0 => write!(f, "{:.0} ms", self.0),
            v if v >= 10.0 => write!(f, "{:.1} ms", self.0),
            v if v >= 1.0 => write!(f, "{:.2} ms", self.0),
            _ => write!(f, "{} ms", round_text(self.0, 3)),
        }
    }
}

/// A number with so many decimals, and without a sign where that leaves nothing of it.
fn round_text(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    match text.strip_prefix('-') {
        Some(zero) if zero.bytes().all(|digit| matches!(digit, b'0' | b'.')) => zero.to_owned(),
        Some(_) | None => text,
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
        write!(f, "{} %", round_text(self.0, 1))
    }
}

/// How many of what, by the word for one of them, to which more add an *s*.
///
/// ```
/// use perf4sight_base::units::count_text;
/// assert_eq!((count_text(1, "thread"), count_text(4, "thread")), ("1 thread".to_owned(), "4 threads".to_owned()));
/// ```
pub fn count_text(count: u64, one: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count => format!("{count} {one}s"),
    }
}

/// The first `most` of several names, and how many more there are.
///
/// ```
/// use perf4sight_base::units::list_text;
/// assert_eq!(list_text(["a", "b", "c"], 2), "a, b and 1 more");
/// assert_eq!(list_text(["a", "b"], 2), "a, b");
/// ```
pub fn list_text<T: ToString>(names: impl IntoIterator<Item = T>, most: usize) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    match names.len().checked_sub(most) {
        Some(more @ 1..) => format!("{} and {more} more", names[..most].join(", ")),
        _ => names.join(", "),
    }
}

/// A count with thousands separators.
///
/// ```
/// use perf4sight_base::units::grouped_digits;
/// assert_eq!(grouped_digits(25_557_032), "25,557,032");
/// assert_eq!(grouped_digits(7), "7");
/// ```
pub fn grouped_digits(count: u64) -> String {
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
