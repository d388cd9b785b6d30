//! `[predict]` and `perf4sight predict`: predictions of stored fingerprints for networks that were not profiled.

mod answer;
mod answers;
mod asked;
mod output;
mod page;
mod sentence;
mod settings;
mod summary;
mod tables;
mod trust;

use super::NETWORKS;
use super::extents::Extents;
use super::named::{self, Named, Remarks, is_file};
use super::source::{Expected, Source};
use crate::fingerprint::{Fingerprints, file_name};
use answer::{Answer, Question};
use answers::Predictions;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::overwrite;
use perf4sight_base::units::Bytes;
use perf4sight_report::Progress;
use perf4sight_step::workload::{Changes, Quantity, Stage, Workload};
use perf4sight_verb::{Context, Foreseen, KeyedPath, Outline, Section, Spec, Summary, Verb, VerbSpec};
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// The section `[predict]`.
pub static SPEC: Spec =
    Spec { table: settings::TABLE, subject: NETWORKS, parse: |values| Ok(Box::new(Predict::parse(values)?)) };

/// `perf4sight predict`.
pub static VERB: VerbSpec =
    VerbSpec { table: settings::TABLE, after_help: "", parse: |values| Ok(Box::new(Predict::parse(values)?)) };

#[derive(Debug, Clone, PartialEq, Eq)]
struct Predict {
    /// Known networks, `NAME@LEVEL` for one pruned to that percentage, ONNX files, folders of them, patterns.
    pub networks: Vec<String>,
    pub source: Source,
    /// Batch sizes, in the order they are shown.
    pub batches: Vec<u64>,
    pub stage: Stage,
    pub changes: Changes,
    /// The memory limit, if it is not the memory of the profiled device.
    pub limit: Option<Bytes>,
    /// Whether a step that may not fit is a failure.
    pub require_fit: bool,
    /// The device that the fingerprints must be of, if one is required.
    pub device: Option<String>,
    /// The dataset that the fingerprints must be of, if one is required; for devices that were not measured it gives
    /// the images that networks read.
    pub dataset: Option<String>,
    pub extents: Extents,
    /// `.csv`, `.json` and `.html` files to write in addition.
    pub output: Vec<PathBuf>,
    /// Whether existing files that perf4sight did not write are replaced.
    pub overwrite: bool,
    pub form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Tables,
    /// Comma-separated rows and nothing else.
    Csv,
}

/// With at least this many networks a progress bar is shown.
const AWHILE: u64 = 100;

type Answered = Result<(Vec<Answer>, Remarks)>;

impl Verb for Predict {
    /// Predicts every network; those that cannot be used are skipped, named, and make [`Summary::failure`].
    fn run(&self, context: &mut Context) -> Result<Summary> {
        let expected = Expected {
            stage: self.stage,
            changes: self.changes,
            device: self.device.as_deref(),
            dataset: self.dataset.as_deref(),
        };
        let devices = self.source.devices(&expected, context)?;
        devices.iter().try_for_each(|device| self.check_memory(&device.fingerprints))?;
        let workloads = devices.iter().flat_map(|device| self.batches.iter().map(|&batch| (device.step, batch)));
        workloads.map(|(step, batch)| Workload { step, batch }).try_for_each(Workload::check)?;
        let words = asked::expand(&self.networks)?;
        let is_page = words.len() == 1 && devices.len() == 1;
        let breakdown = is_page || context.console.mode().is_json();
        let question = Question {
            devices: &devices,
            batches: &self.batches,
            limit: self.limit,
            extents: &self.extents,
            breakdown,
            timeline: is_page && self.output.iter().any(|file| file.extension().is_some_and(|ending| ending == "html")),
        };
        let answered = ask_all(&words, &question, context);
        let predictions = Predictions::collect(words, answered, devices, context)?;
        let files = self.write(&predictions, context)?;
        Ok(predictions.summary(self, files, context))
    }
}

impl Predict {
    /// Refuses to require that steps fit if the device's memory is unknown.
    ///
    /// # Errors
    /// The requirement.
    pub fn check(&self) -> Result<()> {
        match self.source {
            Source::Targets(_) if self.require_fit && self.limit.is_none() => {
                Err(Error::usage("the memory limit is unknown")
                    .expected("mem_limit (--mem-limit) if require_fit (--require-fit) is used with target (--target)")
                    .help("set the memory limit, such as 8GiB"))
            }
            Source::Targets(_) | Source::Fingerprint(_) => Ok(()),
        }
    }

    /// Refuses requests about memory that no fingerprint can answer.
    fn check_memory(&self, fingerprints: &Fingerprints) -> Result<()> {
        match fingerprints.memory.is_none() && (self.limit.is_some() || self.require_fit) {
            true => Err(Error::input("there is no fingerprint of memory here, so it is unknown what fits")
                .file(fingerprints.folder())
                .expected(file_name(self.stage, Quantity::Memory))
                .help("fit one ([fingerprint] with memory_model = True), or leave out mem_limit and require_fit")),
            false => Ok(()),
        }
    }

    fn write(&self, predictions: &Predictions, context: &Context) -> Result<Vec<(&'static str, PathBuf)>> {
        for file in &self.output {
            let text = match file.extension().and_then(|ending| ending.to_str()) {
                Some("csv") => predictions.flat().to_csv(),
                Some("html") => predictions.page(self.limit).to_html(),
                _ => format!("{:#}\n", predictions.json(self.limit, context.warnings())),
            };
            overwrite::save(file, text, self.overwrite)?;
        }
        Ok(self.output.iter().map(|file| ("predictions", file.clone())).collect())
    }
}

impl Section for Predict {
    fn outline(&self, foreseen: &Foreseen, _: &Context) -> Result<Outline> {
        // Files that an earlier section will have written are not names of networks; nor are patterns, which may match
        // such files.
        let mut names =
            self.networks.iter().filter(|word| !asked::is_pattern(word) && !foreseen.exists(Path::new(word)));
        names.try_for_each(|word| named::check(word)).map_err(Error::configured)?;
        let files = self.networks.iter().filter(|word| is_file(word) && !foreseen.exists(Path::new(word)));
        // A pattern may match files that an earlier section writes.
        let absent = files.filter(|word| !asked::is_pattern(word));
        let networks = absent.map(|word| KeyedPath { key: "networks", path: word.into() });
        Ok(Outline {
            steps: vec![format!(
                "predicts {} of {} {}",
                self.stage,
                self.networks.join(", "),
                self.source.description()
            )],
            reads: networks.chain(self.source.reads()).collect(),
            writes: self.output.iter().map(|file| KeyedPath { key: "output", path: file.clone() }).collect(),
            ..Outline::default()
        })
    }
}

/// Predicts every network, in parallel; none for those that Ctrl-C prevented.
fn ask_all(words: &[String], question: &Question, context: &Context) -> Vec<Option<Answered>> {
    let progress = match words.len() as u64 {
        few @ ..AWHILE => Progress::silent(few),
        many => context.console.progress(many, "predict"),
    };
    let cancel = &context.cancel;
    let asked = words.par_iter().map(|word| {
        let answered = (!cancel.load(Ordering::Relaxed)).then(|| ask(word, question));
        progress.advance(1);
        answered
    });
    asked.collect()
}

fn ask(word: &str, question: &Question) -> Answered {
    let Named { network, mut remarks } = Named::asked(word, question.dataset(), question.extents)?;
    let answers = question.ask(word, &network)?;
    remarks.warnings.extend(answers.iter().find_map(Answer::open_memory));
    Ok((answers, remarks))
}
