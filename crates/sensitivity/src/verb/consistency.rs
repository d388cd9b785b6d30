//! Checks whether a profile's results follow from its points; otherwise the file was edited.

use super::derived::matrix;
use super::profile::{Epoch, Profile, Requested, StorageEpoch};
use crate::{Estimate, Grid, Knee};

/// Numbers that differ by at most this share are equal, apart from rounding on another machine.
const ROUNDING: f64 = 1e-6;

impl Profile {
    /// A result that does not follow from the points and the model of the profile.
    pub fn contradiction(&self) -> Option<String> {
        let model = self.model();
        let matrix = model.as_ref().map_or(Vec::new(), matrix);
        let storage = self.storage_epochs().unwrap_or_default();
        let follows = [
            ("knees", self.has_its_knees()),
            ("oddities", self.curve().is_none_or(|curve| curve.oddities() == self.oddities)),
            ("own_memory", self.own_memory == self.own_memory_of_points()),
            ("matrix", are_alike(&self.matrix, &matrix, Epoch::is_like)),
            ("storage_matrix", are_alike(&self.storage_matrix, &storage, StorageEpoch::is_like)),
            ("request", self.is_requested()),
        ];
        let other: Vec<&str> = follows.iter().filter(|(_, follows)| !follows).map(|(name, _)| *name).collect();
        (!other.is_empty()).then(|| {
            format!(
                "the results of this profile do not follow from its points ({}): it was changed, or written by another version",
                other.join(", ")
            )
        })
    }

    /// Whether its knees are those of its points. Older files do not record the step of CPUs; there each knee must be
    /// possible.
    fn has_its_knees(&self) -> bool {
        match (self.curve(), self.job.cpu_step) {
            (Some(curve), Some(step)) => self.knees == self.knees_on(&Grid::new(self.job.most_cpus, step), &curve),
            (_, None) | (None, _) => self.knees.iter().all(|knee| self.is_knee(knee)),
        }
    }

    /// Whether a knee agrees with the points: it has its share of the best rate, and fewer CPUs do not.
    fn is_knee(&self, knee: &Knee) -> bool {
        let Some(curve) = self.curve() else { return false };
        let wanted = knee.share * curve.best().rate.per_second;
        let within = curve.points().first().zip(curve.points().last());
        let within = within.is_some_and(|(least, most)| (least.cpus..=most.cpus).contains(&knee.cpus));
        let mut fewer = curve.points().iter().filter(|point| point.cpus < knee.cpus);
        within
            && curve.at(knee.cpus).least >= wanted * (1.0 - ROUNDING)
            && fewer.all(|point| point.rate.per_second < wanted * (1.0 + ROUNDING))
            && (!knee.verified || curve.measured(knee.cpus).is_some())
    }

    /// Whether the request and its lines follow from the knee.
    fn is_requested(&self) -> bool {
        let follows = self.knee().map(|knee| self.requested(knee));
        let (Some(said), Some(follows)) = (&self.request, &follows) else { return self.request.is_none() };
        let bytes = |requested: &Requested| requested.request.memory.map(|memory| memory.0 as f64);
        // Comments explain a line and request nothing; older profiles have none.
        let words = |line: &String| line.lines().filter(|line| !line.starts_with("# ")).collect::<Vec<_>>().join("\n");
        let lines = |requested: &Requested| {
            let Requested { kubernetes, slurm, docker, .. } = requested;
            [kubernetes, slurm, docker].map(words)
        };
        (said.request.cpus, said.request.gpus) == (follows.request.cpus, follows.request.gpus)
            && is_close(bytes(said), bytes(follows))
            && is_close(said.storage, follows.storage)
            && lines(said) == lines(follows)
    }
}

/// Whether two numbers are equal apart from rounding.
fn is_close(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= ROUNDING * a.abs().max(b.abs()),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// Whether two estimates are equal apart from rounding.
fn is_estimate(said: Option<Estimate>, follows: Option<Estimate>) -> bool {
    let number = |of: fn(Estimate) -> Option<f64>| is_close(said.and_then(of), follows.and_then(of));
    number(|estimate| Some(estimate.least))
        && number(|estimate| estimate.likely)
        && number(|estimate| Some(estimate.most))
}

impl Epoch {
    /// Whether two epochs are equal apart from rounding.
    fn is_like(&self, follows: &Epoch) -> bool {
        (self.cpus, self.memory_percent, self.bound) == (follows.cpus, follows.memory_percent, follows.bound)
            && is_estimate(Some(self.seconds), Some(follows.seconds))
            && is_estimate(self.storage_needed, follows.storage_needed)
    }
}

impl StorageEpoch {
    fn is_like(&self, follows: &StorageEpoch) -> bool {
        is_close(Some(self.storage_bandwidth), Some(follows.storage_bandwidth)) && self.epoch.is_like(&follows.epoch)
    }
}

/// Whether both lists have the same length and equal elements.
fn are_alike<T>(said: &[T], follows: &[T], alike: impl Fn(&T, &T) -> bool) -> bool {
    said.len() == follows.len() && said.iter().zip(follows).all(|(said, follows)| alike(said, follows))
}
