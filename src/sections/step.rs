//! What configurations ask of a step beside its stage, in the keys that several sections have.

use crate::config::Values;
use crate::error::Result;
use crate::workload::{
    Accumulate, Changes, Checkpoint, FrozenNormalisation, Optimizer, Precision, Trainable, ZeroGrad,
};

/// What the keys of a section say; those that are left out say nothing.
///
/// # Errors
/// An unknown word, with its place.
pub(super) fn changes(values: &Values<'_>) -> Result<Changes> {
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
    })
}

/// The word of a key in small or capital letters, turned into what it names.
fn word<T>(values: &Values<'_>, key: &str, parse: fn(&str) -> Result<T>) -> Result<Option<T>> {
    let word: Option<String> = values.get(key)?;
    let parsed = word.map(|word| parse(&word.to_ascii_lowercase()));
    parsed.transpose().map_err(|error| values.placed(key, error))
}
