//! Protocols that predict data left out of the fit: each network in turn, or some levels of each.

use super::Evaluation;
use super::share::{ObservationSubset, networks};
use super::trial::Trial;
use crate::fingerprint::{FEWEST_ROWS, Fingerprint, FingerprintSubject, FitRecipe, MeasuredRow, Observations};
use perf4sight_base::error::Result;
use perf4sight_platform::Platform;
use std::collections::BTreeSet;

/// How to fit while some data are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FitProtocol {
    /// The predicted quantity.
    pub subject: FingerprintSubject,
    /// What every fit is made with.
    pub recipe: FitRecipe,
}

/// One of several ways to fit.
#[derive(Debug, Clone, Copy)]
pub struct FitCandidate<'a> {
    /// What its fits are made with.
    pub recipe: FitRecipe,
    /// The assumed platform of the device.
    pub platform: &'a Platform,
}

/// The candidate chosen for one network without seeing it, and its results.
#[derive(Debug, Clone)]
pub struct ChosenFit {
    /// The network that was left out.
    pub network: String,
    /// The index of the candidate that was chosen for it, from 0.
    pub candidate: usize,
    /// Its predictions for that network.
    pub trial: Trial,
}

impl FitProtocol {
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
    pub fn networks_calibrated(
        &self,
        observations: &Observations,
        measured: impl Fn(&MeasuredRow) -> bool,
    ) -> Result<Trial> {
        self.each_left_out(observations, |rows| rows.iter().filter(|row| measured(row)).cloned().collect())
    }

    fn each_left_out(
        &self,
        observations: &Observations,
        measured: impl Fn(&[MeasuredRow]) -> Vec<MeasuredRow>,
    ) -> Result<Trial> {
        let mut left_out = Vec::new();
        for name in networks(observations) {
            let others = ObservationSubset::select(observations, |variant| variant.network != name);
            if others.rows.len() < FEWEST_ROWS {
                continue;
            }
            let own = ObservationSubset::select(observations, |variant| variant.network == name);
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
    pub fn choose_nested(&self, candidates: &[FitCandidate], observations: &Observations) -> Result<Vec<ChosenFit>> {
        let mut chosen = Vec::new();
        for network in networks(observations) {
            let others = ObservationSubset::select(observations, |variant| variant.network != network);
            let own = ObservationSubset::select(observations, |variant| variant.network == network);
            if let Some(candidate) = self.choose(candidates, &others)? {
                let fingerprint =
                    self.with(&candidates[candidate]).fit(&others.on_platform(candidates[candidate].platform))?;
                chosen.push(ChosenFit { trial: try_without(&fingerprint, &own, &[]), network, candidate });
            }
        }
        Ok(chosen)
    }

    fn choose(&self, candidates: &[FitCandidate], share: &ObservationSubset) -> Result<Option<usize>> {
        let mut best: Option<(f64, usize)> = None;
        for (index, candidate) in candidates.iter().enumerate() {
            let trial = self.with(candidate).networks_left_out(&share.on_platform(candidate.platform))?;
            if let Some(error) = trial.evaluation.mean_over_networks()
                && best.is_none_or(|(least, _)| error < least)
            {
                best = Some((error, index));
            }
        }
        Ok(best.map(|(_, index)| index))
    }

    fn with(&self, candidate: &FitCandidate) -> Self {
        FitProtocol { recipe: candidate.recipe, ..self.clone() }
    }

    /// Fits only the `fitted` levels of each network, and predicts its others.
    ///
    /// # Errors
    /// When a fit fails.
    pub fn levels_left_out(&self, observations: &Observations, fitted: &BTreeSet<u8>) -> Result<Evaluation> {
        let mut cases = Vec::new();
        for name in networks(observations) {
            let part = |known: bool| {
                ObservationSubset::select(observations, |variant| {
                    variant.network == name && fitted.contains(&variant.level) == known
                })
            };
            let known = part(true);
            if known.rows.len() >= FEWEST_ROWS {
                let fingerprint = self.fit(&known.observations())?;
                cases.extend(Evaluation::from_rows(&fingerprint, &part(false).rows).cases);
            }
        }
        Ok(Evaluation { cases })
    }
}

/// Predictions for a network's rows, except those that are `known` to the fingerprint; verdicts cover all of them.
pub(super) fn try_without(fingerprint: &Fingerprint, own: &ObservationSubset, known: &[MeasuredRow]) -> Trial {
    let mut trial = Trial::run(fingerprint, &own.rows, &own.failed);
    if !known.is_empty() {
        let is_known = |row: &&MeasuredRow| known.iter().any(|known| known.record == row.record);
        let rows: Vec<MeasuredRow> = own.rows.iter().filter(|row| !is_known(row)).cloned().collect();
        trial.evaluation = Evaluation::from_rows(fingerprint, &rows);
    }
    trial
}
