//! Backward: gradients flow from the loss to the weights, in the order of PyTorch's autograd engine.

use super::checkpoint::CheckpointedSegment;
use super::context::StepContext;
use super::forward::ForwardRecorder;
use super::loss::TensorsForLoss;
use super::recorder::EventRecorder;
use crate::amount::BatchBytes;
use crate::rules::RuleAction;
use crate::tensor::{FewTensors, StepPhase, TensorId, TensorRole};
use perf4sight_network::{NodeId, Op};
use perf4sight_platform::GradientSum;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Gradients that a node's backward made: of its inputs and of its weights, each with its place there.
type NodeGradients = (SmallVec<[(usize, NodeId, TensorId); 4]>, SmallVec<[(usize, TensorId); 2]>);

/// The tensors that forward leaves for backward.
pub(super) struct TensorsForBackward {
    /// Per node, the tensors that autograd saved.
    pub saved: Vec<FewTensors>,
    pub segments: Vec<CheckpointedSegment>,
}

/// The gradient of a weight that several nodes share, so far.
#[derive(Debug, Clone, Copy)]
struct PartialSum {
    nodes: usize,
    sum: TensorId,
    is_view: bool,
}

/// Records backward; parts of forward run again in it.
pub(super) struct BackwardRecorder<'a> {
    context: &'a StepContext<'a>,
    pub forward: ForwardRecorder<'a>,
    /// Gradients of weights that are whole.
    pub gradients: Vec<TensorId>,
    /// Gradients of weights that are not, each by its node and its place there.
    sums: BTreeMap<(NodeId, usize), PartialSum>,
    /// Gradients of weights that are parts of gradients passed on in backward.
    parts: Vec<TensorId>,
    /// For every node, the gradient of its result that waits there.
    waiting: Vec<Option<TensorId>>,
}

impl<'a> BackwardRecorder<'a> {
    pub fn new(forward: ForwardRecorder<'a>) -> Self {
        let context = forward.context;
        let waiting = vec![None; context.network.nodes().len()];
        BackwardRecorder { context, forward, gradients: Vec::new(), sums: BTreeMap::new(), parts: Vec::new(), waiting }
    }

    /// The whole backward; saved tensors are released node by node.
    pub fn run(&mut self, tape: TensorsForBackward, losses: Vec<(NodeId, TensorsForLoss)>) {
        let context = self.context;
        // The loss's own gradient, a 1, is held by the call until all is done (torch/csrc/autograd/autograd.cpp).
        let seed = self.gradient(context.scalar(), context.network.output());
        // The last recorded function runs first (torch/csrc/autograd/engine.cpp, sequence numbers): all losses before
        // any operation.
        for (output, kept) in losses.into_iter().rev() {
            self.waiting[output.index()] = Some(self.forward.loss_backward(output, kept));
        }
        let TensorsForBackward { mut saved, mut segments } = tape;
        for (id, _) in context.network.iter().rev() {
            let gradient = self.waiting[id.index()].take();
            if gradient.is_some() {
                self.forward.run_again(id, &mut segments, &mut saved);
            }
            let kept = std::mem::take(&mut saved[id.index()]);
            match gradient {
                Some(gradient) if context.is_tracked(id) => self.differentiate(id, gradient, kept),
                gradient => self.recorder().release_all(gradient.into_iter().chain(kept)),
            }
            self.forward.end_backward_of_segment(id, &mut segments);
        }
        self.recorder().release(seed);
        self.settle_rest();
    }

    fn recorder(&mut self) -> &mut EventRecorder {
        &mut self.forward.recorder
    }

    /// Takes partial sums of a weight's gradient as complete, where no gradient reached the other nodes.
    fn settle_rest(&mut self) {
        let sums = std::mem::take(&mut self.sums).into_values().map(|partial| partial.sum);
        let rest: Vec<TensorId> = sums.chain(std::mem::take(&mut self.parts)).collect();
        rest.into_iter().for_each(|gradient| self.settle(gradient));
    }

    /// The gradient of a weight is whole: the first one stays, later ones are added to it (torch/csrc/autograd/functions/accumulate_grad.h).
    fn settle(&mut self, gradient: TensorId) {
        self.recorder().settle(gradient);
        self.gradients.push(gradient);
    }

    fn gradient(&mut self, amount: BatchBytes, node: NodeId) -> TensorId {
        self.recorder().allocate(amount, TensorRole::ActivationGradients, node)
    }

    /// One node's backward.
    fn differentiate(&mut self, id: NodeId, gradient: TensorId, mut kept: FewTensors) {
        self.recorder().begin(StepPhase::Backward, id);
        let context = self.context;
        let node = context.network.node(id);
        let wanted = |index: usize| Some(node.inputs[index]).filter(|input| context.is_tracked(*input));
        let (owner, rule) = (context.owner(id), context.rule(id));
        let (mut of_inputs, mut of_weights) = NodeGradients::default();
        let mut borrowed = FewTensors::new();
        // Gradients that a library computes although they are not needed.
        let mut unasked = FewTensors::new();
        let mut incoming = Some(gradient);
        for step in &rule.backward {
            match *step {
                RuleAction::InputGradient(index) => of_inputs.extend(wanted(index).map(|input| {
                    let amount = rule.casts.input(index).unwrap_or_else(|| context.gradient(input));
                    (index, input, self.gradient(amount, input))
                })),
                RuleAction::PassGradient(index) => {
                    let passed = wanted(index).zip(incoming);
                    of_inputs.extend(passed.map(|(input, gradient)| (index, input, self.recorder().retain(gradient))));
                }
                RuleAction::StepDone => {
                    self.recorder().release_all(incoming.take().into_iter().chain(kept.pop()));
                }
                RuleAction::DropKept(before) => self.recorder().give_back(before, &mut kept),
                RuleAction::CopyGradient => {
                    let copy = self.gradient(context.gradient(id), id);
                    self.recorder().release_all(incoming.replace(copy));
                }
                RuleAction::WeightGradient(index) => {
                    // A constant has no gradient.
                    let own = context.rule(owner).weights.get(index).copied();
                    let amount = own.map(|own| rule.casts.weight(index).unwrap_or(own));
                    let gradient =
                        amount.map(|amount| self.recorder().allocate(amount, TensorRole::WeightGradients, owner));
                    match gradient {
                        Some(gradient) if context.trains(id, index) => of_weights.push((index, gradient)),
                        gradient => unasked.extend(gradient),
                    }
                }
                RuleAction::PassWeightGradient(index) => {
                    of_weights.extend(incoming.map(|gradient| (index, self.recorder().retain(gradient))));
                }
                RuleAction::Take(amount) => borrowed.push(self.recorder().allocate(amount, TensorRole::Workspace, id)),
                RuleAction::Drop(before) => self.recorder().give_back(before, &mut borrowed),
                RuleAction::Output | RuleAction::Reuse | RuleAction::Resident | RuleAction::Keep(_) => {
                    unreachable!("no rule makes results in its backward")
                }
            }
        }
        self.recorder().release_all(incoming.into_iter().chain(unasked).chain(kept));
        self.hand_on(id, (of_inputs, of_weights));
    }

    /// Passes on the gradients of one node's backward, converted back where the node reads casts.
    fn hand_on(&mut self, id: NodeId, (of_inputs, of_weights): NodeGradients) {
        let context = self.context;
        let (owner, rule) = (context.owner(id), context.rule(id));
        for (index, input, gradient) in of_inputs {
            let as_activations = (TensorRole::ActivationGradients, input);
            let gradient = match rule.casts.input(index) {
                Some(_) => self.recorder().cast_back(gradient, context.gradient(input), as_activations),
                None => gradient,
            };
            self.receive_gradient(input, gradient);
        }
        let is_view = matches!(context.network.node(id).op, Op::Linear(_));
        for (index, gradient) in of_weights {
            let (own, cast) = (context.rule(owner).weights[index], rule.casts.weight(index));
            // Of a cast that autocast keeps for all who read it the gradients are summed before they are cast back, once.
            let shared = cast.filter(|_| context.rule(owner).casts.weight(index).is_some());
            let as_weights = (TensorRole::WeightGradients, owner);
            let gradient = match (cast, shared) {
                (Some(_), None) => self.recorder().cast_back(gradient, own, as_weights),
                _ => gradient,
            };
            let part = PartialSum { nodes: 1, sum: gradient, is_view };
            let Some(sum) = self.add_part((owner, index), part, shared.unwrap_or(own)) else { continue };
            let whole = if shared.is_some() { self.recorder().cast_back(sum, own, as_weights) } else { sum };
            match self.recorder().is_sole(whole) {
                true => self.settle(whole),
                false => self.parts.push(whole),
            }
        }
    }

    /// A gradient reaches the node it belongs to, where another may wait already.
    fn receive_gradient(&mut self, node: NodeId, gradient: TensorId) {
        let Some(first) = self.waiting[node.index()].replace(gradient) else { return };
        if self.sums_in_place() && self.recorder().is_sole(first) {
            self.waiting[node.index()] = Some(first);
            return self.recorder().release(gradient);
        }
        let sum = self.gradient(self.context.gradient(node), node);
        self.waiting[node.index()] = Some(sum);
        self.recorder().release_all([first, gradient]);
    }

    fn sums_in_place(&self) -> bool {
        self.context.platform.framework.fork == GradientSum::InPlace
    }

    /// One node's gradient of a weight, or its sum with those of others that share it (torch/csrc/autograd/input_buffer.cpp), which are of that
    /// size; nothing before the last of them has given its own.
    fn add_part(&mut self, place: (NodeId, usize), part: PartialSum, amount: BatchBytes) -> Option<TensorId> {
        let partial = match self.sums.remove(&place) {
            Some(first) => PartialSum { nodes: first.nodes + 1, ..self.add(place.0, [first, part], amount) },
            None => part,
        };
        if partial.nodes < self.context.users(place) {
            self.sums.insert(place, partial);
            return None;
        }
        Some(partial.sum)
    }

    /// Adds two gradients of one weight. A view, such as the gradient of a fully connected layer's transposed weight
    /// (`TBackward`), is not added to in place (`can_accumulate_inplace`).
    fn add(&mut self, owner: NodeId, [first, second]: [PartialSum; 2], amount: BatchBytes) -> PartialSum {
        if self.sums_in_place() && !first.is_view && self.recorder().is_sole(first.sum) {
            self.recorder().release(second.sum);
            return first;
        }
        let sum = self.recorder().allocate(amount, TensorRole::WeightGradients, owner);
        self.recorder().release_all([first.sum, second.sum]);
        PartialSum { sum, is_view: false, ..first }
    }
}
