//! The saved form of a forest: one array per property, little-endian, base64 inside JSON.
//!
//! | key | holds |
//! |---|---|
//! | `trees` | number of trees |
//! | `importance` | one number per feature; its length is the number of features |
//! | `shape` | one bit per node, lowest bit of a byte first: 1 split, 0 leaf; trees one after the other in pre-order |
//! | `feature` | per split, the feature it tests: u8 for up to 256 features, else u16 |
//! | `threshold` | per split, f32; values up to and including it go left |
//! | `leaf` | per leaf, its index in `value`: u8, u16 or u32, the smallest that fits |
//! | `value` | the distinct leaf values in ascending order, f64 |
//!
//! In pre-order the left child follows its parent and the right child follows the left subtree, so one bit per node
//! determines the shape: there are no child indices that could point outside or in a circle. Leaves of one row repeat
//! the few measured targets, hence the table of distinct values.

use super::forest::{Forest, TreeNode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// A forest as stored in a file; unchecked.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PackedForest {
    trees: usize,
    importance: Vec<f64>,
    shape: String,
    feature: String,
    threshold: String,
    leaf: String,
    value: String,
}

impl From<Forest> for PackedForest {
    fn from(forest: Forest) -> Self {
        let values = distinct_values(&forest);
        let mut shape = vec![0u8; forest.nodes.len().div_ceil(8)];
        let (mut feature, mut threshold, mut leaf) = (Vec::new(), Vec::new(), Vec::new());
        for (i, node) in forest.nodes.iter().enumerate() {
            match node {
                TreeNode::Split { feature: tested, threshold: limit, .. } => {
                    shape[i / 8] |= 1 << (i % 8);
                    push(&mut feature, u32::from(*tested), width(forest.features()));
                    threshold.extend(limit.to_le_bytes());
                }
                TreeNode::Leaf(value) => {
                    let index = values.partition_point(|known| known < value);
                    push(&mut leaf, index as u32, width(values.len()));
                }
            }
        }
        let value: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        PackedForest {
            trees: forest.trees(),
            importance: forest.importance,
            shape: STANDARD.encode(shape),
            feature: STANDARD.encode(feature),
            threshold: STANDARD.encode(threshold),
            leaf: STANDARD.encode(leaf),
            value: STANDARD.encode(value),
        }
    }
}

fn distinct_values(forest: &Forest) -> Vec<f64> {
    let leaves = forest.nodes.iter().filter_map(|node| match node {
        TreeNode::Leaf(value) => Some(*value),
        TreeNode::Split { .. } => None,
    });
    let mut values: Vec<f64> = leaves.collect();
    values.sort_unstable_by(f64::total_cmp);
    // Equality, not bits: -0 and 0 are one value.
    values.dedup();
    values
}

/// Bytes per index into `count` things.
fn width(count: usize) -> usize {
    match count {
        0..=0x100 => 1,
        0x101..=0x1_0000 => 2,
        _ => 4,
    }
}

fn push(bytes: &mut Vec<u8>, index: u32, width: usize) {
    bytes.extend_from_slice(&index.to_le_bytes()[..width]);
}

impl TryFrom<PackedForest> for Forest {
    type Error = String;

    fn try_from(packed: PackedForest) -> Result<Self, String> {
        let features = packed.importance.len();
        if features == 0 || features > u16::MAX as usize || packed.trees == 0 {
            return Err(format!("a forest of {} trees over {features} features", packed.trees));
        }
        let values: Vec<f64> = numbers("value", &decode("value", &packed.value)?, f64::from_le_bytes)?;
        let splits = splits(&packed, features)?;
        let leaves = leaves(&packed, &values)?;
        let shape = decode("shape", &packed.shape)?;
        assemble(packed, &shape, splits, leaves)
    }
}

fn decode(key: &str, text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|cause| format!("forest key \"{key}\": {cause}"))
}

fn numbers<const N: usize, T>(key: &str, bytes: &[u8], number: fn([u8; N]) -> T) -> Result<Vec<T>, String> {
    match bytes.as_chunks() {
        (chunks, []) => Ok(chunks.iter().map(|&chunk| number(chunk)).collect()),
        _ => Err(format!("forest key \"{key}\" ends within a number")),
    }
}

/// Indices below `count`, or an error that names the key.
fn indices(key: &str, bytes: &[u8], count: usize) -> Result<Vec<u32>, String> {
    let indices: Vec<u32> = match width(count) {
        1 => bytes.iter().map(|&byte| u32::from(byte)).collect(),
        2 => numbers(key, bytes, |chunk| u32::from(u16::from_le_bytes(chunk)))?,
        _ => numbers(key, bytes, u32::from_le_bytes)?,
    };
    match indices.iter().find(|&&index| index as usize >= count) {
        Some(index) => Err(format!("forest key \"{key}\" names number {index} of {count}")),
        None => Ok(indices),
    }
}

fn splits(packed: &PackedForest, features: usize) -> Result<Vec<TreeNode>, String> {
    let tested = indices("feature", &decode("feature", &packed.feature)?, features)?;
    let thresholds: Vec<f32> = numbers("threshold", &decode("threshold", &packed.threshold)?, f32::from_le_bytes)?;
    if tested.len() != thresholds.len() {
        return Err(format!("forest has {} split features but {} thresholds", tested.len(), thresholds.len()));
    }
    if thresholds.iter().any(|threshold| !threshold.is_finite()) {
        return Err("forest key \"threshold\" holds something that is not a number".into());
    }
    Ok(tested.iter().zip(thresholds).map(|(&tested, threshold)| TreeNode::split(tested as usize, threshold)).collect())
}

fn leaves(packed: &PackedForest, values: &[f64]) -> Result<Vec<TreeNode>, String> {
    if values.iter().any(|value| !value.is_finite()) {
        return Err("forest key \"value\" holds something that is not a number".into());
    }
    let leaves = indices("leaf", &decode("leaf", &packed.leaf)?, values.len())?;
    Ok(leaves.iter().map(|&index| TreeNode::Leaf(values[index as usize])).collect())
}

/// Puts splits and leaves in the order that `shape` gives, and finds roots and right children.
fn assemble(
    packed: PackedForest,
    shape: &[u8],
    splits: Vec<TreeNode>,
    leaves: Vec<TreeNode>,
) -> Result<Forest, String> {
    let count = splits.len() + leaves.len();
    // Every split adds one leaf; the number of trees is arbitrary.
    if shape.len() != count.div_ceil(8) || leaves.len().checked_sub(splits.len()) != Some(packed.trees) {
        return Err(format!(
            "forest arrays do not fit together: {} trees, {} splits, {} leaves, {} bytes of shape",
            packed.trees,
            splits.len(),
            leaves.len(),
            shape.len()
        ));
    }
    let (mut splits, mut leaves) = (splits.into_iter(), leaves.into_iter());
    let mut nodes: Vec<TreeNode> = Vec::with_capacity(count);
    let mut roots = Vec::with_capacity(packed.trees);
    // Splits whose right child was not yet read.
    let mut waiting: Vec<usize> = Vec::new();
    // Whether the next node starts the right subtree of the last waiting split, or a tree.
    let mut after_leaf = true;
    for id in 0..count {
        if after_leaf {
            match waiting.pop() {
                Some(parent) => nodes[parent].set_right(id - parent),
                None => roots.push(id as u32),
            }
        }
        let is_split = shape[id / 8] >> (id % 8) & 1 == 1;
        let node = if is_split { splits.next() } else { leaves.next() };
        nodes.push(node.ok_or("forest key \"shape\" does not fit the number of splits")?);
        after_leaf = !is_split;
        if is_split {
            waiting.push(id);
        }
    }
    if !waiting.is_empty() || roots.len() != packed.trees {
        return Err(format!("forest key \"shape\" does not describe {} whole trees", packed.trees));
    }
    Ok(Forest { nodes, roots, importance: packed.importance })
}
