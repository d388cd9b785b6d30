//! The environment of sections: console, clock, Ctrl-C, the program itself, the configuration as text.

use perf4sight_base::error::Error;
use perf4sight_report::Console;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// The surroundings a section runs in.
pub struct Context {
    /// Output to the user who started the program.
    pub console: Console,
    /// The date, for provenance and for durations that are reported. A function, so that tests choose it.
    pub clock: fn() -> SystemTime,
    /// Set by Ctrl-C.
    pub cancel: Arc<AtomicBool>,
    /// This program, to start workers with.
    pub executable: PathBuf,
    /// The configuration in force, command line included, for provenance; empty for a verb that has none.
    pub config: String,
    warnings: Vec<String>,
    shortfall: Option<String>,
}

impl Context {
    /// A context without warnings.
    pub fn new(
        console: Console,
        clock: fn() -> SystemTime,
        cancel: Arc<AtomicBool>,
        executable: PathBuf,
        config: String,
    ) -> Self {
        Context { console, clock, cancel, executable, config, warnings: Vec::new(), shortfall: None }
    }

    /// Whether Ctrl-C was pressed: finish the row at hand, keep it, return.
    pub fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// The date and time; not before 1970, where dates as people write them begin, though a board without a battery may say so.
    pub fn now(&self) -> SystemTime {
        (self.clock)().max(SystemTime::UNIX_EPOCH)
    }

    /// Prints a warning, once however often it is given, and keeps it for the run's JSON summary.
    pub fn warn(&mut self, text: impl Display) {
        let text = text.to_string();
        if !self.warnings.contains(&text) {
            self.console.warn(&text);
            self.warnings.push(text);
        }
    }

    /// Warns that a section left work undone that later ones of the run may need, and suggests how to go on.
    pub fn fall_short(&mut self, words: String) {
        self.warn(&words);
        self.shortfall = Some(words);
    }

    /// Adds the reason to the error of a section that lacks an input: an earlier section left work undone.
    pub fn with_reason(&self, error: Error) -> Error {
        self.shortfall.iter().fold(error, |error, words| error.help(format!("measure the rest first: {words}")))
    }

    /// All warnings so far.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}
