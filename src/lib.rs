//! The program `perf4sight`: its command line, the sections of a configuration run in order ([`pipeline`]), and the list of verbs.
//!
//! Each verb or section is a crate, or a module of `perf4sight-cost`; `ARCHITECTURE.md` lists them.
#![warn(missing_docs)]

pub mod analyze;
pub mod cli;
pub mod pipeline;
pub mod verbs;
