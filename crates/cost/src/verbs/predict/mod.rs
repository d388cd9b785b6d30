//! `[predict]` and `perf4sight predict`: predictions of stored fingerprints for networks that were not profiled.

mod answer;
mod answers;
mod output;
mod page;
mod sentence;
mod settings;
mod summary;
mod tables;
mod trust;

use super::named::{NamedNetwork, NetworkRemarks};
use super::source::{FingerprintSource, TargetDevice};
use super::wanted_step::WantedStep;
use super::{NETWORKS, asked};
use crate::fingerprint::DeviceFingerprints;
use answer::{NetworkAnswer, PredictQuestion};
use answers::DevicePredictions;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::overwrite;
use perf4sight_report::Progress;
use perf4sight_step::workload::Workload;
use perf4sight_verb::{Context, Outline, PlannedFiles, Section, Spec, Summary, Verb, VerbSpec};
use rayon::prelude::*;
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
    networks: Vec<String>,
    wanted: WantedStep,
    /// Batch sizes, in the order they are shown.
    batches: Vec<u64>,
    /// Whether a step that may not fit is a failure.
    require_fit: bool,
    form: OutputForm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputForm {
    Tables,
    /// Comma-separated rows and nothing else.
    Csv,
}

/// With at least this many networks a progress bar is shown.
const AWHILE: u64 = 100;

type AnswerResult = Result<(Vec<NetworkAnswer>, NetworkRemarks)>;

impl Verb for Predict {
    /// Predicts every network; those that cannot be used are skipped, named, and make [`Summary::failure`].
    fn run(&self, context: &mut Context) -> Result<Summary> {
        let devices = self.devices(context)?;
        let words = asked::expand(&self.networks)?;
        let is_page = words.len() == 1 && devices.len() == 1;
        let breakdown = is_page || context.console.mode().is_json();
        let question = PredictQuestion {
            devices: &devices,
            batches: &self.batches,
            limit: self.wanted.limit,
            extents: &self.wanted.extents,
            breakdown,
            timeline: is_page && self.wanted.has_page(),
        };
        let answered = ask_all(&words, &question, context);
        let predictions = DevicePredictions::collect(words, answered, devices, context)?;
        let limit = self.wanted.limit;
        let files = self.wanted.write("predictions", |ending| match ending {
            "html" => predictions.page(limit, context.warnings()).to_html(),
            _ => self.data(&predictions, ending, context),
        })?;
        Ok(predictions.summary(self, files, context))
    }
}

impl Predict {
    /// The devices, which can answer what is asked of them.
    fn devices(&self, context: &mut Context) -> Result<Vec<TargetDevice>> {
        let devices = self.wanted.devices(context)?;
        devices.iter().try_for_each(|device| self.check_memory(&device.fingerprints))?;
        let workloads = devices.iter().flat_map(|device| self.batches.iter().map(|&batch| (device.step, batch)));
        workloads.map(|(step, batch)| Workload { step, batch }).try_for_each(Workload::check)?;
        Ok(devices)
    }

    /// The predictions for programs, in the format of an ending.
    fn data(&self, predictions: &DevicePredictions, ending: &str, context: &Context) -> String {
        match ending {
            "csv" => predictions.flat().to_csv(),
            _ => format!("{:#}\n", predictions.json(self.wanted.limit, context.warnings())),
        }
    }

    /// Refuses to replace files of others, which predictions for no network are alike.
    fn check_output(&self, context: &mut Context) -> Result<()> {
        let devices = self.devices(context)?;
        let nothing = DevicePredictions::collect(Vec::new(), Vec::new(), devices, context)?;
        self.wanted.check_output(|ending| match ending {
            "html" => overwrite::GENERATOR.to_owned(),
            _ => self.data(&nothing, ending, context),
        })
    }

    /// Refuses to require that steps fit if the device's memory is unknown.
    fn check(&self) -> Result<()> {
        match self.wanted.source {
            FingerprintSource::Targets(_) if self.require_fit && self.wanted.limit.is_none() => {
                Err(Error::usage("the memory limit is unknown")
                    .expected("mem_limit (--mem-limit) if require_fit (--require-fit) is used with target (--target)")
                    .help("set the memory limit, such as 8GiB"))
            }
            FingerprintSource::Targets(_) | FingerprintSource::Fingerprint(_) => Ok(()),
        }
    }

    /// Refuses requests about memory that no fingerprint can answer.
    fn check_memory(&self, fingerprints: &DeviceFingerprints) -> Result<()> {
        match fingerprints.memory.is_none() && (self.wanted.limit.is_some() || self.require_fit) {
            true => Err(self
                .wanted
                .without_memory(fingerprints)
                .help("fit one ([fingerprint] with memory_model = True), or leave out mem_limit and require_fit")),
            false => Ok(()),
        }
    }
}

impl Section for Predict {
    fn outline(&self, planned: &PlannedFiles, _: &Context) -> Result<Outline<'_>> {
        let does = format!("predicts {} of {}", self.wanted.stage, self.networks.join(", "));
        let source = self.wanted.source.reads().into_iter().map(|read| read.path);
        let outline = self.wanted.outline(&does, "networks", &self.networks, planned);
        Ok(outline.check("output", source, |context| self.check_output(context)))
    }
}

/// Predicts every network, in parallel; none for those that Ctrl-C prevented.
fn ask_all(words: &[String], question: &PredictQuestion, context: &Context) -> Vec<Option<AnswerResult>> {
    let progress = match words.len() as u64 {
        few @ ..AWHILE => Progress::silent(few),
        many => context.console.progress(many, "predict"),
    };
    let cancel = &context.cancel;
    let asked = words.par_iter().map(|word| {
        let answered = (!cancel.load(Ordering::Relaxed)).then(|| answer_network(word, question));
        progress.advance(1);
        answered
    });
    asked.collect()
}

fn answer_network(word: &str, question: &PredictQuestion) -> AnswerResult {
    let NamedNetwork { network, mut remarks } =
        NamedNetwork::load_with_extents(word, question.dataset(), question.extents)?;
    let answers = question.answer(word, &network)?;
    remarks.warnings.extend(answers.iter().find_map(NetworkAnswer::open_memory));
    let smallest = question.batches.iter().min();
    let refused = |device: &TargetDevice| network.refused_pass(Workload { step: device.step, batch: *smallest? });
    let refused = question.devices.iter().find_map(refused);
    remarks.warnings.extend(refused.map(|refused| format!("{word}: {refused}")));
    Ok((answers, remarks))
}
