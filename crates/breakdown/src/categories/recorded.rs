//! The kinds of events in a trace. Times of missing kinds are unknown rather than zero.

use crate::categories::TimeCategory;
use crate::categories::thread_state::ThreadState;
use perf4sight_traces::{EventCategory, EventPhase, Trace, TraceEvent};

/// The kinds of calls and of work that a trace contains. Those of accelerators also count as recorded if there is no
/// accelerator; their time is then zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedKinds {
    pub python: bool,
    /// Calls into C++: operators, or all Python calls, which include calls into C++.
    pub cpp: bool,
    /// Calls of the accelerator's runtime.
    pub cuda_api: bool,
    pub gpu: bool,
}

/// Parts of the names of runtime calls that launch work.
const GIVING_WORK: [&str; 3] = ["Launch", "Memcpy", "Memset"];

/// The event that Kineto writes last: of each piece, where a trace was recorded in several.
const END: &str = "Record Window End";

/// Whether a trace is cut off. Kineto writes the events of accelerators and their runtime after those of threads, so
/// they are lost first.
pub(crate) fn is_cut_off(trace: &Trace) -> bool {
    let ends = |event: &&TraceEvent| event.phase == EventPhase::Instant && trace.name(event) == END;
    let last_end = trace.events.iter().filter(ends).map(|event| event.start).max();
    let is_ended = |end: i64| trace.events.last().is_none_or(|last| last.start <= end);
    trace.damage.truncated.is_some() && !last_end.is_some_and(is_ended)
}

impl RecordedKinds {
    /// The kinds recorded in a trace; `python` is true if its main thread has Python calls.
    pub(crate) fn from_trace(trace: &Trace, python: bool) -> Self {
        let has = |category: EventCategory| trace.events.iter().any(|event| event.category == category);
        let gives_work = || {
            let mut calls = trace.events.iter().filter(|event| event.category == EventCategory::Runtime);
            calls.any(|call| GIVING_WORK.iter().any(|part| trace.name(call).contains(part)))
        };
        let works = trace.events.iter().any(|event| event.category.on_device());
        let calls = has(EventCategory::Runtime);
        let named = !trace.header.devices.is_empty();
        // If the profiler did not record CUDA, a trace contains the names of the accelerators and no events of them.
        let unseen = named && !works && !calls;
        let cut_off = (named || works || calls) && is_cut_off(trace);
        RecordedKinds {
            python,
            cpp: python || has(EventCategory::Operator),
            cuda_api: !cut_off && (calls || !(works || unseen)),
            gpu: !cut_off && (works || !(unseen || gives_work())),
        }
    }

    /// The category of a state, or the joint category if the trace cannot distinguish it from others.
    pub(crate) fn category(self, state: ThreadState) -> TimeCategory {
        let own = state.category();
        if self.distinguishes(own) {
            return own;
        }
        let joint = match own {
            TimeCategory::Cpp | TimeCategory::CudaApi | TimeCategory::CppOrCudaApi => TimeCategory::CppOrCudaApi,
            TimeCategory::Python | TimeCategory::Wait | TimeCategory::PythonOrWait | TimeCategory::Unrecorded => {
                TimeCategory::PythonOrWait
            }
        };
        if self.distinguishes(joint) { joint } else { TimeCategory::Unrecorded }
    }

    /// The state of a thread without an event.
    pub(crate) fn state_without_event(self) -> ThreadState {
        if self.python { ThreadState::Waits } else { ThreadState::Unrecorded }
    }

    pub fn distinguishes(self, category: TimeCategory) -> bool {
        let all_calls = self.cpp && self.cuda_api;
        match category {
            TimeCategory::Python | TimeCategory::Wait => self.python,
            TimeCategory::Cpp => all_calls,
            TimeCategory::CudaApi => self.cuda_api,
            TimeCategory::CppOrCudaApi => self.cpp && !self.cuda_api,
            TimeCategory::PythonOrWait => !self.python && all_calls,
            TimeCategory::Unrecorded => !self.python && !all_calls,
        }
    }
}
