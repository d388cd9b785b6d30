//! Forward of one operation as PyTorch runs it: casts, result, tensors saved by autograd.

use super::context::StepContext;
use super::recorder::EventRecorder;
use super::set_up::SetUp;
use crate::rules::{CastBy, RuleAction, SavedTensor};
use crate::tensor::{FewTensors, StepPhase, TensorId, TensorRole};
use perf4sight_network::NodeId;
use std::collections::BTreeMap;

pub(super) struct ForwardRecorder<'a> {
    pub context: &'a StepContext<'a>,
    pub recorder: EventRecorder,
    set_up: &'a SetUp,
    /// Casts of weights that autocast keeps until it ends, each by its node and its place there.
    cast: BTreeMap<(NodeId, usize), TensorId>,
}

impl<'a> ForwardRecorder<'a> {
    pub fn new(context: &'a StepContext<'a>, set_up: &'a SetUp) -> Self {
        let moves = context.rules().iter().map(|rule| rule.forward.len() + rule.backward.len() + rule.weights.len());
        let recorder = EventRecorder::starting_after(set_up.segment.tensors.len(), moves.sum());
        ForwardRecorder { context, recorder, set_up, cast: BTreeMap::new() }
    }

    /// One node's forward: its result and the tensors kept for backward.
    pub fn run(&mut self, id: NodeId, inputs: &[TensorId]) -> (TensorId, FewTensors) {
        let (result, kept) = self.run_moves(id, inputs, &self.context.rule(id).forward);
        (result.expect("every rule makes a result"), kept)
    }

    /// A node's forward until autograd has saved its last tensor, where a segment that runs again stops: in front of the operation where that is an input.
    pub fn run_until_saved(&mut self, id: NodeId, inputs: &[TensorId]) -> FewTensors {
        let rule = self.context.rule(id);
        let last = rule.forward.iter().rposition(|step| matches!(step, RuleAction::Keep(_)));
        let moves = match rule.saves.contains(&SavedTensor::Output) {
            true => rule.forward.len(),
            false => last.map_or(0, |last| last + 1),
        };
        if moves > 0 {
            self.recorder.begin(StepPhase::Forward, id);
        }
        let (result, kept) = self.run_moves(id, inputs, &rule.forward[..moves]);
        self.recorder.release_all(result);
        kept
    }

    /// What the first moves of a node's forward make, and the tensors kept for backward.
    fn run_moves(&mut self, id: NodeId, inputs: &[TensorId], moves: &[RuleAction]) -> (Option<TensorId>, FewTensors) {
        let weights = self.cast_weights(id);
        let read = self.cast_inputs(id, inputs);
        let (result, mut kept) = self.compute(id, &read, moves);
        if self.needs_backward(id) {
            kept.extend(self.save(id, (inputs, &read), &weights, result));
        }
        self.recorder.release_all(read.into_iter().chain(weights.into_iter().flatten()));
        (result, kept)
    }

    /// Releases the casts of weights, except those needed in backward.
    pub fn end_autocast(&mut self) {
        self.recorder.release_all(std::mem::take(&mut self.cast).into_values());
    }

    fn needs_backward(&self, id: NodeId) -> bool {
        self.context.step.trains() && (self.context.is_tracked(id) || self.context.is_recorded(id))
    }

    /// Holds the tensors that autograd saves: of a node's inputs, as they are or as they were read, and, where it ran, of its result.
    fn save(
        &mut self,
        id: NodeId,
        (inputs, read): (&[TensorId], &[TensorId]),
        weights: &[Option<TensorId>],
        result: Option<TensorId>,
    ) -> FewTensors {
        let inputs = match self.context.rule(id).casts.by {
            CastBy::Autocast => read,
            CastBy::Kernel | CastBy::KernelWithoutCopy => inputs,
        };
        let saved = self.context.rule(id).saves.iter().filter_map(|saved| match *saved {
            SavedTensor::Input(index) => Some(inputs[index]),
            SavedTensor::Cast(index) => weights[index],
            SavedTensor::Output => result,
        });
        saved.map(|tensor| self.recorder.retain(tensor)).collect()
    }

    /// The weights of a node in the numbers that it reads, where these are others: those that learn are cast once until autocast ends
    /// (`cached_cast`), the others whenever they are read. The last one first, as compilers put arguments together.
    fn cast_weights(&mut self, id: NodeId) -> Vec<Option<TensorId>> {
        let (context, owner) = (self.context, self.context.owner(id));
        let casts = &context.rule(id).casts.weights;
        let mut weights = vec![None; casts.len()];
        for (index, cast) in casts.iter().enumerate().rev() {
            let Some(amount) = *cast else { continue };
            let mut cast = || self.recorder.allocate(amount, TensorRole::Weights, owner);
            weights[index] = Some(match context.trains(id, index) {
                true => {
                    let kept = *self.cast.entry((owner, index)).or_insert_with(cast);
                    self.recorder.retain(kept)
                }
                false => cast(),
            });
        }
        weights
    }

    fn cast_inputs(&mut self, id: NodeId, inputs: &[TensorId]) -> FewTensors {
        let casts = &self.context.rule(id).casts;
        let mut read: FewTensors = inputs
            .iter()
            .enumerate()
            .rev()
            .map(|(index, &input)| match casts.input(index) {
                Some(amount) if casts.by != CastBy::KernelWithoutCopy => {
                    self.recorder.allocate(amount, TensorRole::Activations, id)
                }
                Some(_) | None => self.recorder.retain(input),
            })
            .collect();
        read.reverse();
        read
    }

    /// The result of a node, if moves make it, and the other tensors that they make for backward.
    fn compute(&mut self, id: NodeId, inputs: &[TensorId], moves: &[RuleAction]) -> (Option<TensorId>, FewTensors) {
        let (context, recorder) = (self.context, &mut self.recorder);
        let (mut result, mut kept, mut borrowed) = (None, FewTensors::new(), FewTensors::new());
        for step in moves {
            match *step {
                RuleAction::Output => {
                    result = Some(recorder.allocate(context.result(id), TensorRole::Activations, id));
                }
                RuleAction::Reuse => result = Some(recorder.retain(inputs[0])),
                RuleAction::Resident => {
                    let resident = self.set_up.resident[context.owner(id).index()];
                    result = resident.map(|tensor| recorder.retain(tensor));
                }
                RuleAction::Keep(amount) => kept.push(recorder.allocate(amount, TensorRole::Activations, id)),
                RuleAction::Take(amount) => borrowed.push(recorder.allocate(amount, TensorRole::Workspace, id)),
                RuleAction::Drop(before) => recorder.give_back(before, &mut borrowed),
                RuleAction::InputGradient(_)
                | RuleAction::PassGradient(_)
                | RuleAction::WeightGradient(_)
                | RuleAction::PassWeightGradient(_)
                | RuleAction::CopyGradient
                | RuleAction::StepDone
                | RuleAction::DropKept(_) => {
                    unreachable!("no rule makes gradients in its forward")
                }
            }
        }
        recorder.release_all(borrowed);
        // Without a gradient nothing is kept.
        if !self.needs_backward(id) {
            self.recorder.release_all(kept.drain(..));
        }
        (result, kept)
    }
}
