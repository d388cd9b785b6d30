//! Which worker runs on a machine that is reached over ssh, and what of it has to go there.

use super::program::{self, VERB};
use perf4sight_base::error::{Error, Result};
use perf4sight_machine::remote::{Bundle, Host};
use std::env::consts::ARCH;
use std::path::{Path, PathBuf};

/// The launcher in the folder that `./main cross` makes.
const LAUNCHER: &str = "perf4sight";

/// What decides on the worker of a machine.
#[derive(Clone, Copy)]
pub(super) struct Destination<'a> {
    pub host: &'a Host,
    /// As `uname -m` calls it.
    pub architecture: &'a str,
    /// Where files are kept there.
    pub store: &'a str,
}

/// The worker that `words` name, or perf4sight's own where they are empty, `executable` being this program.
///
/// A first word that is a folder here is one that `./main cross` made; other words are a command of the machine's, with the files of
/// this machine that it names.
///
/// # Errors
/// A worker for another processor, a word that is no line, a file that cannot be read.
pub(super) fn worker(words: &[String], executable: &Path, there: &Destination<'_>) -> Result<Bundle> {
    if let Some(word) = words.iter().find(|word| word.is_empty() || word.contains(['\n', '\0'])) {
        return Err(Error::config(format!("{word:?} cannot be a word of a worker's command on {}", there.host)));
    }
    match words {
        [] if there.architecture == ARCH => Bundle::of_file(&program::beside(executable)?, there.store),
        [] => launched(&compiled(executable, there)?, there),
        [folder] if Path::new(folder).is_dir() => launched(Path::new(folder), there),
        words => Bundle::of_words(words, there.store),
    }
}

/// This program as it was compiled for the machine's processor: `target/perf4sight-aarch64-unknown-linux-gnu` beside
/// `target/release/perf4sight`.
fn compiled(executable: &Path, there: &Destination<'_>) -> Result<PathBuf> {
    let triple = format!("{}-unknown-linux-gnu", there.architecture);
    let folder = executable.ancestors().nth(2).map(|target| target.join(format!("perf4sight-{triple}")));
    folder.filter(|folder| folder.is_dir()).ok_or_else(|| {
        let Destination { host, architecture, .. } = there;
        Error::device(format!("{host} has a {architecture} processor, and this program runs on {ARCH}")).help(format!(
            "./main cross {triple}, or on machines with an older PyTorch set worker = python3 workers/torch_worker.py"
        ))
    })
}

/// A folder with a launcher.
fn launched(folder: &Path, there: &Destination<'_>) -> Result<Bundle> {
    if !folder.join(LAUNCHER).is_file() {
        return Err(Error::config(format!("the worker {} is a folder without {LAUNCHER}", folder.display()))
            .expected("the folder that ./main cross makes, or a command"));
    }
    let mut bundle = Bundle::of_folder(folder, LAUNCHER, there.store)?;
    bundle.command.push(VERB.to_owned());
    Ok(bundle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    fn shipped(words: &[&str], executable: &Path, architecture: &str) -> Result<Bundle> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let host = Host::parse("board").unwrap();
        worker(&words, executable, &Destination { host: &host, architecture, store: "/home/me/.cache/perf4sight" })
    }

    #[test]
    fn words_that_are_no_lines_are_refused() {
        for words in [&["sh", "a\nb"][..], &["sh", ""]] {
            let refusal = shipped(words, Path::new(""), "aarch64").unwrap_err().to_string();
            assert!(refusal.contains("cannot be a word"), "{refusal}");
        }
    }

    #[test]
    fn the_program_goes_along_if_it_runs_there_or_was_compiled_for_it() {
        let target = TempDir::new().unwrap();
        let executable = target.path().join("release/perf4sight");
        fs::create_dir(target.path().join("release")).unwrap();
        let missing = shipped(&[], &executable, ARCH).unwrap_err().to_string();
        assert!(missing.contains("release/perf4sight-worker is missing"), "{missing}");
        fs::write(target.path().join("release/perf4sight-worker"), "worker").unwrap();
        let own = shipped(&[], &executable, ARCH).unwrap();
        assert_eq!((own.files(), own.command.len()), (1, 1));
        assert!(program::is_own(&own.command), "{:?}", own.command);

        let error = shipped(&[], &executable, "riscv64").unwrap_err().to_string();
        assert!(error.contains("riscv64 processor") && error.contains("./main cross riscv64-unknown"), "{error}");
        let folder = target.path().join("perf4sight-riscv64-unknown-linux-gnu");
        fs::create_dir_all(&folder).unwrap();
        let error = shipped(&[folder.to_str().unwrap()], &executable, ARCH).unwrap_err().to_string();
        assert!(error.contains("without perf4sight"), "{error}");
        fs::write(folder.join("perf4sight"), "launcher").unwrap();
        let compiled = shipped(&[], &executable, "riscv64").unwrap();
        assert!(
            compiled.command[0].ends_with("/perf4sight") && program::is_own(&compiled.command),
            "{:?}",
            compiled.command
        );
        assert_eq!(shipped(&[folder.to_str().unwrap()], &executable, ARCH).unwrap(), compiled);
    }
}
