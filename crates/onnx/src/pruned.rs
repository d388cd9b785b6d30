//! Writes a pruned network with its weights: the file that it was read from, in which the weights keep the remaining channels alone.

use super::file::Initializer;
use super::ledger::Filters;
use super::magnitudes::{GIVEN, WITH_WEIGHTS, payload, without_weights};
use super::schema::{
    GraphProto, ModelProto, NodeProto, StringStringEntryProto, TensorProto, ValueInfoProto, tensor_proto::DataLocation,
    tensor_shape_proto::dimension, type_proto,
};
use super::write::check_replaced;
use super::{Dims, line_breaks, messages, opened, source, tensor, translated};
use perf4sight_base::checksum::checksum;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::{atomic_write, input_file};
use perf4sight_network::{Network, Node, Spans};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

mod views;

#[cfg(test)]
mod tests;

/// The positions of a layer's input and output that remain; none where all do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept<'a> {
    /// Of the input.
    pub inputs: Option<&'a [usize]>,
    /// Of the output.
    pub outputs: Option<&'a [usize]>,
    /// The axis of the output, counted from the last, which is 1.
    pub axis_from_last: usize,
}

/// What a file larger than this cannot be: protobuf counts its bytes in 31 bits.
const LARGEST: usize = i32::MAX as usize;

const IN_PYTHON: &str = "prune the module itself, from Python: perf4sight.prune; or leave out --weights";

/// Writes `pruned` to `out` as the file `source` with fewer channels: the layers in `kept`, by name, keep these slices of their
/// weights. `dims` gives the sizes of dimensions that the file leaves open.
///
/// # Errors
/// A file without weights; one that computes with sizes that are written into it, so that it would not be the pruned network; a file in
/// the way that is the source or that another program wrote, unless `replace`.
pub fn write_pruned(
    [source, out]: [&Path; 2],
    dims: &Dims,
    pruned: &Network,
    kept: &BTreeMap<&str, Kept>,
    replace: bool,
) -> Result<()> {
    check_replaced(out, replace)?;
    let file = opened(source, dims)?;
    let (read, filters) = translated(&file, source)?;
    let bytes = input_file::bytes(source, super::READ)?;
    let broken = |cause: prost::DecodeError| Error::input(format!("a damaged ONNX file: {cause}")).file(source);
    let mut model = ModelProto::decode(bytes.as_slice()).map_err(broken)?;
    // Layers are known by the names as they are read.
    line_breaks::escape(&mut model);
    let mut graph = model.graph.take().unwrap_or_default();
    check_stored(source, &graph, kept, &filters)?;
    let mut shared = split_shared(&mut graph);
    model.graph = Some(graph);
    let (apart, filters) = reread(&model.encode_to_vec(), source, dims)?;
    let kept = &renamed(kept, [&read.network, &apart]);
    let graph = model.graph.get_or_insert_default();
    let owners = owners(graph, kept, &filters);
    join_whole(graph, &mut shared, &owners);
    check_once(source, graph, (kept, &filters), &owners)?;
    let computed = computed(&apart, kept, &filters);
    let cuts = Cuts { source, kept, filters: &filters, owners };
    cuts.cut(graph, &file.initializers, &shared)?;
    if model.encoded_len() > LARGEST {
        return Err(Error::input("the pruned file would have more than 2 GiB, more than ONNX allows")
            .file(source)
            .help(IN_PYTHON));
    }
    let bytes = model.encode_to_vec();
    check_same(&bytes, source, dims, pruned).map_err(|error| because(error, computed))?;
    let mark = mark(&bytes);
    atomic_write::save(out, [bytes, mark].concat())
}

/// Refuses a file without the weights of a layer that becomes smaller.
fn check_stored(
    source: &Path,
    graph: &GraphProto,
    kept: &BTreeMap<&str, Kept>,
    filters: &BTreeMap<String, Filters>,
) -> Result<()> {
    let stored: BTreeSet<&str> = graph.initializer.iter().map(TensorProto::name).collect();
    let given: BTreeSet<&str> = graph.input.iter().map(ValueInfoProto::name).collect();
    let is_missing = |tensor: &str| given.contains(tensor) && !stored.contains(tensor);
    let missing =
        kept.keys().find(|layer| filters.get(**layer).is_some_and(|filters| is_missing(filters.tensor.as_str())));
    missing.map_or(Ok(()), |layer| Err(without_weights(source, layer, GIVEN)))
}

/// Refuses weights and biases that a file stores once for layers which keep other channels.
fn check_once(
    source: &Path,
    graph: &GraphProto,
    (kept, filters): (&BTreeMap<&str, Kept>, &BTreeMap<String, Filters>),
    owners: &BTreeMap<String, &str>,
) -> Result<()> {
    let refused = |tensor: &str| {
        let problem = format!("stores {tensor:?} once for several layers, which keep other channels each");
        Err(Error::input(problem).file(source).help(IN_PYTHON))
    };
    let mut by_tensor: BTreeMap<&str, &Kept> = BTreeMap::new();
    for (layer, own) in kept {
        let Some(filters) = filters.get(*layer) else { continue };
        if by_tensor.insert(&filters.tensor, own).is_some_and(|other| other != own) {
            return refused(&filters.tensor);
        }
    }
    let stored: BTreeSet<&str> = graph.initializer.iter().map(TensorProto::name).collect();
    let outputs = |tensor: &str| kept.get(owners.get(tensor)?)?.outputs;
    for node in graph.node.iter().filter(|node| matches!(node.op_type(), "Conv" | "ConvTranspose" | "Gemm")) {
        let [_, weight, bias] = node.input.as_slice() else { continue };
        if stored.contains(weight.as_str()) && stored.contains(bias.as_str()) && outputs(weight) != outputs(bias) {
            return refused(bias);
        }
    }
    Ok(())
}

/// The key of the note at the end of a file that was written here: the checksum of all before it, so that weights which were trained
/// since are not taken for those that were written.
const MARK: &str = "perf4sight.pruned";

/// The note of such a file; in protobuf, fields of a message may follow the others.
fn mark(bytes: &[u8]) -> Vec<u8> {
    let note = StringStringEntryProto { key: Some(MARK.into()), value: Some(checksum(bytes.iter().copied())) };
    ModelProto { metadata_props: vec![note], ..ModelProto::default() }.encode_to_vec()
}

/// Whether a file was written here, and nobody changed it since.
pub(super) fn is_marked(file: &mut File) -> bool {
    let mut bytes = Vec::new();
    let noted = |bytes: &[u8]| {
        let end = bytes.len().saturating_sub(mark(&[]).len());
        bytes[end..] == mark(&bytes[..end])
    };
    file.read_to_end(&mut bytes).is_ok() && noted(&bytes)
}

/// Gives every layer its own tensor, and returns the stored one by the name of each new one: older exporters of PyTorch store equal biases
/// once and give the other layers an `Identity` of it, but each layer keeps other channels.
fn split_shared(graph: &mut GraphProto) -> BTreeMap<String, String> {
    let stored: BTreeMap<String, TensorProto> =
        graph.initializer.iter().map(|tensor| (tensor.name().to_owned(), tensor.clone())).collect();
    let results: BTreeSet<String> = graph.output.iter().map(|output| output.name().to_owned()).collect();
    let mut shared = BTreeMap::new();
    graph.node.retain(|node| {
        let ([input], [output]) = (node.input.as_slice(), node.output.as_slice()) else { return true };
        let tensor = stored.get(input).filter(|_| node.op_type() == "Identity" && !results.contains(output));
        if let Some(tensor) = tensor {
            graph.initializer.push(TensorProto { name: Some(output.clone()), ..tensor.clone() });
            shared.insert(output.clone(), input.clone());
        }
        tensor.is_none()
    });
    shared
}

/// Stores tensors once again of which no layer is cut.
fn join_whole(graph: &mut GraphProto, shared: &mut BTreeMap<String, String>, owners: &BTreeMap<String, &str>) {
    let whole: BTreeMap<String, String> =
        shared.extract_if(.., |name, of| !owners.contains_key(name) && !owners.contains_key(of)).collect();
    graph.initializer.retain(|tensor| !whole.contains_key(tensor.name()));
    let again = |(name, of): (String, String)| NodeProto {
        op_type: Some("Identity".into()),
        input: vec![of],
        output: vec![name],
        ..NodeProto::default()
    };
    graph.node.splice(..0, whole.into_iter().map(again));
}

/// What remains of layers, by their names in the second of two files of one network: layers whose weights are stored as those of another have
/// names of their own where they have weights of their own.
fn renamed<'a>(kept: &BTreeMap<&'a str, Kept<'a>>, [read, apart]: [&'a Network; 2]) -> BTreeMap<&'a str, Kept<'a>> {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    // Operations are as many; a parameter that several read may be one node.
    for computes in [true, false] {
        let [one, other] = [read, apart].map(|network| {
            network.nodes().iter().filter(|node| node.inputs.is_empty() != computes).collect::<Vec<&Node>>()
        });
        if one.len() == other.len() {
            names.extend(one.into_iter().zip(other).map(|(one, other)| (&*one.name, &*other.name)));
        }
    }
    kept.iter().map(|(layer, kept)| (names.get(layer).copied().unwrap_or(layer), *kept)).collect()
}

/// The layer of every initializer that belongs to one of the smaller layers.
fn owners<'a>(
    graph: &GraphProto,
    kept: &BTreeMap<&'a str, Kept>,
    filters: &BTreeMap<String, Filters>,
) -> BTreeMap<String, &'a str> {
    let stored: BTreeSet<&str> = graph.initializer.iter().map(TensorProto::name).collect();
    let mut owners: BTreeMap<String, &str> = BTreeMap::new();
    for &layer in kept.keys() {
        owners.extend(filters.get(layer).map(|filters| (filters.tensor.clone(), layer)));
    }
    // PyTorch names the weights of a module by the module. A parameter of the module's own code is a layer itself, such as the scales of a block.
    for name in &stored {
        let of_module = || name.rsplit_once('.').and_then(|(module, _)| kept.get_key_value(module));
        let layer = kept.get_key_value::<str>(name).or_else(of_module);
        owners.extend(layer.filter(|_| !owners.contains_key(*name)).map(|(layer, _)| ((*name).to_owned(), *layer)));
    }
    // What an operation reads besides a layer's weight is the layer's: its bias, its running statistics. Older exporters add a bias behind the layer.
    let mut made: BTreeMap<&str, &str> = BTreeMap::new();
    for node in &graph.node {
        let layer = match node.op_type() {
            "Add" => node.input.iter().find_map(|input| made.get(input.as_str())),
            _ => node.input.iter().skip(1).find_map(|input| owners.get(input)),
        };
        let Some(&layer) = layer.filter(|_| is_layer(node)) else { continue };
        if matches!(node.op_type(), "Conv" | "ConvTranspose" | "MatMul") {
            made.extend(node.output.first().map(|output| (output.as_str(), layer)));
        }
        for input in node.input.iter().filter(|input| stored.contains(input.as_str())) {
            owners.entry(input.clone()).or_insert(layer);
        }
    }
    owners
}

fn is_layer(node: &NodeProto) -> bool {
    const LAYERS: [&str; 9] = [
        "Add",
        "Conv",
        "ConvTranspose",
        "Gemm",
        "MatMul",
        "BatchNormalization",
        "LayerNormalization",
        "GroupNormalization",
        "InstanceNormalization",
    ];
    LAYERS.contains(&node.op_type())
}

struct Cuts<'a> {
    source: &'a Path,
    kept: &'a BTreeMap<&'a str, Kept<'a>>,
    filters: &'a BTreeMap<String, Filters>,
    /// The layers of the tensors that become smaller.
    owners: BTreeMap<String, &'a str>,
}

impl Cuts<'_> {
    fn cut(&self, graph: &mut GraphProto, stored: &[Initializer], shared: &BTreeMap<String, String>) -> Result<()> {
        let mut stored: BTreeMap<&str, &Initializer> =
            stored.iter().map(|initializer| (initializer.tensor.name(), initializer)).collect();
        let own = shared.iter().filter_map(|(name, of)| Some((name.as_str(), *stored.get(of.as_str())?)));
        let own: Vec<(&str, &Initializer)> = own.collect();
        stored.extend(own);
        let groups = self.narrow(graph);
        views::resize(graph, &self.features(graph), &self.vectors(graph));
        for tensor in &mut graph.initializer {
            let is_cut = self.owners.contains_key(tensor.name());
            let Some(initializer) = stored.get(tensor.name()).filter(|_| is_cut || is_elsewhere(tensor)) else {
                continue;
            };
            let raw = payload(self.source, initializer).map_err(|why| {
                Error::input(format!("holds no values of {}: {why}", tensor.name()))
                    .file(self.source)
                    .help(WITH_WEIGHTS)
            })?;
            let groups = groups.get(tensor.name()).copied().unwrap_or(1);
            self.replace(tensor, raw, groups);
        }
        let dims: BTreeMap<&str, &[i64]> =
            graph.initializer.iter().map(|tensor| (tensor.name(), tensor.dims.as_slice())).collect();
        graph.input.iter_mut().for_each(|input| resize(input, &dims));
        // The sizes of results that the exporter noted are those before.
        graph.value_info.clear();
        Ok(())
    }

    /// Sets the groups of depthwise convolutions to the remaining channels, and returns those of the other convolutions by their
    /// weights.
    fn narrow(&self, graph: &mut GraphProto) -> BTreeMap<String, usize> {
        let channels: BTreeMap<&str, i64> =
            graph.initializer.iter().filter_map(|tensor| Some((tensor.name(), *tensor.dims.get(1)?))).collect();
        let mut groups = BTreeMap::new();
        for node in graph.node.iter_mut().filter(|node| is_layer(node)) {
            let Some(weight) = node.input.get(1) else { continue };
            let Some(kept) = self.owners.get(weight).and_then(|layer| self.kept.get(layer)) else { continue };
            let Some(group) = node.attribute.iter_mut().find(|attribute| attribute.name() == "group") else { continue };
            match (channels.get(weight.as_str()), kept.inputs) {
                (Some(1), Some(inputs)) if group.i() > 1 => group.i = Some(inputs.len() as i64),
                _ => {
                    groups.insert(weight.clone(), usize::try_from(group.i()).unwrap_or(1).max(1));
                }
            }
        }
        groups
    }

    /// How many features layers read before and now, by their weights.
    fn features(&self, graph: &GraphProto) -> BTreeMap<String, [usize; 2]> {
        let of = |tensor: &TensorProto| {
            let (layer, kept) = self.kept.get_key_value(self.owners.get(tensor.name())?)?;
            let filters = self.filters.get(*layer).filter(|filters| filters.tensor == tensor.name())?;
            let before = *tensor::dims(tensor)?.get(1_usize.checked_sub(filters.axis)?)?;
            Some((tensor.name().to_owned(), [before, kept.inputs?.len()]))
        };
        graph.initializer.iter().filter_map(of).collect()
    }

    /// How many elements the vectors of layers had before and have now: a layer may see its own as an image of one pixel.
    fn vectors(&self, graph: &GraphProto) -> BTreeMap<String, [usize; 2]> {
        let of = |tensor: &TensorProto| {
            let kept = self.kept.get(self.owners.get(tensor.name())?)?.outputs?;
            let &[before] = tensor::dims(tensor)?.as_slice() else { return None };
            kept.last().is_some_and(|last| *last < before).then(|| (tensor.name().to_owned(), [before, kept.len()]))
        };
        graph.initializer.iter().filter_map(of).collect()
    }

    /// Puts the remaining values of a tensor into it.
    fn replace(&self, tensor: &mut TensorProto, raw: Vec<u8>, groups: usize) {
        let mut values = Values { dims: tensor::dims(tensor).unwrap_or_default(), raw };
        if let Some((&layer, kept)) = self.owners.get(tensor.name()).and_then(|layer| self.kept.get_key_value(layer)) {
            let filters = self.filters.get(layer).filter(|filters| filters.tensor == tensor.name());
            match filters.map(|filters| filters.axis).filter(|axis| *axis < 2 && values.dims.len() > 1) {
                Some(0) if groups > 1 => values.keep_of_groups(groups, kept),
                Some(axis) => {
                    values.keep(axis, kept.outputs);
                    values.keep(1 - axis, kept.inputs.filter(|_| values.dims[1 - axis] > 1));
                }
                None => {
                    let axis = values.dims.len().saturating_sub(kept.axis_from_last);
                    values.keep(axis, kept.outputs);
                }
            }
        }
        let Values { dims, raw } = values;
        tensor.dims = dims.into_iter().map(|dim| dim as i64).collect();
        tensor.raw_data = Some(raw);
        tensor.float_data.clear();
        tensor.external_data.clear();
        tensor.data_location = None;
    }
}

fn is_elsewhere(tensor: &TensorProto) -> bool {
    tensor.data_location() == DataLocation::External
}

/// The elements of a tensor as bytes, the last axis closest together.
struct Values {
    dims: Vec<usize>,
    raw: Vec<u8>,
}

impl Values {
    /// Keeps these positions of an axis; all where there are none to keep or the axis is shorter.
    fn keep(&mut self, axis: usize, kept: Option<&[usize]>) {
        let Some((&length, kept)) = self.dims.get(axis).zip(kept) else { return };
        let outer: usize = self.dims[..axis].iter().product();
        let rows = outer * length;
        if kept.last().is_none_or(|last| *last >= length) || rows == 0 || !self.raw.len().is_multiple_of(rows) {
            return;
        }
        let inner = self.raw.len() / rows;
        let row = |row: usize| &self.raw[row * inner..(row + 1) * inner];
        let rows = (0..outer).flat_map(|outer| kept.iter().map(move |position| outer * length + position));
        self.raw = rows.flat_map(row).copied().collect();
        self.dims[axis] = kept.len();
    }

    /// The same of the filters of a convolution in groups, each of which reads the channels of its own group alone.
    fn keep_of_groups(&mut self, groups: usize, kept: &Kept) {
        let [filters, channels] = [self.dims[0], self.dims[1]];
        let all: Vec<usize> = (0..filters.max(groups * channels)).collect();
        let (outputs, inputs) =
            (kept.outputs.unwrap_or(&all[..filters]), kept.inputs.unwrap_or(&all[..groups * channels]));
        let fits = |kept: &[usize], length: usize| kept.last().is_some_and(|last| *last < length);
        let rows = filters * channels;
        if !fits(outputs, filters) || !fits(inputs, groups * channels) || !self.raw.len().is_multiple_of(rows) {
            return;
        }
        let inner = self.raw.len() / rows;
        let each = filters.div_ceil(groups);
        let rows = outputs.iter().flat_map(|&filter| {
            let own = move |input: &&usize| **input / channels == filter / each;
            inputs.iter().filter(own).map(move |input| filter * channels + input % channels)
        });
        self.raw = rows.flat_map(|row| &self.raw[row * inner..(row + 1) * inner]).copied().collect();
        self.dims[..2].copy_from_slice(&[outputs.len(), inputs.len() / groups]);
    }
}

/// Sets the sizes of a graph's input that is one of these tensors.
fn resize(input: &mut ValueInfoProto, dims: &BTreeMap<&str, &[i64]>) {
    let Some(dims) = dims.get(input.name()).copied() else { return };
    let Some(type_proto::Value::TensorType(tensor)) = input.r#type.as_mut().and_then(|kind| kind.value.as_mut()) else {
        return;
    };
    let sizes = tensor.shape.iter_mut().flat_map(|shape| &mut shape.dim);
    sizes.zip(dims).for_each(|(size, dim)| size.value = Some(dimension::Value::DimValue(*dim)));
}

/// The network that bytes are, with where the filters of its layers are stored.
fn reread(bytes: &[u8], source: &Path, dims: &Dims) -> Result<(Network, BTreeMap<String, Filters>)> {
    let mut file = messages(Cursor::new(bytes), bytes.len() as u64, source)?;
    source::set_dims(&mut file.model, dims).map_err(|problem| Error::usage(problem).file(source))?;
    translated(&file, source).map(|(read, filters)| (read.network, filters))
}

/// The first layer that becomes smaller without filters in the file.
fn computed<'a>(
    network: &'a Network,
    kept: &BTreeMap<&str, Kept>,
    filters: &BTreeMap<String, Filters>,
) -> Option<&'a str> {
    let has_filters = |node: &Node| {
        let spans = network.facts(node).weights.first().map(|weight| weight.spans);
        matches!(spans, Some(Spans::Filters { .. } | Spans::Transposed { .. }))
    };
    let is_computed =
        |node: &&Node| kept.contains_key(&*node.name) && !filters.contains_key(&*node.name) && has_filters(node);
    network.nodes().iter().find(is_computed).map(|node| &*node.name)
}

/// The error with its likely cause.
fn because(error: Error, computed: Option<&str>) -> Error {
    let cause = match computed {
        Some(layer) => format!("the file computes the weight of \"{layer}\" from other tensors, as weight normalisation does"),
        None => "the file holds numbers of channels of its own, as heads of attention and parts of channels (Split, Slice) do".to_owned(),
    };
    error.help(format!("{cause}: {IN_PYTHON}"))
}

/// Refuses bytes that are another network than the pruned one: a file may compute with sizes that are written into it.
fn check_same(bytes: &[u8], source: &Path, dims: &Dims, pruned: &Network) -> Result<()> {
    let refused = |problem: String| Err(Error::input(problem).file(source).help(IN_PYTHON));
    let read = match reread(bytes, source, dims) {
        Ok((read, _)) => read,
        Err(error) => {
            return refused(format!("it cannot be pruned in its own form, for then it could not be read: {error}"));
        }
    };
    let alike =
        |(one, other): &(&Node, &Node)| one.op == other.op && one.shape == other.shape && one.inputs == other.inputs;
    match read.nodes().iter().zip(pruned.nodes()).find(|pair| !alike(pair)) {
        Some((one, other)) if one.shape != other.shape => refused(format!(
            "it cannot be pruned in its own form: \"{}\" would give {}, not {}, because it computes with sizes that are written into the file",
            other.name, one.shape, other.shape
        )),
        Some((one, other)) => refused(format!(
            "it cannot be pruned in its own form: \"{}\" ({}) would be read as {}, of {} instead of {}",
            other.name,
            other.op.kind(),
            one.op.kind(),
            inputs(&read, one),
            inputs(pruned, other)
        )),
        None if read.nodes().len() != pruned.nodes().len() => refused("it cannot be pruned in its own form".to_owned()),
        None => Ok(()),
    }
}

/// What a node reads, by name.
fn inputs(network: &Network, node: &Node) -> String {
    let names: Vec<&str> = node.inputs.iter().map(|input| &*network.node(*input).name).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}
