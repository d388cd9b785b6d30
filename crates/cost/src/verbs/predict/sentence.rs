//! The answer in one sentence: whether the step fits, with which probability, and the largest batch that fits.

use super::answer::{BatchPrediction, NetworkAnswer};
use super::answers::{DeviceAnswers, DevicePredictions, NAMED};
use crate::fingerprint::{CountedMemory, FitDecision};
use crate::verbs::shared_memory::limit_text;
use crate::verbs::verdict::{self, verdict_text};
use perf4sight_base::units::{Bytes, grouped_digits, list_text};

/// The reason why there is no verdict, and the remedy.
const UNLIMITED: &str = "the memory limit is unknown: give --mem-limit (mem_limit)";

impl DevicePredictions {
    /// Whether the requested steps fit: for one network, on which of several devices; for several networks, how many
    /// on each device.
    pub fn to_sentences(&self, asked: Option<Bytes>) -> String {
        if let [device] = self.devices.as_slice() {
            return device.to_sentences(asked);
        }
        let single = |device: &DeviceAnswers| device.answers.len() == 1;
        match asked {
            None => UNLIMITED.to_owned(),
            Some(limit) if self.devices.iter().all(single) => self.where_it_fits(limit),
            Some(_) => {
                let lines =
                    self.devices.iter().map(|device| format!("{}: {}", device.name(), device.to_sentences(asked)));
                lines.collect::<Vec<_>>().join("\n")
            }
        }
    }

    /// The devices on which the largest batch of a single network fits.
    fn where_it_fits(&self, limit: Bytes) -> String {
        let largest = |device: &DeviceAnswers| -> Option<(u64, Option<FitDecision>)> {
            let point = device.answers.first()?.points.iter().max_by_key(|point| point.batch)?;
            Some((point.batch, point.verdict.map(|verdict| verdict.call)))
        };
        let called = |call: FitDecision| -> Vec<&DeviceAnswers> {
            let so = |device: &&DeviceAnswers| largest(device).is_some_and(|(_, called)| called == Some(call));
            self.devices.iter().filter(so).collect()
        };
        let fitting = called(FitDecision::Fits).into_iter();
        let place = limit_text(limit, fitting.map(|device| &device.fingerprints));
        let words = [
            (FitDecision::Fits, format!("fits into {place} on")),
            (FitDecision::Borderline, "is open on".to_owned()),
            (FitDecision::DoesNotFit, "does not fit on".to_owned()),
        ];
        let parts = words.into_iter().map(|(call, words)| (words, called(call)));
        let parts = parts.filter(|(_, devices)| !devices.is_empty());
        let names =
            |devices: Vec<&DeviceAnswers>| devices.into_iter().map(DeviceAnswers::name).collect::<Vec<_>>().join(", ");
        let parts: Vec<String> = parts.map(|(words, devices)| format!("{words} {}", names(devices))).collect();
        let batch = self.devices.first().and_then(largest).map_or(1, |(batch, _)| batch);
        format!("{} {}", step(batch), parts.join("; "))
    }
}

impl DeviceAnswers {
    /// Whether the requested steps fit; `asked` is the requested limit, if it is not the device's.
    fn to_sentences(&self, asked: Option<Bytes>) -> String {
        match self.answers.as_slice() {
            [] => String::new(),
            [answer] => self.sentence(answer, asked),
            answers => self.of_several(answers, asked),
        }
    }

    /// The sentence on one network: on the largest requested batch that fits, and on the largest that may not.
    pub fn sentence(&self, answer: &NetworkAnswer, asked: Option<Bytes>) -> String {
        if self.fingerprints.memory.is_none() {
            return String::new();
        }
        let fits = |point: &&BatchPrediction| point.fits();
        let largest = |points: &mut dyn Iterator<Item = &BatchPrediction>| -> Option<String> {
            let point = points.max_by_key(|point| point.batch)?;
            Some(self.verdict_sentence(answer, point, asked))
        };
        let fitting = largest(&mut answer.points.iter().filter(fits));
        let others = largest(&mut answer.points.iter().filter(|point| !fits(point)));
        let safe = answer.max_batch.map(|max| match max.safe {
            0 => "not even a single sample is safe".to_owned(),
            safe => format!("the largest safe batch is {}", grouped_digits(safe)),
        });
        fitting.into_iter().chain(others).chain(safe).collect::<Vec<_>>().join("; ")
    }

    /// "a step of 16 samples needs 5.10 GiB and fits into 8 GiB (> 99.9 % sure)".
    fn verdict_sentence(&self, answer: &NetworkAnswer, point: &BatchPrediction, asked: Option<Bytes>) -> String {
        let step = step(point.batch);
        let tensors = answer.limit.is_some_and(|limit| limit.counts == CountedMemory::Tensors);
        let need = point.need.map_or(String::new(), |need| need.to_string());
        // The tables hold the total memory of a step.
        let whole = point.memory.as_ref().filter(|_| tensors);
        let all = whole.map(|memory| format!(" for its tensors, {} in all,", memory.value)).unwrap_or_default();
        let needs = match self.prior_need_text(point) {
            Some(believed) => format!("{step} needs {believed}"),
            None => format!("{step} needs {need}{all}"),
        };
        let place = self.place(answer, asked);
        match point.verdict {
            None if self.fingerprints.are_priors() => format!("{}; {UNLIMITED}", needs.trim_end_matches(',')),
            None if asked.is_some() => {
                format!("{needs}; the published method does not predict whether it fits into {place}")
            }
            None => format!("{needs}; how much {place} gives it is unknown"),
            Some(verdict) => verdict_text(&needs, &place, verdict),
        }
    }

    /// "691 MiB for its tensors, 870 MiB – 2.54 GiB in all," for a device that was not measured.
    fn prior_need_text(&self, point: &BatchPrediction) -> Option<String> {
        let interval = point.memory.as_ref().filter(|_| self.fingerprints.are_priors())?.interval?;
        Some(format!("{},", verdict::believed_need(&point.tensors_in_words()?, interval)))
    }

    fn place(&self, answer: &NetworkAnswer, asked: Option<Bytes>) -> String {
        let asked = asked.map(|limit| limit_text(limit, [&self.fingerprints]));
        verdict::place(asked, answer.limit, self.name(), "tensors")
    }

    fn of_several(&self, answers: &[NetworkAnswer], asked: Option<Bytes>) -> String {
        if answers.iter().flat_map(|answer| &answer.points).all(|point| point.verdict.is_none()) {
            return if self.fingerprints.are_priors() { UNLIMITED.to_owned() } else { String::new() };
        }
        let unfit: Vec<&str> = self.unfit().map(|answer| answer.network.as_str()).collect();
        let place = self.place(&answers[0], asked);
        let (fit, all) = (grouped_digits((answers.len() - unfit.len()) as u64), grouped_digits(answers.len() as u64));
        let sentence = format!("{fit} of {all} networks fit into {place} at every requested batch size");
        match unfit.is_empty() {
            true => sentence,
            false => format!("{sentence}; not sure to fit: {}", list_text(unfit, NAMED)),
        }
    }
}

fn step(batch: u64) -> String {
    let samples = if batch == 1 { "sample" } else { "samples" };
    format!("a step of {} {samples}", grouped_digits(batch))
}
