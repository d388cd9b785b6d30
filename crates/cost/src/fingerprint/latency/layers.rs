//! Operations as samples: their measured times, their kernels, and the trees that learn corrections from both.

use super::parts::{LatencyPart, StepParts};
use super::processor::KernelRoute;
use crate::features::physical::{Kernel, KernelClass, KernelPass};
use crate::fingerprint::rows::MeasuredRow;
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

pub(super) struct TimedKernels<'a> {
    /// The kernels that ran; not empty.
    pub(super) kernels: &'a [Kernel],
    pub(super) milliseconds: f64,
}

/// The timed parts of a row; parts without kernels, such as a view, are left out.
pub(super) fn samples<'a>(row: &MeasuredRow, parts: &'a StepParts) -> Vec<TimedKernels<'a>> {
    if row.layers.is_empty() {
        return Vec::new();
    }
    let kernels = parts.by_part();
    let timed = times(row)
        .into_iter()
        .filter(|(_, milliseconds)| *milliseconds > 0.0)
        .filter_map(|(part, milliseconds)| Some(TimedKernels { kernels: kernels.get(&part)?, milliseconds }));
    timed.collect()
}

/// Milliseconds of every part, at the pace of the row.
fn times(row: &MeasuredRow) -> BTreeMap<LatencyPart, f64> {
    let pace = pace(row);
    let named: BTreeMap<String, NodeId> =
        row.network.iter().map(|(id, node)| (layers::node_cell(&node.name), id)).collect();
    let mut times: BTreeMap<LatencyPart, f64> = BTreeMap::new();
    for layer in &row.layers {
        let node = layer.operation.as_ref().and_then(|operation| named.get(&operation.node).copied());
        let is_clearing = layer.pass == layers::StepPart::ZeroGrad;
        let pass = if is_clearing { layers::StepPart::Optimizer } else { layer.pass };
        *times.entry(LatencyPart { node, pass }).or_default() += pace * layer.record.value().unwrap_or_default();
    }
    times
}

/// Operations are timed in the first repetition of a row, among plain steps; the row's value is the fastest
/// repetition. A slowdown of the machine in the first repetition affects all of its operations alike.
fn pace(row: &MeasuredRow) -> f64 {
    let plain = row.layers.iter().find(|layer| layer.pass == layers::StepPart::Step);
    plain.and_then(|plain| plain.record.value()).map_or(1.0, |plain| row.measured / plain)
}

/// Trees on log(measured / physical) of single operations: a forest for every class and route.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct OperationCorrections(BTreeMap<KernelRoute, BTreeMap<KernelClass, Forest>>);

#[derive(Debug, Clone, Copy)]
pub(super) struct PhysicalOperation<'a> {
    /// The kernels that run; not empty.
    pub(super) kernels: &'a [Kernel],
    pub(super) route: KernelRoute,
    /// Time relative to the simplest element-wise function.
    pub(super) effort: f64,
    pub(super) batch: f64,
    pub(super) physical: f64,
}

pub(super) struct OperationResidual {
    kind: (KernelRoute, KernelClass),
    features: OperationFeatures,
    /// log(measured / physical).
    residual: f64,
}

impl OperationResidual {
    pub(super) fn new(operation: PhysicalOperation<'_>, milliseconds: f64) -> Self {
        OperationResidual {
            kind: (operation.route, operation.kernels[0].class),
            features: features(operation),
            residual: (milliseconds / operation.physical).ln(),
        }
    }
}

const COLUMNS: usize = 12;

/// The features of an operation: the sizes of its largest product or, without one, the length of its rows, its
/// effort, and the area and the channels of its filter; and its traffic, all as logarithms.
type OperationFeatures = [f64; COLUMNS];

fn features(PhysicalOperation { kernels, effort, batch, physical, .. }: PhysicalOperation<'_>) -> OperationFeatures {
    let product = kernels.iter().find_map(|kernel| kernel.product);
    let filter = kernels[0].filter;
    let [area, channels] = filter.map_or([0.0; 2], |filter| [filter.area(), filter.channels[1]].map(f64::ln));
    let alone = [kernels[0].row.ln_1p(), effort.ln(), area, channels];
    let [rows, columns, inner, blocks] = product.map_or(alone, |product| {
        [product.rows, product.columns, product.inner, product.blocks].map(|amount| amount.for_batch(batch).ln())
    });
    [
        batch.ln(),
        physical.ln(),
        f64::from(u8::from(kernels[0].pass == KernelPass::Forward)),
        kernels.iter().map(|kernel| kernel.traffic.for_batch(batch)).sum::<f64>().ln(),
        kernels.len() as f64,
        kernels.iter().map(|kernel| kernel.result.for_batch(batch)).fold(0.0, f64::max).ln_1p(),
        rows,
        columns,
        inner,
        blocks,
        filter.map_or(kernels[0].images[1], |filter| filter.pixels()).ln_1p(),
        filter.map_or(0.0, |filter| f64::from(u8::from(filter.groups == 1 && filter.moves_by_one()))),
    ]
}

impl OperationCorrections {
    pub(super) fn fit(seed: u64, rows: &[OperationResidual]) -> Result<Self> {
        let mut kinds: BTreeMap<(KernelRoute, KernelClass), Vec<&OperationResidual>> = BTreeMap::new();
        rows.iter().for_each(|row| kinds.entry(row.kind).or_default().push(row));
        let large = kinds.into_par_iter().filter(|(_, rows)| rows.len() >= FEWEST);
        let forests = large.map(|(kind, rows)| Ok((kind, forest(seed, &rows)?))).collect::<Result<Vec<_>>>()?;
        let mut routes: BTreeMap<KernelRoute, BTreeMap<KernelClass, Forest>> = BTreeMap::new();
        for ((route, class), forest) in forests {
            routes.entry(route).or_default().insert(class, forest);
        }
        Ok(OperationCorrections(routes))
    }

    pub(super) fn factor(&self, operation: PhysicalOperation<'_>) -> f64 {
        let class = operation.kernels.first().map(|kernel| kernel.class);
        let forest = |route: KernelRoute| class.and_then(|class| self.0.get(&route)?.get(&class));
        let forest = forest(operation.route).or_else(|| forest(operation.route.known_as()));
        let log = forest.map_or(0.0, |forest| forest.predict_row(&features(operation)));
        log.clamp(-BOUND, BOUND).exp()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the trees of a file have the features of this program.
    pub(super) fn is_valid(&self) -> bool {
        self.0.values().flat_map(BTreeMap::values).all(|forest| forest.features() == COLUMNS)
    }
}

fn forest(seed: u64, rows: &[&OperationResidual]) -> Result<Forest> {
    let matrix = Array2::from_shape_fn((rows.len(), COLUMNS), |(row, column)| rows[row].features[column]);
    let residuals = rows.iter().map(|row| row.residual.clamp(-BOUND, BOUND)).collect::<Array1<f64>>();
    let params = ExtraTrees::params(seed).trees(TREES).split_from((rows.len() / LEAVES).max(6));
    Ok(params.check()?.fit(&DatasetBase::new(matrix, residuals))?)
}
