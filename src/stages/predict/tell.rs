//! What came of all networks, told: the tables, what to make of them, and what was skipped.

use super::answer::Answer;
use super::{Form, Heard, Predict, tables};
use crate::error::{Error, Result};
use crate::fingerprint::{Fingerprint, Fingerprints, Prediction};
use crate::report::Table;
use crate::stages::named::Remarks;
use crate::stages::{Context, Summary};
use crate::units::{Percent, grouped};
use std::path::PathBuf;

/// What came of all networks.
pub(super) struct Answers {
    pub fingerprints: Fingerprints,
    pub answers: Vec<Answer>,
    /// Networks that could not be asked about.
    pub skipped: Vec<(String, Error)>,
}

impl Answers {
    /// Sorts out what could not be asked about, and says so; a single network that could not is the error itself.
    pub fn collect(
        words: Vec<String>,
        heard: Vec<Option<Heard>>,
        fingerprints: Fingerprints,
        context: &mut Context,
    ) -> Result<Self> {
        let single = words.len() == 1;
        let (mut answers, mut skipped, mut remarks) = (Vec::new(), Vec::new(), Remarks::default());
        for (word, heard) in words.into_iter().zip(heard) {
            match heard {
                None => {}
                Some(Err(error)) if single => return Err(error),
                Some(Err(error)) => {
                    remarks.warnings.push(format!("{word} is skipped: {error}"));
                    skipped.push((word, error));
                }
                Some(Ok((answer, heard))) => {
                    remarks.extend(heard);
                    answers.push(answer);
                }
            }
        }
        remarks.tell(context);
        Ok(Answers { fingerprints, answers, skipped })
    }

    /// The summary of the stage.
    pub fn summary(self, asked: &Predict, files: Vec<(&'static str, PathBuf)>, context: &Context) -> Summary {
        let json = self.json(context.warnings());
        let shown = match asked.form {
            Form::Csv => Summary { headline: self.flat().to_csv().trim_end().to_owned(), ..Summary::default() },
            Form::Tables => Summary { headline: self.headline(), tables: self.tables(asked), ..Summary::default() },
        };
        Summary { files, json, failure: self.failure(), ..shown }
    }

    fn tables(&self, asked: &Predict) -> Vec<Table> {
        let (stage, device) = (asked.stage, &self.fingerprints.subject().device);
        match self.answers.as_slice() {
            [answer] => {
                let page = tables::page(answer, format!("{stage} of {} on {device}", answer.network));
                let parts = answer.breakdown.iter().flat_map(|breakdown| breakdown.tables());
                std::iter::once(page).chain(parts).collect()
            }
            answers => vec![tables::lines(answers, format!("{stage} on {device}"))],
        }
    }

    /// What to make of the numbers.
    fn headline(&self) -> String {
        let single = match self.answers.as_slice() {
            [answer] => about(answer),
            _ => Vec::new(),
        };
        let basis = self.answers.first().into_iter().flat_map(basis);
        single.into_iter().chain(basis).chain(self.fingerprints.iter().map(trust)).collect::<Vec<_>>().join("\n")
    }

    fn failure(&self) -> Option<Error> {
        let (skipped, all) = (self.skipped.len(), self.skipped.len() + self.answers.len());
        (skipped > 0).then(|| {
            Error::input(format!("{} of {} networks were skipped", grouped(skipped as u64), grouped(all as u64)))
                .expected("networks that the warnings above do not name")
                .help("correct them or leave them out; what was predicted of the others stands")
        })
    }
}

/// What is said of one network: how large a batch may be, and what sets it apart.
fn about(answer: &Answer) -> Vec<String> {
    let max_batch = answer.max_batch.map(|max| {
        format!("largest batch that fits: {} with a margin, {} without", grouped(max.safe), grouped(max.likely))
    });
    let unlike = answer.unlike();
    let unlike = (!unlike.is_empty()).then(|| format!("unlike what was profiled: {}", unlike.join("; ")));
    max_batch.into_iter().chain(unlike).collect()
}

/// What the intervals rest on.
fn basis(answer: &Answer) -> Vec<String> {
    let Some(point) = answer.points.first() else { return Vec::new() };
    let based = |what, prediction: &Option<_>| {
        let prediction: &Prediction = prediction.as_ref()?;
        Some(match prediction.interval {
            Some(interval) => format!("{what} intervals: {}", interval.basis),
            None => {
                format!("{what} intervals: none, this fingerprint does not know how far off it is for new networks")
            }
        })
    };
    [based("latency", &point.latency), based("memory", &point.memory)].into_iter().flatten().collect()
}

/// How good the fingerprint was on levels it was not fitted on.
fn trust(fingerprint: &Fingerprint) -> String {
    let quantity = fingerprint.subject().quantity;
    match &fingerprint.scores {
        Some(scores) => format!(
            "{quantity}: off by {} on average over {} rows of levels it was not fitted on",
            Percent(scores.mape),
            scores.rows
        ),
        None => format!("{quantity}: never tested on levels it was not fitted on"),
    }
}
