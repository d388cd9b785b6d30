//! Finds the back-ends that can enforce limits here, and keeps them ready for jobs.

use super::backend::{self, Backend, BackendGrip, BackendInfo, BackendRequest, JobHold};
use super::disc::LimitedDisc;
use super::residency::evict;
use super::survey::{LimitSurvey, LimitableResource, RefusedBackend, cpus};
use super::{LimitedJob, Resource};
use perf4sight_base::error::{Error, Result};
use perf4sight_machine::description::MachineDescription;
use perf4sight_machine::{ResourceLimits, RunWatch, affinity};
use std::io;
use std::path::{Path, PathBuf};

/// Where jobs run.
#[derive(Debug, Clone, Copy, Default)]
pub struct LimiterSettings<'a> {
    /// The data that they read, a folder or a file: limits apply to its storage and its page cache.
    pub data: Option<&'a Path>,
    /// The docker image that they run in; none to run on this machine.
    pub image: Option<&'a str>,
    /// Mount point of the data in the container; none for its path on the host.
    pub mount: Option<&'a Path>,
}

/// Enforces limits here. It creates its control groups below our own, and removes them with the job.
#[derive(Debug)]
pub struct Limiter {
    survey: LimitSurvey,
    allowed: Vec<usize>,
    data: Option<PathBuf>,
    in_image: bool,
    backends: Vec<Box<dyn Backend>>,
}

impl Limiter {
    /// Tests the back-ends, and removes the leftovers of a profiler that was killed. None after Ctrl-C.
    ///
    /// # Errors
    /// Data that does not exist; an image where docker cannot run it.
    pub fn open(around: LimiterSettings<'_>, watch: &RunWatch<'_>) -> Result<Option<Self>> {
        if let Some(data) = around.data {
            std::fs::metadata(data).map_err(|cause| Error::io(data, "find the data", &cause))?;
        }
        let no_data = || Err("it is not known which data is read: give its folder".to_owned());
        let disc = around.data.map_or_else(no_data, |data| LimitedDisc::find(data, Path::new("/")));
        let mut backends = backend::all(&around, disc.as_ref().ok());
        backends.iter().for_each(|backend| backend.sweep(watch));
        let disc = disc.map(|disc| format!("of {}", disc.path().display()));
        let resources = Resource::ALL.map(|resource| limitable(resource, &mut backends, &disc, watch)).to_vec();
        let survey = LimitSurvey { cpus: cpus(), memory: MachineDescription::here().memory(), resources };
        if around.image.is_some() {
            check_docker(&survey)?;
        }
        let (allowed, data) = (affinity::allowed_cpus(), around.data.map(Path::to_owned));
        let limiter = Limiter { survey, allowed, data, in_image: around.image.is_some(), backends };
        Ok((!watch.cancelled()).then_some(limiter))
    }

    /// The back-end of each limit, and why no preferred one works.
    pub fn survey(&self) -> &LimitSurvey {
        &self.survey
    }

    /// Whether all descendants of a job end even if this process is killed: a group, a scope or a container tracks all
    /// of them. Otherwise only this process tracks daemons that leave the process group and clear their environment,
    /// and they outlive it.
    pub fn holds_daemons(&self) -> bool {
        let holds = self.set_limits(&LimitedJob::default(), |grip| grip != BackendGrip::Watches);
        holds.is_ok_and(|holds| !holds.cleanup().is_empty())
    }

    pub(super) fn runs_in_image(&self) -> bool {
        self.in_image
    }

    pub(super) fn cpus_of(&self, limits: &ResourceLimits) -> Vec<usize> {
        limits.cpus.map_or_else(|| self.allowed.clone(), |cpus| affinity::cpus_of_limit(cpus, &self.allowed))
    }

    /// Drops the data from the page cache where memory or storage is limited, so that all cached data was read by the
    /// job.
    pub(super) fn evict(&self, limits: &ResourceLimits) -> io::Result<()> {
        let asked = limits.memory.is_some() || limits.storage.is_some();
        self.data.as_ref().filter(|_| asked).map_or(Ok(()), |data| evict(data).map(drop))
    }

    /// Sets up the limits of a job, with the back-ends whose grip is allowed.
    pub(super) fn set_limits(&self, job: &LimitedJob<'_>, may: impl Fn(BackendGrip) -> bool) -> io::Result<JobHolds> {
        let cpus = self.cpus_of(&job.limits);
        let wraps = |info: &&BackendInfo| info.grip == BackendGrip::Wraps;
        let wrapper = Resource::ALL.into_iter().filter_map(|resource| self.survey.by(resource)).find(wraps);
        let mut held: Vec<Box<dyn JobHold>> = Vec::new();
        for backend in self.backends.iter().filter(|backend| may(backend.info().grip)) {
            let info = backend.info();
            let is_used = match info.grip {
                BackendGrip::Wraps => wrapper == Some(info),
                BackendGrip::Joins => wrapper.is_none(),
                BackendGrip::Watches => true,
            };
            if is_used {
                let limits = self.share(info, &job.limits);
                held.extend(backend.set_limits(&BackendRequest { job, limits, cpus: &cpus, held: &held })?);
            }
        }
        Ok(JobHolds(held))
    }

    /// The limits assigned to a back-end; a container or a scope gets all limits that the kernel enforces.
    fn share(&self, info: &BackendInfo, limits: &ResourceLimits) -> ResourceLimits {
        let is_its = |resource| {
            let by = self.survey.by(resource);
            by.is_some_and(|by| by == info || info.grip == BackendGrip::Wraps && by.grip != BackendGrip::Watches)
        };
        ResourceLimits {
            cpus: limits.cpus.filter(|_| is_its(Resource::Cpus)),
            memory: limits.memory.filter(|_| is_its(Resource::Memory)),
            storage: limits.storage.filter(|_| is_its(Resource::Storage)),
        }
    }
}

/// All holds on one job, in order of preference.
pub(super) struct JobHolds(pub Vec<Box<dyn JobHold>>);

impl JobHolds {
    /// The words to put before the command.
    pub fn prefix(&self) -> Vec<String> {
        self.0.iter().flat_map(|hold| hold.prefix()).collect()
    }

    /// The command that ends the whole job if this process dies; empty where no back-end tracks all of it.
    pub fn cleanup(&self) -> Vec<String> {
        self.0.iter().flat_map(|hold| hold.cleanup()).collect()
    }
}

/// How a resource can be limited: by the first back-end that works. `disc` is the one of the data, or the reason why
/// there is none.
fn limitable(
    resource: Resource,
    backends: &mut [Box<dyn Backend>],
    disc: &std::result::Result<String, String>,
    watch: &RunWatch<'_>,
) -> LimitableResource {
    let mut limitable = LimitableResource { resource, by: None, remark: None, refused: Vec::new() };
    if resource == Resource::Storage {
        limitable.remark = Some(disc.clone().unwrap_or_else(|reason| reason));
        if disc.is_err() {
            return limitable;
        }
    }
    for backend in backends.iter_mut().filter(|backend| backend.info().resources.contains(&resource)) {
        match backend.check(resource, watch) {
            Ok(()) => {
                limitable.by = Some(backend.info());
                break;
            }
            Err(reason) => limitable.refused.push(RefusedBackend { backend: backend.info(), reason }),
        }
    }
    limitable
}

fn check_docker(survey: &LimitSurvey) -> Result<()> {
    match survey.limitable(Resource::Cpus).and_then(|limitable| limitable.refused.first()) {
        None => Ok(()),
        Some(refused) => Err(Error::device(format!("docker cannot run the image: {}", refused.reason))
            .help("start docker, or leave the image out and run the script here")),
    }
}
