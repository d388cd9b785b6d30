//! Random moves, one or several at once (Markov chain Monte Carlo); worse ones are kept with a probability that falls with
//! the number of moves.

use super::FusionState;
use super::walk::SearchWalk;
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

/// How seldom worse moves are kept: `exp(-beta ln(move) longer)`, as published, but with the mean time of a unit in place of milliseconds, so
/// that it does not depend on how long operations are.
const BETA: f64 = 0.3;
/// Moves for each pair, without a shorter step than the best, after which the search begins again where nothing is fused,
/// at first with many worse moves.
const IDLE: u64 = 40;

/// Where the chain is; all moves are numbered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SearchChain {
    /// The move at which it began, or began again.
    begun: u64,
    /// The move at which the best step got shorter, or at which it began again.
    since: u64,
    /// Nanoseconds of the best step then.
    best: u64,
}

impl SearchChain {
    /// A chain from where a search is; none if nothing may be fused.
    pub fn from_walk(walk: &SearchWalk<'_>) -> Option<Self> {
        let chain = SearchChain { begun: 0, since: walk.evaluated(), best: walk.best_state().step() };
        (!walk.pairs.is_empty()).then_some(chain)
    }

    /// Tries some moves at once.
    pub fn step(&mut self, walk: &mut SearchWalk<'_>) {
        if walk.best_state().step() < self.best {
            (self.best, self.since) = (walk.best_state().step(), walk.evaluated());
        } else if walk.evaluated() - self.since > IDLE * walk.pairs.len() as u64 {
            (self.since, self.begun) = (walk.evaluated(), walk.evaluated());
            walk.state = walk.start.clone();
        }
        let mut draws = walk.draws();
        let Some(next) = jump(walk, &mut draws) else { return };
        let longer = (next.step() as f64 - walk.state.step() as f64) / walk.start.mean_time();
        let chance = (-BETA * ((walk.evaluated() - self.begun) as f64).ln() * longer).exp();
        if draws.random::<f64>() < chance {
            walk.go_on_from(next);
        }
    }
}

/// Some random moves one after the other: of all, or of those on the critical path.
fn jump<'a>(walk: &mut SearchWalk<'a>, draws: &mut Xoshiro256PlusPlus) -> Option<FusionState<'a>> {
    let mut reached: Option<FusionState<'a>> = None;
    loop {
        let from = reached.as_ref().unwrap_or(&walk.state).clone();
        let critical = if draws.random::<bool>() { from.candidate_moves() } else { Vec::new() };
        let moves = if critical.is_empty() { &walk.pairs } else { &critical };
        let made = moves[draws.random_range(0..moves.len())];
        reached = walk.evaluate(from, made).or(reached);
        if draws.random::<bool>() {
            return reached;
        }
    }
}
