//! A job's steps as a graph, replayed: how far the replay is from the record, what decides the length of a step, and what
//! changes would bring.

use crate::Analysis;
use crate::collectives::Operation;
use crate::communication::{Algorithm, Communication, cost_of_table, fit};
use crate::graph::recorded::{Distortion, Recorded};
use crate::simulate::{Share, critical_path, of_names, shares, simulate};
use crate::what_if::{Change, Outcome, parse, predict};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_base::stats::median;
use std::io::Read;
use std::path::PathBuf;

/// The replay of a job's steps.
#[derive(Debug, Clone)]
pub struct Replayed {
    /// Each replayed step.
    pub steps: Vec<ReplayedStep>,
    /// Nanoseconds of the replayed typical step, without the distortion if it was taken out.
    pub typical: u64,
    /// The time on the critical path of the typical step by rank and kind, the largest first.
    pub critical: Vec<Share>,
    /// The same by the names of operations.
    pub names: Vec<(String, u64)>,
    /// The number of operations in the graph of a step.
    pub nodes: usize,
    /// What communication costs.
    pub communication: Communication,
    /// The names of the groups whose costs these are.
    pub groups: Vec<String>,
    /// How far the recorded step is from a plain one, if that is known.
    pub distortion: Option<Distortion>,
    /// What each requested scenario brings.
    pub what_ifs: Vec<(String, Outcome)>,
}

/// A step, recorded and replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayedStep {
    /// Its index in [`crate::ranks::Job::steps`].
    pub step: usize,
    /// Nanoseconds as recorded: the longest of the ranks'.
    pub recorded: u64,
    /// Nanoseconds of its replay.
    pub replayed: u64,
}

impl ReplayedStep {
    /// By how much the replay is longer than the record, in percent.
    pub fn error(&self) -> f64 {
        100.0 * (self.replayed as f64 / self.recorded.max(1) as f64 - 1.0)
    }
}

/// What to replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Scenarios: each one or several changes, with semicolons between them.
    pub what_ifs: Vec<String>,
    /// How collective operations are done.
    pub algorithm: Algorithm,
    /// Nanoseconds of a step without the profiler, if measured.
    pub plain: Option<u64>,
    /// What `all_reduce_perf` of nccl-tests printed, whose costs are taken instead of fitted ones.
    pub nccl_tests: Option<PathBuf>,
}

impl Request {
    /// Checks the scenarios, before any trace is read.
    ///
    /// # Errors
    /// A change of no known form.
    pub fn check(&self) -> Result<()> {
        self.what_ifs.iter().try_for_each(|text| changes(text).map(drop))
    }
}

impl Request {
    /// What communication costs: read from the table, else fitted.
    ///
    /// # Errors
    /// A table that cannot be read.
    pub fn communication(&self, recorded: &Recorded) -> Result<Communication> {
        let mut communication = fit(recorded, self.algorithm);
        if let Some(file) = &self.nccl_tests {
            let mut text = String::new();
            let read = input_file::open(file, READ_TABLE)?.read_to_string(&mut text);
            read.map_err(|cause| Error::io(file, READ_TABLE, &cause))?;
            for (cost, group) in communication.groups.iter_mut().zip(&recorded.typical.groups) {
                let table = cost_of_table(&text, Operation::AllReduce, self.algorithm, group.size);
                *cost = Some(table.map_err(|error| error.file(file))?);
            }
        }
        Ok(communication)
    }
}

const READ_TABLE: &str = "read what nccl-tests measured";

/// The changes of a scenario.
fn changes(text: &str) -> Result<Vec<Box<dyn Change>>> {
    text.split(';').map(|change| parse(change.trim())).collect()
}

impl Replayed {
    /// Replays the steps of a job.
    ///
    /// # Errors
    /// Traces whose operations wait for each other in a circle, a change that cannot be made to the step.
    pub fn of(analysis: &Analysis, request: &Request) -> Result<Self> {
        let mut recorded = Recorded::of(&analysis.job, &analysis.exchanges, &analysis.clocks)?;
        let steps = steps(&recorded);
        let distortion = request.plain.map(|plain| recorded.take_out_distortion(plain));
        let communication = request.communication(&recorded)?;
        let predicted = |text: &String| Ok((text.clone(), predict(&recorded, &communication, &changes(text)?)?));
        let what_ifs = request.what_ifs.iter().map(predicted).collect::<Result<_>>()?;
        let graph = &recorded.typical.graph;
        let schedule = simulate(graph);
        let path = critical_path(graph, &schedule);
        Ok(Replayed {
            steps,
            typical: recorded.typical.time(&schedule),
            critical: shares(graph, &path),
            names: of_names(graph, &path).into_iter().map(|(name, time)| (name.to_owned(), time)).collect(),
            nodes: graph.nodes().len(),
            groups: recorded.typical.groups.iter().map(|group| group.name.clone()).collect(),
            communication,
            distortion,
            what_ifs,
        })
    }

    /// The median over the steps of how far the replay is from the record, in percent, without its sign.
    pub fn error(&self) -> f64 {
        let errors: Vec<f64> = self.steps.iter().map(|step| step.error().abs()).collect();
        if errors.is_empty() { 0.0 } else { median(&errors) }
    }

    /// The largest such difference.
    pub fn worst(&self) -> f64 {
        self.steps.iter().map(|step| step.error().abs()).fold(0.0, f64::max)
    }
}

fn steps(recorded: &Recorded) -> Vec<ReplayedStep> {
    let step = |(index, time): (usize, &u64)| {
        let step = recorded.step(index);
        ReplayedStep { step: recorded.steps[index], recorded: *time, replayed: step.time(&simulate(&step.graph)) }
    };
    recorded.recorded.iter().enumerate().map(step).collect()
}
