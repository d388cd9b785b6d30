//! The traces of one run, read and broken down.

use crate::breakdown::{Breakdown, Options, RankBreakdown, Recording};
use crate::error::{Error, Result};
use crate::report::Progress;
use crate::traces::{self, Ranked};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The traces of one run and what they come to, rank by rank.
pub(super) struct Run {
    /// By rank.
    pub traces: Vec<Ranked>,
    /// As many ranks in the same order.
    pub breakdown: Breakdown,
}

impl Run {
    /// Reads files and folders, and breaks them down; where a recording lies beside a trace, what recording takes is taken out, too.
    ///
    /// # Errors
    /// Traces without any time in them; see [`traces::read_ranks`], [`Breakdown::of`] and [`Recording::beside`].
    pub fn read(paths: &[PathBuf], options: &Options, progress: &Progress) -> Result<Self> {
        progress.doing("reading traces");
        let traces = traces::read_ranks(paths)?;
        progress.advance(1);
        progress.doing("breaking traces down");
        let mut breakdown = Breakdown::of(&traces, options)?;
        for (ranked, rank) in traces.iter().zip(&mut breakdown.ranks) {
            rank.correct(&ranked.trace, Recording::beside(&ranked.trace.file)?.as_ref());
        }
        progress.advance(1);
        let run = Run { traces, breakdown };
        let timed = run.breakdown.ranks.iter().flat_map(RankBreakdown::counted).any(|one| one.sets.total() > 0);
        if timed { Ok(run) } else { Err(run.nothing()) }
    }

    /// That no trace has any time to break down.
    fn nothing(&self) -> Error {
        let error = Error::input("nothing of threads or accelerators that takes any time is in the trace");
        let error = error.expected("a trace of iterations");
        match self.traces.first() {
            Some(ranked) => error.file(&ranked.trace.file),
            None => error,
        }
    }

    /// Whether Python's calls are in the traces.
    fn has_python(&self) -> bool {
        self.breakdown.ranks.iter().flat_map(RankBreakdown::counted).all(|one| one.sets.python_recorded)
    }

    /// What makes another run, which came after, hard to compare with this one, in sentences.
    pub fn unlike(&self, after: &Run) -> Vec<String> {
        let only = |of_before: bool| if of_before { "before" } else { "after" };
        let mut told = Vec::new();
        if self.has_python() != after.has_python() {
            told.push(format!(
                "calls of Python are only in the traces {}: Python and C++ cannot be compared, and recording such calls makes iterations longer; record both alike",
                only(self.has_python())
            ));
        }
        if self.has_accelerators() != after.has_accelerators() {
            told.push(format!("GPUs are only in the traces {}", only(self.has_accelerators())));
        }
        let [own, other] = [self, after].map(Run::devices);
        if own != other && !own.is_empty() && !other.is_empty() {
            let named = |devices: BTreeSet<&str>| devices.into_iter().collect::<Vec<_>>().join(", ");
            told.push(format!("the runs had different GPUs: {} before, {} after", named(own), named(other)));
        }
        let [own, other] = [self, after].map(|run| run.traces.len());
        if own != other {
            told.push(format!("the runs have different numbers of ranks: {own} before, {other} after"));
        }
        told
    }

    /// Names of the accelerators.
    fn devices(&self) -> BTreeSet<&str> {
        self.traces.iter().flat_map(|ranked| &ranked.trace.header.devices).map(String::as_str).collect()
    }

    /// Each rank with its trace.
    pub fn ranks(&self) -> impl DoubleEndedIterator<Item = (&Ranked, &RankBreakdown)> {
        self.traces.iter().zip(&self.breakdown.ranks)
    }

    /// How many iterations of each rank are listed one by one where there is room for so many in all: ten at least.
    pub fn listed(&self, room: usize) -> usize {
        (room / self.traces.len().max(1)).max(10)
    }

    /// Whether any rank's trace has something of accelerators.
    pub fn has_accelerators(&self) -> bool {
        self.breakdown.ranks.iter().any(|rank| rank.device.is_recorded())
    }

    /// What a reader should know; what is true of several ranks is said once.
    pub fn warnings(&self) -> Vec<String> {
        let ranks = &self.breakdown.ranks;
        let mut told: Vec<(&str, Vec<u32>)> = Vec::new();
        for (warning, rank) in ranks.iter().flat_map(|rank| rank.warnings.iter().map(|warning| (warning, rank.rank))) {
            match told.iter_mut().find(|(known, _)| known == warning) {
                Some((_, of)) => of.push(rank),
                None => told.push((warning, vec![rank])),
            }
        }
        let of_ranks = |(warning, of): (&str, Vec<u32>)| match of.as_slice() {
            _ if ranks.len() == 1 => warning.to_owned(),
            all if all.len() == ranks.len() => format!("all ranks: {warning}"),
            [rank] => format!("rank {rank}: {warning}"),
            [first, .., last] => format!("{} ranks from {first} to {last}: {warning}", of.len()),
            [] => warning.to_owned(),
        };
        let mut warnings: Vec<String> = told.into_iter().map(of_ranks).collect();
        warnings.extend(self.breakdown.warnings.iter().cloned());
        if self.breakdown.together().is_empty() && ranks.len() > 1 {
            warnings.push("no iteration is on all ranks, so that nothing is told of all together".to_owned());
        }
        warnings
    }
}
