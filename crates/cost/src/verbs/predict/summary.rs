//! The summary: answer, tables and remarks, and the exit status if a network was skipped or does not fit.

use super::answer::{BatchPrediction, NetworkAnswer};
use super::answers::{DeviceAnswers, DevicePredictions};
use super::{OutputForm, Predict};
use perf4sight_base::error::Error;
use perf4sight_base::units::{count_text, grouped_digits};
use perf4sight_verb::{Context, Summary};
use std::path::PathBuf;

impl DevicePredictions {
    pub fn summary(self, asked: &Predict, files: Vec<(&'static str, PathBuf)>, context: &Context) -> Summary {
        let json = self.json(asked.wanted.limit, context.warnings());
        let shown = match asked.form {
            OutputForm::Csv => Summary { headline: self.flat().to_csv().trim_end().to_owned(), ..Summary::default() },
            OutputForm::Tables => Summary {
                answer: self.to_sentences(asked.wanted.limit),
                headline: self.remarks().join("\n"),
                tables: self.tables(),
                ..Summary::default()
            },
        };
        let unfit = || self.unfit().filter(|_| asked.require_fit);
        Summary { files, json, failure: self.failure().or_else(unfit), ..shown }
    }

    fn unfit(&self) -> Option<Error> {
        let unfit: Vec<(&DeviceAnswers, &NetworkAnswer)> =
            self.devices.iter().flat_map(|device| device.unfit().map(move |answer| (device, answer))).collect();
        let (device, first) = unfit.first()?;
        let batches: Vec<String> = first
            .points
            .iter()
            .filter(|point: &&BatchPrediction| !point.fits())
            .map(|point| point.batch.to_string())
            .collect();
        let place = if self.devices.len() > 1 { format!(" on {}", device.name()) } else { String::new() };
        let more = match unfit.len() {
            1 => String::new(),
            more if self.devices.len() > 1 => format!(", nor may {} more", more - 1),
            more => format!(", nor may {}", count_text(more as u64 - 1, "other network")),
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
            Error::input(format!(
                "{} of {} networks were skipped",
                grouped_digits(skipped as u64),
                grouped_digits(all as u64)
            ))
            .expected("networks that the warnings above do not name")
            .help("correct them or leave them out; what was predicted of the others stands")
        })
    }
}
