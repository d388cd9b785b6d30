//! A recorded job and what its communication costs: what every proposal is compared with.

use crate::changes::has_kernels;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::stats::median;
use perf4sight_base::units::{Milliseconds, Percent, count_text};
use perf4sight_replay::Analysis;
use perf4sight_replay::communication::CommunicationCosts;
use perf4sight_replay::graph::recorded::{RecordedSteps, StepCorrection};
use perf4sight_replay::graph::{CallTable, StepGraph};
use perf4sight_replay::replayed_job::lead_of_threads;
use perf4sight_replay::request::ReplayRequest;
use perf4sight_replay::simulate::{NodeSchedule, simulate};
use perf4sight_replay::what_if::{
    Scenario, StepChange, TurningLatency, WhatIfFacts, WhatIfOutcome, changed_step, parse, predict, turning_latency,
    variations,
};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// From this median difference between records and replays on, in percent, it is warned about.
const FAR: f64 = 2.0;

/// The recorded job.
#[derive(Debug, Clone)]
pub struct RecordedStart {
    /// The graph of its steps.
    pub recorded: RecordedSteps,
    /// What its communication costs.
    pub communication: CommunicationCosts,
    /// The replay of the typical step.
    pub schedule: NodeSchedule,
    /// Nanoseconds of the step as it is: the typical one, or the mean of all if none is typical.
    pub before: u64,
    /// Whether any change may leave the step as it is, by what the traces lack.
    holds_start: bool,
    /// Whether gradients are accumulated: over several steps or backward passes that were recorded, most of which exchange nothing.
    pub accumulates: bool,
    /// What changes may rest on beyond the traces.
    pub known: WhatIfFacts,
    /// The files of the traces.
    pub files: Vec<PathBuf>,
    /// That the others wait for a rank, in a sentence.
    pub straggler: Option<String>,
    /// What to know about all predictions, in sentences.
    pub warnings: Vec<String>,
}

/// Changes that are made one after the other, as one.
#[derive(Debug, Clone)]
pub struct CombinedChanges(pub Vec<Arc<dyn StepChange>>);

impl StepChange for CombinedChanges {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        self.0.iter().try_for_each(|change| change.apply(scenario))
    }

    fn assumption(&self) -> Option<String> {
        let all: Vec<String> = self.0.iter().filter_map(|change| change.assumption()).collect();
        Some(all.join("; ")).filter(|all| !all.is_empty())
    }

    fn doubts(&self, step: &StepGraph) -> Vec<String> {
        self.0.iter().flat_map(|change| change.doubts(step)).collect()
    }

    fn bounds(&self) -> Vec<Box<dyn StepChange>> {
        let own: Vec<&dyn StepChange> = self.0.iter().map(Arc::as_ref).collect();
        let together = |bounds: Vec<Option<Box<dyn StepChange>>>| {
            let all =
                bounds.into_iter().zip(&self.0).map(|(bound, change)| bound.map_or_else(|| change.clone(), Arc::from));
            Box::new(CombinedChanges(all.collect())) as Box<dyn StepChange>
        };
        variations(&own).into_iter().map(together).collect()
    }
}

impl RecordedStart {
    /// Builds the graph of a job's steps, without what recording added where the length of a plain step is known.
    ///
    /// # Errors
    /// Traces that cannot be replayed.
    pub fn new(analysis: &Analysis, request: &ReplayRequest) -> Result<Self> {
        let mut recorded = RecordedSteps::build(&analysis.job, &analysis.exchanges, &analysis.clocks)?;
        let mut warnings = analysis.warnings();
        warnings.extend(replay_error_warning(&recorded));
        warnings.extend(analysis.job.not_replayed_warning(&recorded.steps, recorded.unlike.as_ref(), "gains"));
        let some_exchange = without_exchange(analysis);
        let within_steps = recorded.typical.ranks.iter().any(|rank| rank.silent_passes > 0);
        let accumulates = within_steps || some_exchange.is_some() || analysis.job.cycle > 1;
        warnings.extend(some_exchange);
        warnings.extend(runs_ahead(analysis, &recorded));
        warnings.extend(without_wrapper(recorded.typical.graph.calls()));
        let mut is_plain = false;
        if let Some(plain) = request.plain_step(analysis, &recorded.steps) {
            request.check_plain(&recorded)?;
            let distortion = recorded.take_out_distortion(plain);
            is_plain = distortion.correction != StepCorrection::None;
            warnings.extend((!is_plain).then(|| {
                format!(
                    "recorded steps differ by {} from plain ones, which recording does not explain: gains are of the step as it was recorded, and the plain step is not used",
                    Percent(distortion.percent())
                )
            }));
        }
        let is_unsure = unsure(analysis, &recorded);
        warnings.extend(is_unsure.clone());
        let communication = request.communication(&recorded)?;
        let schedule = simulate(&recorded.typical.graph);
        let files = analysis.job.ranks.iter().map(|rank| rank.trace.file.clone()).collect();
        let known = request.known_of(&analysis.job)?;
        warnings.extend(unused_model(&known, &recorded.typical));
        let before = compared_time(&recorded, &schedule);
        warnings.extend(disturbed_warning(&recorded, before).filter(|_| !is_plain));
        let straggler = straggler(analysis, &recorded, &communication);
        let start = RecordedStart {
            recorded,
            communication,
            schedule,
            before,
            holds_start: is_unsure.is_some(),
            accumulates,
            known,
            files,
            straggler,
            warnings,
        };
        match before {
            0 => Err(Error::input("no step of these traces takes any time").expected("traces of training steps")),
            _ => Ok(start),
        }
    }

    /// What the step is that predictions are of, in words.
    pub fn step(&self) -> &'static str {
        match (self.recorded.varies, &self.recorded.unlike) {
            (true, None) => "mean step",
            (false, None) => "step",
            (true, Some(_)) => "mean of the replayed steps",
            (false, Some(_)) => "replayed step",
        }
    }

    /// The number of the rank whose work ends last.
    pub fn slowest(&self) -> u32 {
        let ends = self.schedule.ends_of_ranks(&self.recorded.typical.graph);
        ends.into_iter().max_by_key(|(_, end)| *end).map_or(0, |(number, _)| number)
    }

    /// The step with a change, with its interval.
    ///
    /// # Errors
    /// A change that cannot be made to the step.
    pub fn predict(&self, change: &Arc<dyn StepChange>) -> Result<WhatIfOutcome> {
        let changes = as_changes(change);
        let mut outcome = predict(&self.recorded, &self.communication, &changes)?;
        let turning = turning_latency(&self.recorded, &self.communication, &changes)?;
        if self.holds_start {
            outcome.after.include(outcome.before as f64);
        }
        if let Some(TurningLatency { latency, longest }) = turning {
            outcome.longer_from = (outcome.after.high < outcome.before as f64).then_some(latency);
            outcome.after.include(longest * outcome.before as f64);
            outcome.assumptions.push(format!(
                "whether the step gets shorter rests on how long a message takes, which is not known: from {} on it gets longer",
                Milliseconds(latency / 1e6)
            ));
        }
        Ok(outcome)
    }

    /// The typical step with a change.
    ///
    /// # Errors
    /// A change that cannot be made to the step.
    pub fn with_change(&self, change: &Arc<dyn StepChange>) -> Result<StepGraph> {
        changed_step(&self.recorded, &self.communication, &as_changes(change))
    }

    /// Nanoseconds of the typical step with a change.
    ///
    /// # Errors
    /// A change that cannot be made to the step.
    pub fn time(&self, change: &Arc<dyn StepChange>) -> Result<u64> {
        let step = self.with_change(change)?;
        Ok(step.time(&simulate(&step.graph)))
    }
}

/// Parts of the names of what PyTorch's wrappers for data parallelism record.
const WRAPPERS: [&str; 4] = ["DistributedDataParallel", "distributed::reducer", "FullyShardedDataParallel", "FSDP::"];
/// How the names of what runs backward in PyTorch begin.
const OF_PYTORCH: &str = "autograd::engine";

/// That a job reduces its gradients by itself, as far as the traces show.
fn without_wrapper(calls: &CallTable) -> Option<String> {
    let is_wrapped = calls.names().any(|name| WRAPPERS.iter().any(|own| name.contains(own)));
    let is_of_pytorch = calls.names().any(|name| name.starts_with(OF_PYTORCH));
    (is_of_pytorch && !is_wrapped).then(|| {
        "neither DistributedDataParallel nor fully_shard is in the traces: what is proposed of them (bucket_cap_mb, hooks of gradients, no_sync) is for a job that is changed to use them".to_owned()
    })
}

/// That a model of operations says nothing of traces of processors.
fn unused_model(known: &WhatIfFacts, step: &StepGraph) -> Option<String> {
    (known.operations.is_some() && !has_kernels(step)).then(|| {
        "the model of operations (cost_model) is of GPUs, and these traces of processors: it is not used".to_owned()
    })
}

/// Says which steps are replayed where others exchange nothing.
fn without_exchange(analysis: &Analysis) -> Option<String> {
    let steps: BTreeSet<usize> = analysis.exchanges.all.iter().filter_map(|exchange| exchange.step).collect();
    let all = analysis.job.steps.len();
    let is_some = (1..all).contains(&steps.len());
    is_some.then(|| {
        format!(
            "{} of {all} steps exchange data, as where gradients are accumulated over several: gains are of these, and nothing of the others",
            steps.len()
        )
    })
}

/// Intervals of fewer steps say nothing of how far steps differ.
const FEW_STEPS: usize = 3;

/// Why intervals hold the step as it is.
fn unsure(analysis: &Analysis, recorded: &RecordedSteps) -> Option<String> {
    let (job, steps) = (&analysis.job, recorded.steps.len());
    let holds = "intervals therefore hold the step as it is";
    let missing = (!job.missing().is_empty()).then(|| {
        format!(
            "{} of {} ranks have a trace: while these wait for others, no change helps, and {holds}",
            job.ranks.len(),
            job.world_size.unwrap_or(0)
        )
    });
    missing.or_else(|| {
        (steps < FEW_STEPS).then(|| {
            format!(
                "{} alone can be compared, which says little of how far steps differ, and {holds}",
                count_text(steps as u64, "step")
            )
        })
    })
}

/// That gains are of another time than that between steps on threads.
fn runs_ahead(analysis: &Analysis, recorded: &RecordedSteps) -> Option<String> {
    let on_threads = Milliseconds(lead_of_threads(analysis, recorded)? as f64 / 1e6);
    Some(format!(
        "threads run ahead of their GPUs, which fall further behind in each step: gains are of the step on GPUs, and not of the {on_threads} that threads take until they have to wait for room in the queue"
    ))
}

/// From this difference on, in percent, something disturbed the recorded steps.
const DISTURBED: f64 = 5.0;

/// That recorded steps are longer than the one that gains are of.
fn disturbed_warning(recorded: &RecordedSteps, before: u64) -> Option<String> {
    let lengths: Vec<f64> = recorded.recorded.iter().map(|length| *length as f64).collect();
    let longer = 100.0 * (median(&lengths) / before.max(1) as f64 - 1.0);
    (longer > DISTURBED).then(|| {
        format!(
            "half of the recorded steps take {} or longer, {} more than the step that gains are of: each of its operations takes what it does in the faster half of the steps, as if nothing disturbed them. Record on a machine that does nothing else, or give the length of a step without the profiler (--plain-step-ms)",
            Milliseconds(median(&lengths) / 1e6),
            Percent(longer)
        )
    })
}

/// Waiting for one rank is warned about from this share of a step on.
const LONG: f64 = 0.1;
/// The others have to wait for the same rank in at least this share of the steps.
const STEADY: f64 = 0.5;

/// From this share of all waiting on, that for one rank is what there is to tell.
const MOST: f64 = 0.5;

/// That the others wait for a rank, if the step is surely shorter without that.
fn straggler(analysis: &Analysis, recorded: &RecordedSteps, communication: &CommunicationCosts) -> Option<String> {
    let first = analysis.first_straggler()?;
    let number = analysis.job.ranks[first.rank].number;
    let is_usual = first.steadiness >= STEADY && first.stands_out;
    let is_now_and_then = first.occasions.len() > 1 && first.of_all >= MOST;
    let is_certain = (is_usual || is_now_and_then) && first.caused.mean > analysis.waiting.uncertainty;
    if !is_certain || first.share < LONG {
        return None;
    }
    // Waiting for it is summed over exchanges, of which some wait while their rank computes.
    let as_others = parse(&format!("rank {number} as the others")).ok()?;
    let WhatIfOutcome { before, after, .. } = predict(recorded, communication, &[as_others]).ok()?;
    let share = |time: f64| 1.0 - time / before.max(1) as f64;
    let [least, most] = [after.high, after.low].map(|time| Percent(100.0 * share(time)));
    (share(after.time) >= LONG && share(after.high) > 0.0).then(|| {
        format!(
            "rank {number} makes the others wait: without that a step takes {}, {} less ({least} to {most}); perf4sight replay says what it does longer",
            Milliseconds(after.time / 1e6),
            Percent(100.0 * share(after.time)),
        )
    })
}

/// Nanoseconds of the step that predictions are compared with.
fn compared_time(recorded: &RecordedSteps, schedule: &NodeSchedule) -> u64 {
    if recorded.varies { recorded.mean() } else { recorded.typical.time(schedule) }
}

fn as_changes(change: &Arc<dyn StepChange>) -> [Box<dyn StepChange>; 1] {
    [Box::new(CombinedChanges(vec![change.clone()]))]
}

/// A warning where replays are far from the recorded steps.
fn replay_error_warning(recorded: &RecordedSteps) -> Option<String> {
    let off = |(index, time): (usize, &u64)| {
        let step = recorded.step(index);
        100.0 * (step.time(&simulate(&step.graph)) as f64 / (*time).max(1) as f64 - 1.0).abs()
    };
    let off: Vec<f64> = recorded.recorded.iter().enumerate().map(off).collect();
    let off = if off.is_empty() { 0.0 } else { median(&off) };
    (off > FAR)
        .then(|| format!("replays of recorded steps are {} off in the median, and predictions more", Percent(off)))
}

#[cfg(test)]
mod tests {
    use super::*;

    use perf4sight_operations::{OperationModel, read_table};
    use perf4sight_replay::ranks::TrainingJob;
    use std::path::Path;

    fn recorded() -> Analysis {
        let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/ranks/straggler");
        Analysis::new(TrainingJob::read(&[traces]).unwrap())
    }

    fn start(analysis: &Analysis) -> RecordedStart {
        RecordedStart::new(analysis, &ReplayRequest::default()).unwrap()
    }

    /// Two steps of the profiler that were joined to one, of which one exchanges nothing.
    #[test]
    fn joined_steps_accumulate_gradients() {
        let mut analysis = recorded();
        assert!(!start(&analysis).accumulates);
        analysis.job.cycle = 2;
        assert!(start(&analysis).accumulates);
    }

    /// Of steps that differ none is typical: gains are of the mean of all, as the answer says.
    #[test]
    fn gains_are_of_the_step_that_is_named() {
        let mut start = start(&recorded());
        let nothing: Arc<dyn StepChange> = Arc::new(CombinedChanges(Vec::new()));
        for (varies, name) in [(false, "step"), (true, "mean step")] {
            start.recorded.varies = varies;
            start.before = compared_time(&start.recorded, &start.schedule);
            assert_eq!((start.predict(&nothing).unwrap().before, start.step()), (start.before, name));
        }
    }

    /// Each of two guesses at either bound alone, both at their least, both at their most.
    #[test]
    fn changes_together_keep_their_bounds() {
        let guess: Arc<dyn StepChange> = Arc::from(parse("precision = bf16").unwrap());
        let bounds = |changes: Vec<Arc<dyn StepChange>>| CombinedChanges(changes).bounds().len();
        assert_eq!([bounds(vec![guess.clone()]), bounds(vec![guess.clone(), guess])], [2, 6]);
    }

    /// A model of operations is of GPUs, and these traces of processors.
    #[test]
    fn a_model_of_gpus_is_not_used_for_processors() {
        let step = start(&recorded()).recorded.typical;
        assert_eq!(unused_model(&WhatIfFacts::default(), &step), None);
        let file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
        let rows: String = (1..=40).map(|place| format!("A100,mlp,aten::add,{place},{}\n", 3 * place)).collect();
        let rows = rows.replace(",aten::add,", ",aten::add,1024x");
        std::fs::write(file.path(), format!("gpu,network,operation,shapes,time_us\n{rows}")).unwrap();
        let model = OperationModel::fit(read_table(file.path()).unwrap()).unwrap();
        let known = WhatIfFacts { operations: Some(Arc::new(model)), ..WhatIfFacts::default() };
        assert!(unused_model(&known, &step).unwrap().contains("it is not used"));
    }
}
