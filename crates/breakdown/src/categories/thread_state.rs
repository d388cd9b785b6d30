//! The state of a thread, from the category and name of its innermost event.

use crate::categories::TimeCategory;
use perf4sight_traces::{EventCategory, NameId, Trace, TraceEvent};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ThreadState {
    Python,
    Cpp,
    /// In a call whose work other threads do: `run_backward`.
    Delegates,
    /// In a call of the runtime or the driver of the accelerator.
    CudaApi,
    /// Waiting for the accelerator in such a call.
    Synchronises,
    Waits,
    /// Running Python or waiting.
    Unrecorded,
}

impl ThreadState {
    /// The category of its time, in a trace with all kinds of events.
    pub(crate) fn category(self) -> TimeCategory {
        match self {
            ThreadState::Python => TimeCategory::Python,
            ThreadState::Cpp | ThreadState::Delegates => TimeCategory::Cpp,
            ThreadState::CudaApi | ThreadState::Synchronises => TimeCategory::CudaApi,
            ThreadState::Waits => TimeCategory::Wait,
            ThreadState::Unrecorded => TimeCategory::PythonOrWait,
        }
    }

    /// Whether the thread itself is working rather than waiting.
    pub(crate) fn is_working(self) -> bool {
        matches!(self, ThreadState::Python | ThreadState::Cpp | ThreadState::CudaApi)
    }
}

/// Calls that wait, by the part of their names between `<built-in method` or `<method '` and the object.
const WAITING_CALLS: &[&str] = &[
    "sleep",
    "acquire",
    "poll",
    "select",
    "epoll_wait",
    "kqueue",
    "accept",
    "recv",
    "recv_into",
    "recvmsg",
    "recvfrom",
    "waitpid",
    "wait",
    "sigwait",
    "nanosleep",
    "clock_nanosleep",
    "fsync",
    "fdatasync",
    "_cuda_synchronize",
    "_xpu_synchronize",
    "_accelerator_synchronizeDevice",
    "synchronize",
];

/// System functions that wait for a pipe, another process or storage. Methods of the same names may not wait.
const WAITING_FUNCTIONS_OF_THE_SYSTEM: &[&str] = &["read", "pread", "readv", "preadv"];

/// Methods of [`FILES`] that wait.
const READS: &[&str] = &["read", "read1", "readall", "readinto", "readinto1", "readline", "readlines", "peek"];

/// The types of Python's open files, except `BytesIO` and `StringIO`, which are in memory.
const FILES: &[&str] =
    &["_io.FileIO", "_io.BufferedReader", "_io.BufferedRandom", "_io.BufferedRWPair", "_io.TextIOWrapper"];

/// Waiting methods whose names are also used for methods that do not wait: the method and its type.
const WAITING_METHODS: &[(&str, &str)] = &[("get", "_queue.SimpleQueue"), ("join", "_thread._ThreadHandle")];

/// Functions of Python itself, which loops written in Python consist of: they count as Python and not as a library.
const BUILTIN_FUNCTIONS: &[&str] = &[
    "abs",
    "all",
    "any",
    "bin",
    "callable",
    "chr",
    "delattr",
    "dir",
    "divmod",
    "format",
    "getattr",
    "hasattr",
    "hash",
    "hex",
    "id",
    "isinstance",
    "issubclass",
    "iter",
    "len",
    "max",
    "min",
    "next",
    "oct",
    "ord",
    "pow",
    "print",
    "repr",
    "round",
    "setattr",
    "sorted",
    "sum",
    "vars",
];

/// Types of Python itself, whose methods count as Python, too. Torch's functions are methods of `type` objects.
const BUILTIN_TYPES: &[&str] = &[
    "bool",
    "bytearray",
    "bytes",
    "collections.OrderedDict",
    "collections.deque",
    "complex",
    "dict",
    "float",
    "frozenset",
    "generator",
    "int",
    "list",
    "range",
    "set",
    "str",
    "tuple",
];

/// Python functions that only wait, by the end of their file and their name. If the profiler started after the inner
/// call to a lock or socket, that call has no event, and these functions are the innermost ones.
const WAITING_FUNCTIONS: &[(&str, &str)] = &[
    ("threading.py", "wait"),
    ("threading.py", "join"),
    ("threading.py", "_wait_for_tstate_lock"),
    ("queue.py", "get"),
    ("multiprocessing/queues.py", "get"),
    ("selectors.py", "select"),
];

/// Runtime calls that synchronise with the accelerator, without their prefix `cuda`, `hip` or `cu`.
const SYNCHRONISING_CALLS: &[&str] =
    &["DeviceSynchronize", "StreamSynchronize", "EventSynchronize", "CtxSynchronize", "QueueSynchronize"];

/// The state of a thread during an event of this category and name; none if the event does not show it, such as a range
/// of the script.
fn state_of(category: EventCategory, name: &str) -> Option<ThreadState> {
    if category == EventCategory::Python {
        return Some(state_of_python(name));
    }
    let runtime = (EventCategory::Runtime, state_of_runtime(name));
    let states =
        [runtime, (EventCategory::Operator, ThreadState::Cpp), (EventCategory::Overhead, ThreadState::CudaApi)];
    states.into_iter().find(|(known, _)| *known == category).map(|(_, state)| state)
}

fn state_of_runtime(name: &str) -> ThreadState {
    let call = ["cuda", "hip", "cu", "ze"].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    let waits = SYNCHRONISING_CALLS.iter().any(|known| call.starts_with(known));
    if waits { ThreadState::Synchronises } else { ThreadState::CudaApi }
}

fn state_of_python(name: &str) -> ThreadState {
    let Some(call) = builtin(name) else {
        return if is_function(name, WAITING_FUNCTIONS) { ThreadState::Waits } else { ThreadState::Python };
    };
    let (method, of) = call.split_once(" of ").unwrap_or((call.trim_end_matches('>'), ""));
    let (method, of) = (method.trim_matches('\''), of.trim_start_matches('\''));
    let reads = match of {
        "" => WAITING_FUNCTIONS_OF_THE_SYSTEM.contains(&method),
        _ => READS.contains(&method) && FILES.iter().any(|kind| of.starts_with(kind)),
    };
    let waits = reads || WAITING_METHODS.iter().any(|(known, kind)| *known == method && of.starts_with(kind));
    let own = if of.is_empty() { BUILTIN_FUNCTIONS.contains(&method) } else { BUILTIN_TYPES.contains(&kind(of)) };
    match method {
        "run_backward" => ThreadState::Delegates,
        _ if waits || WAITING_CALLS.contains(&method) => ThreadState::Waits,
        _ if own => ThreadState::Python,
        _ => ThreadState::Cpp,
    }
}

/// The type of a method: `list` from `list object at 0x7f>` and from `list' objects>`.
fn kind(of: &str) -> &str {
    of.split([' ', '\'', '>']).next().unwrap_or(of)
}

/// The part after `<built-in method `, `<built-in function ` or `<method `: `sleep>`,
/// `acquire of _thread.lock object at 0x7f>`.
fn builtin(name: &str) -> Option<&str> {
    let call = name
        .strip_prefix("<built-in ")
        .or_else(|| name.strip_prefix('<').filter(|call| call.starts_with("method ")))?;
    Some(call.strip_prefix("method ").or_else(|| call.strip_prefix("function ")).unwrap_or(call))
}

/// Whether an event's name, such as `threading.py(295): wait`, is one of these Python functions, by the end of the file
/// and the function.
pub(crate) fn is_function(name: &str, known: &[(&str, &str)]) -> bool {
    of_python(name)
        .is_some_and(|(file, function)| known.iter().any(|(end, known)| function == *known && is_path(file, end)))
}

/// Whether an event's name is that of a Python function in a file, by the end of its path.
pub(crate) fn is_of_file(name: &str, end: &str) -> bool {
    of_python(name).is_some_and(|(file, _)| is_path(file, end))
}

/// File and function from `threading.py(295): wait`.
fn of_python(name: &str) -> Option<(&str, &str)> {
    let (place, function) = name.split_once("): ")?;
    let (file, _) = place.rsplit_once('(')?;
    Some((file, function))
}

/// Whether a path, also one of Windows, ends in these folders and file.
fn is_path(file: &str, end: &str) -> bool {
    let is = |(one, other): (u8, u8)| one == other || (one == b'\\' && other == b'/');
    let ends = file.len() >= end.len() && file.bytes().rev().zip(end.bytes().rev()).all(is);
    ends && (file.len() == end.len() || matches!(file.as_bytes()[file.len() - end.len() - 1], b'/' | b'\\'))
}

/// The states of a trace's events, computed once per name instead of once per event.
pub(crate) struct EventStates<'a> {
    trace: &'a Trace,
    /// The state of each name as a Python call and as a runtime call.
    known: Vec<[Option<ThreadState>; 2]>,
}

impl<'a> EventStates<'a> {
    pub fn new(trace: &'a Trace) -> Self {
        EventStates { trace, known: vec![[None; 2]; trace.names.all().count()] }
    }

    pub fn get(&mut self, event: &TraceEvent) -> Option<ThreadState> {
        if !matches!(event.category, EventCategory::Python | EventCategory::Runtime) {
            return state_of(event.category, "");
        }
        let place = usize::from(event.category == EventCategory::Runtime);
        let name: NameId = event.name;
        let known = &mut self.known[name.index()][place];
        if known.is_none() {
            *known = state_of(event.category, self.trace.names.get(name));
        }
        *known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names written by PyTorch 2.11 on a CPU, and by 2.x on an H100 and an MI300.
    #[test]
    fn names_tell_what_a_thread_does() {
        let python = |name| state_of(EventCategory::Python, name).unwrap();
        assert_eq!(python("e2e.py(5): py_busy"), ThreadState::Python);
        assert_eq!(python("nn.Module: Linear_0"), ThreadState::Python);
        assert_eq!(python("<string>(1): <lambda>"), ThreadState::Python);
        assert_eq!(python("<frozen importlib._bootstrap>(405): parent"), ThreadState::Python);
        assert_eq!(python("<built-in function pbkdf2_hmac>"), ThreadState::Cpp);
        assert_eq!(python("<built-in method get of dict object at 0x7f95a6e4c8c0>"), ThreadState::Python);
        assert_eq!(python("<built-in method join of str object at 0x7f95a6e4c8c0>"), ThreadState::Python);
        assert_eq!(python("<method 'append' of 'list' objects>"), ThreadState::Python);
        assert_eq!(python("<built-in function len>"), ThreadState::Python);
        assert_eq!(python("<built-in method max of type object at 0x7f95a6e4c8c0>"), ThreadState::Cpp);
        assert_eq!(python("<built-in function linear>"), ThreadState::Cpp);
        assert_eq!(
            python("<built-in method run_backward of torch._C._EngineBase object at 0x7f>"),
            ThreadState::Delegates
        );
        for waits in [
            "<built-in function sleep>",
            "<built-in method acquire of _thread.lock object at 0x7f95a6e4e6c0>",
            "<built-in method poll of select.poll object at 0x7f95a6e29f80>",
            "<built-in function select>",
            "<method 'acquire' of '_thread.lock' objects>",
            "<method 'get' of '_queue.SimpleQueue' objects>",
            "threading.py(295): wait",
            "multiprocessing/queues.py(98): get",
            "/usr/lib/python3.11/queue.py(171): get",
            "<built-in function read>",
            "<built-in function fsync>",
            "<built-in method read of _io.BufferedReader object at 0x7f95a6e29f80>",
            "<method 'readline' of '_io.BufferedReader' objects>",
            "<built-in method readline of _io.TextIOWrapper object at 0x7f95a6e29f80>",
            "<built-in function _cuda_synchronize>",
            "<built-in method synchronize of Event object at 0x7f95a6e29f80>",
        ] {
            assert_eq!(python(waits), ThreadState::Waits, "{waits}");
        }
        assert_eq!(python(r"C:\Python311\lib\multiprocessing\queues.py(98): get"), ThreadState::Waits);
        assert_eq!(python("my_queue.py(1): get"), ThreadState::Python);
        assert_eq!(python("<built-in method read of _io.BytesIO object at 0x7f95a6e29f80>"), ThreadState::Cpp);
        assert_eq!(python("<method 'read' of 'mmap.mmap' objects>"), ThreadState::Cpp);
        assert_eq!(state_of(EventCategory::Runtime, "cudaDeviceSynchronize"), Some(ThreadState::Synchronises));
        assert_eq!(state_of(EventCategory::Runtime, "hipStreamSynchronize"), Some(ThreadState::Synchronises));
        assert_eq!(state_of(EventCategory::Runtime, "cudaLaunchKernel"), Some(ThreadState::CudaApi));
        assert_eq!(state_of(EventCategory::Annotation, "ProfilerStep#6"), None);
    }
}
