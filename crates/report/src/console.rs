//! The only place that prints while sections run: results on stdout, progress, notes and warnings on stderr.

use super::printable::{paragraph, printable, printable_json};
use super::progress::Progress;
use super::table::Table;
use indicatif::MultiProgress;
use perf4sight_base::error::{Error, Result};
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Work that takes less reports no progress.
const PATIENCE: Duration = Duration::from_secs(2);

/// The amount and format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputMode {
    /// Results on stdout; progress, notes and warnings on stderr.
    Normal,
    /// Results on stdout and warnings on stderr; no progress, no notes.
    Quiet,
    /// One JSON summary on stdout and nothing else there; progress, notes and warnings on stderr.
    Json,
    /// The same without progress and notes.
    QuietJson,
}

impl OutputMode {
    /// Whether results are one JSON summary.
    pub fn is_json(self) -> bool {
        matches!(self, OutputMode::Json | OutputMode::QuietJson)
    }

    fn is_quiet(self) -> bool {
        matches!(self, OutputMode::Quiet | OutputMode::QuietJson)
    }
}

/// How this process prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsoleSettings {
    /// The amount and format of the output.
    pub mode: OutputMode,
    /// Bold and coloured words in results.
    pub colour: bool,
    /// Moving bars instead of occasional lines of progress.
    pub bars: bool,
    /// Columns of the terminal; tables are cut to it.
    pub width: Option<usize>,
}

/// A place that text is written to, shared with the progress reports that outlive a call.
pub(super) type Sink = Arc<Mutex<Box<dyn Write + Send>>>;

/// Writes to the person or program that started this process.
///
/// Its input may come from anywhere, so it is written as [`printable`] text.
///
/// Writing never panics and never ends a run. If the reader has closed the pipe (`perf4sight networks | head`), nothing
/// more is written to it; any other write error is kept for [`Console::finish`].
pub struct Console {
    settings: ConsoleSettings,
    out: Sink,
    err: Sink,
    bars: MultiProgress,
    failure: Mutex<Option<io::Error>>,
}

impl ConsoleSettings {
    /// The settings for the current terminal. Colours are used only if results go to a terminal and `colour` allows
    /// them (the command line disallows them if `NO_COLOR` is set).
    pub fn of_terminal(mode: OutputMode, colour: bool) -> Self {
        let results_are_read = io::stdout().is_terminal();
        ConsoleSettings {
            mode,
            colour: colour && results_are_read,
            bars: io::stderr().is_terminal(),
            width: terminal_size::terminal_size().filter(|_| results_are_read).map(|(columns, _)| columns.0.into()),
        }
    }
}

impl Console {
    /// Prints to stdout and stderr.
    pub fn new(settings: ConsoleSettings) -> Self {
        Self::writing_to(settings, io::stdout(), io::stderr())
    }

    /// A console that writes results to `out`, everything else to `err`.
    pub fn writing_to(
        settings: ConsoleSettings,
        out: impl Write + Send + 'static,
        err: impl Write + Send + 'static,
    ) -> Self {
        Console {
            settings,
            out: Arc::new(Mutex::new(Box::new(out))),
            err: Arc::new(Mutex::new(Box::new(err))),
            bars: MultiProgress::new(),
            failure: Mutex::new(None),
        }
    }

    /// The amount and format of its output.
    pub fn mode(&self) -> OutputMode {
        self.settings.mode
    }

    /// Prints a result to stdout, with a line end.
    pub fn line(&self, text: impl Display) {
        self.result(&format!("{}\n", printable(&text.to_string())));
    }

    /// A table of results, with a blank line before it.
    pub fn table(&self, table: &Table) {
        let mut lines = table.lines(self.settings.width);
        if self.settings.colour {
            let headings = usize::from(!table.title.is_empty());
            lines[..=headings].iter_mut().for_each(|line| *line = bold(line));
        }
        self.result(&format!("\n{}\n", lines.join("\n")));
    }

    /// The summary of the run for programs; printed only if [`OutputMode::is_json`].
    pub fn json(&self, summary: &serde_json::Value) {
        if self.settings.mode.is_json() {
            self.print(&self.out, &format!("{}\n", printable_json(&format!("{summary:#}"))));
        }
    }

    /// A message about the current activity.
    pub fn note(&self, text: impl Display) {
        if !self.settings.mode.is_quiet() {
            self.print(&self.err, &format!("{}\n", paragraph(&text.to_string())));
        }
    }

    /// A warning; the run continues.
    pub fn warn(&self, text: impl Display) {
        let mark = if self.settings.bars && self.settings.colour { "\x1b[1;33mwarning\x1b[0m" } else { "warning" };
        self.print(&self.err, &format!("{mark}: {}\n", paragraph(&text.to_string())));
    }

    /// Reports progress on `total` pieces of work called `what` until the returned value is dropped. Without a
    /// terminal, nothing is reported in the first two seconds.
    pub fn progress(&self, total: u64, what: &str) -> Progress {
        self.patient_progress(total, what, PATIENCE)
    }

    /// The same with another delay before the first report.
    pub fn patient_progress(&self, total: u64, what: &str, patience: Duration) -> Progress {
        match (self.settings.mode.is_quiet(), self.settings.bars) {
            (true, _) => Progress::silent(total),
            (_, true) => Progress::bar(total, what, &self.bars),
            (_, false) => Progress::lines(total, what, Arc::clone(&self.err), patience),
        }
    }

    /// Flushes, and returns whether everything could be written.
    ///
    /// # Errors
    /// The first write error, such as a full disk; a closed pipe is no error.
    pub fn finish(&self) -> Result<()> {
        let flushed = locked(&self.out).flush();
        self.keep(flushed);
        match locked(&self.failure).take() {
            Some(cause) => Err(Error::io("stdout", "write results", &cause)),
            None => Ok(()),
        }
    }

    fn result(&self, text: &str) {
        if !self.settings.mode.is_json() {
            self.print(&self.out, text);
        }
    }

    fn print(&self, sink: &Sink, text: &str) {
        self.keep(self.bars.suspend(|| locked(sink).write_all(text.as_bytes())));
    }

    fn keep(&self, written: io::Result<()>) {
        if let Err(cause) = written
            && cause.kind() != io::ErrorKind::BrokenPipe
        {
            locked(&self.failure).get_or_insert(cause);
        }
    }
}

/// Ignores poisoning: a panic during printing leaves half-written text, nothing worse.
pub(super) fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bold(text: &str) -> String {
    format!("\x1b[1m{text}\x1b[0m")
}
