//! The allocations of a step. One way: `context`, `segment`, `recorder`, `set_up`, `forward`, `checkpoint`, `loss`, `backward`, `pass`, `update`,
//! `schedule`; each uses those before it.

mod backward;
mod checkpoint;
mod context;
mod forward;
mod loss;
mod pass;
mod recorder;
mod schedule;
mod segment;
mod set_up;
mod update;

pub(crate) use context::{Kernels, Operations, StepContext, rules_step};
pub(crate) use pass::Pass;
pub(crate) use schedule::{Period, Schedule};
pub(crate) use segment::{PlacedSegment, Summary};
pub(crate) use set_up::SetUp;
pub(crate) use update::Updates;
