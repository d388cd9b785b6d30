//! Files that a machine needs before a command runs there; each is stored at a path named after its content.

use perf4sight_base::checksum::checksum;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use std::fmt::{self, Display, Formatter};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const TO_MACHINE: &str = "read what goes to the machine";

/// The path of a file, relative to the machine's store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredPath(String);

impl StoredPath {
    pub fn for_file(file: &Path) -> Result<Self> {
        Ok(StoredPath(format!("{}/{}", checksum(content(file)?), plain(file.file_name().unwrap_or_default().as_ref()))))
    }

    pub fn in_store(&self, store: &str) -> String {
        format!("{store}/{self}")
    }
}

impl Display for StoredPath {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(super) struct Upload {
    pub content: File,
    pub size: u64,
    /// Its permissions on the machine, for chmod.
    pub mode: &'static str,
}

impl Upload {
    pub fn open(file: &Path) -> Result<Self> {
        let content = input_file::open(file, TO_MACHINE)?;
        let about = content.metadata().map_err(|cause| Error::io(file, TO_MACHINE, &cause))?;
        let mode = if about.permissions().mode() & 0o111 == 0 { "600" } else { "700" };
        Ok(Upload { content, size: about.len(), mode })
    }
}

/// Files that a command needs on a machine, and the command to run there.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CommandBundle {
    pub(super) files: Vec<(PathBuf, StoredPath)>,
    /// With the paths that its files have there.
    pub command: Vec<String>,
}

impl CommandBundle {
    /// A single executable file; `store` is the folder of files there.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn of_file(file: &Path, store: &str) -> Result<Self> {
        let path = StoredPath::for_file(file)?;
        Ok(CommandBundle { command: vec![path.in_store(store)], files: vec![(file.to_owned(), path)] })
    }

    /// A folder that contains the executable.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn of_folder(folder: &Path, command: &str, store: &str) -> Result<Self> {
        let mut below = Vec::new();
        collect(folder, &mut below)?;
        below.sort();
        let mut sums = String::new();
        for file in &below {
            sums += &format!("{} {}\n", checksum(content(file)?), file.display());
        }
        let whole = checksum(sums.bytes());
        let path = |file: &Path| {
            let parts = file.strip_prefix(folder).unwrap_or(file).iter();
            StoredPath(parts.fold(whole.clone(), |path, part| format!("{path}/{}", plain(part.as_ref()))))
        };
        let command = vec![path(&folder.join(command)).in_store(store)];
        let stored = |file: PathBuf| {
            let path = path(&file);
            (file, path)
        };
        Ok(CommandBundle { files: below.into_iter().map(stored).collect(), command })
    }

    /// A command that exists on the machine. Arguments that are relative paths of files here are uploaded; the first
    /// word only if it has a slash.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn of_words(words: &[String], store: &str) -> Result<Self> {
        let mut bundle = CommandBundle::default();
        for (at, word) in words.iter().enumerate() {
            let file = Path::new(word);
            if file.is_relative() && (at > 0 || word.contains('/')) && file.is_file() {
                let path = StoredPath::for_file(file)?;
                bundle.command.push(path.in_store(store));
                bundle.files.push((file.to_owned(), path));
            } else {
                bundle.command.push(word.clone());
            }
        }
        Ok(bundle)
    }

    /// How many files are uploaded.
    pub fn files(&self) -> usize {
        self.files.len()
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |cause| Error::io(folder, "read what goes to the machine", &cause);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        match path.is_dir() {
            true => collect(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}

fn content(file: &Path) -> Result<Vec<u8>> {
    input_file::bytes(file, TO_MACHINE)
}

/// A file name without line breaks and slashes.
fn plain(name: &Path) -> String {
    let name = name.to_string_lossy();
    let kept = |letter: char| if letter.is_alphanumeric() || "._-@+".contains(letter) { letter } else { '_' };
    name.chars().map(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn relative_files_go_along_and_everything_else_is_the_machines_own() {
        let store = "/home/me/.cache/perf4sight";
        let bundle = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            CommandBundle::of_words(&words, store).unwrap()
        };
        let worker = bundle(&["python3", "src/lib.rs", "-v"]);
        let sum = checksum(fs::read("src/lib.rs").unwrap());
        let there = format!("{store}/{sum}/lib.rs");
        assert_eq!(worker.command, ["python3", &there, "-v"]);
        assert_eq!(worker.files.len(), 1);
        // A first word without a slash is a command, even if a file here has that name.
        for words in [&["Cargo.toml"][..], &["/bin/sh", "/etc/passwd"], &["perf4sight/perf4sight", "worker"]] {
            let own = CommandBundle { files: vec![], command: words.iter().map(|word| word.to_string()).collect() };
            assert_eq!(bundle(words), own);
        }
        assert_eq!(bundle(&["./Cargo.toml"]).files.len(), 1);
    }

    #[test]
    fn the_files_of_a_folder_lie_side_by_side_there_too() {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("lib")).unwrap();
        fs::write(folder.path().join("lib/libtorch.so"), "library").unwrap();
        fs::write(folder.path().join("start"), "launcher").unwrap();
        let bundle = CommandBundle::of_folder(folder.path(), "start", "/store").unwrap();
        let [(_, library), (_, launcher)] = bundle.files.as_slice() else { panic!("{bundle:?}") };
        assert_eq!(bundle.command, [launcher.in_store("/store")]);
        assert_eq!(library.to_string().strip_suffix("lib/libtorch.so"), launcher.to_string().strip_suffix("start"));
    }
}
