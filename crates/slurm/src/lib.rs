//! Sections of a configuration as job arrays of Slurm: divides their items, submits, waits, merges.
//!
//! Slurm queues, places, limits and retries; this crate adds the files between the machines. A *run* is one submission:
//! a folder below the section's results that all nodes see, with the configuration, the items of every task, and what
//! each task wrote. A task runs perf4sight itself on its items ([`task`]). Nothing but `sbatch`, `squeue`, `scontrol`
//! and `scancel` is needed, and no accounting.

#![warn(missing_docs)]

mod cluster;
mod complaint;
mod division;
mod follow;
mod job_script;
mod queue;
mod run_folder;
mod settings;
mod standing;
mod submission;
pub mod task;

pub use division::divide;
pub use settings::{SlurmSettings, TABLE};
pub use submission::{SectionEnd, SectionOfConfig, run, show};
pub use task::merge;
