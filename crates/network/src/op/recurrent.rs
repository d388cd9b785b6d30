//! Recurrent layers: one layer of PyTorch's LSTM, GRU or RNN, in one direction or in both.

use super::effects::{
    AuxiliaryResult, BackwardNeeds, GradientFlow, MemoryTraffic, ResultStorage, TrainedTensor, WeightSpans,
};
use super::facts::{ChannelCoupling, NodePosition, OperationFacts, OperationNature};
use crate::Shape;

/// A recurrent layer over a sequence of time steps, whose first hidden states are zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recurrent {
    /// What a time step computes.
    pub cell: RecurrentKind,
    /// Features of the hidden state.
    pub hidden: usize,
    /// Whether it also runs from the last time step to the first.
    pub both_ways: bool,
    /// Whether its gates have biases, two each as in PyTorch.
    pub bias: bool,
    /// Whether the result is the last hidden state of each direction; else it is the hidden states of all time steps.
    pub last: bool,
    /// Whether samples come before time steps in what it reads (`batch_first=True`), which PyTorch permutes and copies. Networks have
    /// their samples first in any case.
    pub batch_first: bool,
}

/// What a recurrent layer computes in a time step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecurrentKind {
    /// Long short-term memory (Hochreiter and Schmidhuber 1997).
    Lstm,
    /// Gated recurrent unit (Cho et al. 2014), its reset gate behind the product, as PyTorch has it.
    Gru,
    /// A hyperbolic tangent.
    Tanh,
    /// A rectifier.
    Relu,
}

impl RecurrentKind {
    /// All of them.
    pub const ALL: [RecurrentKind; 4] =
        [RecurrentKind::Lstm, RecurrentKind::Gru, RecurrentKind::Tanh, RecurrentKind::Relu];

    /// ONNX's operator.
    pub fn operator(self) -> &'static str {
        match self {
            RecurrentKind::Lstm => "LSTM",
            RecurrentKind::Gru => "GRU",
            RecurrentKind::Tanh | RecurrentKind::Relu => "RNN",
        }
    }

    /// The name in layer tables.
    pub fn name(self) -> &'static str {
        match self {
            RecurrentKind::Lstm => "lstm",
            RecurrentKind::Gru => "gru",
            RecurrentKind::Tanh | RecurrentKind::Relu => "rnn",
        }
    }

    /// Products of the input, and as many of the hidden state.
    pub fn gates(self) -> usize {
        match self {
            RecurrentKind::Lstm => 4,
            RecurrentKind::Gru => 3,
            RecurrentKind::Tanh | RecurrentKind::Relu => 1,
        }
    }
}

impl Recurrent {
    /// How many directions it has.
    pub fn directions(&self) -> usize {
        if self.both_ways { 2 } else { 1 }
    }

    /// Rows of the matrices of one direction.
    pub fn rows(&self) -> usize {
        self.cell.gates().saturating_mul(self.hidden)
    }

    /// Elements of all matrices, for an input of so many features.
    fn matrices(&self, features: usize) -> usize {
        let columns = features.saturating_add(self.hidden);
        self.directions().saturating_mul(self.rows()).saturating_mul(columns)
    }

    pub(super) fn shape(&self, input: &Shape) -> Result<Shape, String> {
        let &[steps, _] = input.dims() else { return Err(format!("needs time steps and features, has {input}")) };
        let state = [self.directions(), self.hidden];
        Ok(if self.last { Shape::new(state) } else { Shape::new([&[steps], state.as_slice()].concat()) })
    }

    /// Its matrices count as one weight and its biases as another; workers keep them apart.
    pub(super) fn facts<'a>(&'a self, at: NodePosition) -> OperationFacts<'a> {
        let input = at.input(0);
        let [steps, features] = [0, 1].map(|axis| input.dims().get(axis).copied().unwrap_or(1));
        let weight = |elements: usize| TrainedTensor { dims: Shape::new([elements]), spans: WeightSpans::Nothing };
        let biases = self.bias.then(|| weight(2 * self.directions() * self.rows()));
        let matrices = self.matrices(features);
        let [inputs, outputs] = [input.elements() as f64, at.outputs()];
        OperationFacts {
            weights: [weight(matrices)].into_iter().chain(biases).collect(),
            macs: (steps as u64).saturating_mul(matrices as u64),
            storage: ResultStorage::Needed,
            needs: BackwardNeeds::Inputs,
            auxiliary: Some(AuxiliaryResult::States),
            traffic: MemoryTraffic::new(inputs + outputs, inputs + 2.0 * outputs),
            ..OperationFacts::new(
                OperationNature::Recurrent(self),
                ChannelCoupling::Remembered(self),
                GradientFlow::Made,
            )
        }
    }
}
