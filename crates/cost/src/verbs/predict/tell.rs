//! What came of all networks, told: the tables, what to make of them, and what was skipped.

use super::answer::Answer;
use super::sentence::unfit;
use super::{Answered, Form, Predict, devices, tables, trust};
use crate::fingerprint::Fingerprints;
use crate::verbs::named::Remarks;
use crate::verbs::source::Device;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::{Bytes, counted, grouped};
use perf4sight_report::Table;
use perf4sight_step::workload::Step;
use perf4sight_verb::{Context, Summary};
use std::path::PathBuf;

/// What came of all networks on every device.
pub(super) struct Told {
    /// At least one.
    pub devices: Vec<Answers>,
    /// Networks that could not be asked about.
    pub skipped: Vec<(String, Error)>,
}

/// What came of all networks on one device.
pub(super) struct Answers {
    pub fingerprints: Fingerprints,
    /// What they were asked about.
    pub step: Step,
    pub answers: Vec<Answer>,
}

impl Told {
    /// Sorts out what could not be asked about, and says so; a single network that could not is the error itself.
    pub fn collect(
        words: Vec<String>,
        answered: Vec<Option<Answered>>,
        devices: Vec<Device>,
        context: &mut Context,
    ) -> Result<Self> {
        let single = words.len() == 1;
        let (mut skipped, mut remarks) = (Vec::new(), Remarks::default());
        let unasked = |Device { fingerprints, step, .. }| Answers { fingerprints, step, answers: Vec::new() };
        let mut devices: Vec<Answers> = devices.into_iter().map(unasked).collect();
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
        remarks.tell(context);
        Ok(Told { devices, skipped })
    }

    /// The summary of the stage.
    pub fn summary(self, asked: &Predict, files: Vec<(&'static str, PathBuf)>, context: &Context) -> Summary {
        let json = self.json(asked.limit, context.warnings());
        let shown = match asked.form {
            Form::Csv => Summary { headline: self.flat().to_csv().trim_end().to_owned(), ..Summary::default() },
            Form::Tables => Summary {
                answer: self.sentences(asked.limit),
                headline: self.headline(),
                tables: self.tables(),
                ..Summary::default()
            },
        };
        let unfit = || self.unfit().filter(|_| asked.require_fit);
        Summary { files, json, failure: self.failure().or_else(unfit), ..shown }
    }

    pub fn sentences(&self, asked: Option<Bytes>) -> String {
        match self.devices.as_slice() {
            [device] => device.sentences(asked),
            devices => devices::sentences(devices, asked),
        }
    }

    pub fn tables(&self) -> Vec<Table> {
        match self.devices.as_slice() {
            [device] => device.tables(),
            [Answers { answers, step, .. }, ..] => {
                let of =
                    if let [answer] = answers.as_slice() { format!(" of {}", answer.network) } else { String::new() };
                vec![devices::table(&self.devices, format!("{step}{of}: a prior of every device"))]
            }
            [] => Vec::new(),
        }
    }

    /// What to make of the numbers.
    pub fn headline(&self) -> String {
        match self.devices.as_slice() {
            [Answers { answers, fingerprints, step }] => trust::lines(answers, fingerprints, *step).join("\n"),
            devices => devices::basis(devices.len()),
        }
    }

    /// The first network that may not fit, where there is one.
    fn unfit(&self) -> Option<Error> {
        let unfit: Vec<(&Answers, &Answer)> =
            self.devices.iter().flat_map(|device| unfit(&device.answers).map(move |answer| (device, answer))).collect();
        let (device, first) = unfit.first()?;
        let batches: Vec<String> =
            first.points.iter().filter(|point| !point.fits()).map(|point| point.batch.to_string()).collect();
        let place = if self.devices.len() > 1 { format!(" on {}", device.name()) } else { String::new() };
        let more = match unfit.len() {
            1 => String::new(),
            more if self.devices.len() > 1 => format!(", nor may {} more", more - 1),
            more => format!(", nor may {}", counted(more as u64 - 1, "other network")),
        };
        Some(
            Error::unfit(format!("{} may not fit at batch size {}{place}{more}", first.network, batches.join(", ")))
                .expected("steps that fit with a probability of at least 90 %")
                .help("ask for a smaller batch or a smaller network; the largest safe batch is shown above"),
        )
    }

    fn failure(&self) -> Option<Error> {
        let answered = self.devices.first().map_or(0, |device| device.answers.len());
        let (skipped, all) = (self.skipped.len(), self.skipped.len() + answered);
        (skipped > 0).then(|| {
            Error::input(format!("{} of {} networks were skipped", grouped(skipped as u64), grouped(all as u64)))
                .expected("networks that the warnings above do not name")
                .help("correct them or leave them out; what was predicted of the others stands")
        })
    }
}

impl Answers {
    /// The device's name.
    pub fn name(&self) -> &str {
        &self.fingerprints.subject().device
    }

    fn tables(&self) -> Vec<Table> {
        let (step, device) = (self.step, self.name());
        match self.answers.as_slice() {
            [answer] => {
                let what = format!("{step} of {} on {device}", answer.network);
                let parts = answer.breakdown.iter().flat_map(|breakdown| breakdown.tables());
                self.predictions(&what).into_iter().chain(parts).collect()
            }
            _ => self.predictions(&format!("{step} on {device}")),
        }
    }

    fn predictions(&self, what: &str) -> Vec<Table> {
        match self.fingerprints.are_priors() {
            true => vec![devices::table(std::slice::from_ref(self), format!("{what}: a prior"))],
            false => tables::predictions(&self.answers, what),
        }
    }
}
