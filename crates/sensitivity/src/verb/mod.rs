//! `[sensitivity]` and `perf4sight sensitivity`: how many CPUs, how much memory and which storage a training job needs,
//! from a few runs of it.

mod answer;
mod arrivals;
mod cache_epoch;
mod command;
mod compare;
mod conclusion;
mod consistency;
mod data;
mod derived;
mod divided;
mod job;
mod monitor;
mod needed_memory;
mod nodes;
mod page;
mod parse;
mod plan;
mod points;
mod profile;
mod progress;
mod published;
mod refusal;
mod runner;
mod sensitivity_run;
mod settings;
mod show;
mod simulated;
mod steps_file;
mod store;
mod surroundings;
mod tables;
mod throttled;
mod warnings;
mod write;

pub use command::PassedOption;
pub use nodes::NodeSettings;
pub use show::ShowVerb;
pub use simulated::{SimulatedFate, SimulatedJob};

use crate::{Knee, LEAST_REPORTS, LEAST_TIME};
use job::{JobHost, JobRunner};
use nodes::NodeTeam;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::output_folder::OutputFolder;
use perf4sight_base::shell::command_text;
use perf4sight_base::units::Bytes;
use perf4sight_limit as limit;
use perf4sight_machine::RunWatch;
use perf4sight_machine::measurement_lock::{self, MeasurementLock};
use perf4sight_report::{Cell, TableColumn};
use perf4sight_verb::{
    Context, CountedNoun, Divisible, KeyedPath, Outline, PlannedFiles, Section, Spec, Summary, TableFinding, Verb,
    VerbSpec,
};
use plan::SearchEstimate;
use profile::SensitivityProfile;
use regex::Regex;
use runner::Runner;
use sensitivity_run::{SensitivityRun, StopReason};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use store::PointStore;
use surroundings::{JobSurroundings, full_grid};

/// The closest distinguishable numbers of CPUs: the kernel's smallest CPU quota is 1 ms in a period of 0.1 s.
const LEAST_STEP: f64 = 0.01;

/// The section `[sensitivity]`.
pub static SPEC: Spec = Spec {
    table: settings::TABLE,
    subject: CountedNoun { one: "job", several: "jobs" },
    parse: |values| Ok(Box::new(Sensitivity::parse(values)?)),
};

/// `perf4sight sensitivity`.
pub static VERB: VerbSpec = VerbSpec { table: settings::TABLE, after_help: settings::AFTER_HELP, parse: parse::verb };

/// The settings of a measurement.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sensitivity {
    /// The job's command and arguments.
    pub command: Vec<String>,
    /// Folder for the points and the results.
    pub out: PathBuf,
    /// Whether points in it are discarded.
    pub overwrite: bool,
    /// Name of the job.
    pub job_name: Option<String>,
    /// The most CPUs.
    pub cpu: Option<f64>,
    /// The step between numbers of CPUs.
    pub cpu_step: Option<f64>,
    /// The most memory.
    pub memory: Option<Bytes>,
    /// GPUs of the job.
    pub num_gpus: Option<u32>,
    /// Batch size on each GPU.
    pub batch: Option<u64>,
    /// Data loader workers.
    pub workers: Option<u64>,
    /// Iterations after which a point ends.
    pub max_iterations: Option<u64>,
    /// The data that an epoch reads.
    pub data: Option<PathBuf>,
    /// Arguments to pass to the script; none to detect those that it accepts.
    pub pass: Option<Vec<PassedOption>>,
    /// Samples of an epoch.
    pub samples: Option<u64>,
    /// Output that matches this pattern marks one iteration.
    pub step_pattern: Option<RegexPattern>,
    /// Iterations of the whole command.
    pub iterations: Option<u64>,
    /// Warm-up iterations of a run, which do not count.
    pub warm_up: u64,
    /// Time after which a run ends.
    pub point_time: Duration,
    /// Time for everything.
    pub budget: Option<Duration>,
    /// Bytes a second from memory.
    pub memory_bandwidth: Option<Bytes>,
    /// Bytes a second from storage.
    pub storage_bandwidth: Option<Bytes>,
    /// The docker image that the job runs in.
    pub docker_img: Option<String>,
    /// Mount point of the data in the container.
    pub container_mnt: Option<PathBuf>,
    /// The nodes that it runs on; none for a single one.
    pub nodes: Option<NodeSettings>,
    /// Print the plan and run nothing.
    pub dry_run: bool,
}

/// A regular expression, equal to another one of the same text.
#[derive(Debug, Clone)]
pub struct RegexPattern(pub Regex);

impl RegexPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// Text that is not a regular expression.
    pub fn parse(text: &str) -> Result<Self> {
        progress::pattern(text).map(RegexPattern)
    }
}

impl PartialEq for RegexPattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Verb for Sensitivity {
    /// Measures the missing points and reports the results.
    ///
    /// # Errors
    /// A job that fails, or reports no iteration; limits that cannot be enforced; a folder with points of another job.
    fn run(&self, context: &mut Context) -> Result<Summary> {
        self.check()?;
        self.check_program()?;
        self.check_cpus()?;
        let cancel = Arc::clone(&context.cancel);
        let watch = RunWatch::quiet(&cancel);
        if let Some(nodes) = self.nodes.as_ref().filter(|nodes| nodes.follows() && !self.dry_run) {
            return nodes::follow(self, nodes, watch, context);
        }
        let Some((around, limiter)) = JobSurroundings::look(self, &watch, context)? else { return Ok(interrupted()) };
        let host = JobHost { limiter: &limiter, watch };
        if self.dry_run {
            if self.is_leader() {
                write::check_writable(&self.out)?;
            }
            let runner = self.runner(&around, host, None, context);
            return Ok(plan::summary(self, &around, self.campaign(&around, &runner)?.found_points()));
        }
        // A run without results leaves no empty folder.
        let _out = OutputFolder::new(&self.out);
        write::check_room(&self.out)?;
        match &self.nodes {
            None => {
                // Other measurements, which may take hours, are not waited for in vain.
                self.store(&around)?;
                self.measure(&around, host, None, context)
            }
            Some(nodes) => self.run_as_leader(nodes, around, host, context),
        }
    }
}

impl Sensitivity {
    /// Whether the results are stored on this machine.
    fn is_leader(&self) -> bool {
        !self.nodes.as_ref().is_some_and(NodeSettings::follows)
    }

    fn store(&self, around: &JobSurroundings) -> Result<PointStore> {
        let store = PointStore::open(&self.out, &self.identity(around), self.overwrite)?;
        write::check_files(&self.out, store.has_begun() || store.configurations().next().is_some(), self.overwrite)?;
        Ok(store)
    }

    /// Measures on several nodes as their leader, and reports the outcome to the others.
    fn run_as_leader(
        &self,
        nodes: &NodeSettings,
        around: JobSurroundings,
        host: JobHost<'_>,
        context: &mut Context,
    ) -> Result<Summary> {
        let Some(team) = nodes::gather(self, nodes, &around, &host.watch, context)? else { return Ok(interrupted()) };
        let around = around.restrict_to_team(self, &team);
        let measured = around.and_then(|around| self.measure(&around, host, Some(&team), context));
        team.end(match &measured {
            Ok(_) if host.watch.cancelled() => Some("it was interrupted".to_owned()),
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        });
        measured
    }

    /// Measures while it holds the measurement lock.
    fn measure<'a>(
        &'a self,
        around: &'a JobSurroundings,
        host: JobHost<'a>,
        team: Option<&'a NodeTeam>,
        context: &mut Context,
    ) -> Result<Summary> {
        let Some(_lock) = lock(host.watch.cancelled, context)? else { return Ok(interrupted()) };
        let runner = self.runner(around, host, team, context);
        let campaign = self.campaign(around, &runner)?;
        team.map_or(Ok(()), NodeTeam::begin)?;
        around.warm(self, &host.watch, context);
        if !team.map_or(Ok(true), |team| team.assembled(&host.watch, context))? {
            return Ok(interrupted());
        }
        self.conclude(around, campaign, context)
    }

    /// Measures a simulated job instead of the command, without delay, and writes the same results.
    ///
    /// # Errors
    /// See [`Verb::run`].
    pub fn simulate(&self, job: &SimulatedJob, context: &mut Context) -> Result<Summary> {
        self.check()?;
        let around = job.surroundings(self);
        let runner = job.runner(self, &around, Arc::clone(&context.cancel));
        if self.dry_run {
            return Ok(plan::summary(self, &around, self.campaign(&around, &runner)?.found_points()));
        }
        let _out = OutputFolder::new(&self.out);
        write::check_room(&self.out)?;
        self.conclude(&around, self.campaign(&around, &runner)?, context)
    }

    fn conclude(
        &self,
        around: &JobSurroundings,
        mut campaign: SensitivityRun<'_>,
        context: &mut Context,
    ) -> Result<Summary> {
        match conclusion::measure(around, &mut campaign, context)? {
            (None, stop) => nothing_measured(stop, &campaign.store),
            (Some(profile), stop) => self.summary(&profile, &campaign, stop, context),
        }
    }
}

/// Takes the measurement lock, because two measurements would take CPUs from each other. None after Ctrl-C.
fn lock(cancel: &AtomicBool, context: &Context) -> Result<Option<MeasurementLock>> {
    measurement_lock::take(&RunWatch { waiting: &|why| context.console.note(why), ..RunWatch::quiet(cancel) })
}

/// The outcome when no point is known.
fn nothing_measured(stop: StopReason, store: &PointStore) -> Result<Summary> {
    match stop {
        StopReason::Cancelled if store.has_begun() => Ok(Summary {
            headline: "interrupted; no point was finished, and a run that others disturbed is kept: the same command goes on from there".to_owned(),
            ..Summary::default()
        }),
        StopReason::Cancelled => Ok(interrupted()),
        StopReason::Budget | StopReason::Done => Err(Error::device("the time was up before any point was measured")
            .help("give it more (budget); reading the data for the first time counts too")),
    }
}

fn interrupted() -> Summary {
    Summary { headline: "interrupted; no point was finished".to_owned(), ..Summary::default() }
}

/// Refuses a number of CPUs that is none.
fn check_positive(cpus: Option<f64>) -> Result<()> {
    match cpus.is_none_or(|cpus| cpus > 0.0 && cpus.is_finite()) {
        true => Ok(()),
        false => Err(Error::usage("no CPUs, or less than none, cannot be given to a job").expected("a number above 0")),
    }
}

impl Section for Sensitivity {
    fn outline(&self, _: &PlannedFiles, _: &Context) -> Result<Outline<'_>> {
        let read = |path: &PathBuf| KeyedPath { key: "data", path: path.clone() };
        let estimate = self.estimate();
        let command = format!("runs {}", command_text(&self.command));
        let lines = estimate.iter().flat_map(SearchEstimate::lines);
        let outline = self.checked(Outline {
            steps: [command].into_iter().chain(lines).collect(),
            runs: estimate.as_ref().map_or(0, |estimate| estimate.points[1] as usize),
            reads: self.data.iter().map(read).chain(self.scripts()).collect(),
            time: estimate.map(|estimate| estimate.mostly_below).or(self.budget),
            ..Outline::default()
        });
        Ok(outline
            .results("out", &self.out, write::all_names())
            .check_value("command", || self.check_program())
            .check_value("cpu", || self.check_cpus())
            .check_value("memory", || self.check_memory())
            .check_value("out", || self.check_results()))
    }

    fn divisible(&self) -> Option<&dyn Divisible> {
        Some(self)
    }
}

type SettingCheck = fn(&Sensitivity) -> Result<()>;

impl Sensitivity {
    /// What is refused of the value of each key.
    const CHECKS: [(&'static str, SettingCheck); 7] = [
        ("node_rank", |asked| asked.nodes.as_ref().map_or(Ok(()), NodeSettings::check_rank)),
        ("node_port", |asked| asked.nodes.as_ref().map_or(Ok(()), NodeSettings::check_ports)),
        ("command", Self::check_command),
        ("cpu", |asked| check_positive(asked.cpu)),
        ("point_time", Self::check_point_time),
        ("max_iterations", Self::check_max_iterations),
        ("cpu_step", |asked| check_positive(asked.cpu_step).and_then(|()| asked.check_cpu_step())),
    ];

    fn check(&self) -> Result<()> {
        Self::CHECKS.iter().try_for_each(|(_, check)| check(self))
    }

    /// The outline with the same checks.
    fn checked<'a>(&'a self, outline: Outline<'a>) -> Outline<'a> {
        Self::CHECKS.iter().fold(outline, |outline, (key, check)| outline.check_value(key, move || check(self)))
    }

    fn check_command(&self) -> Result<()> {
        match self.command.is_empty() {
            true => {
                Err(Error::usage("there is no job").help("write its command behind two dashes: -- python3 train.py"))
            }
            false => Ok(()),
        }
    }

    fn check_point_time(&self) -> Result<()> {
        if self.point_time.as_secs_f64() >= LEAST_TIME || self.iterations.is_some() {
            return Ok(());
        }
        let given = humantime::format_duration(self.point_time);
        Err(Error::usage(format!("no rate is known after {given} (point_time)")).expected(format!(
            "{LEAST_TIME} s at the least, and more than the 3 s and the warm-up that a rate takes to be known to 3 %"
        )))
    }

    fn check_max_iterations(&self) -> Result<()> {
        let least = self.warm_up.saturating_add(LEAST_REPORTS as u64);
        match self.max_iterations.filter(|most| *most < least && self.iterations.is_none()) {
            None => Ok(()),
            Some(most) => Err(Error::usage(format!("no rate is known after {most} iterations (max_iterations)"))
                .expected(format!(
                    "{least} at the least: the first {} do not count (warm_up), and a rate takes {LEAST_REPORTS} more",
                    self.warm_up
                ))),
        }
    }

    fn check_cpu_step(&self) -> Result<()> {
        match self.cpu_step.is_some_and(|step| step < LEAST_STEP) {
            true => Err(Error::usage("numbers of CPUs this close cannot be distinguished (cpu_step)")
                .expected(format!("{LEAST_STEP} CPUs or more"))),
            false => Ok(()),
        }
    }

    /// The files that the command names.
    fn scripts(&self) -> impl Iterator<Item = KeyedPath> {
        limit::files_of(&self.command).map(|file| KeyedPath::new("command", file))
    }

    /// Refuses a folder with files of others in the places of results.
    fn check_results(&self) -> Result<()> {
        let has_points = !self.overwrite && store::has_points(&self.out)?;
        if self.is_leader() { write::check_files(&self.out, has_points, self.overwrite) } else { Ok(()) }
    }

    fn check_program(&self) -> Result<()> {
        if self.docker_img.is_none() { limit::find_with_script(&self.command, None) } else { Ok(()) }
    }

    /// What the search takes on this machine; none of settings that are refused.
    fn estimate(&self) -> Option<SearchEstimate> {
        self.check().and_then(|()| self.check_cpus()).ok()?;
        Some(SearchEstimate::new(self, &full_grid(self, self.cpu.unwrap_or_else(limit::cpus))))
    }

    /// Checks that the machine has enough memory, and can limit it.
    fn check_memory(&self) -> Result<()> {
        if self.memory.is_none() {
            return Ok(());
        }
        let cancel = AtomicBool::new(false);
        let limiter = surroundings::limiter(self, &RunWatch::quiet(&cancel))?;
        limiter.map_or(Ok(()), |limiter| surroundings::most(self, limiter.survey()).map(drop))
    }

    /// Checks that the machine has enough CPUs.
    fn check_cpus(&self) -> Result<()> {
        self.cpu.map_or(Ok(()), |cpus| limit::check_cpus(cpus, limit::cpus()))
    }

    fn runner<'a>(
        &'a self,
        around: &'a JobSurroundings,
        host: JobHost<'a>,
        team: Option<&'a NodeTeam>,
        context: &Context,
    ) -> JobRunner<'a> {
        let (words, survey) = (around.command.words.as_slice(), &around.survey);
        JobRunner { asked: self, words, host, survey, team, clock: context.clock, begun: context.now() }
    }

    fn campaign<'a>(&'a self, around: &JobSurroundings, runner: &'a dyn Runner) -> Result<SensitivityRun<'a>> {
        let store = self.store(around)?;
        Ok(SensitivityRun {
            asked: self,
            runner,
            found: store.points.len(),
            store,
            grid: around.grid.clone(),
            cold: conclusion::cold(around, self),
            measured: 0,
        })
    }

    /// A text that identifies the job and the way of measuring: points with another identity do not count.
    fn identity(&self, around: &JobSurroundings) -> String {
        #[rustfmt::skip]
        let Sensitivity {
            step_pattern, iterations, storage_bandwidth, docker_img, nodes, warm_up, num_gpus: _,
            // In the words of the command, or in the size of the data.
            command: _, batch: _, workers: _, max_iterations: _, pass: _, data: _, container_mnt: _,
            // Which points are measured, for how long, and what follows from them.
            cpu: _, cpu_step: _, memory: _, point_time: _, budget: _, samples: _, memory_bandwidth: _,
            out: _, overwrite: _, job_name: _, dry_run: _,
        } = self;
        let data =
            around.size.map_or(String::new(), |size| format!(", reading {} in {} files", size.bytes, size.files));
        let pattern = step_pattern.as_ref().map_or("", |pattern| pattern.0.as_str());
        let iterations = iterations.map_or(String::new(), |count| format!(", {count} iterations"));
        let storage = storage_bandwidth.map_or(String::new(), |bandwidth| format!(", storage giving {bandwidth}/s"));
        let image = docker_img.as_ref().map_or(String::new(), |image| format!(", in {image}"));
        let shared = match self.processes() {
            1 => String::new(),
            several => format!(", {several} processes"),
        };
        let nodes = nodes.as_ref().map_or(String::new(), |nodes| format!(", on {} nodes", nodes.count));
        let words = around.command.words.join(" ");
        let how = format!("{nodes} after {warm_up} iterations{data}{iterations}{storage}{image}{shared} {pattern}");
        format!("{words}{}", how.trim_end())
    }

    /// Processes that compute and share the CPUs: one for each GPU.
    pub(super) fn processes(&self) -> usize {
        self.num_gpus.unwrap_or(1).max(1) as usize
    }

    /// The name of the job: as specified, or that of its script.
    fn name(&self) -> String {
        let is_option = |word: &&String| word.starts_with('-');
        let script = self.command.iter().skip(1).find(|word| !is_option(word) && Path::new(word).is_file());
        let word = script.or(self.command.first()).map(Path::new);
        let stem = word.and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
        self.job_name.clone().or(stem).unwrap_or_else(|| "job".to_owned())
    }

    fn summary(
        &self,
        profile: &SensitivityProfile,
        campaign: &SensitivityRun<'_>,
        stop: StopReason,
        context: &mut Context,
    ) -> Result<Summary> {
        profile.warnings.iter().for_each(|warning| context.warn(warning));
        let report = write::files(&self.out, profile)?;
        let kept = match stop {
            StopReason::Done => "",
            StopReason::Budget | StopReason::Cancelled => "; the same command goes on from there",
        };
        let found = campaign.found;
        let points = if campaign.measured == 1 { "point" } else { "points" };
        let headline =
            format!("{} {points} measured, {found} found in {}{kept}", campaign.measured, self.out.display());
        let (findings, files) = (findings(profile), vec![("report", report)]);
        Ok(Summary { headline, findings, files, ..show::summary(profile) })
    }
}

/// The job's entries in the closing table of a configuration.
fn findings(profile: &SensitivityProfile) -> Vec<TableFinding> {
    let percent = |knee: &Knee| (100.0 * knee.share).round();
    let cells = profile.knees.iter().map(|knee| {
        let percent = percent(knee);
        (TableColumn::number(format!("cpus_{percent}_percent"), format!("CPUs for {percent} %")), Cell::from(knee.cpus))
    });
    let doubts = profile.knees.iter().filter(|knee| !knee.verified).map(|knee| {
        let ([low, high], percent) = (knee.between, percent(knee));
        let column = TableColumn::text(format!("cpus_{percent}_percent_doubt"), format!("for {percent} %, doubt"));
        let range = if low == high { String::new() } else { format!(": {low} to {high}") };
        (column, Cell::Text(format!("not verified{range}")))
    });
    cells.chain(doubts).map(|(column, cell)| TableFinding { about: profile.job.name.clone(), column, cell }).collect()
}
