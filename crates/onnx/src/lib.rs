//! Network files: ONNX, read in every form people have, written without weights.
//!
//! ```
//! use perf4sight_network::{Conv, NetworkBuilder, Op, Shape, Window, onnx};
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

mod align;
mod attributes;
mod batch;
mod call;
mod curves;
mod dims;
mod evaluated;
mod exporter;
mod file;
mod fold;
mod folded;
mod functions;
mod infer;
mod magnitudes;
mod node;
mod operators;
mod order;
mod partly;
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
mod value;
mod widths;
mod write;

pub use dims::{Dims, dims, parse_dim};
pub use magnitudes::Magnitudes;
pub use resized::read_at;
pub use write::{check_replaced, to_bytes, write, write_over};

use batch::SYMBOLIC_BATCH;
use file::File;
use folded::Notes;
use hashbrown::{HashMap, HashSet};
use perf4sight_base::error;
use perf4sight_base::error::Error;
use perf4sight_base::input_file;
use perf4sight_base::units::counted;
use perf4sight_network::{Network, NetworkBuilder, NodeId, Op, Shape};
use schema::tensor_proto::DataType;
use schema::{GraphProto, ModelProto, TensorProto};
use source::Problem;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Read, Seek};
use std::path::Path;
use translate::{Filters, Translation};
use value::{Feature, Value};

/// Opsets whose operators this reader knows.
const OPSETS: std::ops::RangeInclusive<i64> = 7..=27;

/// The operator set that files are written in, at least: the first in which a normalisation of groups scales every channel.
const OPSET: i64 = 21;

/// The domain of what ONNX has no operator for.
const DOMAIN: &str = "perf4sight";

/// What files of ours say wrote them.
const PRODUCER: &str = "perf4sight";

/// Adaptive pooling whose cells overlap, in that domain.
const ADAPTIVE: &str = "AdaptiveAveragePool";

/// A network as its file holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The network, without weights.
    pub network: Network,
    /// What the reader found odd, one sentence each: folded batch-norm, unknown operations, a newer opset.
    pub warnings: Vec<String>,
}

/// Reads a network; weights are skipped, however large.
///
/// The network is called after the file. Its batch is left open even where the file fixes one.
///
/// # Errors
/// A missing or damaged file, a graph that contradicts itself or decides by data what runs, quantised or sparse tensors, inputs without a
/// common batch or of open sizes, an opset below 7.
pub fn read(path: impl AsRef<Path>) -> error::Result<Loaded> {
    let path = path.as_ref();
    translated(&open(path)?, path).map(|(loaded, _)| loaded)
}

/// As [`read`], dimensions that the file leaves open being as large as `dims` says; the batch stays open in any case.
///
/// # Errors
/// As [`read`], and where the file has no dimension of such a name.
pub fn read_sized(path: impl AsRef<Path>, dims: &Dims) -> error::Result<Loaded> {
    let path = path.as_ref();
    translated(&opened(path, dims)?, path).map(|(loaded, _)| loaded)
}

/// The names of the dimensions that a file leaves open, its batch among them.
///
/// # Errors
/// A missing or damaged file.
pub fn open_dims(path: impl AsRef<Path>) -> error::Result<BTreeSet<String>> {
    open(path.as_ref()).map(|file| file.model.graph.as_ref().map(source::open_names).unwrap_or_default())
}

/// A file, what it leaves open as large as it is said to be.
fn opened(path: &Path, dims: &Dims) -> error::Result<File> {
    let mut file = open(path)?;
    source::set_dims(&mut file.model, dims).map_err(|problem| Error::usage(problem).file(path))?;
    Ok(file)
}

/// As [`read_sized`], or as [`read_at`] where an input is given, and the mean magnitude of every filter, for l1 pruning.
///
/// # Errors
/// Also when a layer's weights are not in the file or in a data file beside it.
pub fn read_with_magnitudes(
    path: impl AsRef<Path>,
    dims: &Dims,
    input: Option<&Shape>,
) -> error::Result<(Loaded, Magnitudes)> {
    let path = path.as_ref();
    let file = opened(path, dims)?;
    let (file, loaded, filters) = match input {
        Some(input) => resized::resized(file, path, input)?,
        None => translated(&file, path).map(|(loaded, filters)| (file, loaded, filters))?,
    };
    let magnitudes = magnitudes::read(path, &file, &loaded.network, &filters)?;
    Ok((loaded, magnitudes))
}

/// As [`read`], from the bytes of a file; the network and all messages call it `name`.
///
/// # Errors
/// As [`read`].
pub fn from_bytes(name: &str, bytes: &[u8]) -> error::Result<Loaded> {
    let path = Path::new(name);
    translated(&messages(Cursor::new(bytes), bytes.len() as u64, path)?, path).map(|(loaded, _)| loaded)
}

/// What is done with a file here, for messages.
const READ: &str = "read the network";

fn open(path: &Path) -> error::Result<File> {
    let failed = |cause| Error::io(path, READ, &cause);
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if metadata.is_dir() {
        return Err(Error::input("is no file").file(path).expected("an .onnx file"));
    }
    let input = input_file::open(path, READ)?;
    messages(input, metadata.len(), path)
}

fn messages(input: impl Read + Seek, length: u64, path: &Path) -> error::Result<File> {
    file::read(input, length).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::InvalidData => Error::input(format!("is no ONNX file, or a damaged one: {cause}"))
            .file(path)
            .expected("what torch.onnx.export writes")
            .help("export the network again, or copy the file again if it was cut off"),
        std::io::ErrorKind::Unsupported => {
            Error::input(cause.to_string()).file(path).help("export the network again, without functions of its own")
        }
        _ => Error::io(path, READ, &cause),
    })
}

/// The network, and where the filters of its layers lie.
fn translated(file: &File, path: &Path) -> error::Result<(Loaded, BTreeMap<String, Filters>)> {
    loaded(file, path).map_err(|(problem, help)| {
        let error = Error::input(batch::said(&problem)).file(path);
        help.into_iter().fold(error, Error::help)
    })
}

/// The same; the error has no place yet.
fn loaded(file: &File, path: &Path) -> Result<(Loaded, BTreeMap<String, Filters>), Problem> {
    let name = path.file_stem().map_or("network".into(), |stem| stem.to_string_lossy());
    let mut warnings = Vec::new();
    let opset = opset(&file.model, &mut warnings)?;
    warnings.extend(widths::warning(file));
    let empty = GraphProto::default();
    let graph = file.model.graph.as_ref().unwrap_or(&empty);
    let Translated { network, filters, guessed, unfolded, told, noted } = network(file, graph, &name, opset)?;
    let folded = folded::is_folded(&file.model, graph, &network, &filters, Notes { unfolded, noted });
    let network = network.folded(folded);
    let fused = || folded::maybe_fused(&file.model, graph, &network).filter(|_| unfolded == 0 && !noted);
    warnings.extend(several_outputs(&network));
    warnings.extend(unknown_operations(&network));
    warnings.extend(guessed_shapes(&guessed));
    warnings.extend(told);
    warnings.extend(folded::warning(&network).or_else(|| folded::restored(unfolded)).or_else(fused));
    warnings.extend(evaluated::warning(graph, &network, noted));
    warnings.extend(batch_products(&network));
    let warnings = warnings.iter().map(|warning| batch::said(warning)).collect();
    Ok((Loaded { network, warnings }, filters))
}

/// The version of ONNX's operators that the file uses.
fn opset(model: &ModelProto, warnings: &mut Vec<String>) -> Result<i64, Problem> {
    const AGAIN: &str = "export with opset_version=17";
    let standard = model.opset_import.iter().filter(|import| matches!(import.domain(), "" | "ai.onnx"));
    let opset = standard.map(|import| import.version()).max();
    match opset {
        None => Err(("names no ONNX opset, so it is no ONNX file or a damaged one".into(), Some(AGAIN))),
        Some(opset) if opset < *OPSETS.start() => {
            Err((format!("uses opset {opset}, older than the oldest supported, {}", OPSETS.start()), Some(AGAIN)))
        }
        Some(opset) => {
            if opset > *OPSETS.end() {
                let known = OPSETS.end();
                warnings.push(format!(
                    "uses opset {opset}, newer than {known}: operators that changed since are read as in {known}"
                ));
            }
            Ok(opset)
        }
    }
}

/// What reading a graph gives.
struct Translated {
    network: Network,
    /// Where the filters of its layers lie, by node name.
    filters: BTreeMap<String, Filters>,
    /// The nodes whose shape is a guess.
    guessed: Vec<String>,
    /// Batch normalisations that the exporter folded and its notes gave back.
    unfolded: usize,
    /// What to tell of parameters that the exporter left out, of those of two layers, and of shapes.
    told: Vec<String>,
    /// Whether the exporter noted where nodes come from.
    noted: bool,
}

/// The versions of the operator sets that are not ONNX's own.
fn domains(model: &ModelProto) -> HashMap<&str, i64> {
    let foreign = model.opset_import.iter().filter(|import| !matches!(import.domain(), "" | "ai.onnx"));
    foreign.map(|import| (import.domain(), import.version())).collect()
}

fn network(file: &File, graph: &GraphProto, name: &str, opset: i64) -> Result<Translated, Problem> {
    refused::check(graph)?;
    let data = source::data(graph, &file.initializers)?;
    let samples = data[0].samples;
    let outputs = outputs(graph)?;
    let held = partly::told(&file.model);
    let exporter = exporter::Exporter::of(graph, &file.initializers).knowing(held.keys().copied());
    let mut values = source::givens(file, graph, &exporter, &data)?;
    let (builder, features) = reading(name, &data)?;
    values.extend(data.iter().map(|data| data.name.as_str()).zip(features.into_iter().map(Value::Feature)));
    values.reserve(graph.node.len());
    let order = order::ordered(&graph.node, &|name| values.contains_key(name), &outputs)?;
    let mut translation = Translation {
        builder,
        batch: samples.unwrap_or(SYMBOLIC_BATCH),
        opset,
        ours: file.model.producer_name() == PRODUCER,
        domains: domains(&file.model),
        declared: source::declared(graph),
        exporter: &exporter,
        unfolded: 0,
        readers: source::readers(graph),
        filters: BTreeMap::new(),
        curves: curves::Curves::default(),
        moved: HashSet::new(),
        normalised: HashMap::new(),
        grouped: HashMap::new(),
        paddings: HashMap::new(),
        owners: HashMap::new(),
        biases: HashMap::new(),
        twice: BTreeSet::new(),
        parts: BTreeMap::new(),
        apart: BTreeSet::new(),
        partly: BTreeMap::new(),
        held: BTreeMap::new(),
        tables: HashMap::new(),
        claimed: HashMap::new(),
        contradicted: Vec::new(),
        guessed: Vec::new(),
        values,
    };
    if order.is_empty() {
        let help = "export a network that computes something";
        return Err(("holds no operation: what it gives is what it reads".into(), Some(help)));
    }
    for node in order {
        translation.read(node).map_err(|why| (format!("{} {why}", source::described(node)), None))?;
    }
    let results = results(&translation, &outputs)?;
    let noticed = partly::completed(&mut translation).into_iter().chain(lying_apart(&translation.apart));
    let noticed = noticed.collect::<Vec<_>>();
    let unread = partly::unread(&translation, &held);
    let Translation { builder, filters, guessed, unfolded, twice, parts, contradicted, .. } = translation;
    let told = exporter.warnings(samples).into_iter().chain(read_twice(&twice)).chain(read_in_parts(&parts));
    let told =
        told.chain(noticed).chain(contradictions(&contradicted)).chain(kept_by_name(&exporter, &file.initializers));
    let told = told.chain(twins(graph, &file.initializers).filter(|_| !exporter.notes()));
    let (told, network) = (told.collect(), builder.finish_with(&results).holding(unread));
    refused::batches(&network)?;
    Ok(Translated { network, filters, guessed, unfolded, told, noted: exporter.notes() })
}

/// The beginning of a network, and its inputs. A single one is called the same in every network, several as in their file.
fn reading(network: &str, data: &[source::Data]) -> Result<(NetworkBuilder, Vec<Feature>), Problem> {
    let (first, others) = data.split_first().expect("the source of a network names at least one input");
    let mut builder = match others {
        [] => NetworkBuilder::new(network, first.input.clone()),
        _ => NetworkBuilder::reading(network, &*first.name, first.input.clone()),
    };
    let mut ids = vec![builder.input()];
    for other in others {
        let added = builder.insert(&other.name, Op::Input(other.input.clone()), &[]);
        ids.push(added.map_err(|why| (format!("input \"{}\" {why}", other.name), None))?);
    }
    let feature = |(id, data): (NodeId, &source::Data)| Feature { id, batch: Some(data.batch), guessed: false };
    let features = ids.into_iter().zip(data).map(feature).collect();
    Ok((builder, features))
}

/// The names of what the graph gives.
fn outputs(graph: &GraphProto) -> Result<Vec<&str>, Problem> {
    let names: Vec<&str> = graph.output.iter().map(|output| output.name()).collect();
    match names.is_empty() {
        true => Err((
            "holds no graph with an output, so it is no ONNX file or a damaged one".into(),
            Some("export the network again"),
        )),
        false => Ok(names),
    }
}

/// What the network gives: of several outputs those that depend on what it reads.
fn results(translation: &Translation, outputs: &[&str]) -> Result<Vec<NodeId>, Problem> {
    let result = |output: &&str| match translation.values.get(*output) {
        Some(Value::Feature(result)) if translation.depends_on_data(result.id) => Some(result.id),
        _ => None,
    };
    let results: Vec<NodeId> = outputs.iter().filter_map(result).collect();
    match (results.as_slice(), outputs) {
        ([], [output]) => Err((format!("output \"{output}\" does not depend on the input"), None)),
        ([], _) => Err((format!("none of the outputs {} depends on the input", outputs.join(", ")), None)),
        _ => Ok(results),
    }
}

fn several_outputs(network: &Network) -> Option<String> {
    let names = network.outputs().iter().map(|output| network.node(*output).name.as_str()).collect::<Vec<_>>();
    (names.len() > 1).then(|| {
        format!(
            "has {} outputs ({}): a training step has a loss of each that is numbers, and trains for their sum",
            names.len(),
            names.join(", ")
        )
    })
}

fn batch_products(network: &Network) -> Option<String> {
    let across: Vec<&str> =
        network.nodes().iter().filter(|node| network.facts(node).across).map(|node| node.name.as_str()).collect();
    (!across.is_empty()).then(|| {
        format!(
            "every sample meets all others of its batch in {}: its cost is that of the batch asked about and grows with its square, where \
             figures are for one sample they are those of a batch of one, and the memory of what it makes is not known",
            across.join(", ")
        )
    })
}

fn read_twice(tensors: &BTreeSet<String>) -> Option<String> {
    let first = tensors.first()?;
    Some(format!(
        "two layers read the same in different shapes, of {} (\"{first}\" is one): it counts once, and where channels are pruned each layer \
         goes on with its own",
        counted(tensors.len() as u64, "weight")
    ))
}

/// What was taken for granted of attention that reads, say, what a convolution gave.
fn lying_apart(attentions: &BTreeSet<String>) -> Option<String> {
    let first = attentions.first()?;
    Some(format!(
        "{} ({first}) {} features that lie apart, and {} taken as computed step by step, with all scores in memory, as PyTorch does unless the program \
         calls contiguous() first, of which this file does not tell: PyTorch's default exporter (dynamo=True) does",
        counted(attentions.len() as u64, "attention"),
        if attentions.len() == 1 { "reads" } else { "read" },
        if attentions.len() == 1 { "is" } else { "are" },
    ))
}

fn read_in_parts(tensors: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
    let (first, _) = tensors.first_key_value()?;
    let layers: Vec<&str> = tensors.values().flatten().map(String::as_str).collect();
    let (shown, more) = layers.split_at(layers.len().min(4));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    Some(format!(
        "{}{more} read parts of parameters (\"{first}\" is one): where channels are pruned each of them goes on with its own part, and \
         what is left may no longer fit into one parameter",
        shown.join(", ")
    ))
}

/// Whether a tensor holds numbers that may be trained.
fn is_float(tensor: &TensorProto) -> bool {
    DataType::try_from(tensor.data_type()).is_ok_and(tensor::is_float)
}

/// Of what is stored, an exporter that notes nothing does not tell parameters from buffers but by their names.
fn kept_by_name(exporter: &exporter::Exporter, stored: &[file::Initializer]) -> Option<String> {
    let tensors = stored.iter().map(|one| &one.tensor).filter(|tensor| is_float(tensor));
    let kept = tensors.filter(|tensor| exporter.keeps_by_name(tensor.name()));
    let named = |tensor: &TensorProto| {
        let elements = tensor.dims.iter().map(|&dim| dim.max(0) as u64).fold(1, u64::saturating_mul);
        format!("{} of {}", tensor.name(), counted(elements, "number"))
    };
    let kept: Vec<String> = kept.map(named).collect();
    (!kept.is_empty()).then(|| {
        format!(
            "by their names alone these count as buffers, which nobody trains: {}; if one is a parameter, export the network with PyTorch's \
             default exporter, whose notes tell, or call it otherwise",
            kept.join(", ")
        )
    })
}

/// PyTorch's exporter to TorchScript stores tensors that are equal once, and names the others by an Identity each: tied weights as well as layers that
/// merely began with the same values (`deduplicate_initializers`; outside of training mode it compares values).
fn twins(graph: &GraphProto, stored: &[file::Initializer]) -> Option<String> {
    // Vectors that were merged count each time anyway.
    let tensors = stored.iter().map(|one| &one.tensor).filter(|tensor| is_float(tensor) && tensor.dims.len() > 1);
    let tensors: BTreeSet<&str> = tensors.map(|tensor| tensor.name()).collect();
    let identities = graph.node.iter().filter(|node| node.op_type() == "Identity");
    let mut twins = identities.filter_map(|node| Some((node.output.first()?, node.input.first()?)));
    let is_twin = |(_, of): &(&String, &String)| tensors.contains(of.as_str());
    let (twin, of) = twins.find(is_twin)?;
    let all = 1 + twins.filter(is_twin).count();
    let stored = match all {
        1 => format!("1 tensor is stored as another that it equals ({twin} as {of}), and counts with it"),
        _ => format!("{all} tensors are stored as others that they equal ({twin} as {of}, ...), and count with them"),
    };
    Some(format!(
        "{stored}: so PyTorch writes tied weights, and with dynamo=False also layers that only began alike, whose parameters, gradients and \
         states are missing then; export the network with training=torch.onnx.TrainingMode.TRAINING and do_constant_folding=False, which keeps \
         those apart"
    ))
}

fn contradictions(shapes: &[String]) -> Option<String> {
    let first = shapes.first()?;
    let more = match shapes.len() - 1 {
        0 => String::new(),
        more => format!(" ({more} more are like it)"),
    };
    Some(format!(
        "declares {first}{more}: what the operators make is taken; export it again where a tool has changed the file"
    ))
}

fn guessed_shapes(nodes: &[String]) -> Option<String> {
    let first = nodes.first()?;
    let more = match nodes.len() - 1 {
        0 => String::new(),
        more => format!(" and of {more} more"),
    };
    Some(format!(
        "nothing tells the shape of what {first}{more} gives, which is taken for that of its first input: all that follows may be \
         wrong; run onnx.shape_inference.infer_shapes_path on the file, or export with fixed sizes"
    ))
}

fn unknown_operations(network: &Network) -> Option<String> {
    let coverage = network.coverage();
    let list = coverage.unknown.iter().map(|(name, missed)| format!("{name} x{}", missed.operations));
    let list: Vec<String> = list.collect();
    (!list.is_empty()).then(|| {
        format!(
            "{} of {} operations are known; the others can be run by no worker, and what they cost is guessed from {}: {}",
            coverage.known(),
            coverage.operations,
            guessed_from(network),
            list.join(", ")
        )
    })
}

/// What the cost of unknown operations is computed from.
fn guessed_from(network: &Network) -> String {
    const SIZES: &str = "the size of what they read and write";
    let products = network.nodes().iter().filter_map(|node| {
        let Op::Unknown(unknown) = &node.op else { return None };
        (unknown.macs > 0).then_some(unknown.op_type.as_str())
    });
    let products: BTreeSet<&str> = products.collect();
    if products.is_empty() {
        return SIZES.to_owned();
    }
    format!(
        "{SIZES}, that of {} from the products too that they are made of",
        products.into_iter().collect::<Vec<_>>().join(", ")
    )
}
