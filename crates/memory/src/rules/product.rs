//! Matrix products: the operands that PyTorch copies so that a library can multiply them, and saves in place of the
//! originals.
//!
//! aten/src/ATen/native/LinearAlgebra.cpp (`_matmul_impl`) and Linear.cpp: the leading axes are folded into one, which
//! copies operands whose layout does not permit that; autograd then saves the copy.

use super::operation::StepOperation;
use super::rule::RuleAction::{CopyGradient, Drop, InputGradient, Keep, Output, Take};
use super::rule::{MemoryRule, RuleAction, SavedTensor};
use crate::amount::BatchBytes;
use crate::layout::samples_after;
use perf4sight_network::{OperationFacts, PytorchRun};

/// A fully connected layer, which folds all axes but the last.
pub(super) fn linear(rule: MemoryRule, operation: StepOperation, facts: &OperationFacts) -> MemoryRule {
    let copied = operation.layout(0).folds_behind().is_none().then(|| operation.input(0));
    // The input is needed for the gradient of the weight only.
    let weight = operation.requires_gradient(0).then_some(SavedTensor::Cast(0));
    let as_rows = operation.result().folds_before(1);
    let turned = operation.gradient().is_some_and(|gradient| as_rows && !gradient.folds_before(1));
    // The weight of another layer gets a part of its gradient here, which is added to that layer's.
    let is_anothers = operation.node.runs == PytorchRun::OnAnothers;
    let part = facts.weights.first().filter(|_| is_anothers).map(|weight| weight.dims.elements());
    let part =
        part.map(|elements| [Take(BatchBytes::constant(operation.step.weight().saturating_mul(elements))), Drop(0)]);
    reading(rule, operation, vec![(copied, operation.trains(0) || is_anothers)])
        .saves(weight)
        .backward(turned.then_some(CopyGradient))
        .backward([InputGradient(0)])
        .backward(part.into_iter().flatten())
        .backward(operation.weight_gradients(facts.weights.len()))
}

/// A product of stacks of matrices, which folds the stacks, stretched to the same first.
pub(super) fn matmul(rule: MemoryRule, operation: StepOperation) -> MemoryRule {
    if let PytorchRun::SamplesAsRows { turned } = operation.node.runs {
        return at_once(rule, operation, turned);
    }
    let stack = |sizes: &[u64]| sizes[..sizes.len() - 2].to_vec();
    let stretched = stack(operation.result().sizes());
    let whole = |index: usize| {
        let matrix: u64 = operation.layout(index).sizes().iter().rev().take(2).product();
        let matrices: u64 = stretched[1..].iter().product();
        BatchBytes::per_sample(operation.number().saturating_mul(matrices).saturating_mul(matrix))
    };
    let copied = (0..2).map(|index| {
        let layout = operation.layout(index);
        let same = stack(layout.sizes()) == stretched;
        let copied = (!same || !layout.folds_before(2)).then_some(whole(index));
        // Each is needed for the gradient of the other.
        (copied, operation.requires_gradient(1 - index))
    });
    let copied = copied.collect();
    // The gradient of the stretched operand, which is summed up (`expand` in `bmm_backward`).
    let is_stretched = |&index: &usize| operation.requires_gradient(index) && whole(index) != operation.input(index);
    let stretched: Vec<RuleAction> = (0..2).filter(is_stretched).map(|index| Take(whole(index))).collect();
    let gone: Vec<RuleAction> = stretched.iter().map(|_| Drop(0)).collect();
    reading(rule, operation, copied).backward(stretched).backward([InputGradient(0), InputGradient(1)]).backward(gone)
}

/// A product of all samples, as rows, with a weight: `sumproduct_pair` of Linear.cpp copies what is no view of stacked matrices, and so does its backward.
fn at_once(rule: MemoryRule, operation: StepOperation, turned: bool) -> MemoryRule {
    let after = samples_after(operation.network, operation.node);
    let operand = |index: usize| {
        let of = operation.network.node(operation.node.inputs[index]);
        let once = BatchBytes::constant(operation.number().saturating_mul(of.shape.elements()));
        let copy = match of.is_common() {
            true => turned.then_some(once),
            false => (!operation.layout(index).folds_samples_after(after)).then(|| operation.input(index)),
        };
        (copy, operation.requires_gradient(1 - index))
    };
    let lies_apart = operation.gradient().is_some_and(|gradient| !gradient.folds_samples_after(after));
    reading(rule, operation, vec![operand(0), operand(1)])
        .backward(lies_apart.then_some(CopyGradient))
        .backward([InputGradient(1), InputGradient(0)])
}

/// Copies of some of the operands, which stay where backward needs them, and the result.
fn reading(rule: MemoryRule, operation: StepOperation, operands: Vec<(Option<BatchBytes>, bool)>) -> MemoryRule {
    let needed = |needed: bool| needed && operation.step.trains();
    let saves = operands.iter().enumerate().filter(|(_, (copy, is_needed))| copy.is_none() && needed(*is_needed));
    let saves = saves.map(|(index, _)| SavedTensor::Input(index));
    let copies = operands.iter().filter_map(|(copy, is_needed)| Some(((*copy)?, needed(*is_needed))));
    let (kept, borrowed): (Vec<_>, Vec<_>) = copies.partition(|(_, needed)| *needed);
    let made = kept.into_iter().map(|(copy, _)| Keep(copy)).chain(borrowed.iter().map(|(copy, _)| Take(*copy)));
    let gone: Vec<RuleAction> = borrowed.iter().map(|_| Drop(0)).collect();
    rule.forward(made.collect::<Vec<_>>()).forward([Output]).forward(gone).saves(saves.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use crate::Simulation;
    use perf4sight_base::error::Result;
    use perf4sight_network::{
        Activation, BinaryFunction, Linear, NetworkBuilder, Op, PytorchRun, ReductionKind, Shape,
    };
    use perf4sight_platform::Platform;
    use perf4sight_step::workload::{Optimizer, Stage, Step, ZeroGrad};

    /// `o(einsum('ebtf,efd->ebtd', tanh(einsum('btd,edf->ebtf', x, w1)), w2).mean(0))` with 4 experts: the peak of PyTorch's allocator over three steps of AdamW with 64 samples
    /// of 16 x 48, classes of 11, is 5,448,136 bytes (PyTorch 2.15). With a copy of the experts' weights for every sample it would be twice as much.
    #[test]
    fn experts_are_multiplied_once_for_all_samples() -> Result<()> {
        let mut builder = NetworkBuilder::new("experts", Shape::new([16, 48]));
        let first = builder.add("w1", Op::Parameter(Shape::new([48, 384])), &[])?;
        let apart = builder.add("apart", Op::MatMul, &[builder.input(), first])?;
        builder.set_runs(apart, PytorchRun::SamplesAsRows { turned: true });
        let experts = builder.add("experts", Op::Reshape(Shape::new([16, 4, 96])), &[apart])?;
        let turned = builder.add("turned", Op::Transpose { order: vec![1, 0, 2] }, &[experts])?;
        let bent = builder.add("bent", Op::Activation(Activation::Tanh), &[turned])?;
        let second = builder.add("w2", Op::Parameter(Shape::new([4, 96, 48])), &[])?;
        let back = builder.add("back", Op::MatMul, &[bent, second])?;
        builder.set_runs(back, PytorchRun::SamplesAsRows { turned: false });
        let mean = Op::Reduce { reduction: ReductionKind::Mean, axes: vec![0], keep: false };
        let mean = builder.add("mean", mean, &[back])?;
        let last = builder.add("o", Op::Linear(Linear { out_features: 11, bias: true }), &[mean])?;
        let step = Step { optimizer: Optimizer::AdamW, zero_grad: ZeroGrad::Free, ..Step::published(Stage::Training) };
        let (network, cpu) = (builder.finish(last), Platform::for_name("cpu")?);
        let peak = Simulation::new(&network, step, &cpu).peak(64).allocated.0 as f64;
        assert!((peak / 5_448_136.0 - 1.0).abs() < 0.01, "{peak}");
        Ok(())
    }

    /// `f((einsum('bteh,ehd->bted', gelu(einsum('btd,edh->bteh', x, w1)), w) * softmax(g(x)).unsqueeze(-1)).sum(2).mean(1))` with 8 experts: the peak of PyTorch's allocator
    /// over four steps of SGD with momentum with 64 samples of 32 x 64, classes of 10, is 87,046,368 bytes (the profiler of PyTorch 2.15). Backward has five tensors of
    /// 16 MiB at once: gradients of experts lie apart, in the order of the second product.
    #[test]
    fn gradients_of_experts_lie_in_the_order_of_their_product() -> Result<()> {
        let mut builder = NetworkBuilder::new("experts", Shape::new([32, 64]));
        let gates = Op::Linear(Linear { out_features: 8, bias: true });
        let gates = builder.add("g", gates, &[builder.input()])?;
        let gates = builder.add("softmax", Op::Softmax { axis: 1 }, &[gates])?;
        let gates = builder.add("unsqueezed", Op::Reshape(Shape::new([32, 8, 1])), &[gates])?;
        let first = builder.add("w1", Op::Parameter(Shape::new([64, 2048])), &[])?;
        let apart = builder.add("apart", Op::MatMul, &[builder.input(), first])?;
        builder.set_runs(apart, PytorchRun::SamplesAsRows { turned: true });
        let experts = builder.add("experts", Op::Reshape(Shape::new([32, 8, 256])), &[apart])?;
        let bent = builder.add("bent", Op::Activation(Activation::Gelu), &[experts])?;
        let turned = builder.add("turned", Op::Transpose { order: vec![1, 0, 2] }, &[bent])?;
        let second = builder.add("w", Op::Parameter(Shape::new([8, 256, 64])), &[])?;
        let back = builder.add("back", Op::MatMul, &[turned, second])?;
        builder.set_runs(back, PytorchRun::SamplesAsRows { turned: false });
        let back = builder.add("turned_back", Op::Transpose { order: vec![1, 0, 2] }, &[back])?;
        let weighted = builder.add("weighted", Op::Binary(BinaryFunction::Mul), &[back, gates])?;
        let over = |reduction, axis| Op::Reduce { reduction, axes: vec![axis], keep: false };
        let sum = builder.add("sum", over(ReductionKind::Sum, 1), &[weighted])?;
        let mean = builder.add("mean", over(ReductionKind::Mean, 0), &[sum])?;
        let last = builder.add("f", Op::Linear(Linear { out_features: 10, bias: true }), &[mean])?;
        let step = Step { zero_grad: ZeroGrad::Free, ..Step::published(Stage::Training) };
        let (network, cpu) = (builder.finish(last), Platform::for_name("cpu")?);
        let peak = Simulation::new(&network, step, &cpu).peak(64).allocated.0 as f64;
        assert!((peak / 87_046_368.0 - 1.0).abs() < 0.01, "{peak}");
        Ok(())
    }

    /// `f(einsum('bteh,ehd->bted', gelu(i(x)).unflatten(-1, (8, 64)), w).sum(2).mean(1))`: the peak of PyTorch's allocator over four steps of SGD with momentum with 64 samples
    /// of 32 x 64, classes of 10, is 14,299,264 bytes (the profiler of PyTorch 2.15). The product reads the gradient of the sum as it is, one matrix for all experts.
    #[test]
    fn the_gradient_of_a_sum_over_experts_is_one_matrix_for_all() -> Result<()> {
        let mut builder = NetworkBuilder::new("experts", Shape::new([32, 64]));
        let linear = |out_features| Op::Linear(Linear { out_features, bias: true });
        let first = builder.add("i", linear(512), &[builder.input()])?;
        let bent = builder.add("bent", Op::Activation(Activation::Gelu), &[first])?;
        let experts = builder.add("experts", Op::Reshape(Shape::new([32, 8, 64])), &[bent])?;
        let turned = builder.add("turned", Op::Transpose { order: vec![1, 0, 2] }, &[experts])?;
        let weight = builder.add("w", Op::Parameter(Shape::new([8, 64, 64])), &[])?;
        let back = builder.add("back", Op::MatMul, &[turned, weight])?;
        builder.set_runs(back, PytorchRun::SamplesAsRows { turned: false });
        let back = builder.add("turned_back", Op::Transpose { order: vec![1, 0, 2] }, &[back])?;
        let over = |reduction, axis| Op::Reduce { reduction, axes: vec![axis], keep: false };
        let sum = builder.add("sum", over(ReductionKind::Sum, 1), &[back])?;
        let mean = builder.add("mean", over(ReductionKind::Mean, 0), &[sum])?;
        let last = builder.add("f", linear(10), &[mean])?;
        let step = Step { zero_grad: ZeroGrad::Free, ..Step::published(Stage::Training) };
        let (network, cpu) = (builder.finish(last), Platform::for_name("cpu")?);
        let peak = Simulation::new(&network, step, &cpu).peak(64).allocated.0 as f64;
        assert!((peak / 14_299_264.0 - 1.0).abs() < 0.01, "{peak}");
        Ok(())
    }
}
