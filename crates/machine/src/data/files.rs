//! The files of data, one after another.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// All regular files in a folder and those below, or the one file that the data is, with their lengths in bytes; links are followed for
/// the data itself only. What cannot be looked at cannot be read by a job either, and is passed over.
///
/// # Errors
/// Data that is not there.
pub fn files(data: &Path) -> io::Result<impl Iterator<Item = (PathBuf, u64)>> {
    let mut visit = vec![fs::canonicalize(data)?];
    Ok(std::iter::from_fn(move || {
        while let Some(path) = visit.pop() {
            let Ok(about) = fs::symlink_metadata(&path) else { continue };
            if about.is_dir() {
                visit.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
            } else if about.is_file() {
                return Some((path, about.len()));
            }
        }
        None
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// A link to the data is followed, one in it is not, and nobody opens a pipe that nothing writes to.
    #[test]
    fn files_alone_are_found_and_links_to_the_data_are_followed() {
        let root = TempDir::new().unwrap();
        let data = root.path().join("data");
        fs::create_dir_all(data.join("below")).unwrap();
        fs::write(data.join("below/one"), [0; 10]).unwrap();
        symlink("below/one", data.join("two")).unwrap();
        mkfifo(&data.join("pipe"), Mode::S_IRWXU).unwrap();
        symlink("data", root.path().join("link")).unwrap();
        let found: Vec<(PathBuf, u64)> = files(&root.path().join("link")).unwrap().collect();
        assert_eq!(found, [(fs::canonicalize(data.join("below/one")).unwrap(), 10)]);
        assert!(files(&root.path().join("none")).is_err());
    }
}
