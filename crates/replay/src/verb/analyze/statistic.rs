//! `statistic.txt` as dPRO's `TraceManager` writes and reads it (trace_utils.py of joapolarbear/dpro): a line of the level of the
//! folder, the last step, the step of typical length and the milliseconds of a step; then two dictionaries of Python, of all
//! operations by their published names, and of the categories, both in the order in which they first appear. JSON of numbers,
//! texts and lists is Python, too.

use super::names;
use crate::ranks::{JobRank, TrainingJob, TrainingStep};
use crate::statistic::{StatisticKind, counted_events};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::stats::median;
use perf4sight_traces::{Trace, TraceEvent};
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};

/// The published number of a folder of several hosts.
const ALL_HOSTS: u32 = 2;
/// From this spread on, as a share of the mean, the length of a step is the median, as there.
const STEADY: f64 = 0.1;
/// How the second line begins. Python would write its texts in single quotes.
const OPERATIONS: &str = r#"{""#;
/// The ranges that mark steps.
const STEP: &str = "ProfilerStep#";

/// A dictionary of Python, which keeps the order of its entries.
struct Dictionary<K, V>(Vec<(K, V)>);

impl<K: Serialize, V: Serialize> Serialize for Dictionary<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// An operation of a rank; milliseconds.
#[derive(Serialize)]
struct PublishedOperation {
    cnt: usize,
    time: Vec<f64>,
    min_t: f64,
    max_t: f64,
    cat: &'static str,
    id: usize,
    avg: f64,
    median: f64,
    var: f64,
}

/// The operations of a category.
#[derive(Default, Serialize)]
struct PublishedCategory {
    max_t: f64,
    max_name: String,
    time: f64,
    cnt: usize,
    op_cnt: usize,
    avg: f64,
}

/// The whole file.
///
/// # Errors
/// None that is known: all of it is numbers and texts.
pub(super) fn statistic_file(job: &TrainingJob) -> Result<String> {
    let operations = operations(job);
    let lengths = lengths(job);
    let time = typical(&lengths);
    let off = |step: &usize| (lengths[*step] - time).abs();
    let nearest = (0..lengths.len()).min_by(|one, other| off(one).total_cmp(&off(other))).unwrap_or(0);
    let [operations, categories] =
        [serde_json::to_string(&operations), serde_json::to_string(&categories(&operations))]
            .map(|text| text.map_err(|cause| Error::input(format!("the statistics cannot be written: {cause}"))));
    let last = lengths.len().saturating_sub(1);
    Ok(format!("{ALL_HOSTS},{last},{nearest},{time:.6}\n{}\n{}", operations?, categories?))
}

/// Whether a file of this form, or a table of an earlier version, was written by this program.
pub(super) fn is_ours(file: File) -> bool {
    let mut lines = BufReader::new(file).lines().map_while(std::io::Result::ok);
    let first = lines.next().unwrap_or_default();
    first.starts_with("kind,name,count,") || lines.next().is_some_and(|second| second.starts_with(OPERATIONS))
}

/// The milliseconds of each step, on average over the ranks.
fn lengths(job: &TrainingJob) -> Vec<f64> {
    let length = |(rank, own): (usize, &JobRank), step: &crate::ranks::JobStep| {
        let (begin, end) = own.steps[step.of[rank]].window;
        (end - begin) as f64 / 1e6
    };
    let of_step = |step| job.ranks.iter().enumerate().map(|rank| length(rank, step)).collect::<Vec<f64>>();
    job.steps.iter().map(|step| mean(&of_step(step))).collect()
}

fn typical(lengths: &[f64]) -> f64 {
    let mean = mean(lengths);
    if variance(lengths, mean).sqrt() > STEADY * mean { median(lengths) } else { mean }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64], mean: f64) -> f64 {
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64
}

/// An operation, as it is found in the traces: milliseconds, and when it first appeared.
struct FoundOperation {
    first: (i64, String, usize),
    cat: &'static str,
    time: Vec<f64>,
}

fn operations(job: &TrainingJob) -> Dictionary<String, PublishedOperation> {
    let mut seen: HashMap<String, FoundOperation> = HashMap::new();
    for (index, rank) in job.ranks.iter().enumerate() {
        let process = names::process(rank);
        let steps: Vec<&TrainingStep> = job.steps.iter().map(|step| &rank.steps[step.of[index]]).collect();
        // Hosts have clocks of their own, which agree about the first step.
        let begin = steps.first().map_or(0, |step| step.window.0);
        for (kind, event, _) in
            counted_events(&rank.trace, &steps).filter(|(_, event, _)| is_operation(rank.trace.name(event)))
        {
            let standard = names::standard(rank.trace.name(event), kind == StatisticKind::Exchange);
            let long = names::long(&process, &standard, message(&rank.trace, event));
            let own = seen.entry(long).or_insert_with(|| {
                let cat = names::category(&standard);
                FoundOperation { first: (event.start - begin, standard, index), cat, time: Vec::new() }
            });
            own.time.push(event.duration as f64 / 1e6);
        }
    }
    let mut seen: Vec<(String, FoundOperation)> = seen.into_iter().collect();
    seen.sort_by(|(one, first), (other, second)| (&first.first, one).cmp(&(&second.first, other)));
    let numbered = seen.into_iter().enumerate();
    Dictionary(numbered.map(|(id, (name, seen))| (name, operation(id, seen.cat, seen.time))).collect())
}

/// Whether an event is none of those that repeat what others tell: ranges of steps, and reductions as a whole, of which all
/// parts are counted.
fn is_operation(name: &str) -> bool {
    !name.starts_with(STEP) && !name.contains(names::WHOLE)
}

/// The numbers of loop, channel, chunk and slice of a message of the patched NCCL.
fn message<'a>(trace: &'a Trace, event: &TraceEvent) -> Option<&'a str> {
    let name = trace.name(event);
    let is_message = name.ends_with(".SEND") || name.ends_with(".RECV");
    let (_, numbers) = trace.collective(event).filter(|_| is_message)?.operation.split_once(' ')?;
    Some(numbers)
}

fn operation(id: usize, cat: &'static str, time: Vec<f64>) -> PublishedOperation {
    let mut sorted = time.clone();
    sorted.sort_by(f64::total_cmp);
    let avg = mean(&time);
    PublishedOperation {
        cnt: time.len(),
        min_t: sorted[0],
        max_t: sorted[sorted.len() - 1],
        cat,
        id,
        avg,
        median: sorted[sorted.len() / 2],
        var: variance(&time, avg),
        time,
    }
}

fn categories(operations: &Dictionary<String, PublishedOperation>) -> Dictionary<&'static str, PublishedCategory> {
    let mut categories: Vec<(&str, PublishedCategory)> = Vec::new();
    for (name, operation) in &operations.0 {
        let place = categories.iter().position(|(known, _)| *known == operation.cat).unwrap_or_else(|| {
            categories.push((operation.cat, PublishedCategory::default()));
            categories.len() - 1
        });
        let category = &mut categories[place].1;
        if category.max_name.is_empty() || operation.avg > category.max_t {
            (category.max_t, category.max_name) = (operation.avg, name.clone());
        }
        category.time += operation.time.iter().sum::<f64>();
        category.cnt += operation.cnt;
        category.op_cnt += 1;
        category.avg = category.time / category.cnt as f64;
    }
    Dictionary(categories)
}
