//! The plan of a measurement, for `--dry-run` and for `--check` of a configuration: the command, the limits that work here, and an estimate of
//! the time.

use super::data;
use super::points::cpus_words;
use super::runner::LEAST_RUN;
use super::sensitivity_run::FoundPoints;
use super::surroundings::JobSurroundings;
use super::throttled;
use super::{NodeSettings, Sensitivity};
use crate::CpuGrid;
use perf4sight_base::shell::command_text;
use perf4sight_base::units::{Milliseconds, grouped_digits};
use perf4sight_limit::Resource;
use perf4sight_report::significant;
use perf4sight_verb::Summary;
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// The usual number of points of a search: at least both ends; seven where the curve bends.
const POINTS: [u32; 2] = [2, 7];

/// The warning where only this process tracks all descendants of a job.
const DAEMONS: &str = "what the job starts ends with it, but should the profiler be killed (kill -9), a daemon of the job that has left its process group and emptied its environment runs on: no control group here knows it";

impl FoundPoints {
    /// "2 points of it are in sensitivity: 1 is run once more, for others disturbed it every time, and 1 is not measured again"
    fn to_text(self, folder: &Path) -> Option<String> {
        let is = |count: usize| if count == 1 { "1 is".to_owned() } else { format!("{count} are") };
        let disturbed = self.due - self.failed;
        let due = format!("{} run once more, for others disturbed {} every time", is(disturbed), pronoun(disturbed));
        let failed = format!("{} run once more, for {} failed", is(self.failed), they(self.failed));
        let kept = format!("{} not measured again", is(self.points - self.due));
        let fates = [(disturbed, due), (self.failed, failed), (self.points - self.due, kept)];
        let fates: Vec<String> = fates.into_iter().filter(|(count, _)| *count > 0).map(|(_, fate)| fate).collect();
        let are = if self.points == 1 { "point of it is" } else { "points of it are" };
        (self.points > 0).then(|| format!("{} {are} in {}: {}", self.points, folder.display(), fates.join(", and ")))
    }
}

fn they(count: usize) -> &'static str {
    if count == 1 { "it" } else { "they" }
}

fn pronoun(count: usize) -> &'static str {
    if count == 1 { "it" } else { "them" }
}

/// What a search mostly takes.
pub(super) struct SearchEstimate {
    /// Points, at least and at most.
    pub points: [u32; 2],
    /// The time of all runs.
    pub mostly_below: Duration,
    tried: String,
}

impl SearchEstimate {
    /// The estimate of a search among these numbers of CPUs.
    pub fn new(asked: &Sensitivity, grid: &CpuGrid) -> Self {
        let cpus = grid.cpus();
        let points = POINTS.map(|points| points.min(cpus.len() as u32));
        let mostly_below = points[1] * asked.point_time;
        let mostly_below = asked.budget.map_or(mostly_below, |budget| mostly_below.min(budget.max(LEAST_RUN)));
        let ends = cpus.first().zip(cpus.last());
        let tried = ends.map_or(String::new(), |(first, most)| tried_text(*first, *most, points, cpus.len()));
        SearchEstimate { points, mostly_below, tried }
    }

    /// Its lines, for people.
    pub fn lines(&self) -> [String; 2] {
        let time = Milliseconds(self.mostly_below.as_secs_f64() * 1000.0);
        [
            self.tried.clone(),
            format!(
                "mostly in less than {time}, each run ending as soon as its rate is known to 3 %; runs that are disturbed, or have little memory, take longer"
            ),
        ]
    }
}

/// The summary of the plan, where some points were found.
pub(super) fn summary(asked: &Sensitivity, around: &JobSurroundings, found: FoundPoints) -> Summary {
    let estimate = SearchEstimate::new(asked, &around.grid);
    let mut lines = vec![format!("would run {}", command_text(&around.command.words))];
    lines.extend(estimate.lines());
    lines.extend(asked.budget.map(budget_words));
    if let (Some(path), Some(size)) = (&asked.data, around.size) {
        let links =
            if size.links == 0 { String::new() } else { format!(", by {} symbolic links", grouped_digits(size.links)) };
        lines.push(format!(
            "reading {}: {} files, {}{links}",
            path.display(),
            grouped_digits(size.files),
            size.bytes()
        ));
    }
    lines.extend(around.size.filter(|size| size.unreadable > 0).map(|size| data::unreadable(size.unreadable)));
    lines.extend(additional_runs(asked, around));
    lines.extend(found.to_text(&asked.out));
    lines.extend(around.storage.map(|storage| storage_text(storage, around.storage_between)));
    lines.extend(around.doubts.iter().cloned());
    lines.extend(asked.nodes.iter().map(NodeSettings::to_text));
    lines.extend((!around.holds_daemons).then(|| DAEMONS.to_owned()));
    lines.push("limits:".to_owned());
    let survey = &around.survey;
    lines.extend(survey.to_string().lines().map(|line| format!("  {line}")));
    let json = json!({
        "command": around.command.words,
        "cpus": around.grid.cpus(),
        "points": estimate.points,
        "found": found.points,
        "due": found.due,
        "seconds_mostly_below": estimate.mostly_below.as_secs_f64(),
        "seconds_of_budget": asked.budget.map(|budget| budget.as_secs_f64()),
        "storage_bandwidth": around.storage,
        "storage_between": around.storage_between,
        "nodes": asked.nodes.as_ref().map(|nodes| json!({"nnodes": nodes.count, "node_rank": nodes.rank})),
        "limits": survey.to_string().lines().collect::<Vec<_>>(),
    });
    Summary { answer: lines.join("\n"), json, ..Summary::default() }
}

/// "ending after 20 s, the budget ..."
fn budget_words(budget: Duration) -> String {
    let words = |time: Duration| Milliseconds(1000.0 * time.as_secs_f64());
    if budget <= LEAST_RUN {
        let given = words(budget);
        return format!("ending after one run of {}: it gets that, although the budget is {given}", words(LEAST_RUN));
    }
    format!(
        "ending after {}, the budget: a run ends when it is spent, but gets {} at the least",
        words(budget),
        words(LEAST_RUN)
    )
}

/// "with 0.25 to 2 CPUs, mostly 2 to 7 of 8 numbers of them"
fn tried_text(first: f64, most: f64, points: [u32; 2], all: usize) -> String {
    match all {
        1 => format!("with {}", cpus_words(most)),
        _ if points[0] as usize == all => format!("with {first} and {most} CPUs"),
        _ => format!("with {first} to {most} CPUs, mostly {} to {} of {all} numbers of them", points[0], points[1]),
    }
}

/// "storage gives 812 MB/s (790 to 835)"
fn storage_text(storage: f64, between: Option<[f64; 2]>) -> String {
    let megabytes = |bytes: f64| significant(bytes / 1e6);
    let between = between.map(|[low, high]| format!(" ({} to {})", megabytes(low), megabytes(high)));
    format!("storage gives {} MB/s{}", megabytes(storage), between.unwrap_or_default())
}

/// Additional runs after the curve: of an epoch, where its length is known.
fn additional_runs(asked: &Sensitivity, around: &JobSurroundings) -> Vec<String> {
    let by = |resource: Resource| around.survey.by(resource).is_some();
    let known = asked.data.is_some() && asked.batch.is_some() && around.storage.is_some();
    let runs = [
        (
            by(Resource::Storage),
            format!(
                "then 1 to {} parts of an epoch with storage held to a bandwidth, less than a minute each as a rule",
                throttled::POINTS
            ),
        ),
        (
            by(Resource::Memory),
            "then three epochs with little memory, where it matters how the machine keeps what was read".to_owned(),
        ),
    ];
    runs.into_iter().filter(|(can, _)| *can && known).map(|(_, words)| words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_is_told_with_what_becomes_of_it() {
        let words = |points, due| FoundPoints { points, due, failed: 0 }.to_text(Path::new("out"));
        assert_eq!(words(0, 0), None);
        assert_eq!(words(1, 0).unwrap(), "1 point of it is in out: 1 is not measured again");
        let all = "3 points of it are in out: 1 is run once more, for others disturbed it every time, and 2 are not measured again";
        assert_eq!(words(3, 1).unwrap(), all);
        assert!(words(2, 2).unwrap().ends_with(": 2 are run once more, for others disturbed them every time"));
        let failed = FoundPoints { points: 2, due: 1, failed: 1 }.to_text(Path::new("out")).unwrap();
        assert!(failed.ends_with(": 1 is run once more, for it failed, and 1 is not measured again"), "{failed}");
    }

    #[test]
    fn a_budget_below_one_run_is_one_run() {
        let words = budget_words(Duration::from_secs(1));
        assert_eq!(words, "ending after one run of 5.00 s: it gets that, although the budget is 1.00 s");
        assert!(budget_words(Duration::from_secs(6)).starts_with("ending after 6.00 s, the budget"));
    }

    #[test]
    fn numbers_of_cpus_are_told_as_there_are() {
        assert_eq!(tried_text(2.0, 2.0, [1, 1], 1), "with 2 CPUs");
        assert_eq!(tried_text(1.0, 1.0, [1, 1], 1), "with 1 CPU");
        assert_eq!(tried_text(1.0, 2.0, [2, 2], 2), "with 1 and 2 CPUs");
        assert_eq!(tried_text(0.25, 2.0, [2, 7], 8), "with 0.25 to 2 CPUs, mostly 2 to 7 of 8 numbers of them");
    }
}
