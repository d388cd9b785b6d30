//! What would change with another link, other buckets, more ranks, faster operations: small edits of a step's graph, one
//! after the other. A new one is a file and its line in [`FORMS`].

mod added_time;
mod bucket_cap;
mod clause;
mod devices;
mod half_rates;
mod in_half;
mod kernel;
mod links;
mod one_rank;
mod operations;
mod other_ranks;
mod outcome;
mod precision;
mod rank;
mod ranks;
mod tf32;
mod turning_latency;
mod unprofiled;
mod unseen_waits;
mod variations;

pub(crate) use devices::no_model;
pub use half_rates::HalfRates;
pub use in_half::{ALL as ALL_IN_HALF, HalfPrecisionShares};
pub use kernel::{KernelBits, class_of_kernel};
pub use one_rank::one_rank;
pub use outcome::{StepPrediction, WhatIfOutcome, changed_step, predict};
pub(crate) use outcome::{depends_on_step, ratio_of_work, still_unlike};
pub use tf32::Tf32;
pub use turning_latency::{TurningLatency, turning_latency};
pub use variations::variations;

use crate::communication::CommunicationCosts;
use crate::graph::StepGraph;
use clause::WhatIfClause;
use perf4sight_base::error::{Error, Result, nearest};
use perf4sight_operations::{KnownGpu, OperationModel, TimeScaling};
use std::fmt::Debug;
use std::sync::Arc;

/// A step and the costs of its communication, which changes edit.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The step.
    pub step: StepGraph,
    /// What operations between ranks cost, for transfers that changes add.
    pub communication: CommunicationCosts,
}

/// An edit of a step, made to several recorded steps at once.
pub trait StepChange: Debug + Send + Sync {
    /// Edits a step.
    ///
    /// # Errors
    /// A step that the change cannot be made to: without the named operations, ranks, buckets.
    fn apply(&self, scenario: &mut Scenario) -> Result<()>;

    /// What is assumed beyond the traces, in a sentence.
    fn assumption(&self) -> Option<String> {
        None
    }

    /// What of a step the change knows little about, in sentences.
    fn doubts(&self, _step: &StepGraph) -> Vec<String> {
        Vec::new()
    }

    /// The number of the rank that it makes do what the others do, if it does.
    fn rank_as_others(&self) -> Option<u32> {
        None
    }

    /// What is known of the step after it, for changes that follow.
    fn known_after(&self, known: WhatIfFacts) -> WhatIfFacts {
        known
    }

    /// The same change at the bounds of what it rests on, for the interval: the one that makes a step shortest first.
    fn bounds(&self) -> Vec<Box<dyn StepChange>> {
        Vec::new()
    }
}

/// What changes may rest on beyond the traces.
#[derive(Debug, Clone, Default)]
pub struct WhatIfFacts {
    /// A model of operations on several GPUs.
    pub operations: Option<Arc<OperationModel>>,
    /// The GPUs that the traces were recorded on: each different list of a rank.
    pub gpus: Vec<Vec<String>>,
    /// What computes in half precision already.
    pub in_half: HalfPrecisionShares,
    /// The ranks that the scenario makes do what the others do.
    pub as_others: Vec<u32>,
}

impl WhatIfFacts {
    /// The model with the GPU of the traces; none without a model.
    ///
    /// # Errors
    /// A GPU that the traces do not say, or the model does not know.
    pub fn device(&self) -> Result<Option<(&OperationModel, KnownGpu)>> {
        let Some(model) = &self.operations else { return Ok(None) };
        Ok(Some((model, model.device(self.gpu()?)?)))
    }

    /// The GPU of all ranks.
    ///
    /// # Errors
    /// Traces that do not say it, or say several.
    pub fn gpu(&self) -> Result<&str> {
        match self.gpus.as_slice() {
            [own] if own.len() == 1 => Ok(&own[0]),
            [] => Err(Error::usage("the traces do not say which GPU they were recorded on")),
            several => Err(Error::usage(format!("the traces say several GPUs: {}", several.concat().join(", ")))
                .expected("ranks that were recorded on the same kind of GPU")),
        }
    }

    /// How kernels of the traces' GPU change from single to half precision; none without a model.
    ///
    /// # Errors
    /// As [`WhatIfFacts::device`], and a model that does not know half precision.
    pub fn to_half(&self) -> Result<Option<TimeScaling>> {
        let Some((model, device)) = self.device()? else { return Ok(None) };
        model.to_half(&device).map(Some).ok_or_else(|| {
            Error::usage("it was not trained on products in both precisions")
                .expected("times in fp32 and in fp16 or bf16")
        })
    }
}

/// Reads a change; none if the text is of another form.
type ParseChange = fn(&WhatIfClause, &WhatIfFacts) -> Option<Result<Box<dyn StepChange>>>;

/// A way to write a change.
#[derive(Debug, Clone, Copy)]
pub struct WhatIfForm {
    /// An example.
    pub example: &'static str,
    parse: ParseChange,
}

/// All ways to write changes.
pub const FORMS: [WhatIfForm; 13] = [
    WhatIfForm { example: "bandwidth x 0.5", parse: |clause, _| links::parse(clause) },
    WhatIfForm { example: "latency x 2", parse: |clause, _| links::parse(clause) },
    WhatIfForm { example: "communication x 0.5", parse: |clause, _| links::parse(clause) },
    WhatIfForm { example: "ranks = 64", parse: |clause, _| ranks::parse(clause) },
    WhatIfForm { example: "rank 3 as the others", parse: rank::parse },
    WhatIfForm { example: "bucket_cap_mb = 8", parse: |clause, _| bucket_cap::parse(clause) },
    WhatIfForm { example: "operations 'gelu*' x 0.5", parse: |clause, _| operations::parse(clause) },
    WhatIfForm { example: "remove operations 'gelu*'", parse: |clause, _| operations::parse_removal(clause) },
    WhatIfForm { example: "add 2 ms after operations 'gelu*'", parse: |clause, _| added_time::parse(clause) },
    WhatIfForm { example: "gpu x 1.5", parse: |clause, _| devices::parse_gpu(clause) },
    WhatIfForm { example: "cpu x 1.5", parse: |clause, _| devices::parse_cpu(clause) },
    WhatIfForm { example: "gpu = H100", parse: devices::parse_other_gpu },
    WhatIfForm { example: "precision = bf16", parse: precision::parse },
];

/// Reads a change that rests on the traces alone.
///
/// # Errors
/// A text of no known form, or with a value that makes no sense.
pub fn parse(text: &str) -> Result<Box<dyn StepChange>> {
    parse_with(text, &WhatIfFacts::default())
}

/// Reads a change.
///
/// # Errors
/// As [`parse`], and a change that rests on more than is known.
pub fn parse_with(text: &str, known: &WhatIfFacts) -> Result<Box<dyn StepChange>> {
    let clause = WhatIfClause::read(text);
    match FORMS.iter().find_map(|form| (form.parse)(&clause, known)) {
        Some(change) => change.map_err(|error| error_with_text(&error, text)),
        None => Err(unknown(text)),
    }
}

/// The rank that a change makes do what the others do.
pub(crate) fn rank_as_others(text: &str) -> Option<u32> {
    rank::number(&WhatIfClause::read(text))?.ok()
}

/// The same error with the text of the change in front.
fn error_with_text(error: &Error, text: &str) -> Error {
    Error::usage(format!("what-if \"{text}\": {error}"))
}

fn unknown(text: &str) -> Error {
    let examples = FORMS.map(|form| form.example);
    let error = Error::usage(format!("what-if \"{text}\" is not known"));
    let error =
        error.expected(format!("a change such as {}", examples.map(|example| format!("\"{example}\"")).join(", ")));
    if FOUND_BY_OPTIMIZE.iter().any(|word| text.contains(word)) {
        return error.help("perf4sight optimize finds what it brings");
    }
    if OF_PLANS.iter().any(|word| text.contains(word)) {
        return error.help("perf4sight cost-model predicts steps of other degrees of parallelism, from measured plans");
    }
    if text.starts_with("bandwidth") {
        return error.help("give a factor, such as \"bandwidth x 2\": links are known by what they take in the traces");
    }
    if text.contains(',') {
        return error.help("changes of one case have semicolons between them; other cases are what-ifs of their own (--what-if again, or in a configuration a list in brackets)");
    }
    match nearest(text, examples) {
        Some(example) => error.help(format!("did you mean \"{example}\"?")),
        None => match nearest_subject(text) {
            Some(example) => error.help(format!("did you mean something like \"{example}\"?")),
            None => error,
        },
    }
}

/// Words of changes to programs that `perf4sight optimize` proposes with what they bring.
const FOUND_BY_OPTIMIZE: [&str; 6] = ["static_graph", "accumulat", "no_sync", "checkpoint", "compile", "autocast"];

/// Words of plans, of which one trace shows one.
const OF_PLANS: [&str; 5] = ["tensor", "pipeline", "data_parallel", "micro_batch", "stages"];

/// The example whose first word is the nearest to that of a text.
fn nearest_subject(text: &str) -> Option<&'static str> {
    let subject = |text: &'static str| text.split_whitespace().next().unwrap_or_default();
    let word = text.split(|letter: char| letter.is_whitespace() || "=:*".contains(letter)).next()?;
    let known = nearest(word, FORMS.map(|form| subject(form.example)))?;
    FORMS.iter().map(|form| form.example).find(|example| subject(example) == known)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The help and the page list every form that is read.
    #[test]
    fn every_form_is_documented() {
        let page = include_str!("../../../../docs/replay.md");
        let help = crate::verb::VERB.after_help;
        for WhatIfForm { example, .. } in FORMS {
            assert!(page.contains(&format!("| `{example}")) && help.contains(&format!("  {example} ")), "{example}");
        }
    }

    #[test]
    fn who_asks_for_what_optimize_proposes_is_sent_there() {
        for text in ["static_graph", "accumulate = 2", "torch.compile"] {
            let error = parse(text).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("perf4sight optimize"), "{error}");
        }
    }

    #[test]
    fn who_asks_for_another_degree_of_parallelism_or_an_absolute_bandwidth_is_told_what_answers() {
        for (text, answer) in
            [("tensor_parallel = 2", "perf4sight cost-model"), ("bandwidth = 10Gb/s", "bandwidth x 2")]
        {
            let error = parse(text).map(|_| ()).unwrap_err();
            assert!(format!("{error:?}").contains(answer), "{error:?}");
        }
    }

    #[test]
    fn factors_that_make_no_sense_are_refused_with_those_that_do() {
        for text in [
            "bandwidth x 1e-300",
            "latency x 1e200",
            "operations '*' x 1e200",
            "cpu x 1e-200",
            "gpu x inf",
            "add 1e300 ms after operations '*'",
            "bucket_cap_mb = 1e300",
            "bandwidth x -1",
            "bandwidth x nan",
        ] {
            let error = parse(text).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("from 0.000001 to 1000000"), "{error}");
        }
        assert!(parse("bandwidth x 1000000").is_ok() && parse("bandwidth x 1e-6").is_ok());
    }
}
