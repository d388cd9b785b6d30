//! How states are searched: along the critical path, by Markov chain Monte Carlo, by Monte Carlo tree search.

use super::{Fused, Move};
use perf4sight_base::words;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeSet;

words! {
    /// How states are searched.
    pub enum Optimizer: "optimizer" {
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
    pub optimizer: Optimizer,
    /// The same seed finds the same.
    pub seed: u64,
    /// Moves that are evaluated at most.
    pub moves: u64,
}

/// An evaluated move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    /// Its number, from 1.
    pub number: u64,
    /// Nanoseconds of the step in the state that the search goes on from.
    pub current: u64,
    /// Nanoseconds of the shortest step so far.
    pub best: u64,
}

/// What a search found.
#[derive(Debug, Clone)]
pub struct Searched<'a> {
    /// The state with the shortest step; the first one if none is shorter.
    pub best: Fused<'a>,
    /// What happened when a move was kept.
    pub trajectory: Vec<Visit>,
    /// Moves that were evaluated.
    pub evaluated: u64,
    /// Whether it was interrupted.
    pub interrupted: bool,
}

/// Up to so many pairs of units that may be fused, everything that they can make is tried.
const FEW: usize = 12;
/// How seldom worse moves are kept: `exp(-beta ln(move) longer)`, as published, but with the mean time of a unit in place of milliseconds, so
/// that it does not depend on how long operations are.
const BETA: f64 = 0.3;
/// Moves for each pair, without a shorter step than the best, after which the search begins again where nothing is fused,
/// at first with many worse moves.
const IDLE: u64 = 40;
/// How much the tree search prefers what it knows little of (`ucb_gamma`).
const GAMMA: f64 = 0.1;
/// Random moves behind a new node of the tree before it is judged.
const ROLLOUT: usize = 16;

impl Search {
    /// Searches from a state; `go_on` learns of each evaluated move, and ends the search with false.
    pub fn run<'a>(&self, start: Fused<'a>, go_on: &mut dyn FnMut(Visit) -> bool) -> Searched<'a> {
        let mut run = Run {
            search: *self,
            pairs: start.pairs(),
            first: start.step(),
            best: start.clone(),
            best_step: start.step(),
            trajectory: vec![Visit { number: 0, current: start.step(), best: start.step() }],
            evaluated: 0,
            interrupted: false,
            go_on,
        };
        if run.pairs.len() <= FEW {
            run.everything(start.clone());
        }
        match self.optimizer {
            Optimizer::Dp => drop(run.along_critical_path(start)),
            Optimizer::Mcmc => {
                let state = run.along_critical_path(start.clone());
                run.chain(state, &start);
            }
            Optimizer::Mcts => run.tree(start),
        }
        let Run { best, trajectory, evaluated, interrupted, .. } = run;
        Searched { best, trajectory, evaluated, interrupted }
    }
}

struct Run<'a, 'w> {
    search: Search,
    /// All moves that fuse two units.
    pairs: Vec<Move>,
    first: u64,
    best: Fused<'a>,
    best_step: u64,
    trajectory: Vec<Visit>,
    evaluated: u64,
    interrupted: bool,
    go_on: &'w mut dyn FnMut(Visit) -> bool,
}

impl<'a> Run<'a, '_> {
    fn is_over(&self) -> bool {
        self.interrupted || self.evaluated >= self.search.moves
    }

    /// The state after a move, and its step; none if the move cannot be made.
    fn evaluate(&mut self, state: &Fused<'a>, made: Move) -> Option<(Fused<'a>, u64)> {
        let mut next = state.clone();
        let done = next.apply(made);
        self.evaluated += 1;
        let visit = Visit { number: self.evaluated, current: state.step(), best: self.best_step };
        self.interrupted |= !(self.go_on)(visit);
        if !done {
            return None;
        }
        let step = next.step();
        if step < self.best_step {
            (self.best, self.best_step) = (next.clone(), step);
            self.keep(step);
        }
        Some((next, step))
    }

    /// Notes a state that is the best, or that the search goes on from; once for a move.
    fn keep(&mut self, step: u64) {
        if self.trajectory.last().is_some_and(|last| last.number == self.evaluated) {
            return;
        }
        self.trajectory.push(Visit { number: self.evaluated, current: step, best: self.best_step });
    }

    /// All states that fusing leads to.
    fn everything(&mut self, start: Fused<'a>) {
        let pairs = self.pairs.clone();
        let mut seen = BTreeSet::new();
        let mut open = vec![start];
        while let Some(state) = open.pop() {
            for made in &pairs {
                if self.is_over() {
                    return;
                }
                let next = self.evaluate(&state, *made).map(|(next, _)| next);
                open.extend(next.filter(|next| seen.insert(next.groups())));
            }
        }
    }

    /// Makes each move that shortens the step, the earliest on the critical path first.
    fn along_critical_path(&mut self, mut state: Fused<'a>) -> Fused<'a> {
        let mut step = state.step();
        loop {
            let before = step;
            for made in state.moves() {
                if self.is_over() {
                    return state;
                }
                if let Some((next, time)) = self.evaluate(&state, made).filter(|(_, time)| *time < step) {
                    (state, step) = (next, time);
                    self.keep(step);
                }
            }
            if step == before {
                return state;
            }
        }
    }

    /// Random moves, one or several at once; worse ones are kept with a probability that falls with the number of moves.
    fn chain(&mut self, mut state: Fused<'a>, start: &Fused<'a>) {
        let mut step = state.step();
        let pairs = self.pairs.clone();
        let idle = IDLE * pairs.len() as u64;
        let (mut best, mut since, mut begun) = (self.best_step, self.evaluated, 0);
        while !pairs.is_empty() && !self.is_over() {
            if self.best_step < best {
                (best, since) = (self.best_step, self.evaluated);
            } else if self.evaluated - since > idle {
                (state, step, since, begun) = (start.clone(), start.step(), self.evaluated, self.evaluated);
            }
            let mut draws = self.draws();
            let Some((next, time)) = self.jump(&state, &pairs, &mut draws) else { continue };
            let longer = (time as f64 - step as f64) / start.mean_time();
            let chance = (-BETA * ((self.evaluated - begun) as f64).ln() * longer).exp();
            if draws.random::<f64>() < chance {
                (state, step) = (next, time);
                self.keep(step);
            }
        }
    }

    /// Some random moves one after the other: of all, or of those on the critical path.
    fn jump(&mut self, state: &Fused<'a>, pairs: &[Move], draws: &mut Xoshiro256PlusPlus) -> Option<(Fused<'a>, u64)> {
        let mut reached: Option<(Fused<'a>, u64)> = None;
        loop {
            let from = reached.as_ref().map_or(state, |(state, _)| state);
            let critical = if draws.random::<bool>() { from.moves() } else { Vec::new() };
            let moves = if critical.is_empty() { pairs } else { &critical };
            let made = moves[draws.random_range(0..moves.len())];
            let next = self.evaluate(from, made);
            reached = next.or(reached);
            if draws.random::<bool>() || self.is_over() {
                return reached;
            }
        }
    }

    /// Draws that depend on the seed and the number of the move alone.
    fn draws(&self) -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(self.search.seed.rotate_left(32) ^ self.evaluated)
    }

    fn tree(&mut self, start: Fused<'a>) {
        let mut tree = vec![Node::new(None, &start)];
        while !(self.is_over() || tree[0].is_exhausted()) {
            let (leaf, state) = self.grow(&mut tree, &start);
            let step = self.roll_out(state);
            let reward = (self.first as f64 - step as f64) / self.first.max(1) as f64;
            let mut node = Some(leaf);
            while let Some(place) = node {
                tree[place].visits += 1.0;
                tree[place].quality += reward;
                node = tree[place].parent.map(|(parent, _)| parent);
            }
        }
    }

    /// Follows the best children to one with a move that nobody tried, and tries it.
    fn grow(&mut self, tree: &mut Vec<Node>, start: &Fused<'a>) -> (usize, Fused<'a>) {
        let (mut place, mut state) = (0, start.clone());
        while tree[place].untried.is_empty() {
            let Some(child) = best_child(tree, place) else { return (place, state) };
            let made = tree[child].parent.map(|(_, made)| made);
            made.into_iter().for_each(|made| {
                state.apply(made);
            });
            place = child;
        }
        let mut draws = self.draws();
        let untried = &mut tree[place].untried;
        let made = untried.swap_remove(draws.random_range(0..untried.len()));
        match self.evaluate(&state, made) {
            Some((next, step)) => {
                self.keep(step);
                let child = tree.len();
                tree.push(Node::new(Some((place, made)), &next));
                tree[place].children.push(child);
                (child, next)
            }
            None => (place, state),
        }
    }

    /// The step after some random moves that can be made, at most that before them.
    fn roll_out(&mut self, mut state: Fused<'a>) -> u64 {
        let mut shortest = state.step();
        for _ in 0..ROLLOUT {
            if self.pairs.is_empty() || self.is_over() {
                break;
            }
            let made = self.pairs[self.draws().random_range(0..self.pairs.len())];
            if let Some((next, step)) = self.evaluate(&state, made) {
                (state, shortest) = (next, shortest.min(step));
            }
        }
        shortest
    }
}

/// A state in the tree: how it is made of another, and what came of it.
struct Node {
    parent: Option<(usize, Move)>,
    children: Vec<usize>,
    untried: Vec<Move>,
    visits: f64,
    quality: f64,
}

impl Node {
    fn new(parent: Option<(usize, Move)>, state: &Fused<'_>) -> Self {
        Node { parent, children: Vec::new(), untried: state.moves(), visits: 1.0, quality: 0.0 }
    }

    fn is_exhausted(&self) -> bool {
        self.untried.is_empty() && self.children.is_empty()
    }
}

/// The child with the best mean reward and the fewest visits (UCB1).
fn best_child(tree: &[Node], place: usize) -> Option<usize> {
    let total = 2.0 * tree[place].visits.ln();
    let value = |child: &usize| {
        let node = &tree[*child];
        node.quality / node.visits + GAMMA * (total / node.visits).sqrt()
    };
    tree[place].children.iter().copied().max_by(|one, other| value(one).total_cmp(&value(other)))
}
