//! What a module may keep for backward, where the file that its network was read from cannot tell.
//!
//! A file holds operations, not the code that made them: whether an activation is one operator of PyTorch or several, whether it
//! overwrites its input, which results a variable still holds. So the same file can be read as networks of different memory.

use super::graph::Network;

/// What a reading of a file keeps for backward, of what the file leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeptReading {
    /// What is likeliest.
    #[default]
    Likely,
    /// The least: what may be one operator is one, what may overwrite its input does.
    Least,
    /// The most: what the program may have written step by step, it did.
    Most,
}

/// How a weight is computed from parameters in every step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ComputedWeight {
    /// Tensors of its size that are made, the weight among them: autograd keeps them.
    pub tensors: u64,
    /// Whether one of them is a quotient of two that are computed from parameters, as by a norm or a deviation.
    pub divides: bool,
}

/// What PyTorch runs for an operation of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PytorchRun {
    /// The operation itself.
    #[default]
    AsWritten,
    /// The operator that reads it, of which it is a part and which keeps what this one reads instead of its result: the sigmoid of a
    /// gated linear unit, and that of `logsigmoid`, which processors keep, too.
    WithReader,
    /// A step of `var` or `std`, which keep nothing but what they read, and make nothing of its size before backward.
    Variance,
    /// A view, which takes no memory: `Tensor.unfold`, which files have as a lookup, and places that are integers to PyTorch.
    View,
    /// The maximum along one axis with its place, which alone gets the gradient (`max` of an axis); `amax` keeps what it reads.
    WithPlaces,
    /// One product for all samples, which are rows of it: `einsum` lays a feature and a weight so. `turned` if the weight is copied into another
    /// order of its axes first.
    SamplesAsRows {
        /// Whether the weight is copied.
        turned: bool,
    },
    /// A part of `split`, `chunk` or `unbind`, or of `roll`, which files have as parts that are joined in another order: the gradients of all parts become
    /// that of the whole at once; each slice makes one of its own.
    Part,
    /// `instance_norm`: batch normalisation of one sample that has the channels of all samples
    /// (aten/src/ATen/native/Normalization.cpp). A group normalisation whose groups are single channels is an operator of its own.
    InstanceNorm,
    /// A layer on the weight of another one, which it reads in another shape or order: the weight, its gradient and its state are there once.
    OnAnothers,
    /// A step of an operator that makes nothing but its result and keeps what it reads: `addcmul` and `lerp`; of `logcumsumexp` the whole.
    InOperator,
    /// A part of a `torch.autograd.Function`, which keeps nothing but what the function reads.
    InFunction,
    /// `detach`, a view without a gradient, or any operation within `torch.no_grad`.
    Detached,
    /// A view that joins the batch with the axis behind it (`x.reshape(batch * frames, ...)`): a copy where they are not neighbours in memory.
    Joining,
    /// The first and the last of the steps of `pixel_shuffle`, which processors compute at once, in the layout of the image that it reads (aten/src/ATen/native/PixelShuffle.cpp).
    PixelShuffle,
}

impl Network {
    /// What it keeps for backward, of what its file leaves open.
    pub fn keeping(&self) -> KeptReading {
        self.keeping
    }

    /// The same network, as the reading of its file that keeps so much.
    #[must_use]
    pub fn as_keeping(mut self, keeping: KeptReading) -> Self {
        self.keeping = keeping;
        self
    }

    /// The same network as a file made from it has it, which holds operations alone: without what its module's code keeps.
    #[must_use]
    pub fn as_written(&self) -> Self {
        let mut network = self.clone().with_readings(Vec::new());
        for node in network.nodes_mut() {
            (node.computing, node.runs, node.module) = (None, PytorchRun::AsWritten, None);
        }
        network
    }

    /// Further networks that its file can be read as. Their memory is what is not known of this one's; everything else is this one's.
    pub fn other_readings(&self) -> &[Network] {
        &self.other_readings
    }

    /// The same network with further networks that its file can be read as.
    #[must_use]
    pub fn with_readings(mut self, others: Vec<Network>) -> Self {
        self.other_readings = others;
        self
    }
}
