//! What every section of a configuration and every verb is written against; it knows none of them.
//!
//! A section is a [`Spec`]: the table of its keys and a `parse` that turns checked values into a [`Section`]. The pipeline parses
//! every section of a configuration, asks each for its [`Outline`] (what it would do, read and write), and only then runs them in the
//! order of the file. Sections never name each other: they meet through files, and through defaults that name another section's
//! key as data (`{profile.log_dir}/latency`).

mod context;
mod outline;
mod summary;

pub use context::Context;
pub use outline::{Foreseen, Outline, Place};
pub use summary::{Finding, Summary};

use crate::config::{Table, Values};
use crate::error::Result;

/// A kind of section: what may stand in it and what it becomes.
pub struct Spec {
    /// Its name, its one line, its keys.
    pub table: Table,
    /// Turns checked values into the section; refuses what their kinds alone cannot tell.
    pub parse: fn(&Values) -> Result<Box<dyn Section>>,
}

/// A parsed section, ready to run.
pub trait Section {
    /// What running would do. Touches no file but to read what the outline needs, such as the names of networks.
    ///
    /// # Errors
    /// Whatever can be known to fail before anything runs.
    fn outline(&self, foreseen: &Foreseen) -> Result<Outline>;

    /// Does it. After Ctrl-C ([`Context::cancelled`]) it keeps what is finished and returns what it has.
    ///
    /// # Errors
    /// What stops the whole section; a part that failed belongs into the summary and its warnings.
    fn run(&self, context: &mut Context) -> Result<Summary>;
}
