//! Models how a training job's rate depends on CPUs, memory and storage, from a few measured points. Uses numbers only:
//! no clocks, files or processes.
//!
//! ```
//! use perf4sight_sensitivity::{RateCurve, CpuGrid, NextMeasurement, RatePoint, IterationRate, knees, next};
//!
//! // A job that five CPUs satisfy, measured wherever the search wants to.
//! let (grid, mut points) = (CpuGrid::new(24.0, 1.0), Vec::new());
//! while let NextMeasurement::Measure(cpus) = next(&grid, &points) {
//!     points.push(RatePoint { cpus, rate: IterationRate::exactly(cpus.min(5.0)) });
//! }
//! assert_eq!(points.len(), 4);
//! let curve = RateCurve::new(&points).expect("something was measured");
//! assert!(knees(&grid, &curve).iter().all(|knee| knee.cpus == 5.0 && knee.verified));
//! ```
#![warn(missing_docs)]

mod agreement;
mod cache;
mod curve;
mod grid;
mod model;
mod overlap;
mod rate;
mod request;
mod search;
pub(crate) mod steps;
pub mod verb;

pub use agreement::{ComparedEpoch, MeasuredEpoch, ModelAgreement};
pub use cache::DataCache;
pub use curve::{CurveOddity, RateBounds, RateCurve, RatePoint};
pub use grid::CpuGrid;
pub use model::{EpochBound, EpochEstimate, EpochModel, JobData};
pub use overlap::{LONGER, MeasuredOverlap, ReadOverlap};
pub use rate::{Disturbance, IterationRate, KNOWN, LEAST_REPORTS, LEAST_TIME, MeasuredRate, StepSpan, slowest};
pub use request::ResourceRequest;
pub use search::{Knee, NextMeasurement, SHARES, knees, next, round};
pub use steps::{ReportedStep, ReportedSteps};
