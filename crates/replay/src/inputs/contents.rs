//! Reads files whole, gzipped or not, as far as they go.

use flate2::read::MultiGzDecoder;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use std::io::Read;
use std::path::Path;

/// The first bytes of every gzipped file (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Larger files are refused: they are kept in memory.
const LARGEST: u64 = 2_000_000_000;

/// What a file contains.
pub(super) struct Contents {
    pub bytes: Vec<u8>,
    /// Why it is not all, in words.
    pub cut: Option<String>,
}

/// All of a file; of a gzipped one that is damaged, what comes before the damage.
///
/// # Errors
/// A file that cannot be read, or that is larger than memory should be filled with.
pub(super) fn read(file: &Path) -> Result<Contents> {
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
pub(super) fn beginning(file: &Path, bytes: u64) -> Result<Contents> {
    let failed = |cause: std::io::Error| Error::io(file, READ, &cause);
    let mut opened = input_file::open(file, READ)?;
    let mut magic = Vec::new();
    opened.by_ref().take(GZIP.len() as u64).read_to_end(&mut magic).map_err(failed)?;
    let whole = std::io::Cursor::new(magic.clone()).chain(opened);
    let mut all = Vec::new();
    if magic == GZIP {
        let read = MultiGzDecoder::new(whole).take(bytes).read_to_end(&mut all);
        let cut = read.err().map(|cause| format!("could be read up to byte {} only: {cause}", all.len()));
        return Ok(Contents { bytes: all, cut });
    }
    whole.take(bytes).read_to_end(&mut all).map_err(failed)?;
    Ok(Contents { bytes: all, cut: None })
}

const READ: &str = "read this file";
