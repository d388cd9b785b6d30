//! Rows that cannot be true beside those of the same network with other batch sizes: a cell that was damaged, a machine that slept.

use super::MeasuredRow;
use perf4sight_base::units::{Bytes, Milliseconds};
use perf4sight_step::workload::Quantity;
use std::collections::{BTreeMap, BTreeSet};

/// More samples need no less than this share, and no more than this many times, of what they need in proportion.
const TIMES: f64 = 10.0;

/// Removes rows that contradict all of their neighbours in batch size, and says which.
pub(super) fn remove_contradictory(rows: &mut Vec<MeasuredRow>) -> Vec<String> {
    let mut steps: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (place, row) in rows.iter().enumerate() {
        steps.entry((row.record.variant.clone(), row.record.workload.step)).or_default().push(place);
    }
    let mut wrong = BTreeSet::new();
    for places in steps.values_mut() {
        places.sort_by_key(|place| rows[*place].record.workload.batch);
        let points: Vec<[f64; 2]> = places.iter().map(|place| point(&rows[*place])).collect();
        wrong.extend(contradictory(&points).into_iter().map(|place| places[place]));
    }
    let said = |place: &usize| {
        let MeasuredRow { record, measured, .. } = &rows[*place];
        let measured = match record.quantity() {
            Quantity::Latency => Milliseconds(*measured).to_string(),
            Quantity::Memory => Bytes::from_mib(*measured).to_string(),
        };
        format!(
            "{} with a batch of {} is left out: {measured} contradicts its other batch sizes by more than {TIMES} times",
            record.variant, record.workload.batch
        )
    };
    let warnings = wrong.iter().map(said).collect();
    let mut place = 0..;
    rows.retain(|_| place.next().is_none_or(|place| !wrong.contains(&place)));
    warnings
}

fn point(row: &MeasuredRow) -> [f64; 2] {
    [row.record.workload.batch as f64, row.measured]
}

/// The places of values, by batch size, that agree with neither neighbour while the rest agrees.
fn contradictory(points: &[[f64; 2]]) -> Vec<usize> {
    let agree = |one: usize, other: usize| {
        let ([batch, value], [larger, more]) = (points[one], points[other]);
        more * TIMES >= value && more <= TIMES * value * (larger / batch)
    };
    // With two rows it is not known which one is wrong.
    let last = points.len().saturating_sub(1);
    let is_wrong = |place: &usize| {
        let place = *place;
        let before = place.checked_sub(1).is_some_and(|before| agree(before, place));
        let after = place < last && agree(place, place + 1);
        let others_agree = match place {
            0 => agree(1, 2),
            end if end == last => agree(last - 2, last - 1),
            middle => agree(middle - 1, middle + 1),
        };
        !before && !after && others_agree
    };
    if points.len() < 3 { Vec::new() } else { (0..points.len()).filter(is_wrong).collect() }
}

#[cfg(test)]
mod tests {
    use super::contradictory;

    /// MiB of resnet18 on a processor with 8, 16, 32 and 64 samples, one of them with a cell of 1e12.
    #[test]
    fn a_cell_that_cannot_be_true_is_found_wherever_it_is() {
        let rows = [[8.0, 137.0], [16.0, 229.0], [32.0, 412.0], [64.0, 779.0]];
        assert!(contradictory(&rows).is_empty());
        for place in 0..rows.len() {
            for absurd in [1e12, 1e-6] {
                let mut rows = rows;
                rows[place][1] = absurd;
                assert_eq!(contradictory(&rows), [place], "{absurd}");
            }
        }
        assert!(contradictory(&[[8.0, 1e12], [16.0, 229.0]]).is_empty());
    }
}
