//! A worker's program: how it is started, and what it says it can do.

use super::protocol::{self, About, PROTOCOL};
use super::worker::{self, End, Legacy};
use super::{LIBTORCH, Watch};
use crate::error::{Error, Result};
use crate::records::Setting;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What a worker is asked with to tell about itself.
const ABOUT: &str = "--about";

/// A program that measures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The executable; without slashes it is looked for where commands are.
    pub path: PathBuf,
    /// Its arguments. No shell ever sees them.
    pub arguments: Vec<String>,
    /// What it can do.
    pub about: About,
}

/// What the worker in this program can do.
///
/// # Errors
/// In a build without libtorch there is none.
pub fn own_about() -> Result<About> {
    let libtorch = LIBTORCH.ok_or_else(|| {
        Error::device("this program was built without libtorch, so it cannot measure on the cpu")
            .help("build it with the feature `torch` (on by default), or set device = simulated or recorded")
    })?;
    Ok(About {
        protocol: PROTOCOL,
        software: [("libtorch".to_owned(), libtorch.to_owned())].into(),
        places: BTreeMap::from([("cpu".to_owned(), Setting::new())]),
        layers: true,
    })
}

/// Writes [`own_about`] as one line.
///
/// # Errors
/// See there; or when the line cannot be written.
pub fn tell_about(mut output: impl Write) -> Result<()> {
    let about = serde_json::to_string(&own_about()?).map_err(std::io::Error::from);
    let written = about.and_then(|about| writeln!(output, "{about}"));
    written.map_err(|cause| Error::io("standard output", "tell about the worker", &cause))
}

impl Program {
    /// This program, which is its own worker.
    ///
    /// # Errors
    /// See [`own_about`].
    pub fn own(executable: &Path) -> Result<Self> {
        Ok(Program { path: executable.to_owned(), arguments: vec!["worker".to_owned()], about: own_about()? })
    }

    /// Somebody else's worker, asked what it can do.
    ///
    /// # Errors
    /// When it cannot be started, does not answer, or speaks another version of the protocol.
    pub fn ask(words: &[String], timeout: Duration) -> Result<Self> {
        let (path, arguments) = words.split_first().ok_or_else(|| Error::config("the worker's command is empty"))?;
        let mut command = Command::new(path);
        command.args(arguments).arg(ABOUT);
        let never = AtomicBool::new(false);
        let legacy = worker::ask(&mut command, "", timeout, &Watch { cancelled: &never, waiting: &|| () })
            .map_err(|cause| Error::device(format!("the worker `{}` cannot be started: {cause}", words.join(" "))))?;
        let about = protocol::read(&legacy.said).map_err(|why| unfit(words, &legacy, &why))?;
        Ok(Program { path: path.into(), arguments: arguments.to_vec(), about })
    }

    /// The command that starts it.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments);
        command
    }

    /// Refuses a place that it cannot run networks on.
    ///
    /// # Errors
    /// What it can run them on.
    pub fn check_place(&self, place: &str) -> Result<()> {
        if self.about.places.contains_key(place) {
            return Ok(());
        }
        let places: Vec<&str> = self.about.places.keys().map(String::as_str).collect();
        Err(Error::device(format!("the worker `{self}` cannot run networks on {place}"))
            .expected(places.join(", "))
            .help("install its software with support for the device, or set another device or gpu_id"))
    }
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.path.display())?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {argument}"))
    }
}

/// Why a program that was asked about itself is no worker of ours.
fn unfit(words: &[String], legacy: &Legacy, why: &str) -> Error {
    let heard = match (&legacy.end, legacy.said.trim(), legacy.complained.trim().lines().last()) {
        (End::TimedOut, ..) => "no answer in time".to_owned(),
        (_, "", Some(complaint)) => complaint.to_owned(),
        (_, "", None) => "no answer".to_owned(),
        _ => why.to_owned(),
    };
    Error::device(format!("the worker `{}` does not say what it can do: {heard}", words.join(" ")))
        .expected(format!("{ABOUT} makes it write one line of protocol {PROTOCOL}"))
        .help("run the command with it by hand, or use the workers/torch_worker.py of this version")
}
