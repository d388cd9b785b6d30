//! `perf4sight calibrate`: refits fingerprints with a few measured rows of a new network, or suggests rows to measure.

mod measure;
mod rows;
mod settings;
mod tables;

use super::named::NamedNetwork;
use crate::device::kind::DeviceKind;
use crate::fingerprint::{DeviceFingerprints, Fingerprint, FitProvenance, MOST_ROWS, check_understood};
use crate::records::Variant;
use perf4sight_base::error::{Error, Result};
use perf4sight_network::Network;
use perf4sight_report::Table;
use perf4sight_step::workload::{Precision, Quantity, Stage, Step};
use perf4sight_verb::{Context, Summary, Verb, VerbSpec};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `perf4sight calibrate`.
pub static VERB: VerbSpec =
    VerbSpec { table: settings::TABLE, after_help: "", parse: |values| Ok(Box::new(Calibrate::parse(values)?)) };

#[derive(Debug, Clone, PartialEq, Eq)]
struct Calibrate {
    network: String,
    fingerprints: PathBuf,
    stage: Stage,
    precision: Option<Precision>,
    source: CalibrationSource,
    batches: Vec<u64>,
    force: bool,
    save: Option<PathBuf>,
    overwrite: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum CalibrationSource {
    /// There are none yet: suggest what to measure.
    Nowhere,
    Files(Vec<PathBuf>),
    /// Measure them now on a device.
    Device(DeviceKind),
}

/// The network with the fingerprints to refit.
struct CalibratedNetwork<'a> {
    variant: Variant,
    network: Arc<Network>,
    fingerprints: &'a DeviceFingerprints,
    step: Step,
    /// Whether rows are used despite objections.
    force: bool,
}

impl Verb for Calibrate {
    /// Refits and shows predictions before and after; without rows it suggests batch sizes to measure.
    fn run(&self, context: &mut Context) -> Result<Summary> {
        let fingerprints = DeviceFingerprints::load(&self.fingerprints, self.stage)?;
        self.check_save(&fingerprints)?;
        let named = NamedNetwork::load(&self.network, &fingerprints.subject().dataset)?;
        let network = Arc::new(named.report_remarks(context));
        check_understood(&network)?;
        let batches = match (self.batches.as_slice(), &self.source) {
            ([], CalibrationSource::Nowhere | CalibrationSource::Device(_)) => fingerprints.worth_measuring(&network),
            (asked, CalibrationSource::Nowhere | CalibrationSource::Files(_) | CalibrationSource::Device(_)) => {
                asked.to_vec()
            }
        };
        let variant = rows::variant(&self.network);
        let own = fingerprints.subject().step;
        let step = Step { precision: self.precision.unwrap_or(own.precision), ..own };
        fingerprints.iter().try_for_each(|fingerprint| fingerprint.check_device(step.precision))?;
        let subject = CalibratedNetwork { variant, network, fingerprints: &fingerprints, step, force: self.force };
        let mut measured = match &self.source {
            CalibrationSource::Nowhere => return Ok(self.advice(&subject, &batches)),
            CalibrationSource::Files(files) => subject.read(files, context)?,
            CalibrationSource::Device(on) => {
                check_count(&batches)?;
                subject.measure(*on, &batches, context)?
            }
        };
        measured.files.iter().for_each(|file| context.console.note(format_args!("rows: {}", file.display())));
        if !self.force {
            measured.leave_out_doubtful(context)?;
        }
        subject.contradictions(&measured).iter().for_each(|far| context.warn(far));
        let refitted = fingerprints.calibrate(&measured.rows, &measured.failed)?;
        subject.misses(&refitted, &measured).iter().for_each(|missed| context.warn(missed));
        let files = self.save(&refitted, context)?;
        let tables = subject.before_and_after(&refitted, &measured, &batches);
        Ok(self.summary(tables, measured.count(), files))
    }
}

impl Calibrate {
    /// Refuses to replace fingerprints by accident, before anything is measured.
    fn check_save(&self, fingerprints: &DeviceFingerprints) -> Result<()> {
        let Some(folder) = self.save.as_deref().filter(|_| !self.overwrite) else { return Ok(()) };
        let file = |one: &Fingerprint| one.file(folder);
        match fingerprints.iter().map(file).find(|file| file.exists()) {
            Some(file) => Err(Error::usage("there is a fingerprint already")
                .file(file)
                .expected("--save with a folder that holds none")
                .help("add --overwrite to replace it")),
            None => Ok(()),
        }
    }

    fn save(&self, refitted: &DeviceFingerprints, context: &Context) -> Result<Vec<(&'static str, PathBuf)>> {
        let Some(folder) = &self.save else { return Ok(Vec::new()) };
        let date = humantime::format_rfc3339_seconds(context.now()).to_string();
        let stored = refitted.iter().map(|fingerprint| {
            let mut dated = fingerprint.clone();
            dated.provenance = FitProvenance { date: date.clone(), seconds: 0.0 };
            Ok(("fingerprint", dated.save(folder)?))
        });
        stored.collect()
    }

    fn summary(&self, tables: Vec<(Quantity, Table)>, rows: usize, files: Vec<(&'static str, PathBuf)>) -> Summary {
        Summary {
            headline: if files.is_empty() {
                "nothing is stored: --save DIR keeps the refitted fingerprints"
            } else {
                ""
            }
            .to_owned(),
            json: json!({
                "network": self.network,
                "rows": rows,
                "before_and_after": by_quantity(&tables),
                "files": files.iter().map(|(_, path)| path.to_string_lossy()).collect::<Vec<_>>(),
            }),
            tables: tables.into_iter().map(|(_, table)| table).collect(),
            files,
            ..Summary::default()
        }
    }

    /// The batch sizes to measure, and the command to use the rows.
    fn advice(&self, subject: &CalibratedNetwork, batches: &[u64]) -> Summary {
        let sizes = batches.iter().map(u64::to_string).collect::<Vec<_>>().join(" and ");
        let precision = match self.precision {
            Some(precision) => format!(" --precision {}", precision.name()),
            None => String::new(),
        };
        let device = &subject.fingerprints.subject().device;
        let headline = format!(
            "Measure {} of {} on {} at batch size {sizes}: the smallest shows what a step costs whatever its size, the largest what a \
             sample costs. Then\n  perf4sight calibrate {} --fingerprint {}{precision} --rows FILE.csv\nwith rows as [profile] writes them, or on \
             that device itself --measure instead of --rows.",
            subject.step,
            self.network,
            device,
            self.network,
            self.fingerprints.display(),
        );
        let tables = subject.predictions(batches);
        let json = json!({
            "network": self.network,
            "device": device,
            "step": subject.step.cell(),
            "measure": batches,
            "predictions": by_quantity(&tables),
        });
        let tables = tables.into_iter().map(|(_, table)| table).collect();
        Summary { headline, tables, json, ..Summary::default() }
    }
}

fn by_quantity(tables: &[(Quantity, Table)]) -> Map<String, Value> {
    tables.iter().map(|(quantity, table)| (quantity.name().to_owned(), table.to_json())).collect()
}

/// Refuses a number of batch sizes that cannot be used, before any is measured.
fn check_count(batches: &[u64]) -> Result<()> {
    match batches.len() {
        1..=MOST_ROWS => Ok(()),
        count => Err(Error::usage(format!("--bs names {count} batch sizes to measure"))
            .expected(format!("1 to {MOST_ROWS}"))
            .help("with more rows fit a new fingerprint: [profile] and [fingerprint]")),
    }
}

impl CalibratedNetwork<'_> {
    /// The fingerprints that are refitted with the measured steps. Memory at another precision than the profiled one
    /// is simulated, so it is not refitted.
    fn refitted(&self) -> impl Iterator<Item = &Fingerprint> {
        let learns =
            |one: &&Fingerprint| one.subject().step == self.step || one.subject().quantity == Quantity::Latency;
        self.fingerprints.iter().filter(learns)
    }

    fn is_of(&self, file: &Path) -> bool {
        let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let plain = self.variant.level == 0 && stem.as_deref() == Some(&self.variant.network);
        plain || stem == Some(self.variant.to_string())
    }
}
