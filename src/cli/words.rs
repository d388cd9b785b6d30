//! Words that a shell can complete although others are allowed: networks, sections, keys; and what words stand for that no list holds.

use crate::verbs::SPECS;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;
use clap::{Arg, Command};
use perf4sight_base::units::Bytes;
use perf4sight_cost::verbs::source::EVERY;
use perf4sight_network::zoo;
use perf4sight_platform::Platform;
use std::ffi::OsStr;
use std::path::PathBuf;
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

/// An amount of memory of at least a MiB.
pub(super) fn memory(text: &str) -> std::result::Result<Bytes, String> {
    let bytes = Bytes::parse(text).filter(|bytes| bytes.mib() >= 1.0);
    bytes.ok_or_else(|| "that is no amount of memory from 1 MiB on; write such as 8GiB or 1300MiB".to_owned())
}

/// The name of a page: what is written to a file goes by its ending.
pub(super) fn page(text: &str) -> std::result::Result<PathBuf, String> {
    let file = PathBuf::from(text);
    match file.extension().is_some_and(|ending| ending == "html") {
        true => Ok(file),
        false => Err("a page ends in .html".to_owned()),
    }
}
