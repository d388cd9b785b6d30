//! One operation of a network, on a device, within a step.

use super::rule::{CastBy, OperandCasts, RuleAction};
use crate::amount::BatchBytes;
use crate::layout::{TensorLayout, reads_row};
use perf4sight_network::{BorrowedMemory, Conv, ElementKind, Network, Node, NodeId, NumberTypes};
use perf4sight_platform::{ConvolutionQuery, ConvolutionWorkspace, Platform};
use perf4sight_step::workload::{AutocastDevice, NumberFormat, Step};

/// One operation of a network, on a device, within a step.
#[derive(Clone, Copy)]
pub(crate) struct StepOperation<'a> {
    pub network: &'a Network,
    pub id: NodeId,
    pub node: &'a Node,
    pub platform: &'a Platform,
    /// Whether memory counts that kernels borrow and give back within one operator.
    pub within_kernels: bool,
    /// Samples of the batch; on an accelerator, where kernels do not depend on them, at least.
    pub samples: u64,
    pub step: Step,
    /// Whether the result may overwrite the input.
    pub in_place: bool,
    /// For every node, whether its gradient is computed.
    pub tracked: &'a [bool],
    /// For every node, the layout of its result.
    pub layouts: &'a [TensorLayout],
    /// For every node, the layout of the gradient of its result, where it is known.
    pub gradients: &'a [Option<TensorLayout>],
    /// For every node, the formats of its computation.
    pub numbers: &'a [NumberTypes],
}

impl<'a> StepOperation<'a> {
    /// The workspaces of its libraries.
    pub fn workspaces(&self) -> &'a [ConvolutionWorkspace] {
        if self.within_kernels { &self.platform.workspaces } else { &[] }
    }

    /// Bytes of one of the inputs, as it is read.
    pub fn input(&self, index: usize) -> BatchBytes {
        let input = self.network.node(self.node.inputs[index]);
        BatchBytes::tensor(&input.shape, input.held.bytes(self.number()))
    }

    /// Bytes of one of the numbers that it computes with.
    pub fn number(&self) -> u64 {
        self.numbers[self.id.index()].result.bytes()
    }

    /// Whether it computes with fewer bits than single precision has.
    pub fn is_low(&self) -> bool {
        self.number() < NumberFormat::Fp32.bytes()
    }

    /// The conversions of its operands; `weights` are their elements.
    pub fn casts(&self, weights: &[u64]) -> OperandCasts {
        let own = self.numbers[self.id.index()];
        let input = |(index, input): (usize, &NodeId)| {
            let is_cast = self.numbers[input.index()].result != own.result;
            (is_cast && self.network.node(*input).held == ElementKind::Number).then(|| self.input(index))
        };
        let is_cast = own.weights != self.step.precision.held_format();
        let weight =
            |elements: &u64| is_cast.then(|| BatchBytes::constant(own.weights.bytes().saturating_mul(*elements)));
        OperandCasts {
            by: self.cast_by(),
            inputs: self.node.inputs.iter().enumerate().map(input).collect(),
            weights: weights.iter().map(weight).collect(),
        }
    }

    fn cast_by(&self) -> CastBy {
        match (self.network.promotes(self.node, self.platform.lists()), self.platform.lists()) {
            (false, _) => CastBy::Autocast,
            (true, AutocastDevice::Processor) => CastBy::Kernel,
            (true, AutocastDevice::Accelerator) => CastBy::KernelWithoutCopy,
        }
    }

    /// Whether a convolution runs in `torch.channels_last`: as the module was seen to do it, else where its image or its filters are.
    pub fn runs_channels_last(&self) -> bool {
        let is_so = || self.layout(0).is_channels_last() || self.filters_are_channels_last();
        self.borrows().map_or_else(|| is_so() && !self.reads_row(), |by| by == BorrowedMemory::ChannelsLast)
    }

    /// What a convolution borrows by, where the module was seen to run it.
    pub fn borrows(&self) -> Option<BorrowedMemory> {
        self.network.followed().and_then(|followed| followed.borrows(self.id))
    }

    /// Whether the module's filters are in `torch.channels_last`.
    pub fn filters_are_channels_last(&self) -> bool {
        self.network.followed().is_some_and(|followed| followed.channels_last().filters)
    }

    pub fn result(&self) -> &TensorLayout {
        &self.layouts[self.id.index()]
    }

    /// The layout of the gradient of the result, where it is known.
    pub fn gradient(&self) -> Option<&TensorLayout> {
        self.gradients[self.id.index()].as_ref()
    }

    /// The layout of one of the inputs.
    pub fn layout(&self, index: usize) -> &TensorLayout {
        &self.layouts[self.node.inputs[index].index()]
    }

    /// Whether its input is the height-1 image view that PyTorch makes for a 1-D convolution.
    pub fn reads_row(&self) -> bool {
        reads_row(self.network, self.node)
    }

    /// Whether the gradient of an input is required.
    pub fn requires_gradient(&self, index: usize) -> bool {
        self.tracked[self.node.inputs[index].index()]
    }

    /// Whether it gives one of the tensors of its weights a gradient: 0 is the weight, 1 the bias.
    pub fn trains(&self, tensor: usize) -> bool {
        self.network.trains(self.node) && self.network.trained_parts(self.node)[tensor]
    }

    /// The gradients of those of its first weights that training changes.
    pub fn weight_gradients(&self, tensors: usize) -> impl Iterator<Item = RuleAction> + use<> {
        let learned: Vec<usize> = (0..tensors).filter(|tensor| self.trains(*tensor)).collect();
        learned.into_iter().map(RuleAction::WeightGradient)
    }

    /// Bytes of the result.
    pub fn output(&self) -> BatchBytes {
        BatchBytes::result(self.node, self.number())
    }

    /// The properties that decide which library computes this convolution.
    pub fn convolution_query(&self, conv: &Conv) -> ConvolutionQuery {
        let (window, input) = (&conv.window, self.network.input_of(self.node, 0));
        ConvolutionQuery {
            kernel: window.kernel,
            moves_by_one: (window.stride, window.dilation) == ([1; 2], [1; 2]),
            groups: conv.groups,
            channels: input.channels(),
            elements: input.elements(),
        }
    }
}
