//! Plans whose stages are of their own layers, GPUs and tensor degrees: time and memory of a step, from times of layers
//! and a few measured plans.

mod links;
mod memory;
mod plan;
mod plans_json;
mod time;
mod times_of_layers;

pub use links::NodeLinks;
pub use plan::{MeasuredStagedPlan, NetworkShape, PipelineStage, StageReplica, StagedPlan};
pub use plans_json::read as read_staged_plans;
pub use times_of_layers::LayerTimes;

use crate::repeated::each_once;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::stats;
use perf4sight_base::units::count_text;
use perf4sight_operations::FitProgress;
use perf4sight_operations::minimize::{minimize, robust};
use perf4sight_report::significant;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The fewest measured plans of a fit.
pub const LEAST_PLANS: usize = 4;
/// What single measurements scatter by, as a share: distances of the fit are in it, and far ones count by their size.
const SCATTER: f64 = 0.03;
/// What is measured is at most this many times what the priors say, or as little: other units are a thousand times.
const OTHER_UNIT: f64 = 30.0;
/// The percentile of errors of plans left out that intervals reach.
const HELD: f64 = 90.0;
/// The largest of n errors holds n of n + 1 others, not nine of ten where n is below nine, and the errors are of fits of fewer plans. For nine of ten steps it took
/// 1.9, 1.6, 1.6, 1.3 and 1.5 times as much of 4 to 8 of Sailor's plans on GH200 (80 random splits): about `1 + 3 / n`. Memory needs nothing more, but for
/// plans unlike those that were measured.
const FEW: f64 = 3.0;
/// Intervals of plans with GPUs, tensor degrees or numbers of stages that were never measured are wider by this factor; nothing
/// in the few plans of one cluster says by how much.
const UNLIKE: f64 = 2.0;
/// Nine of ten of a normal distribution are within this many standard deviations.
const NINE_OF_TEN: f64 = 1.645;
/// A parameter of a fit that is so many standard deviations of its prior from what is usual shows that what is given is wrong in all plans. Those of Sailor's
/// plans are at most 1.6 off; with twice the width or half of it 3.4, with each batch twice as large 3.4 to 5.5.
const FAR: f64 = 3.0;
/// A step of a parameter's logarithm, for derivatives.
const SMALL: f64 = 1e-4;

/// What is known of a network and a cluster before plans are measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KnownCluster {
    /// The network.
    pub shape: NetworkShape,
    /// Times of its layers.
    pub layers: LayerTimes,
    /// Bandwidths between nodes.
    pub links: NodeLinks,
}

impl KnownCluster {
    /// Refuses a plan of another network.
    ///
    /// # Errors
    /// A degree of tensor parallelism that does not divide the heads; more layers than were timed, or fewer, which would be faster.
    pub fn check(&self, plan: &StagedPlan) -> Result<()> {
        self.shape.check(plan)?;
        let (has, timed) = (plan.last_layer(), self.layers.last());
        match timed.filter(|timed| *timed != has) {
            None => Ok(()),
            Some(timed) => Err(Error::input(format!(
                "{}: the last of its layers is {has}, that of the network {timed}, by the times of layers",
                plan.name
            ))
            .expected(format!("each layer from 0 to {timed} in one stage"))),
        }
    }
}

/// A model of staged plans, fitted on measured ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StagedModel {
    cluster: KnownCluster,
    time: QuantityFit,
    memory: Option<QuantityFit>,
    /// Numbers of stages that were measured, tensor degrees, samples of a micro-batch, the fewest GPUs, and their kinds.
    stages: BTreeSet<u64>,
    tensor_degrees: BTreeSet<u64>,
    micro_batches: BTreeSet<u64>,
    fewest_gpus: u64,
    gpus: BTreeSet<String>,
}

/// Parameters of one quantity, and how far off they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct QuantityFit {
    logs: Vec<f64>,
    left_out: Vec<LeftOutPlan>,
}

/// A quantity of a plan that was left out of the fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftOutPlan {
    /// The plan's name.
    pub name: String,
    /// What was measured, in the order of the plans: seconds, or bytes.
    pub measurements: Vec<f64>,
    /// What was predicted without it.
    pub predicted: f64,
}

/// A predicted quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanEstimate {
    /// The value.
    pub value: f64,
    /// The interval that nine of ten measurements are expected in.
    pub interval: (f64, f64),
}

/// The predictions of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictedStagedPlan {
    /// Seconds of a step.
    pub step_s: PlanEstimate,
    /// Peak bytes of the fullest GPU, where memory was measured.
    pub peak_bytes: Option<PlanEstimate>,
    /// What no measured plan has.
    pub unmeasured: Vec<String>,
}

/// What of a plan was never measured, as far as intervals know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnmeasuredPart {
    Nothing,
    Something,
    /// How memory or work is divided: as uncertain as before anything was measured.
    Divided,
}

/// A quantity of plans as a function of parameters.
trait PlanQuantity<const N: usize> {
    /// What a value of each parameter counts, after the number.
    const NAMES: [&'static str; N];
    /// Whether measurements of one plan differ from each other, as times do, and memory hardly.
    const SCATTERS: bool;
    /// What the value rests on.
    const INPUTS: &'static str;
    /// Medians of the parameters' priors.
    const MEDIANS: [f64; N];
    /// Standard deviations of their logarithms.
    const SPREADS: [f64; N];
    /// Its value.
    fn value(&self, logs: &[f64; N]) -> f64;
}

impl StagedModel {
    /// Fits measured plans.
    ///
    /// # Errors
    /// Too few plans; plans without a time, or of another network; layers, GPUs or links that the cluster does not know.
    pub fn fit(plans: &[MeasuredStagedPlan], cluster: KnownCluster) -> Result<Self> {
        StagedModel::fit_watched(plans, cluster, &|_| Ok(()))
    }

    /// The same, watched: each plan that was left out is reported, of its step and of its memory.
    ///
    /// # Errors
    /// See [`StagedModel::fit`]; an error of the watch, which ends the fit.
    pub fn fit_watched(plans: &[MeasuredStagedPlan], cluster: KnownCluster, watch: &FitProgress<'_>) -> Result<Self> {
        plans.iter().try_for_each(|measured| cluster.check(&measured.plan))?;
        let timed = measured_quantities(plans, |plan| plan.step_s, |plan| time::StagedStep::new(plan, &cluster))?;
        if timed.len() < LEAST_PLANS {
            let problem = format!("a step was measured of {}", count_text(timed.len() as u64, "plan"));
            return Err(Error::input(problem).expected(format!("{LEAST_PLANS} measured plans or more")));
        }
        let peaks = |plan: &StagedPlan| Ok(memory::StagePeaks::new(plan, &cluster.shape));
        let kept = measured_quantities(plans, |plan| plan.peak_bytes, peaks)?;
        let kept = Some(kept).filter(|kept| kept.len() >= LEAST_PLANS);
        check_unit(&timed, "a step took", "seconds (real)")?;
        kept.as_ref().map_or(Ok(()), |kept| check_unit(kept, "memory was", "bytes (max_mem)"))?;
        Ok(StagedModel {
            time: QuantityFit::new(&timed, watch)?,
            memory: kept.map(|kept| QuantityFit::new(&kept, watch)).transpose()?,
            stages: plans.iter().map(|measured| measured.plan.stages.len() as u64).collect(),
            tensor_degrees: plans.iter().flat_map(|measured| measured.plan.tensor_degrees()).collect(),
            micro_batches: plans.iter().map(|measured| measured.plan.micro_batch).collect(),
            fewest_gpus: plans.iter().map(|measured| measured.plan.tensor_degrees().sum()).min().unwrap_or(0),
            gpus: plans.iter().flat_map(|measured| measured.plan.gpus().map(str::to_owned)).collect(),
            cluster,
        })
    }

    /// Predicts a plan.
    ///
    /// # Errors
    /// A plan of another network; layers, GPUs or links that the cluster does not know.
    pub fn predict(&self, plan: &StagedPlan) -> Result<PredictedStagedPlan> {
        self.cluster.check(plan)?;
        let unmeasured = self.unmeasured_parts(plan);
        let step = time::StagedStep::new(plan, &self.cluster)?;
        let peak = memory::StagePeaks::new(plan, &self.cluster.shape);
        let is_divided = plan.tensor_degrees().any(|degree| !self.tensor_degrees.contains(&degree));
        let of_time = match unmeasured.is_empty() {
            true => UnmeasuredPart::Nothing,
            false if self.is_other_share(plan) => UnmeasuredPart::Divided,
            false => UnmeasuredPart::Something,
        };
        let of_memory = if is_divided { UnmeasuredPart::Divided } else { of_time };
        let peak_bytes = self.memory.as_ref().map(|fit| fit.estimate(&peak, of_memory)).transpose()?;
        Ok(PredictedStagedPlan { step_s: self.time.estimate(&step, of_time)?, peak_bytes, unmeasured })
    }

    /// Whether a plan's step is one of the fit, and its memory, by what was measured: two measurements do not agree in all digits.
    pub fn are_fitted(&self, plan: &MeasuredStagedPlan) -> [bool; 2] {
        let has =
            |fit: &QuantityFit, measured: f64| fit.left_out.iter().any(|one| one.measurements.contains(&measured));
        let step = plan.step_s.is_some_and(|step| has(&self.time, step));
        [step, plan.peak_bytes.zip(self.memory.as_ref()).is_some_and(|(peak, fit)| has(fit, peak))]
    }

    /// Mean errors of time and memory in percent, each plan left out of the fit.
    pub fn left_out_percent(&self) -> (f64, Option<f64>) {
        (self.time.left_out_percent(), self.memory.as_ref().map(QuantityFit::left_out_percent))
    }

    /// What of the fit is so far from what is usual that what is given may be wrong in all plans.
    pub fn unusual(&self) -> Vec<String> {
        let of_memory = self.memory.iter().flat_map(QuantityFit::unusual::<memory::StagePeaks, 4>);
        self.time.unusual::<time::StagedStep, 5>().chain(of_memory).collect()
    }

    /// Seconds of a step of each plan, left out of the fit.
    pub fn steps_left_out(&self) -> &[LeftOutPlan] {
        &self.time.left_out
    }

    /// Peak bytes of each plan, left out of the fit; none where too few were measured.
    pub fn peaks_left_out(&self) -> &[LeftOutPlan] {
        self.memory.as_ref().map_or(&[], |fit| &fit.left_out)
    }

    /// Whether a GPU does another share of the work than on any plan that was measured: of a micro-batch of another size, or of a network on
    /// fewer GPUs.
    fn is_other_share(&self, plan: &StagedPlan) -> bool {
        !self.micro_batches.contains(&plan.micro_batch) || plan.tensor_degrees().sum::<u64>() < self.fewest_gpus
    }

    fn unmeasured_parts(&self, plan: &StagedPlan) -> Vec<String> {
        let stages = plan.stages.len() as u64;
        let stages = (!self.stages.contains(&stages)).then(|| format!("{stages} stages"));
        let degrees: BTreeSet<u64> = plan.tensor_degrees().filter(|one| !self.tensor_degrees.contains(one)).collect();
        let degrees = degrees.into_iter().map(|degree| format!("tensor degree {degree}"));
        let gpus: BTreeSet<&str> = plan.gpus().filter(|gpu| !self.gpus.contains(*gpu)).collect();
        let samples = plan.micro_batch;
        let samples = (!self.micro_batches.contains(&samples)).then(|| format!("micro-batches of {samples}"));
        let few = plan.tensor_degrees().sum::<u64>();
        let few = (few < self.fewest_gpus).then(|| format!("as few GPUs as {few}"));
        let kinds = gpus.into_iter().map(str::to_owned);
        stages.into_iter().chain(degrees).chain(samples).chain(few).chain(kinds).collect()
    }
}

/// A plan with a measured quantity, prepared for the fit.
struct MeasuredQuantity<Q> {
    name: String,
    plan: Q,
    measurements: Vec<f64>,
    /// The median of these.
    value: f64,
}

/// Plans with a measured quantity, each once.
fn measured_quantities<Q>(
    plans: &[MeasuredStagedPlan],
    value: impl Fn(&MeasuredStagedPlan) -> Option<f64>,
    prepare: impl Fn(&StagedPlan) -> Result<Q>,
) -> Result<Vec<MeasuredQuantity<Q>>> {
    let known = plans.iter().filter_map(|plan| Some((plan.plan.identity(), (&plan.plan, value(plan)?))));
    let known = each_once(known).into_iter().map(|(_, rows)| {
        let (plans, measurements): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        let value = stats::median(&measurements);
        Ok(MeasuredQuantity { name: plans[0].name.clone(), plan: prepare(plans[0])?, measurements, value })
    });
    known.collect()
}

/// Refuses what is so far from the medians of the priors that it is in another unit.
fn check_unit<Q: PlanQuantity<N>, const N: usize>(plans: &[MeasuredQuantity<Q>], what: &str, unit: &str) -> Result<()> {
    let medians = Q::MEDIANS.map(f64::ln);
    let times = |one: &MeasuredQuantity<Q>| one.value / one.plan.value(&medians);
    match plans.iter().find(|one| !(1.0 / OTHER_UNIT..=OTHER_UNIT).contains(&times(one))) {
        None => Ok(()),
        Some(far) => {
            let usual = match times(far) {
                more if more >= 1.0 => format!("{more:.0} times what is usual"),
                less => format!("what is usual is {:.0} times as much", 1.0 / less),
            };
            Err(Error::input(format!("{}: {what} {}; {usual}", far.name, far.value))
                .expected(format!("{unit}; and, in the files that this is compared with, seconds (layers), and the network's own sizes (shape)")))
        }
    }
}

impl LeftOutPlan {
    /// What was measured: the median.
    pub fn measured(&self) -> f64 {
        stats::median(&self.measurements)
    }

    /// By how many percent the prediction is off.
    pub fn off_percent(&self) -> f64 {
        100.0 * (self.predicted / self.measured() - 1.0).abs()
    }
}

impl QuantityFit {
    fn new<Q: PlanQuantity<N>, const N: usize>(plans: &[MeasuredQuantity<Q>], watch: &FitProgress<'_>) -> Result<Self> {
        let left_out = plans.iter().map(|left_out| {
            // A measurement that occurs twice would leave nothing out.
            let others = plans.iter().filter(|other| other.value != left_out.value);
            let logs = fit(&others.collect::<Vec<_>>())?;
            watch(1)?;
            let predicted = left_out.plan.value(&logs);
            let MeasuredQuantity { name, measurements, .. } = left_out;
            Ok(LeftOutPlan { name: name.clone(), measurements: measurements.clone(), predicted })
        });
        let left_out = left_out.collect::<Result<_>>()?;
        Ok(QuantityFit { logs: fit(&plans.iter().collect::<Vec<_>>())?.to_vec(), left_out })
    }

    /// Logarithms by which plans that were left out are off, by their size.
    fn errors(&self) -> Vec<f64> {
        self.left_out.iter().map(|plan| (plan.predicted / plan.measured()).ln().abs()).collect()
    }

    fn estimate<Q: PlanQuantity<N>, const N: usize>(
        &self,
        quantity: &Q,
        unlike: UnmeasuredPart,
    ) -> Result<PlanEstimate> {
        let logs: &[f64; N] = self.logs.as_slice().try_into().map_err(|_| {
            Error::input(format!("the model has {} parameters", self.logs.len())).expected(format!("{N} parameters"))
        })?;
        let value = quantity.value(logs);
        let count = self.left_out.len() as f64;
        let off = stats::percentile(&self.errors(), (HELD * (count + 1.0) / count).min(100.0));
        let of_few = off * (1.0 + FEW / count);
        let off = match unlike {
            UnmeasuredPart::Nothing if Q::SCATTERS => of_few,
            UnmeasuredPart::Nothing => off,
            UnmeasuredPart::Something => UNLIKE * of_few,
            UnmeasuredPart::Divided => UNLIKE * (of_few + off_by_priors(quantity, logs)),
        };
        Ok(PlanEstimate { value, interval: (value * (-off).exp(), value * off.exp()) })
    }

    fn unusual<Q: PlanQuantity<N>, const N: usize>(&self) -> impl Iterator<Item = String> {
        let parameters = self.logs.iter().zip(Q::MEDIANS).zip(Q::SPREADS).zip(Q::NAMES);
        let far = parameters.filter(|(((log, usual), spread), _)| (*log - usual.ln()).abs() > FAR * spread);
        far.map(|(((log, usual), _), name)| {
            format!(
                "all plans together fit only with {} {name}, where {usual} is usual: see that these are right: {}",
                significant(log.exp()),
                Q::INPUTS
            )
        })
    }

    fn left_out_percent(&self) -> f64 {
        stats::mean(&self.left_out.iter().map(LeftOutPlan::off_percent).collect::<Vec<_>>())
    }
}

/// The logarithm by which the priors of the parameters alone leave a quantity uncertain.
fn off_by_priors<Q: PlanQuantity<N>, const N: usize>(quantity: &Q, logs: &[f64; N]) -> f64 {
    let value = quantity.value(logs);
    let of = |place: usize| {
        let mut moved = *logs;
        moved[place] += SMALL;
        Q::SPREADS[place] * (quantity.value(&moved) / value).ln() / SMALL
    };
    NINE_OF_TEN * (0..N).map(|place| of(place).powi(2)).sum::<f64>().sqrt()
}

/// The most probable parameters; plans that are far off count less.
fn fit<Q: PlanQuantity<N>, const N: usize>(plans: &[&MeasuredQuantity<Q>]) -> Result<[f64; N]> {
    let medians = Q::MEDIANS.map(f64::ln);
    minimize(medians, |logs| {
        let plans = plans.iter().map(|one| robust((one.plan.value(logs) / one.value).ln() / SCATTER));
        let priors = (0..N).map(|place| robust((logs[place] - medians[place]) / Q::SPREADS[place]));
        plans.chain(priors).collect()
    })
}
