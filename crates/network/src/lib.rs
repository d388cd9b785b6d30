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

pub use autocast::Numbers;
pub use checkpoint::Segment;
pub use contents::Contents;
pub use coverage::{Coverage, Missed};
pub use followed::{Borrows, ChannelsLast, Followed, FollowedPass, Kernels};
pub use graph::{Network, NetworkBuilder, Node, NodeId};
pub use in_place::may_overwrite;
pub use keeping::{Computing, Keeping, Runs};
pub use op::{
    Activation, Affine, ArgMax, Auxiliary, Backward, Beyond, Binary, Cell, Conv, ConvTranspose, Coupling, Element,
    Embedding, Facts, Fill, Fold, Gradient, GridSample, Input, Interpolation, Layout, Linear, Nature, Needs, Op,
    Operand, Original, Pick, Recurrent, Reduction, Spans, Storage, TopK, Traffic, Unknown, Volume, Weight, Window,
};
pub use shape::{MAX_ELEMENTS, Shape};
pub use trained::{Trained, Trainings};
