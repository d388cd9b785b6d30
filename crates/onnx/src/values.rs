//! The values of a graph by name, how many nodes read each, and the declared shapes.

use super::number::{BatchNumber, TensorDims};
use super::schema::GraphProto;
use super::source::{dims, values_read};
use super::value::{Feature, Value};
use hashbrown::{HashMap, HashSet};

pub(super) struct GraphValues<'a> {
    known: HashMap<&'a str, Value>,
    declared: HashMap<&'a str, Vec<Option<u64>>>,
    readers: HashMap<&'a str, usize>,
    moved: HashSet<String>,
}

impl<'a> GraphValues<'a> {
    /// The values of a graph; `known` are those that exist before its first node runs.
    pub fn new(graph: &'a GraphProto, known: HashMap<&'a str, Value>) -> Self {
        let declared = graph.value_info.iter().chain(&graph.output);
        let declared = declared.filter_map(|info| Some((info.name(), dims(info)?))).collect();
        // The outputs of a graph are read by the users of the file.
        let outputs = graph.output.iter().map(|output| output.name());
        let mut readers = HashMap::with_capacity(graph.node.len());
        // An empty name stands for an input that is left out.
        for value in graph.node.iter().flat_map(values_read).chain(outputs).filter(|name| !name.is_empty()) {
            *readers.entry(value).or_insert(0) += 1;
        }
        GraphValues { known, declared, readers, moved: HashSet::new() }
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.known.get(name)
    }

    pub fn set(&mut self, name: &'a str, value: Value) {
        self.known.insert(name, value);
    }

    /// The values that nodes of the network make, by name.
    pub fn features(&self) -> impl Iterator<Item = (&'a str, Feature)> {
        self.known.iter().filter_map(|(name, value)| match value {
            Value::Feature(feature) => Some((*name, *feature)),
            _ => None,
        })
    }

    pub fn is_read(&self, name: &str) -> bool {
        self.readers.contains_key(name)
    }

    pub fn is_read_once(&self, name: &str) -> bool {
        self.readers.get(name) == Some(&1)
    }

    /// The shape that the file declares; `None` for open dimensions.
    pub fn declared_shape(&self, name: &str) -> Option<&[Option<u64>]> {
        self.declared.get(name).map(Vec::as_slice)
    }

    /// As [`declared_shape`](Self::declared_shape), with the batch in place of the one dimension that may be open.
    pub fn declared_dims(&self, name: &str, samples: BatchNumber) -> Option<TensorDims> {
        let dims = self.declared_shape(name)?;
        let open = dims.iter().filter(|dim| dim.is_none()).count();
        (open <= 1).then(|| dims.iter().map(|dim| dim.map_or(samples, BatchNumber::from)).collect())
    }

    /// Whether the batch is elsewhere in memory than in the axes.
    pub fn is_moved(&self, name: &str) -> bool {
        self.moved.contains(name)
    }

    pub fn set_moved(&mut self, name: &str) {
        self.moved.insert(name.to_string());
    }
}
