//! Recurrent layers, also those known by name and price alone: what PyTorch keeps of every time step.
//!
//! oneDNN has a kernel for an LSTM's layer in one direction; GRU and RNN are operators for every time step. Both run one direction after the other.
//! Libraries of GPUs keep other tensors; nothing was measured there.

use super::operation::Operation;
use super::rule::Move::{Drop, DropKept, InputGradient, Keep, Take};
use super::rule::{Move, Rule, Saved, borrowing};
use crate::amount::{Amount, product};
use perf4sight_network::op::{At, continued};
use perf4sight_network::{Keeping, Nature, Node, Op};
use perf4sight_step::workload::Number;

/// A file does not tell all that a layer keeps; other sizes than the measured ones keep up to a quarter more or less (docs/accuracy/simulated-memory.md).
const QUARTERS: u64 = 4;

/// Axes of a sample of the last hidden state: the directions, and what is hidden.
const LAST_STATE: usize = 2;

/// The rule of an operation, with its memory where it is a recurrent one. A layer with several results is one operation: its first result stands for it.
pub(super) fn rule(rule: Rule, operation: Operation, name: &str) -> Rule {
    let Some(cell) = (!is_further_result(operation)).then(|| cell(name)).flatten() else { return rule };
    let copy = is_copied(operation).then(|| operation.input(0));
    let rule = if copy.is_some() { Rule { saves: without_input(&rule.saves), ..rule } } else { rule };
    let rule = match cell {
        Cell::Lstm => lstm(rule.forward(copy.map(Keep)), Layer::new(operation), operation),
        Cell::Steps(step) => steps(rule, operation, step, copy),
    };
    match input_of_stack(operation) {
        Some(input) => Rule { forward: borrowing(rule.forward, input), ..rule },
        None => rule,
    }
}

enum Cell {
    Lstm,
    Steps(TimeStep),
}

fn cell(name: &str) -> Option<Cell> {
    match name {
        "LSTM" => Some(Cell::Lstm),
        "GRU" => Some(Cell::Steps(TimeStep { gates: 3, kept: 7 })),
        "RNN" => Some(Cell::Steps(TimeStep { gates: 1, kept: 1 })),
        _ => None,
    }
}

fn is_further_result(operation: Operation) -> bool {
    let at = At { nodes: operation.network.nodes(), node: operation.node };
    continued(at).next().is_some()
}

/// Whether it reads a copy: with the time steps in front it reads what another layer makes as it is, of all else a permuted copy. Networks do not tell
/// where the samples are: they are taken to be in front (`batch_first=True`).
fn is_copied(operation: Operation) -> bool {
    !is_recurrent(operation, read_by(operation, operation.node))
}

/// What a layer reads, before it is arranged.
fn read_by<'a>(operation: Operation<'a>, layer: &'a Node) -> &'a Node {
    let mut read = operation.network.node(layer.inputs[0]);
    while matches!(read.op, Op::Reshape(_) | Op::Dropout { .. } | Op::Transpose { .. }) {
        read = operation.network.node(read.inputs[0]);
    }
    read
}

/// The input of a module of several layers, of which this is a later one: the call holds it until its last layer is done, although its first layer
/// has copied it.
fn input_of_stack(operation: Operation) -> Option<Amount> {
    let in_call = |node: &Node| node.module.is_some() && node.module == operation.node.module;
    let mut layer = operation.node;
    while let Some(before) =
        Some(read_by(operation, layer)).filter(|read| is_recurrent(operation, read) && in_call(read))
    {
        layer = before;
    }
    let input = operation.network.node(layer.inputs[0]);
    (layer.name != operation.node.name).then(|| Amount::tensor(&input.shape, input.element.bytes(operation.number())))
}

fn is_recurrent(operation: Operation, node: &Node) -> bool {
    let nature = operation.network.facts(node).nature;
    if let Nature::Unknown(unknown) = nature {
        return unknown.is_recurrent();
    }
    matches!(nature, Nature::Recurrent(_))
}

fn without_input(saves: &[Saved]) -> Vec<Saved> {
    saves.iter().copied().filter(|saved| *saved != Saved::Input(0)).collect()
}

/// Tensors of a time step, in multiples of its state.
struct TimeStep {
    /// The products of what it reads with the weights.
    gates: u64,
    /// What autograd saves, among it the state.
    kept: u64,
}

/// Each direction multiplies all that it reads at once, goes through the time steps, and stacks their states (`FullLayer` and
/// `FullBidirectionalLayer` of aten/src/ATen/native/RNN.cpp).
fn steps(rule: Rule, operation: Operation, step: TimeStep, copy: Option<Amount>) -> Rule {
    let directions = Layer::new(operation).directions;
    let (all_steps, unread) = all_steps(operation);
    let states = all_steps.divided_by(directions);
    let [kept, gates] = [step.kept, step.gates].map(|times| doubtful(states.times(times), operation));
    let trains = operation.step.trains();
    let rule = rule.forward(unread.then_some(Keep(all_steps)));
    let rule = match trains {
        // Each direction copies what it reads, and keeps that.
        true => rule.forward((0..directions).flat_map(|_| copy.map(Keep).into_iter().chain([Keep(kept)]))),
        false => rule,
    };
    // States of both directions are copied into one tensor; without gradients nothing else keeps those of each step until they are stacked.
    let apart = u64::from(directions > 1) + u64::from(!trains);
    let borrowed = gates.and(all_steps.times(apart));
    let product = copy.filter(|_| !trains).map(|copy| [Take(copy), Take(gates), Drop(0), Drop(0)]);
    let forward = product.into_iter().flatten().chain(borrowing(rule.forward.clone(), borrowed)).collect();
    let backward = steps_backward(&rule, operation, gates, copy.is_some());
    Rule { forward, backward, ..rule }
}

/// The last direction runs first. Gradients of the gates take the place of what the steps kept, and are stacked for the product; the second direction's
/// gradient of the input adds to that of the first.
fn steps_backward(rule: &Rule, operation: Operation, gates: Amount, copies: bool) -> Vec<Move> {
    let directions = Layer::new(operation).directions;
    let mut moves = Vec::new();
    for direction in (0..directions).rev() {
        let is_first = direction + 1 == directions;
        moves.extend([DropKept(rule.saves.len()), Take(gates), Take(gates), Drop(0)]);
        if is_first {
            moves.push(InputGradient(0));
        } else if operation.tracked(0) {
            moves.extend([Take(operation.input(0)), Drop(0)]);
        }
        if direction == 0 {
            moves.extend(operation.learned(operation.network.facts(operation.node).weights.len()));
        }
        moves.push(Drop(0));
        moves.extend(copies.then_some(DropKept(rule.saves.len())));
    }
    moves
}

/// What a layer keeps, as much as a file's reading has of it.
fn doubtful(kept: Amount, operation: Operation) -> Amount {
    let quarters = match operation.network.keeping() {
        Keeping::Least => QUARTERS - 1,
        Keeping::Likely => QUARTERS,
        Keeping::Most => QUARTERS + 1,
    };
    kept.times(quarters).divided_by(QUARTERS)
}

/// Bytes of the results of all time steps, and whether they are made without being read: ONNX's `Y` has an axis for the steps, its
/// `Y_h` of the last step has none.
fn all_steps(operation: Operation) -> (Amount, bool) {
    match operation.node.shape.rank() > LAST_STATE {
        true => (operation.output(), false),
        false => (operation.output().times(Layer::new(operation).steps), true),
    }
}

/// An LSTM's layers in oneDNN, one for each direction.
fn lstm(rule: Rule, layer: Layer, operation: Operation) -> Rule {
    let (all_steps, unread) = all_steps(operation);
    let trains = operation.step.trains();
    // Results of both directions are copied into another tensor.
    let apart = unread || trains && layer.directions > 1;
    let (kept, borrowed) = match trains {
        true => (Some(Keep(doubtful(layer.workspace().and(layer.ends()), operation))), layer.borrowed_forward()),
        false => (None, layer.borrowed_in_inference()),
    };
    let (taken, returned) = (Take(borrowed), Drop(0));
    let rule = rule
        .forward(apart.then_some(Keep(all_steps)))
        .forward((0..layer.directions).flat_map(|_| kept))
        .forward(operation.within_kernels.then_some([taken, returned]).into_iter().flatten());
    Rule { backward: lstm_backward(&rule, &layer, operation, all_steps), ..rule }
}

/// The last direction runs first. oneDNN makes all gradients whether they are needed or not; those of the second add to those of the first.
fn lstm_backward(rule: &Rule, layer: &Layer, operation: Operation, all_steps: Amount) -> Vec<Move> {
    let incoming = all_steps.divided_by(layer.directions);
    let passes_on = operation.tracked(0);
    let mut moves = Vec::new();
    for direction in (0..layer.directions).rev() {
        let is_first = direction + 1 == layer.directions;
        let read = (!is_first || !passes_on).then(|| operation.input(0));
        let weights = (direction > 0).then(|| layer.weights());
        let within = operation.within_kernels.then(|| layer.borrowed_backward());
        let borrowed: Vec<Amount> = [Some(incoming), read, weights].into_iter().flatten().collect();
        moves.extend(borrowed.iter().copied().map(Take));
        moves.extend((is_first && passes_on).then_some(InputGradient(0)));
        if direction == 0 {
            moves.extend(operation.learned(operation.network.facts(operation.node).weights.len()));
        }
        moves.extend(within.into_iter().flat_map(|within| [Take(within), Drop(0)]));
        moves.extend(borrowed.iter().map(|_| Drop(0)));
        moves.extend((direction > 0).then_some(DropKept(rule.saves.len())));
    }
    moves
}

/// The sizes of a layer; oneDNN's buffers are those of cpu/rnn/rnn_utils.hpp as PyTorch 2.15 allocates them.
struct Layer {
    directions: u64,
    steps: u64,
    features: u64,
    hidden: u64,
    /// Bytes of a number that it computes with.
    number: u64,
}

impl Layer {
    fn new(operation: Operation) -> Self {
        let own = operation.node.shape.dims().iter().rev().map(|&size| size as u64);
        let [hidden, directions] = first_two(own);
        let read = operation.network.input_of(operation.node, 0).dims().iter().rev().map(|&size| size as u64);
        let [features, steps] = first_two(read);
        Layer { directions, steps, features, hidden, number: operation.number() }
    }

    /// Bytes of a row of numbers: whole cache lines, one more where rows would lie a multiple of a page apart (`get_good_ld`).
    fn row(numbers: u64, number: u64) -> u64 {
        const LINE: u64 = 64;
        const APART: u64 = 256;
        let line = LINE / number;
        let padded = numbers.next_multiple_of(line);
        number * if padded.is_multiple_of(APART) { padded + line } else { padded }
    }

    fn gates(&self) -> u64 {
        Layer::row(4 * self.hidden, self.number)
    }

    /// What one direction keeps for backward: gates, states and room for their gradients.
    fn workspace(&self) -> Amount {
        let float = Number::Fp32.bytes();
        let widest = self.features.max(self.hidden);
        let [states, gradients] = [self.number, float].map(|number| Layer::row(widest, number));
        let cells = 2 * self.hidden * (self.number + float);
        let of_step = self.gates() + Layer::row(self.hidden, self.number);
        let steps = product([self.steps, of_step]);
        Amount::per_sample(steps + product([self.steps + 1, 2 * states + 4 * gradients + cells]))
    }

    /// The hidden and cell states that it begins and ends with.
    fn ends(&self) -> Amount {
        Amount::per_sample(product([4, self.hidden, self.number]))
    }

    fn scratch(&self) -> Amount {
        Amount::per_sample(product([self.steps, self.gates()]) + 2 * Layer::row(self.hidden, self.number))
    }

    /// The weights of one direction in rows of gates.
    fn weights_by_gates(&self) -> Amount {
        Amount::once(product([self.features + self.hidden, self.gates()]))
    }

    /// The weights of one direction, with two biases.
    fn weights(&self) -> Amount {
        Amount::once(product([self.number, 4 * self.hidden, self.features + self.hidden + 2]))
    }

    fn borrowed_forward(&self) -> Amount {
        self.weights_by_gates().and(self.scratch())
    }

    /// The gradients of the weights, and copies of the weights unless their rows are as PyTorch has them.
    fn borrowed_backward(&self) -> Amount {
        let rows =
            [self.features, self.hidden].map(|numbers| (numbers * self.number, Layer::row(numbers, self.number)));
        let copied = rows.into_iter().filter(|(own, row)| own != row).map(|(_, row)| row).sum::<u64>();
        self.borrowed_forward().and(Amount::once(product([4 * self.hidden, copied])))
    }

    fn borrowed_in_inference(&self) -> Amount {
        let states = 2 * Layer::row(self.features.max(self.hidden), self.number);
        let cells = 2 * self.hidden * Number::Fp32.bytes();
        let of_step = self.gates() + 2 * Layer::row(self.hidden, self.number);
        self.weights_by_gates().and(Amount::per_sample(product([self.steps + 1, states + cells]) + of_step))
    }
}

fn first_two(mut sizes: impl Iterator<Item = u64>) -> [u64; 2] {
    [(); 2].map(|()| sizes.next().unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::Layer;

    /// Time steps, samples, features and hidden numbers; bytes that PyTorch 2.15 allocated on a processor with AVX-512: the workspace of
    /// `mkldnn_rnn_layer`, all that it gave back when it was done, likewise of its backward, and without gradients (memory events of its profiler).
    const ALLOCATED: [([u64; 4], [u64; 4]); 5] = [
        ([48, 8, 200, 256], [6_189_056, 3_523_640, 5_493_816, 3_580_680]),
        ([48, 16, 200, 256], [12_365_824, 5_137_464, 7_107_640, 5_276_424]),
        ([48, 8, 200, 64], [2_883_584, 717_880, 931_896, 1_147_656]),
        ([64, 16, 128, 128], [8_011_776, 2_724_408, 2_726_456, 2_704_216]),
        ([7, 5, 300, 1000], [2_322_432, 21_406_776, 42_414_776, 22_053_640]),
    ];

    /// Buffers fill whole pages, which is left out; without gradients AVX-512 has weights in blocks.
    #[test]
    fn buffers_are_as_large_as_those_of_onednn() {
        for ([steps, samples, features, hidden], allocated) in ALLOCATED {
            let layer = Layer { directions: 1, steps, features, hidden, number: 4 };
            let buffers =
                [layer.workspace(), layer.borrowed_forward(), layer.borrowed_backward(), layer.borrowed_in_inference()];
            for (buffer, allocated) in buffers.into_iter().zip(allocated) {
                let ratio = buffer.bytes(samples) as f64 / allocated as f64;
                assert!((ratio - 1.0).abs() < 0.025, "{steps} {samples} {features} {hidden}: {ratio} of {allocated}");
            }
        }
    }
}
