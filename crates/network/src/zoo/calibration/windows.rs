//! Attention within windows that are cut out of the image and put back (Liu et al. 2021, arXiv:2103.14030), as torchvision
//! computes it.

use super::builder::Builder;
use crate::{Activation, Binary, NodeId, Op};
use perf4sight_base::error::Result;

const WINDOW: usize = 7;

/// Side of a patch in pixels, channels, and heads.
const STRETCHES: [[usize; 3]; 3] = [[4, 64, 2], [8, 160, 5], [16, 320, 10]];

pub(super) fn windows(network: &mut Builder) -> Result<()> {
    for [side, width, heads] in STRETCHES {
        network.patches(side, width)?.transpose(&[1, 2, 0])?.layer_norm()?;
        block(network, heads)?;
        network.perceptron(4 * width, Activation::Gelu)?;
        merged(network)?.end_rows()?;
    }
    Ok(())
}

/// Rolls by half a window, cuts into windows, applies attention, puts the windows back and adds the input.
fn block(network: &mut Builder, heads: usize) -> Result<&mut Builder> {
    let [side, _, width] = *network.shape().dims() else { unreachable!("an image with its channels behind") };
    let (across, before) = (side / WINDOW, network.at());
    let cut = [across, WINDOW, across, WINDOW, width];
    network.layer_norm()?;
    rolled(network, 3)?.reshape(&cut)?.transpose(&[0, 2, 1, 3, 4])?;
    network.reshape(&[across * across, WINDOW * WINDOW, width])?;
    attended(network, heads)?.then(Op::Dropout { rate: 0.1 })?;
    network.reshape(&[across, across, WINDOW, WINDOW, width])?.transpose(&[0, 2, 1, 3, 4])?;
    network.reshape(&[side, side, width])?;
    rolled(network, side - 3)?.with(Binary::Add, before)
}

/// Moves the first `by` rows behind the others, and likewise the columns.
fn rolled(network: &mut Builder, by: usize) -> Result<&mut Builder> {
    for axis in [0, 1] {
        let (whole, length) = (network.at(), network.shape().dims()[axis]);
        let rest = network.slice(axis, by, length - by)?.at();
        let first = network.back_to(whole).slice(axis, 0, by)?.at();
        network.join(Op::Concat { axis }, &[rest, first])?;
    }
    Ok(network)
}

/// Attention within every window, with a table of relative positions.
fn attended(network: &mut Builder, heads: usize) -> Result<&mut Builder> {
    let [windows, rows, width] = *network.shape().dims() else { unreachable!("windows have three axes") };
    let each = width / heads;
    let all = network.linear(3 * width)?.reshape(&[windows, rows, 3, heads, each])?.transpose(&[2, 0, 3, 1, 4])?.at();
    let part = |network: &mut Builder, index: usize| -> Result<NodeId> {
        Ok(network.back_to(all).slice(0, index, 1)?.reshape(&[windows, heads, rows, each])?.at())
    };
    let [query, key, value] = [part(network, 0)?, part(network, 1)?, part(network, 2)?];
    let query = network.back_to(query).by_constant(Binary::Mul)?.at();
    let key = network.back_to(key).transpose(&[0, 1, 3, 2])?.at();
    network.join(Op::MatMul, &[query, key])?.with_parameter(Binary::Add, &[1, heads, rows, rows])?;
    let weights = network.then(Op::Softmax { axis: 3 })?.then(Op::Dropout { rate: 0.1 })?.at();
    network.join(Op::MatMul, &[weights, value])?.transpose(&[0, 2, 1, 3])?.reshape(&[windows, rows, width])?;
    network.linear(width)
}

/// Merges four neighbours into one with twice the channels.
fn merged(network: &mut Builder) -> Result<&mut Builder> {
    let (whole, width) = (network.at(), network.shape().features());
    let mut neighbours = Vec::new();
    for [row, column] in [[0, 0], [1, 0], [0, 1], [1, 1]] {
        network.back_to(whole).then(Op::Every { axis: 0, start: row, step: 2 })?;
        neighbours.push(network.then(Op::Every { axis: 1, start: column, step: 2 })?.at());
    }
    network.join(Op::Concat { axis: 2 }, &neighbours)?.layer_norm()?.linear(2 * width)
}
