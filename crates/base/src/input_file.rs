//! Reading files: regular ones only, because opening a pipe waits for a writer that may never come.

use crate::error::{Error, Result};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Names of files that this process inherited open, as from `<(command)` of a shell: their other end is connected.
const INHERITED: [&str; 5] = ["/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/"];

/// Whether a name denotes an inherited open file.
pub fn is_inherited(file: &Path) -> bool {
    file.to_str().is_some_and(|name| INHERITED.iter().any(|prefix| name.starts_with(prefix)))
}

/// Opens a file; `doing` is the purpose, such as "read the profile".
///
/// # Errors
/// A file that cannot be opened; a pipe, a socket or a device.
pub fn open(file: &Path, doing: &str) -> Result<File> {
    let failed = |cause: io::Error| Error::io(file, doing, &cause);
    // Checked before it is opened. Reading a folder fails with a message of its own.
    let kind = fs::metadata(file).map_err(failed)?.file_type();
    match kind.is_file() || kind.is_dir() || is_inherited(file) {
        true => File::open(file).map_err(failed),
        false => Err(Error::input(format!("cannot {doing}: it is not a regular file"))
            .file(file)
            .expected("a file, not a pipe, a socket or a device")),
    }
}

/// All bytes of a file.
///
/// # Errors
/// As [`open`], and a file that cannot be read.
pub fn bytes(file: &Path, doing: &str) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    open(file, doing)?.read_to_end(&mut all).map_err(|cause| Error::io(file, doing, &cause))?;
    Ok(all)
}

/// All text of a file.
///
/// # Errors
/// As [`bytes`], and bytes that are no UTF-8.
pub fn text(file: &Path, doing: &str) -> Result<String> {
    decode_text(bytes(file, doing)?, file, doing)
}

/// The text of a table of comma-separated values. The `csv` reader counts the end of a line of Windows to the next one: here lines
/// end as on Linux.
///
/// # Errors
/// As [`text`].
pub fn table(file: &Path, doing: &str) -> Result<String> {
    Ok(text(file, doing)?.replace("\r\n", "\n"))
}

/// The text that a file's bytes are, without the byte order mark that Windows writes before it.
///
/// # Errors
/// Bytes that are no UTF-8.
pub fn decode_text(bytes: Vec<u8>, file: &Path, doing: &str) -> Result<String> {
    let text = String::from_utf8(bytes).map_err(|cause| {
        let at = cause.utf8_error().valid_up_to();
        Error::input(format!("cannot {doing}: byte {at} is not UTF-8")).file(file).expected("text in UTF-8")
    })?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// The same of a file that need not be there.
///
/// # Errors
/// As [`text`].
pub fn text_if_there(file: &Path, doing: &str) -> Result<Option<String>> {
    match file.try_exists() {
        Ok(false) => Ok(None),
        Err(cause) if cause.kind() == ErrorKind::NotADirectory => Ok(None),
        Ok(true) | Err(_) => text(file, doing).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0xE9 is é in Latin-1, and no UTF-8 before an ASCII letter.
    #[test]
    fn text_that_is_no_utf8_is_an_input_that_cannot_be_used() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("device.json");
        fs::write(&file, b"{\"name\": \"caf\xe9s\"}").unwrap();
        let error = text(&file, "read the device").unwrap_err();
        assert_eq!(error.kind().exit_code(), 4, "{error}");
        assert!(error.to_string().contains("byte 13 is not UTF-8"), "{error}");
        fs::write(&file, "\u{feff}{}").unwrap();
        assert_eq!(text(&file, "read the device").unwrap(), "{}");
        fs::write(&file, "a,b\r\n1,2\r\n").unwrap();
        assert_eq!(table(&file, "read the table").unwrap(), "a,b\n1,2\n");
        assert_eq!(text(&folder.path().join("none"), "read").unwrap_err().kind().exit_code(), 6);
    }
}
