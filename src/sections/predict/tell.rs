//! What came of all networks, told: the tables, what to make of them, and what was skipped.

use super::answer::Answer;
use super::sentence::unfit;
use super::{Answered, Form, Predict, tables, trust};
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprints;
use crate::frame::{Context, Summary};
use crate::report::Table;
use crate::sections::named::Remarks;
use crate::units::grouped;
use crate::workload::Step;
use std::path::PathBuf;

/// What came of all networks.
pub(super) struct Answers {
    pub fingerprints: Fingerprints,
    /// What they were asked about.
    pub step: Step,
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
        Ok(Answers { step: fingerprints.subject().step, fingerprints, answers, skipped })
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

    fn tables(&self) -> Vec<Table> {
        let (step, device) = (self.step, &self.fingerprints.subject().device);
        match self.answers.as_slice() {
            [answer] => {
                let what = format!("{step} of {} on {device}", answer.network);
                let parts = answer.breakdown.iter().flat_map(|breakdown| breakdown.tables());
                tables::predictions(&self.answers, &what).into_iter().chain(parts).collect()
            }
            answers => tables::predictions(answers, &format!("{step} on {device}")),
        }
    }

    /// What to make of the numbers.
    fn headline(&self) -> String {
        trust::lines(&self.answers, &self.fingerprints, self.step).join("\n")
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
                .help("ask for a smaller batch or a smaller network; the largest safe batch is shown above"),
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
