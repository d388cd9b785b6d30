//! A tree of moves, of which those are tried that were the best or are the least known (Monte Carlo tree search).

use super::walk::SearchWalk;
use super::{FusionMove, FusionState};
use rand::Rng;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

/// How much what is little known is preferred (`ucb_gamma`).
const GAMMA: f64 = 0.1;
/// Random moves behind a new node before it is judged.
const ROLLOUT: usize = 16;

/// The nodes, the root first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SearchTree(Vec<SearchNode>);

/// A state in the tree: how it is made of another, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SearchNode {
    parent: Option<(usize, FusionMove)>,
    children: Vec<usize>,
    /// How many of its moves were not tried.
    untried: usize,
    visits: f64,
    quality: f64,
}

impl SearchTree {
    pub fn from_start(start: &FusionState<'_>) -> Self {
        SearchTree(vec![SearchNode::new(None, start)])
    }

    /// Tries a move, and judges it by random ones behind it; false if all are tried.
    pub fn step(&mut self, walk: &mut SearchWalk<'_>) -> bool {
        if self.0[0].untried == 0 && self.0[0].children.is_empty() {
            return false;
        }
        let (leaf, state) = self.grow(walk);
        let (first, step) = (walk.start.step(), roll_out(walk, state));
        let reward = (first as f64 - step as f64) / first.max(1) as f64;
        let mut node = Some(leaf);
        while let Some(place) = node {
            self.0[place].visits += 1.0;
            self.0[place].quality += reward;
            node = self.0[place].parent.map(|(parent, _)| parent);
        }
        true
    }

    /// Follows the best children to one with a move that nobody tried, and tries it.
    fn grow<'a>(&mut self, walk: &mut SearchWalk<'a>) -> (usize, FusionState<'a>) {
        let (mut place, mut state) = (0, walk.start.clone());
        while self.0[place].untried == 0 {
            let Some((child, made)) = self.best_child(place) else { return (place, state) };
            state.apply(made);
            place = child;
        }
        let Some(made) = self.next_move(place, &state, walk) else { return (place, state) };
        match walk.evaluate(state.clone(), made) {
            Some(next) => {
                walk.note(next.step());
                let child = self.0.len();
                self.0.push(SearchNode::new(Some((place, made)), &next));
                self.0[place].children.push(child);
                (child, next)
            }
            None => (place, state),
        }
    }

    /// A move of a node that was not tried, in an order that its number alone decides.
    fn next_move(&mut self, place: usize, state: &FusionState<'_>, walk: &SearchWalk<'_>) -> Option<FusionMove> {
        let mut moves = state.candidate_moves();
        moves.shuffle(&mut walk.draws_of(place as u64));
        self.0[place].untried -= 1;
        moves.get(self.0[place].untried).copied()
    }

    /// The child with the best mean reward and the fewest visits (UCB1), and its move.
    fn best_child(&self, place: usize) -> Option<(usize, FusionMove)> {
        let total = 2.0 * self.0[place].visits.ln();
        let value = |child: &usize| {
            let node = &self.0[*child];
            node.quality / node.visits + GAMMA * (total / node.visits).sqrt()
        };
        let best = self.0[place].children.iter().copied().max_by(|one, other| value(one).total_cmp(&value(other)))?;
        self.0[best].parent.map(|(_, made)| (best, made))
    }
}

/// The step after some random moves that can be made, at most that before them.
fn roll_out<'a>(walk: &mut SearchWalk<'a>, mut state: FusionState<'a>) -> u64 {
    let mut shortest = state.step();
    for _ in 0..ROLLOUT {
        if walk.pairs.is_empty() {
            break;
        }
        let made = walk.pairs[walk.draws().random_range(0..walk.pairs.len())];
        if let Some(next) = walk.evaluate(state.clone(), made) {
            shortest = shortest.min(next.step());
            state = next;
        }
    }
    shortest
}

impl SearchNode {
    fn new(parent: Option<(usize, FusionMove)>, state: &FusionState<'_>) -> Self {
        SearchNode { parent, children: Vec::new(), untried: state.candidate_moves().len(), visits: 1.0, quality: 0.0 }
    }
}
