//! The ranks that others wait for, and what each of them does longer than the others.

use super::{JobWaiting, RankActivity, WaitingMatrix};
use crate::ranks::TrainingJob;
use perf4sight_base::stats::{mean, median, percentile};
use perf4sight_base::summary::{MISSES, ValueSummary, quantile};
use std::collections::{BTreeMap, BTreeSet};

/// A rank that others wait for.
#[derive(Debug, Clone, PartialEq)]
pub struct Straggler {
    /// Its index in [`TrainingJob::ranks`].
    pub rank: usize,
    /// Milliseconds of a step that the other ranks wait for it, on average over them; over the steps.
    pub caused: ValueSummary,
    /// Its share of the longest rank's step, from 0 to 1.
    pub share: f64,
    /// The share of steps in which the others wait longest for this rank, from 0 to 1.
    pub steadiness: f64,
    /// Whether the others wait longer for it than for the median rank, by more than chance in steps that vary.
    pub stands_out: bool,
    /// Milliseconds of a step by which it works longer than the others, all activities together.
    pub busier: f64,
    /// Its share of all waiting in all steps, from 0 to 1.
    pub of_all: f64,
    /// The steps in which the others wait for it long and longer than for any other rank, in order.
    pub occasions: Vec<LongWait>,
    /// What it does longer than the others, the largest difference first.
    pub excess: Vec<ActivityExcess>,
    /// Whether that is of the steps of [`Straggler::occasions`] alone, since what it does longer there is not so in most steps.
    pub on_occasions: bool,
}

/// A step in which the others wait long for a rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LongWait {
    /// The index of the step in [`TrainingJob::steps`].
    pub step: usize,
    /// How long they wait.
    pub milliseconds: f64,
}

/// What a rank does longer than the others.
#[derive(Debug, Clone, PartialEq)]
pub struct ActivityExcess {
    /// What it does.
    pub activity: RankActivity,
    /// Milliseconds of it in a step.
    pub own: f64,
    /// The same of the other ranks, their median.
    pub others: f64,
    /// The two of the others between which that is; of an odd number of ranks both are the one in the middle.
    pub others_between: [f64; 2],
}

impl ActivityExcess {
    /// Milliseconds of a step that it takes longer.
    pub fn longer(&self) -> f64 {
        self.own - self.others
    }

    /// Whether the others differ by so much that their median is what none of them takes.
    pub fn do_others_differ(&self) -> bool {
        let [low, high] = self.others_between;
        high - low > DIFFERENT * self.longer()
    }
}

/// Others that differ by more than this share of what a rank takes longer have no common time.
const DIFFERENT: f64 = 0.1;

/// Differences below this share of the waiting that a rank causes are not reported; nor is waiting below this share of a step.
pub(crate) const LEAST_SHARE: f64 = 0.02;

/// The ranks of a job, the one that the others wait for longest first. `activities` are those of
/// [`super::activities`].
pub fn stragglers(
    job: &TrainingJob,
    waiting: &JobWaiting,
    activities: &[Vec<BTreeMap<RankActivity, i64>>],
) -> Vec<Straggler> {
    let all: Vec<usize> = (0..waiting.steps.len()).collect();
    let together = sum_by_kind(activities);
    // The median, because the first steps are slow.
    let [usual, usual_together] = [activities, &together].map(|activities| of_step(activities, &all, median));
    let of_all: f64 =
        waiting.steps.iter().flat_map(|step| (0..job.ranks.len()).map(|one| step.caused_waiting(one))).sum();
    let length: Vec<f64> = waiting.steps.iter().map(|step| step.length as f64 / 1e6).collect();
    let straggler = |rank: usize| {
        let caused = waiting.over_steps(|step| step.caused_waiting(rank))?;
        let most = |step: &WaitingMatrix| {
            (0..job.ranks.len()).all(|other| step.caused_waiting(other) <= step.caused_waiting(rank))
                && step.caused_waiting(rank) > 0.0
        };
        let longest = waiting.steps.iter().map(|step| step.caused_waiting(rank)).fold(0.0, f64::max);
        let is_long = |step: &WaitingMatrix| {
            step.caused_waiting(rank) >= (LEAST_SHARE * step.length as f64).max(LONG_WAIT * longest)
        };
        let steady = waiting.steps.iter().filter(|step| most(step)).count();
        let is_occasion = |step: &usize| most(&waiting.steps[*step]) && is_long(&waiting.steps[*step]);
        let occasions: Vec<usize> = all.iter().copied().filter(is_occasion).collect();
        let long_wait = |step: usize| LongWait { step, milliseconds: waiting.steps[step].caused_waiting(rank) / 1e6 };
        let own: f64 = waiting.steps.iter().map(|step| step.caused_waiting(rank)).sum();
        let straggler = Straggler {
            rank,
            share: caused.mean / mean(&length).max(f64::MIN_POSITIVE),
            steadiness: steady as f64 / waiting.steps.len() as f64,
            stands_out: stands_out(waiting, rank, job.ranks.len()),
            busier: busier(rank, &usual),
            of_all: own / of_all.max(f64::MIN_POSITIVE),
            occasions: occasions.iter().map(|step| long_wait(*step)).collect(),
            excess: excess(rank, &usual, LEAST_SHARE * caused.mean),
            on_occasions: false,
            caused,
        };
        let least = LEAST_SHARE * straggler.caused.mean;
        let of_kinds = Straggler { excess: excess(rank, &usual_together, least), ..straggler.clone() };
        let by_name = straggler.or_on_occasions(&occasions, activities).or_on_average(activities);
        let of_kinds = of_kinds.or_on_occasions(&occasions, &together).or_on_average(&together);
        Some(by_name.or_together(of_kinds).without_explained_later_start())
    };
    let mut ranks: Vec<Straggler> = (0..job.ranks.len()).filter_map(straggler).collect();
    ranks.sort_by(|one, other| other.caused.mean.total_cmp(&one.caused.mean).then(one.rank.cmp(&other.rank)));
    ranks
}

/// Among equal ranks there is always one that the others wait for longest. A rank stands out if the others wait longer for it than for the median of
/// the others, by Student's t over the steps: chance causes that in 5 of 100 jobs, over all their ranks (Bonferroni).
fn stands_out(waiting: &JobWaiting, rank: usize, ranks: usize) -> bool {
    let longer = |step: &WaitingMatrix| {
        let others: Vec<f64> =
            (0..ranks).filter(|other| *other != rank).map(|other| step.caused_waiting(other) / 1e6).collect();
        step.caused_waiting(rank) / 1e6 - if others.is_empty() { 0.0 } else { median(&others) }
    };
    let Some(longer) = ValueSummary::compute(&waiting.steps.iter().map(longer).collect::<Vec<_>>()) else {
        return false;
    };
    let half = longer.spread.zip(quantile(longer.count as f64 - 1.0, 2.0 * MISSES / ranks as f64));
    longer.mean > half.map_or(0.0, |(spread, times)| times * spread / (longer.count as f64).sqrt())
}

/// Milliseconds that a rank works longer than the median of the others. Time before its first and after its last work does not count.
fn busier(rank: usize, usual: &[BTreeMap<&RankActivity, ActivityTime>]) -> f64 {
    let is_work =
        |activity: &RankActivity| !activity.is_before() && !matches!(activity, RankActivity::Nothing { before: None });
    let work = |own: &BTreeMap<&RankActivity, ActivityTime>| -> f64 {
        own.iter().filter(|(activity, _)| is_work(activity)).map(|(_, time)| time.middle).sum()
    };
    let others: Vec<f64> = (0..usual.len()).filter(|other| *other != rank).map(|other| work(&usual[other])).collect();
    work(&usual[rank]) - if others.is_empty() { 0.0 } else { median(&others) }
}

impl Straggler {
    /// Milliseconds of waiting that [`Straggler::excess`] is to explain: of a step, or of the steps that it is about.
    pub fn to_explain(&self) -> f64 {
        if self.on_occasions { self.mean_occasion() } else { self.caused.mean }
    }

    /// Milliseconds that the others wait for it in a step of [`Straggler::occasions`].
    pub fn mean_occasion(&self) -> f64 {
        mean(&self.occasions.iter().map(|one| one.milliseconds).collect::<Vec<_>>())
    }

    /// The first and the last of [`Straggler::occasions`], if these follow each other, which by chance they do in at most 5 of 100 such jobs.
    pub fn slow_from_to(&self, steps: usize) -> Option<[usize; 2]> {
        let [first, .., last] = self.occasions.as_slice() else { return None };
        let count = self.occasions.len();
        // Of as many places as there are to choose so many steps, those where they follow each other.
        let chosen = (0..count).fold(1.0, |all, one| all * (steps - one) as f64 / (one + 1) as f64);
        let is_chance = (steps - count + 1) as f64 > MISSES * chosen;
        (last.step - first.step + 1 == count && !is_chance).then_some([first.step, last.step])
    }

    /// Takes what it does longer in the steps in which the others wait for it, if that is more of all time: what happens in some steps
    /// is in no median over all of them.
    fn or_on_occasions(self, steps: &[usize], activities: &[Vec<BTreeMap<RankActivity, i64>>]) -> Self {
        let all = activities.first().map_or(0, Vec::len);
        if steps.is_empty() || steps.len() as f64 > MOST_OCCASIONS * all as f64 {
            return self;
        }
        let then = excess(self.rank, &of_step(activities, steps, median), LEAST_SHARE * self.caused.mean);
        match longest(&then) * steps.len() as f64 > longest(&self.excess) * all as f64 {
            true => Straggler { excess: then, on_occasions: true, ..self },
            false => self.with_reasons_of_later_start(then),
        }
    }

    /// Adds what the rank does before those steps, if it usually begins later and no more is known: what it is late for may be in no median over all steps.
    fn with_reasons_of_later_start(mut self, then: Vec<ActivityExcess>) -> Self {
        let is_before = |one: &ActivityExcess| matches!(one.activity, RankActivity::Before(_));
        let later = self.excess.iter().find(|one| one.activity == RankActivity::LaterStart);
        let unknown = later.map_or(f64::INFINITY, |later| HALF * later.longer());
        if self.excess.iter().all(|one| !is_before(one) || one.longer() < unknown) {
            self.excess.retain(|one| !is_before(one));
            self.excess.extend(then.into_iter().filter(|one| is_before(one) && one.longer() >= unknown));
        }
        self
    }

    /// Leaves out that the rank begins its step later, where what it does longer in its steps explains that: both are the same time.
    fn without_explained_later_start(mut self) -> Self {
        let half = HALF * self.to_explain();
        let in_step = self.excess.iter().any(|one| !one.activity.is_before() && one.longer() >= half);
        self.excess.retain(|one| !(in_step && one.activity.is_before() && one.longer() >= half));
        self
    }

    /// Takes what it does longer on average, if that explains most of the waiting and what it usually does longer does not: a little more
    /// in each step, and much more in some.
    fn or_on_average(self, activities: &[Vec<BTreeMap<RankActivity, i64>>]) -> Self {
        let all: Vec<usize> = (0..activities.first().map_or(0, Vec::len)).collect();
        if self.on_occasions || self.is_explained() {
            return self;
        }
        let on_average = excess(self.rank, &of_step(activities, &all, mean), LEAST_SHARE * self.caused.mean);
        let on_average = Straggler { excess: on_average, ..self.clone() };
        if on_average.is_explained() { on_average } else { self }
    }

    /// Takes what it does longer by kind, if no single name explains most of the waiting: many activities that take a little longer each,
    /// or that have another name in every step.
    fn or_together(self, together: Straggler) -> Self {
        if self.is_explained() || !together.is_explained() {
            return self;
        }
        let names = self.excess.into_iter().filter(|_| self.on_occasions == together.on_occasions);
        let kinds = together.excess.into_iter().filter(|one| one.activity.is_together());
        Straggler { excess: kinds.chain(names).collect(), ..together }
    }

    /// Whether the largest difference from the others explains most of the waiting.
    fn is_explained(&self) -> bool {
        longest(&self.excess) >= HALF * self.to_explain()
    }
}

/// The time of each kind, whatever its names.
fn sum_by_kind(activities: &[Vec<BTreeMap<RankActivity, i64>>]) -> Vec<Vec<BTreeMap<RankActivity, i64>>> {
    let of_step = |step: &BTreeMap<RankActivity, i64>| {
        let mut kinds: BTreeMap<RankActivity, i64> = BTreeMap::new();
        step.iter().for_each(|(activity, time)| *kinds.entry(activity.without_name()).or_default() += time);
        kinds
    };
    activities.iter().map(|own| own.iter().map(of_step).collect()).collect()
}

fn longest(excess: &[ActivityExcess]) -> f64 {
    excess.first().map_or(0.0, ActivityExcess::longer)
}

/// This share of waiting is most of it.
const HALF: f64 = 0.5;

/// Steps in which the others wait less than this share of the longest waiting for a rank are none of its occasions.
const LONG_WAIT: f64 = 0.2;
/// The others wait for a rank now and then if they do in at most this share of the steps.
const MOST_OCCASIONS: f64 = 0.8;

/// Milliseconds of an activity of a rank in a step.
#[derive(Debug, Clone, Copy, Default)]
struct ActivityTime {
    /// The median or mean over steps.
    middle: f64,
    /// How far half of the steps are from their middle, at least.
    varies: f64,
}

impl ActivityTime {
    fn over_steps(milliseconds: &[f64], middle: fn(&[f64]) -> f64) -> Self {
        let varies = (percentile(milliseconds, 75.0) - percentile(milliseconds, 25.0)) / 2.0;
        ActivityTime { middle: middle(milliseconds), varies }
    }
}

/// What each activity of each rank takes in a step: the `middle` (median or mean) over these steps.
fn of_step<'a>(
    activities: &'a [Vec<BTreeMap<RankActivity, i64>>],
    steps: &[usize],
    middle: fn(&[f64]) -> f64,
) -> Vec<BTreeMap<&'a RankActivity, ActivityTime>> {
    let of_rank = |own: &'a Vec<BTreeMap<RankActivity, i64>>| {
        let own: Vec<&BTreeMap<RankActivity, i64>> = steps.iter().map(|step| &own[*step]).collect();
        let all: BTreeSet<&RankActivity> = own.iter().flat_map(|step| step.keys()).collect();
        let milliseconds =
            |step: &&BTreeMap<RankActivity, i64>, activity| step.get(activity).map_or(0.0, |time| *time as f64 / 1e6);
        let of_step = |activity| {
            let milliseconds: Vec<f64> = own.iter().map(|step| milliseconds(step, activity)).collect();
            ActivityTime::over_steps(&milliseconds, middle)
        };
        all.into_iter().map(|activity| (activity, of_step(activity))).collect()
    };
    activities.iter().map(of_rank).collect()
}

/// What a rank does longer than the others, by `least` milliseconds and by more than its own steps vary.
fn excess(rank: usize, usual: &[BTreeMap<&RankActivity, ActivityTime>], least: f64) -> Vec<ActivityExcess> {
    let time = |rank: usize, activity: &RankActivity| usual[rank].get(activity).map_or(0.0, |time| time.middle);
    let compared = |(activity, own): (&&RankActivity, &ActivityTime)| {
        let mut others: Vec<f64> =
            (0..usual.len()).filter(|other| *other != rank).map(|other| time(other, activity)).collect();
        others.sort_by(f64::total_cmp);
        let middle = |rounded: usize| others.get(rounded / 2).copied().unwrap_or(0.0);
        let others_between = [middle(others.len().saturating_sub(1)), middle(others.len())];
        let others = (others_between[0] + others_between[1]) / 2.0;
        let excess = ActivityExcess { activity: (*activity).clone(), own: own.middle, others, others_between };
        (excess.longer() > least.max(own.varies)).then_some(excess)
    };
    let mut excess: Vec<ActivityExcess> = usual[rank].iter().filter_map(compared).collect();
    excess.sort_by(|one, other| other.longer().total_cmp(&one.longer()).then(one.activity.cmp(&other.activity)));
    excess
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waiting of two ranks for each other in steps of 100 us, in nanoseconds.
    fn waiting_of_two(steps: &[[i64; 2]]) -> JobWaiting {
        let step = |[of_first, of_second]: &[i64; 2]| WaitingMatrix {
            rows: vec![vec![0, *of_first], vec![*of_second, 0]],
            others: [1, 1].into(),
            length: 100_000,
        };
        JobWaiting { exchanges: Vec::new(), steps: steps.iter().map(step).collect(), uncertainty: 0.0 }
    }

    /// Of three ranks the two others take 0 and 40 ms: 20, which none of them takes, is not shown. Of four, the one in the middle takes 40.
    #[test]
    fn others_that_differ_have_no_time_in_common() {
        let activity = RankActivity::Operation("a".to_owned());
        let excess = |milliseconds: &[f64]| {
            let time = |time: &f64| BTreeMap::from([(&activity, ActivityTime::over_steps(&[*time], median))]);
            excess(0, &milliseconds.iter().map(time).collect::<Vec<_>>(), 1.0).remove(0)
        };
        let of_three = excess(&[100.0, 40.0, 0.0]);
        assert_eq!(
            (of_three.longer(), of_three.others_between, of_three.do_others_differ()),
            (80.0, [0.0, 40.0], true)
        );
        let of_four = excess(&[100.0, 40.0, 0.0, 41.0]);
        assert_eq!((of_four.longer(), of_four.others_between, of_four.do_others_differ()), (60.0, [40.0; 2], false));
    }

    /// A rank whose operation takes 10 to 30 ms takes by chance 4 ms longer than another one; where it takes 19 to 21 ms, it is not chance.
    #[test]
    fn what_varies_by_more_than_it_takes_longer_is_not_named() {
        let activity = RankActivity::Operation("a".to_owned());
        let is_named = |own: &[f64]| {
            let usual =
                [own, &[16.0]].map(|steps| BTreeMap::from([(&activity, ActivityTime::over_steps(steps, median))]));
            !excess(0, &usual, 1.0).is_empty()
        };
        assert_eq!(
            [[10.0, 15.0, 20.0, 25.0, 30.0], [19.0, 19.5, 20.0, 20.5, 21.0]].map(|own| is_named(&own)),
            [false, true]
        );
    }

    /// Of two ranks that are late by the same in turn, one is late in one step more: chance. One that is late in each step, or by 30 us where the other one is by 2, is not.
    #[test]
    fn one_of_equal_ranks_does_not_stand_out() {
        let in_turn: Vec<[i64; 2]> = (0..7).map(|step| if step % 2 == 0 { [0, 30_000] } else { [30_000, 0] }).collect();
        assert!(!(0..2).any(|rank| stands_out(&waiting_of_two(&in_turn), rank, 2)));
        for late in [[0, 30_000], [2_000, 30_000]] {
            assert_eq!([0, 1].map(|rank| stands_out(&waiting_of_two(&[late; 4]), rank, 2)), [true, false]);
        }
    }
}
