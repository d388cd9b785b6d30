//! Latency by physics: every kernel of a step takes as long as a few parameters of the device say, launches run beside them, the
//! parameters are fitted to measured steps, and trees correct, within bounds, what is left. How close it comes stands in `ACCURACY.md`.

mod fit;
mod layers;
mod normal;
mod parts;
mod physics;
mod processor;
mod residual;
mod step;
mod term;
mod terms;

use super::architecture::architecture;
use super::folds::{FOLDS, Folds};
use super::observations::Observations;
use super::rows::Row;
use super::shares::{Share, Shares, TimedOperation};
use super::spread::{Residuals, Spread};
use crate::error::{Error, Result};
use crate::features::physical::Class;
use crate::network::Network;
use crate::records::Variant;
use crate::target::{Parameter, Target};
use crate::units::Milliseconds;
use crate::workload::Stage;
use fit::{Belief, Observed};
use layers::{Corrections, Sample};
use normal::Normal;
use parts::Parts;
use physics::Physics;
use rayon::prelude::*;
use residual::{Curve, Left, Residual};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use step::Step;
use terms::Rules;

/// What all rows of one network weigh together, in rows: a row weighs one as long as there are fewer, beyond that rows of one
/// network only say the same again.
const NETWORK_WEIGHT: f64 = 20.0;

/// What all operations of a step weigh together, in whole steps.
const LAYERS_WEIGHT: f64 = 1.0;

/// More timed operations than this teach the parameters nothing; only every n-th of more is taken, another n-th of every row.
const MOST_OPERATIONS: usize = 5000;

/// The fitted latency of one device and stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Latency {
    target: Target,
    /// What is believed of the parameters, and how firmly: all that a later refit needs of the rows.
    belief: Belief,
    /// None from a profile without layer rows.
    #[serde(default, skip_serializing_if = "Corrections::is_empty")]
    corrections: Corrections,
    residual: Residual,
    spread: Option<Spread>,
}

/// One network, ready to be asked about.
pub(super) struct Prepared<'a> {
    network: &'a Network,
    corrections: &'a Corrections,
    physics: Physics<'a>,
    curve: Curve,
}

impl Latency {
    pub fn fit(stage: Stage, seed: u64, observations: &Observations) -> Result<Self> {
        let all: Vec<&Row> = observations.rows.iter().collect();
        let mut fitted = Self::fit_rows(stage, seed, observations.target, &all)?;
        let networks = Self::left_out(stage, seed, observations, &|variant| variant.network.clone())?;
        let levels = levels_left_out(stage, seed, observations)?;
        fitted.spread = Spread::new(&networks).map(|spread| spread.with_levels(levels));
        Ok(fitted)
    }

    /// Residuals of every group of variants, predicted from all others; none where the others are too few to fit.
    pub fn left_out<G: Ord + Send + Sync>(
        stage: Stage,
        seed: u64,
        observations: &Observations,
        group: &(impl Fn(&Variant) -> G + Sync),
    ) -> Result<Vec<Residuals>> {
        let groups: BTreeSet<G> = observations.rows.iter().map(|row| group(&row.record.variant)).collect();
        let groups: Vec<G> = groups.into_iter().collect();
        let residuals = groups.par_iter().map(|name| {
            let (own, others): (Vec<&Row>, Vec<&Row>) =
                observations.rows.iter().partition(|row| group(&row.record.variant) == *name);
            if others.is_empty() {
                return Ok(Residuals::new());
            }
            let fitted = Self::fit_rows(stage, seed, observations.target, &others)?;
            Ok(own.iter().map(|row| fitted.residual(stage, row)).collect())
        });
        residuals.collect()
    }

    fn fit_rows(stage: Stage, seed: u64, target: &Target, rows: &[&Row]) -> Result<Self> {
        let rules = Rules { speed: &target.speed, target };
        let belief = fit::fit(&Belief::before(target), &observed(rules, stage, rows));
        let physics: Vec<Physics> =
            rows.par_iter().map(|row| Physics::new(rules, belief.values(), &row.network, stage)).collect();
        let corrections = Corrections::fit(seed, &operations(rows, &physics))?;
        let residual = Residual::fit(seed, &steps(rows, &physics, &corrections))?;
        Ok(Latency { target: target.clone(), belief, corrections, residual, spread: None })
    }

    /// Renewed by rows of networks it was not fitted on, each network weighing as much as every one before.
    pub fn calibrate(&self, stage: Stage, rows: &[Row]) -> Self {
        let rows: Vec<&Row> = rows.iter().collect();
        let rules = Rules { speed: &self.target.speed, target: &self.target };
        Latency { belief: fit::fit(&self.belief, &observed(rules, stage, &rows)), ..self.clone() }
    }

    pub fn about<'a>(&'a self, stage: Stage, network: &'a Network) -> Prepared<'a> {
        let rules = Rules { speed: &self.target.speed, target: &self.target };
        let physics = Physics::new(rules, self.belief.values(), network, stage);
        Prepared {
            network,
            corrections: &self.corrections,
            curve: self.residual.curve(&physics, &self.corrections),
            physics,
        }
    }

    /// Refuses what a file says that no fit could have said.
    ///
    /// # Errors
    /// Trees of other portraits.
    pub fn check(&self) -> Result<()> {
        self.target.check()?;
        match self.residual.is_sound() && self.corrections.is_sound() {
            true => Ok(()),
            false => Err(Error::input("what it fitted to latency does not fit together")),
        }
    }

    pub fn spread(&self) -> Option<&Spread> {
        self.spread.as_ref()
    }

    /// Natural logarithm of measured over predicted.
    fn residual(&self, stage: Stage, row: &Row) -> f64 {
        (row.measured / self.about(stage, &row.network).at(row.record.workload.batch)).ln()
    }
}

impl Prepared<'_> {
    /// Milliseconds of a step of `batch` samples.
    pub fn at(&self, batch: u64) -> f64 {
        self.curve.at(self.physics.time(batch as f64))
    }

    /// The parts of a row that were timed one by one, beside what is predicted for each.
    pub fn operations(&self, row: &Row) -> Vec<TimedOperation> {
        let batch = row.record.workload.batch as f64;
        let timed = |sample: Sample| {
            let physical = self.physics.part(sample.kernels, batch);
            let operation = self.physics.operation(sample.kernels, batch, physical);
            TimedOperation {
                class: sample.kernels[0].class.name(),
                measured: Milliseconds(sample.milliseconds),
                predicted: Milliseconds(physical * self.corrections.factor(operation)),
            }
        };
        layers::samples(row, self.physics.parts()).into_iter().map(timed).collect()
    }

    /// Where those milliseconds go.
    pub fn shares(&self, batch: u64) -> Shares {
        let batch_size = batch as f64;
        let classes = self.physics.spent(self.corrections, batch_size).classes;
        let scale = self.at(batch) / classes.iter().sum::<f64>();
        let share = |name: &str, time: f64| Share { name: name.to_owned(), latency: Milliseconds(time * scale) };
        let classes = Class::ALL.into_iter().zip(classes).filter(|(_, time)| *time > 0.0);
        let nodes = self.physics.nodes(self.corrections, batch_size).into_iter();
        let nodes = nodes.map(|(node, time)| share(&self.network.node(node).name, time));
        let costliest_first = |mut shares: Vec<Share>| {
            shares.sort_by(|a, b| b.latency.0.total_cmp(&a.latency.0));
            shares
        };
        Shares {
            classes: costliest_first(classes.map(|(class, time)| share(class.name(), time)).collect()),
            layers: costliest_first(nodes.collect()),
        }
    }
}

impl Belief {
    /// What is believed before anything is measured.
    fn before(target: &Target) -> Self {
        // No prior is so firm that the equations could not be solved.
        const FIRMEST: f64 = 1e-6;
        let priors = Parameter::ALL.map(|parameter| target.speed.prior(parameter));
        let mut certainty = Normal::zero();
        for (index, prior) in priors.iter().enumerate() {
            certainty.matrix[index][index] = prior.spread.max(FIRMEST).powi(-2);
        }
        Belief { center: priors.map(|prior| prior.typical.ln()), certainty }
    }
}

/// Every row as a sample of the parameters, and its operations that were timed, which together weigh as much again.
fn observed(rules: Rules, stage: Stage, rows: &[&Row]) -> Vec<Observed> {
    let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
    rows.iter().for_each(|row| *counts.entry(&row.record.variant.network).or_default() += 1.0);
    let every = (rows.iter().map(|row| row.layers.len()).sum::<usize>() / MOST_OPERATIONS).max(1);
    let observe = |(index, row): (usize, &&Row)| {
        let (parts, batch) = (Parts::new(&row.network, stage), row.record.workload.batch as f64);
        let weight = (NETWORK_WEIGHT / counts[row.record.variant.network.as_str()]).min(1.0);
        let step = Step::new(rules, &parts, batch);
        let mut observed = vec![Observed { step, milliseconds: row.measured, weight }];
        let samples = layers::samples(row, &parts).into_iter();
        let samples: Vec<Sample> = samples.skip(index % every).step_by(every).collect();
        let total: f64 = samples.iter().map(|sample| sample.milliseconds).sum();
        observed.extend(samples.into_iter().map(|Sample { kernels, milliseconds }| Observed {
            step: Step::part(rules, kernels.iter(), batch),
            milliseconds,
            weight: LAYERS_WEIGHT * weight * milliseconds / total,
        }));
        observed
    };
    rows.par_iter().enumerate().flat_map_iter(observe).collect()
}

/// What physics leaves open of every operation that was timed.
fn operations(rows: &[&Row], physics: &[Physics]) -> Vec<layers::Left> {
    let left = |(row, physics): (&&Row, &Physics)| -> Vec<layers::Left> {
        let batch = row.record.workload.batch as f64;
        let samples = layers::samples(row, physics.parts()).into_iter();
        let left = |Sample { kernels, milliseconds }| {
            let physical = physics.part(kernels, batch);
            layers::Left::of(physics.operation(kernels, batch, physical), milliseconds)
        };
        samples.map(left).collect()
    };
    rows.par_iter().zip(physics).flat_map_iter(left).collect()
}

/// What physics and corrected operations leave open of every row.
fn steps(rows: &[&Row], physics: &[Physics], corrections: &Corrections) -> Vec<Left> {
    let left = |(row, physics): (&&Row, &Physics)| {
        let batch = row.record.workload.batch as f64;
        let spent = physics.spent(corrections, batch);
        let residual = (row.measured / spent.corrected).ln();
        Left { portrait: residual::portrait(&spent, batch), batch, residual }
    };
    rows.par_iter().zip(physics).map(left).collect()
}

/// Residuals of levels, predicted from the other levels of their network and all other networks, by architecture.
fn levels_left_out(stage: Stage, seed: u64, observations: &Observations) -> Result<BTreeMap<String, Residuals>> {
    let variants = || observations.rows.iter().map(|row| &row.record.variant);
    let folds = Folds::new(variants().map(|variant| (variant.network.as_str(), variant.level)));
    let residuals = (0..FOLDS).into_par_iter().map(|fold| -> Result<Vec<(String, f64)>> {
        let held = |row: &&Row| folds.holds(fold, &row.record.variant.network, row.record.variant.level);
        let (own, others): (Vec<&Row>, Vec<&Row>) = observations.rows.iter().partition(held);
        if own.is_empty() || others.is_empty() {
            return Ok(Vec::new());
        }
        let fitted = Latency::fit_rows(stage, seed, observations.target, &others)?;
        Ok(own.into_iter().map(|row| (architecture(&row.network), fitted.residual(stage, row))).collect())
    });
    let mut levels: BTreeMap<String, Residuals> = BTreeMap::new();
    for (architecture, residual) in residuals.collect::<Result<Vec<_>>>()?.into_iter().flatten() {
        levels.entry(architecture).or_default().push(residual);
    }
    Ok(levels)
}
