//! The fits of a study, all planned before the first begins.

use super::learning::{LearningPoint, RandomSubset, curve};
use super::left_out::FitProtocol;
use super::share::{ObservationSubset, networks};
use super::study::{AccuracyStudy, MethodTests, RowScatter};
use super::trial::Trial;
use crate::fingerprint::{Fingerprint, FitMethod, FitRecipe, Observations};
use crate::records::Variant;
use perf4sight_base::error::Result;
use rayon::prelude::*;
use std::collections::BTreeSet;

/// Fewer networks than this cannot be left out in turn: a fit on a single one has no information on how networks
/// differ.
const FEWEST_NETWORKS: usize = 3;

/// The fits that study one fingerprint.
pub struct PlannedFits<'a> {
    fingerprint: &'a Fingerprint,
    fitted: Observations<'a>,
    tested: Observations<'a>,
    /// The tested rows at levels not fitted on.
    unseen: ObservationSubset<'a>,
    /// All rows of the tested networks: for a fit without a network, its fitted levels are as new as the others.
    all: ObservationSubset<'a>,
    planned: Vec<(FitRecipe, PlannedFit)>,
}

#[derive(Debug, Clone, PartialEq)]
enum PlannedFit {
    Whole,
    Without(String),
    On(RandomSubset),
}

/// Trials in the order of the fits that gave them.
type TrialResults = Vec<Result<Trial>>;

impl<'a> PlannedFits<'a> {
    /// Plans the fits for a fingerprint of `fitted`, which are tested on `tested`.
    pub fn new(fingerprint: &'a Fingerprint, fitted: Observations<'a>, tested: Observations<'a>) -> Self {
        let unseen = ObservationSubset::select(&tested, |variant| !fingerprint.knows(&variant.network, variant.level));
        let all = with_fitted(&tested, &fitted);
        let mut fits = PlannedFits { fingerprint, fitted, tested, unseen, all, planned: Vec::new() };
        if !tested.rows.is_empty() {
            let own = fingerprint.recipe();
            fits.plan(own);
            if own.method != FitMethod::Perf4sight {
                let published = own.by(FitMethod::Perf4sight);
                fits.planned.push((published, PlannedFit::Whole));
                fits.plan(published);
            }
        }
        fits
    }

    fn plan(&mut self, recipe: FitRecipe) {
        if self.can_leave_out() {
            let tested = networks(&self.tested);
            let both = networks(&self.fitted).into_iter().filter(|name| tested.contains(name));
            self.planned.extend(both.map(|name| (recipe, PlannedFit::Without(name))));
        }
        if !self.unseen.rows.is_empty() {
            let draws = RandomSubset::all(self.fitted.rows.len(), recipe.seed);
            self.planned.extend(draws.into_iter().map(|draw| (recipe, PlannedFit::On(draw))));
        }
    }

    fn can_leave_out(&self) -> bool {
        networks(&self.fitted).len() >= FEWEST_NETWORKS
    }

    /// How many fits will be made.
    pub fn count(&self) -> usize {
        self.planned.len()
    }

    /// Runs the fits, as many at once as there are processors; calls `done` after each.
    pub fn run(&self, done: impl Fn() + Sync) -> AccuracyStudy {
        let answer = |(recipe, fit): &(FitRecipe, PlannedFit)| {
            let answer = self.run_fit(*recipe, fit);
            done();
            answer
        };
        let answers: TrialResults = self.planned.par_iter().map(answer).collect();
        let whole = Trial::run(self.fingerprint, self.tested.rows, self.tested.failed);
        let published = self.find(&answers, FitMethod::Perf4sight).find(|(fit, _)| **fit == PlannedFit::Whole);
        let published = published.map(|(_, trial)| self.protocols(&answers, FitMethod::Perf4sight, trial.clone()));
        AccuracyStudy {
            own: self.protocols(&answers, self.fingerprint.recipe().method, whole),
            published,
            noise: RowScatter::from_rows(self.fitted.rows.iter().chain(&self.unseen.rows)),
            missing: self.missing(&answers),
        }
    }

    fn run_fit(&self, recipe: FitRecipe, fit: &PlannedFit) -> Result<Trial> {
        let protocol = FitProtocol { subject: self.fingerprint.subject().clone(), recipe };
        let on = |part: &Observations, tested: &Observations| -> Result<Trial> {
            Ok(Trial::run(&protocol.fit(part)?, tested.rows, tested.failed))
        };
        match fit {
            PlannedFit::Whole => on(&self.fitted, &self.tested),
            PlannedFit::On(draw) => on(&draw.subset(&self.fitted).observations(), &self.unseen.observations()),
            PlannedFit::Without(network) => {
                let others = ObservationSubset::select(&self.fitted, |variant| variant.network != *network);
                let own = ObservationSubset::select(&self.all.observations(), |variant| variant.network == *network);
                on(&others.observations(), &own.observations())
            }
        }
    }

    fn protocols(&self, answers: &TrialResults, method: FitMethod, whole: Trial) -> MethodTests {
        let points = self.find(answers, method).filter_map(|(fit, trial)| match fit {
            PlannedFit::On(draw) => {
                Some(LearningPoint { rows: draw.rows, mape: trial.evaluation.mean_over_networks()? })
            }
            PlannedFit::Whole | PlannedFit::Without(_) => None,
        });
        let all = whole.evaluation.unseen_cases().mean_over_networks();
        let learning = curve(points.chain(all.map(|mape| LearningPoint { rows: self.fitted.rows.len(), mape })));
        let left_out = self.left_out(answers, method, &whole);
        MethodTests { method, whole, left_out, learning }
    }

    /// Networks that no fit has seen need no further fit to be left out.
    fn left_out(&self, answers: &TrialResults, method: FitMethod, whole: &Trial) -> Option<Trial> {
        let is_one = |fit: &PlannedFit| matches!(fit, PlannedFit::Without(_));
        let wanted = self.planned.iter().filter(|(of, fit)| of.method == method && is_one(fit)).count();
        let trials: Vec<Trial> =
            self.find(answers, method).filter(|(fit, _)| is_one(fit)).map(|(_, trial)| trial.clone()).collect();
        let possible = self.can_leave_out() && trials.len() == wanted && !self.tested.rows.is_empty();
        let fitted = networks(&self.fitted);
        let unknown = whole.of_networks(|name| !fitted.iter().any(|known| known == name));
        possible.then(|| trials.into_iter().chain([unknown]).collect())
    }

    fn find<'b>(
        &'b self,
        answers: &'b TrialResults,
        method: FitMethod,
    ) -> impl Iterator<Item = (&'b PlannedFit, &'b Trial)> {
        let pairs = self.planned.iter().zip(answers);
        pairs.filter_map(move |((of, fit), answer)| Some((fit, answer.as_ref().ok().filter(|_| of.method == method)?)))
    }

    fn missing(&self, answers: &TrialResults) -> Vec<String> {
        let few = format!("leaving a network out takes at least {FEWEST_NETWORKS} networks to fit on");
        let few = (!self.can_leave_out()).then_some(few);
        let failed = answers.iter().filter_map(|answer| Some(answer.as_ref().err()?.to_string()));
        let mut missing: Vec<String> = few.into_iter().chain(failed).collect();
        missing.dedup();
        missing
    }
}

/// The tested rows and, at levels that are not tested, the fitted rows of the tested networks.
fn with_fitted<'a>(tested: &Observations<'a>, fitted: &Observations<'a>) -> ObservationSubset<'a> {
    let levels: BTreeSet<(&str, u8)> = tested.rows.iter().map(|row| level(&row.record.variant)).collect();
    let networks = networks(tested);
    let mut all = ObservationSubset::select(fitted, |variant| {
        networks.contains(&variant.network) && !levels.contains(&level(variant))
    });
    all.add(ObservationSubset::select(tested, |_| true));
    all
}

fn level(variant: &Variant) -> (&str, u8) {
    (&variant.network, variant.level)
}
