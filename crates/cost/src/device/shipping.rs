//! Which worker runs on a machine over ssh, and which of its files are copied there.

use super::program::{self, VERB};
use perf4sight_base::error::{Error, Result};
use perf4sight_machine::remote::{CommandBundle, SshHost};
use std::env::consts::ARCH;
use std::path::{Path, PathBuf};

/// The launcher in the folder that `./main cross` makes.
const LAUNCHER: &str = "perf4sight";

/// The properties of a machine that decide which worker it gets.
#[derive(Clone, Copy)]
pub(super) struct Destination<'a> {
    pub host: &'a SshHost,
    /// The output of `uname -m`.
    pub architecture: &'a str,
    /// The folder for files on the machine.
    pub store: &'a str,
}

/// The worker that `words` specify; empty: perf4sight's own. `executable` is the path of this program.
///
/// If the only word is a local folder, `./main cross` made it. Otherwise the words are a command of the machine, with
/// the local files that it names.
///
/// # Errors
/// A worker for another processor architecture, a word with a line break or NUL, a file that cannot be read.
pub(super) fn worker(words: &[String], executable: &Path, there: &Destination<'_>) -> Result<CommandBundle> {
    if let Some(word) = words.iter().find(|word| word.is_empty() || word.contains(['\n', '\0'])) {
        return Err(Error::config(format!("{word:?} cannot be a word of a worker's command on {}", there.host)));
    }
    match words {
        [] if there.architecture == ARCH => CommandBundle::of_file(&program::own_worker(executable)?, there.store),
        [] => launcher_bundle(&compiled_worker(executable, there)?, there),
        [folder] if Path::new(folder).is_dir() => launcher_bundle(Path::new(folder), there),
        words => CommandBundle::of_words(words, there.store),
    }
}

/// This program, compiled for the machine's processor: `target/perf4sight-aarch64-unknown-linux-gnu` next to
/// `target/release/perf4sight`.
fn compiled_worker(executable: &Path, there: &Destination<'_>) -> Result<PathBuf> {
    let triple = format!("{}-unknown-linux-gnu", there.architecture);
    let folder = executable.ancestors().nth(2).map(|target| target.join(format!("perf4sight-{triple}")));
    folder.filter(|folder| folder.is_dir()).ok_or_else(|| {
        let Destination { host, architecture, .. } = there;
        Error::device(format!("{host} has a {architecture} processor, and this program runs on {ARCH}")).help(format!(
            "./main cross {triple}, or on machines with an older PyTorch set worker = python3 workers/torch_worker.py"
        ))
    })
}

fn launcher_bundle(folder: &Path, there: &Destination<'_>) -> Result<CommandBundle> {
    if !folder.join(LAUNCHER).is_file() {
        return Err(Error::config(format!("the worker {} is a folder without {LAUNCHER}", folder.display()))
            .expected("the folder that ./main cross makes, or a command"));
    }
    let mut bundle = CommandBundle::of_folder(folder, LAUNCHER, there.store)?;
    bundle.command.push(VERB.to_owned());
    Ok(bundle)
}
