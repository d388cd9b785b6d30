//! Operations as samples: their measured times, their kernels, and the trees that learn corrections from both.

use super::parts::{Part, Parts};
use super::processor::Route;
use crate::features::physical::{Class, Kernel, Pass};
use crate::fingerprint::rows::Row;
use crate::records::layers;
use crate::trees::{ExtraTrees, Forest};
use linfa::ParamGuard;
use linfa::dataset::DatasetBase;
use linfa::traits::Fit;
use ndarray::{Array1, Array2};
use perf4sight_base::error::Result;
use perf4sight_network::NodeId;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The maximum correction of an operation, in logarithms: a factor of 4 either way. Anything beyond is another
/// operation.
const BOUND: f64 = 1.4;

/// Classes of fewer rows keep their physical time.
const FEWEST: usize = 30;

const TREES: usize = 12;

/// A tree has at most about this many leaves, so that a file does not grow with the profile.
const LEAVES: usize = 150;

pub(super) struct Sample<'a> {
    /// The kernels that ran; not empty.
    pub(super) kernels: &'a [Kernel],
    pub(super) milliseconds: f64,
}

/// The timed parts of a row; parts without kernels, such as a view, are left out.
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

/// Milliseconds of every part, at the pace of the row.
fn times(row: &Row) -> BTreeMap<Part, f64> {
    let pace = pace(row);
    let named: BTreeMap<String, NodeId> =
        row.network.iter().map(|(id, node)| (layers::node_cell(&node.name), id)).collect();
    let mut times: BTreeMap<Part, f64> = BTreeMap::new();
    for layer in &row.layers {
        let node = layer.operation.as_ref().and_then(|operation| named.get(&operation.node).copied());
        let is_clearing = layer.pass == layers::Pass::ZeroGrad;
        let pass = if is_clearing { layers::Pass::Optimizer } else { layer.pass };
        *times.entry(Part { node, pass }).or_default() += pace * layer.record.value().unwrap_or_default();
    }
    times
}

/// Operations are timed in the first repetition of a row, among plain steps; the row's value is the fastest
/// repetition. A slowdown of the machine in the first repetition affects all of its operations alike.
fn pace(row: &Row) -> f64 {
    let plain = row.layers.iter().find(|layer| layer.pass == layers::Pass::Step);
    plain.and_then(|plain| plain.record.value()).map_or(1.0, |plain| row.measured / plain)
}

/// Trees on log(measured / physical) of single operations: a forest for every class and route.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Corrections(BTreeMap<Route, BTreeMap<Class, Forest>>);

#[derive(Debug, Clone, Copy)]
pub(super) struct Operation<'a> {
    /// The kernels that run; not empty.
    pub(super) kernels: &'a [Kernel],
    pub(super) route: Route,
    /// Time relative to the simplest element-wise function.
    pub(super) effort: f64,
    pub(super) batch: f64,
    pub(super) physical: f64,
}

pub(super) struct Left {
    kind: (Route, Class),
    features: Features,
    /// log(measured / physical).
    residual: f64,
}

impl Left {
    pub(super) fn new(operation: Operation<'_>, milliseconds: f64) -> Self {
        Left {
            kind: (operation.route, operation.kernels[0].class),
            features: features(operation),
            residual: (milliseconds / operation.physical).ln(),
        }
    }
}

const COLUMNS: usize = 12;

/// The features of an operation: the sizes of its largest product or, without one, the length of its rows, its
/// effort, and the area and the channels of its filter; and its traffic, all as logarithms.
type Features = [f64; COLUMNS];

fn features(Operation { kernels, effort, batch, physical, .. }: Operation<'_>) -> Features {
    let product = kernels.iter().find_map(|kernel| kernel.product);
    let filter = kernels[0].filter;
    let [area, channels] = filter.map_or([0.0; 2], |filter| [filter.area(), filter.channels[1]].map(f64::ln));
    let alone = [kernels[0].row.ln_1p(), effort.ln(), area, channels];
    let [rows, columns, inner, blocks] = product.map_or(alone, |product| {
        [product.rows, product.columns, product.inner, product.blocks].map(|amount| amount.at(batch).ln())
    });
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
        filter.map_or(kernels[0].images[1], |filter| filter.pixels()).ln_1p(),
        filter.map_or(0.0, |filter| f64::from(u8::from(filter.groups == 1 && filter.moves_by_one()))),
    ]
}

impl Corrections {
    pub(super) fn fit(seed: u64, rows: &[Left]) -> Result<Self> {
        let mut kinds: BTreeMap<(Route, Class), Vec<&Left>> = BTreeMap::new();
        rows.iter().for_each(|row| kinds.entry(row.kind).or_default().push(row));
        let large = kinds.into_par_iter().filter(|(_, rows)| rows.len() >= FEWEST);
        let forests = large.map(|(kind, rows)| Ok((kind, forest(seed, &rows)?))).collect::<Result<Vec<_>>>()?;
        let mut routes: BTreeMap<Route, BTreeMap<Class, Forest>> = BTreeMap::new();
        for ((route, class), forest) in forests {
            routes.entry(route).or_default().insert(class, forest);
        }
        Ok(Corrections(routes))
    }

    pub(super) fn factor(&self, operation: Operation<'_>) -> f64 {
        let class = operation.kernels.first().map(|kernel| kernel.class);
        let forest = |route: Route| class.and_then(|class| self.0.get(&route)?.get(&class));
        let forest = forest(operation.route).or_else(|| forest(operation.route.known_as()));
        let log = forest.map_or(0.0, |forest| forest.predict_row(&features(operation)));
        log.clamp(-BOUND, BOUND).exp()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the trees of a file have the features of this program.
    pub(super) fn is_sound(&self) -> bool {
        self.0.values().flat_map(BTreeMap::values).all(|forest| forest.features() == COLUMNS)
    }
}

fn forest(seed: u64, rows: &[&Left]) -> Result<Forest> {
    let matrix = Array2::from_shape_fn((rows.len(), COLUMNS), |(row, column)| rows[row].features[column]);
    let residuals = rows.iter().map(|row| row.residual.clamp(-BOUND, BOUND)).collect::<Array1<f64>>();
    let params = ExtraTrees::params(seed).trees(TREES).split_from((rows.len() / LEAVES).max(6));
    Ok(params.check()?.fit(&DatasetBase::new(matrix, residuals))?)
}
