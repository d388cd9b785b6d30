//! What happened in a stretch of time: recorded once, and read wherever the same happens again.

use super::event::{Event, Mark, Tensor, TensorId};
use perf4sight_base::remembered::Remembered;
use std::sync::Arc;

/// Tensors that came to be, what happened to them and to others, and what was done when.
#[derive(Debug, Default)]
pub(super) struct Recording {
    /// How many tensors there were before; its own are counted on from there.
    pub before: usize,
    pub tensors: Vec<Tensor>,
    pub events: Vec<Event>,
    pub marks: Vec<Mark>,
    /// By whether gradients of weights lay there, what requests are rounded up to, and the batch.
    rises: Remembered<(bool, u64, u64), Option<Rise>>,
}

/// A recording within steps, where its own tensors may come behind more than it knew of.
#[derive(Debug, Clone)]
pub(super) struct Stretch {
    pub recording: Arc<Recording>,
    /// How many tensors there are before.
    pub begin: usize,
    /// Whether gradients of weights lie there.
    pub begun: bool,
}

/// What a stretch adds to the bytes that lie there.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rise {
    /// At most.
    pub most: u64,
    /// In the end.
    pub left: u64,
}

impl Recording {
    /// Nothing yet, behind so many tensors.
    pub fn behind(before: usize) -> Self {
        Recording { before, ..Recording::default() }
    }

    /// What happened to so many tensors, and to none of its own.
    pub fn to(before: usize, events: Vec<Event>) -> Self {
        Recording { events, ..Recording::behind(before) }
    }

    /// Whether nothing happened, and nothing was done.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.marks.is_empty()
    }
}

impl Stretch {
    /// A tensor of the recording, as it is counted in the steps.
    pub fn tensor(&self, id: TensorId) -> TensorId {
        match (id as usize).checked_sub(self.recording.before) {
            Some(own) => (self.begin + own) as TensorId,
            None => id,
        }
    }

    /// A tensor that came to be here, by its place in the steps.
    pub fn own(&self, id: TensorId) -> Option<&Tensor> {
        self.recording.tensors.get((id as usize).checked_sub(self.begin)?)
    }

    /// What happens.
    pub fn events(&self) -> impl Iterator<Item = Event> {
        self.recording.events.iter().map(|event| match *event {
            Event::Allocate(id) => Event::Allocate(self.tensor(id)),
            Event::Free(id) => Event::Free(self.tensor(id)),
            Event::Settle(id) if self.begun => Event::Free(self.tensor(id)),
            Event::Settle(id) => Event::Settle(self.tensor(id)),
            Event::BackwardDone => Event::BackwardDone,
        })
    }

    /// What it adds to the bytes that lie there where every request is rounded up to a multiple; none where it frees what lay there before, or
    /// is to be read in its midst.
    pub fn rise(&self, round: u64, batch: u64) -> Option<Rise> {
        *self.recording.rises.of((self.begun, round, batch), || self.risen(round, batch))
    }

    fn risen(&self, round: u64, batch: u64) -> Option<Rise> {
        let Recording { before, tensors, events, .. } = &*self.recording;
        let bytes = |id: TensorId| {
            let own = (id as usize).checked_sub(*before)?;
            Some(tensors[own].amount.bytes(batch).next_multiple_of(round))
        };
        events.iter().try_fold(Rise::default(), |Rise { most, left }, event| match *event {
            Event::Allocate(id) => bytes(id).map(|taken| Rise { most: most.max(left + taken), left: left + taken }),
            Event::Settle(_) if !self.begun => Some(Rise { most, left }),
            Event::Settle(id) | Event::Free(id) => bytes(id).map(|taken| Rise { most, left: left - taken }),
            Event::BackwardDone => None,
        })
    }
}
