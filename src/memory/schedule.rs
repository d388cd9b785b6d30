//! The steps of a network as allocations and frees in the order PyTorch makes them, for any batch size.

use super::event::{Event, Mark, Tensor};
use super::pass::Pass;
use super::plan::Plan;
use super::steps::Steps;
use std::sync::Arc;

/// Everything that is allocated and freed, part after part.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Schedule {
    pub tensors: Vec<Tensor>,
    pub parts: [Vec<Event>; 3],
    /// What is done when in each part.
    marks: [Vec<Mark>; 3],
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
    /// The schedule of a plan, of whose passes there is one that begins without gradients, and one that begins with them.
    pub fn new(plan: &Plan, passes: impl Fn(bool) -> Arc<Pass>) -> Self {
        let mut steps = Steps::new(plan, passes);
        let (mut parts, mut marks) = (Part::ALL.map(|_| Vec::new()), Part::ALL.map(|_| Vec::new()));
        for part in Part::ALL {
            match part {
                // It lies there from the beginning.
                Part::Setup => {}
                Part::First | Part::Steady => steps.step(),
            }
            parts[part as usize] = std::mem::take(&mut steps.recorder.events);
            marks[part as usize] = std::mem::take(&mut steps.recorder.marks);
        }
        Schedule { tensors: steps.recorder.tensors, parts, marks }
    }

    /// What happens in one part.
    pub fn events(&self, part: Part) -> &[Event] {
        &self.parts[part as usize]
    }

    /// What is done when in one part, in order.
    pub fn marks(&self, part: Part) -> &[Mark] {
        &self.marks[part as usize]
    }
}
