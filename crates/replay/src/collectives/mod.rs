//! Exchanges between ranks, each with the calls of all ranks that are parts of it.

mod batches;
mod calls;
mod groups;
mod matching;
mod numbering;
mod offsets;
mod operation;
mod peers;

pub(crate) use batches::connected;
pub use calls::{Call, Message};
pub use groups::Groups;
pub(crate) use operation::Direction;
pub use operation::Operation;

use crate::ranks::{Cycle, Job};
use numbering::Shifts;
use std::collections::{BTreeMap, BTreeSet};

/// The exchanges of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchanges {
    /// The calls of each rank, in the order of [`Job::ranks`], ordered by when they were enqueued.
    pub calls: Vec<Vec<Call>>,
    /// The exchanges, ordered by step and, within it, by when the first of their ranks enqueued them.
    pub all: Vec<Exchange>,
    /// Whether the process groups are known.
    pub groups: Groups,
    /// What is numbered otherwise on some ranks.
    pub(crate) shifts: Shifts,
}

/// An exchange between ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// Its kind.
    pub operation: Operation,
    /// The name of the process group; empty if the trace does not contain it.
    pub group: String,
    /// The ranks of the group as PyTorch writes them; empty if the trace does not contain them.
    pub ranks: String,
    /// The largest number of bytes that a rank passed in, if the traces contain it.
    pub bytes: Option<u64>,
    /// The index of its step in [`Job::steps`]; none outside of the steps that all ranks have.
    pub step: Option<usize>,
    /// Whether every given rank of its group has a part in it.
    pub whole: bool,
    /// The calls of the ranks, ordered by rank.
    pub parts: Vec<Part>,
}

/// A rank's part in an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The index of the rank in [`Job::ranks`].
    pub rank: usize,
    /// The index of the call in [`Exchanges::calls`] of that rank.
    pub call: usize,
}

impl Exchanges {
    /// Finds the exchanges of a job.
    pub fn of(job: &Job) -> Self {
        let mut calls: Vec<Vec<Call>> = job.ranks.iter().map(calls::of).collect();
        let groups = groups::assign(job, &mut calls);
        peers::to_job(job, &mut calls);
        let shifts = Shifts::of(job, &calls);
        let mut all = matching::of(job, &calls, &shifts);
        if groups == Groups::Assumed {
            // Outside of the steps there is nothing to tell groups apart by.
            let lacks_group = |one: &&mut Exchange| {
                one.group.is_empty() && one.ranks.is_empty() && one.operation != Operation::SendReceive
            };
            all.iter_mut().filter(lacks_group).for_each(|one| one.whole = false);
        }
        Exchanges { calls, all, groups, shifts }
    }

    /// The call of a part.
    pub fn call(&self, part: Part) -> &Call {
        &self.calls[part.rank][part.call]
    }

    /// The exchanges that every given rank of the group has a part in.
    pub fn whole(&self) -> impl Iterator<Item = &Exchange> {
        self.all.iter().filter(|exchange| exchange.whole)
    }

    /// The indices of the ranks that send and receive a message; none of what is no message.
    pub(crate) fn ends(&self, exchange: &Exchange) -> Option<[usize; 2]> {
        let end = |operation| {
            exchange.parts.iter().find(|part| self.call(**part).operation == operation).map(|part| part.rank)
        };
        Some([end(Operation::Send)?, end(Operation::Receive)?])
    }

    /// For each rank, by index, the first one that it exchanges with, directly or through others. Nothing synchronises ranks of which
    /// these differ: when one of them begins a step says nothing about the other.
    pub(crate) fn islands(&self, ranks: usize) -> Vec<usize> {
        let together: Vec<Vec<usize>> =
            self.whole().map(|exchange| exchange.parts.iter().map(|part| part.rank).collect()).collect();
        connected(ranks, together.iter())
    }

    /// The steps in which more calls have no counterpart than in others, by their index in [`Job::steps`]: something is
    /// missing in their traces. What has a counterpart in no step is of a rank without a trace.
    pub(crate) fn incomplete_steps(&self, job: &Job) -> BTreeSet<usize> {
        let mut unmatched = vec![0; job.steps.len()];
        for exchange in self.all.iter().filter(|exchange| !exchange.whole) {
            exchange.step.into_iter().for_each(|step| unmatched[step] += exchange.parts.len());
        }
        let least = unmatched.iter().copied().min().unwrap_or(0);
        (0..unmatched.len()).filter(|step| unmatched[*step] > least).collect()
    }

    /// The steps after which exchanges repeat, if those of a step do not.
    pub(crate) fn cycle(&self, job: &Job) -> Option<Cycle> {
        let mut exchanges = vec![0; job.steps.len()];
        self.whole().filter_map(|exchange| exchange.step).for_each(|step| exchanges[step] += 1);
        Cycle::of(&exchanges)
    }

    /// The number of calls without a counterpart on other ranks, by rank and kind.
    pub fn unmatched(&self, job: &Job) -> BTreeMap<(u32, Operation), usize> {
        let mut unmatched = BTreeMap::new();
        for part in self.all.iter().filter(|exchange| !exchange.whole).flat_map(|exchange| &exchange.parts) {
            *unmatched.entry((job.ranks[part.rank].number, self.call(*part).operation)).or_default() += 1;
        }
        unmatched
    }
}
