//! Whether there will be rows to fit on, by what is there and what earlier sections measure.

use super::{FingerprintSection, QuantitySource};
use crate::fingerprint::{FEWEST_ROWS, LevelSelection};
use crate::records::Variant;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_verb::PlannedFiles;
use std::collections::BTreeSet;
use std::path::PathBuf;

impl FingerprintSection {
    /// Refuses to begin where an earlier section measures too few rows to fit on.
    pub(super) fn check_rows(&self, source: &QuantitySource, rows: Option<usize>) -> Result<()> {
        let Some(rows) = rows.filter(|rows| *rows < FEWEST_ROWS) else { return Ok(()) };
        let (step, networks, levels) = (self.step, self.fit.networks.join(", "), &self.fit.levels);
        let problem = format!("there will be at most {rows} {step} {} rows of {networks} at {levels}", source.quantity);
        Err(Error::config(problem)
            .expected(format!("at least {FEWEST_ROWS} rows to fit on"))
            .help("let [profile] measure this step, these networks and levels with more batch sizes, or fit on others (train_nets, train_logs)"))
    }

    /// The most rows to fit on that will be there; none where no earlier section measures any, and those that are there count.
    pub(super) fn most_rows(&self, source: &QuantitySource, planned: &PlannedFiles) -> Result<Option<usize>> {
        if !source.fit.iter().any(|folder| planned.is_written(folder)) {
            return Ok(None);
        }
        let wanted = self.step.row_words();
        let mut rows = 0;
        for (_, file) in self.row_files(source, planned)?.iter().filter(|(level, _)| self.fit.levels.contain(*level)) {
            rows += planned.rows(file).iter().filter(|row| **row == wanted).count();
            // Those of other steps are counted, too.
            rows += input_file::text_if_there(file, "count its rows")?.map_or(0, |text| text.lines().count());
        }
        Ok(Some(rows))
    }

    /// Levels to fit on for which no file of rows exists or will exist, in words; none if no level is missing, or no
    /// file is known.
    pub(super) fn lacking(&self, source: &QuantitySource, planned: &PlannedFiles) -> Result<Option<String>> {
        let LevelSelection::Only(wanted) = &self.fit.levels else { return Ok(None) };
        let there: BTreeSet<u8> = self.row_files(source, planned)?.into_iter().map(|(level, _)| level).collect();
        let absent: Vec<String> = wanted.difference(&there).map(u8::to_string).collect();
        Ok((!there.is_empty() && !absent.is_empty()).then(|| {
            format!("will find no {} rows of levels {}: nothing here measures them", source.quantity, absent.join(", "))
        }))
    }

    /// The files of rows of the networks to fit on that are there or will be, with their levels.
    fn row_files(&self, source: &QuantitySource, planned: &PlannedFiles) -> Result<Vec<(u8, PathBuf)>> {
        let networks = self.fit.networks.iter().map(String::as_str);
        let mut found = Vec::new();
        for folder in &source.fit {
            found.extend(planned.files(folder, "csv")?.into_iter().filter_map(|file| {
                let variant =
                    Variant::parse(file.file_stem()?.to_str()?.strip_suffix("-gt")?, networks.clone()).ok()?;
                Some((variant.level, file))
            }));
        }
        Ok(found)
    }
}
