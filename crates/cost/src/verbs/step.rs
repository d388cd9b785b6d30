//! Settings of a step besides its stage, shared by several verbs and sections.

use perf4sight_base::error::Result;
use perf4sight_step::workload::{
    Accumulate, Changes, Checkpoint, FrozenNormalisation, Loss, Optimizer, Precision, Setting as Part, Stage, Step,
    Trainable, Workload, ZeroGrad,
};
use perf4sight_verb::config::DefaultValue::Literal;
use perf4sight_verb::config::{Setting, SettingValues, integer, text, word};

pub(super) const STAGE: Setting = word("stage", stages)
    .or_default("{fingerprint.stage}")
    .or_on_command_line(Literal("training"))
    .help("Stage of the step.");

pub(super) const OPTIMIZER: Setting = word("optimizer", || Optimizer::ALL.map(Optimizer::name).to_vec())
    .help("Optimizer of the step; by default that of the profiled steps.");

pub(super) const ZERO_GRAD: Setting = word("zero_grad", || ZeroGrad::ALL.map(ZeroGrad::name).to_vec())
    .help("What zero_grad() does to gradients. By default as in the profiled steps; if another optimizer replaces theirs, keep for sgd, as in the perf4sight paper, and free for all others, as PyTorch does; without a profile free.");

pub(super) const PRECISION: Setting = word("precision", precisions)
    .help("Precision of the step: fp32, autocast (amp_bf16, amp_fp16), or bf16 with weights in bfloat16 too; by default that of the profiled steps. Memory is simulated for every precision of the device. Latency is known for the profiled precision, and for those that perf4sight calibrate --precision measured.");

pub(super) const TRAINABLE: Setting = text("trainable").value("WEIGHTS")
    .help("Weights that training changes: all, classifier, 'last N' (of the last N operations with weights), bias, normalisation, or patterns of layer names such as 'layer4.*,fc'; by default as in the profiled steps. Files do not record requires_grad and, from the older exporter, neither torch.no_grad nor detach(): all of their weights are taken as trained.");

pub(super) const FROZEN_NORMALISATION: Setting =
    word("frozen_normalisation", || FrozenNormalisation::ALL.map(FrozenNormalisation::name).to_vec())
        .help("Mode of batch normalisations whose weights are frozen: train uses the statistics of the batch, eval the running statistics; by default as in the profiled steps.");

pub(super) const ACCUMULATE: Setting = integer("accumulate", 1, Accumulate::MOST as i64).value("PASSES").help(
    "Gradient accumulation: number of passes before one update of the weights; by default as in the profiled steps.",
);

pub(super) const CHECKPOINT: Setting = text("checkpoint").value("SEGMENTS")
    .help("Activation checkpointing: the segments of forward that run again in backward: none, 'N segments' (all but the last of N), or 'every block'; by default as in the profiled steps.");

pub(super) const LOSS: Setting = word("loss", || Loss::ALL.map(Loss::name).to_vec())
    .help("Loss of the step: cross_entropy, also of every pixel or position, or mean_squared_error; by default as in the profiled steps.");

pub(super) const OF_STEPS: &[Setting] =
    &[OPTIMIZER, ZERO_GRAD, PRECISION, TRAINABLE, FROZEN_NORMALISATION, ACCUMULATE, CHECKPOINT, LOSS];

pub(super) fn stages() -> Vec<&'static str> {
    Stage::ALL.map(Stage::name).to_vec()
}

pub(super) fn precisions() -> Vec<&'static str> {
    Precision::ALL.map(Precision::name).to_vec()
}

/// The changes that the settings make to steps of these stages; settings that are left out change nothing.
pub(super) fn changes(values: &SettingValues<'_>, stages: &[Stage]) -> Result<Changes> {
    let vain = |part: &Part| values.writes(part.key()) && !stages.iter().any(|&stage| part.is_of(stage));
    if let Some(part) = Part::ALL.into_iter().find(vain) {
        let spelled = values.spelling(part.key());
        return Err(values
            .error(part.key(), "a step of inference has no such setting")
            .help(format!("leave {spelled} out, or ask for {}", values.written_as("stage", "training"))));
    }
    Ok(Changes {
        optimizer: values.named_if_set("optimizer", Optimizer::parse)?,
        zero_grad: values.named_if_set("zero_grad", ZeroGrad::parse)?,
        precision: values.named_if_set("precision", Precision::parse)?,
        trainable: values.named_if_set("trainable", Trainable::parse)?,
        frozen_normalisation: values.named_if_set("frozen_normalisation", FrozenNormalisation::parse)?,
        accumulate: values.get::<Option<u64>>("accumulate")?.and_then(Accumulate::new),
        checkpoint: values.named_if_set("checkpoint", |word| Checkpoint::parse(&word.to_ascii_lowercase()))?,
        loss: values.named_if_set("loss", Loss::parse)?,
    })
}

/// Refuses batches with fewer samples than the step has passes.
pub(super) fn check_batches(values: &SettingValues<'_>, step: Step, batches: &[u64]) -> Result<()> {
    let mut workloads = batches.iter().map(|&batch| Workload { step, batch });
    workloads.try_for_each(Workload::check).map_err(|error| values.with_place("accumulate", error))
}
