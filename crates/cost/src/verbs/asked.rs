//! Expands words to networks: folders and patterns become the files in them.

use perf4sight_base::error::{Error, Result};
use perf4sight_network::zoo;
use perf4sight_verb::PlannedFiles;
use std::fs;
use std::path::{Path, PathBuf};

/// The networks that the words refer to, in their order; the files of a folder or pattern are sorted.
pub(super) fn expand(words: &[String]) -> Result<Vec<String>> {
    let expanded: Vec<Vec<String>> = words.iter().map(|word| files(word)).collect::<Result<_>>()?;
    Ok(expanded.concat())
}

fn files(word: &str) -> Result<Vec<String>> {
    let path = Path::new(word);
    match word {
        _ if path.is_dir() => require_files(in_folder(path)?, word, "this folder holds no .onnx file"),
        _ if is_pattern(word) && !path.exists() => require_files(matching(word)?, word, "no file matches"),
        _ => Ok(vec![word.to_owned()]),
    }
}

/// Whether a word is a pattern, or a folder that is there or that an earlier section fills with networks.
pub(super) fn is_several(word: &str, planned: &PlannedFiles) -> Result<bool> {
    let path = Path::new(word);
    let is_folder = path.is_dir() || !planned.files(path, "onnx")?.is_empty();
    Ok(is_folder || is_pattern(word) && !path.exists())
}

/// Whether a word is a folder that an earlier section fills, though with no network.
pub(super) fn is_bare(word: &str, planned: &PlannedFiles) -> bool {
    let path = Path::new(word);
    let is_folder = !is_pattern(word) && path.extension().is_none_or(|ending| ending != "onnx");
    is_folder && planned.is_written(path) && planned.files(path, "onnx").is_ok_and(|files| files.is_empty())
}

/// The error of a folder without networks.
pub(super) fn no_networks(folder: &str) -> Error {
    let error = Error::input("this folder holds no .onnx file").file(folder).expected("networks as .onnx files");
    match zoo::names().any(|name| name == folder) {
        true => error.help(format!(
            "the known network {folder} has that name too: ask in another folder, or call this one otherwise"
        )),
        false => error,
    }
}

pub(super) fn is_pattern(word: &str) -> bool {
    word.contains(['*', '?', '['])
}

/// The file or folder of a word; of a pattern, the folder that everything it matches is below.
pub(super) fn folder_of(word: &str) -> PathBuf {
    Path::new(word).iter().take_while(|part| !part.to_str().is_some_and(is_pattern)).collect()
}

fn in_folder(folder: &Path) -> Result<Vec<String>> {
    let refused = |cause: std::io::Error| Error::io(folder, "list this folder", &cause);
    let entries = fs::read_dir(folder).map_err(refused)?;
    let paths = entries.map(|entry| Ok(entry.map_err(refused)?.path()));
    let paths: Vec<_> = paths.collect::<Result<_>>()?;
    let networks = paths.iter().filter(|path| path.extension().is_some_and(|end| end.eq_ignore_ascii_case("onnx")));
    Ok(networks.map(|path| text(path)).collect())
}

/// The files that match a pattern.
pub(super) fn matching(pattern: &str) -> Result<Vec<String>> {
    let paths = glob::glob(pattern).map_err(|cause| {
        Error::usage(format!("\"{pattern}\" is not a pattern: {cause}")).expected("such as nets/*.onnx")
    })?;
    // Paths that cannot be read are left out, as a shell does.
    Ok(paths.filter_map(|path| Some(text(&path.ok()?))).collect())
}

/// A path as text, because names of networks appear in tables. A name that is not UTF-8 becomes one of no file, which is told where it is read.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn require_files(mut files: Vec<String>, word: &str, nothing: &str) -> Result<Vec<String>> {
    files.sort_unstable();
    match files.is_empty() {
        true => Err(Error::input(nothing).file(word).expected("networks as .onnx files")),
        false => Ok(files),
    }
}
