//! Operations that were read but not understood.

use super::Op;
use super::facts::{At, Coupling, Facts, Gradient, Nature, Needs, Spans, Storage, Traffic, Weight};
use crate::{Node, NodeId, Shape};

/// An operation that was read but not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// Its name in the file, with the domain where it is not the standard one.
    pub op_type: String,
    /// Its output: as the file says it or its operator's rule, else the first input's.
    pub shape: Shape,
    /// Elements of the weights it reads.
    pub parameters: u64,
    /// Multiply-accumulates of one sample, where it is a product whose rule is known.
    pub macs: u64,
    /// Whether every sample meets all of its batch, so that a sample costs as often as much; its shape and cost are those of a batch of one.
    pub across: bool,
    /// The operation as its file has it, so that a file written from it does the same; `None` where that cannot be kept.
    pub original: Option<Box<Original>>,
}

/// An operation as an ONNX file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Original {
    /// Its attributes: a `NodeProto` with nothing else, encoded.
    pub attributes: Vec<u8>,
    /// The operator set of its domain that it is of; of ONNX's own at least that of the files we write.
    pub opset: i64,
    /// What it reads, in order.
    pub operands: Vec<Operand>,
    /// Which of its outputs this one is.
    pub output: usize,
    /// How many it has.
    pub outputs: usize,
    /// How its output lies in memory.
    pub layout: Layout,
}

/// What an operation reads at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operand {
    /// The next of the nodes it reads, laid out so.
    Node(Layout),
    /// A trained tensor of this shape.
    Weight(Vec<usize>),
    /// Numbers of this shape that nobody trains, such as running statistics.
    Buffer(Vec<usize>),
    /// Integers that are known: for each a number of batches and a number of its own.
    Integers(Vec<usize>, Vec<[i64; 2]>),
    /// Numbers that are known: an encoded `TensorProto`.
    Numbers(Vec<u8>),
    /// Nothing: it is optional.
    Absent,
}

/// Where a tensor of many samples has its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// In an axis of its own; the first in most.
    Alone(usize),
    /// In the first axis, together with the sample's first: all rows of all samples.
    Rows,
}

impl Unknown {
    /// An operation of which no more is known than what it costs.
    pub fn new(op_type: impl Into<String>, shape: Shape, parameters: u64) -> Self {
        Unknown { op_type: op_type.into(), shape, parameters, macs: 0, across: false, original: None }
    }

    /// The cautious guess: a result of its own, and backward needs every input.
    pub(super) fn facts(&self, at: At) -> Facts<'_> {
        // Of several outputs of one operation the first is charged with what it costs.
        let again = continued(at).next().is_some();
        let [inputs, outputs] = [at.inputs().next().map_or(0.0, |input| input.elements() as f64), at.outputs()];
        Facts {
            weights: vec![Weight { dims: Shape::new([self.parameters as usize]), spans: Spans::Nothing }],
            macs: if again { 0 } else { self.macs },
            across: self.across,
            storage: Storage::Needed,
            needs: Needs::Inputs,
            traffic: Traffic::of(inputs + outputs, inputs + 2.0 * outputs),
            ..Facts::of(Nature::Unknown(self), Coupling::Unknown(self), Gradient::Made)
        }
    }
    /// Whether this may be a further output of the operation that another one is an output of.
    fn continues(&self, other: &Unknown) -> bool {
        match (&self.original, &other.original) {
            (Some(own), Some(other)) => own.attributes == other.attributes && own.output > other.output,
            // Which outputs they are was not kept.
            (None, _) | (_, None) => true,
        }
    }
}

/// What an unknown operation may be a further output of: what stands before it, has its weights too, and reads the same.
pub fn continued(at: At<'_>) -> impl Iterator<Item = &Node> {
    let At { nodes, node } = at;
    let tied = move |(index, other): &(usize, &Node)| {
        let shares = |owner: NodeId| owner.index() == *index || other.shares == Some(owner);
        node.shares.is_some_and(shares) && other.inputs == node.inputs
    };
    let before = nodes.iter().take_while(|other| other.name != node.name).enumerate().filter(tied);
    let continues =
        |other: &&Node| matches!((&node.op, &other.op), (Op::Unknown(own), Op::Unknown(other)) if own.continues(other));
    before.map(|(_, other)| other).filter(continues)
}
