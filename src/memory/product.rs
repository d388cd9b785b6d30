//! Matrix products: what PyTorch copies so that a library can multiply it, and saves in place of the operand.
//!
//! aten/src/ATen/native/LinearAlgebra.cpp (`_matmul_impl`) and Linear.cpp: the axes in front are folded into one, which copies what does not lie
//! so; autograd then saves the copy.

use super::amount::Amount;
use super::operation::Operation;
use super::rule::Move::{Drop, InputGradient, Keep, Output, Take, WeightGradient};
use super::rule::{Move, Rule, Saved};
use crate::network::Facts;

/// A fully connected layer, which folds all axes but the last.
pub(super) fn linear(rule: Rule, operation: Operation, facts: &Facts) -> Rule {
    let copied = (!operation.layout(0).folds_before(1)).then(|| operation.input(0));
    reading(rule, operation, vec![copied])
        .backward([InputGradient(0)])
        .backward((0..facts.weights.len()).map(WeightGradient))
}

/// A product of stacks of matrices, which folds the stacks, stretched to the same first.
pub(super) fn matmul(rule: Rule, operation: Operation) -> Rule {
    let stack = |sizes: &[u64]| sizes[..sizes.len() - 2].to_vec();
    let stretched = stack(operation.result().sizes());
    let copied = (0..2).map(|index| {
        let layout = operation.layout(index);
        let same = stack(layout.sizes()) == stretched;
        let matrix: u64 = layout.sizes().iter().rev().take(2).product();
        let matrices: u64 = stretched[1..].iter().product();
        let whole = Amount::per_sample(operation.step.activation().saturating_mul(matrices).saturating_mul(matrix));
        (!same || !layout.folds_before(2)).then_some(whole)
    });
    let copied = copied.collect();
    reading(rule, operation, copied).backward([InputGradient(0), InputGradient(1)])
}

/// Copies of some of the operands, which stay where there is a backward, and the result.
fn reading(rule: Rule, operation: Operation, copied: Vec<Option<Amount>>) -> Rule {
    let copies: Vec<Amount> = copied.iter().flatten().copied().collect();
    let saves = copied.iter().enumerate().filter(|(_, copy)| copy.is_none()).map(|(index, _)| Saved::Input(index));
    let (made, gone): (Vec<Move>, Vec<Move>) = match operation.step.trains() {
        true => (copies.into_iter().map(Keep).collect(), Vec::new()),
        false => copies.into_iter().map(|copy| (Take(copy), Drop(0))).unzip(),
    };
    rule.forward(made).forward([Output]).forward(gone).saves(saves.collect::<Vec<_>>())
}
