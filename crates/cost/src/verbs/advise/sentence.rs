//! The advice in sentences: whether the requested step fits, the changes that make it fit, the single change that
//! saves the most, the changes that were left out.

use super::Advice;
use super::options::WithheldChanges;
use super::search::AdviceCandidate;
use crate::fingerprint::{CountedMemory, FitDecision, FitVerdict};
use crate::verbs::verdict::{believed_need, place, verdict_text};
use perf4sight_base::error::Error;
use perf4sight_base::units::{Bytes, grouped_digits};
use std::collections::BTreeMap;

impl Advice {
    pub(super) fn asked_words(&self) -> String {
        let samples = if self.asked.batch == 1 { "sample" } else { "samples" };
        format!("{} with {} {samples}", self.asked.step, grouped_digits(self.asked.batch))
    }

    pub(super) fn to_sentences(&self) -> Vec<String> {
        let mut sentences = vec![self.as_asked()];
        sentences.extend(self.fitting());
        sentences.extend(self.helps_most());
        sentences
    }

    pub(super) fn as_asked(&self) -> String {
        let asked = &self.findings.asked;
        let needs = format!("as asked, {}, it needs {}", self.asked_words(), self.counted_memory(asked));
        match asked.need.verdict {
            None => format!("{needs}; its memory limit is unknown: give --mem-limit (mem_limit)"),
            Some(verdict) => self.verdict_of(&needs, verdict),
        }
    }

    fn verdict_of(&self, needs: &str, verdict: FitVerdict) -> String {
        verdict_text(needs, &place(self.asked_limit.clone(), self.limit, &self.device, "tensors"), verdict)
    }

    /// What a step does to its weights; one of inference has results alone.
    pub(super) fn learns(&self) -> &'static str {
        if self.asked.step.trains() { "learns" } else { "computes" }
    }

    /// The memory that counts against the limit; the tables hold the total memory.
    fn counted_memory(&self, one: &AdviceCandidate) -> String {
        let need = one.need.counted;
        // Of a device that was not measured, what it takes beside tensors is not known.
        let believed = one.need.tensors.as_ref().zip(one.need.all.interval).filter(|_| self.is_prior);
        if let Some((tensors, interval)) = believed {
            return believed_need(tensors, interval);
        }
        match self.limit.map(|limit| limit.counts) {
            Some(CountedMemory::Tensors) => format!("{need} for its tensors"),
            Some(CountedMemory::All) | None => need.to_string(),
        }
    }

    pub(super) fn fitting(&self) -> Vec<String> {
        let asked = &self.findings.asked;
        if asked.need.verdict.is_none() || asked.need.fits() {
            return Vec::new();
        }
        let first = |same: bool| self.findings.fitting.iter().find(|one| one.learns_the_same == same);
        let described = |one: &AdviceCandidate| {
            format!("{} ({}{})", self.changes_text(one), self.counted_memory(one), self.cost(one))
        };
        match (first(true), first(false)) {
            (None, None) => vec![self.nothing_fits()],
            (same, other) => {
                let same = match same {
                    Some(same) => format!("fits and {} the same: {}", self.learns(), described(same)),
                    None => format!("nothing that was tried makes it fit and {} the same", self.learns()),
                };
                let other = other.map(|other| format!("fits, but {} otherwise: {}", self.learns(), described(other)));
                [same].into_iter().chain(other).collect()
            }
        }
    }

    fn nothing_fits(&self) -> String {
        let Some(nearest) = &self.findings.nearest else { return "nothing that was tried fits".to_owned() };
        let needs =
            format!("nearest comes {}, which needs {}", self.changes_text(nearest), self.counted_memory(nearest));
        match nearest.need.verdict {
            Some(verdict) if verdict.call == FitDecision::Borderline => {
                format!("nothing that was tried surely fits; {}", self.verdict_of(&needs, verdict))
            }
            Some(verdict) => format!("nothing that was tried fits; {}", self.verdict_of(&needs, verdict)),
            None => format!("nothing that was tried fits; {needs}"),
        }
    }

    /// ", 12.3 % more time per sample", for example; ", an estimated 12 % more" where nothing was measured.
    fn cost(&self, one: &AdviceCandidate) -> String {
        let percent = |share: f64| match self.is_prior {
            true => format!("an estimated {share:.0} %"),
            false => format!("{share:.1} %"),
        };
        let least = if self.is_prior { 0.5 } else { 0.05 };
        match self.longer(one) {
            Some(longer) if longer >= least => format!(", {} more time per sample", percent(longer)),
            Some(longer) if longer <= -least => format!(", {} less time per sample", percent(-longer)),
            Some(_) => ", the same time per sample".to_owned(),
            None if self.findings.asked.time.is_some() => ", time not known".to_owned(),
            None => String::new(),
        }
    }

    /// The single change that saves the most, and the one that saves the most and trains the same.
    pub(super) fn helps_most(&self) -> Vec<String> {
        let saves = |one: &AdviceCandidate| {
            let saved = Bytes::from_mib(self.findings.asked.need.counted.value() - one.need.counted.value());
            format!("{} ({saved} less{})", self.changes_text(one), self.cost(one))
        };
        let same = self.most_saving(true);
        let same = same.map(|one| format!("saves most and {} the same: {}", self.learns(), saves(one)));
        let other = self.most_saving(false);
        let other = other.map(|one| format!("saves most, but {} otherwise: {}", self.learns(), saves(one)));
        same.into_iter().chain(other).collect()
    }

    /// The single change that saves the most, among those that train the same or among the others.
    pub(super) fn most_saving(&self, same: bool) -> Option<&AdviceCandidate> {
        let single = self.findings.single.iter().filter(|one| one.learns_the_same == same);
        let saving = single.filter(|one| one.by_need(&self.findings.asked).is_lt());
        saving.min_by(|one, other| one.by_need(other))
    }

    /// How to interpret the results.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let all = || self.findings.fitting.iter().chain(&self.findings.single);
        if self.normalises && all().any(|one| one.workload.step.accumulate > self.asked.step.accumulate) {
            remarks.push(
                "accumulate learns otherwise here: batch normalisation sees only the samples of one pass".to_owned(),
            );
        }
        if all().any(|one| one.workload.step.checkpoint != self.asked.step.checkpoint) {
            let twice =
                "; batch normalisation updates its running statistics twice in every step then, gradients are the same";
            remarks.push(format!(
                "checkpoint: perf4sight inspect NETWORK --stage training --checkpoint '8 segments' --json names the nodes that end the segments (cuts){}",
                if self.normalises { twice } else { "" }
            ));
        }
        let WithheldChanges { refused, untimed } = &self.withheld;
        remarks.extend(refused.iter().map(|(change, reason)| format!("left out: {change}: {}", reason.problem())));
        remarks.extend(without_time(untimed));
        remarks.extend(self.basis.iter().cloned());
        remarks
    }
}

/// Changes with which it is not known how long a step takes; those with the same remedy in one sentence.
fn without_time(untimed: &[(String, Error)]) -> impl Iterator<Item = String> {
    let mut by_remedy: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (change, reason) in untimed {
        by_remedy.entry(reason.remedy().unwrap_or(reason.problem())).or_default().push(change);
    }
    by_remedy.into_iter().map(|(remedy, changes)| {
        let alone = if changes.len() == 1 { "itself" } else { "themselves" };
        let changes = changes.join("; ");
        format!("tried only by {alone}, as it is not known how long a step takes then: {changes}; {remedy}")
    })
}
