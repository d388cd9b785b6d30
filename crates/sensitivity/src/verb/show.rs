//! `perf4sight sensitivity profile.json`: shows a stored profile.

use super::profile::SensitivityProfile;
use super::tables;
use super::warnings::of_points;
use perf4sight_base::error::Result;
use perf4sight_verb::{Context, Summary, Verb};
use std::path::PathBuf;

/// The settings of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShowVerb {
    /// The profile.
    pub profile: PathBuf,
}

impl Verb for ShowVerb {
    fn run(&self, context: &mut Context) -> Result<Summary> {
        let mut profile = SensitivityProfile::read(&self.profile)?;
        let missing: Vec<String> =
            of_points(&profile).into_iter().filter(|warning| !profile.warnings.contains(warning)).collect();
        profile.warnings.extend(missing);
        profile.warnings.iter().for_each(|warning| context.warn(warning));
        Ok(summary(&profile))
    }
}

pub(super) fn summary(profile: &SensitivityProfile) -> Summary {
    Summary {
        answer: profile.answer_text() + &tables::requests(profile),
        tables: [
            Some(tables::curve(profile)),
            tables::epochs(profile),
            tables::throttled(profile),
            tables::epochs_over_storage(profile),
        ]
        .into_iter()
        .flatten()
        .collect(),
        json: serde_json::to_value(profile).unwrap_or_default(),
        ..Summary::default()
    }
}
