//! A search: the state it goes on from, the best so far, and what comes next.

use super::chain::Chain;
use super::critical_path::CriticalPath;
use super::everything::Everything;
use super::tree::Tree;
use super::{Checkpoint, Fused, Move};
use perf4sight_base::words;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

words! {
    /// How states are searched.
    pub enum SearchMethod: "optimizer" {
        /// Each move along the critical path that makes the step shorter, until there is none.
        Dp = "dp",
        /// That, then random moves that are kept if they make the step shorter, sometimes if they do not.
        Mcmc = "mcmc",
        /// A tree of moves, of which those are tried that were the best or are the least known.
        Mcts = "mcts",
    }
}

/// How to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Search {
    /// The way.
    pub optimizer: SearchMethod,
    /// The same seed finds the same.
    pub seed: u64,
    /// Moves to evaluate: no more are begun when there are so many.
    pub moves: u64,
}

/// An evaluated move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visit {
    /// Its number, from 1.
    pub number: u64,
    /// Nanoseconds of the step in the state that the search goes on from.
    pub current: u64,
    /// Nanoseconds of the shortest step so far.
    pub best: u64,
}

/// A part of a search, which ends or goes on for ever.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) enum Phase {
    Everything(Everything),
    CriticalPath(CriticalPath),
    Chain(Chain),
    Tree(Tree),
    #[default]
    Ended,
}

/// A search under way.
#[derive(Debug, Clone)]
pub struct Walk<'a> {
    search: Search,
    /// The state without moves.
    pub(super) start: Fused<'a>,
    /// All moves that fuse two units.
    pub(super) pairs: Vec<Move>,
    /// The state that it goes on from.
    pub(super) state: Fused<'a>,
    best: Fused<'a>,
    trajectory: Vec<Visit>,
    evaluated: u64,
    phase: Phase,
}

impl<'a> Walk<'a> {
    /// A search that begins.
    pub fn new(search: Search, start: &Fused<'a>) -> Self {
        let step = start.step();
        Walk {
            search,
            start: start.clone(),
            pairs: start.pairs(),
            state: start.clone(),
            best: start.clone(),
            trajectory: vec![Visit { number: 0, current: step, best: step }],
            evaluated: 0,
            phase: Everything::of(start).map_or_else(|| search.optimizer.phase(start), Phase::Everything),
        }
    }

    /// A search that goes on; none if the checkpoint is of another graph.
    pub fn resumed(search: Search, start: &Fused<'a>, from: Checkpoint) -> Option<Self> {
        Some(Walk {
            search,
            start: start.clone(),
            pairs: start.pairs(),
            state: start.after_moves(&from.state)?,
            best: start.after_moves(&from.best)?,
            trajectory: from.trajectory,
            evaluated: from.evaluated,
            phase: from.phase,
        })
    }

    /// What it takes to go on later.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            evaluated: self.evaluated,
            state: self.state.made().to_vec(),
            best: self.best.made().to_vec(),
            trajectory: self.trajectory.clone(),
            phase: self.phase.clone(),
        }
    }

    /// Searches on as long as `go_on` says so.
    pub fn run(&mut self, go_on: &mut dyn FnMut(&Self) -> bool) {
        while !self.has_ended() && go_on(self) {
            let phase = std::mem::take(&mut self.phase);
            self.phase = phase.step(self);
        }
    }

    /// Whether nothing is left to do.
    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Ended || self.evaluated >= self.search.moves
    }

    /// The state with the shortest step; the first one if none is shorter.
    pub fn best(&self) -> &Fused<'a> {
        &self.best
    }

    /// What happened when a move was kept.
    pub fn trajectory(&self) -> &[Visit] {
        &self.trajectory
    }

    /// Moves that were evaluated.
    pub fn evaluated(&self) -> u64 {
        self.evaluated
    }

    /// The state after a move; none if the move cannot be made.
    pub(super) fn evaluate(&mut self, mut state: Fused<'a>, made: Move) -> Option<Fused<'a>> {
        self.evaluated += 1;
        if !state.apply(made) {
            return None;
        }
        let step = state.step();
        if step < self.best.step() {
            self.best = state.clone();
            self.note(step);
        }
        Some(state)
    }

    /// Goes on from a state.
    pub(super) fn go_on_from(&mut self, state: Fused<'a>) {
        self.note(state.step());
        self.state = state;
    }

    /// Notes the step of a state that is the best, or that the search goes on from; once for a move.
    pub(super) fn note(&mut self, step: u64) {
        if self.trajectory.last().is_none_or(|last| last.number != self.evaluated) {
            self.trajectory.push(Visit { number: self.evaluated, current: step, best: self.best.step() });
        }
    }

    /// Draws that depend on the seed and the number of the move alone.
    pub(super) fn draws(&self) -> Xoshiro256PlusPlus {
        self.draws_of(self.evaluated)
    }

    /// Draws that depend on the seed and this number alone.
    pub(super) fn draws_of(&self, number: u64) -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(self.search.seed.rotate_left(32) ^ number)
    }
}

impl SearchMethod {
    /// What it begins with.
    fn phase(self, start: &Fused<'_>) -> Phase {
        match self {
            SearchMethod::Dp | SearchMethod::Mcmc => Phase::CriticalPath(CriticalPath::of(start)),
            SearchMethod::Mcts => Phase::Tree(Tree::of(start)),
        }
    }
}

impl Phase {
    /// One step; what comes next.
    fn step(self, walk: &mut Walk<'_>) -> Self {
        let optimizer = walk.search.optimizer;
        match self {
            Phase::Everything(mut all) => match all.step(walk) {
                true => Phase::Everything(all),
                false => optimizer.phase(&walk.start),
            },
            Phase::CriticalPath(mut path) => match path.step(walk) {
                true => Phase::CriticalPath(path),
                false if optimizer == SearchMethod::Mcmc => Chain::of(walk).map_or(Phase::Ended, Phase::Chain),
                false => Phase::Ended,
            },
            Phase::Chain(mut chain) => {
                chain.step(walk);
                Phase::Chain(chain)
            }
            Phase::Tree(mut tree) => match tree.step(walk) {
                true => Phase::Tree(tree),
                false => Phase::Ended,
            },
            Phase::Ended => Phase::Ended,
        }
    }
}
