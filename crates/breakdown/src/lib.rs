//! Where the iterations of a training script spend their time, from traces of it: for every moment whether Python, C++, a CUDA call or
//! waiting had the word, and whether a GPU was busy meanwhile.
//!
//! ```no_run
//! use perf4sight_breakdown::{Breakdown, Class, Metric, Options};
//!
//! let ranks = perf4sight_traces::read_ranks(&["recording".into()])?;
//! for rank in &Breakdown::of(&ranks, &Options::default())?.ranks {
//!     let python = rank.summary(|iteration| iteration.sets.class(Class::Python).map(|time| time as f64 / 1e6));
//!     let speedup = rank.summary(|iteration| Metric::TheoreticalSpeedup.of(&iteration.sets));
//!     println!("rank {}: {python:?} ms of Python, TheoreticalSpeedup {speedup:?}", rank.rank);
//! }
//! # Ok::<(), perf4sight_base::error::Error>(())
//! ```

mod ancestry;
mod breakdown;
mod busier;
mod comparison;
mod correction;
mod device;
mod drift;
mod exchange;
mod idle;
mod iterations;
mod latecomers;
mod longest;
mod main_thread;
mod metrics;
mod nest;
mod operations;
mod period;
mod present;
mod recorded;
mod recorder;
mod rows;
mod sets;
mod stacks;
mod state;
mod threads;
pub mod verb;
mod warnings;
mod without_recording;

pub use breakdown::{Breakdown, Iteration, Options, RankBreakdown};
pub use busier::Busier;
pub use comparison::{Comparison, Difference, Measure, Verdict};
pub use correction::{Corrected, Divided};
pub use device::{Device, DeviceTime, Work};
pub use drift::Drift;
pub use idle::{Idle, IdleTime};
pub use iterations::Markers;
pub use longest::{Cost, WorkCost, work_costs};
pub use metrics::{Metric, Unit};
pub use operations::Operation;
pub use present::Place;
pub use recorded::Recorded;
pub use rows::{Row, RowOf, RowSpan, What, rows};
pub use sets::Sets;
pub use stacks::{Frame, Stacks};
pub use state::{Class, State};
pub use threads::{Stretch, Thread, threads};
