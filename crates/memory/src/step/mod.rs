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

pub(crate) use context::{DeviceKernels, DeviceOperations, StepContext, rules_step};
pub(crate) use pass::RecordedPass;
pub(crate) use schedule::{AllocationSchedule, StepPeriod};
pub(crate) use segment::{PlacedSegment, SegmentSummary};
pub(crate) use set_up::SetUp;
pub(crate) use update::WeightUpdates;
