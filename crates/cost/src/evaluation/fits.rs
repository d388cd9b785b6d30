//! The fits of a study, all planned before the first begins.

use super::learning::{Draw, Learned, curve};
use super::left_out::Protocol;
use super::share::{Share, networks};
use super::study::{Noise, Protocols, Study};
use super::trial::Trial;
use crate::fingerprint::{Fingerprint, Method, Observations, Recipe};
use crate::records::Variant;
use perf4sight_base::error::Result;
use rayon::prelude::*;
use std::collections::BTreeSet;

/// Fewer networks than this cannot be left out in turn: a fit on a single one has no information on how networks
/// differ.
const FEWEST_NETWORKS: usize = 3;

/// The fits that study one fingerprint.
pub struct Fits<'a> {
    fingerprint: &'a Fingerprint,
    fitted: Observations<'a>,
    tested: Observations<'a>,
    /// The tested rows at levels not fitted on.
    unseen: Share<'a>,
    /// All rows of the tested networks: for a fit without a network, its fitted levels are as new as the others.
    all: Share<'a>,
    planned: Vec<(Recipe, Fit)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Fit {
    Whole,
    Without(String),
    On(Draw),
}

/// Trials in the order of the fits that gave them.
type Answers = Vec<Result<Trial>>;

impl<'a> Fits<'a> {
    /// Plans the fits for a fingerprint of `fitted`, which are tested on `tested`.
    pub fn new(fingerprint: &'a Fingerprint, fitted: Observations<'a>, tested: Observations<'a>) -> Self {
        let unseen = Share::of(&tested, |variant| !fingerprint.knows(&variant.network, variant.level));
        let all = with_fitted(&tested, &fitted);
        let mut fits = Fits { fingerprint, fitted, tested, unseen, all, planned: Vec::new() };
        if !tested.rows.is_empty() {
            let own = fingerprint.recipe();
            fits.plan(own);
            if own.method != Method::Perf4sight {
                let published = own.by(Method::Perf4sight);
                fits.planned.push((published, Fit::Whole));
                fits.plan(published);
            }
        }
        fits
    }

    fn plan(&mut self, recipe: Recipe) {
        if self.can_leave_out() {
            let tested = networks(&self.tested);
            let both = networks(&self.fitted).into_iter().filter(|name| tested.contains(name));
            self.planned.extend(both.map(|name| (recipe, Fit::Without(name))));
        }
        if !self.unseen.rows.is_empty() {
            let draws = Draw::all(self.fitted.rows.len(), recipe.seed);
            self.planned.extend(draws.into_iter().map(|draw| (recipe, Fit::On(draw))));
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
    pub fn run(&self, done: impl Fn() + Sync) -> Study {
        let answer = |(recipe, fit): &(Recipe, Fit)| {
            let answer = self.answer(*recipe, fit);
            done();
            answer
        };
        let answers: Answers = self.planned.par_iter().map(answer).collect();
        let whole = Trial::of(self.fingerprint, self.tested.rows, self.tested.failed);
        let published = self.find(&answers, Method::Perf4sight).find(|(fit, _)| **fit == Fit::Whole);
        let published = published.map(|(_, trial)| self.protocols(&answers, Method::Perf4sight, trial.clone()));
        Study {
            own: self.protocols(&answers, self.fingerprint.recipe().method, whole),
            published,
            noise: Noise::of(self.fitted.rows.iter().chain(&self.unseen.rows)),
            missing: self.missing(&answers),
        }
    }

    fn answer(&self, recipe: Recipe, fit: &Fit) -> Result<Trial> {
        let protocol = Protocol { subject: self.fingerprint.subject().clone(), recipe };
        let on = |part: &Observations, tested: &Observations| -> Result<Trial> {
            Ok(Trial::of(&protocol.fit(part)?, tested.rows, tested.failed))
        };
        match fit {
            Fit::Whole => on(&self.fitted, &self.tested),
            Fit::On(draw) => on(&draw.of(&self.fitted).observations(), &self.unseen.observations()),
            Fit::Without(network) => {
                let others = Share::of(&self.fitted, |variant| variant.network != *network);
                let own = Share::of(&self.all.observations(), |variant| variant.network == *network);
                on(&others.observations(), &own.observations())
            }
        }
    }

    fn protocols(&self, answers: &Answers, method: Method, whole: Trial) -> Protocols {
        let points = self.find(answers, method).filter_map(|(fit, trial)| match fit {
            Fit::On(draw) => Some(Learned { rows: draw.rows, mape: trial.evaluation.mean_over_networks()? }),
            Fit::Whole | Fit::Without(_) => None,
        });
        let all = whole.evaluation.unseen().mean_over_networks();
        let learning = curve(points.chain(all.map(|mape| Learned { rows: self.fitted.rows.len(), mape })));
        let left_out = self.left_out(answers, method, &whole);
        Protocols { method, whole, left_out, learning }
    }

    /// Networks that no fit has seen need no further fit to be left out.
    fn left_out(&self, answers: &Answers, method: Method, whole: &Trial) -> Option<Trial> {
        let is_one = |fit: &Fit| matches!(fit, Fit::Without(_));
        let wanted = self.planned.iter().filter(|(of, fit)| of.method == method && is_one(fit)).count();
        let trials: Vec<Trial> =
            self.find(answers, method).filter(|(fit, _)| is_one(fit)).map(|(_, trial)| trial.clone()).collect();
        let possible = self.can_leave_out() && trials.len() == wanted && !self.tested.rows.is_empty();
        let fitted = networks(&self.fitted);
        let unknown = whole.of_networks(|name| !fitted.iter().any(|known| known == name));
        possible.then(|| trials.into_iter().chain([unknown]).collect())
    }

    fn find<'b>(&'b self, answers: &'b Answers, method: Method) -> impl Iterator<Item = (&'b Fit, &'b Trial)> {
        let pairs = self.planned.iter().zip(answers);
        pairs.filter_map(move |((of, fit), answer)| Some((fit, answer.as_ref().ok().filter(|_| of.method == method)?)))
    }

    fn missing(&self, answers: &Answers) -> Vec<String> {
        let few = format!("leaving a network out takes at least {FEWEST_NETWORKS} networks to fit on");
        let few = (!self.can_leave_out()).then_some(few);
        let failed = answers.iter().filter_map(|answer| Some(answer.as_ref().err()?.to_string()));
        let mut missing: Vec<String> = few.into_iter().chain(failed).collect();
        missing.dedup();
        missing
    }
}

/// The tested rows and, at levels that are not tested, the fitted rows of the tested networks.
fn with_fitted<'a>(tested: &Observations<'a>, fitted: &Observations<'a>) -> Share<'a> {
    let levels: BTreeSet<(&str, u8)> = tested.rows.iter().map(|row| level(&row.record.variant)).collect();
    let networks = networks(tested);
    let mut all = Share::of(fitted, |variant| networks.contains(&variant.network) && !levels.contains(&level(variant)));
    all.add(Share::of(tested, |_| true));
    all
}

fn level(variant: &Variant) -> (&str, u8) {
    (&variant.network, variant.level)
}
