//! Breaks down the time of a training script's iterations from its traces: for every moment, whether Python, C++, a
//! CUDA call or waiting is the innermost call, and whether a GPU is busy.
//!
//! ```no_run
//! use perf4sight_breakdown::{Breakdown, TimeCategory, Metric, BreakdownOptions};
//!
//! let ranks = perf4sight_traces::read_ranks(&["recording".into()])?;
//! for rank in &Breakdown::from_traces(&ranks, &BreakdownOptions::default())?.ranks {
//!     let python = rank.summary(|iteration| iteration.sets.category(TimeCategory::Python).map(|time| time as f64 / 1e6));
//!     let speedup = rank.summary(|iteration| Metric::TheoreticalSpeedup.compute(&iteration.sets));
//!     println!("rank {}: {python:?} ms of Python, TheoreticalSpeedup {speedup:?}", rank.rank);
//! }
//! # Ok::<(), perf4sight_base::error::Error>(())
//! ```

mod analysis;
mod breakdown;
mod calls;
mod categories;
mod comparison;
mod correction;
mod gpu;
mod iterations;
mod operations;
mod ranks;
mod threads;
mod timeline;
pub mod verb;
mod warnings;

pub use analysis::BreakdownOptions;
pub use breakdown::{Breakdown, Iteration, RankBreakdown, RankPlace};
pub use calls::costs::{CallCost, WorkCost, work_costs};
pub use calls::stacks::{CallStacks, StackFrame};
pub use categories::TimeCategory;
pub use categories::metrics::{Metric, MetricUnit};
pub use categories::recorded::RecordedKinds;
pub use categories::sets::TimeSets;
pub use categories::thread_state::ThreadState;
pub use comparison::{BusierSide, ComparedMeasure, Comparison, DifferenceVerdict, MeanOfAll, MeasureDifference};
pub use correction::result::{BreakdownCorrection, CorrectedIteration, DividedTime, RecordingDrift};
pub use gpu::device::{DeviceTime, GpuActivity, GpuWork};
pub use gpu::idle::{IdleCause, IdleTime};
pub use iterations::marks::IterationMarkers;
pub use operations::TrainingOperation;
pub use ranks::stragglers::{ExchangeWaits, RankWaits};
pub use threads::{ThreadSpan, ThreadTimeline, threads};
pub use timeline::{Lane, LaneContent, LaneKind, LaneSpan, lanes};
