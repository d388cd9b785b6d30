//! The offsets of clocks that are possible: with them no exchange ends on a rank before it began on one that it needs.

use super::estimate::{ExchangeParts, TimedPart};
use crate::collectives::CollectiveOperation;
use std::collections::BTreeMap;

/// The least and the greatest offset; none where no exchange bounds it.
pub(super) type OffsetBounds = [Option<i64>; 2];

/// For each rank the offsets relative to the first that are possible.
pub(super) fn offsets(ranks: usize, exchanges: &[ExchangeParts]) -> Vec<OffsetBounds> {
    let bounds = bounds(exchanges);
    let most = shortest(ranks, bounds.iter().map(|(pair, time)| (*pair, *time)));
    let least = shortest(ranks, bounds.iter().map(|((from, to), time)| ((*to, *from), *time)));
    most.into_iter().zip(least).map(|(most, least)| [least.map(i64::saturating_neg), most]).collect()
}

/// The interval of offsets that exchanges bound from both sides; none if they do not, or if no offset is possible.
pub(super) fn interval([least, most]: OffsetBounds) -> Option<[f64; 2]> {
    let (low, high) = (least?, most?);
    (low <= high).then_some([low as f64, high as f64])
}

/// Whether exchanges bound an offset, and it may be zero.
pub(super) fn may_be_zero([least, most]: OffsetBounds) -> bool {
    let is_bounded = least.is_some() || most.is_some();
    is_bounded && least.is_none_or(|least| least <= 0) && most.is_none_or(|most| most >= 0)
}

/// For pairs of ranks, by how much the offset of the second is greater than that of the first at most.
fn bounds(exchanges: &[ExchangeParts]) -> BTreeMap<(usize, usize), i64> {
    let mut bounds: BTreeMap<(usize, usize), i64> = BTreeMap::new();
    let bounding = |part: &TimedPart| part.operation.synchronises() || part.operation.is_between_two();
    for parts in exchanges.iter().filter(|parts| parts.iter().all(bounding)) {
        for began in parts.iter().filter(|part| part.operation != CollectiveOperation::Receive) {
            for ended in
                parts.iter().filter(|part| part.rank != began.rank && part.operation != CollectiveOperation::Send)
            {
                let bound = bounds.entry((ended.rank, began.rank)).or_insert(i64::MAX);
                *bound = (*bound).min(latest_offset(began, ended));
            }
        }
    }
    bounds
}

fn latest_offset(began: &TimedPart, ended: &TimedPart) -> i64 {
    ended.end.saturating_sub(began.start)
}

/// The shortest distances from the first rank (Bellman and Ford); none to ranks that no bound reaches.
fn shortest(ranks: usize, bounds: impl Iterator<Item = ((usize, usize), i64)> + Clone) -> Vec<Option<i64>> {
    let mut distances = vec![None; ranks];
    distances[0] = Some(0);
    for _ in 1..ranks {
        let mut changed = false;
        for ((from, to), time) in bounds.clone() {
            let Some(known) = distances[from] else { continue };
            let distance = i64::saturating_add(known, time);
            if to != 0 && distances[to].is_none_or(|other| distance < other) {
                distances[to] = Some(distance);
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    distances
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(rank: usize, operation: CollectiveOperation, start: i64, end: i64) -> TimedPart {
        TimedPart { rank, start, end, operation, is_kernel: false }
    }

    /// Rank 0 sends at 10, and rank 1 has it at 25 by its own clock; what rank 1 sends at 100 is at rank 0 at 120. Rank 2
    /// exchanges with rank 1 only.
    #[test]
    fn messages_in_both_directions_bound_an_offset_also_through_others() {
        let exchanges = vec![
            vec![part(0, CollectiveOperation::Send, 10, 11), part(1, CollectiveOperation::Receive, 0, 25)],
            vec![part(0, CollectiveOperation::Receive, 0, 120), part(1, CollectiveOperation::Send, 100, 101)],
            vec![part(1, CollectiveOperation::AllReduce, 200, 230), part(2, CollectiveOperation::AllReduce, 210, 225)],
        ];
        let found: Vec<_> = offsets(4, &exchanges).into_iter().map(interval).collect();
        // The offset of rank 1 is at least 10 - 25 and at most 120 - 100, that of rank 2 at least 200 - 225 and at most
        // 230 - 210 more.
        assert_eq!(found[1], Some([-15.0, 20.0]));
        assert_eq!(found[2], Some([-40.0, 40.0]));
        assert_eq!(found[3], None);
    }
}
