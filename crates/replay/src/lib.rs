//! Analyses distributed training from the traces of its ranks: one timeline, who waits for whom, which communication is
//! exposed.

pub mod graph;
pub mod ranks;
pub mod simulate;
