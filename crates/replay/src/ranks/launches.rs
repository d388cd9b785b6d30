//! Which call of a thread launched what on a GPU, and what of that a trace lacks or contradicts.

use perf4sight_base::units::{Milliseconds, count_text, grouped_digits};
use perf4sight_traces::shortened::brief;
use perf4sight_traces::{EventCategory, EventPhase, NameId, Trace, TraceEvent, TrackId};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Work of a GPU begins at least 2 µs after its call in recorded traces; an earlier begin is of its clock (`checkTimestampOrder` in
/// libkineto/src/CuptiActivityProfiler.cpp warns of them). Up to this lead, in nanoseconds, the clock is corrected: shorter gaps are no waiting.
const OF_CLOCK: i64 = 10_000;
/// What changes bring is not known from this share of work without a known launch on.
const SHARE: f64 = 0.01;
/// Part of the names of calls that launch one kernel each. A memset of no bytes launches nothing.
const LAUNCH: &str = "LaunchKernel";

/// What a trace knows of the launches of kernels and copies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaunchKnowledge {
    /// Kernels and copies.
    works: u64,
    /// Those of them whose call is not known.
    unknown: u64,
    /// Calls that have their number (`correlation`) in common with another one.
    alike: u64,
    /// Those that begin before their call by more than clocks explain.
    early: u64,
    /// By how many nanoseconds, at most, and what does.
    earliest: Option<(i64, NameId)>,
    /// When kernels were launched that are not in the trace, in order.
    lost: Vec<i64>,
    /// All calls that launch kernels.
    calls: u64,
}

/// The calls of a runtime by their numbers.
struct RuntimeCalls {
    /// When each begins, and ends.
    times: HashMap<u64, (i64, i64)>,
    /// The numbers of several calls.
    alike: HashSet<u64>,
}

impl RuntimeCalls {
    fn read(trace: &Trace) -> Self {
        let mut calls = RuntimeCalls { times: HashMap::new(), alike: HashSet::new() };
        for event in trace.events.iter().filter(|event| is_call(event)) {
            let known = calls.times.entry(event.correlation).or_insert((event.start, event.end()));
            // A call of the driver within one of the runtime may have its number.
            if known.1 < event.end() {
                calls.alike.insert(event.correlation);
            }
        }
        calls
    }
}

fn is_call(event: &TraceEvent) -> bool {
    event.category == EventCategory::Runtime && event.phase == EventPhase::Complete && event.correlation != 0
}

fn is_work(event: &TraceEvent) -> bool {
    event.category.on_device() && event.phase == EventPhase::Complete && event.correlation != 0
}

/// When the call began that launched the work of an event; of all else the event itself.
pub(crate) fn launch_time(trace: &Trace) -> impl Fn(&TraceEvent) -> i64 {
    let times = RuntimeCalls::read(trace).times;
    move |event| {
        let call = times.get(&event.correlation).filter(|_| is_work(event));
        call.map_or(event.start, |(start, _)| *start)
    }
}

impl LaunchKnowledge {
    /// Reads the launches of a trace. Afterwards work has the number of a call that launched it, or none if that is not known; a number
    /// without a call is of work that was launched before the recording began. The clock of the GPU is corrected where work begins a little
    /// before its call.
    pub(super) fn read(trace: &mut Trace) -> Self {
        let calls = RuntimeCalls::read(trace);
        let mut launches = LaunchKnowledge::default();
        launches.find_lost(trace, &calls);
        launches.forget(trace, &calls);
        launches.align(trace, &calls);
        launches
    }

    /// Finds launches without a kernel. Those after the last one that has one were cut off with the recording.
    fn find_lost(&mut self, trace: &Trace, calls: &RuntimeCalls) {
        let done: HashSet<u64> =
            trace.events.iter().filter(|event| is_work(event)).map(|one| one.correlation).collect();
        let launching = |event: &&TraceEvent| is_call(event) && trace.name(event).contains(LAUNCH);
        let launching: Vec<&TraceEvent> = trace.events.iter().filter(launching).collect();
        let has_work =
            |event: &&&TraceEvent| done.contains(&event.correlation) || calls.alike.contains(&event.correlation);
        let last = launching.iter().rfind(has_work).map_or(i64::MAX, |event| event.start);
        let lost = launching.iter().filter(|event| event.start < last && !has_work(event));
        self.lost = lost.map(|event| event.start).collect();
        self.calls = launching.len() as u64;
    }

    /// Takes the numbers from calls and work that they do not link.
    fn forget(&mut self, trace: &mut Trace, calls: &RuntimeCalls) {
        let first = first_launched(trace, calls);
        let earliest = first.values().copied().min().unwrap_or(i64::MIN);
        for event in &mut trace.events {
            let (is_alike, is_known) =
                (calls.alike.contains(&event.correlation), calls.times.contains_key(&event.correlation));
            let is_from_before = || event.start < first.get(&event.track).copied().unwrap_or(earliest);
            if is_work(event) {
                self.works += 1;
                if is_alike || !is_known && !is_from_before() {
                    self.unknown += 1;
                    event.correlation = 0;
                }
            } else if is_alike && is_call(event) {
                self.alike += 1;
                event.correlation = 0;
            }
        }
    }

    /// Puts the clock of the GPU on by as much as work begins before its call, if that is little; counts what begins far before.
    fn align(&mut self, trace: &mut Trace, calls: &RuntimeCalls) {
        let lead = |event: &TraceEvent| calls.times.get(&event.correlation).map_or(0, |(start, _)| start - event.start);
        let mut little = 0;
        for event in trace.events.iter().filter(|event| is_work(event)) {
            match lead(event) {
                ..=0 => {}
                own @ 1..=OF_CLOCK => little = little.max(own),
                far => {
                    self.early += 1;
                    self.earliest = self.earliest.filter(|(other, _)| *other >= far).or(Some((far, event.name)));
                }
            }
        }
        if little > 0 && trace.dependencies.is_empty() {
            let on_device =
                |event: &TraceEvent| event.category.on_device() || event.category == EventCategory::DeviceAnnotation;
            trace.events.iter_mut().filter(|event| on_device(event)).for_each(|event| event.start += little);
            trace.events.sort_by_key(|event| (event.start, std::cmp::Reverse(event.duration)));
        }
    }

    /// Whether kernels were launched, and none of them is in the trace.
    pub(crate) fn lack_all(&self) -> bool {
        self.calls > 0 && self.works == 0
    }

    /// When kernels were launched that are not in the trace.
    pub(super) fn lost_at(&self) -> &[i64] {
        &self.lost
    }

    /// Whether it is not known of what threads launched, or when.
    pub(crate) fn are_doubtful(&self) -> bool {
        (self.unknown + self.early) as f64 > SHARE * self.works as f64
    }

    /// What is missing or contradicts itself in the trace of a rank, in sentences.
    pub(super) fn warnings(&self, number: u32, trace: &Trace) -> Vec<String> {
        let works = grouped_digits(self.works);
        let why = match self.alike {
            0 => "the calls that launched them are not in the trace (cuda_runtime: cudaLaunchKernel, ...)".to_owned(),
            alike => {
                format!("{} of the runtime have the same number (correlation) as others", count_text(alike, "call"))
            }
        };
        let unknown = (self.unknown > 0).then(|| {
            format!(
                "rank {number}: which calls launched {} of {works} kernels and copies is not known, for {why}: of which steps they are and which operations they wait for is not known either, and the critical path is without that",
                grouped_digits(self.unknown)
            )
        });
        let early = self.earliest.map(|(lead, name)| {
            format!(
                "rank {number}: {} of {works} kernels and copies begin before the call that launched them, the furthest ({}) by {}: the clocks of GPU and processor differ, and which of them waits for the other is doubtful",
                grouped_digits(self.early),
                brief(trace.names.get(name)),
                Milliseconds(lead as f64 / 1e6)
            )
        });
        let lost = (!self.lost.is_empty()).then(|| {
            format!(
                "rank {number}: {} of {} launched kernels are not in the trace: what the GPU did then is missing",
                grouped_digits(self.lost.len() as u64),
                grouped_digits(self.calls)
            )
        });
        unknown.into_iter().chain(early).chain(lost).collect()
    }
}

/// When the first work with a known call begins on each stream. On one without such work nothing tells what was launched before the recording but other
/// streams.
fn first_launched(trace: &Trace, calls: &RuntimeCalls) -> BTreeMap<TrackId, i64> {
    let mut first = BTreeMap::new();
    let is_known = |event: &&TraceEvent| is_work(event) && calls.times.contains_key(&event.correlation);
    for event in trace.events.iter().filter(is_known) {
        first.entry(event.track).or_insert(event.start);
    }
    first
}
