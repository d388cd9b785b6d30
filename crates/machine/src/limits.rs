//! Limits on CPUs, memory and storage for a process.

use perf4sight_base::units::Bytes;

/// The limits of a job; none for a resource without a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ResourceLimits {
    /// A number of CPUs, such as 1.5.
    pub cpus: Option<f64>,
    /// Memory, including the page cache of its files.
    pub memory: Option<Bytes>,
    /// Bytes a second that it may read from the storage of its data.
    pub storage: Option<Bytes>,
}
