//! Latency by physics. A few parameters of the device give the time of every kernel of a step; launches overlap with
//! the kernels. The parameters are fitted to measured steps, and trees correct the rest within bounds. The accuracy
//! is in `docs/accuracy/latency.md`.

mod accelerator;
mod cholesky;
mod effects;
mod fit;
mod layers;
mod mixture;
mod narrow;
mod observed;
mod parts;
mod physics;
mod posterior;
mod predicted_steps;
mod prepared;
mod prior;
mod processor;
mod requested_step;
mod residual;
mod rules;
mod sample;
mod step;
mod term;
mod terms;

use super::cross_validation::{Folds, Residuals, WIDEST, leave_out, widths};
use super::distribution::{Extrapolation, architecture};
use super::prediction::{IntervalBasis, StepPredictors};
use super::rows::{MeasuredRow, Observations};
use crate::records::Variant;
use cholesky::{Cholesky, NormalEquations};
use effects::EffectVariances;
use fit::ParameterBelief;
use layers::OperationCorrections;
use narrow::{NarrowFactors, NarrowObservation};
use observed::{observed_steps, operations, steps};
use parts::NetworkSteps;
use perf4sight_base::error::{Error, Result};
use perf4sight_network::Network;
use perf4sight_platform::{Platform, SpeedParameter};
use perf4sight_step::workload::{Precision, Step};
use physics::PhysicalModel;
use predicted_steps::PredictedSteps;
use prepared::{PreparedLatency, strangeness};
use prior::{PriorPredictor, SampledDevices};
use rayon::prelude::*;
use requested_step::RequestedStep;
use residual::StepCorrections;
use sample::ResidualSample;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use terms::DeviceRules;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LatencyModel {
    #[serde(rename = "target")]
    platform: Platform,
    /// The distribution of the parameters: all that a later refit needs of the rows.
    belief: ParameterBelief,
    /// None from a profile without layer rows.
    #[serde(default, skip_serializing_if = "OperationCorrections::is_empty")]
    corrections: OperationCorrections,
    residual: StepCorrections,
    /// The variation of networks, levels and rows.
    effects: EffectVariances,
    /// Widths of intervals for further levels of the profiled networks, by architecture.
    levels: BTreeMap<String, f64>,
    /// Rows of networks that it was calibrated with, by architecture.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    calibrated: BTreeMap<String, Vec<ResidualSample>>,
    /// Learned from rows of other precisions than the profiled one, by precision.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    narrow: BTreeMap<Precision, NarrowFactors>,
}

impl LatencyModel {
    pub fn fit(step: Step, seed: u64, observations: &Observations) -> Result<Self> {
        let all: Vec<&MeasuredRow> = observations.rows.iter().collect();
        let mut fitted = Self::fit_rows(seed, observations, &all)?;
        let networks = Self::samples_left_out(step, seed, observations, |variant| Some(variant.network.clone()))?;
        fitted.effects = EffectVariances::learn(&networks);
        fitted.levels = widths(levels_left_out(step, seed, observations)?);
        Ok(fitted)
    }

    /// What the intervals of other networks rest on: of a single one there is none that was left out.
    fn basis_for_others(&self) -> IntervalBasis {
        if self.levels.len() == 1 { IntervalBasis::Estimated } else { IntervalBasis::Networks }
    }

    /// The prior of a device, before any measurement on it.
    pub fn prior(platform: &Platform) -> Self {
        LatencyModel {
            platform: platform.clone(),
            belief: ParameterBelief::prior(platform),
            corrections: OperationCorrections::default(),
            residual: StepCorrections::unfitted(),
            effects: EffectVariances::learn(&[]),
            levels: BTreeMap::new(),
            calibrated: BTreeMap::new(),
            narrow: BTreeMap::new(),
        }
    }

    /// Residuals of every group of variants, predicted from all others; none where there are no others.
    pub fn left_out<G: Ord + Send + Sync>(
        step: Step,
        seed: u64,
        observations: &Observations,
        group: &(impl Fn(&Variant) -> G + Sync),
    ) -> Result<Vec<Residuals>> {
        let samples = Self::samples_left_out(step, seed, observations, |variant| Some(group(variant)))?;
        let residuals = |samples: Vec<ResidualSample>| samples.iter().map(|sample| sample.residual).collect();
        Ok(samples.into_iter().map(residuals).collect())
    }

    fn samples_left_out<G: Ord + Send + Sync>(
        step: Step,
        seed: u64,
        observations: &Observations,
        group: impl Fn(&Variant) -> Option<G> + Sync,
    ) -> Result<Vec<Vec<ResidualSample>>> {
        let samples = |own: &[&MeasuredRow], others: &[&MeasuredRow]| {
            if others.is_empty() {
                return Ok(Vec::new());
            }
            let fitted = Self::fit_rows(seed, observations, others)?;
            Ok(own.iter().map(|row| fitted.sample(step, row)).collect())
        };
        leave_out(observations.rows, |row| group(&row.record.variant), samples).into_iter().collect()
    }

    /// Fits on some of the rows and on the rows of calibration networks, each with its own step.
    fn fit_rows(seed: u64, observations: &Observations, rows: &[&MeasuredRow]) -> Result<Self> {
        let platform = observations.platform;
        let rules = DeviceRules { speed: &platform.speed, platform };
        let all: Vec<&MeasuredRow> = rows.iter().copied().chain(observations.taught).collect();
        let belief = fit::fit(&ParameterBelief::prior(platform), &observed_steps(rules, &all));
        let physics =
            |row: &&MeasuredRow| PhysicalModel::new(rules, belief.values(), &row.network, row.record.workload.step);
        let physics: Vec<PhysicalModel> = all.par_iter().map(physics).collect();
        let corrections = OperationCorrections::fit(seed, &operations(&all, &physics))?;
        // Whole steps of attention alone are not representative of networks.
        let residual = StepCorrections::fit(seed, &steps(rows, &physics[..rows.len()], &corrections))?;
        Ok(LatencyModel { belief, corrections, residual, ..Self::prior(platform) })
    }

    /// The same with rows of networks that it was not fitted on, which give the effects of those networks. Rows at
    /// another precision than the profiled one give the device's speed at that precision, for any network.
    pub fn calibrate(&self, step: Step, rows: &[MeasuredRow]) -> Self {
        let mut renewed = self.clone();
        let (own, others): (Vec<&MeasuredRow>, Vec<&MeasuredRow>) =
            rows.iter().partition(|row| row.record.workload.step.precision == step.precision);
        for row in own {
            renewed.calibrated.entry(architecture(&row.network)).or_default().push(self.sample(step, row));
        }
        let mut by_precision: BTreeMap<Precision, Vec<&MeasuredRow>> = BTreeMap::new();
        for row in others {
            by_precision.entry(row.record.workload.step.precision).or_default().push(row);
        }
        for (precision, rows) in by_precision {
            let known = self.narrow.get(&precision).copied().unwrap_or_else(|| NarrowFactors::prior(&self.platform));
            renewed.narrow.insert(precision, known.updated(&self.narrow_observations(step, &rows)));
        }
        renewed
    }

    /// Measured times of rows at another precision, each with a function that predicts it from assumed speeds at that
    /// precision.
    fn narrow_observations<'a>(&'a self, own: Step, rows: &[&'a MeasuredRow]) -> Vec<NarrowObservation<'a>> {
        let promise = |row: &&'a MeasuredRow| -> NarrowObservation<'a> {
            let (network, batch) = (&*row.network, row.record.workload.batch);
            let steps = parts::NetworkSteps::new(network);
            let profiled =
                PreparedLatency::new(self, PredictedSteps::new(self, &steps, own), &Extrapolation::default());
            let (likely, promised) = (profiled.milliseconds(batch), profiled.promise.milliseconds(batch));
            let asked = self.physics(row.record.workload.step, &steps);
            let predicted = move |narrow: &NarrowFactors| {
                let asked = asked.clone().with(Some(*narrow));
                let timed = asked.part_times(&self.corrections, batch as f64);
                likely * asked.breakdown(&timed).corrected / promised
            };
            (row.measured, Box::new(predicted) as _)
        };
        rows.iter().map(promise).collect()
    }

    /// Whether the latency of steps at a precision was learned from rows, in addition to the profiled precision.
    pub fn knows(&self, precision: Precision) -> bool {
        self.narrow.contains_key(&precision)
    }

    pub fn steps<'a>(
        &'a self,
        profiled: Step,
        network: &'a Network,
        extrapolation: &Extrapolation,
    ) -> StepPredictors<'a> {
        let steps = parts::NetworkSteps::new(network);
        if !self.residual.is_taught() {
            let devices = prior::draw(&self.platform);
            return Box::new(move |step, extrapolation| {
                Box::new(self.prior_predictor(step, &steps, extrapolation, &devices))
            });
        }
        let own = Arc::new(PreparedLatency::new(self, PredictedSteps::new(self, &steps, profiled), extrapolation));
        Box::new(move |step, _| {
            let promise = |step| PredictedSteps::new(self, &steps, step);
            let asked = (step != profiled).then(|| promise(step));
            let alike = || promise(Step { precision: profiled.precision, ..step });
            let narrow = self.narrow.get(&step.precision).map(|narrow| (alike(), *narrow));
            Box::new(RequestedStep { profiled: Arc::clone(&own), asked, narrow })
        })
    }

    fn prior_predictor<'a>(
        &'a self,
        step: Step,
        steps: &NetworkSteps<'a>,
        extrapolation: &Extrapolation,
        devices: &Arc<[SampledDevices]>,
    ) -> PriorPredictor<'a> {
        let physics = self.physics(step, steps);
        let strangeness = strangeness(steps.network, &physics, &self.corrections, 1.0, extrapolation);
        PriorPredictor::new(Arc::clone(devices), physics, strangeness)
    }

    /// The device that was profiled.
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    /// Whether this is the prior, without any rows.
    pub fn is_belief(&self) -> bool {
        !self.residual.is_taught()
    }

    fn parameter_uncertainty(&self) -> Option<Cholesky> {
        self.belief.uncertainty(&ParameterBelief::prior(&self.platform))
    }

    fn physics(&self, step: Step, steps: &NetworkSteps) -> PhysicalModel<'_> {
        let rules = DeviceRules { speed: &self.platform.speed, platform: &self.platform };
        PhysicalModel::for_step(rules, self.belief.values(), steps, step)
            .with(self.narrow.get(&step.precision).copied())
    }

    /// Refuses a file that no fit can have written.
    ///
    /// # Errors
    /// Trees on other features, samples of other parameters.
    pub fn check(&self) -> Result<()> {
        self.platform.check()?;
        let trees = self.residual.is_valid() && self.corrections.is_valid();
        let samples = self.calibrated.values().flatten().all(ResidualSample::is_valid);
        let samples = samples && self.narrow.values().all(NarrowFactors::is_valid);
        if !(self.effects.is_valid() && self.levels.values().all(|width| (0.0..=WIDEST).contains(width))) {
            return Err(Error::input("its intervals have widths that no fit gives"));
        }
        match trees && samples && self.parameter_uncertainty().is_some() {
            true => Ok(()),
            false => Err(Error::input("the parts of its model of latency do not belong together")),
        }
    }

    /// A row compared with the prediction for unknown networks.
    fn sample(&self, step: Step, row: &MeasuredRow) -> ResidualSample {
        let batch = row.record.workload.batch;
        let steps = parts::NetworkSteps::new(&row.network);
        let unknown = PreparedLatency::new(self, PredictedSteps::new(self, &steps, step), &Extrapolation::default());
        ResidualSample {
            residual: (row.measured / unknown.milliseconds(batch)).ln(),
            coordinates: unknown.coordinates(batch),
            spread: row.record.spread.unwrap_or(0.0),
        }
    }
}

impl ParameterBelief {
    fn prior(platform: &Platform) -> Self {
        // No prior is so firm that the equations could not be solved.
        const FIRMEST: f64 = 1e-6;
        let priors = SpeedParameter::ALL.map(|parameter| platform.speed.prior(parameter));
        let mut certainty = NormalEquations::zero();
        for (index, prior) in priors.iter().enumerate() {
            certainty.matrix[index][index] = prior.spread.max(FIRMEST).powi(-2);
        }
        ParameterBelief { center: priors.map(|prior| prior.typical.ln()), certainty }
    }
}

/// Residuals of levels, predicted from the other levels of their network and all other networks, by architecture.
fn levels_left_out(step: Step, seed: u64, observations: &Observations) -> Result<BTreeMap<String, Residuals>> {
    let variants = observations.rows.iter().map(|row| &row.record.variant);
    let folds = Folds::new(variants.map(|variant| (variant.network.as_str(), variant.level)));
    let residuals = |own: &[&MeasuredRow], others: &[&MeasuredRow]| -> Result<Vec<(String, f64)>> {
        if others.is_empty() {
            return Ok(Vec::new());
        }
        let fitted = LatencyModel::fit_rows(seed, observations, others)?;
        Ok(own.iter().map(|row| (architecture(&row.network), fitted.sample(step, row).residual)).collect())
    };
    let fold = |row: &MeasuredRow| folds.fold(&row.record.variant.network, row.record.variant.level);
    let mut levels: BTreeMap<String, Residuals> = BTreeMap::new();
    for of_fold in leave_out(observations.rows, fold, residuals) {
        for (architecture, residual) in of_fold? {
            levels.entry(architecture).or_default().push(residual);
        }
    }
    Ok(levels)
}
