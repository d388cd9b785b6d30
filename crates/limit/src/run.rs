//! Runs a job under limits, watches it and tells what became of it.

use super::attempts::said;
use super::duty::Warden;
use super::ended::{Ended, JobEnd};
use super::group::{Counts, Group, Groups, new_name};
use super::limiter::{Limiter, Surroundings, remove_container};
use super::lines::Lines;
use super::marks::Mark;
use super::orphans::Orphans;
use super::own_memory::{Holding, OwnMemory};
use super::owner::Owner;
use super::pressure::Host;
use super::process_table::Entry;
use super::residency::{Governor, evict};
use super::wrapped::{Manager, container, end_scope, scope};
use super::{Axis, Job, Means, Seen, Stream};
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::unistd::{AccessFlags, access};
use perf4sight_base::error::{Error, Result};
use perf4sight_machine::guard::Guarded;
use perf4sight_machine::{Limits, affinity};
use perf4sight_machine::{Watch, cgroup, turn};
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

/// How often a job is looked at: rarely enough not to disturb what is measured in it.
const LOOK: Duration = Duration::from_millis(50);
/// How often what a job holds is read at a look, where it changes meanwhile.
const READINGS: usize = 8;
/// Bytes by which what a job holds may change between two readings that are taken for one.
const STILL: u64 = 1 << 20;
/// Looks at which a job stood still until it counts as stopped.
const STOPPED: usize = 10;
/// Time to end by itself when it has been interrupted.
const GRACE: Duration = Duration::from_secs(2);
/// How long output may take to arrive after the job has ended.
const LAST_OUTPUT: Duration = Duration::from_millis(500);
/// What the shell that joins groups ends with where it cannot.
const NOT_JOINED: i32 = 125;
/// What a shell tells of a program that was killed (128 + SIGKILL), and so does docker.
const KILLED: i32 = 137;

/// What holds a job while it runs; all of it goes when this is dropped.
struct Holds {
    /// What stands before the command.
    prefix: Vec<String>,
    /// What ends what a guard cannot end, when we are dead.
    farewell: Vec<String>,
    name: String,
    place: Place,
    _governor: Option<Governor>,
}

/// Where a job runs, and who counts for it.
enum Place {
    Groups(Groups),
    /// In no group at all: who counts sees who started whom, and what loses its parents comes to us.
    Loose(Orphans),
    Scope,
    Container,
}

impl Limiter {
    /// Runs a job until it ends, its time is up, or `enough` says so of what was seen; none after Ctrl-C. Where memory or storage is
    /// limited, the data leaves the page cache before, so that what is cached was read by the job.
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
        let turn = job.alone.then(|| turn::take(watch)).transpose()?;
        if turn.as_ref().is_some_and(Option::is_none) {
            return Ok(None);
        }
        let program = job.words.first().ok_or_else(|| Error::usage("the command is empty"))?;
        let held = self.hold(job).map_err(|cause| Error::io(program, "hold the limits of this command", &cause))?;
        let cpus = self.cpus_of(job);
        let (host, kills) = (Host::now(&cpus), cgroup::kills(Path::new("/")));
        let Some(mut running) = Running::start(self, job, &held)?.watched(job, &held, watch, enough)? else {
            return Ok(None);
        };
        let counts = running.counts(&held, watch);
        let pressure = Host::now(&cpus).since(&host, counts.cpu_seconds);
        running.finish(enough)?;
        let grown = cgroup::kills(Path::new("/")).iter().zip(kills).any(|(after, before)| *after > before);
        Ok(Some(Ended {
            end: running.end,
            wall: running.wall,
            cpus: job.limits.cpus.unwrap_or(cpus.len() as f64),
            ran_out_of_memory: counts.kills.map_or(grown && was_killed(running.end), |kills| kills > 0),
            peak_memory: counts.peak,
            own_memory: running.own_memory.most(),
            cpu_seconds: counts.cpu_seconds,
            throttled_seconds: counts.throttled_seconds,
            bytes_read: counts.bytes_read,
            pressure,
            last_lines: running.last_lines,
        }))
    }

    /// The CPUs that a job may run on.
    fn cpus_of(&self, job: &Job<'_>) -> Vec<usize> {
        job.limits.cpus.map_or_else(|| self.allowed.clone(), |cpus| affinity::filled(cpus, &self.allowed))
    }

    /// Makes what holds the limits of a job.
    fn hold(&self, job: &Job<'_>) -> io::Result<Holds> {
        let limits = &job.limits;
        if let Some(data) = self.data.as_ref().filter(|_| limits.memory.is_some() || limits.storage.is_some()) {
            evict(data)?;
        }
        let name = new_name();
        let disc = self.disc.as_ref();
        let managers = [(Means::SystemdUser, Manager::User), (Means::SystemdSystem, Manager::System)];
        let manager = managers.into_iter().find(|(means, _)| self.uses(*means));
        let (prefix, farewell, place) = if let Some(image) = &self.image {
            let around = Surroundings { data: self.data.as_deref(), image: Some(image), mount: self.mount.as_deref() };
            (container(&name, &around, job, &self.cpus_of(job), disc), remove_container(&name), Place::Container)
        } else if let Some((_, manager)) = manager {
            (scope(manager, &name, &self.held_by_groups(limits), disc), end_scope(manager, &name), Place::Scope)
        } else {
            let groups = Groups::make(&self.hierarchies);
            groups.limit(&self.held_by_groups(limits), disc.map(|disc| disc.numbers))?;
            match groups.is_empty() {
                true => (Vec::new(), Vec::new(), Place::Loose(Orphans::adopt()?)),
                false => (groups.prefix(), groups.farewell(), Place::Groups(groups)),
            }
        };
        Ok(Holds { prefix, farewell, name, place, _governor: self.governor(limits)? })
    }

    /// Of some limits those that the kernel holds, and no process of ours.
    fn held_by_groups(&self, limits: &Limits) -> Limits {
        let cpus = limits.cpus.filter(|_| self.survey.by(Axis::Cpus) != Some(Means::DutyCycle));
        Limits {
            cpus,
            memory: limits.memory.filter(|_| self.survey.by(Axis::Memory) != Some(Means::Residency)),
            ..*limits
        }
    }

    fn governor(&self, limits: &Limits) -> io::Result<Option<Governor>> {
        let Some(((memory, size), data)) = limits.memory.zip(self.data_size).zip(self.data.as_ref()) else {
            return Ok(None);
        };
        Governor::start(data, memory.0 as f64 / size.0.max(1) as f64).map(Some)
    }

    /// The command with its environment, behind what holds it.
    fn command(&self, job: &Job<'_>, prefix: &[String]) -> Command {
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
}

impl Drop for Holds {
    fn drop(&mut self) {
        match self.place {
            // They end by themselves.
            Place::Groups(_) => {}
            Place::Loose(orphans) => orphans.end(),
            // Where it is gone already, nothing is left to end.
            Place::Scope | Place::Container => drop(said(&self.farewell, &Watch::quiet(&AtomicBool::new(false)))),
        }
    }
}

/// A job that was started.
struct Running {
    guarded: Guarded,
    program: String,
    begun: Instant,
    wall: Duration,
    end: JobEnd,
    lines: Lines,
    /// The last ones of its own accord: what it writes because we end it is no news.
    last_lines: Vec<String>,
    own_memory: OwnMemory,
    /// What holds it to its share of CPUs, or counts for it, where no control group does.
    warden: Option<Warden>,
    holds_still: bool,
    /// The folder of the scope that systemd made for it.
    scope: Option<PathBuf>,
}

impl Running {
    fn start(limiter: &Limiter, job: &Job<'_>, held: &Holds) -> Result<Self> {
        let program = job.words[0].clone();
        if !matches!(held.place, Place::Container) {
            find(&program, job.folder)?;
        }
        let mut command = limiter.command(job, &held.prefix);
        let begun = Instant::now();
        let started = affinity::within(&limiter.cpus_of(job), || {
            Guarded::start_with_farewell(&mut command, true, &held.farewell)
        });
        let mut guarded = started.map_err(|cause| missing(&program, &cause))?;
        let mut lines = Lines::new(begun);
        guarded.child.stdout.take().into_iter().for_each(|pipe| lines.listen(pipe, Stream::Output));
        guarded.child.stderr.take().into_iter().for_each(|pipe| lines.listen(pipe, Stream::Error));
        let share = job.limits.cpus.filter(|_| limiter.survey.by(Axis::Cpus) == Some(Means::DutyCycle));
        let counted = match &held.place {
            Place::Groups(groups) => groups.counts().cpu_seconds.is_some(),
            Place::Loose(_) => false,
            Place::Scope | Place::Container => true,
        };
        let first = guarded.child.id() as i32;
        let warden = (share.is_some() || !counted).then(|| Warden::start(first, guarded.guard(), share));
        let end = JobEnd::Enough;
        let holds_still = share.is_some();
        Ok(Running {
            guarded,
            program,
            begun,
            wall: Duration::ZERO,
            end,
            lines,
            last_lines: Vec::new(),
            own_memory: OwnMemory::default(),
            warden,
            holds_still,
            scope: None,
        })
    }

    /// Looks at it until there is a reason to end; none after Ctrl-C.
    fn watched(
        mut self,
        job: &Job<'_>,
        held: &Holds,
        watch: &Watch<'_>,
        enough: &mut dyn FnMut(&Seen) -> bool,
    ) -> Result<Option<Self>> {
        let mut stopped = 0;
        loop {
            let ended = self.guarded.child.try_wait();
            let ended = ended.map_err(|cause| Error::io(&self.program, "wait for this command", &cause))?;
            self.wall = self.begun.elapsed();
            self.scope = self.scope.or_else(|| scope_of(self.guarded.child.id()));
            if let Some((now, marks)) = self.held_at_once(held, job.limits.memory.is_some()) {
                self.own_memory.see(now, &marks);
            }
            let seen = Seen { after: self.wall, lines: self.lines.take() };
            stopped = if self.is_stopped() { stopped + 1 } else { 0 };
            let end = match ended {
                Some(status) => Some(JobEnd::Exited(status)),
                None if watch.cancelled() => return Ok(None),
                None if enough(&seen) => Some(JobEnd::Enough),
                None if stopped >= STOPPED => Some(JobEnd::WantedTerminal),
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

    /// Whether it stands still, and not because we hold it: whoever reads from a terminal that is not its own is stopped.
    fn is_stopped(&self) -> bool {
        !self.holds_still && Entry::read(self.guarded.child.id() as i32).is_some_and(|entry| entry.state == 'T')
    }

    /// Memory that it holds now; none where nothing tells its own from pages of files.
    fn holding(&self, held: &Holds) -> Option<Holding> {
        match &held.place {
            Place::Groups(groups) => groups.holding(),
            Place::Scope => Group::at(self.scope.clone()?).holding(),
            Place::Loose(_) | Place::Container => None,
        }
    }

    /// What it holds now, and at a limit what each of its processes does: looking at each takes time, and elsewhere the kernel tells it of all.
    /// The two are read one after the other, and what is freed meanwhile would count twice: they are read again while it frees or takes, and
    /// where that goes on, the least counts.
    fn held_at_once(&self, held: &Holds, at_a_limit: bool) -> Option<(Holding, Vec<Mark>)> {
        let mut before = self.holding(held)?;
        if !at_a_limit {
            return Some((before, Vec::new()));
        }
        let mut readings = 1;
        loop {
            let marks = self.marks(held);
            let now = self.holding(held).unwrap_or(before);
            if readings == READINGS || now.own.0.abs_diff(before.own.0) <= STILL {
                return Some((if now.own < before.own { now } else { before }, marks));
            }
            before = now;
            readings += 1;
        }
    }

    /// What each of its processes holds and held at most, as far as its groups tell of them.
    fn marks(&self, held: &Holds) -> Vec<Mark> {
        match &held.place {
            Place::Groups(groups) => groups.marks(),
            Place::Scope => self.scope.clone().map_or(Vec::new(), |folder| Group::at(folder).marks()),
            Place::Loose(_) | Place::Container => Vec::new(),
        }
    }

    /// What it used until now; whoever held it still lets it go.
    fn counts(&mut self, held: &Holds, watch: &Watch<'_>) -> Counts {
        let counted = match &held.place {
            Place::Groups(groups) => groups.counts(),
            Place::Loose(_) => Counts::default(),
            Place::Scope => self.scope.clone().map_or_else(Counts::default, |folder| Group::at(folder).counts()),
            Place::Container => {
                let words = ["docker", "inspect", "--format", "{{.State.OOMKilled}}", &held.name].map(str::to_owned);
                let killed = said(&words, watch).ok().map(|said| u64::from(said.trim() == "true"));
                Counts { kills: killed, ..Counts::default() }
            }
        };
        let Some(watched) = self.warden.take().and_then(Warden::finish) else { return counted };
        Counts {
            peak: counted.peak.or(Some(watched.peak)),
            cpu_seconds: counted.cpu_seconds.or(Some(watched.cpu_seconds)),
            throttled_seconds: if self.holds_still { Some(watched.stopped_seconds) } else { counted.throttled_seconds },
            bytes_read: counted.bytes_read.or(Some(watched.bytes_read)),
            kills: counted.kills,
        }
    }

    /// Ends it, and shows what it wrote last.
    fn finish(&mut self, enough: &mut dyn FnMut(&Seen) -> bool) -> Result<()> {
        if let JobEnd::Exited(status) = self.end {
            self.lines.finish(LAST_OUTPUT);
            enough(&Seen { after: self.wall, lines: self.lines.take() });
            self.last_lines = self.lines.last();
            let last = &self.last_lines;
            if status.code() == Some(NOT_JOINED) && last.last().is_some_and(|line| line.contains("cgroup.procs")) {
                let problem = format!("{} could not be put into its control groups: {}", self.program, last.concat());
                return Err(Error::device(problem));
            }
            return Ok(());
        }
        self.last_lines = self.lines.last();
        self.guarded.interrupt();
        let until = Instant::now() + GRACE;
        while Instant::now() < until && matches!(self.guarded.child.try_wait(), Ok(None)) {
            thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// The scope of a process, when it is in one of ours.
fn scope_of(process: u32) -> Option<PathBuf> {
    let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let name = path.rsplit('/').next()?.strip_suffix(".scope")?;
    Owner::of(name).map(|_| Path::new("/sys/fs/cgroup").join(path))
}

/// Looks for the program of a job as a shell would, from the folder that it runs in.
///
/// # Errors
/// One that is not there, or that may not be run.
pub fn find(program: &str, folder: Option<&Path>) -> Result<()> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "command -v \"$1\"", "find", program]);
    command.current_dir(folder.unwrap_or(Path::new(".")));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let found = command.status().is_ok_and(|status| status.success());
    if !found {
        return Err(missing(program, &Errno::ENOENT.into()));
    }
    // Some shells find a path that is there, whatever it is.
    let path = folder.unwrap_or(Path::new(".")).join(program);
    if program.contains('/') { runnable(program, &path) } else { Ok(()) }
}

/// Whether a file is one that may be run.
fn runnable(program: &str, path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(missing(program, &Errno::EISDIR.into()));
    }
    access(path, AccessFlags::X_OK).map_err(|cause| {
        Error::io(program, "start this command", &cause.into())
            .help("let it be executable (chmod +x), or name what runs it: sh train.sh")
    })
}

fn missing(program: &str, cause: &io::Error) -> Error {
    Error::io(program, "start this command", cause).help("name a program on the path, or a file with its folder")
}

/// Whether it was killed, as the kernel does for want of memory.
fn was_killed(end: JobEnd) -> bool {
    match end {
        JobEnd::Exited(status) => status.signal() == Some(Signal::SIGKILL as i32) || status.code() == Some(KILLED),
        JobEnd::Enough | JobEnd::TimeUp | JobEnd::WantedTerminal => false,
    }
}
