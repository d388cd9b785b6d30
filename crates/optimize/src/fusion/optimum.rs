//! The exact optimum over all ways to cut gradients into buckets of neighbours.

use super::{AllReduceLink, BucketFusion, ReadyGradient};

/// The buckets whose communication ends the earliest; of several, those with the fewest buckets behind each end.
///
/// With `P` the sum of bytes up to a gradient, the first `j` gradients are reduced at the earliest at
/// `f(j) = min over i < j of max(f(i), ready(j)) + alpha + beta (P(j) - P(i))`: an earlier end of the first `i` never
/// harms the rest. Quadratic in the number of gradients. The input is that which [`super::check`] accepts.
pub fn optimum(gradients: &[ReadyGradient], link: AllReduceLink) -> BucketFusion {
    let mut bytes_before = vec![0];
    for gradient in gradients {
        bytes_before.push(bytes_before[bytes_before.len() - 1] + gradient.bytes);
    }
    let mut best = vec![(0.0, 0)];
    for (last, gradient) in gradients.iter().enumerate() {
        let end = last + 1;
        let finish = |start: usize| {
            let free: f64 = best[start].0;
            free.max(gradient.ready_ms) + link.milliseconds(bytes_before[end] - bytes_before[start])
        };
        let starts = (0..end).filter(|start| gradients[*start].pass == gradient.pass);
        let starts = starts.map(|start| (finish(start), start));
        best.extend(starts.min_by(|(one, _), (other, _)| one.total_cmp(other)));
    }
    BucketFusion { ends: trace_ends(&best), finished_ms: best[gradients.len()].0 }
}

/// Follows the starts of the best last buckets from the end.
fn trace_ends(best: &[(f64, usize)]) -> Vec<usize> {
    let mut end = best.len() - 1;
    let mut ends = Vec::new();
    while end > 0 {
        ends.push(end);
        end = best[end].1;
    }
    ends.reverse();
    ends
}
