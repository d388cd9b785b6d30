//! Each move along the critical path that makes the step shorter, the earliest first, until there is none.

use super::walk::Walk;
use super::{Fused, Move};
use serde::{Deserialize, Serialize};

/// The moves of the critical path that are not tried yet, the next one last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CriticalPath {
    ahead: Vec<Move>,
    /// Nanoseconds of the step when this critical path was found.
    before: u64,
}

impl CriticalPath {
    pub fn of(state: &Fused<'_>) -> Self {
        let mut ahead = state.moves();
        ahead.reverse();
        CriticalPath { ahead, before: state.step() }
    }

    /// Tries the next move; false if a whole critical path has none that makes the step shorter.
    pub fn step(&mut self, walk: &mut Walk<'_>) -> bool {
        let Some(made) = self.ahead.pop() else {
            let is_shorter = walk.state.step() < self.before;
            *self = CriticalPath::of(&walk.state);
            return is_shorter;
        };
        let step = walk.state.step();
        if let Some(next) = walk.evaluate(walk.state.clone(), made).filter(|next| next.step() < step) {
            walk.go_on_from(next);
        }
        true
    }
}
