//! Blocks of vision transformers (Dosovitskiy et al. 2020, arXiv:2010.11929), whose attention PyTorch computes in one operation.

use super::lesson::Lesson;
use crate::{Activation, Binary, NodeId, Op};
use perf4sight_base::error::Result;

/// Pixels a side of a patch, the length of its vector, and heads: from many short vectors to few long ones.
const STRETCHES: [[usize; 3]; 5] = [[8, 64, 2], [8, 128, 2], [16, 192, 3], [16, 512, 8], [32, 768, 12]];

pub(super) fn attention(lesson: &mut Lesson) -> Result<()> {
    for [side, width, heads] in STRETCHES {
        let before = lesson.rows(side, width)?.at();
        lesson.layer_norm()?;
        attended(lesson, heads)?.with(Binary::Add, before)?;
        lesson.perceptron(4 * width, Activation::Gelu)?.end_rows()?;
    }
    Ok(())
}

/// Attention over all rows.
fn attended(lesson: &mut Lesson, heads: usize) -> Result<&mut Lesson> {
    let [rows, width] = *lesson.shape().dims() else { unreachable!("rows have two axes") };
    let each = width / heads;
    let all = lesson.linear(3 * width)?.reshape(&[rows, 3, heads, each])?.transpose(&[1, 2, 0, 3])?.at();
    let part = |lesson: &mut Lesson, index: usize| -> Result<NodeId> {
        Ok(lesson.back_to(all).slice(0, index, 1)?.reshape(&[heads, rows, each])?.at())
    };
    let [query, key, value] = [part(lesson, 0)?, part(lesson, 1)?, part(lesson, 2)?];
    lesson.join(Op::Attention, &[query, key, value])?.transpose(&[1, 0, 2])?.reshape(&[rows, width])?.linear(width)
}
