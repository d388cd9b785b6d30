//! `perf4sight sensitivity --compare measured.csv profile.json`: compares a profile with independently measured runs.

use super::profile::SensitivityProfile;
use crate::{ComparedEpoch, EpochModel, MeasuredEpoch, ModelAgreement};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_base::units::{Milliseconds, Percent};
use perf4sight_report::{Cell, Table, TableBuilder};
use perf4sight_verb::{Context, Summary, Verb};
use serde_json::json;
use std::path::{Path, PathBuf};

/// The settings of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompareVerb {
    /// Rows of `cpus,memory_percent,epoch_seconds`.
    pub measured: PathBuf,
    pub profile: PathBuf,
}

/// The required columns; others are ignored, except [`STORAGE`].
const COLUMNS: [&str; 3] = ["cpus", "memory_percent", "epoch_seconds"];

/// The bandwidth of storage in MB/s, where it is not the profile's.
const STORAGE: &str = "storage_mb_s";

impl Verb for CompareVerb {
    fn run(&self, context: &mut Context) -> Result<Summary> {
        let profile = SensitivityProfile::read(&self.profile)?;
        profile.warnings.iter().for_each(|warning| context.warn(warning));
        let model = profile.model().ok_or_else(|| {
            Error::input("this profile has no epochs: too little is known of the data")
                .file(&self.profile)
                .help("measure it with --data and -b")
        })?;
        let agreement = ModelAgreement::compare(&model, &rows(&self.measured)?);
        if agreement.runs.is_empty() {
            return Err(Error::input("there are no rows").file(&self.measured));
        }
        out_of_range_warnings(&agreement, &model).iter().for_each(|warning| context.warn(warning));
        let inside = agreement.inside();
        Ok(Summary {
            headline: headline(&agreement),
            json: json!({ "scores": agreement.scores, "inside": inside, "rows": table(&agreement).to_json() }),
            tables: vec![table(&agreement)],
            ..Summary::default()
        })
    }
}

fn headline(agreement: &ModelAgreement) -> String {
    let Some(scores) = agreement.scores else {
        return "no row has a number of CPUs within the measured range".to_owned();
    };
    format!(
        "the model is {} off on average, at most {}; {} of {} epochs are within its bounds",
        Percent(scores.mape),
        Percent(agreement.within_range().map(|one| one.error_percent().abs()).fold(0.0, f64::max)),
        agreement.inside(),
        agreement.within_range().count()
    )
}

/// Warnings about rows outside the range of the model.
fn out_of_range_warnings(agreement: &ModelAgreement, model: &EpochModel) -> Vec<String> {
    let without = agreement.runs.len() - agreement.within_range().count();
    let full = agreement.runs.iter().filter(|one| one.run.cached > 1.0).count();
    let ends =
        [model.curve.points().first(), model.curve.points().last()].map(|end| end.map_or(0.0, |point| point.cpus));
    let warnings = [
        (
            without,
            format!(
                "with fewer CPUs than {} or more than {} nothing was measured: left out of the average are {without} of {} rows, marked as beyond",
                ends[0],
                ends[1],
                agreement.runs.len()
            ),
        ),
        (
            full,
            format!("{full} of {} rows have more memory than all data take: they count as 100 %", agreement.runs.len()),
        ),
    ];
    warnings.into_iter().filter(|(count, _)| *count > 0).map(|(_, words)| words).collect()
}

fn rows(file: &Path) -> Result<Vec<MeasuredEpoch>> {
    let text = input_file::table(file, "read the measured epochs")?;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let wrong = |cause: csv::Error| Error::input(format!("this is not a table of epochs: {cause}")).file(file);
    let heads = reader.headers().map_err(wrong)?.clone();
    let place = |name: &str| heads.iter().position(|head| head.trim() == name);
    let places: Vec<usize> = COLUMNS.iter().filter_map(|name| place(name)).collect();
    if places.len() < COLUMNS.len() {
        return Err(Error::input("columns are missing").file(file).line(1).expected(COLUMNS.join(", ")));
    }
    let number = |record: &csv::StringRecord, at: usize, positive: bool| {
        let cell = record.get(at).unwrap_or_default();
        let number = cell.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        number.filter(|number| !positive || *number > 0.0).ok_or_else(|| {
            let line = record.position().map_or(0, |position| position.line() as usize);
            Error::input(format!("\"{cell}\" is not a valid number of this column")).file(file).line(line)
        })
    };
    let storage = place(STORAGE);
    let run = |record: std::result::Result<csv::StringRecord, csv::Error>| {
        let record = record.map_err(wrong)?;
        Ok(MeasuredEpoch {
            cpus: number(&record, places[0], true)?,
            cached: number(&record, places[1], false)? / 100.0,
            storage: storage.map(|at| number(&record, at, true).map(|megabytes| 1e6 * megabytes)).transpose()?,
            seconds: number(&record, places[2], true)?,
        })
    };
    reader.records().map(run).collect()
}

fn table(agreement: &ModelAgreement) -> Table {
    let milliseconds = |seconds: f64| Milliseconds(1000.0 * seconds);
    let inside = |one: &ComparedEpoch| if one.is_beyond { Cell::from("beyond") } else { one.is_inside().into() };
    TableBuilder::new("Measured epochs and the model", &agreement.runs)
        .number("cpus", "CPUs", |one| one.run.cpus)
        .number("memory_percent", "data in memory", |one| Percent(100.0 * one.run.cached))
        .number("storage_mb_s", "storage MB/s", |one| Some(one.run.storage? / 1e6))
        .number("measured_ms", "measured", |one| milliseconds(one.run.seconds))
        .number("model_ms", "model", |one| milliseconds(one.predicted()))
        .number("error_percent", "error", |one| Percent(one.error_percent()))
        .number("least_ms", "at least", |one| milliseconds(one.model.least))
        .number("most_ms", "at most", |one| milliseconds(one.model.most))
        .text("inside", "inside", |one| inside(one))
        .table()
}
