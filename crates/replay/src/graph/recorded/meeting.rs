//! Which ranks of an exchange wait for which: all for all, or those that get data for those that have it.

use super::assembly::AlikeSteps;
use super::rows::{PartRows, RankStep};
use crate::collectives::{CollectiveOperation, RootDirection};
use perf4sight_base::stats::median;

/// The share of the steps in which a rank has to be done after another one takes part, for it to wait for that one: a call
/// may return, and its row end, after what it enqueued is done.
const CONSISTENT: f64 = 0.8;

/// A rank that takes part in an exchange.
pub(super) struct ExchangeMember {
    pub rank: usize,
    pub part: PartRows,
    /// The row that waits for it, by all appearances.
    pub wait: Option<usize>,
}

/// When the ranks of an exchange take part and are done.
pub(super) struct ExchangeMeeting {
    operation: CollectiveOperation,
    /// How many take part.
    members: usize,
    /// Of each step, by the index of the member.
    steps: Vec<Vec<MemberTimes>>,
    /// Whether it is kernels that exchange, each of which is busy until its part is done.
    by_kernels: bool,
    /// The member that the data comes from or goes to, and which of both.
    root: Option<(usize, RootDirection)>,
}

/// In nanoseconds of the job's clock.
struct MemberTimes {
    launched: i64,
    done: i64,
}

impl ExchangeMeeting {
    /// The exchange of a number in the step.
    pub fn from_steps(
        steps: &AlikeSteps<'_>,
        number: usize,
        operation: CollectiveOperation,
        members: &[ExchangeMember],
    ) -> Self {
        let times = |rows: &[RankStep], member: &ExchangeMember| {
            let own = &rows[member.rank];
            let part = own.parts.get(&number)?;
            let done = member.wait.map_or(part.end, |wait| own.rows[wait].end.min(part.end));
            Some(MemberTimes { launched: own.rows[part.launch].end, done })
        };
        let of_step = |(_, rows): &(usize, &[RankStep])| members.iter().map(|member| times(rows, member)).collect();
        let steps = steps.iter().filter_map(of_step).collect();
        let by_kernels = members.iter().all(|member| member.part.wait.is_some());
        let mut meeting = ExchangeMeeting { operation, members: members.len(), steps, by_kernels, root: None };
        let direction = operation.direction();
        meeting.root = direction.and_then(|direction| Some((meeting.root(direction)?, direction)));
        meeting
    }

    /// The member that all others wait for, or that waits for all others. Of several that the others may wait for it is the one that
    /// comes last, and of several that may wait for all the one that is done last.
    fn root(&self, direction: RootDirection) -> Option<usize> {
        let may_be = |root: &usize| match direction {
            RootDirection::FromRoot => self.in_most_steps(|step| follow(step, *root)),
            RootDirection::ToRoot => {
                self.in_most_steps(|step| step.iter().all(|other| other.launched <= step[*root].done))
            }
        };
        let late = |root: usize| {
            let moment = |times: &MemberTimes| match direction {
                RootDirection::FromRoot => times.launched,
                RootDirection::ToRoot => times.done,
            };
            let first = |step: &[MemberTimes]| step.iter().map(moment).min().unwrap_or(0);
            median(&self.steps.iter().map(|step| (moment(&step[root]) - first(step)) as f64).collect::<Vec<_>>())
        };
        (0..self.members).filter(may_be).max_by(|one, other| late(*one).total_cmp(&late(*other)).then(other.cmp(one)))
    }

    fn in_most_steps(&self, holds: impl Fn(&[MemberTimes]) -> bool) -> bool {
        let steps = self.steps.iter().filter(|step| holds(step)).count();
        steps > 0 && steps as f64 >= CONSISTENT * self.steps.len() as f64
    }

    /// Whether a member waits for another one to take part.
    pub fn waits_for(&self, member: usize, other: usize) -> bool {
        self.operation.synchronises() || self.in_most_steps(|step| step[other].launched <= step[member].done)
    }

    /// Whether nothing is sent before a member takes part.
    pub fn sends(&self, member: usize) -> bool {
        !matches!(self.root, Some((root, RootDirection::FromRoot)) if member != root)
    }

    /// Whether a member waits for what all senders send: the kernel that sends is busy until it is there.
    pub fn receives(&self, member: usize) -> bool {
        let may = match self.root {
            Some((root, RootDirection::FromRoot)) => {
                let is_busy = || self.by_kernels && self.in_most_steps(|step| is_done_with_others(step, root));
                member != root || is_busy()
            }
            Some((root, RootDirection::ToRoot)) => member == root,
            None => true,
        };
        may && (0..self.members).filter(|other| self.sends(*other)).all(|other| self.waits_for(member, other))
    }

    /// The members that one waits for apart from what it gets: a message of a size that its sender does not buffer waits for the receiver, and
    /// ranks pass on what they get. Only those that come later show it; none where all wait for all.
    pub fn members_awaited(&self, member: usize) -> Vec<usize> {
        let comes_later = |other: usize| self.in_most_steps(|step| step[member].launched < step[other].launched);
        let others = (0..self.members).filter(|_| self.root.is_some());
        others.filter(|other| comes_later(*other) && self.waits_for(member, *other)).collect()
    }
}

/// Whether in a step all others are done after a member takes part.
fn follow(step: &[MemberTimes], root: usize) -> bool {
    step.iter().enumerate().all(|(other, times)| other == root || times.done >= step[root].launched)
}

/// Clocks and jitter set ends apart that belong together, by this share of the time that an exchange takes.
const AT_ONCE: f64 = 0.1;

/// Whether in a step a member is not done before the others are.
fn is_done_with_others(step: &[MemberTimes], member: usize) -> bool {
    let MemberTimes { launched, done } = step[member];
    let others = step.iter().enumerate().filter(|(other, _)| *other != member);
    let first = others.map(|(_, times)| times.done).min();
    first.is_some_and(|first| (first - done) as f64 <= AT_ONCE * (first - launched).max(0) as f64)
}
