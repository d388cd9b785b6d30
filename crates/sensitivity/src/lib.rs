//! Models how a training job's rate depends on CPUs, memory and storage, from a few measured points. Uses numbers only:
//! no clocks, files or processes.
//!
//! ```
//! use perf4sight_sensitivity::{Curve, Grid, Next, Point, Rate, knees, next};
//!
//! // A job that five CPUs satisfy, measured wherever the search wants to.
//! let (grid, mut points) = (Grid::new(24.0, 1.0), Vec::new());
//! while let Next::Measure(cpus) = next(&grid, &points) {
//!     points.push(Point { cpus, rate: Rate::exactly(cpus.min(5.0)) });
//! }
//! assert_eq!(points.len(), 4);
//! let curve = Curve::of(&points).expect("something was measured");
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

pub use agreement::{Agreement, Compared, Run};
pub use cache::Cache;
pub use curve::{Between, Curve, Oddity, Point};
pub use grid::Grid;
pub use model::{Bound, Data, Estimate, Model};
pub use overlap::{LONGER, MeasuredOverlap, Overlap};
pub use rate::{Disturbance, KNOWN, LEAST_REPORTS, LEAST_TIME, Measured, Rate, Span, slowest};
pub use request::Request;
pub use search::{Knee, Next, SHARES, knees, next, round};
pub use steps::{Step, Steps};
