//! What one step does: a value that says all that changes its cost, and how it is written.

use super::{Optimizer, Stage, ZeroGrad, parse};
use perf4sight_conventions::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What numbers a step computes with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// Single precision throughout.
    #[default]
    Fp32,
}

/// What one step does, to however many samples: with the network and the device all that says what it costs.
///
/// What is as the published profiler does it is not written, so that files of published steps stay as they are:
///
/// ```
/// use perf4sight_step::workload::{Optimizer, Stage, Step};
///
/// let step = Step::published(Stage::Training);
/// assert_eq!(serde_json::to_string(&step)?, r#"{"stage":"training"}"#);
/// let step = Step { optimizer: Optimizer::AdamW, ..step };
/// assert_eq!(serde_json::to_string(&step)?, r#"{"stage":"training","optimizer":"adamw"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Step {
    /// Training or inference.
    pub stage: Stage,
    /// How training changes the weights.
    #[serde(default, skip_serializing_if = "is_published")]
    pub optimizer: Optimizer,
    /// What becomes of gradients.
    #[serde(default, skip_serializing_if = "is_published")]
    pub zero_grad: ZeroGrad,
    /// What it computes with.
    #[serde(default, skip_serializing_if = "is_published")]
    pub precision: Precision,
}

/// Whether part of a step is as the published profiler does it.
fn is_published<T: Default + PartialEq>(part: &T) -> bool {
    *part == T::default()
}

/// One part of a step by the key of configurations that says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Setting {
    /// [`Step::optimizer`].
    Optimizer,
    /// [`Step::zero_grad`].
    ZeroGrad,
    /// [`Step::precision`].
    Precision,
}

/// What is asked of a step beside its stage; what is left open stays as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// How training changes the weights.
    pub optimizer: Option<Optimizer>,
    /// What becomes of gradients; where it is left open and the optimizer is another one, what is usual with that.
    pub zero_grad: Option<ZeroGrad>,
    /// What it computes with.
    pub precision: Option<Precision>,
}

/// What stands between the settings of a step in rows.
const BETWEEN: &str = "; ";

/// What a step is called that differs from the published one in nothing.
const PUBLISHED: &str = "published";

impl Precision {
    /// All of them, in the order they are listed to people.
    pub const ALL: [Precision; 1] = [Precision::Fp32];

    /// The word in configuration.
    pub fn name(self) -> &'static str {
        match self {
            Precision::Fp32 => "fp32",
        }
    }

    /// The precision of that name.
    ///
    /// # Errors
    /// An unknown word, with the nearest known one.
    pub fn parse(word: &str) -> Result<Self> {
        parse("precision", word, &Self::ALL, Self::name)
    }

    /// Bytes of one element.
    pub const fn bytes(self) -> u64 {
        match self {
            Precision::Fp32 => 4,
        }
    }
}

impl Setting {
    /// All of them, in the order they are written.
    pub const ALL: [Setting; 3] = [Setting::Optimizer, Setting::ZeroGrad, Setting::Precision];

    /// The key in configuration, and in what workers are asked.
    pub fn key(self) -> &'static str {
        match self {
            Setting::Optimizer => "optimizer",
            Setting::ZeroGrad => "zero_grad",
            Setting::Precision => "precision",
        }
    }
}

impl Step {
    /// The step that the published profiler measures.
    pub const fn published(stage: Stage) -> Self {
        Step { stage, optimizer: Optimizer::Sgd, zero_grad: ZeroGrad::Keep, precision: Precision::Fp32 }
    }

    /// Bytes of one element of what operations hand on, of its gradient and of what is computed on the way.
    pub const fn activation(self) -> u64 {
        self.precision.bytes()
    }

    /// Bytes of one element of a weight, of its gradient and of what the optimizer remembers of it.
    pub const fn weight(self) -> u64 {
        self.precision.bytes()
    }

    /// Whether it has a backward pass and changes weights.
    pub fn trains(self) -> bool {
        self.stage == Stage::Training
    }

    /// The same in that stage; inference has nothing of what only training has.
    pub fn in_stage(self, stage: Stage) -> Self {
        match stage {
            Stage::Training => Step { stage, ..self },
            Stage::Inference => Step { precision: self.precision, ..Step::published(stage) },
        }
    }

    /// What of it is not as published, with the word for what it is instead.
    pub fn settings(self) -> impl Iterator<Item = (Setting, String)> {
        let published = Step::published(self.stage);
        let words = Setting::ALL.map(|setting| (setting, self.word(setting)));
        words.into_iter().filter(move |(setting, word)| *word != published.word(*setting))
    }

    /// How rows say what is not as published: `optimizer=adamw; zero_grad=free`, or `published`.
    pub fn cell(self) -> String {
        let words: Vec<String> = self.settings().map(|(setting, word)| format!("{}={word}", setting.key())).collect();
        if words.is_empty() { PUBLISHED.to_owned() } else { words.join(BETWEEN) }
    }

    /// The step of that stage which a cell of rows names.
    ///
    /// # Errors
    /// A setting that is unknown, or one that has no such word.
    pub fn from_cell(stage: Stage, cell: &str) -> Result<Self> {
        let words = cell.split(BETWEEN).filter(|_| cell != PUBLISHED);
        words.into_iter().try_fold(Step::published(stage), Step::with)
    }

    /// The same with one setting of a cell.
    fn with(self, word: &str) -> Result<Self> {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let Some(setting) = Setting::ALL.into_iter().find(|setting| setting.key() == key) else {
            return Err(Error::input(format!("\"{word}\" says nothing of a step"))
                .expected("published, or what is not, such as optimizer=adamw; zero_grad=free"));
        };
        Ok(match setting {
            Setting::Optimizer => Step { optimizer: Optimizer::parse(value)?, ..self },
            Setting::ZeroGrad => Step { zero_grad: ZeroGrad::parse(value)?, ..self },
            Setting::Precision => Step { precision: Precision::parse(value)?, ..self },
        })
    }

    fn word(self, setting: Setting) -> String {
        match setting {
            Setting::Optimizer => self.optimizer.name().to_owned(),
            Setting::ZeroGrad => self.zero_grad.name().to_owned(),
            Setting::Precision => self.precision.name().to_owned(),
        }
    }
}

impl Changes {
    /// A step with these changes; inference has nothing of what only training has.
    pub fn of(self, step: Step) -> Step {
        let precision = self.precision.unwrap_or(step.precision);
        let optimizer = self.optimizer.unwrap_or(step.optimizer);
        let usual = if optimizer == step.optimizer { step.zero_grad } else { optimizer.zero_grad() };
        let zero_grad = self.zero_grad.unwrap_or(usual);
        Step { optimizer, zero_grad, precision, ..step }.in_stage(step.stage)
    }
}

/// In as many words as tell it from the published one of its stage.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stage.fmt(f)?;
        let words: Vec<String> = self.settings().map(|(setting, word)| format!("{} = {word}", setting.key())).collect();
        if words.is_empty() { Ok(()) } else { write!(f, " ({})", words.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_name_what_is_not_published() {
        let published = Step::published(Stage::Training);
        assert_eq!((published.cell(), published.to_string()), ("published".to_owned(), "training".to_owned()));
        let step = Step { optimizer: Optimizer::AdamW, zero_grad: ZeroGrad::Free, ..published };
        assert_eq!(step.cell(), "optimizer=adamw; zero_grad=free");
        assert_eq!(step.to_string(), "training (optimizer = adamw, zero_grad = free)");
        for step in [published, step, Step::published(Stage::Inference)] {
            assert_eq!(Step::from_cell(step.stage, &step.cell()).unwrap(), step);
        }
        for (cell, told) in [("optimiser=adam", "optimiser"), ("optimizer=adamm", "adam"), ("", "published")] {
            let problem = Step::from_cell(Stage::Training, cell).unwrap_err().to_string();
            assert!(problem.contains(told), "{problem}");
        }
    }

    #[test]
    fn gradients_go_as_is_usual_with_the_optimizer_unless_it_is_said() {
        let published = Step::published(Stage::Training);
        let adam = Changes { optimizer: Some(Optimizer::Adam), ..Changes::default() };
        assert_eq!(Changes::default().of(published), published);
        assert_eq!(adam.of(published).zero_grad, ZeroGrad::Free);
        assert_eq!(Changes { zero_grad: Some(ZeroGrad::Keep), ..adam }.of(published).zero_grad, ZeroGrad::Keep);
        // A step that is asked for by the optimizer it has is that step.
        let kept = Step { zero_grad: ZeroGrad::Keep, ..adam.of(published) };
        assert_eq!(adam.of(kept), kept);
        assert_eq!(adam.of(Step::published(Stage::Inference)), Step::published(Stage::Inference));
    }
}
