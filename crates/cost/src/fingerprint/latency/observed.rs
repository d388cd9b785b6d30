//! Measured rows as samples: of the device's parameters, of single operations, of whole steps.

use super::fit::ObservedStep;
use super::layers::{self, OperationCorrections};
use super::parts::StepParts;
use super::physics::PhysicalModel;
use super::residual::{self, StepResidual};
use super::step::StepTime;
use super::terms::DeviceRules;
use crate::fingerprint::rows::MeasuredRow;
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
pub(super) fn observed_steps(rules: DeviceRules, rows: &[&MeasuredRow]) -> Vec<ObservedStep> {
    let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
    rows.iter().for_each(|row| *counts.entry(&row.record.variant.network).or_default() += 1.0);
    let every = (rows.iter().map(|row| row.layers.len()).sum::<usize>() / MOST_OPERATIONS).max(1);
    let observe = |(index, row): (usize, &&MeasuredRow)| {
        let Workload { step, batch } = row.record.workload;
        let (parts, batch) = (StepParts::new(&row.network, step), batch as f64);
        let weight = (NETWORK_WEIGHT / counts[row.record.variant.network.as_str()]).min(1.0);
        let step = StepTime::new(rules, &parts, batch);
        let mut observed = vec![ObservedStep { step, milliseconds: row.measured, weight }];
        let samples = layers::samples(row, &parts).into_iter();
        let samples: Vec<layers::TimedKernels> = samples.skip(index % every).step_by(every).collect();
        let total: f64 = samples.iter().map(|sample| sample.milliseconds).sum();
        observed.extend(samples.into_iter().map(|layers::TimedKernels { kernels, milliseconds }| ObservedStep {
            step: StepTime::isolated(rules, kernels.iter(), batch),
            milliseconds,
            weight: LAYERS_WEIGHT * weight * milliseconds / total,
        }));
        observed
    };
    rows.par_iter().enumerate().flat_map_iter(observe).collect()
}

pub(super) fn operations(rows: &[&MeasuredRow], physics: &[PhysicalModel]) -> Vec<layers::OperationResidual> {
    let left = |(row, physics): (&&MeasuredRow, &PhysicalModel)| -> Vec<layers::OperationResidual> {
        let batch = row.record.workload.batch as f64;
        let samples = layers::samples(row, physics.parts()).into_iter();
        let left = |layers::TimedKernels { kernels, milliseconds }| {
            let physical = physics.isolated_time(kernels, batch);
            layers::OperationResidual::new(physics.operation(kernels, batch, physical), milliseconds)
        };
        samples.map(left).collect()
    };
    rows.par_iter().zip(physics).flat_map_iter(left).collect()
}

pub(super) fn steps(
    rows: &[&MeasuredRow],
    physics: &[PhysicalModel],
    corrections: &OperationCorrections,
) -> Vec<StepResidual> {
    let left = |(row, physics): (&&MeasuredRow, &PhysicalModel)| {
        let batch = row.record.workload.batch as f64;
        let spent = physics.breakdown(&physics.part_times(corrections, batch));
        let residual = (row.measured / spent.corrected).ln();
        StepResidual { features: residual::features(&spent, batch), batch, residual }
    };
    rows.par_iter().zip(physics).map(left).collect()
}
