//! The table of rules: what every operation allocates, saves and borrows in PyTorch.
//!
//! What backward needs is read off PyTorch's tools/autograd/derivatives.yaml, what forward and backward allocate off the kernels
//! in aten/src/ATen/native. Tensors of a few bytes that live within one operation are left out.

use super::amount::{Amount, product};
use super::convolution;
use super::normalisation;
use super::rule::Move::{Drop, InputGradient, Keep, Output, PassGradient, Resident, Reuse, Take, WeightGradient};
use super::rule::{Move, Rule, Saved};
use crate::network::{Activation, Binary, ELEMENT, Network, Node, Op};
use crate::target::{Mask, Rectifier, Target};

/// Bytes of an index or a counter, int64 in PyTorch.
pub(super) const INDEX: u64 = 8;

/// One operation where it stands.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub network: &'a Network,
    pub node: &'a Node,
    pub target: &'a Target,
    /// Whether backward follows.
    pub training: bool,
    /// Whether the result may overwrite the input.
    pub in_place: bool,
    /// For every node, whether its gradient is asked for.
    pub tracked: &'a [bool],
}

impl Place<'_> {
    /// Bytes of one of the inputs.
    pub fn input(&self, index: usize) -> Amount {
        Amount::floats(self.network.input_of(self.node, index))
    }

    /// Whether the gradient of an input is asked for.
    pub fn tracked(&self, index: usize) -> bool {
        self.tracked[self.node.inputs[index].index()]
    }

    /// Bytes of the result.
    pub fn output(&self) -> Amount {
        Amount::floats(&self.node.shape)
    }
}

/// What the operation at `place` does to memory.
pub(super) fn rule(place: Place) -> Rule {
    let rule = Rule { weights: weights(place), ..Rule::default() };
    match &place.node.op {
        Op::Input(_) => rule.forward([Resident]),
        Op::Parameter(_) => rule.forward([Resident]).backward([WeightGradient(0)]),
        Op::Conv(conv) => convolution::rule(rule, place, conv),
        Op::Linear(linear) => {
            let gradients =
                [InputGradient(0), WeightGradient(0)].into_iter().chain(linear.bias.then_some(WeightGradient(1)));
            rule.forward([Output]).saves([Saved::Input(0)]).backward(gradients)
        }
        Op::BatchNorm => batch_norm(rule, place),
        Op::LayerNorm { axis } => {
            // aten/src/ATen/native/layer_norm.cpp: mean and inverse deviation of every normalised row.
            let rows = product(place.node.shape.dims()[..*axis].iter().map(|&dim| dim as u64));
            let statistics = Keep(Amount::per_sample(ELEMENT * rows));
            let gradients = [InputGradient(0), WeightGradient(0), WeightGradient(1)];
            rule.forward([Output, statistics, statistics]).saves([Saved::Input(0)]).backward(gradients)
        }
        Op::Activation(activation) => self::activation(rule, place, *activation),
        Op::MaxPool(_) => max_pool(rule, place),
        Op::AvgPool { .. } => fresh(rule).saves([Saved::Input(0)]),
        // The global mean is at::mean, which needs nothing of its input for backward (AdaptiveAveragePooling.cpp).
        Op::AdaptiveAvgPool { output: [1, 1] } | Op::Mean { .. } => fresh(rule),
        Op::AdaptiveAvgPool { .. } => fresh(rule).saves([Saved::Input(0)]),
        Op::Binary(binary) => self::binary(rule, place, *binary),
        Op::Concat { .. } => rule.forward([Output]).backward((0..place.node.inputs.len()).map(PassGradient)),
        Op::Flatten | Op::Reshape(_) => rule.forward([Reuse]).backward([PassGradient(0)]),
        // A view as such; counted where it costs, which is the copy that whatever follows makes of it.
        Op::Transpose { .. } => fresh(rule),
        // A view whose backward fills a whole tensor with zeros around the gradient (slice_backward).
        Op::Slice { .. } => rule.forward([Reuse]).backward([InputGradient(0)]),
        Op::MatMul => {
            let both = [Saved::Input(0), Saved::Input(1)];
            rule.forward([Output]).saves(both).backward([InputGradient(0), InputGradient(1)])
        }
        Op::Softmax { .. } => fresh(rule).saves([Saved::Output]),
        Op::Dropout { .. } => dropout(rule, place),
        op if normalisation::is_groups(op) => normalisation::groups(rule, place),
        Op::Unknown(_) => unknown(rule, place),
    }
}

/// A result in memory of its own from one input, and the same backwards.
fn fresh(rule: Rule) -> Rule {
    rule.forward([Output]).backward([InputGradient(0)])
}

/// The trainable tensors of an operation.
fn weights(place: Place) -> Vec<Amount> {
    let node = place.node;
    let floats = |elements: u64| Amount::once(ELEMENT.saturating_mul(elements));
    let with_bias = |units: usize, bias: bool| {
        let bias = bias.then_some(units as u64);
        // Filters that nobody trains are no parameters.
        let matrix = place.network.parameters_of(node).saturating_sub(bias.unwrap_or(0));
        std::iter::once(matrix).chain(bias).map(floats).collect()
    };
    let scale_and_shift = || vec![floats(place.network.parameters_of(node) / 2); 2];
    match &node.op {
        _ if node.shares.is_some() => Vec::new(),
        Op::Conv(conv) => with_bias(conv.out_channels, conv.bias),
        Op::Linear(linear) => with_bias(linear.out_features, linear.bias),
        Op::BatchNorm | Op::LayerNorm { .. } => scale_and_shift(),
        Op::Parameter(_) | Op::Unknown(_) => vec![floats(place.network.parameters_of(node))],
        _ => Vec::new(),
    }
}

fn batch_norm(rule: Rule, place: Place) -> Rule {
    let framework = place.target.framework;
    let channels = Amount::once(ELEMENT * place.node.shape.channels() as u64);
    // nn.BatchNorm2d's num_batches_tracked; its "+ 1" makes a new tensor each step.
    let counter = framework.batch_norm_counts.then_some(Amount::once(INDEX));
    let rule = Rule { buffers: [channels, channels].into_iter().chain(counter).collect(), ..rule };
    if !place.training {
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

fn activation(rule: Rule, place: Place, activation: Activation) -> Rule {
    let rule = rule.backward([InputGradient(0)]);
    match (activation, place.in_place) {
        (Activation::Relu6, true) if place.target.framework.relu6 == Rectifier::InputCopy => {
            let copy = place.training.then_some(Keep(place.input(0)));
            rule.forward(copy).forward([Reuse])
        }
        (_, true) => rule.forward([Reuse]).saves([Saved::Output]),
        (Activation::Relu | Activation::Sigmoid | Activation::Tanh, _) => rule.forward([Output]).saves([Saved::Output]),
        _ => rule.forward([Output]).saves([Saved::Input(0)]),
    }
}

fn max_pool(rule: Rule, place: Place) -> Rule {
    // max_pool2d_with_indices also where nobody asks for the indices (aten/src/ATen/native/Pooling.cpp).
    let indices = Amount::per_sample(INDEX.saturating_mul(place.node.shape.elements()));
    if place.training {
        rule.forward([Output, Keep(indices)]).saves([Saved::Input(0)]).backward([InputGradient(0)])
    } else {
        rule.forward([Output, Take(indices), Drop(0)])
    }
}

fn dropout(rule: Rule, place: Place) -> Rule {
    if !place.training {
        return rule.forward([Reuse]);
    }
    let mask = match place.target.framework.dropout {
        Mask::Floats => place.output(),
        Mask::Bytes => Amount::per_sample(place.node.shape.elements()),
    };
    rule.forward([Keep(mask), Output]).backward([InputGradient(0)])
}

fn binary(rule: Rule, place: Place, binary: Binary) -> Rule {
    if let Some(part) = normalisation::affine(&rule, place, binary) {
        return part;
    }
    let rule = rule.forward([Output]);
    let two = place.node.inputs.len() == 2;
    let same = |index: usize| place.network.input_of(place.node, index).dims() == place.node.shape.dims();
    let pass = |index: usize| if same(index) { PassGradient(index) } else { InputGradient(index) };
    match (binary, two) {
        (Binary::Add | Binary::Sub, false) => rule.backward([PassGradient(0)]),
        (Binary::Mul | Binary::Div, false) => rule.backward([InputGradient(0)]),
        (Binary::Add, true) => rule.backward([pass(0), pass(1)]),
        (Binary::Sub, true) => rule.backward([pass(0), InputGradient(1)]),
        (Binary::Mul, true) => {
            let rule = rule.saves([Saved::Input(0), Saved::Input(1)]);
            // An input that was broadcast: its gradient at full size first, then the sum (torch/csrc/autograd/engine.cpp).
            match (same(0), same(1)) {
                (true, true) => rule.backward([InputGradient(0), InputGradient(1)]),
                (false, _) => rule.backward([Take(place.output()), InputGradient(1), InputGradient(0), Drop(0)]),
                (true, false) => rule.backward([Take(place.output()), InputGradient(0), InputGradient(1), Drop(0)]),
            }
        }
        (Binary::Div, true) => {
            // The divisor's gradient goes through two tensors more (div_tensor_other_grad).
            let full = Take(place.output());
            let rule = rule.saves([Saved::Input(0), Saved::Input(1)]);
            rule.backward([InputGradient(0), full, full, InputGradient(1), Drop(0), Drop(0)])
        }
    }
}

/// The cautious guess for what is not known: a result of its own, and backward needs every input.
fn unknown(rule: Rule, place: Place) -> Rule {
    let inputs = 0..place.node.inputs.len();
    let weights: Vec<Move> = (0..rule.weights.len()).map(WeightGradient).collect();
    rule.forward([Output]).saves(inputs.clone().map(Saved::Input)).backward(inputs.map(InputGradient)).backward(weights)
}
