//! What configurations ask of a step beside its stage, in the keys that several sections have.

use perf4sight_base::error::Result;
use perf4sight_step::workload::{
    Accumulate, Changes, Checkpoint, FrozenNormalisation, Loss, Optimizer, Precision, Setting, Stage, Step, Trainable,
    Workload, ZeroGrad,
};
use perf4sight_verb::config::Values;

/// What the keys of a section say of steps of some stages; those that are left out say nothing.
///
/// # Errors
/// An unknown word, or what only training has where no stage is that, with its place.
pub(super) fn changes(values: &Values<'_>, stages: &[Stage]) -> Result<Changes> {
    let vain = |setting: &Setting| values.writes(setting.key()) && !stages.iter().any(|&stage| setting.is_of(stage));
    if let Some(setting) = Setting::ALL.into_iter().find(vain) {
        let key = setting.key();
        return Err(values
            .error(key, format!("{key} asks for what inference does not have"))
            .help(format!("leave {key} out, or set stage = training")));
    }
    Ok(Changes {
        optimizer: word(values, "optimizer", Optimizer::parse)?,
        zero_grad: word(values, "zero_grad", ZeroGrad::parse)?,
        precision: word(values, "precision", Precision::parse)?,
        trainable: values
            .get::<Option<String>>("trainable")?
            .map(|_| values.named("trainable", Trainable::parse))
            .transpose()?,
        frozen_normalisation: word(values, "frozen_normalisation", FrozenNormalisation::parse)?,
        accumulate: values.get::<Option<u64>>("accumulate")?.and_then(Accumulate::new),
        checkpoint: word(values, "checkpoint", Checkpoint::parse)?,
        loss: word(values, "loss", Loss::parse)?,
    })
}

/// Refuses batches of fewer samples than a step has passes.
///
/// # Errors
/// Such a batch, placed at the number of passes.
pub(super) fn check_batches(values: &Values<'_>, step: Step, batches: &[u64]) -> Result<()> {
    let mut workloads = batches.iter().map(|&batch| Workload { step, batch });
    workloads.try_for_each(Workload::check).map_err(|error| values.placed("accumulate", error))
}

/// The word of a key in small or capital letters, turned into what it names.
fn word<T>(values: &Values<'_>, key: &str, parse: fn(&str) -> Result<T>) -> Result<Option<T>> {
    let word: Option<String> = values.get(key)?;
    let parsed = word.map(|word| parse(&word.to_ascii_lowercase()));
    parsed.transpose().map_err(|error| values.placed(key, error))
}
