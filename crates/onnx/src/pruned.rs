//! Writes a pruned network with its weights: the file that it was read from, in which the weights keep the remaining channels alone.

use super::file::Initializer;
use super::ledger::LayerFilters;
use super::magnitudes::{GIVEN, WITH_WEIGHTS, payload, without_weights};
use super::reader::ReadValue;
use super::schema::{
    GraphProto, ModelProto, NodeProto, StringStringEntryProto, TensorProto, ValueInfoProto, tensor_proto::DataLocation,
    tensor_shape_proto::dimension, type_proto,
};
use super::write::check_replaced;
use super::{
    NamedDims, TensorOrigins, in_file, line_breaks, load_with_origins, messages, open_with_dims, source, tensor,
    translate_file,
};
use perf4sight_base::checksum::checksum;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::{atomic_write, input_file};
use perf4sight_network::{Network, Node, WeightSpans};
use places::{AxisCut, CutPlaces, PlannedCuts};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

mod places;
mod sizes;
mod views;

#[cfg(test)]
mod tests;

/// The positions of a layer's input and output that remain; none where all do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptPositions<'a> {
    /// Of the input.
    pub inputs: Option<&'a [usize]>,
    /// Of the output.
    pub outputs: Option<&'a [usize]>,
    /// The axis of the output, counted from the last, which is 1.
    pub axis_from_last: usize,
}

/// What a file larger than this cannot be: protobuf counts its bytes in 31 bits.
const LARGEST: usize = i32::MAX as usize;

/// What else there is: the Python module takes modules, which it runs with fewer channels.
const IN_PYTHON: &str = "prune the module itself, from Python (perf4sight.prune, which needs code that takes its sizes from its tensors); or leave out --weights";

/// Writes `pruned` to `out` as the file `source` with fewer channels: the layers in `kept`, by name, keep these slices of their
/// weights, and what other nodes in it make keeps these channels. `dims` gives the sizes of dimensions that the file leaves open.
///
/// # Errors
/// A file without weights; one that computes with sizes that are written into it, so that it would not be the pruned network; a file in
/// the way that is the source or that another program wrote, unless `replace`.
pub fn write_pruned(
    [source, out]: [&Path; 2],
    dims: &NamedDims,
    pruned: &Network,
    kept: &BTreeMap<&str, KeptPositions>,
    replace: bool,
) -> Result<()> {
    check_replaced(out, replace)?;
    let file = open_with_dims(source, dims)?;
    let (read, filters) = translate_file(&file, source)?;
    let bytes = input_file::bytes(source, super::READ)?;
    let broken = |cause: prost::DecodeError| Error::input(format!("a damaged ONNX file: {cause}")).file(source);
    let mut model = ModelProto::decode(bytes.as_slice()).map_err(broken)?;
    // Layers are known by the names as they are read.
    line_breaks::escape(&mut model);
    let mut graph = model.graph.take().unwrap_or_default();
    check_stored(source, &graph, kept, &filters)?;
    let mut shared = split_shared(&mut graph);
    model.graph = Some(graph);
    let (apart, TensorOrigins { mut filters, values }) = reread(&model.encode_to_vec(), source, dims)?;
    let names = names([&read.network, &apart]);
    let kept = &rename_kept(kept, &names);
    let places =
        CutPlaces::new(&values, kept, [&apart, pruned], &names.iter().map(|(one, other)| (*other, *one)).collect());
    let kept = &layers(kept, &apart);
    let graph = model.graph.get_or_insert_default();
    fold_filters(graph, &mut filters, (&apart, kept), &values);
    let PlannedCuts { cuts: along, copies } = places.plan(graph, |tensor| is_filters(&filters, tensor));
    let mut owners = owners(graph, kept, &filters);
    join_whole(graph, &mut shared, |tensor| owners.contains_key(tensor) || along.contains_key(tensor));
    owners.retain(|tensor, _| !along.contains_key(tensor) && !copies.contains_key(tensor));
    check_once(source, graph, (kept, &filters), &owners)?;
    shared.extend(copies);
    let computed = first_without_filters(&apart, kept, &filters);
    let cuts = TensorCuts { source, kept, filters: &filters, owners, along };
    cuts.cut(graph, &file.initializers, &shared)?;
    let written = sizes::unknown_size_node(graph, &places);
    sizes::write(graph, &places);
    if model.encoded_len() > LARGEST {
        return Err(Error::input("the pruned file would have more than 2 GiB, more than ONNX allows")
            .file(source)
            .help(IN_PYTHON));
    }
    let bytes = model.encode_to_vec();
    check_same(&bytes, source, dims, pruned).map_err(|error| with_cause(error, computed, written.as_deref()))?;
    let mark = mark(&bytes);
    atomic_write::save(out, [bytes, mark].concat())
}

/// Refuses a file without the weights of a layer that becomes smaller.
fn check_stored(
    source: &Path,
    graph: &GraphProto,
    kept: &BTreeMap<&str, KeptPositions>,
    filters: &BTreeMap<String, LayerFilters>,
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
    (kept, filters): (&BTreeMap<&str, KeptPositions>, &BTreeMap<String, LayerFilters>),
    owners: &BTreeMap<String, &str>,
) -> Result<()> {
    let refused = |tensor: &str| {
        let problem = format!("stores {tensor:?} once for several layers, which keep other channels each");
        Err(Error::input(problem).file(source).help(IN_PYTHON))
    };
    let mut by_tensor: BTreeMap<&str, &KeptPositions> = BTreeMap::new();
    for (layer, own) in kept {
        let Some(filters) = filters.get(*layer) else { continue };
        if by_tensor.insert(&filters.tensor, own).is_some_and(|other| other != own) {
            return refused(&filters.tensor);
        }
    }
    let outputs = |tensor: &str| kept.get(owners.get(tensor)?)?.outputs;
    for node in graph.node.iter().filter(|node| matches!(node.op_type(), "Conv" | "ConvTranspose" | "Gemm")) {
        let [_, weight, bias] = node.input.as_slice() else { continue };
        if owners.contains_key(weight) && owners.contains_key(bias) && outputs(weight) != outputs(bias) {
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
fn join_whole(graph: &mut GraphProto, shared: &mut BTreeMap<String, String>, is_cut: impl Fn(&str) -> bool) {
    let whole: BTreeMap<String, String> = shared.extract_if(.., |name, of| !is_cut(name) && !is_cut(of)).collect();
    graph.initializer.retain(|tensor| !whole.contains_key(tensor.name()));
    let again = |(name, of): (String, String)| NodeProto {
        op_type: Some("Identity".into()),
        input: vec![of],
        output: vec![name],
        ..NodeProto::default()
    };
    graph.node.splice(..0, whole.into_iter().map(again));
}

/// The names of nodes in the second of two files of one network, by those in the first: layers whose weights are stored as those of another have
/// names of their own where they have weights of their own.
fn names([read, apart]: [&Network; 2]) -> BTreeMap<&str, &str> {
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
    names
}

/// What remains of nodes, by other names.
fn rename_kept<'a>(
    kept: &BTreeMap<&'a str, KeptPositions<'a>>,
    names: &BTreeMap<&'a str, &'a str>,
) -> BTreeMap<&'a str, KeptPositions<'a>> {
    kept.iter().map(|(layer, kept)| (names.get(layer).copied().unwrap_or(layer), *kept)).collect()
}

/// What remains of nodes with weights.
fn layers<'a>(kept: &BTreeMap<&'a str, KeptPositions<'a>>, network: &Network) -> BTreeMap<&'a str, KeptPositions<'a>> {
    let passes = network.nodes().iter().filter(|node| network.facts(node).weights.is_empty());
    let passes: BTreeSet<&str> = passes.map(|node| &*node.name).collect();
    kept.iter().filter(|(name, _)| !passes.contains(*name)).map(|(name, kept)| (*name, *kept)).collect()
}

fn is_filters(filters: &BTreeMap<String, LayerFilters>, tensor: &str) -> bool {
    filters.values().any(|filters| filters.tensor == tensor)
}

/// Finds the filters of layers that read what an exporter computed from parameters and stored, such as a transposed matrix.
fn fold_filters(
    graph: &GraphProto,
    filters: &mut BTreeMap<String, LayerFilters>,
    (network, kept): (&Network, &BTreeMap<&str, KeptPositions>),
    values: &BTreeMap<String, ReadValue>,
) {
    let stored: BTreeMap<&str, usize> =
        graph.initializer.iter().map(|tensor| (tensor.name(), tensor.dims.len())).collect();
    let nodes: BTreeMap<&str, &Node> = network.nodes().iter().map(|node| (&*node.name, node)).collect();
    for node in &graph.node {
        let (Some(tensor), Some(output)) = (node.input.get(1), node.output.first()) else { continue };
        let Some(&rank) = stored.get(tensor.as_str()) else { continue };
        let axis = match node.op_type() {
            "Conv" => 0,
            "ConvTranspose" => 1,
            "Gemm" if node.attribute.iter().any(|one| one.name() == "transB" && one.i() != 0) => 0,
            "Gemm" | "MatMul" if rank == 2 => 1,
            _ => continue,
        };
        // A normalisation that the exporter folded is a node behind its layer.
        let made = values.get(output).and_then(|seen| nodes.get(seen.node.as_str()));
        let layer = std::iter::successors(made.copied(), |node| node.inputs.first().map(|input| network.node(*input)));
        let layer = layer.take(2).find(|node| has_filters(network, node));
        if let Some(layer) = layer.filter(|layer| kept.contains_key(&*layer.name)) {
            filters.entry(layer.name.clone()).or_insert_with(|| LayerFilters { tensor: tensor.clone(), axis });
        }
    }
}

fn has_filters(network: &Network, node: &Node) -> bool {
    let spans = network.facts(node).weights.first().map(|weight| weight.spans);
    matches!(spans, Some(WeightSpans::Filters { .. } | WeightSpans::Transposed { .. }))
}

/// The layer of every initializer that belongs to one of the smaller layers.
fn owners<'a>(
    graph: &GraphProto,
    kept: &BTreeMap<&'a str, KeptPositions>,
    filters: &BTreeMap<String, LayerFilters>,
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

struct TensorCuts<'a> {
    source: &'a Path,
    kept: &'a BTreeMap<&'a str, KeptPositions<'a>>,
    filters: &'a BTreeMap<String, LayerFilters>,
    /// The layers of the tensors that become smaller.
    owners: BTreeMap<String, &'a str>,
    /// What remains of tensors along the channels that they meet.
    along: BTreeMap<String, AxisCut<'a>>,
}

impl TensorCuts<'_> {
    fn cut(&self, graph: &mut GraphProto, stored: &[Initializer], shared: &BTreeMap<String, String>) -> Result<()> {
        let mut stored: BTreeMap<&str, &Initializer> =
            stored.iter().map(|initializer| (initializer.tensor.name(), initializer)).collect();
        let own = shared.iter().filter_map(|(name, of)| Some((name.as_str(), *stored.get(of.as_str())?)));
        let own: Vec<(&str, &Initializer)> = own.collect();
        stored.extend(own);
        let groups = self.narrow(graph);
        views::resize(graph, &self.features(graph), &self.vectors(graph));
        self.cut_constants(graph)?;
        for tensor in &mut graph.initializer {
            let is_cut = self.owners.contains_key(tensor.name()) || self.along.contains_key(tensor.name());
            let Some(initializer) = stored.get(tensor.name()).filter(|_| is_cut || is_elsewhere(tensor)) else {
                continue;
            };
            let raw = self.payload(initializer)?;
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

    fn payload(&self, initializer: &Initializer) -> Result<Vec<u8>> {
        payload(self.source, initializer).map_err(|why| {
            Error::input(format!("holds no values of {}: {why}", initializer.tensor.name()))
                .file(self.source)
                .help(WITH_WEIGHTS)
        })
    }

    /// Cuts the tensors that nodes hold.
    fn cut_constants(&self, graph: &mut GraphProto) -> Result<()> {
        for node in graph.node.iter_mut().filter(|node| node.op_type() == "Constant") {
            let Some(&AxisCut { axis, kept }) = node.output.first().and_then(|output| self.along.get(output)) else {
                continue;
            };
            for tensor in node.attribute.iter_mut().filter_map(|attribute| attribute.t.as_deref_mut()) {
                let raw = self.payload(&Initializer { tensor: tensor.clone(), payload: None })?;
                let mut values = TensorValues { dims: tensor::dims(tensor).unwrap_or_default(), raw };
                values.keep(axis, Some(kept));
                values.store(tensor);
            }
        }
        Ok(())
    }

    /// Sets the groups of depthwise convolutions to the remaining channels, and returns those of the other convolutions by their
    /// weights.
    fn narrow(&self, graph: &mut GraphProto) -> BTreeMap<String, usize> {
        let sizes: BTreeMap<&str, &[i64]> =
            graph.initializer.iter().map(|tensor| (tensor.name(), tensor.dims.as_slice())).collect();
        let mut groups = BTreeMap::new();
        for node in graph.node.iter_mut().filter(|node| is_layer(node)) {
            let Some(weight) = node.input.get(1) else { continue };
            let Some(kept) = self.owners.get(weight).and_then(|layer| self.kept.get(layer)) else { continue };
            let turned = node.op_type() == "ConvTranspose";
            let Some(group) = node.attribute.iter_mut().find(|attribute| attribute.name() == "group") else { continue };
            let is_depthwise = match sizes.get(weight.as_str()) {
                // Inputs are its rows.
                Some(&[inputs, ..]) if turned => *inputs == group.i(),
                Some(&[_, each, ..]) => *each == 1,
                _ => false,
            };
            match kept.inputs {
                Some(inputs) if is_depthwise && group.i() > 1 => group.i = Some(inputs.len() as i64),
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
        let mut values = TensorValues { dims: tensor::dims(tensor).unwrap_or_default(), raw };
        if let Some(&AxisCut { axis, kept }) = self.along.get(tensor.name()) {
            values.keep(axis, Some(kept));
        } else if let Some((&layer, kept)) =
            self.owners.get(tensor.name()).and_then(|layer| self.kept.get_key_value(layer))
        {
            let filters = self.filters.get(layer).filter(|filters| filters.tensor == tensor.name());
            match filters.map(|filters| filters.axis).filter(|axis| *axis < 2 && values.dims.len() > 1) {
                Some(0) if groups > 1 => values.keep_of_groups(groups, [kept.outputs, kept.inputs]),
                Some(1) if groups > 1 => values.keep_of_groups(groups, [kept.inputs, kept.outputs]),
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
        values.store(tensor);
    }
}

fn is_elsewhere(tensor: &TensorProto) -> bool {
    tensor.data_location() == DataLocation::External
}

/// The elements of a tensor as bytes, the last axis closest together.
struct TensorValues {
    dims: Vec<usize>,
    raw: Vec<u8>,
}

impl TensorValues {
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

    /// The same of rows and columns of the filters of a convolution in groups, each of which reads the channels of its own group alone. Rows are
    /// outputs, of a transposed convolution inputs.
    fn keep_of_groups(&mut self, groups: usize, [rows, columns]: [Option<&[usize]>; 2]) {
        let [length, width] = [self.dims[0], self.dims[1]];
        let all: Vec<usize> = (0..length.max(groups * width)).collect();
        let (rows, columns) = (rows.unwrap_or(&all[..length]), columns.unwrap_or(&all[..groups * width]));
        let fits = |kept: &[usize], length: usize| kept.last().is_some_and(|last| *last < length);
        let count = length * width;
        if !fits(rows, length) || !fits(columns, groups * width) || !self.raw.len().is_multiple_of(count) {
            return;
        }
        let inner = self.raw.len() / count;
        let each = length.div_ceil(groups);
        let left = rows.iter().flat_map(|&row| {
            let own = move |column: &&usize| **column / width == row / each;
            columns.iter().filter(own).map(move |column| row * width + column % width)
        });
        self.raw = left.flat_map(|place| &self.raw[place * inner..(place + 1) * inner]).copied().collect();
        self.dims[..2].copy_from_slice(&[rows.len(), columns.len() / groups]);
    }

    fn store(self, tensor: &mut TensorProto) {
        tensor.dims = self.dims.into_iter().map(|dim| dim as i64).collect();
        tensor.raw_data = Some(self.raw);
        tensor.float_data.clear();
        tensor.external_data.clear();
        tensor.data_location = None;
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

/// The network that bytes are, with where the file has what it is made of.
fn reread(bytes: &[u8], source: &Path, dims: &NamedDims) -> Result<(Network, TensorOrigins)> {
    let mut file = messages(Cursor::new(bytes), bytes.len() as u64, source)?;
    source::set_dims(&mut file.model, dims).map_err(|problem| Error::usage(problem).file(source))?;
    let (read, traced) = load_with_origins(&file, source).map_err(|problem| in_file(problem, source))?;
    Ok((read.network, traced))
}

/// The first layer that becomes smaller without filters in the file.
fn first_without_filters<'a>(
    network: &'a Network,
    kept: &BTreeMap<&str, KeptPositions>,
    filters: &BTreeMap<String, LayerFilters>,
) -> Option<&'a str> {
    let is_computed = |node: &&Node| {
        kept.contains_key(&*node.name) && !filters.contains_key(&*node.name) && has_filters(network, node)
    };
    network.nodes().iter().find(is_computed).map(|node| &*node.name)
}

/// The error with its likely cause.
fn with_cause(error: Error, computed: Option<&str>, written: Option<&str>) -> Error {
    let cause = match (computed, written) {
        (Some(layer), _) => format!("the file computes the weight of \"{layer}\" from other tensors"),
        (None, Some(part)) if part.ends_with("(Slice)") || part.ends_with("(Split)") => {
            format!(
                "{part} takes a part of the channels by numbers of the file, which --equal-parts may leave right; otherwise"
            )
        }
        (None, Some(node)) => format!("{node} moves channels by numbers of the file"),
        (None, None) => "something in the file takes other channels than the pruned network".to_owned(),
    };
    error.help(format!("{cause}: {IN_PYTHON}"))
}

/// Refuses bytes that are another network than the pruned one: a file may compute with sizes that are written into it.
fn check_same(bytes: &[u8], source: &Path, dims: &NamedDims, pruned: &Network) -> Result<()> {
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
        Some((one, other)) if one.op.kind() != other.op.kind() => refused(format!(
            "it cannot be pruned in its own form: the operation \"{}\" is {} and would be {} in the pruned file",
            other.name,
            other.op.kind(),
            one.op.kind()
        )),
        Some((one, other)) if one.inputs != other.inputs => refused(format!(
            "it cannot be pruned in its own form: \"{}\" reads {} and would read {} in the pruned file",
            other.name,
            inputs(pruned, other),
            inputs(&read, one)
        )),
        Some((_, other)) => refused(format!(
            "it cannot be pruned in its own form: \"{}\" ({}) would have other settings, such as groups or bounds",
            other.name,
            other.op.kind()
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
