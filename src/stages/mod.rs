//! One file per config section or command-line verb, and the context they run in.
//!
//! A config section is a [`Spec`]: the table of its keys and a `parse` that turns checked values into a [`Stage`]. The
//! pipeline parses every section, asks each stage for its [`Outline`] (what it would do, read and write), and only then
//! runs them in the order of the file. Stages never name each other: they meet through files, and through defaults that
//! name another section's key as data (`{profile.log_dir}/latency`).
//!
//! To add a section: a file here with its `SPEC`, and one line in [`SPECS`]. To add a command-line verb: a file here with
//! a struct of plain options and `run(&self, &mut Context) -> Result<Summary>`, and one variant in `cli::Verb`.

pub mod calibrate;
mod context;
pub mod create_network_dataset;
pub mod fingerprint;
pub mod fingerprints;
pub mod inspect;
mod named;
pub mod networks;
mod outline;
pub mod predict;
pub mod profile;
mod summary;
mod temporary;

pub use context::Context;
pub use outline::{Foreseen, Outline, Place};
pub use summary::{Finding, Summary};

use crate::config::{Table, Values};
use crate::error::Result;

/// Every config section there is.
pub static SPECS: &[&Spec] = &[&create_network_dataset::SPEC, &profile::SPEC, &fingerprint::SPEC, &predict::SPEC];

/// A config section: what may stand in it and what it becomes.
pub struct Spec {
    /// Its name, its one line, its keys.
    pub table: Table,
    /// Turns checked values into the stage; refuses what their kinds alone cannot tell.
    pub parse: fn(&Values) -> Result<Box<dyn Stage>>,
}

/// A parsed section, ready to run.
pub trait Stage {
    /// What running would do. Touches no file but to read what the outline needs, such as the names of networks.
    ///
    /// # Errors
    /// Whatever can be known to fail before anything runs.
    fn outline(&self, foreseen: &Foreseen) -> Result<Outline>;

    /// Does it. After Ctrl-C ([`Context::cancelled`]) it keeps what is finished and returns what it has.
    ///
    /// # Errors
    /// What stops the whole stage; a part that failed belongs into the summary and its warnings.
    fn run(&self, context: &mut Context) -> Result<Summary>;
}
