//! Limits of CPUs, memory and storage that hold for a process.

use perf4sight_base::units::Bytes;

/// What a job may use; of what is not limited, all that the machine has.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// CPUs, also in fractions: 1.5 is one and a half.
    pub cpus: Option<f64>,
    /// Memory, together with the file pages that are cached on its behalf.
    pub memory: Option<Bytes>,
    /// What it may read from the storage of its data in a second.
    pub storage: Option<Bytes>,
}
