//! What of a process a trace tells. What it does not is unknown, and not nothing.

use crate::state::{Class, State};
use perf4sight_traces::{Category, Event, Trace};
use std::collections::HashSet;

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

/// The share of calls that give an accelerator work from which on a trace that is cut off lacks what came of them: where recording ends, that of
/// some is in none.
const LOST: f64 = 0.01;

/// The calls that give an accelerator work.
fn giving_work(trace: &Trace) -> impl Iterator<Item = &Event> {
    let gives = |call: &&Event| GIVING_WORK.iter().any(|part| trace.name(call).contains(part));
    trace.events.iter().filter(|event| event.category == Category::Runtime).filter(gives)
}

/// Of a trace that is cut off, how many calls gave an accelerator work that is not in it, and of how many; none where these are hardly any. Kineto
/// writes what accelerators do behind what threads do, so that it is lost first.
pub(crate) fn lost_work(trace: &Trace) -> Option<(usize, usize)> {
    trace.damage.truncated.as_ref()?;
    let works = trace.events.iter().filter(|event| event.category.on_device());
    let done: HashSet<u64> = works.map(|event| event.correlation).collect();
    let told: Vec<u64> =
        giving_work(trace).map(|call| call.correlation).filter(|correlation| *correlation != 0).collect();
    let lost = told.iter().filter(|correlation| !done.contains(correlation)).count();
    (lost as f64 > LOST * told.len() as f64).then_some((lost, told.len()))
}

impl Recorded {
    /// By a trace, in whose main thread calls of Python are or are not.
    pub(crate) fn of(trace: &Trace, python: bool) -> Self {
        let has = |category: Category| trace.events.iter().any(|event| event.category == category);
        let works = trace.events.iter().any(|event| event.category.on_device());
        let calls = has(Category::Runtime);
        // Without CUDA among the profiler's activities, a trace names the accelerators and has nothing else of them.
        let unseen = !trace.header.devices.is_empty() && !works && !calls;
        Recorded {
            python,
            cpp: python || has(Category::Operator),
            cuda_api: calls || !(works || unseen),
            gpu: match works {
                true => lost_work(trace).is_none(),
                false => !unseen && giving_work(trace).next().is_none(),
            },
        }
    }

    /// The class that time in a state belongs to, as far as it can be told from others.
    pub(crate) fn class(self, state: State) -> Class {
        let own = state.class();
        if self.tells(own) {
            return own;
        }
        let joint = match own {
            Class::Cpp | Class::CudaApi | Class::CppOrCudaApi => Class::CppOrCudaApi,
            Class::Python | Class::Wait | Class::PythonOrWait | Class::Unrecorded => Class::PythonOrWait,
        };
        if self.tells(joint) { joint } else { Class::Unrecorded }
    }

    /// What a thread does where it has no event.
    pub(crate) fn unrecorded(self) -> State {
        if self.python { State::Waits } else { State::Untold }
    }

    /// Whether time of a class is told.
    pub fn tells(self, class: Class) -> bool {
        let all_calls = self.cpp && self.cuda_api;
        match class {
            Class::Python | Class::Wait => self.python,
            Class::Cpp => all_calls,
            Class::CudaApi => self.cuda_api,
            Class::CppOrCudaApi => self.cpp && !self.cuda_api,
            Class::PythonOrWait => !self.python && all_calls,
            Class::Unrecorded => !self.python && !all_calls,
        }
    }
}
