//! One run of a job under limits, until its rate is known.

use super::Sensitivity;
use super::heard::{Heard, VARIABLE, Way};
use super::nodes::Team;
use super::store::{Outcome, Place, Run};
use crate::{Measured, Rate, Span};
use perf4sight_base::error::Result;
use perf4sight_base::units::Bytes;
use perf4sight_limit::{Axis, Ended, Job, JobEnd, Limiter, Seen, Verdict};
use perf4sight_machine::Limits;
use perf4sight_machine::{Watch, foreground};
use perf4sight_record::python::Python;
use serde::{Deserialize, Serialize};
use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// Where Python looks for modules.
const MODULES: &str = "PYTHONPATH";
/// The rate is looked at when the run is by such a part longer: looking again and again ends points too early.
const LONGER: f64 = 0.1;
/// The rate is looked at after so long at the earliest.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// Runs a job.
pub(super) struct Runner<'a> {
    pub asked: &'a Sensitivity,
    pub words: &'a [String],
    pub limiter: &'a Limiter,
    pub watch: Watch<'a>,
    /// The other nodes, where there are any and this one leads.
    pub team: Option<&'a Team>,
}

/// How long a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Goal {
    /// Iterations at the beginning that do not count.
    pub warm_up: u64,
    /// So many have to follow, though the rate may be known before.
    pub least: u64,
    /// So many may follow, though the rate may not be known then; further ones do not count.
    pub most: Option<u64>,
    /// Time after which it ends anyway.
    pub time: Duration,
}

impl Goal {
    fn span(self) -> Span {
        Span { warm_up: self.warm_up as usize, most: self.most }
    }

    /// When to look again, with so many iterations told until now: not much later than the last one is to come.
    fn next_look(self, after: Duration, told: u64) -> Duration {
        let left = self.most.filter(|_| told > 0).map(|most| most.saturating_sub(told) as f64);
        let share = left.map_or(LONGER, |left| LONGER.min(left / (told + self.warm_up) as f64));
        after.mul_f64(1.0 + share)
    }
}

/// Says when a run ends: it may not be alone.
pub(super) trait Pace {
    /// Whether it ends now, by whether its own rate is known well enough, and how long it has been going on.
    fn ends(&mut self, known: bool, after: Duration) -> bool;

    /// Whether it is about to end, so that to fail is to have been ended.
    fn is_closing(&self) -> bool;
}

/// A run that is alone: its rate and its time count.
struct Alone(Duration);

impl Pace for Alone {
    fn ends(&mut self, known: bool, after: Duration) -> bool {
        known || after >= self.0
    }

    fn is_closing(&self) -> bool {
        false
    }
}

/// Looks at a run while it goes on.
struct Looks<'a> {
    heard: Heard<'a>,
    goal: Goal,
    most: Option<u64>,
    next: Duration,
    /// Whether the last look saw enough.
    known: bool,
}

impl Looks<'_> {
    /// Whether what was seen is enough.
    fn look(&mut self, seen: &Seen) -> bool {
        self.heard.hear(&seen.lines);
        if seen.after >= self.next {
            self.next = self.goal.next_look(seen.after, self.heard.iterations(self.goal.span()));
            self.known = self.is_enough();
        }
        self.known
    }

    fn is_enough(&self) -> bool {
        let (span, told) = (self.goal.span(), self.heard.iterations(self.goal.span()));
        if self.goal.most.is_some_and(|most| told >= most) {
            return true;
        }
        let Some((_, measured)) = self.heard.measured(span) else { return false };
        let reached = |most: u64| told + self.goal.warm_up >= most;
        measured.is_known() && told >= self.goal.least || self.most.is_some_and(reached)
    }
}

impl Runner<'_> {
    /// Runs it once, on all nodes where there are several; none after Ctrl-C.
    ///
    /// # Errors
    /// A command that cannot be started, limits that cannot be held, a folder that cannot be written to; a node that is gone.
    pub fn run(&self, place: Place, goal: Goal) -> Result<Option<Run>> {
        let limits = Limits { cpus: Some(place.cpus), memory: place.memory, storage: place.storage };
        match self.team {
            None => self.run_here(limits, goal, &mut Alone(goal.time)),
            Some(team) => team.run(&limits, goal, &self.watch, &mut |pace| self.run_here(limits, goal, pace)),
        }
    }

    /// Runs it once on this node, at a pace that others may have a say in; none after Ctrl-C.
    ///
    /// # Errors
    /// See [`Runner::run`], but for other nodes.
    pub fn run_here(&self, limits: Limits, goal: Goal, pace: &mut dyn Pace) -> Result<Option<Run>> {
        let python = Python::write(&env::temp_dir())?;
        let heard = Heard::new(&python.told(), self.asked.step_pattern.as_ref().map(|pattern| &pattern.0));
        let mut environment = environment(&heard.file(), &python.modules());
        environment.extend(self.asked.nodes.iter().flat_map(|nodes| nodes.environment(self.asked.processes())));
        let job = Job {
            words: self.words,
            environment: &environment,
            limits,
            processes: self.asked.processes(),
            // The whole search has its turn.
            alone: false,
            ..Job::default()
        };
        let mut looks = Looks { heard, goal, most: self.asked.max_iterations, next: FIRST_LOOK, known: false };
        let ended = self.limiter.run(&job, &self.watch, &mut |seen| pace.ends(looks.look(seen), seen.after))?;
        Ok(ended.map(|mut ended| {
            if pace.is_closing() && matches!(ended.end, JobEnd::Exited(status) if !status.success()) {
                ended.end = JobEnd::Enough;
            }
            self.outcome(&ended, &looks.heard, goal)
        }))
    }

    /// Where a job runs with these CPUs and this memory: where storage counts, it gets the storage that the user says it will have, if
    /// anything here can hold it to that.
    pub fn place(&self, cpus: f64, memory: Option<Bytes>) -> Place {
        let can = memory.is_some() && self.limiter.survey().by(Axis::Storage).is_some();
        Place { cpus, memory, storage: self.asked.storage_bandwidth.filter(|_| can) }
    }

    fn outcome(&self, ended: &Ended, heard: &Heard<'_>, goal: Goal) -> Run {
        let measured = heard.measured(goal.span()).or_else(|| self.divided(ended));
        let last_lines = || ended.last_lines.clone();
        let outcome = match (ended.verdict(), measured) {
            (Verdict::OutOfMemory, _) => Outcome::OutOfMemory,
            (Verdict::Crashed(how), _) => Outcome::Crashed { how, last_lines: last_lines() },
            (Verdict::Disturbed(_) | Verdict::Sound, None) => {
                let told = heard.steps().map_or(0, |(_, ranks)| ranks.iter().map(Vec::len).min().unwrap_or(0));
                Outcome::NoRate { how: without_rate(ended, heard, told), told, last_lines: last_lines() }
            }
            (Verdict::Disturbed(how), Some(_)) => Outcome::Disturbed { how },
            (Verdict::Sound, Some(_)) => Outcome::Sound,
        };
        let (way, measured) = measured.unzip();
        Run {
            outcome,
            way,
            measured,
            seconds: ended.wall.as_secs_f64(),
            cpu_seconds: ended.cpu_seconds,
            throttled_seconds: ended.throttled_seconds,
            peak_memory: ended.peak_memory,
            own_memory: ended.own_memory,
            doubts: heard.doubts(),
            bytes_read: ended.bytes_read,
            pressure: ended.pressure.cpu,
            waited: ended.waited(),
            node: None,
            nodes: Vec::new(),
        }
    }

    /// The whole run divided by its number of iterations: how far that is from the truth nothing tells.
    fn divided(&self, ended: &Ended) -> Option<(Way, Measured)> {
        let iterations = self.asked.iterations.filter(|_| matches!(ended.end, JobEnd::Exited(_)))?;
        let seconds = ended.wall.as_secs_f64();
        let rate = Rate::exactly(iterations as f64 / seconds);
        Some((Way::Division, Measured { rate, iterations, seconds, blocks: 1, waiting: None, changed: None }))
    }
}

/// What the job is told, and the folder that Python loads the hooks from.
fn environment(file: &Path, modules: &Path) -> Vec<(String, OsString)> {
    let folders = foreground::with_first(MODULES, modules);
    let told: [(&str, OsString); 3] = [(VARIABLE, file.into()), (MODULES, folders), ("PYTHONUNBUFFERED", "1".into())];
    told.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Why there is no rate.
fn without_rate(ended: &Ended, heard: &Heard<'_>, steps: usize) -> String {
    let end = match ended.end {
        JobEnd::Exited(_) => "it ended by itself",
        JobEnd::Enough | JobEnd::TimeUp => "its time was up",
        JobEnd::WantedTerminal => "it wanted a terminal",
    };
    let after = humantime::format_duration(Duration::from_millis(ended.wall.as_millis() as u64));
    let told = match (steps, heard.rubbish()) {
        (0, 0) => heard.unmatched().unwrap_or_else(|| "no iteration was told".to_owned()),
        (0, lines) => format!("{lines} lines of the file that was to tell of iterations are none"),
        (steps, _) => {
            let told = format!("iterations that were told: {steps}, too few or in too short a time for a rate");
            [told].into_iter().chain(heard.doubts()).collect::<Vec<_>>().join("; ")
        }
    };
    format!("{end} after {after}: {told}")
}
