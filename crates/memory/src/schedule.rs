//! The steps of a network as allocations and frees in the order PyTorch makes them, for any batch size.

use super::event::{Event, Mark, Tensor, TensorId};
use super::ground::Recorded;
use super::recording::Stretch;
use super::steps::Steps;
use perf4sight_step::workload::Step;

/// Everything that is allocated and freed, part after part.
#[derive(Debug)]
pub(super) struct Schedule {
    parts: [Vec<Stretch>; 3],
}

/// The parts of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// What lies there before the first step: weights, data.
    Setup,
    /// The first step, which leaves gradients and the optimizer's state behind.
    First,
    /// Any later step, which leaves nothing behind.
    Steady,
}

impl Part {
    pub const ALL: [Part; 3] = [Part::Setup, Part::First, Part::Steady];
}

impl Schedule {
    /// The schedule of steps that consist of this.
    pub fn new(step: Step, recorded: &Recorded) -> Self {
        let mut steps = Steps::new(step, recorded);
        let parts = Part::ALL.map(|part| {
            match part {
                // It lies there from the beginning.
                Part::Setup => {}
                Part::First | Part::Steady => steps.step(),
            }
            steps.take()
        });
        Schedule { parts }
    }

    /// All tensors, each at the place that events know it by.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.parts.iter().flatten().flat_map(|stretch| &stretch.recording.tensors)
    }

    /// One of them by its place.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        let tensor = self.parts.iter().flatten().rev().find_map(|stretch| stretch.own(id));
        tensor.expect("events know of tensors that came to be in some stretch")
    }

    /// How many tensors there are.
    pub fn count(&self) -> usize {
        self.parts.iter().flatten().map(|stretch| stretch.recording.tensors.len()).sum()
    }

    /// What one part consists of, in order.
    pub fn stretches(&self, part: Part) -> &[Stretch] {
        &self.parts[part as usize]
    }

    /// What happens in one part.
    pub fn events(&self, part: Part) -> impl Iterator<Item = Event> {
        self.stretches(part).iter().flat_map(Stretch::events)
    }

    /// What is done when in one part, in order.
    pub fn marks(&self, part: Part) -> impl Iterator<Item = Mark> {
        let mut begin = 0;
        self.stretches(part).iter().flat_map(move |stretch| {
            let first = begin;
            begin += stretch.recording.events.len();
            stretch.recording.marks.iter().map(move |mark| Mark { event: first + mark.event, ..*mark })
        })
    }
}
