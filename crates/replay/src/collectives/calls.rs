//! The exchanges that one rank took part in, with what its trace knows of each.

use super::CollectiveOperation;
use crate::ranks::JobRank;
use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{CollectiveArguments, EventCategory, EventPhase, Trace, TraceEvent, TrackId};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A rank's part in an exchange.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectiveCall {
    /// The index in [`Trace::events`] of the kernel or range that lasts as long as the exchange.
    pub event: u32,
    /// The index of the call on the CPU that enqueued it, if the trace links them.
    pub issued: Option<u32>,
    /// The index of the step in [`JobRank::steps`] in which it was enqueued; none outside of steps.
    pub step: Option<usize>,
    /// Whether it was enqueued before the recording began.
    pub is_earlier: bool,
    /// From when to when it lasted, in nanoseconds on the clock of the trace.
    pub time: Interval,
    /// The kind of exchange.
    pub operation: CollectiveOperation,
    /// What the trace knows of it.
    pub arguments: CollectiveArguments,
    /// The sends and receives that it does together, if they were enqueued one by one before it (`batch_isend_irecv`).
    pub batch: Vec<PeerMessage>,
}

/// A send or a receive.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerMessage {
    /// Which of both.
    pub operation: CollectiveOperation,
    /// What the trace knows of it.
    pub arguments: CollectiveArguments,
}

impl CollectiveCall {
    /// Bytes that this rank passed in; none if the trace does not contain them.
    pub fn bytes(&self) -> Option<u64> {
        bytes(&self.arguments)
    }

    /// Whether both can be parts of one exchange by what they exchange.
    pub(super) fn is_alike(&self, other: &CollectiveCall) -> bool {
        self.operation == other.operation && (!self.operation.is_even() || self.bytes() == other.bytes())
    }
}

impl PeerMessage {
    /// Its bytes; none if the trace does not contain them.
    pub fn bytes(&self) -> Option<u64> {
        bytes(&self.arguments)
    }
}

fn bytes(arguments: &CollectiveArguments) -> Option<u64> {
    let [sent, _] = arguments.elements?;
    sent.checked_mul(arguments.element_bytes()?)
}

/// The calls of a rank, ordered by when they were enqueued.
pub(super) fn find_calls(rank: &JobRank) -> Vec<CollectiveCall> {
    let trace = &rank.trace;
    let issuing = IssuingCalls::from_trace(trace);
    let is_exchange =
        |(_, event): &(usize, &TraceEvent)| event.phase == EventPhase::Complete && trace.is_exchange(event);
    let exchanges: Vec<(usize, &TraceEvent)> = trace.events.iter().enumerate().filter(is_exchange).collect();
    let enqueued = issuing.enqueuing_calls(trace, &exchanges);
    let call = |(nth, (index, event)): (usize, &(usize, &TraceEvent))| {
        let is_kernel = event.category == EventCategory::Kernel;
        let (mut issued, mut arguments) = match is_kernel {
            true => issuing.launching_call(trace, event),
            false => (enqueued[nth], enqueued[nth].map(|call| peers(trace, call)).unwrap_or_default()),
        };
        if let Some(own) = trace.collective(event) {
            complete(&mut arguments, own);
        }
        let operation = operation(trace, event, &arguments);
        let mut batch = Vec::new();
        if is_kernel && operation == CollectiveOperation::SendReceive && arguments.peers == [None; 2] {
            let (first, messages) = issuing.batch_of_launch(trace, event);
            (issued, batch) = (issued.or(first), messages);
        }
        // The range of a send or a receive is made when the message is already on its way (SendWork in ProcessGroupGloo.cpp).
        let made_by =
            issued.filter(|_| !is_kernel && operation.is_between_two()).map(|call| trace.events[call as usize].start);
        let time = (made_by.map_or(event.start, |start| start.min(event.start)), event.end());
        let begun = issued.map_or(event.start, |issued| trace.events[issued as usize].start);
        let is_earlier = is_kernel && issuing.is_earlier(event);
        let step = step_at(rank, begun).filter(|_| !is_earlier);
        // There are no more events than 32 bits can number: each takes 40 bytes.
        CollectiveCall { event: *index as u32, issued, step, is_earlier, time, operation, arguments, batch }
    };
    let mut calls: Vec<CollectiveCall> = exchanges.iter().enumerate().map(call).collect();
    calls.sort_by_key(|call| call.issued.map_or(call.time.0, |issued| trace.events[issued as usize].start));
    calls
}

/// The ends of a send or a receive, which its call knows and not the range of the library.
fn peers(trace: &Trace, call: u32) -> CollectiveArguments {
    let own = trace.collective(&trace.events[call as usize]);
    CollectiveArguments { peers: own.map_or([None; 2], |own| own.peers), ..CollectiveArguments::default() }
}

/// The operation, from the arguments if they name one, else from the name of the event.
fn operation(trace: &Trace, event: &TraceEvent, arguments: &CollectiveArguments) -> CollectiveOperation {
    let named = CollectiveOperation::from_name(&arguments.operation);
    if named == CollectiveOperation::Other { CollectiveOperation::from_name(trace.name(event)) } else { named }
}

/// The step that a moment is in.
fn step_at(rank: &JobRank, moment: i64) -> Option<usize> {
    let step = rank.steps.partition_point(|step| step.window.0 <= moment).checked_sub(1)?;
    (moment < rank.steps[step].window.1).then_some(step)
}

/// Takes over what `other` knows.
fn complete(arguments: &mut CollectiveArguments, other: &CollectiveArguments) {
    let take = |own: &mut String, other: &String| {
        if !other.is_empty() {
            own.clone_from(other);
        }
    };
    take(&mut arguments.operation, &other.operation);
    take(&mut arguments.element_type, &other.element_type);
    take(&mut arguments.group, &other.group);
    take(&mut arguments.ranks, &other.ranks);
    arguments.elements = other.elements.or(arguments.elements);
    arguments.sequence = other.sequence.or(arguments.sequence);
    arguments.comms_id = other.comms_id.or(arguments.comms_id);
    arguments.group_size = arguments.group_size.max(other.group_size);
    for (own, other) in arguments.peers.iter_mut().zip(other.peers) {
        *own = other.or(*own);
    }
}

/// The calls on the CPU that enqueue exchanges.
struct IssuingCalls {
    /// Indices of the calls of each thread, in order.
    calls: BTreeMap<TrackId, Vec<u32>>,
    /// The index of the runtime call by its correlation.
    launches: HashMap<u64, u32>,
    /// When each thread launched exchanges, in order.
    launched: BTreeMap<TrackId, Vec<i64>>,
}

impl IssuingCalls {
    fn from_trace(trace: &Trace) -> Self {
        let mut issuing = IssuingCalls { calls: BTreeMap::new(), launches: HashMap::new(), launched: BTreeMap::new() };
        let launched = trace.events.iter().filter(|event| event.category == EventCategory::Kernel);
        let launched = launched.filter(|event| event.correlation != 0 && trace.is_exchange(event));
        let launched: HashSet<u64> = launched.map(|event| event.correlation).collect();
        for (index, event) in trace.events.iter().enumerate().filter(|(_, event)| event.phase == EventPhase::Complete) {
            let on_cpu = matches!(event.category, EventCategory::Operator | EventCategory::Annotation);
            if on_cpu && trace.collective(event).is_some() && !trace.is_exchange(event) {
                issuing.calls.entry(event.track).or_default().push(index as u32);
            } else if event.category == EventCategory::Runtime && launched.contains(&event.correlation) {
                issuing.launches.insert(event.correlation, index as u32);
                issuing.launched.entry(event.track).or_default().push(event.start);
            }
        }
        issuing
    }

    /// Whether a kernel was launched before the recording began: its number is that of no recorded call.
    fn is_earlier(&self, kernel: &TraceEvent) -> bool {
        kernel.correlation != 0 && !self.launches.contains_key(&kernel.correlation)
    }

    /// The outermost call around the launch of a kernel, and what all calls around it know.
    fn launching_call(&self, trace: &Trace, kernel: &TraceEvent) -> (Option<u32>, CollectiveArguments) {
        let mut arguments = CollectiveArguments::default();
        let Some(&launch) = self.launches.get(&kernel.correlation) else { return (None, arguments) };
        let launch = &trace.events[launch as usize];
        let calls = self.calls.get(&launch.track).map(Vec::as_slice).unwrap_or_default();
        let before = calls.partition_point(|call| trace.events[*call as usize].start <= launch.start);
        let mut outermost = None;
        for &call in calls[before.saturating_sub(NESTED)..before].iter() {
            let event = &trace.events[call as usize];
            if event.end() >= launch.end() {
                outermost = outermost.or(Some(call));
                trace.collective(event).into_iter().for_each(|own| complete(&mut arguments, own));
            }
        }
        (outermost, arguments)
    }

    /// The sends and receives since the launch before, which launched nothing themselves: a kernel does all of them together.
    /// The first of their calls, and each with what the calls within it know.
    fn batch_of_launch(&self, trace: &Trace, kernel: &TraceEvent) -> (Option<u32>, Vec<PeerMessage>) {
        let Some(&launch) = self.launches.get(&kernel.correlation) else { return (None, Vec::new()) };
        let launch = &trace.events[launch as usize];
        let calls = self.calls.get(&launch.track).map(Vec::as_slice).unwrap_or_default();
        let launches = self.launched.get(&launch.track).map(Vec::as_slice).unwrap_or_default();
        let before = launches[..launches.partition_point(|moment| *moment < launch.start)].last();
        let begun = |moment: i64| calls.partition_point(|call| trace.events[*call as usize].start <= moment);
        let (from, to) = (before.map_or(0, |moment| begun(*moment)), begun(launch.start));
        let (mut first, mut messages, mut end) = (None, Vec::<PeerMessage>::new(), i64::MIN);
        for &call in &calls[from.min(to)..to] {
            let event = &trace.events[call as usize];
            let Some(own) = trace.collective(event) else { continue };
            match messages.last_mut().filter(|_| event.start < end) {
                Some(around) => complete(&mut around.arguments, own),
                None => {
                    messages.push(PeerMessage { operation: CollectiveOperation::Other, arguments: own.clone() });
                    first = first.or(Some(call));
                    end = event.end();
                }
            }
        }
        messages
            .iter_mut()
            .for_each(|message| message.operation = CollectiveOperation::from_name(&message.arguments.operation));
        messages.retain(|message| message.operation.is_between_two());
        (first.filter(|_| !messages.is_empty()), messages)
    }

    /// The calls that enqueued exchanges on the CPU, as far as the trace shows them.
    fn enqueuing_calls(&self, trace: &Trace, exchanges: &[(usize, &TraceEvent)]) -> Vec<Option<u32>> {
        let mut calls: Vec<Option<u32>> =
            exchanges.iter().map(|(_, event)| self.outermost_call(trace, event)).collect();
        let known: HashSet<u32> = calls.iter().flatten().copied().collect();
        let rest = exchanges.iter().zip(&calls).filter(|(_, call)| call.is_none());
        let rest: Vec<&TraceEvent> = rest.map(|((_, event), _)| *event).collect();
        let queued = self.queued_calls(trace, &rest, &known).into_iter().flatten();
        calls.iter_mut().filter(|call| call.is_none()).zip(queued).for_each(|(call, queued)| *call = Some(queued));
        calls
    }

    /// The outermost call of the same thread in which a range begins: sends and receives of gloo begin on the thread that
    /// calls them.
    fn outermost_call(&self, trace: &Trace, range: &TraceEvent) -> Option<u32> {
        let calls = self.calls.get(&range.track)?;
        let before = calls.partition_point(|call| trace.events[*call as usize].start <= range.start);
        let goes_on = |call: &u32| trace.events[*call as usize].end() >= range.start;
        calls[before.saturating_sub(NESTED)..before].iter().copied().find(goes_on)
    }

    /// The other calls: the threads of the library take them from one queue, first in, first out. None if the trace does
    /// not have a call for each, or if it lacks events, for those that are left need not belong together.
    fn queued_calls(&self, trace: &Trace, exchanges: &[&TraceEvent], known: &HashSet<u32>) -> Option<Vec<u32>> {
        let starts = |call: &u32| trace.events[*call as usize].start;
        let calls = self.calls.values().flat_map(|calls| outermost(trace, calls));
        let mut calls: Vec<u32> = calls.filter(|call| !known.contains(call)).collect();
        calls.sort_by_key(starts);
        let follows = |(call, event): (&u32, &&TraceEvent)| starts(call) <= event.start;
        let is_whole = !trace.damage.lacks_events() && calls.len() == exchanges.len();
        (is_whole && calls.iter().zip(exchanges).all(follows)).then_some(calls)
    }
}

/// The operators of a thread that are in no other one.
fn outermost(trace: &Trace, calls: &[u32]) -> Vec<u32> {
    let mut end = i64::MIN;
    let is_outermost = |call: &&u32| {
        let event = &trace.events[**call as usize];
        let outermost = event.category == EventCategory::Operator && event.start >= end;
        end = if outermost { event.end() } else { end };
        outermost
    };
    calls.iter().filter(is_outermost).copied().collect()
}

/// The largest number of calls within each other: the operator, its parameters, and the range of the library, each
/// perhaps around several of a coalesced call.
const NESTED: usize = 12;
