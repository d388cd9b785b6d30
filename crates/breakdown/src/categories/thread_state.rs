//! What a thread does while an event is its innermost one, told from the event's category and name.

use crate::categories::category::TimeCategory;
use perf4sight_traces::{Category, Event, NameId, Trace};

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Runs Python.
    Python,
    /// Runs C++.
    Cpp,
    /// Sits in a call whose work other threads do: `run_backward`.
    Delegates,
    /// Calls the runtime or the driver of the accelerator.
    CudaApi,
    /// Waits in such a call for the accelerator.
    Synchronises,
    /// Waits.
    Waits,
    /// Runs Python or waits.
    Untold,
}

impl State {
    /// The category that its time belongs to, in a trace that has events of all.
    pub(crate) fn category(self) -> TimeCategory {
        match self {
            State::Python => TimeCategory::Python,
            State::Cpp | State::Delegates => TimeCategory::Cpp,
            State::CudaApi | State::Synchronises => TimeCategory::CudaApi,
            State::Waits => TimeCategory::Wait,
            State::Untold => TimeCategory::PythonOrWait,
        }
    }

    /// Whether the thread itself works, rather than wait for something.
    pub(crate) fn works(self) -> bool {
        matches!(self, State::Python | State::Cpp | State::CudaApi)
    }
}

/// Calls that wait, by what stands between `<built-in method` or `<method '` and what they belong to.
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

/// Functions of the system that wait for a pipe, another process or storage, as methods of the same names may not.
const WAITING_FUNCTIONS_OF_THE_SYSTEM: &[&str] = &["read", "pread", "readv", "preadv"];

/// Methods that do the same, of [`FILES`].
const READS: &[&str] = &["read", "read1", "readall", "readinto", "readinto1", "readline", "readlines", "peek"];

/// What Python's open files are; `BytesIO` and `StringIO` lie in memory.
const FILES: &[&str] =
    &["_io.FileIO", "_io.BufferedReader", "_io.BufferedRandom", "_io.BufferedRWPair", "_io.TextIOWrapper"];

/// What waits though it is called as much else is: the method, and the type it is one of.
const WAITING_METHODS: &[(&str, &str)] = &[("get", "_queue.SimpleQueue"), ("join", "_thread._ThreadHandle")];

/// Functions that are part of Python itself, which a loop written in Python consists of: they count as Python, not as the work of a library.
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

/// Types that are, of whose methods the same is true. Torch's functions are methods of `type` objects.
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

/// Functions of Python that do nothing but wait, by the end of their file and their name. Where the profiler began after the call of
/// the lock or the socket below, that call has no event, and these are the innermost ones.
const WAITING_FUNCTIONS: &[(&str, &str)] = &[
    ("threading.py", "wait"),
    ("threading.py", "join"),
    ("threading.py", "_wait_for_tstate_lock"),
    ("queue.py", "get"),
    ("multiprocessing/queues.py", "get"),
    ("selectors.py", "select"),
];

/// Calls of runtimes that return when the accelerator has come to something, without the `cuda`, `hip` or `cu` they begin with.
const SYNCHRONISING_CALLS: &[&str] =
    &["DeviceSynchronize", "StreamSynchronize", "EventSynchronize", "CtxSynchronize", "QueueSynchronize"];

/// What an event of that category and name means for the thread it is on; none where it says nothing about it, as ranges that a script
/// names.
fn state_of(category: Category, name: &str) -> Option<State> {
    match category {
        Category::Python => Some(state_of_python(name)),
        Category::Operator => Some(State::Cpp),
        Category::Overhead => Some(State::CudaApi),
        Category::Runtime => {
            let call = ["cuda", "hip", "cu", "ze"].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
            let waits = SYNCHRONISING_CALLS.iter().any(|known| call.starts_with(known));
            Some(if waits { State::Synchronises } else { State::CudaApi })
        }
        Category::Annotation
        | Category::Kernel
        | Category::Copy
        | Category::Set
        | Category::DeviceAnnotation
        | Category::Synchronisation
        | Category::ForwardBackward
        | Category::Launch
        | Category::Other => None,
    }
}

fn state_of_python(name: &str) -> State {
    let Some(call) = builtin(name) else {
        return if is_function(name, WAITING_FUNCTIONS) { State::Waits } else { State::Python };
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
        "run_backward" => State::Delegates,
        _ if waits || WAITING_CALLS.contains(&method) => State::Waits,
        _ if own => State::Python,
        _ => State::Cpp,
    }
}

/// The type that a method is one of: `list` of `list object at 0x7f>` and of `list' objects>`.
fn kind(of: &str) -> &str {
    of.split([' ', '\'', '>']).next().unwrap_or(of)
}

/// What is behind `<built-in method `, `<built-in function ` or `<method `: `sleep>`, `acquire of _thread.lock object at 0x7f>`.
fn builtin(name: &str) -> Option<&str> {
    let call = name
        .strip_prefix("<built-in ")
        .or_else(|| name.strip_prefix('<').filter(|call| call.starts_with("method ")))?;
    Some(call.strip_prefix("method ").or_else(|| call.strip_prefix("function ")).unwrap_or(call))
}

/// Whether an event's name, `threading.py(295): wait`, is of one of some functions of Python, by the end of the file and the function.
pub(crate) fn is_function(name: &str, known: &[(&str, &str)]) -> bool {
    of_python(name)
        .is_some_and(|(file, function)| known.iter().any(|(end, known)| function == *known && is_path(file, end)))
}

/// Whether an event's name is of a function of Python in some file, by the end of its path.
pub(crate) fn is_of_file(name: &str, end: &str) -> bool {
    of_python(name).is_some_and(|(file, _)| is_path(file, end))
}

/// File and function of `threading.py(295): wait`.
fn of_python(name: &str) -> Option<(&str, &str)> {
    let (place, function) = name.split_once("): ")?;
    let (file, _) = place.rsplit_once('(')?;
    Some((file, function))
}

/// Whether a path, of Windows too, ends in these folders and file.
fn is_path(file: &str, end: &str) -> bool {
    let is = |(one, other): (u8, u8)| one == other || (one == b'\\' && other == b'/');
    let ends = file.len() >= end.len() && file.bytes().rev().zip(end.bytes().rev()).all(is);
    ends && (file.len() == end.len() || matches!(file.as_bytes()[file.len() - end.len() - 1], b'/' | b'\\'))
}

/// The states of a trace's events, asked for once a name instead of once an event.
pub(crate) struct States<'a> {
    trace: &'a Trace,
    /// What the name means as a call in Python and as one of the runtime.
    known: Vec<[Option<State>; 2]>,
}

impl<'a> States<'a> {
    pub fn of(trace: &'a Trace) -> Self {
        States { trace, known: vec![[None; 2]; trace.names.all().count()] }
    }

    /// What an event means for the thread it is on.
    pub fn get(&mut self, event: &Event) -> Option<State> {
        if !matches!(event.category, Category::Python | Category::Runtime) {
            return state_of(event.category, "");
        }
        let place = usize::from(event.category == Category::Runtime);
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

    /// Names as PyTorch 2.11 on a CPU, and 2.x on an H100 and an MI300, wrote them.
    #[test]
    fn names_tell_what_a_thread_does() {
        let python = |name| state_of(Category::Python, name).unwrap();
        assert_eq!(python("e2e.py(5): py_busy"), State::Python);
        assert_eq!(python("nn.Module: Linear_0"), State::Python);
        assert_eq!(python("<string>(1): <lambda>"), State::Python);
        assert_eq!(python("<frozen importlib._bootstrap>(405): parent"), State::Python);
        assert_eq!(python("<built-in function pbkdf2_hmac>"), State::Cpp);
        assert_eq!(python("<built-in method get of dict object at 0x7f95a6e4c8c0>"), State::Python);
        assert_eq!(python("<built-in method join of str object at 0x7f95a6e4c8c0>"), State::Python);
        assert_eq!(python("<method 'append' of 'list' objects>"), State::Python);
        assert_eq!(python("<built-in function len>"), State::Python);
        assert_eq!(python("<built-in method max of type object at 0x7f95a6e4c8c0>"), State::Cpp);
        assert_eq!(python("<built-in function linear>"), State::Cpp);
        assert_eq!(python("<built-in method run_backward of torch._C._EngineBase object at 0x7f>"), State::Delegates);
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
            assert_eq!(python(waits), State::Waits, "{waits}");
        }
        assert_eq!(python(r"C:\Python311\lib\multiprocessing\queues.py(98): get"), State::Waits);
        assert_eq!(python("my_queue.py(1): get"), State::Python);
        assert_eq!(python("<built-in method read of _io.BytesIO object at 0x7f95a6e29f80>"), State::Cpp);
        assert_eq!(python("<method 'read' of 'mmap.mmap' objects>"), State::Cpp);
        assert_eq!(state_of(Category::Runtime, "cudaDeviceSynchronize"), Some(State::Synchronises));
        assert_eq!(state_of(Category::Runtime, "hipStreamSynchronize"), Some(State::Synchronises));
        assert_eq!(state_of(Category::Runtime, "cudaLaunchKernel"), Some(State::CudaApi));
        assert_eq!(state_of(Category::Annotation, "ProfilerStep#6"), None);
    }
}
