//! Each move along the critical path that makes the step shorter, the earliest first, until there is none.

use super::walk::SearchWalk;
use super::{FusionMove, FusionState};
use serde::{Deserialize, Serialize};

/// The moves of the critical path that are not tried yet, the next one last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CriticalPathSearch {
    ahead: Vec<FusionMove>,
    /// Nanoseconds of the step when this critical path was found.
    before: u64,
}

impl CriticalPathSearch {
    pub fn from_state(state: &FusionState<'_>) -> Self {
        let mut ahead = state.candidate_moves();
        ahead.reverse();
        CriticalPathSearch { ahead, before: state.step() }
    }

    /// Tries the next move; false if a whole critical path has none that makes the step shorter.
    pub fn step(&mut self, walk: &mut SearchWalk<'_>) -> bool {
        let Some(made) = self.ahead.pop() else {
            let is_shorter = walk.state.step() < self.before;
            *self = CriticalPathSearch::from_state(&walk.state);
            return is_shorter;
        };
        let step = walk.state.step();
        if let Some(next) = walk.evaluate(walk.state.clone(), made).filter(|next| next.step() < step) {
            walk.go_on_from(next);
        }
        true
    }
}
