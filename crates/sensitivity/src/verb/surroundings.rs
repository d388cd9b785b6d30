//! Examines the machine before measuring: possible limits, size of the data, bandwidths.

use super::Sensitivity;
use super::command::JobCommand;
use super::data;
use crate::{CpuGrid, MeasuredRate, ReportedStep, StepSpan};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::{Bytes, grouped_digits};
use perf4sight_limit as limit;
use perf4sight_limit::{LimitSurvey, Limiter, Resource};
use perf4sight_machine::ResourceLimits;
use perf4sight_machine::data::{DataSize, ReadBandwidth, count, storage_bandwidth};
use perf4sight_machine::description::MachineDescription;
use perf4sight_machine::{MachineProperties, RunWatch, memory_bandwidth, threads};
use perf4sight_verb::Context;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// At most this share of the free memory is filled with data.
const FILLED: f64 = 0.8;
/// The least CPUs to try where fractions cannot be limited.
const WHOLE: f64 = 1.0;

/// The machine and the data of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct JobSurroundings {
    pub survey: LimitSurvey,
    /// Whether a daemon of the job ends with it even if this process is killed.
    pub holds_daemons: bool,
    pub most: f64,
    /// The numbers of CPUs to try.
    pub grid: CpuGrid,
    /// The size of the data; none where none was specified.
    pub size: Option<DataSize>,
    /// Bytes a second from storage; none where that is unknown.
    pub storage: Option<f64>,
    /// The 95 % interval of `storage`; none where it was specified or is unknown.
    pub storage_between: Option<[f64; 2]>,
    /// Bytes a second from memory; none where there is no data.
    pub memory: Option<f64>,
    pub gpus: u32,
    pub command: JobCommand,
    /// Whether all data fits in the free memory.
    pub fits: bool,
    /// Properties that affect measurements, of each node.
    pub hosts: Vec<MachineProperties>,
    /// Warnings about unknown properties.
    pub doubts: Vec<String>,
}

impl JobSurroundings {
    /// Examines the machine; none after Ctrl-C.
    ///
    /// # Errors
    /// More CPUs than there are, data that is missing or empty, limits that nothing can enforce.
    pub fn look(asked: &Sensitivity, watch: &RunWatch<'_>, context: &Context) -> Result<Option<(Self, Limiter)>> {
        let Some(size) = count_data(asked.data.as_deref(), watch, context)? else { return Ok(None) };
        let Some(limiter) = limiter(asked, watch)? else { return Ok(None) };
        let most = most(asked, limiter.survey())?;
        let mut doubts: Vec<String> =
            MachineDescription::here().ineffective_limit_warning("memory", asked.memory).into_iter().collect();
        let (storage, memory) = (storage(asked, watch, &mut doubts), memory(asked, watch));
        let (storage, storage_between) = storage.unzip();
        let around = JobSurroundings {
            most,
            grid: grid(asked, most, limiter.survey()),
            survey: limiter.survey().clone(),
            holds_daemons: limiter.holds_daemons(),
            fits: size.is_some_and(|size| data_fits(size, asked)),
            size,
            storage,
            storage_between: storage_between.flatten(),
            memory,
            gpus: asked.num_gpus.unwrap_or_else(|| MachineDescription::here().gpus().min(1)),
            command: JobCommand::from_settings(asked),
            hosts: vec![MachineDescription::here().facts()],
            doubts,
        };
        Ok((!watch.cancelled()).then_some((around, limiter)))
    }

    /// Reads the data once, so that the curve measures computing.
    pub fn warm(&self, asked: &Sensitivity, watch: &RunWatch<'_>, context: &Context) {
        if let Some(path) = asked.data.as_deref().filter(|_| self.fits) {
            context.console.note(format_args!("reading {} into memory", path.display()));
            data::warm(path, watch);
        }
    }
}

/// The limiter of this machine; none after Ctrl-C.
pub(super) fn limiter(asked: &Sensitivity, watch: &RunWatch<'_>) -> Result<Option<Limiter>> {
    let around = limit::LimiterSettings {
        data: asked.data.as_deref(),
        image: asked.docker_img.as_deref(),
        mount: asked.container_mnt.as_deref(),
    };
    Limiter::open(around, watch)
}

/// The most CPUs to try, checked like the memory against what there is.
pub(super) fn most(asked: &Sensitivity, survey: &LimitSurvey) -> Result<f64> {
    let most = asked.cpu.unwrap_or(survey.cpus);
    survey.check(&ResourceLimits { cpus: Some(most), memory: asked.memory, storage: None })?;
    Ok(most)
}

/// Counts the data, if there is any; the outer none after Ctrl-C.
fn count_data(data: Option<&Path>, watch: &RunWatch<'_>, context: &Context) -> Result<Option<Option<DataSize>>> {
    let Some(path) = data else { return Ok(Some(None)) };
    let mut show = |size: &DataSize| {
        context.console.note(format_args!(
            "{}: {} files, {} until now",
            path.display(),
            grouped_digits(size.files),
            size.bytes()
        ))
    };
    let Some(size) = count(path, watch, &mut show)? else { return Ok(None) };
    match size.bytes {
        0 => Err(Error::input("there is no data in it").file(path).expected("files of what the job reads")),
        _ => Ok(Some(Some(size))),
    }
}

/// The bandwidth of storage, specified or measured with its interval. An unknown one causes a warning and does not
/// prevent a measurement.
fn storage(asked: &Sensitivity, watch: &RunWatch<'_>, doubts: &mut Vec<String>) -> Option<(f64, Option<[f64; 2]>)> {
    if let Some(bandwidth) = asked.storage_bandwidth {
        return Some((bandwidth.0 as f64, None));
    }
    match storage_bandwidth(asked.data.as_deref()?, watch) {
        Ok(measured) => measured.map(|bandwidth| {
            let between = bandwidth_interval(&bandwidth);
            if between.is_none() {
                doubts.push(
                    "the data was read too quickly to know how certain the bandwidth of its storage is".to_owned(),
                );
            }
            (bandwidth.bytes_per_second, between)
        }),
        Err(error) => {
            doubts.push(format!("how fast the data is read is not known: {error}"));
            None
        }
    }
}

/// The interval of a bandwidth, from its fluctuation during the measurement; none where that was too short.
fn bandwidth_interval(bandwidth: &ReadBandwidth) -> Option<[f64; 2]> {
    let step =
        |(after, read): &(Duration, Bytes)| ReportedStep { number: read.0, time: after.as_secs_f64(), wait: None };
    let mut steps: Vec<ReportedStep> = bandwidth.progress.iter().map(step).collect();
    steps.dedup_by_key(|step| step.number);
    let [low, high] = MeasuredRate::from_steps(&steps, StepSpan::after_warm_up(0))?.rate.interval;
    Some([low.min(bandwidth.bytes_per_second), high.max(bandwidth.bytes_per_second)])
}

/// The bandwidth of cached data, specified or measured: a copied byte is read and written.
fn memory(asked: &Sensitivity, watch: &RunWatch<'_>) -> Option<f64> {
    let _ = asked.data.as_ref()?;
    let asked = asked.memory_bandwidth.map(|bandwidth| bandwidth.0 as f64);
    asked.or_else(|| memory_bandwidth(threads(), watch).map(|moved| moved / 2.0))
}

/// Whether the data fits into free memory, and into the job's memory limit.
fn data_fits(size: DataSize, asked: &Sensitivity) -> bool {
    let free = Bytes((MachineDescription::here().available().0 as f64 * FILLED) as u64);
    size.bytes() <= asked.memory.map_or(free, |memory| memory.min(free))
}

/// The numbers of CPUs to try: where CPUs cannot be limited, only the most.
pub(super) fn grid(asked: &Sensitivity, most: f64, survey: &LimitSurvey) -> CpuGrid {
    match survey.by(Resource::Cpus) {
        Some(_) => full_grid(asked, most),
        None => CpuGrid::new(most, most.max(WHOLE)),
    }
}

/// The numbers of CPUs to try where CPUs can be limited.
pub(super) fn full_grid(asked: &Sensitivity, most: f64) -> CpuGrid {
    CpuGrid::new(most, asked.cpu_step.unwrap_or_else(|| CpuGrid::usual_step(most)))
}
