//! A fitted forest: its nodes, predictions and feature importance.

use super::ExtraTrees;
use super::goes_left;
use super::grow::{self, TrainingSet};
use super::packed::PackedForest;
use linfa::traits::PredictInplace;
use ndarray::{Array1, ArrayBase, Data, Ix2};
use rand::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::hint::select_unpredictable;

/// One node. A tree's nodes are stored in pre-order, so the left child of a split is the next node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum TreeNode {
    /// Rows whose `feature` satisfies the threshold go left.
    Split {
        feature: u16,
        threshold: f32,
        /// Distance from this node to its right child, in nodes.
        right: u32,
    },
    /// The mean target of the rows that end here.
    Leaf(f64),
}

impl TreeNode {
    /// A split whose right child is not yet set.
    pub(super) fn split(feature: usize, threshold: f32) -> Self {
        // `TrainingSet::new` refuses more features than fit into 16 bits.
        TreeNode::Split { feature: feature as u16, threshold, right: 0 }
    }

    pub(super) fn set_right(&mut self, distance: usize) {
        if let TreeNode::Split { right, .. } = self {
            *right = distance as u32;
        }
    }
}

/// A fitted forest of regression trees; predicts the mean of its trees.
///
/// Saved (through serde) as packed arrays, see `packed.rs`; loading checks them, so a loaded forest always predicts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "PackedForest", into = "PackedForest")]
pub struct Forest {
    pub(super) nodes: Vec<TreeNode>,
    /// Index of each tree's first node.
    pub(super) roots: Vec<u32>,
    pub(super) importance: Vec<f64>,
}

impl Forest {
    /// Grows the trees, each from its own seed drawn from the forest's, so that the result does not depend on
    /// threads.
    pub(super) fn grow(rows: &TrainingSet, &ExtraTrees { trees, split, seed }: &ExtraTrees) -> Self {
        let mut seeder = Xoshiro256PlusPlus::seed_from_u64(seed);
        let seeds: Vec<u64> = (0..trees).map(|_| seeder.next_u64()).collect();
        let grown: Vec<grow::GrownTree> = seeds
            .into_par_iter()
            .map(|seed| grow::grow(rows, split, &mut Xoshiro256PlusPlus::seed_from_u64(seed)))
            .collect();
        let mut forest = Forest { nodes: Vec::new(), roots: Vec::new(), importance: vec![0.0; rows.features] };
        forest.nodes.reserve_exact(grown.iter().map(|tree| tree.nodes.len()).sum());
        for tree in &grown {
            forest.roots.push(forest.nodes.len() as u32);
            forest.nodes.extend_from_slice(&tree.nodes);
            for (total, share) in forest.importance.iter_mut().zip(&tree.importance) {
                *total += share / trees as f64;
            }
        }
        forest
    }

    /// How many features a row has.
    pub fn features(&self) -> usize {
        self.importance.len()
    }

    /// How many trees a prediction averages.
    pub fn trees(&self) -> usize {
        self.roots.len()
    }

    /// Splits and leaves of all trees.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Per feature, the share of the variance reduction it is responsible for (mean over trees; sums to 1, or to less
    /// where some trees never split).
    pub fn importance(&self) -> &[f64] {
        &self.importance
    }

    /// Prediction for one row.
    ///
    /// # Panics
    /// When the row does not have [`Forest::features`] values.
    pub fn predict_row(&self, row: &[f64]) -> f64 {
        assert_eq!(row.len(), self.features(), "a row has as many values as the forest has features");
        let row: Vec<f32> = row.iter().map(|&value| value as f32).collect();
        let sum: f64 = self.roots.iter().map(|&root| self.leaf(root as usize, &row)).sum();
        sum / self.trees() as f64
    }

    fn leaf(&self, mut at: usize, row: &[f32]) -> f64 {
        loop {
            match self.nodes[at] {
                TreeNode::Leaf(value) => return value,
                TreeNode::Split { feature, threshold, right } => {
                    // Branch prediction would fail half of the time, and a misprediction costs more than computing
                    // both addresses.
                    at += select_unpredictable(goes_left(row[feature as usize], threshold), 1, right as usize);
                }
            }
        }
    }
}

impl<D: Data<Elem = f64>> PredictInplace<ArrayBase<D, Ix2>, Array1<f64>> for Forest {
    fn predict_inplace<'a>(&'a self, rows: &'a ArrayBase<D, Ix2>, predictions: &mut Array1<f64>) {
        for (row, prediction) in rows.rows().into_iter().zip(predictions) {
            *prediction = self.predict_row(&row.to_vec());
        }
    }

    fn default_target(&self, rows: &ArrayBase<D, Ix2>) -> Array1<f64> {
        Array1::zeros(rows.nrows())
    }
}
