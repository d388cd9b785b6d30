//! The number types of every operation under PyTorch's autocast, where it is on. Its lists of functions are in
//! aten/src/ATen/autocast_mode.cpp (processors) and autocast_mode.h (CUDA), PyTorch 2.11.

use super::op::AutocastTo;
use super::{BinaryFunction, ElementKind, Network, Node, NodeId, Op, PaddingFill, ReductionKind};
use perf4sight_step::workload::{AutocastDevice, NumberFormat, Precision};

/// The number types of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberTypes {
    /// That of its operands, once they are cast, and of its result.
    pub result: NumberFormat,
    /// That of its weights, once they are cast.
    pub weights: NumberFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AutocastPolicy {
    /// `lower_precision_fp`: operands and weights are cast down.
    Low,
    /// `fp32`: operands are cast up.
    Single,
    /// It is on no list, or on one without effect: it takes the widest type of its operands.
    Widest,
    /// Stored values, in their own precision.
    Held,
}

impl Network {
    /// The number types of every node, by its position.
    pub fn numbers(&self, precision: Precision, lists: AutocastDevice) -> Vec<NumberTypes> {
        let held = precision.held_format();
        let mut numbers: Vec<NumberTypes> = Vec::with_capacity(self.nodes().len());
        let in_single = self.attention_in_single(lists);
        for (id, node) in self.iter() {
            let widest = || {
                let counts = |input: &&NodeId| {
                    let node = self.node(**input);
                    node.element == ElementKind::Number && !is_scalar(node)
                };
                // The condition of a `Where` does not count as an operand.
                let chosen = usize::from(node.op == Op::Where);
                let inputs = node.inputs.iter().skip(chosen).filter(counts);
                let wide = inputs.clone().any(|input| numbers[input.index()].result == NumberFormat::Fp32);
                let first = inputs.map(|input| numbers[input.index()].result).next();
                if wide { NumberFormat::Fp32 } else { first.unwrap_or(held) }
            };
            let computed = match (precision.autocast(), policy(self, node, lists)) {
                _ if in_single[id.index()] => NumberTypes { result: NumberFormat::Fp32, weights: held },
                (Some(low), AutocastPolicy::Low) => NumberTypes { result: low, weights: low },
                (Some(_), AutocastPolicy::Single) => NumberTypes { result: NumberFormat::Fp32, weights: held },
                (Some(_), AutocastPolicy::Widest) => NumberTypes { result: widest(), weights: held },
                (Some(_), AutocastPolicy::Held) | (None, _) => NumberTypes { result: held, weights: held },
            };
            numbers.push(computed);
        }
        numbers
    }
}

impl Network {
    /// Whether it computes element by element in the widest type of its operands, without autocast
    /// (`TensorIterator::compute_types` in aten/src/ATen/TensorIterator.cpp).
    pub fn promotes(&self, node: &Node, lists: AutocastDevice) -> bool {
        matches!(node.op, Op::Binary(_) | Op::Where) && policy(self, node, lists) == AutocastPolicy::Widest
    }

    /// For every node, whether it is a step of PyTorch's own attention that a processor computes step by step because weights are
    /// dropped, and in single precision whatever it reads (`_scaled_dot_product_attention_math` of
    /// aten/src/ATen/native/transformers/attention.cpp). It is recognised by queries and keys that are scaled alike; attention
    /// written by hand scales once.
    fn attention_in_single(&self, lists: AutocastDevice) -> Vec<bool> {
        let mut single = vec![false; self.nodes().len()];
        if lists != AutocastDevice::Processor {
            return single;
        }
        let steps = self.iter().filter_map(|(id, _)| self.dropped_attention(id)).flatten();
        steps.for_each(|step| single[step.index()] = true);
        single
    }

    /// The steps of the attention, if this node is the last of them.
    fn dropped_attention(&self, last: NodeId) -> Option<Vec<NodeId>> {
        let made_by = |id: NodeId, is: fn(&Op) -> bool| Some(self.node(id)).filter(|node| is(&node.op));
        let first = |node: &Node| node.inputs.first().copied();
        let dropout = first(made_by(last, |op| *op == Op::MatMul)?)?;
        let softmax = first(made_by(dropout, |op| matches!(op, Op::Dropout { rate } if *rate > 0.0))?)?;
        let mut steps = vec![last, dropout, softmax];
        let mut scores = first(made_by(softmax, |op| matches!(op, Op::Softmax { .. }))?)?;
        if let Some(sum) = made_by(scores, |op| *op == Op::Binary(BinaryFunction::Add)) {
            steps.push(scores);
            scores = first(sum)?;
        }
        steps.push(scores);
        let product = made_by(scores, |op| *op == Op::MatMul)?;
        let is_scaled = |id: &NodeId| {
            let node = self.node(*id);
            node.op == Op::Binary(BinaryFunction::Mul) && node.inputs.len() == 1
        };
        product.inputs.iter().all(is_scaled).then(|| [steps, product.inputs.clone()].concat())
    }
}

/// Whether it is a scalar of the program, which widens nothing.
fn is_scalar(node: &Node) -> bool {
    matches!(node.op, Op::Parameter(_)) && node.trained == Some(0) && node.shape.elements() == 1
}

fn policy(network: &Network, node: &Node, lists: AutocastDevice) -> AutocastPolicy {
    let on_accelerators =
        if lists == AutocastDevice::Accelerator { AutocastPolicy::Single } else { AutocastPolicy::Widest };
    let on_processors =
        if lists == AutocastDevice::Processor { AutocastPolicy::Single } else { AutocastPolicy::Widest };
    match &node.op {
        Op::Input(_) | Op::Parameter(_) | Op::Embedding(_) | Op::Cast(_) => AutocastPolicy::Held,
        Op::Conv(_) | Op::Conv3d(_) | Op::ConvTranspose(_) | Op::Linear(_) | Op::MatMul | Op::Attention => {
            AutocastPolicy::Low
        }
        Op::Recurrent(_) => AutocastPolicy::Low,
        Op::Binary(BinaryFunction::PRelu) => AutocastPolicy::Low,
        // An unknown operation with multiply-accumulates counts as a product; nothing is known about the others.
        Op::Unknown(_) if network.macs_of(node) > 0 => AutocastPolicy::Low,
        Op::Unknown(_) => AutocastPolicy::Widest,
        Op::MaxPool3d(_) | Op::AvgPool3d { .. } | Op::GridSample(_) => on_processors,
        Op::Pad { fill: PaddingFill::Reflect | PaddingFill::Edge, .. } => on_processors,
        Op::Reduce { reduction: ReductionKind::Product, .. } => AutocastPolicy::Single,
        Op::Reduce { reduction: ReductionKind::Sum | ReductionKind::LogSumExp, .. } => on_accelerators,
        Op::Reduce { reduction: ReductionKind::L1 | ReductionKind::L2, .. } => on_accelerators,
        Op::LayerNorm { .. } | Op::GroupNorm { .. } | Op::Softmax { .. } | Op::CumSum { .. } | Op::Resize { .. } => {
            on_accelerators
        }
        Op::Activation(function) => match function.autocast() {
            AutocastTo::Single => on_accelerators,
            AutocastTo::Widest => AutocastPolicy::Widest,
        },
        Op::Binary(BinaryFunction::Pow) => on_accelerators,
        Op::Pad { .. } | Op::Reduce { .. } | Op::Binary(_) => AutocastPolicy::Widest,
        Op::BatchNorm { .. } | Op::MaxPool(_) | Op::AvgPool { .. } | Op::AdaptiveAvgPool { .. } => {
            AutocastPolicy::Widest
        }
        Op::ArgMax(_) | Op::TopK(_) | Op::Fold(_) | Op::Concat { .. } | Op::Flatten | Op::Reshape(_) => {
            AutocastPolicy::Widest
        }
        Op::Transpose { .. } | Op::Slice { .. } | Op::Every { .. } | Op::Pick(_) | Op::Expand(_) => {
            AutocastPolicy::Widest
        }
        Op::Contiguous { .. } | Op::Where | Op::Dropout { .. } | Op::DropPath { .. } => AutocastPolicy::Widest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo::{Dataset, build};
    use crate::{Linear, NetworkBuilder, Shape};

    /// Attention: queries and keys from one layer each, their product masked, weights dropped, and the values.
    fn attention(scaled: bool, rate: f32) -> Network {
        let mut builder = NetworkBuilder::new("attention", Shape::new([5, 8]));
        let input = builder.input();
        let linear = Op::Linear(Linear { out_features: 8, bias: false });
        let [query, key, value] = ["q", "k", "v"].map(|name| builder.add(name, linear.clone(), &[input]).unwrap());
        let keys = builder.add("turned", Op::Transpose { order: vec![1, 0] }, &[key]).unwrap();
        let by = Op::Binary(BinaryFunction::Mul);
        let query = builder.add("query", by.clone(), &[query]).unwrap();
        let keys = if scaled { builder.add("keys", by, &[keys]).unwrap() } else { keys };
        let scores = builder.add("scores", Op::MatMul, &[query, keys]).unwrap();
        let mask = builder.add("mask", Op::Parameter(Shape::new([5, 5])), &[]).unwrap();
        let masked = builder.add("masked", Op::Binary(BinaryFunction::Add), &[scores, mask]).unwrap();
        let weights = builder.add("weights", Op::Softmax { axis: 1 }, &[masked]).unwrap();
        let dropped = builder.add("dropped", Op::Dropout { rate }, &[weights]).unwrap();
        let result = builder.add("result", Op::MatMul, &[dropped, value]).unwrap();
        builder.finish(result)
    }

    #[test]
    fn pytorchs_attention_with_dropout_computes_in_single_precision_on_processors() {
        // F.scaled_dot_product_attention(..., dropout_p=0.1) of bfloat16 on a processor and what autograd saves of it, PyTorch 2.11.
        let of = |network: &Network, precision, lists, name: &str| {
            let numbers = network.numbers(precision, lists);
            let place = network.nodes().iter().position(|node| node.name == name).unwrap();
            numbers[place].result
        };
        let own = attention(true, 0.1);
        for precision in [Precision::AmpBf16, Precision::Bf16] {
            for name in ["query", "keys", "scores", "masked", "weights", "dropped", "result"] {
                assert_eq!(of(&own, precision, AutocastDevice::Processor, name), NumberFormat::Fp32, "{name}");
            }
            assert_eq!(of(&own, precision, AutocastDevice::Processor, "v"), NumberFormat::Bf16);
            // Not for attention that scales once, has no dropout, or runs as one kernel of a library.
            assert_eq!(of(&attention(false, 0.1), precision, AutocastDevice::Processor, "scores"), NumberFormat::Bf16);
            assert_eq!(of(&attention(true, 0.0), precision, AutocastDevice::Processor, "scores"), NumberFormat::Bf16);
            assert_eq!(of(&own, precision, AutocastDevice::Accelerator, "scores"), NumberFormat::Bf16);
        }
    }

    #[test]
    fn neither_conditions_nor_a_programs_own_numbers_widen_what_is_chosen() {
        // torch.autocast("cpu", torch.bfloat16): x.masked_fill(mask, -1e4) of a product is bfloat16.
        let mut builder = NetworkBuilder::new("masked", Shape::new([5, 8]));
        let linear =
            builder.add("linear", Op::Linear(Linear { out_features: 5, bias: false }), &[builder.input()]).unwrap();
        let mask = builder.add("mask", Op::Parameter(Shape::new([5, 5])), &[]).unwrap();
        let number = builder.add("number", Op::Parameter(Shape::new([1, 1])), &[]).unwrap();
        builder.set_trained(number, 0);
        let chosen = builder.add("chosen", Op::Where, &[mask, number, linear]).unwrap();
        let numbers = builder.finish(chosen).numbers(Precision::AmpBf16, AutocastDevice::Processor);
        assert_eq!(numbers.last().unwrap().result, NumberFormat::Bf16);
    }

    #[test]
    fn what_products_give_is_passed_on_by_what_is_on_no_list() {
        // result.dtype of each kind of its modules within torch.autocast("cpu", torch.bfloat16), PyTorch 2.11.
        let network = build("resnet18", Dataset::Imagenet).unwrap();
        let numbers = network.numbers(Precision::AmpBf16, AutocastDevice::Processor);
        assert!(numbers[1..].iter().all(|numbers| numbers.result == NumberFormat::Bf16));
        assert_eq!(numbers[0].result, NumberFormat::Fp32);
        let of_weights = |kind: fn(&Op) -> bool| {
            let found = network.nodes().iter().zip(&numbers).find(|(node, _)| kind(&node.op)).unwrap();
            found.1.weights
        };
        assert_eq!(of_weights(|op| matches!(op, Op::Conv(_))), NumberFormat::Bf16);
        assert_eq!(of_weights(|op| matches!(op, Op::BatchNorm { .. })), NumberFormat::Fp32);
        let all = |precision| network.numbers(precision, AutocastDevice::Accelerator);
        assert!(
            all(Precision::Bf16)
                .iter()
                .all(|one| (one.result, one.weights) == (NumberFormat::Bf16, NumberFormat::Bf16))
        );
        assert!(
            all(Precision::Fp32)
                .iter()
                .all(|one| (one.result, one.weights) == (NumberFormat::Fp32, NumberFormat::Fp32))
        );
    }
}
