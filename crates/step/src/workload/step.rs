//! The settings of one step: a value that holds everything that changes its cost, and its serialized form.

use super::{Checkpoint, FrozenNormalisation, Loss, Optimizer, Precision, Stage, Trainable, ZeroGrad};
use perf4sight_base::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The settings of one step, for any number of samples: with the network and the device they determine its cost.
///
/// Settings equal to the published profiler's are not serialized, so that files of published steps stay as they are:
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
    /// What becomes of gradients between steps.
    #[serde(default, skip_serializing_if = "is_published")]
    pub zero_grad: ZeroGrad,
    /// What weights are stored in and what is computed in.
    #[serde(default, skip_serializing_if = "is_published")]
    pub precision: Precision,
    /// Which weights training changes.
    #[serde(default, skip_serializing_if = "is_published")]
    pub trainable: Trainable,
    /// The mode of batch normalisations with frozen weights.
    #[serde(default, skip_serializing_if = "is_published")]
    pub frozen_normalisation: FrozenNormalisation,
    /// Gradient accumulation: the number of forward and backward passes for the samples before the weights are changed,
    /// once.
    #[serde(default, skip_serializing_if = "is_published")]
    pub accumulate: Accumulate,
    /// Which parts of forward run again in backward.
    #[serde(default, skip_serializing_if = "is_published")]
    pub checkpoint: Checkpoint,
    /// How the result is compared with targets.
    #[serde(default, skip_serializing_if = "is_published")]
    pub loss: Loss,
}

/// Passes whose gradients are added up before weights change; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Accumulate(u64);

/// Whether part of a step is as the published profiler does it.
fn is_published<T: Default + PartialEq>(part: &T) -> bool {
    *part == T::default()
}

/// The settings of a step from its parts: each is called as its type, and its key in configurations is its field.
macro_rules! settings {
    ($($Part:ident $part:ident,)+) => {
        /// One part of a step, by its key in configurations.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Setting {
            $(#[doc = concat!("[`Step::", stringify!($part), "`].")] $Part,)+
        }

        impl Setting {
            /// All of them, in the order they are written.
            pub const ALL: [Setting; [$(stringify!($part)),+].len()] = [$(Setting::$Part),+];

            /// The key in configurations and in requests to workers.
            pub fn key(self) -> &'static str {
                match self {
                    $(Setting::$Part => stringify!($part),)+
                }
            }
        }

        impl Step {
            /// The same with one setting taken from another step.
            pub fn taking(self, setting: Setting, other: Step) -> Self {
                match setting {
                    $(Setting::$Part => Step { $part: other.$part, ..self },)+
                }
            }

            fn with_word(self, setting: Setting, word: &str) -> Result<Self> {
                Ok(match setting {
                    $(Setting::$Part => Step { $part: $Part::parse(word)?, ..self },)+
                })
            }

            fn word(self, setting: Setting) -> String {
                match setting {
                    $(Setting::$Part => self.$part.to_string(),)+
                }
            }
        }

        /// Changes to a step apart from its stage; a field without a value leaves that part as it is.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Changes {
            $(#[doc = concat!("[`Step::", stringify!($part), "`].")] pub $part: Option<$Part>,)+
        }

        impl Changes {
            /// A step with these changes; inference has no settings of training. Another optimizer comes with its own
            /// way to clear gradients, unless that is changed too.
            pub fn of(self, step: Step) -> Step {
                let mut changed = Step { stage: step.stage, $($part: self.$part.unwrap_or(step.$part),)+ };
                if self.zero_grad.is_none() && changed.optimizer != step.optimizer {
                    changed.zero_grad = changed.optimizer.zero_grad();
                }
                changed.in_stage(step.stage)
            }
        }
    };
}

settings! {
    Optimizer optimizer,
    ZeroGrad zero_grad,
    Precision precision,
    Trainable trainable,
    FrozenNormalisation frozen_normalisation,
    Accumulate accumulate,
    Checkpoint checkpoint,
    Loss loss,
}

/// The separator between the settings of a step in rows.
const BETWEEN: &str = "; ";

const PUBLISHED: &str = "published";

impl Accumulate {
    /// More passes than anybody waits for.
    pub const MOST: u64 = 65_536;

    /// That many passes; none for zero, or more than [`Accumulate::MOST`].
    pub const fn new(passes: u64) -> Option<Self> {
        if passes == 0 || passes > Accumulate::MOST { None } else { Some(Accumulate(passes)) }
    }

    /// At least one.
    pub const fn passes(self) -> u64 {
        self.0
    }

    /// The number that a word is.
    ///
    /// # Errors
    /// Whatever else.
    pub fn parse(word: &str) -> Result<Self> {
        word.trim().parse().ok().and_then(Accumulate::new).ok_or_else(|| {
            Error::config(format!("accumulate = {word} is not a number of passes"))
                .expected(format!("a whole number from 1 to {}", Accumulate::MOST))
        })
    }

    /// Samples of one pass, for `batch` samples in all; of the largest pass where they cannot be divided evenly.
    pub const fn samples(self, batch: u64) -> u64 {
        batch.div_ceil(self.0)
    }
}

/// All samples at once.
impl Default for Accumulate {
    fn default() -> Self {
        Accumulate(1)
    }
}

impl TryFrom<u64> for Accumulate {
    type Error = String;

    fn try_from(passes: u64) -> std::result::Result<Self, String> {
        Accumulate::new(passes).ok_or_else(|| format!("{passes} is not a number of passes"))
    }
}

impl From<Accumulate> for u64 {
    fn from(Accumulate(passes): Accumulate) -> Self {
        passes
    }
}

impl fmt::Display for Accumulate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Setting {
    /// Whether it changes anything in steps of a stage.
    pub fn is_of(self, stage: Stage) -> bool {
        match self {
            Setting::Precision => true,
            Setting::Optimizer | Setting::ZeroGrad => stage == Stage::Training,
            Setting::Trainable | Setting::FrozenNormalisation => stage == Stage::Training,
            Setting::Accumulate | Setting::Checkpoint | Setting::Loss => stage == Stage::Training,
        }
    }
}

impl Step {
    /// The step that the published profiler measures.
    pub const fn published(stage: Stage) -> Self {
        Step {
            stage,
            optimizer: Optimizer::Sgd,
            zero_grad: ZeroGrad::Keep,
            precision: Precision::Fp32,
            trainable: Trainable::All,
            frozen_normalisation: FrozenNormalisation::Train,
            accumulate: Accumulate(1),
            checkpoint: Checkpoint::None,
            loss: Loss::CrossEntropy,
        }
    }

    /// The default step without a profile: as published, except that gradients are freed, PyTorch's default for
    /// `zero_grad()` since 2.0.
    pub const fn usual(stage: Stage) -> Self {
        let published = Step::published(stage);
        match stage {
            Stage::Training => Step { zero_grad: ZeroGrad::Free, ..published },
            Stage::Inference => published,
        }
    }

    /// Bytes of one element of most activations. Under autocast this is the format of the results of products, which
    /// most other operations pass on. `Network::numbers` gives the format of each operation.
    pub fn activation(self) -> u64 {
        self.precision.autocast().unwrap_or(self.precision.held_format()).bytes()
    }

    /// Bytes of one element of a weight, of its gradient and of its optimizer state.
    pub const fn weight(self) -> u64 {
        self.precision.held_format().bytes()
    }

    /// Whether it has a backward pass and changes weights.
    pub fn trains(self) -> bool {
        self.stage == Stage::Training
    }

    /// The same in that stage; inference has no settings of training.
    pub fn in_stage(self, stage: Stage) -> Self {
        match stage {
            Stage::Training => Step { stage, ..self },
            Stage::Inference => Step { precision: self.precision, ..Step::published(stage) },
        }
    }

    /// The same with all weights trained, no gradient accumulation and no checkpoints: a small network has no parts to
    /// freeze or to run again, and single samples cannot be accumulated.
    pub fn of_whole_network(self) -> Self {
        let Step { trainable, frozen_normalisation, accumulate, checkpoint, .. } = Step::published(self.stage);
        Step { trainable, frozen_normalisation, accumulate, checkpoint, ..self }
    }

    /// The settings that differ from the published step, with their words.
    pub fn settings(self) -> impl Iterator<Item = (Setting, String)> {
        self.differences(Step::published(self.stage))
    }

    /// The settings that differ from another step, with the words for this one.
    pub fn differences(self, other: Step) -> impl Iterator<Item = (Setting, String)> {
        let words = Setting::ALL.map(|setting| (setting, self.word(setting)));
        words.into_iter().filter(move |(setting, word)| *word != other.word(*setting))
    }

    /// The differences from the published step as a cell of a row: `optimizer=adamw; zero_grad=free`, or `published`.
    pub fn cell(self) -> String {
        let words: Vec<String> = self.settings().map(|(setting, word)| format!("{}={word}", setting.key())).collect();
        if words.is_empty() { PUBLISHED.to_owned() } else { words.join(BETWEEN) }
    }

    /// The words for a row of it: its stage, and how it differs from the published step.
    pub fn row_words(self) -> String {
        format!("{}: {}", self.stage.name(), self.cell())
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
            return Err(Error::input(format!("\"{word}\" describes no step"))
                .expected("published, or the differences from it, such as optimizer=adamw; zero_grad=free"));
        };
        self.with_word(setting, value)
    }
}

/// Its stage, and the settings that differ from the published step.
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
        for (cell, expected) in [("optimiser=adam", "optimiser"), ("optimizer=adamm", "adam"), ("", "published")] {
            let problem = Step::from_cell(Stage::Training, cell).unwrap_err().to_string();
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn gradients_go_as_is_usual_with_the_optimizer_unless_it_is_said() {
        let published = Step::published(Stage::Training);
        let adam = Changes { optimizer: Some(Optimizer::Adam), ..Changes::default() };
        assert_eq!(Changes::default().of(published), published);
        assert_eq!(adam.of(published).zero_grad, ZeroGrad::Free);
        assert_eq!(Changes { zero_grad: Some(ZeroGrad::Keep), ..adam }.of(published).zero_grad, ZeroGrad::Keep);
        // A change to the optimizer that a step already has leaves the step as it is.
        let kept = Step { zero_grad: ZeroGrad::Keep, ..adam.of(published) };
        assert_eq!(adam.of(kept), kept);
        assert_eq!(adam.of(Step::published(Stage::Inference)), Step::published(Stage::Inference));
        // torch/optim/optimizer.py: `def zero_grad(self, set_to_none: bool = True)`, whatever the optimizer.
        let sgd = Changes { optimizer: Some(Optimizer::Sgd), ..Changes::default() };
        for asked in [Changes::default(), sgd, adam] {
            assert_eq!(asked.of(Step::usual(Stage::Training)).zero_grad, ZeroGrad::Free);
        }
    }
}
