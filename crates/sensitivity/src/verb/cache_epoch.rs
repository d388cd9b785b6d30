//! One run of a few epochs with little memory, to measure how the machine caches what was read.

use super::points::ResourceConfiguration;
use super::runner::RunGoal;
use super::sensitivity_run::{SensitivityRun, StopReason};
use crate::{DataCache, EpochModel};
use perf4sight_base::error::Result;
use perf4sight_base::units::Bytes;
use perf4sight_limit::Resource;
use perf4sight_verb::Context;
use std::time::Duration;

/// Epochs after the first that a run with little memory needs for its rate.
const EPOCHS: u64 = 2;
/// How many times as long such a run may take as an LRU cache would.
const PATIENCE: f64 = 1.5;
/// Cached fractions this close to the most informative one count as equally informative.
const NEAR: f64 = 0.1;

impl SensitivityRun<'_> {
    /// Measures epochs with the most informative cache size, where the cache is unknown and can be measured.
    ///
    /// # Errors
    /// See [`SensitivityRun::search`].
    pub fn measure_cache(&mut self, model: &EpochModel, own: Bytes, context: &mut Context) -> Result<StopReason> {
        let Some((configuration, cached)) = self.most_informative_cache_size(model, own) else {
            return Ok(StopReason::Done);
        };
        if self.store.find(configuration).is_some() && !self.store.is_due(configuration) {
            return Ok(StopReason::Done);
        }
        if self.runner.survey().by(Resource::Memory).is_none() || self.ends_before_epochs(model) {
            return Ok(StopReason::Done);
        }
        let longest = model.epoch(configuration.cpus, cached).most * (1 + EPOCHS) as f64 * PATIENCE;
        let time = Duration::from_secs_f64(longest.clamp(1.0, 1e9)).max(self.asked.point_time);
        if self.is_time_up() || self.budget_left().is_some_and(|left| time > left) {
            return Ok(StopReason::Budget);
        }
        let epoch = model.iterations.ceil() as u64;
        let epochs = EPOCHS * epoch;
        let goal = RunGoal { warm_up: epoch.max(self.asked.warm_up), least: epochs, most: Some(epochs), time };
        let progress = self.progress(1, context);
        let Some(point) = self.measure(configuration, goal, &progress)? else { return Ok(StopReason::Cancelled) };
        self.keep(point, &progress)?;
        Ok(StopReason::Done)
    }

    /// Whether `max_iterations` ends a run before it completes those epochs.
    pub fn ends_before_epochs(&self, model: &EpochModel) -> bool {
        let needed = (1 + EPOCHS) * model.iterations.ceil() as u64;
        self.asked.max_iterations.is_some_and(|most| most < needed)
    }

    /// The configuration that is most informative about the cache, and the share of the data that fits there. A
    /// measured or begun one with nearly as much memory is preferred, because a job's own memory differs between runs.
    pub fn most_informative_cache_size(&self, model: &EpochModel, own: Bytes) -> Option<(ResourceConfiguration, f64)> {
        let cpus = model.curve.highest().cpus;
        let shares: Vec<f64> = (1..10).map(|tenth| f64::from(tenth) / 10.0).collect();
        let most = model.worth_measuring(cpus, &shares)?;
        let governed = self.runner.survey().by(Resource::Memory).is_some_and(|by| by.page_cache_only);
        let own = if governed { Bytes(0) } else { own };
        let wanted = self.configuration(cpus, Some(Bytes(own.0 + (most * model.data.bytes) as u64)));
        let known = self.store.configurations().filter(|configuration| configuration.memory != self.asked.memory);
        let configuration = nearest(wanted, NEAR * model.data.bytes, known).unwrap_or(wanted);
        let cached = configuration.memory.map_or(most, |memory| (memory.0 as f64 - own.0 as f64) / model.data.bytes);
        Some((configuration, cached))
    }

    /// How the machine caches what was read, where that was measured.
    pub fn cache(&self, model: &EpochModel, own: Bytes) -> Option<DataCache> {
        let (configuration, cached) = self.most_informative_cache_size(model, own)?;
        let seconds = self.store.find(configuration)?.epoch(model.iterations)?;
        model.cache_of(configuration.cpus, cached, seconds)
    }
}

/// The configuration with the nearest memory, less than `bytes` away and otherwise the same.
fn nearest(
    wanted: ResourceConfiguration,
    bytes: f64,
    places: impl Iterator<Item = ResourceConfiguration>,
) -> Option<ResourceConfiguration> {
    let off =
        |configuration: &ResourceConfiguration| configuration.memory.zip(wanted.memory).map(|(a, b)| a.0.abs_diff(b.0));
    let near =
        places.filter(|configuration| ResourceConfiguration { memory: wanted.memory, ..*configuration } == wanted);
    near.filter(|configuration| off(configuration).is_some_and(|off| (off as f64) < bytes)).min_by_key(off)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job's own memory differs by some pages between runs, so the point for 70 % of 600 MB counts as measured.
    #[test]
    fn an_epoch_that_was_measured_with_nearly_as_much_memory_is_taken() {
        let configuration =
            |cpus: f64, memory: u64| ResourceConfiguration { cpus, memory: Some(Bytes(memory)), storage: None };
        let kept = [configuration(2.0, 432_004_096), configuration(2.0, 372_000_000), configuration(1.0, 432_000_000)];
        let found = |memory: u64| nearest(configuration(2.0, memory), 60e6, kept.into_iter());
        assert_eq!(found(432_000_000), Some(kept[0]));
        assert_eq!(found(380_000_000), Some(kept[1]));
        assert_eq!(found(500_000_000), None);
        assert_eq!(nearest(ResourceConfiguration { memory: None, ..kept[0] }, 60e6, kept.into_iter()), None);
        let held = ResourceConfiguration { storage: Some(Bytes(1)), ..kept[0] };
        assert_eq!(nearest(held, 60e6, kept.into_iter()), None);
    }
}
