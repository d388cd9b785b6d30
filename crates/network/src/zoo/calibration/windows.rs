//! Attention within windows that are cut out of the image and put back (Liu et al. 2021, arXiv:2103.14030), as torchvision
//! computes it.

use super::builder::CalibrationBuilder;
use crate::{Activation, BinaryFunction, NodeId, Op};
use perf4sight_base::error::Result;

const WINDOW: usize = 7;

/// Side of a patch in pixels, channels, and heads.
const STRETCHES: [[usize; 3]; 3] = [[4, 64, 2], [8, 160, 5], [16, 320, 10]];

pub(super) fn windows(network: &mut CalibrationBuilder) -> Result<()> {
    for [side, width, heads] in STRETCHES {
        network.patches(side, width)?.transpose(&[1, 2, 0])?.layer_norm()?;
        block(network, heads)?;
        network.perceptron(4 * width, Activation::Gelu)?;
        merged(network)?.end_rows()?;
    }
    Ok(())
}

/// Rolls by half a window, cuts into windows, applies attention, puts the windows back and adds the input.
fn block(network: &mut CalibrationBuilder, heads: usize) -> Result<&mut CalibrationBuilder> {
    let [side, _, width] = *network.shape().dims() else { unreachable!("an image with its channels behind") };
    let (across, before) = (side / WINDOW, network.last_node());
    let cut = [across, WINDOW, across, WINDOW, width];
    network.layer_norm()?;
    rolled(network, 3)?.reshape(&cut)?.transpose(&[0, 2, 1, 3, 4])?;
    network.reshape(&[across * across, WINDOW * WINDOW, width])?;
    add_window_attention(network, heads)?.append(Op::Dropout { rate: 0.1 })?;
    network.reshape(&[across, across, WINDOW, WINDOW, width])?.transpose(&[0, 2, 1, 3, 4])?;
    network.reshape(&[side, side, width])?;
    rolled(network, side - 3)?.with(BinaryFunction::Add, before)
}

/// Moves the first `by` rows behind the others, and likewise the columns.
fn rolled(network: &mut CalibrationBuilder, by: usize) -> Result<&mut CalibrationBuilder> {
    for axis in [0, 1] {
        let (whole, length) = (network.last_node(), network.shape().dims()[axis]);
        let rest = network.slice(axis, by, length - by)?.last_node();
        let first = network.back_to(whole).slice(axis, 0, by)?.last_node();
        network.join(Op::Concat { axis }, &[rest, first])?;
    }
    Ok(network)
}

/// Attention within every window, with a table of relative positions.
fn add_window_attention(network: &mut CalibrationBuilder, heads: usize) -> Result<&mut CalibrationBuilder> {
    let [windows, rows, width] = *network.shape().dims() else { unreachable!("windows have three axes") };
    let each = width / heads;
    let all =
        network.linear(3 * width)?.reshape(&[windows, rows, 3, heads, each])?.transpose(&[2, 0, 3, 1, 4])?.last_node();
    let part = |network: &mut CalibrationBuilder, index: usize| -> Result<NodeId> {
        Ok(network.back_to(all).slice(0, index, 1)?.reshape(&[windows, heads, rows, each])?.last_node())
    };
    let [query, key, value] = [part(network, 0)?, part(network, 1)?, part(network, 2)?];
    let query = network.back_to(query).by_constant(BinaryFunction::Mul)?.last_node();
    let key = network.back_to(key).transpose(&[0, 1, 3, 2])?.last_node();
    network.join(Op::MatMul, &[query, key])?.with_parameter(BinaryFunction::Add, &[1, heads, rows, rows])?;
    let weights = network.append(Op::Softmax { axis: 3 })?.append(Op::Dropout { rate: 0.1 })?.last_node();
    network.join(Op::MatMul, &[weights, value])?.transpose(&[0, 2, 1, 3])?.reshape(&[windows, rows, width])?;
    network.linear(width)
}

/// Merges four neighbours into one with twice the channels.
fn merged(network: &mut CalibrationBuilder) -> Result<&mut CalibrationBuilder> {
    let (whole, width) = (network.last_node(), network.shape().features());
    let mut neighbours = Vec::new();
    for [row, column] in [[0, 0], [1, 0], [0, 1], [1, 1]] {
        network.back_to(whole).append(Op::Every { axis: 0, start: row, step: 2 })?;
        neighbours.push(network.append(Op::Every { axis: 1, start: column, step: 2 })?.last_node());
    }
    network.join(Op::Concat { axis: 2 }, &neighbours)?.layer_norm()?.linear(2 * width)
}
