//! The largest batch size within a limit, of memory that grows nearly with the batch: the blocks of a caching allocator fit some sizes better than smaller ones.

use perf4sight_step::workload::LARGEST_BATCH;

/// Smaller batches are asked about from this share on. The smallest that needed more than a larger one, of six networks with 16 to 200 samples on four kinds of
/// GPU, was 27 of 39 (vgg11 on `cuda_tf32`).
const UNEVEN: f64 = 0.5;

/// How many smaller batches are asked about at most, evenly apart; each is a simulation.
const ASKED: u64 = 100;

/// The largest batch size up to which every one that is asked about needs no more MiB than `limit`; 0 if a single sample needs more.
pub(super) fn largest_batch(limit: f64, need: impl Fn(u64) -> f64) -> u64 {
    let last = last_before_the_limit(limit, &need);
    let first = (last as f64 * UNEVEN) as u64;
    let apart = (last - first).div_ceil(ASKED).max(1);
    let is_over = |batch: &u64| *batch > 0 && need(*batch) > limit;
    (first..last).step_by(usize::try_from(apart).unwrap_or(usize::MAX)).find(is_over).map_or(last, |over| over - 1)
}

/// One that needs no more MiB than `limit`, while the next one does. Memory is nearly linear in the batch size, so the
/// search alternates between interpolation and bisection.
fn last_before_the_limit(limit: f64, need: impl Fn(u64) -> f64) -> u64 {
    let (mut low, mut high) = ((0, 0.0), (1, need(1)));
    while high.1 <= limit && high.0 < LARGEST_BATCH {
        let ahead = (high.0 as f64 * limit / high.1 * 1.05) as u64;
        low = high;
        let next = ahead.clamp(high.0 + 1, LARGEST_BATCH);
        high = (next, need(next));
    }
    let mut halve = false;
    while high.0 - low.0 > 1 && high.1 > limit {
        let share = if halve { 0.5 } else { (limit - low.1) / (high.1 - low.1) };
        let middle = low.0 + ((high.0 - low.0) as f64 * share) as u64;
        let middle = middle.clamp(low.0 + 1, high.0 - 1);
        let found = (middle, need(middle));
        if found.1 <= limit {
            low = found
        } else {
            high = found
        }
        halve = !halve;
    }
    if high.1 <= limit { high.0 } else { low.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 MiB a sample, but for a batch of 44, whose blocks take 60 MiB more: 44 needs 500, as 50 does.
    #[test]
    fn every_smaller_batch_is_within_the_limit() {
        let need = |batch: u64| 10.0 * batch as f64 + if batch == 44 { 60.0 } else { 0.0 };
        assert_eq!([505.0, 495.0, 435.0, 9.0].map(|limit| largest_batch(limit, need)), [50, 43, 43, 0]);
        assert_eq!(largest_batch(f64::INFINITY, need), LARGEST_BATCH);
    }
}
