//! The interface of every verb of the command line and every section of a configuration; independent of all of them.
//!
//! A [`Verb`] is a struct of plain options that runs in a [`Context`] and gives a [`Summary`]: tables, findings and
//! files as data. A [`Section`] is a verb that a configuration can hold, so it also gives its [`Outline`] beforehand:
//! its work, its inputs and its outputs. A [`Spec`] lists the settings of a section, and converts checked values into
//! it; a [`VerbSpec`] does so for the command line.
//!
//! The pipeline parses every section of a configuration, requests the outline of each, and only then runs them in the
//! order of the file. Sections never name each other: they exchange files, and defaults that name another section's key
//! as data (`{profile.log_dir}/latency`).

#![warn(missing_docs)]

pub mod config;
mod context;
mod divisible;
mod outline;
mod planned;
mod summary;

pub use context::Context;
pub use divisible::{Divisible, WorkItem, WorkPart, check_keeps_results};
pub use outline::{InputCheck, KeyedPath, Outline};
pub use planned::PlannedFiles;
pub use summary::{CountedNoun, Summary, TableFinding};

use crate::config::{SettingTable, SettingValues};
use perf4sight_base::error::Result;
use std::path::Path;

/// A kind of section: its settings and its parser.
pub struct Spec {
    /// Its name, its one line, its settings.
    pub table: SettingTable,
    /// The subject of its findings.
    pub subject: CountedNoun,
    /// Converts checked values into the section; refuses errors that the kinds of single values do not catch.
    pub parse: fn(&SettingValues) -> Result<Box<dyn Section>>,
}

/// A verb of the command line: its settings and its parser.
pub struct VerbSpec {
    /// Its name, its description in the help, its settings.
    pub table: SettingTable,
    /// The end of its help: examples and notes.
    pub after_help: &'static str,
    /// Converts checked arguments into the verb; refuses errors that the kinds of single values do not catch.
    pub parse: fn(&SettingValues) -> Result<Box<dyn Verb>>,
}

/// A command of the program, ready to run.
pub trait Verb {
    /// Runs it. After Ctrl-C ([`Context::cancelled`]) it keeps finished parts and returns them.
    ///
    /// # Errors
    /// A failure of the whole; a part that failed belongs into the summary and its warnings.
    fn run(&self, context: &mut Context) -> Result<Summary>;
}

/// A parsed section of a configuration, ready to run.
pub trait Section: Verb {
    /// The effect of a run. Touches no file but to read the inputs of the outline, such as the names of networks.
    ///
    /// # Errors
    /// Failures that are certain before anything runs.
    fn outline(&self, planned: &PlannedFiles, context: &Context) -> Result<Outline<'_>>;

    /// Whether a file in the place of a result is from an earlier run, although the section replaces it only with `overwrite`.
    fn is_from_earlier_run(&self, _file: &Path) -> bool {
        false
    }

    /// The same section where its work can be divided among machines.
    fn divisible(&self) -> Option<&dyn Divisible> {
        None
    }
}
