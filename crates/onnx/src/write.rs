//! Writes networks as weightless ONNX: weights are graph inputs with a shape, the batch is symbolic, equal networks give equal bytes.

mod attention;
mod elementwise;
mod normalisation;
mod original;
mod places;
mod recurrent;
mod sizing;
#[cfg(test)]
mod tests;

use super::file;
use super::pruned;
use super::reader::UNREAD;
use super::schema::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto, TypeProto,
    ValueInfoProto,
    tensor_proto::DataType,
    tensor_shape_proto::{Dimension, dimension},
    type_proto,
};
use super::{ADAPTIVE, DOMAIN, OPSET, PRODUCER, attributes as with, evaluation_mode, from_bytes};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::{atomic_write, overwrite};
use perf4sight_network::{
    Conv, ConvTranspose, ElementKind, Embedding, Linear, Network, Node, Op, Shape, UnknownOperation, VolumeWindow,
    Window,
};
use prost::Message;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Seek;
use std::path::Path;

/// The IR version that came with [`OPSET`], which later operator sets do not need more of.
const IR_VERSION: i64 = 10;

/// Writes a network to a file, as a whole or not at all.
///
/// # Errors
/// When the file cannot be written; see [`check_replaced`].
pub fn write(network: &Network, path: impl AsRef<Path>) -> Result<()> {
    check_replaced(path.as_ref(), false)?;
    atomic_write::save(path.as_ref(), to_bytes(network))
}

/// As [`write()`], but with `overwrite` any file is replaced, and the network is written only if it can be read again.
///
/// # Errors
/// As [`write()`]; also a network whose file would be refused.
pub fn write_over(network: &Network, path: impl AsRef<Path>, overwrite: bool) -> Result<()> {
    let path = path.as_ref();
    check_replaced(path, overwrite)?;
    let bytes = to_bytes(network);
    check_readable(network, &bytes, path)?;
    atomic_write::save(path, bytes)
}

/// A network read from a damaged file with a warning may give a file that is refused.
fn check_readable(network: &Network, bytes: &[u8], path: &Path) -> Result<()> {
    let problem = match from_bytes(network.name(), bytes) {
        Ok(read) if read.network.parameters() == network.parameters() => return Ok(()),
        Ok(read) => format!("it would hold {} parameters, not {}", read.network.parameters(), network.parameters()),
        Err(error) => error.to_string(),
    };
    Err(Error::input(format!("{} was not written, for it could not be read: {problem}", path.display()))
        .help("export the network again; the warnings name what is unusual about its file"))
}

/// Refuses to replace a file that this program did not write, or that was given other weights since.
///
/// # Errors
/// Such a file, unless `overwrite`.
pub fn check_replaced(path: &Path, overwrite: bool) -> Result<()> {
    overwrite::check(path, overwrite, |mut file| {
        pruned::is_marked(&mut file) || file.rewind().is_ok() && is_weightless(file)
    })
}

/// Whether it is a network that this program wrote without weights.
fn is_weightless(file: File) -> bool {
    let length = file.metadata().map_or(0, |about| about.len());
    file::read(file, length).is_ok_and(|file| file.model.producer_name() == PRODUCER && file.initializers.is_empty())
}

/// A network as the bytes of an ONNX file, which `onnx.checker` accepts and [`read`](super::read) gives back as it was.
pub fn to_bytes(network: &Network) -> Vec<u8> {
    let mut writer = GraphWriter { network, graph: GraphProto::default(), domains: BTreeMap::new(), opset: OPSET };
    network.nodes().iter().for_each(|node| writer.node(node));
    if network.unread() > 0 {
        writer.graph.input.push(value_info(UNREAD, vec![fixed_dim(network.unread() as usize)]));
    }
    let results = network.outputs().iter().map(|output| network.node(*output));
    writer.graph.output = results
        .map(|result| typed_value(&result.name, batch_dimensions(&result.shape), data_type(result.element)))
        .collect();
    writer.graph.name = Some(network.name().into());
    let imports = std::iter::once(("", writer.opset))
        .chain(writer.domains.iter().map(|(domain, version)| (domain.as_str(), *version)));
    let import =
        |(domain, version): (&str, i64)| OperatorSetIdProto { domain: Some(domain.into()), version: Some(version) };
    let model = ModelProto {
        ir_version: Some(IR_VERSION),
        producer_name: Some(PRODUCER.into()),
        producer_version: Some(env!("CARGO_PKG_VERSION").into()),
        opset_import: imports.map(import).collect(),
        graph: Some(writer.graph),
        metadata_props: evaluation_mode::note(network).into_iter().collect(),
        ..Default::default()
    };
    model.encode_to_vec()
}

struct GraphWriter<'a> {
    network: &'a Network,
    graph: GraphProto,
    /// Other domains than ONNX's own, with the version of their operator sets.
    domains: BTreeMap<String, i64>,
    opset: i64,
}

impl GraphWriter<'_> {
    fn node(&mut self, node: &Node) {
        match &node.op {
            Op::Input(input) => {
                self.graph.input.push(typed_value(&node.name, batch_dimensions(&input.shape), data_type(input.element)))
            }
            Op::Embedding(embedding) => self.embedding(node, embedding),
            Op::Cast(element) => self.push(node, "Cast", vec![with::int("to", data_type(*element) as i64)]),
            Op::Parameter(shape) => self.parameter(node, shape),
            Op::Conv(conv) => self.conv(node, conv, window_attributes_of(&conv.window)),
            Op::Conv3d(conv) => self.conv(node, conv, volume_attributes(&conv.window)),
            Op::ConvTranspose(transposed) => self.transposed(node, transposed),
            Op::Linear(linear) => self.linear(node, linear),
            Op::BatchNorm { axis } => self.batch_norm(node, *axis),
            Op::LayerNorm { axis, affine } => self.layer_norm(node, *axis, *affine),
            Op::GroupNorm { groups, affine } => self.group_norm(node, *groups, *affine),
            Op::Activation(activation) => self.activation(node, *activation),
            Op::MaxPool(window) => self.push(node, "MaxPool", pooling(window_attributes_of(window), window.ceil)),
            Op::AvgPool { window, count_include_pad } => {
                self.average(node, pooling(window_attributes_of(window), window.ceil), *count_include_pad);
            }
            Op::MaxPool3d(window) => self.push(node, "MaxPool", pooling(volume_attributes(window), window.ceil)),
            Op::AvgPool3d { window, count_include_pad } => {
                self.average(node, pooling(volume_attributes(window), window.ceil), *count_include_pad);
            }
            Op::ArgMax(place) => self.arg_max(node, place),
            Op::TopK(top) => self.top_k(node, top),
            Op::CumSum { axis } => self.cum_sum(node, *axis),
            Op::Fold(fold) => self.fold(node, fold),
            Op::GridSample(sample) => self.grid_sample(node, sample),
            Op::AdaptiveAvgPool { output: [1, 1] } => self.push(node, "GlobalAveragePool", vec![]),
            Op::AdaptiveAvgPool { output } => self.adaptive(node, *output),
            Op::Binary(binary) => self.binary(node, *binary),
            Op::Where => self.choice(node),
            Op::Concat { axis } => self.push(node, "Concat", vec![with::int("axis", axis_with_batch(*axis))]),
            Op::Flatten => self.push(node, "Flatten", vec![with::int("axis", 1)]),
            Op::Reshape(shape) => self.reshape(node, shape),
            Op::Transpose { order } => {
                let order = std::iter::once(0).chain(order.iter().map(|&from| axis_with_batch(from))).collect();
                self.push(node, "Transpose", vec![with::ints("perm", order)]);
            }
            Op::Contiguous { batch } => self.contiguous(node, *batch),
            Op::Slice { axis, start, length } => self.slice(node, *axis, [*start, start + length]),
            Op::Every { axis, start, step } => self.write_strided_slice(node, *axis, [*start, *step]),
            Op::Pick(pick) => self.pick(node, pick),
            Op::Pad { sides, fill } => self.pad(node, sides, *fill),
            Op::Expand(shape) => self.expand(node, shape),
            Op::Resize { image, interpolation, corners } => self.resize(node, *image, *interpolation, *corners),
            Op::Attention => self.attention(node),
            Op::MatMul => self.push(node, "MatMul", vec![]),
            Op::Softmax { axis } => self.push(node, "Softmax", vec![with::int("axis", axis_with_batch(*axis))]),
            Op::Reduce { reduction, axes, keep } => self.reduce(node, *reduction, axes, *keep),
            Op::Dropout { rate } => self.dropout(node, *rate),
            Op::DropPath { rate } => self.drop_path(node, *rate),
            Op::Recurrent(layer) => self.recurrent(node, layer),
            Op::Unknown(unknown) => self.unknown(node, unknown),
        }
    }

    fn push(&mut self, node: &Node, operator: &str, attributes: Vec<AttributeProto>) {
        let inputs = self.inputs(node);
        self.emit(node, operator, inputs, attributes);
    }

    fn inputs(&self, node: &Node) -> Vec<String> {
        node.inputs.iter().map(|id| self.network.node(*id).name.clone()).collect()
    }

    /// Adds the ONNX node that has a node's name and gives its result.
    fn emit(&mut self, node: &Node, operator: &str, inputs: Vec<String>, attributes: Vec<AttributeProto>) {
        self.push_node(&node.name, operator, inputs, attributes);
    }

    fn push_node(&mut self, name: &str, operator: &str, input: Vec<String>, attribute: Vec<AttributeProto>) {
        self.graph.node.push(NodeProto {
            name: Some(name.into()),
            op_type: Some(operator.into()),
            input,
            output: vec![name.into()],
            attribute,
            ..Default::default()
        });
    }

    /// A weight, named after the layer that owns the node's weights.
    fn weight(&mut self, node: &Node, name: &str, dims: &[usize]) -> String {
        let owner = node.shares.map_or(node, |owner| self.network.node(owner));
        let name = format!("{}.{name}", owner.name);
        if node.shares.is_none() {
            self.graph.input.push(value_info(&name, dims.iter().map(|&dim| fixed_dim(dim)).collect()));
        }
        name
    }

    /// An integer input, given when the network runs.
    fn indices_input(&mut self, node: &Node, dims: &[usize]) -> String {
        let name = format!("{}.places", node.name);
        self.graph.input.push(typed_value(&name, dims.iter().map(|&dim| fixed_dim(dim)).collect(), DataType::Int64));
        name
    }

    fn constant(&mut self, node: &Node, what: &str, value: TensorProto) -> String {
        let name = format!("{}/{what}", node.name);
        self.push_node(&name, "Constant", vec![], vec![with::tensor("value", value)]);
        name
    }

    fn integers(&mut self, node: &Node, what: &str, values: Vec<i64>) -> String {
        self.constant(node, what, with::vector(values))
    }

    fn conv<W>(&mut self, node: &Node, conv: &Conv<W>, window: Vec<AttributeProto>) {
        let filters = self.network.facts(node).weights.swap_remove(0).dims;
        let inputs = self.conv_inputs(node, conv, filters.dims());
        let attributes = window.into_iter().chain([with::int("group", conv.groups as i64)]);
        self.emit(node, "Conv", inputs, attributes.collect());
    }

    fn transposed(&mut self, node: &Node, transposed: &ConvTranspose) {
        let ConvTranspose { conv, extra } = transposed;
        let [height, width] = conv.window.kernel;
        let dims = [self.network.input_of(node, 0).channels(), conv.out_channels / conv.groups, height, width];
        let inputs = self.conv_inputs(node, conv, &dims);
        let more = with::ints("output_padding", extra.map(|more| more as i64).to_vec());
        let attributes =
            window_attributes_of(&conv.window).into_iter().chain([with::int("group", conv.groups as i64), more]);
        self.emit(node, "ConvTranspose", inputs, attributes.collect());
    }

    /// The operands of a convolution: its input, filters of this shape, and its bias.
    fn conv_inputs<W>(&mut self, node: &Node, conv: &Conv<W>, filters: &[usize]) -> Vec<String> {
        let bias = conv.bias.then_some(conv.out_channels);
        let mut inputs = self.inputs(node);
        inputs.push(self.matrix(node, filters, bias));
        inputs.extend(bias.map(|channels| self.weight(node, "bias", &[channels])));
        inputs
    }

    /// The filters or the matrix of a layer; the result of a sum, if more elements are trained than it has.
    fn matrix(&mut self, node: &Node, dims: &[usize], bias: Option<usize>) -> String {
        let elements = Shape::new(dims).elements();
        let Some(trained) = node.trained.map(|trained| trained.saturating_sub(bias.unwrap_or(0) as u64)) else {
            return self.weight(node, "weight", dims);
        };
        match trained.checked_sub(elements) {
            None => self.weight(node, "buffer", dims),
            Some(0) => self.weight(node, "weight", dims),
            Some(more) => {
                let inputs = vec![self.weight(node, "weight", dims), self.sum_of_weight(node, "gain", more as usize)];
                let computed = format!("{}/weight", node.name);
                self.push_node(&computed, "Add", inputs, vec![]);
                computed
            }
        }
    }

    fn sum_of_weight(&mut self, node: &Node, name: &str, elements: usize) -> String {
        let inputs = vec![self.weight(node, name, &[elements])];
        let sum = format!("{}/{name}", node.name);
        self.push_node(&sum, "ReduceSum", inputs, vec![with::int("keepdims", 0)]);
        sum
    }

    /// Gemm for vectors; for more axes a product and a sum, as exporters write them.
    fn linear(&mut self, node: &Node, linear: &Linear) {
        let features = self.network.input_of(node, 0).dims().last().copied().unwrap_or(1);
        let outputs = linear.out_features;
        let trained = linear.bias.then(|| trained_biases(node, (features * outputs) as u64, outputs));
        let mut inputs = self.inputs(node);
        if node.shape.rank() == 1 {
            inputs.push(self.matrix(node, &[outputs, features], trained));
            inputs.extend(trained.map(|trained| self.bias(node, outputs, trained)));
            return self.emit(node, "Gemm", inputs, vec![with::int("transB", 1)]);
        }
        inputs.push(match node.shares.map(|owner| self.network.node(owner)) {
            Some(owner) if matches!(owner.op, Op::Embedding(_)) => self.transposed_table(node, owner),
            _ => self.matrix(node, &[features, outputs], trained),
        });
        let Some(trained) = trained else { return self.emit(node, "MatMul", inputs, vec![]) };
        let product = format!("{}/product", node.name);
        self.push_node(&product, "MatMul", inputs, vec![]);
        self.rename_last(node.name.clone());
        let bias = self.bias(node, outputs, trained);
        self.emit(node, "Add", vec![product, bias], vec![]);
        self.rename_last(format!("{}/sum", node.name));
    }

    /// The transposed table of an embedding, as the matrix of a layer that classifies words.
    fn transposed_table(&mut self, node: &Node, owner: &Node) -> String {
        let table = self.weight(node, if owner.trained == Some(0) { "buffer" } else { "weight" }, &[]);
        let turned = format!("{}/turned_weight", node.name);
        self.push_node(&turned, "Transpose", vec![table], vec![with::ints("perm", vec![1, 0])]);
        turned
    }

    /// Renames the node just written; its output keeps its name.
    pub(super) fn rename_last(&mut self, name: String) {
        if let Some(written) = self.graph.node.last_mut() {
            written.name = Some(name);
        }
    }

    /// A bias with `trained` trained elements: some attentions have none for their keys.
    fn bias(&mut self, node: &Node, outputs: usize, trained: usize) -> String {
        let Some(rest) = outputs.checked_sub(trained).filter(|&rest| rest > 0 && node.shares.is_none()) else {
            return self.weight(node, "bias", &[outputs]);
        };
        let parts = vec![self.weight(node, "bias", &[trained]), self.weight(node, "bias.buffer", &[rest])];
        let whole = format!("{}/bias", node.name);
        self.push_node(&whole, "Concat", parts, vec![with::int("axis", 0)]);
        whole
    }

    fn parameter(&mut self, node: &Node, shape: &Shape) {
        let stored: Vec<usize> = std::iter::once(1).chain(shape.dims().iter().copied()).collect();
        let weight = match node.trained {
            Some(0) => self.weight(node, "buffer", &stored),
            Some(trained) => self.sum_of_weight(node, "weight", trained as usize),
            None => self.weight(node, "weight", &stored),
        };
        self.write_repeated(node, weight, shape);
    }

    /// Repeats a value that is the same for all samples once for each.
    fn write_repeated(&mut self, node: &Node, once: String, shape: &Shape) {
        let input = self.network.nodes()[0].name.clone();
        let batch = format!("{}/batch", node.name);
        self.push_node(&batch, "Shape", vec![input], vec![with::int("start", 0), with::int("end", 1)]);
        let rest = self.integers(node, "shape", shape.dims().iter().map(|&dim| dim as i64).collect());
        let target = format!("{}/target", node.name);
        self.push_node(&target, "Concat", vec![batch, rest], vec![with::int("axis", 0)]);
        self.emit(node, "Expand", vec![once, target], vec![]);
    }

    fn average(&mut self, node: &Node, mut window: Vec<AttributeProto>, count_include_pad: bool) {
        window.push(with::int("count_include_pad", i64::from(count_include_pad)));
        self.push(node, "AveragePool", window);
    }

    /// A lookup of rows. If the rows are the same for all samples, their numbers are given when the network runs.
    fn embedding(&mut self, node: &Node, embedding: &Embedding) {
        let name = if node.trained == Some(0) { "buffer" } else { "weight" };
        let table = self.weight(node, name, &[embedding.rows, embedding.width]);
        let Some(places) = &embedding.fixed else {
            let inputs = std::iter::once(table).chain(self.inputs(node)).collect();
            return self.emit(node, "Gather", inputs, vec![]);
        };
        let places = self.indices_input(node, &[&[1], places.dims()].concat());
        let rows = format!("{}/rows", node.name);
        self.push_node(&rows, "Gather", vec![table, places], vec![]);
        self.write_repeated(node, rows, &node.shape);
    }

    /// ONNX has no pooling with overlapping cells.
    fn adaptive(&mut self, node: &Node, output: [usize; 2]) {
        self.push(node, ADAPTIVE, vec![with::ints("output_size", output.map(|size| size as i64).to_vec())]);
        self.set_custom_domain(node);
    }

    /// Writes an unknown operation as it was read. If that was not kept, only its name is written, in a domain that no runtime
    /// supports.
    fn unknown(&mut self, node: &Node, unknown: &UnknownOperation) {
        if let Some(original) = &unknown.original {
            return self.original(node, unknown, original);
        }
        let mut inputs = self.inputs(node);
        if unknown.parameters > 0 {
            inputs.push(self.weight(node, "weight", &[unknown.parameters as usize]));
        }
        let macs = (unknown.macs > 0).then(|| with::int("macs", unknown.macs as i64));
        let across = unknown.across.then(|| with::int("across", 1));
        self.emit(node, &unknown.op_type, inputs, macs.into_iter().chain(across).collect());
        self.set_custom_domain(node);
    }

    /// Moves the node just written into our domain, if only its declaration gives its shape.
    fn set_custom_domain(&mut self, node: &Node) {
        self.domains.insert(DOMAIN.into(), 1);
        self.graph.value_info.push(value_info(&node.name, batch_dimensions(&node.shape)));
        if let Some(written) = self.graph.node.last_mut() {
            written.domain = Some(DOMAIN.into());
        }
    }
}

/// Trained elements of a bias, if its matrix is trained as a whole.
fn trained_biases(node: &Node, matrix: u64, outputs: usize) -> usize {
    let left = node.trained.and_then(|trained| trained.checked_sub(matrix)).map(|left| left as usize);
    left.filter(|&left| left < outputs).unwrap_or(outputs)
}

fn axis_with_batch(axis: usize) -> i64 {
    axis as i64 + 1
}

fn window_attributes_of(window: &Window) -> Vec<AttributeProto> {
    window_attributes([&window.kernel, &window.stride, &window.padding, &window.dilation])
}

fn volume_attributes(window: &VolumeWindow) -> Vec<AttributeProto> {
    let padding = [window.padding, window.padding].concat();
    window_attributes([&window.kernel, &window.stride, &padding, &window.dilation])
}

fn window_attributes(numbers: [&[usize]; 4]) -> Vec<AttributeProto> {
    let named = ["kernel_shape", "strides", "pads", "dilations"].into_iter().zip(numbers);
    named.map(|(name, numbers)| with::ints(name, numbers.iter().map(|&number| number as i64).collect())).collect()
}

fn pooling(window: Vec<AttributeProto>, ceil: bool) -> Vec<AttributeProto> {
    window.into_iter().chain([with::int("ceil_mode", i64::from(ceil))]).collect()
}

fn batch_dimensions(sample: &Shape) -> Vec<Dimension> {
    let batch = Dimension { value: Some(dimension::Value::DimParam("batch".into())), ..Default::default() };
    std::iter::once(batch).chain(sample.dims().iter().map(|&dim| fixed_dim(dim))).collect()
}

fn fixed_dim(dim: usize) -> Dimension {
    Dimension { value: Some(dimension::Value::DimValue(dim as i64)), ..Default::default() }
}

fn data_type(element: ElementKind) -> DataType {
    match element {
        ElementKind::Number => DataType::Float,
        ElementKind::Integer => DataType::Int64,
        ElementKind::Truth => DataType::Bool,
    }
}

fn value_info(name: &str, dim: Vec<Dimension>) -> ValueInfoProto {
    typed_value(name, dim, DataType::Float)
}

fn typed_value(name: &str, dim: Vec<Dimension>, element: DataType) -> ValueInfoProto {
    let tensor = type_proto::Tensor { elem_type: Some(element as i32), shape: Some(TensorShapeProto { dim }) };
    let kind = TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..Default::default() };
    ValueInfoProto { name: Some(name.into()), r#type: Some(kind) }
}
