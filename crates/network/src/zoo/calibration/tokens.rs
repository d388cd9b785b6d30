//! Further operations on rows: products across them (Tolstikhin et al. 2021, arXiv:2105.01601), gates (Shazeer 2020,
//! arXiv:2002.05202), normalisation written out, masks, tables from which rows are picked.

use super::builder::Builder;
use crate::{Activation, Affine, Binary, Op, Pick, Reduction, Shape};
use perf4sight_base::error::Result;

pub(super) fn tokens(network: &mut Builder) -> Result<()> {
    for [side, width] in [[8, 96], [16, 448], [32, 640]] {
        network.rows(side, width)?;
        mixed(network)?;
        gated(network)?.end_rows()?;
    }
    network.rows(8, 128)?;
    written_out(network)?.end_rows()?;
    network.rows(16, 256)?;
    masked(network)?.end_rows()?;
    picked(network)
}

fn mixed(network: &mut Builder) -> Result<&mut Builder> {
    let (before, rows) = (network.at(), network.shape().dims()[0]);
    network.layer_norm()?.transpose(&[1, 0])?.linear(rows.min(384))?.activation(Activation::Gelu)?;
    network.linear(rows)?.transpose(&[1, 0])?.with(Binary::Add, before)
}

/// A perceptron whose hidden values are multiplied by gates, after a norm without a mean.
fn gated(network: &mut Builder) -> Result<&mut Builder> {
    let (before, width) = (network.at(), network.shape().features());
    let normed = network.then(Op::LayerNorm { axis: 1, affine: Affine::Scale })?.at();
    let gate = network.linear(8 * width / 3)?.activation(Activation::Silu)?.at();
    network.back_to(normed).linear(8 * width / 3)?.with(Binary::Mul, gate)?.linear(width)?.with(Binary::Add, before)
}

/// Normalisation and functions, written as their single operations.
fn written_out(network: &mut Builder) -> Result<&mut Builder> {
    let (before, width) = (network.at(), network.shape().features());
    network.by_constant(Binary::Pow)?;
    network.then(Op::Reduce { reduction: Reduction::Mean, axes: vec![1], keep: true })?;
    let scale = network.by_constant(Binary::Add)?.activation(Activation::Sqrt)?.at();
    network.back_to(before).with(Binary::Div, scale)?.with_parameter(Binary::Mul, &[1, width])?;
    let normed = network.at();
    let bell = network.activation(Activation::Erf)?.by_constant(Binary::Add)?.with(Binary::Mul, normed)?.at();
    network.activation(Activation::Tanh)?.activation(Activation::Exp)?;
    network.then(Op::Reduce { reduction: Reduction::Max, axes: vec![1], keep: true })?;
    let most = network.at();
    network.back_to(bell).with(Binary::Sub, most)?;
    network.then(Op::Reduce { reduction: Reduction::L2, axes: vec![1], keep: true })?;
    let length = network.at();
    network.back_to(bell).then(Op::Reduce { reduction: Reduction::Sum, axes: vec![0], keep: true })?;
    let sum = network.with(Binary::Mul, length)?.at();
    network.back_to(bell).with(Binary::Max, sum)
}

/// Scores between rows, half of which are masked.
fn masked(network: &mut Builder) -> Result<&mut Builder> {
    let [rows, width] = *network.shape().dims() else { unreachable!("rows have two axes") };
    let before = network.at();
    let keys = network.linear(width)?.transpose(&[1, 0])?.at();
    let scores = network.join(Op::MatMul, &[before, keys])?.by_constant(Binary::Div)?.at();
    let mask = network.by_constant(Binary::Greater)?.at();
    let nothing = network.parameter(&[1, 1])?;
    let nothing = network.back_to(nothing).then(Op::Expand(Shape::new([rows, rows])))?.at();
    network.join(Op::Where, &[mask, scores, nothing])?.then(Op::Softmax { axis: 1 })?;
    let weights = network.at();
    network.join(Op::MatMul, &[weights, before])
}

/// Rows of a table, as in a lookup of words.
fn picked(network: &mut Builder) -> Result<()> {
    let table = network.parameter(&[2000, 256])?;
    let places = (0..256).map(|place| place * 37 % 2000).collect();
    network.back_to(table).then(Op::Pick(Pick { axis: 0, count: 256, places }))?.layer_norm()?.end_rows()
}
