//! The reasons why channels cannot be pruned, as text for a table.

use std::fmt;
use std::sync::Arc;

/// Why channels cannot be pruned. Many share a reason, so its text is shared too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnprunableReason {
    /// They are the network's input.
    Input,
    /// They are the network's result, such as a classifier's outputs.
    Result,
    /// They enter a matrix product, as in attention.
    MatrixProduct(Arc<str>),
    /// They enter an operation that this crate does not support: its node and its kind.
    Unknown(Arc<str>, Arc<str>),
    /// They are those of a recurrent layer or of its input.
    Recurrent(Arc<str>),
    /// A node combines them with a tensor of fixed size.
    FixedPartner(Arc<str>),
    /// A node uses them as something else than channels, or splits them where no rule can follow.
    Mixed(Arc<str>),
    /// The network has more channels than can be followed, from this node on.
    TooMany(Arc<str>),
    /// The caller keeps the channels of this layer.
    Asked(Arc<str>),
    /// They contain no filter of a convolution and no output of a fully connected layer over tokens; only those are
    /// ranked.
    NoFilter,
}

impl fmt::Display for UnprunableReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnprunableReason::Input => write!(f, "network input"),
            UnprunableReason::Result => write!(f, "network result (classifier)"),
            UnprunableReason::MatrixProduct(at) => write!(f, "enters the matrix product {at} (attention)"),
            UnprunableReason::Unknown(at, kind) => write!(f, "enters the unknown operation {kind} at {at}"),
            UnprunableReason::Recurrent(at) => write!(f, "{at} is a recurrent layer, which keeps its sizes"),
            UnprunableReason::FixedPartner(at) => write!(f, "combined at {at} with a tensor of fixed size"),
            UnprunableReason::Mixed(at) => write!(f, "not separable at {at}"),
            UnprunableReason::TooMany(at) => write!(f, "more channels than any network has, not followed from {at} on"),
            UnprunableReason::Asked(at) => write!(f, "{at} keeps all its channels"),
            UnprunableReason::NoFilter => {
                write!(f, "made by no convolution and no fully connected layer over tokens: others are not ranked")
            }
        }
    }
}
