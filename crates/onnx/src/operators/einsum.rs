//! Einstein sums: batched matrix products between transpositions, of two tensors at a time from the left, as PyTorch runs them (`einsum` and `sumproduct_pair`
//! of aten/src/ATen/native/Linear.cpp).

use crate::batch::shape;
use crate::call::{Call, Misfit, Outcome};
use crate::number::product;
use crate::translate::{Translation, own_name, single};
use crate::value::{Feature, Value, Weight};
use perf4sight_network::{Binary, Op, Runs, Shape};
use std::collections::BTreeSet;

/// A tensor, with a size and a letter for every axis of its sample.
struct Operand<'c> {
    source: Source<'c>,
    dims: Vec<usize>,
    letters: Vec<char>,
}

/// The origin of an operand. A weight is laid out once for all samples, so it is taken in the layout of the product; a
/// transposition as an operation would count once for each sample.
#[derive(Clone, Copy)]
enum Source<'c> {
    Feature(Feature),
    Weight(&'c Weight),
}

/// The letters of a product: of its batch axes, of its rows and columns, and of the axes it sums over.
struct Roles {
    stack: Vec<char>,
    rows: Vec<char>,
    columns: Vec<char>,
    inner: Vec<char>,
}

impl Operand<'_> {
    /// How PyTorch multiplies by a weight that the product reads with its axes in this order; none if it is no weight.
    fn runs(&self, order: &[char]) -> Option<Runs> {
        matches!(self.source, Source::Weight(_)).then_some(Runs::SamplesAsRows { turned: self.letters != order })
    }
}

pub(super) fn einsum(to: &mut Translation, call: &Call) -> Outcome {
    let equation: String = call.text("equation").chars().filter(|letter| !letter.is_whitespace()).collect();
    let (terms, result) = equation.split_once("->").ok_or(Misfit::Unsupported)?;
    let terms: Vec<Vec<char>> = terms.split(',').map(|term| term.chars().collect()).collect();
    if terms.len() < 2 {
        return Err(Misfit::Unsupported);
    }
    let (batch, alone) = batch_letter(to, call, &terms)?;
    let result: Vec<char> = result.chars().collect();
    let place = result.iter().position(|&letter| letter == batch).ok_or(Misfit::Unsupported)?;
    // If the batch shares its axis with rows, that axis is one of the sample too.
    let dropped = alone.then_some(batch);
    let operands = terms.iter().enumerate().map(|(place, term)| operand(to, call, place, term, dropped));
    let operands: Vec<Operand> = operands.collect::<Result<_, _>>()?;
    let wanted: Vec<char> = result.iter().copied().filter(|&letter| Some(letter) != dropped).collect();
    let Some(Operand { source: Source::Feature(result), .. }) = contracted(to, call, operands, &wanted)? else {
        return Err(Misfit::Unsupported);
    };
    let held = call.features().find_map(|feature| feature.batch).map(|batch| batch.at(place));
    single(Feature { batch: held, ..result })
}

/// The operands multiplied from the left: what later ones or the result do not have is summed over as soon as it can be. The axes of the result come first.
fn contracted<'c>(
    to: &mut Translation,
    call: &Call,
    operands: Vec<Operand<'c>>,
    result: &[char],
) -> Result<Option<Operand<'c>>, Misfit> {
    let letters: Vec<Vec<char>> = operands.iter().map(|operand| operand.letters.clone()).collect();
    let mut operands = operands.into_iter().enumerate();
    let Some((_, mut product)) = operands.next() else { return Ok(None) };
    for (place, other) in operands {
        let later: BTreeSet<char> = letters[place + 1..].iter().flatten().copied().collect();
        let is_had = |letter: &char| product.letters.contains(letter) || other.letters.contains(letter);
        let summed = later.iter().copied().filter(|letter| !result.contains(letter));
        let wanted: Vec<char> = result.iter().copied().chain(summed).filter(is_had).collect();
        product = multiplied(to, call, [product, other], &wanted)?;
    }
    Ok(Some(product))
}

/// The letter of the batch, the same in all operands that have one, and whether it is the batch alone.
fn batch_letter(to: &Translation, call: &Call, terms: &[Vec<char>]) -> Result<(char, bool), Misfit> {
    let mut letters = Vec::new();
    for (place, term) in terms.iter().enumerate() {
        if let Value::Feature(Feature { id, batch: Some(batch), .. }) = call.input(place) {
            if term.len() != to.builder.shape(*id).rank() + usize::from(batch.alone()) {
                return Err(Misfit::Unsupported);
            }
            letters.push((term[batch.axis], batch.alone()));
        }
    }
    letters.dedup();
    match letters.as_slice() {
        &[(letter, alone)] if letter.is_alphabetic() => Ok((letter, alone)),
        _ => Err(Misfit::Unsupported),
    }
}

fn operand<'c>(
    to: &Translation,
    call: &'c Call,
    place: usize,
    term: &[char],
    dropped: Option<char>,
) -> Result<Operand<'c>, Misfit> {
    let letters: Vec<char> = term.iter().copied().filter(|&letter| Some(letter) != dropped).collect();
    let (source, dims) = match call.input(place) {
        Value::Feature(feature) => (Source::Feature(*feature), to.builder.shape(feature.id).dims().to_vec()),
        Value::Weight(weight) if letters.len() == term.len() => {
            (Source::Weight(weight), shape(&weight.dims)?.dims().to_vec())
        }
        _ => return Err(Misfit::Unsupported),
    };
    let mut once = letters.clone();
    once.sort_unstable();
    once.dedup();
    let fits = dims.len() == letters.len() && once.len() == letters.len();
    if fits { Ok(Operand { source, dims, letters }) } else { Err(Misfit::Unsupported) }
}

fn roles(a: &[char], b: &[char], wanted: &[char]) -> Result<Roles, Misfit> {
    let of = |letters: &[char], other: bool, result: bool, others: &[char]| -> Vec<char> {
        let is = |letter: &&char| others.contains(letter) == other && wanted.contains(letter) == result;
        letters.iter().filter(is).copied().collect()
    };
    // A letter of one operand only that the result lacks would be a separate sum.
    if !of(a, false, false, b).is_empty() || !of(b, false, false, a).is_empty() {
        return Err(Misfit::Unsupported);
    }
    Ok(Roles {
        stack: of(a, true, true, b),
        rows: of(a, false, true, b),
        columns: of(b, false, true, a),
        inner: of(a, true, false, b),
    })
}

/// Whether the second operand comes first in a product, where the result has all of its axes before those of the first (`swap_lo_ro`).
fn swaps(a: &Operand, b: &Operand, wanted: &[char]) -> Result<bool, Misfit> {
    let Roles { rows, columns, .. } = roles(&a.letters, &b.letters, wanted)?;
    let place = |letter: &char| wanted.iter().position(|other| other == letter);
    let (last, first) = (columns.iter().filter_map(place).max(), rows.iter().filter_map(place).min());
    let are_samples = [a.source, b.source].iter().all(|source| matches!(source, Source::Feature(_)));
    Ok(are_samples && last.zip(first).is_some_and(|(last, first)| last < first))
}

/// Two operands multiplied, with the axes `wanted` in this order.
fn multiplied<'c>(
    to: &mut Translation,
    call: &Call,
    [a, b]: [Operand<'c>; 2],
    wanted: &[char],
) -> Result<Operand<'c>, Misfit> {
    // Once for all samples, not for each of them.
    if [a.source, b.source].iter().all(|source| matches!(source, Source::Weight(_))) {
        return Err(Misfit::Unsupported);
    }
    let [a, b] = if swaps(&a, &b, wanted)? { [b, a] } else { [a, b] };
    let Roles { stack, rows, columns, inner } = roles(&a.letters, &b.letters, wanted)?;
    let sizes = |letters: &[char]| -> Vec<usize> {
        let size = |letter: &char| {
            let of = |operand: &Operand| {
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
        let node = to.add_like(own_name(call), Op::Binary(Binary::Mul), &[left, right])?;
        return Ok(Operand { source: Source::Feature(node), dims, letters: wanted.to_vec() });
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
    let node = shaped(to, call, node, [outer, free].concat())?;
    let node = turned(to, call, node, &[stack.as_slice(), &rows, &columns].concat(), wanted)?;
    Ok(Operand { source: Source::Feature(node), dims, letters: wanted.to_vec() })
}

/// An operand with its axes in this order, and axes of length 1 for those that it lacks: without an axis to sum over PyTorch multiplies element by element.
fn beside(to: &mut Translation, call: &Call, operand: &Operand, wanted: &[char]) -> Result<Feature, Misfit> {
    let place = |letter: &char| operand.letters.iter().position(|own| own == letter);
    let order: Vec<char> = wanted.iter().copied().filter(|letter| place(letter).is_some()).collect();
    let dims = wanted.iter().map(|letter| place(letter).map_or(1, |axis| operand.dims[axis])).collect();
    matrices(to, call, operand, &order, dims)
}

/// An operand with its axes in this order and its matrices in the last two.
fn matrices(
    to: &mut Translation,
    call: &Call,
    operand: &Operand,
    order: &[char],
    dims: Vec<usize>,
) -> Result<Feature, Misfit> {
    match operand.source {
        Source::Feature(feature) => {
            let node = turned(to, call, feature, &operand.letters, order)?;
            shaped(to, call, node, dims)
        }
        Source::Weight(weight) => {
            if product(&weight.dims) != product(&dims) {
                return Err(Misfit::Unsupported);
            }
            Ok(Feature { id: to.leaf(call, weight, Shape::new(dims))?, batch: None, guessed: false })
        }
    }
}

fn turned(to: &mut Translation, call: &Call, node: Feature, from: &[char], into: &[char]) -> Result<Feature, Misfit> {
    let order = into.iter().map(|letter| from.iter().position(|other| other == letter));
    let order: Vec<usize> = order
        .collect::<Option<_>>()
        .filter(|order: &Vec<usize>| order.len() == from.len())
        .ok_or(Misfit::Unsupported)?;
    if order.is_sorted() {
        return Ok(node);
    }
    to.add_like(&format!("{}_turned", own_name(call)), Op::Transpose { order }, &[node])
}

fn shaped(to: &mut Translation, call: &Call, node: Feature, dims: Vec<usize>) -> Result<Feature, Misfit> {
    let shape = Shape::new(dims);
    if *to.builder.shape(node.id) == shape {
        return Ok(node);
    }
    to.add_like(&format!("{}_shaped", own_name(call)), Op::Reshape(shape), &[node])
}

#[cfg(test)]
mod tests {
    use crate::tests::{Draft, Is, Named, text};
    use perf4sight_network::Runs;

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
            let runs: Vec<Runs> =
                network.nodes().iter().map(|node| node.runs).filter(|runs| *runs != Runs::AsWritten).collect();
            assert_eq!(runs, [Runs::SamplesAsRows { turned }], "{equation}");
            assert_eq!(network.macs(), macs, "{equation}");
        }
    }
}
