//! Protocols that predict data left out of the fit: each network in turn, or some levels of each.

use super::Evaluation;
use super::share::{Share, networks};
use super::trial::Trial;
use crate::fingerprint::{FEWEST_ROWS, Fingerprint, Observations, Recipe, Row, Subject};
use perf4sight_base::error::Result;
use perf4sight_platform::Platform;
use std::collections::BTreeSet;

/// How to fit while some data are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protocol {
    /// The predicted quantity.
    pub subject: Subject,
    /// What every fit is made with.
    pub recipe: Recipe,
}

/// One of several ways to fit.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// What its fits are made with.
    pub recipe: Recipe,
    /// The assumed platform of the device.
    pub platform: &'a Platform,
}

/// The candidate chosen for one network without seeing it, and its results.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The network that was left out.
    pub network: String,
    /// The index of the candidate that was chosen for it, from 0.
    pub candidate: usize,
    /// Its predictions for that network.
    pub trial: Trial,
}

impl Protocol {
    pub(super) fn fit(&self, observations: &Observations) -> Result<Fingerprint> {
        Fingerprint::fit(self.subject.clone(), self.recipe, observations)
    }

    /// Leaves each network out once: all its levels are predicted from all levels of the others. Empty where there is only one.
    ///
    /// # Errors
    /// When a fit fails.
    pub fn networks_left_out(&self, observations: &Observations) -> Result<Trial> {
        self.each_left_out(observations, |_| Vec::new())
    }

    /// The same, but each fingerprint is calibrated with the rows of the new network that `measured` picks; those are
    /// not predicted.
    ///
    /// # Errors
    /// When a fit fails.
    pub fn networks_calibrated(&self, observations: &Observations, measured: impl Fn(&Row) -> bool) -> Result<Trial> {
        self.each_left_out(observations, |rows| rows.iter().filter(|row| measured(row)).cloned().collect())
    }

    fn each_left_out(&self, observations: &Observations, measured: impl Fn(&[Row]) -> Vec<Row>) -> Result<Trial> {
        let mut left_out = Vec::new();
        for name in networks(observations) {
            let others = Share::of(observations, |variant| variant.network != name);
            if others.rows.len() < FEWEST_ROWS {
                continue;
            }
            let own = Share::of(observations, |variant| variant.network == name);
            let known = measured(&own.rows);
            let fingerprint = self.fit(&others.observations())?;
            let fingerprint = if known.is_empty() { fingerprint } else { fingerprint.calibrate(&known, &[])? };
            left_out.push(try_without(&fingerprint, &own, &known));
        }
        Ok(left_out.into_iter().collect())
    }

    /// The best candidate on networks left out, chosen separately for every network from the others. The nested
    /// leave-out keeps the choice independent of the test. Networks for which nothing can be chosen are not in the
    /// result.
    ///
    /// # Errors
    /// When a fit fails.
    pub fn nested(&self, candidates: &[Candidate], observations: &Observations) -> Result<Vec<Chosen>> {
        let mut chosen = Vec::new();
        for network in networks(observations) {
            let others = Share::of(observations, |variant| variant.network != network);
            let own = Share::of(observations, |variant| variant.network == network);
            if let Some(candidate) = self.best(candidates, &others)? {
                let fingerprint = self.with(&candidates[candidate]).fit(&others.on(candidates[candidate].platform))?;
                chosen.push(Chosen { trial: try_without(&fingerprint, &own, &[]), network, candidate });
            }
        }
        Ok(chosen)
    }

    fn best(&self, candidates: &[Candidate], share: &Share) -> Result<Option<usize>> {
        let mut best: Option<(f64, usize)> = None;
        for (index, candidate) in candidates.iter().enumerate() {
            let trial = self.with(candidate).networks_left_out(&share.on(candidate.platform))?;
            if let Some(error) = trial.evaluation.mean_over_networks()
                && best.is_none_or(|(least, _)| error < least)
            {
                best = Some((error, index));
            }
        }
        Ok(best.map(|(_, index)| index))
    }

    fn with(&self, candidate: &Candidate) -> Self {
        Protocol { recipe: candidate.recipe, ..self.clone() }
    }

    /// Fits only the `fitted` levels of each network, and predicts its others.
    ///
    /// # Errors
    /// When a fit fails.
    pub fn levels_left_out(&self, observations: &Observations, fitted: &BTreeSet<u8>) -> Result<Evaluation> {
        let mut cases = Vec::new();
        for name in networks(observations) {
            let part = |known: bool| {
                Share::of(observations, |variant| variant.network == name && fitted.contains(&variant.level) == known)
            };
            let known = part(true);
            if known.rows.len() >= FEWEST_ROWS {
                let fingerprint = self.fit(&known.observations())?;
                cases.extend(Evaluation::of(&fingerprint, &part(false).rows).cases);
            }
        }
        Ok(Evaluation { cases })
    }
}

/// Predictions for a network's rows, except those that are `known` to the fingerprint; verdicts cover all of them.
pub(super) fn try_without(fingerprint: &Fingerprint, own: &Share, known: &[Row]) -> Trial {
    let mut trial = Trial::of(fingerprint, &own.rows, &own.failed);
    if !known.is_empty() {
        let is_known = |row: &&Row| known.iter().any(|known| known.record == row.record);
        let rows: Vec<Row> = own.rows.iter().filter(|row| !is_known(row)).cloned().collect();
        trial.evaluation = Evaluation::of(fingerprint, &rows);
    }
    trial
}
