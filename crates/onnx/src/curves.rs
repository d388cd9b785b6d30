//! Recognises an activation by its values, whatever nodes an exporter wrote for it.
//!
//! `x * sigmoid(x)`, `x * clip(x + 3, 0, 6) / 6` or `0.5 * x * (1 + erf(x / sqrt(2)))` are functions of one number, whatever
//! their order. Each element-wise node therefore carries its values for some values of `x`. If these are the values of a known
//! activation, it is that activation.

use super::fold;
use hashbrown::HashMap;
use perf4sight_network::{Activation, NodeId};

/// The values of `x` at which functions are compared: both sides of every bend of the known ones, and far out.
const PLACES: [f64; 16] = [-7.3, -4.1, -3.2, -2.6, -1.4, -0.8, -0.3, -0.1, 0.15, 0.4, 0.9, 1.7, 2.7, 3.3, 5.2, 6.8];

/// Exporters write constants in single precision, and GELU by its tanh approximation (off by at most 4.8e-4).
const TOLERANCE: f64 = 6e-4;

/// Longer chains are no activation.
const MAX_CHAIN: usize = 8;

pub(super) type CurveSamples = [f64; PLACES.len()];

#[derive(Debug, Clone)]
pub(super) struct NodeCurve {
    pub root: NodeId,
    pub samples: CurveSamples,
}

/// The functions by which nodes depend on earlier nodes, nearest first.
#[derive(Debug, Default)]
pub(super) struct NodeCurves(HashMap<NodeId, Vec<NodeCurve>>);

impl NodeCurves {
    fn functions_of(&self, node: NodeId) -> Vec<NodeCurve> {
        let itself = NodeCurve { root: node, samples: PLACES };
        std::iter::once(itself).chain(self.0.get(&node).into_iter().flatten().cloned()).collect()
    }

    /// `function` of one node, as functions of all nodes that it depends on.
    pub fn map(&self, node: NodeId, function: impl Fn(f64) -> f64) -> Vec<NodeCurve> {
        let apply = |curve: NodeCurve| NodeCurve { samples: curve.samples.map(&function), ..curve };
        self.functions_of(node).into_iter().map(apply).take(MAX_CHAIN).collect()
    }

    /// `function` of two nodes, for every node that both depend on.
    pub fn zip(&self, a: NodeId, b: NodeId, function: impl Fn(f64, f64) -> f64) -> Vec<NodeCurve> {
        let others = self.functions_of(b);
        let join = |curve: NodeCurve| {
            let other = others.iter().find(|other| other.root == curve.root)?;
            let samples = std::array::from_fn(|i| function(curve.samples[i], other.samples[i]));
            Some(NodeCurve { root: curve.root, samples })
        };
        self.functions_of(a).into_iter().filter_map(join).take(MAX_CHAIN).collect()
    }

    /// The choice between two nodes by a third, a condition.
    pub fn choose(&self, condition: NodeId, yes: NodeId, no: NodeId) -> Vec<NodeCurve> {
        let [yes, no] = [yes, no].map(|node| self.functions_of(node));
        let of = |curves: &[NodeCurve], root: NodeId| Some(curves.iter().find(|curve| curve.root == root)?.samples);
        let join = |condition: NodeCurve| {
            let (yes, no) = (of(&yes, condition.root)?, of(&no, condition.root)?);
            let samples = std::array::from_fn(|i| if condition.samples[i] != 0.0 { yes[i] } else { no[i] });
            Some(NodeCurve { samples, ..condition })
        };
        self.functions_of(condition).into_iter().filter_map(join).take(MAX_CHAIN).collect()
    }

    pub fn set(&mut self, node: NodeId, curves: Vec<NodeCurve>) {
        self.0.insert(node, curves);
    }
}

/// The activations that exporters spell out though PyTorch runs them as one operator, by its name.
const SPELLED_OUT: [(Activation, &str); 5] = [
    (Activation::Silu, "silu"),
    (Activation::HardSwish, "hardswish"),
    (Activation::Gelu, "gelu"),
    (Activation::Mish, "mish"),
    (Activation::Softplus, "softplus"),
];

/// Operators of PyTorch that compute what a ReLU or ReLU6 does and keep their input, not their result (tools/autograd/derivatives.yaml).
const UNLIKE_RECTIFIERS: [&str; 2] = ["clamp", "maximum"];

/// Whether the program computed an activation step by step, each of which autograd keeps: `original` is the operator of PyTorch that the
/// last step came from, empty where no note names it.
pub(super) fn is_spelled_out(activation: Activation, original: &str) -> bool {
    let operator = SPELLED_OUT.iter().find(|(known, _)| *known == activation);
    let is_rectifier = matches!(activation, Activation::Relu | Activation::Relu6);
    is_rectifier && UNLIKE_RECTIFIERS.iter().any(|unlike| original.contains(unlike))
        || operator.is_some_and(|(_, operator)| !original.is_empty() && !original.contains(operator))
}

/// The activation that one of the curves is, and its input node.
pub(super) fn recognise_activation(curves: &[NodeCurve]) -> Option<(Activation, NodeId)> {
    curves.iter().find_map(|curve| {
        let is = |function: CurveFunction| {
            PLACES.iter().zip(curve.samples).all(|(&x, y)| (y - function(x)).abs() <= TOLERANCE)
        };
        KNOWN.iter().find(|(_, function)| is(*function)).map(|(activation, _)| (*activation, curve.root))
    })
}

type CurveFunction = fn(f64) -> f64;

const KNOWN: [(Activation, CurveFunction); 10] = [
    (Activation::Relu, |x| x.max(0.0)),
    (Activation::Relu6, |x| x.clamp(0.0, 6.0)),
    (Activation::Sigmoid, sigmoid),
    (Activation::HardSigmoid, hard_sigmoid),
    (Activation::Tanh, f64::tanh),
    (Activation::Silu, |x| x * sigmoid(x)),
    (Activation::HardSwish, |x| x * hard_sigmoid(x)),
    (Activation::Gelu, gelu),
    (Activation::Mish, |x| x * softplus(x).tanh()),
    (Activation::Softplus, softplus),
];

pub(super) fn function(activation: Activation) -> Option<CurveFunction> {
    KNOWN.iter().find(|(known, _)| *known == activation).map(|(_, function)| *function)
}

/// The node that one of the curves is `softplus(beta * x) / beta` of.
pub(super) fn softplus_of(curves: &[NodeCurve], beta: f64) -> Option<NodeId> {
    let function = |x: f64| softplus(beta * x) / beta;
    let is_so =
        |curve: &&NodeCurve| PLACES.iter().zip(curve.samples).all(|(&x, y)| (y - function(x)).abs() <= TOLERANCE);
    curves.iter().find(is_so).map(|curve| curve.root)
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn hard_sigmoid(x: f64) -> f64 {
    (x / 6.0 + 0.5).clamp(0.0, 1.0)
}

fn softplus(x: f64) -> f64 {
    x.exp().ln_1p()
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + fold::erf(x / std::f64::consts::SQRT_2))
}
