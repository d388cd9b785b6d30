//! What numbers every operation computes with, as PyTorch's autocast has it where it is on: its lists of functions are in
//! aten/src/ATen/autocast_mode.cpp (processors) and autocast_mode.h (CUDA), PyTorch 2.11.

use super::{Activation, Binary, Element, Fill, Network, Node, Op, Reduction};
use crate::workload::{Lists, Number, Precision};

/// What numbers an operation computes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    /// Those of its operands, once they are cast, and of its result.
    pub result: Number,
    /// Those of its weights, once they are cast.
    pub weights: Number,
}

/// What autocast does to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// `lower_precision_fp`: operands and weights are cast down.
    Low,
    /// `fp32`: operands are cast up.
    Single,
    /// It is on no list, or on one that only says what happens anyway: it takes the widest of its operands.
    Widest,
    /// What lies there, as it is held.
    Held,
}

impl Network {
    /// For every node what it computes with, by its position.
    pub fn numbers(&self, precision: Precision, lists: Lists) -> Vec<Numbers> {
        let held = precision.held();
        let mut numbers: Vec<Numbers> = Vec::with_capacity(self.nodes().len());
        for node in self.nodes() {
            let widest = || {
                let inputs = node.inputs.iter().filter(|input| self.node(**input).element == Element::Number);
                let wide = inputs.clone().any(|input| numbers[input.index()].result == Number::Fp32);
                let first = inputs.map(|input| numbers[input.index()].result).next();
                if wide { Number::Fp32 } else { first.unwrap_or(held) }
            };
            let computed = match (precision.autocast(), policy(self, node, lists)) {
                (Some(low), Policy::Low) => Numbers { result: low, weights: low },
                (Some(_), Policy::Single) => Numbers { result: Number::Fp32, weights: held },
                (Some(_), Policy::Widest) => Numbers { result: widest(), weights: held },
                (Some(_), Policy::Held) | (None, _) => Numbers { result: held, weights: held },
            };
            numbers.push(computed);
        }
        numbers
    }
}

fn policy(network: &Network, node: &Node, lists: Lists) -> Policy {
    let on_accelerators = if lists == Lists::Accelerator { Policy::Single } else { Policy::Widest };
    let on_processors = if lists == Lists::Processor { Policy::Single } else { Policy::Widest };
    match &node.op {
        Op::Input(_) | Op::Parameter(_) | Op::Embedding(_) | Op::Cast(_) => Policy::Held,
        Op::Conv(_) | Op::Conv3d(_) | Op::ConvTranspose(_) | Op::Linear(_) | Op::MatMul | Op::Attention => Policy::Low,
        Op::Binary(Binary::PRelu) => Policy::Low,
        // What multiplies is taken for a product; nothing is known of the rest.
        Op::Unknown(_) if network.macs_of(node) > 0 => Policy::Low,
        Op::Unknown(_) => Policy::Widest,
        Op::MaxPool3d(_) | Op::AvgPool3d { .. } | Op::GridSample(_) => on_processors,
        Op::Pad { fill: Fill::Reflect | Fill::Edge, .. } => on_processors,
        Op::Reduce { reduction: Reduction::Product, .. } => Policy::Single,
        Op::Reduce { reduction: Reduction::Sum | Reduction::LogSumExp, .. } => on_accelerators,
        Op::Reduce { reduction: Reduction::L1 | Reduction::L2, .. } => on_accelerators,
        Op::LayerNorm { .. } | Op::GroupNorm { .. } | Op::Softmax { .. } | Op::CumSum { .. } | Op::Resize { .. } => {
            on_accelerators
        }
        Op::Activation(Activation::Exp | Activation::Log | Activation::Reciprocal | Activation::Softplus) => {
            on_accelerators
        }
        Op::Binary(Binary::Pow) => on_accelerators,
        Op::Pad { .. } | Op::Reduce { .. } | Op::Activation(_) | Op::Binary(_) => Policy::Widest,
        Op::BatchNorm { .. } | Op::MaxPool(_) | Op::AvgPool { .. } | Op::AdaptiveAvgPool { .. } => Policy::Widest,
        Op::ArgMax(_) | Op::TopK(_) | Op::Fold(_) | Op::Concat { .. } | Op::Flatten | Op::Reshape(_) => Policy::Widest,
        Op::Transpose { .. } | Op::Slice { .. } | Op::Every { .. } | Op::Pick(_) | Op::Expand(_) => Policy::Widest,
        Op::Contiguous { .. } | Op::Where | Op::Dropout { .. } | Op::DropPath { .. } => Policy::Widest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::zoo::{Dataset, build};

    #[test]
    fn what_products_give_is_passed_on_by_what_is_on_no_list() {
        // result.dtype of each kind of its modules within torch.autocast("cpu", torch.bfloat16), PyTorch 2.11.
        let network = build("resnet18", Dataset::Imagenet).unwrap();
        let numbers = network.numbers(Precision::AmpBf16, Lists::Processor);
        assert!(numbers[1..].iter().all(|numbers| numbers.result == Number::Bf16));
        assert_eq!(numbers[0].result, Number::Fp32);
        let of_weights = |kind: fn(&Op) -> bool| {
            let found = network.nodes().iter().zip(&numbers).find(|(node, _)| kind(&node.op)).unwrap();
            found.1.weights
        };
        assert_eq!(of_weights(|op| matches!(op, Op::Conv(_))), Number::Bf16);
        assert_eq!(of_weights(|op| matches!(op, Op::BatchNorm { .. })), Number::Fp32);
        let all = |precision| network.numbers(precision, Lists::Accelerator);
        assert!(all(Precision::Bf16).iter().all(|one| (one.result, one.weights) == (Number::Bf16, Number::Bf16)));
        assert!(all(Precision::Fp32).iter().all(|one| (one.result, one.weights) == (Number::Fp32, Number::Fp32)));
    }
}
