//! Runs a command under limits on CPUs, memory with the page cache, and storage bandwidth. Finds a back-end for each
//! limit, and reports the outcome.
//!
//! ```no_run
//! use perf4sight_base::units::Bytes;
//! use perf4sight_machine::{ResourceLimits, RunWatch};
//! use perf4sight_limit::{LimitedJob, Limiter, LimiterSettings};
//! use std::sync::atomic::AtomicBool;
//!
//! # fn main() -> perf4sight_base::error::Result<()> {
//! let cancelled = AtomicBool::new(false);
//! let watch = RunWatch::quiet(&cancelled);
//! let around = LimiterSettings { data: Some("/data/imagenet".as_ref()), ..LimiterSettings::default() };
//! let Some(limiter) = Limiter::open(around, &watch)? else { return Ok(()) };
//! println!("{}", limiter.survey());
//! let words = ["python3", "train.py"].map(str::to_owned);
//! let limits = ResourceLimits { cpus: Some(1.5), memory: Some(Bytes(4 << 30)), storage: None };
//! let job = LimitedJob { words: &words, limits, ..LimitedJob::default() };
//! let ended = limiter.run(&job, &watch, &mut |seen| seen.lines.iter().any(|line| line.text == "enough"))?;
//! println!("{:?}", ended.map(|ended| ended.verdict()));
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

mod backend;
mod cgroup;
mod confined;
mod cpu_throttler;
mod disc;
mod docker;
mod ended;
mod family;
mod interrupts;
mod job;
mod limiter;
mod orphans;
mod own_memory;
mod owner;
mod peaks;
mod pressure;
mod probe;
mod processes;
mod residency;
mod rise;
mod run;
mod shared;
mod survey;
mod systemd;
mod usage;

pub use backend::{BackendGrip, BackendInfo, limits_page_cache_only};
pub use confined::ConfinedMachine;
pub use ended::{EndedJob, HostPressure, JobEnd, JobVerdict};
pub use job::{JobOutput, LimitedJob};
pub use limiter::{Limiter, LimiterSettings};
pub use perf4sight_machine::lines::{OutputLine, OutputStream};
pub use perf4sight_machine::program::{files_of, find_with_script};
pub use rise::{MemoryHistory, MemoryRise};
pub use survey::{LimitSurvey, LimitableResource, RefusedBackend, check_cpus, cpus};

use perf4sight_machine::ResourceLimits;
use serde::{Deserialize, Serialize};

perf4sight_base::words! {
    #[derive(Serialize, Deserialize)]
    pub enum Resource {
        Cpus = "CPUs",
        Memory = "memory",
        Storage = "storage",
    }
}

impl Resource {
    fn is_limited(self, limits: &ResourceLimits) -> bool {
        match self {
            Resource::Cpus => limits.cpus.is_some(),
            Resource::Memory => limits.memory.is_some(),
            Resource::Storage => limits.storage.is_some(),
        }
    }
}
