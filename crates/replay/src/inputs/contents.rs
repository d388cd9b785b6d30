//! Reads files whole, gzipped or not, as far as they go.

use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_base::unzipped::{is_gzipped, unzipped};
use std::io::{BufReader, Read};
use std::path::Path;

/// Larger files are refused: they are kept in memory.
const LARGEST: u64 = 2_000_000_000;

/// What a file contains.
pub(super) struct FileContents {
    pub bytes: Vec<u8>,
    /// Why it is not all, in words.
    pub cut: Option<String>,
}

/// All of a file; of a gzipped one that is damaged, what comes before the damage.
///
/// # Errors
/// A file that cannot be read, or that is larger than memory should be filled with.
pub(super) fn read(file: &Path) -> Result<FileContents> {
    let contents = beginning(file, LARGEST + 1)?;
    match contents.bytes.len() as u64 > LARGEST {
        true => Err(Error::input(format!("contains more than {} MB", LARGEST / 1_000_000)).file(file)),
        false => Ok(contents),
    }
}

/// At most so many bytes of a file.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn beginning(file: &Path, bytes: u64) -> Result<FileContents> {
    let failed = |cause: std::io::Error| Error::io(file, READ, &cause);
    let mut source = BufReader::new(input_file::open(file, READ)?);
    let gzipped = is_gzipped(&mut source).map_err(failed)?;
    let mut all = Vec::new();
    match unzipped(source).map_err(failed)?.take(bytes).read_to_end(&mut all) {
        Ok(_) => Ok(FileContents { bytes: all, cut: None }),
        Err(cause) if gzipped => {
            let cut = Some(format!("could be read up to byte {} only: {cause}", all.len()));
            Ok(FileContents { bytes: all, cut })
        }
        Err(cause) => Err(failed(cause)),
    }
}

const READ: &str = "read this file";
