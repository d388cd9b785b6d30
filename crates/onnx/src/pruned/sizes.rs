//! Numbers of channels that are written into a file: the sizes of views and copies, the lengths and bounds of parts.

use super::places::{CutPlaces, constant};
use crate::attributes;
use crate::schema::{GraphProto, NodeProto, TensorProto};
use crate::source::node_text;
use crate::tensor::{self, values};
use std::collections::{BTreeMap, BTreeSet};

/// Writes the numbers that nodes with fewer channels read into the graph. A node reads a tensor of its own from then on: others may read the same.
pub(super) fn write(graph: &mut GraphProto, places: &CutPlaces) {
    let stored = integers(graph);
    let mut made: Vec<TensorProto> = Vec::new();
    let mut before: BTreeSet<String> = BTreeSet::new();
    for node in &mut graph.node {
        for (place, numbers) in changed_numbers(node, &stored, places) {
            let Some(output) = node.output.first() else { continue };
            let name = format!("{output}.{}", names(node).get(place).copied().unwrap_or("numbers"));
            made.push(TensorProto { name: Some(name.clone()), ..attributes::vector(numbers) });
            match node.input.get_mut(place) {
                Some(input) => drop(before.insert(std::mem::replace(input, name))),
                None => node.input.push(name),
            }
            // The number of equal parts, where lengths are given.
            node.attribute.retain(|attribute| attribute.name() != "num_outputs");
        }
    }
    let read: BTreeSet<&str> = graph.node.iter().flat_map(|node| node.input.iter().map(String::as_str)).collect();
    let is_new: BTreeSet<String> = made.iter().map(|tensor| tensor.name().to_owned()).collect();
    graph.initializer.retain(|tensor| {
        !is_new.contains(tensor.name()) && (!before.contains(tensor.name()) || read.contains(tensor.name()))
    });
    graph.initializer.extend(made);
}

/// What a node reads at its places.
fn names(node: &NodeProto) -> [&'static str; 3] {
    if node.op_type() == "Slice" { ["data", "starts", "ends"] } else { ["data", "sizes", "numbers"] }
}

/// The first node that moves channels which become fewer, and of which it is not known that it does so for fewer, too.
pub(super) fn unknown_size_node(graph: &GraphProto, places: &CutPlaces) -> Option<String> {
    const MOVES: [&str; 8] = ["Reshape", "Expand", "Slice", "Split", "Gather", "GatherElements", "GatherND", "Tile"];
    let stored = integers(graph);
    let is_fixed = |node: &&NodeProto| {
        let is_written = node.input.get(1).is_some_and(|input| stored.contains_key(input));
        let follows = match node.op_type() {
            // Where sizes are computed, older exporters compute them from those of the input.
            "Reshape" | "Expand" => true,
            "Slice" => is_written && !changed_numbers(node, &stored, places).is_empty(),
            "Split" => node.input.len() < 2 || is_written,
            _ => false,
        };
        let values = node.input.first().into_iter().chain(node.output.first());
        MOVES.contains(&node.op_type()) && !follows && values.into_iter().any(|value| places.is_smaller(value))
    };
    graph.node.iter().find(is_fixed).map(node_text)
}

/// The integers that are stored in a graph, by name.
fn integers(graph: &GraphProto) -> BTreeMap<String, Vec<i64>> {
    let constants = graph.node.iter().filter_map(|node| Some((node.output.first()?.as_str(), constant(node)?)));
    let stored = graph.initializer.iter().map(|tensor| (tensor.name(), tensor)).chain(constants);
    let whole = stored.filter(|(_, tensor)| tensor::kind(tensor).is_some_and(|kind| !tensor::is_float(kind)));
    let numbers = |tensor: &TensorProto| -> Option<Vec<i64>> {
        Some(values(tensor)?.into_iter().map(|size| size as i64).collect())
    };
    whole.filter_map(|(name, tensor)| Some((name.to_owned(), numbers(tensor)?))).collect()
}

/// The numbers of a node that change, each with the place at which it reads them.
fn changed_numbers(
    node: &NodeProto,
    stored: &BTreeMap<String, Vec<i64>>,
    places: &CutPlaces,
) -> Vec<(usize, Vec<i64>)> {
    let read = |place: usize| node.input.get(place).and_then(|input| stored.get(input));
    match node.op_type() {
        "Reshape" | "Expand" => {
            let own = read(1).and_then(|sizes| view_sizes(node, sizes, places));
            own.map(|sizes| (1, sizes)).into_iter().collect()
        }
        "Split" => lengths(node, read(1), places).map(|lengths| (1, lengths)).into_iter().collect(),
        "Slice" => bounds(node, [read(1), read(2), read(3), read(4)], places).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// The sizes of a view or a copy.
fn view_sizes(node: &NodeProto, sizes: &[i64], places: &CutPlaces) -> Option<Vec<i64>> {
    let [before, after] = places.sizes(node.output.first()?)?;
    if before.len() != sizes.len() || after.len() != sizes.len() {
        return None;
    }
    let now = sizes.iter().zip(before.iter().zip(&after)).map(|(&size, (before, after))| {
        let was_so = size > 0 && before.as_integer::<i64>() == Some(size);
        after.as_integer::<i64>().filter(|_| was_so).unwrap_or(size)
    });
    let now: Vec<i64> = now.collect();
    (now != sizes).then_some(now)
}

/// The lengths of parts.
fn lengths(node: &NodeProto, given: Option<&Vec<i64>>, places: &CutPlaces) -> Option<Vec<i64>> {
    // Older operators have their lengths as an attribute.
    if node.input.len() > 1 && given.is_none() || node.attribute.iter().any(|attribute| attribute.name() == "split") {
        return None;
    }
    let along = node.attribute.iter().find(|attribute| attribute.name() == "axis").map_or(0, |axis| axis.i());
    let length = |output: &String| {
        let [_, after] = places.sizes(output)?;
        let axis = if along < 0 { along + after.len() as i64 } else { along };
        after.get(usize::try_from(axis).ok()?)?.as_integer::<i64>()
    };
    let now = node.output.iter().map(length).collect::<Option<Vec<i64>>>()?;
    let is_same = match given {
        Some(given) => *given == now,
        None => now.windows(2).all(|pair| pair[0] == pair[1]),
    };
    (!is_same).then_some(now)
}

/// The bounds of a part of the channels.
fn bounds(
    node: &NodeProto,
    [starts, ends, axes, steps]: [Option<&Vec<i64>>; 4],
    places: &CutPlaces,
) -> Option<Vec<(usize, Vec<i64>)>> {
    let (input, [starts, ends]) = (node.input.first()?, [starts?, ends?]);
    let channels = places.channels(input)?;
    let rank = places.sizes(input)?[0].len();
    let own = rank.checked_sub(channels.from_last)? as i64;
    let along = |axis: i64| if axis < 0 { axis + rank as i64 } else { axis };
    let index = match (axes, node.input.get(3).is_some_and(|axes| !axes.is_empty())) {
        (Some(axes), _) => axes.iter().position(|&axis| along(axis) == own)?,
        (None, false) => usize::try_from(own).ok()?,
        (None, true) => return None,
    };
    if steps.is_some_and(|steps| steps.get(index) != Some(&1)) {
        return None;
    }
    let before = channels.before as i64;
    let left = |bound: i64| {
        let place = if bound < 0 { bound + before } else { bound };
        match place >= before {
            true => bound,
            false => channels.kept.iter().filter(|&&position| (position as i64) < place).count() as i64,
        }
    };
    let moved = |bounds: &[i64]| {
        let mut bounds = bounds.to_vec();
        let bound = bounds.get_mut(index)?;
        *bound = left(*bound);
        Some(bounds)
    };
    Some(vec![(1, moved(starts)?), (2, moved(ends)?)])
}
