//! Measured rows as samples: of the device's parameters, of single operations, of whole steps.

use super::fit::Observed;
use super::layers::{self, Corrections};
use super::parts::Parts;
use super::physics::Physics;
use super::residual::{self, Left};
use super::step::StepTime;
use super::terms::Rules;
use crate::fingerprint::rows::Row;
use perf4sight_step::workload::Workload;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Maximum weight of all rows of one network, in rows. Up to this number each row weighs one; further rows of the
/// same network add no information.
const NETWORK_WEIGHT: f64 = 20.0;

/// Weight of all operations of a step together, in whole steps.
const LAYERS_WEIGHT: f64 = 1.0;

/// More timed operations than this do not improve the parameters. Of more, every n-th is taken, with an offset per
/// row.
const MOST_OPERATIONS: usize = 5000;

/// Every row as a sample of the parameters, plus its timed operations, which together weigh as much again.
pub(super) fn observed(rules: Rules, rows: &[&Row]) -> Vec<Observed> {
    let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
    rows.iter().for_each(|row| *counts.entry(&row.record.variant.network).or_default() += 1.0);
    let every = (rows.iter().map(|row| row.layers.len()).sum::<usize>() / MOST_OPERATIONS).max(1);
    let observe = |(index, row): (usize, &&Row)| {
        let Workload { step, batch } = row.record.workload;
        let (parts, batch) = (Parts::new(&row.network, step), batch as f64);
        let weight = (NETWORK_WEIGHT / counts[row.record.variant.network.as_str()]).min(1.0);
        let step = StepTime::new(rules, &parts, batch);
        let mut observed = vec![Observed { step, milliseconds: row.measured, weight }];
        let samples = layers::samples(row, &parts).into_iter();
        let samples: Vec<layers::Sample> = samples.skip(index % every).step_by(every).collect();
        let total: f64 = samples.iter().map(|sample| sample.milliseconds).sum();
        observed.extend(samples.into_iter().map(|layers::Sample { kernels, milliseconds }| Observed {
            step: StepTime::part(rules, kernels.iter(), batch),
            milliseconds,
            weight: LAYERS_WEIGHT * weight * milliseconds / total,
        }));
        observed
    };
    rows.par_iter().enumerate().flat_map_iter(observe).collect()
}

pub(super) fn operations(rows: &[&Row], physics: &[Physics]) -> Vec<layers::Left> {
    let left = |(row, physics): (&&Row, &Physics)| -> Vec<layers::Left> {
        let batch = row.record.workload.batch as f64;
        let samples = layers::samples(row, physics.parts()).into_iter();
        let left = |layers::Sample { kernels, milliseconds }| {
            let physical = physics.part(kernels, batch);
            layers::Left::new(physics.operation(kernels, batch, physical), milliseconds)
        };
        samples.map(left).collect()
    };
    rows.par_iter().zip(physics).flat_map_iter(left).collect()
}

pub(super) fn steps(rows: &[&Row], physics: &[Physics], corrections: &Corrections) -> Vec<Left> {
    let left = |(row, physics): (&&Row, &Physics)| {
        let batch = row.record.workload.batch as f64;
        let spent = physics.spent(&physics.timed(corrections, batch));
        let residual = (row.measured / spent.corrected).ln();
        Left { features: residual::features(&spent, batch), batch, residual }
    };
    rows.par_iter().zip(physics).map(left).collect()
}
