//! Everything that fusing can make, where that is little.

use super::walk::SearchWalk;
use super::{FusionMove, FusionState};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Up to so many pairs of units that may be fused, everything that they can make is tried.
const FEW: usize = 12;

/// The states that are not yet followed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ExhaustiveSearch {
    open: Vec<Vec<FusionMove>>,
    seen: BTreeSet<Vec<Vec<u32>>>,
}

impl ExhaustiveSearch {
    /// All states behind the first one; none if these may be too many.
    pub fn from_start(start: &FusionState<'_>) -> Option<Self> {
        (start.pairs().len() <= FEW).then(|| ExhaustiveSearch { open: vec![Vec::new()], seen: BTreeSet::new() })
    }

    /// Tries all pairs in one state; false if there is no state left.
    pub fn step(&mut self, walk: &mut SearchWalk<'_>) -> bool {
        let Some(moves) = self.open.pop() else { return false };
        let Some(state) = walk.start.after_moves(&moves) else { return true };
        for made in walk.pairs.clone() {
            let next = walk.evaluate(state.clone(), made);
            let next = next.filter(|next| self.seen.insert(next.groups()));
            self.open.extend(next.map(|next| next.moves_made().to_vec()));
        }
        true
    }
}
