//! Runs a command of the user with our standard streams. It is interrupted as by Ctrl-C, and its descendants end with
//! it.

use super::RunWatch;
use super::guard::GuardedProcess;
use perf4sight_base::error::{Error, Result};
use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The polling interval: long enough not to disturb the measurement.
const LOOK: Duration = Duration::from_millis(50);
/// Time to end after Ctrl-C or the time limit, within the five seconds that the program itself takes at most.
const GRACE: Duration = Duration::from_secs(4);

/// Time to write results at the time limit: a trace of many events takes minutes.
const WRITING: Duration = Duration::from_secs(300);

/// A command to run with our standard streams, in a process group of its own. It cannot read from a terminal: the
/// kernel would stop it.
#[derive(Debug, Clone, Copy)]
pub struct ForegroundCommand<'a> {
    /// The executable, then its arguments. No shell parses them.
    pub words: &'a [String],
    /// Variables that are set in addition to our own.
    pub environment: &'a [(&'a str, OsString)],
    /// A variable with a list of folders, and the folder to prepend to it.
    pub first_folder: (&'a str, &'a Path),
    /// Whether its standard output goes to our standard error.
    pub quiet: bool,
    /// Time after which it is ended.
    pub limit: Option<Duration>,
}

/// The exit status of a command, and why we ended it if we did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForegroundEnd {
    /// Its exit status; none where it had to be killed.
    pub status: Option<ExitStatus>,
    /// Why it was ended; none where it ended by itself.
    pub asked: Option<EndReason>,
}

/// What a caller sees of a running command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandProgress {
    /// It runs.
    Running,
    /// It writes results: at its time limit they are waited for, for up to five minutes.
    Writing,
    /// It did all that it was started for.
    Done,
}

/// Why a command was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// After Ctrl-C.
    Cancelled,
    /// At its time limit.
    TimeUp,
    /// The caller had enough.
    Done,
}

impl ForegroundCommand<'_> {
    /// Runs it until it ends, or `look`, which is called periodically, finds it done.
    ///
    /// # Errors
    /// A command that cannot be started.
    pub fn run(&self, watch: &RunWatch<'_>, mut look: impl FnMut() -> CommandProgress) -> Result<ForegroundEnd> {
        let program = self.words.first().ok_or_else(|| Error::usage("the command is empty"))?;
        let started = GuardedProcess::start(&mut self.command(program), true);
        let mut guarded = started.map_err(|cause| {
            Error::io(program, "start this command", &cause).help(match cause.kind() {
                io::ErrorKind::PermissionDenied => {
                    "let it be executable (chmod +x), or name what runs it: python3 train.py"
                }
                _ => "name a program on the path, or a file with its folder",
            })
        })?;
        let begun = Instant::now();
        let lost = |cause| Error::io(program, "wait for this command", &cause);
        loop {
            if let Some(status) = guarded.child.try_wait().map_err(lost)? {
                return Ok(ForegroundEnd { status: Some(status), asked: None });
            }
            let asked = match self.limit {
                _ if watch.cancelled() => Some(EndReason::Cancelled),
                Some(limit) if begun.elapsed() >= limit => Some(EndReason::TimeUp),
                _ => (look() == CommandProgress::Done).then_some(EndReason::Done),
            };
            if let Some(asked) = asked {
                let writes = || asked == EndReason::TimeUp && look() == CommandProgress::Writing;
                return Ok(ForegroundEnd {
                    status: interrupt(&mut guarded, writes).map_err(lost)?,
                    asked: Some(asked),
                });
            }
            thread::sleep(LOOK);
        }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(&self.words[1..]).envs(self.environment.iter().map(|(name, value)| (name, value)));
        let (list, folder) = self.first_folder;
        command.env(list, with_first(list, folder));
        if io::stdin().is_terminal() {
            command.stdin(Stdio::null());
        }
        if self.quiet {
            command.stdout(io::stderr());
        }
        command
    }
}

/// A list of folders with another one prepended.
pub fn with_first(list: &str, folder: &Path) -> OsString {
    let mut folders = folder.as_os_str().to_owned();
    if let Some(others) = env::var_os(list).filter(|others| !others.is_empty()) {
        folders.push(":");
        folders.push(others);
    }
    folders
}

/// Interrupts the process group, and waits a while for its end, and for what it writes.
fn interrupt(guarded: &mut GuardedProcess, mut writes: impl FnMut() -> bool) -> io::Result<Option<ExitStatus>> {
    guarded.interrupt();
    let begun = Instant::now();
    loop {
        match guarded.child.try_wait()? {
            None if begun.elapsed() < GRACE || begun.elapsed() < WRITING && writes() => thread::sleep(LOOK),
            ended => return Ok(ended),
        }
    }
}

#[cfg(test)]
mod tests;
