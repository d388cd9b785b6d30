//! What `perf4sight record` tells beside a trace: how long iterations took, with the profiler and without it.

use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_base::units::counted;
use perf4sight_traces::recording_of;
use serde::Deserialize;
use std::io::Read;
use std::path::Path;

/// The newest format of these files.
const FORMAT: u32 = 2;

/// Nanoseconds that no iteration takes, a week: what is beyond was not timed.
const LONGEST: u64 = 7 * 24 * 3600 * 1_000_000_000;

/// Bytes that no such file has: a hundred thousand iterations each way take eight million.
const LARGEST: u64 = 64 << 20;

/// What tells whether the rest can be read.
#[derive(Deserialize)]
#[serde(expecting = "an object with a format")]
struct Head {
    format: u32,
}

/// The file beside a trace, described in `docs/recording.md`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(expecting = "an object")]
pub struct Recording {
    /// Its format.
    pub format: u32,
    /// The name of the trace.
    pub trace: String,
    /// Whose it is.
    pub rank: u32,
    /// The version of PyTorch; others may write such files without it.
    #[serde(default)]
    pub torch: Option<String>,
    /// The version of Python; others may write such files without it.
    #[serde(default)]
    pub python: Option<String>,
    /// How many threads operators ran on; the first recordings lack it.
    #[serde(default)]
    pub threads: Option<u32>,
    /// Of how many; 1 where the script knows of none.
    #[serde(default = "one")]
    pub ranks: u32,
    /// What marks iterations, in words.
    pub iterations_are: String,
    /// Whether the trace has more than operators.
    pub kineto: bool,
    /// Whether it has calls of Python; the first recordings lack it.
    #[serde(default)]
    pub calls: Option<bool>,
    /// How long iterations took.
    #[serde(flatten)]
    pub wall: Times,
    /// Processor time of the same iterations, all threads of the process together; the first recordings lack it.
    #[serde(default)]
    pub processor: Option<Times>,
    /// Nanoseconds of the same iterations in which the thread that marks them was ready to run and had no processor; older recordings lack it.
    #[serde(default)]
    pub delayed: Option<Times>,
    /// How many pages of memory each of the same iterations got anew from the system; the first recordings lack it.
    #[serde(default)]
    pub faults: Option<Times>,
}

fn one() -> u32 {
    1
}

/// A number of each iteration, by periods that take turns: nanoseconds, but for pages of memory.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "StoredTimes")]
pub struct Times {
    /// Without the profiler: a period before each recorded one, and one behind the last; a script that ends early leaves fewer.
    pub plain: Vec<Vec<u64>>,
    /// With it: the first of the first is `ProfilerStep#0` of the trace.
    pub recorded: Vec<Vec<u64>>,
}

/// Times as they are written.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "the times of its iterations are missing, or other than lists of periods with whole numbers from 0 each, as \"plain\": \
                 [[120000, 121000], [120500]] and \"recorded\": [[150000, 149000]] (in format 1: \"plain_before\", \"recorded\", \
                 \"plain_after\", without periods)"
)]
enum StoredTimes {
    /// From format 2 on.
    ByTurns { plain: Vec<Vec<u64>>, recorded: Vec<Vec<u64>> },
    /// In format 1.
    Once { plain_before: Vec<u64>, recorded: Vec<u64>, plain_after: Vec<u64> },
}

impl From<StoredTimes> for Times {
    fn from(told: StoredTimes) -> Self {
        match told {
            StoredTimes::ByTurns { plain, recorded } => Times { plain, recorded },
            StoredTimes::Once { plain_before, recorded, plain_after } => {
                Times { plain: vec![plain_before, plain_after], recorded: vec![recorded] }
            }
        }
    }
}

impl Times {
    /// Without so many of the recorded ones at the beginning; periods keep their places, though one has none left.
    fn behind(&self, warm_up: usize) -> Self {
        let mut left = warm_up;
        let rest = |period: &Vec<u64>| {
            let skipped = left.min(period.len());
            left -= skipped;
            period[skipped..].to_vec()
        };
        Times { plain: self.plain.clone(), recorded: self.recorded.iter().map(rest).collect() }
    }

    fn all(&self) -> impl Iterator<Item = u64> {
        self.plain.iter().chain(&self.recorded).flatten().copied()
    }
}

impl Recording {
    /// Reads such a file.
    ///
    /// # Errors
    /// A file that cannot be read, or that is none of a known format, or one with times that nobody can have measured.
    pub fn read(file: &Path) -> Result<Self> {
        let doing = "read this recording";
        let mut bytes = Vec::new();
        let most = input_file::open(file, doing)?.take(LARGEST + 1).read_to_end(&mut bytes);
        most.map_err(|cause| Error::io(file, doing, &cause))?;
        Self::of(&input_file::decoded(bytes, file, doing)?).map_err(|error| error.file(file).help("record again"))
    }

    fn of(text: &str) -> Result<Self> {
        if text.len() as u64 > LARGEST {
            return Err(Error::input("tells of no recording: it is too large").expected("64 MiB at most"));
        }
        let unknown = |cause: serde_json::Error| Error::input(format!("tells of no recording: {cause}"));
        // Of a newer format nothing else is known, not even whether it has the same words.
        let Head { format } = serde_json::from_str(text).map_err(unknown)?;
        if !(1..=FORMAT).contains(&format) {
            return Err(Error::input(format!("has format {format}")).expected(format!("format 1 to {FORMAT}")));
        }
        let recording: Recording = serde_json::from_str(text).map_err(unknown)?;
        recording.check()?;
        Ok(recording)
    }

    /// Without so many of the recorded iterations at the beginning.
    pub(crate) fn behind(&self, warm_up: usize) -> Self {
        let rest = |times: &Option<Times>| times.as_ref().map(|times| times.behind(warm_up));
        Recording {
            wall: self.wall.behind(warm_up),
            processor: rest(&self.processor),
            faults: rest(&self.faults),
            ..self.clone()
        }
    }

    /// Whether what is told can have been measured.
    fn check(&self) -> Result<()> {
        let all = [Some(&self.wall), self.processor.as_ref(), self.delayed.as_ref(), self.faults.as_ref()];
        if let Some(time) = all.into_iter().flatten().flat_map(Times::all).find(|time| *time > LONGEST) {
            return Err(Error::input(format!("tells of an iteration of {time} ns")).expected("a week at most"));
        }
        if self.wall.all().any(|time| time == 0) {
            return Err(Error::input("tells of an iteration that takes no time").expected("1 ns at least"));
        }
        Ok(())
    }

    /// Whether recording slowed Python itself down: up to 3.11 PyTorch's tracer makes the interpreter slower between calls, too, where no
    /// event shows it (a loop without calls takes 2.3 times as long).
    pub fn slows_python(&self) -> bool {
        let version =
            self.python.as_ref().and_then(|version| version.strip_prefix("3.")?.split('.').next()?.parse().ok());
        self.calls == Some(true) && version.is_some_and(|minor: u32| minor <= 11)
    }

    /// What the script ran with, as far as it is told: `PyTorch 2.11.0 on 4 threads`.
    pub fn origin(&self) -> Option<String> {
        let threads =
            self.threads.map_or(String::new(), |threads| format!(" on {}", counted(threads.into(), "thread")));
        Some(format!("PyTorch {}{threads}", self.torch.as_ref()?))
    }

    /// What is told beside a trace; none where nothing is, as beside those that others recorded.
    ///
    /// # Errors
    /// As [`Recording::read`].
    pub fn beside(trace: &Path) -> Result<Option<Self>> {
        match recording_of(trace).filter(|file| file.exists()) {
            Some(file) => Self::read(&file).map(Some),
            None => Ok(None),
        }
    }
}
