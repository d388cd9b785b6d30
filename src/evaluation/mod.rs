//! How far a fingerprint can be trusted: splits, scores, tables.

mod scores;

pub use scores::{Breakdown, Evaluated, NetworkScores, Scores, Trust};
