//! A device that answers from a profile measured earlier, on any device.

use super::rows::{latency, memory};
use super::{Device, Measurement, MeasurementJob};
use crate::records::{MeasurementIdentity, MeasurementOutcome, ProfileProvenance, RowReading, RowRecord, list, read};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Bytes;
use perf4sight_machine::{Conditions, MachineProperties, MachineState, RunWatch};
use perf4sight_step::workload::{Quantity, Stage, Workload};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A device that answers from the rows of a profile; of repeated rows it uses the first.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedDevice {
    folder: PathBuf,
    rows: BTreeMap<MeasurementIdentity, RowRecord>,
    platform: Option<String>,
}

impl RecordedDevice {
    /// Reads the rows of the `known` networks in `folder`, which holds `latency` and `memory` or one of them. Rows
    /// without a stage are of `stage`.
    ///
    /// # Errors
    /// A folder without such rows, or rows that cannot be read.
    pub fn open<'a>(folder: &Path, known: impl IntoIterator<Item = &'a str> + Clone, stage: Stage) -> Result<Self> {
        let mut rows = BTreeMap::new();
        for quantity in Quantity::ALL {
            let subfolder = folder.join(quantity.name());
            if !subfolder.is_dir() {
                continue;
            }
            for file in list(&subfolder, known.clone())?.into_values() {
                for record in read(&file, quantity, stage)?.settled_rows() {
                    rows.entry(record.identity()).or_insert(record);
                }
            }
        }
        if rows.is_empty() {
            let networks = known.into_iter().collect::<Vec<_>>().join(", ");
            return Err(Error::device(format!("there are no rows of {networks} here"))
                .file(folder)
                .expected("{latency,memory}/{network}_{level}-gt.csv")
                .help("set device_source to the folder of a profile, or network to one that it holds"));
        }
        let platform = ProfileProvenance::load(folder)?.and_then(|mut provenance| provenance.setting.remove("target"));
        Ok(RecordedDevice { folder: folder.to_owned(), rows, platform })
    }

    fn row(&self, job: &MeasurementJob, quantity: Quantity) -> Option<&RowRecord> {
        self.rows.get(&MeasurementIdentity {
            variant: job.variant.clone(),
            workload: job.workload,
            variable: quantity.into(),
        })
    }

    fn missing(&self, job: &MeasurementJob, quantity: Quantity) -> Error {
        let same = self.rows.keys().filter(|row| {
            (&row.variant, row.workload.step, row.variable) == (&job.variant, job.workload.step, quantity.into())
        });
        let batches: Vec<String> = same.map(|row| row.workload.batch.to_string()).collect();
        let (variant, Workload { step, batch }) = (&job.variant, job.workload);
        Error::device(format!("there is no recorded {quantity} of {variant}, {step}, bs {batch}"))
            .file(&self.folder)
            .expected(match batches.len() {
                0 => format!("a variant and step with {quantity} rows"),
                _ => format!("one of the recorded batch sizes {}", batches.join(", ")),
            })
            .help("set bs, stage and network to what the profile holds")
    }
}

impl Device for RecordedDevice {
    fn name(&self) -> &str {
        "recorded"
    }

    fn capacity(&self) -> Option<Bytes> {
        self.rows.values().find_map(|row| match row.reading {
            RowReading::Memory(memory) => memory.capacity,
            RowReading::Latency(_) => None,
        })
    }

    fn setting(&self) -> MachineProperties {
        let facts = [
            ("device", self.name().to_owned()),
            ("perf4sight", env!("CARGO_PKG_VERSION").to_owned()),
            ("device_source", self.folder.display().to_string()),
        ];
        let facts = facts.map(|(name, fact)| (name.to_owned(), fact));
        // The rows follow the memory rules of the device they were measured on; published rows do not name it.
        facts.into_iter().chain(self.platform.clone().map(|platform| ("target".to_owned(), platform))).collect()
    }

    /// Whether it has rows for the job; a repetition would only give the same values again.
    fn offers(&self, job: &MeasurementJob) -> bool {
        job.round == 1 && !job.layers && job.quantities().all(|quantity| self.row(job, quantity).is_some())
    }

    fn check(&self, job: &MeasurementJob) -> Result<()> {
        super::refuse_layers(self, job)?;
        let missing = job.quantities().find(|quantity| self.row(job, *quantity).is_none());
        missing.map_or(Ok(()), |quantity| Err(self.missing(job, quantity)))
    }

    fn measure(&self, job: &MeasurementJob, watch: &RunWatch<'_>) -> Result<Measurement> {
        self.check(job)?;
        if watch.cancelled() {
            return Ok(Measurement::Interrupted);
        }
        let rows: Vec<&RowRecord> = job.quantities().filter_map(|quantity| self.row(job, quantity)).collect();
        let memory = rows.iter().find_map(|row| memory(row));
        // A configuration that failed in one of its rows did not run, whatever the other row holds.
        match rows.iter().find(|row| !row.outcome.passed()).map(|row| row.outcome) {
            None => {
                let latency = rows.iter().find_map(|row| latency(row));
                let conditions = Box::new(conditions(&rows));
                Ok(Measurement::Measured { latency, memory, layers: None, seconds: 0.0, conditions })
            }
            Some(MeasurementOutcome::OutOfMemory | MeasurementOutcome::Skipped) => {
                Ok(Measurement::OutOfMemory { memory, seconds: 0.0 })
            }
            Some(outcome) => Ok(Measurement::broken_run(outcome, "recorded so")),
        }
    }
}

/// Rows keep the outcome, but not its cause.
fn conditions(rows: &[&RowRecord]) -> Conditions {
    let mut conditions = Conditions::default();
    if rows.iter().any(|row| row.outcome == MeasurementOutcome::Throttled) {
        conditions.end = MachineState {
            held_by: vec!["a cause that the recorded row does not name".to_owned()],
            ..MachineState::default()
        };
    }
    conditions
}
