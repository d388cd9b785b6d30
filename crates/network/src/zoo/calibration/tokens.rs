//! Further operations on rows: products across them (Tolstikhin et al. 2021, arXiv:2105.01601), gates (Shazeer 2020,
//! arXiv:2002.05202), normalisation written out, masks, tables from which rows are picked.

use super::builder::CalibrationBuilder;
use crate::{Activation, Affine, BinaryFunction, Op, PickedElements, ReductionKind, Shape};
use perf4sight_base::error::Result;

pub(super) fn tokens(network: &mut CalibrationBuilder) -> Result<()> {
    for [side, width] in [[8, 96], [16, 448], [32, 640]] {
        network.rows(side, width)?;
        mixed(network)?;
        gated(network)?.end_rows()?;
    }
    network.rows(8, 128)?;
    written_out(network)?.end_rows()?;
    network.rows(16, 256)?;
    masked(network)?.end_rows()?;
    add_lookup(network)
}

fn mixed(network: &mut CalibrationBuilder) -> Result<&mut CalibrationBuilder> {
    let (before, rows) = (network.last_node(), network.shape().dims()[0]);
    network.layer_norm()?.transpose(&[1, 0])?.linear(rows.min(384))?.activation(Activation::Gelu)?;
    network.linear(rows)?.transpose(&[1, 0])?.with(BinaryFunction::Add, before)
}

/// A perceptron whose hidden values are multiplied by gates, after a norm without a mean.
fn gated(network: &mut CalibrationBuilder) -> Result<&mut CalibrationBuilder> {
    let (before, width) = (network.last_node(), network.shape().features());
    let normed = network.append(Op::LayerNorm { axis: 1, affine: Affine::Scale })?.last_node();
    let gate = network.linear(8 * width / 3)?.activation(Activation::Silu)?.last_node();
    network
        .back_to(normed)
        .linear(8 * width / 3)?
        .with(BinaryFunction::Mul, gate)?
        .linear(width)?
        .with(BinaryFunction::Add, before)
}

/// Normalisation and functions, written as their single operations.
fn written_out(network: &mut CalibrationBuilder) -> Result<&mut CalibrationBuilder> {
    let (before, width) = (network.last_node(), network.shape().features());
    network.by_constant(BinaryFunction::Pow)?;
    network.append(Op::Reduce { reduction: ReductionKind::Mean, axes: vec![1], keep: true })?;
    let scale = network.by_constant(BinaryFunction::Add)?.activation(Activation::Sqrt)?.last_node();
    network.back_to(before).with(BinaryFunction::Div, scale)?.with_parameter(BinaryFunction::Mul, &[1, width])?;
    let normed = network.last_node();
    let bell = network
        .activation(Activation::Erf)?
        .by_constant(BinaryFunction::Add)?
        .with(BinaryFunction::Mul, normed)?
        .last_node();
    network.activation(Activation::Tanh)?.activation(Activation::Exp)?;
    network.append(Op::Reduce { reduction: ReductionKind::Max, axes: vec![1], keep: true })?;
    let most = network.last_node();
    network.back_to(bell).with(BinaryFunction::Sub, most)?;
    network.append(Op::Reduce { reduction: ReductionKind::L2, axes: vec![1], keep: true })?;
    let length = network.last_node();
    network.back_to(bell).append(Op::Reduce { reduction: ReductionKind::Sum, axes: vec![0], keep: true })?;
    let sum = network.with(BinaryFunction::Mul, length)?.last_node();
    network.back_to(bell).with(BinaryFunction::Max, sum)
}

/// Scores between rows, half of which are masked.
fn masked(network: &mut CalibrationBuilder) -> Result<&mut CalibrationBuilder> {
    let [rows, width] = *network.shape().dims() else { unreachable!("rows have two axes") };
    let before = network.last_node();
    let keys = network.linear(width)?.transpose(&[1, 0])?.last_node();
    let scores = network.join(Op::MatMul, &[before, keys])?.by_constant(BinaryFunction::Div)?.last_node();
    let mask = network.by_constant(BinaryFunction::Greater)?.last_node();
    let nothing = network.parameter(&[1, 1])?;
    let nothing = network.back_to(nothing).append(Op::Expand(Shape::new([rows, rows])))?.last_node();
    network.join(Op::Where, &[mask, scores, nothing])?.append(Op::Softmax { axis: 1 })?;
    let weights = network.last_node();
    network.join(Op::MatMul, &[weights, before])
}

/// Rows of a table, as in a lookup of words.
fn add_lookup(network: &mut CalibrationBuilder) -> Result<()> {
    let table = network.parameter(&[2000, 256])?;
    let places = (0..256).map(|place| place * 37 % 2000).collect();
    network.back_to(table).append(Op::Pick(PickedElements { axis: 0, count: 256, places }))?.layer_norm()?.end_rows()
}
