//! Devices of one kind that share a measurement run; each measures one configuration at a time.

use super::planned::PlannedMeasurement;
use crate::device::{Device, Measurement, MeasurementJob};
use perf4sight_base::error::Result;
use perf4sight_machine::RunWatch;
use std::cell::Cell;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;
use std::time::{Duration, SystemTime};

/// The devices, which of them are free, and the messages of the others.
pub(super) struct DevicePool<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    devices: &'env [&'env dyn Device],
    cancelled: &'env AtomicBool,
    free: Vec<usize>,
    busy: usize,
    sender: Sender<PoolMessage>,
    messages: Receiver<PoolMessage>,
}

pub(super) enum PoolMessage {
    Waiting(String),
    /// It has finished a configuration.
    Done(Box<FinishedAssignment>),
}

pub(super) struct Assignment {
    /// The configuration with its network file.
    pub planned: PlannedMeasurement,
    /// The index of the row that it repeats; none: it has no row yet.
    pub place: Option<usize>,
    pub job: MeasurementJob,
    pub began: SystemTime,
}

pub(super) struct FinishedAssignment {
    pub device: usize,
    pub assignment: Assignment,
    /// How long it waited for other measurements, or for its machine.
    pub waited: Duration,
    /// The measurement; an error if the device as a whole cannot measure.
    pub measurement: Result<Measurement>,
}

impl<'scope, 'env> DevicePool<'scope, 'env> {
    pub fn new(
        scope: &'scope Scope<'scope, 'env>,
        devices: &'env [&'env dyn Device],
        cancelled: &'env AtomicBool,
    ) -> Self {
        let (sender, messages) = channel();
        DevicePool { scope, devices, cancelled, free: (0..devices.len()).rev().collect(), busy: 0, sender, messages }
    }

    pub fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// The number of devices that are busy or free.
    pub fn size(&self) -> usize {
        self.free.len() + self.busy
    }

    /// Gives an assignment to a free device; does nothing if there is none.
    pub fn start(&mut self, assignment: Assignment) {
        let Some(device) = self.free.pop() else { return };
        self.busy += 1;
        let (sender, cancelled, measures) = (self.sender.clone(), self.cancelled, self.devices[device]);
        self.scope.spawn(move || {
            // The receiver is only gone if the run has failed.
            let waiting = |what: &str| drop(sender.send(PoolMessage::Waiting(what.to_owned())));
            let waits = Cell::new(Duration::ZERO);
            let waited = |time| waits.set(waits.get() + time);
            let watch = RunWatch { waiting: &waiting, waited: &waited, ..RunWatch::quiet(cancelled) };
            let measurement = measures.measure(&assignment.job, &watch);
            drop(sender.send(PoolMessage::Done(Box::new(FinishedAssignment {
                device,
                assignment,
                waited: waits.get(),
                measurement,
            }))));
        });
    }

    /// The next message of a busy device; none if all are free.
    pub fn next_message(&mut self) -> Option<PoolMessage> {
        if self.busy == 0 {
            return None;
        }
        let message = self.messages.recv().ok()?;
        if let PoolMessage::Done(done) = &message {
            self.busy -= 1;
            // A device that cannot measure gets no further assignment.
            self.free.extend(done.measurement.is_ok().then_some(done.device));
        }
        Some(message)
    }
}
