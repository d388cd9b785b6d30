//! What else is done to rows: products across them (Tolstikhin et al. 2021, arXiv:2105.01601), gates (Shazeer 2020, arXiv:2002.05202),
//! normalisation written out, masks, tables that rows are picked from.

use super::lesson::Lesson;
use crate::{Activation, Affine, Binary, Op, Pick, Reduction, Shape};
use perf4sight_base::error::Result;

pub(super) fn tokens(lesson: &mut Lesson) -> Result<()> {
    for [side, width] in [[8, 96], [16, 448], [32, 640]] {
        lesson.rows(side, width)?;
        mixed(lesson)?;
        gated(lesson)?.end_rows()?;
    }
    lesson.rows(8, 128)?;
    written_out(lesson)?.end_rows()?;
    lesson.rows(16, 256)?;
    masked(lesson)?.end_rows()?;
    picked(lesson)
}

/// A perceptron across the rows.
fn mixed(lesson: &mut Lesson) -> Result<&mut Lesson> {
    let (before, rows) = (lesson.at(), lesson.shape().dims()[0]);
    lesson.layer_norm()?.transpose(&[1, 0])?.linear(rows.min(384))?.activation(Activation::Gelu)?;
    lesson.linear(rows)?.transpose(&[1, 0])?.with(Binary::Add, before)
}

/// A perceptron whose hidden values are multiplied with gates, behind a norm without a mean.
fn gated(lesson: &mut Lesson) -> Result<&mut Lesson> {
    let (before, width) = (lesson.at(), lesson.shape().features());
    let normed = lesson.then(Op::LayerNorm { axis: 1, affine: Affine::Scale })?.at();
    let gate = lesson.linear(8 * width / 3)?.activation(Activation::Silu)?.at();
    lesson.back_to(normed).linear(8 * width / 3)?.with(Binary::Mul, gate)?.linear(width)?.with(Binary::Add, before)
}

/// Normalisation and functions as the operations they are made of.
fn written_out(lesson: &mut Lesson) -> Result<&mut Lesson> {
    let (before, width) = (lesson.at(), lesson.shape().features());
    lesson.by_constant(Binary::Pow)?;
    lesson.then(Op::Reduce { reduction: Reduction::Mean, axes: vec![1], keep: true })?;
    let scale = lesson.by_constant(Binary::Add)?.activation(Activation::Sqrt)?.at();
    lesson.back_to(before).with(Binary::Div, scale)?.with_parameter(Binary::Mul, &[1, width])?;
    let normed = lesson.at();
    let bell = lesson.activation(Activation::Erf)?.by_constant(Binary::Add)?.with(Binary::Mul, normed)?.at();
    lesson.activation(Activation::Tanh)?.activation(Activation::Exp)?;
    lesson.then(Op::Reduce { reduction: Reduction::Max, axes: vec![1], keep: true })?;
    let most = lesson.at();
    lesson.back_to(bell).with(Binary::Sub, most)?;
    lesson.then(Op::Reduce { reduction: Reduction::L2, axes: vec![1], keep: true })?;
    let length = lesson.at();
    lesson.back_to(bell).then(Op::Reduce { reduction: Reduction::Sum, axes: vec![0], keep: true })?;
    let sum = lesson.with(Binary::Mul, length)?.at();
    lesson.back_to(bell).with(Binary::Max, sum)
}

/// Scores between rows, of which half are taken out.
fn masked(lesson: &mut Lesson) -> Result<&mut Lesson> {
    let [rows, width] = *lesson.shape().dims() else { unreachable!("rows have two axes") };
    let before = lesson.at();
    let keys = lesson.linear(width)?.transpose(&[1, 0])?.at();
    let scores = lesson.join(Op::MatMul, &[before, keys])?.by_constant(Binary::Div)?.at();
    let mask = lesson.by_constant(Binary::Greater)?.at();
    let nothing = lesson.parameter(&[1, 1])?;
    let nothing = lesson.back_to(nothing).then(Op::Expand(Shape::new([rows, rows])))?.at();
    lesson.join(Op::Where, &[mask, scores, nothing])?.then(Op::Softmax { axis: 1 })?;
    let weights = lesson.at();
    lesson.join(Op::MatMul, &[weights, before])
}

/// Rows of a table, as words are looked up.
fn picked(lesson: &mut Lesson) -> Result<()> {
    let table = lesson.parameter(&[2000, 256])?;
    let places = (0..256).map(|place| place * 37 % 2000).collect();
    lesson.back_to(table).then(Op::Pick(Pick { axis: 0, count: 256, places }))?.layer_norm()?.end_rows()
}
