//! A pass as it was recorded once, to be played wherever a step begins one in the same way.

use super::event::{Event, Mark, Tensor, TensorId};
use super::plan::Plan;
use super::recorder::Recorder;
use super::taking::Taking;

/// A pass of the samples forward and backward. What lay there before is what [`set_up`] allocates, and gradients.
#[derive(Debug, Default)]
pub(super) struct Pass {
    /// How many tensors lay there before; its own are counted on from there.
    before: usize,
    tensors: Vec<Tensor>,
    /// How many hold each of its own tensors behind it.
    holders: Vec<u32>,
    /// Which tensors of those before have so many more holders behind it.
    held: Vec<(TensorId, u32)>,
    events: Vec<Event>,
    marks: Vec<Mark>,
    /// What the program that runs it holds until it runs again.
    left: Vec<TensorId>,
    /// Gradients of weights, where there were none before.
    gradients: Vec<TensorId>,
}

/// What a pass leaves where it is played.
pub(super) struct Left {
    /// What the program holds until the next one, or to the end of the step.
    pub held: Vec<TensorId>,
    /// Gradients of weights, where there were none before.
    pub gradients: Vec<TensorId>,
}

/// What lies there before the first pass: weights, running statistics and data.
pub(super) fn set_up(plan: &Plan) -> Recorder {
    let mut taking = Taking::new(plan, false);
    taking.set_up();
    taking.recorder
}

impl Pass {
    /// Records a pass of a step; `begun` says whether another one has left gradients behind.
    pub fn new(plan: &Plan, begun: bool) -> Self {
        let mut taking = Taking::new(plan, begun);
        taking.set_up();
        taking.recorder.events.clear();
        let before = taking.recorder.tensors.len();
        let left = taking.pass();
        let gradients = if begun { Vec::new() } else { taking.gradients.iter().flatten().copied().flatten().collect() };
        let Recorder { mut tensors, events, marks, mut holders } = taking.recorder;
        let held = (0..).zip(&holders[..before]).filter(|(_, count)| **count > 1).map(|(id, count)| (id, count - 1));
        Pass {
            before,
            held: held.collect(),
            tensors: tensors.split_off(before),
            holders: holders.split_off(before),
            events,
            marks,
            left,
            gradients,
        }
    }

    /// How many tensors it makes, and events.
    pub fn size(&self) -> [usize; 2] {
        [self.tensors.len(), self.events.len()]
    }

    /// Plays it behind what was recorded so far.
    pub fn play(&self, recorder: &mut Recorder) -> Left {
        let (begin, events) = (recorder.tensors.len(), recorder.events.len());
        let moved = |id: TensorId| match (id as usize).checked_sub(self.before) {
            Some(own) => (begin + own) as TensorId,
            None => id,
        };
        recorder.tensors.extend_from_slice(&self.tensors);
        recorder.holders.extend_from_slice(&self.holders);
        self.held.iter().for_each(|(id, more)| recorder.holders[*id as usize] += more);
        recorder.events.extend(self.events.iter().map(|event| match *event {
            Event::Allocate(id) => Event::Allocate(moved(id)),
            Event::Free(id) => Event::Free(moved(id)),
            Event::BackwardDone => Event::BackwardDone,
        }));
        recorder.marks.extend(self.marks.iter().map(|mark| Mark { event: mark.event + events, ..*mark }));
        let all = |ids: &[TensorId]| ids.iter().map(|id| moved(*id)).collect();
        Left { held: all(&self.left), gradients: all(&self.gradients) }
    }
}
