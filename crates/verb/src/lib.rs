//! What every verb of the command line and every section of a configuration is written against; it knows none of them.
//!
//! A [`Verb`] is a struct of plain options that runs in a [`Context`] and gives a [`Summary`]: tables, findings and files as data. A
//! [`Section`] is a verb that a configuration can hold, so it also tells its [`Outline`] beforehand: what it would do, read and write.
//! A [`Spec`] says which settings may stand in it, and turns checked values into it; a [`VerbSpec`] does so for the command line.
//!
//! The pipeline parses every section of a configuration, asks each for its outline, and only then runs them in the order of the
//! file. Sections never name each other: they meet through files, and through defaults that name another section's key as data
//! (`{profile.log_dir}/latency`).

#![warn(missing_docs)]

pub mod config;
mod context;
mod outline;
mod summary;

pub use context::Context;
pub use outline::{Foreseen, KeyedPath, Outline};
pub use summary::{Finding, Noun, Summary};

use crate::config::{Table, Values};
use perf4sight_base::error::Result;

/// A kind of section: what may stand in it and what it becomes.
pub struct Spec {
    /// Its name, its one line, its settings.
    pub table: Table,
    /// What its findings are about.
    pub subject: Noun,
    /// Turns checked values into the section; refuses what their kinds alone cannot tell.
    pub parse: fn(&Values) -> Result<Box<dyn Section>>,
}

/// A verb of the command line: what may stand behind it and what it becomes.
pub struct VerbSpec {
    /// Its name, what it does as the help says it, its settings.
    pub table: Table,
    /// What the help ends with: examples, and what is to be known.
    pub after_help: &'static str,
    /// Turns checked arguments into the verb; refuses what their kinds alone cannot tell.
    pub parse: fn(&Values) -> Result<Box<dyn Verb>>,
}

/// What can be asked of the program, ready to run.
pub trait Verb {
    /// Does it. After Ctrl-C ([`Context::cancelled`]) it keeps what is finished and returns what it has.
    ///
    /// # Errors
    /// What stops the whole of it; a part that failed belongs into the summary and its warnings.
    fn run(&self, context: &mut Context) -> Result<Summary>;
}

/// A parsed section of a configuration, ready to run.
pub trait Section: Verb {
    /// What running would do. Touches no file but to read what the outline needs, such as the names of networks.
    ///
    /// # Errors
    /// Whatever can be known to fail before anything runs.
    fn outline(&self, foreseen: &Foreseen, context: &Context) -> Result<Outline>;
}
