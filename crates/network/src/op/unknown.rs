//! Operations that were read but are not supported.

use super::Op;
use super::attributes::UnknownOperation;
use super::effects::{
    AuxiliaryResult, BackwardNeeds, GradientFlow, MemoryTraffic, ResultStorage, TrainedTensor, WeightSpans,
};
use super::facts::{ChannelCoupling, NodePosition, OperationFacts, OperationNature};
use crate::{Node, NodeId, Shape};

impl UnknownOperation {
    /// An operation of which only the cost is known.
    pub fn new(op_type: impl Into<String>, shape: Shape, parameters: u64) -> Self {
        UnknownOperation { op_type: op_type.into(), shape, parameters, macs: 0, across: false, original: None }
    }

    /// Whether it is a recurrent layer, whose cost and memory follow from its sizes.
    pub fn is_recurrent(&self) -> bool {
        matches!(self.op_type.as_str(), "LSTM" | "GRU" | "RNN")
    }

    /// Whether it writes elements into its first input: an assignment to a part of a tensor, which PyTorch does in place.
    pub fn is_assignment(&self) -> bool {
        matches!(self.op_type.as_str(), "ScatterND" | "ScatterElements" | "Scatter")
    }

    /// A cautious guess: the result has its own memory, and backward needs every input. Of assignments it needs places alone (`scatter`, `index_put`,
    /// `CopySlices`), and what follows may overwrite their result.
    pub(super) fn facts(&self, at: NodePosition) -> OperationFacts<'_> {
        // If an operation has several outputs, the whole cost is counted at the first.
        let again = continued(at).next().is_some();
        let [inputs, outputs] = [at.inputs().next().map_or(0.0, |input| input.elements() as f64), at.outputs()];
        let (storage, needs) = match self.is_assignment() {
            true => (ResultStorage::Own, BackwardNeeds::Nothing),
            false => (ResultStorage::Needed, BackwardNeeds::Inputs),
        };
        OperationFacts {
            weights: vec![TrainedTensor { dims: Shape::new([self.parameters as usize]), spans: WeightSpans::Nothing }],
            macs: if again { 0 } else { self.macs },
            across: self.across,
            storage,
            needs,
            auxiliary: self.is_recurrent().then_some(AuxiliaryResult::States),
            traffic: MemoryTraffic::new(inputs + outputs, inputs + 2.0 * outputs),
            ..OperationFacts::new(OperationNature::Unknown(self), ChannelCoupling::Unknown(self), GradientFlow::Made)
        }
    }

    /// Whether this may be another output of the same operation as `other`.
    fn continues(&self, other: &UnknownOperation) -> bool {
        match (&self.original, &other.original) {
            (Some(own), Some(other)) => own.attributes == other.attributes && own.output > other.output,
            // The indices of these outputs were not kept.
            (None, _) | (_, None) => true,
        }
    }
}

/// The earlier nodes of which an unknown operation may be a further output: same weights and same inputs.
pub fn continued(at: NodePosition<'_>) -> impl Iterator<Item = &Node> {
    let NodePosition { nodes, node } = at;
    let tied = move |(index, other): &(usize, &Node)| {
        let shares = |owner: NodeId| owner.index() == *index || other.shares == Some(owner);
        node.shares.is_some_and(shares) && other.inputs == node.inputs
    };
    let before = nodes.iter().take_while(|other| other.name != node.name).enumerate().filter(tied);
    let continues =
        |other: &&Node| matches!((&node.op, &other.op), (Op::Unknown(own), Op::Unknown(other)) if own.continues(other));
    before.map(|(_, other)| other).filter(continues)
}
