//! The layer graph of a network: operations, shapes, parameters, MACs and bytes for any batch size.

#![warn(missing_docs)]

mod autocast;
mod canonical;
mod checkpoint;
mod classes;
mod contents;
mod cost;
mod coverage;
mod followed;
mod frozen;
mod gradients;
mod graph;
mod in_place;
mod keeping;
pub mod op;
mod shape;
mod trained;
mod variables;
pub mod zoo;

pub use autocast::NumberTypes;
pub use checkpoint::CheckpointSegment;
pub use contents::InputContents;
pub use coverage::{OperationCoverage, UnsupportedOperation};
pub use followed::{BorrowedMemory, ChannelsLast, FollowedModule, FollowedPass, OperatorKind};
pub use graph::{Network, NetworkBuilder, Node, NodeId};
pub use in_place::may_overwrite;
pub use keeping::{ComputedWeight, KeptReading, PytorchRun};
pub use op::{
    Activation, Affine, ArgMax, AuxiliaryResult, BackwardNeeds, BackwardTraffic, BatchLayout, BinaryFunction,
    ChannelCoupling, Conv, ConvTranspose, ElementKind, Embedding, Fold, GradientFlow, GridSample, Interpolation,
    Linear, MemoryTraffic, NetworkInput, Op, OperationFacts, OperationNature, OriginalOperand, OriginalOperation,
    OutsideValues, PaddingFill, PickedElements, Recurrent, RecurrentKind, ReductionKind, ResultStorage, TopK,
    TrainedTensor, UnknownOperation, VolumeWindow, WeightSpans, Window,
};
pub use shape::{MAX_ELEMENTS, Shape};
pub use trained::{TrainedNetwork, TrainedNetworks};
