//! Runs a job under limits, watches it and reports its outcome.

use super::backend::JobMemory;
use super::ended::{EndedJob, JobEnd};
use super::interrupts::let_jobs_be_interrupted;
use super::limiter::{JobHolds, Limiter};
use super::own_memory::OwnMemoryPeak;
use super::peaks::ProcessPeak;
use super::pressure::HostLoad;
use super::processes::ProcessEntry;
use super::usage::ResourceUsage;
use super::{JobOutput, LimitedJob, MemoryHistory};
use nix::sys::signal::Signal;
use perf4sight_base::error::{Error, Result};
use perf4sight_machine::guard::GuardedProcess;
use perf4sight_machine::lines::{OutputLines, OutputStream, readable};
use perf4sight_machine::program::{find, missing};
use perf4sight_machine::{RunWatch, affinity, cgroup, measurement_lock};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The polling interval: long enough not to disturb the measurement.
const LOOK: Duration = Duration::from_millis(50);
/// The most readings of a job's memory at one poll, where it changes meanwhile.
const READINGS: usize = 8;
/// Two readings whose memory differs by at most this many bytes count as one.
const STILL: u64 = 1 << 20;
/// Polls in the stopped state until a job counts as stopped.
const STOPPED: usize = 10;
/// Time to end by itself after an interrupt.
const GRACE: Duration = Duration::from_secs(2);
/// How long output may take to arrive after the job has ended.
const LAST_OUTPUT: Duration = Duration::from_millis(500);
/// The exit status of the shell that joins control groups, where it cannot.
const NOT_JOINED: i32 = 125;
/// The exit status of a shell, and of docker, when a program was killed (128 + SIGKILL).
const KILLED: i32 = 137;

impl Limiter {
    /// Runs a job until it ends, its timeout expires, or `enough` returns true; none after Ctrl-C. Where memory or
    /// storage is limited, the data is dropped from the page cache first, so that all cached data was read by the job.
    ///
    /// # Errors
    /// A command that cannot be started, limits that cannot be enforced.
    pub fn run(
        &self,
        job: &LimitedJob<'_>,
        watch: &RunWatch<'_>,
        enough: &mut dyn FnMut(&JobOutput) -> bool,
    ) -> Result<Option<EndedJob>> {
        self.survey().check(&job.limits)?;
        let lock = job.alone.then(|| measurement_lock::take(watch)).transpose()?;
        if lock.as_ref().is_some_and(Option::is_none) {
            return Ok(None);
        }
        let program = job.words.first().ok_or_else(|| Error::usage("the command is empty"))?;
        let holds = self.evict(&job.limits).and_then(|()| self.set_limits(job, |_| true));
        let holds = holds.map_err(|cause| Error::io(program, "hold the limits of this command", &cause))?;
        let cpus = self.cpus_of(&job.limits);
        let (host, kills) = (HostLoad::now(&cpus), cgroup::memory_kills(Path::new("/")));
        let Some(mut running) = RunningJob::start(self, job, holds)?.poll_until_end(job, watch, enough)? else {
            return Ok(None);
        };
        let usage = running.usage();
        let pressure = HostLoad::now(&cpus).since(&host, usage.cpu_seconds);
        running.finish(enough)?;
        let grown = cgroup::memory_kills(Path::new("/")).iter().zip(kills).any(|(after, before)| *after > before);
        let killed = usage.out_of_memory_kills.map_or(grown && was_killed(running.end), |kills| kills > 0);
        Ok(Some(EndedJob {
            end: running.end,
            wall: running.wall,
            until_gone: running.begun.elapsed(),
            cpus: job.limits.cpus.unwrap_or(cpus.len() as f64),
            ran_out_of_memory: killed,
            peak_memory: usage.peak,
            own_memory: running.own_memory.peak(),
            rise: running.held.rise().or(usage.rise),
            counts_shared: usage.counts_shared,
            cpu_seconds: usage.cpu_seconds,
            throttled_seconds: usage.throttled_seconds,
            bytes_read: usage.bytes_read,
            pressure,
            last_lines: running.last_lines,
        }))
    }
}

/// The command with its environment, after the prefix of its holds.
fn command(job: &LimitedJob<'_>, prefix: &[String]) -> Command {
    let words: Vec<&String> = prefix.iter().chain(job.words).collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).envs(job.environment.iter().map(|(name, value)| (name, value)));
    command.envs(affinity::threads(job.limits.cpus, job.processes));
    if let Some(folder) = job.folder {
        command.current_dir(folder);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A job that was started. It ends before its holds are dropped.
struct RunningJob {
    guarded: GuardedProcess,
    holds: JobHolds,
    program: String,
    begun: Instant,
    wall: Duration,
    end: JobEnd,
    lines: OutputLines,
    /// The last lines before it was ended: output caused by the interrupt does not count.
    last_lines: Vec<String>,
    own_memory: OwnMemoryPeak,
    held: MemoryHistory,
}

impl RunningJob {
    fn start(limiter: &Limiter, job: &LimitedJob<'_>, mut holds: JobHolds) -> Result<Self> {
        let program = job.words[0].clone();
        if !limiter.runs_in_image() {
            find(&program, job.folder)?;
        }
        let (mut command, cleanup) = (command(job, &holds.prefix()), holds.cleanup());
        let_jobs_be_interrupted();
        let begun = Instant::now();
        let started = affinity::with_affinity(&limiter.cpus_of(&job.limits), || {
            GuardedProcess::start_with_cleanup(&mut command, true, &cleanup)
        });
        let mut guarded = started.map_err(|cause| missing(&program, &cause))?;
        let mut lines = OutputLines::new(begun);
        guarded.child.stdout.take().into_iter().for_each(|pipe| lines.listen(pipe, OutputStream::Output));
        guarded.child.stderr.take().into_iter().for_each(|pipe| lines.listen(pipe, OutputStream::Error));
        holds.0.iter_mut().for_each(|hold| hold.started(&guarded));
        let (wall, end, own_memory, held) =
            (Duration::ZERO, JobEnd::Enough, OwnMemoryPeak::default(), MemoryHistory::default());
        Ok(RunningJob { guarded, holds, program, begun, wall, end, lines, last_lines: Vec::new(), own_memory, held })
    }

    /// Polls the job until there is a reason to end it; none after Ctrl-C.
    fn poll_until_end(
        mut self,
        job: &LimitedJob<'_>,
        watch: &RunWatch<'_>,
        enough: &mut dyn FnMut(&JobOutput) -> bool,
    ) -> Result<Option<Self>> {
        let mut stopped = 0;
        loop {
            let ended = self.guarded.child.try_wait();
            let ended = ended.map_err(|cause| Error::io(&self.program, "wait for this command", &cause))?;
            self.wall = self.begun.elapsed();
            if let Some((now, processes)) = self.memory(job.limits.memory.is_some()) {
                self.own_memory.add(now, &processes);
                self.held.add(self.wall, now.own);
            }
            let seen = JobOutput { after: self.wall, lines: self.lines.take() };
            stopped = if self.is_stopped() { stopped + 1 } else { 0 };
            let end = match ended {
                Some(status) => Some(JobEnd::Exited(status)),
                None if watch.cancelled() => return Ok(None),
                None if enough(&seen) => Some(JobEnd::Enough),
                None if stopped >= STOPPED => Some(JobEnd::Stopped),
                None => job.timeout.filter(|timeout| seen.after >= *timeout).map(|_| JobEnd::TimeUp),
            };
            if let Some(end) = end {
                self.end = end;
                if matches!(end, JobEnd::Exited(_)) {
                    enough(&seen);
                }
                return Ok(Some(self));
            }
            thread::sleep(LOOK);
        }
    }

    /// Whether it is stopped, and not by a hold: the kernel stops a process that reads from a terminal in the
    /// background.
    fn is_stopped(&self) -> bool {
        let is_paused = self.holds.0.iter().any(|hold| hold.pauses());
        !is_paused && ProcessEntry::read(self.guarded.child.id() as i32).is_some_and(|entry| entry.state == 'T')
    }

    fn memory_now(&mut self) -> Option<JobMemory> {
        self.holds.0.iter_mut().find_map(|hold| hold.memory())
    }

    /// Its current memory, and under a limit that of each process. Reading each process takes time, and without a limit
    /// the kernel's counter is enough. The two are read one after the other, and memory freed in between would count
    /// twice. So they are read again while memory changes; if it keeps changing, the smaller reading counts.
    fn memory(&mut self, at_a_limit: bool) -> Option<(JobMemory, Vec<ProcessPeak>)> {
        let mut before = self.memory_now()?;
        if !at_a_limit {
            return Some((before, Vec::new()));
        }
        let mut readings = 1;
        loop {
            let processes = self.holds.0.iter().map(|hold| hold.processes()).find(|processes| !processes.is_empty());
            let now = self.memory_now().unwrap_or(before);
            if readings == READINGS || now.own.0.abs_diff(before.own.0) <= STILL {
                return Some((if now.own < before.own { now } else { before }, processes.unwrap_or_default()));
            }
            before = now;
            readings += 1;
        }
    }

    fn usage(&mut self) -> ResourceUsage {
        self.holds.0.iter_mut().map(|hold| hold.usage()).fold(ResourceUsage::default(), ResourceUsage::fill_missing)
    }

    /// Ends it, and passes on its last lines.
    fn finish(&mut self, enough: &mut dyn FnMut(&JobOutput) -> bool) -> Result<()> {
        let last = |lines: &OutputLines| lines.last().iter().map(|line| readable(line)).collect::<Vec<String>>();
        if let JobEnd::Exited(status) = self.end {
            self.lines.finish(LAST_OUTPUT);
            enough(&JobOutput { after: self.wall, lines: self.lines.take() });
            self.last_lines = last(&self.lines);
            let last = &self.last_lines;
            if status.code() == Some(NOT_JOINED) && last.last().is_some_and(|line| line.contains("cgroup.procs")) {
                let problem = format!("{} could not be put into its control groups: {}", self.program, last.concat());
                return Err(Error::device(problem));
            }
            return Ok(());
        }
        self.last_lines = last(&self.lines);
        self.guarded.interrupt();
        let until = Instant::now() + GRACE;
        while Instant::now() < until && matches!(self.guarded.child.try_wait(), Ok(None)) {
            thread::sleep(LOOK);
        }
        Ok(())
    }
}

fn was_killed(end: JobEnd) -> bool {
    match end {
        JobEnd::Exited(status) => status.signal() == Some(Signal::SIGKILL as i32) || status.code() == Some(KILLED),
        JobEnd::Enough | JobEnd::TimeUp | JobEnd::Stopped => false,
    }
}
