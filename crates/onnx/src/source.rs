//! The parts of a file before its operations: data inputs, weights, and the order of the nodes.

use super::NamedDims;
use super::batch::BatchAxis;
use super::exporter::{ConstantOrigin, ExporterNotes, is_buffer};
use super::file::{Initializer, OnnxFile};
use super::number::numbers;
use super::schema::{
    GraphProto, ModelProto, NodeProto, TensorProto, TensorShapeProto, ValueInfoProto, tensor_proto::DataType,
    tensor_shape_proto::dimension, type_proto,
};
use super::tensor::{self, KnownTensor};
use super::value::{FixedTensor, MADE_UP, Value, WeightTensor, WeightView, elements};
use hashbrown::{HashMap, HashSet};
use perf4sight_network::{ComputedWeight, ElementKind, MAX_ELEMENTS, NetworkInput, Shape};
use std::collections::BTreeSet;
use std::rc::Rc;

#[cfg(test)]
mod tests;

/// Tensors have at most this many axes; lists of axes are no longer.
const MAX_RANK: usize = 8;

/// A problem in a file and a hint, without the name of the file yet.
pub(super) type FileProblem = (String, Option<&'static str>);

#[derive(Debug)]
pub(super) struct GraphInput {
    pub name: String,
    pub input: NetworkInput,
    pub batch: BatchAxis,
    /// The batch size the file is fixed to; `None` when it is symbolic.
    pub samples: Option<u64>,
}

const INPUTS: &str = "export a network whose inputs are tensors with the batch first, such as images of shape [batch, channels, height, width] \
                      or ids of words of shape [batch, words]";
const ELEMENTS: &str = "export a network that reads floating point, ids in int64 or int32, or masks in bool";
const FIXED_SIZE: &str = "export with fixed sizes; only the batch may be dynamic, which is the first axis, or one with \"batch\" in its name";

pub(super) fn data(graph: &GraphProto, initializers: &[Initializer]) -> Result<Vec<GraphInput>, FileProblem> {
    let data = read_by(graph, initializers);
    if data.is_empty() {
        return Err(("has no input, only weights".into(), Some(INPUTS)));
    }
    check_open_sizes(&data)?;
    let only = data.len() == 1;
    let data: Vec<GraphInput> = data.into_iter().map(|input| shaped_input(input, only)).collect::<Result<_, _>>()?;
    alike(&data)?;
    Ok(data)
}

fn read_by<'a>(graph: &'a GraphProto, initializers: &[Initializer]) -> Vec<&'a ValueInfoProto> {
    let stored: HashSet<&str> = initializers.iter().map(|initializer| initializer.tensor.name()).collect();
    let open: Vec<&ValueInfoProto> = graph.input.iter().filter(|input| !stored.contains(input.name())).collect();
    // If filters are stored in the file, weights are no inputs.
    let stored_weights = initializers.iter().any(|initializer| initializer.tensor.dims.len() > 1);
    let read_as_data = data_names(graph);
    let mut data: Vec<_> = open.iter().filter(|input| is_open(input)).copied().collect();
    // Only data has a batch; if no batch is symbolic, data is what layers read as data.
    if data.is_empty() {
        let unnamed = unnamed_inputs(&open);
        let is_data = |input: &ValueInfoProto| {
            let name = input.name();
            stored_weights || read_as_data.contains(name) || unnamed.contains(name) || is_counted(input)
        };
        data = open.iter().filter(|input| is_data(input) && !is_buffer(input.name())).copied().collect();
    }
    data.extend(open.first().filter(|_| data.is_empty()));
    data
}

/// The inputs of a module that were given no names: the older exporter makes up names for them, and lists them before all parameters. Those of
/// other sizes hold no samples.
fn unnamed_inputs<'a>(open: &[&'a ValueInfoProto]) -> HashSet<&'a str> {
    let samples = |input: &ValueInfoProto| dims(input).and_then(|dims| dims.first().copied());
    let unnamed = open.iter().take_while(|input| input.name().starts_with(MADE_UP));
    let alike = unnamed.filter(|input| samples(input) == samples(open[0]));
    alike.map(|input| input.name()).collect()
}

fn is_open(input: &ValueInfoProto) -> bool {
    dims(input).iter().flatten().any(Option::is_none)
}

/// Whether an input holds ids or a mask of samples: parameters are no integers, and buffers belong to modules, whose names have
/// dots.
fn is_counted(input: &ValueInfoProto) -> bool {
    let integers = element_type(input).is_some_and(|kind| !tensor::is_float(kind));
    integers && !input.name().contains('.') && dims(input).is_some_and(|dims| dims.len() > 1)
}

/// Refuses inputs with open sizes besides their batch; the error lists all names.
fn check_open_sizes(data: &[&ValueInfoProto]) -> Result<(), FileProblem> {
    let names_of = |input: &ValueInfoProto| {
        let batch = batch_axis(input);
        let open = names(input).zip(dims(input).unwrap_or_default()).enumerate();
        open.filter(|(axis, (_, size))| size.is_none() && *axis != batch)
            .map(|(_, (name, _))| name.map(str::to_string))
            .collect::<Vec<_>>()
    };
    let Some(first) = data.iter().find(|input| !names_of(input).is_empty()) else { return Ok(()) };
    let open: BTreeSet<Option<String>> = data.iter().flat_map(|input| names_of(input)).collect();
    let shape = format!("input \"{}\" of shape [{}] has no fixed size", first.name(), shape_text(first));
    let asked: Option<Vec<String>> =
        open.into_iter().map(|name| name.map(|name| format!("--dim {name}=SIZE"))).collect();
    match asked {
        Some(asked) => {
            let asked = asked.join(" ");
            Err((
                format!("{shape}: set its size with {asked} (perf4sight inspect, predict and advise)"),
                Some(FIXED_SIZE),
            ))
        }
        None => Err((format!("{shape}, and the open dimension has no name"), Some(FIXED_SIZE))),
    }
}

/// The axis that holds the batch: the first, unless another open axis has the name of one.
fn batch_axis(input: &ValueInfoProto) -> usize {
    let first_open = dims(input).is_some_and(|dims| dims.first() == Some(&None));
    let called = || names(input).position(|name| name.is_some_and(|name| name.to_lowercase().contains("batch")));
    if first_open { 0 } else { called().unwrap_or(0) }
}

/// Whether a dimension is the batch in every input that has it.
fn is_batch(graph: &GraphProto, name: &str) -> bool {
    let is_named = |dim: Option<&str>| dim == Some(name);
    let mut having = graph.input.iter().filter(|input| names(input).any(is_named));
    having.all(|input| names(input).position(is_named) == Some(batch_axis(input)))
}

fn alike(data: &[GraphInput]) -> Result<(), FileProblem> {
    let Some(other) = data.iter().find(|other| other.samples != data[0].samples) else { return Ok(()) };
    let said = |data: &GraphInput| match data.samples {
        Some(samples) => format!("\"{}\" has {samples} samples", data.name),
        None => format!("\"{}\" any number", data.name),
    };
    let problem = format!("has inputs with different batches: {}, {}", said(&data[0]), said(other));
    Err((
        problem,
        Some("export with a batch that is open in all inputs (dynamic_axes, dynamic_shapes), or fixed in all"),
    ))
}

fn data_names(graph: &GraphProto) -> HashSet<&str> {
    const LAYERS: &str = "Conv Gemm MatMul BatchNormalization MaxPool AveragePool GlobalAveragePool Relu Flatten";
    let layers = graph.node.iter().filter(|node| LAYERS.split(' ').any(|layer| layer == node.op_type()));
    layers.filter_map(|node| node.input.first()).map(String::as_str).collect()
}

/// A data input, all of whose sizes but the batch are fixed; `only` if there is no other.
fn shaped_input(input: &ValueInfoProto, only: bool) -> Result<GraphInput, FileProblem> {
    let mut sizes = dims(input).unwrap_or_default();
    let wrong = |what: &str, help| {
        Err((format!("input \"{}\" of shape [{}] {what}", input.name(), shape_text(input)), Some(help)))
    };
    let element = match element(input) {
        Ok(element) => element,
        Err(kind) => {
            let kind = kind.as_str_name().to_lowercase();
            return wrong(&format!("holds {kind}, which is not supported"), ELEMENTS);
        }
    };
    // One number per sample is possible if there are other inputs, or as the number of a word.
    let scalar = !only || element == ElementKind::Integer;
    if sizes.len() < if scalar { 1 } else { 2 } {
        return wrong("is not a batch of anything", INPUTS);
    }
    let axis = batch_axis(input);
    let samples = sizes.remove(axis);
    let shape = Shape::new(sizes.into_iter().flatten().map(|size| size as usize).collect::<Vec<_>>());
    if shape.elements() > MAX_ELEMENTS {
        return wrong("is larger than any device holds", FIXED_SIZE);
    }
    if samples.is_some_and(|samples| samples > 1 << 20) {
        return wrong("has an absurd batch size", FIXED_SIZE);
    }
    Ok(GraphInput {
        name: input.name().into(),
        input: NetworkInput { shape, element },
        batch: BatchAxis::alone_at(axis),
        samples,
    })
}

/// The element type of an input; without a declared type, numbers.
///
/// # Errors
/// The type, if it is another one.
fn element(input: &ValueInfoProto) -> Result<ElementKind, DataType> {
    match element_type(input) {
        Some(DataType::Bool) => Ok(ElementKind::Truth),
        Some(DataType::Int64 | DataType::Int32) => Ok(ElementKind::Integer),
        Some(kind) if !tensor::is_float(kind) => Err(kind),
        _ => Ok(ElementKind::Number),
    }
}

fn shape_text(input: &ValueInfoProto) -> String {
    let sizes = dims(input).unwrap_or_default();
    let written = sizes.iter().zip(names(input)).map(|(size, name)| match size {
        Some(size) => size.to_string(),
        None => name.unwrap_or("?").to_string(),
    });
    written.collect::<Vec<_>>().join(", ")
}

/// The names of a value's open dimensions; `None` for the others.
fn names(info: &ValueInfoProto) -> impl Iterator<Item = Option<&str>> {
    let shape = tensor_type(info).and_then(|tensor| tensor.shape.as_ref());
    shape.into_iter().flat_map(|shape| &shape.dim).map(|dim| match &dim.value {
        Some(dimension::Value::DimParam(name)) if !name.is_empty() => Some(name.as_str()),
        _ => None,
    })
}

/// The names of the dimensions that the inputs of a graph leave open.
pub(super) fn open_names(graph: &GraphProto) -> BTreeSet<String> {
    graph.input.iter().flat_map(names).flatten().map(str::to_string).collect()
}

/// Sets the sizes of dimensions that a file leaves open.
///
/// # Errors
/// One clause, if the file has no dimension of a name, or it is that of the batch.
pub(super) fn set_dims(model: &mut ModelProto, sizes: &NamedDims) -> Result<(), String> {
    let Some(graph) = &mut model.graph else { return Ok(()) };
    let open = open_names(graph);
    if let Some(unknown) = sizes.keys().find(|name| !open.contains(*name)) {
        if open.is_empty() {
            return Err(format!("leaves no dimension \"{unknown}\" open, nor any other"));
        }
        let open = open.into_iter().collect::<Vec<_>>().join(", ");
        return Err(format!("leaves no dimension \"{unknown}\" open; those that it leaves open: {open}"));
    }
    if let Some(batch) = sizes.keys().find(|name| is_batch(graph, name)) {
        return Err(format!("has its batch in dimension \"{batch}\", which stays open: batch sizes are given by --bs"));
    }
    let values = graph.input.iter_mut().chain(&mut graph.value_info).chain(&mut graph.output);
    for dim in values.filter_map(shape_of).flat_map(|shape| &mut shape.dim) {
        let Some(dimension::Value::DimParam(name)) = &dim.value else { continue };
        if let Some(&size) = sizes.get(name) {
            dim.value = Some(dimension::Value::DimValue(i64::try_from(size).unwrap_or(i64::MAX)));
        }
    }
    Ok(())
}

/// Gives a graph's only input another shape and keeps its batch; the shapes declared for later values no longer hold.
///
/// # Errors
/// Several inputs, or one of another number of dimensions.
pub(super) fn set_input(
    graph: &mut GraphProto,
    initializers: &[Initializer],
    sample: &Shape,
) -> Result<(), FileProblem> {
    let data = read_by(graph, initializers);
    let &[input] = data.as_slice() else {
        let names = data.iter().map(|input| format!("\"{}\"", input.name())).collect::<Vec<_>>().join(", ");
        let help = "leave input out; what a file leaves open has its size by --dim";
        return Err((format!("reads {} inputs ({names}), and input sets the size of one", data.len()), Some(help)));
    };
    let (name, batch, rank) = (input.name().to_owned(), batch_axis(input), dims(input).unwrap_or_default().len());
    if rank != sample.rank() + 1 {
        let problem =
            format!("reads [{}], a batch and {} dimensions, not {sample}", shape_text(input), rank.max(1) - 1);
        return Err((problem, Some("write one sample's shape without its batch, as perf4sight inspect shows it")));
    }
    graph.value_info.clear();
    graph.output.iter_mut().for_each(|output| output.r#type = None);
    let input = graph.input.iter_mut().find(|input| input.name() == name).and_then(shape_of);
    let axes = input.into_iter().flat_map(|shape| &mut shape.dim).enumerate().filter(|(axis, _)| *axis != batch);
    for ((_, dim), &size) in axes.zip(sample.dims()) {
        dim.value = Some(dimension::Value::DimValue(i64::try_from(size).unwrap_or(i64::MAX)));
    }
    Ok(())
}

fn shape_of(info: &mut ValueInfoProto) -> Option<&mut TensorShapeProto> {
    match info.r#type.as_mut()?.value.as_mut()? {
        type_proto::Value::TensorType(tensor) => tensor.shape.as_mut(),
        _ => None,
    }
}

fn tensor_type(info: &ValueInfoProto) -> Option<&type_proto::Tensor> {
    match info.r#type.as_ref()?.value.as_ref()? {
        type_proto::Value::TensorType(tensor) => Some(tensor),
        _ => None,
    }
}

pub(super) fn element_type(info: &ValueInfoProto) -> Option<DataType> {
    DataType::try_from(tensor_type(info)?.elem_type()).ok().filter(|kind| *kind != DataType::Undefined)
}

/// The shape a file declares for a value; `None` for dimensions that are symbolic or not positive numbers.
pub(super) fn dims(info: &ValueInfoProto) -> Option<Vec<Option<u64>>> {
    let shape = tensor_type(info)?.shape.as_ref()?;
    let known = |value: &dimension::Value| match value {
        dimension::Value::DimValue(dim) => u64::try_from(*dim).ok().filter(|&dim| dim > 0),
        dimension::Value::DimParam(_) => None,
    };
    Some(shape.dim.iter().map(|dim| dim.value.as_ref().and_then(known)).collect())
}

/// All values that exist before the first node runs, except data.
pub(super) fn initial_values<'a>(
    file: &'a OnnxFile,
    graph: &'a GraphProto,
    exporter: &ExporterNotes,
    data: &[GraphInput],
) -> Result<HashMap<&'a str, Value>, FileProblem> {
    let mut values = HashMap::new();
    // PyTorch's older exporter gives parameters and buffers as inputs too where that is asked for; its constants are nodes.
    let gives_weights = file.model.producer_name() == "pytorch" && !exporter.has_notes();
    for input in graph.input.iter().filter(|input| data.iter().all(|data| data.name != input.name())) {
        values.insert(input.name(), graph_input(input, exporter)?);
    }
    for Initializer { tensor, .. } in &file.initializers {
        let is_given = gives_weights && values.contains_key(tensor.name());
        let value = match exporter.origin(tensor.name(), data[0].samples) {
            Some(origin) => constant_folded(tensor, origin)?,
            None => stored_value(tensor, exporter, is_given)?,
        };
        values.insert(tensor.name(), value);
    }
    Ok(values)
}

fn impossible(tensor: &TensorProto) -> FileProblem {
    (format!("initializer \"{}\" has an impossible shape {:?}", tensor.name(), tensor.dims), None)
}

/// A tensor that the exporter computed when it folded constants.
fn constant_folded(tensor: &TensorProto, origin: ConstantOrigin) -> Result<Value, FileProblem> {
    let dims = tensor::dims(tensor).ok_or_else(|| impossible(tensor))?;
    let own = elements(&dims);
    let trained = match origin {
        ConstantOrigin::Fixed => return Ok(Value::Opaque(FixedTensor::unheld(numbers(&dims)))),
        ConstantOrigin::Trained(elements) | ConstantOrigin::Usual(elements) => elements,
        ConstantOrigin::Lost => own,
    };
    let weight = weight(tensor.name(), dims).ok_or_else(|| impossible(tensor))?;
    // How it is computed is not in the file. After a lookup or a copy, each element may come from any element of the parameters.
    Ok(Value::Weight(WeightTensor {
        computed: trained != own,
        elements: trained,
        made: Some(ComputedWeight::default()),
        ..weight
    }))
}

/// A tensor of the file; `is_given` where it is known to be a parameter or a buffer.
pub(super) fn stored_value(
    tensor: &TensorProto,
    exporter: &ExporterNotes,
    is_given: bool,
) -> Result<Value, FileProblem> {
    let problem = || impossible(tensor);
    let dims = tensor::dims(tensor).ok_or_else(problem)?;
    let kind = DataType::try_from(tensor.data_type()).unwrap_or(DataType::Undefined);
    // A single number is a constant, unless it is known not to be or has the name of a layer's weight or bias, such as the slope of a
    // PReLU or the shift of a normalisation of one channel.
    let is_named = [".weight", ".bias"].iter().any(|end| tensor.name().ends_with(end));
    let several = dims.iter().any(|&dim| dim > 1) || is_named;
    let trainable = tensor::is_float(kind)
        && (several || is_given || exporter.is_parameter(tensor.name()))
        && !exporter.is_buffer(tensor.name());
    Ok(match KnownTensor::from_message(tensor) {
        values if trainable => {
            let values = values.filter(|constant| constant.values.len() <= MAX_RANK).map(Rc::new);
            Value::Weight(WeightTensor { values, ..weight(tensor.name(), dims).ok_or_else(problem)? })
        }
        Some(constant) => Value::constant(constant),
        None => Value::Opaque(FixedTensor::stored(tensor.name(), numbers(&dims), kind)),
    })
}

/// A graph input that is not data: a weight given when the network runs.
fn graph_input(input: &ValueInfoProto, exporter: &ExporterNotes) -> Result<Value, FileProblem> {
    let problem = || (format!("input \"{}\" has no shape a weight could have", input.name()), Some(INPUTS));
    let dims = dims(input).ok_or_else(problem)?;
    let dims = dims.into_iter().map(|dim| dim.and_then(|dim| usize::try_from(dim).ok())).collect::<Option<Vec<_>>>();
    let dims = dims.ok_or_else(problem)?;
    match element_type(input) {
        Some(kind) if !tensor::is_float(kind) => {
            Ok(Value::Opaque(FixedTensor::stored(input.name(), numbers(&dims), kind)))
        }
        _ if exporter.is_buffer(input.name()) => {
            Ok(Value::Opaque(FixedTensor::stored(input.name(), numbers(&dims), DataType::Float)))
        }
        _ => Ok(Value::Weight(weight(input.name(), dims).ok_or_else(problem)?)),
    }
}

/// A weight, unless it is larger than any device holds.
pub(super) fn weight(name: &str, dims: Vec<usize>) -> Option<WeightTensor> {
    let elements = elements(&dims);
    (elements <= MAX_ELEMENTS).then(|| WeightTensor {
        tensor: name.into(),
        stored: name.into(),
        certain: false,
        dims: numbers(&dims),
        elements,
        view: WeightView::Stored,
        computed: false,
        others: [].into(),
        made: None,
        values: None,
    })
}

/// The values that a node reads: its inputs, and the outer values that its subgraphs use.
pub(super) fn values_read(node: &NodeProto) -> impl Iterator<Item = &str> {
    let graphs = node.attribute.iter().filter_map(|attribute| attribute.g.as_ref());
    let inside: Vec<&str> = graphs.flat_map(|graph| outer_values(graph)).collect();
    node.input.iter().map(String::as_str).chain(inside)
}

/// The outer values that a subgraph uses.
fn outer_values(graph: &GraphProto) -> Vec<&str> {
    let stored = graph.initializer.iter().map(|tensor| tensor.name());
    let given = graph.node.iter().flat_map(|node| node.output.iter().map(String::as_str));
    let own: HashSet<&str> = given.chain(stored).chain(graph.input.iter().map(|input| input.name())).collect();
    let outputs = graph.output.iter().map(|output| output.name());
    graph.node.iter().flat_map(values_read).chain(outputs).filter(|name| !own.contains(name)).collect()
}

pub(super) fn node_text(node: &NodeProto) -> String {
    let name = Some(node.name()).filter(|name| !name.is_empty()).or(node.output.first().map(String::as_str));
    format!("node \"{}\" ({})", name.unwrap_or(""), node.op_type())
}
