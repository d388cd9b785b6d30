//! Grows one tree: scans a node's rows, draws a threshold per feature, takes the best split, partitions in place.

use super::forest::TreeNode;
use super::goes_left;
use ndarray::ArrayView2;
use perf4sight_base::error::{Error, Result};
use rand::Rng;
use std::ops::Range;

/// The rows a forest is fitted on, features row by row so that a scan processes all features of a row at once.
pub(super) struct TrainingSet {
    pub(super) features: usize,
    values: Vec<f32>,
    targets: Vec<f64>,
}

impl TrainingSet {
    /// Checks and stores a matrix of one row per target.
    pub(super) fn new(matrix: ArrayView2<f64>, targets: Vec<f64>) -> Result<Self> {
        let (rows, features) = matrix.dim();
        if rows != targets.len() || rows == 0 || rows > u32::MAX as usize {
            return Err(Error::input(format!("{rows} rows with {} targets", targets.len()))
                .expected("as many targets as rows, at least one"));
        }
        if features == 0 || features > u16::MAX as usize {
            return Err(Error::input(format!("{features} features")).expected("1 to 65,535 features"));
        }
        let values: Vec<f32> = matrix.iter().map(|&value| value as f32).collect();
        let finite = values.iter().all(|value| value.is_finite()) && targets.iter().all(|target| target.is_finite());
        if !finite {
            return Err(Error::input("a feature or target is not a number, infinite or beyond single precision"));
        }
        Ok(TrainingSet { features, values, targets })
    }

    fn row(&self, row: u32) -> &[f32] {
        &self.values[row as usize * self.features..][..self.features]
    }
}

pub(super) struct GrownTree {
    pub(super) nodes: Vec<TreeNode>,
    /// Per feature, the share of this tree's variance reduction; all 0 where nothing was split.
    pub(super) importance: Vec<f64>,
}

struct OpenNode {
    rows: Range<usize>,
    /// Index of the parent whose right child this is.
    right_of: Option<usize>,
}

/// Grows a tree until every leaf has fewer rows than `split`, equal targets or equal features.
pub(super) fn grow(rows: &TrainingSet, split: usize, rng: &mut impl Rng) -> GrownTree {
    let mut order: Vec<u32> = (0..rows.targets.len() as u32).collect();
    let mut scan = FeatureScan::new(rows.features);
    let mut tree = GrownTree { nodes: Vec::with_capacity(2 * order.len()), importance: vec![0.0; rows.features] };
    let mut open = vec![OpenNode { rows: 0..order.len(), right_of: None }];
    while let Some(OpenNode { rows: range, right_of }) = open.pop() {
        let id = tree.nodes.len();
        if let Some(parent) = right_of {
            tree.nodes[parent].set_right(id - parent);
        }
        let members = &mut order[range.clone()];
        let found = if members.len() < split { None } else { scan.best_split(rows, members, rng) };
        let Some(split) = found else {
            tree.nodes.push(TreeNode::Leaf(mean(rows, members)));
            continue;
        };
        tree.nodes.push(TreeNode::split(split.feature, split.threshold));
        tree.importance[split.feature] += split.gain;
        let left = partition(members, |&row| goes_left(rows.row(row)[split.feature], split.threshold));
        let middle = range.start + left;
        open.push(OpenNode { rows: middle..range.end, right_of: Some(id) });
        open.push(OpenNode { rows: range.start..middle, right_of: None });
    }
    normalise(&mut tree.importance);
    tree
}

fn mean(rows: &TrainingSet, members: &[u32]) -> f64 {
    let first = rows.targets[members[0] as usize];
    // Deviations from the first: rows with equal targets give exactly that target.
    let deviations: f64 = members.iter().map(|&row| rows.targets[row as usize] - first).sum();
    first + deviations / members.len() as f64
}

/// Moves the members that satisfy `left` to the front, keeping their order there; returns their number.
fn partition(members: &mut [u32], left: impl Fn(&u32) -> bool) -> usize {
    let mut count = 0;
    for i in 0..members.len() {
        if left(&members[i]) {
            members.swap(i, count);
            count += 1;
        }
    }
    count
}

fn normalise(shares: &mut [f64]) {
    let total: f64 = shares.iter().sum();
    if total > 0.0 {
        shares.iter_mut().for_each(|share| *share /= total);
    }
}

struct NodeSplit {
    feature: usize,
    threshold: f32,
    /// Reduction of the summed squared deviation of the target.
    gain: f64,
}

/// Per-feature sums over the rows of one node; the buffers are reused between nodes.
struct FeatureScan {
    low: Vec<f32>,
    high: Vec<f32>,
    threshold: Vec<f32>,
    left_sum: Vec<f64>,
    left_count: Vec<u32>,
    score: Vec<f64>,
}

impl FeatureScan {
    fn new(features: usize) -> Self {
        FeatureScan {
            low: vec![0.0; features],
            high: vec![0.0; features],
            threshold: vec![0.0; features],
            left_sum: vec![0.0; features],
            left_count: vec![0; features],
            score: vec![0.0; features],
        }
    }

    /// The best of one random split per feature; none where targets or all features are constant.
    fn best_split(&mut self, rows: &TrainingSet, members: &[u32], rng: &mut impl Rng) -> Option<NodeSplit> {
        let first = rows.targets[members[0] as usize];
        if members.iter().all(|&row| rows.targets[row as usize] == first) {
            return None;
        }
        self.find_ranges(rows, members);
        self.draw_thresholds(rng);
        self.sum_left(rows, members);
        let total: f64 = members.iter().map(|&row| rows.targets[row as usize]).sum();
        self.choose(total, members.len() as u32, rng)
    }

    fn find_ranges(&mut self, rows: &TrainingSet, members: &[u32]) {
        self.low.copy_from_slice(rows.row(members[0]));
        self.high.copy_from_slice(rows.row(members[0]));
        for &row in &members[1..] {
            for ((low, high), &value) in self.low.iter_mut().zip(&mut self.high).zip(rows.row(row)) {
                // Plain comparisons compile to vector minimum and maximum; f32::min does not because of NaN.
                *low = if value < *low { value } else { *low };
                *high = if value > *high { value } else { *high };
            }
        }
    }

    /// One threshold per feature in `low..high`; a constant feature gets its value, which sends every row left.
    fn draw_thresholds(&mut self, rng: &mut impl Rng) {
        for ((threshold, &low), &high) in self.threshold.iter_mut().zip(&self.low).zip(&self.high) {
            let (from, to) = (f64::from(low), f64::from(high));
            let drawn = (from + rng.random::<f64>() * (to - from)) as f32;
            // Rounding may reach the upper end, where no row would go right.
            *threshold = if drawn < high { drawn } else { low };
        }
    }

    fn sum_left(&mut self, rows: &TrainingSet, members: &[u32]) {
        self.left_sum.fill(0.0);
        self.left_count.fill(0);
        for &row in members {
            let target = rows.targets[row as usize];
            let sums = self.left_sum.iter_mut().zip(&mut self.left_count);
            for ((sum, count), (&value, &threshold)) in sums.zip(rows.row(row).iter().zip(&self.threshold)) {
                let left = goes_left(value, threshold);
                *sum += if left { target } else { 0.0 };
                *count += u32::from(left);
            }
        }
    }

    /// The split with the largest variance reduction. Ties are common: every feature that distinguishes two rows
    /// splits them equally. They are broken at random, which equals a random order of the features.
    fn choose(&mut self, total: f64, rows: u32, rng: &mut impl Rng) -> Option<NodeSplit> {
        let sums = self.left_sum.iter().zip(&self.left_count);
        for (score, (&left_sum, &left)) in self.score.iter_mut().zip(sums) {
            let (right_sum, right) = (total - left_sum, rows - left);
            let between = left_sum * left_sum / f64::from(left) + right_sum * right_sum / f64::from(right);
            *score = if right == 0 { f64::NEG_INFINITY } else { between };
        }
        let highest = self.score.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if highest == f64::NEG_INFINITY {
            return None;
        }
        let ties = self.score.iter().filter(|&&score| score == highest).count();
        let lot = rng.random_range(0..ties as u32) as usize;
        let mut tied = self.score.iter().enumerate().filter(|&(_, &score)| score == highest);
        let (feature, _) = tied.nth(lot)?;
        let gain = highest - total * total / f64::from(rows);
        Some(NodeSplit { feature, threshold: self.threshold[feature], gain: gain.max(0.0) })
    }
}
