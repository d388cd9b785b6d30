//! Tensors that PyTorch's default exporter computed ahead, so that the file has no longer the parameters they are computed from.
//!
//! The signature of the graph still names those, and a node says of which module it is. What is read in a module none of whose parameters
//! is missing comes from none. Where one is missing, its size is told by what is read, or is the one that such a parameter always has.

use super::notes::module;
use super::{Exporter, parted};
use crate::file::Initializer;
use crate::schema::tensor_proto::DataType;
use crate::schema::{NodeProto, TensorProto};
use crate::tensor;
use hashbrown::HashMap;
use perf4sight_base::units::counted;
use std::collections::{BTreeMap, BTreeSet};

/// A tensor that was computed ahead.
pub(super) struct Computed<'a> {
    /// The modules of the nodes that read it, the first one's first: exporters merge tensors that are equal.
    modules: Vec<&'a str>,
    dims: Vec<u64>,
}

impl Computed<'_> {
    /// Whether the operation that a tensor is called after makes as many elements as it reads.
    fn keeps_elements(&self, name: &str) -> bool {
        const EACH: [&str; 14] = [
            "neg",
            "exp",
            "log",
            "abs",
            "sqrt",
            "rsqrt",
            "reciprocal",
            "sigmoid",
            "tanh",
            "softplus",
            "softmax",
            "relu",
            "clamp",
            "pow",
        ];
        // Of a vector, what it is calculated with is most often a number, and what it is seen as has its elements.
        const VECTOR: [&str; 8] = ["mul", "div", "add", "sub", "view", "reshape", "unsqueeze", "squeeze"];
        let operation = name.split('_').next().unwrap_or(name);
        let is_vector = self.dims.iter().filter(|&&dim| dim > 1).count() < 2;
        is_copied(name) || EACH.contains(&operation) || is_vector && VECTOR.contains(&operation)
    }

    /// How many rows of a parameter a tensor stands for: where a module takes one after the other, exporters keep one of equal ones.
    fn rows(&self, name: &str) -> u64 {
        let in_first = self.modules.iter().filter(|module| **module == self.modules[0]).count();
        if name.split('_').next() == Some("select") { in_first as u64 } else { 1 }
    }
}

/// What was computed ahead, by what is told of the parameters it came from.
#[derive(Default)]
struct Ahead<'a> {
    /// Nothing tells their size.
    lost: BTreeMap<&'a str, Option<&'a str>>,
    /// They are taken for those of known networks.
    usual: BTreeSet<&'a str>,
    /// They count as many elements as were made of them.
    alike: BTreeSet<&'a str>,
}

impl Ahead<'_> {
    /// What to tell, `left` being parameters that nothing at all came from.
    fn warnings(&self, left: &BTreeSet<&str>) -> Vec<String> {
        let of = |count: usize, first: &str, source: &str| {
            let tensors = counted(count as u64, "tensor");
            format!("the exporter computed {tensors} ahead (\"{first}\" is one{source})")
        };
        let lost = self.lost.first_key_value().map(|(first, source)| {
            let source = source.map_or(String::new(), |source| format!(", perhaps of \"{source}\""));
            format!("{}, so that its parameters are not the network's: {AGAIN}", of(self.lost.len(), first, &source))
        });
        let left_over = left.first().filter(|_| self.lost.is_empty()).map(|first| {
            format!(
                "the file names {} parameters that nothing in it reads (\"{first}\" is one): where the exporter merged the layers they \
                 are of with equal ones, its parameters are not the network's; {AGAIN}",
                left.len()
            )
        });
        let usual = self.usual.first().map(|first| {
            format!(
                "{} from parameters whose sizes the file has no longer; they are taken for those of the networks that call such \
                 parameters alike: to have the network's own, {AGAIN}",
                of(self.usual.len(), first, "")
            )
        });
        let alike = self.alike.first().map(|first| {
            format!(
                "{} from parameters whose sizes the file has no longer; these count as many elements as were computed, which are more or \
                 fewer where they were looked up, stretched or put together: to have the network's own, {AGAIN}",
                of(self.alike.len(), first, "")
            )
        });
        [lost, left_over, usual, alike].into_iter().flatten().collect()
    }
}

const AGAIN: &str = "export it with dynamo=False, or with optimize=False";

/// Where a tensor comes from that was computed ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// From no parameter.
    Fixed,
    /// From parameters of so many elements.
    Trained(u64),
    /// From parameters that have so many elements wherever they are called so.
    Usual(u64),
    /// From parameters whose size nothing tells.
    Lost,
}

/// The tensors among these that are neither parameters nor buffers of the network, whose names have dots or are marked.
pub(super) fn computed<'a>(
    exporter: &Exporter<'a>,
    nodes: &'a [NodeProto],
    initializers: &'a [Initializer],
) -> HashMap<&'a str, Computed<'a>> {
    let mut modules: HashMap<&str, Vec<&str>> = HashMap::new();
    // Random numbers are drawn in the shape of some tensor, whatever it holds.
    for node in nodes.iter().filter(|node| !node.op_type().starts_with("Random")) {
        for name in &node.input {
            modules.entry(name).or_default().push(module(node).unwrap_or_default());
        }
    }
    let of = |tensor: &'a TensorProto| {
        let dims = tensor.dims.iter().map(|&dim| u64::try_from(dim).unwrap_or(0)).collect();
        Some((tensor.name(), Computed { modules: modules.get(tensor.name())?.clone(), dims }))
    };
    initializers.iter().map(|one| &one.tensor).filter(|tensor| is_computed(exporter, tensor)).filter_map(of).collect()
}

fn is_computed(exporter: &Exporter, tensor: &TensorProto) -> bool {
    let name = tensor.name();
    let named = name.contains('.') || name.starts_with("val_") || exporter.trains(name) || exporter.keeps(name);
    let float = DataType::try_from(tensor.data_type()).is_ok_and(tensor::is_float);
    float && !named && tensor.dims.iter().any(|&dim| dim > 1)
}

impl Exporter<'_> {
    /// Where a tensor comes from, in a file of this batch; `None` where it was not computed ahead or the file has no signature.
    pub fn origin(&self, name: &str, batch: Option<u64>) -> Option<Origin> {
        let computed = self.computed.get(name).filter(|_| !self.parameters.is_empty())?;
        let module = computed.modules[0];
        let missing = self.missing_for(name, module);
        if missing.is_empty() || is_filled(name) {
            return Some(Origin::Fixed);
        }
        if is_looked_up(name) {
            return Some(Origin::Lost);
        }
        let dims = &computed.dims;
        let elements = dims.iter().product::<u64>();
        if is_copied(name) && dims.first().copied() == batch {
            return Some(Origin::Trained(elements / dims[0].max(1)));
        }
        if let Some(usual) = missing.iter().find_map(|parameter| usual(parameter, dims)) {
            return Some(Origin::Usual(usual * computed.rows(name)));
        }
        if is_normed(&missing) {
            return Some(normed(&missing, dims));
        }
        let [copies, others] = self.read_in(module);
        let left = missing.len().saturating_sub(copies);
        let all = (others <= left).then_some(elements);
        Some(match (self.biases_of_two(name, module, dims).or(all), left) {
            (Some(trained), _) => Origin::Trained(trained),
            (None, 0) => Origin::Fixed,
            (None, _) => Origin::Lost,
        })
    }

    /// What to tell of parameters that the file has no longer.
    pub fn warnings(&self, batch: Option<u64>) -> Vec<String> {
        let mut left = self.missing.clone();
        // Gains and biases are counted with their layers.
        let of_layer = |name: &str| {
            let layer = name.strip_suffix(".gain").or(name.strip_suffix(".bias"));
            layer.is_some_and(|layer| name.ends_with(".gain") || self.holds(&format!("{layer}.weight")))
        };
        left.retain(|name| !of_layer(name));
        let mut told = Ahead::default();
        for (name, computed) in &self.computed {
            let sources = || computed.modules.iter().flat_map(|module| self.missing_for(name, module));
            let is_sure = || computed.keeps_elements(name) || is_reparametrised(&sources().collect::<Vec<_>>());
            match self.origin(name, batch) {
                Some(Origin::Fixed) => continue,
                None if self.marked.is_empty() => continue,
                None | Some(Origin::Lost) => {
                    told.lost.insert(name, sources().next());
                }
                Some(Origin::Usual(_)) => told.usual.extend([name]),
                Some(Origin::Trained(_)) if is_sure() => {}
                Some(Origin::Trained(_)) => told.alike.extend([name]),
            }
            let sources: Vec<&str> = sources().collect();
            left.retain(|name| !sources.contains(name));
        }
        for (module, filters) in &self.products {
            let sources: Vec<&str> = left.iter().copied().filter(|name| parted(name).0 == *module).collect();
            told.alike.extend(sources.first().map(|_| *filters));
            left.retain(|name| !sources.contains(name));
        }
        told.warnings(&left)
    }

    /// Whether a layer's filters are scaled by a gain, one number for each, that the file has no longer, not even computed from.
    pub fn has_lost_gain(&self, node: &NodeProto) -> bool {
        let Some(module) = module(node).filter(|module| !module.is_empty()) else { return false };
        let gain = |computed: &Computed| computed.modules.contains(&module) && computed.dims.len() == 1;
        self.missing.iter().any(|name| name.strip_prefix(module) == Some(".gain")) && !self.computed.values().any(gain)
    }

    /// What a tensor that was computed ahead is called where a node reads it: of equal ones in several modules an exporter keeps one.
    pub fn called(&self, node: &NodeProto, name: &str) -> Option<String> {
        let module = module(node).filter(|_| self.computed.contains_key(name))?;
        Some(if module.is_empty() { name.to_string() } else { format!("{module}.{name}") })
    }

    /// Whether the file has a parameter.
    fn holds(&self, name: &str) -> bool {
        self.trains(name) && !self.missing.contains(name)
    }

    /// Missing parameters of a module itself, else of those within it.
    fn missing_in(&self, module: &str) -> Vec<&str> {
        let own = |name: &&&str| parted(name).0 == module;
        let own: Vec<&str> = self.missing.iter().filter(own).copied().collect();
        if !own.is_empty() || module.is_empty() {
            return own;
        }
        let within = |name: &&&str| name.strip_prefix(module).is_some_and(|rest| rest.starts_with('.'));
        self.missing.iter().filter(within).copied().collect()
    }

    /// The missing parameters that a tensor of a module may come from. What every sample gets a copy of may be any outer module's.
    fn missing_for(&self, name: &str, module: &str) -> Vec<&str> {
        let own = self.missing_in(module);
        if !own.is_empty() || !(is_copied(name) || is_looked_up(name)) {
            return own;
        }
        if is_looked_up(name) {
            // In the table of a module that this one asks.
            return self.missing.iter().filter(|name| name.ends_with(".weight")).copied().collect();
        }
        let owner = |name: &str| name.rsplit_once('.').map_or(String::new(), |(owner, _)| format!("{owner}."));
        self.missing.iter().filter(|name| module.starts_with(&owner(name))).copied().collect()
    }

    /// How many tensors that were computed ahead a module reads: copies for every sample, and others.
    fn read_in(&self, module: &str) -> [usize; 2] {
        let read = || self.computed.iter().filter(|(_, computed)| computed.modules[0] == module);
        let copies = read().filter(|(name, _)| is_copied(name)).count();
        [copies, read().count() - copies]
    }

    /// The bias of queries, keys and values behind each other, of which keys have none.
    fn biases_of_two(&self, name: &str, module: &str, dims: &[u64]) -> Option<u64> {
        let missing = |leaf: &str| self.missing.contains(format!("{module}.{leaf}").as_str());
        let keys = self.parameters.values().any(|name| *name == format!("{module}.k_bias"));
        let joined = name.split('_').next() == Some("cat") && !keys && missing("q_bias") && missing("v_bias");
        match dims {
            [features] if joined && features.is_multiple_of(3) => Some(features / 3 * 2),
            _ => None,
        }
    }
}

/// Whether a tensor is called after an operation that fills one from nothing, as a table of the places in a window.
fn is_filled(name: &str) -> bool {
    matches!(name.split('_').next(), Some("zeros" | "ones" | "full" | "arange" | "eye" | "linspace"))
}

/// Whether a tensor is rows of a table, which may have more: `nn.Embedding` asked for places that are always the same.
fn is_looked_up(name: &str) -> bool {
    name.split('_').next() == Some("embedding")
}

/// Whether these parameters are what PyTorch makes of filters that it normalises.
fn is_reparametrised(missing: &[&str]) -> bool {
    is_normed(missing) || missing.iter().any(|name| name.ends_with("parametrizations.weight.original"))
}

/// Whether these parameters are what PyTorch's weight_norm makes of filters: as many elements, and a magnitude for each of the first axis.
fn is_normed(missing: &[&str]) -> bool {
    let pairs = [["parametrizations.weight.original0", "parametrizations.weight.original1"], ["weight_g", "weight_v"]];
    let has = |part: &str| missing.iter().any(|name| name.ends_with(part));
    pairs.iter().any(|pair| pair.iter().all(|part| has(part)))
}

/// Filters and their magnitudes, one for each of the first axis, but in wav2vec's convolution of places for each of the last.
fn normed(missing: &[&str], dims: &[u64]) -> Origin {
    let elements = dims.iter().product::<u64>();
    match missing.iter().any(|name| name.contains("pos_conv")) {
        true => Origin::Usual(elements + dims.last().copied().unwrap_or(0)),
        false => Origin::Trained(elements + dims.first().copied().unwrap_or(0)),
    }
}

/// Whether every sample got a copy of what a tensor is called after.
fn is_copied(name: &str) -> bool {
    name.split('_').next() == Some("expand")
}

/// The elements of a parameter of this name from which a tensor of these dimensions is looked up, by the networks that call them so.
fn usual(parameter: &str, dims: &[u64]) -> Option<u64> {
    let dims: Vec<u64> = dims.iter().copied().filter(|&dim| dim > 1).collect();
    let parameter = parameter.rsplit('.').next().unwrap_or(parameter);
    let offsets = |side: u64| 2 * side - 1;
    match (parameter, dims.as_slice()) {
        // Swin: a number for every head and offset of two places in a square window.
        ("relative_position_bias_table", &[heads, places, others]) if places == others => {
            side(places).map(|side| heads * offsets(side) * offsets(side))
        }
        ("relative_position_bias_table", &[pairs, heads]) => {
            side(pairs).and_then(side).map(|side| heads * offsets(side) * offsets(side))
        }
        // LeViT: a number for every head and distance along both axes, as many as keys.
        ("attention_biases", &[heads, _, keys]) => Some(heads * keys),
        ("attention_biases", &[_, keys]) => Some(keys),
        // MViT v2 and SAM: a vector for every offset along one axis.
        ("rel_pos_h" | "rel_pos_w", &[queries, keys, features]) => Some(offsets(queries.max(keys)) * features),
        _ => None,
    }
}

/// The side of a square.
fn side(area: u64) -> Option<u64> {
    let side = area.isqrt();
    (side * side == area && side > 0).then_some(side)
}
