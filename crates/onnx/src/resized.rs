//! A file for an input of another size than it was exported with: all shapes are inferred again, where the graph leaves them to be.

use super::file::File;
use super::ledger::Filters;
use super::warning::Warning;
use super::{Dims, Loaded, loaded, opened, source, translated};
use hashbrown::HashMap;
use perf4sight_base::error::{Error, Result};
use perf4sight_network::{Network, Node, Op, Shape};
use std::collections::BTreeMap;
use std::path::Path;

#[cfg(test)]
mod tests;

/// As [`read_sized`](super::read_sized), one sample of its only input being of shape `input`, whatever the file says.
///
/// What the graph fixes holds: a pooling of so many pixels pools as many, and an image that is resized to a size stays of that size, of which a
/// warning tells.
///
/// # Errors
/// Also several inputs, an input of another number of dimensions, and one that the graph does not take: layers that read so many features,
/// views as shapes that are written out, places that are added.
pub fn read_at(path: impl AsRef<Path>, dims: &Dims, input: &Shape) -> Result<Loaded> {
    let path = path.as_ref();
    resized(opened(path, dims)?, path, input).map(|(_, loaded, _)| loaded)
}

/// The file with such an input, and what is read of it.
pub(super) fn resized(mut file: File, path: &Path, input: &Shape) -> Result<(File, Loaded, BTreeMap<String, Filters>)> {
    let own = translated(&file, path);
    if let Ok((loaded, filters)) = own {
        return match loaded.network.input_shape() == input && loaded.network.inputs().count() == 1 {
            true => Ok((file, loaded, filters)),
            false => another(file, path, input, &loaded.network),
        };
    }
    // What leaves the size of its input open has none of its own, and where that is not what was wrong the same error comes again.
    set(&mut file, path, input)?;
    let (loaded, filters) = translated(&file, path)?;
    Ok((file, loaded, filters))
}

fn another(
    mut file: File,
    path: &Path,
    input: &Shape,
    own: &Network,
) -> Result<(File, Loaded, BTreeMap<String, Filters>)> {
    set(&mut file, path, input)?;
    let (mut loaded, filters) = at(&file, path, own).map_err(|why| refused(&mut file, path, input, own, &why))?;
    loaded.warnings.extend(stays(own, &loaded.network).map(|warning| warning.to_string()));
    Ok((file, loaded, filters))
}

fn set(file: &mut File, path: &Path, input: &Shape) -> Result<()> {
    let Some(graph) = &mut file.model.graph else { return Ok(()) };
    source::set_input(graph, &file.initializers, input).map_err(|(problem, help)| {
        let error = Error::usage(problem).file(path);
        help.into_iter().fold(error, Error::help)
    })
}

/// What is read of a file whose input was set; the error is what of it does not fit.
fn at(file: &File, path: &Path, own: &Network) -> std::result::Result<(Loaded, BTreeMap<String, Filters>), String> {
    let (loaded, filters) = loaded(file, path).map_err(|(problem, _)| problem)?;
    let misfit = pairs(own, &loaded.network).find_map(|(before, now)| misfit(before, now));
    misfit.map_or(Ok((loaded, filters)), Err)
}

fn pairs<'a>(own: &'a Network, resized: &'a Network) -> impl Iterator<Item = (&'a Node, &'a Node)> {
    let before: HashMap<&str, &Node> = own.nodes().iter().map(|node| (&*node.name, node)).collect();
    resized.nodes().iter().filter_map(move |now| Some((*before.get(&*now.name)?, now)))
}

/// Why a node fits only another size: it was understood before and is not now, or makes several of every sample where it made
/// one, as a view does whose shape is written out behind a batch that is left open.
fn misfit(before: &Node, now: &Node) -> Option<String> {
    if is_unknown(now) && !is_unknown(before) {
        return Some(format!("\"{}\" does not fit what it would read then", now.name));
    }
    (before.shape.rank() != now.shape.rank())
        .then(|| format!("\"{}\" would make {} of a sample, and made {}", now.name, now.shape, before.shape))
}

fn is_unknown(node: &Node) -> bool {
    matches!(node.op, Op::Unknown(_))
}

fn refused(file: &mut File, path: &Path, input: &Shape, own: &Network, why: &str) -> Error {
    let exported = own.input_shape();
    let error = Error::input(format!("does not take an input of {input}: {why}")).file(path);
    match smallest(file, path, input, own) {
        Some(least) if takes_between(file, path, [&least, exported], own) => match takes_larger(file, path, own) {
            true => error.expected(format!("{least} or more; it was exported with {exported}")),
            false => error.expected(format!("{least} to {exported}, with which it was exported")),
        },
        Some(least) => error.expected(format!("{least}, or {exported}, with which it was exported, and not all between")),
        None => error.expected(format!("{exported}, with which it was exported")).help(
            "where its graph fixes sizes that follow from its input, export the network again with the other input; some inputs no export of it takes",
        ),
    }
}

/// Whether a graph takes images a little and much larger than its own: one that lays them out in a row for a layer of so many features does not.
fn takes_larger(file: &mut File, path: &Path, own: &Network) -> bool {
    let grown = |grow: fn(usize) -> usize| spread(own.input_shape(), |(_, size)| grow(size));
    [grown(|size| size.saturating_add(1)), grown(|size| size.saturating_mul(2))]
        .iter()
        .all(|one| takes(file, path, one, own))
}

/// Whether it takes some sizes between these two, the smaller one's neighbour among them.
fn takes_between(file: &mut File, path: &Path, [least, most]: [&Shape; 2], own: &Network) -> bool {
    let near = spread(least, |(axis, size)| (size + 1).min(most.dims()[axis]));
    let half = spread(least, |(axis, size)| usize::midpoint(size, most.dims()[axis]));
    [near, half].iter().all(|one| takes(file, path, one, own))
}

fn takes(file: &mut File, path: &Path, input: &Shape, own: &Network) -> bool {
    set(file, path, input).is_ok() && at(file, path, own).is_ok()
}

/// An input with as many channels and other sizes, by axis.
fn spread(input: &Shape, size: impl Fn((usize, usize)) -> usize) -> Shape {
    let sizes = input.dims().iter().copied().enumerate();
    Shape::new(sizes.map(|(axis, dim)| if axis == 0 { dim } else { size((axis, dim)) }).collect::<Vec<_>>())
}

/// The smallest input that is found between the one that was asked for and the file's own that its graph takes, larger by the same share along every axis
/// but the channels; none where the one asked for is not smaller, or nothing but its own is taken.
fn smallest(file: &mut File, path: &Path, input: &Shape, own: &Network) -> Option<Shape> {
    let (asked, exported) = (input.dims(), own.input_shape().dims());
    let smaller = asked.iter().zip(exported).skip(1).all(|(asked, own)| asked <= own);
    if !smaller || asked.first() != exported.first() {
        return None;
    }
    let longest = exported.iter().zip(asked).skip(1).map(|(own, asked)| own - asked).max()?;
    let between = |step: usize| -> Shape {
        let along = |(asked, own): (&usize, &usize)| asked + (own - asked) * step / longest.max(1);
        Shape::new(asked.iter().zip(exported).map(along).collect::<Vec<_>>())
    };
    let mut fits = |step: usize| takes(file, path, &between(step), own);
    // What fits, fits larger, too, as a rule; in graphs that fix all nothing but their own size does.
    let (mut no, mut yes) = (0, longest);
    while yes - no > 1 {
        let middle = usize::midpoint(no, yes);
        if fits(middle) { yes = middle } else { no = middle }
    }
    (yes < longest).then(|| between(yes))
}

/// A warning of images that the graph makes as large as before, whatever they are made of.
fn stays(own: &Network, resized: &Network) -> Option<Warning> {
    let fixed = |(before, now): &(&Node, &Node)| {
        matches!(now.op, Op::Resize { .. })
            && before.shape == now.shape
            && own.input_of(before, 0) != resized.input_of(now, 0)
    };
    let names: Vec<String> = pairs(own, resized).filter(fixed).map(|(_, node)| node.name.clone()).collect();
    (!names.is_empty()).then(|| Warning::FixedSizes(names, resized.input_shape().to_string()))
}
