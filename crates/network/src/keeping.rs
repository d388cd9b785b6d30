//! What a module may keep for backward, where the file that its network was read from cannot tell.
//!
//! A file holds operations, not the code that made them: whether an activation is one operator of PyTorch or several, whether it
//! overwrites its input, which results a variable still holds. So the same file can be read as networks of different memory.

use super::graph::Network;

/// What a reading of a file keeps for backward, of what the file leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keeping {
    /// What is likeliest.
    #[default]
    Likely,
    /// The least: what may be one operator is one, what may overwrite its input does.
    Least,
    /// The most: what the program may have written step by step, it did.
    Most,
}

impl Network {
    /// What it keeps for backward, of what its file leaves open.
    pub fn keeping(&self) -> Keeping {
        self.keeping
    }

    /// The same network, as the reading of its file that keeps so much.
    #[must_use]
    pub fn as_keeping(mut self, keeping: Keeping) -> Self {
        self.keeping = keeping;
        self
    }

    /// The same network as a file made from it has it, which holds operations alone: without what its module's code keeps.
    #[must_use]
    pub fn as_written(&self) -> Self {
        let mut network = self.clone().with_readings(Vec::new());
        for node in network.nodes_mut() {
            (node.computing, node.fused, node.module) = (0, false, None);
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
