//! The resources that a job used, as counted by a back-end.

use super::MemoryRise;
use perf4sight_base::units::Bytes;

/// Resources used until now; none for those that are not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ResourceUsage {
    pub out_of_memory_kills: Option<u64>,
    pub peak: Option<Bytes>,
    pub cpu_seconds: Option<f64>,
    pub throttled_seconds: Option<f64>,
    pub bytes_read: Option<Bytes>,
    /// How far its memory still rose; none where it did not, or that is not known.
    pub rise: Option<MemoryRise>,
    /// Whether the peak counts pages that processes share more than once.
    pub counts_shared: bool,
}

impl ResourceUsage {
    /// Fills missing values from another back-end.
    pub fn fill_missing(self, other: ResourceUsage) -> ResourceUsage {
        ResourceUsage {
            out_of_memory_kills: self.out_of_memory_kills.or(other.out_of_memory_kills),
            peak: self.peak.or(other.peak),
            cpu_seconds: self.cpu_seconds.or(other.cpu_seconds),
            throttled_seconds: self.throttled_seconds.or(other.throttled_seconds),
            bytes_read: self.bytes_read.or(other.bytes_read),
            rise: self.rise.or(other.rise),
            counts_shared: if self.peak.is_some() { self.counts_shared } else { other.counts_shared },
        }
    }
}
