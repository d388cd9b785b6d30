//! Operators and tensors of backward fused together: which neighbours to compute as one, and which gradients to reduce as one.
//!
//! Rules in the manner of the published ones (Hu et al., dPRO, MLSys 2022) say which neighbours cannot be better apart, so that those
//! choices are not followed; that none better is lost is tested against all choices. With `p` the end of a computation and `q` that of an all-reduce, which takes `d`:
//!
//! 1. Operators that save at least `d` of the first one's gradients are fused ([`operators_pay`]).
//! 2. Tensors are fused if `q` of the first ends after `p` of the second by more than what the larger all-reduce takes beyond the
//!    second's own ([`tensors_pay`]).
//! 3. Gradients of fused operators are ready together, and fused; operators of fused gradients are waited for together, and fused.

use super::AllReduceLink;

/// The part of backward that ends with a gradient.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BackwardSegment {
    /// What it takes, in milliseconds.
    pub takes_ms: f64,
    /// What it takes less if it is computed together with the segment before it; none where both cannot be fused.
    pub saves_ms: Option<f64>,
    /// Bytes of its gradient.
    pub bytes: u64,
}

/// What is fused, and when the last gradient is reduced.
#[derive(Debug, Clone, PartialEq)]
pub struct JointFusion {
    /// The end of each bucket: the place behind its last gradient. Segments of a bucket are computed together where they can be,
    /// others apart.
    pub ends: Vec<usize>,
    /// When the last bucket is reduced, in milliseconds.
    pub finished_ms: f64,
}

/// A way to the end of a bucket.
#[derive(Debug, Clone, Copy)]
struct BucketWay {
    computed_ms: f64,
    reduced_ms: f64,
    /// The bytes of its last bucket.
    bytes: u64,
    /// Where that begins, and which of the ways to there it continues.
    from: (usize, usize),
}

/// Rule 1: whether segments that save this much together are better fused, whatever the gradient before them takes on the link.
fn operators_pay(link: AllReduceLink, first: u64, saves_ms: Option<f64>) -> bool {
    saves_ms.is_some_and(|saves| link.milliseconds(first) <= saves)
}

/// Rule 2: whether two buckets are better reduced as one, where the first is reduced and the second ready at these times.
fn tensors_pay(link: AllReduceLink, [first, second]: [u64; 2], reduced_ms: f64, ready_ms: f64) -> bool {
    reduced_ms > ready_ms + link.milliseconds(first + second) - link.milliseconds(second)
}

/// The best of all choices of fused segments and buckets of neighbours.
///
/// By rule 3 both are the same choice, but for segments that cannot be fused. A way is followed unless another one to the same place is
/// neither computed nor reduced later, or a rule says that its last two buckets are better as one.
pub fn jointly(segments: &[BackwardSegment], link: AllReduceLink) -> JointFusion {
    let start = BucketWay { computed_ms: 0.0, reduced_ms: 0.0, bytes: 0, from: (0, 0) };
    let mut ways: Vec<Vec<BucketWay>> = vec![vec![start]];
    for end in 1..=segments.len() {
        let mut own = Vec::new();
        let (mut takes_ms, mut bytes) = (0.0, 0);
        for first in (0..end).rev() {
            // Further segments of the bucket are fused with this one.
            let saved = if first + 1 < end { segments[first + 1].saves_ms.unwrap_or(0.0) } else { 0.0 };
            takes_ms += segments[first].takes_ms - saved;
            bytes += segments[first].bytes;
            for (number, before) in ways[first].iter().enumerate() {
                let computed_ms = before.computed_ms + takes_ms;
                let are_one = first > 0
                    && (operators_pay(link, before.bytes, segments[first].saves_ms)
                        || tensors_pay(link, [before.bytes, bytes], before.reduced_ms, computed_ms));
                if !are_one {
                    let reduced_ms = before.reduced_ms.max(computed_ms) + link.milliseconds(bytes);
                    own.push(BucketWay { computed_ms, reduced_ms, bytes, from: (first, number) });
                }
            }
        }
        ways.push(unbeaten_ways(own));
    }
    let last = &ways[segments.len()];
    let (number, way) = last
        .iter()
        .enumerate()
        .min_by(|(_, one), (_, other)| one.reduced_ms.total_cmp(&other.reduced_ms))
        .unwrap_or((0, &start));
    JointFusion { ends: trace_ends(&ways, (segments.len(), number)), finished_ms: way.reduced_ms }
}

/// The ways that no other one betters in both times.
fn unbeaten_ways(mut ways: Vec<BucketWay>) -> Vec<BucketWay> {
    ways.sort_by(|one, other| {
        one.computed_ms.total_cmp(&other.computed_ms).then(one.reduced_ms.total_cmp(&other.reduced_ms))
    });
    let mut earliest = f64::INFINITY;
    ways.retain(|way| {
        way.reduced_ms < earliest && {
            earliest = way.reduced_ms;
            true
        }
    });
    ways
}

/// Follows a way back to the start.
fn trace_ends(ways: &[Vec<BucketWay>], mut at: (usize, usize)) -> Vec<usize> {
    let mut ends = Vec::new();
    while at.0 > 0 {
        ends.push(at.0);
        at = ways[at.0][at.1].from;
    }
    ends.reverse();
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// When the last gradient is reduced, with the segments that are computed with the one before, and gradients that are reduced
    /// with the one before, as bits.
    fn finished(segments: &[BackwardSegment], link: AllReduceLink, computed: u32, reduced: u32) -> Option<f64> {
        let (mut end, mut ready) = (0.0, Vec::new());
        for (place, segment) in segments.iter().enumerate() {
            let is_fused = place > 0 && computed >> place & 1 == 1;
            end += segment.takes_ms - if is_fused { segment.saves_ms? } else { 0.0 };
            ready.push(end);
        }
        for place in (1..segments.len()).rev().filter(|place| computed >> place & 1 == 1) {
            ready[place - 1] = ready[place];
        }
        let (mut free, mut bytes) = (0.0_f64, 0);
        for (place, segment) in segments.iter().enumerate() {
            bytes += segment.bytes;
            if place + 1 == segments.len() || reduced >> (place + 1) & 1 == 0 {
                free = free.max(ready[place]) + link.milliseconds(bytes);
                bytes = 0;
            }
        }
        Some(free)
    }

    fn exhaustive(segments: &[BackwardSegment], link: AllReduceLink) -> f64 {
        let all = 0..1_u32 << segments.len();
        let choices = all.clone().flat_map(|computed| all.clone().map(move |reduced| (computed, reduced)));
        choices
            .filter_map(|(computed, reduced)| finished(segments, link, computed, reduced))
            .fold(f64::INFINITY, f64::min)
    }

    fn random(draws: &mut Xoshiro256PlusPlus) -> (Vec<BackwardSegment>, AllReduceLink) {
        let count = draws.random_range(1..=6);
        let segment = |_| {
            let takes_ms = draws.random_range(0.1..3.0);
            let saves_ms = draws.random::<bool>().then(|| draws.random_range(0.0..1.0) * takes_ms);
            BackwardSegment { takes_ms, saves_ms, bytes: draws.random_range(1..4000) }
        };
        let segments = (0..count).map(segment).collect();
        (
            segments,
            AllReduceLink { alpha_ms: draws.random_range(0.0..1.0), ms_per_byte: draws.random_range(0.0..0.001) },
        )
    }

    #[test]
    fn the_rules_leave_out_no_optimum() {
        let mut draws = Xoshiro256PlusPlus::seed_from_u64(1);
        for case in 0..300 {
            let (segments, link) = random(&mut draws);
            let (found, best) = (jointly(&segments, link), exhaustive(&segments, link));
            assert!((found.finished_ms - best).abs() < 1e-9, "{case}: {found:?}, {best}: {segments:?} {link:?}");
        }
    }

    /// Two segments of 2 ms, gradients of 1 ms on the link (latency 0.5): apart 5 ms. Fused they save 0.4 ms: 3.6 + 1.5 = 5.1 ms. A
    /// saving of 1.2 ms is more than the 1 ms of the first gradient, so that rule 1 fuses them: 2.8 + 1.5 = 4.3 ms.
    #[test]
    fn operators_are_fused_where_they_save_more_than_the_gradient_waits() {
        let link = AllReduceLink { alpha_ms: 0.5, ms_per_byte: 0.001 };
        let segments = |saves| {
            let segment = |saves_ms| BackwardSegment { takes_ms: 2.0, saves_ms, bytes: 500 };
            [segment(None), segment(Some(saves))]
        };
        let apart = jointly(&segments(0.4), link);
        assert_eq!(apart.ends, [1, 2]);
        assert!((apart.finished_ms - 5.0).abs() < 1e-9, "{apart:?}");
        assert!(operators_pay(link, 500, Some(1.2)) && !operators_pay(link, 500, Some(0.4)));
        let fused = jointly(&segments(1.2), link);
        assert_eq!(fused.ends, [2]);
        assert!((fused.finished_ms - 4.3).abs() < 1e-9, "{fused:?}");
    }

    /// The first gradient is reduced at 10 ms, the second ready at 2 ms: together they end at 2 + 9.5 = 11.5 ms, apart at 11 ms with a
    /// latency of 0.5 ms; with one of 8 ms the second alone would take 8.5 ms.
    #[test]
    fn tensors_are_fused_where_the_link_is_late() {
        assert!(!tensors_pay(AllReduceLink { alpha_ms: 0.5, ms_per_byte: 0.001 }, [8500, 500], 10.0, 2.0));
        assert!(tensors_pay(AllReduceLink { alpha_ms: 8.0, ms_per_byte: 0.001 }, [1000, 500], 10.0, 2.0));
    }
}
