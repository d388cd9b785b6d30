//! Shapes of matrix products and of recurrent layers, which consist of them.

use super::broadcast;
use crate::call::NodeCall;
use crate::number::{BatchNumber, TensorDims};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn outputs(call: &NodeCall, inputs: &[Option<TensorDims>]) -> Option<Vec<TensorDims>> {
    let input = |index: usize| inputs.get(index)?.as_deref();
    match call.node.op_type() {
        "MatMul" => Some(vec![matmul(input(0)?, input(1)?)?]),
        "Gemm" => {
            let (&[a, b], &[c, d]) = (input(0)?, input(1)?) else { return None };
            let rows = if call.flag("transA") { b } else { a };
            Some(vec![vec![rows, if call.flag("transB") { c } else { d }]])
        }
        "Einsum" => {
            let operands: Vec<&[BatchNumber]> = inputs.iter().map(Option::as_deref).collect::<Option<_>>()?;
            Some(vec![einsum(call.text("equation"), &operands)?])
        }
        _ => recurrent(call, input(0)?),
    }
}

/// As numpy's `matmul`: a vector gets an axis of length 1, which is removed from the result.
fn matmul(a: &[BatchNumber], b: &[BatchNumber]) -> Option<TensorDims> {
    let (rows, inner) = match a {
        [.., rows, inner] => (Some(*rows), *inner),
        [inner] => (None, *inner),
        [] => return None,
    };
    let (depth, columns) = match b {
        [.., depth, columns] => (*depth, Some(*columns)),
        [depth] => (*depth, None),
        [] => return None,
    };
    let stack = broadcast(&a[..a.len().saturating_sub(2)], &b[..b.len().saturating_sub(2)])?;
    (inner == depth).then(|| stack.into_iter().chain(rows).chain(columns).collect())
}

/// Letters name axes; the result has those after the arrow. Without an arrow it has the letters that occur once, in
/// alphabetical order.
fn einsum(equation: &str, operands: &[&[BatchNumber]]) -> Option<TensorDims> {
    let equation: String = equation.chars().filter(|letter| !letter.is_whitespace()).collect();
    let (terms, result) = match equation.split_once("->") {
        Some((terms, result)) => (terms, Some(result)),
        None => (equation.as_str(), None),
    };
    let (mut lengths, mut stack) = (BTreeMap::new(), Vec::new());
    for (term, dims) in terms.split(',').zip(operands) {
        let letters = term.chars().filter(|letter| *letter != '.').count();
        let ellipsis = dims.len().checked_sub(letters)?;
        let (before, behind) = term.split_once("...").unwrap_or((term, ""));
        let (front, back) = dims.split_at(before.chars().count().min(dims.len()));
        stack = broadcast(&stack, &back[..ellipsis.min(back.len())])?;
        lengths.extend(before.chars().zip(front.iter().copied()));
        lengths.extend(behind.chars().zip(back[ellipsis.min(back.len())..].iter().copied()));
    }
    let once = || lengths.keys().filter(|&&letter| terms.matches(letter).count() == 1).collect::<String>();
    let result = result.map_or_else(|| format!("...{}", once()), str::to_string);
    let (before, behind) = result.split_once("...").unwrap_or((&result, ""));
    let length = |letter: char| lengths.get(&letter).copied();
    let has_stack = result.contains("...");
    let stack = stack.into_iter().filter(|_| has_stack).map(Some);
    before.chars().map(length).chain(stack).chain(behind.chars().map(length)).collect()
}

pub(super) fn lengths(equation: &str, operands: &[TensorDims; 2]) -> Option<TensorDims> {
    let terms = equation.split_once("->").map_or(equation, |(terms, _)| terms);
    let letters: BTreeSet<char> = terms.chars().filter(|letter| letter.is_alphabetic()).collect();
    let all: String = letters.into_iter().collect();
    let stack = if terms.contains("...") { "..." } else { "" };
    einsum(&format!("{terms}->{stack}{all}"), &operands.each_ref().map(Vec::as_slice))
}

/// All states, the last one and (LSTM) the last cell; with `layout` 1 the batch comes first.
fn recurrent(call: &NodeCall, input: &[BatchNumber]) -> Option<Vec<TensorDims>> {
    let hidden = call.int("hidden_size")?.into();
    let directions = if call.text("direction") == "bidirectional" { 2 } else { 1 }.into();
    let &[a, b, _] = input else { return None };
    let (all, last) = match call.flag("layout") {
        true => (vec![a, b, directions, hidden], vec![a, directions, hidden]),
        false => (vec![a, directions, b, hidden], vec![directions, b, hidden]),
    };
    Some(vec![all, last.clone(), last])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::numbers;

    #[test]
    fn products_follow_numpy() {
        // numpy.matmul(ones(4, 196, 16), ones(1, 16, 64)).shape, and with a vector on either side.
        assert_eq!(matmul(&numbers(&[4, 196, 16]), &numbers(&[1, 16, 64])), Some(numbers(&[4, 196, 64])));
        assert_eq!(matmul(&numbers(&[16]), &numbers(&[3, 16, 5])), Some(numbers(&[3, 5])));
        assert_eq!(matmul(&numbers(&[3, 5, 16]), &numbers(&[16])), Some(numbers(&[3, 5])));
        assert_eq!(matmul(&numbers(&[3, 5]), &numbers(&[4, 6])), None);
    }

    #[test]
    fn einsums_follow_numpy() {
        // numpy.einsum(equation, ...).shape
        assert_eq!(
            einsum("bhid,bhjd->bhij", &[&numbers(&[2, 3, 4, 5]), &numbers(&[2, 3, 6, 5])]),
            Some(numbers(&[2, 3, 4, 6]))
        );
        assert_eq!(einsum("...ij, jk", &[&numbers(&[7, 2, 3]), &numbers(&[3, 4])]), Some(numbers(&[7, 2, 4])));
        assert_eq!(einsum("ij->ji", &[&numbers(&[2, 3])]), Some(numbers(&[3, 2])));
    }
}
