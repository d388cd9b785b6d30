//! Analyses distributed training from the traces of its ranks: one timeline, who waits for whom, which communication is
//! exposed.
//!
//! ```no_run
//! use perf4sight_replay::collectives::RankExchanges;
//! use perf4sight_replay::ranks::TrainingJob;
//!
//! let job = TrainingJob::read(&["traces".into()])?;
//! for exchange in RankExchanges::find(&job).complete() {
//!     println!("{} of {:?} bytes on {} ranks", exchange.operation, exchange.bytes, exchange.parts.len());
//! }
//! # Ok::<(), perf4sight_base::error::Error>(())
//! ```
#![warn(missing_docs)]

mod analysis;
pub mod buckets;
pub mod clocks;
pub mod collectives;
pub mod communication;
mod contradictions;
pub mod exposed;
pub mod graph;
pub mod hang;
pub mod inputs;
pub mod plain_step;
pub mod ranks;
pub mod replayed_job;
pub mod request;
pub mod simulate;
pub mod statistic;
pub mod synthetic;
pub mod timeline;
pub mod verb;
pub mod waiting;
pub mod what_if;

pub use analysis::Analysis;
