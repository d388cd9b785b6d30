//! A worker's program: how it is started, and what it says it can do.

use super::machine::{Invocation, Machine};
use super::protocol::{self, About, PROTOCOL};
use super::worker::{End, Legacy};
use super::{LIBTORCH, Watch, add_gpus};
use crate::error::{Error, Result};
use crate::records::Setting;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What a worker is asked with to tell about itself.
const ABOUT: &str = "--about";
/// What makes this program a worker.
pub(super) const OWN: &str = "worker";

/// A program that measures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The executable, which without slashes is looked for where commands are, then its arguments. No shell ever sees them.
    pub words: Vec<String>,
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
        gpus: BTreeMap::new(),
        no_gpu: None,
    })
}

/// Writes [`own_about`] as one line. With `cuda` it looks for GPUs too, which loads the CUDA half of libtorch, from that path where
/// there is one.
///
/// # Errors
/// See there; or when the line cannot be written.
pub fn tell_about(mut output: impl Write, cuda: Option<Option<&Path>>) -> Result<()> {
    let mut about = own_about()?;
    if let Some(libtorch_cuda) = cuda {
        add_gpus(&mut about, libtorch_cuda);
    }
    let about = serde_json::to_string(&about).map_err(std::io::Error::from);
    let written = about.and_then(|about| writeln!(output, "{about}"));
    written.map_err(|cause| Error::io("standard output", "tell about the worker", &cause))
}

impl Program {
    /// This program, which is its own worker.
    ///
    /// # Errors
    /// See [`own_about`].
    pub fn own(executable: &Path) -> Result<Self> {
        Ok(Program { words: own_words(executable), about: own_about()? })
    }

    /// Somebody else's worker, asked what it can do on the machine where it will run.
    ///
    /// # Errors
    /// When it cannot be started, does not answer, or speaks another version of the protocol.
    pub fn ask(machine: &dyn Machine, words: Vec<String>, timeout: Duration) -> Result<Self> {
        let asking = [words.as_slice(), &[ABOUT.to_owned()]].concat();
        let never = AtomicBool::new(false);
        let watch = Watch { cancelled: &never, waiting: &|_| () };
        let command = Invocation { words: &asking, request: "", threads: machine.threads(), timeout };
        let legacy = machine.ask(&command, &watch)?.ok_or_else(|| Error::device("interrupted"))?;
        let about = protocol::read(&legacy.said).map_err(|why| unfit(&words, machine, &legacy, &why))?;
        Ok(Program { words, about })
    }

    /// Refuses a place that it cannot run networks on.
    ///
    /// # Errors
    /// What it can run them on.
    pub fn check_place(&self, place: &str) -> Result<()> {
        if self.about.places.contains_key(place) {
            return Ok(());
        }
        let problem = format!("the worker `{self}` cannot run networks on {place}");
        if let (true, Some(why)) = (place.starts_with("cuda:"), &self.about.no_gpu) {
            return Err(Error::device(format!("{problem}: {why}")));
        }
        let problem = match self.about.gpus.len() {
            0 => problem,
            1 => format!("{problem}: there is 1 GPU"),
            gpus => format!("{problem}: there are {gpus} GPUs"),
        };
        let places: Vec<&str> = self.about.places.keys().map(String::as_str).collect();
        Err(Error::device(problem)
            .expected(places.join(", "))
            .help("install its software with support for the device, or set another device or gpu_id"))
    }
}

/// The command of this program's own worker. Where its name is no text, it is named by what the kernel calls any running program.
pub(super) fn own_words(executable: &Path) -> Vec<String> {
    vec![executable.to_str().unwrap_or("/proc/self/exe").to_owned(), OWN.to_owned()]
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.words.join(" "))
    }
}

/// Why a program that was asked about itself is no worker of ours.
fn unfit(words: &[String], machine: &dyn Machine, legacy: &Legacy, why: &str) -> Error {
    let heard = match (&legacy.end, legacy.said.trim(), legacy.complained.trim().lines().last()) {
        (End::TimedOut, ..) => "no answer in time".to_owned(),
        (_, "", Some(complaint)) => complaint.to_owned(),
        (_, "", None) => "no answer".to_owned(),
        _ => why.to_owned(),
    };
    Error::device(format!("the worker `{}`{} does not say what it can do: {heard}", words.join(" "), machine.at()))
        .expected(format!("{ABOUT} makes it write one line of protocol {PROTOCOL}"))
        .help("run the command with it by hand, or use the workers/torch_worker.py of this version")
}
