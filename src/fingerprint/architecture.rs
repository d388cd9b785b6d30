//! Which networks are one another's levels.

use crate::checksum::checksum;
use crate::network::Network;

/// What the layers of a network are, whatever their sizes: networks that were pruned from one another have this in common.
pub(super) fn architecture(network: &Network) -> String {
    checksum(network.nodes().iter().flat_map(|node| node.op.kind().bytes().chain([node.inputs.len() as u8])))
}
