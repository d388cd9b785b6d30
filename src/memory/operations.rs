//! The table of rules: what every operation allocates, saves and borrows in PyTorch.
//!
//! What backward needs is read off PyTorch's tools/autograd/derivatives.yaml, what forward and backward allocate off the kernels
//! in aten/src/ATen/native. Tensors of a few bytes that live within one operation are left out.

use super::amount::{Amount, product};
use super::convolution;
use super::normalisation;
use super::rule::Move::{Drop, InputGradient, Keep, Output, PassGradient, Resident, Reuse, Take, WeightGradient};
use super::rule::{Move, Rule, Saved};
use crate::network::{Activation, Beside, Binary, Facts, Gradient, Nature, Needs, Network, Node, Shape, Storage};
use crate::target::{Mask, Rectifier, Target};
use crate::workload::Step;

/// Bytes of an index or a counter, int64 in PyTorch.
pub(super) const INDEX: u64 = 8;

/// One operation where it stands.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub network: &'a Network,
    pub node: &'a Node,
    pub target: &'a Target,
    pub step: Step,
    /// Whether the result may overwrite the input.
    pub in_place: bool,
    /// For every node, whether its gradient is asked for.
    pub tracked: &'a [bool],
}

impl Place<'_> {
    /// Bytes of an activation of that shape.
    fn tensor(&self, shape: &Shape) -> Amount {
        Amount::tensor(shape, self.step.activation())
    }

    /// Bytes of one of the inputs.
    pub fn input(&self, index: usize) -> Amount {
        self.tensor(self.network.input_of(self.node, index))
    }

    /// Whether the gradient of an input is asked for.
    pub fn tracked(&self, index: usize) -> bool {
        self.tracked[self.node.inputs[index].index()]
    }

    /// Bytes of the result.
    pub fn output(&self) -> Amount {
        self.tensor(&self.node.shape)
    }
}

/// What the operation at `place` does to memory.
pub(super) fn rule(place: Place) -> Rule {
    let facts = place.network.facts(place.node);
    let tensors = place.network.tensors_of(place.node);
    let weights =
        tensors.into_iter().map(|elements| Amount::once(place.step.weight().saturating_mul(elements))).collect();
    let rule = Rule { weights, ..Rule::default() };
    match facts.nature {
        Nature::Convolution(conv) => convolution::rule(rule, place, conv),
        Nature::Normalisation if !facts.buffers.is_empty() => batch_norm(rule, place, &facts),
        Nature::Activation(activation) if place.in_place => overwriting(rule, place, activation),
        Nature::Arithmetic(binary) => arithmetic(rule, place, binary, &facts),
        Nature::Dropout if facts.storage == Storage::View => plain(rule, place, &facts),
        Nature::Dropout => dropout(rule, place),
        Nature::Input | Nature::Parameter | Nature::Linear(_) | Nature::MatMul => plain(rule, place, &facts),
        Nature::Normalisation | Nature::Softmax | Nature::Activation(_) => plain(rule, place, &facts),
        Nature::Pooling(_) | Nature::Movement | Nature::Unknown(_) => plain(rule, place, &facts),
    }
}

/// An operation that does no more than its facts say: first the result, then what is made beside it; backward the gradients of the
/// inputs, then those of the weights.
fn plain(rule: Rule, place: Place, facts: &Facts) -> Rule {
    let result = match facts.storage {
        Storage::Own | Storage::Needed => Output,
        Storage::View => Reuse,
        Storage::Resident => Resident,
    };
    let inputs = 0..place.node.inputs.len();
    let gradients = inputs.filter_map(|input| match facts.gradient {
        Gradient::Ends => None,
        Gradient::Made => Some(InputGradient(input)),
        Gradient::Passed => Some(PassGradient(input)),
    });
    rule.forward([result])
        .forward(beside(place, facts))
        .saves(saved(place, facts.needs))
        .backward(gradients)
        .backward((0..facts.weights.len()).map(WeightGradient))
}

/// What is made beside a result.
fn beside(place: Place, facts: &Facts) -> Vec<Move> {
    match facts.beside {
        None => Vec::new(),
        Some(Beside::Statistics(rows)) => vec![Keep(Amount::per_sample(product([place.step.activation(), rows]))); 2],
        Some(Beside::Indices) => {
            // max_pool2d_with_indices also where nobody asks for the indices (aten/src/ATen/native/Pooling.cpp).
            let indices = Amount::per_sample(INDEX.saturating_mul(place.node.shape.elements()));
            if place.step.trains() { vec![Keep(indices)] } else { vec![Take(indices), Drop(0)] }
        }
    }
}

fn saved(place: Place, needs: Needs) -> Vec<Saved> {
    match needs {
        Needs::Nothing => Vec::new(),
        Needs::Inputs => (0..place.node.inputs.len()).map(Saved::Input).collect(),
        Needs::Result => vec![Saved::Output],
    }
}

fn batch_norm(rule: Rule, place: Place, facts: &Facts) -> Rule {
    let framework = place.target.framework;
    let channels = Amount::once(place.step.weight() * place.node.shape.channels() as u64);
    let statistics = facts.buffers.iter().map(|dims| Amount::once(place.step.weight().saturating_mul(dims.elements())));
    // nn.BatchNorm2d's num_batches_tracked; its "+ 1" makes a new tensor each step.
    let counter = framework.batch_norm_counts.then_some(Amount::once(INDEX));
    let rule = Rule { buffers: statistics.chain(counter).collect(), ..rule };
    if !place.step.trains() {
        return rule.forward([Output]);
    }
    let counts = counter.map_or(vec![], |counter| vec![Take(counter), Drop(0)]);
    let rule = rule.forward(counts).forward([Output, Keep(channels), Keep(channels)]).saves([Saved::Input(0)]);
    let gradients = [WeightGradient(0), WeightGradient(1), InputGradient(0)];
    if framework.batch_norm_copies {
        // batch_norm_backward_cpu_template makes one gradient of the input, batch_norm_cpu's kernel another (Normalization.cpp).
        rule.backward([Take(place.input(0))]).backward(gradients).backward([Drop(0)])
    } else {
        rule.backward(gradients)
    }
}

/// An activation in the memory of its input.
fn overwriting(rule: Rule, place: Place, activation: Activation) -> Rule {
    let rule = rule.backward([InputGradient(0)]);
    if activation == Activation::Relu6 && place.target.framework.relu6 == Rectifier::InputCopy {
        let copy = place.step.trains().then_some(Keep(place.input(0)));
        return rule.forward(copy).forward([Reuse]);
    }
    rule.forward([Reuse]).saves([Saved::Output])
}

fn dropout(rule: Rule, place: Place) -> Rule {
    if !place.step.trains() {
        return rule.forward([Reuse]);
    }
    let mask = match place.target.framework.dropout {
        Mask::Floats => place.output(),
        Mask::Bytes => Amount::per_sample(place.node.shape.elements()),
    };
    rule.forward([Keep(mask), Output]).backward([InputGradient(0)])
}

fn arithmetic(rule: Rule, place: Place, binary: Binary, facts: &Facts) -> Rule {
    if let Some(part) = normalisation::affine(&rule, place, binary) {
        return part;
    }
    if place.node.inputs.len() == 1 {
        return plain(rule, place, facts);
    }
    let rule = rule.forward([Output]).saves(saved(place, facts.needs));
    let same = |index: usize| place.network.input_of(place.node, index).dims() == place.node.shape.dims();
    let pass = |index: usize| if same(index) { PassGradient(index) } else { InputGradient(index) };
    let full = Take(place.output());
    match (binary, same(0), same(1)) {
        (Binary::Add, ..) => rule.backward([pass(0), pass(1)]),
        (Binary::Sub, ..) => rule.backward([pass(0), InputGradient(1)]),
        // An input that was broadcast: its gradient at full size first, then the sum (torch/csrc/autograd/engine.cpp).
        (Binary::Mul, true, true) => rule.backward([InputGradient(0), InputGradient(1)]),
        (Binary::Mul, false, _) => rule.backward([full, InputGradient(1), InputGradient(0), Drop(0)]),
        (Binary::Mul, true, false) => rule.backward([full, InputGradient(0), InputGradient(1), Drop(0)]),
        // The divisor's gradient goes through two tensors more (div_tensor_other_grad).
        (Binary::Div, ..) => rule.backward([InputGradient(0), full, full, InputGradient(1), Drop(0), Drop(0)]),
    }
}
