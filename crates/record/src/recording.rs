//! The file that `perf4sight record` writes next to a trace: iteration times with and without the profiler.

use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_base::units::count_text;
use perf4sight_traces::recording_of;
use serde::Deserialize;
use std::fs;
use std::io::Read;
use std::path::Path;

/// The newest format of these files.
const FORMAT: u32 = 2;

/// A week in nanoseconds. No iteration takes longer; larger values were not measured.
const LONGEST: u64 = 7 * 24 * 3600 * 1_000_000_000;

/// No such file is larger, in bytes: a hundred thousand iterations with and without the profiler take eight million.
const LARGEST: u64 = 64 << 20;

/// Words of every such file, near its beginning.
const OWN_WORDS: [&str; 2] = ["\"iterations_are\"", "\"recorded\""];

/// The part that shows whether the rest can be read.
#[derive(Deserialize)]
#[serde(expecting = "an object with a format")]
struct RecordingHeader {
    format: u32,
}

/// The file next to a trace, described in `docs/recording.md`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(expecting = "an object")]
pub struct Recording {
    /// 1 or 2; a newer program may write a higher one.
    pub format: u32,
    /// The file name of the trace next to it.
    pub trace: String,
    /// The rank that it belongs to, 0 for a single process.
    pub rank: u32,
    /// The version of PyTorch; files of other programs may lack it.
    #[serde(default)]
    pub torch: Option<String>,
    /// The version of Python; files of other programs may lack it.
    #[serde(default)]
    pub python: Option<String>,
    /// The number of threads for operators; the first recordings lack it.
    #[serde(default)]
    pub threads: Option<u32>,
    /// The number that Linux gave to its start (`/proc/sys/kernel/random/boot_id`): processes with the same one share a clock. Older
    /// recordings lack it.
    #[serde(default)]
    pub boot: Option<String>,
    /// The number of ranks; 1 if the script has no ranks.
    #[serde(default = "one")]
    pub ranks: u32,
    /// The calls or marks that delimit iterations, in words.
    pub iterations_are: String,
    /// `as asked` where enough was recorded, and the script was ended for that; older recordings lack it.
    #[serde(default)]
    pub ended: Option<String>,
    /// Whether the trace contains more than operators.
    pub kineto: bool,
    /// Whether the trace contains Python calls; the first recordings lack it.
    #[serde(default)]
    pub calls: Option<bool>,
    /// Wall-clock times of the iterations.
    #[serde(flatten)]
    pub wall: PeriodTimes,
    /// Wall-clock times of the iterations between the periods, which settle: those before each period; older recordings lack them.
    #[serde(default)]
    pub settled: PeriodTimes,
    /// Processor time of the same iterations as [`Recording::wall`], all threads of the process together; the first recordings lack it.
    #[serde(default)]
    pub processor: Option<PeriodTimes>,
    /// Nanoseconds in which the thread that marks the iterations was ready to run but had no processor; older
    /// recordings lack it.
    #[serde(default)]
    pub delayed: Option<PeriodTimes>,
    /// Processor time of the thread that marks the iterations, in nanoseconds; older recordings lack it.
    #[serde(default)]
    pub thread: Option<PeriodTimes>,
    /// The number of other threads of the process that run Python; older recordings lack it.
    #[serde(default)]
    pub python_threads: Option<u64>,
    /// Who else had the processors; older recordings lack it.
    #[serde(default)]
    pub rivals: ProcessorRivals,
    /// The number of memory pages newly allocated by the system (page faults) per iteration; the first recordings lack
    /// it.
    #[serde(default)]
    pub faults: Option<PeriodTimes>,
}

/// Who else had the processors from the first counted iteration until the last period ended, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct ProcessorRivals {
    /// The time of the clock.
    pub wall: Option<u64>,
    /// Processor time of child processes, such as a loader's.
    pub children: Option<u64>,
    /// How long a limit on CPUs stopped the process and those in its group.
    pub throttled: Option<u64>,
}

fn one() -> u32 {
    1
}

/// One number per iteration, grouped by periods that alternate: nanoseconds, or a number of memory pages.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "StoredTimes")]
pub struct PeriodTimes {
    /// Without the profiler: one period before each recorded period, and one after the last; fewer if the script ends
    /// early.
    pub plain: Vec<Vec<u64>>,
    /// With the profiler: the first iteration of the first period is `ProfilerStep#0` of the trace.
    pub recorded: Vec<Vec<u64>>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "the times of its iterations are missing, or other than lists of periods with whole numbers from 0 each, as \"plain\": \
                 [[120000, 121000], [120500]] and \"recorded\": [[150000, 149000]] (in format 1: \"plain_before\", \"recorded\", \
                 \"plain_after\", without periods)"
)]
enum StoredTimes {
    ByTurns { plain: Vec<Vec<u64>>, recorded: Vec<Vec<u64>> },
    Once { plain_before: Vec<u64>, recorded: Vec<u64>, plain_after: Vec<u64> },
}

impl From<StoredTimes> for PeriodTimes {
    fn from(stored: StoredTimes) -> Self {
        match stored {
            StoredTimes::ByTurns { plain, recorded } => PeriodTimes { plain, recorded },
            StoredTimes::Once { plain_before, recorded, plain_after } => {
                PeriodTimes { plain: vec![plain_before, plain_after], recorded: vec![recorded] }
            }
        }
    }
}

impl PeriodTimes {
    /// Skips this many recorded iterations at the beginning. A period without any left stays in the list, empty.
    fn after_warm_up(&self, warm_up: usize) -> Self {
        let mut left = warm_up;
        let rest = |period: &Vec<u64>| {
            let skipped = left.min(period.len());
            left -= skipped;
            period[skipped..].to_vec()
        };
        PeriodTimes { plain: self.plain.clone(), recorded: self.recorded.iter().map(rest).collect() }
    }

    fn all(&self) -> impl Iterator<Item = u64> {
        self.plain.iter().chain(&self.recorded).flatten().copied()
    }
}

impl Recording {
    /// Reads such a file.
    ///
    /// # Errors
    /// A file that cannot be read, that has no known format, or that contains impossible times.
    pub fn read(file: &Path) -> Result<Self> {
        let doing = "read this recording";
        let mut bytes = Vec::new();
        let most = input_file::open(file, doing)?.take(LARGEST + 1).read_to_end(&mut bytes);
        most.map_err(|cause| Error::io(file, doing, &cause))?;
        Self::parse(&input_file::decode_text(bytes, file, doing)?)
            .map_err(|error| error.file(file).help("record again"))
    }

    /// Whether a recorder wrote this file, which may be damaged or of a newer format.
    pub(crate) fn is_own(file: &Path) -> bool {
        let mut bytes = Vec::new();
        let read = fs::File::open(file).and_then(|file| file.take(LARGEST).read_to_end(&mut bytes));
        let text = String::from_utf8_lossy(&bytes);
        read.is_ok() && text.starts_with('{') && OWN_WORDS.iter().all(|word| text.contains(word))
    }

    fn parse(text: &str) -> Result<Self> {
        if text.len() as u64 > LARGEST {
            return Err(Error::input("is not a recording: it is too large").expected("64 MiB at most"));
        }
        let unknown = |cause: serde_json::Error| Error::input(format!("is not a recording: {cause}"));
        // Nothing else is known about a newer format, not even whether it has the same fields.
        let RecordingHeader { format } = serde_json::from_str(text).map_err(unknown)?;
        if !(1..=FORMAT).contains(&format) {
            return Err(Error::input(format!("has format {format}")).expected(format!("format 1 to {FORMAT}")));
        }
        let recording: Recording = serde_json::from_str(text).map_err(unknown)?;
        recording.check()?;
        Ok(recording)
    }

    /// Skips this many recorded iterations at the beginning.
    pub(crate) fn after_warm_up(&self, warm_up: usize) -> Self {
        let rest = |times: &Option<PeriodTimes>| times.as_ref().map(|times| times.after_warm_up(warm_up));
        Recording {
            wall: self.wall.after_warm_up(warm_up),
            processor: rest(&self.processor),
            faults: rest(&self.faults),
            ..self.clone()
        }
    }

    fn check(&self) -> Result<()> {
        let all = [&self.processor, &self.delayed, &self.faults, &self.thread].map(Option::as_ref);
        let all = [Some(&self.wall), Some(&self.settled)].into_iter().chain(all);
        if let Some(time) = all.flatten().flat_map(PeriodTimes::all).find(|time| *time > LONGEST) {
            return Err(Error::input(format!("has an iteration of {time} ns")).expected("a week at most"));
        }
        if self.wall.all().chain(self.settled.all()).any(|time| time == 0) {
            return Err(Error::input("has an iteration that takes no time").expected("1 ns at least"));
        }
        Ok(())
    }

    /// Whether recording slowed Python itself down. Up to Python 3.11, PyTorch's tracer also makes the interpreter
    /// slower between calls, where no event shows it (a loop without calls takes 2.3 times as long).
    pub fn slows_python(&self) -> bool {
        let version =
            self.python.as_ref().and_then(|version| version.strip_prefix("3.")?.split('.').next()?.parse().ok());
        self.calls == Some(true) && version.is_some_and(|minor: u32| minor <= 11)
    }

    /// The versions and threads that the script ran with, if known: `PyTorch 2.11.0 on 4 threads`.
    pub fn origin(&self) -> Option<String> {
        let threads =
            self.threads.map_or(String::new(), |threads| format!(" on {}", count_text(threads.into(), "thread")));
        Some(format!("PyTorch {}{threads}", self.torch.as_ref()?))
    }

    /// The recording next to a trace; none if there is none, as for traces of other programs.
    ///
    /// # Errors
    /// As [`Recording::read`].
    pub fn next_to(trace: &Path) -> Result<Option<Self>> {
        match recording_of(trace).filter(|file| file.exists()) {
            Some(file) => Self::read(&file).map(Some),
            None => Ok(None),
        }
    }
}
