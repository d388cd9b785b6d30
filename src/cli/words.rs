//! Words that a shell can complete although others are taken.

use crate::verbs::SPECS;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;
use clap::{Arg, Command};
use perf4sight_verb::config::Surface;
use std::ffi::OsStr;
use std::sync::LazyLock;

/// Accepts any word, and offers some words to the completion script.
#[derive(Debug, Clone)]
pub(super) struct Words(pub Vec<&'static str>);

pub(super) fn sections() -> Words {
    Words(SPECS.iter().map(|spec| spec.table.section).collect())
}

/// Each section's keys, ready for a value.
pub(super) fn keys() -> Words {
    static KEYS: LazyLock<Vec<String>> = LazyLock::new(|| {
        let keys = |table: &'static perf4sight_verb::config::SettingTable| {
            table.for_surface(Surface::Configuration).map(|setting| format!("{}.{}=", table.section, setting.key))
        };
        SPECS.iter().map(|spec| &spec.table).chain([&perf4sight_slurm::TABLE]).flat_map(keys).collect()
    });
    Words(KEYS.iter().map(String::as_str).collect())
}

impl TypedValueParser for Words {
    type Value = String;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().copied().map(PossibleValue::new)))
    }
}
