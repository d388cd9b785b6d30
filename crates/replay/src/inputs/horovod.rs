//! Horovod's timeline (`HOROVOD_TIMELINE`): what becomes of each tensor, from its negotiation until it is reduced. Alone it
//! contains all ranks, for the coordinator notes when each of them was ready.

use super::chrome::{self, ChromeTimeline};
use super::exchange::{RecordedExchange, element_type};
use perf4sight_base::error::{Error, Result};
use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{EventCategory, NewEvent, RankTrace, TraceBuilder};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The negotiation of a tensor: `NEGOTIATE_ALLREDUCE`.
const NEGOTIATION: &str = "NEGOTIATE_";
/// The process, in timelines of dPRO's Horovod, whose ranges are the negotiations, by the number of the tensor.
const SYNC: &str = "Sync";
/// The transfers of libraries.
const LIBRARIES: [&str; 7] = ["NCCL_", "MPI_", "GLOO_", "MLSL_", "CCL_", "DDL_", "ADASUM_"];
/// What follows a transfer.
const COPY_OUT: &str = "MEMCPY_OUT";

/// A tensor, or several that were fused, from negotiation to result.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HorovodReduction {
    /// The names or numbers of its tensors.
    pub tensors: Vec<String>,
    /// What the timeline calls the transfer: `NCCL_ALLREDUCE`.
    pub operation: String,
    /// When the rank was ready, and when it had the result.
    pub time: Interval,
    /// The parts: negotiation, queue, copies, transfer.
    pub phases: Vec<(String, Interval)>,
    /// Elements and their type, if the timeline contains them.
    pub size: Option<(u64, String)>,
    /// When each rank was ready, if this is the timeline of the coordinator.
    pub ready: BTreeMap<u32, i64>,
}

/// The ranks of timelines: of one, all that were ready in it; of several, one each.
///
/// # Errors
/// A timeline without a collective operation.
pub(super) fn read(file: &Path, number: Option<u32>) -> Result<Vec<RankTrace>> {
    let timeline = ChromeTimeline::read(file)?;
    let mut reductions = reductions(&timeline);
    if reductions.is_empty() {
        return Err(Error::input("is a timeline without a collective operation").file(file));
    }
    reductions.sort_by_key(|reduction| reduction.time);
    let ranks: BTreeSet<u32> = reductions.iter().flat_map(|reduction| reduction.ready.keys().copied()).collect();
    let size = ranks.last().map(|last| last + 1).filter(|size| ranks.len() as u32 == *size);
    let numbers = if ranks.len() > 1 { ranks.into_iter().collect() } else { vec![number.unwrap_or(0)] };
    let rank = |number: u32| {
        let mut builder = TraceBuilder::new(file);
        builder.header().world_size = size;
        builder.header().rank = Some(number);
        builder.damage().others.extend(timeline.warnings.iter().cloned());
        add_steps(&mut builder, &reductions, number);
        RankTrace { rank: number, trace: builder.finish() }
    };
    Ok(numbers.into_iter().map(rank).collect())
}

/// Adds the reductions of a rank, its steps, and what it did in them until each tensor was ready. A step begins when that before
/// ended: the first one, whose begin is not known, only counts where it is alone.
fn add_steps(builder: &mut TraceBuilder, reductions: &[HorovodReduction], rank: u32) {
    let steps = steps(reductions);
    let ready = |reduction: &HorovodReduction| reduction.ready.get(&rank).copied().unwrap_or(reduction.time.0);
    let mut windows = Vec::new();
    let mut before = None;
    for (number, step) in steps.iter().enumerate() {
        let events: Vec<u32> =
            step.iter().filter_map(|reduction| reduction.exchange(number, ready(reduction)).add(builder)).collect();
        let mut moments: Vec<i64> = step.iter().map(|reduction| ready(reduction)).collect();
        moments.sort_unstable();
        let (Some(first), Some(end)) = (moments.first(), step.iter().map(|reduction| reduction.time.1).max()) else {
            continue;
        };
        let Some(begin) = before.replace(end.saturating_add(MARK)).or((steps.len() == 1).then_some(*first)) else {
            continue;
        };
        let begin = begin.min(*first);
        let mut add =
            |name, category, time| builder.add(NewEvent { name, category, track: MAIN, time, collective: None });
        for (from, to) in std::iter::once(&begin).chain(&moments).zip(&moments) {
            add(UNTIL_READY, EventCategory::Operator, (*from, *to));
        }
        let reduced = add(REDUCED, EventCategory::Annotation, (end, end.saturating_add(MARK)));
        reduced.into_iter().for_each(|reduced| events.iter().for_each(|event| builder.depend(*event, reduced)));
        windows.push((begin, end.saturating_add(MARK)));
    }
    super::steps::mark(builder, MAIN, &windows);
}

/// The reductions of each step: one ends when a tensor comes again.
fn steps(reductions: &[HorovodReduction]) -> Vec<Vec<&HorovodReduction>> {
    let mut seen: BTreeSet<&[String]> = BTreeSet::new();
    let mut steps: Vec<Vec<&HorovodReduction>> = Vec::new();
    for reduction in reductions {
        if steps.is_empty() || !seen.insert(&reduction.tensors) {
            seen = BTreeSet::from([reduction.tensors.as_slice()]);
            steps.push(Vec::new());
        }
        steps.last_mut().into_iter().for_each(|step| step.push(reduction));
    }
    steps
}

/// The thread that steps are marked on.
const MAIN: [&str; 2] = ["Horovod", "steps"];
/// What a rank does from the end of a step, or from the tensor before, until a tensor is ready: computing, as far as it is known.
const UNTIL_READY: &str = "until the next tensor is ready";
/// The moment that all reductions of a step end at and the next step begins with; it takes a nanosecond, to be a piece of work that
/// waits for them.
const REDUCED: &str = "all tensors are reduced";
const MARK: i64 = 1;
/// What is assumed where a timeline is all that is known of a rank.
pub(super) const ASSUMED: &str = "Horovod's timeline has no operations: all that a rank does from the end of a step until a tensor is ready counts as one that computes it; the first step, whose begin is not in the timeline, is left out";

impl HorovodReduction {
    /// Its name as published: `Comm.1+2`.
    pub fn name(&self) -> String {
        format!("Comm.{}", self.tensors.join("+"))
    }

    /// The exchange of a rank that was ready at a moment.
    pub fn exchange(&self, step: usize, ready: i64) -> RecordedExchange {
        RecordedExchange {
            name: self.name(),
            library: "horovod",
            operation: self.operation.clone(),
            step,
            time: (ready.min(self.time.1), self.time.1),
            size: self.size.clone(),
            phases: self.phases.clone(),
        }
    }
}

/// The reductions of a timeline. Tensors that are transferred at the same time were fused.
pub(super) fn reductions(timeline: &ChromeTimeline) -> Vec<HorovodReduction> {
    let mut tensors: BTreeMap<&str, Vec<&chrome::ChromeSpan>> = BTreeMap::new();
    let mut negotiations: BTreeMap<&str, Vec<Interval>> = BTreeMap::new();
    for span in &timeline.spans {
        let name = timeline.processes.get(&span.process).map_or(span.process.as_str(), String::as_str);
        match name.contains(SYNC) {
            true => negotiations.entry(&span.name).or_default().push(span.time),
            false => tensors.entry(tensor(name)).or_default().push(span),
        }
    }
    let mut fused: BTreeMap<(Interval, String), HorovodReduction> = BTreeMap::new();
    for (tensor, mut spans) in tensors {
        spans.sort_by_key(|span| (span.time.0, std::cmp::Reverse(span.time.1)));
        let own = negotiations.get(tensor).map(Vec::as_slice).unwrap_or_default();
        for reduction in rounds(&spans).into_iter().filter_map(|round| reduction(tensor, round, own)) {
            let transfer = reduction.phases.iter().rfind(|(name, _)| *name == reduction.operation);
            let key = (transfer.map_or(reduction.time, |(_, time)| *time), reduction.operation.clone());
            match fused.entry(key) {
                std::collections::btree_map::Entry::Vacant(place) => _ = place.insert(reduction),
                std::collections::btree_map::Entry::Occupied(mut place) => place.get_mut().fuse(reduction),
            }
        }
    }
    let mut all: Vec<HorovodReduction> = fused.into_values().collect();
    all.iter_mut().for_each(HorovodReduction::order);
    all
}

/// The tensor in the name of a process: `1` of `horovod_allreduce.1`.
fn tensor(name: &str) -> &str {
    match name.split_once('.') {
        Some((prefix, tensor)) if prefix.to_ascii_lowercase().contains("horovod") && !tensor.is_empty() => tensor,
        _ => name,
    }
}

fn is_transfer(name: &str) -> bool {
    LIBRARIES.iter().any(|library| name.starts_with(library))
}

/// The ranges of a tensor, from one negotiation to the next: a new round begins with a name that was there before.
fn rounds<'a>(spans: &[&'a chrome::ChromeSpan]) -> Vec<Vec<&'a chrome::ChromeSpan>> {
    let mut rounds: Vec<Vec<&chrome::ChromeSpan>> = Vec::new();
    for span in spans {
        let is_tick = span.name.parse::<u32>().is_ok();
        match rounds.last_mut() {
            Some(round) if is_tick || round.iter().all(|known| known.name != span.name) => round.push(span),
            _ => rounds.push(vec![span]),
        }
    }
    rounds
}

/// What a round did, if it transferred anything.
fn reduction(tensor: &str, round: Vec<&chrome::ChromeSpan>, negotiations: &[Interval]) -> Option<HorovodReduction> {
    let (ticks, phases): (Vec<&chrome::ChromeSpan>, Vec<&chrome::ChromeSpan>) =
        round.into_iter().partition(|span| span.name.parse::<u32>().is_ok());
    let after_negotiation =
        |span: &&&chrome::ChromeSpan| !span.name.starts_with(NEGOTIATION) && !span.name.starts_with(COPY_OUT);
    let transfer = phases.iter().rfind(|span| is_transfer(&span.name));
    let transfer = transfer.or_else(|| phases.iter().find(after_negotiation))?;
    let sync = negotiations.iter().filter(|sync| sync.0 <= transfer.time.0).max();
    let sync = sync.filter(|_| !phases.iter().any(|span| span.name.starts_with(NEGOTIATION)));
    // Horovod writes them at the end of what is around the phases (`Timeline::End` of horovod/common/timeline.cc).
    let size = phases_size(&[*transfer]).or_else(|| phases_size(&ticks)).or_else(|| phases_size(&phases));
    let named = phases.iter().map(|span| (span.name.clone(), span.time));
    let phases: Vec<(String, Interval)> = sync.map(|sync| (SYNC.to_owned(), *sync)).into_iter().chain(named).collect();
    let begun = phases.iter().map(|(_, time)| time.0).min()?;
    let ready = ticks.iter().filter_map(|tick| Some((tick.name.parse().ok()?, tick.time.0))).collect();
    Some(HorovodReduction {
        tensors: vec![tensor.to_owned()],
        operation: transfer.name.clone(),
        time: (begun, transfer.time.1),
        size,
        phases,
        ready,
    })
}

/// Elements and their type, from arguments such as `{"dtype": "float32", "shape": "[64, 3]"}`.
fn phases_size(spans: &[&chrome::ChromeSpan]) -> Option<(u64, String)> {
    spans.iter().find_map(|span| {
        let shape: Vec<u64> = serde_json::from_str(span.args.get("shape")?.as_str()?).ok()?;
        let elements = shape.iter().try_fold(1u64, |product, size| product.checked_mul(*size))?;
        Some((elements, element_type(span.args.get("dtype")?.as_str()?)))
    })
}

impl HorovodReduction {
    /// Takes in a tensor that is transferred together with these: the rank is ready when the last tensor is.
    fn fuse(&mut self, other: HorovodReduction) {
        self.tensors.extend(other.tensors);
        self.time.0 = self.time.0.max(other.time.0);
        for (rank, ready) in other.ready {
            let own = self.ready.entry(rank).or_insert(ready);
            *own = ready.max(*own);
        }
        self.size = match (self.size.take(), other.size) {
            (Some((own, kind)), Some((others, same))) if kind == same => Some((own + others, kind)),
            _ => None,
        };
    }

    /// Numbers in their order, names as they are.
    fn order(&mut self) {
        self.tensors.sort_by_key(|tensor| (tensor.parse::<u64>().unwrap_or(u64::MAX), tensor.clone()));
        self.tensors.dedup();
    }
}
