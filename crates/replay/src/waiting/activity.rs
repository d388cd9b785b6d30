//! How long each activity of a rank takes in a step, outside of exchanges.

use super::layers::{self, Doing};
use crate::clocks::Clocks;
use crate::collectives::Exchanges;
use crate::ranks::{Job, JobStep, Rank};
use perf4sight_traces::NameId;
use perf4sight_traces::intervals::Interval;
use std::collections::BTreeMap;
use std::fmt;

/// The name that stands for all activities of a kind.
const ALL_TOGETHER: &str = "all together";

/// When a later start happens, as part of a name.
const BEFORE: &str = "before its step";

/// What a rank does, by the names in its trace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activity {
    /// A kernel runs on its GPU.
    Kernel(String),
    /// It waits for a batch from a loader.
    DataLoading(String),
    /// It runs an operator on the CPU.
    Operation(String),
    /// It runs Python outside of operators.
    Python(String),
    /// It is in a range of the script or the framework, and nothing within it is recorded.
    Range(String),
    /// It has not begun its step, but another rank has.
    LaterStart,
    /// It does this during its later start.
    Before(Box<Activity>),
    /// Nothing is recorded until it goes on with this.
    Nothing {
        /// The name of what comes next in the step; none at its end.
        before: Option<String>,
    },
}

impl Activity {
    /// Its kind in tables and files.
    pub fn kind(&self) -> &'static str {
        match self {
            Activity::Kernel(_) => "kernel",
            Activity::DataLoading(_) => "data loading",
            Activity::Operation(_) => "operation",
            Activity::Python(_) => "Python",
            Activity::Range(_) => "range",
            Activity::LaterStart => "later start",
            Activity::Before(doing) => doing.kind(),
            Activity::Nothing { .. } => "nothing recorded",
        }
    }

    /// The activity that stands for all of its kind. A later start, and time that is not recorded, keep their place in the step.
    pub(super) fn together(&self) -> Self {
        let all = || ALL_TOGETHER.to_owned();
        match self {
            Activity::Kernel(_) => Activity::Kernel(all()),
            Activity::DataLoading(_) => Activity::DataLoading(all()),
            Activity::Operation(_) => Activity::Operation(all()),
            Activity::Python(_) => Activity::Python(all()),
            Activity::Range(_) => Activity::Range(all()),
            Activity::Before(doing) => Activity::Before(Box::new(doing.together())),
            Activity::LaterStart | Activity::Nothing { .. } => self.clone(),
        }
    }

    pub(crate) fn is_together(&self) -> bool {
        let doing = if let Activity::Before(doing) = self { doing } else { self };
        doing.name() == ALL_TOGETHER
    }

    /// Whether it is before its step, not in it.
    pub(crate) fn is_before(&self) -> bool {
        matches!(self, Activity::LaterStart | Activity::Before(_))
    }

    /// Its name in tables and files.
    pub fn name(&self) -> String {
        match self {
            Activity::Kernel(name)
            | Activity::DataLoading(name)
            | Activity::Operation(name)
            | Activity::Python(name)
            | Activity::Range(name) => name.clone(),
            Activity::LaterStart => BEFORE.to_owned(),
            Activity::Before(doing) => format!("{} {BEFORE}", doing.name()),
            Activity::Nothing { before: Some(next) } => format!("before {next}"),
            Activity::Nothing { before: None } => "at the end of the step".to_owned(),
        }
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Activity::LaterStart | Activity::Nothing { .. } => write!(f, "{} {}", self.kind(), self.name()),
            Activity::Kernel(_)
            | Activity::DataLoading(_)
            | Activity::Operation(_)
            | Activity::Python(_)
            | Activity::Range(_)
            | Activity::Before(_) => write!(f, "{} ({})", self.name(), self.kind()),
        }
    }
}

/// For each rank and each step of [`Job::steps`], the nanoseconds of each activity. Time in exchanges is left out.
pub fn activities(job: &Job, exchanges: &Exchanges, clocks: &Clocks) -> Vec<Vec<BTreeMap<Activity, i64>>> {
    let begin = |(rank, step): (usize, &JobStep)| clocks.common(rank, job.ranks[rank].steps[step.of[rank]].window.0);
    let islands = exchanges.islands(job.ranks.len());
    let first = |rank: usize, step: &JobStep| {
        let others = (0..job.ranks.len()).filter(|other| islands[*other] == islands[rank]);
        others.map(|other| begin((other, step))).min().unwrap_or(0)
    };
    let of_rank = |(index, rank): (usize, &Rank)| {
        let pieces = layers::of(rank, &exchanges.calls[index]);
        let of_step = |step: &JobStep| {
            let own = &rank.steps[step.of[index]];
            let mut sums = within(rank, &pieces, own.work);
            let later = begin((index, step)) - first(index, step);
            sums.insert(Activity::LaterStart, later);
            let before = within(rank, &pieces, (own.window.0 - later, own.window.0)).into_iter();
            let known = before.filter(|(doing, _)| !matches!(doing, Activity::Nothing { .. }));
            sums.extend(known.map(|(doing, time)| (Activity::Before(Box::new(doing)), time)));
            sums
        };
        job.steps.iter().map(of_step).collect()
    };
    job.ranks.iter().enumerate().map(of_rank).collect()
}

/// The nanoseconds of each activity in a window.
fn within(rank: &Rank, pieces: &[(Interval, Doing)], (begin, end): Interval) -> BTreeMap<Activity, i64> {
    let mut sums: BTreeMap<Activity, i64> = BTreeMap::new();
    let mut at = begin;
    let first = pieces.partition_point(|((_, stop), _)| *stop <= begin);
    for ((start, stop), doing) in pieces[first..].iter().take_while(|((start, _), _)| *start < end) {
        if *start > at {
            *sums.entry(Activity::Nothing { before: Some(next(rank, *doing)) }).or_default() += start - at;
        }
        let time = stop.min(&end) - start.max(&begin);
        if let Some(activity) = of(rank, *doing) {
            *sums.entry(activity).or_default() += time;
        }
        at = *stop;
    }
    if at < end {
        *sums.entry(Activity::Nothing { before: None }).or_default() += end - at;
    }
    sums
}

/// The activity of a piece; none for an exchange.
pub(super) fn of(rank: &Rank, doing: Doing) -> Option<Activity> {
    let name = |id: NameId| rank.trace.names.get(id).to_owned();
    Some(match doing {
        Doing::Kernel(id) => Activity::Kernel(name(id)),
        Doing::Loading(id) => Activity::DataLoading(name(id)),
        Doing::Operation(id) => Activity::Operation(name(id)),
        Doing::Python(id) => Activity::Python(name(id)),
        Doing::Range(id) => Activity::Range(name(id)),
        Doing::Exchanging => return None,
    })
}

fn next(rank: &Rank, doing: Doing) -> String {
    of(rank, doing).map_or_else(|| "an exchange".to_owned(), |activity| activity.name())
}
