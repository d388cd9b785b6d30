//! The choice of the plan: `plan = grid` or `plan = adaptive`.

use super::Profile;
use super::calibration::is_calibration;
use super::estimate;
use super::planned::{PlannedMeasurement, cheapest_first};
use crate::device::Device;
use crate::plan::{
    AdaptivePlan, Configuration, GridPlan, GridThenPlan, OfferedConfiguration, Plan, PlanInputs, Repetitions,
};
use perf4sight_base::error::Result;
use perf4sight_network::Network;
use perf4sight_onnx as onnx;
use perf4sight_platform::Platform;
use perf4sight_verb::config::SettingValues;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often every row is measured, at different times.
pub(super) const REPETITIONS: u32 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlanChoice {
    /// Everything, in order.
    Grid,
    /// The most informative configurations.
    Adaptive,
}

impl PlanChoice {
    pub(super) fn parse(values: &SettingValues<'_>) -> Result<Self> {
        match values.get::<String>("plan")?.as_str() {
            "adaptive" => {
                refuse_order(values)?;
                Ok(PlanChoice::Adaptive)
            }
            _ => Ok(PlanChoice::Grid),
        }
    }
}

/// The time limit for measuring.
pub(super) fn budget(values: &SettingValues<'_>) -> Result<Option<Duration>> {
    let Some(text) = values.get::<Option<String>>("budget")? else { return Ok(None) };
    let expected = "a time above 0 such as 20 min, 90 s or 2 h";
    let parsed = humantime::parse_duration(&text)
        .map_err(|cause| values.error("budget", format!("\"{text}\" is no time: {cause}")).expected(expected))?;
    match parsed.is_zero() {
        true => Err(values.error("budget", format!("\"{text}\" leaves no time to measure")).expected(expected)),
        false => Ok(Some(parsed)),
    }
}

/// The adaptive plan chooses its own order of batch sizes and its own repeats.
fn refuse_order(values: &SettingValues<'_>) -> Result<()> {
    if values.get::<u32>("repeats")? > 1 {
        let error = values.error("repeats", "plan = adaptive chooses itself what to measure twice");
        return Err(error.help("leave repeats out, or set plan = grid"));
    }
    if values.get("till_first_fail")? {
        let error =
            values.error("till_first_fail", "plan = adaptive goes up to the edge of memory by halving, not in order");
        return Err(error.help("leave till_first_fail out, or set plan = grid"));
    }
    Ok(())
}

impl Profile {
    /// The configurations that the plan may choose from: on a recorded device only those with rows.
    pub(super) fn offered_configurations(
        &self,
        planned: Vec<PlannedMeasurement>,
        device: &dyn Device,
    ) -> Vec<PlannedMeasurement> {
        if self.choice == PlanChoice::Grid {
            return planned;
        }
        let offered = |mut planned: PlannedMeasurement| {
            let all = std::mem::take(&mut planned.configuration.variables);
            let has = |variable| device.offers(&planned.with_variable(variable).job());
            planned.configuration.variables = all.into_iter().filter(|&variable| has(variable)).collect();
            planned
        };
        let some: Vec<PlannedMeasurement> = planned.iter().cloned().map(offered).collect();
        match some.iter().all(|planned| planned.configuration.variables.is_empty()) {
            // The device reports its missing rows.
            true => planned,
            false => some.into_iter().filter(|planned| !planned.configuration.variables.is_empty()).collect(),
        }
    }

    /// The plan, with repetitions if they give new values.
    pub(super) fn plan(&self, offered: &[PlannedMeasurement], device: &dyn Device) -> Result<Box<dyn Plan>> {
        // A recorded device would only return the same values again.
        let anew = offered.iter().any(|planned| device.offers(&planned.for_repetition().job()));
        let (all, least) = self.order(offered);
        let plan: Box<dyn Plan> = match self.choice {
            PlanChoice::Grid => Box::new(GridPlan::new(all.clone())),
            PlanChoice::Adaptive => Box::new(self.adaptive(offered, device, anew)?),
        };
        let budget = self.budget.map(|budget| budget.as_secs_f64());
        let repetitions = if anew { REPETITIONS } else { 1 };
        Ok(Box::new(Repetitions::new(plan, &all, repetitions, budget).repeating_after(least)))
    }

    /// The order of all configurations, and how many of them are measured before any is repeated.
    pub(super) fn order(&self, offered: &[PlannedMeasurement]) -> (Vec<Configuration>, usize) {
        if self.choice == PlanChoice::Grid && self.budget.is_some() && self.order.shuffled.is_some() {
            return cheapest_first(offered, &estimate::estimate_seconds(offered.iter(), &self.device));
        }
        let mut all: Vec<Configuration> = offered.iter().map(|planned| planned.configuration.clone()).collect();
        if self.choice == PlanChoice::Adaptive {
            all.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(self.device.seed));
        }
        (all, 0)
    }

    /// All calibration networks, then the most informative configurations.
    fn adaptive(&self, offered: &[PlannedMeasurement], device: &dyn Device, repeats: bool) -> Result<GridThenPlan> {
        let (platform, capacity, seed) = (self.platform(device)?, device.capacity(), self.device.seed);
        let (calibration, others): (Vec<&PlannedMeasurement>, Vec<&PlannedMeasurement>) =
            offered.iter().partition(|one| is_calibration(one));
        let calibration = calibration.into_iter().map(|planned| planned.configuration.clone()).collect();
        let chosen = AdaptivePlan::new(offers(&others)?, PlanInputs { platform, capacity, repeats, seed });
        Ok(GridThenPlan::new(GridPlan::new(calibration), Box::new(chosen)))
    }

    /// The platform of the device, by its settings or its name. Otherwise that of any processor: a wrong guess only
    /// makes the plan's choice less efficient.
    fn platform(&self, device: &dyn Device) -> Result<Platform> {
        let setting = device.setting();
        let target = setting.get("target").map_or("", String::as_str);
        let platform = Platform::for_name(target)
            .or_else(|_| Platform::for_name(&self.device_name))
            .or_else(|_| Platform::for_name("cpu_avx2"))?;
        let threads = setting.get("threads").and_then(|threads| threads.parse().ok());
        Ok(threads.into_iter().fold(platform, Platform::on_threads).run_by(&setting))
    }
}

/// Each network is read once.
fn offers(offered: &[&PlannedMeasurement]) -> Result<Vec<OfferedConfiguration>> {
    let mut networks: BTreeMap<&Path, Arc<Network>> = BTreeMap::new();
    for PlannedMeasurement { file, .. } in offered {
        if !networks.contains_key(file.as_path()) {
            networks.insert(file, Arc::new(onnx::read(file)?.network));
        }
    }
    let offer = |PlannedMeasurement { configuration, file, .. }: &&PlannedMeasurement| OfferedConfiguration {
        configuration: configuration.clone(),
        network: networks[file.as_path()].clone(),
    };
    Ok(offered.iter().map(offer).collect())
}
