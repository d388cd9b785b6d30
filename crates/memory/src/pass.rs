//! A pass as it was recorded once, to be played wherever a step begins one in the same way.

use super::event::{Event, TensorId};
use super::plan::Plan;
use super::recording::Recording;
use super::set_up::SetUp;
use super::taking::Taking;
use std::sync::Arc;

/// A pass of the samples forward and backward. What lay there before is what was set up, and perhaps gradients.
#[derive(Debug)]
pub(super) struct Pass {
    pub recording: Arc<Recording>,
    /// What goes as soon as the program lets go what it holds until it runs again.
    pub left: Vec<TensorId>,
    /// Gradients of weights, which stay where there were none before.
    pub gradients: Vec<TensorId>,
}

impl Pass {
    /// Records a pass of a step.
    pub fn new(plan: &Plan, set_up: &SetUp) -> Self {
        let mut taking = Taking::new(plan, set_up);
        let left = taking.pass();
        let recording = Arc::new(taking.recorder.take());
        let gradients = std::mem::take(&mut taking.gradients);
        let [left, gradients] = [left, gradients].map(|held| freed(&mut taking, held));
        Pass { recording, left, gradients }
    }
}

/// Those of some tensors that go with their last holder.
fn freed(taking: &mut Taking, held: Vec<TensorId>) -> Vec<TensorId> {
    held.into_iter().for_each(|tensor| taking.recorder.release(tensor));
    let events = taking.recorder.take().events.into_iter();
    events.filter_map(|event| if let Event::Free(tensor) = event { Some(tensor) } else { None }).collect()
}
