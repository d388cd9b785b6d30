//! Which back-end enforces each limit here, and why no preferred one works.

use super::Resource;
use super::backend::BackendInfo;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Bytes;
use perf4sight_machine::{ResourceLimits, affinity};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The smallest quota of the kernel, in CPUs.
const LEAST_CPUS: f64 = 0.01;

/// The limits that this machine can enforce.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitSurvey {
    /// CPUs available to this process, by affinity and control groups.
    pub cpus: f64,
    /// Memory available to this process.
    pub memory: Bytes,
    /// One for each of [`Resource::ALL`], in that order.
    pub resources: Vec<LimitableResource>,
}

/// How one resource can be limited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitableResource {
    /// What is limited.
    pub resource: Resource,
    /// Its back-end; none where no back-end works.
    pub by: Option<&'static BackendInfo>,
    /// A remark, such as the disc whose bandwidth is limited.
    pub remark: Option<String>,
    /// Preferred back-ends, and why they do not work.
    pub refused: Vec<RefusedBackend>,
}

/// A back-end that does not work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedBackend {
    /// The one that was tried.
    pub backend: &'static BackendInfo,
    /// Why it cannot, in words.
    pub reason: String,
}

impl LimitSurvey {
    /// The back-end of a resource; none where no back-end works.
    pub fn by(&self, resource: Resource) -> Option<&'static BackendInfo> {
        self.limitable(resource).and_then(|limitable| limitable.by)
    }

    /// By what a resource can be limited here; none if by nothing.
    pub fn limitable(&self, resource: Resource) -> Option<&LimitableResource> {
        self.resources.iter().find(|limitable| limitable.resource == resource)
    }

    /// Checks that these limits can be enforced here.
    ///
    /// # Errors
    /// Limits above the machine's resources or below the smallest quota, or a resource that cannot be limited.
    pub fn check(&self, limits: &ResourceLimits) -> Result<()> {
        limits.cpus.map_or(Ok(()), |cpus| check_cpus(cpus, self.cpus))?;
        if let Some(asked) = limits.memory.filter(|asked| asked.0 == 0 || *asked > self.memory) {
            return Err(Error::usage(format!("a job cannot be given {} of memory", asked.in_full()))
                .expected(format!("no more than the {} that there are for us here", self.memory)));
        }
        let asked = Resource::ALL.into_iter().filter(|resource| resource.is_limited(limits));
        match asked.filter_map(|resource| self.limitable(resource)).find(|limitable| limitable.by.is_none()) {
            None => Ok(()),
            Some(limitable) => {
                Err(Error::device(format!("nothing here can hold a limit: {limitable}")).help("leave this limit out"))
            }
        }
    }

    /// Restricts it to the other machines that the same job runs on: at most the CPUs and memory of each of them, and
    /// no limit that one of them cannot enforce, for the given reason.
    pub fn hold_back(&mut self, cpus: f64, memory: Bytes, lacking: &[(Resource, String)]) {
        self.cpus = self.cpus.min(cpus);
        self.memory = self.memory.min(memory);
        for (resource, reason) in lacking {
            for limitable in self.resources.iter_mut().filter(|limitable| limitable.resource == *resource) {
                let backend = limitable.by.take();
                limitable.refused.extend(backend.map(|backend| RefusedBackend { backend, reason: reason.clone() }));
            }
        }
    }
}

impl fmt::Display for LimitSurvey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.resources.iter().map(LimitableResource::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl fmt::Display for LimitableResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.resource)?;
        match self.by {
            Some(backend) => write!(f, "{backend}")?,
            None => write!(f, "cannot be limited")?,
        }
        if let Some(remark) = &self.remark {
            write!(f, " ({remark})")?;
        }
        self.refused.iter().try_for_each(|refused| write!(f, "\n  not {}: {}", refused.backend, refused.reason))
    }
}

/// Checks that a job can have so many CPUs where there are `here`.
///
/// # Errors
/// More than there are, or less than the smallest quota.
pub fn check_cpus(cpus: f64, here: f64) -> Result<()> {
    match (LEAST_CPUS..=here).contains(&cpus) {
        true => Ok(()),
        false => Err(Error::usage(format!("a job cannot be given {cpus} CPUs"))
            .expected(format!("from {LEAST_CPUS} to the {here} that there are for us here"))),
    }
}

/// CPUs available to this process, by affinity and control groups.
pub fn cpus() -> f64 {
    affinity::allowed_cpus().len().min(perf4sight_machine::threads()) as f64
}
