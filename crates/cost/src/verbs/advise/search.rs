//! Searches for the combinations of alternative values that make a step fit, without unnecessary changes.

use super::judge::{PredictedNeed, WorkloadJudge};
use super::options::StepOption;
use crate::fingerprint::Prediction;
use perf4sight_base::error::Result;
use perf4sight_step::workload::{Setting, Workload};
use rayon::prelude::*;
use std::cmp::Ordering;
use std::sync::atomic::{AtomicU64, Ordering as AtomicOrdering};

/// The options, and the predictions for their combinations.
pub(super) struct AdviceSearch<'a, 'n> {
    pub judge: &'a WorkloadJudge<'n>,
    pub asked: Workload,
    pub options: &'a [StepOption],
}

/// The index of each option's value; none is the requested value.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OptionCombination(Vec<Option<usize>>);

#[derive(Debug, Clone)]
pub(super) struct AdviceCandidate {
    combination: OptionCombination,
    pub workload: Workload,
    pub need: PredictedNeed,
    /// None without a fingerprint of latency.
    pub time: Option<Prediction>,
    pub learns_the_same: bool,
}

pub(super) struct AdviceFindings {
    pub asked: AdviceCandidate,
    pub single: Vec<AdviceCandidate>,
    /// The combinations that fit, without unnecessary changes: first those that train the same, then by time per
    /// sample.
    pub fitting: Vec<AdviceCandidate>,
    /// If nothing fits, the combination that needs the least memory.
    pub nearest: Option<AdviceCandidate>,
}

/// The combinations with the same changes to the training result: those that fit, and the one that needs the least
/// memory.
#[derive(Default)]
struct CandidateGroup {
    fitting: Vec<AdviceCandidate>,
    least: Option<AdviceCandidate>,
}

/// The smallest memory so far, in MiB, over all threads. The bits of positive floating-point numbers have the same
/// order as the numbers.
struct LowestMemory(AtomicU64);

impl LowestMemory {
    fn new() -> Self {
        LowestMemory(AtomicU64::new(f64::INFINITY.to_bits()))
    }

    fn note(&self, need: f64) {
        self.0.fetch_min(need.to_bits(), AtomicOrdering::Relaxed);
    }

    fn is_below(&self, need: f64) -> bool {
        f64::from_bits(self.0.load(AtomicOrdering::Relaxed)) < need
    }
}

impl AdviceSearch<'_, '_> {
    /// Tries all relevant combinations.
    ///
    /// # Errors
    /// A step that a fingerprint cannot predict; the options are checked beforehand.
    pub fn run(&self) -> Result<AdviceFindings> {
        let none = OptionCombination(vec![None; self.options.len()]);
        let few: Vec<OptionCombination> = [none].into_iter().chain(self.singles()).collect();
        let few = few.into_par_iter().map(|combination| self.with_time(self.candidate(combination)?));
        let mut single: Vec<AdviceCandidate> = few.collect::<Result<_>>()?;
        let asked = single.remove(0);
        let CandidateGroup { fitting, least } = match asked.need.verdict {
            None => CandidateGroup::default(),
            Some(_) if asked.need.fits() => CandidateGroup { fitting: vec![asked.clone()], least: None },
            Some(_) => self.search_combinations(&single)?,
        };
        let mut fitting: Vec<AdviceCandidate> =
            fitting.into_par_iter().map(|candidate| self.with_time(candidate)).collect::<Result<_>>()?;
        let all = fitting.clone();
        fitting.retain(|one| !all.iter().any(|other| self.is_better(other, one)));
        fitting
            .sort_by(|one, other| one.learns_the_same.cmp(&other.learns_the_same).reverse().then(one.by_cost(other)));
        let nearest = least.filter(|_| fitting.is_empty()).map(|least| self.with_time(least)).transpose()?;
        Ok(AdviceFindings { asked, single, fitting, nearest })
    }

    fn singles(&self) -> Vec<OptionCombination> {
        let values = self
            .options
            .iter()
            .enumerate()
            .flat_map(|(option, of)| (0..of.values.len()).map(move |value| (option, value)));
        let alone = |(option, value)| {
            let mut combination = vec![None; self.options.len()];
            combination[option] = Some(value);
            OptionCombination(combination)
        };
        values.map(alone).collect()
    }

    /// The combinations that fit. If the step fits with at most one change to the training result, two such changes
    /// are not tried.
    fn search_combinations(&self, single: &[AdviceCandidate]) -> Result<CandidateGroup> {
        let changing = self.options.iter().filter(|option| !option.learns_the_same && option.timed > 0).count();
        let (mut found, lowest) = (CandidateGroup::default(), LowestMemory::new());
        for changes in 0..=changing {
            if changes > 1 && !found.fitting.is_empty() {
                break;
            }
            let ways = self.ways_to_learn(changes, single);
            let groups = ways
                .into_par_iter()
                .map(|way| self.group(&way, &found.fitting, &lowest))
                .collect::<Result<Vec<CandidateGroup>>>()?;
            for group in groups {
                found.fitting.extend(group.fitting);
                found.least = [found.least, group.least].into_iter().flatten().min_by(AdviceCandidate::by_need);
            }
        }
        let (fitting, others): (Vec<&AdviceCandidate>, Vec<&AdviceCandidate>) =
            single.iter().filter(|one| self.is_withheld(one)).partition(|one| one.need.fits());
        found.fitting.extend(fitting.into_iter().cloned());
        found.least = found.least.into_iter().chain(others.into_iter().cloned()).min_by(AdviceCandidate::by_need);
        let all = found.fitting.clone();
        found.fitting.retain(|one| !all.iter().any(|other| self.is_less(&other.combination, &one.combination)));
        Ok(found)
    }

    /// Combinations of this many options that change the training result. With several options, only the value that
    /// saves the most is tried of each option whose values have no fixed order of memory.
    fn ways_to_learn(&self, changes: usize, single: &[AdviceCandidate]) -> Vec<OptionCombination> {
        let choices = self.options.iter().enumerate().map(|(index, option)| {
            let values = || option.combined_values().map(Some);
            let is_changed = |one: &&AdviceCandidate| one.combination.0[index].is_some() && !self.is_withheld(one);
            let most = || single.iter().filter(is_changed).min_by(|one, other| one.by_need(other));
            match option.learns_the_same {
                true => vec![None],
                false if changes < 2 || option.is_monotonic() => [None].into_iter().chain(values()).collect(),
                false => [None].into_iter().chain(most().map(|one| one.combination.0[index])).collect(),
            }
        });
        let all = product(choices);
        all.into_iter().filter(|way| way.0.iter().flatten().count() == changes).collect()
    }

    /// The combinations that fit, with the given changes to the training result. Combinations that extend one in
    /// `fitting`, which fits already, are left out.
    fn group(
        &self,
        way: &OptionCombination,
        fitting: &[AdviceCandidate],
        lowest: &LowestMemory,
    ) -> Result<CandidateGroup> {
        let choices = self.options.iter().zip(&way.0).map(|(option, value)| match option.learns_the_same {
            true => [None].into_iter().chain(option.combined_values().map(Some)).collect(),
            false => vec![*value],
        });
        let mut all = product(choices);
        // Some values that are possible alone are refused in combination.
        all.retain(|combination| self.judge.is_possible(self.workload(combination)));
        all.sort_by_key(OptionCombination::changes);
        let strongest = all.iter().filter(|one| !all.iter().any(|other| self.saves_more(other, one)));
        let likeliest = self.fitting_or_least(all.first().into_iter().chain(strongest), lowest)?;
        if !likeliest.as_ref().is_some_and(|candidate| candidate.need.fits()) {
            return Ok(CandidateGroup { fitting: Vec::new(), least: likeliest });
        }
        let mut group = CandidateGroup::default();
        // Of combinations with equally many changes none is smaller than another.
        for level in all.chunk_by(|one, other| one.changes() == other.changes()) {
            let is_new = |combination: &&OptionCombination| {
                let mut known = fitting.iter().chain(&group.fitting);
                !known.any(|fitting| self.is_less(&fitting.combination, combination))
            };
            let candidate = level.par_iter().filter(is_new).map(|combination| self.if_fitting(combination));
            let found: Vec<Option<AdviceCandidate>> = candidate.collect::<Result<_>>()?;
            group.fitting.extend(found.into_iter().flatten());
        }
        Ok(group)
    }

    fn if_fitting(&self, combination: &OptionCombination) -> Result<Option<AdviceCandidate>> {
        // Checks the lower bound first, if there is a fast one.
        let may_fit = self.judge.at_least(self.workload(combination))?.is_none_or(|(_, fits)| fits);
        let candidate = may_fit.then(|| self.candidate(combination.clone())).transpose()?;
        Ok(candidate.filter(|candidate| candidate.need.fits()))
    }

    /// One of these that fits. If none fits, the first of those that need the least memory. None if others are known
    /// to need less memory than all of these.
    fn fitting_or_least<'t>(
        &self,
        all: impl Iterator<Item = &'t OptionCombination>,
        lowest: &LowestMemory,
    ) -> Result<Option<AdviceCandidate>> {
        let hope = |(place, combination): (usize, &'t OptionCombination)| {
            Ok((self.judge.at_least(self.workload(combination))?, place, combination))
        };
        let all: Vec<_> = all.enumerate().collect();
        let mut all = all.into_par_iter().map(hope).collect::<Result<Vec<_>>>()?;
        // Combinations with the smallest lower bound come first, so that the others can be ruled out by their bounds.
        let bound = |hope: &Option<(f64, bool)>| hope.map_or(0.0, |(need, _)| need);
        all.sort_by(|(one, ..), (other, ..)| bound(one).total_cmp(&bound(other)));
        let mut least: Option<(AdviceCandidate, usize)> = None;
        for (hope, place, combination) in all {
            if hope.is_some_and(|(need, fits)| !fits && lowest.is_below(need)) {
                continue;
            }
            let candidate = self.candidate(combination.clone())?;
            if candidate.need.fits() {
                return Ok(Some(candidate));
            }
            lowest.note(candidate.need.counted.value());
            let by_need = |(one, first): &(AdviceCandidate, usize), (other, second): &(AdviceCandidate, usize)| {
                one.by_need(other).then(first.cmp(second))
            };
            least = least.into_iter().chain([(candidate, place)]).min_by(by_need);
        }
        Ok(least.map(|(least, _)| least))
    }

    /// Whether it is only tried as a single change.
    fn is_withheld(&self, one: &AdviceCandidate) -> bool {
        one.combination
            .0
            .iter()
            .zip(self.options)
            .any(|(value, option)| value.is_some_and(|value| value >= option.timed))
    }

    fn workload(&self, combination: &OptionCombination) -> Workload {
        let taken = combination
            .0
            .iter()
            .zip(self.options)
            .filter_map(|(value, option)| Some((option, option.values[(*value)?])));
        taken.fold(self.asked, |workload, (option, value)| option.apply(workload, value))
    }

    fn candidate(&self, combination: OptionCombination) -> Result<AdviceCandidate> {
        let workload = self.workload(&combination);
        let mut changed = combination.0.iter().zip(self.options).filter(|(value, _)| value.is_some());
        let learns_the_same = changed.all(|(_, option)| option.learns_the_same);
        Ok(AdviceCandidate {
            need: self.judge.needed_memory(workload)?,
            combination,
            workload,
            time: None,
            learns_the_same,
        })
    }

    fn with_time(&self, candidate: AdviceCandidate) -> Result<AdviceCandidate> {
        Ok(AdviceCandidate { time: self.judge.time(candidate.workload)?, ..candidate })
    }

    /// Whether `less` has only changes that `more` also has, but fewer or smaller ones.
    fn is_less(&self, less: &OptionCombination, more: &OptionCombination) -> bool {
        let within = |((less, more), option): ((&Option<usize>, &Option<usize>), &StepOption)| {
            less.is_none() || less == more || option.is_monotonic() && more.is_some() && less < more
        };
        less != more && less.0.iter().zip(&more.0).zip(self.options).all(within)
    }

    /// Whether `more` has all changes of `less` and further ones, and by rule needs no more memory. More passes per
    /// step are excluded: the second pass of a step computes its gradients in addition to those of the first.
    fn saves_more(&self, more: &OptionCombination, less: &OptionCombination) -> bool {
        let passes = self.options.iter().position(|option| option.setting == Some(Setting::Accumulate));
        let alike = passes.is_none_or(|passes| more.0[passes].is_some() == less.0[passes].is_some());
        alike && self.is_less(less, more)
    }

    /// Whether `one` changes nothing in the training result that `other` does not, and needs less memory or time and
    /// no more of either. Both times must be known, or neither.
    fn is_better(&self, one: &AdviceCandidate, other: &AdviceCandidate) -> bool {
        let options = one.combination.0.iter().zip(&other.combination.0).zip(self.options);
        let mut changing = options.filter(|(_, option)| !option.learns_the_same);
        let learns_no_less = changing.all(|((one, other), _)| one.is_none() || one == other);
        let smaller = one.by_need(other);
        let quicker = one.by_cost(other);
        let comparable = one.time.is_some() == other.time.is_some();
        comparable && learns_no_less && smaller.is_le() && quicker.is_le() && (smaller.is_lt() || quicker.is_lt())
    }
}

impl OptionCombination {
    /// The number of changed options, and the sum of the value indices: combinations with fewer or smaller changes
    /// come first.
    fn changes(&self) -> (usize, usize) {
        (self.0.iter().flatten().count(), self.0.iter().flatten().sum())
    }
}

impl AdviceCandidate {
    pub fn per_sample(&self) -> Option<f64> {
        self.time.as_ref().map(|time| time.value.value() / self.workload.batch as f64)
    }

    pub fn by_need(&self, other: &Self) -> Ordering {
        self.need.counted.value().total_cmp(&other.need.counted.value())
    }

    /// By the time per sample; combinations without a predicted time come last, by their changes.
    fn by_cost(&self, other: &Self) -> Ordering {
        match (self.per_sample(), other.per_sample()) {
            (Some(one), Some(other)) => one.total_cmp(&other),
            (None, None) => self.combination.changes().cmp(&other.combination.changes()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
        }
    }
}

fn product(choices: impl Iterator<Item = Vec<Option<usize>>>) -> Vec<OptionCombination> {
    choices.fold(vec![OptionCombination(Vec::new())], |all, choices| {
        let longer = |OptionCombination(begun): &OptionCombination| -> Vec<OptionCombination> {
            choices.iter().map(|choice| OptionCombination(begun.iter().copied().chain([*choice]).collect())).collect()
        };
        all.iter().flat_map(longer).collect()
    })
}
