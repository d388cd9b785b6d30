//! The memory to request, and how far it is known.

use super::points::{MeasuredPoint, PointRun};
use super::profile::SensitivityProfile;
use crate::{Knee, ResourceRequest};
use perf4sight_base::units::{Bytes, Milliseconds};
use perf4sight_limit::{MemoryRise, Resource, limits_page_cache_only};

/// The requested memory as a multiple of the job's measured memory: where the knee is verified, and where it is not.
const SPARE: [f64; 2] = [1.1, 1.25];
/// The least additional memory where the knee is not verified: the start of an interpreter varies by as much.
const LEAST_SPARE: f64 = 33_554_432.0;
/// Memory that was seen for less than so many seconds was seen of the beginning of a job only.
const SHORT: f64 = 60.0;

impl SensitivityProfile {
    /// The memory of a request, where so much of it is for data: none where it is unknown, or still rose.
    pub fn memory_to_request(&self, knee: Knee, data: Option<f64>) -> Option<Bytes> {
        let own = self.own_memory.filter(|_| self.rising().is_none())?.0 as f64;
        let with_spare = match knee.verified {
            true => own * SPARE[0],
            false => f64::max(own * SPARE[1], own + LEAST_SPARE),
        };
        let data = if self.job.data.is_some() { data? } else { data.unwrap_or(0.0) };
        let memory = Bytes((with_spare + data) as u64);
        Some(self.enough().map_or(memory, |enough| memory.min(enough)))
    }

    /// The limit on memory under which all runs of the curve were sound: more is not needed. A back-end that limits the
    /// page cache alone shows nothing of it.
    fn enough(&self) -> Option<Bytes> {
        let of_memory = |axis: &str| axis == Resource::Memory.to_string();
        let held = self.limits.iter().find(|limit| of_memory(&limit.axis))?.by.as_deref()?;
        let ran_out = self.curve_points().any(MeasuredPoint::is_out_of_memory);
        self.job.memory.filter(|_| !limits_page_cache_only(held) && !ran_out)
    }

    /// The run of the curve at whose end memory rose the most.
    fn rising(&self) -> Option<(&PointRun, MemoryRise)> {
        let runs = self.curve_points().filter_map(|point| Some(point.counts()?.0));
        runs.filter_map(|run| Some((run, run.rise?))).max_by_key(|(_, rise)| rise.bytes)
    }

    /// "it still rose, by 70 MiB in the last 1.75 s of a run of 4.05 s"
    pub fn rise_words(&self) -> Option<String> {
        let (run, rise) = self.rising()?;
        let [last, all] = [rise.seconds, run.seconds].map(|seconds| Milliseconds(1000.0 * seconds));
        Some(format!("it still rose, by {} in the last {last} of a run of {all}", rise.bytes))
    }

    /// How long memory was seen at the longest, where that is short.
    pub fn seen_words(&self) -> Option<String> {
        let runs = self.curve_points().filter_map(|point| Some(point.counts()?.0.seconds));
        let longest = runs.fold(0.0, f64::max);
        (self.own_memory.is_some() && longest < SHORT).then(|| {
            format!("seen for {} at the longest: what the job does later may take more", Milliseconds(1000.0 * longest))
        })
    }

    /// The warning about memory that still rose.
    pub fn rise_warning(&self) -> Option<String> {
        let (rise, own) = (self.rise_words()?, self.own_memory.or_else(|| self.own_memory_of_points())?);
        Some(format!(
            "how much memory the job takes is not known, but more than {own}: {rise}. The request has no memory: look at the peak of a whole run of the job"
        ))
    }

    /// Comments on memory above the lines of a request.
    pub fn memory_marks(&self, request: &ResourceRequest) -> String {
        let rise = self.rise_words().map(|rise| format!("# no limit on memory: {rise}\n"));
        let least = request
            .is_below_floor()
            .then(|| format!("# {} of memory: with less, pods and jobs do not start\n", ResourceRequest::LEAST_MEMORY));
        rise.into_iter().chain(least).collect()
    }
}

#[cfg(test)]
mod tests;
