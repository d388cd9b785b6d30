//! Einstein sums: batched matrix products between transpositions, of two tensors at a time from the left, as PyTorch runs them (`einsum` and `sumproduct_pair`
//! of aten/src/ATen/native/Linear.cpp).

use crate::batch::shape;
use crate::call::{CallResult, NodeCall, NodeMisfit};
use crate::number::product;
use crate::translate::{GraphTranslation, own_name, single};
use crate::value::{Feature, Value, WeightTensor};
use perf4sight_network::{BinaryFunction, Op, PytorchRun, Shape};
use std::collections::BTreeSet;

/// A tensor, with a size and a letter for every axis of its sample.
struct EinsumOperand<'c> {
    source: OperandSource<'c>,
    dims: Vec<usize>,
    letters: Vec<char>,
}

/// The origin of an operand. A weight is laid out once for all samples, so it is taken in the layout of the product; a
/// transposition as an operation would count once for each sample.
#[derive(Clone, Copy)]
enum OperandSource<'c> {
    Feature(Feature),
    Weight(&'c WeightTensor),
}

/// The letters of a product: of its batch axes, of its rows and columns, and of the axes it sums over.
struct LetterRoles {
    stack: Vec<char>,
    rows: Vec<char>,
    columns: Vec<char>,
    inner: Vec<char>,
}

impl EinsumOperand<'_> {
    /// How PyTorch multiplies by a weight that the product reads with its axes in this order; none if it is no weight.
    fn runs(&self, order: &[char]) -> Option<PytorchRun> {
        matches!(self.source, OperandSource::Weight(_))
            .then_some(PytorchRun::SamplesAsRows { turned: self.letters != order })
    }
}

pub(super) fn einsum(to: &mut GraphTranslation, call: &NodeCall) -> CallResult {
    let equation: String = call.text("equation").chars().filter(|letter| !letter.is_whitespace()).collect();
    let (terms, result) = equation.split_once("->").ok_or(NodeMisfit::Unsupported)?;
    let terms: Vec<Vec<char>> = terms.split(',').map(|term| term.chars().collect()).collect();
    if terms.len() < 2 {
        return Err(NodeMisfit::Unsupported);
    }
    let (batch, alone) = batch_letter(to, call, &terms)?;
    let result: Vec<char> = result.chars().collect();
    let place = result.iter().position(|&letter| letter == batch).ok_or(NodeMisfit::Unsupported)?;
    // If the batch shares its axis with rows, that axis is one of the sample too.
    let dropped = alone.then_some(batch);
    let operands = terms.iter().enumerate().map(|(place, term)| operand(to, call, place, term, dropped));
    let operands: Vec<EinsumOperand> = operands.collect::<Result<_, _>>()?;
    let wanted: Vec<char> = result.iter().copied().filter(|&letter| Some(letter) != dropped).collect();
    let Some(EinsumOperand { source: OperandSource::Feature(result), .. }) =
        contract_operands(to, call, operands, &wanted)?
    else {
        return Err(NodeMisfit::Unsupported);
    };
    let held = call.features().find_map(|feature| feature.batch).map(|batch| batch.moved_to(place));
    single(Feature { batch: held, ..result })
}

/// The operands multiplied from the left: what later ones or the result do not have is summed over as soon as it can be. The axes of the result come first.
fn contract_operands<'c>(
    to: &mut GraphTranslation,
    call: &NodeCall,
    operands: Vec<EinsumOperand<'c>>,
    result: &[char],
) -> Result<Option<EinsumOperand<'c>>, NodeMisfit> {
    let letters: Vec<Vec<char>> = operands.iter().map(|operand| operand.letters.clone()).collect();
    let mut operands = operands.into_iter().enumerate();
    let Some((_, mut product)) = operands.next() else { return Ok(None) };
    for (place, other) in operands {
        let later: BTreeSet<char> = letters[place + 1..].iter().flatten().copied().collect();
        let is_had = |letter: &char| product.letters.contains(letter) || other.letters.contains(letter);
        let summed = later.iter().copied().filter(|letter| !result.contains(letter));
        let wanted: Vec<char> = result.iter().copied().chain(summed).filter(is_had).collect();
        product = multiply_operands(to, call, [product, other], &wanted)?;
    }
    Ok(Some(product))
}

/// The letter of the batch, the same in all operands that have one, and whether it is the batch alone.
fn batch_letter(to: &GraphTranslation, call: &NodeCall, terms: &[Vec<char>]) -> Result<(char, bool), NodeMisfit> {
    let mut letters = Vec::new();
    for (place, term) in terms.iter().enumerate() {
        if let Value::Feature(Feature { id, batch: Some(batch), .. }) = call.input(place) {
            if term.len() != to.builder.shape(*id).rank() + usize::from(batch.is_alone()) {
                return Err(NodeMisfit::Unsupported);
            }
            letters.push((term[batch.axis], batch.is_alone()));
        }
    }
    letters.dedup();
    match letters.as_slice() {
        &[(letter, alone)] if letter.is_alphabetic() => Ok((letter, alone)),
        _ => Err(NodeMisfit::Unsupported),
    }
}

fn operand<'c>(
    to: &GraphTranslation,
    call: &'c NodeCall,
    place: usize,
    term: &[char],
    dropped: Option<char>,
) -> Result<EinsumOperand<'c>, NodeMisfit> {
    let letters: Vec<char> = term.iter().copied().filter(|&letter| Some(letter) != dropped).collect();
    let (source, dims) = match call.input(place) {
        Value::Feature(feature) => (OperandSource::Feature(*feature), to.builder.shape(feature.id).dims().to_vec()),
        Value::Weight(weight) if letters.len() == term.len() => {
            (OperandSource::Weight(weight), shape(&weight.dims)?.dims().to_vec())
        }
        _ => return Err(NodeMisfit::Unsupported),
    };
    let mut once = letters.clone();
    once.sort_unstable();
    once.dedup();
    let fits = dims.len() == letters.len() && once.len() == letters.len();
    if fits { Ok(EinsumOperand { source, dims, letters }) } else { Err(NodeMisfit::Unsupported) }
}

fn roles(a: &[char], b: &[char], wanted: &[char]) -> Result<LetterRoles, NodeMisfit> {
    let of = |letters: &[char], other: bool, result: bool, others: &[char]| -> Vec<char> {
        let is = |letter: &&char| others.contains(letter) == other && wanted.contains(letter) == result;
        letters.iter().filter(is).copied().collect()
    };
    // A letter of one operand only that the result lacks would be a separate sum.
    if !of(a, false, false, b).is_empty() || !of(b, false, false, a).is_empty() {
        return Err(NodeMisfit::Unsupported);
    }
    Ok(LetterRoles {
        stack: of(a, true, true, b),
        rows: of(a, false, true, b),
        columns: of(b, false, true, a),
        inner: of(a, true, false, b),
    })
}

/// Whether the second operand comes first in a product, where the result has all of its axes before those of the first (`swap_lo_ro`).
fn is_swapped(a: &EinsumOperand, b: &EinsumOperand, wanted: &[char]) -> Result<bool, NodeMisfit> {
    let LetterRoles { rows, columns, .. } = roles(&a.letters, &b.letters, wanted)?;
    let place = |letter: &char| wanted.iter().position(|other| other == letter);
    let (last, first) = (columns.iter().filter_map(place).max(), rows.iter().filter_map(place).min());
    let are_samples = [a.source, b.source].iter().all(|source| matches!(source, OperandSource::Feature(_)));
    Ok(are_samples && last.zip(first).is_some_and(|(last, first)| last < first))
}

/// Two operands multiplied, with the axes `wanted` in this order.
fn multiply_operands<'c>(
    to: &mut GraphTranslation,
    call: &NodeCall,
    [a, b]: [EinsumOperand<'c>; 2],
    wanted: &[char],
) -> Result<EinsumOperand<'c>, NodeMisfit> {
    // Once for all samples, not for each of them.
    if [a.source, b.source].iter().all(|source| matches!(source, OperandSource::Weight(_))) {
        return Err(NodeMisfit::Unsupported);
    }
    let [a, b] = if is_swapped(&a, &b, wanted)? { [b, a] } else { [a, b] };
    let LetterRoles { stack, rows, columns, inner } = roles(&a.letters, &b.letters, wanted)?;
    let sizes = |letters: &[char]| -> Vec<usize> {
        let size = |letter: &char| {
            let of = |operand: &EinsumOperand| {
                let axis = operand.letters.iter().position(|other| other == letter)?;
                Some(operand.dims[axis])
            };
            of(&a).into_iter().chain(of(&b)).max().unwrap_or(1)
        };
        letters.iter().map(size).collect()
    };
    let dims = sizes(wanted);
    if inner.is_empty() {
        let [left, right] = [beside(to, call, &a, wanted)?, beside(to, call, &b, wanted)?];
        let node = to.add_like(own_name(call), Op::Binary(BinaryFunction::Mul), &[left, right])?;
        return Ok(EinsumOperand { source: OperandSource::Feature(node), dims, letters: wanted.to_vec() });
    }
    let whole = |letters: &[char]| sizes(letters).iter().product::<usize>();
    let outer = sizes(&stack);
    let [height, width, depth] = [&rows, &columns, &inner].map(|letters| whole(letters));
    let free = [sizes(&rows), sizes(&columns)].concat();
    let [left, right] =
        [[&rows, &inner], [&inner, &columns]].map(|[first, second]| [stack.as_slice(), first, second].concat());
    let runs = [a.runs(&left), b.runs(&right)].into_iter().flatten().next();
    let left = matrices(to, call, &a, &left, [outer.as_slice(), &[height, depth]].concat())?;
    let right = matrices(to, call, &b, &right, [outer.as_slice(), &[depth, width]].concat())?;
    let node = to.add_like(own_name(call), Op::MatMul, &[left, right])?;
    runs.into_iter().for_each(|runs| to.builder.set_runs(node.id, runs));
    let node = reshape_to(to, call, node, [outer, free].concat())?;
    let node = transpose_to(to, call, node, &[stack.as_slice(), &rows, &columns].concat(), wanted)?;
    Ok(EinsumOperand { source: OperandSource::Feature(node), dims, letters: wanted.to_vec() })
}

/// An operand with its axes in this order, and axes of length 1 for those that it lacks: without an axis to sum over PyTorch multiplies element by element.
fn beside(
    to: &mut GraphTranslation,
    call: &NodeCall,
    operand: &EinsumOperand,
    wanted: &[char],
) -> Result<Feature, NodeMisfit> {
    let place = |letter: &char| operand.letters.iter().position(|own| own == letter);
    let order: Vec<char> = wanted.iter().copied().filter(|letter| place(letter).is_some()).collect();
    let dims = wanted.iter().map(|letter| place(letter).map_or(1, |axis| operand.dims[axis])).collect();
    matrices(to, call, operand, &order, dims)
}

/// An operand with its axes in this order and its matrices in the last two.
fn matrices(
    to: &mut GraphTranslation,
    call: &NodeCall,
    operand: &EinsumOperand,
    order: &[char],
    dims: Vec<usize>,
) -> Result<Feature, NodeMisfit> {
    match operand.source {
        OperandSource::Feature(feature) => {
            let node = transpose_to(to, call, feature, &operand.letters, order)?;
            reshape_to(to, call, node, dims)
        }
        OperandSource::Weight(weight) => {
            if product(&weight.dims) != product(&dims) {
                return Err(NodeMisfit::Unsupported);
            }
            Ok(Feature { id: to.parameter_node(call, weight, Shape::new(dims))?, batch: None, guessed: false })
        }
    }
}

fn transpose_to(
    to: &mut GraphTranslation,
    call: &NodeCall,
    node: Feature,
    from: &[char],
    into: &[char],
) -> Result<Feature, NodeMisfit> {
    let order = into.iter().map(|letter| from.iter().position(|other| other == letter));
    let order: Vec<usize> = order
        .collect::<Option<_>>()
        .filter(|order: &Vec<usize>| order.len() == from.len())
        .ok_or(NodeMisfit::Unsupported)?;
    if order.is_sorted() {
        return Ok(node);
    }
    to.add_like(&format!("{}_turned", own_name(call)), Op::Transpose { order }, &[node])
}

fn reshape_to(
    to: &mut GraphTranslation,
    call: &NodeCall,
    node: Feature,
    dims: Vec<usize>,
) -> Result<Feature, NodeMisfit> {
    let shape = Shape::new(dims);
    if *to.builder.shape(node.id) == shape {
        return Ok(node);
    }
    to.add_like(&format!("{}_shaped", own_name(call)), Op::Reshape(shape), &[node])
}

#[cfg(test)]
mod tests {
    use crate::tests::{Draft, Is, Named, text};
    use perf4sight_network::PytorchRun;

    /// The profiler of PyTorch 2.15 shows a product element by element and one `bmm` for the first, two of them for the second: operands are multiplied from the left.
    #[test]
    fn three_operands_are_multiplied_two_by_two() {
        let with_two = |equation: &str, weights: [[i64; 2]; 2]| {
            let draft = Draft::opset(17).input("x", [Named("batch"), Is(3), Is(6)]);
            let draft = draft.weight("u", weights[0]).weight("v", weights[1]);
            let draft = draft.node("Einsum", &["x", "u", "v"], "y", vec![text("equation", equation)]);
            let network = draft.output("y").load().network;
            let kinds: Vec<&str> = network.nodes().iter().map(|node| node.op.kind()).collect();
            ["matmul", "mul"].map(|kind| kinds.iter().filter(|one| **one == kind).count())
        };
        assert_eq!(with_two("btd,rd,rd->btr", [[4, 6], [4, 6]]), [1, 1]);
        assert_eq!(with_two("btd,de,ef->btf", [[6, 5], [5, 4]]), [2, 0]);
    }

    /// The `bmm` that PyTorch 2.15 dispatches: of [b, 7, 5] with [b, 5, 3] for the first two, of [b, 3, 5] with [b, 5, 7] for the others.
    #[test]
    fn operands_change_places_where_the_result_has_the_second_one_first() {
        for (equation, [height, width]) in
            [("bts,bcs->bct", [7, 3]), ("bst,bsc->bct", [7, 3]), ("bts,bcs->btc", [3, 7]), ("bts,bsc->btc", [3, 7])]
        {
            let size = |letter: char| match letter {
                'b' => Named("batch"),
                't' => Is(3),
                's' => Is(5),
                _ => Is(7),
            };
            let (terms, _) = equation.split_once("->").unwrap();
            let (first, second) = terms.split_once(',').unwrap();
            let dims = |letters: &str| letters.chars().map(size).collect::<Vec<_>>();
            let draft = Draft::opset(17).input("x", dims(first)).input("y", dims(second));
            let draft = draft.node("Einsum", &["x", "y"], "z", vec![text("equation", equation)]);
            let network = draft.output("z").load().network;
            let product = network.nodes().iter().find(|node| node.op.kind() == "matmul").unwrap();
            assert_eq!(product.shape.dims(), [height, width], "{equation}");
        }
    }

    /// `torch.einsum` in PyTorch 2.15 (`sumproduct_pair` of Linear.cpp): the profiler shows a clone of the weight [4, 6, 8] and one `bmm` of [1, 2 * 3, 6] with [1, 6, 32] for the
    /// first, a `bmm` of [4, 2 * 3, 6] with [4, 6, 8] without a clone for the second.
    #[test]
    fn a_weight_is_read_once_for_all_samples() {
        for (equation, turned, macs) in [("btd,edf->ebtf", true, 3 * 6 * 32), ("bted,edf->btef", false, 4 * 3 * 6 * 8)]
        {
            let dims = match turned {
                true => vec![Named("batch"), Is(3), Is(6)],
                false => vec![Named("batch"), Is(3), Is(4), Is(6)],
            };
            let draft = Draft::opset(17).input("x", dims).weight("w", [4, 6, 8]);
            let network =
                draft.node("Einsum", &["x", "w"], "y", vec![text("equation", equation)]).output("y").load().network;
            let runs: Vec<PytorchRun> =
                network.nodes().iter().map(|node| node.runs).filter(|runs| *runs != PytorchRun::AsWritten).collect();
            assert_eq!(runs, [PytorchRun::SamplesAsRows { turned }], "{equation}");
            assert_eq!(network.macs(), macs, "{equation}");
        }
    }
}
