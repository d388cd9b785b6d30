//! Why a job hangs, from the dumps of its ranks' flight recorders: which operations some ranks wait in, and which ranks
//! have not come to them, or came with something else.

mod collectives;
mod members;
mod sentence;
#[cfg(test)]
mod tests;
mod transfers;

use crate::inputs::FlightDump;
use perf4sight_traces::rank_list;
use std::collections::{BTreeMap, BTreeSet};

/// What hangs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HangReport {
    /// The operations that ranks wait in, the first of each process group: first those that may be the cause, then those
    /// whose ranks only wait for ranks that wait themselves.
    pub blocked: Vec<BlockedOperation>,
    /// Ranks of process groups without a dump.
    pub silent: BTreeSet<u32>,
    /// Ranks with a dump that others wait for and that wait in no operation themselves.
    pub culprits: BTreeSet<u32>,
}

/// An operation that ranks wait in.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockedOperation {
    /// The process group: its description if it has one, else its name.
    pub group: String,
    /// The number of the operation in its group; none of a send or receive.
    pub sequence: Option<u64>,
    /// What most of the ranks that wait enqueued: `all_reduce`.
    pub operation: String,
    /// The sizes of its inputs.
    pub sizes: Vec<Vec<u64>>,
    /// Where it was enqueued, if the dump contains stacks.
    pub place: Option<String>,
    /// The ranks that wait in it.
    pub waiting: BTreeSet<u32>,
    /// Those of them that have enqueued it and not begun it, though others have.
    pub behind: BTreeSet<u32>,
    /// The ranks that have not enqueued it, each with the last that it did in the group.
    pub missing: BTreeMap<u32, Option<String>>,
    /// Ranks that belong to it and left no dump.
    pub silent: BTreeSet<u32>,
    /// The ranks that enqueued something else under this number, in words.
    pub different: BTreeMap<u32, String>,
    /// Whether the dumps tell which ranks belong to it.
    pub all_known: bool,
}

impl HangReport {
    /// Compares the dumps of a job.
    pub fn from_dumps(dumps: &[FlightDump]) -> Self {
        let mut blocked = collectives::blocked_collectives(dumps);
        blocked.extend(transfers::blocked_transfers(dumps));
        let waiting: BTreeSet<u32> = blocked.iter().flat_map(BlockedOperation::stuck).collect();
        let culprits = blocked.iter().flat_map(|one| one.missing.keys().copied());
        let culprits: BTreeSet<u32> = culprits.filter(|rank| !waiting.contains(rank)).collect();
        blocked.sort_by_key(|one| (one.cause(&culprits), one.sequence.is_none()));
        HangReport { silent: members::ranks_without_dump(dumps), culprits, blocked }
    }

    /// Ranks without a dump, in a sentence.
    pub fn warnings(&self) -> Vec<String> {
        let silent = (!self.silent.is_empty())
            .then(|| format!("no dump of {}: dead, or the file is missing", rank_list(&self.silent)));
        silent.into_iter().collect()
    }
}

/// How an operation that ranks wait in explains the hang, the best explanation first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum HangCause {
    /// All ranks that have not come wait in nothing or left no dump, or one came with something else.
    Absence,
    /// So do some; others that have not come wait in another operation, which may be because of the same ranks.
    PartlyAbsence,
    /// No rank is known to be elsewhere.
    Operation,
    /// The ranks that have not come wait in another operation.
    Others,
}

impl BlockedOperation {
    /// The ranks that have enqueued something under its number, and cannot go on.
    fn stuck(&self) -> impl Iterator<Item = u32> {
        self.waiting.iter().chain(self.different.keys()).copied()
    }

    /// The ranks that it waits for.
    fn awaited(&self) -> impl Iterator<Item = u32> {
        self.missing.keys().chain(&self.silent).copied()
    }

    fn cause(&self, culprits: &BTreeSet<u32>) -> HangCause {
        let waits_elsewhere = self.missing.keys().any(|rank| !culprits.contains(rank));
        let is_absent = !self.silent.is_empty() || self.missing.keys().any(|rank| culprits.contains(rank));
        if !self.different.is_empty() || is_absent {
            let is_mixed = waits_elsewhere && self.different.is_empty();
            return if is_mixed { HangCause::PartlyAbsence } else { HangCause::Absence };
        }
        if self.missing.is_empty() { HangCause::Operation } else { HangCause::Others }
    }
}
