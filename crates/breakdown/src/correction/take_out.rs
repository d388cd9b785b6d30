//! Subtracts the cost of recording from an iteration, category by category.

use super::costs::RecordingCosts;
use super::result::DividedTime;
use crate::breakdown::Iteration;
use crate::categories::TimeCategory;
use crate::operations::TrainingOperation;

/// The categories in which a script may wait.
pub(super) const WAITS: [TimeCategory; 3] = [TimeCategory::Wait, TimeCategory::PythonOrWait, TimeCategory::Unrecorded];

impl DividedTime {
    /// Subtracts this many nanoseconds from an iteration, in proportion to the costs, and this share of the time in which it may
    /// wait. Only time with an idle GPU is shortened, because the GPU takes as long with a profiler as without.
    pub fn subtract(iteration: &Iteration, costs: &RecordingCosts, nanoseconds: i64, of_waits: f64) -> Self {
        let (mut sets, mut operations) = (iteration.sets, iteration.operations.clone());
        for part in operations.values_mut() {
            for category in WAITS {
                let less = (of_waits * part.idle(category) as f64) as i64;
                part.subtract(category, less);
                sets.subtract(category, less);
            }
        }
        let cells: Vec<(TrainingOperation, TimeCategory)> =
            operations.keys().flat_map(|&operation| TimeCategory::ALL.map(|category| (operation, category))).collect();
        let cell = |(operation, category): &(TrainingOperation, TimeCategory)| TimeCell {
            holds: operations[operation].idle(*category),
            costs: costs.get(operation).map_or(0.0, |costs| costs[category.index()]),
        };
        let taken = take(nanoseconds, &cells.iter().map(cell).collect::<Vec<_>>());
        for ((operation, category), taken) in cells.into_iter().zip(taken) {
            sets.subtract(category, taken);
            if let Some(sets) = operations.get_mut(&operation) {
                sets.subtract(category, taken);
            }
        }
        DividedTime { sets, operations }
    }
}

struct TimeCell {
    holds: i64,
    /// Its cost of recording relative to the other cells.
    costs: f64,
}

/// Splits nanoseconds over cells: in proportion to their costs, at most as much as a cell holds. What the cells with
/// costs cannot provide is taken from all cells in proportion to their time.
fn take(nanoseconds: i64, cells: &[TimeCell]) -> Vec<i64> {
    let mut taken = vec![0; cells.len()];
    let mut left = nanoseconds.clamp(0, cells.iter().map(|cell| cell.holds).sum());
    while left > 0 {
        let open = |costly: bool| {
            let open =
                cells.iter().zip(&taken).map(move |(cell, taken)| cell.holds > *taken && (!costly || cell.costs > 0.0));
            open.collect::<Vec<bool>>()
        };
        let costly = open(true).contains(&true);
        let weight = |(cell, open): (&TimeCell, bool)| match (open, costly) {
            (false, _) => 0.0,
            (true, true) => cell.costs,
            (true, false) => cell.holds as f64,
        };
        let weights: Vec<f64> = cells.iter().zip(open(costly)).map(weight).collect();
        let (share, before) = (left as f64 / weights.iter().sum::<f64>(), left);
        for ((cell, taken), weight) in cells.iter().zip(&mut taken).zip(&weights) {
            let more = ((share * weight) as i64).min(cell.holds - *taken).min(left);
            *taken += more;
            left -= more;
        }
        // Less than a nanosecond for each cell: the cell with the largest weight gives one.
        let most = (0..cells.len()).max_by(|&a, &b| weights[a].total_cmp(&weights[b]).then(b.cmp(&a)));
        if let Some(most) = most.filter(|_| left == before) {
            taken[most] += 1;
            left -= 1;
        }
    }
    taken
}
