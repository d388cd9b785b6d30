//! Which CUDA half of libtorch a GPU is used with: where it is looked for, and whether it fits this program.
//!
//! In this order, the first that is given: the path that the configuration names (`libtorch_cuda`), the path in the environment
//! variable `LIBTORCH_CUDA`, and the PyTorch of the Python environment. A path may be PyTorch's package folder, the folder of a
//! libtorch archive, the folder that holds the library, or the library itself. What is given and does not fit is an error; nothing
//! else is tried then.

use super::about::LIBTORCH;
use perf4sight_base::error::{Error, Result};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library of the CUDA half; its dependencies are found by its own run path.
const NAME: &str = "libtorch_cuda.so";
/// The environment variable with a path to it.
const VARIABLE: &str = "LIBTORCH_CUDA";
/// Asks a Python where its PyTorch is; importing it would take seconds.
const ASK_PYTHON: &str =
    "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')";

/// A CUDA half that fits the CPU half this program is linked with.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CudaLibrary {
    pub file: PathBuf,
    /// Its version, such as `2.11.0+cu130`.
    pub version: String,
}

impl CudaLibrary {
    /// Finds it, `configured` being the path that the configuration names.
    ///
    /// # Errors
    /// There is none, or it has another version: both versions, and what to install.
    pub fn find(configured: Option<&Path>) -> Result<Self> {
        match configured.map(Path::to_owned).or_else(|| env::var_os(VARIABLE).map(PathBuf::from)) {
            Some(path) => Self::open(&path),
            None => Self::open(&pythons()?),
        }
    }

    fn open(path: &Path) -> Result<Self> {
        let here = [path.to_owned(), path.join(NAME), path.join("lib").join(NAME)];
        let file = here.into_iter().find(|file| file.is_file()).ok_or_else(|| {
            Error::device(format!(
                "there is no {NAME}: {}",
                if path.exists() { "no CUDA build of libtorch" } else { "no such path" }
            ))
            .file(path)
            .expected(wanted_text())
            .help(remedy())
        })?;
        let version = version(&file)?;
        match fits_version(&version) {
            true => Ok(CudaLibrary { file, version }),
            false => Err(Error::device(format!("this is libtorch {version}, and perf4sight is built for {LIBTORCH}"))
                .file(&file)
                .expected(wanted_text())
                .help(remedy())),
        }
    }
}

/// Releases of one minor version fit each other; between minor versions libtorch's C++ interface changes.
fn fits_version(version: &str) -> bool {
    let minor = |version: &str| version.split('.').take(2).map(str::to_owned).collect::<Vec<_>>();
    minor(version) == minor(LIBTORCH)
}

fn wanted_text() -> String {
    format!("{NAME} of libtorch {LIBTORCH}, as PyTorch {LIBTORCH} brings it")
}

fn remedy() -> String {
    format!(
        "pip install torch=={LIBTORCH}; where that is elsewhere, set libtorch_cuda in [profile] or {VARIABLE} to its folder; or \
         measure with worker = python3 workers/torch_worker.py"
    )
}

/// A package of PyTorch has its version in `version.py`, an archive of libtorch in `build-version`.
fn version(library: &Path) -> Result<String> {
    let folders = library.ancestors().skip(1).take(2);
    let said =
        folders.flat_map(|folder| [folder.join("version.py"), folder.join("build-version")]).find_map(stated_version);
    said.ok_or_else(|| {
        Error::device(format!("no file next to this library has its version, and perf4sight is built for {LIBTORCH}"))
            .file(library)
            .expected("version.py or build-version in the folder above, as PyTorch and libtorch have them")
            .help(remedy())
    })
}

/// The version in `__version__ = '2.11.0+cu130'`, or in a file of nothing else.
fn stated_version(file: PathBuf) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("__version__ ="));
    let version = line.unwrap_or(&text).trim().trim_matches(['\'', '"']);
    version.starts_with(|first: char| first.is_ascii_digit()).then(|| version.to_owned())
}

/// The folder of the PyTorch that the Python of this environment would import.
fn pythons() -> Result<PathBuf> {
    let python = env::var_os("VIRTUAL_ENV").map_or("python3".into(), |folder| Path::new(&folder).join("bin/python3"));
    let answer = Command::new(&python).args(["-c", ASK_PYTHON]).output();
    let why = match &answer {
        Err(cause) => format!("{} cannot be started: {cause}", python.display()),
        Ok(_) => format!("{} has no PyTorch", python.display()),
    };
    let folder = answer.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    if folder.is_empty() {
        return Err(Error::device(format!("no libtorch for GPUs is named by libtorch_cuda or {VARIABLE}, and {why}"))
            .expected(wanted_text())
            .help(remedy()));
    }
    Ok(folder.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn folder(files: &[(&str, &str)]) -> TempDir {
        let folder = TempDir::new().unwrap();
        for (name, content) in files {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        folder
    }

    const PYTORCH: &str = "from typing import Optional\n\n__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\n";

    #[test]
    fn a_path_may_be_the_package_the_archive_their_folder_of_libraries_or_the_library() {
        let pytorch = folder(&[("lib/libtorch_cuda.so", ""), ("version.py", PYTORCH)]);
        let archive = folder(&[("lib/libtorch_cuda.so", ""), ("build-version", "2.11.1+cu126\n")]);
        for (folder, version) in [(&pytorch, "2.11.0+cu130"), (&archive, "2.11.1+cu126")] {
            let file = folder.path().join("lib/libtorch_cuda.so");
            for path in [folder.path(), &folder.path().join("lib"), &file] {
                let found = CudaLibrary::find(Some(path)).unwrap();
                assert_eq!(found, CudaLibrary { file: file.clone(), version: version.to_owned() });
            }
        }
    }

    #[test]
    fn what_is_missing_or_another_version_is_refused_with_both_versions_and_a_remedy() {
        let other = folder(&[("lib/libtorch_cuda.so", ""), ("version.py", "__version__ = '2.10.0+cu128'\n")]);
        let unknown = folder(&[("lib/libtorch_cuda.so", ""), ("version.py", "VERSION = 2\n")]);
        let processor = folder(&[("lib/libtorch_cpu.so", ""), ("version.py", PYTORCH)]);
        let cases = [
            (other.path(), "this is libtorch 2.10.0+cu128, and perf4sight is built for 2.11.0"),
            (unknown.path(), "no file next to this library has its version"),
            (processor.path(), "no CUDA build of libtorch"),
            (Path::new("/nowhere/torch"), "no such path"),
        ];
        for (path, problem) in cases {
            let error = CudaLibrary::find(Some(path)).unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains(path.to_str().unwrap()), "{error}");
            assert!(error.contains("pip install torch==2.11.0"), "{error}");
        }
    }

    #[test]
    fn a_minor_version_decides() {
        assert!(fits_version("2.11.0") && fits_version("2.11.3+cu130"));
        assert!(!fits_version("2.1.0") && !fits_version("2.12.0") && !fits_version("3.11.0") && !fits_version("2"));
    }
}
