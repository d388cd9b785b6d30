//! Searches that differ in their seeds alone, each with a file from which it goes on.

use super::{FusionState, SearchCheckpoint, SearchOptions, SearchWalk};
use perf4sight_base::checksum::checksum;
use perf4sight_base::error::Result;
use rayon::prelude::*;
use std::path::{Path, PathBuf};

/// After so many moves the file of a search is written while it runs: so much of it a killed program loses.
const EVERY: u64 = 2_000;

/// Called between moves with how many were evaluated since the last call; a false ends the search.
pub type ContinueSearch<'a> = dyn Fn(u64) -> bool + Sync + 'a;

/// The searches of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchSettings {
    /// The first one.
    pub first: SearchOptions,
    /// How many there are; each has the next seed.
    pub count: u64,
    /// The folder of their files.
    pub folder: PathBuf,
}

impl SearchSettings {
    /// All of them.
    pub fn all(&self) -> Vec<SearchOptions> {
        let seeds = (0..self.count).map(|next| self.first.seed.saturating_add(next));
        seeds.map(|seed| SearchOptions { seed, ..self.first }).collect()
    }

    /// The file of a search below a folder.
    pub fn file(folder: &Path, search: SearchOptions) -> PathBuf {
        folder.join(format!("{}.json", name(search)))
    }

    /// A search as far as its file says; one that begins, where there is none.
    ///
    /// # Errors
    /// A file that perf4sight did not write.
    pub fn resume<'a>(&self, search: SearchOptions, start: &FusionState<'a>) -> Result<SearchWalk<'a>> {
        let known = SearchCheckpoint::load(&Self::file(&self.folder, search), &identity(search, start), search.moves)?;
        Ok(known
            .and_then(|from| SearchWalk::resumed(search, start, from))
            .unwrap_or_else(|| SearchWalk::new(search, start)))
    }

    /// Runs some of them at once, from where their files say, and writes these.
    ///
    /// # Errors
    /// Files that cannot be written, or that perf4sight did not write.
    pub fn run<'a>(
        &self,
        searches: &[SearchOptions],
        start: &FusionState<'a>,
        go_on: &ContinueSearch,
    ) -> Result<Vec<SearchWalk<'a>>> {
        searches.par_iter().map(|search| self.run_one(*search, start, go_on)).collect()
    }

    fn run_one<'a>(
        &self,
        search: SearchOptions,
        start: &FusionState<'a>,
        go_on: &ContinueSearch,
    ) -> Result<SearchWalk<'a>> {
        let mut walk = self.resume(search, start)?;
        if walk.has_ended() {
            return Ok(walk);
        }
        let (file, identity) = (Self::file(&self.folder, search), identity(search, start));
        let save = |walk: &SearchWalk<'a>| walk.checkpoint().save(&file, &identity, search.moves);
        let (mut saved, mut done, mut seen) = (walk.evaluated(), Ok(()), walk.evaluated());
        walk.run(&mut |walk| {
            if walk.evaluated() - saved >= EVERY {
                (saved, done) = (walk.evaluated(), save(walk));
            }
            let new = walk.evaluated() - std::mem::replace(&mut seen, walk.evaluated());
            done.is_ok() && go_on(new)
        });
        done.and_then(|()| save(&walk)).map(|()| walk)
    }
}

/// The way and the seed, of the file.
fn name(search: SearchOptions) -> String {
    format!("{}-seed-{}", search.optimizer.name(), search.seed)
}

/// What makes a search another one: its graph, what fusing saves, its way, its seed.
pub(crate) fn identity(search: SearchOptions, start: &FusionState<'_>) -> String {
    checksum(start.description().chain([name(search)]).flat_map(String::into_bytes))
}
