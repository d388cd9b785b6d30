//! What the traces of different ranks say of the same exchange, and what cannot both be true.

use crate::collectives::{CollectiveCall, CollectiveOperation, GroupKnowledge, RankExchange, RankExchanges};
use crate::ranks::TrainingJob;
use perf4sight_base::units::{Bytes, count_text};
use perf4sight_traces::rank_list;
use std::collections::BTreeSet;
use std::fmt::Display;

/// Contradictions between ranks, in sentences.
pub(crate) fn find_contradictions(job: &TrainingJob, exchanges: &RankExchanges) -> Vec<String> {
    let operation =
        |call: &CollectiveCall| Some(call.operation).filter(|operation| *operation != CollectiveOperation::Other);
    let operations = differences(job, exchanges, operation).map(|found| {
        format!("{}: these exchanges are compared as if all were the same, and what rests on them is doubtful", found)
    });
    let sizes = differences(job, exchanges, size).map(|found| {
        format!("{}: the largest is used, and what rests on the sizes of these exchanges is doubtful", found)
    });
    operations.into_iter().chain(sizes).chain(strange_groups(job, exchanges)).collect()
}

/// That in half of the steps or more the sizes of exchanges contradict each other, which libraries refuse or hang in.
pub(crate) fn of_most_steps(job: &TrainingJob, exchanges: &RankExchanges) -> Option<String> {
    let is_odd = |exchange: &&RankExchange| difference(job, exchanges, exchange, size).is_some();
    let steps: BTreeSet<usize> = exchanges.complete().filter(is_odd).filter_map(|exchange| exchange.step).collect();
    let are_most = exchanges.groups == GroupKnowledge::Known && !steps.is_empty() && 2 * steps.len() >= job.steps.len();
    are_most.then(|| differences(job, exchanges, size))?
}

/// What a rank passes in, where all pass in as much.
fn size(call: &CollectiveCall) -> Option<Bytes> {
    Some(Bytes(call.bytes()?)).filter(|_| has_one_size(call.operation))
}

/// Whether every rank passes in the same number of bytes. All-gather and reduce-scatter of PyTorch allow for different ones.
fn has_one_size(operation: CollectiveOperation) -> bool {
    matches!(operation, CollectiveOperation::AllReduce | CollectiveOperation::Broadcast | CollectiveOperation::Reduce)
}

/// In how many exchanges ranks contradict each other, and how in the first of them; none if they never do.
fn differences<T: PartialEq + Display>(
    job: &TrainingJob,
    exchanges: &RankExchanges,
    value: impl Fn(&CollectiveCall) -> Option<T>,
) -> Option<String> {
    let between_many = exchanges.all.iter().filter(|exchange| exchange.operation != CollectiveOperation::SendReceive);
    let mut different = between_many.filter_map(|exchange| difference(job, exchanges, exchange, &value));
    let first = different.next()?;
    Some(format!("in {} {first}", count_text(1 + different.count() as u64, "exchange")))
}

/// `rank 3 has broadcast where ranks 0 to 2 have all-reduce`
fn difference<T: PartialEq + Display>(
    job: &TrainingJob,
    exchanges: &RankExchanges,
    exchange: &RankExchange,
    value: impl Fn(&CollectiveCall) -> Option<T>,
) -> Option<String> {
    let parts = exchange.parts.iter();
    let all: Vec<(u32, T)> =
        parts.filter_map(|part| Some((job.ranks[part.rank].number, value(exchanges.call(*part))?))).collect();
    let alike = |value: &T| all.iter().filter(|(_, other)| other == value).count();
    if all.first().is_none_or(|(_, value)| alike(value) == all.len()) {
        return None;
    }
    let (_, usual) = all.iter().rev().max_by_key(|(_, value)| alike(value))?;
    let (_, odd) = all.iter().find(|(_, value)| value != usual)?;
    let who = |wanted: &T| -> BTreeSet<u32> {
        all.iter().filter(|(_, value)| value == wanted).map(|(rank, _)| *rank).collect()
    };
    let have =
        |ranks: &BTreeSet<u32>| format!("{} {}", rank_list(ranks), if ranks.len() == 1 { "has" } else { "have" });
    Some(format!("{} {odd} where {} {usual} under the same number", have(&who(odd)), have(&who(usual))))
}

/// Ranks whose exchanges are of groups that do not contain them.
fn strange_groups(job: &TrainingJob, exchanges: &RankExchanges) -> Option<String> {
    // A list that is cut off is no JSON.
    let is_without = |call: &&CollectiveCall, rank: u32| {
        serde_json::from_str::<BTreeSet<u32>>(&call.arguments.ranks).is_ok_and(|members| !members.contains(&rank))
    };
    let ranks = job.ranks.iter().map(|rank| rank.number).zip(&exchanges.calls);
    let strange: Vec<(u32, &str)> = ranks
        .filter_map(|(rank, calls)| {
            let call = calls.iter().find(|call| is_without(call, rank))?;
            Some((rank, call.arguments.ranks.as_str()))
        })
        .collect();
    let (first, members) = strange.first()?;
    let who: BTreeSet<u32> = strange.iter().map(|(rank, _)| *rank).collect();
    let [take, them] = if who.len() == 1 { ["takes", "it"] } else { ["take", "them"] };
    Some(format!(
        "{} {take} part in exchanges of process groups that do not contain {them}, such as rank {first} in {members}: which ranks exchange with each other is doubtful",
        rank_list(&who)
    ))
}
