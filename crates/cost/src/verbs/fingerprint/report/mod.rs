//! A fingerprint's report: from predictions and rows to a page, its JSON, its CSV and the console's table.

mod charts;
mod cost;
mod fit;
mod growth;
mod json;
mod operations;
mod origin;
mod page;
mod predictions;
mod protocols;
mod tables;
mod trust;

use crate::evaluation::{AccuracyStudy, Evaluation, Trial};
use crate::fingerprint::{Fingerprint, GatheredRows, IntervalBasis};
use crate::records::{MeasurementIdentity, ProfileProvenance, RowRecord};
use perf4sight_base::error::Result;
use perf4sight_base::overwrite;
use perf4sight_base::units::Percent;
use perf4sight_report::{Table, TableColumn};
use perf4sight_step::workload::{Quantity, Step};
use perf4sight_verb::TableFinding;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The data of a report.
pub struct ReportEvidence<'a> {
    /// The device's name.
    pub device: &'a str,
    /// The data set whose shapes the networks have.
    pub dataset: &'a str,
    /// The step that it is about.
    pub step: Step,
    /// One per quantity, in the order of [`Quantity::ALL`].
    pub assessments: Vec<Assessment<'a>>,
    /// The provenance of the rows, for each profile that has one.
    pub profiles: Vec<ProfileProvenance>,
    /// When the report was made, in RFC 3339.
    pub date: String,
    /// The configuration that made it; empty if there was none.
    pub config: &'a str,
}

/// A fingerprint and the measured rows.
pub struct Assessment<'a> {
    /// The fingerprint.
    pub fingerprint: &'a Fingerprint,
    /// The rows it was fitted on; none if a stored fingerprint was used without reading them again.
    pub fitted: Option<&'a GatheredRows>,
    /// The rows it was tested on, and those left out of the test.
    pub tested: &'a GatheredRows,
    /// Its predictions for the rows it was tested on, and those of fits on fewer rows.
    pub study: &'a AccuracyStudy,
}

/// The files of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportFiles {
    /// For people.
    pub html: PathBuf,
    /// For programs.
    pub json: PathBuf,
    /// Every tested row.
    pub predictions: PathBuf,
}

impl ReportEvidence<'_> {
    /// Writes `report.html`, `report.json` and `predictions.csv` into `folder`; with `overwrite` also over files that
    /// perf4sight did not write.
    ///
    /// # Errors
    /// When a file cannot be written or is not to be replaced; each file is then either the old one or the new one.
    pub fn write(&self, folder: &Path, overwrite: bool) -> Result<ReportFiles> {
        let written = ReportFiles {
            html: folder.join("report.html"),
            json: folder.join("report.json"),
            predictions: folder.join("predictions.csv"),
        };
        overwrite::save(&written.html, page::page(self).to_html(), overwrite)?;
        overwrite::save(&written.json, format!("{:#}\n", self.json()), overwrite)?;
        overwrite::save(&written.predictions, predictions::table(self).to_csv(), overwrite)?;
        Ok(written)
    }

    /// Refuses to replace files of others, before anything is assessed: the files of evidence without assessments are alike.
    ///
    /// # Errors
    /// A file that the program did not write, unless `overwrite`.
    pub fn check_replaced(&self, folder: &Path, overwrite: bool) -> Result<()> {
        let json = self.json().to_string();
        let files = [
            ("report.html", overwrite::GENERATOR.to_owned()),
            ("report.json", json),
            ("predictions.csv", predictions::table(self).to_csv()),
        ];
        files.into_iter().try_for_each(|(name, text)| overwrite::check_contents(&folder.join(name), text, overwrite))
    }

    /// `report.json`: scores by the name of each quantity; values that differ between equal runs are under
    /// `provenance`.
    pub fn json(&self) -> Value {
        json::report(self)
    }

    /// One row per network, for the console.
    pub fn summary(&self) -> Table {
        tables::summary(self)
    }

    /// All protocols side by side, for the console.
    pub fn protocols(&self) -> Table {
        protocols::table(self)
    }

    /// The errors on levels not fitted on, for the closing table of the run.
    pub fn findings(&self) -> Vec<TableFinding> {
        let of_part = |part: &Assessment| -> Vec<TableFinding> {
            let column = unseen_column(part.quantity());
            let scores = part.evaluation().unseen_cases().by(|case| case.variant.network.clone());
            let finding = |(network, scores): (String, perf4sight_base::stats::ErrorScores)| TableFinding {
                about: network,
                column: column.clone(),
                cell: Percent(scores.mape).into(),
            };
            scores.into_iter().map(finding).collect()
        };
        self.assessments.iter().flat_map(of_part).collect()
    }

    /// The rows that are in none of the numbers, one sentence per quantity and purpose.
    fn not_used(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for part in &self.assessments {
            let of_fit = part.fitted.map(|gathered| ("fit", gathered));
            for (purpose, gathered) in of_fit.into_iter().chain([("test", part.tested)]) {
                lines.push(format!("{}, {purpose}: {gathered}", part.quantity()));
            }
        }
        lines
    }

    /// The warnings about the files that were read, each once.
    fn warnings(&self) -> BTreeSet<&str> {
        let gathered = self.assessments.iter().flat_map(|part| part.fitted.into_iter().chain([part.tested]));
        gathered.flat_map(|gathered| &gathered.warnings).map(String::as_str).collect()
    }

    /// The networks of all rows, in alphabetical order: each has one colour throughout the report.
    fn networks(&self) -> Vec<String> {
        let names: BTreeSet<&String> = self.records().map(|record| &record.variant.network).collect();
        names.into_iter().cloned().collect()
    }

    fn records(&self) -> impl Iterator<Item = &RowRecord> {
        self.assessments.iter().flat_map(Assessment::records)
    }
}

impl<'a> Assessment<'a> {
    /// The quantity that it predicts.
    pub fn quantity(&self) -> Quantity {
        self.fingerprint.subject().quantity
    }

    /// Every row that was read, passed or not; rows that were both fitted and tested on appear once.
    fn records(&self) -> impl Iterator<Item = &RowRecord> {
        let fitted: BTreeSet<MeasurementIdentity> =
            self.fitted.into_iter().flat_map(records).map(RowRecord::identity).collect();
        let tested = records(self.tested).filter(move |record| !fitted.contains(&record.identity()));
        self.fitted.into_iter().flat_map(records).chain(tested)
    }

    fn evaluation(&self) -> &Evaluation {
        &self.study.own.whole.evaluation
    }

    /// Whether there are rows at levels that it was not fitted on: the other rows show nothing about new networks.
    fn tests_unseen(&self) -> bool {
        !self.evaluation().unseen_cases().cases.is_empty()
    }

    /// Fits without the network, the hardest test, if there are any, else the fingerprint itself; with the networks that
    /// it is tested on, in words.
    fn hardest(&self) -> (&'a Trial, &'static str) {
        match &self.study.own.left_out {
            Some(left_out) => (left_out, "networks that were left out of the fit"),
            None => (&self.study.own.whole, "networks that were fitted on"),
        }
    }

    /// The cases that show its accuracy for known networks: those at levels it was not fitted on, if there are any.
    fn known_network_cases(&self) -> Evaluation {
        Some(self.evaluation().unseen_cases())
            .filter(|unseen| !unseen.cases.is_empty())
            .unwrap_or_else(|| self.evaluation().clone())
    }

    /// The basis of its 90 % intervals for networks that were left out, if some were; none if it gives no intervals.
    fn basis(&self) -> Option<IntervalBasis> {
        let left_out = self.study.own.left_out.as_ref().map(|trial| &trial.evaluation);
        let cases = left_out.into_iter().chain([self.evaluation()]).flat_map(|evaluation| &evaluation.cases);
        cases.into_iter().find_map(|case| Some(case.interval?.basis))
    }
}

/// Every row of a selection, passed or not, with or without a network file.
fn records(gathered: &GatheredRows) -> impl Iterator<Item = &RowRecord> {
    let passed = gathered.rows.iter().map(|row| &row.record);
    let failed = gathered.failed.iter().map(|attempt| &attempt.record);
    passed.chain(gathered.missing_networks.values().flatten()).chain(failed)
}

/// The unit of the profile's column.
fn unit(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Latency => "ms",
        Quantity::Memory => "MiB",
    }
}

/// The error on levels that were not fitted on: the only one that shows the accuracy on other networks.
fn unseen_column(quantity: Quantity) -> TableColumn {
    TableColumn::number(format!("{quantity}_unseen_mape"), format!("{quantity} error"))
}
