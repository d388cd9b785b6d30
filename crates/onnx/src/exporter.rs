//! The signature and the notes that PyTorch's default exporter (`dynamo=True`) adds to a graph, which identify the tensors of the
//! file.
//!
//! `pkg.torch.onnx.fx_node` is a line such as `%conv2d : call_function[target=torch.ops.aten.conv2d.default](args = (%x,
//! %p_conv1_weight, None))`: `p_` marks parameters, `b_` buffers; dots in their names become underscores. The graph has a
//! signature with a line for each, such as `p_conv1_weight: PARAMETER target='conv1.weight'`. It includes those that no node
//! reads any more, because equal biases were merged or batch normalisations folded.

mod constants;
mod operands;

pub(super) use constants::{ConstantOrigin, is_named_after_view};
pub(super) use operands::NotedOperand;

use super::file::Initializer;
use super::notes::{arguments, is_of_library_mask, module, noted_tensors, operation, reads_parameter};
use super::schema::{GraphProto, NodeProto};
use constants::ExportedConstant;
use hashbrown::{HashMap, HashSet};
use std::collections::{BTreeMap, BTreeSet};

const SIGNATURE: &str = "pkg.torch.export.ExportedProgram.graph_signature";

/// The notes of PyTorch's exporter on the tensors of a graph.
pub(super) struct ExporterNotes<'a> {
    /// Marked names, as in `p_conv1_weight`.
    marked: HashSet<&'a str>,
    /// The parameters' own names, as in `conv1.weight`, by their marked ones.
    parameters: HashMap<&'a str, &'a str>,
    trained: HashSet<&'a str>,
    /// Trained parameters without a tensor in the file: merged with an equal one, or only used to compute others.
    absent: HashSet<&'a str>,
    /// The names of the signature's other tensors.
    buffers: HashSet<&'a str>,
    /// The parameters that no node reads, and that no node's original operation reads.
    missing: BTreeSet<&'a str>,
    computed: HashMap<&'a str, ExportedConstant<'a>>,
    /// The modules that multiply by filters which the exporter computed, and the names of the filters.
    products: BTreeMap<&'a str, &'a str>,
    has_library_masks: bool,
}

impl<'a> ExporterNotes<'a> {
    /// Reads the notes of a graph; `buffers` are further tensors known to be buffers.
    pub fn new(graph: &'a GraphProto, initializers: &'a [Initializer], buffers: impl Iterator<Item = &'a str>) -> Self {
        let signature =
            graph.metadata_props.iter().find(|note| note.key() == SIGNATURE).map_or("", |note| note.value());
        let lines = || signature.lines().filter_map(parse_signature);
        let marked: HashSet<&str> = graph.node.iter().flat_map(noted_tensors).collect();
        let parameters: HashMap<&str, &str> =
            lines().filter(|line| line.kind == "PARAMETER").map(|line| (line.mark, line.target)).collect();
        let stored: HashSet<&str> = initializers.iter().map(|one| one.tensor.name()).collect();
        let trained: HashSet<&str> = parameters.values().copied().collect();
        let inputs = graph.node.iter().flat_map(|node| node.input.iter().map(String::as_str));
        let read: HashSet<&str> = inputs.filter(|name| trained.contains(name)).collect();
        let is_missing = |(mark, name): &(&&'a str, &&'a str)| !marked.contains(**mark) && !read.contains(**name);
        let mut exporter = ExporterNotes {
            missing: parameters.iter().filter(is_missing).map(|(_, name)| *name).collect(),
            absent: trained.difference(&stored).copied().collect(),
            trained,
            buffers: lines().filter(|line| line.kind == "BUFFER").map(|line| line.target).chain(buffers).collect(),
            computed: HashMap::new(),
            products: BTreeMap::new(),
            has_library_masks: false,
            marked,
            parameters,
        };
        // All that follows uses notes. Files of the older exporter have none, and may have tens of thousands of nodes.
        if signature.is_empty() && graph.node.iter().all(|node| node.metadata_props.is_empty()) {
            return exporter;
        }
        let multiplied = graph.node.iter().filter_map(|node| exporter.multiplied_parameter(node, &stored));
        let multiplied: Vec<&str> = multiplied.filter(|name| !stored.contains(name)).collect();
        exporter.missing.extend(multiplied);
        let tied = exporter.tied_parameters(&graph.node);
        exporter.missing.retain(|name| !tied.contains(&split_name(name)));
        exporter.products =
            graph.node.iter().filter_map(|node| exporter.computed_filters(node, initializers)).collect();
        exporter.computed = constants::computed_constants(&exporter, &graph.node, initializers);
        exporter.has_library_masks = graph.node.iter().any(is_of_library_mask);
        exporter
    }

    pub fn has_notes(&self) -> bool {
        !self.marked.is_empty() && !self.parameters.is_empty()
    }

    /// Whether the code of transformers makes masks in it.
    pub fn has_library_masks(&self) -> bool {
        self.has_library_masks
    }

    pub fn is_parameter(&self, name: &str) -> bool {
        self.trained.contains(name) || self.marked.contains(mark("p_", name).as_str())
    }

    /// The modules with a parameter of another module, and its name in them: one tensor that is a parameter of both, or one that
    /// the exporter merged with an equal one and split.
    fn tied_parameters(&self, nodes: &'a [NodeProto]) -> HashSet<(&'a str, &'a str)> {
        let mut parts: HashMap<&str, &str> = HashMap::new();
        for node in nodes.iter().filter(|node| module(node).is_none()) {
            let whole = node.input.first().filter(|name| self.trained.contains(name.as_str()));
            parts.extend(whole.into_iter().flat_map(|whole| node.output.iter().map(move |part| (&**part, &**whole))));
        }
        let read = |node: &'a NodeProto| {
            let named = noted_tensors(node).filter_map(|mark| self.parameters.get(mark).copied());
            let taken = node.input.iter().filter_map(|name| parts.get(name.as_str()).copied());
            let leaves = named.chain(taken).map(|name| split_name(name).1).collect::<Vec<_>>();
            module(node).map(|module| leaves.into_iter().map(move |leaf| (module, leaf)))
        };
        nodes.iter().filter_map(read).flatten().collect()
    }

    /// Whether a node reads a parameter of its own module, and no other parameter of the module may have been merged with it.
    pub fn is_own(&self, node: &NodeProto, name: &str) -> bool {
        let owner = split_name(name).0;
        self.trained.contains(name)
            && module(node) == Some(owner)
            && !self.absent.iter().any(|other| split_name(other).0 == owner)
    }

    /// Whether the layer of these filters has a bias, if the notes include it: exporters keep one of several equal tensors, and
    /// none of zeros.
    pub fn has_bias(&self, node: &NodeProto, filters: &str) -> Option<bool> {
        match filters.strip_suffix(".weight") {
            Some(layer) if self.is_parameter(filters) && !self.parameters.is_empty() => {
                Some(self.is_parameter(&format!("{layer}.bias")))
            }
            _ => {
                let product = ["conv", "linear", "addmm"].iter().any(|word| operation(node).contains(word));
                (product && reads_parameter(node))
                    .then(|| matches!(self.operand_at(node, 2), NotedOperand::Parameter(_)))
            }
        }
    }

    /// The batch normalisation that was folded into a layer, if its parameters are noted, or that it has none (`affine=False`).
    pub fn folded_batch_norm(&self, node: &NodeProto) -> Option<FoldedBatchNorm<'a>> {
        if !operation(node).contains("batch_norm") {
            return None;
        }
        let mut parameters = noted_tensors(node).filter(|name| name.starts_with("p_"));
        let Some(scale) = parameters.next() else {
            let is_plain = arguments(node).get(1..3) == Some(&["None"; 2]);
            let mean = noted_tensors(node).find(|name| name.starts_with("b_"));
            let of_module = mean.and_then(|mean| self.buffers.iter().find(|target| self::mark("b_", target) == mean));
            let name = of_module.and_then(|target| target.strip_suffix(".running_mean"));
            return is_plain.then_some(FoldedBatchNorm { name, tensors: 0 });
        };
        let name = self.parameters.get(scale).and_then(|name| name.strip_suffix(".weight"));
        Some(FoldedBatchNorm { name, tensors: 1 + parameters.count() as u64 })
    }

    pub fn is_buffer(&self, name: &str) -> bool {
        (is_buffer(name) || self.is_noted_buffer(name)) && !self.trained.contains(name)
    }

    /// Whether only its name marks it as a buffer: PyTorch's own modules have no parameters with the names of their statistics.
    pub fn is_buffer_by_name(&self, name: &str) -> bool {
        is_buffer(name) && !is_statistic(name) && !self.is_noted_buffer(name) && !self.trained.contains(name)
    }

    fn is_noted_buffer(&self, name: &str) -> bool {
        self.buffers.contains(name) || self.marked.contains(mark("b_", name).as_str())
    }
}

/// PyTorch's mark for a tensor of this name, unless another tensor already has it.
fn mark(kind: &str, name: &str) -> String {
    let marked = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' };
    kind.chars().chain(name.chars().map(marked)).collect()
}

/// The module of a parameter, and its name there.
fn split_name(name: &str) -> (&str, &str) {
    name.rsplit_once('.').unwrap_or(("", name))
}

/// Whether a tensor has the name of a statistic that PyTorch's normalisations keep of their inputs.
fn is_statistic(name: &str) -> bool {
    matches!(name.rsplit('.').next(), Some("running_mean" | "running_var" | "num_batches_tracked"))
}

/// Whether PyTorch would not train a tensor of this name: PyTorch's modules and tutorials, torchvision, timm and transformers use
/// the name for buffers. Graph inputs do not state which of them are parameters.
pub(super) fn is_buffer(name: &str) -> bool {
    const BUFFERS: &str = "running_mean running_var num_batches_tracked filt relative_coords_table relative_position_index \
        attn_mask causal_mask mask buffer k_bias pe inv_freq cos_cached sin_cached";
    BUFFERS.split(' ').any(|buffer| buffer == split_name(name).1)
}

/// A batch normalisation that the exporter folded: its name in PyTorch, and how many trained vectors it has.
pub(super) struct FoldedBatchNorm<'a> {
    pub name: Option<&'a str>,
    pub tensors: u64,
}

struct SignatureEntry<'a> {
    mark: &'a str,
    kind: &'a str,
    target: &'a str,
}

fn parse_signature(line: &str) -> Option<SignatureEntry<'_>> {
    let (mark, rest) = line.split_once(": ")?;
    let (kind, target) = rest.split_once(" target='")?;
    Some(SignatureEntry { mark, kind, target: target.split_once('\'')?.0 })
}
