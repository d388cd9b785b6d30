//! The datasets that networks are built for: image size and number of classes.

use perf4sight_base::error::{Error, Result};
use std::fmt;

/// A dataset of square colour images; only their size and the number of classes matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dataset {
    /// 1000 classes, 224x224.
    #[default]
    Imagenet,
    /// 10 classes, 32x32.
    Cifar10,
    /// 100 classes, 32x32.
    Cifar100,
}

impl Dataset {
    /// All datasets, the default first.
    pub const ALL: [Dataset; 3] = [Dataset::Imagenet, Dataset::Cifar10, Dataset::Cifar100];

    /// The name in configuration and folder names.
    pub fn name(self) -> &'static str {
        match self {
            Dataset::Imagenet => "imagenet",
            Dataset::Cifar10 => "cifar10",
            Dataset::Cifar100 => "cifar100",
        }
    }

    /// The dataset of that name.
    ///
    /// # Errors
    /// An unknown name; the message suggests the nearest known one.
    pub fn parse(word: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|known| known.name() == word)
            .ok_or_else(|| Error::config(format!("unknown dataset \"{word}\"")).one_of(word, Self::ALL.map(Self::name)))
    }

    /// Height and width of an image.
    pub fn size(self) -> usize {
        match self {
            Dataset::Imagenet => 224,
            Dataset::Cifar10 | Dataset::Cifar100 => 32,
        }
    }

    /// The number of classes.
    pub fn classes(self) -> usize {
        match self {
            Dataset::Imagenet => 1000,
            Dataset::Cifar10 => 10,
            Dataset::Cifar100 => 100,
        }
    }
}

impl fmt::Display for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
