//! Which calls of the ranks are parts of the same exchange.

use super::numbering::NumberShifts;
use super::{CollectiveCall, CollectiveOperation, ExchangePart, PeerMessage, RankExchange, batches};
use crate::ranks::{JobStep, TrainingJob, TrainingStep};
use perf4sight_traces::CollectiveArguments;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What the calls of one exchange have in common, from the most certain to the least.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum MatchKey {
    /// The number that PyTorch 2.12 and later give it, the same on all ranks.
    Id(u64),
    /// Its number in the process group.
    Sequence { group: String, ranks: String, sequence: u64 },
    /// Alike calls of a step, in their order.
    Order(OrderKey),
}

/// Calls that differ only in their order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct OrderKey {
    /// The step; none outside of steps in batches.
    step: Option<StepName>,
    group: String,
    ranks: String,
    operation: CollectiveOperation,
    bytes: Option<u64>,
    /// Sender and receiver.
    pub peers: [Option<u32>; 2],
}

/// The name of a step and how often it occurred before; outside of steps [`OUTSIDE`] and the number of common steps that began before.
pub(super) type StepName = (String, usize);

/// The name of no step.
const OUTSIDE: &str = "";

/// The exchanges of a job, in the order in which they began on the first of their ranks.
pub(super) fn match_exchanges(
    job: &TrainingJob,
    calls: &[Vec<CollectiveCall>],
    shifts: &NumberShifts,
) -> Vec<RankExchange> {
    let mut found: HashMap<(MatchKey, usize), Vec<ExchangePart>> = HashMap::new();
    let mut counts: HashMap<MatchKey, Vec<usize>> = HashMap::new();
    for (rank, keys) in keys(job, calls, shifts).into_iter().enumerate() {
        let mut seen: HashMap<MatchKey, usize> = HashMap::new();
        for (index, key) in keys {
            // Calls that were enqueued together share their number.
            let nth = seen.entry(key.clone()).or_default();
            found.entry((key, *nth)).or_default().push(ExchangePart { rank, call: index });
            *nth += 1;
        }
        seen.into_iter().for_each(|(key, count)| counts.entry(key).or_default().push(count));
    }
    let uncertain: HashSet<MatchKey> =
        counts.into_iter().filter(|(key, counts)| !is_order_known(job, key, counts)).map(|(key, _)| key).collect();
    let exchange = |((key, _), parts)| {
        let exchange = exchange(job, calls, parts);
        RankExchange { whole: exchange.whole && !uncertain.contains(&key), ..exchange }
    };
    let mut exchanges: Vec<RankExchange> = found.into_iter().map(exchange).collect();
    exchanges.extend(batches::match_batches(job, calls));
    exchanges.sort_by_key(|exchange| (exchange.parts[0].rank, exchange.parts[0].call));
    exchanges.sort_by_key(|exchange| exchange.step);
    exchanges
}

/// What the calls of each rank have in common with others, with their indices. Where one is recorded without its size, as those of gloo
/// may be, no size distinguishes those that are alike otherwise.
fn keys(job: &TrainingJob, calls: &[Vec<CollectiveCall>], shifts: &NumberShifts) -> Vec<Vec<(usize, MatchKey)>> {
    let of_rank = |(rank, calls): (usize, &Vec<CollectiveCall>)| {
        let names = step_names(job, rank);
        let alone = calls.iter().enumerate().filter(|(_, call)| !batches::is_batch(call));
        let key = |(index, call): (usize, &CollectiveCall)| {
            let step = call.step.map_or_else(|| outside(job, rank, call), |step| names[step].clone());
            (index, key(call, job, rank, step, shifts))
        };
        alone.map(key).collect()
    };
    let mut keys: Vec<Vec<(usize, MatchKey)>> = calls.iter().enumerate().map(of_rank).collect();
    let lack_size = |(_, key): &(usize, MatchKey)| match key {
        MatchKey::Order(alike) if alike.bytes.is_none() && alike.operation.is_even() => Some(alike.clone()),
        MatchKey::Order(_) | MatchKey::Id(_) | MatchKey::Sequence { .. } => None,
    };
    let lacking: HashSet<OrderKey> = keys.iter().flatten().filter_map(lack_size).collect();
    for (_, key) in keys.iter_mut().flatten() {
        if let MatchKey::Order(alike) = key
            && lacking.contains(&OrderKey { bytes: None, ..alike.clone() })
        {
            alike.bytes = None;
        }
    }
    keys
}

/// Where a call outside of steps is among the steps that all ranks have. A rank may have recorded more before them, or exchange on
/// after them while others have more steps, as `DistributedDataParallel` does with uneven inputs (`join`).
fn outside(job: &TrainingJob, rank: usize, call: &CollectiveCall) -> StepName {
    let began = |step: &JobStep| !call.is_earlier && job.ranks[rank].steps[step.of[rank]].window.0 <= call.time.0;
    (OUTSIDE.to_owned(), job.steps.partition_point(began))
}

/// Whether the first of the alike calls of each rank belong together, and so on. If ranks have different numbers of them outside of
/// steps, or events are missing in a trace, which ones those are is not known.
fn is_order_known(job: &TrainingJob, key: &MatchKey, counts: &[usize]) -> bool {
    let is_alike = || counts.iter().all(|count| *count == counts[0]);
    let MatchKey::Order(alike) = key else { return true };
    let is_outside = alike.step.as_ref().is_some_and(|(name, _)| name == OUTSIDE);
    is_alike() || !is_outside && !job.ranks.iter().any(|rank| rank.trace.damage.lacks_events())
}

/// The names of a rank's steps in the job, each with how often it occurred before.
pub(super) fn step_names(job: &TrainingJob, rank: usize) -> Vec<StepName> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let name = |step| {
        let step: &TrainingStep = step;
        let times = seen.entry(&step.name).or_default();
        *times += 1;
        (step.name.clone(), *times - 1)
    };
    let mut names: Vec<StepName> = job.ranks[rank].steps.iter().map(name).collect();
    if let Some(by) = job.renumbered.get(&rank) {
        // Those that are not in the job have no counterpart.
        names.iter_mut().for_each(|(name, _)| name.push_str(&format!(" shifted by {by}")));
        for step in &job.steps {
            names[step.of[rank]] = (step.name.clone(), 0);
        }
    }
    names
}

fn key(call: &CollectiveCall, job: &TrainingJob, place: usize, step: StepName, shifts: &NumberShifts) -> MatchKey {
    let arguments = &call.arguments;
    let (rank, other) = (job.ranks[place].number, job.other_of_two(place));
    let [group, ranks] = [&arguments.group, &arguments.ranks].map(String::clone);
    // Two ranks number the sends and receives between them each on its own.
    if !call.operation.is_between_two() {
        if let Some(id) = arguments.comms_id.filter(|_| !shifts.is_shifted(&group, &ranks)) {
            return MatchKey::Id(id);
        }
        if let Some(sequence) = arguments.sequence {
            let sequence = shifts.common(place, &group, &ranks, sequence);
            return MatchKey::Sequence { group, ranks, sequence };
        }
    }
    // Both ends of a transfer belong together.
    let operation = if call.operation.is_between_two() { CollectiveOperation::SendReceive } else { call.operation };
    let bytes = call.bytes().filter(|_| call.operation.is_even());
    MatchKey::Order(OrderKey {
        step: Some(step),
        group,
        ranks,
        operation,
        bytes,
        peers: peers(call.operation, arguments, rank, other),
    })
}

/// What the two ends of a transfer have in common.
pub(super) fn transfer(message: &PeerMessage, rank: u32, step: Option<StepName>) -> OrderKey {
    let PeerMessage { operation, arguments } = message;
    let [group, ranks] = [&arguments.group, &arguments.ranks].map(String::clone);
    let peers = peers(*operation, arguments, rank, None);
    OrderKey { step, group, ranks, operation: CollectiveOperation::SendReceive, bytes: message.bytes(), peers }
}

/// Sender and receiver of a transfer: from the arguments, else from the name of the range, `send 0->1` or `recv 1<-0`;
/// the end that the trace does not name is the rank itself, and the other one of a job of two.
fn peers(
    operation: CollectiveOperation,
    arguments: &CollectiveArguments,
    rank: u32,
    other: Option<u32>,
) -> [Option<u32>; 2] {
    if !operation.is_between_two() {
        return [None; 2];
    }
    let [source, destination] = named_peers(arguments);
    match operation == CollectiveOperation::Send {
        true => [source.or(Some(rank)), destination.or(other)],
        false => [source.or(other), destination.or(Some(rank))],
    }
}

/// Sender and receiver, as far as the trace names them.
pub(super) fn named_peers(arguments: &CollectiveArguments) -> [Option<u32>; 2] {
    let name = &arguments.operation;
    let number = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>().parse().ok();
    let named = match (name.split_once("->"), name.split_once("<-")) {
        (Some((source, destination)), _) => [number(source), number(destination)],
        (None, Some((destination, source))) => [number(source), number(destination)],
        (None, None) => [None; 2],
    };
    let [source, destination] = arguments.peers;
    [source.or(named[0]), destination.or(named[1])]
}

fn exchange(job: &TrainingJob, calls: &[Vec<CollectiveCall>], parts: Vec<ExchangePart>) -> RankExchange {
    let first = &calls[parts[0].rank][parts[0].call];
    let arguments = &first.arguments;
    RankExchange {
        operation: if first.operation.is_between_two() { CollectiveOperation::SendReceive } else { first.operation },
        group: arguments.group.clone(),
        ranks: arguments.ranks.clone(),
        bytes: parts.iter().filter_map(|part| calls[part.rank][part.call].bytes()).max(),
        step: first.step.and_then(|step| of_step(job, parts[0].rank, step)),
        whole: parts.len() >= expected_parts(job, first) && parts.len() > 1,
        parts,
    }
}

/// The index in [`TrainingJob::steps`] of a step of a rank.
pub(super) fn of_step(job: &TrainingJob, rank: usize, step: usize) -> Option<usize> {
    job.steps.iter().position(|one| one.of[rank] == step)
}

/// The number of ranks whose traces should have a part in an exchange.
fn expected_parts(job: &TrainingJob, call: &CollectiveCall) -> usize {
    if call.operation.is_between_two() {
        return 2;
    }
    let arguments = &call.arguments;
    match (members(&arguments.ranks), arguments.group_size as usize) {
        (Some(members), _) => job.ranks.iter().filter(|rank| members.contains(&rank.number)).count(),
        (None, 0) => job.ranks.len(),
        // Of a group whose list is cut off, any number of members may be missing.
        (None, size) => size.saturating_sub(job.missing().len()),
    }
}

/// The ranks in a list as PyTorch writes it: `[0, 1]`; none for a list that is cut off.
fn members(ranks: &str) -> Option<BTreeSet<u32>> {
    let inner = ranks.strip_prefix('[')?.strip_suffix(']')?;
    inner.split(',').map(|rank| rank.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PyTorch cuts lists after thirty ranks (`kTruncatLength` of torch/csrc/profiler/util.cpp).
    #[test]
    fn lists_of_ranks_that_are_cut_off_name_no_members() {
        assert_eq!(members("[0, 1]"), Some(BTreeSet::from([0, 1])));
        assert_eq!(members("[0, 1, ..., 63]"), None);
        assert_eq!(members(""), None);
    }
}
