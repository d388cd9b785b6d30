//! Breaks down the time of a training script's iterations from its traces: for every moment, whether Python, C++, a
//! CUDA call or waiting is the innermost call, and whether a GPU is busy.
//!
//! ```no_run
//! use perf4sight_breakdown::{Breakdown, TimeCategory, Metric, Options};
//!
//! let ranks = perf4sight_traces::read_ranks(&["recording".into()])?;
//! for rank in &Breakdown::of(&ranks, &Options::default())?.ranks {
//!     let python = rank.summary(|iteration| iteration.sets.category(TimeCategory::Python).map(|time| time as f64 / 1e6));
//!     let speedup = rank.summary(|iteration| Metric::TheoreticalSpeedup.of(&iteration.sets));
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

pub use analysis::Options;
pub use breakdown::{Breakdown, Iteration, Place, RankBreakdown};
pub use calls::costs::{Cost, WorkCost, work_costs};
pub use calls::stacks::{Frame, Stacks};
pub use categories::TimeCategory;
pub use categories::metrics::{Metric, Unit};
pub use categories::recorded::Recorded;
pub use categories::sets::Sets;
pub use categories::thread_state::State;
pub use comparison::{BusierSide, Comparison, Difference, Measure, Verdict};
pub use correction::result::{Corrected, Correction, Divided, Drift};
pub use gpu::device::{Device, DeviceTime, Work};
pub use gpu::idle::{Idle, IdleTime};
pub use iterations::marks::Markers;
pub use operations::Operation;
pub use threads::{Span, Thread, threads};
pub use timeline::{Lane, LaneContent, LaneKind, LaneSpan, lanes};
