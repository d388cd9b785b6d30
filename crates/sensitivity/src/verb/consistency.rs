//! Checks whether a profile's results follow from its points; otherwise the file was edited.

use super::profile::SensitivityProfile;
use crate::{CpuGrid, Knee};
use serde_json::Value;

/// Numbers that differ by at most this share are equal, apart from rounding on another machine.
const ROUNDING: f64 = 1e-6;

/// The results that follow from points, model and knees.
const RESULTS: [&str; 5] = ["oddities", "own_memory", "matrix", "storage_matrix", "request"];

impl SensitivityProfile {
    /// A result that does not follow from the points and the model of the profile.
    pub fn contradiction(&self) -> Option<String> {
        let mut follows = self.clone().concluded_from_knees();
        follows.request = follows.request.filter(|_| self.request.is_some());
        let [said, follows] = [self, &follows].map(|profile| serde_json::to_value(profile).unwrap_or_default());
        let differ = RESULTS.into_iter().filter(|name| !are_alike(&said[name], &follows[name]));
        let other: Vec<&str> = (!self.has_its_knees()).then_some("knees").into_iter().chain(differ).collect();
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
            (Some(curve), Some(step)) => self.knees == self.knees_on(&CpuGrid::new(self.job.most_cpus, step), &curve),
            (_, None) | (None, _) => self.knees.iter().all(|knee| self.is_knee(knee)),
        }
    }

    /// Whether a knee agrees with the points: it has its share of the best rate, and fewer CPUs do not.
    fn is_knee(&self, knee: &Knee) -> bool {
        let Some(curve) = self.curve() else { return false };
        let wanted = knee.share * curve.highest().rate.per_second;
        let within = curve.points().first().zip(curve.points().last());
        let within = within.is_some_and(|(least, most)| (least.cpus..=most.cpus).contains(&knee.cpus));
        let mut fewer = curve.points().iter().filter(|point| point.cpus < knee.cpus);
        within
            && curve.bounds_at(knee.cpus).least >= wanted * (1.0 - ROUNDING)
            && fewer.all(|point| point.rate.per_second < wanted * (1.0 + ROUNDING))
            && (!knee.verified || curve.measured(knee.cpus).is_some())
    }
}

/// Whether two values are equal apart from rounding and from lines of comments, which explain a request and request
/// nothing; older profiles have none.
fn are_alike(said: &Value, follows: &Value) -> bool {
    let lines = |text: &str| text.lines().filter(|line| !line.starts_with("# ")).map(str::to_owned).collect::<Vec<_>>();
    match (said, follows) {
        (Value::Number(a), Value::Number(b)) => {
            let [a, b] = [a, b].map(|number| number.as_f64().unwrap_or(f64::NAN));
            (a - b).abs() <= ROUNDING * a.abs().max(b.abs())
        }
        (Value::String(a), Value::String(b)) => lines(a) == lines(b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| are_alike(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| are_alike(a, b)))
        }
        (a, b) => a == b,
    }
}
