//! What a fit will lack, told before the rows are measured that it is to have.

use super::{FingerprintSection, Source};
use crate::fingerprint::Levels;
use crate::records::Variant;
use perf4sight_base::error::Result;
use perf4sight_verb::Foreseen;
use std::collections::BTreeSet;

impl FingerprintSection {
    /// Levels to fit on that no file of rows is of or will be, in words; none where nothing is lacking, or nothing known of any file.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub(super) fn lacking(&self, source: &Source, foreseen: &Foreseen) -> Result<Option<String>> {
        let Levels::Only(wanted) = &self.fit.levels else { return Ok(None) };
        let networks = self.fit.networks.iter().map(String::as_str);
        let mut there = BTreeSet::new();
        for folder in &source.fit {
            let files = foreseen.files(folder, "csv")?;
            let stems = files.iter().filter_map(|file| file.file_stem()?.to_str()?.strip_suffix("-gt"));
            there.extend(stems.filter_map(|stem| Some(Variant::parse(stem, networks.clone()).ok()?.level)));
        }
        let absent: Vec<String> = wanted.difference(&there).map(u8::to_string).collect();
        Ok((!there.is_empty() && !absent.is_empty()).then(|| {
            format!("will find no {} rows of levels {}: nothing here measures them", source.quantity, absent.join(", "))
        }))
    }
}
