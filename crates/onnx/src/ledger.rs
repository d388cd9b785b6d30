//! The ledger of parameters: the first reader of each, the elements counted, where filters are stored, and which tensors of the
//! module no operation holds.
//!
//! If operations read a part of a table, training still changes all of it, and the gradient of the part is as large as the table
//! (`slice_backward`). If the part consists of whole rows, reading it becomes a lookup. Otherwise the rest is not counted, and a
//! warning reports it. The rest of a buffer, such as sinusoidal positions, stays in memory as well.

use super::number::BatchNumber;
use super::value::{HeldTensor, WeightTensor, elements};
use super::warning::{PartlyRead, Warning};
use hashbrown::HashMap;
use perf4sight_network::{Embedding, NetworkBuilder, NodeId, Op, Shape};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

pub(super) struct LayerFilters {
    pub tensor: String,
    /// The axis along which the filters are stored.
    pub axis: usize,
}

/// Which parameters and buffers of a file the operations read.
#[derive(Default)]
pub(super) struct ParameterLedger {
    owners: HashMap<String, NodeId>,
    biases: HashMap<NodeId, Rc<str>>,
    counted: HashMap<Rc<str>, u64>,
    filters: BTreeMap<String, LayerFilters>,
    tables: HashMap<(Rc<str>, Shape), NodeId>,
    held: BTreeMap<Rc<str>, BufferHolding>,
    partial: BTreeMap<Rc<str>, PartlyReadParameter>,
    read_twice: BTreeSet<String>,
    read_in_parts: BTreeMap<String, BTreeSet<String>>,
}

struct BufferHolding {
    elements: u64,
    seen: u64,
}

/// A parameter that belongs to no layer, and of which operations read parts.
struct PartlyReadParameter {
    stored: Rc<str>,
    /// The index of its last axis.
    last: usize,
    elements: u64,
    /// The operations, each with the lookup it could become.
    readers: Vec<(NodeId, Option<Embedding>)>,
}

impl ParameterLedger {
    pub fn owner(&self, tensor: &str) -> Option<NodeId> {
        self.owners.get(tensor).copied()
    }

    /// Records the owner of a tensor, unless it already has one.
    pub fn set_owner(&mut self, tensor: impl Into<String>, node: NodeId) {
        self.owners.entry(tensor.into()).or_insert(node);
    }

    pub fn bias(&self, layer: NodeId) -> Option<&Rc<str>> {
        self.biases.get(&layer)
    }

    pub fn set_bias(&mut self, layer: NodeId, name: Option<Rc<str>>) {
        self.biases.extend(name.map(|name| (layer, name)));
    }

    /// Counts up to `wanted` elements of a tensor that are not counted yet, and returns how many were.
    pub fn count(&mut self, tensor: &Rc<str>, wanted: u64, elements: u64) -> u64 {
        let counted = self.counted.entry(tensor.clone()).or_default();
        let left = wanted.min(elements.saturating_sub(*counted));
        *counted += left;
        left
    }

    pub fn set_filters(&mut self, layer: &str, tensor: &str, axis: usize) {
        self.filters.insert(layer.to_string(), LayerFilters { tensor: tensor.to_string(), axis });
    }

    /// Where the filters of layers are stored, by layer name.
    pub fn into_filters(self) -> BTreeMap<String, LayerFilters> {
        self.filters
    }

    /// The node that holds all of a buffer in this shape.
    pub fn table(&self, buffer: &HeldTensor, shape: &Shape) -> Option<NodeId> {
        self.tables.get(&(buffer.stored.clone(), shape.clone())).copied()
    }

    pub fn set_table(&mut self, buffer: &HeldTensor, shape: Shape, node: NodeId) {
        self.tables.insert((buffer.stored.clone(), shape), node);
    }

    /// Records that an operation reads a buffer, and how many of its elements it holds.
    pub fn record_buffer(&mut self, buffer: &HeldTensor, seen: u64) {
        let holding = self.held.entry(buffer.stored.clone());
        let holding = holding.or_insert(BufferHolding { elements: buffer.elements, seen: 0 });
        holding.seen += if buffer.is_seen { seen } else { 0 };
    }

    /// How many numbers of the buffers that are read are held by no operation.
    pub fn unread(&self) -> u64 {
        // A tensor that a layer trains is no buffer.
        let buffers = self.held.iter().filter(|(tensor, _)| !self.counted.contains_key(*tensor));
        buffers.map(|(_, held)| held.elements.saturating_sub(held.seen)).fold(0, u64::saturating_add)
    }

    /// Records that a layer reads elements in another shape that are already counted.
    pub fn read_twice(&mut self, tensor: &str) {
        self.read_twice.insert(tensor.to_string());
    }

    /// Records that the filters of a layer are a part of a parameter.
    pub fn read_in_parts(&mut self, tensor: &str, layer: &str) {
        self.read_in_parts.entry(tensor.to_string()).or_default().insert(layer.to_string());
    }

    /// Records that an operation reads a part of a parameter that belongs to no layer. If the part is whole rows of `whole`, it
    /// may become a lookup.
    pub fn read_part(&mut self, weight: &WeightTensor, node: NodeId, whole: Option<&[BatchNumber]>, shape: &Shape) {
        let lookup = whole.and_then(|whole| lookup(whole, &weight.dims, shape));
        let partial = self.partial.entry(weight.tensor.clone()).or_insert_with(|| PartlyReadParameter {
            stored: weight.stored.clone(),
            last: weight.dims.len().saturating_sub(1),
            elements: weight.elements,
            readers: Vec::new(),
        });
        partial.readers.push((node, lookup));
    }

    /// Turns operations that read some rows of a parameter into lookups, and returns the warnings about how parameters are read.
    pub fn complete(&mut self, builder: &mut NetworkBuilder) -> Vec<Warning> {
        let mut partly = Vec::new();
        for (tensor, partial) in std::mem::take(&mut self.partial) {
            let read = self.counted.get(&tensor).copied().unwrap_or(0);
            if read < partial.elements && !self.look_up(&partial, builder) {
                partly.push(PartlyRead { tensor: tensor.to_string(), read, elements: partial.elements });
            }
        }
        let twice = Some(std::mem::take(&mut self.read_twice)).filter(|tensors| !tensors.is_empty());
        let parts = Some(std::mem::take(&mut self.read_in_parts)).filter(|tensors| !tensors.is_empty());
        let partly = Some(partly).filter(|tensors| !tensors.is_empty());
        let warnings =
            [twice.map(Warning::ReadTwice), parts.map(Warning::ReadInParts), partly.map(Warning::PartlyRead)];
        warnings.into_iter().flatten().collect()
    }

    /// Turns all readers of a parameter into lookups, or returns false. The first one owns the table, all of whose elements are
    /// trained.
    fn look_up(&mut self, partial: &PartlyReadParameter, builder: &mut NetworkBuilder) -> bool {
        let lookups: Option<Vec<_>> = partial.readers.iter().map(|(node, rows)| Some((*node, rows.clone()?))).collect();
        let Some(lookups) = lookups else { return false };
        let owner = lookups[0].0;
        for (node, rows) in lookups {
            let name = builder.node(node).name.clone();
            builder.replace(node, Op::Embedding(rows), &name);
            let is_shared = node != owner && builder.share(node, owner).is_ok();
            builder.set_trained(node, if is_shared { 0 } else { partial.elements });
            self.set_filters(&name, &partial.stored, partial.last);
        }
        true
    }
}

/// The lookup that reads this part of a matrix as `shape` for one sample, if it is whole rows; axes of length 1 are ignored.
fn lookup(whole: &[BatchNumber], part: &[BatchNumber], shape: &Shape) -> Option<Embedding> {
    let long = whole.iter().filter(|&&dim| dim != 1).map(|dim| dim.as_integer()).collect::<Option<Vec<usize>>>()?;
    let (&[rows, width], Some((last, places))) = (long.as_slice(), shape.dims().split_last()) else { return None };
    let read = elements(part).checked_div(width as u64).filter(|read| *read < rows as u64)?;
    let fits = *last == width && part.last().is_some_and(|&last| last == width) && elements(places) == read;
    fits.then(|| Embedding { rows, width, fixed: Some(Shape::new(places)) })
}
