//! Backward: gradients flow from the loss to the weights, in the order of PyTorch's autograd engine.

use super::amount::Amount;
use super::event::{FewTensors, Phase, Role, TensorId};
use super::rule::Move;
use super::taking::{Given, Kept, Taking, Tape, give_back};
use perf4sight_network::{NodeId, Op};
use perf4sight_platform::Gradients;
use smallvec::SmallVec;

/// Gradients that a node's backward made: of its inputs and of its weights, each with its place there.
type Made = (SmallVec<[(usize, NodeId, TensorId); 4]>, SmallVec<[(usize, TensorId); 2]>);

/// For every node, the gradient of its result that waits there.
type Waiting = Vec<Option<TensorId>>;

impl Taking<'_> {
    /// The whole of it; what is saved is let go node by node.
    pub fn backward(&mut self, tape: Tape, losses: Vec<(NodeId, Kept)>) {
        let network = self.plan.network;
        // The loss's own gradient, a 1, is held by the call until all is done (torch/csrc/autograd/autograd.cpp).
        let seed = self.gradient(self.plan.number(), network.output());
        let mut waiting: Waiting = vec![None; network.nodes().len()];
        // What was recorded last runs first (torch/csrc/autograd/engine.cpp, sequence numbers): all losses before any operation.
        for (output, kept) in losses.into_iter().rev() {
            waiting[output.index()] = Some(self.loss_backward(output, kept));
        }
        let Tape { mut saved, mut frames, .. } = tape;
        for (id, _) in network.iter().rev() {
            let gradient = waiting[id.index()].take();
            if gradient.is_some() {
                self.run_again(id, &mut frames, &mut saved);
            }
            let kept = std::mem::take(&mut saved[id.index()]);
            match gradient {
                Some(gradient) if self.plan.tracked[id.index()] => self.differentiate(id, gradient, kept, &mut waiting),
                gradient => gradient.into_iter().chain(kept).for_each(|tensor| self.recorder.release(tensor)),
            }
            self.done(id, &mut frames);
        }
        self.recorder.release(seed);
        self.end_sums();
    }

    /// What some nodes have given of a weight's gradient is all of it where no gradient reached the others.
    fn end_sums(&mut self) {
        let sums = std::mem::take(&mut self.given).into_values();
        sums.for_each(|Given { sum, .. }| self.settle(sum));
        std::mem::take(&mut self.parts).into_iter().for_each(|gradient| self.settle(gradient));
    }

    /// The gradient of a weight is whole: the first one stays, later ones are added to it (torch/csrc/autograd/functions/accumulate_grad.h).
    fn settle(&mut self, gradient: TensorId) {
        self.recorder.settle(gradient);
        self.gradients.push(gradient);
    }

    fn gradient(&mut self, amount: Amount, node: NodeId) -> TensorId {
        self.recorder.allocate(amount, Role::ActivationGradients, node)
    }

    /// From the loss of a result to that: through nll_loss, then through log_softmax; or through mse_loss.
    fn loss_backward(&mut self, output: NodeId, kept: Kept) -> TensorId {
        let scores = self.plan.scores(output);
        let of_result = match kept {
            Kept::Classes { log_softmax, total_weight } => {
                let of_log_softmax = self.gradient(scores, output);
                self.recorder.release(total_weight);
                let of_result = self.gradient(scores, output);
                self.recorder.release(of_log_softmax);
                self.recorder.release(log_softmax);
                of_result
            }
            Kept::Result(read) => {
                let of_result = self.gradient(scores, output);
                self.recorder.release(read);
                of_result
            }
        };
        match self.plan.casts_result(output) {
            true => self.cast_back(of_result, self.plan.gradient(output), (Role::ActivationGradients, output)),
            false => of_result,
        }
    }

    /// One node's backward.
    fn differentiate(&mut self, id: NodeId, gradient: TensorId, mut kept: FewTensors, waiting: &mut Waiting) {
        self.recorder.begin(Phase::Backward, id);
        let plan = self.plan;
        let node = plan.network.node(id);
        let wanted = |index: usize| Some(node.inputs[index]).filter(|input| plan.tracked[input.index()]);
        let owner = node.shares.unwrap_or(id);
        let (mut of_inputs, mut of_weights) = Made::default();
        let mut borrowed = FewTensors::new();
        // What a library makes beside what it is asked for.
        let mut unasked = FewTensors::new();
        let mut incoming = Some(gradient);
        let rule = &plan.rules[id.index()];
        for step in &rule.backward {
            match *step {
                Move::InputGradient(index) => of_inputs.extend(wanted(index).map(|input| {
                    let amount = rule.casts.input(index).unwrap_or_else(|| plan.gradient(input));
                    (index, input, self.gradient(amount, input))
                })),
                Move::PassGradient(index) => {
                    let passed = wanted(index).zip(incoming);
                    of_inputs.extend(passed.map(|(input, gradient)| (index, input, self.recorder.hold(gradient))));
                }
                Move::StepDone => {
                    incoming.take().into_iter().chain(kept.pop()).for_each(|tensor| self.recorder.release(tensor));
                }
                Move::CopyGradient => {
                    let copy = self.gradient(plan.gradient(id), id);
                    incoming.replace(copy).into_iter().for_each(|turned| self.recorder.release(turned));
                }
                Move::WeightGradient(index) => {
                    // Of what nobody trains there is none.
                    let own = plan.rules[owner.index()].weights.get(index).copied();
                    let amount = own.map(|own| rule.casts.weight(index).unwrap_or(own));
                    let gradient = amount.map(|amount| self.recorder.allocate(amount, Role::WeightGradients, owner));
                    match gradient.map(|gradient| (index, gradient)) {
                        Some(gradient) if plan.learns(id, index) => of_weights.push(gradient),
                        gradient => unasked.extend(gradient.map(|(_, gradient)| gradient)),
                    }
                }
                Move::PassWeightGradient(index) => {
                    of_weights.extend(incoming.map(|gradient| (index, self.recorder.hold(gradient))));
                }
                Move::Take(amount) => borrowed.push(self.recorder.allocate(amount, Role::Workspace, id)),
                Move::Drop(before) => give_back(before, &mut borrowed, &mut self.recorder),
                Move::Output | Move::Reuse | Move::Resident | Move::Keep(_) => {
                    unreachable!("no rule makes results in its backward")
                }
            }
        }
        incoming.into_iter().for_each(|tensor| self.recorder.release(tensor));
        unasked.into_iter().for_each(|tensor| self.recorder.release(tensor));
        kept.into_iter().for_each(|tensor| self.recorder.release(tensor));
        self.hand_on(id, (of_inputs, of_weights), waiting);
    }

    /// What one node's backward made goes where it belongs, cast back where the node read casts.
    fn hand_on(&mut self, id: NodeId, (of_inputs, of_weights): Made, waiting: &mut Waiting) {
        let plan = self.plan;
        let rule = &plan.rules[id.index()];
        let owner = plan.network.node(id).shares.unwrap_or(id);
        for (index, input, gradient) in of_inputs {
            let gradient = match rule.casts.input(index) {
                Some(_) => self.cast_back(gradient, plan.gradient(input), (Role::ActivationGradients, input)),
                None => gradient,
            };
            self.meet(input, gradient, waiting);
        }
        for (index, gradient) in of_weights {
            let (own, cast) = (plan.rules[owner.index()].weights[index], rule.casts.weight(index));
            // Of a cast that autocast keeps for all who read it the gradients are summed before they are cast back, once.
            let shared = cast.filter(|_| plan.rules[owner.index()].casts.weight(index).is_some());
            let as_weights = (Role::WeightGradients, owner);
            let gradient = match (cast, shared) {
                (Some(_), None) => self.cast_back(gradient, own, as_weights),
                _ => gradient,
            };
            let is_view = matches!(plan.network.node(id).op, Op::Linear(_));
            let part = Given { times: 1, sum: gradient, is_view };
            let Some(sum) = self.accumulate((owner, index), part, shared.unwrap_or(own)) else { continue };
            let whole = if shared.is_some() { self.cast_back(sum, own, as_weights) } else { sum };
            match self.recorder.is_sole(whole) {
                true => self.settle(whole),
                false => self.parts.push(whole),
            }
        }
    }

    /// A gradient in the numbers that were cast, as one in those that they were cast from (`ToCopyBackward`).
    fn cast_back(&mut self, gradient: TensorId, amount: Amount, (role, node): (Role, NodeId)) -> TensorId {
        let cast = self.recorder.allocate(amount, role, node);
        self.recorder.release(gradient);
        cast
    }

    /// A gradient reaches the node it belongs to, where another may wait already.
    fn meet(&mut self, node: NodeId, gradient: TensorId, waiting: &mut Waiting) {
        let Some(first) = waiting[node.index()].replace(gradient) else { return };
        if self.plan.platform.framework.fork == Gradients::InPlace && self.recorder.is_sole(first) {
            waiting[node.index()] = Some(first);
            return self.recorder.release(gradient);
        }
        let sum = self.gradient(self.plan.gradient(node), node);
        waiting[node.index()] = Some(sum);
        self.recorder.release(first);
        self.recorder.release(gradient);
    }

    /// One node's gradient of a weight, or its sum with those of others that share it (torch/csrc/autograd/input_buffer.cpp), which are of that
    /// size; nothing before the last of them has given its own.
    fn accumulate(&mut self, place: (NodeId, usize), part: Given, amount: Amount) -> Option<TensorId> {
        let given = match self.given.remove(&place) {
            Some(first) => Given { times: first.times + 1, ..self.summed(place.0, [first, part], amount) },
            None => part,
        };
        if given.times < self.plan.users[place.0.index()][place.1] {
            self.given.insert(place, given);
            return None;
        }
        Some(given.sum)
    }

    /// Two gradients of one weight as one. What is a view, as that of a fully connected layer's turned weight (`TBackward`), is not added to
    /// where it lies (`can_accumulate_inplace`).
    fn summed(&mut self, owner: NodeId, [first, second]: [Given; 2], amount: Amount) -> Given {
        let in_place = self.plan.platform.framework.fork == Gradients::InPlace && !first.is_view;
        if in_place && self.recorder.is_sole(first.sum) {
            self.recorder.release(second.sum);
            return first;
        }
        let sum = self.recorder.allocate(amount, Role::WeightGradients, owner);
        [first, second].into_iter().for_each(|part| self.recorder.release(part.sum));
        Given { sum, is_view: false, ..first }
    }
}
