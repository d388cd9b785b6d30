//! The parameters that a node reads at each input. Exporters merge equal tensors when they write (fresh scales, biases of zeros),
//! and rename those they transpose; the PyTorch operation that a node came from names its real parameters.

use super::ExporterNotes;
use crate::file::Initializer;
use crate::notes::{arguments, module, noted_tensors, operation};
use crate::schema::NodeProto;
use hashbrown::HashSet;

pub(crate) enum NotedOperand<'a> {
    Parameter(&'a str),
    /// Not trained: a scale of ones, if a normalisation has none.
    Constant,
    Nothing,
}

const WEIGHT: usize = 0;
const BIAS: usize = 1;

impl<'a> ExporterNotes<'a> {
    /// The operand at this place of the PyTorch operation that `node` came from.
    pub fn operand_at(&self, node: &NodeProto, place: usize) -> NotedOperand<'a> {
        let operation = operation(node);
        if node.op_type() == "InstanceNormalization" && operation.contains("group_norm") {
            return NotedOperand::Constant;
        }
        let arguments = arguments(node);
        let Some(role) = role(node.op_type(), place) else { return NotedOperand::Nothing };
        match positions(node, operation) {
            Some(positions) => self.argument(arguments.get(positions[role]).copied().unwrap_or("None")),
            None if is_arithmetic(node, operation) => {
                let mut parameters = noted_tensors(node).filter(|name| name.starts_with("p_"));
                match (parameters.next(), parameters.next()) {
                    (Some(one), None) => self.parameter(one),
                    _ => NotedOperand::Nothing,
                }
            }
            None => NotedOperand::Nothing,
        }
    }

    /// The weight of the linear layer that an addition came from, if all operands of the addition are stored: the exporter
    /// computed the product with the weight ahead.
    pub(super) fn multiplied_parameter(&self, node: &NodeProto, initializers: &HashSet<&str>) -> Option<&'a str> {
        let all_stored = || node.input.iter().all(|name| initializers.contains(name.as_str()));
        let product = ["linear", "addmm"].iter().any(|word| operation(node).contains(word));
        let [weight, _] =
            positions(node, operation(node)).filter(|_| node.op_type() == "Add" && product && all_stored())?;
        let mark = arguments(node).get(weight)?.strip_prefix('%')?;
        self.parameters.get(mark).copied()
    }

    /// The module of a product with filters that the exporter computed, and the name of the filters.
    pub(super) fn computed_filters(
        &self,
        node: &'a NodeProto,
        initializers: &'a [Initializer],
    ) -> Option<(&'a str, &'a str)> {
        let is_product = matches!(node.op_type(), "MatMul" | "Gemm" | "Conv" | "ConvTranspose");
        let module = module(node).filter(|_| is_product)?;
        let arguments = arguments(node);
        let own = match positions(node, operation(node)) {
            Some([weight, _]) => arguments.get(weight).is_some_and(|name| name.starts_with("%p_")),
            None => noted_tensors(node).any(|name| name.starts_with("p_")),
        };
        let filters = node.input.get(1).filter(|name| !own && !self.trained.contains(name.as_str()))?;
        let is_matrix = |one: &&Initializer| one.tensor.name() == filters && one.tensor.dims.len() > 1;
        initializers.iter().find(is_matrix).map(|_| (module, filters.as_str()))
    }

    /// The name of a layer's filters, if the exporter computed them by cutting a parameter. They are named after the operation,
    /// such as `slice_1`.
    pub fn cut_from<'n>(&self, node: &'n NodeProto) -> Option<&'n str> {
        const CUTS: [&str; 7] = ["slice", "select", "narrow", "getitem", "split", "chunk", "unbind"];
        let [weight, _] = positions(node, operation(node))?;
        let name = arguments(node).get(weight)?.strip_prefix('%')?;
        CUTS.contains(&name.split('_').next()?).then_some(name)
    }

    fn argument(&self, argument: &str) -> NotedOperand<'a> {
        match argument.strip_prefix('%') {
            Some(mark) if mark.starts_with("p_") => self.parameter(mark),
            Some(mark) if mark.starts_with("b_") => NotedOperand::Constant,
            Some(_) => NotedOperand::Nothing,
            None => NotedOperand::Constant,
        }
    }

    fn parameter(&self, mark: &str) -> NotedOperand<'a> {
        self.parameters.get(mark).map_or(NotedOperand::Nothing, |name| NotedOperand::Parameter(name))
    }
}

/// Whether an operator's input is its weight or its bias, as an index.
fn role(operator: &str, place: usize) -> Option<usize> {
    const WEIGHTED: &str = "Conv ConvTranspose Gemm LayerNormalization BatchNormalization GroupNormalization";
    let is_weighted = WEIGHTED.split(' ').any(|known| known == operator);
    match (operator, place) {
        ("Add" | "Sub", _) => Some(BIAS),
        ("Mul" | "Div" | "MatMul", _) | ("Gather" | "GatherND", 0) | ("PRelu" | "RMSNormalization", 1) => Some(WEIGHT),
        (_, 1) if is_weighted => Some(WEIGHT),
        (_, 2) if is_weighted => Some(BIAS),
        _ => None,
    }
}

/// The positions of weight and bias in PyTorch's operation, from its native_functions.yaml.
fn positions(node: &NodeProto, operation: &str) -> Option<[usize; 2]> {
    let has = |words: &[&str]| words.iter().any(|word| operation.contains(word));
    let folded = has(&["batch_norm"]) && node.op_type() != "BatchNormalization";
    Some(match operation {
        _ if folded => return None,
        _ if has(&["addmm"]) => [2, 0],
        _ if has(&["layer_norm", "group_norm", "rms_norm"]) => [2, 3],
        _ if has(&["batch_norm", "conv", "linear", "prelu"]) => [1, 2],
        _ if has(&["aten.embedding.", "aten.index."]) => [0, usize::MAX],
        _ => return None,
    })
}

/// Whether a node is the arithmetic operation that it came from, not a part of a larger one.
fn is_arithmetic(node: &NodeProto, operation: &str) -> bool {
    let name = node.op_type().to_lowercase();
    operation.strip_prefix("torch.ops.aten.").is_some_and(|rest| rest.split('.').next() == Some(&name))
}
