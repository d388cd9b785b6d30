//! Attention within windows that are cut out of the image and laid back (Liu et al. 2021, arXiv:2103.14030), as torchvision computes it.

use super::lesson::Lesson;
use crate::{Activation, Binary, NodeId, Op};
use perf4sight_base::error::Result;

/// Rows and columns of a window.
const WINDOW: usize = 7;

/// Pixels a side of a patch, channels, and heads.
const STRETCHES: [[usize; 3]; 3] = [[4, 64, 2], [8, 160, 5], [16, 320, 10]];

pub(super) fn windows(lesson: &mut Lesson) -> Result<()> {
    for [side, width, heads] in STRETCHES {
        lesson.patches(side, width)?.transpose(&[1, 2, 0])?.layer_norm()?;
        block(lesson, heads)?;
        lesson.perceptron(4 * width, Activation::Gelu)?;
        merged(lesson)?.end_rows()?;
    }
    Ok(())
}

/// Rolled by half a window, cut into windows, attended, laid back, added.
fn block(lesson: &mut Lesson, heads: usize) -> Result<&mut Lesson> {
    let [side, _, width] = *lesson.shape().dims() else { unreachable!("an image with its channels behind") };
    let (across, before) = (side / WINDOW, lesson.at());
    let cut = [across, WINDOW, across, WINDOW, width];
    lesson.layer_norm()?;
    rolled(lesson, 3)?.reshape(&cut)?.transpose(&[0, 2, 1, 3, 4])?;
    lesson.reshape(&[across * across, WINDOW * WINDOW, width])?;
    attended(lesson, heads)?.then(Op::Dropout { rate: 0.1 })?;
    lesson.reshape(&[across, across, WINDOW, WINDOW, width])?.transpose(&[0, 2, 1, 3, 4])?;
    lesson.reshape(&[side, side, width])?;
    rolled(lesson, side - 3)?.with(Binary::Add, before)
}

/// The first so many rows behind the others, and the same of columns.
fn rolled(lesson: &mut Lesson, by: usize) -> Result<&mut Lesson> {
    for axis in [0, 1] {
        let (whole, length) = (lesson.at(), lesson.shape().dims()[axis]);
        let rest = lesson.slice(axis, by, length - by)?.at();
        let first = lesson.back_to(whole).slice(axis, 0, by)?.at();
        lesson.join(Op::Concat { axis }, &[rest, first])?;
    }
    Ok(lesson)
}

/// Attention within every window, with a table of relative positions.
fn attended(lesson: &mut Lesson, heads: usize) -> Result<&mut Lesson> {
    let [windows, rows, width] = *lesson.shape().dims() else { unreachable!("windows have three axes") };
    let each = width / heads;
    let all = lesson.linear(3 * width)?.reshape(&[windows, rows, 3, heads, each])?.transpose(&[2, 0, 3, 1, 4])?.at();
    let part = |lesson: &mut Lesson, index: usize| -> Result<NodeId> {
        Ok(lesson.back_to(all).slice(0, index, 1)?.reshape(&[windows, heads, rows, each])?.at())
    };
    let [query, key, value] = [part(lesson, 0)?, part(lesson, 1)?, part(lesson, 2)?];
    let query = lesson.back_to(query).by_constant(Binary::Mul)?.at();
    let key = lesson.back_to(key).transpose(&[0, 1, 3, 2])?.at();
    lesson.join(Op::MatMul, &[query, key])?.with_parameter(Binary::Add, &[1, heads, rows, rows])?;
    let weights = lesson.then(Op::Softmax { axis: 3 })?.then(Op::Dropout { rate: 0.1 })?.at();
    lesson.join(Op::MatMul, &[weights, value])?.transpose(&[0, 2, 1, 3])?.reshape(&[windows, rows, width])?;
    lesson.linear(width)
}

/// Four neighbours become one of twice the channels.
fn merged(lesson: &mut Lesson) -> Result<&mut Lesson> {
    let (whole, width) = (lesson.at(), lesson.shape().features());
    let mut neighbours = Vec::new();
    for [row, column] in [[0, 0], [1, 0], [0, 1], [1, 1]] {
        lesson.back_to(whole).then(Op::Every { axis: 0, start: row, step: 2 })?;
        neighbours.push(lesson.then(Op::Every { axis: 1, start: column, step: 2 })?.at());
    }
    lesson.join(Op::Concat { axis: 2 }, &neighbours)?.layer_norm()?.linear(2 * width)
}
