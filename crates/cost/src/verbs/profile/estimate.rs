//! Estimates how long a profile takes, before any measurement.

use super::planned::PlannedMeasurement;
use crate::device;
use crate::device::kind::DeviceKind;
use crate::device::protocol::StepRule;
use perf4sight_machine as machine;
use perf4sight_network::zoo;
use perf4sight_network::zoo::ImageDataset;
use perf4sight_onnx as onnx;
use perf4sight_step::workload::{Stage, Variable};
use std::collections::BTreeMap;
use std::time::Duration;

/// Multiply-accumulates per second of one core under libtorch: 68e9 were measured on a recent server core with AVX-512
/// (a resnet18 training step of 4 images, 0.16 s on two); most machines are slower.
const MACS_PER_CORE: f64 = 40e9;
/// Seconds to start a worker that loads libtorch (0.24-0.37 s were measured) and to build a network in it, twice.
const START: f64 = 2.0 * 0.5;
/// The assumed size of a network whose file does not exist yet.
const UNKNOWN_MACS: f64 = 1e9;

/// The time for configurations on a device; none for simulated and recorded devices, which answer immediately, and for
/// machines over ssh, whose speed is unknown.
pub(super) fn time(ahead: &[&PlannedMeasurement], device: &device::DeviceOptions) -> Option<Duration> {
    let known = device.kind == DeviceKind::Cpu && device.routes.is_empty();
    known.then(|| Duration::from_secs_f64(estimate_seconds(ahead.iter().copied(), device).iter().sum()))
}

/// The time for this many of the configurations, whichever they will be.
pub(super) fn time_of_part(
    ahead: &[&PlannedMeasurement],
    part: usize,
    device: &device::DeviceOptions,
) -> Option<Duration> {
    let all = time(ahead, device)?;
    Some(all.mul_f64(part as f64 / ahead.len().max(1) as f64))
}

/// Seconds of each configuration, as if this machine's processor ran it.
pub(super) fn estimate_seconds<'a>(
    planned: impl Iterator<Item = &'a PlannedMeasurement>,
    device: &device::DeviceOptions,
) -> Vec<f64> {
    let rate = MACS_PER_CORE * device.threads.unwrap_or_else(machine::threads) as f64;
    let mut macs: BTreeMap<&str, f64> = BTreeMap::new();
    let seconds = planned.map(|one| {
        let whole = *macs.entry(&one.configuration.variant.network).or_insert_with(|| unpruned_macs(one));
        START + seconds(one, whole / rate)
    });
    seconds.collect()
}

/// Seconds of the steps, if the forward pass of one image takes `image` seconds at level 0.
fn seconds(planned: &PlannedMeasurement, image: f64) -> f64 {
    let workload = planned.configuration.workload;
    // Backward computes the gradients of inputs and of weights, each as costly as forward.
    let passes = if workload.step.stage == Stage::Training { 3.0 } else { 1.0 };
    let left = 1.0 - f64::from(planned.configuration.variant.level) / 100.0;
    let step = image * passes * left * workload.batch as f64;
    let rule = StepRule::default();
    let timed = (rule.minimum as f64 * step).max(rule.minimum_seconds);
    let asked = |variable| planned.configuration.variables.contains(&variable);
    // Memory is read in one more step, and another warms up the heap; layers are timed in as many steps as whole steps
    // are.
    let apart = if asked(Variable::Memory) { 2.0 * step } else { 0.0 };
    let layers = if asked(Variable::Layers) { timed } else { 0.0 };
    step + apart + timed + layers
}

/// Multiply-accumulates of the network at level 0: from the zoo, else estimated from the file at its level.
fn unpruned_macs(planned: &PlannedMeasurement) -> f64 {
    let variant = &planned.configuration.variant;
    let known = ImageDataset::from_word(&planned.dataset).and_then(|images| zoo::build(&variant.network, images));
    let left = 1.0 - f64::from(variant.level) / 100.0;
    let pruned = || onnx::read(&planned.file).map(|loaded| loaded.network.macs() as f64 / left);
    known.map(|network| network.macs() as f64).or_else(|_| pruned()).unwrap_or(UNKNOWN_MACS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Configuration;
    use crate::records::Variant;
    use perf4sight_step::workload::Workload;

    fn planned(network: &str, level: u8, stage: Stage, batch: u64) -> PlannedMeasurement {
        let (variant, workload) = (Variant::new(network, level), Workload::published(stage, batch));
        let configuration = Configuration { variant, workload, variables: Vec::new(), round: 1 };
        PlannedMeasurement { configuration, file: "absent.onnx".into(), dataset: "imagenet".into() }
    }

    #[test]
    fn a_step_takes_as_long_as_its_arithmetic_and_a_profile_half_a_second_at_least() {
        // One image in 0.1 s: 8 images at level 50, three passes, 1.2 s; a warm-up and three steps.
        assert!((seconds(&planned("resnet18", 50, Stage::Training, 8), 0.1) - 4.8).abs() < 1e-9);
        // One image in 1 ms, forward only: warm-up, then steps for half a second.
        assert!((seconds(&planned("resnet18", 0, Stage::Inference, 1), 0.001) - 0.501).abs() < 1e-9);
    }

    #[test]
    fn networks_are_looked_up_in_the_zoo_and_guessed_otherwise() {
        // torchvision's documentation: 1.814 GMACs.
        assert!((unpruned_macs(&planned("resnet18", 50, Stage::Training, 8)) / 1.814e9 - 1.0).abs() < 0.01);
        assert_eq!(unpruned_macs(&planned("mine", 0, Stage::Training, 8)), UNKNOWN_MACS);
    }
}
