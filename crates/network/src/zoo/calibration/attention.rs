//! Blocks of vision transformers (Dosovitskiy et al. 2020, arXiv:2010.11929), whose attention PyTorch computes in one operation.

use super::builder::CalibrationBuilder;
use crate::{Activation, BinaryFunction, NodeId, Op};
use perf4sight_base::error::Result;

/// Side of a patch in pixels, length of its vector, and number of heads: from many short vectors to few long ones.
const STRETCHES: [[usize; 3]; 5] = [[8, 64, 2], [8, 128, 2], [16, 192, 3], [16, 512, 8], [32, 768, 12]];

pub(super) fn attention(network: &mut CalibrationBuilder) -> Result<()> {
    for [side, width, heads] in STRETCHES {
        let before = network.rows(side, width)?.last_node();
        network.layer_norm()?;
        add_attention(network, heads)?.with(BinaryFunction::Add, before)?;
        network.perceptron(4 * width, Activation::Gelu)?.end_rows()?;
    }
    Ok(())
}

fn add_attention(network: &mut CalibrationBuilder, heads: usize) -> Result<&mut CalibrationBuilder> {
    let [rows, width] = *network.shape().dims() else { unreachable!("rows have two axes") };
    let each = width / heads;
    let all = network.linear(3 * width)?.reshape(&[rows, 3, heads, each])?.transpose(&[1, 2, 0, 3])?.last_node();
    let part = |network: &mut CalibrationBuilder, index: usize| -> Result<NodeId> {
        Ok(network.back_to(all).slice(0, index, 1)?.reshape(&[heads, rows, each])?.last_node())
    };
    let [query, key, value] = [part(network, 0)?, part(network, 1)?, part(network, 2)?];
    network.join(Op::Attention, &[query, key, value])?.transpose(&[1, 0, 2])?.reshape(&[rows, width])?.linear(width)
}
