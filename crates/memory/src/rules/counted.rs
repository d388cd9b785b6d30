//! Single operators in a small network, against what PyTorch was counted to allocate.

use crate::Simulation;
use perf4sight_base::error::Result;
use perf4sight_network::{Activation, BinaryFunction, Linear, Network, NetworkBuilder, NodeId, Op, PytorchRun, Shape};
use perf4sight_platform::Platform;
use perf4sight_step::workload::{Optimizer, Stage, Step, ZeroGrad};

/// `o(f(a(x)))` with layers of 16 to 1024 and 5 features, for samples of 32 x 16.
fn network(f: impl FnOnce(&mut NetworkBuilder, NodeId) -> Result<NodeId>) -> Result<Network> {
    let mut builder = NetworkBuilder::new("single", Shape::new([32, 16]));
    let layer = |out_features| Op::Linear(Linear { out_features, bias: true });
    let read = builder.add("a", layer(1024), &[builder.input()])?;
    let made = f(&mut builder, read)?;
    let last = builder.add("o", layer(5), &[made])?;
    Ok(builder.finish(last))
}

/// Whether the peak of three steps of SGD with 8 samples is what the profiler of PyTorch 2.15 counted.
fn assert_peak(network: &Network, samples: u64, counted: u64) -> Result<()> {
    let step = Step {
        optimizer: Optimizer::SgdWithoutMomentum,
        zero_grad: ZeroGrad::Free,
        ..Step::published(Stage::Training)
    };
    let peak = Simulation::new(network, step, &Platform::for_name("cpu")?).peak(samples).allocated.0;
    assert!((peak as f64 / counted as f64 - 1.0).abs() < 0.002, "{}: {peak} of {counted}", network.name());
    Ok(())
}

/// `torch.cumsum(x, -1)`.
#[test]
fn a_cumulative_sum_is_turned_twice_backward() -> Result<()> {
    assert_peak(&network(|builder, x| builder.add("sum", Op::CumSum { axis: 1 }, &[x]))?, 8, 4_323_376)
}

/// `torch.logcumsumexp(x, 1)`.
#[test]
fn logarithms_of_cumulative_sums_go_backward_by_their_signs() -> Result<()> {
    let network = network(|builder, x| {
        let made = builder.add("sum", Op::CumSum { axis: 0 }, &[x])?;
        builder.set_runs(made, PytorchRun::InOperator);
        Ok(made)
    })?;
    assert_peak(&network, 8, 11_663_412)
}

/// `torch.where(x > 0, x.tanh(), x.sigmoid())`: a truth takes a byte.
#[test]
fn conditions_are_truths() -> Result<()> {
    let network = network(|builder, x| {
        let is_more = builder.add("is_more", Op::Binary(BinaryFunction::Greater), &[x])?;
        let tanh = builder.add("tanh", Op::Activation(Activation::Tanh), &[x])?;
        let sigmoid = builder.add("sigmoid", Op::Activation(Activation::Sigmoid), &[x])?;
        builder.add("where", Op::Where, &[is_more, tanh, sigmoid])
    })?;
    assert_peak(&network, 8, 5_634_100)
}

/// `torch.roll(x, 3, 2)`, and `torch.cat(x.chunk(2, -1)[::-1], -1)`, which takes as much.
#[test]
fn the_gradients_of_all_parts_are_joined_at_once() -> Result<()> {
    for front in [1021, 512] {
        let network = network(|builder, x| {
            let behind = Op::Slice { axis: 1, start: front, length: 1024 - front };
            let behind = builder.add("behind", behind, &[x])?;
            let front = builder.add("front", Op::Slice { axis: 1, start: 0, length: front }, &[x])?;
            [behind, front].into_iter().for_each(|part| builder.set_runs(part, PytorchRun::Part));
            builder.add("roll", Op::Concat { axis: 1 }, &[behind, front])
        })?;
        assert_peak(&network, 8, 2_231_344)?;
    }
    Ok(())
}

/// `torch.addcmul(x, x, x.sigmoid(), value=.5)`, and `torch.lerp(x, x.tanh(), .3)`.
#[test]
fn operators_in_steps_make_their_result_alone() -> Result<()> {
    let product = network(|builder, x| {
        let sigmoid = builder.add("sigmoid", Op::Activation(Activation::Sigmoid), &[x])?;
        let first = builder.node_count();
        let inner = builder.add("inner", Op::Binary(BinaryFunction::Mul), &[x, sigmoid])?;
        let sum = builder.add("sum", Op::Binary(BinaryFunction::Add), &[x, inner])?;
        builder.set_runs_from(first, PytorchRun::InOperator);
        Ok(sum)
    })?;
    assert_peak(&product, 8, 6_420_528)?;
    let between = network(|builder, x| {
        let tanh = builder.add("tanh", Op::Activation(Activation::Tanh), &[x])?;
        let first = builder.node_count();
        let from = builder.add("from", Op::Binary(BinaryFunction::Mul), &[x])?;
        let end = builder.add("end", Op::Binary(BinaryFunction::Mul), &[tanh])?;
        let sum = builder.add("sum", Op::Binary(BinaryFunction::Add), &[from, end])?;
        builder.set_runs_from(first, PytorchRun::InOperator);
        Ok(sum)
    })?;
    assert_peak(&between, 8, 4_323_388)
}

/// `x = a(x); o(n(x.transpose(1, 2)).transpose(1, 2))` with an `nn.BatchNorm1d(256)` and samples of 64 x 16: what is turned has no kernel of its own, and
/// makes one gradient.
#[test]
fn batch_normalisation_of_what_is_turned_makes_one_gradient() -> Result<()> {
    let mut builder = NetworkBuilder::new("turned", Shape::new([64, 16]));
    let layer = |out_features| Op::Linear(Linear { out_features, bias: true });
    let read = builder.add("a", layer(256), &[builder.input()])?;
    let turned = builder.add("turned", Op::Transpose { order: vec![1, 0] }, &[read])?;
    let norm = builder.add("norm", Op::BatchNorm { axis: 0 }, &[turned])?;
    let back = builder.add("back", Op::Transpose { order: vec![1, 0] }, &[norm])?;
    let last = builder.add("o", layer(5), &[back])?;
    assert_peak(&builder.finish(last), 8, 1_653_816)
}
