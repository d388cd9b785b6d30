//! The answer of a profile, as sentences.

use super::derived::PERCENTS;
use super::points::{MeasuredPoint, cpus_words};
use super::profile::{SensitivityProfile, number};
use crate::{EpochBound, Knee, LONGER, MeasuredOverlap, ReadOverlap};
use perf4sight_base::units::{Milliseconds, Percent};
use perf4sight_report::significant;

impl SensitivityProfile {
    pub fn answer_text(&self) -> String {
        let Some(curve) = self.curve() else { return "nothing was measured".to_owned() };
        let best = curve.highest();
        let knees: Vec<String> = self.knees.iter().map(knee_words).collect();
        let rate = self.curve_points().find(|point| point.configuration.cpus == best.cpus).and_then(rate_words);
        let mut sentences = vec![format!(
            "{}; the best rate is {} with {}",
            knees.join(", "),
            rate.unwrap_or_else(|| "not known".to_owned()),
            cpus_words(best.cpus)
        )];
        sentences.extend(self.waits());
        sentences.extend(self.bounds());
        sentences.extend(self.storage());
        sentences.join("\n")
    }

    /// The share of time that the job waits for data where it is fastest.
    fn waits(&self) -> Option<String> {
        let fastest = self.curve()?.highest().cpus;
        let point = self.curve_points().find(|point| point.configuration.cpus == fastest)?;
        let waiting = point.counts()?.1.waiting?;
        Some(format!("with {} it waits for data {} of the time", cpus_words(fastest), Percent(100.0 * waiting)))
    }

    /// The storage that the job needs, and its measured overlap.
    fn storage(&self) -> Option<String> {
        let (model, knee) = (self.model()?, self.knees.last()?);
        let megabytes = |bytes: f64| format!("{} MB/s", significant(bytes / 1e6));
        let estimate = model.needed_bandwidth(knee.cpus, 0.0)?;
        let [low, high] = [estimate.least, estimate.most].map(|bytes| significant(bytes / 1e6));
        let needed = format!("{} ({low} to {high})", megabytes(number(&estimate)));
        let mut words =
            vec![format!("with {} and no memory for its data it needs {needed} of storage", cpus_words(knee.cpus))];
        words.extend(self.throttled.iter().map(|held| {
            let [took, computed] = [held.seconds, held.side_by_side].map(|seconds| Milliseconds(1000.0 * seconds));
            format!("held to {} an epoch took {took}, computed {computed}", megabytes(held.storage_bandwidth))
        }));
        words.extend(model.overlap.and_then(overlap_sentence));
        Some(words.join("; "))
    }

    /// The resource that limits an epoch, as text: the GPUs of a job cannot be distinguished from its serial part.
    pub fn bound_words(&self, bound: EpochBound) -> &'static str {
        match (bound, self.job.gpus) {
            (EpochBound::Storage, _) => "storage",
            (EpochBound::Cpu, _) => "CPUs",
            (EpochBound::Accelerator, 0) => "what does not run in parallel",
            (EpochBound::Accelerator, _) => "its GPUs, or what does not run in parallel",
        }
    }

    /// Why the effect of storage on the job is unknown.
    fn unmodelled(&self) -> &'static str {
        match (&self.job.data, self.job.batch) {
            (None, _) => "what storage does to it is unknown without its data (--data)",
            (Some(_), None) => "what storage does to it is unknown without the samples of an iteration (-b)",
            (Some(_), Some(_)) => {
                "what storage does to it is unknown, for the bandwidth of its storage is (--storage-bandwidth)"
            }
        }
    }

    /// The resource that limits the job, and the CPUs or the memory where that changes.
    fn bounds(&self) -> Option<String> {
        let knee = self.knees.last()?;
        let storage = self.model().map_or_else(
            || self.unmodelled().to_owned(),
            |model| {
                let most = |waits: Option<bool>| {
                    let share = |percent: &u32| f64::from(*percent) / 100.0;
                    PERCENTS
                        .into_iter()
                        .filter(|percent| model.waits_for_storage(knee.cpus, share(percent)) == waits)
                        .max()
                };
                storage_words(most(Some(true)), most(None))
            },
        );
        Some(format!("{}; {storage}", self.waits_for_cpus(knee)?))
    }

    fn waits_for_cpus(&self, knee: &Knee) -> Option<String> {
        let curve = self.curve()?;
        let (least, most) = (curve.points().first()?.cpus, curve.points().last()?.cpus);
        let beyond = self.bound_words(EpochBound::Accelerator);
        let [low, high] = knee.between;
        let wanted = knee.share * curve.highest().rate.per_second;
        let as_fast = curve.points().iter().find(|point| point.rate.per_second >= wanted);
        let as_fast = as_fast.map_or(most, |point| point.cpus);
        Some(match (least < knee.cpus, low < high) {
            _ if least == most => {
                format!(
                    "with {}, the only number that was tried, it is not known whether it waits for CPUs",
                    cpus_words(most)
                )
            }
            _ if !curve.levels_off(knee.share) && as_fast < most => {
                format!(
                    "with {} it was about as fast as with more, but rates are not known well enough to say whether it waits for CPUs",
                    cpus_words(as_fast)
                )
            }
            _ if !curve.levels_off(knee.share) => {
                format!("with {}, the most that were tried, it may still wait for CPUs", cpus_words(most))
            }
            (false, false) => {
                format!("even with {} it does not wait for CPUs, but for {beyond}", cpus_words(knee.cpus))
            }
            (false, true) => {
                format!(
                    "from {} on it does not wait for CPUs, but for {beyond}; with fewer that is open",
                    cpus_words(high)
                )
            }
            (true, false) => {
                format!("with fewer than {} it waits for CPUs, from there on for {beyond}", cpus_words(high))
            }
            (true, true) => {
                format!(
                    "with fewer than {} it waits for CPUs, from {} on for {beyond}",
                    cpus_words(low),
                    cpus_words(high)
                )
            }
        })
    }
}

/// "12.5 iterations/s (12.3 to 12.7)"; only the lower end where the interval is very wide.
pub(super) fn rate_words(point: &MeasuredPoint) -> Option<String> {
    let rate = significant(point.rate()?.per_second);
    Some(match point.interval() {
        None => format!("{rate} iterations/s"),
        Some([low, _]) if point.is_open() => {
            format!("at least {} iterations/s (how many more is not known)", significant(low))
        }
        Some(interval) => match interval.map(significant) {
            [low, high] if low == high => format!("{rate} iterations/s (known to 1 %)"),
            [low, high] => format!("{rate} iterations/s ({low} to {high})"),
        },
    })
}

/// Up to which memory, in percent of the data, storage surely or possibly slows the job down.
fn storage_words(surely: Option<u32>, perhaps: Option<u32>) -> String {
    let room = |percent: u32| format!("while memory has room for at most {percent} % of the data");
    match (surely, perhaps.filter(|perhaps| surely.is_none_or(|surely| surely < *perhaps))) {
        (None, None) => "storage is fast enough with any amount of memory".to_owned(),
        (Some(surely), None) => format!("storage holds it back {}", room(surely)),
        (None, Some(perhaps)) => format!("storage may hold it back {}", room(perhaps)),
        (Some(surely), Some(perhaps)) => format!("storage holds it back {}, and may up to {perhaps} %", room(surely)),
    }
}

/// How much longer an epoch takes where reading and computing take equally long; none where that is negligible.
fn overlap_sentence(overlap: MeasuredOverlap) -> Option<String> {
    let longer = |end: ReadOverlap| end.epoch(1.0, 1.0) - 1.0;
    let [low, high] = overlap.ends().map(longer);
    let percent = |share: f64| Percent(100.0 * share);
    (1.0 + high > LONGER).then(|| {
        format!(
            "where reading and computing take as long, an epoch takes {} ({} to {}) longer than either",
            percent(longer(overlap.likely())),
            percent(low),
            percent(high)
        )
    })
}

/// "90 % of the best rate take 2.5 CPUs"
fn knee_words(knee: &Knee) -> String {
    let [low, high] = knee.between;
    let cpus = match (knee.verified, low == high) {
        (true, true) => cpus_words(knee.cpus),
        (true, false) => format!("{} ({low} to {high})", cpus_words(knee.cpus)),
        (false, true) => format!("{} (not verified)", cpus_words(knee.cpus)),
        (false, false) => format!("{low} to {high} CPUs (not verified)"),
    };
    format!("{:.0} % of the best rate take {cpus}", 100.0 * knee.share)
}

#[cfg(test)]
mod tests;
