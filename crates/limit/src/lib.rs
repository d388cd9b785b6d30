//! Runs a command under limits on CPUs, memory with the page cache, and storage bandwidth. Finds a back-end for each
//! limit, and reports the outcome.
//!
//! ```no_run
//! use perf4sight_base::units::Bytes;
//! use perf4sight_machine::{Limits, Watch};
//! use perf4sight_limit::{Job, Limiter, Surroundings};
//! use std::sync::atomic::AtomicBool;
//!
//! # fn main() -> perf4sight_base::error::Result<()> {
//! let cancelled = AtomicBool::new(false);
//! let watch = Watch::quiet(&cancelled);
//! let around = Surroundings { data: Some("/data/imagenet".as_ref()), ..Surroundings::default() };
//! let Some(limiter) = Limiter::open(around, &watch)? else { return Ok(()) };
//! println!("{}", limiter.survey());
//! let words = ["python3", "train.py"].map(str::to_owned);
//! let limits = Limits { cpus: Some(1.5), memory: Some(Bytes(4 << 30)), storage: None };
//! let job = Job { words: &words, limits, ..Job::default() };
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

pub use backend::{BackendInfo, Grip};
pub use confined::ConfinedMachine;
pub use ended::{Ended, JobEnd, Pressure, Verdict};
pub use job::{Job, Seen};
pub use limiter::{Limiter, Surroundings};
pub use perf4sight_machine::lines::{Line, Stream};
pub use perf4sight_machine::program::{files_of, find_with_script};
pub use residency::RESIDENCY;
pub use rise::{Held, Rise};
pub use survey::{Limitable, Refused, Survey, check_cpus, cpus};

use perf4sight_machine::Limits;
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
    fn is_limited(self, limits: &Limits) -> bool {
        match self {
            Resource::Cpus => limits.cpus.is_some(),
            Resource::Memory => limits.memory.is_some(),
            Resource::Storage => limits.storage.is_some(),
        }
    }
}
