//! Attention in one operation: what PyTorch's two kernels for it on processors take (aten/src/ATen/native/transformers/attention.cpp).

use super::amount::{Amount, product};
use super::layout::Layout;
use super::operation::Operation;
use super::rule::Move::{Drop, InputGradient, Keep, Output, StepDone, Take};
use super::rule::{Rule, Saved};
use crate::network::{Beside, Facts, Network, Node, Op};
use crate::workload::{Number, Step};

/// The rule of an attention.
pub(super) fn rule(rule: Rule, operation: Operation, facts: &Facts) -> Rule {
    match is_apart(operation.network, operation.node, operation.step, operation.tracked) {
        true => apart(rule, operation),
        false => flash(rule, operation, facts),
    }
}

/// Whether an attention is computed step by step: the kernel that never holds all scores cannot give a gradient to what is added to them, and asks
/// whether that is trained though no gradient is asked for (`check_attn_mask_shape` of sdp_utils_cpp.cpp).
pub(super) fn is_apart(network: &Network, node: &Node, step: Step, tracked: &[bool]) -> bool {
    let Some(added) = node.inputs.get(3).filter(|_| node.op == Op::Attention) else { return false };
    match (step.trains(), network.node(*added)) {
        (true, _) => tracked[added.index()],
        // What is computed without gradients is no parameter any more.
        (false, of) => matches!(of.op, Op::Parameter(_)) && of.trained != Some(0),
    }
}

/// `_scaled_dot_product_flash_attention_for_cpu`: it saves what it reads, its result and a logarithm for every query. Its gradient is copied where
/// it does not lie tokens of a sample by tokens (`grad_out.contiguous()` in FlashAttentionKernel.cpp).
fn flash(rule: Rule, operation: Operation, facts: &Facts) -> Rule {
    let sums = match facts.beside {
        Some(Beside::Sums(queries)) => Some(Keep(Amount::per_sample(product([Number::Fp32.bytes(), queries])))),
        None | Some(Beside::Statistics(_) | Beside::Indices | Beside::Draw) => None,
    };
    let read = (0..operation.node.inputs.len()).map(Saved::Input);
    let rule = rule.forward([Output]).forward(sums).saves(read.chain([Saved::Output]));
    let gradients = [0, 1, 2].map(InputGradient);
    match comes_by_samples(operation.result()) {
        true => rule.backward(gradients),
        false => rule.backward([Take(operation.output())]).backward(gradients).backward([Drop(0)]),
    }
}

/// Whether the gradient of a result that lies so comes sample by sample: as the result does where it is viewed as tokens, of which copies
/// are made else.
fn comes_by_samples(result: &Layout) -> bool {
    result.is_contiguous() || result.permuted(&[1, 0, 2]).is_contiguous()
}

/// `_scaled_dot_product_attention_math`: copies of queries, keys and values in one row of heads, and the weights, are saved; the mask is
/// added in place, rows of which nothing is left are looked for (`_safe_softmax`), and the mask's gradient is that of the scores, or a sum of it.
fn apart(rule: Rule, operation: Operation) -> Rule {
    let [query, key, value] = [0, 1, 2].map(|input| operation.input(input));
    let [scores, truths] = [operation.number(), 1].map(|bytes| scores(operation, bytes));
    let of_scores = match operation.input(3) == scores {
        true => [InputGradient(3), Drop(0), StepDone, InputGradient(0), InputGradient(1)].to_vec(),
        false => {
            [Take(scores), Drop(1), StepDone, InputGradient(3), InputGradient(0), InputGradient(1), Drop(0)].to_vec()
        }
    };
    let rule = rule.backward([InputGradient(2), Take(scores), StepDone]).backward(of_scores);
    rule.forward([Take(query), Take(key), Keep(query), Keep(key), Drop(0), Drop(0)]).forward([
        Take(scores),
        Keep(scores),
        Take(truths),
        Drop(0),
        Drop(0),
        Keep(value),
        Output,
    ])
}

/// So many bytes for every query beside every key.
fn scores(operation: Operation, bytes: u64) -> Amount {
    let [query, key] = [0, 1].map(|input| operation.network.input_of(operation.node, input));
    let sides = [query.channels(), query.image()[0], key.image()[0]].map(|side| side as u64);
    Amount::per_sample(product([bytes].into_iter().chain(sides)))
}
