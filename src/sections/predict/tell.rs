//! What came of all networks, told: the tables, what to make of them, and what was skipped.

use super::answer::Answer;
use super::sentence::unfit;
use super::{Answered, Form, Predict, tables};
use crate::error::{Error, Result};
use crate::fingerprint::{Expected, Fingerprints, Prediction};
use crate::frame::{Context, Summary};
use crate::report::Table;
use crate::sections::named::Remarks;
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
        answered: Vec<Option<Answered>>,
        fingerprints: Fingerprints,
        context: &mut Context,
    ) -> Result<Self> {
        let single = words.len() == 1;
        let (mut answers, mut skipped, mut remarks) = (Vec::new(), Vec::new(), Remarks::default());
        for (word, answered) in words.into_iter().zip(answered) {
            match answered {
                None => {}
                Some(Err(error)) if single => return Err(error),
                Some(Err(error)) => {
                    remarks.warnings.push(format!("{word} is skipped: {error}"));
                    skipped.push((word, error));
                }
                Some(Ok((answer, more))) => {
                    remarks.extend(more);
                    answers.push(answer);
                }
            }
        }
        remarks.tell(context);
        Ok(Answers { fingerprints, answers, skipped })
    }

    /// The summary of the stage.
    pub fn summary(self, asked: &Predict, files: Vec<(&'static str, PathBuf)>, context: &Context) -> Summary {
        let json = self.json(asked.limit, context.warnings());
        let shown = match asked.form {
            Form::Csv => Summary { headline: self.flat().to_csv().trim_end().to_owned(), ..Summary::default() },
            Form::Tables => Summary {
                answer: self.sentences(asked.limit),
                headline: self.headline(),
                tables: self.tables(asked),
                ..Summary::default()
            },
        };
        let unfit = || self.unfit().filter(|_| asked.require_fit);
        Summary { files, json, failure: self.failure().or_else(unfit), ..shown }
    }

    fn tables(&self, asked: &Predict) -> Vec<Table> {
        let (stage, device) = (asked.stage, &self.fingerprints.subject().device);
        match self.answers.as_slice() {
            [answer] => {
                let page = tables::page(answer, &format!("{stage} of {} on {device}", answer.network));
                let parts = answer.breakdown.iter().flat_map(|breakdown| breakdown.tables());
                page.into_iter().chain(parts).collect()
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
        single.into_iter().chain(basis).chain(trust(&self.answers, &self.fingerprints)).collect::<Vec<_>>().join("\n")
    }

    /// The first network that may not fit, where there is one.
    fn unfit(&self) -> Option<Error> {
        let unfit: Vec<&Answer> = unfit(&self.answers).collect();
        let first = unfit.first()?;
        let batches: Vec<String> =
            first.points.iter().filter(|point| !point.fits()).map(|point| point.batch.to_string()).collect();
        let more = if unfit.len() > 1 { format!(", and {} more networks", unfit.len() - 1) } else { String::new() };
        Some(
            Error::unfit(format!("{} may not fit at batch size {}{more}", first.network, batches.join(", ")))
                .expected("steps that fit with a probability of at least 90 %")
                .help("ask for a smaller batch or a smaller network; the largest safe batch is told above"),
        )
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
        format!("largest batch: {} is safe, {} as likely to fit as not", grouped(max.safe), grouped(max.likely))
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

/// How far off predictions are likely to be: as of levels of a network that was profiled, or as of networks that never were. Networks
/// alike in that are told of once.
fn trust(answers: &[Answer], fingerprints: &Fingerprints) -> Vec<String> {
    let mut lines = Vec::new();
    for quantity in fingerprints.iter().map(|one| one.subject().quantity) {
        for answer in answers {
            let line = format!("{quantity}: {}", expectation(answer.expected.get(&quantity)));
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines
}

fn expectation(expected: Option<&Expected>) -> String {
    match expected {
        Some(Expected::Levels { mape, rows }) => {
            let mape = Percent(*mape);
            format!("off by {mape} on average for levels of profiled networks, over {rows} rows it was not fitted on")
        }
        Some(Expected::LeftOut { mape, networks, worst, worst_mape }) => format!(
            "off by {} on average for networks nobody profiled, at worst by {} ({worst}), over {networks} left out in turn",
            Percent(*mape),
            Percent(*worst_mape),
        ),
        None => "never tested on networks like this".to_owned(),
    }
}
