//! The published method: extremely randomised trees on the published features, fitted on the raw value.

use super::FingerprintSubject;
use super::prediction::Predictor;
use super::recipe::FitRecipe;
use super::rows::MeasuredRow;
use crate::features::{FeatureSchema, features, names};
use crate::trees::{ExtraTrees, Forest};
use linfa::dataset::Dataset;
use linfa::traits::Fit;
use ndarray::{Array1, Array2};
use perf4sight_base::error::{Error, Result};
use perf4sight_network::Network;
use perf4sight_step::workload::{Quantity, Step, Workload};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PublishedModel {
    features: FeatureSchema,
    forest: Forest,
}

impl PublishedModel {
    /// Repeated rows stay repeated, as published: each weighs as often as it was measured.
    pub(super) fn fit(step: Step, recipe: FitRecipe, rows: &[MeasuredRow]) -> Result<Self> {
        let mut matrix = Array2::zeros((rows.len(), names(step.stage).len()));
        for (mut line, row) in matrix.rows_mut().into_iter().zip(rows) {
            line.assign(&Array1::from(features(&row.network, row.record.workload)));
        }
        let values: Array1<f64> = rows.iter().map(|row| row.measured).collect();
        let forest = ExtraTrees::params(recipe.seed).trees(recipe.trees).fit(&Dataset::new(matrix, values))?;
        Ok(PublishedModel { features: FeatureSchema::for_stage(step.stage), forest })
    }

    pub(super) fn about<'a>(&'a self, subject: &FingerprintSubject, network: &'a Network) -> PreparedForest<'a> {
        PreparedForest { forest: &self.forest, network, step: subject.step, quantity: subject.quantity }
    }

    pub(super) fn trees(&self) -> usize {
        self.forest.trees()
    }

    pub(super) fn check(&self, step: Step) -> Result<()> {
        let (stored, ours) = (&self.features, FeatureSchema::for_stage(step.stage));
        let (width, expected) = (self.forest.features(), names(step.stage).len());
        if (stored, width) == (&ours, expected) {
            return Ok(());
        }
        let problem = format!("this fingerprint was fitted on {width} features, {stored}");
        Err(Error::input(problem).expected(format!("the {expected} features of this program, {ours}")))
    }
}

/// One network, ready for predictions; the method has no intervals and verdicts.
pub(super) struct PreparedForest<'a> {
    forest: &'a Forest,
    network: &'a Network,
    step: Step,
    quantity: Quantity,
}

impl Predictor for PreparedForest<'_> {
    fn predict(&self, batch: u64) -> f64 {
        self.forest.predict_row(&features(self.network, Workload { step: self.step, batch }))
    }

    fn counted_need(&self, batch: u64) -> Option<f64> {
        (self.quantity == Quantity::Memory).then(|| self.predict(batch))
    }
}
