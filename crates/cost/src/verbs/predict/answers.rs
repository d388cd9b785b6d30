//! The predictions for all networks on every device, and the networks that were skipped.

use super::AnswerResult;
use super::answer::{BatchPrediction, NetworkAnswer};
use crate::fingerprint::DeviceFingerprints;
use crate::verbs::named::NetworkRemarks;
use crate::verbs::source::TargetDevice;
use perf4sight_base::error::{Error, Result};
use perf4sight_step::workload::Step;
use perf4sight_verb::Context;

pub(super) struct DevicePredictions {
    pub devices: Vec<DeviceAnswers>,
    /// Networks that could not be predicted.
    pub skipped: Vec<(String, Error)>,
}

pub(super) struct DeviceAnswers {
    pub fingerprints: DeviceFingerprints,
    pub step: Step,
    pub answers: Vec<NetworkAnswer>,
}

impl DevicePredictions {
    /// Separates the networks that could not be predicted, with a warning each; if it is the only network, returns its
    /// error.
    pub fn collect(
        words: Vec<String>,
        answered: Vec<Option<AnswerResult>>,
        devices: Vec<TargetDevice>,
        context: &mut Context,
    ) -> Result<Self> {
        let single = words.len() == 1;
        let (mut skipped, mut remarks) = (Vec::new(), NetworkRemarks::default());
        let unasked =
            |TargetDevice { fingerprints, step, .. }| DeviceAnswers { fingerprints, step, answers: Vec::new() };
        let mut devices: Vec<DeviceAnswers> = devices.into_iter().map(unasked).collect();
        for (word, answered) in words.into_iter().zip(answered) {
            match answered {
                None => {}
                Some(Err(error)) if single => return Err(error),
                Some(Err(error)) => {
                    remarks.warnings.push(format!("{word} is skipped: {error}"));
                    skipped.push((word, error));
                }
                Some(Ok((answers, more))) => {
                    remarks.extend(more);
                    devices.iter_mut().zip(answers).for_each(|(device, answer)| device.answers.push(answer));
                }
            }
        }
        remarks.report(context);
        Ok(DevicePredictions { devices, skipped })
    }
}

impl DeviceAnswers {
    pub fn name(&self) -> &str {
        &self.fingerprints.subject().device
    }

    /// Networks for which some requested batch size may not fit.
    pub fn unfit(&self) -> impl Iterator<Item = &NetworkAnswer> {
        self.answers.iter().filter(|answer| !answer.points.iter().all(BatchPrediction::fits))
    }
}

/// The maximum number of networks that a sentence names.
pub(super) const NAMED: usize = 5;
