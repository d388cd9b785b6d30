//! Whether a job's memory still rose when it ended, from what it held over time.

use perf4sight_base::units::Bytes;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The most moments that are kept; then neighbours become one.
const MOST: usize = 4096;
/// The second half of a run is cut into so many parts, and of each the least memory counts: what a job holds for a
/// moment, such as a batch, comes and goes.
const PARTS: usize = 8;
/// Student's t of a slope over [`PARTS`] levels that chance exceeds in one of a thousand runs (six degrees of freedom).
/// A single jump in the second half, as of a job that starts late, stays below it.
const STUDENT: f64 = 5.208;
/// A rise counts from this share of what was held: requests have a tenth to spare, which ten times as many seconds
/// would use up.
const COUNTS: f64 = 0.01;
/// A smaller rise than the first of these never counts, because the kernel counts pages in batches of 64 for each CPU; one
/// of the second always does.
const BETWEEN: [f64; 2] = [262_144.0, 1_048_576.0];

/// Memory that a job held at moments of its run.
#[derive(Debug, Clone, Default)]
pub struct MemoryHistory {
    /// Seconds, and the least bytes since the moment before.
    moments: Vec<(f64, f64)>,
    /// How many times it was seen for each moment, and since the last one.
    each: usize,
    since: usize,
}

/// How far a job's memory rose until its run ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MemoryRise {
    /// By how much.
    pub bytes: Bytes,
    /// In how many seconds, the last ones of the run.
    pub seconds: f64,
}

impl MemoryHistory {
    /// Adds what was held after some time.
    pub fn add(&mut self, after: Duration, bytes: Bytes) {
        if self.moments.len() == MOST {
            let least = |pair: &[(f64, f64)]| (pair[0].0, pair.iter().map(|at| at.1).fold(f64::INFINITY, f64::min));
            self.moments = self.moments.chunks(2).map(least).collect();
            self.each = 2 * self.each.max(1);
        }
        let bytes = bytes.0 as f64;
        match self.moments.last_mut() {
            Some((_, least)) if self.since < self.each => *least = least.min(bytes),
            _ => {
                self.moments.push((after.as_secs_f64(), bytes));
                self.since = 0;
            }
        }
        self.since += 1;
    }

    /// How far memory rose, where it rose over the second half of the run and still at its end; none where it did not,
    /// or too little is known.
    pub fn rise(&self) -> Option<MemoryRise> {
        let end = self.moments.last()?.0;
        let levels = self.levels(end)?;
        let most = self.moments.iter().map(|at| at.1).fold(0.0, f64::max);
        let least = (COUNTS * most).clamp(BETWEEN[0], BETWEEN[1]);
        let grown = |from: usize| levels[PARTS - 1] - levels[from];
        let is_rising = grown(0) >= least && grown(PARTS / 2) >= least / 2.0 && slope(&levels) > STUDENT;
        let seconds = end / 2.0 * (PARTS - 1) as f64 / PARTS as f64;
        is_rising.then(|| MemoryRise { bytes: Bytes(grown(0) as u64), seconds })
    }

    /// The least memory in each part of the second half; none where nothing was seen in one.
    fn levels(&self, end: f64) -> Option<[f64; PARTS]> {
        let mut levels = [f64::INFINITY; PARTS];
        for (after, bytes) in self.moments.iter().filter(|(after, _)| *after >= end / 2.0) {
            let part = ((after / end - 0.5) * 2.0 * PARTS as f64) as usize;
            let level = &mut levels[part.min(PARTS - 1)];
            *level = level.min(*bytes);
        }
        levels.iter().all(|level| level.is_finite()).then_some(levels)
    }
}

/// Student's t of the slope of a line through levels: how many of its standard errors it is above none.
fn slope(levels: &[f64; PARTS]) -> f64 {
    let count = PARTS as f64;
    let (middle, mean) = ((count - 1.0) / 2.0, levels.iter().sum::<f64>() / count);
    let apart = |index: usize| index as f64 - middle;
    let squares: f64 = (0..PARTS).map(|index| apart(index).powi(2)).sum();
    let slope = levels.iter().enumerate().map(|(index, level)| apart(index) * (level - mean)).sum::<f64>() / squares;
    let off: f64 = levels.iter().enumerate().map(|(index, level)| (level - mean - slope * apart(index)).powi(2)).sum();
    slope / (off / (count - 2.0) / squares).sqrt().max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1_048_576.0;

    /// A run of so many seconds, polled 20 times a second, that holds so many MiB at each moment.
    fn rise(seconds: f64, mebibytes: impl Fn(f64) -> f64) -> Option<MemoryRise> {
        let mut held = MemoryHistory::default();
        for look in 1..=(seconds * 20.0) as u32 {
            let after = f64::from(look) / 20.0;
            held.add(Duration::from_secs_f64(after), Bytes((MIB * mebibytes(after)) as u64));
        }
        held.rise()
    }

    /// 40 MiB more in each second; 0.2 MiB of 12; a batch that comes and goes above a leak; a jump of 20 in each
    /// second; an hour, of which not every moment is kept.
    #[test]
    fn what_grows_until_the_end_still_rises() {
        let leak = rise(4.0, |after| 10.0 + 40.0 * after).unwrap();
        assert!((60.0..90.0).contains(&(leak.bytes.0 as f64 / MIB)) && (leak.seconds - 1.75).abs() < 0.1, "{leak:?}");
        assert!(rise(4.0, |after| 12.0 + 0.2 * after).is_some());
        assert!(
            rise(8.0, |after| 500.0 + 5.0 * after + if (after * 2.3).fract() < 0.7 { 100.0 } else { 0.0 }).is_some()
        );
        assert!(rise(16.0, |after| 50.0 + 20.0 * after.floor()).is_some());
        assert!(rise(3600.0, |after| 500.0 + after).is_some());
    }

    /// A job that holds the same since it started, also late; that holds more for moments; a cache that fills up; a
    /// page now and then; and a run of which too little was seen.
    #[test]
    fn what_starts_and_what_comes_and_goes_does_not_rise() {
        assert_eq!(rise(4.0, |after| f64::min(300.0, 200.0 * after)), None);
        assert_eq!(rise(4.0, |after| if after < 2.6 { 50.0 * after } else { 400.0 }), None);
        assert_eq!(rise(6.0, |after| if (after * 2.0).fract() < 0.12 { 265.0 } else { 15.0 }), None);
        assert_eq!(rise(8.0, |after| 300.0 - 200.0 * (-2.0 * after).exp()), None);
        assert_eq!(rise(8.0, |after| 100.0 + 0.004 * after.floor()), None);
        assert_eq!(rise(0.2, |after| 100.0 * after), None);
    }

    /// Levels that only chance moves, by 5 %: in a thousand runs about one seems to rise.
    #[test]
    fn chance_seldom_rises() {
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let rising = (0..1000).filter(|_| {
            let mut held = MemoryHistory::default();
            (1..=80).for_each(|look| {
                held.add(Duration::from_millis(50 * look), Bytes((MIB * (100.0 + 5.0 * random())) as u64))
            });
            held.rise().is_some()
        });
        let rising = rising.count();
        assert!(rising <= 5, "{rising}");
    }
}
