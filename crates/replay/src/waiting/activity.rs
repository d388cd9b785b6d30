//! How long each activity of a rank takes in a step, outside of exchanges.

use super::layers::{self, ActivityId};
use crate::clocks::RankClocks;
use crate::collectives::RankExchanges;
use crate::ranks::{JobRank, JobStep, TrainingJob};
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
pub enum RankActivity {
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
    Before(Box<RankActivity>),
    /// Nothing is recorded until it goes on with this.
    Nothing {
        /// The name of what comes next in the step; none at its end.
        before: Option<String>,
    },
}

impl RankActivity {
    /// Its kind in tables and files.
    pub fn kind(&self) -> &'static str {
        match self {
            RankActivity::Kernel(_) => "kernel",
            RankActivity::DataLoading(_) => "data loading",
            RankActivity::Operation(_) => "operation",
            RankActivity::Python(_) => "Python",
            RankActivity::Range(_) => "range",
            RankActivity::LaterStart => "later start",
            RankActivity::Before(doing) => doing.kind(),
            RankActivity::Nothing { .. } => "nothing recorded",
        }
    }

    /// The activity that stands for all of its kind. A later start, and time that is not recorded, keep their place in the step.
    pub(crate) fn without_name(&self) -> Self {
        let all = || ALL_TOGETHER.to_owned();
        match self {
            RankActivity::Kernel(_) => RankActivity::Kernel(all()),
            RankActivity::DataLoading(_) => RankActivity::DataLoading(all()),
            RankActivity::Operation(_) => RankActivity::Operation(all()),
            RankActivity::Python(_) => RankActivity::Python(all()),
            RankActivity::Range(_) => RankActivity::Range(all()),
            RankActivity::Before(doing) => RankActivity::Before(Box::new(doing.without_name())),
            RankActivity::LaterStart | RankActivity::Nothing { .. } => self.clone(),
        }
    }

    pub(crate) fn is_together(&self) -> bool {
        let doing = if let RankActivity::Before(doing) = self { doing } else { self };
        doing.name() == ALL_TOGETHER
    }

    /// Whether it is before its step, not in it.
    pub(crate) fn is_before(&self) -> bool {
        matches!(self, RankActivity::LaterStart | RankActivity::Before(_))
    }

    /// Its name in tables and files.
    pub fn name(&self) -> String {
        match self {
            RankActivity::Kernel(name)
            | RankActivity::DataLoading(name)
            | RankActivity::Operation(name)
            | RankActivity::Python(name)
            | RankActivity::Range(name) => name.clone(),
            RankActivity::LaterStart => BEFORE.to_owned(),
            RankActivity::Before(doing) if **doing == (RankActivity::Nothing { before: None }) => {
                format!("at the end, {BEFORE}")
            }
            RankActivity::Before(doing) => format!("{} {BEFORE}", doing.name()),
            RankActivity::Nothing { before: Some(next) } => format!("before {next}"),
            RankActivity::Nothing { before: None } => "at the end of the step".to_owned(),
        }
    }
}

impl fmt::Display for RankActivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RankActivity::LaterStart | RankActivity::Nothing { .. } => write!(f, "{} {}", self.kind(), self.name()),
            RankActivity::Kernel(_)
            | RankActivity::DataLoading(_)
            | RankActivity::Operation(_)
            | RankActivity::Python(_)
            | RankActivity::Range(_)
            | RankActivity::Before(_) => write!(f, "{} ({})", self.name(), self.kind()),
        }
    }
}

/// For each rank and each step of [`TrainingJob::steps`], the nanoseconds of each activity. Time in exchanges is left out.
pub fn activities(
    job: &TrainingJob,
    exchanges: &RankExchanges,
    clocks: &RankClocks,
) -> Vec<Vec<BTreeMap<RankActivity, i64>>> {
    let begin = |(rank, step): (usize, &JobStep)| clocks.common(rank, job.ranks[rank].steps[step.of[rank]].window.0);
    let islands = exchanges.islands(job.ranks.len());
    let first = |rank: usize, step: &JobStep| {
        let others = (0..job.ranks.len()).filter(|other| islands[*other] == islands[rank]);
        others.map(|other| begin((other, step))).min().unwrap_or(0)
    };
    let of_rank = |(index, rank): (usize, &JobRank)| {
        let pieces = layers::find_pieces(rank, &exchanges.calls[index]);
        let of_step = |step: &JobStep| {
            let own = &rank.steps[step.of[index]];
            let mut sums = activities_within(rank, &pieces, own.work);
            let later = begin((index, step)) - first(index, step);
            sums.insert(RankActivity::LaterStart, later);
            let before = activities_within(rank, &pieces, (own.window.0 - later, own.window.0)).into_iter();
            // Whatever is before the trace is not in it.
            let is_recorded = step.of[index] > 0;
            let known = before.filter(|(doing, _)| is_recorded || !matches!(doing, RankActivity::Nothing { .. }));
            sums.extend(known.map(|(doing, time)| (RankActivity::Before(Box::new(doing)), time)));
            sums
        };
        job.steps.iter().map(of_step).collect()
    };
    job.ranks.iter().enumerate().map(of_rank).collect()
}

/// The nanoseconds of each activity in a window.
fn activities_within(
    rank: &JobRank,
    pieces: &[(Interval, ActivityId)],
    (begin, end): Interval,
) -> BTreeMap<RankActivity, i64> {
    let mut sums: BTreeMap<RankActivity, i64> = BTreeMap::new();
    let mut at = begin;
    let first = pieces.partition_point(|((_, stop), _)| *stop <= begin);
    for ((start, stop), doing) in pieces[first..].iter().take_while(|((start, _), _)| *start < end) {
        if *start > at {
            *sums.entry(RankActivity::Nothing { before: Some(next(rank, *doing)) }).or_default() += start - at;
        }
        let time = stop.min(&end) - start.max(&begin);
        if let Some(activity) = piece_activity(rank, *doing) {
            *sums.entry(activity).or_default() += time;
        }
        at = *stop;
    }
    if at < end {
        *sums.entry(RankActivity::Nothing { before: None }).or_default() += end - at;
    }
    sums
}

/// The activity of a piece; none for an exchange.
pub(super) fn piece_activity(rank: &JobRank, doing: ActivityId) -> Option<RankActivity> {
    let name = |id: NameId| rank.trace.names.get(id).to_owned();
    Some(match doing {
        ActivityId::Kernel(id) => RankActivity::Kernel(name(id)),
        ActivityId::Loading(id) => RankActivity::DataLoading(name(id)),
        ActivityId::Operation(id) => RankActivity::Operation(name(id)),
        ActivityId::Python(id) => RankActivity::Python(name(id)),
        ActivityId::Range(id) => RankActivity::Range(name(id)),
        ActivityId::Exchanging => return None,
    })
}

fn next(rank: &JobRank, doing: ActivityId) -> String {
    piece_activity(rank, doing).map_or_else(|| "an exchange".to_owned(), |activity| activity.name())
}
