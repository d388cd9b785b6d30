//! What an architecture needs beside its tensors more than others do, in MiB: from a few rows already, and nothing where there are none.
//!
//! In the profiles of a processor used minus allocated memory is the same at every level of a network to some tenths of a MiB, but for the
//! kernels of ragged channels, and changes with the batch size (`docs/accuracy/memory.md`).

use super::curve::Curve;
use super::query::Query;

/// Doublings of the batch size over which rows speak for one another.
const DOUBLINGS: f64 = 0.7;

/// Difference of the ragged shares over which they do.
const RAGGED: f64 = 0.3;

/// What chance weighs, in rows of the very batch size asked about: with no rows near, the correction goes to nothing.
const CHANCE: f64 = 0.1;

/// What the rows of one architecture left over.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Offset {
    rows: Vec<Left>,
    /// Doublings of the least and the largest batch size among them.
    range: [f64; 2],
}

/// MiB that one row used beyond the curve, and where.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Left {
    doublings: f64,
    ragged: f64,
    rest: f64,
}

impl Offset {
    pub fn fit(rows: &[(Query, f64)], curve: &Curve) -> Self {
        let left = |(query, used): &(Query, f64)| Left {
            doublings: doublings(query),
            ragged: query.kernels.ragged,
            rest: used - query.curve(curve),
        };
        let rows: Vec<Left> = rows.iter().map(left).collect();
        let each = || rows.iter().map(|row| row.doublings);
        Offset { range: [each().fold(f64::INFINITY, f64::min), each().fold(f64::NEG_INFINITY, f64::max)], rows }
    }

    /// MiB used. Beyond the batch sizes that were measured it stays what it was at the last of them.
    pub fn at(&self, query: &Query, curve: f64) -> f64 {
        let [low, high] = self.range;
        let asked = doublings(query).clamp(low, high);
        let weight = |row: &Left| {
            let away = [(row.doublings - asked) / DOUBLINGS, (row.ragged - query.kernels.ragged) / RAGGED];
            (-0.5 * away.iter().map(|part| part * part).sum::<f64>()).exp()
        };
        let [sum, rest] = self.rows.iter().fold([0.0; 2], |[sum, rest], row| {
            let weight = weight(row);
            [sum + weight, rest + weight * row.rest]
        });
        curve + rest / (sum + CHANCE)
    }
}

fn doublings(query: &Query) -> f64 {
    (query.batch.max(1) as f64).log2()
}
