//! What has to lie on a board before a worker runs there: files, each in a place named after its content.

use super::host::Host;
use super::look::Look;
use crate::checksum::checksum;
use crate::device::program::{self, VERB};
use crate::error::{Error, Result};
use std::env::consts::ARCH;
use std::fmt::{self, Display, Formatter};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The launcher in the folder that `./main cross` makes.
const LAUNCHER: &str = "perf4sight";

/// Where a file lies, below the board's store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place(String);

impl Place {
    /// The place of one file by itself.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn of(file: &Path) -> Result<Self> {
        Ok(Place(format!("{}/{}", checksum(content(file)?), plain(file.file_name().unwrap_or_default().as_ref()))))
    }

    /// Its path on a board.
    pub fn on(&self, look: &Look) -> String {
        format!("{}/{self}", look.store)
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A file on its way.
pub(super) struct Load {
    /// What is in it.
    pub content: File,
    /// How much that is.
    pub size: u64,
    /// Its permissions on the board, for chmod.
    pub mode: &'static str,
}

impl Load {
    /// Opens a file.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn open(file: &Path) -> Result<Self> {
        let failed = |cause| Error::io(file, "read what goes to the board", &cause);
        let content = File::open(file).map_err(failed)?;
        let about = content.metadata().map_err(failed)?;
        let mode = if about.permissions().mode() & 0o111 == 0 { "600" } else { "700" };
        Ok(Load { content, size: about.len(), mode })
    }
}

/// What a worker needs on the board, and the command it is then run with.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Luggage {
    /// Files here and their places there.
    pub files: Vec<(PathBuf, Place)>,
    /// The command there.
    pub command: Vec<String>,
}

/// The luggage of a worker: of perf4sight's own where `words` are empty, `executable` being this program.
///
/// A first word that is a folder here is one that `./main cross` made. Other words that name a file here by a relative path go along,
/// the first one only if it has a slash; everything else is the board's own.
///
/// # Errors
/// A worker for another processor, a word that is no line, a file that cannot be read.
pub(super) fn worker(words: &[String], executable: &Path, look: &Look, host: &Host) -> Result<Luggage> {
    if let Some(word) = words.iter().find(|word| word.is_empty() || word.contains(['\n', '\0'])) {
        return Err(Error::config(format!("{word:?} cannot be a word of a worker's command on {host}")));
    }
    match words {
        [] if look.architecture == ARCH => own(executable, look),
        [] => compiled(executable, look, host),
        [folder] if Path::new(folder).is_dir() => launched(Path::new(folder), look),
        words => command(words, look),
    }
}

/// The worker of this program.
fn own(executable: &Path, look: &Look) -> Result<Luggage> {
    let worker = program::beside(executable)?;
    let place = Place::of(&worker)?;
    Ok(Luggage { command: vec![place.on(look)], files: vec![(worker, place)] })
}

/// This program as it was compiled for the board's processor: `target/perf4sight-aarch64-unknown-linux-gnu` beside
/// `target/release/perf4sight`.
fn compiled(executable: &Path, look: &Look, host: &Host) -> Result<Luggage> {
    let triple = format!("{}-unknown-linux-gnu", look.architecture);
    let folder = executable.ancestors().nth(2).map(|target| target.join(format!("perf4sight-{triple}")));
    match folder.filter(|folder| folder.is_dir()) {
        Some(folder) => launched(&folder, look),
        None => {
            Err(Error::device(format!("{host} has a {} processor, and this program runs on {ARCH}", look.architecture))
                .help(format!(
                    "./main cross {triple}, or on boards with an older PyTorch worker = python3 workers/torch_worker.py"
                )))
        }
    }
}

/// A folder with a launcher.
fn launched(folder: &Path, look: &Look) -> Result<Luggage> {
    if !folder.join(LAUNCHER).is_file() {
        return Err(Error::config(format!("the worker {} is a folder without {LAUNCHER}", folder.display()))
            .expected("the folder that ./main cross makes, or a command"));
    }
    let mut below = Vec::new();
    collect(folder, &mut below)?;
    below.sort();
    let mut sums = String::new();
    for file in &below {
        sums += &format!("{} {}\n", checksum(content(file)?), file.display());
    }
    let whole = checksum(sums.bytes());
    let place = |file: &Path| {
        let parts = file.strip_prefix(folder).unwrap_or(file).iter();
        Place(parts.fold(whole.clone(), |place, part| format!("{place}/{}", plain(part.as_ref()))))
    };
    let command = vec![place(&folder.join(LAUNCHER)).on(look), VERB.to_owned()];
    let files = below
        .into_iter()
        .map(|file| {
            let place = place(&file);
            (file, place)
        })
        .collect();
    Ok(Luggage { files, command })
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |cause| Error::io(folder, "read what goes to the board", &cause);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        match path.is_dir() {
            true => collect(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}

/// A command of the board's, with files of ours among its words.
fn command(words: &[String], look: &Look) -> Result<Luggage> {
    let mut luggage = Luggage::default();
    for (at, word) in words.iter().enumerate() {
        let file = Path::new(word);
        if file.is_relative() && (at > 0 || word.contains('/')) && file.is_file() {
            let place = Place::of(file)?;
            luggage.command.push(place.on(look));
            luggage.files.push((file.to_owned(), place));
        } else {
            luggage.command.push(word.clone());
        }
    }
    Ok(luggage)
}

fn content(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).map_err(|cause| Error::io(file, "read what goes to the board", &cause))
}

/// A name that is one line and no path.
fn plain(name: &Path) -> String {
    let name = name.to_string_lossy();
    let kept = |letter: char| if letter.is_alphanumeric() || "._-@+".contains(letter) { letter } else { '_' };
    name.chars().map(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::description::Description;
    use tempfile::TempDir;

    fn look(architecture: &str) -> Look {
        Look {
            architecture: architecture.to_owned(),
            store: "/home/me/.cache/perf4sight".to_owned(),
            threads: 1,
            absent: String::new(),
            facts: Default::default(),
            description: Description::here(),
        }
    }

    fn luggage(words: &[&str], executable: &Path, architecture: &str) -> Result<Luggage> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        worker(&words, executable, &look(architecture), &Host::parse("board").unwrap())
    }

    #[test]
    fn relative_files_go_along_and_everything_else_is_the_boards() {
        let none = Path::new("");
        let worker = luggage(&["python3", "workers/torch_worker.py", "-v"], none, "aarch64").unwrap();
        let sum = checksum(fs::read("workers/torch_worker.py").unwrap());
        let there = format!("/home/me/.cache/perf4sight/{sum}/torch_worker.py");
        assert_eq!(worker.command, ["python3", &there, "-v"]);
        assert_eq!(worker.files.len(), 1);
        // `test` is a file of this repository, and a command.
        for words in [&["test"][..], &["/bin/sh", "/etc/passwd"], &["perf4sight/perf4sight", "worker"]] {
            assert_eq!(
                luggage(words, none, "aarch64").unwrap(),
                Luggage { files: vec![], command: words.iter().map(|word| word.to_string()).collect() }
            );
        }
        assert_eq!(luggage(&["./test"], none, "aarch64").unwrap().files.len(), 1);
        for words in [&["sh", "a\nb"][..], &["sh", ""]] {
            assert!(luggage(words, none, "aarch64").unwrap_err().to_string().contains("cannot be a word"));
        }
    }

    #[test]
    fn the_program_goes_along_if_it_runs_there_or_was_compiled_for_it() {
        let target = TempDir::new().unwrap();
        let executable = target.path().join("release/perf4sight");
        fs::create_dir(target.path().join("release")).unwrap();
        let missing = luggage(&[], &executable, ARCH).unwrap_err().to_string();
        assert!(missing.contains("release/perf4sight-worker is missing"), "{missing}");
        fs::write(target.path().join("release/perf4sight-worker"), "worker").unwrap();
        let own = luggage(&[], &executable, ARCH).unwrap();
        assert_eq!((own.files.len(), own.command.len()), (1, 1));
        assert!(program::is_own(&own.command), "{:?}", own.command);

        let error = luggage(&[], &executable, "riscv64").unwrap_err().to_string();
        assert!(error.contains("riscv64 processor") && error.contains("./main cross riscv64-unknown"), "{error}");
        let folder = target.path().join("perf4sight-riscv64-unknown-linux-gnu");
        fs::create_dir_all(folder.join("lib")).unwrap();
        fs::write(folder.join("lib/libtorch.so"), "library").unwrap();
        assert!(
            luggage(&[folder.to_str().unwrap()], &executable, ARCH)
                .unwrap_err()
                .to_string()
                .contains("without perf4sight")
        );
        fs::write(folder.join("perf4sight"), "launcher").unwrap();
        let compiled = luggage(&[], &executable, "riscv64").unwrap();
        assert_eq!(compiled.files.len(), 2);
        assert!(program::is_own(&compiled.command), "{:?}", compiled.command);
        let (libraries, launcher) = (compiled.files[0].1.on(&look(ARCH)), &compiled.command[0]);
        // They lie side by side, as the launcher wants it.
        assert_eq!(libraries.strip_suffix("lib/libtorch.so"), launcher.strip_suffix("perf4sight"));
        assert_eq!(luggage(&[folder.to_str().unwrap()], &executable, ARCH).unwrap(), compiled);
    }
}
