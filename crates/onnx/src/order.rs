//! Sorts the nodes of a graph into the order in which they are read.

use super::schema::NodeProto;
use super::source::{FileProblem, node_text, values_read};
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

type Producers<'a> = HashMap<&'a str, usize>;

/// The nodes that the values `outputs` need, producers before readers, in the file's order if that is possible.
///
/// # Errors
/// A value that two nodes give or none, and a node that depends on itself.
pub(super) fn order_nodes<'a>(
    nodes: &'a [NodeProto],
    known: &dyn Fn(&str) -> bool,
    outputs: &[&str],
) -> Result<Vec<&'a NodeProto>, FileProblem> {
    let producers = producers(nodes, known)?;
    let outputs = outputs.iter().filter_map(|output| producers.get(output).copied());
    let (needed, is_ordered) = needed_nodes(nodes, known, &producers, outputs)?;
    let order = if is_ordered { needed } else { sort_nodes(nodes, &producers, &needed)? };
    Ok(order.into_iter().map(|index| &nodes[index]).collect())
}

/// The nodes that some depend on, these included, in the file's order, and whether each comes after the nodes it reads.
fn needed_nodes(
    nodes: &[NodeProto],
    known: &dyn Fn(&str) -> bool,
    producers: &Producers,
    outputs: impl Iterator<Item = usize>,
) -> Result<(Vec<usize>, bool), FileProblem> {
    let mut open: Vec<usize> = outputs.collect();
    let mut needed = vec![false; nodes.len()];
    open.iter().for_each(|&index| needed[index] = true);
    let mut is_ordered = true;
    while let Some(index) = open.pop() {
        for input in values_read(&nodes[index]).filter(|input| !input.is_empty()) {
            match producers.get(input) {
                Some(&producer) => {
                    is_ordered &= producer < index;
                    if !std::mem::replace(&mut needed[producer], true) {
                        open.push(producer);
                    }
                }
                None if known(input) => {}
                None => return Err(dangling(&nodes[index], input)),
            }
        }
    }
    Ok(((0..nodes.len()).filter(|&index| needed[index]).collect(), is_ordered))
}

fn producers<'a>(nodes: &'a [NodeProto], known: &dyn Fn(&str) -> bool) -> Result<Producers<'a>, FileProblem> {
    let mut producers = Producers::with_capacity(nodes.len());
    for (index, node) in nodes.iter().enumerate() {
        for output in node.output.iter().filter(|output| !output.is_empty()) {
            if known(output) || producers.insert(output.as_str(), index).is_some() {
                return Err((format!("{} gives \"{output}\", which exists already", node_text(node)), None));
            }
        }
    }
    Ok(producers)
}

/// Sorts the nodes of a file that has readers before their producers; the next is always the first node that may be read.
fn sort_nodes(nodes: &[NodeProto], producers: &Producers, needed: &[usize]) -> Result<Vec<usize>, FileProblem> {
    let mut missing = vec![0usize; nodes.len()];
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for &index in needed {
        for producer in values_read(&nodes[index]).filter_map(|input| producers.get(input)) {
            missing[index] += 1;
            readers[*producer].push(index);
        }
    }
    let start = needed.iter().copied().filter(|&index| missing[index] == 0);
    let mut ready: BinaryHeap<Reverse<usize>> = start.map(Reverse).collect();
    let mut order = Vec::with_capacity(needed.len());
    while let Some(Reverse(index)) = ready.pop() {
        order.push(index);
        for &reader in &readers[index] {
            missing[reader] -= 1;
            if missing[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    match needed.iter().find(|&&index| missing[index] > 0) {
        Some(&index) => Err((format!("{} depends on its own result", node_text(&nodes[index])), None)),
        None => Ok(order),
    }
}

fn dangling(node: &NodeProto, input: &str) -> FileProblem {
    const AGAIN: &str = "the file is damaged, cut out of a larger one, or its exporter lost a tensor; export it again, with dynamo=False";
    (format!("{} reads \"{input}\", which nothing in the file gives", node_text(node)), Some(AGAIN))
}
