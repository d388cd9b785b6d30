//! Operations that were read but not understood.

use super::Op;
use super::attributes::Unknown;
use super::effects::{Gradient, Needs, Spans, Storage, Traffic, Weight};
use super::facts::{At, Coupling, Facts, Nature};
use crate::{Node, NodeId, Shape};

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
            traffic: Traffic::new(inputs + outputs, inputs + 2.0 * outputs),
            ..Facts::new(Nature::Unknown(self), Coupling::Unknown(self), Gradient::Made)
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
