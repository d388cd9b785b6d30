//! A section whose work consists of items that several machines can share, each machine writing into a folder of its own.

use super::{Context, CountedNoun, Outline, PlannedFiles, Summary};
use perf4sight_base::error::{Error, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One piece of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkItem {
    /// Its name, by which another machine finds it in the same configuration.
    pub name: String,
    /// Items of one group belong to one machine, because the outcome of one may make another unnecessary.
    pub group: String,
    /// How long it is expected to take.
    pub time: Duration,
}

/// The share of one machine.
#[derive(Debug, Clone, Copy)]
pub struct WorkPart<'a> {
    /// The names of its items.
    pub items: &'a [String],
    /// The folder that it alone writes into; after an interruption it goes on with what is there.
    pub folder: &'a Path,
    /// The folder of the whole run, which all machines see.
    pub run: &'a Path,
    /// Its share of the expected time of the whole run, from 0 to 1.
    pub share: f64,
}

impl WorkPart<'_> {
    /// Its share of the rest of a budget, of which all parts together spent these seconds.
    #[must_use]
    pub fn budget(&self, whole: Option<Duration>, spent: f64) -> Option<Duration> {
        let spent = Duration::try_from_secs_f64(spent).unwrap_or(Duration::MAX);
        whole.map(|whole| whole.saturating_sub(spent).mul_f64(self.share))
    }
}

/// Refuses to divide a section that discards its results.
///
/// # Errors
/// `overwrite` is set.
pub fn check_keeps_results(overwrite: bool) -> Result<()> {
    match overwrite {
        false => Ok(()),
        true => Err(Error::config("overwrite = True would submit everything again every time")
            .help("leave overwrite out, and set out to another folder to measure again")),
    }
}

/// A section that can be divided.
pub trait Divisible {
    /// The folder of the results, in which the folder of a run is made.
    fn results(&self) -> &Path;

    /// What an item is.
    fn noun(&self) -> CountedNoun;

    /// As [`Section::outline`](crate::Section::outline), where other machines do the work: no device is opened here.
    ///
    /// # Errors
    /// Failures that are certain before anything runs.
    fn outline_elsewhere(&self, planned: &PlannedFiles, context: &Context) -> Result<Outline<'_>>;

    /// Writes what the machines read, where it is not there yet.
    ///
    /// # Errors
    /// A file that cannot be written.
    fn prepare(&self) -> Result<()> {
        Ok(())
    }

    /// The items that have no result yet, in the order in which a single machine would do them. Where results decide what
    /// else has to be done, those that are known now. `planned` holds what earlier sections and [`Self::prepare`] will write.
    ///
    /// # Errors
    /// Earlier results that cannot be read, settings that are certain to fail.
    fn items(&self, planned: &PlannedFiles, context: &mut Context) -> Result<Vec<WorkItem>>;

    /// Whether it measures its machine, so that nothing else may run there.
    fn measures(&self) -> bool {
        true
    }

    /// The most items of one part.
    fn most_items(&self) -> usize {
        usize::MAX
    }

    /// Does the items of one part on this machine.
    ///
    /// # Errors
    /// An item that this program does not know; a machine of another kind than that of the other results; otherwise as
    /// the section itself.
    fn run_part(&self, part: &WorkPart<'_>, context: &mut Context) -> Result<Summary>;

    /// Adds the results in the folders of parts to the others. A repetition adds nothing twice.
    ///
    /// # Errors
    /// Results that cannot be read, or added to the others.
    fn merge(&self, folders: &[PathBuf], context: &mut Context) -> Result<()>;

    /// The summary of all results, as if the section had run here.
    ///
    /// # Errors
    /// Results that cannot be read or completed.
    fn conclude(&self, context: &mut Context) -> Result<Summary>;
}
