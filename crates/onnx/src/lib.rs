//! Network files: reads the common forms of ONNX, and writes ONNX without weights.
//!
//! ```
//! use perf4sight_network::{Conv, NetworkBuilder, Op, Shape, Window};
//! use perf4sight_onnx as onnx;
//! let mut builder = NetworkBuilder::new("tiny", Shape::new([3, 8, 8]));
//! let conv = Conv { out_channels: 4, window: Window::square(3, 1, 1), groups: 1, bias: true };
//! let conv = builder.add("conv", Op::Conv(conv), &[builder.input()])?;
//! let network = builder.finish(conv);
//! let loaded = onnx::from_bytes("tiny", &onnx::to_bytes(&network))?;
//! assert_eq!(loaded.network, network);
//! assert!(loaded.warnings.is_empty());
//! # Ok::<(), perf4sight_base::error::Error>(())
//! ```

#![warn(missing_docs)]

mod adapters;
mod align;
mod attributes;
mod batch;
mod call;
mod curves;
mod dims;
mod evaluation_mode;
mod exporter;
mod file;
mod fold;
mod functions;
mod infer;
mod keeping;
mod ledger;
mod line_breaks;
mod magnitudes;
mod no_grad;
mod node;
mod notes;
mod number;
mod operator_names;
mod operators;
mod order;
mod parameters;
mod pending_pattern;
mod pruned;
mod reader;
mod rearrange;
mod refused;
mod resized;
#[allow(clippy::enum_variant_names)] // the names are ONNX's
mod schema;
mod source;
mod tensor;
#[cfg(test)]
mod tests;
mod translate;
mod twins;
mod value;
mod values;
mod warning;
mod widths;
mod write;

pub use dims::{NamedDims, dims, parse_dim};
pub use magnitudes::Magnitudes;
pub use pruned::{KeptPositions, write_pruned};
pub use resized::read_at;
pub use write::{check_replaced, to_bytes, write, write_over};

use file::OnnxFile;
use ledger::LayerFilters;
use perf4sight_base::error;
use perf4sight_base::error::Error;
use perf4sight_base::input_file;
use perf4sight_network::{KeptReading, Network, Op, Shape};
use reader::ReadValue;
use schema::{GraphProto, ModelProto};
use source::FileProblem;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Read, Seek};
use std::path::Path;
use twins::EqualParts;
use warning::{UnknownOperators, Warning};

const OPSETS: std::ops::RangeInclusive<i64> = 7..=27;

/// The operator set of written files, at least: the first in which group normalisation scales every channel.
const OPSET: i64 = 21;

/// The domain of operations without an ONNX operator.
const DOMAIN: &str = "perf4sight";

/// The producer in our files.
const PRODUCER: &str = "perf4sight";

/// How the name of a recurrent layer's input ends in our files, if the layer reads time steps before samples.
const STEPS_FIRST: &str = "/read_steps_first";

/// Adaptive pooling whose cells overlap, in that domain.
const ADAPTIVE: &str = "AdaptiveAveragePool";

/// A copy that `Tensor.contiguous` makes, in that domain, as the Python module exports it.
const CONTIGUOUS: &str = "Contiguous";

/// A network read from a file.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedOnnx {
    /// The network, without weights.
    pub network: Network,
    /// Warnings, one sentence each: folded batch-norm, unknown operations, a newer opset.
    pub warnings: Vec<String>,
}

/// Reads a network; weights are skipped, however large.
///
/// The network gets the name of the file. Its batch is left open even if the file fixes one.
///
/// # Errors
/// A missing or damaged file, a graph that contradicts itself or whose control flow depends on data, quantised or sparse tensors,
/// inputs without a common batch or of open sizes, an opset below 7.
pub fn read(path: impl AsRef<Path>) -> error::Result<LoadedOnnx> {
    let path = path.as_ref();
    translate_file(&open(path)?, path).map(|(loaded, _)| loaded)
}

/// As [`read`], with the sizes in `dims` for dimensions that the file leaves open; the batch stays open in any case.
///
/// # Errors
/// As [`read`], and if the file has no dimension of such a name, or it is that of the batch.
pub fn read_sized(path: impl AsRef<Path>, dims: &NamedDims) -> error::Result<LoadedOnnx> {
    let path = path.as_ref();
    translate_file(&open_with_dims(path, dims)?, path).map(|(loaded, _)| loaded)
}

/// The names of the dimensions that a file leaves open, its batch among them.
///
/// # Errors
/// A missing or damaged file.
pub fn open_dims(path: impl AsRef<Path>) -> error::Result<BTreeSet<String>> {
    open(path.as_ref()).map(|file| file.model.graph.as_ref().map(source::open_names).unwrap_or_default())
}

fn open_with_dims(path: &Path, dims: &NamedDims) -> error::Result<OnnxFile> {
    let mut file = open(path)?;
    source::set_dims(&mut file.model, dims).map_err(|problem| Error::usage(problem).file(path))?;
    Ok(file)
}

/// As [`read_sized`], or as [`read_at`] if an input is given, with the mean magnitude of every filter, for l1 pruning.
///
/// # Errors
/// Also when a layer's weights are neither in the file nor in a data file next to it.
pub fn read_with_magnitudes(
    path: impl AsRef<Path>,
    dims: &NamedDims,
    input: Option<&Shape>,
) -> error::Result<(LoadedOnnx, Magnitudes)> {
    let path = path.as_ref();
    let file = open_with_dims(path, dims)?;
    let (file, loaded, filters) = match input {
        Some(input) => resized::resize_file(file, path, input)?,
        None => translate_file(&file, path).map(|(loaded, filters)| (file, loaded, filters))?,
    };
    let magnitudes = magnitudes::read(path, &file, &loaded.network, &filters)?;
    Ok((loaded, magnitudes))
}

/// As [`read`], from the bytes of a file; `name` is the network's name, also in messages.
///
/// # Errors
/// As [`read`].
pub fn from_bytes(name: &str, bytes: &[u8]) -> error::Result<LoadedOnnx> {
    let path = Path::new(name);
    translate_file(&messages(Cursor::new(bytes), bytes.len() as u64, path)?, path).map(|(loaded, _)| loaded)
}

const READ: &str = "read the network";

fn open(path: &Path) -> error::Result<OnnxFile> {
    let failed = |cause| Error::io(path, READ, &cause);
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if metadata.is_dir() {
        return Err(Error::input("is not a file").file(path).expected("an .onnx file"));
    }
    let input = input_file::open(path, READ)?;
    messages(input, metadata.len(), path)
}

fn messages(input: impl Read + Seek, length: u64, path: &Path) -> error::Result<OnnxFile> {
    file::read(input, length).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::InvalidData => Error::input(format!("is not an ONNX file, or a damaged one: {cause}"))
            .file(path)
            .expected("what torch.onnx.export writes")
            .help("export the network again, or copy the file again if it was cut off"),
        std::io::ErrorKind::Unsupported => {
            Error::input(cause.to_string()).file(path).help("export the network again, without functions of its own")
        }
        _ => Error::io(path, READ, &cause),
    })
}

fn translate_file(file: &OnnxFile, path: &Path) -> error::Result<(LoadedOnnx, BTreeMap<String, LayerFilters>)> {
    load_graph(file, path).map_err(|problem| in_file(problem, path))
}

fn in_file((problem, help): FileProblem, path: &Path) -> Error {
    let error = Error::input(problem).file(path);
    help.into_iter().fold(error, Error::help)
}

/// Where a file has what its network is made of.
struct TensorOrigins {
    /// Where the filters of layers are stored, by layer name.
    filters: BTreeMap<String, LayerFilters>,
    /// The nodes that make the values of the graph, by the names of values.
    values: BTreeMap<String, ReadValue>,
}

/// Reads a network from the messages of a file; the error does not name the file yet.
fn load_graph(file: &OnnxFile, path: &Path) -> Result<(LoadedOnnx, BTreeMap<String, LayerFilters>), FileProblem> {
    load_with_origins(file, path).map(|(loaded, traced)| (loaded, traced.filters))
}

fn load_with_origins(file: &OnnxFile, path: &Path) -> Result<(LoadedOnnx, TensorOrigins), FileProblem> {
    let name = path.file_stem().map_or("network".into(), |stem| stem.to_string_lossy());
    let opset = opset(&file.model)?;
    let empty = GraphProto::default();
    let graph = file.model.graph.as_ref().unwrap_or(&empty);
    let read = |keeping: KeptReading| reader::read(file, graph, &name, opset, keeping);
    let mut reading = read(KeptReading::Likely)?;
    let folded = evaluation_mode::is_batch_norm_folded(&file.model, graph, &reading);
    let mut others = match reading.leaves_open {
        true => [KeptReading::Least, KeptReading::Most]
            .into_iter()
            .filter_map(|one| Some(read(one).ok()?.network))
            .collect(),
        // What variables hold is no other network.
        false if reading.network.may_hold_variables() => vec![reading.network.clone().as_keeping(KeptReading::Most)],
        false => Vec::new(),
    };
    if let Some(twins) = followers(&reading.network) {
        lower(&mut others, &reading.network, |network| twins.without_gradient(network));
    }
    let adapters = adapters_of(&reading.network);
    if !adapters.is_empty() {
        lower(&mut others, &reading.network, |network| adapters::trained_alone(network, &adapters));
    }
    let steps = reading.network.followed().and_then(|followed| followed.other_steps());
    others.extend(steps.into_iter().flatten().map(|other| reading.network.clone().following(Some(other))));
    reading.network = reading.network.folded(folded).with_readings(others);
    let newer = (opset > *OPSETS.end()).then(|| Warning::NewerOpset(opset, *OPSETS.end()));
    let mut warnings: Vec<Warning> = newer.into_iter().chain(widths::warning(file)).collect();
    warnings.extend(evaluation_mode::warnings(&file.model, graph, &reading));
    warnings.extend(oddities(&reading.network));
    warnings.extend(checkpoint_warning(graph, &reading.network));
    warnings.append(&mut reading.warnings);
    warnings.sort();
    let warnings = warnings.iter().map(ToString::to_string).collect();
    Ok((
        LoadedOnnx { network: reading.network, warnings },
        TensorOrigins { filters: reading.filters, values: reading.values },
    ))
}

fn opset(model: &ModelProto) -> Result<i64, FileProblem> {
    const AGAIN: &str = "export with opset_version=17";
    let standard = model.opset_import.iter().filter(|import| matches!(import.domain(), "" | "ai.onnx"));
    match standard.map(|import| import.version()).max() {
        None => Err(("names no ONNX opset, so it is not an ONNX file or a damaged one".into(), Some(AGAIN))),
        Some(opset) if opset < *OPSETS.start() => {
            Err((format!("uses opset {opset}, older than the oldest supported, {}", OPSETS.start()), Some(AGAIN)))
        }
        Some(opset) => Ok(opset),
    }
}

/// Changes the reading that keeps least, or adds it.
fn lower(others: &mut Vec<Network>, network: &Network, change: impl Fn(&Network) -> Network) {
    match others.iter_mut().find(|one| one.keeping() == KeptReading::Least) {
        Some(least) => *least = change(least),
        None => others.push(change(network).as_keeping(KeptReading::Least)),
    }
}

/// Layers that look like adapters; of a module it is known what is trained.
fn adapters_of(network: &Network) -> Vec<[String; 2]> {
    if network.followed().is_some() { Vec::new() } else { adapters::adapters(network) }
}

/// Equal parts one of which may follow the other; of a module it is known.
fn followers(network: &Network) -> Option<EqualParts> {
    if network.followed().is_some() { None } else { twins::twins(network) }
}

fn oddities(network: &Network) -> impl Iterator<Item = Warning> {
    let outputs = network.outputs().iter().map(|output| network.node(*output).name.clone()).collect::<Vec<_>>();
    let across = network.nodes().iter().filter(|node| network.facts(node).across).map(|node| node.name.clone());
    let across = across.collect::<Vec<_>>();
    let outputs = (outputs.len() > 1).then_some(Warning::SeveralOutputs(outputs));
    let across = (!across.is_empty()).then_some(Warning::AcrossSamples(across));
    let recurrent = network.nodes().iter().filter(|node| matches!(node.op, Op::Recurrent(_))).count();
    // Memory of a module that was followed is exact.
    let recurrent = (recurrent > 0 && network.followed().is_none()).then_some(Warning::Recurrent(recurrent));
    let adapters = adapters_of(network);
    let adapters = (!adapters.is_empty()).then_some(Warning::Adapters(adapters));
    let twins = followers(network).map(Warning::Twins);
    [outputs, unknown_operations(network), adapters, twins, across, recurrent, borrowing(network)].into_iter().flatten()
}

/// What may have run within a checkpoint, which no file holds; of a module it is known.
fn checkpoint_warning(graph: &GraphProto, network: &Network) -> Option<Warning> {
    let operations = graph.node.iter().filter(|node| notes::may_be_checkpointed(node)).count();
    (operations > 0 && network.followed().is_none()).then_some(Warning::Checkpointed(operations))
}

/// Other operators whose kernels borrow memory by their sizes than those that passes tell of.
const BORROWING: [&str; 3] = ["DeformConv", "GRU", "RNN"];

/// A module's own pass does not show what kernels borrow: the graph tells it of the operations that it has.
fn borrowing(network: &Network) -> Option<Warning> {
    let unlike = network.followed()?.differing_operators(network).into_iter();
    let unlike = unlike.map(|(kind, [run, known])| format!("{kind} ({known} of {run} are known)"));
    let unknown = network.coverage().unknown.into_keys().filter(|kind| BORROWING.contains(&kind.as_str()));
    let kinds: Vec<String> = unlike.chain(unknown).collect();
    (!kinds.is_empty()).then_some(Warning::Borrowing(kinds))
}

fn unknown_operations(network: &Network) -> Option<Warning> {
    let coverage = network.coverage();
    let kinds: Vec<_> = coverage.unknown.iter().map(|(name, missed)| (name.to_string(), missed.operations)).collect();
    let products = network.nodes().iter().filter_map(|node| {
        let Op::Unknown(unknown) = &node.op else { return None };
        (unknown.macs > 0).then(|| unknown.op_type.clone())
    });
    let products = products.collect();
    let unknown = UnknownOperators { known: coverage.supported(), operations: coverage.operations, kinds, products };
    (!unknown.kinds.is_empty()).then_some(Warning::Unknown(unknown))
}
