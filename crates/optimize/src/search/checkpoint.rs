//! What it takes to go on with a search later, and the file that holds it.

use super::walk::SearchPhase;
use super::{EvaluatedMove, FusionMove};
use perf4sight_base::checksum::checksum;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::{atomic_write, input_file};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The version of the file.
const FORMAT: u32 = 1;

/// Where a search is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchCheckpoint {
    pub(super) evaluated: u64,
    /// The moves that led to the state that it goes on from, and to the best one.
    pub(super) state: Vec<FusionMove>,
    pub(super) best: Vec<FusionMove>,
    pub(super) trajectory: Vec<EvaluatedMove>,
    pub(super) phase: SearchPhase,
}

/// The first line of the file; the second one is the checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct CheckpointHeader {
    format: u32,
    /// Which search it is of: its graph, its way, its seed.
    search: String,
    /// Moves that were to be evaluated.
    moves: u64,
    /// Of the second line: a damaged file is not gone on with.
    checksum: String,
}

impl SearchCheckpoint {
    /// Writes the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, file: &Path, search: &str, moves: u64) -> Result<()> {
        let body = json(self)?;
        let head =
            CheckpointHeader { format: FORMAT, search: search.to_owned(), moves, checksum: checksum(body.bytes()) };
        atomic_write::save(file, format!("{}\n{body}\n", json(&head)?))
    }

    /// Reads the file; none where there is none, or where it is of another search, damaged, or of one that was to evaluate more
    /// moves: it may be beyond where this one ends.
    ///
    /// # Errors
    /// A file that is no checkpoint, and would be replaced by one.
    pub fn load(file: &Path, search: &str, moves: u64) -> Result<Option<Self>> {
        let Some((head, body)) = read(file)? else { return Ok(None) };
        let is_whole = head.format == FORMAT && head.checksum == checksum(body.bytes());
        let is_usable = is_whole && head.search == search && head.moves <= moves;
        Ok(is_usable.then(|| serde_json::from_str(&body).ok()).flatten())
    }

    /// Puts the checkpoint of a file in the place of another, unless that one is whole, of the same search, for as few moves, and
    /// further.
    ///
    /// # Errors
    /// Files that cannot be read or written; one in that place that is no checkpoint.
    pub fn adopt(file: &Path, place: &Path) -> Result<()> {
        let Some((head, body)) = read(file)? else { return Ok(()) };
        let evaluated = |body: &str| serde_json::from_str::<SearchCheckpoint>(body).map_or(0, |one| one.evaluated);
        let own = SearchCheckpoint::load(place, &head.search, head.moves)?;
        match own.is_some_and(|own| own.evaluated >= evaluated(&body)) {
            true => Ok(()),
            false => atomic_write::save(place, format!("{}\n{body}\n", json(&head)?)),
        }
    }
}

/// What to do about a file that is none of ours.
const ELSEWHERE: &str = "move it, or choose another folder (out)";

fn read(file: &Path) -> Result<Option<(CheckpointHeader, String)>> {
    let text = input_file::text_if_there(file, "read the search").map_err(|error| error.help(ELSEWHERE))?;
    let Some(text) = text else { return Ok(None) };
    let parts = text.split_once('\n').and_then(|(head, body)| {
        Some((serde_json::from_str(head).ok()?, body.strip_suffix('\n').unwrap_or(body).to_owned()))
    });
    parts.map(Some).ok_or_else(|| {
        Error::usage("a file is in the place of a search, and was not written by perf4sight").file(file).help(ELSEWHERE)
    })
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|cause| Error::input(format!("a search cannot be written: {cause}")))
}
