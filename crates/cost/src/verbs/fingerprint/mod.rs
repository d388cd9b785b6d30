//! `[fingerprint]`: fits the performance model of a device to its profile, stores it, and reports its accuracy.

mod assess;
mod facts;
mod parse;
mod planned_rows;
pub mod report;
mod settings;

use super::NETWORKS;
use crate::fingerprint::{FitRecipe, LevelSelection, NetworkFolder, file_name};
use crate::records::ProfileProvenance;
use assess::AssessedFingerprint;
use perf4sight_base::error::Result;
use perf4sight_platform::Platform;
use perf4sight_step::workload::{Quantity, Stage, Step};
use perf4sight_verb::{Context, KeyedPath, Outline, PlannedFiles, Section, Spec, Summary, Verb};
use report::ReportEvidence;
use std::path::{Path, PathBuf};

/// The section `[fingerprint]`.
pub static SPEC: Spec = Spec {
    table: settings::TABLE,
    subject: NETWORKS,
    parse: |values| Ok(Box::new(FingerprintSection::parse(values)?)),
};

#[derive(Debug, Clone, PartialEq)]
struct FingerprintSection {
    evaluate: bool,
    overwrite: bool,
    step: Step,
    device: String,
    dataset: String,
    /// A known kind of device or a file; none if the profile gives it.
    platform: Option<String>,
    recipe: FitRecipe,
    fit: RowSplit,
    test: RowSplit,
    sources: Vec<QuantitySource>,
    store: PathBuf,
    networks: PathBuf,
}

/// The rows of a folder that are fitted on or tested on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RowSplit {
    networks: Vec<String>,
    levels: LevelSelection,
}

/// The folders of the rows of a quantity, and the keys that give them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct QuantitySource {
    quantity: Quantity,
    fit_key: &'static str,
    fit: Vec<PathBuf>,
    test_key: &'static str,
    test: Vec<PathBuf>,
}

impl FingerprintSection {
    fn file(&self, source: &QuantitySource) -> PathBuf {
        self.store.join(file_name(self.step.stage, source.quantity))
    }

    /// Whether to fit; otherwise the stored fingerprint is used.
    fn fits(&self, source: &QuantitySource) -> bool {
        !self.evaluate && (self.overwrite || !self.file(source).exists())
    }

    fn report_folder(&self) -> PathBuf {
        match self.step.stage {
            Stage::Training => self.store.clone(),
            Stage::Inference => self.store.join(self.step.stage.name()),
        }
    }

    fn step(&self, source: &QuantitySource) -> String {
        let (step, quantity, file) = (self.step, source.quantity, self.file(source));
        match self.fits(source) {
            true => format!(
                "fits {step} {quantity} on {} of {} into {}",
                self.fit.levels,
                self.fit.networks.join(", "),
                file.display()
            ),
            false => format!("evaluates {} as it is", file.display()),
        }
    }

    fn reads(&self, source: &QuantitySource) -> Vec<KeyedPath> {
        let keyed = |key, path: &PathBuf| KeyedPath { key, path: path.clone() };
        let tested = source.test.iter().map(|folder| keyed(source.test_key, folder));
        match self.fits(source) {
            true => tested.chain(source.fit.iter().map(|folder| keyed(source.fit_key, folder))).collect(),
            false => tested.chain([keyed("model_storedir", &self.file(source))]).collect(),
        }
    }

    /// Refuses to replace files of others by the report.
    fn check_replaced(&self) -> Result<()> {
        let nothing = ReportEvidence {
            device: &self.device,
            dataset: &self.dataset,
            step: self.step,
            assessments: Vec::new(),
            profiles: Vec::new(),
            date: String::new(),
            config: "",
        };
        nothing.check_replaced(&self.report_folder(), self.overwrite)
    }

    fn evidence<'a>(&'a self, assessed: &'a [AssessedFingerprint], context: &'a Context) -> Result<ReportEvidence<'a>> {
        Ok(ReportEvidence {
            device: &self.device,
            dataset: &self.dataset,
            step: self.step,
            assessments: assessed.iter().map(AssessedFingerprint::assessment).collect(),
            profiles: profiles(self.sources.iter().flat_map(|source| source.fit.iter().chain(&source.test)))?,
            date: humantime::format_rfc3339_seconds(context.now()).to_string(),
            config: &context.config,
        })
    }
}

fn profiles<'a>(folders: impl Iterator<Item = &'a PathBuf>) -> Result<Vec<ProfileProvenance>> {
    let mut profiles: Vec<&Path> = folders.filter_map(|folder| folder.parent()).collect();
    profiles.sort_unstable();
    profiles.dedup();
    let loaded = profiles.into_iter().filter_map(|profile| ProfileProvenance::load(profile).transpose());
    loaded.collect()
}

impl Section for FingerprintSection {
    fn outline(&self, planned: &PlannedFiles, _: &Context) -> Result<Outline<'_>> {
        self.check_target()?;
        let networks = KeyedPath::new("pruned_models_storedir", &self.networks);
        let platform = self.platform.iter().filter(|word| Platform::is_file(word));
        let platform = platform.map(|file| KeyedPath::new("target", file));
        let fits = self.sources.iter().filter(|source| self.fits(source));
        let files = fits.map(|source| self.file(source));
        let report = self.report_folder();
        let reports = ["report.html", "report.json", "predictions.csv"].map(|name| report.join(name));
        let fitted = self.sources.iter().filter(|source| self.fits(source));
        let lacking = fitted.map(|source| self.lacking(source, planned)).collect::<Result<Vec<_>>>()?;
        let outline = Outline {
            steps: self.sources.iter().map(|source| self.step(source)).chain(lacking.into_iter().flatten()).collect(),
            reads: self
                .sources
                .iter()
                .flat_map(|source| self.reads(source))
                .chain([networks])
                .chain(platform)
                .collect(),
            writes: files.chain(reports).map(|path| KeyedPath { key: "model_storedir", path }).collect(),
            ..Outline::default()
        };
        let fitted = self.sources.iter().filter(|source| self.fits(source));
        let outline = fitted.fold(outline, |outline, source| {
            let rows = self.most_rows(source, planned);
            outline.check_value(source.fit_key, move || self.check_rows(source, rows.clone()?))
        });
        Ok(outline.check_value("model_storedir", || self.check_replaced()))
    }
}

impl Verb for FingerprintSection {
    fn run(&self, context: &mut Context) -> Result<Summary> {
        let progress = context.console.progress(self.sources.len() as u64, "fingerprint");
        let mut networks = NetworkFolder::new(&self.networks);
        let mut assessed = Vec::new();
        for source in &self.sources {
            if context.cancelled() {
                return Ok(Summary::default());
            }
            progress.set_item(format!("{} {}", self.step, source.quantity));
            assessed.push(self.assess(source, &mut networks, context)?);
            progress.advance(1);
        }
        drop(progress);
        let evidence = self.evidence(&assessed, context)?;
        let written = evidence.write(&self.report_folder(), self.overwrite)?;
        let stored = self.sources.iter().map(|source| ("fingerprint", self.file(source)));
        Ok(Summary {
            tables: vec![evidence.summary(), evidence.protocols()],
            findings: evidence.findings(),
            files: stored.chain([("report", written.html)]).collect(),
            json: evidence.json(),
            ..Summary::default()
        })
    }
}
