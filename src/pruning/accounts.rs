//! Exact parameter counts while channels go: what each layer weighs with so many inputs and outputs left.

use super::channels::{Channels, is_depthwise};
use crate::network::{Network, Node, Op};

/// The parameters of one layer as a function of its channels: `pair * inputs * outputs / groups + each * outputs + fixed`.
#[derive(Debug, Clone, Default)]
pub(super) struct Account {
    pub inputs: u64,
    pub outputs: u64,
    groups: u64,
    pair: u64,
    each: u64,
    fixed: u64,
}

impl Account {
    /// Parameters at the present counts.
    pub fn parameters(&self) -> u64 {
        self.pair * self.inputs * self.outputs / self.groups + self.each * self.outputs + self.fixed
    }

    /// The account of `node`, if it has parameters that depend on channels; shared weights count at their owner.
    pub fn of(network: &Network, node: &Node, output: Option<&Channels>) -> Option<Self> {
        if node.shares.is_some() {
            return None;
        }
        let bias = u64::from;
        let followed = output.map_or(1, |channels| channels.ids.len()) as u64;
        let account = match &node.op {
            Op::Conv(conv) => {
                let inputs = network.input_of(node, 0).channels();
                let area = (conv.window.kernel[0] * conv.window.kernel[1]) as u64;
                let outputs = conv.out_channels as u64;
                if is_depthwise(conv, inputs) {
                    Account { outputs, each: area + bias(conv.bias), ..Account::default() }
                } else {
                    let groups = conv.groups as u64;
                    let each = bias(conv.bias);
                    Account { inputs: inputs as u64, outputs, groups, pair: area, each, ..Account::default() }
                }
            }
            Op::Linear(linear) => {
                let inputs = network.input_of(node, 0).dims().last().copied().unwrap_or(1) as u64;
                let (outputs, each) = (linear.out_features as u64, bias(linear.bias));
                Account { inputs, outputs, groups: 1, pair: 1, each, ..Account::default() }
            }
            Op::BatchNorm if output.is_some_and(|channels| channels.axis == 0) => {
                Account { outputs: followed, each: 2, ..Account::default() }
            }
            Op::LayerNorm { axis } if output.is_some_and(|channels| channels.axis >= *axis) => {
                Account { outputs: followed, each: network.parameters_of(node) / followed, ..Account::default() }
            }
            Op::Parameter(shape) => {
                Account { outputs: followed, each: shape.elements() / followed, ..Account::default() }
            }
            _ => return None,
        };
        let account = Account { groups: account.groups.max(1), ..account };
        Some(match node.trained {
            Some(trained) => account.holding(trained),
            None => account,
        })
    }

    /// The same layer with so many trained elements.
    fn holding(self, trained: u64) -> Self {
        match (trained.checked_sub(self.parameters()), trained.checked_rem(self.outputs)) {
            // Gains of its filters go with them, what is not theirs stays.
            (Some(more), _) if self.outputs > 0 && more.is_multiple_of(self.outputs) => {
                Account { each: self.each + more / self.outputs, ..self }
            }
            (Some(more), _) => Account { fixed: more, ..self },
            (None, Some(0)) => Account { pair: 0, each: trained / self.outputs, ..self },
            (None, _) => Account { pair: 0, each: 0, fixed: trained, ..self },
        }
    }

    /// With other channels.
    pub fn with(self, inputs: u64, outputs: u64) -> Self {
        Account { inputs, outputs, ..self }
    }
}
