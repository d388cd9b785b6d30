//! The rows of a fit in compact form, so that more can be added later: simulated and measured numbers without
//! networks.

use super::boundary::TriedStep;
use super::curve::{CurveBends, MemoryLoad, UsageCurve, UsagePoint};
use super::kernels::NetworkKernels;
use super::query::{MemoryQuery, SimulatedMemory};
use crate::fingerprint::distribution::architecture;
use crate::fingerprint::rows::Observations;
use crate::records::{MemoryColumns, RowReading, RowRecord, Variant};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Bytes;
use perf4sight_memory::Simulation;
use perf4sight_network::Network;
use perf4sight_platform::Allocator;
use perf4sight_step::workload::Step;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProfiledVariant {
    /// The network's name: all its levels are left out together.
    pub network: String,
    /// All rows of a level are left out together, too.
    #[serde(default)]
    pub level: u8,
    pub architecture: String,
    pub parameters: u64,
    /// None in files of older programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernels: Option<NetworkKernels>,
    /// Whether a step used all of the device's memory, though it still fitted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub filled: bool,
    pub steps: Vec<ProfiledStep>,
}

/// Share of a device's memory that counts as full: the kernel and other programs use the rest.
const FULL: f64 = 0.95;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct ProfiledStep {
    /// Samples of a pass.
    pub batch: u64,
    pub simulated: SimulatedMemory,
    /// MiB that the allocator took, where the profile has it.
    pub reserved: Option<f64>,
    /// MiB used; none where it did not fit.
    pub used: Option<f64>,
}

/// The rows of one variant, each with the MiB used where it fitted.
struct VariantRows<'a> {
    network: &'a Network,
    rows: Vec<(&'a RowRecord, Option<f64>)>,
}

/// Every row and every failure to fit, simulated; each variant is prepared once.
pub(super) fn digest(step: Step, observations: &Observations) -> Vec<ProfiledVariant> {
    digest_variants(step, observations).into_iter().map(|(_, known)| known).collect()
}

pub(super) fn digest_variants<'a>(step: Step, observations: &Observations<'a>) -> Vec<(&'a Variant, ProfiledVariant)> {
    let mut variants: BTreeMap<&Variant, VariantRows> = BTreeMap::new();
    let passed = observations.rows.iter().map(|row| (&row.network, &row.record, Some(row.measured)));
    let unfit = observations.failed.iter().filter(|attempt| attempt.did_not_fit());
    for (network, record, used) in passed.chain(unfit.map(|attempt| (&attempt.network, &attempt.record, None))) {
        let variant = variants.entry(&record.variant).or_insert(VariantRows { network, rows: Vec::new() });
        variant.rows.push((record, used));
    }
    let variants: Vec<(&Variant, VariantRows)> = variants.into_iter().collect();
    let known = variants.into_par_iter().map(|(variant, VariantRows { network, rows })| {
        let simulation = Simulation::new(network, step, observations.platform);
        let mut simulated: BTreeMap<u64, SimulatedMemory> = BTreeMap::new();
        let digested = |(record, used): (&RowRecord, Option<f64>)| {
            let batch = record.workload.batch;
            let simulated = *simulated.entry(batch).or_insert_with(|| SimulatedMemory::new(&simulation, batch));
            let reserved = used.and(mib(record, |columns| columns.reserved));
            ProfiledStep { batch: step.accumulate.samples(batch), simulated, reserved, used }
        };
        let known = ProfiledVariant {
            network: variant.network.clone(),
            level: variant.level,
            architecture: architecture(network),
            parameters: network.parameters(),
            kernels: Some(NetworkKernels::new(network, step, observations.platform)),
            filled: rows.iter().any(|(record, used)| used.is_some_and(|used| fills(record, used))),
            steps: rows.into_iter().map(digested).collect(),
        };
        (variant, known)
    });
    known.collect()
}

/// Whether this many MiB are all of the device's memory.
fn fills(record: &RowRecord, used: f64) -> bool {
    capacity(record).is_some_and(|capacity| used >= FULL * capacity)
}

/// Total memory of the device in MiB.
pub(super) fn capacity(record: &RowRecord) -> Option<f64> {
    mib(record, |columns| columns.capacity)
}

fn mib(record: &RowRecord, column: fn(MemoryColumns) -> Option<Bytes>) -> Option<f64> {
    match record.reading {
        RowReading::Memory(columns) => column(columns).map(Bytes::mib),
        RowReading::Latency(_) => None,
    }
}

impl ProfiledVariant {
    /// The kernels of its network; the default for rows of older programs.
    pub fn kernels(&self) -> NetworkKernels {
        self.kernels.unwrap_or_default()
    }

    /// The inputs of the model for one of its steps.
    pub fn query(&self, step: &ProfiledStep) -> MemoryQuery {
        let &ProfiledStep { batch, simulated, .. } = step;
        MemoryQuery { batch, parameters: self.parameters, kernels: self.kernels(), simulated }
    }

    /// The demand of one of its steps, measured where the profile has it.
    fn load(&self, step: &ProfiledStep) -> MemoryLoad {
        let demand = step.reserved.unwrap_or(step.simulated.reserved);
        MemoryLoad { demand: demand + self.kernels().code, batch: step.batch }
    }
}

/// The points that a curve is fitted to: every network weighs the same, however many rows it has.
fn points(known: &[&ProfiledVariant]) -> Vec<UsagePoint> {
    let mut rows: BTreeMap<&str, f64> = BTreeMap::new();
    for part in known {
        *rows.entry(&part.network).or_default() += part.steps.iter().filter(|step| step.used.is_some()).count() as f64;
    }
    let of = |part: &ProfiledVariant| {
        let weight = 1.0 / rows[&*part.network];
        let point = |step: &ProfiledStep| Some(UsagePoint { load: part.load(step), used: step.used?, weight });
        part.steps.iter().filter_map(point).collect::<Vec<_>>()
    };
    known.iter().flat_map(|part| of(part)).collect()
}

/// The curve of these rows on a device with this allocator; none where no step fitted.
pub(super) fn curve(known: &[&ProfiledVariant], allocator: Allocator) -> Option<UsageCurve> {
    let points = points(known);
    let full = known.iter().any(|part| part.filled || part.steps.iter().any(|step| step.used.is_none()));
    // On a processor, memory is counted from a process that has started.
    let bends = CurveBends { floor: allocator != Allocator::Direct, cap: full };
    (!points.is_empty()).then(|| UsageCurve::fit(&points, bends))
}

/// The steps that a limit is fitted to.
pub(super) fn trials(known: &[&ProfiledVariant]) -> Vec<TriedStep> {
    let steps = known.iter().flat_map(|part| &part.steps);
    steps.map(|step| TriedStep { demand: step.simulated.reserved, fitted: step.used.is_some() }).collect()
}

/// The format is `batch simulated-reserved simulated-allocated measured-reserved used`, in MiB, with `-` for missing
/// values: a thousand rows take less than a megabyte.
impl From<ProfiledStep> for String {
    fn from(step: ProfiledStep) -> String {
        let ProfiledStep { batch, simulated: SimulatedMemory { reserved, allocated }, .. } = step;
        let [measured, used] =
            [step.reserved, step.used].map(|value| value.map_or("-".into(), |value| value.to_string()));
        format!("{batch} {reserved} {allocated} {measured} {used}")
    }
}

impl TryFrom<String> for ProfiledStep {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        let wrong =
            || Error::input(format!("\"{text}\" is not a row")).expected("five numbers, the last two possibly -");
        let words: Vec<&str> = text.split(' ').collect();
        let [batch, reserved, allocated, measured, used] = words[..] else { return Err(wrong()) };
        let number =
            |word: &str| word.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0).ok_or_else(wrong);
        let possible = |word: &str| (word != "-").then(|| number(word)).transpose();
        Ok(ProfiledStep {
            batch: batch.parse().map_err(|_| wrong())?,
            simulated: SimulatedMemory { reserved: number(reserved)?, allocated: number(allocated)? },
            reserved: possible(measured)?,
            used: possible(used)?,
        })
    }
}
