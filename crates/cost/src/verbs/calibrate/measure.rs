//! Measures rows of the network on this device.

use super::CalibratedNetwork;
use super::rows::CalibrationRows;
use crate::device::kind::DeviceKind;
use crate::device::{self, Device, Measurement, MeasurementJob};
use crate::records::{RowAppender, RowRecord, ensure_writable};
use crate::verbs::temporary::TemporaryFile;
use perf4sight_base::error::{Error, Result};
use perf4sight_machine::{MachineProperties, RunWatch};
use perf4sight_step::workload::{Quantity, Workload};
use perf4sight_verb::Context;
use std::path::{Path, PathBuf};

/// The facts that must be equal if measurements are to count as those of the fingerprint's device.
const SAME: [&str; 4] = ["device", "processor", "instruction_set", "libtorch"];

/// The differences between this device and the fingerprint's, in words.
fn others(profiled: &MachineProperties, here: &MachineProperties) -> Option<String> {
    if !SAME.iter().any(|name| profiled.contains_key(*name)) {
        return Some("the device of this fingerprint is not recorded".to_owned());
    }
    let differ = SAME.iter().filter_map(|name| {
        let (was, is) = (profiled.get(*name)?, here.get(*name).map_or("unknown", String::as_str));
        (was != is).then(|| format!("{name} is {is} here and was {was} where the fingerprint comes from"))
    });
    let differ: Vec<String> = differ.collect();
    (!differ.is_empty()).then(|| differ.join("; "))
}

impl CalibratedNetwork<'_> {
    /// Measures latency and memory at these batch sizes. Every row is saved to a file immediately, whether or not it
    /// is used.
    pub(super) fn measure(&self, on: DeviceKind, batches: &[u64], context: &mut Context) -> Result<CalibrationRows> {
        let device = self.open(on, context)?;
        let written = TemporaryFile::write(&self.network, &self.variant)?;
        let date = humantime::format_rfc3339_seconds(context.now()).to_string().replace(':', "-");
        let folder = PathBuf::from("calibration").join(format!("{}-{date}", self.variant));
        let mut measured = CalibrationRows::default();
        let jobs: Vec<MeasurementJob> = batches.iter().map(|&batch| self.job(written.file(), batch)).collect();
        device::check_all(&*device, &jobs)?;
        for job in &jobs {
            let batch = job.workload.batch;
            let waiting = |what: &str| context.console.note(format_args!("waiting: {what}"));
            let measurement =
                device.measure(job, &RunWatch { waiting: &waiting, ..RunWatch::quiet(&context.cancel) })?;
            if let Some((_, why)) = measurement.reason_to_distrust() {
                context.warn(format!("batch size {batch}: the time is doubtful: {why}"));
            }
            match &measurement {
                Measurement::Measured { .. } | Measurement::OutOfMemory { .. } => {}
                Measurement::Broken { outcome, reason } => {
                    return Err(Error::device(format!("batch size {batch}: {outcome}: {reason}")));
                }
                Measurement::Interrupted => return Err(Error::device("interrupted before all rows were measured")),
            }
            for record in measurement.rows(job, &self.fingerprints.subject().dataset, device.capacity()) {
                let file = self.keep(&record, &folder)?;
                if !measured.files.contains(&file) {
                    measured.files.push(file);
                }
                self.sort(record, &mut measured, context);
            }
        }
        Ok(measured)
    }

    /// Appends a row to its file in a folder, and returns the path of the file.
    fn keep(&self, record: &RowRecord, folder: &Path) -> Result<PathBuf> {
        ensure_writable(&folder.join(record.quantity().name()))?;
        let (rows, _) = RowAppender::open(folder, &self.variant, record.quantity(), self.step.stage)?;
        rows.append(record)?;
        Ok(rows.path().to_owned())
    }

    /// Opens the device with as many threads as the profile used.
    fn open(&self, kind: DeviceKind, context: &mut Context) -> Result<Box<dyn Device>> {
        let profiled = self.fingerprints.iter().find_map(|one| one.settings.first()).cloned().unwrap_or_default();
        let threads = profiled.get("threads").and_then(|threads| threads.parse().ok());
        let options = device::DeviceOptions { threads, ..device::DeviceOptions::new(kind) };
        let device = device::open(&options, &context.executable, &[])?;
        match others(&profiled, &device.setting()) {
            None => Ok(device),
            Some(others) if self.force => {
                context.warn(others);
                Ok(device)
            }
            Some(others) => Err(Error::device(others)
                .expected(format!("the device that the fingerprint is of, {}", self.fingerprints.subject().device))
                .help(
                    "measure there and come back with --rows, or add --force where it is the same device all the same",
                )),
        }
    }

    fn job(&self, file: &Path, batch: u64) -> MeasurementJob {
        let has = |quantity| self.refitted().any(|one| one.subject().quantity == quantity);
        MeasurementJob {
            latency: has(Quantity::Latency),
            memory: has(Quantity::Memory),
            ..MeasurementJob::new(&self.variant, file, Workload { step: self.step, batch })
        }
    }
}
