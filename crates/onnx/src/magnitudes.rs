//! Mean magnitudes of filters and of the outputs of fully connected layers: all that l1 pruning needs of the weights.

use super::file::{Initializer, OnnxFile};
use super::ledger::LayerFilters;
use super::schema::{TensorProto, tensor_proto::DataType};
use super::tensor::{self, dims, raw_values};
use super::value;
use perf4sight_base::atomic_write;
use perf4sight_base::error;
use perf4sight_base::error::Error;
use perf4sight_network::{Network, Node, Op};
use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

/// For each layer that pruning ranks and that stores its filters, by name, the mean |w| of each of them.
pub type Magnitudes = BTreeMap<String, Vec<f64>>;

/// What to do about a file without weights.
pub(super) const WITH_WEIGHTS: &str =
    "export with the weights: torch.onnx.export(..., export_params=True), and keep a .data file next to the .onnx file";

/// Why a file has none.
pub(super) const GIVEN: &str = "they are an input of the graph";

/// The error about a layer without weights.
pub(super) fn without_weights(path: &Path, layer: &str, why: &str) -> Error {
    Error::input(format!("holds no weights for \"{layer}\": {why}")).file(path).help(WITH_WEIGHTS)
}

enum PayloadSource {
    Bytes(PathBuf, Range<u64>),
    Message,
}

/// Reads the filters of a network's layers that can be ranked, given by node name, and averages them.
pub(super) fn read(
    path: &Path,
    file: &OnnxFile,
    network: &Network,
    filters: &BTreeMap<String, LayerFilters>,
) -> error::Result<Magnitudes> {
    let stored: BTreeMap<&str, &Initializer> =
        file.initializers.iter().map(|initializer| (initializer.tensor.name(), initializer)).collect();
    let mut magnitudes = BTreeMap::new();
    let ranked = network.nodes().iter().zip(network.ranked_nodes()).filter_map(|(node, ranked)| ranked.then_some(node));
    for Node { name: node, op, .. } in ranked {
        let missing = |why: &str| without_weights(path, node, why);
        // Of filters that are computed while the network runs there is no magnitude, which matters only where the layer is pruned.
        let Some(LayerFilters { tensor, axis }) = filters.get(node) else { continue };
        let initializer = stored.get(tensor.as_str()).ok_or_else(|| missing(GIVEN))?;
        let values = values(path, initializer).map_err(|why| missing(&why))?;
        let dims = dims(&initializer.tensor).unwrap_or_default();
        magnitudes.insert(node.clone(), of_groups(&values, &dims, *axis, groups(op)).ok_or_else(|| missing(CUT_OFF))?);
    }
    Ok(magnitudes)
}

/// Number of groups whose filters are stored group after group, on another axis than the filters' own.
fn groups(op: &Op) -> usize {
    if let Op::ConvTranspose(transposed) = op { transposed.conv.groups } else { 1 }
}

/// The means along an axis, for each of the groups, which follow each other on the first axis.
fn of_groups(values: &[f64], dims: &[usize], axis: usize, groups: usize) -> Option<Vec<f64>> {
    let mut dims = dims.to_vec();
    *dims.first_mut()? /= groups.max(1);
    let each = values.len().checked_div(groups).filter(|&each| each > 0 && each * groups == values.len())?;
    let means: Option<Vec<Vec<f64>>> = values.chunks(each).map(|part| filter_means(part, &dims, axis)).collect();
    means.map(|means| means.concat())
}

fn filter_means(values: &[f64], dims: &[usize], axis: usize) -> Option<Vec<f64>> {
    let filters = *dims.get(axis)?;
    let inner: usize = dims[axis + 1..].iter().product();
    let elements =
        values.len().checked_div(filters).filter(|&elements| elements > 0 && elements * filters == values.len())?;
    let mut sums = vec![0.0; filters];
    for (row, of_filter) in values.chunks(inner).enumerate() {
        sums[row % filters] += of_filter.iter().map(|w| w.abs()).sum::<f64>();
    }
    Some(sums.into_iter().map(|sum| sum / elements as f64).collect())
}

fn values(path: &Path, initializer: &Initializer) -> Result<Vec<f64>, String> {
    let tensor = &initializer.tensor;
    let values = match locate_payload(path, initializer)? {
        PayloadSource::Message => tensor::values(tensor),
        PayloadSource::Bytes(file, bytes) => raw_values(&bytes_of(&file, bytes)?, kind(tensor)),
    };
    let elements = elements(tensor)?;
    values.filter(|values| values.len() as u64 == elements).ok_or_else(|| CUT_OFF.into())
}

/// The little-endian elements of a tensor.
///
/// # Errors
/// What is missing, in words.
pub(super) fn payload(path: &Path, initializer: &Initializer) -> Result<Vec<u8>, String> {
    let tensor = &initializer.tensor;
    let raw = match locate_payload(path, initializer)? {
        PayloadSource::Bytes(file, bytes) => bytes_of(&file, bytes)?,
        PayloadSource::Message if tensor.raw_data().is_empty() => {
            tensor.float_data.iter().flat_map(|value| value.to_le_bytes()).collect()
        }
        PayloadSource::Message => tensor.raw_data().to_vec(),
    };
    let whole = raw_values(&raw, kind(tensor)).map(|values| values.len() as u64);
    if whole == Some(elements(tensor)?) { Ok(raw) } else { Err(CUT_OFF.into()) }
}

const CUT_OFF: &str = "their payload is empty or cut off";

fn kind(tensor: &TensorProto) -> DataType {
    DataType::try_from(tensor.data_type()).unwrap_or(DataType::Undefined)
}

fn elements(tensor: &TensorProto) -> Result<u64, String> {
    let elements = dims(tensor).map(|dims| value::elements(&dims));
    elements.ok_or_else(|| "they have an impossible shape".into())
}

/// Where a tensor's elements are.
fn locate_payload(path: &Path, Initializer { tensor, payload }: &Initializer) -> Result<PayloadSource, String> {
    let place = payload_source(path, tensor, payload.clone())?;
    match &place {
        // An element takes two to eight bytes: a length that does not fit is refused before it is read.
        PayloadSource::Bytes(_, bytes) if bytes.end - bytes.start > elements(tensor)?.saturating_mul(8) => {
            let stored = bytes.end - bytes.start;
            Err(format!("{stored} bytes are stored for {} elements", elements(tensor)?))
        }
        PayloadSource::Bytes(..) | PayloadSource::Message => Ok(place),
    }
}

fn payload_source(path: &Path, tensor: &TensorProto, payload: Option<Range<u64>>) -> Result<PayloadSource, String> {
    if let Some(bytes) = payload {
        return Ok(PayloadSource::Bytes(path.into(), bytes));
    }
    let external = |key: &str| tensor.external_data.iter().find(|entry| entry.key() == key).map(|entry| entry.value());
    let Some(location) = external("location") else { return Ok(PayloadSource::Message) };
    // The specification allows only files next to the network; another path could read what the user never meant to give.
    if Path::new(location).components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(format!("their file \"{location}\" is outside the network's folder"));
    }
    let file = atomic_write::folder_of(path).join(location);
    if leads_outside(&file, path) {
        return Err(format!("their file \"{location}\" is a link out of the network's folder"));
    }
    let number =
        |key: &str| external(key).map(|value| value.parse::<u64>().map_err(|_| format!("their {key} is \"{value}\"")));
    let start = number("offset").transpose()?.unwrap_or(0);
    let length = match number("length").transpose()? {
        Some(length) => length,
        None => std::fs::metadata(&file)
            .map_err(|cause| format!("{}: {cause}", file.display()))?
            .len()
            .saturating_sub(start),
    };
    Ok(PayloadSource::Bytes(file, start..start.saturating_add(length)))
}

/// Whether links lead from a data file out of the folder of its network, and of the file that the network itself may link to.
fn leads_outside(data: &Path, network: &Path) -> bool {
    let Ok(data) = data.canonicalize() else { return false };
    let folders = [
        atomic_write::folder_of(network).canonicalize(),
        network.canonicalize().map(|file| atomic_write::folder_of(&file).into()),
    ];
    !folders.iter().flatten().any(|folder: &PathBuf| data.starts_with(folder))
}

fn bytes_of(path: &Path, bytes: Range<u64>) -> Result<Vec<u8>, String> {
    read_bytes(path, bytes).map_err(|cause| format!("{}: {cause}", path.display()))
}

fn read_bytes(path: &Path, bytes: Range<u64>) -> std::io::Result<Vec<u8>> {
    // Checked before it is opened, because opening a pipe waits for a writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "is not a file"));
    }
    let mut file = std::fs::File::open(path)?;
    file.seek(SeekFrom::Start(bytes.start))?;
    let mut raw = Vec::new();
    file.take(bytes.end - bytes.start).read_to_end(&mut raw)?;
    Ok(raw)
}
