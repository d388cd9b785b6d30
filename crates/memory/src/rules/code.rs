//! What the code around an operation keeps: tensors from which its weight is computed, results in a list.

use super::operation::StepOperation;
use super::rule::RuleAction::{Drop, Keep, StepDone, Take};
use super::rule::{MemoryRule, SavedTensor, borrowing};
use crate::amount::BatchBytes;
use perf4sight_network::{ComputedWeight, KeptReading, Op};

/// Tensors of the size of a quotient that are there when the gradient of its divisor is made: `-grad * ((self / other) / other)`.
const QUOTIENT: usize = 4;

/// A weight that is computed from parameters, with the tensors made on the way: autograd keeps them until their backward, which
/// begins with a gradient of the weight, when the layer's own is done.
pub(super) fn computing_weights(rule: MemoryRule, operation: StepOperation) -> MemoryRule {
    let Some(ComputedWeight { tensors, divides }) = operation.node.computing else { return rule };
    let elements = operation.network.facts(operation.node).weights.first().map_or(0, |one| one.dims.elements());
    let weight = BatchBytes::constant(operation.step.weight().saturating_mul(elements));
    if !operation.step.trains() {
        return MemoryRule { forward: borrowing(rule.forward, weight), ..rule };
    }
    let made = (0..tensors).map(|_| Keep(weight));
    let gone = 1 + rule.saves.iter().filter(|saved| matches!(saved, SavedTensor::Input(_))).count();
    let rule = MemoryRule { forward: made.chain(rule.forward).collect(), ..rule };
    if !operation.trains(0) {
        return rule;
    }
    let quotient = if divides { QUOTIENT } else { 0 };
    rule.backward((0..gone).map(|_| StepDone))
        .backward((0..quotient).map(|_| Take(weight)))
        .backward((0..quotient).map(|_| Drop(0)))
        .backward([Take(weight), Drop(0)])
}

/// Results that are joined come from a list, which the program may hold in a variable.
pub(super) fn in_a_list(rule: MemoryRule, operation: StepOperation) -> MemoryRule {
    let joins = matches!(operation.node.op, Op::Concat { .. }) && operation.network.keeping() == KeptReading::Most;
    let inputs = if joins && operation.step.trains() { operation.node.inputs.len() } else { 0 };
    rule.saves((0..inputs).map(SavedTensor::Input))
}

#[cfg(test)]
mod tests {
    use crate::Simulation;
    use perf4sight_base::error::Result;
    use perf4sight_network::{
        Activation, BinaryFunction, ComputedWeight, Conv, Interpolation, KeptReading, Linear, Network, NetworkBuilder,
        NodeId, Op, PytorchRun, Recurrent, RecurrentKind, Shape, Window,
    };
    use perf4sight_platform::Platform;
    use perf4sight_step::workload::{Optimizer, Stage, Step, ZeroGrad};

    const SAMPLES: u64 = 64;

    fn peak(network: &Network, stage: Stage) -> u64 {
        let step =
            Step { optimizer: Optimizer::SgdWithoutMomentum, zero_grad: ZeroGrad::Free, ..Step::published(stage) };
        Simulation::new(network, step, &Platform::for_name("cpu").unwrap()).peak(SAMPLES).allocated.0
    }

    fn layer(builder: &mut NetworkBuilder, name: &str, width: usize, of: NodeId) -> Result<NodeId> {
        builder.add(name, Op::Linear(Linear { out_features: width, bias: true }), &[of])
    }

    /// `F.linear(x, F.normalize(w))`: the normalised weight is made in every step. PyTorch keeps it for the gradient of x, and makes its
    /// gradient before that of w (tools/autograd/derivatives.yaml, linear and div).
    #[test]
    fn a_computed_weight_is_there_until_its_backward() -> Result<()> {
        let network = |computing: Option<ComputedWeight>| -> Result<Network> {
            let mut builder = NetworkBuilder::new("normalised", Shape::new([256]));
            let input = builder.input();
            let first = layer(&mut builder, "first", 256, input)?;
            computing.into_iter().for_each(|computing| builder.set_computing(first, computing));
            let bent = builder.add("bent", Op::Activation(Activation::Gelu), &[first])?;
            let last = layer(&mut builder, "last", 4096, bent)?;
            Ok(builder.finish(last))
        };
        let (plain, computed) = (network(None)?, network(Some(ComputedWeight { tensors: 1, divides: true }))?);
        // The peak is where the last layer's gradients are made: the weight is still there, its gradient not yet.
        assert_eq!(peak(&computed, Stage::Training) - peak(&plain, Stage::Training), 4 * 256 * 256);
        // Forward alone, the largest results are made when the weight is gone.
        assert_eq!(peak(&computed, Stage::Inference), peak(&plain, Stage::Inference));
        Ok(())
    }

    /// `maps = [resize(one) for one in features]; torch.cat(maps)`: where the list is a variable of `forward`, the maps are there until it
    /// returns.
    #[test]
    fn a_list_may_hold_what_was_joined() -> Result<()> {
        let mut builder = NetworkBuilder::new("head", Shape::new([8, 16, 16]));
        let window = Window::square(1, 1, 0);
        let conv = Op::Conv(Conv { out_channels: 8, window, groups: 1, bias: false });
        let conv = builder.add("conv", conv, &[builder.input()])?;
        let resize = Op::Resize { image: [32, 32], interpolation: Interpolation::Linear, corners: false };
        let maps = (0..3).map(|map| builder.add(format!("map_{map}"), resize.clone(), &[conv]));
        let maps: Vec<NodeId> = maps.collect::<Result<_>>()?;
        let joined = builder.add("joined", Op::Concat { axis: 0 }, &maps)?;
        let flat = builder.add("flat", Op::Flatten, &[joined])?;
        let last = layer(&mut builder, "last", 10, flat)?;
        let network = builder.finish(last);
        let most = network.clone().as_keeping(KeptReading::Most);
        let maps = 3 * 4 * SAMPLES * 8 * 32 * 32;
        assert_eq!(peak(&most, Stage::Training) - peak(&network, Stage::Training), maps);
        Ok(())
    }

    /// `y = tanh(x) * sigmoid(x) + exp(-x)` in a `torch.autograd.Function` that saves x alone, between two linear layers: PyTorch 2.15's profiler counted
    /// 328,560 bytes of three steps with AdamW and 256 samples. As steps it would be 461,704.
    #[test]
    fn a_function_with_a_backward_of_its_own_may_keep_its_input_alone() -> Result<()> {
        let mut builder = NetworkBuilder::new("function", Shape::new([32]));
        let input = builder.input();
        let x = layer(&mut builder, "first", 64, input)?;
        let first = builder.node_count();
        let mut bend = |name, function, of| builder.add(name, Op::Activation(function), &[of]);
        let (tanh, sigmoid) = (bend("tanh", Activation::Tanh, x)?, bend("sigmoid", Activation::Sigmoid, x)?);
        let negative = bend("negative", Activation::Neg, x)?;
        let exp = bend("exp", Activation::Exp, negative)?;
        let product = builder.add("product", Op::Binary(BinaryFunction::Mul), &[tanh, sigmoid])?;
        let sum = builder.add("sum", Op::Binary(BinaryFunction::Add), &[product, exp])?;
        builder.set_runs_from(first, PytorchRun::InFunction);
        let last = layer(&mut builder, "last", 8, sum)?;
        let network = builder.finish(last);
        let step = Step { optimizer: Optimizer::AdamW, zero_grad: ZeroGrad::Free, ..Step::published(Stage::Training) };
        let peak = Simulation::new(&network, step, &Platform::for_name("cpu")?).peak(256).allocated.0;
        assert!(peak.abs_diff(328_560) < 3_300, "{peak}");
        Ok(())
    }

    /// A GRU keeps seven times its result beside it (benches/recurrent.py); of other sizes than the measured ones it was up to a quarter more or less.
    #[test]
    fn recurrent_layers_keep_a_quarter_more_or_less() -> Result<()> {
        let mut builder = NetworkBuilder::new("words", Shape::new([20, 24]));
        let layer = Recurrent {
            cell: RecurrentKind::Gru,
            hidden: 32,
            both_ways: false,
            bias: true,
            last: false,
            batch_first: true,
        };
        let states = builder.add("states", Op::Recurrent(layer), &[builder.input()])?;
        let network = builder.finish(states);
        let peak = |keeping| peak(&network.clone().as_keeping(keeping), Stage::Training);
        let [least, likely, most] = [KeptReading::Least, KeptReading::Likely, KeptReading::Most].map(peak);
        let quarter = 7 * 4 * SAMPLES * 20 * 32 / 4;
        assert!(likely - least >= quarter && most - likely >= quarter, "{least} {likely} {most}");
        Ok(())
    }
}
