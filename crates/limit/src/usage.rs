//! What a job used, as far as a back-end counts it.

use perf4sight_base::units::Bytes;

/// What a job used until now; what nothing counts is none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Usage {
    pub out_of_memory_kills: Option<u64>,
    pub peak: Option<Bytes>,
    pub cpu_seconds: Option<f64>,
    pub throttled_seconds: Option<f64>,
    pub bytes_read: Option<Bytes>,
}

impl Usage {
    /// With what another one counted of what this one did not.
    pub fn or(self, other: Usage) -> Usage {
        Usage {
            out_of_memory_kills: self.out_of_memory_kills.or(other.out_of_memory_kills),
            peak: self.peak.or(other.peak),
            cpu_seconds: self.cpu_seconds.or(other.cpu_seconds),
            throttled_seconds: self.throttled_seconds.or(other.throttled_seconds),
            bytes_read: self.bytes_read.or(other.bytes_read),
        }
    }
}
