//! One pass, as PyTorch runs it: forward, loss, backward.

use super::checkpoint::Frame;
use super::event::{FewTensors, Phase, Role, TensorId};
use super::plan::Plan;
use super::recorder::Recorder;
use super::rule::{Move, Saved};
use super::set_up::SetUp;
use perf4sight_network::NodeId;
use perf4sight_step::workload;
use std::collections::BTreeMap;

/// A pass being taken: the samples go forward through the network, and gradients back.
pub(super) struct Taking<'a> {
    pub plan: &'a Plan<'a>,
    pub recorder: Recorder,
    /// Gradients of weights that are whole.
    pub gradients: Vec<TensorId>,
    /// What backward has so far of the gradients of weights that are not, each by its node and its place there.
    pub given: BTreeMap<(NodeId, usize), Given>,
    /// Gradients of weights that are parts of what goes on backward.
    pub parts: Vec<TensorId>,
    /// What lies there before.
    set_up: &'a SetUp,
    /// Casts of weights that autocast keeps until it ends, each by its node and its place there.
    cast: BTreeMap<(NodeId, usize), TensorId>,
}

impl Kept {
    fn tensors(self) -> Vec<TensorId> {
        match self {
            Kept::Classes { log_softmax, total_weight } => vec![log_softmax, total_weight],
            Kept::Result(read) => vec![read],
        }
    }
}

/// The gradient of a weight that several nodes share, on its way: of how many of them, and their sum.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given {
    pub times: usize,
    pub sum: TensorId,
    /// Whether it is a view of what was made.
    pub is_view: bool,
}

/// What forward leaves for backward.
pub(super) struct Tape {
    /// Per node, what autograd saved of it.
    pub saved: Vec<FewTensors>,
    /// The segments that run again.
    pub frames: Vec<Frame>,
    /// The network's results, each by its node.
    pub results: Vec<(NodeId, TensorId)>,
}

/// The loss, which is the sum of those of all results, and what backward needs of each that learns.
pub(super) struct Loss {
    pub value: TensorId,
    pub kept: Vec<(NodeId, Kept)>,
}

/// What the loss of one result keeps for backward.
pub(super) enum Kept {
    /// Cross-entropy: the logarithms of probabilities, and the sum of the weights of classes.
    Classes { log_softmax: TensorId, total_weight: TensorId },
    /// Squared differences: the result as it was read.
    Result(TensorId),
}

impl<'a> Taking<'a> {
    /// A pass begins.
    pub fn new(plan: &'a Plan<'a>, set_up: &'a SetUp) -> Self {
        let moves = plan.rules.iter().map(|rule| rule.forward.len() + rule.backward.len() + rule.weights.len());
        Taking {
            plan,
            recorder: Recorder::behind(set_up.recording.tensors.len(), moves.sum()),
            gradients: Vec::new(),
            given: BTreeMap::new(),
            parts: Vec::new(),
            set_up,
            cast: BTreeMap::new(),
        }
    }

    /// All of it; gives what the program that runs it holds until it runs again, or to the end of the step.
    pub fn pass(&mut self) -> Vec<TensorId> {
        let mut tape = self.forward();
        if !self.plan.step.trains() {
            self.end_autocast();
            tape.results.into_iter().for_each(|(_, result)| self.recorder.release(result));
            return Vec::new();
        }
        let loss = self.loss(&tape.results);
        self.end_autocast();
        let mut held = vec![loss.value];
        for (_, result) in tape.results.drain(..) {
            match self.plan.platform.framework.holds_result {
                true => held.push(result),
                false => self.recorder.release(result),
            }
        }
        // Gradients that are kept are filled with zeros here, where they lie.
        self.backward(tape, loss.kept);
        held
    }

    fn forward(&mut self) -> Tape {
        let network = self.plan.network;
        let mut left = self.plan.reads.to_vec();
        let mut results: Vec<TensorId> = Vec::with_capacity(left.len());
        let mut saved = Vec::with_capacity(left.len());
        let mut frames = Vec::new();
        for (id, node) in network.iter() {
            self.enter(id, &results, &mut frames);
            self.recorder.begin(Phase::Forward, id);
            let inputs: FewTensors = node.inputs.iter().map(|input| results[input.index()]).collect();
            let (result, mut kept) = self.run(id, &inputs);
            if self.plan.segment_of(id).is_some() {
                kept.drain(..).for_each(|tensor| self.recorder.release(tensor));
            }
            results.push(result);
            saved.push(kept);
            for input in &node.inputs {
                left[input.index()] -= 1;
                if left[input.index()] == 0 {
                    self.recorder.release(results[input.index()]);
                }
            }
            self.leave(id, &mut frames);
        }
        let results = network.outputs().iter().map(|output| (*output, results[output.index()])).collect();
        Tape { saved, frames, results }
    }

    /// One node's forward: its result and what backward keeps of it.
    pub fn run(&mut self, id: NodeId, inputs: &[TensorId]) -> (TensorId, FewTensors) {
        let weights = self.cast_weights(id);
        let inputs = self.cast_inputs(id, inputs);
        let (result, mut kept) = self.compute(id, &inputs);
        if self.plan.step.trains() && self.plan.tracked[id.index()] {
            kept.extend(self.keep(id, &inputs, &weights, Some(result)));
        }
        inputs.into_iter().chain(weights.into_iter().flatten()).for_each(|tensor| self.recorder.release(tensor));
        (result, kept)
    }

    /// What one node's forward keeps of what it reads, noted before it makes anything.
    pub fn note(&mut self, id: NodeId, inputs: &[TensorId]) -> FewTensors {
        let weights = self.cast_weights(id);
        let inputs = self.cast_inputs(id, inputs);
        let kept = self.keep(id, &inputs, &weights, None);
        inputs.into_iter().chain(weights.into_iter().flatten()).for_each(|tensor| self.recorder.release(tensor));
        kept
    }

    /// Holds what autograd saves of what a node reads and, where it ran, of its result.
    fn keep(
        &mut self,
        id: NodeId,
        inputs: &[TensorId],
        weights: &[Option<TensorId>],
        result: Option<TensorId>,
    ) -> FewTensors {
        let saved = self.plan.rules[id.index()].saves.iter().filter_map(|saved| match *saved {
            Saved::Input(index) => Some(inputs[index]),
            Saved::Cast(index) => weights[index],
            Saved::Output => result,
        });
        saved.map(|tensor| self.recorder.hold(tensor)).collect()
    }

    /// The weights of a node in the numbers that it reads, where these are others: those that learn are cast once until autocast ends
    /// (`cached_cast`), the others whenever they are read. The last one first, as compilers put arguments together.
    fn cast_weights(&mut self, id: NodeId) -> Vec<Option<TensorId>> {
        let plan = self.plan;
        let (node, casts) = (plan.network.node(id), &plan.rules[id.index()].casts.weights);
        let owner = node.shares.unwrap_or(id);
        let mut weights = vec![None; casts.len()];
        for (index, cast) in casts.iter().enumerate().rev() {
            let Some(amount) = *cast else { continue };
            let mut cast = || self.recorder.allocate(amount, Role::Weights, owner);
            weights[index] = Some(match plan.learns(id, index) {
                true => {
                    let kept = *self.cast.entry((owner, index)).or_insert_with(cast);
                    self.recorder.hold(kept)
                }
                false => cast(),
            });
        }
        weights
    }

    /// Holds the inputs of a node, those that are cast as that.
    fn cast_inputs(&mut self, id: NodeId, inputs: &[TensorId]) -> FewTensors {
        let casts = &self.plan.rules[id.index()].casts;
        let mut read: FewTensors = inputs
            .iter()
            .enumerate()
            .rev()
            .map(|(index, &input)| match casts.input(index) {
                Some(amount) => self.recorder.allocate(amount, Role::Activations, id),
                None => self.recorder.hold(input),
            })
            .collect();
        read.reverse();
        read
    }

    /// What was cast of weights goes, but for what backward needs.
    pub fn end_autocast(&mut self) {
        std::mem::take(&mut self.cast).into_values().for_each(|tensor| self.recorder.release(tensor));
    }

    /// The result of a node, and what it makes beside it for backward.
    fn compute(&mut self, id: NodeId, inputs: &[TensorId]) -> (TensorId, FewTensors) {
        let (plan, recorder) = (self.plan, &mut self.recorder);
        let rule = &plan.rules[id.index()];
        let (mut result, mut kept, mut borrowed) = (None, FewTensors::new(), FewTensors::new());
        for step in &rule.forward {
            match *step {
                Move::Output => {
                    result = Some(recorder.allocate(plan.result(id), Role::Activations, id));
                }
                Move::Reuse => result = Some(recorder.hold(inputs[0])),
                Move::Resident => {
                    let owner = plan.network.node(id).shares.unwrap_or(id);
                    result = self.set_up.resident[owner.index()].map(|tensor| recorder.hold(tensor));
                }
                Move::Keep(amount) => kept.push(recorder.allocate(amount, Role::Activations, id)),
                Move::Take(amount) => borrowed.push(recorder.allocate(amount, Role::Workspace, id)),
                Move::Drop(before) => give_back(before, &mut borrowed, recorder),
                Move::InputGradient(_)
                | Move::PassGradient(_)
                | Move::WeightGradient(_)
                | Move::PassWeightGradient(_)
                | Move::CopyGradient
                | Move::StepDone => {
                    unreachable!("no rule makes gradients in its forward")
                }
            }
        }
        let result = result.expect("every rule makes a result");
        // Where no gradient is asked for nothing is kept.
        if !plan.step.trains() || !plan.tracked[id.index()] {
            kept.drain(..).for_each(|tensor| recorder.release(tensor));
        }
        (result, kept)
    }

    /// The losses of all results, one after the other, and their sum; that of one pass of several is divided.
    fn loss(&mut self, results: &[(NodeId, TensorId)]) -> Loss {
        let number = self.plan.number();
        let (mut value, mut kept) = (None, Vec::new());
        let plan = self.plan;
        for output in plan.network.compared() {
            let result = results.iter().find(|(node, _)| *node == output).map(|(_, result)| *result);
            let (loss, keeps) = self.loss_of(output, result.expect("what is compared is one of the results"));
            value = Some(match value {
                Some(sum) => self.combined(&[sum, loss], output),
                None => loss,
            });
            match self.plan.tracked[output.index()] {
                true => kept.push((output, keeps)),
                false => keeps.tensors().into_iter().for_each(|tensor| self.recorder.release(tensor)),
            }
        }
        let output = self.plan.network.output();
        let value = value.unwrap_or_else(|| self.recorder.allocate(number, Role::Activations, output));
        let value = if self.plan.step.accumulate.passes() > 1 { self.combined(&[value], output) } else { value };
        Loss { value, kept }
    }

    /// One number made of others, which go.
    fn combined(&mut self, numbers: &[TensorId], output: NodeId) -> TensorId {
        let made = self.recorder.allocate(self.plan.number(), Role::Activations, output);
        numbers.iter().for_each(|number| self.recorder.release(*number));
        made
    }

    /// The loss of one result, which autocast casts back where it is in fewer bits.
    fn loss_of(&mut self, output: NodeId, result: TensorId) -> (TensorId, Kept) {
        self.recorder.begin(Phase::Loss, output);
        let scores = self.plan.scores(output);
        let read = match self.plan.casts_result(output) {
            true => self.recorder.allocate(scores, Role::Activations, output),
            false => self.recorder.hold(result),
        };
        let mut allocate = |amount| self.recorder.allocate(amount, Role::Activations, output);
        match self.plan.step.loss {
            // log_softmax, then nll_loss with its sum of weights (aten/src/ATen/native/LossNLL.cpp).
            workload::Loss::CrossEntropy => {
                let log_softmax = allocate(scores);
                let (value, total_weight) = (allocate(self.plan.number()), allocate(self.plan.number()));
                self.recorder.release(read);
                (value, Kept::Classes { log_softmax, total_weight })
            }
            // The squares of all differences, then their mean, whose tensor was made as large as they are and keeps that (mse_loss of
            // aten/src/ATen/native/BinaryOps.cpp).
            workload::Loss::MeanSquaredError => {
                let (mean, squares) = (allocate(scores), allocate(scores));
                self.recorder.release(squares);
                (mean, Kept::Result(read))
            }
        }
    }
}

/// Gives back what one operation borrowed: the latest still held, or so many before it.
pub(super) fn give_back(before: usize, borrowed: &mut FewTensors, recorder: &mut Recorder) {
    let tensor = borrowed.remove(borrowed.len() - 1 - before);
    recorder.release(tensor);
}
