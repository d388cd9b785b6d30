//! Disjoint sets of channels, some of which may not shrink.

use super::reason::UnprunableReason;

/// Sets of channels that stay or go together; a set with a reason stays.
#[derive(Default)]
pub(super) struct ChannelUnion {
    parent: Vec<u32>,
    /// At the root of a set: why it cannot be pruned, as an index into `reasons`; the first reason found is kept.
    fixed: Vec<Option<u32>>,
    reasons: Vec<UnprunableReason>,
}

impl ChannelUnion {
    /// Adds `count` new channels, each in a separate set.
    pub fn add_channels(&mut self, count: usize) -> std::ops::Range<u32> {
        let start = self.parent.len() as u32;
        let end = start + count as u32;
        self.parent.extend(start..end);
        self.fixed.resize(end as usize, None);
        start..end
    }

    /// The representative of the set of `channel`.
    pub fn find(&mut self, mut channel: u32) -> u32 {
        while self.parent[channel as usize] != channel {
            let grandparent = self.parent[self.parent[channel as usize] as usize];
            self.parent[channel as usize] = grandparent;
            channel = grandparent;
        }
        channel
    }

    /// Joins two sets; the older channel represents both, so that the result does not depend on the order of joins.
    pub fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        let (old, new) = (a.min(b), a.max(b));
        self.parent[new as usize] = old;
        let reason = self.fixed[old as usize].or(self.fixed[new as usize]);
        self.fixed[old as usize] = reason;
    }

    pub fn join_all(&mut self, a: &[u32], b: &[u32]) {
        a.iter().zip(b).for_each(|(&a, &b)| self.join(a, b));
    }

    /// Forbids pruning any of `channels`.
    pub fn fix(&mut self, channels: &[u32], reason: UnprunableReason) {
        let index = self.reasons.len() as u32;
        self.reasons.push(reason);
        for &channel in channels {
            let root = self.find(channel) as usize;
            self.fixed[root].get_or_insert(index);
        }
    }

    /// Why the set of `channel` cannot be pruned.
    pub fn reason(&mut self, channel: u32) -> Option<&UnprunableReason> {
        let root = self.find(channel) as usize;
        self.fixed[root].map(|index| &self.reasons[index as usize])
    }
}
