//! What of a process a trace tells. What it does not is unknown, and not nothing.

use crate::categories::category::TimeCategory;
use crate::categories::thread_state::State;
use perf4sight_traces::{Category, Event, Phase, Trace};

/// Kinds of calls and of work that a trace tells; those of accelerators also where there is none, whose time is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// Calls of Python.
    pub python: bool,
    /// Calls into C++: operators, or all calls of Python, among which those are.
    pub cpp: bool,
    /// Calls of the accelerator's runtime.
    pub cuda_api: bool,
    /// What accelerators work on.
    pub gpu: bool,
}

/// What calls of a runtime that give an accelerator work have in their names.
const GIVING_WORK: [&str; 3] = ["Launch", "Memcpy", "Memset"];

/// What Kineto writes behind all events.
const END: &str = "Record Window End";

/// Whether a trace ends before its end. Kineto writes what accelerators and their runtime do behind what threads do: that is lost first.
pub(crate) fn is_cut_off(trace: &Trace) -> bool {
    let ends = |event: &Event| event.phase == Phase::Instant && trace.name(event) == END;
    trace.damage.truncated.is_some() && !trace.events.iter().any(ends)
}

impl Recorded {
    /// By a trace, in whose main thread calls of Python are or are not.
    pub(crate) fn of(trace: &Trace, python: bool) -> Self {
        let has = |category: Category| trace.events.iter().any(|event| event.category == category);
        let gives_work = || {
            let mut calls = trace.events.iter().filter(|event| event.category == Category::Runtime);
            calls.any(|call| GIVING_WORK.iter().any(|part| trace.name(call).contains(part)))
        };
        let works = trace.events.iter().any(|event| event.category.on_device());
        let calls = has(Category::Runtime);
        let named = !trace.header.devices.is_empty();
        // Without CUDA among the profiler's activities, a trace names the accelerators and has nothing else of them.
        let unseen = named && !works && !calls;
        let cut_off = (named || works || calls) && is_cut_off(trace);
        Recorded {
            python,
            cpp: python || has(Category::Operator),
            cuda_api: !cut_off && (calls || !(works || unseen)),
            gpu: !cut_off && (works || !(unseen || gives_work())),
        }
    }

    /// The category that time in a state belongs to, as far as it can be told from others.
    pub(crate) fn category(self, state: State) -> TimeCategory {
        let own = state.category();
        if self.tells(own) {
            return own;
        }
        let joint = match own {
            TimeCategory::Cpp | TimeCategory::CudaApi | TimeCategory::CppOrCudaApi => TimeCategory::CppOrCudaApi,
            TimeCategory::Python | TimeCategory::Wait | TimeCategory::PythonOrWait | TimeCategory::Unrecorded => {
                TimeCategory::PythonOrWait
            }
        };
        if self.tells(joint) { joint } else { TimeCategory::Unrecorded }
    }

    /// What a thread does where it has no event.
    pub(crate) fn unrecorded(self) -> State {
        if self.python { State::Waits } else { State::Untold }
    }

    /// Whether time of a category is told.
    pub fn tells(self, category: TimeCategory) -> bool {
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
