//! The memory of passes of the module that a network was read from, where that was followed without a graph: it holds what a graph
//! lacks, such as the intermediate results that a module's own code keeps.

use super::graph::{Network, Node, NodeId};
use super::keeping::PytorchRun;
use super::op::{Op, OperationNature, RecurrentKind};
use perf4sight_step::workload::{Checkpoint, Step};
use std::collections::BTreeMap;

/// Passes of a module on a processor, as its operators allocate tensors; what kernels borrow within an operator is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowedModule {
    step: Step,
    /// The one of the fewest samples first; at least one.
    passes: Vec<FollowedPass>,
    weights: Vec<u64>,
    channels_last: ChannelsLast,
    convolutions: BTreeMap<NodeId, BorrowedMemory>,
}

/// Which tensors of a module are in `torch.channels_last`, so that its convolutions run so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChannelsLast {
    /// The images that it reads.
    pub images: bool,
    /// The filters of its convolutions.
    pub filters: bool,
}

/// What a convolution borrows memory by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BorrowedMemory {
    /// Blocks of contiguous images.
    Blocks,
    /// Images in `torch.channels_last`.
    ChannelsLast,
    /// Columns: PyTorch itself computes it.
    Columns,
}

/// A pass of so many samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowedPass {
    /// How many samples.
    pub samples: u64,
    /// The most bytes that are allocated at once.
    pub most: u64,
    /// The bytes that are allocated behind it, when an optimizer changes the weights.
    pub left: u64,
    /// By how many bytes others of as many samples took less: where a module does something else in every step.
    pub spread: u64,
    /// Bytes that are allocated after every operator of a kind, in the order they run forward; those of their backward are in the same order.
    pub operators: BTreeMap<OperatorKind, [Vec<u64>; 2]>,
}

impl FollowedPass {
    /// A pass that takes so many bytes more at every moment, less where that is negative.
    fn taking_more(&self, bytes: i64) -> Self {
        let moved = |taken: u64| taken.saturating_add_signed(bytes);
        let operators = self.operators.iter().map(|(kind, after)| {
            (
                *kind,
                after.each_ref().map(|one| one.iter().map(|&taken| if taken > 0 { moved(taken) } else { 0 }).collect()),
            )
        });
        FollowedPass { most: moved(self.most), left: moved(self.left), operators: operators.collect(), ..*self }
    }

    /// The places of a kind's operators that a graph of so many operations has, too: what makes a result that nothing reads has no backward.
    pub fn places(&self, kind: OperatorKind, operations: usize) -> Vec<usize> {
        let Some([forward, backward]) = self.operators.get(&kind) else { return Vec::new() };
        let is_all = forward.len() <= operations || backward.len() != forward.len();
        (0..forward.len()).filter(|&place| is_all || backward[place] > 0).collect()
    }
}

perf4sight_base::words! {
    /// Kinds of operators whose kernels borrow memory.
    pub enum OperatorKind {
        /// Convolutions of every number of axes, transposed ones too.
        Convolution = "convolution",
        BatchNorm = "batch_norm",
        /// Attention in one operator.
        Attention = "attention",
        /// An LSTM's layer in one direction.
        Lstm = "lstm",
    }
}

impl OperatorKind {
    /// The operations of a network that such operators run, in order; an LSTM in both directions twice.
    pub fn nodes(self, network: &Network) -> impl Iterator<Item = NodeId> {
        let run = network.iter().filter(move |(_, node)| self.runs(network, node));
        run.flat_map(|(id, node)| std::iter::repeat_n(id, operators(node)))
    }

    fn runs(self, network: &Network, node: &Node) -> bool {
        let nature = network.facts(node).nature;
        match self {
            OperatorKind::Convolution => {
                matches!(
                    nature,
                    OperationNature::Convolution(_) | OperationNature::Volume(_) | OperationNature::Transposed(_)
                )
            }
            OperatorKind::BatchNorm => matches!(node.op, Op::BatchNorm { .. }) || node.runs == PytorchRun::InstanceNorm,
            OperatorKind::Attention => matches!(nature, OperationNature::Attention),
            OperatorKind::Lstm => {
                matches!(nature, OperationNature::Recurrent(layer) if layer.cell == RecurrentKind::Lstm)
                    || matches!(nature, OperationNature::Unknown(unknown) if unknown.op_type == "LSTM")
            }
        }
    }
}

fn operators(node: &Node) -> usize {
    if let Op::Recurrent(layer) = &node.op { layer.directions() } else { 1 }
}

impl FollowedModule {
    /// Passes of a step; none where there is no pass.
    pub fn new(step: Step, mut passes: Vec<FollowedPass>) -> Option<Self> {
        passes.sort_by_key(|pass| pass.samples);
        passes.dedup_by_key(|pass| pass.samples);
        (!passes.is_empty()).then_some(FollowedModule {
            step,
            passes,
            weights: Vec::new(),
            channels_last: ChannelsLast::default(),
            convolutions: BTreeMap::new(),
        })
    }

    /// The same with the bytes of every trained weight, in the order in which the module hands them to an optimizer.
    #[must_use]
    pub fn with_weights(self, weights: Vec<u64>) -> Self {
        FollowedModule { weights, ..self }
    }

    /// The same with tensors in `torch.channels_last`.
    #[must_use]
    pub fn with_channels_last(self, channels_last: ChannelsLast) -> Self {
        FollowedModule { channels_last, ..self }
    }

    /// The same with what a network's convolutions borrow by, in the order they run forward.
    #[must_use]
    pub fn with_convolutions(self, network: &Network, borrows: &[BorrowedMemory]) -> Self {
        let nodes: Vec<NodeId> = OperatorKind::Convolution.nodes(network).collect();
        let places = self.passes[0].places(OperatorKind::Convolution, nodes.len());
        let found = places.iter().filter_map(|&place| borrows.get(place).copied());
        let convolutions: BTreeMap<NodeId, BorrowedMemory> = nodes.iter().copied().zip(found).collect();
        let convolutions = if places.len() == nodes.len() { convolutions } else { BTreeMap::new() };
        FollowedModule { convolutions, ..self }
    }

    /// What other steps may take, where a module does something else in every step: the least that a few of them took, and as much more than
    /// the most as that is less. Of a few steps those that come take more than all of them about as often as not, and rarely by more than these
    /// differ.
    pub fn other_steps(&self) -> Option<[Self; 2]> {
        let moved = |sign: i64| {
            let pass = |pass: &FollowedPass| pass.taking_more(sign.saturating_mul(pass.spread.cast_signed()));
            FollowedModule { passes: self.passes.iter().map(pass).collect(), ..self.clone() }
        };
        self.passes.iter().any(|pass| pass.spread > 0).then(|| [-1, 1].map(moved))
    }

    /// Kinds of operators of which the passes run others than a network has: how many they run, and how many of these the network has. Batch
    /// normalisations are left out: where a graph has them otherwise, they are those of weights (NFNet), which borrow little.
    pub fn differing_operators(&self, network: &Network) -> Vec<(OperatorKind, [usize; 2])> {
        let pass = &self.passes[0];
        let kinds = OperatorKind::ALL.into_iter().filter(|kind| *kind != OperatorKind::BatchNorm);
        let counts = kinds.map(|kind| {
            let known = kind.nodes(network).count();
            (kind, [pass.places(kind, known).len(), known])
        });
        counts.filter(|(_, [run, known])| *run > 0 && run != known).collect()
    }

    /// What a convolution borrows by; none where it is not known.
    pub fn borrows(&self, convolution: NodeId) -> Option<BorrowedMemory> {
        self.convolutions.get(&convolution).copied()
    }

    /// Which tensors are in `torch.channels_last`.
    pub fn channels_last(&self) -> ChannelsLast {
        self.channels_last
    }

    /// The bytes of every trained weight in the module's order; empty where it is not known.
    pub fn weights(&self) -> &[u64] {
        &self.weights
    }

    /// Whether passes of a step are such passes: of the same stage and precision, with the same weights trained, and nothing runs again.
    pub fn is_of(&self, step: Step) -> bool {
        let passes = |step: Step| (step.stage, step.precision, step.trainable);
        passes(step) == passes(self.step) && step.checkpoint == Checkpoint::None
    }

    /// How many bytes more than a graph's passes those of so many samples take, less than nothing where they take fewer; `beyond` says it of a
    /// followed pass. Between and beyond the followed numbers of samples it is linear.
    ///
    /// ```
    /// use perf4sight_network::{FollowedModule, FollowedPass};
    /// use perf4sight_step::workload::{Stage, Step};
    /// let passes = [(4, 1000), (8, 1800)];
    /// let passes = passes.map(|(samples, most)| FollowedPass { samples, most, left: 0, spread: 0, operators: Default::default() });
    /// let followed = FollowedModule::new(Step::published(Stage::Training), passes.to_vec()).ok_or("no pass")?;
    /// let beyond = |pass: &FollowedPass| pass.most as i64 - 100 * pass.samples as i64;
    /// assert_eq!([2, 4, 6, 16].map(|samples| followed.extra_bytes(samples, beyond)), [400, 600, 800, 1800]);
    /// # Ok::<(), &str>(())
    /// ```
    pub fn extra_bytes(&self, samples: u64, beyond: impl Fn(&FollowedPass) -> i64) -> i64 {
        let point = |pass: &FollowedPass| (i128::from(pass.samples), i128::from(beyond(pass)));
        let next = self.passes.partition_point(|pass| pass.samples < samples).clamp(1, self.passes.len().max(2) - 1);
        let [(from, first), (to, second)] = match (&self.passes[next - 1], self.passes.get(next)) {
            (first, Some(second)) => [point(first), point(second)],
            (only, None) => [(0, 0), point(only)],
        };
        let beyond = first + (second - first) * (i128::from(samples) - from) / (to - from).max(1);
        i64::try_from(beyond).unwrap_or(0)
    }
}
