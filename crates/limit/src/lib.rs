//! A command under limits: CPUs, memory with the page cache, bandwidth of storage. What can hold them here, and what became of it.
//!
//! ```no_run
//! use perf4sight_base::units::Bytes;
//! use perf4sight_machine::Watch;
//! use crate::{Job, Limiter, Limits, Surroundings};
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

mod attempts;
mod confined;
mod confinement;
mod delegation;
mod device;
mod duty;
mod ended;
mod family;
mod group;
mod hierarchy;
mod job;
mod limiter;
mod lines;
mod marks;
mod orphans;
mod own_memory;
mod owner;
mod pressure;
mod process_table;
mod residency;
mod run;
mod survey;
mod wrapped;

pub use confined::ConfinedMachine;
pub use ended::{Ended, JobEnd, Pressure, Verdict};
pub use job::{Job, Line, Seen, Stream};
pub use limiter::{Limiter, Surroundings, check_cpus, cpus};
pub use run::find;
pub use survey::{Held, Refused, Survey};

use std::fmt;

/// What can be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Axis {
    /// CPUs.
    Cpus,
    /// Memory and page cache.
    Memory,
    /// Bandwidth of storage.
    Storage,
}

/// What can hold a limit, from the best to the last resort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Means {
    /// A container of docker: only where the job is to run in one.
    Docker,
    /// A control group of version 2 below our own.
    CgroupV2,
    /// A control group of version 1 below our own.
    CgroupV1,
    /// A scope that the user's systemd makes.
    SystemdUser,
    /// A scope that the system's systemd makes.
    SystemdSystem,
    /// The processes are stopped and go on in turns, on as many CPUs as the limit fills.
    DutyCycle,
    /// Pages of the data beyond the share that fits are dropped from the cache over and over; memory of the job's own is not limited.
    Residency,
}

impl Axis {
    /// All of them.
    pub const ALL: [Axis; 3] = [Axis::Cpus, Axis::Memory, Axis::Storage];
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Axis::Cpus => "CPUs",
            Axis::Memory => "memory",
            Axis::Storage => "storage",
        })
    }
}

impl fmt::Display for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Means::Docker => "docker",
            Means::CgroupV2 => "control group v2",
            Means::CgroupV1 => "control group v1",
            Means::SystemdUser => "systemd-run --user",
            Means::SystemdSystem => "systemd-run --system",
            Means::DutyCycle => "affinity and duty cycle",
            Means::Residency => "residency governor",
        })
    }
}
