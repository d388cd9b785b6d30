//! What an optimizer keeps of each weight, by its name and by the operations of its step.

use perf4sight_replay::graph::{CallId, CallTable, TaskGraph};
use std::collections::BTreeSet;

/// The range that PyTorch's profiler makes of an optimizer's step.
const RANGE: &str = "Optimizer.step#";
/// How the names of forward and backward passes of a model begin.
pub(super) const OF_PASSES: [&str; 4] =
    ["DistributedDataParallel.forward", "FullyShardedDataParallel.forward", "FSDP::", "autograd::engine::"];
/// Parts of the names of operations that make sparse gradients, which no update in one kernel takes ("`fused` does not support sparse grad").
const SPARSE: [&str; 2] = ["sparse_coo_tensor", "sparse_backward"];
/// What runs where parameters are `DTensor`, as `fully_shard` makes them, and the optimizers whose one kernel takes those
/// (`torch/distributed/tensor/_ops/_pointwise_ops.py`; others end with "does not have a sharding strategy registered").
const OF_DTENSOR: [&str; 2] = ["FSDP::", "_c10d_functional::"];
const TAKES_DTENSOR: [&str; 2] = ["Adam", "AdamW"];
/// Tensors of the size of the weights that PyTorch's optimizers keep without further arguments (`torch/optim`).
const STATES: [(&str, u64); 13] = [
    ("SGD", 0),
    ("Adam", 2),
    ("AdamW", 2),
    ("NAdam", 2),
    ("RAdam", 2),
    ("Adamax", 2),
    ("SparseAdam", 2),
    ("Adadelta", 2),
    ("Rprop", 2),
    ("Adagrad", 1),
    ("RMSprop", 1),
    ("ASGD", 1),
    ("Muon", 1),
];
/// Operations of a step that show one state more: SGD multiplies its momentum in place and nothing else, `amsgrad` keeps the maximum of the second moments.
const MORE: [(&str, &[&str]); 3] = [
    ("SGD", &["aten::mul_", "aten::_foreach_mul_"]),
    ("Adam", &["aten::maximum", "aten::_foreach_maximum_"]),
    ("AdamW", &["aten::maximum", "aten::_foreach_maximum_"]),
];
/// What else keeps states, of which the operations of a step show nothing.
const HIDDEN: [(&str, &str, &str); 2] = [
    ("SGD", "aten::_fused_sgd_", "momentum, which a fused step does not show, is taken to be 0"),
    ("RMSprop", "", "momentum and centered=True, which keep a state each, are taken not to be set"),
];

/// Of those with an update in one kernel (`fused=True`), with so many states: tensors of the size of the weights that each operation of the update
/// by itself reads and writes (`_single_tensor_*` of `torch/optim`), and that the one kernel does.
const FUSED: [(&str, u64, [f64; 2]); 4] =
    [("SGD", 1, [8.0, 5.0]), ("Adam", 2, [18.0, 7.0]), ("AdamW", 2, [20.0, 7.0]), ("Adagrad", 1, [11.0, 5.0])];

/// An optimizer of a recorded step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RecordedOptimizer {
    /// The name of its class.
    pub name: String,
    /// How many tensors of the size of the weights it keeps at least.
    pub states: u64,
    /// What is assumed of them, in a sentence; none where the traces show them.
    pub assumed: Option<String>,
    /// The share of its step's traffic that one kernel for all of it has; none where it is one, or where there is none.
    pub fused: Option<f64>,
}

/// The optimizer of a step; none where no range of one was recorded.
pub(super) fn optimizer(graph: &TaskGraph) -> Option<RecordedOptimizer> {
    let calls = graph.calls();
    let name = calls.names().find_map(|name| Some(name.strip_prefix(RANGE)?.split('.').next()?.to_owned()))?;
    let mut optimizer = RecordedOptimizer::from_operations(name, &operations(calls));
    let is_sparse = calls.names().any(|name| SPARSE.iter().any(|part| name.contains(part)));
    let is_dtensor = calls.names().any(|name| OF_DTENSOR.iter().any(|own| name.starts_with(own)));
    let takes_dtensor = TAKES_DTENSOR.iter().any(|name| optimizer.name.eq_ignore_ascii_case(name));
    optimizer.fused = optimizer.fused.filter(|_| !is_sparse && (!is_dtensor || takes_dtensor));
    Some(optimizer)
}

/// Why nothing is said of the update of an optimizer that calls a closure.
pub(super) const OF_CLOSURE: &str =
    "forward and backward run inside its step (a closure), and what of it is the update is not in the traces";

/// Whether forward or backward run inside the optimizer's step, which calls a closure (`step(closure)`, as of L-BFGS or PyTorch Lightning).
pub(super) fn calls_closure(graph: &TaskGraph) -> bool {
    let calls = graph.calls();
    let is_pass = |call: &CallId| OF_PASSES.iter().any(|name| calls.name(*call).starts_with(name));
    calls.all().filter(is_pass).any(|call| calls.path(call).skip(1).any(|name| name.starts_with(RANGE)))
}

/// Names of the operations inside the optimizer's step, but for those of a model that a closure in it runs.
fn operations(calls: &CallTable) -> BTreeSet<&str> {
    let is_of_pass = |name: &str| OF_PASSES.iter().any(|own| name.starts_with(own));
    let is_inside = |call: &CallId| {
        calls.path(*call).skip(1).any(|name| name.starts_with(RANGE)) && !calls.path(*call).any(is_of_pass)
    };
    calls.all().filter(is_inside).map(|call| calls.name(call)).collect()
}

impl RecordedOptimizer {
    fn from_operations(name: String, operations: &BTreeSet<&str>) -> Self {
        let Some((known, states)) = STATES.iter().find(|(known, _)| name.eq_ignore_ascii_case(known)) else {
            let assumed = Some(format!("what {name} keeps of each weight is not known, and taken to be nothing"));
            return RecordedOptimizer { name, states: 0, assumed, fused: None };
        };
        let ran = |names: &[&str]| names.iter().any(|name| operations.contains(name));
        let more = MORE.iter().any(|(own, shown)| own == known && ran(shown));
        let hidden = HIDDEN.iter().find(|(own, fused, _)| own == known && (fused.is_empty() || ran(&[fused])));
        let nothing = operations.is_empty().then_some("the operations of its step were not recorded");
        let assumed = hidden.map(|(.., words)| *words).or(nothing).filter(|_| !more);
        let assumed = assumed.map(|words| format!("{name} is taken to keep {states} tensors of each weight: {words}"));
        let states = states + u64::from(more);
        let is_fused = operations.iter().any(|name| name.starts_with("aten::_fused_"));
        let can_be = !operations.is_empty() && !is_fused;
        let row = FUSED.iter().find(|(own, keeps, _)| own == known && *keeps == states).filter(|_| can_be);
        RecordedOptimizer { name, states, assumed, fused: row.map(|(.., [each, all])| all / each) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_replay::graph::GraphBuilder;

    fn of(name: &str, operations: &[&str]) -> (u64, bool) {
        let optimizer = RecordedOptimizer::from_operations(name.to_owned(), &operations.iter().copied().collect());
        (optimizer.states, optimizer.assumed.is_none())
    }

    /// AdamW decays the weight (2 tensors); as Adam it moves both averages (3, then 2 and 3), takes a root (2), divides and adds (2 and 2) and changes the
    /// weight (4), 20 in all; `_fused_adamw_` reads four tensors and writes three.
    #[test]
    fn an_update_in_one_kernel_reads_and_writes_less() {
        let fused = |name: &str, operations: &[&str]| {
            RecordedOptimizer::from_operations(name.to_owned(), &operations.iter().copied().collect()).fused
        };
        assert_eq!(fused("AdamW", &["aten::lerp_", "aten::addcmul_"]), Some(7.0 / 20.0));
        for (name, operations) in
            [("AdamW", ["aten::_fused_adamw_"]), ("SGD", ["aten::add_"]), ("Lion", ["aten::sign"])]
        {
            assert_eq!(fused(name, &operations), None);
        }
    }

    /// As `torch/optim/sgd.py`, `adam.py` and `rmsprop.py` of PyTorch 2 call them.
    #[test]
    fn operations_of_a_step_show_what_the_optimizer_keeps() {
        assert_eq!(of("SGD", &["aten::_foreach_add_"]), (0, true));
        assert_eq!(of("SGD", &["aten::_foreach_mul_", "aten::_foreach_add_"]), (1, true));
        assert_eq!(of("SGD", &["aten::mul_", "aten::add_"]), (1, true));
        assert_eq!(of("SGD", &["aten::_fused_sgd_"]), (0, false));
        assert_eq!(of("AdamW", &["aten::_fused_adamw_"]), (2, true));
        assert_eq!(of("Adam", &["aten::_foreach_lerp_", "aten::_foreach_maximum_"]), (3, true));
        assert_eq!(of("RMSprop", &["aten::_foreach_mul_"]), (1, false));
        assert_eq!(of("Lion", &["aten::sign"]), (0, false));
        assert_eq!(of("SGD", &[]), (0, false));
    }

    /// The optimizer of a step with operations, each inside the one named before it.
    fn graph(operations: &[&[&str]]) -> TaskGraph {
        let mut builder = GraphBuilder::default();
        for path in operations {
            path.iter().fold(None, |around, name| Some(builder.call(name, around)));
        }
        builder.finish().unwrap()
    }

    const STEP: &str = "Optimizer.step#AdamW.step";

    /// PyTorch 2.15 on parameters of `fully_shard`: SGD ends with "Operator aten._fused_sgd_.default does not have a sharding strategy registered", AdamW runs.
    #[test]
    fn one_kernel_takes_sharded_parameters_of_few_optimizers() {
        let fused = |step: &str, around: &[&str]| optimizer(&graph(&[&[step, "aten::mul_"], around])).unwrap().fused;
        let sgd = "Optimizer.step#SGD.step";
        assert!(fused(sgd, &["DistributedDataParallel.forward"]).is_some());
        assert!(fused(sgd, &["FSDP::pre_forward (0)"]).is_none() && fused(STEP, &["FSDP::pre_forward (0)"]).is_some());
    }

    /// PyTorch wraps `step`, closure and all, in one range.
    #[test]
    fn a_step_with_forward_or_backward_in_it_calls_a_closure() {
        assert!(calls_closure(&graph(&[&[STEP, "DistributedDataParallel.forward", "aten::linear"]])));
        assert!(calls_closure(&graph(&[&[STEP, "autograd::engine::evaluate_function: AddmmBackward0"]])));
        assert!(!calls_closure(&graph(&[&["DistributedDataParallel.forward"], &[STEP, "aten::lerp_"]])));
    }

    /// A network that multiplies in place within the closure of SGD shows no momentum: what is not known is said.
    #[test]
    fn operations_of_a_closure_are_none_of_the_update() {
        let sgd = |around: &str| {
            let path = [around, "aten::mul_"];
            let path: Vec<&str> = std::iter::once("Optimizer.step#SGD.step").chain(path).collect();
            optimizer(&graph(&[&path])).unwrap().states
        };
        assert_eq!([sgd("aten::_foreach_add_"), sgd("DistributedDataParallel.forward")], [1, 0]);
    }

    /// AdamW(fused=True) with a gradient of `EmbeddingBag(sparse=True)`: "`fused` does not support sparse grad or complex param".
    #[test]
    fn sparse_gradients_have_no_update_in_one_kernel() {
        let fused = |backward: &str| optimizer(&graph(&[&[backward], &[STEP, "aten::lerp_"]])).unwrap().fused;
        assert_eq!(fused("aten::embedding_dense_backward"), Some(7.0 / 20.0));
        assert_eq!(fused("aten::_embedding_bag_sparse_backward"), None);
    }
}
