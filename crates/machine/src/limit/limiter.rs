//! Finds what can hold limits here, and runs jobs under them.

use super::affinity;
use super::ended::{Ended, JobEnd, Pressure};
use super::lines::Lines;
use super::survey::{Held, Survey};
use super::{Axis, Job, Limits, Means, Seen, Stream};
use crate::Watch;
use crate::description::Description;
use crate::guard::Guarded;
use perf4sight_conventions::error::{Error, Result};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How often a job is looked at: rarely enough not to disturb what is measured in it.
const LOOK: Duration = Duration::from_millis(50);
/// How long output may take to arrive after the job has ended.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// Where jobs are to run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Surroundings<'a> {
    /// What they read: the folder, or the file, whose storage and whose page cache limits speak of.
    pub data: Option<&'a Path>,
    /// The image of docker that they run in; else they run here.
    pub image: Option<&'a str>,
    /// Folder to mount into the container, as `host:container`.
    pub mount: Option<&'a str>,
}

/// What holds limits here. Groups that it makes lie below our own, and go with it.
#[derive(Debug)]
pub struct Limiter {
    survey: Survey,
    allowed: Vec<usize>,
}

impl Limiter {
    /// Tries what holds limits here, each in the order of [`Means`], and takes away what a profiler that was killed has left behind.
    ///
    /// # Errors
    /// Data that is not there; an image where docker cannot run it.
    pub fn open(surroundings: Surroundings<'_>, _watch: &Watch<'_>) -> Result<Self> {
        let allowed = affinity::allowed();
        if let Some(data) = surroundings.data {
            std::fs::metadata(data).map_err(|cause| Error::io(data, "find the data", &cause))?;
        }
        let held = |axis, by| Held { axis, by, remark: None, refused: Vec::new() };
        let survey = Survey {
            cpus: allowed.len() as f64,
            memory: Description::here().memory(),
            axes: vec![held(Axis::Cpus, Some(Means::DutyCycle)), held(Axis::Memory, None), held(Axis::Storage, None)],
        };
        Ok(Limiter { survey, allowed })
    }

    /// What holds which limit, and why nothing better does.
    pub fn survey(&self) -> &Survey {
        &self.survey
    }

    /// Whether these limits can be held here.
    ///
    /// # Errors
    /// More than there is, nothing at all, or an axis that cannot be limited.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        let cpus = limits.cpus.unwrap_or(1.0);
        if !(cpus > 0.0 && cpus <= self.survey.cpus) {
            let here = self.survey.cpus;
            return Err(Error::usage(format!("{cpus} CPUs cannot be given to a job: there are {here} here")));
        }
        Ok(())
    }

    /// Runs a job until it ends, its time is up, or `enough` says so of what was seen; none after Ctrl-C.
    ///
    /// # Errors
    /// A command that cannot be started, limits that cannot be held.
    pub fn run(
        &self,
        job: &Job<'_>,
        watch: &Watch<'_>,
        enough: &mut dyn FnMut(&Seen) -> bool,
    ) -> Result<Option<Ended>> {
        self.check(&job.limits)?;
        let mut command = self.command(job)?;
        let cpus = job.limits.cpus.map_or(self.allowed.clone(), |cpus| affinity::filled(cpus, &self.allowed));
        let begun = Instant::now();
        let started = affinity::within(&cpus, || Guarded::start(&mut command, true));
        let mut guarded = started.map_err(|cause| {
            Error::io(&job.words[0], "start this command", &cause)
                .help("name a program on the path, or a file with its folder")
        })?;
        let mut lines = Lines::new(begun);
        guarded.child.stdout.take().into_iter().for_each(|pipe| lines.listen(pipe, Stream::Output));
        guarded.child.stderr.take().into_iter().for_each(|pipe| lines.listen(pipe, Stream::Error));
        let end = loop {
            let seen = Seen { after: begun.elapsed(), lines: lines.take() };
            let end = match guarded.child.try_wait() {
                Ok(Some(status)) => Some(JobEnd::Exited(status)),
                Err(cause) => return Err(Error::io(&job.words[0], "wait for this command", &cause)),
                Ok(None) if watch.cancelled() => return Ok(None),
                Ok(None) if enough(&seen) => Some(JobEnd::Enough),
                Ok(None) => job.timeout.filter(|timeout| seen.after >= *timeout).map(|_| JobEnd::TimeUp),
            };
            if let Some(end) = end {
                break end;
            }
            thread::sleep(LOOK);
        };
        let wall = begun.elapsed();
        lines.finish(LAST_OUTPUT);
        enough(&Seen { after: wall, lines: lines.take() });
        Ok(Some(Ended {
            end,
            wall,
            ran_out_of_memory: false,
            peak_memory: None,
            cpu_seconds: None,
            throttled_seconds: None,
            bytes_read: None,
            pressure: Pressure::default(),
            last_lines: lines.last(),
        }))
    }

    /// The command with its environment: as many threads as there are CPUs for each of its processes.
    fn command(&self, job: &Job<'_>) -> Result<Command> {
        let (program, arguments) = job.words.split_first().ok_or_else(|| Error::usage("the command is empty"))?;
        let mut command = Command::new(program);
        command.args(arguments).envs(job.environment.iter().map(|(name, value)| (name, value)));
        if let Some(cpus) = job.limits.cpus {
            let threads = affinity::whole(cpus / job.processes.max(1) as f64).to_string();
            for name in ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"] {
                command.env(name, &threads);
            }
        }
        if let Some(folder) = job.folder {
            command.current_dir(folder);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }
}
