//! The remarks below the numbers: the basis of the intervals, the expected errors, and how networks differ from those
//! profiled.

use super::answer::NetworkAnswer;
use super::answers::{DeviceAnswers, DevicePredictions, NAMED};
use crate::fingerprint::{
    DeviceFingerprints, ExpectedError, Fingerprint, IntervalBasis, MaxBatch, OutOfDistribution, Prediction,
    calibration_kinds,
};
use crate::verbs::assumed_threads::assumed_threads;
use crate::verbs::shared_memory::shared_memory;
use perf4sight_base::units::{Percent, grouped_digits, list_text};
use perf4sight_step::workload::{Quantity, Step, Trainable};
use std::collections::BTreeSet;

/// The maximum number of reasons for each of several networks.
const REASONS: usize = 3;

impl DevicePredictions {
    pub fn remarks(&self) -> Vec<String> {
        let mut lines = match self.devices.as_slice() {
            [DeviceAnswers { answers, fingerprints, step }] => lines(answers, fingerprints, *step),
            devices => devices.first().map_or_else(Vec::new, |first| prior(devices.len(), first.step)),
        };
        let fingerprints = || self.devices.iter().map(|device| &device.fingerprints);
        lines.extend(assumed_threads(fingerprints()));
        lines.extend(shared_memory(fingerprints()));
        lines
    }
}

fn lines(answers: &[NetworkAnswer], fingerprints: &DeviceFingerprints, step: Step) -> Vec<String> {
    let quantities: Vec<Quantity> =
        fingerprints.iter().map(Fingerprint::subject).map(|subject| subject.quantity).collect();
    let mut lines: Vec<String> = match answers {
        [answer] => largest_batch(answer, fingerprints).into_iter().chain(out_of_distribution(answer)).collect(),
        answers => answers.iter().filter_map(shortly).collect(),
    };
    if fingerprints.are_priors() {
        lines.extend(prior(1, step));
        return lines;
    }
    for of in [basis, expectation] {
        lines.extend(quantities.iter().flat_map(|&quantity| shared_remarks(answers, |answer| of(answer, quantity))));
    }
    lines.extend(other_step(fingerprints, step));
    lines.extend(other_program(fingerprints));
    lines.extend(foreign(answers));
    lines.extend(teachable(answers));
    lines
}

/// The basis of predictions for devices that were not measured, and what is assumed of the step.
fn prior(devices: usize, step: Step) -> Vec<String> {
    let (prior, device) = if devices == 1 { ("a prior", "this device") } else { ("priors", "these devices") };
    let basis = format!(
        "{prior}: nothing was measured on {device}; memory of tensors is simulated, the process's other memory and all latency are assumed for such devices, \
         and nine of ten measurements should lie in the intervals"
    );
    let all_trained = (step.trains() && step.trainable == Trainable::All).then(|| ALL_TRAINED.to_owned());
    std::iter::once(basis).chain(all_trained).collect()
}

/// A file does not say which weights require gradients.
const ALL_TRAINED: &str = "all weights are taken to be trained, each with a gradient and its states of the optimizer; if some are frozen, --trainable (trainable) \
                           names the others";

/// A profile measures a program of its own: what a processor's memory and time are in another one differs.
fn other_program(fingerprints: &DeviceFingerprints) -> Option<String> {
    fingerprints.memory.as_ref().is_some_and(Fingerprint::is_on_processor).then(|| {
        "memory in all and time are those of the program that was profiled: a training script in Python may take up to 600 MiB besides its tensors, \
         and more time where its heap gives memory back after every step (docs/measuring.md)"
            .to_owned()
    })
}

/// The basis of an answer for another step than those that were profiled.
fn other_step(fingerprints: &DeviceFingerprints, step: Step) -> Vec<String> {
    let others = fingerprints.iter().map(Fingerprint::subject).filter(|subject| subject.step != step);
    let lines = others.map(|subject| {
        let how = match subject.quantity {
            Quantity::Memory => {
                "its allocations are simulated; errors and the probability that it fits are those of the profiled step and were not tested"
            }
            Quantity::Latency => {
                "operations that changed are estimated from FLOPs, bytes moved and kernel launches; errors were not tested"
            }
        };
        let one_by_one = (subject.quantity == Quantity::Latency && subject.step.optimizer != step.optimizer)
            .then_some("; weights are assumed to be updated one by one, not all at once as PyTorch 2 does on accelerators");
        let one_by_one = one_by_one.unwrap_or_default();
        format!("{}: asked about {step}, profiled with {}; {how}{one_by_one}", subject.quantity, subject.step)
    });
    lines.collect()
}

fn largest_batch(answer: &NetworkAnswer, fingerprints: &DeviceFingerprints) -> Option<String> {
    let MaxBatch { safe, likely } = answer.max_batch?;
    let sizes = match (safe, likely) {
        (0, 0) => "none fits".to_owned(),
        _ if safe == likely => format!("{} is safe, and no larger one likely to fit", grouped_digits(safe)),
        _ => format!("{} is safe, {} as likely to fit as not", grouped_digits(safe), grouped_digits(likely)),
    };
    let profiled =
        fingerprints.memory.as_ref().map(Fingerprint::largest_batch).filter(|profiled| (1..likely).contains(profiled));
    let beyond =
        profiled.map_or(String::new(), |profiled| format!("; none above {} was profiled", grouped_digits(profiled)));
    Some(format!("largest batch: {sizes}{beyond}"))
}

/// All reasons why a network is out of distribution.
fn out_of_distribution(answer: &NetworkAnswer) -> Option<String> {
    let reasons = answer.out_of_distribution();
    (!reasons.is_empty()).then(|| format!("unlike what was profiled: {}", reasons.join("; ")))
}

/// The first reasons why one of several networks is out of distribution; the other formats have all of them.
fn shortly(answer: &NetworkAnswer) -> Option<String> {
    let reasons = answer.out_of_distribution();
    let first = reasons[..reasons.len().min(REASONS)].join("; ");
    let more = match reasons.len().saturating_sub(REASONS) {
        0 => String::new(),
        more => format!("; and {more} more, in --json"),
    };
    (!reasons.is_empty()).then(|| format!("unlike what was profiled, {}: {first}{more}", answer.network))
}

/// Remarks on networks, each once; a remark that does not apply to all networks names those it applies to.
fn shared_remarks(answers: &[NetworkAnswer], of: impl Fn(&NetworkAnswer) -> Option<String>) -> Vec<String> {
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for (line, network) in answers.iter().filter_map(|answer| Some((of(answer)?, answer.network.as_str()))) {
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, networks)) => networks.push(network),
            None => lines.push((line, vec![network])),
        }
    }
    let all = lines.len() == 1;
    let written = |(line, networks): (String, Vec<&str>)| {
        if all { line } else { format!("{line}: {}", list_text(networks, NAMED)) }
    };
    lines.into_iter().map(written).collect()
}

fn prediction(answer: &NetworkAnswer, quantity: Quantity) -> Option<&Prediction> {
    let point = answer.points.first()?;
    match quantity {
        Quantity::Latency => point.latency.as_ref(),
        Quantity::Memory => point.memory.as_ref(),
    }
}

fn basis(answer: &NetworkAnswer, quantity: Quantity) -> Option<String> {
    Some(match prediction(answer, quantity)?.interval {
        Some(interval) => format!("{quantity} intervals: {}", interval.basis),
        None => {
            format!("{quantity} intervals: none, the error of this fingerprint for new networks is unknown")
        }
    })
}

/// The expected error: for levels of a profiled network, or for networks that were not profiled.
fn expectation(answer: &NetworkAnswer, quantity: Quantity) -> Option<String> {
    let interval = prediction(answer, quantity)?.interval;
    let expected = match answer.expected.get(&quantity) {
        Some(ExpectedError::Levels { mape, rows }) => {
            let mape = Percent(*mape);
            format!("off by {mape} on average for levels of profiled networks, over {rows} rows it was not fitted on")
        }
        Some(ExpectedError::LeftOut { mape, networks, worst, worst_mape }) => format!(
            "off by {} on average for networks nobody profiled but like those profiled, at worst by {} ({worst}), over {networks} left out \
             in turn",
            Percent(*mape),
            Percent(*worst_mape),
        ),
        None => match interval.map(|interval| interval.basis) {
            // The remark on intervals covers these.
            Some(IntervalBasis::Prior | IntervalBasis::OtherStep) => return None,
            Some(IntervalBasis::Rows) => {
                "not tested on rows besides those that it was calibrated with, which the intervals rest on".to_owned()
            }
            Some(
                IntervalBasis::Conformal | IntervalBasis::Estimated | IntervalBasis::Levels | IntervalBasis::Networks,
            ) => "not tested since it was fitted or calibrated; the intervals are all there is to go by".to_owned(),
            None => "never tested on networks like this".to_owned(),
        },
    };
    Some(format!("{quantity}: {expected}"))
}

/// A warning that the errors do not apply to a network that is out of distribution for reasons other than batch size
/// and unsupported operations.
fn foreign(answers: &[NetworkAnswer]) -> Option<String> {
    let apart = |reason: &OutOfDistribution| {
        !matches!(reason, OutOfDistribution::Batch { .. } | OutOfDistribution::NotUnderstood { .. })
    };
    let is_foreign = |answer: &&NetworkAnswer| {
        let mut predictions = answer.points.iter().flat_map(|point| point.predictions());
        predictions.any(|prediction| prediction.out_of_distribution.iter().any(apart))
    };
    let foreign: Vec<&str> = answers.iter().filter(is_foreign).map(|answer| answer.network.as_str()).collect();
    match (foreign.as_slice(), answers) {
        ([], _) => None,
        (_, [_]) => Some("this network is unlike those that these errors are of: go by its intervals".to_owned()),
        (some, _) => Some(format!(
            "unlike the networks that these errors are of, go by the intervals: {}",
            list_text(some, NAMED)
        )),
    }
}

/// The operations without measured latency that a profile with calibration networks would have measured.
fn teachable(answers: &[NetworkAnswer]) -> Option<String> {
    let latencies = answers.iter().flat_map(|answer| &answer.points).filter_map(|point| point.latency.as_ref());
    let reasons = latencies.flat_map(|latency| &latency.out_of_distribution);
    let unseen: BTreeSet<&String> = reasons
        .filter_map(|reason| match reason {
            OutOfDistribution::Operation(what) => Some(what),
            OutOfDistribution::Input { .. } | OutOfDistribution::Size { .. } | OutOfDistribution::Batch { .. } => None,
            OutOfDistribution::Precision { .. } | OutOfDistribution::NotUnderstood { .. } => None,
        })
        .collect();
    if unseen.is_empty() {
        return None;
    }
    let taught = calibration_kinds();
    let missed: Vec<&str> = unseen.into_iter().filter(|what| taught.contains(*what)).map(String::as_str).collect();
    (!missed.is_empty()).then(|| {
        format!(
            "for narrower latency intervals profile with teach = True in [profile], which measures {}",
            list_text(missed, NAMED)
        )
    })
}
