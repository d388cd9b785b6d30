//! Rows of the network, measured now on the device at hand.

use super::Subject;
use super::rows::Measured;
use crate::device::names::DeviceName;
use crate::device::protocol::{LatencyReading, MemoryReading};
use crate::device::{self, Allowance, Device, Job, Measurement, Watch};
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::records::{MemoryColumns, Outcome, Reading, Record};
use crate::stages::Context;
use crate::stages::temporary::Temporary;
use crate::units::{Bytes, Milliseconds};
use crate::workload::{Quantity, Workload};
use std::path::Path;

/// What must be the same for a measurement to speak of the fingerprint's device.
const SAME: [&str; 4] = ["device", "processor", "instruction_set", "libtorch"];

impl Subject<'_> {
    /// Latency and memory at these batch sizes.
    pub(super) fn measure(&self, name: DeviceName, batches: &[u64], context: &mut Context) -> Result<Measured> {
        let device = self.open(name, context)?;
        let written = Temporary::write(&self.network, &self.variant)?;
        let mut measured = Measured::default();
        for &batch in batches {
            let job = self.job(written.file(), batch);
            device.check(&job)?;
            let waiting = |what: &str| context.console.note(format_args!("waiting: {what}"));
            let measurement = device.measure(&job, &Watch { cancelled: &context.cancel, waiting: &waiting })?;
            let records = match measurement {
                Measurement::Measured { latency, memory, .. } => self.records(&job, latency, memory),
                Measurement::OutOfMemory { .. } => {
                    vec![self.record(&job, Outcome::OutOfMemory, Reading::Memory(MemoryColumns::default()))]
                }
                Measurement::Broken { outcome, reason } => {
                    return Err(Error::device(format!("batch size {batch}: {outcome}: {reason}")));
                }
                Measurement::Interrupted => return Err(Error::device("interrupted before all rows were measured")),
            };
            records.into_iter().for_each(|record| self.sort(record, &mut measured, context));
        }
        Ok(measured)
    }

    /// The device with as many threads as the profile had; warns where it is another one.
    fn open(&self, name: DeviceName, context: &mut Context) -> Result<Box<dyn Device>> {
        let profiled = self.fingerprints.iter().find_map(|one| one.settings.first()).cloned().unwrap_or_default();
        let threads = profiled.get("threads").and_then(|threads| threads.parse().ok());
        let options = device::Options { threads, ..device::Options::new(name) };
        let device = device::open(&options, &context.executable, &[])?;
        let setting = device.setting();
        for (name, was) in profiled.iter().filter(|(name, _)| SAME.contains(&name.as_str())) {
            if let Some(is) = setting.get(name).filter(|is| *is != was) {
                context.warn(format!("{name} is {is} here and was {was} where the fingerprint comes from"));
            }
        }
        Ok(device)
    }

    fn job(&self, file: &Path, batch: u64) -> Job {
        let has = |quantity| self.fingerprints.iter().any(|one: &Fingerprint| one.subject().quantity == quantity);
        Job {
            variant: self.variant.clone(),
            file: file.to_owned(),
            workload: Workload { stage: self.stage, batch },
            latency: has(Quantity::Latency),
            memory: has(Quantity::Memory),
            layers: false,
            round: 1,
            allowance: Allowance::default(),
        }
    }

    fn records(&self, job: &Job, latency: Option<LatencyReading>, memory: Option<MemoryReading>) -> Vec<Record> {
        let timed = latency.map(|latency| Reading::Latency(Some(Milliseconds(latency.median))));
        let counted = memory.map(|memory| {
            Reading::Memory(MemoryColumns {
                allocated: Some(Bytes(memory.allocated)),
                reserved: Some(Bytes(memory.reserved)),
                used: Some(Bytes(memory.used)),
                ..MemoryColumns::default()
            })
        });
        let readings = timed.into_iter().chain(counted);
        readings.map(|reading| self.record(job, Outcome::Measured, reading)).collect()
    }

    fn record(&self, job: &Job, outcome: Outcome, reading: Reading) -> Record {
        Record {
            variant: job.variant.clone(),
            workload: job.workload,
            dataset: self.fingerprints.subject().dataset.clone(),
            file: job.file.clone(),
            outcome,
            reading,
            steps: None,
            spread: None,
            visits: Vec::new(),
        }
    }
}
