//! Matrix products: the operands that PyTorch copies so that a library can multiply them, and saves in place of the
//! originals.
//!
//! aten/src/ATen/native/LinearAlgebra.cpp (`_matmul_impl`) and Linear.cpp: the leading axes are folded into one, which
//! copies operands whose layout does not permit that; autograd then saves the copy.

use super::operation::Operation;
use super::rule::Move::{CopyGradient, Drop, InputGradient, Keep, Output, Take};
use super::rule::{Move, Rule, Saved};
use crate::amount::Amount;
use perf4sight_network::Facts;

/// A fully connected layer, which folds all axes but the last.
pub(super) fn linear(rule: Rule, operation: Operation, facts: &Facts) -> Rule {
    let copied = operation.layout(0).folds_behind().is_none().then(|| operation.input(0));
    // The input is needed for the gradient of the weight only.
    let weight = operation.tracked(0).then_some(Saved::Cast(0));
    let as_rows = operation.result().folds_before(1);
    let turned = operation.gradient().is_some_and(|gradient| as_rows && !gradient.folds_before(1));
    reading(rule, operation, vec![(copied, operation.learns(0))])
        .saves(weight)
        .backward(turned.then_some(CopyGradient))
        .backward([InputGradient(0)])
        .backward(operation.learned(facts.weights.len()))
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
        let whole = Amount::per_sample(operation.number().saturating_mul(matrices).saturating_mul(matrix));
        let copied = (!same || !layout.folds_before(2)).then_some(whole);
        // Each is needed for the gradient of the other.
        (copied, operation.tracked(1 - index))
    });
    let copied = copied.collect();
    reading(rule, operation, copied).backward([InputGradient(0), InputGradient(1)])
}

/// Copies of some of the operands, which stay where backward needs them, and the result.
fn reading(rule: Rule, operation: Operation, operands: Vec<(Option<Amount>, bool)>) -> Rule {
    let needed = |needed: bool| needed && operation.step.trains();
    let saves = operands.iter().enumerate().filter(|(_, (copy, is_needed))| copy.is_none() && needed(*is_needed));
    let saves = saves.map(|(index, _)| Saved::Input(index));
    let copies = operands.iter().filter_map(|(copy, is_needed)| Some(((*copy)?, needed(*is_needed))));
    let (kept, borrowed): (Vec<_>, Vec<_>) = copies.partition(|(_, needed)| *needed);
    let made = kept.into_iter().map(|(copy, _)| Keep(copy)).chain(borrowed.iter().map(|(copy, _)| Take(*copy)));
    let gone: Vec<Move> = borrowed.iter().map(|_| Drop(0)).collect();
    rule.forward(made.collect::<Vec<_>>()).forward([Output]).forward(gone).saves(saves.collect::<Vec<_>>())
}
