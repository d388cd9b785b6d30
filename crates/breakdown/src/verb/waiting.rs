//! What the headline says first of a run of several ranks: how long they wait for each other, for which one, and what that one does meanwhile.

use super::run::TracedRun;
use crate::calls::ScriptFunction;
use crate::ranks::stragglers::{ExchangeWaits, RankWaits};
use crate::{RankBreakdown, TimeCategory, TrainingOperation};
use perf4sight_base::stats::mean;
use perf4sight_base::units::{Milliseconds, Percent};
use perf4sight_traces::intervals::{clipped, pieces};
use perf4sight_traces::{RankTrace, rank_list};
use std::collections::BTreeMap;

/// Exchanges are named first from this share of an iteration on: ranks that have the same to do wait less for each other, as their times scatter.
const MUCH: f64 = 0.1;
/// What takes a straggler longer is named if it is this share of what the others wait, at least.
const MOST: f64 = 0.5;
/// A function that has this share of what the function around it takes longer is where the time goes.
const NEARLY_ALL: f64 = 0.8;

/// `rank 0 waits 52.1 ms of an iteration's 69.6 ms (74.9 %) for rank 1 in collectives; ...`; none if exchanges are short, or there are none.
pub(super) fn waiting(run: &TracedRun) -> Option<String> {
    let waits = run.breakdown.waits.as_ref()?;
    let for_ranks = waits.for_ranks.as_ref().and_then(|ranks| for_stragglers(run, waits, ranks));
    for_ranks.or_else(|| in_exchanges(waits))
}

fn milliseconds(nanoseconds: f64) -> Milliseconds {
    Milliseconds(nanoseconds / 1e6)
}

/// `52.1 ms of an iteration's 69.6 ms (74.9 %)`; none if it is little.
fn part(nanoseconds: f64, waits: &ExchangeWaits) -> Option<String> {
    let share = nanoseconds / waits.iteration;
    (share > MUCH).then(|| {
        let [time, of] = [nanoseconds, waits.iteration].map(milliseconds);
        format!("{time} of an iteration's {of} ({})", Percent(100.0 * share))
    })
}

fn for_stragglers(run: &TracedRun, waits: &ExchangeWaits, ranks: &RankWaits) -> Option<String> {
    let stragglers = ranks.stragglers();
    if stragglers.is_empty() {
        let time = part(mean(&ranks.idle), waits)?;
        return Some(format!(
            "a rank waits {time} for the others in collectives, and a different one comes last each time"
        ));
    }
    let others: Vec<usize> = (0..ranks.idle.len()).filter(|place| !stragglers.contains(place)).collect();
    let waited = mean(&others.iter().map(|place| ranks.idle[*place]).collect::<Vec<_>>());
    let numbers = |places: &[usize]| rank_list(&places.iter().map(|place| run.breakdown.ranks[*place].rank).collect());
    let who = match others.as_slice() {
        [_] => format!("{} waits", numbers(&others)),
        _ => "another rank waits".to_owned(),
    };
    let straggler = stragglers[0];
    let why = slow_function(run, straggler, &others, waited)
        .or_else(|| slow_operation(run, ranks, straggler, waited))
        .map_or(String::new(), |why| format!("; rank {} comes last: {why}", run.breakdown.ranks[straggler].rank));
    Some(format!("{who} {} for {} in collectives{why}", part(waited, waits)?, numbers(&stragglers)))
}

/// The function of the script that takes longer on a straggler than on the others, and what it does.
fn slow_function(run: &TracedRun, straggler: usize, others: &[usize], waited: f64) -> Option<String> {
    let stacks: Vec<_> = run.stacks().map(|(_, stacks)| stacks).collect();
    let elsewhere: Vec<_> = others.iter().map(|place| stacks[*place].script_functions()).collect();
    let usual =
        |name: &str| mean(&elsewhere.iter().map(|one| one.get(name).copied().unwrap_or(0.0)).collect::<Vec<_>>());
    let own = stacks[straggler].script_functions();
    let longer: Vec<(&str, f64, f64)> = own.iter().map(|(name, time)| (name.as_str(), *time, usual(name))).collect();
    let most = longer.iter().map(|(_, time, usual)| time - usual).fold(0.0, f64::max);
    let candidates = longer.into_iter().filter(|(_, time, usual)| time - usual >= NEARLY_ALL * most);
    let (name, time, usual) =
        candidates.min_by(|one, other| one.1.total_cmp(&other.1)).filter(|_| most > MOST * waited)?;
    let place = ScriptFunction::parse(name)?.place();
    let what = stacks[straggler].main_category(name).map_or("", TimeCategory::name);
    let [time, usual] = [time, usual].map(milliseconds);
    Some(format!("{place} takes {time} there (mostly {what}), and {usual} on {}", each_other(others)))
}

fn each_other(others: &[usize]) -> &'static str {
    if others.len() == 1 { "the other" } else { "each other one" }
}

/// The operation that takes longer on a straggler than on the others, whose waiting does not count.
fn slow_operation(run: &TracedRun, waits: &RankWaits, straggler: usize, waited: f64) -> Option<String> {
    let times: Vec<BTreeMap<&str, f64>> =
        run.ranks().enumerate().map(|(place, (ranked, rank))| operation_times(ranked, rank, waits, place)).collect();
    let stragglers = waits.stragglers();
    let usual = |name: &str| {
        let others = times.iter().enumerate().filter(|(place, _)| !stragglers.contains(place));
        mean(&others.map(|(_, one)| one.get(name).copied().unwrap_or(0.0)).collect::<Vec<_>>())
    };
    let longer = times[straggler].iter().map(|(name, time)| (*name, time - usual(name)));
    let (name, most) =
        longer.max_by(|one, other| one.1.total_cmp(&other.1)).filter(|(_, most)| *most > MOST * waited)?;
    let ranked = &run.traces[straggler];
    let what = match name == TrainingOperation::Other.label(&ranked.trace.names) {
        true => "outside of data loading, forward, backward and optimizer".to_owned(),
        false => format!("for {name}"),
    };
    let how = match run.breakdown.ranks[straggler].recorded.python {
        true => "",
        false => " (in which function, perf4sight record --stacks shows)",
    };
    Some(format!("it takes {} longer {what}{how}", milliseconds(most)))
}

/// Nanoseconds of a mean iteration by the name of the operation, without the time in which a rank waits for others.
fn operation_times<'a>(
    ranked: &'a RankTrace,
    rank: &RankBreakdown,
    waits: &RankWaits,
    place: usize,
) -> BTreeMap<&'a str, f64> {
    let names = &ranked.trace.names;
    let mut times: BTreeMap<&str, f64> = BTreeMap::new();
    let mut count = 0.0;
    for iteration in rank.counted_iterations() {
        count += 1.0;
        for (operation, sets) in &iteration.operations {
            *times.entry(operation.label(names)).or_default() += sets.total() as f64;
        }
        let waiting = clipped(&waits.when[place], iteration.window).map(|(interval, _)| interval);
        for (interval, operation) in waiting.flat_map(|interval| pieces(&rank.operations, interval)) {
            let operation = operation.map_or(TrainingOperation::Other, |(_, operation)| *operation);
            *times.entry(operation.label(names)).or_default() -= rank.idle_in(interval) as f64;
        }
    }
    times.values_mut().for_each(|time| *time /= count);
    times
}

/// Of ranks that do not wait for each other, or whose others are not known: how long they do nothing but exchange.
fn in_exchanges(waits: &ExchangeWaits) -> Option<String> {
    let time = part(mean(&waits.blocked), waits)?;
    Some(match waits.for_ranks {
        Some(_) => format!("collectives take {time} in which a rank has nothing else to do"),
        None => format!(
            "collectives take {time} in which there is nothing else to do: the exchange itself, or the wait for ranks that come late, which the \
             traces of all ranks tell apart"
        ),
    })
}
