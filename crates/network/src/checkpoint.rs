//! Where a network may be cut into segments whose forward runs again in backward, and what runs then. Workers and the simulation
//! use the same rule.

use super::graph::{Network, Node, NodeId};
use super::op::{BackwardNeeds, Op};
use perf4sight_base::error::{Error, Result};
use perf4sight_step::workload::Checkpoint;
use std::ops::Range;

/// Minimum number of operations with products in a block. The input of a single one is kept either way, so a block of one saves
/// nothing.
const PRODUCTS: usize = 2;

/// Nodes in a row whose forward runs again in backward.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointSegment {
    /// Their positions.
    pub nodes: Range<usize>,
    /// What they read from before, network inputs and other segments' results: it is kept until backward needs it.
    pub reads: Vec<NodeId>,
}

/// What a node keeps for backward, ordered by when it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum KeptForBackward {
    Nothing,
    /// Inputs and weights, which exist before it runs.
    Before,
    /// Its results, too.
    Made,
}

impl Network {
    /// The nodes after which a step cuts the network: a segment that runs again ends there. Nodes after the last cut run once, as
    /// in `torch.utils.checkpoint.checkpoint_sequential`. None if the network has fewer segments than requested.
    ///
    /// A cut is possible where a single activation with a gradient crosses, which no node overwrites; masks, positions and other
    /// values without a gradient may cross, too. The nodes between two such places are a *stretch*.
    ///
    /// - segments have equally many stretches, rounded down; the last one has the rest.
    /// - a block is one stretch, or several up to the first two operations with products.
    ///
    /// ```
    /// use perf4sight_network::zoo::{Dataset, build};
    /// use perf4sight_step::workload::Checkpoint;
    /// let network = build("resnet18", Dataset::Imagenet)?;
    /// let ends = |checkpoint| network.cuts(checkpoint).iter().map(|cut| network.node(*cut).name.clone()).collect::<Vec<_>>();
    /// // The stem and the first of eight residual blocks, then one after the other; the classifier runs once.
    /// assert_eq!(ends(Checkpoint::EveryBlock).len(), 8);
    /// assert_eq!(ends(Checkpoint::Segments(4)).len(), 3);
    /// # Ok::<(), perf4sight_base::error::Error>(())
    /// ```
    pub fn cuts(&self, checkpoint: Checkpoint) -> Vec<NodeId> {
        match checkpoint {
            Checkpoint::None => Vec::new(),
            Checkpoint::EveryBlock => self.blocks(),
            Checkpoint::Segments(count) => {
                let places = self.places_to_cut();
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                let stretches = (places.len() + 1) / count.max(1);
                if stretches == 0 {
                    return Vec::new();
                }
                places.into_iter().skip(stretches - 1).step_by(stretches).take(count - 1).collect()
            }
        }
    }

    /// Returns an error if there is no place to cut.
    ///
    /// # Errors
    /// The network has fewer stretches than the requested segments, or no two blocks.
    pub(super) fn check_checkpoint(&self, checkpoint: Checkpoint) -> Result<()> {
        if checkpoint == Checkpoint::None || !self.cuts(checkpoint).is_empty() {
            return Ok(());
        }
        let refused = Error::input(format!("checkpoint = {checkpoint} cannot be done with {}", self.name()))
            .expected("places that a single activation with a gradient crosses, one for each segment but the last");
        Err(match self.places_to_cut().len() {
            0 => refused.help("the network has none, so that nothing of it can run again: leave checkpoint out"),
            places => refused.help(format!("the network has {places}: ask for {} segments or fewer", places + 1)),
        })
    }

    /// The segments that run again in backward if the network is cut after these nodes.
    pub fn segments(&self, cuts: &[NodeId]) -> Vec<CheckpointSegment> {
        // The network's inputs come first, and exist anyway.
        let begin = self.inputs().count();
        let starts = std::iter::once(begin).chain(cuts.iter().map(|cut| cut.index() + 1));
        starts.zip(cuts).map(|(start, cut)| self.segment(start..cut.index() + 1)).collect()
    }

    fn segment(&self, nodes: Range<usize>) -> CheckpointSegment {
        let inputs = self.nodes()[nodes.clone()].iter().flat_map(|node| &node.inputs);
        let mut reads: Vec<NodeId> = inputs.copied().filter(|input| input.index() < nodes.start).collect();
        reads.sort_unstable();
        reads.dedup();
        CheckpointSegment { nodes, reads }
    }

    /// The nodes of a segment that backward runs again: up to the last that keeps something, and without that one if it keeps
    /// only its inputs (`torch.utils.checkpoint` stops early).
    pub fn runs_again(&self, segment: &CheckpointSegment, tracked: &[bool]) -> Range<usize> {
        let start = segment.nodes.start;
        let kept = |index: &usize| self.kept_for_backward(&self.nodes()[*index], tracked[*index]);
        let last = segment.nodes.clone().rev().find(|index| kept(index) > KeptForBackward::Nothing);
        let end = last.map_or(start, |last| if kept(&last) == KeptForBackward::Made { last + 1 } else { last });
        start..end
    }

    /// Whether backward needs something of a node from forward, if only its weights; `tracked` if its gradient is computed.
    pub fn is_kept(&self, node: &Node, tracked: bool) -> bool {
        self.kept_for_backward(node, tracked) > KeptForBackward::Nothing
    }

    fn kept_for_backward(&self, node: &Node, tracked: bool) -> KeptForBackward {
        let facts = self.facts(node);
        match facts.needs {
            _ if !tracked || matches!(node.op, Op::Parameter(_)) => KeptForBackward::Nothing,
            _ if facts.auxiliary.is_some() => KeptForBackward::Made,
            // The statistics of a batch are results that no operation reads.
            _ if !facts.buffers.is_empty() => KeptForBackward::Made,
            BackwardNeeds::Result | BackwardNeeds::All => KeptForBackward::Made,
            BackwardNeeds::First | BackwardNeeds::Inputs => KeptForBackward::Before,
            BackwardNeeds::Nothing if facts.weights.is_empty() => KeptForBackward::Nothing,
            BackwardNeeds::Nothing => KeptForBackward::Before,
        }
    }

    /// The nodes after which the network may be cut. The network's results are held for the loss wherever it is cut.
    fn places_to_cut(&self) -> Vec<NodeId> {
        let (readers, in_place, tracked) = (self.readers(), self.in_place(), self.gradients());
        let counts = |id: NodeId, node: &Node| tracked[id.index()] && !matches!(node.op, Op::Parameter(_));
        // The results so far that a later node reads, and the places found.
        let (mut crossing, mut places) = (Vec::<NodeId>::new(), Vec::new());
        for (id, node) in self.iter() {
            crossing.push(id);
            crossing.retain(|crossing| readers[crossing.index()].last().is_some_and(|last| *last > id));
            let carried = crossing.iter().filter(|crossing| counts(**crossing, self.node(**crossing))).count();
            let overwritten = |crossing: &NodeId| {
                readers[crossing.index()].iter().any(|reader| *reader > id && in_place[reader.index()])
            };
            // Where nothing happened since, it may be cut before as well.
            if carried == 1 && counts(id, node) && !crossing.iter().any(overwritten) {
                places.push(id);
            }
        }
        places
    }

    fn blocks(&self) -> Vec<NodeId> {
        let (mut start, mut cuts) = (0, Vec::new());
        for place in self.places_to_cut() {
            let products = self.nodes()[start..=place.index()].iter().filter(|node| self.macs_of(node) > 0).count();
            if products >= PRODUCTS {
                start = place.index() + 1;
                cuts.push(place);
            }
        }
        cuts
    }
}

#[cfg(test)]
mod tests {
    use super::CheckpointSegment;
    use crate::zoo;
    use crate::zoo::Dataset;
    use crate::{
        Activation, Affine, BinaryFunction, Conv, Linear, Network, NetworkBuilder, NodeId, Op, Recurrent,
        RecurrentKind, Shape, TopK, UnknownOperation, Window,
    };
    use perf4sight_step::workload::{Checkpoint, Stage, Step, Trainable};

    fn names(network: &Network, cuts: &[NodeId]) -> Vec<String> {
        cuts.iter().map(|cut| network.node(*cut).name.clone()).collect()
    }

    fn of(network: &str, checkpoint: Checkpoint) -> Vec<String> {
        let network = zoo::build(network, Dataset::Imagenet).unwrap();
        names(&network, &network.cuts(checkpoint))
    }

    #[test]
    fn residual_blocks_are_whole() {
        let blocks = of("resnet18", Checkpoint::EveryBlock);
        assert_eq!(blocks.len(), 8, "{blocks:?}");
        assert!(blocks.iter().zip(1..).all(|(name, number)| name.contains(&format!("layer{}", (number + 1) / 2))));
    }

    #[test]
    fn a_chain_is_cut_anywhere_but_before_what_overwrites() {
        let conv = || Op::Conv(Conv { out_channels: 3, window: Window::square(3, 1, 1), groups: 1, bias: false });
        let mut builder = NetworkBuilder::new("chain", Shape::new([3, 8, 8]));
        let mut last = builder.input();
        for number in 0..6 {
            last = builder.add(format!("conv{number}"), conv(), &[last]).unwrap();
            last = builder.add(format!("relu{number}"), Op::Activation(Activation::Relu), &[last]).unwrap();
        }
        let network = builder.finish(last);
        let cuts = |checkpoint| names(&network, &network.cuts(checkpoint));
        assert_eq!(cuts(Checkpoint::Segments(6)), ["relu0", "relu1", "relu2", "relu3", "relu4"]);
        // As checkpoint_sequential: 6 // 4 = 1 for each but the last, which has the rest.
        assert_eq!(cuts(Checkpoint::Segments(4)), ["relu0", "relu1", "relu2"]);
        assert_eq!(cuts(Checkpoint::EveryBlock), ["relu1", "relu3"]);
        let refused = |count| {
            let step = Step { checkpoint: Checkpoint::Segments(count), ..Step::published(Stage::Training) };
            network.check_step(step).unwrap_err()
        };
        assert!(refused(7).to_string().contains("7 segments"));
    }

    #[test]
    fn what_two_activations_cross_is_no_place() {
        let conv = || Op::Conv(Conv { out_channels: 3, window: Window::square(3, 1, 1), groups: 1, bias: false });
        let mut builder = NetworkBuilder::new("beside", Shape::new([3, 8, 8]));
        let [a, b] = ["a", "b"].map(|name| builder.add(name, conv(), &[builder.input()]).unwrap());
        let sum = builder.add("sum", Op::Binary(BinaryFunction::Add), &[a, b]).unwrap();
        let network = builder.finish(sum);
        // After a, only its own result with a gradient crosses; after b both do.
        assert_eq!(names(&network, &network.cuts(Checkpoint::Segments(2))), ["a"]);
        assert!(network.cuts(Checkpoint::EveryBlock).is_empty());
        let step = Step { checkpoint: Checkpoint::EveryBlock, ..Step::published(Stage::Training) };
        assert!(network.check_step(step).is_err());
    }

    #[test]
    fn nothing_runs_again_where_nothing_is_kept() {
        let network = zoo::build("resnet18", Dataset::Imagenet).unwrap();
        let cuts = network.cuts(Checkpoint::EveryBlock);
        let segments = network.segments(&cuts);
        let again = |trainable: &str| -> Vec<usize> {
            let network = network.trained_in(Trainable::parse(trainable).unwrap());
            let tracked = network.gradients();
            segments.iter().map(|segment| network.runs_again(segment, &tracked).len()).collect()
        };
        // The last node of each block is a ReLU whose result is kept, so that it runs again to its end.
        let whole: Vec<usize> = segments.iter().map(|segment| segment.nodes.len()).collect();
        assert_eq!(again("all"), whole);
        assert!(again("classifier").iter().all(|count| *count == 0));
        assert_eq!(again("layer4.*").iter().filter(|count| **count > 0).count(), 2);
    }

    /// What PyTorch 2.15 enters twice at the end of `checkpoint(lambda x: operation(1.5 * x), x, use_reentrant=False)`: what saves masks, states, statistics,
    /// places or its result. Of inputs alone it stops in front of the operation.
    #[test]
    fn what_saves_what_it_makes_runs_again() {
        let enters_twice = |op: Op| {
            let mut builder = NetworkBuilder::new("segment", Shape::new([6, 8]));
            let linear = Op::Linear(Linear { out_features: 8, bias: false });
            let read = builder.add("read", linear, &[builder.input()]).unwrap();
            let last = builder.add("last", op, &[read]).unwrap();
            let network = builder.finish(last);
            let [segment] = network.segments(&[last]).try_into().unwrap();
            network.runs_again(&segment, &network.gradients()).contains(&last.index())
        };
        let recurrent = |cell| {
            Op::Recurrent(Recurrent { cell, hidden: 8, both_ways: true, bias: true, last: false, batch_first: true })
        };
        let known_by_name = Op::Unknown(UnknownOperation::new("LSTM", Shape::new([6, 1, 8]), 1000));
        let largest = Op::TopK(TopK { axis: 0, count: 2, largest: true, places: false });
        let of_rows = Op::LayerNorm { axis: 1, affine: Affine::ScaleAndShift };
        let activation = Op::Activation;
        let makes = RecurrentKind::ALL.map(recurrent).into_iter().chain([
            known_by_name,
            Op::Dropout { rate: 0.5 },
            largest,
            of_rows,
        ]);
        for op in makes.chain([activation(Activation::Relu), Op::Softmax { axis: 1 }]) {
            assert!(enters_twice(op.clone()), "{op:?}");
        }
        let reads = [
            Op::Linear(Linear { out_features: 8, bias: true }),
            activation(Activation::Gelu),
            Op::Dropout { rate: 0.0 },
        ];
        for op in reads {
            assert!(!enters_twice(op.clone()), "{op:?}");
        }
    }

    /// A normalisation saves the statistics of its batch, which are results: PyTorch enters that of `checkpoint(x + bn(conv(x)))` twice.
    #[test]
    fn a_normalisation_that_ends_a_segment_runs_again() {
        let network = zoo::build("mobilenetv2", Dataset::Imagenet).unwrap();
        let segments = network.segments(&network.cuts(Checkpoint::EveryBlock));
        let tracked = network.gradients();
        let last = |segment: &CheckpointSegment| {
            let normalises = |index: &usize| matches!(network.nodes()[*index].op, Op::BatchNorm { .. });
            segment
                .nodes
                .clone()
                .rev()
                .find(normalises)
                .is_none_or(|last| network.runs_again(segment, &tracked).contains(&last))
        };
        assert!(segments.len() > 10 && segments.iter().all(last));
    }
}
