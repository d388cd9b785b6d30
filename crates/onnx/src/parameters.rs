//! How operations read a file's parameters: tied layers, trained elements, parameters that become nodes of their own.

use super::call::{NodeCall, NodeMisfit};
use super::exporter::is_named_after_view;
use super::translate::{GraphTranslation, own_name, stem};
use super::value::{Feature, FixedTensor, HeldTensor, Value, WeightTensor, WeightView, elements};
use super::warning::UnsureReason;
use perf4sight_network::{BinaryFunction, ComputedWeight, KeptReading, NodeId, Op, PytorchRun, Shape};
use std::rc::Rc;

#[cfg(test)]
mod tests;

/// Whether an exporter stored a tensor once for several equal ones that one layer reads, such as scale and shift of one channel: two
/// parameters of a layer are never one.
fn is_merged(value: &Value, before: &[&Value]) -> bool {
    let tensor = |value: &Value| if let Value::Weight(weight) = value { Some(weight.tensor.clone()) } else { None };
    tensor(value).is_some_and(|own| before.iter().any(|other| tensor(other).is_some_and(|other| other == own)))
}

impl GraphTranslation<'_> {
    /// Whether the layer of a call has a bias: by the exporter's notes if there are any, otherwise if it reads one. PyTorch's
    /// default exporter adds a bias of zeros to layers without one.
    pub fn has_bias(&self, call: &NodeCall) -> bool {
        let filters = if let Value::Weight(weight) = call.input(1) { &weight.tensor } else { "" };
        self.exporter.has_bias(call.node, filters).unwrap_or_else(|| match call.input(2) {
            Value::Weight(_) => true,
            Value::Constant(values) => values.uniform() != Some(0.0),
            _ => false,
        })
    }

    /// Records in which tensor of the file the filters of a layer are stored, and along which axis; `axis` is the layer's axis.
    pub fn store_filters(&mut self, node: NodeId, value: &Value, axis: usize) {
        let Value::Weight(weight) = value else { return };
        let axis = match weight.view {
            WeightView::Stored => axis,
            WeightView::Turned => 1 - axis,
            WeightView::Other => return,
        };
        self.ledger.set_filters(&self.builder.node(node).name, &weight.stored, axis);
    }

    /// Records which weights a layer reads, and how many of their elements are trained. A layer that shares its weight but has a
    /// bias of its own becomes a layer without a bias and a sum.
    ///
    /// # Errors
    /// As for any node.
    pub fn count_layer(&mut self, layer: Feature, call: &NodeCall, bias: Option<usize>) -> Result<Feature, NodeMisfit> {
        let node = layer.id;
        let name = if let Value::Weight(bias) = call.input(2) { Some(bias.tensor.clone()) } else { None };
        self.ledger.set_bias(node, name.clone().filter(|_| bias.is_some()));
        let apart = self.earlier(node, call, 1).is_some_and(|owner| self.ledger.bias(owner) != name.as_ref());
        if bias.is_some() && apart {
            self.builder.clear_bias(node);
        }
        let tie = self.tie_weight(node, call, 1);
        let of_bias = match call.input(2) {
            _ if bias.is_some() && apart => 0,
            Value::Weight(_) if bias.is_some() => self.trained_elements(call, call.input(2)),
            _ => bias.map_or(0, |filters| filters as u64),
        };
        let gain = if self.exporter.has_lost_gain(call.node) { self.builder.shape(node).channels() as u64 } else { 0 };
        let weights = if tie == WeightTie::Elsewhere { 0 } else { self.trained_elements(call, call.input(1)) };
        if tie == WeightTie::Elsewhere {
            self.builder.set_runs(node, PytorchRun::OnAnothers);
        }
        if tie == WeightTie::None {
            self.notice_twice(call.input(1), weights);
            self.notice_part(node, call);
        }
        self.builder.set_trained(node, weights.saturating_add(of_bias).saturating_add(gain));
        self.count_computing(node, call.input(1));
        match (call.input(2), bias.is_some() && apart) {
            (Value::Weight(bias), true) => self.add_bias(layer, call, bias),
            _ => Ok(layer),
        }
    }

    fn add_bias(&mut self, layer: Feature, call: &NodeCall, bias: &WeightTensor) -> Result<Feature, NodeMisfit> {
        let shape = self.builder.shape(layer.id);
        // Images have their channels on the first axis, all others on the last.
        let features = matches!(self.builder.node(layer.id).op, Op::Linear(_));
        let along = if features { shape.rank() - 1 } else { 0 };
        let dims = (0..shape.rank()).map(|axis| if axis == along { shape.dims()[axis] } else { 1 });
        let leaf = self.parameter_node(call, bias, Shape::new(dims.collect::<Vec<_>>()))?;
        let name = format!("{}_sum", self.builder.node(layer.id).name);
        self.add_like(&name, Op::Binary(BinaryFunction::Add), &[layer, Feature { id: leaf, ..layer }])
    }

    /// Records how the weight of a layer is computed, if it is no parameter.
    fn count_computing(&mut self, node: NodeId, value: &Value) {
        let Value::Weight(WeightTensor { made: Some(made), tensor, .. }) = value else { return };
        if self.ours {
            return;
        }
        let (is_computed_ahead, has_notes) = (made.tensors == 0, self.exporter.has_notes());
        let steps = if is_computed_ahead { ComputedWeight { tensors: 2, divides: true } } else { *made };
        let is_open = is_computed_ahead || !has_notes && (steps.tensors > 1 || steps.divides);
        // The steps of a file may be one operator, as `_weight_norm` is, and one of its results computed twice.
        let computing = match self.keeping {
            KeptReading::Least if is_open => ComputedWeight { tensors: 1, divides: false },
            KeptReading::Most if is_open => ComputedWeight { tensors: steps.tensors + 1, ..steps },
            KeptReading::Least | KeptReading::Likely | KeptReading::Most => steps,
        };
        if is_open {
            self.noticed.unsure(UnsureReason::ComputedWeight);
        }
        // Named after a view, it is one of a parameter in most programs (`x @ weight.T`).
        if !is_computed_ahead || self.keeping == KeptReading::Most || !is_named_after_view(tensor) {
            self.builder.set_computing(node, computing);
        }
    }

    /// The first node that read the value at this input, if it is certainly the same tensor.
    fn earlier(&self, node: NodeId, call: &NodeCall, place: usize) -> Option<NodeId> {
        let Value::Weight(weight) = call.input(place) else { return None };
        let owner = self.ledger.owner(&identity(weight, call, place));
        owner.filter(|&owner| owner != node && self.is_same(call, weight))
    }

    /// Whether a tensor that two nodes read under one name is one tensor. Exporters merge equal vectors. A name is reliable if
    /// the exporter's notes distinguish the tensors, if the node is in the tensor's module, and in all files written by this
    /// crate.
    fn is_same(&self, call: &NodeCall, weight: &WeightTensor) -> bool {
        weight.is_matrix()
            || self.ours
            || weight.certain
            || is_within(own_name(call), &weight.tensor)
            || self.exporter.is_own(call.node, &weight.tensor)
    }

    /// Records the first node that reads a weight, and ties later ones to it.
    pub fn tie_weight(&mut self, node: NodeId, call: &NodeCall, place: usize) -> WeightTie {
        let Value::Weight(weight) = call.input(place) else { return WeightTie::None };
        match self.earlier(node, call, place) {
            None => {
                self.ledger.set_owner(identity(weight, call, place), node);
                WeightTie::None
            }
            Some(owner) if self.builder.share(node, owner).is_ok() => WeightTie::Shared,
            Some(_) => {
                self.ledger.read_twice(&weight.tensor);
                WeightTie::Elsewhere
            }
        }
    }

    pub fn set_bias(&mut self, node: NodeId, call: &NodeCall) {
        let bias = call.inputs.iter().find(|input| matches!(input, Value::Weight(_)));
        self.ledger.set_bias(node, bias_name(call));
        let trained: Option<u64> = bias.map(|input| self.trained_elements(call, input));
        let features = self.builder.shape(node).features() as u64;
        self.builder.set_bias(node, trained.unwrap_or(features));
    }

    /// Whether a bias that follows a layer may be its own. A layer with shared weights can only have the bias of their owner.
    pub fn may_have_bias(&self, node: NodeId, call: &NodeCall) -> bool {
        let owner = self.builder.node(node).shares;
        owner.is_none_or(|owner| self.ledger.bias(owner) == bias_name(call).as_ref())
    }

    /// Sets the trained elements of a node that reads these weights.
    pub fn count(&mut self, node: NodeId, call: &NodeCall, weights: &[&Value]) {
        let trained = weights.iter().enumerate().map(|(place, weight)| match is_merged(weight, &weights[..place]) {
            true => weight.fixed_dims().map_or(0, |dims| elements(&dims)),
            false => self.trained_elements(call, weight),
        });
        let trained = trained.fold(0, u64::saturating_add);
        self.builder.set_trained(node, trained);
    }

    /// Trained elements that a value adds to the node that reads it: its own, or all it is computed from. Each is counted once,
    /// even if it is read in parts or in other shapes. Vectors that an exporter may have merged are counted each time.
    pub fn trained_elements(&mut self, call: &NodeCall, value: &Value) -> u64 {
        let Value::Weight(weight) = value else { return 0 };
        let seen = elements(&weight.dims);
        let whole = weight.computed || seen > weight.elements;
        let wanted = if whole { weight.elements } else { seen };
        let left = self.ledger.count(&weight.tensor, wanted, weight.elements);
        let own = if whole || self.is_same(call, weight) { left } else { seen };
        let others = weight.others.iter();
        others.map(|(tensor, elements)| self.ledger.count(tensor, *elements, *elements)).fold(own, u64::saturating_add)
    }

    /// Records a weight if a layer reads elements of it that are already counted.
    fn notice_twice(&mut self, value: &Value, counted: u64) {
        if let Value::Weight(weight) = value
            && (counted == 0 || !weight.computed && counted < elements(&weight.dims))
        {
            self.ledger.read_twice(&weight.tensor);
        }
    }

    /// Records a layer whose filters are a part of a parameter, cut by the graph or by the exporter.
    fn notice_part(&mut self, node: NodeId, call: &NodeCall) {
        let cut = |weight: &WeightTensor| !weight.computed && elements(&weight.dims) < weight.elements;
        let tensor = match call.input(1) {
            Value::Weight(weight) if cut(weight) => Some(&*weight.tensor),
            _ => self.exporter.cut_from(call.node),
        };
        if let Some(tensor) = tensor {
            self.ledger.read_in_parts(tensor, &self.builder.node(node).name);
        }
    }

    /// Adds a node for numbers that are not trained and have this `shape` for one sample; the tensor `of` that holds them may be
    /// larger.
    pub fn table(&mut self, name: &str, shape: Shape, of: Option<&HeldTensor>) -> Result<NodeId, NodeMisfit> {
        let whole = of.filter(|of| of.is_seen && of.elements == shape.elements());
        if let Some(earlier) = whole.and_then(|whole| self.ledger.table(whole, &shape)) {
            return Ok(earlier);
        }
        let node = self.add(name, Op::Parameter(shape.clone()), &[])?;
        self.builder.set_trained(node, 0);
        of.into_iter().for_each(|of| self.ledger.record_buffer(of, shape.elements()));
        whole.into_iter().for_each(|whole| self.ledger.set_table(whole, shape.clone(), node));
        Ok(node)
    }

    /// Records the tables that a call reads and no operation of the network holds. Files written by this crate store their size
    /// instead.
    pub fn hold_tables(&mut self, call: &NodeCall) {
        if self.ours {
            return;
        }
        for input in &call.inputs {
            if let Value::Opaque(FixedTensor { of: Some(of), .. }) = input {
                self.ledger.record_buffer(of, 0);
            }
        }
    }

    pub fn parameter_node(
        &mut self,
        call: &NodeCall,
        weight: &WeightTensor,
        shape: Shape,
    ) -> Result<NodeId, NodeMisfit> {
        let op = Op::Parameter(shape.clone());
        let same = self.is_same(call, weight);
        let part = part_read(call, weight);
        let read = part.unwrap_or(&weight.tensor).to_string();
        let earlier = self.ledger.owner(&read).filter(|_| same);
        if let Some(node) = earlier.filter(|&node| self.builder.node(node).op == op) {
            return Ok(node);
        }
        let name = stem(&weight.tensor).unwrap_or(&weight.tensor);
        let node = self.add(name, op, &[])?;
        self.count(node, call, &[&Value::Weight(weight.clone())]);
        if part.is_some() && !weight.is_made_up() {
            let whole = self.values.get(&weight.stored).and_then(Value::fixed_dims);
            self.ledger.read_part(weight, node, whole.as_deref(), &shape);
        }
        self.ledger.set_owner(read, node);
        Ok(node)
    }
}

/// How a layer relates to an earlier one that reads the same weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WeightTie {
    None,
    Shared,
    /// It reads the same elements in another shape.
    Elsewhere,
}

/// The name of the part of a parameter that a call reads, if it reads only a part.
fn part_read<'c>(call: &NodeCall<'c>, weight: &WeightTensor) -> Option<&'c str> {
    let is_part = !weight.computed && elements(&weight.dims) < weight.elements;
    let reads = |input: &Value| matches!(input, Value::Weight(read) if read.tensor == weight.tensor);
    let place = call.inputs.iter().position(reads).filter(|_| is_part)?;
    call.node.input.get(place).map(String::as_str)
}

/// Identifies a weight where a call reads it: the name of the tensor, or of the part.
fn identity(weight: &WeightTensor, call: &NodeCall, place: usize) -> String {
    match weight.view {
        WeightView::Stored | WeightView::Turned => weight.tensor.to_string(),
        // A whole vector, whatever further axes of length 1 it has.
        WeightView::Other if !weight.is_matrix() && !weight.computed && elements(&weight.dims) == weight.elements => {
            weight.tensor.to_string()
        }
        WeightView::Other => call.node.input.get(place).cloned().unwrap_or_default(),
    }
}

fn bias_name(call: &NodeCall) -> Option<Rc<str>> {
    call.inputs
        .iter()
        .find_map(|input| if let Value::Weight(weight) = input { Some(weight.tensor.clone()) } else { None })
}

/// Whether a node is in the module of a tensor, by PyTorch's names of both: `/blocks.0/attn/Mul` and `blocks.0.attn.scale`. This
/// distinguishes a vector that is used twice from equal vectors of other modules, which exporters merge.
fn is_within(node: &str, tensor: &str) -> bool {
    let module = tensor.rsplit_once('.').map_or("", |(module, _)| module);
    // The name of a block includes the modules around it: `/stages/stages.0/blocks/blocks.1`; a repeated call gets a number, as
    // `/norm_1`.
    let scope = node.rsplit_once('/').map_or("", |(scope, _)| scope);
    let again = scope
        .rsplit_once('_')
        .filter(|(_, number)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
    let scope = again
        .map(|(first, _)| first)
        .filter(|first| first.rsplit(['/', '.']).next() == module.rsplit('.').next())
        .unwrap_or(scope);
    let place = scope.rsplit('/').take(module.matches('.').count() + 1).collect::<Vec<_>>();
    let place: Vec<&str> = place.into_iter().rev().collect();
    if module.is_empty() {
        // A parameter of the network itself, whose own nodes have names like `/Mul`.
        return scope.is_empty() && node.starts_with('/') && !tensor.contains("::");
    }
    scope.replace('/', ".").ends_with(module) || place.join(".").ends_with(module)
}
