//! Tensors that PyTorch's default exporter computed when it folded constants, so that the file no longer has the parameters they come from.
//!
//! The signature of the graph still names the parameters, and nodes name their modules. A tensor read in a module without missing
//! parameters comes from none. If one is missing, its size is that of the tensor, or the one that such a parameter always has.

use super::{ExporterNotes, split_name};
use crate::file::Initializer;
use crate::notes::module;
use crate::schema::{NodeProto, TensorProto};
use crate::tensor;
use crate::warning::{FoldedTensors, Warning};
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet};

/// A tensor that the exporter computed, named after the operation that gave it, such as `expand_1`.
pub(super) struct ExportedConstant<'a> {
    /// The modules of the nodes that read it, the first reader's first: exporters merge equal tensors.
    modules: Vec<&'a str>,
    dims: Vec<u64>,
}

/// The origin of a tensor that the exporter computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConstantOrigin {
    Fixed,
    /// From parameters with this many elements in total.
    Trained(u64),
    /// From parameters that always have this many elements under their name.
    Usual(u64),
    /// From parameters of unknown size.
    Lost,
}

/// The tensors that are neither parameters nor buffers of the network; names of these have dots or are marked.
pub(super) fn computed_constants<'a>(
    exporter: &ExporterNotes<'a>,
    nodes: &'a [NodeProto],
    initializers: &'a [Initializer],
) -> HashMap<&'a str, ExportedConstant<'a>> {
    let mut modules: HashMap<&str, Vec<&str>> = HashMap::new();
    // Random numbers are drawn in the shape of a tensor; its values do not matter.
    for node in nodes.iter().filter(|node| !node.op_type().starts_with("Random")) {
        for name in &node.input {
            modules.entry(name).or_default().push(module(node).unwrap_or_default());
        }
    }
    let constant = |tensor: &'a TensorProto| {
        let dims = tensor.dims.iter().map(|&dim| u64::try_from(dim).unwrap_or(0)).collect();
        Some((tensor.name(), ExportedConstant { modules: modules.get(tensor.name())?.clone(), dims }))
    };
    let tensors = initializers.iter().map(|one| &one.tensor).filter(|tensor| is_computed(exporter, tensor));
    tensors.filter_map(constant).collect()
}

fn is_computed(exporter: &ExporterNotes, tensor: &TensorProto) -> bool {
    let name = tensor.name();
    let is_named = name.contains('.') || name.starts_with("val_");
    let is_float = tensor::kind(tensor).is_some_and(tensor::is_float);
    let is_known = is_named || exporter.is_parameter(name) || exporter.is_buffer(name);
    is_float && !is_known && tensor.dims.iter().any(|&dim| dim > 1)
}

/// Whether a tensor is named after one of these operations.
fn is_by(name: &str, operations: &str) -> bool {
    let operation = name.split('_').next().unwrap_or(name);
    operations.split(' ').any(|known| known == operation)
}

/// Whether it was filled without an operand, as a table of the positions in a window.
fn is_filled(name: &str) -> bool {
    is_by(name, "zeros ones full arange eye linspace")
}

fn is_looked_up(name: &str) -> bool {
    is_by(name, "embedding")
}

fn is_copied(name: &str) -> bool {
    is_by(name, "expand")
}

/// Whether the operation in a tensor's name, perhaps with its module, is a view, which makes nothing of its own.
pub(crate) fn is_named_after_view(name: &str) -> bool {
    is_by(name.rsplit('.').next().unwrap_or(name), "t numpy permute transpose view reshape unsqueeze squeeze")
}

impl ExportedConstant<'_> {
    /// Whether the operation in a tensor's name gives as many elements as it reads.
    fn keeps_elements(&self, name: &str) -> bool {
        const EACH: &str = "expand neg exp log abs sqrt rsqrt reciprocal sigmoid tanh softplus softmax relu clamp pow";
        // The other operand of a vector is most often a number.
        const VECTOR: &str = "mul div add sub";
        is_by(name, EACH)
            || is_named_after_view(name)
            || self.dims.iter().filter(|&&dim| dim > 1).count() < 2 && is_by(name, VECTOR)
    }

    /// How many rows of a parameter a tensor represents: if a module takes one after the other, exporters keep one of equal ones.
    fn rows(&self, name: &str) -> u64 {
        let in_first = self.modules.iter().filter(|module| **module == self.modules[0]).count();
        if is_by(name, "select") { in_first as u64 } else { 1 }
    }
}

impl ExporterNotes<'_> {
    /// The origin of a tensor, in a file of this batch; `None` if the exporter did not compute it or the file has no signature.
    pub fn origin(&self, name: &str, batch: Option<u64>) -> Option<ConstantOrigin> {
        let constant = self.computed.get(name).filter(|_| !self.parameters.is_empty())?;
        let (module, dims) = (constant.modules[0], &constant.dims);
        let missing = self.missing_for(name, module);
        if missing.is_empty() || is_filled(name) {
            return Some(ConstantOrigin::Fixed);
        }
        if is_looked_up(name) {
            return Some(ConstantOrigin::Lost);
        }
        let elements = dims.iter().product::<u64>();
        if is_copied(name) && dims.first().copied() == batch {
            return Some(ConstantOrigin::Trained(elements / dims[0].max(1)));
        }
        if let Some(usual) = missing.iter().find_map(|parameter| usual_elements(parameter, dims)) {
            return Some(ConstantOrigin::Usual(usual * constant.rows(name)));
        }
        if is_weight_norm(&missing) {
            return Some(with_magnitudes(&missing, dims));
        }
        let [copies, others] = self.read_in(module);
        let left = missing.len().saturating_sub(copies);
        let all = (others <= left).then_some(elements);
        Some(match (self.biases_of_two(name, module, dims).or(all), left) {
            (Some(trained), _) => ConstantOrigin::Trained(trained),
            (None, 0) => ConstantOrigin::Fixed,
            (None, _) => ConstantOrigin::Lost,
        })
    }

    pub fn warnings(&self, batch: Option<u64>) -> Vec<Warning> {
        let mut left = self.missing.clone();
        // Gains and biases are counted with their layers.
        let is_of_layer = |name: &str| {
            let layer = name.strip_suffix(".gain").or(name.strip_suffix(".bias"));
            let has = |weight: &str| self.is_parameter(weight) && !self.missing.contains(weight);
            layer.is_some_and(|layer| name.ends_with(".gain") || has(&format!("{layer}.weight")))
        };
        left.retain(|name| !is_of_layer(name));
        let (mut lost, mut usual, mut alike) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        for (name, constant) in &self.computed {
            let sources: Vec<&str> =
                constant.modules.iter().flat_map(|module| self.missing_for(name, module)).collect();
            match self.origin(name, batch) {
                Some(ConstantOrigin::Fixed) => continue,
                None if self.marked.is_empty() => continue,
                None | Some(ConstantOrigin::Lost) => drop(lost.insert(*name, sources.first().copied())),
                Some(ConstantOrigin::Usual(_)) => drop(usual.insert(*name)),
                Some(ConstantOrigin::Trained(_)) if constant.keeps_elements(name) || is_reparametrised(&sources) => {}
                Some(ConstantOrigin::Trained(_)) => drop(alike.insert(*name)),
            }
            left.retain(|name| !sources.contains(name));
        }
        for (module, filters) in &self.products {
            let before = left.len();
            left.retain(|name| split_name(name).0 != *module);
            alike.extend((left.len() < before).then_some(*filters));
        }
        let folded = |first: &str, count: usize| FoldedTensors { first: first.to_string(), count };
        let of_set = |tensors: BTreeSet<&str>| tensors.first().map(|first| folded(first, tensors.len()));
        let unread = left.first().filter(|_| lost.is_empty());
        let lost = lost
            .first_key_value()
            .map(|(first, source)| Warning::LostParameters(folded(first, lost.len()), source.map(str::to_string)));
        let unread = unread.map(|first| Warning::UnreadParameters(first.to_string(), left.len()));
        let usual = of_set(usual).map(Warning::UsualParameters);
        let alike = of_set(alike).map(Warning::AlikeParameters);
        [lost, unread, usual, alike].into_iter().flatten().collect()
    }

    /// Whether a layer's filters are scaled by a gain, one number for each, that the file has lost, also as an input of computed
    /// tensors.
    pub fn has_lost_gain(&self, node: &NodeProto) -> bool {
        let Some(module) = module(node).filter(|module| !module.is_empty()) else { return false };
        let gain = |constant: &ExportedConstant| constant.modules.contains(&module) && constant.dims.len() == 1;
        self.missing.iter().any(|name| name.strip_prefix(module) == Some(".gain")) && !self.computed.values().any(gain)
    }

    /// The name of a computed tensor where a node reads it: of equal ones in several modules the exporter keeps one.
    pub fn name_in_module(&self, node: &NodeProto, name: &str) -> Option<String> {
        let module = module(node).filter(|_| self.computed.contains_key(name))?;
        Some(if module.is_empty() { name.to_string() } else { format!("{module}.{name}") })
    }

    /// Whether a module reads a computed tensor, which its missing parameters are then of.
    fn reads_computed(&self, module: &str) -> bool {
        self.computed.values().any(|constant| constant.modules.contains(&module))
    }

    /// The missing parameters that a tensor of a module may come from: the module's own, otherwise those of inner modules that read no computed tensor
    /// themselves. A copy for every sample may come from any outer module, and a lookup from any table.
    fn missing_for(&self, name: &str, module: &str) -> Vec<&str> {
        let missing =
            |is: &dyn Fn(&str) -> bool| -> Vec<&str> { self.missing.iter().copied().filter(|name| is(name)).collect() };
        let mut found = missing(&|name| split_name(name).0 == module);
        if found.is_empty() && !module.is_empty() {
            let is_inner = |name: &str| name.strip_prefix(module).is_some_and(|rest| rest.starts_with('.'));
            found = missing(&|name| is_inner(name) && !self.reads_computed(split_name(name).0));
        }
        if found.is_empty() && is_looked_up(name) {
            found = missing(&|name| name.ends_with(".weight"));
        } else if found.is_empty() && is_copied(name) {
            let owner = |name: &str| name.rsplit_once('.').map_or(String::new(), |(owner, _)| format!("{owner}."));
            found = missing(&|name| module.starts_with(&owner(name)));
        }
        found
    }

    /// Number of computed tensors that a module reads: copies for every sample, and others.
    fn read_in(&self, module: &str) -> [usize; 2] {
        let read = || self.computed.iter().filter(|(_, constant)| constant.modules[0] == module);
        let copies = read().filter(|(name, _)| is_copied(name)).count();
        [copies, read().count() - copies]
    }

    /// The joined bias of queries, keys and values, if keys have none.
    fn biases_of_two(&self, name: &str, module: &str, dims: &[u64]) -> Option<u64> {
        let missing = |leaf: &str| self.missing.contains(format!("{module}.{leaf}").as_str());
        let keys = self.trained.contains(format!("{module}.k_bias").as_str());
        let joined = is_by(name, "cat") && !keys && missing("q_bias") && missing("v_bias");
        match dims {
            [features] if joined && features.is_multiple_of(3) => Some(features / 3 * 2),
            _ => None,
        }
    }
}

/// Whether PyTorch creates these parameters for filters that it normalises.
fn is_reparametrised(missing: &[&str]) -> bool {
    is_weight_norm(missing) || missing.iter().any(|name| name.ends_with("parametrizations.weight.original"))
}

/// Whether these are the parameters of PyTorch's `weight_norm`: as many elements as the filters, and a magnitude for each index
/// of the first axis.
fn is_weight_norm(missing: &[&str]) -> bool {
    let pairs = [["parametrizations.weight.original0", "parametrizations.weight.original1"], ["weight_g", "weight_v"]];
    let has = |part: &str| missing.iter().any(|name| name.ends_with(part));
    pairs.iter().any(|pair| pair.iter().all(|part| has(part)))
}

/// Filters and their magnitudes, one for each index of the first axis; of the last axis in wav2vec's positional convolution.
fn with_magnitudes(missing: &[&str], dims: &[u64]) -> ConstantOrigin {
    let elements = dims.iter().product::<u64>();
    match missing.iter().any(|name| name.contains("pos_conv")) {
        true => ConstantOrigin::Usual(elements + dims.last().copied().unwrap_or(0)),
        false => ConstantOrigin::Trained(elements + dims.first().copied().unwrap_or(0)),
    }
}

/// The elements of a parameter of this name from which a tensor of these dimensions is looked up, in the networks that use the
/// name.
fn usual_elements(parameter: &str, dims: &[u64]) -> Option<u64> {
    let dims: Vec<u64> = dims.iter().copied().filter(|&dim| dim > 1).collect();
    let offsets = |side: u64| 2 * side - 1;
    match (split_name(parameter).1, dims.as_slice()) {
        // Swin: a number for every head and offset of two places in a square window.
        ("relative_position_bias_table", &[heads, places, others]) if places == others => {
            square_side(places).map(|side| heads * offsets(side) * offsets(side))
        }
        ("relative_position_bias_table", &[pairs, heads]) => {
            square_side(pairs).and_then(square_side).map(|side| heads * offsets(side) * offsets(side))
        }
        // LeViT: a number for every head and distance along both axes, as many as keys.
        ("attention_biases", &[heads, _, keys]) => Some(heads * keys),
        ("attention_biases", &[_, keys]) => Some(keys),
        // MViT v2 and SAM: a vector for every offset along one axis.
        ("rel_pos_h" | "rel_pos_w", &[queries, keys, features]) => Some(offsets(queries.max(keys)) * features),
        _ => None,
    }
}

fn square_side(area: u64) -> Option<u64> {
    let side = area.isqrt();
    (side * side == area && side > 0).then_some(side)
}
