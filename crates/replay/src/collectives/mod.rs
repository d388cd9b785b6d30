//! Exchanges between ranks, each with the calls of all ranks that are parts of it.

mod batches;
mod calls;
mod groups;
mod matching;
mod numbering;
mod offsets;
mod operation;
mod peers;
mod step_shifts;

pub(crate) use batches::connected_sets;
pub use calls::{CollectiveCall, PeerMessage};
pub use groups::GroupKnowledge;
pub use operation::CollectiveOperation;
pub(crate) use operation::RootDirection;

use crate::ranks::{StepCycle, TrainingJob};
use numbering::NumberShifts;
use std::collections::{BTreeMap, BTreeSet};

/// The exchanges of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct RankExchanges {
    /// The calls of each rank, in the order of [`TrainingJob::ranks`], ordered by when they were enqueued.
    pub calls: Vec<Vec<CollectiveCall>>,
    /// The exchanges, ordered by step and, within it, by when the first of their ranks enqueued them.
    pub all: Vec<RankExchange>,
    /// Whether the process groups are known.
    pub groups: GroupKnowledge,
    /// What is numbered otherwise on some ranks.
    pub(crate) shifts: NumberShifts,
}

/// An exchange between ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankExchange {
    /// Its kind.
    pub operation: CollectiveOperation,
    /// The name of the process group; empty if the trace does not contain it.
    pub group: String,
    /// The ranks of the group as PyTorch writes them; empty if the trace does not contain them.
    pub ranks: String,
    /// The largest number of bytes that a rank passed in, if the traces contain it.
    pub bytes: Option<u64>,
    /// The index of its step in [`TrainingJob::steps`]; none outside of the steps that all ranks have.
    pub step: Option<usize>,
    /// Whether every given rank of its group has a part in it.
    pub whole: bool,
    /// The calls of the ranks, ordered by rank.
    pub parts: Vec<ExchangePart>,
}

/// A rank's part in an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangePart {
    /// The index of the rank in [`TrainingJob::ranks`].
    pub rank: usize,
    /// The index of the call in [`RankExchanges::calls`] of that rank.
    pub call: usize,
}

impl RankExchanges {
    /// Finds the exchanges of a job.
    pub fn find(job: &TrainingJob) -> Self {
        let mut calls: Vec<Vec<CollectiveCall>> = job.ranks.iter().map(calls::find_calls).collect();
        let groups = groups::assign(job, &mut calls);
        peers::to_job(job, &mut calls);
        let shifts = NumberShifts::find(job, &calls);
        let mut all = matching::match_exchanges(job, &calls, &shifts);
        if groups == GroupKnowledge::Assumed {
            // Outside of the steps there is nothing to tell groups apart by.
            let lacks_group = |one: &&mut RankExchange| {
                one.group.is_empty() && one.ranks.is_empty() && one.operation != CollectiveOperation::SendReceive
            };
            all.iter_mut().filter(lacks_group).for_each(|one| one.whole = false);
        }
        RankExchanges { calls, all, groups, shifts }
    }

    /// The call of a part.
    pub fn call(&self, part: ExchangePart) -> &CollectiveCall {
        &self.calls[part.rank][part.call]
    }

    /// The exchanges that every given rank of the group has a part in.
    pub fn complete(&self) -> impl Iterator<Item = &RankExchange> {
        self.all.iter().filter(|exchange| exchange.whole)
    }

    /// The indices of the ranks that send and receive a message; none of what is no message.
    pub(crate) fn end_ranks(&self, exchange: &RankExchange) -> Option<[usize; 2]> {
        let end = |operation| {
            exchange.parts.iter().find(|part| self.call(**part).operation == operation).map(|part| part.rank)
        };
        Some([end(CollectiveOperation::Send)?, end(CollectiveOperation::Receive)?])
    }

    /// For each rank, by index, the first one that it exchanges with, directly or through others. Nothing synchronises ranks of which
    /// these differ: when one of them begins a step says nothing about the other.
    pub(crate) fn islands(&self, ranks: usize) -> Vec<usize> {
        let together: Vec<Vec<usize>> =
            self.complete().map(|exchange| exchange.parts.iter().map(|part| part.rank).collect()).collect();
        connected_sets(ranks, together.iter())
    }

    /// The steps in which more calls have no counterpart than in others, by their index in [`TrainingJob::steps`]: something is
    /// missing in their traces. What has a counterpart in no step is of a rank without a trace.
    pub(crate) fn incomplete_steps(&self, job: &TrainingJob) -> BTreeSet<usize> {
        let mut unmatched = vec![0; job.steps.len()];
        for exchange in self.all.iter().filter(|exchange| !exchange.whole) {
            exchange.step.into_iter().for_each(|step| unmatched[step] += exchange.parts.len());
        }
        let least = unmatched.iter().copied().min().unwrap_or(0);
        (0..unmatched.len()).filter(|step| unmatched[*step] > least).collect()
    }

    /// The steps after which exchanges repeat, if those of a step do not.
    pub(crate) fn cycle(&self, job: &TrainingJob) -> Option<StepCycle> {
        let mut exchanges = vec![0; job.steps.len()];
        self.complete().filter_map(|exchange| exchange.step).for_each(|step| exchanges[step] += 1);
        StepCycle::find(&exchanges)
    }

    /// The number of calls without a counterpart on other ranks, by rank and kind.
    pub fn unmatched(&self, job: &TrainingJob) -> BTreeMap<(u32, CollectiveOperation), usize> {
        let mut unmatched = BTreeMap::new();
        for part in self.all.iter().filter(|exchange| !exchange.whole).flat_map(|exchange| &exchange.parts) {
            *unmatched.entry((job.ranks[part.rank].number, self.call(*part).operation)).or_default() += 1;
        }
        unmatched
    }
}
