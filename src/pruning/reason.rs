//! Why channels cannot be pruned, in words for a table.

use std::fmt;

/// Why channels cannot be pruned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// They are the network's input.
    Input,
    /// They are the network's result, as a classifier's outputs are.
    Result,
    /// They enter a matrix product, as in attention.
    MatrixProduct(String),
    /// They enter an operation this crate does not know: its node and its kind.
    Unknown(String, String),
    /// A node combines them with a tensor of fixed size.
    FixedPartner(String),
    /// A node treats them as something else than channels, or splits them where no rule follows.
    Mixed(String),
    /// No convolution filter is among them, and only those are ranked.
    NoFilter,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Input => write!(f, "network input"),
            Reason::Result => write!(f, "network result (classifier)"),
            Reason::MatrixProduct(at) => write!(f, "enters the matrix product {at} (attention)"),
            Reason::Unknown(at, kind) => write!(f, "enters the unknown operation {kind} at {at}"),
            Reason::FixedPartner(at) => write!(f, "combined at {at} with a tensor of fixed size"),
            Reason::Mixed(at) => write!(f, "not separable at {at}"),
            Reason::NoFilter => write!(f, "no convolution filter: fully connected layers are not ranked"),
        }
    }
}
