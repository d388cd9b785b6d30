//! Attention in one operation: the memory of PyTorch's two kernels for it on processors
//! (aten/src/ATen/native/transformers/attention.cpp).

use super::operation::StepOperation;
use super::rule::RuleAction::{Drop, InputGradient, Keep, Output, StepDone, Take};
use super::rule::{MemoryRule, SavedTensor};
use crate::amount::{BatchBytes, product};
use crate::layout::{TensorLayout, uses_math_kernel};
use perf4sight_network::{AuxiliaryResult, Op, OperationFacts};
use perf4sight_step::workload::NumberFormat;

pub(super) fn rule(rule: MemoryRule, operation: StepOperation, facts: &OperationFacts) -> MemoryRule {
    let read = [0, 1, 2].map(|input| operation.layout(input));
    match uses_math_kernel(operation.network, operation.node, (operation.step, operation.tracked), &read) {
        true => math(rule, operation),
        false => flash(rule, operation, facts),
    }
}

/// `_scaled_dot_product_flash_attention_for_cpu`: it saves its inputs, its result and a logarithm for every query. Its
/// gradient is copied where its layout is not token by token within a sample (`grad_out.contiguous()` in
/// FlashAttentionKernel.cpp).
fn flash(rule: MemoryRule, operation: StepOperation, facts: &OperationFacts) -> MemoryRule {
    let sums = match facts.auxiliary {
        Some(AuxiliaryResult::Sums(queries)) => {
            Some(Keep(BatchBytes::per_sample(product([NumberFormat::Fp32.bytes(), queries]))))
        }
        None
        | Some(
            AuxiliaryResult::Statistics(_)
            | AuxiliaryResult::Indices
            | AuxiliaryResult::Draw
            | AuxiliaryResult::Mask
            | AuxiliaryResult::States,
        ) => None,
    };
    let read = (0..operation.node.inputs.len()).map(SavedTensor::Input);
    let [forward, backward] =
        blocks(operation).map(|blocks| blocks.into_iter().flat_map(|amount| [Take(amount), Drop(0)]));
    let rule = rule.forward([Output]).forward(sums).forward(forward).saves(read.chain([SavedTensor::Output]));
    let gradients = [0, 1, 2].map(InputGradient).into_iter().chain(backward);
    match comes_by_samples(operation) || !operation.within_kernels {
        true => rule.backward(gradients),
        false => rule.backward([Take(operation.output())]).backward(gradients).backward([Drop(0)]),
    }
}

/// The workspace of every thread of a processor, forward and backward: scores of a block of queries and one of keys,
/// with their part of the result and of its sums (`buf` of `cpu_flash_attention` and `cpu_flash_attention_backward`,
/// which define the block sizes).
fn blocks(operation: StepOperation) -> [Option<BatchBytes>; 2] {
    let threads = operation.platform.threads().filter(|_| operation.within_kernels);
    let Some(threads) = threads else { return [None; 2] };
    let [query, key] = [0, 1].map(|input| operation.network.input_of(operation.node, input));
    let [queries, keys] = [query, key].map(|tensor| tensor.image()[0] as u64);
    let features = query.image()[1] as u64;
    let block = match queries {
        768.. => 256,
        192.. => 64,
        _ => 32,
    };
    let (rows, columns) = (block.min(queries), keys.min(512));
    let scores = product([rows, columns]);
    // Products are of numbers as they are read.
    let [again, twice] = if operation.is_low() { [1, 2] } else { [0, 0] }.map(|times| times * operation.number());
    let single = NumberFormat::Fp32.bytes();
    let forward = single * (scores + rows * (2 + features)) + again * scores;
    let backward = single * (2 * scores + rows) + twice * scores;
    [forward, backward].map(|bytes| Some(BatchBytes::constant(threads.saturating_mul(bytes))))
}

/// Whether the gradient of the result is ordered by samples, then tokens: its readers expect that order, and it has
/// that layout or is copied to it. With one head any contiguous gradient is.
fn comes_by_samples(operation: StepOperation) -> bool {
    if operation.result().sizes().get(1) == Some(&1) {
        return operation.gradients[operation.id.index()].as_ref().is_none_or(TensorLayout::is_contiguous);
    }
    let behind = operation.network.nodes()[operation.id.index() + 1..].iter();
    let mut readers = behind.filter(|node| node.inputs.contains(&operation.id));
    let tokens = [1, 0, 2];
    let result = operation.result();
    readers.all(|node| matches!(&node.op, Op::Transpose { order } if *order == tokens))
        && (result.is_contiguous() || result.permute(&tokens).is_contiguous())
}

/// `_scaled_dot_product_attention_math`: it saves copies of queries and keys with all heads in one row, copies of
/// values where their layout differs from that, and the weights. The mask is added in place, fully masked rows are
/// searched for (`_safe_softmax`), and the mask's gradient is that of the scores, or a sum of it.
fn math(rule: MemoryRule, operation: StepOperation) -> MemoryRule {
    let [query, key, value] = [0, 1, 2].map(|input| operation.input(input));
    let [scores, truths] = [operation.number(), 1].map(|bytes| scores(operation, bytes));
    let is_viewed = operation.layout(2).folds_before(2);
    let has_mask = operation.node.inputs.len() > 3;
    let of_scores = match has_mask && operation.input(3) == scores {
        true => [InputGradient(3), Drop(0), StepDone, InputGradient(0), InputGradient(1)].to_vec(),
        false => {
            let of_mask = has_mask.then_some(InputGradient(3));
            let of_both = [InputGradient(0), InputGradient(1), Drop(0)];
            [Take(scores), Drop(1), StepDone].into_iter().chain(of_mask).chain(of_both).collect()
        }
    };
    rule.forward([Take(query), Take(key), Keep(query), Keep(key), Drop(0), Drop(0)])
        .forward([Take(scores), Keep(scores), Take(truths), Drop(0), Drop(0)])
        .forward((!is_viewed).then_some(Keep(value)))
        .forward([Output])
        .saves(is_viewed.then_some(SavedTensor::Input(2)))
        .backward([InputGradient(2), Take(scores), StepDone])
        .backward(of_scores)
}

/// So many bytes for every pair of query and key.
fn scores(operation: StepOperation, bytes: u64) -> BatchBytes {
    let [query, key] = [0, 1].map(|input| operation.network.input_of(operation.node, input));
    let sides = [query.channels(), query.image()[0], key.image()[0]].map(|side| side as u64);
    BatchBytes::per_sample(product([bytes].into_iter().chain(sides)))
}

#[cfg(test)]
mod tests {
    use crate::Simulation;
    use perf4sight_base::error::Result;
    use perf4sight_network::{Linear, NetworkBuilder, NodeId, Op, Shape};
    use perf4sight_platform::Platform;
    use perf4sight_step::workload::{Optimizer, Stage, Step, ZeroGrad};

    /// `scaled_dot_product_attention(x[:, None], x[:, None], x[:, None]).squeeze(1)` between two linear layers: PyTorch 2.15's profiler counted
    /// 1,823,896 bytes of three steps with AdamW on a processor. A copy of the gradient would be 262,144 more.
    #[test]
    fn the_gradient_of_one_head_is_not_copied() -> Result<()> {
        let mut builder = NetworkBuilder::new("one", Shape::new([128, 32]));
        let layer = |width| Op::Linear(Linear { out_features: width, bias: true });
        let tokens = builder.add("tokens", layer(64), &[builder.input()])?;
        let heads: Vec<NodeId> = (0..3)
            .map(|place| builder.add(format!("head_{place}"), Op::Reshape(Shape::new([1, 128, 64])), &[tokens]))
            .collect::<Result<_>>()?;
        let attended = builder.add("attended", Op::Attention, &heads)?;
        let joined = builder.add("joined", Op::Reshape(Shape::new([128, 64])), &[attended])?;
        let last = builder.add("last", layer(16), &[joined])?;
        let network = builder.finish(last);
        let step = Step { optimizer: Optimizer::AdamW, zero_grad: ZeroGrad::Free, ..Step::published(Stage::Training) };
        let peak = Simulation::new(&network, step, &Platform::for_name("cpu")?).peak(8).allocated.0;
        assert!(peak.abs_diff(1_823_896) < 1000, "{peak}");
        Ok(())
    }
}
