//! Devices of one kind that share a measurement run, each on one configuration at a time.

use super::planned::Planned;
use crate::device::{Device, Job, Measurement};
use perf4sight_base::error::Result;
use perf4sight_machine::Watch;
use std::cell::Cell;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;
use std::time::{Duration, SystemTime};

/// Devices, who of them is free, and what the others report.
pub(super) struct DevicePool<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    devices: &'env [&'env dyn Device],
    cancelled: &'env AtomicBool,
    free: Vec<usize>,
    busy: usize,
    sender: Sender<Message>,
    messages: Receiver<Message>,
}

/// What comes from a device at work.
pub(super) enum Message {
    /// It waits for this.
    Waiting(String),
    /// It is done with a configuration.
    Done(Box<Done>),
}

/// What a device is given to do.
pub(super) struct Assignment {
    /// What it is part of.
    pub planned: Planned,
    /// The place of the row that it repeats; none: it has no row yet.
    pub place: Option<usize>,
    /// What to measure.
    pub job: Job,
    /// When it began.
    pub began: SystemTime,
}

/// What became of it.
pub(super) struct Done {
    /// Which device it was.
    pub device: usize,
    /// What it was given.
    pub assignment: Assignment,
    /// How long it waited for others, or for its machine.
    pub waited: Duration,
    /// How it went; an error where the device as a whole cannot measure.
    pub measurement: Result<Measurement>,
}

impl<'scope, 'env> DevicePool<'scope, 'env> {
    /// All devices, free.
    pub fn new(
        scope: &'scope Scope<'scope, 'env>,
        devices: &'env [&'env dyn Device],
        cancelled: &'env AtomicBool,
    ) -> Self {
        let (sender, messages) = channel();
        DevicePool { scope, devices, cancelled, free: (0..devices.len()).rev().collect(), busy: 0, sender, messages }
    }

    /// Whether one of them has nothing to do.
    pub fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// How many there are that work or could.
    pub fn size(&self) -> usize {
        self.free.len() + self.busy
    }

    /// Gives an assignment to a free device; does nothing where there is none.
    pub fn start(&mut self, assignment: Assignment) {
        let Some(device) = self.free.pop() else { return };
        self.busy += 1;
        let (sender, cancelled, measures) = (self.sender.clone(), self.cancelled, self.devices[device]);
        self.scope.spawn(move || {
            // Nobody receives any more only when the run has failed.
            let waiting = |what: &str| drop(sender.send(Message::Waiting(what.to_owned())));
            let waits = Cell::new(Duration::ZERO);
            let waited = |time| waits.set(waits.get() + time);
            let watch = Watch { waiting: &waiting, waited: &waited, ..Watch::quiet(cancelled) };
            let measurement = measures.measure(&assignment.job, &watch);
            drop(sender.send(Message::Done(Box::new(Done { device, assignment, waited: waits.get(), measurement }))));
        });
    }

    /// The next message of one at work; none when all are free.
    pub fn next_message(&mut self) -> Option<Message> {
        if self.busy == 0 {
            return None;
        }
        let message = self.messages.recv().ok()?;
        if let Message::Done(done) = &message {
            self.busy -= 1;
            // One that cannot measure any more is given nothing again.
            self.free.extend(done.measurement.is_ok().then_some(done.device));
        }
        Some(message)
    }
}
