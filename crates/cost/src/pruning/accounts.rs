//! Exact parameter counts during pruning: the parameters of each layer as a function of its remaining channels.

use super::channels::TensorChannels;
use perf4sight_network::{Network, Node, WeightSpans};

/// The parameters of one layer as a function of its channels: `pair * inputs * outputs / groups + each * outputs + fixed`.
#[derive(Debug, Clone, Default)]
pub(super) struct ParameterAccount {
    pub inputs: u64,
    pub outputs: u64,
    groups: u64,
    pair: u64,
    each: u64,
    fixed: u64,
}

impl ParameterAccount {
    /// Parameters at the present counts.
    pub fn parameters(&self) -> u64 {
        self.pair * self.inputs * self.outputs / self.groups + self.each * self.outputs + self.fixed
    }

    /// The account of `node`, if it has parameters that depend on channels; shared weights count at their owner.
    pub fn new(network: &Network, node: &Node, output: Option<&TensorChannels>) -> Option<Self> {
        if node.shares.is_some() {
            return None;
        }
        let weights = network.facts(node).weights;
        let (weight, others) = weights.split_first()?;
        let elements = weight.dims.elements();
        let account = match weight.spans {
            WeightSpans::Filters { input } => {
                let inputs = network.input_of(node, 0).dims()[input] as u64;
                let [outputs, seen] = [0, 1].map(|axis| weight.dims.dims()[axis] as u64);
                let (area, biases) = (elements / (outputs * seen), others.len() as u64);
                match seen == 1 && inputs > 1 {
                    // The one channel that a filter reads goes with it.
                    true => ParameterAccount { outputs, groups: 1, each: area + biases, ..ParameterAccount::default() },
                    false => {
                        ParameterAccount { inputs, outputs, groups: inputs / seen, pair: area, each: biases, fixed: 0 }
                    }
                }
            }
            WeightSpans::Transposed { .. } => {
                let [inputs, of_group] = [0, 1].map(|axis| weight.dims.dims()[axis] as u64);
                let (outputs, biases) = (node.shape.channels() as u64, others.len() as u64);
                let groups = outputs / of_group;
                match groups == inputs && inputs > 1 {
                    true => ParameterAccount {
                        outputs,
                        groups: 1,
                        each: elements / outputs + biases,
                        ..ParameterAccount::default()
                    },
                    false => {
                        let pair = elements / (inputs * of_group);
                        ParameterAccount { inputs, outputs, groups, pair, each: biases, fixed: 0 }
                    }
                }
            }
            WeightSpans::Result { first } => {
                let lies_along = |axis: usize| (first..first + weight.dims.rank()).contains(&axis);
                let outputs = output.filter(|channels| lies_along(channels.axis))?.ids.len() as u64;
                let each = (1 + others.len() as u64) * elements / outputs;
                ParameterAccount { outputs, groups: 1, each, ..ParameterAccount::default() }
            }
            WeightSpans::Rows => {
                let outputs = weight.dims.dims()[1] as u64;
                ParameterAccount { outputs, groups: 1, each: elements / outputs, ..ParameterAccount::default() }
            }
            WeightSpans::Nothing => return None,
        };
        Some(match node.trained {
            Some(trained) => account.holding(trained),
            None => account,
        })
    }

    /// The same layer with this many trained elements.
    fn holding(self, trained: u64) -> Self {
        match (trained.checked_sub(self.parameters()), trained.checked_rem(self.outputs)) {
            // The gains of its filters go with them; other elements stay.
            (Some(more), _) if self.outputs > 0 && more.is_multiple_of(self.outputs) => {
                ParameterAccount { each: self.each + more / self.outputs, ..self }
            }
            (Some(more), _) => ParameterAccount { fixed: more, ..self },
            (None, Some(0)) => ParameterAccount { pair: 0, each: trained / self.outputs, ..self },
            (None, _) => ParameterAccount { pair: 0, each: 0, fixed: trained, ..self },
        }
    }

    pub fn with(self, inputs: u64, outputs: u64) -> Self {
        ParameterAccount { inputs, outputs, ..self }
    }
}
