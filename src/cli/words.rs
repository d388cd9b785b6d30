//! Words that a shell can complete although others are allowed: networks, sections, keys.

use crate::network::zoo;
use crate::platform::Platform;
use crate::sections::SPECS;
use crate::sections::predict::EVERY;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;
use clap::{Arg, Command};
use std::ffi::OsStr;
use std::sync::LazyLock;

/// Takes any word, and tells some of them to the script that completes.
#[derive(Debug, Clone)]
pub(super) struct Words(Vec<&'static str>);

/// The names of the known networks; files and levels may stand there too.
pub(super) fn networks() -> Words {
    Words(zoo::names().collect())
}

/// Kinds of devices; files may stand there too.
pub(super) fn targets() -> Words {
    Words(Platform::names().chain([EVERY]).collect())
}

/// The sections of a configuration.
pub(super) fn sections() -> Words {
    Words(SPECS.iter().map(|spec| spec.table.section).collect())
}

/// Each section's keys, ready for a value.
pub(super) fn keys() -> Words {
    static KEYS: LazyLock<Vec<String>> = LazyLock::new(|| {
        let pairs = SPECS.iter().flat_map(|spec| spec.table.keys.iter().map(|key| (spec.table.section, key.name)));
        pairs.map(|(section, key)| format!("{section}.{key}=")).collect()
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
