//! A search: the state it goes on from, the best so far, and what comes next.

use super::chain::SearchChain;
use super::critical_path::CriticalPathSearch;
use super::everything::ExhaustiveSearch;
use super::tree::SearchTree;
use super::{FusionMove, FusionState, SearchCheckpoint};
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
pub struct SearchOptions {
    /// The way.
    pub optimizer: SearchMethod,
    /// The same seed finds the same.
    pub seed: u64,
    /// Moves to evaluate: no more are begun when there are so many.
    pub moves: u64,
}

/// An evaluated move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluatedMove {
    /// Its number, from 1.
    pub number: u64,
    /// Nanoseconds of the step in the state that the search goes on from.
    pub current: u64,
    /// Nanoseconds of the shortest step so far.
    pub best: u64,
}

/// A part of a search, which ends or goes on for ever.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) enum SearchPhase {
    Everything(ExhaustiveSearch),
    CriticalPath(CriticalPathSearch),
    Chain(SearchChain),
    Tree(SearchTree),
    #[default]
    Ended,
}

/// A search under way.
#[derive(Debug, Clone)]
pub struct SearchWalk<'a> {
    search: SearchOptions,
    /// The state without moves.
    pub(super) start: FusionState<'a>,
    /// All moves that fuse two units.
    pub(super) pairs: Vec<FusionMove>,
    /// The state that it goes on from.
    pub(super) state: FusionState<'a>,
    best: FusionState<'a>,
    trajectory: Vec<EvaluatedMove>,
    evaluated: u64,
    phase: SearchPhase,
}

impl<'a> SearchWalk<'a> {
    /// A search that begins.
    pub fn new(search: SearchOptions, start: &FusionState<'a>) -> Self {
        let step = start.step();
        SearchWalk {
            search,
            start: start.clone(),
            pairs: start.pairs(),
            state: start.clone(),
            best: start.clone(),
            trajectory: vec![EvaluatedMove { number: 0, current: step, best: step }],
            evaluated: 0,
            phase: ExhaustiveSearch::from_start(start)
                .map_or_else(|| search.optimizer.phase(start), SearchPhase::Everything),
        }
    }

    /// A search that goes on; none if the checkpoint is of another graph.
    pub fn resumed(search: SearchOptions, start: &FusionState<'a>, from: SearchCheckpoint) -> Option<Self> {
        Some(SearchWalk {
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
    pub fn checkpoint(&self) -> SearchCheckpoint {
        SearchCheckpoint {
            evaluated: self.evaluated,
            state: self.state.moves_made().to_vec(),
            best: self.best.moves_made().to_vec(),
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
        self.phase == SearchPhase::Ended || self.evaluated >= self.search.moves
    }

    /// The state with the shortest step; the first one if none is shorter.
    pub fn best_state(&self) -> &FusionState<'a> {
        &self.best
    }

    /// What happened when a move was kept.
    pub fn trajectory(&self) -> &[EvaluatedMove] {
        &self.trajectory
    }

    /// Moves that were evaluated.
    pub fn evaluated(&self) -> u64 {
        self.evaluated
    }

    /// The state after a move; none if the move cannot be made.
    pub(super) fn evaluate(&mut self, mut state: FusionState<'a>, made: FusionMove) -> Option<FusionState<'a>> {
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
    pub(super) fn go_on_from(&mut self, state: FusionState<'a>) {
        self.note(state.step());
        self.state = state;
    }

    /// Notes the step of a state that is the best, or that the search goes on from; once for a move.
    pub(super) fn note(&mut self, step: u64) {
        if self.trajectory.last().is_none_or(|last| last.number != self.evaluated) {
            self.trajectory.push(EvaluatedMove { number: self.evaluated, current: step, best: self.best.step() });
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
    fn phase(self, start: &FusionState<'_>) -> SearchPhase {
        match self {
            SearchMethod::Dp | SearchMethod::Mcmc => SearchPhase::CriticalPath(CriticalPathSearch::from_state(start)),
            SearchMethod::Mcts => SearchPhase::Tree(SearchTree::from_start(start)),
        }
    }
}

impl SearchPhase {
    /// One step; what comes next.
    fn step(self, walk: &mut SearchWalk<'_>) -> Self {
        let optimizer = walk.search.optimizer;
        match self {
            SearchPhase::Everything(mut all) => match all.step(walk) {
                true => SearchPhase::Everything(all),
                false => optimizer.phase(&walk.start),
            },
            SearchPhase::CriticalPath(mut path) => match path.step(walk) {
                true => SearchPhase::CriticalPath(path),
                false if optimizer == SearchMethod::Mcmc => {
                    SearchChain::from_walk(walk).map_or(SearchPhase::Ended, SearchPhase::Chain)
                }
                false => SearchPhase::Ended,
            },
            SearchPhase::Chain(mut chain) => {
                chain.step(walk);
                SearchPhase::Chain(chain)
            }
            SearchPhase::Tree(mut tree) => match tree.step(walk) {
                true => SearchPhase::Tree(tree),
                false => SearchPhase::Ended,
            },
            SearchPhase::Ended => SearchPhase::Ended,
        }
    }
}
