//! Finds what can hold limits here, and keeps it ready for jobs.

use super::attempts::{Attempts, said};
use super::delegation::SteppedDown;
use super::device::Disc;
use super::group::{Groups, sweep};
use super::hierarchy::Hierarchy;
use super::owner::Owner;
use super::survey::{Refused, Survey};
use super::{Axis, Means};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Bytes;
use perf4sight_machine::Watch;
use perf4sight_machine::data::count;
use perf4sight_machine::description::Description;
use perf4sight_machine::{Limits, affinity};
use std::path::{Path, PathBuf};

/// The least of a CPU that the kernel gives as a quota.
const LEAST_CPUS: f64 = 0.01;

/// Where jobs are to run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Surroundings<'a> {
    /// What they read: the folder, or the file, whose storage and whose page cache limits speak of.
    pub data: Option<&'a Path>,
    /// The image of docker that they run in; else they run here.
    pub image: Option<&'a str>,
    /// Where the container has the data; else where it is here.
    pub mount: Option<&'a Path>,
}

/// What holds limits here. Groups that it makes lie below our own, and go with the job.
#[derive(Debug)]
pub struct Limiter {
    pub(super) survey: Survey,
    pub(super) allowed: Vec<usize>,
    pub(super) hierarchies: Vec<Hierarchy>,
    pub(super) disc: Option<Disc>,
    pub(super) data: Option<PathBuf>,
    /// What is in the data, where the page cache is held to a share of it.
    pub(super) data_size: Option<Bytes>,
    pub(super) image: Option<String>,
    pub(super) mount: Option<PathBuf>,
    _down: Option<SteppedDown>,
}

impl Limiter {
    /// Tries what holds limits here, each in the order of [`Means`], and takes away what a profiler that was killed has left behind.
    /// None after Ctrl-C.
    ///
    /// # Errors
    /// Data that is not there; an image where docker cannot run it.
    pub fn open(around: Surroundings<'_>, watch: &Watch<'_>) -> Result<Option<Self>> {
        if let Some(data) = around.data {
            std::fs::metadata(data).map_err(|cause| Error::io(data, "find the data", &cause))?;
        }
        let hierarchies = Hierarchy::all(Path::new("/"));
        sweep(&hierarchies);
        let no_data = || Err("it is not known which data is read: give its folder".to_owned());
        let disc = around.data.map_or_else(no_data, |data| Disc::of(data, Path::new("/")));
        let mut attempts = Attempts::new(&around, watch, &hierarchies, disc);
        let axes = Axis::ALL.map(|axis| attempts.axis(axis)).to_vec();
        let (disc, down) = (attempts.disc.ok(), attempts.down);
        let allowed = affinity::allowed();
        let survey = Survey { cpus: cpus(), memory: Description::here().memory(), axes };
        if around.image.is_some() {
            in_docker(&survey, watch)?;
        }
        let governed = around.data.filter(|_| survey.by(Axis::Memory) == Some(Means::Residency));
        let size = governed.map(|data| count(data, watch, &mut |_| ())).transpose()?.flatten();
        let (data, image, mount) = (around.data.map(Path::to_owned), around.image, around.mount.map(Path::to_owned));
        let data_size = size.map(|size| size.bytes());
        let image = image.map(str::to_owned);
        let limiter = Limiter { survey, allowed, hierarchies, disc, data, data_size, image, mount, _down: down };
        Ok((!watch.cancelled()).then_some(limiter))
    }

    /// What holds which limit, and why nothing better does.
    pub fn survey(&self) -> &Survey {
        &self.survey
    }

    /// Whether nothing that a job starts gets away when we are killed: a group, a scope or a container tells of all of it. Else what leaves its
    /// process group and empties its environment is known to us alone, and outlives us.
    pub fn holds_daemons(&self) -> bool {
        let wrapped = [Means::SystemdUser, Means::SystemdSystem].into_iter().any(|means| self.uses(means));
        self.image.is_some() || wrapped || !Groups::make(&self.hierarchies).is_empty()
    }

    /// Held back by other machines that the same job runs on: no more CPUs and memory than each of them has, and no axis that any of them
    /// cannot hold, for the reason that is told.
    #[must_use]
    pub fn held_back(mut self, cpus: f64, memory: Bytes, lacking: &[(Axis, String)]) -> Self {
        self.survey.cpus = self.survey.cpus.min(cpus);
        self.survey.memory = self.survey.memory.min(memory);
        for (axis, reason) in lacking {
            let held = self.survey.axes.iter_mut().filter(|held| held.axis == *axis);
            for (held, means) in held.filter_map(|held| held.by.take().map(|means| (held, means))) {
                held.refused.push(Refused { means, reason: reason.clone() });
            }
        }
        self
    }

    /// Whether these limits can be held here.
    ///
    /// # Errors
    /// More than there is, less than can be given, or an axis that cannot be limited.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        let Survey { cpus: here, memory, .. } = self.survey;
        limits.cpus.map_or(Ok(()), |cpus| check_cpus(cpus, here))?;
        if let Some(asked) = limits.memory.filter(|asked| asked.0 == 0 || *asked > memory) {
            return Err(Error::usage(format!("a job cannot be given {} of memory", asked.in_full()))
                .expected(format!("no more than the {memory} that there are for us here")));
        }
        let asked = [limits.cpus.is_some(), limits.memory.is_some(), limits.storage.is_some()];
        let asked = Axis::ALL.into_iter().zip(asked).filter(|(_, asked)| *asked).map(|(axis, _)| axis);
        if let Some(held) = asked.filter_map(|axis| self.survey.held(axis)).find(|held| held.by.is_none()) {
            return Err(Error::device(format!("nothing here can hold a limit: {held}")).help("leave this limit out"));
        }
        Ok(())
    }

    /// Whether a means holds anything here.
    pub(super) fn uses(&self, means: Means) -> bool {
        self.survey.axes.iter().any(|held| held.by == Some(means))
    }
}

/// Whether a job can be given so many CPUs where there are so many.
///
/// # Errors
/// More than there are, or less than the kernel gives.
pub fn check_cpus(cpus: f64, here: f64) -> Result<()> {
    match (LEAST_CPUS..=here).contains(&cpus) {
        true => Ok(()),
        false => Err(Error::usage(format!("a job cannot be given {cpus} CPUs"))
            .expected(format!("from {LEAST_CPUS} to the {here} that there are for us here"))),
    }
}

/// The CPUs that there are for us: affinity and control groups count.
pub fn cpus() -> f64 {
    affinity::allowed().len().min(perf4sight_machine::threads()) as f64
}

/// That docker runs containers, and none of ours whose owner is dead is left.
fn in_docker(survey: &Survey, watch: &Watch<'_>) -> Result<()> {
    if survey.by(Axis::Cpus) != Some(Means::Docker) {
        let refused = survey.held(Axis::Cpus).and_then(|held| held.refused.first());
        let reason = refused.map_or_else(String::new, |refused| refused.reason.clone());
        return Err(Error::device(format!("docker cannot run the image: {reason}"))
            .help("start docker, or leave the image out and run the script here"));
    }
    let words = ["docker", "ps", "--all", "--format", "{{.Names}}"].map(str::to_owned);
    let names = said(&words, watch).unwrap_or_default();
    for name in names.lines().filter(|name| Owner::of(name).is_some_and(|owner| owner.is_dead())) {
        // Another one may be taking it away too.
        let _ = said(&remove_container(name), watch);
    }
    Ok(())
}

/// The command that ends a container and takes it away.
pub(super) fn remove_container(name: &str) -> Vec<String> {
    ["docker", "rm", "--force", name].map(str::to_owned).to_vec()
}
