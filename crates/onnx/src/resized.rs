//! Reads a file for another input size than it was exported with: all shapes are inferred again, unless the graph fixes them.

use super::file::OnnxFile;
use super::ledger::LayerFilters;
use super::warning::Warning;
use super::{LoadedOnnx, NamedDims, load_graph, open_with_dims, source, translate_file};
use hashbrown::HashMap;
use perf4sight_base::error::{Error, Result};
use perf4sight_network::{Network, Node, Op, Shape};
use std::collections::BTreeMap;
use std::path::Path;

#[cfg(test)]
mod tests;

/// As [`read_sized`](super::read_sized), but one sample of the only input has the shape `input`, whatever the file declares.
///
/// Sizes fixed by the graph stay: a pooling window keeps its pixels, and an image that is resized to a fixed size keeps that
/// size, which a warning reports.
///
/// # Errors
/// Also several inputs, an input of another number of dimensions, and an input that the graph does not take because of a layer
/// with fixed input features, a reshape to a fixed shape, or added position embeddings.
pub fn read_at(path: impl AsRef<Path>, dims: &NamedDims, input: &Shape) -> Result<LoadedOnnx> {
    let path = path.as_ref();
    resize_file(open_with_dims(path, dims)?, path, input).map(|(_, loaded, _)| loaded)
}

/// The file with its input set to this shape, and the network read from it.
pub(super) fn resize_file(
    mut file: OnnxFile,
    path: &Path,
    input: &Shape,
) -> Result<(OnnxFile, LoadedOnnx, BTreeMap<String, LayerFilters>)> {
    let own = translate_file(&file, path);
    if let Ok((loaded, filters)) = own {
        return match loaded.network.input_shape() == input && loaded.network.inputs().count() == 1 {
            true => Ok((file, loaded, filters)),
            false => another(file, path, input, &loaded.network),
        };
    }
    // A file that leaves its input size open cannot be read before. If something else was wrong, the same error comes again.
    set(&mut file, path, input)?;
    let (loaded, filters) = translate_file(&file, path)?;
    Ok((file, loaded, filters))
}

fn another(
    mut file: OnnxFile,
    path: &Path,
    input: &Shape,
    own: &Network,
) -> Result<(OnnxFile, LoadedOnnx, BTreeMap<String, LayerFilters>)> {
    set(&mut file, path, input)?;
    let (mut loaded, filters) =
        read_resized(&file, path, own).map_err(|why| refused_error(&mut file, path, input, own, &why))?;
    loaded.warnings.extend(fixed_size_warning(own, &loaded.network).map(|warning| warning.to_string()));
    Ok((file, loaded, filters))
}

fn set(file: &mut OnnxFile, path: &Path, input: &Shape) -> Result<()> {
    let Some(graph) = &mut file.model.graph else { return Ok(()) };
    source::set_input(graph, &file.initializers, input).map_err(|(problem, help)| {
        let error = Error::usage(problem).file(path);
        help.into_iter().fold(error, Error::help)
    })
}

/// Reads a file whose input was set; the error describes the first misfit.
fn read_resized(
    file: &OnnxFile,
    path: &Path,
    own: &Network,
) -> std::result::Result<(LoadedOnnx, BTreeMap<String, LayerFilters>), String> {
    let (loaded, filters) = load_graph(file, path).map_err(|(problem, _)| problem)?;
    let misfit = pairs(own, &loaded.network).find_map(|(before, now)| misfit(before, now));
    misfit.map_or(Ok((loaded, filters)), Err)
}

fn pairs<'a>(own: &'a Network, resized: &'a Network) -> impl Iterator<Item = (&'a Node, &'a Node)> {
    let before: HashMap<&str, &Node> = own.nodes().iter().map(|node| (&*node.name, node)).collect();
    resized.nodes().iter().filter_map(move |now| Some((*before.get(&*now.name)?, now)))
}

/// Why a node does not fit this size: its operation was known before and is unknown now, or the rank of its result changed, as
/// for a view with a fixed shape after an open batch.
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

fn refused_error(file: &mut OnnxFile, path: &Path, input: &Shape, own: &Network, why: &str) -> Error {
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

/// Whether a graph takes images one pixel larger and twice as large as its own. One with a fully connected layer on the flattened
/// image does not.
fn takes_larger(file: &mut OnnxFile, path: &Path, own: &Network) -> bool {
    let grown = |grow: fn(usize) -> usize| with_sizes(own.input_shape(), |(_, size)| grow(size));
    [grown(|size| size.saturating_add(1)), grown(|size| size.saturating_mul(2))]
        .iter()
        .all(|one| accepts_input(file, path, one, own))
}

/// Whether it takes sizes between these two: one pixel above the smaller one, and halfway.
fn takes_between(file: &mut OnnxFile, path: &Path, [least, most]: [&Shape; 2], own: &Network) -> bool {
    let near = with_sizes(least, |(axis, size)| (size + 1).min(most.dims()[axis]));
    let half = with_sizes(least, |(axis, size)| usize::midpoint(size, most.dims()[axis]));
    [near, half].iter().all(|one| accepts_input(file, path, one, own))
}

fn accepts_input(file: &mut OnnxFile, path: &Path, input: &Shape, own: &Network) -> bool {
    set(file, path, input).is_ok() && read_resized(file, path, own).is_ok()
}

/// An input with the same channels and other sizes, set axis by axis.
fn with_sizes(input: &Shape, size: impl Fn((usize, usize)) -> usize) -> Shape {
    let sizes = input.dims().iter().copied().enumerate();
    Shape::new(sizes.map(|(axis, dim)| if axis == 0 { dim } else { size((axis, dim)) }).collect::<Vec<_>>())
}

/// The smallest input found between the requested one and the file's own that the graph takes. All axes but the channels grow by
/// the same share. None if the requested one is not smaller, or if only its own is taken.
fn smallest(file: &mut OnnxFile, path: &Path, input: &Shape, own: &Network) -> Option<Shape> {
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
    let mut fits = |step: usize| accepts_input(file, path, &between(step), own);
    // A graph that takes a size usually takes larger ones too; one that fixes everything takes only its own.
    let (mut no, mut yes) = (0, longest);
    while yes - no > 1 {
        let middle = usize::midpoint(no, yes);
        if fits(middle) { yes = middle } else { no = middle }
    }
    (yes < longest).then(|| between(yes))
}

/// A warning about images that the graph resizes to the same size as before, although their input changed.
fn fixed_size_warning(own: &Network, resized: &Network) -> Option<Warning> {
    let fixed = |(before, now): &(&Node, &Node)| {
        matches!(now.op, Op::Resize { .. })
            && before.shape == now.shape
            && own.input_of(before, 0) != resized.input_of(now, 0)
    };
    let names: Vec<String> = pairs(own, resized).filter(fixed).map(|(_, node)| node.name.clone()).collect();
    (!names.is_empty()).then(|| Warning::FixedSizes(names, resized.input_shape().to_string()))
}
