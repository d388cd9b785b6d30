//! `perf4sight fingerprints`: lists the stored fingerprints below a folder.

use crate::fingerprint::Fingerprint;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_base::units::Percent;
use perf4sight_report::{Table, TableBuilder};
use perf4sight_step::workload::{Quantity, Stage};
use perf4sight_verb::config::{Setting, SettingTable as Settings, path};
use perf4sight_verb::{Context, Summary, Verb, VerbSpec};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The maximum depth of the search: deeper folders are unrelated.
const DEEPEST: usize = 6;
/// The number of characters of an RFC 3339 date that give the day.
const DAY: usize = 10;

/// `perf4sight fingerprints`.
pub static VERB: VerbSpec = VerbSpec {
    table: Settings {
        section: "fingerprints",
        about: "lists the stored fingerprints below a folder: of what device, stage and networks, and how good",
        groups: &[&[FOLDER]],
    },
    after_help: "",
    parse: |values| Ok(Box::new(Fingerprints { folder: values.get("folder")? })),
};

const FOLDER: Setting = path("folder").or_default("fingerprinting").positional("DIR").help("Where to look.");

#[derive(Debug, Clone, PartialEq, Eq)]
struct Fingerprints {
    folder: PathBuf,
}

/// The fingerprints of one stage in one folder; at least one.
struct StoredFingerprints {
    folder: PathBuf,
    fingerprints: Vec<Fingerprint>,
    report: Option<Value>,
}

impl Verb for Fingerprints {
    /// Lists every folder and stage with fingerprints; a file that cannot be used is named, and sets
    /// [`Summary::failure`].
    fn run(&self, context: &mut Context) -> Result<Summary> {
        let mut folders = Vec::new();
        folders_below(&self.folder, DEEPEST, &mut folders)?;
        let (mut stored, mut unusable) = (Vec::new(), 0);
        for (folder, stage) in folders.iter().flat_map(|folder| Stage::ALL.map(|stage| (folder, stage))) {
            match StoredFingerprints::load(folder, stage) {
                Ok(found) => stored.extend(found),
                Err(error) => {
                    context.warn(error);
                    unusable += 1;
                }
            }
        }
        let table = table(&stored, &self.folder);
        let headline = match stored.is_empty() {
            true => {
                format!("no fingerprints below {}; [fingerprint] of a configuration fits them", self.folder.display())
            }
            false => String::new(),
        };
        let failure = (unusable > 0).then(|| {
            Error::input(format!("{unusable} of the fingerprints below {} cannot be used", self.folder.display()))
                .help("the reasons are in the warnings above; the others are listed")
        });
        let json = table.to_json();
        Ok(Summary {
            headline,
            tables: if stored.is_empty() { Vec::new() } else { vec![table] },
            json,
            failure,
            ..Summary::default()
        })
    }
}

/// The folder and its subfolders, in alphabetical order; links are not followed, because they may form a cycle.
fn folders_below(folder: &Path, deepest: usize, found: &mut Vec<PathBuf>) -> Result<()> {
    let refused = |cause: std::io::Error| {
        Error::io(folder, "look for fingerprints here", &cause)
            .help("name the folder that holds them; [fingerprint] fits them")
    };
    let entries = fs::read_dir(folder).map_err(refused)?;
    found.push(folder.to_owned());
    let mut inner = Vec::new();
    for entry in entries {
        let entry = entry.map_err(refused)?;
        if entry.file_type().map_err(refused)?.is_dir() {
            inner.push(entry.path());
        }
    }
    inner.sort_unstable();
    match deepest {
        0 => Ok(()),
        deepest => inner.iter().try_for_each(|inner| folders_below(inner, deepest - 1, found)),
    }
}

impl StoredFingerprints {
    fn load(folder: &Path, stage: Stage) -> Result<Option<Self>> {
        let loaded = Quantity::ALL.map(|quantity| Fingerprint::load(folder, stage, quantity));
        let fingerprints: Vec<Fingerprint> = loaded.into_iter().filter_map(Result::transpose).collect::<Result<_>>()?;
        let report = match stage {
            Stage::Training => folder.to_owned(),
            Stage::Inference => folder.join(stage.name()),
        };
        let report = input_file::text(&report.join("report.json"), "read the report").ok();
        let report = report.and_then(|text| serde_json::from_str(&text).ok());
        Ok((!fingerprints.is_empty()).then(|| StoredFingerprints { folder: folder.to_owned(), fingerprints, report }))
    }

    fn for_quantity(&self, quantity: Quantity) -> Option<&Fingerprint> {
        self.fingerprints.iter().find(|fingerprint| fingerprint.subject().quantity == quantity)
    }

    /// The mean error on networks that were left out, if the report next to the fingerprint is of the same fit.
    fn left_out(&self, quantity: Quantity) -> Option<f64> {
        let (report, date) = (self.report.as_ref()?, &self.for_quantity(quantity)?.provenance.date);
        let fits = report["provenance"]["fits"].as_array()?;
        let is_own = fits.iter().any(|fit| fit["date"].as_str() == Some(date));
        report[quantity.name()]["left_out"]["mape"].as_f64().filter(|_| is_own)
    }

    fn networks(&self) -> BTreeSet<&str> {
        let fitted = self.fingerprints.iter().flat_map(Fingerprint::fitted_on);
        fitted.map(|fitted| fitted.variant.network.as_str()).collect()
    }

    fn day(&self) -> Option<&str> {
        self.fingerprints.iter().filter_map(|fingerprint| fingerprint.provenance.date.get(..DAY)).min()
    }
}

fn table(stored: &[StoredFingerprints], folder: &Path) -> Table {
    let subject = |one: &StoredFingerprints| one.fingerprints[0].subject().clone();
    let quantities =
        |one: &StoredFingerprints| one.fingerprints.iter().map(|one| one.subject().quantity.name()).collect::<Vec<_>>();
    let rows = TableBuilder::new(format!("Fingerprints below {}", folder.display()), stored)
        .text("folder", "folder", |one| one.folder.display().to_string())
        .text("device", "device", |one| subject(one).device)
        .text("dataset", "dataset", |one| subject(one).dataset)
        .text("stage", "stage", |one| subject(one).step.to_string())
        .text("quantities", "quantities", |one| quantities(one).join(", "))
        .text("fitted", "fitted", |one| one.day().map(str::to_owned))
        .text("networks", "networks", |one| one.networks().into_iter().collect::<Vec<_>>().join(", "));
    let error = |rows: TableBuilder<_>, quantity: Quantity| {
        let heading = format!("{quantity} error, network left out");
        rows.number(&format!("{quantity}_left_out_mape"), heading, |one: &&StoredFingerprints| {
            one.left_out(quantity).map(Percent)
        })
    };
    Quantity::ALL.into_iter().fold(rows, error).table()
}
