//! A step as allocations and frees in the order PyTorch makes them, for any batch size.

use super::amount::Amount;
use super::operations::{INDEX, Place, rule};
use super::optimizer::{Optimizer, Update};
use super::rule::{Move, Rule, Saved};
use crate::network::{ELEMENT, Network, NodeId, Op};
use crate::target::{Gradients, Target};
use crate::workload::Stage;

/// What a tensor is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Weights,
    WeightGradients,
    OptimizerState,
    Activations,
    ActivationGradients,
    Workspace,
}

/// A tensor of the schedule: its size, what it is for and the node it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tensor {
    pub amount: Amount,
    pub role: Role,
    pub node: NodeId,
}

/// Position of a tensor in [`Schedule::tensors`].
pub(super) type TensorId = u32;

/// What happens to one tensor, or to the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Allocate(TensorId),
    Free(TensorId),
    /// Backward is done, the optimizer's turn: here the published profiler reads its counters once more.
    BackwardDone,
}

/// Everything that is allocated and freed, part after part.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Schedule {
    pub tensors: Vec<Tensor>,
    /// What lies there before the first step: weights, data.
    pub setup: Vec<Event>,
    /// The first step, which leaves gradients and the optimizer's state behind.
    pub first: Vec<Event>,
    /// Every later step, which leaves nothing behind.
    pub steady: Vec<Event>,
}

impl Schedule {
    /// The schedule of a network's steps on a device.
    pub fn new(network: &Network, stage: Stage, optimizer: Optimizer, target: &Target) -> Self {
        let mut recorder = Recorder::new(network, stage, optimizer, target);
        recorder.set_up();
        let setup = std::mem::take(&mut recorder.events);
        let [first, steady] = [(); 2].map(|()| {
            recorder.step();
            std::mem::take(&mut recorder.events)
        });
        Schedule { tensors: recorder.tensors, setup, first, steady }
    }
}

/// Plays the steps once, holding tensors as PyTorch's reference counts do, and writes down what happens to memory.
struct Recorder<'a> {
    network: &'a Network,
    stage: Stage,
    optimizer: Optimizer,
    target: &'a Target,
    rules: Vec<Rule>,
    /// For every node, whether its gradient is asked for: there are weights at it or before it.
    tracked: Vec<bool>,
    /// How many times each result is read in forward; the network's result once more.
    reads: Vec<usize>,
    tensors: Vec<Tensor>,
    holders: Vec<u32>,
    events: Vec<Event>,
    /// Tensors that a node's result is between steps: the batch, free-standing parameters.
    resident: Vec<Option<TensorId>>,
    /// Gradients of each node's weights, once there are any.
    gradients: Vec<Vec<Option<TensorId>>>,
    has_state: bool,
}

/// What forward leaves for backward.
struct Tape {
    /// Per node, what autograd saved of it.
    saved: Vec<Vec<TensorId>>,
    result: TensorId,
}

/// The loss and what hangs on it.
struct Loss {
    value: TensorId,
    log_softmax: TensorId,
    total_weight: TensorId,
}

impl<'a> Recorder<'a> {
    fn new(network: &'a Network, stage: Stage, optimizer: Optimizer, target: &'a Target) -> Self {
        let training = stage == Stage::Training;
        let in_place = network.in_place();
        let tracked = tracked(network);
        let rules: Vec<Rule> = network
            .iter()
            .map(|(id, node)| {
                let in_place = in_place[id.index()];
                rule(Place { network, node, target, training, in_place, tracked: &tracked })
            })
            .collect();
        let mut reads: Vec<usize> = network.readers().iter().map(Vec::len).collect();
        reads[network.output().index()] += 1;
        let nodes = network.nodes().len();
        let gradients = rules.iter().map(|rule| vec![None; rule.weights.len()]).collect();
        Recorder {
            network,
            stage,
            optimizer,
            target,
            rules,
            tracked,
            reads,
            tensors: Vec::new(),
            holders: Vec::new(),
            events: Vec::new(),
            resident: vec![None; nodes],
            gradients,
            has_state: false,
        }
    }

    fn allocate(&mut self, amount: Amount, role: Role, node: NodeId) -> TensorId {
        let id = self.tensors.len() as TensorId;
        self.tensors.push(Tensor { amount, role, node });
        self.holders.push(1);
        self.events.push(Event::Allocate(id));
        id
    }

    fn hold(&mut self, tensor: TensorId) -> TensorId {
        self.holders[tensor as usize] += 1;
        tensor
    }

    fn release(&mut self, tensor: TensorId) {
        let holders = &mut self.holders[tensor as usize];
        *holders -= 1;
        if *holders == 0 {
            self.events.push(Event::Free(tensor));
        }
    }

    fn set_up(&mut self) {
        for (id, node) in self.network.iter() {
            let Rule { weights, buffers, .. } = self.rules[id.index()].clone();
            let weights: Vec<TensorId> =
                weights.into_iter().map(|amount| self.allocate(amount, Role::Weights, id)).collect();
            buffers.into_iter().for_each(|amount| {
                self.allocate(amount, Role::Weights, id);
            });
            if let Op::Parameter(_) = node.op {
                self.resident[id.index()] = weights.first().copied();
            }
        }
        for (id, node) in self.network.iter() {
            if let Op::Input(shape) = &node.op {
                self.resident[id.index()] = Some(self.allocate(Amount::floats(shape), Role::Activations, id));
            }
        }
        if self.stage == Stage::Training {
            let labels = self.network.output_shape().dims().iter().skip(1).map(|&dim| dim as u64).product::<u64>();
            self.allocate(Amount::per_sample(INDEX * labels), Role::Activations, self.network.output());
        }
    }

    fn step(&mut self) {
        let tape = self.forward();
        if self.stage == Stage::Inference {
            return self.release(tape.result);
        }
        let loss = self.loss();
        let held = self.target.framework.holds_result;
        if !held {
            self.release(tape.result);
        }
        // zero_grad fills the gradients where they lie, as the published profiler's PyTorch and the worker do.
        self.backward(tape.saved, &loss);
        self.events.push(Event::BackwardDone);
        self.optimize();
        self.release(loss.value);
        if held {
            self.release(tape.result);
        }
    }

    fn forward(&mut self) -> Tape {
        let nodes = self.network.nodes().len();
        let mut left = self.reads.clone();
        let mut results: Vec<TensorId> = Vec::with_capacity(nodes);
        let mut saved = Vec::with_capacity(nodes);
        for (id, node) in self.network.iter() {
            let inputs: Vec<TensorId> = node.inputs.iter().map(|input| results[input.index()]).collect();
            let (result, kept) = self.run(id, &inputs);
            results.push(result);
            saved.push(kept);
            for input in &node.inputs {
                left[input.index()] -= 1;
                if left[input.index()] == 0 {
                    self.release(results[input.index()]);
                }
            }
        }
        Tape { saved, result: results[self.network.output().index()] }
    }

    /// One node's forward: its result and what backward keeps of it.
    fn run(&mut self, id: NodeId, inputs: &[TensorId]) -> (TensorId, Vec<TensorId>) {
        let moves = self.rules[id.index()].forward.clone();
        let (mut result, mut kept, mut borrowed) = (None, Vec::new(), Vec::new());
        for step in moves {
            match step {
                Move::Output => {
                    let amount = Amount::floats(&self.network.node(id).shape);
                    result = Some(self.allocate(amount, Role::Activations, id));
                }
                Move::Reuse => result = Some(self.hold(inputs[0])),
                Move::Resident => result = self.resident[id.index()].map(|tensor| self.hold(tensor)),
                Move::Keep(amount) => kept.push(self.allocate(amount, Role::Activations, id)),
                other => self.borrow(other, &mut borrowed, id),
            }
        }
        let result = result.expect("every rule makes a result");
        if self.stage == Stage::Training {
            for saved in self.rules[id.index()].saves.clone() {
                let tensor = if let Saved::Input(index) = saved { inputs[index] } else { result };
                kept.push(self.hold(tensor));
            }
        }
        (result, kept)
    }

    fn borrow(&mut self, step: Move, borrowed: &mut Vec<TensorId>, id: NodeId) {
        match step {
            Move::Take(amount) => borrowed.push(self.allocate(amount, Role::Workspace, id)),
            Move::Drop(before) => {
                let tensor = borrowed.remove(borrowed.len() - 1 - before);
                self.release(tensor);
            }
            _ => unreachable!("a rule's forward has no gradients, its backward no results"),
        }
    }

    /// Cross-entropy: log_softmax, then nll_loss with its sum of weights (aten/src/ATen/native/LossNLL.cpp).
    fn loss(&mut self) -> Loss {
        let output = self.network.output();
        let log_softmax = self.allocate(self.result_amount(), Role::Activations, output);
        let [value, total_weight] = [(); 2].map(|()| self.allocate(Amount::once(ELEMENT), Role::Activations, output));
        Loss { value, log_softmax, total_weight }
    }

    fn result_amount(&self) -> Amount {
        Amount::floats(self.network.output_shape())
    }

    fn backward(&mut self, saved: Vec<Vec<TensorId>>, loss: &Loss) {
        let output = self.network.output();
        let role = Role::ActivationGradients;
        // The loss's own gradient, a 1, is held by the call until all is done (torch/csrc/autograd/autograd.cpp).
        let seed = self.allocate(Amount::once(ELEMENT), role, output);
        let of_log_softmax = self.allocate(self.result_amount(), role, output);
        self.release(loss.total_weight);
        let of_result = self.allocate(self.result_amount(), role, output);
        self.release(of_log_softmax);
        self.release(loss.log_softmax);
        let mut incoming = vec![None; self.network.nodes().len()];
        incoming[output.index()] = Some(of_result);
        // Autograd runs what was recorded last first (torch/csrc/autograd/engine.cpp, sequence numbers).
        for ((id, _), kept) in self.network.iter().zip(saved).rev() {
            match incoming[id.index()].take() {
                Some(gradient) if self.tracked[id.index()] => self.differentiate(id, gradient, kept, &mut incoming),
                gradient => gradient.into_iter().chain(kept).for_each(|tensor| self.release(tensor)),
            }
        }
        self.release(seed);
    }

    /// One node's backward.
    fn differentiate(
        &mut self,
        id: NodeId,
        gradient: TensorId,
        kept: Vec<TensorId>,
        incoming: &mut [Option<TensorId>],
    ) {
        let inputs = &self.network.node(id).inputs;
        let (mut of_inputs, mut of_weights, mut borrowed) = (Vec::new(), Vec::new(), Vec::new());
        for step in self.rules[id.index()].backward.clone() {
            match step {
                Move::InputGradient(index) if self.tracked[inputs[index].index()] => {
                    let amount = Amount::floats(&self.network.node(inputs[index]).shape);
                    of_inputs.push((inputs[index], self.allocate(amount, Role::ActivationGradients, inputs[index])));
                }
                Move::PassGradient(index) if self.tracked[inputs[index].index()] => {
                    of_inputs.push((inputs[index], self.hold(gradient)));
                }
                Move::InputGradient(_) | Move::PassGradient(_) => {}
                Move::WeightGradient(index) => {
                    let owner = self.network.node(id).shares.unwrap_or(id);
                    if let Some(&amount) = self.rules[owner.index()].weights.get(index) {
                        of_weights.push((owner, index, self.allocate(amount, Role::WeightGradients, owner)));
                    }
                }
                other => self.borrow(other, &mut borrowed, id),
            }
        }
        self.release(gradient);
        kept.into_iter().for_each(|tensor| self.release(tensor));
        of_inputs.into_iter().for_each(|(input, gradient)| self.meet(input, gradient, incoming));
        of_weights.into_iter().for_each(|(owner, index, gradient)| self.accumulate(owner, index, gradient));
    }

    /// A gradient reaches the node it belongs to, where another may wait already.
    fn meet(&mut self, node: NodeId, gradient: TensorId, incoming: &mut [Option<TensorId>]) {
        let waiting = &mut incoming[node.index()];
        let Some(first) = *waiting else {
            *waiting = Some(gradient);
            return;
        };
        if self.target.framework.fork == Gradients::InPlace && self.holders[first as usize] == 1 {
            return self.release(gradient);
        }
        let sum = self.allocate(Amount::floats(&self.network.node(node).shape), Role::ActivationGradients, node);
        *waiting = Some(sum);
        self.release(first);
        self.release(gradient);
    }

    /// The first gradient of a weight stays, later ones are added to it (torch/csrc/autograd/functions/accumulate_grad.h).
    fn accumulate(&mut self, owner: NodeId, index: usize, gradient: TensorId) {
        match &mut self.gradients[owner.index()][index] {
            Some(_) => self.release(gradient),
            none => *none = Some(gradient),
        }
    }

    fn optimize(&mut self) {
        for (id, _) in self.network.iter() {
            for amount in self.rules[id.index()].weights.clone() {
                let mut borrowed = Vec::new();
                for step in self.optimizer.updates() {
                    match step {
                        Update::Borrow => borrowed.push(self.allocate(amount, Role::Workspace, id)),
                        Update::State if self.has_state => {}
                        Update::State => drop(self.allocate(amount, Role::OptimizerState, id)),
                    }
                }
                borrowed.into_iter().for_each(|tensor| self.release(tensor));
            }
        }
        self.has_state = true;
    }
}

/// Whether the gradient of each node's result is asked for: some weights lie at it or before it.
fn tracked(network: &Network) -> Vec<bool> {
    let mut tracked: Vec<bool> = Vec::with_capacity(network.nodes().len());
    for node in network.nodes() {
        let weighted = node.shares.is_some() || network.parameters_of(node) > 0;
        tracked.push(weighted || node.inputs.iter().any(|input| tracked[input.index()]));
    }
    tracked
}
