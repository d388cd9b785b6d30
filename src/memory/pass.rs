//! A pass as it was recorded once, to be played wherever a step begins one in the same way.

use super::event::TensorId;
use super::plan::Plan;
use super::recorder::Recorder;
use super::recording::{Recording, Stretch};
use super::taking::Taking;
use std::sync::Arc;

/// A pass of the samples forward and backward. What lay there before is what [`set_up`] allocates, and perhaps gradients.
#[derive(Debug)]
pub(super) struct Pass {
    recording: Arc<Recording>,
    /// How many hold each of its own tensors behind it.
    holders: Vec<u32>,
    /// Which tensors of those before have so many more holders behind it.
    held: Vec<(TensorId, u32)>,
    /// What the program that runs it holds until it runs again.
    left: Vec<TensorId>,
    /// Gradients of weights, which stay where there were none before.
    gradients: Vec<TensorId>,
}

/// What a pass leaves where it is played.
pub(super) struct Left {
    /// What happened.
    pub stretch: Stretch,
    /// What the program holds until the next one, or to the end of the step.
    pub held: Vec<TensorId>,
    /// Gradients of weights, where there were none before.
    pub gradients: Vec<TensorId>,
}

/// What lies there before the first pass: weights, running statistics and data.
pub(super) fn set_up(plan: &Plan) -> Recorder {
    let mut taking = Taking::new(plan);
    taking.set_up();
    taking.recorder
}

impl Pass {
    /// Records a pass of a step.
    pub fn new(plan: &Plan) -> Self {
        let mut taking = Taking::new(plan);
        taking.set_up();
        let before = taking.recorder.take().tensors.len();
        let left = taking.pass();
        let gradients = std::mem::take(&mut taking.gradients);
        let (of_before, own) = taking.recorder.holders().split_at(before);
        let held = (0..).zip(of_before).filter(|(_, count)| **count > 1).map(|(id, count)| (id, count - 1));
        let (held, holders) = (held.collect(), own.to_vec());
        Pass { recording: Arc::new(taking.recorder.take()), held, holders, left, gradients }
    }

    /// Plays it behind what was recorded and taken so far; `begun` says whether another one has left gradients behind.
    pub fn play(&self, recorder: &mut Recorder, begun: bool) -> Left {
        let stretch = Stretch { recording: Arc::clone(&self.recording), begin: recorder.holders().len(), begun };
        recorder.play(&stretch, &self.holders, &self.held);
        let all = |ids: &[TensorId]| ids.iter().map(|id| stretch.tensor(*id)).collect();
        let gradients = if begun { Vec::new() } else { all(&self.gradients) };
        Left { held: all(&self.left), gradients, stretch }
    }
}
