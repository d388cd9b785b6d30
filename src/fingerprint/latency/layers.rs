//! Operations as samples: what a profile timed one by one, beside the kernels they consist of, and what trees learn from it.

use super::parts::{Part, Parts};
use crate::error::Result;
use crate::features::physical::{Class, Kernel, Pass};
use crate::fingerprint::Row;
use crate::network::NodeId;
use crate::records::layers;
use crate::trees::{ExtraTrees, Forest};
use linfa::ParamGuard;
use linfa::dataset::DatasetBase;
use linfa::traits::Fit;
use ndarray::{Array1, Array2};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// No operation is corrected by more than this, in logarithms: a factor of 4 either way. What lies beyond is another operation.
const BOUND: f64 = 1.4;

/// Classes of fewer rows keep their physical time.
const FEWEST: usize = 30;

const TREES: usize = 12;

/// About as many leaves a tree has at most, so that a file does not grow with the profile.
const LEAVES: usize = 150;

/// A timed part of a step.
pub(super) struct Sample<'a> {
    /// What ran; not empty.
    pub(super) kernels: &'a [Kernel],
    pub(super) milliseconds: f64,
}

/// The parts of a row that were timed; what moves nothing, such as a view, is left out.
pub(super) fn samples<'a>(row: &Row, parts: &'a Parts) -> Vec<Sample<'a>> {
    if row.layers.is_empty() {
        return Vec::new();
    }
    let kernels = parts.by_part();
    let timed = times(row)
        .into_iter()
        .filter(|(_, milliseconds)| *milliseconds > 0.0)
        .filter_map(|(part, milliseconds)| Some(Sample { kernels: kernels.get(&part)?, milliseconds }));
    timed.collect()
}

fn times(row: &Row) -> BTreeMap<Part, f64> {
    let named: BTreeMap<String, NodeId> =
        row.network.iter().map(|(id, node)| (layers::node_cell(&node.name), id)).collect();
    let mut times: BTreeMap<Part, f64> = BTreeMap::new();
    for layer in &row.layers {
        let node = layer.operation.as_ref().and_then(|operation| named.get(&operation.node).copied());
        let pass = match layer.pass {
            layers::Pass::ZeroGrad => layers::Pass::Optimizer,
            pass => pass,
        };
        *times.entry(Part { node, pass }).or_default() += layer.time.0;
    }
    times
}

/// Trees on log(measured / physical) of single operations, one forest for every class.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Corrections(BTreeMap<Class, Forest>);

/// One operation of the fit.
pub(super) struct Left {
    pub(super) class: Class,
    pub(super) portrait: Portrait,
    /// log(measured / physical).
    pub(super) residual: f64,
}

impl Left {
    pub(super) fn of(sample: &Sample<'_>, batch: f64, physical: f64) -> Self {
        Left {
            class: sample.kernels[0].class,
            portrait: portrait(sample.kernels, batch, physical),
            residual: (sample.milliseconds / physical).ln(),
        }
    }
}

/// Numbers in a portrait.
const COLUMNS: usize = 12;

/// An operation as the trees see it: sizes of its largest product and its traffic, as logarithms.
type Portrait = [f64; COLUMNS];

fn portrait(kernels: &[Kernel], batch: f64, physical: f64) -> Portrait {
    let product = kernels.iter().find_map(|kernel| kernel.product);
    let [rows, columns, inner, blocks] = product.map_or([0.0; 4], |product| {
        [product.rows, product.columns, product.inner, product.blocks].map(|amount| amount.at(batch).ln())
    });
    let filter = kernels[0].filter;
    [
        batch.ln(),
        physical.ln(),
        f64::from(u8::from(kernels[0].pass == Pass::Forward)),
        kernels.iter().map(|kernel| kernel.traffic.at(batch)).sum::<f64>().ln(),
        kernels.len() as f64,
        kernels.iter().map(|kernel| kernel.result.at(batch)).fold(0.0, f64::max).ln_1p(),
        rows,
        columns,
        inner,
        blocks,
        filter.map_or(0.0, |filter| filter.image[0] * filter.image[1]).ln_1p(),
        filter.map_or(0.0, |filter| f64::from(u8::from(filter.unit_stride_dense))),
    ]
}

impl Corrections {
    pub(super) fn fit(seed: u64, rows: &[Left]) -> Result<Self> {
        let mut classes: BTreeMap<Class, Vec<&Left>> = BTreeMap::new();
        rows.iter().for_each(|row| classes.entry(row.class).or_default().push(row));
        let large = classes.into_par_iter().filter(|(_, rows)| rows.len() >= FEWEST);
        let forests = large.map(|(class, rows)| Ok((class, forest(seed, &rows)?))).collect::<Result<_>>()?;
        Ok(Corrections(forests))
    }

    /// What the physical time of some kernels of one class is multiplied with.
    pub(super) fn factor(&self, kernels: &[Kernel], batch: f64, physical: f64) -> f64 {
        let forest = kernels.first().and_then(|kernel| self.0.get(&kernel.class));
        let log = forest.map_or(0.0, |forest| forest.predict_row(&portrait(kernels, batch, physical)));
        log.clamp(-BOUND, BOUND).exp()
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a file holds what trees of this program are asked.
    pub(super) fn is_sound(&self) -> bool {
        self.0.values().all(|forest| forest.features() == COLUMNS)
    }
}

fn forest(seed: u64, rows: &[&Left]) -> Result<Forest> {
    let matrix = Array2::from_shape_fn((rows.len(), COLUMNS), |(row, column)| rows[row].portrait[column]);
    let residuals = rows.iter().map(|row| row.residual.clamp(-BOUND, BOUND)).collect::<Array1<f64>>();
    let params = ExtraTrees::params(seed).trees(TREES).split_from((rows.len() / LEAVES).max(6));
    params.check()?.fit(&DatasetBase::new(matrix, residuals))
}
