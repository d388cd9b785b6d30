//! Which combinations of turns make a step fit: none more than it takes.

use super::judge::{Judge, Need};
use super::levers::Lever;
use crate::fingerprint::Prediction;
use perf4sight_base::error::Result;
use perf4sight_step::workload::{Setting, Workload};
use rayon::prelude::*;
use std::cmp::Ordering;
use std::sync::atomic::{AtomicU64, Ordering as AtomicOrdering};

/// What can be turned, and who judges it.
pub(super) struct Search<'a, 'n> {
    pub judge: &'a Judge<'n>,
    pub asked: Workload,
    pub levers: &'a [Lever],
}

/// For every lever which of its turns is taken, counted from one; none is as asked.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Turned(Vec<Option<usize>>);

/// A combination and what is known of it.
#[derive(Debug, Clone)]
pub(super) struct Judged {
    turned: Turned,
    pub workload: Workload,
    pub need: Need,
    /// None without a fingerprint of latency.
    pub time: Option<Prediction>,
    /// Whether it learns what was asked for.
    pub learns_the_same: bool,
}

/// What a search finds.
pub(super) struct Findings {
    pub asked: Judged,
    /// Every turn by itself.
    pub single: Vec<Judged>,
    /// What fits and turns no more than that takes: first what learns the same, then the quicker for a sample.
    pub fitting: Vec<Judged>,
    /// Where nothing fits, what needs the least of all that was tried.
    pub nearest: Option<Judged>,
}

/// Of combinations that all learn otherwise in the same way: those that fit, and the one that needs the least.
#[derive(Default)]
struct Group {
    fitting: Vec<Judged>,
    least: Option<Judged>,
}

/// The least that anything looked at so far needs, in MiB, whichever thread looked. Bits of positive numbers are ordered as these are.
struct Lowest(AtomicU64);

impl Lowest {
    fn new() -> Self {
        Lowest(AtomicU64::new(f64::INFINITY.to_bits()))
    }

    fn note(&self, need: f64) {
        self.0.fetch_min(need.to_bits(), AtomicOrdering::Relaxed);
    }

    fn is_below(&self, need: f64) -> bool {
        f64::from_bits(self.0.load(AtomicOrdering::Relaxed)) < need
    }
}

impl Search<'_, '_> {
    /// Tries everything that may matter.
    ///
    /// # Errors
    /// What fingerprints refuse, which the levers are checked for beforehand.
    pub fn run(&self) -> Result<Findings> {
        let none = Turned(vec![None; self.levers.len()]);
        let few: Vec<Turned> = [none].into_iter().chain(self.singles()).collect();
        let few = few.into_par_iter().map(|turned| self.timed(self.judged(turned)?));
        let mut single: Vec<Judged> = few.collect::<Result<_>>()?;
        let asked = single.remove(0);
        let Group { fitting, least } = match asked.need.verdict {
            None => Group::default(),
            Some(_) if asked.need.fits() => Group { fitting: vec![asked.clone()], least: None },
            Some(_) => self.combined(&single)?,
        };
        let mut fitting: Vec<Judged> =
            fitting.into_par_iter().map(|judged| self.timed(judged)).collect::<Result<_>>()?;
        let all = fitting.clone();
        fitting.retain(|one| !all.iter().any(|other| self.beats(other, one)));
        fitting
            .sort_by(|one, other| one.learns_the_same.cmp(&other.learns_the_same).reverse().then(one.by_cost(other)));
        let nearest = least.filter(|_| fitting.is_empty()).map(|least| self.timed(least)).transpose()?;
        Ok(Findings { asked, single, fitting, nearest })
    }

    fn singles(&self) -> Vec<Turned> {
        let turns =
            self.levers.iter().enumerate().flat_map(|(lever, of)| (0..of.turns.len()).map(move |turn| (lever, turn)));
        let alone = |(lever, turn)| {
            let mut turned = vec![None; self.levers.len()];
            turned[lever] = Some(turn);
            Turned(turned)
        };
        turns.map(alone).collect()
    }

    /// Those that fit. Who can train as asked, or with one change, is told of no two changes of what is learned.
    fn combined(&self, single: &[Judged]) -> Result<Group> {
        let changing = self.levers.iter().filter(|lever| !lever.learns_the_same() && lever.timed > 0).count();
        let (mut found, lowest) = (Group::default(), Lowest::new());
        for changes in 0..=changing {
            if changes > 1 && !found.fitting.is_empty() {
                break;
            }
            let ways = self.ways_to_learn(changes, single);
            let groups = ways
                .into_par_iter()
                .map(|way| self.group(&way, &found.fitting, &lowest))
                .collect::<Result<Vec<Group>>>()?;
            for group in groups {
                found.fitting.extend(group.fitting);
                found.least = [found.least, group.least].into_iter().flatten().min_by(Judged::by_need);
            }
        }
        let (fitting, others): (Vec<&Judged>, Vec<&Judged>) =
            single.iter().filter(|one| self.is_withheld(one)).partition(|one| one.need.fits());
        found.fitting.extend(fitting.into_iter().cloned());
        found.least = found.least.into_iter().chain(others.into_iter().cloned()).min_by(Judged::by_need);
        let all = found.fitting.clone();
        found.fitting.retain(|one| !all.iter().any(|other| self.is_less(&other.turned, &one.turned)));
        Ok(found)
    }

    /// Combinations of so many levers that change what is learned. Of several together only the most saving turn of each is tried, where one
    /// saves no more than the others by rule.
    fn ways_to_learn(&self, changes: usize, single: &[Judged]) -> Vec<Turned> {
        let choices = self.levers.iter().enumerate().map(|(index, lever)| {
            let turns = || lever.combined().map(Some);
            let is_turned = |one: &&Judged| one.turned.0[index].is_some() && !self.is_withheld(one);
            let most = || single.iter().filter(is_turned).min_by(|one, other| one.by_need(other));
            match lever.learns_the_same() {
                true => vec![None],
                false if changes < 2 || lever.is_chain() => [None].into_iter().chain(turns()).collect(),
                false => [None].into_iter().chain(most().map(|one| one.turned.0[index])).collect(),
            }
        });
        let all = product(choices);
        all.into_iter().filter(|way| way.0.iter().flatten().count() == changes).collect()
    }

    /// What fits of all that learn in one way; `fitting` fits already, and what turns more than that is passed over.
    fn group(&self, way: &Turned, fitting: &[Judged], lowest: &Lowest) -> Result<Group> {
        let choices = self.levers.iter().zip(&way.0).map(|(lever, turn)| match lever.learns_the_same() {
            true => [None].into_iter().chain(lever.combined().map(Some)).collect(),
            false => vec![*turn],
        });
        let mut all = product(choices);
        // Some turns that are possible one by one are refused together.
        all.retain(|turned| self.judge.is_possible(self.workload(turned)));
        all.sort_by_key(Turned::turns);
        let strongest = all.iter().filter(|one| !all.iter().any(|other| self.saves_more(other, one)));
        let likeliest = self.fitting_or_least(all.first().into_iter().chain(strongest), lowest)?;
        if !likeliest.as_ref().is_some_and(|judged| judged.need.fits()) {
            return Ok(Group { fitting: Vec::new(), least: likeliest });
        }
        let mut group = Group::default();
        // Of those that turn as much none turns less than another.
        for level in all.chunk_by(|one, other| one.turns() == other.turns()) {
            let is_new = |turned: &&Turned| {
                let mut known = fitting.iter().chain(&group.fitting);
                !known.any(|fitting| self.is_less(&fitting.turned, turned))
            };
            let judged = level.par_iter().filter(is_new).map(|turned| self.if_fitting(turned));
            let found: Vec<Option<Judged>> = judged.collect::<Result<_>>()?;
            group.fitting.extend(found.into_iter().flatten());
        }
        Ok(group)
    }

    /// What is known of something that fits; none where it does not.
    fn if_fitting(&self, turned: &Turned) -> Result<Option<Judged>> {
        // Seen without looking closely, where that is faster.
        let may_fit = self.judge.at_least(self.workload(turned))?.is_none_or(|(_, fits)| fits);
        let judged = may_fit.then(|| self.judged(turned.clone())).transpose()?;
        Ok(judged.filter(|judged| judged.need.fits()))
    }

    /// One of these that fits; where none does, the one that needs the least, of several the first. None where others are known to need less than
    /// all of these.
    fn fitting_or_least<'t>(&self, all: impl Iterator<Item = &'t Turned>, lowest: &Lowest) -> Result<Option<Judged>> {
        let hope =
            |(place, turned): (usize, &'t Turned)| Ok((self.judge.at_least(self.workload(turned))?, place, turned));
        let all: Vec<_> = all.enumerate().collect();
        let mut all = all.into_par_iter().map(hope).collect::<Result<Vec<_>>>()?;
        // What may need the least is looked at first, so that of the others it is known that they need more.
        let bound = |hope: &Option<(f64, bool)>| hope.map_or(0.0, |(need, _)| need);
        all.sort_by(|(one, ..), (other, ..)| bound(one).total_cmp(&bound(other)));
        let mut least: Option<(Judged, usize)> = None;
        for (hope, place, turned) in all {
            if hope.is_some_and(|(need, fits)| !fits && lowest.is_below(need)) {
                continue;
            }
            let judged = self.judged(turned.clone())?;
            if judged.need.fits() {
                return Ok(Some(judged));
            }
            lowest.note(judged.need.counted.value());
            let by_need = |(one, first): &(Judged, usize), (other, second): &(Judged, usize)| {
                one.by_need(other).then(first.cmp(second))
            };
            least = least.into_iter().chain([(judged, place)]).min_by(by_need);
        }
        Ok(least.map(|(least, _)| least))
    }

    /// Whether it is tried by itself alone.
    fn is_withheld(&self, one: &Judged) -> bool {
        one.turned.0.iter().zip(self.levers).any(|(turn, lever)| turn.is_some_and(|turn| turn >= lever.timed))
    }

    fn workload(&self, turned: &Turned) -> Workload {
        let taken = turned.0.iter().zip(self.levers).filter_map(|(turn, lever)| Some((lever, lever.turns[(*turn)?])));
        taken.fold(self.asked, |workload, (lever, turn)| lever.taken(workload, turn))
    }

    fn judged(&self, turned: Turned) -> Result<Judged> {
        let workload = self.workload(&turned);
        let mut turned_levers = turned.0.iter().zip(self.levers).filter(|(turn, _)| turn.is_some());
        let learns_the_same = turned_levers.all(|(_, lever)| lever.learns_the_same());
        Ok(Judged { need: self.judge.need(workload)?, turned, workload, time: None, learns_the_same })
    }

    fn timed(&self, judged: Judged) -> Result<Judged> {
        Ok(Judged { time: self.judge.time(judged.workload)?, ..judged })
    }

    /// Whether something turns less than another, and nothing that the other does not.
    fn is_less(&self, less: &Turned, more: &Turned) -> bool {
        let within = |((less, more), lever): ((&Option<usize>, &Option<usize>), &Lever)| {
            less.is_none() || less == more || lever.is_chain() && more.is_some() && less < more
        };
        less != more && less.0.iter().zip(&more.0).zip(self.levers).all(within)
    }

    /// Whether something turns what another does and more, and needs no more memory by rule. Passes of a batch are no such turn: the second one
    /// of a step makes its gradients beside those of the first.
    fn saves_more(&self, more: &Turned, less: &Turned) -> bool {
        let passes = self.levers.iter().position(|lever| lever.setting == Some(Setting::Accumulate));
        let alike = passes.is_none_or(|passes| more.0[passes].is_some() == less.0[passes].is_some());
        alike && self.is_less(less, more)
    }

    /// Whether something changes nothing of what is learned that another does not, and needs less of memory and of time. Of a time that is not known
    /// nothing is.
    fn beats(&self, one: &Judged, other: &Judged) -> bool {
        let levers = one.turned.0.iter().zip(&other.turned.0).zip(self.levers);
        let mut changing = levers.filter(|(_, lever)| !lever.learns_the_same());
        let learns_no_less = changing.all(|((one, other), _)| one.is_none() || one == other);
        let smaller = one.by_need(other);
        let quicker = one.by_cost(other);
        let comparable = one.time.is_some() == other.time.is_some();
        comparable && learns_no_less && smaller.is_le() && quicker.is_le() && (smaller.is_lt() || quicker.is_lt())
    }
}

impl Turned {
    /// How many levers are turned, and how far in all: whatever turns less comes before.
    fn turns(&self) -> (usize, usize) {
        (self.0.iter().flatten().count(), self.0.iter().flatten().sum())
    }
}

impl Judged {
    /// Milliseconds a sample.
    pub fn per_sample(&self) -> Option<f64> {
        self.time.as_ref().map(|time| time.value.value() / self.workload.batch as f64)
    }

    pub fn by_need(&self, other: &Self) -> Ordering {
        self.need.counted.value().total_cmp(&other.need.counted.value())
    }

    /// By the time of a sample; behind them those whose time nobody knows, by what is turned.
    fn by_cost(&self, other: &Self) -> Ordering {
        match (self.per_sample(), other.per_sample()) {
            (Some(one), Some(other)) => one.total_cmp(&other),
            (None, None) => self.turned.turns().cmp(&other.turned.turns()),
            (known, _) => {
                if known.is_some() {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
        }
    }
}

/// One of each of the choices, in every combination.
fn product(choices: impl Iterator<Item = Vec<Option<usize>>>) -> Vec<Turned> {
    choices.fold(vec![Turned(Vec::new())], |all, choices| {
        let longer = |Turned(begun): &Turned| -> Vec<Turned> {
            choices.iter().map(|choice| Turned(begun.iter().copied().chain([*choice]).collect())).collect()
        };
        all.iter().flat_map(longer).collect()
    })
}
