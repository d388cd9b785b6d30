//! Less memory, or more samples for it: recomputation, gradient accumulation, a budget.

use super::recorded_optimizer::{OF_CLOSURE, RecordedOptimizer, calls_closure, optimizer};
use super::{ChangeProposal, LearningEffect, OptimizationPass, PassResults, PassSettings};
use crate::changes::{NoSync, NoSyncUntilLast, Recompute, alike_passes, recomputes};
use crate::memory_events::{self, DeviceMemory};
use crate::search::ContinueSearch;
use crate::start::RecordedStart;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::{Bytes, Milliseconds};
use perf4sight_replay::what_if::{StepChange, StepPrediction, WhatIfOutcome};
use std::sync::Arc;

/// The pass.
#[derive(Debug)]
pub(super) struct LessMemory;

pub(super) const NAME: &str = "memory";
const RECOMPUTE: &str = "torch.utils.checkpoint of every block (forward again in backward)";
/// Part of the names of operations that keep running statistics, which a recomputed forward moves once more.
const BATCH_NORM: &str = "batch_norm";
/// Passes of accumulation that are proposed.
const PASSES: [u32; 2] = [2, 4];
/// The most passes that a budget may ask for.
const MOST_PASSES: u64 = 1024;

impl OptimizationPass for LessMemory {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, start: &RecordedStart, wanted: &PassSettings) -> Result<()> {
        let reduced = gradient_bytes(start).filter(|bytes| bytes.0 > 0);
        match (&wanted.network, reduced) {
            (Some(step), Some(bytes)) => step.check(bytes),
            _ => Ok(()),
        }
    }

    fn run(&self, start: &RecordedStart, wanted: &PassSettings, _: &ContinueSearch<'_>) -> Result<PassResults> {
        let mut found = PassResults::default();
        let has_statistics = start.recorded.typical.graph.calls().names().any(|name| name.contains(BATCH_NORM));
        let learns = if has_statistics { LearningEffect::OtherStatistics } else { LearningEffect::Same };
        match recomputes(&start.recorded.typical.graph) {
            true => found.nothing.push(format!("{RECOMPUTE}: the job does, forward runs inside backward")),
            false => found
                .propose(ChangeProposal::new(NAME, RECOMPUTE, Arc::new(Recompute::Module), learns, start), RECOMPUTE),
        }
        if let Some(passes) = alike_passes(&start.recorded.typical) {
            let change = format!("no_sync() around all but the last of the step's {passes} backward passes");
            found.propose(
                ChangeProposal::new(NAME, &change, Arc::new(NoSyncUntilLast), LearningEffect::Same, start),
                &change,
            );
        } else if start.accumulates {
            found.nothing.push(
                "accumulate gradients: the job does, by steps or backward passes that exchange nothing".to_owned(),
            );
        } else if calls_closure(&start.recorded.typical.graph) {
            found.nothing.push(format!("accumulate gradients: of the optimizer, {OF_CLOSURE}"));
        } else {
            PASSES.into_iter().for_each(|passes| accumulation(start, passes, &mut found));
        }
        add_simulated(start, wanted, &mut found)?;
        budget(start, wanted, &mut found)?;
        Ok(found)
    }
}

/// Proposes to update after several batches.
fn accumulation(start: &RecordedStart, passes: u32, found: &mut PassResults) {
    let sharded = start.recorded.typical.is_sharded();
    let silent = if sharded { "set_requires_gradient_sync(False)" } else { "no_sync()" };
    let change = format!("accumulate gradients of {passes} batches, all but the last under {silent}");
    found.propose(accumulate(start, passes, &change), &change);
}

/// A batch of several that one update follows: all but the last pass send and update nothing.
fn accumulate(start: &RecordedStart, passes: u32, change: &str) -> Result<ChangeProposal> {
    let of_batch: Arc<dyn StepChange> = Arc::new(NoSync::RestOfStep);
    let alone = start.predict(&of_batch)?;
    let (before, share) = (alone.before as f64, 1.0 / f64::from(passes));
    let mixed = |time: f64| share * before + (1.0 - share) * time;
    let StepPrediction { time, low, high } = alone.after;
    let after = StepPrediction { time: mixed(time), low: mixed(low), high: mixed(high) };
    let of_update: Arc<dyn StepChange> = Arc::new(NoSync::PassesAlone);
    let once = start.time(&of_update)? as f64 / start.time(&of_batch)?.max(1) as f64;
    let of_alone = alone.assumptions.iter().map(|one| format!("of a batch that sends nothing: {one}"));
    let assumptions = of_alone.chain(around_passes(after.time, mixed(once * time))).collect();
    let outcome = WhatIfOutcome { after, assumptions, ..alone };
    Ok(ChangeProposal {
        pass: NAME,
        change: change.to_owned(),
        edit: None,
        outcome,
        learns: LearningEffect::OtherBatch,
        is_alternative: false,
    })
}

/// What else a step does is said to be done for each batch where that changes the answer by this share.
const RESTS_ON_REST: f64 = 0.01;

/// That what a step does besides its passes and the update is taken to happen for each batch, if the time of a batch depends on it.
fn around_passes(time: f64, once: f64) -> Option<String> {
    let once_an_update = Milliseconds(once / 1e6);
    (once < (1.0 - RESTS_ON_REST) * time).then(|| {
        format!("what runs before forward and after backward, but for the update, is taken to happen for each batch, and so is waiting for it; if all of that but loading batches happens once an update, a batch takes {once_an_update}")
    })
}

/// What a network file says; sharded weights are not simulated.
fn add_simulated(start: &RecordedStart, wanted: &PassSettings, found: &mut PassResults) -> Result<()> {
    let Some(step) = &wanted.network else { return Ok(()) };
    let Some(buckets) = gradient_bytes(start) else {
        found.unanswered.push("memory of sharded weights (FSDP) is not simulated".to_owned());
        return Ok(());
    };
    found.answers.extend(step.to_sentences(wanted.memory_budget, buckets)?);
    found.unanswered.extend(step.parameters_doubt(buckets)?);
    Ok(())
}

/// Bytes of all gradients that a rank reduces in a backward pass, the most of several; none where weights are sharded.
fn gradient_bytes(start: &RecordedStart) -> Option<Bytes> {
    let step = &start.recorded.typical;
    let gradients = step.ranks.first().map(|rank| rank.gradients.as_slice()).unwrap_or_default();
    let passes = gradients.chunk_by(|one, next| one.pass == next.pass);
    let most = passes.map(|pass| pass.iter().map(|one| one.bytes).sum()).max().unwrap_or(0);
    (!step.is_sharded()).then_some(Bytes(most))
}

/// What fits into the budget.
fn budget(start: &RecordedStart, wanted: &PassSettings, found: &mut PassResults) -> Result<()> {
    let Some(budget) = wanted.memory_budget else { return Ok(()) };
    // Weights take as much as their gradients.
    let weights = gradient_bytes(start).unwrap_or(Bytes(0));
    let optimizer = optimizer(&start.recorded.typical.graph);
    let states = optimizer.as_ref().map_or(0, |optimizer| optimizer.states);
    let lasting = Bytes(weights.0.saturating_mul(1 + states));
    let least = Bytes(lasting.0.saturating_add(weights.0));
    if least > budget {
        let states = optimizer.filter(|_| states > 0);
        let states = states.map_or(String::new(), |optimizer| format!(" and the states of {}", optimizer.name));
        return Err(unfit(budget, &format!("weights and gradients{states} alone take {least}")));
    }
    let recorded = start.files.iter().map(|file| memory_events::read(file)).collect::<Result<Vec<_>>>()?;
    match step_memory(recorded.into_iter().flatten().max_by_key(|memory| memory.peak), lasting) {
        Ok(most) => {
            judge(most, KnownMemory { lasting, gradients: weights, doubt: optimizer_doubt(optimizer) }, budget, found)
        }
        Err(why) => {
            let unknown = || {
                format!(
                    "whether a step fits into {budget} is not known: {why}; --network FILE.onnx --batch N simulates it"
                )
            };
            found.unanswered.extend(wanted.network.is_none().then(unknown));
            Ok(())
        }
    }
}

/// Why it is not certain what the optimizer keeps.
fn optimizer_doubt(optimizer: Option<RecordedOptimizer>) -> Option<String> {
    match optimizer {
        Some(optimizer) => optimizer.assumed,
        None => {
            Some("no step of an optimizer was recorded (Optimizer.step#), and it is taken to keep nothing".to_owned())
        }
    }
}

/// What is known of a job besides the allocator's events.
struct KnownMemory {
    /// Weights, and what the optimizer keeps at least.
    lasting: Bytes,
    gradients: Bytes,
    /// Why the optimizer may keep more.
    doubt: Option<String>,
}

/// Answers whether a step fits. Where the optimizer may keep more than is known, what lasts does not say whether gradients are part of it: they are counted
/// besides, and nothing is refused for them.
fn judge(memory: DeviceMemory, known: KnownMemory, budget: Bytes, found: &mut PassResults) -> Result<()> {
    let least = match &known.doubt {
        Some(_) => Bytes(memory.lasting.0.saturating_add(known.gradients.0)),
        None => with_gradients(memory, known.lasting, known.gradients),
    };
    match (fitting(memory, least, budget), known.doubt) {
        (Err(why), Some(doubt)) if memory.lasting < budget => {
            found
                .unanswered
                .push(format!("whether any change fits into {budget} is not known: {}; {doubt}", why.in_one_line()));
        }
        (answer, doubt) => {
            found.answers.push(answer?);
            found.unanswered.extend(doubt.filter(|_| memory.peak > budget));
        }
    }
    Ok(())
}

/// What a step takes, if the events say it; otherwise why not.
fn step_memory(most: Option<DeviceMemory>, least: Bytes) -> std::result::Result<DeviceMemory, String> {
    match most {
        None => Err("the traces hold no memory events (record with profile_memory=True)".to_owned()),
        // PyTorch counts the memory of processors from the start of the profiler.
        Some(most) if most.lasting < least => Err(format!(
            "the memory events of these traces leave out what was there before recording began: {} last, and weights with the optimizer's states alone take {least}",
            most.lasting
        )),
        Some(most) => Ok(most),
    }
}

fn unfit(budget: Bytes, why: &str) -> Error {
    Error::unfit(format!("no change of these fits into {budget}: {why}"))
        .help("shard them over the ranks (fully_shard), or allow more memory (memory_budget)")
}

/// What no smaller batch takes less of: what lasts, and all gradients, which are there when backward ends. `zero_grad` frees them by default; where what
/// lasts holds `known` weights and states and the gradients too, it does not.
fn with_gradients(memory: DeviceMemory, known: Bytes, gradients: Bytes) -> Bytes {
    let are_kept = memory.lasting.0 >= known.0.saturating_add(gradients.0);
    Bytes(memory.lasting.0.saturating_add(if are_kept { 0 } else { gradients.0 }))
}

/// The least change that fits, in a sentence; no change takes less than `least`.
fn fitting(memory: DeviceMemory, least: Bytes, budget: Bytes) -> Result<String> {
    let peak = memory.peak;
    if peak <= budget {
        return Ok(format!("a step takes at most {peak}, which fits into {budget}"));
    }
    if least >= budget {
        return Err(unfit(budget, &format!("weights, gradients and optimizer states alone take {least}")));
    }
    let passing = peak.0.saturating_sub(least.0);
    let passes = passing.div_ceil(budget.0 - least.0).min(MOST_PASSES);
    Ok(format!(
        "a step takes {peak}, of which weights, gradients and optimizer states take {least}: to fit into {budget}, split each batch into {passes} parts and accumulate, or recompute all but one in {passes} blocks"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_base::error::FailureKind;

    /// Weights of 34 MiB that were there before the profiler began to count: 0 last, and the peak of 52 MiB lacks them.
    #[test]
    fn events_that_leave_out_the_weights_judge_nothing() {
        let memory = DeviceMemory { peak: Bytes(52 << 20), lasting: Bytes(0) };
        assert!(step_memory(Some(memory), Bytes(34 << 20)).unwrap_err().contains("before recording began"));
        let whole = DeviceMemory { peak: Bytes(188 << 20), lasting: Bytes(102 << 20) };
        assert_eq!(step_memory(Some(whole), Bytes(34 << 20)), Ok(whole));
    }

    /// Weights and two moments of each take 36 MiB, gradients 12, which are freed from step to step or are not.
    #[test]
    fn gradients_are_there_whatever_the_batch() {
        let of = |lasting: u64| {
            with_gradients(
                DeviceMemory { peak: Bytes(62 << 20), lasting: Bytes(lasting << 20) },
                Bytes(36 << 20),
                Bytes(12 << 20),
            )
        };
        assert_eq!([of(36), of(47), of(48), of(60)], [48, 59, 48, 60].map(|mebibytes| Bytes(mebibytes << 20)));
    }

    /// Weights of 12 MiB with momentum of as much last, 24 MiB: gradients come on top. Where the momentum is not known they are counted, too, and a budget below is no
    /// refusal.
    #[test]
    fn an_optimizer_that_may_keep_more_refuses_nothing() {
        let of = |states: u64, doubt: Option<&str>, budget: u64| {
            let memory = DeviceMemory { peak: Bytes(62 << 20), lasting: Bytes(24 << 20) };
            let lasting = Bytes((12 * (1 + states)) << 20);
            let known = KnownMemory { lasting, gradients: Bytes(12 << 20), doubt: doubt.map(str::to_owned) };
            let mut found = PassResults::default();
            judge(memory, known, Bytes(budget << 20), &mut found).map(|()| (found.answers, found.unanswered))
        };
        let (answers, unanswered) = of(1, None, 49).unwrap();
        assert!(
            answers[0].contains("take 36.0 MiB") && answers[0].contains("into 2 parts") && unanswered.is_empty(),
            "{answers:?}"
        );
        let (answers, unanswered) = of(0, Some("not known"), 49).unwrap();
        assert!(answers[0].contains("take 36.0 MiB") && unanswered == ["not known"], "{answers:?}");
        assert!(of(1, None, 30).is_err());
        let (answers, unanswered) = of(0, Some("not known"), 30).unwrap();
        assert!(answers.is_empty() && unanswered[0].contains("not known"), "{unanswered:?}");
    }

    /// 10 GiB of which 4 last: into 6 GiB goes what passes, 6, in three parts of 2; into 4 GiB and less nothing.
    #[test]
    fn the_least_parts_that_fit_are_named_and_budgets_nobody_can_meet_refused() {
        let memory = DeviceMemory { peak: Bytes(10 << 30), lasting: Bytes(4 << 30) };
        let into = |gibibytes: u64| fitting(memory, memory.lasting, Bytes(gibibytes << 30));
        assert!(into(6).unwrap().contains("into 3 parts"));
        assert!(into(10).unwrap().contains("fits into 10.00 GiB"));
        let error = into(4).unwrap_err();
        assert!(error.kind() == FailureKind::Unfit && error.to_string().contains("alone take 4.00 GiB"), "{error}");
    }
}
