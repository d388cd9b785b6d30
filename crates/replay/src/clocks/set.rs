//! Clocks that were set while they were recorded: from one exchange on, all of a rank end by the same time earlier or later than before.

use super::estimate::{ExchangeParts, end_difference};
use super::order::median;
use crate::ranks::TrainingJob;
use perf4sight_base::units::Milliseconds;

/// That a clock was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClockSetting {
    /// The ends of the exchanges before and after it, in nanoseconds from the Unix epoch by its own clock.
    between: [i64; 2],
    /// Nanoseconds by which it is further on then, relative to the clock of the first rank.
    by: i64,
}

/// Exchanges before and after a setting that have to agree about it.
const AGREE: usize = 8;
/// A setting is larger than so many times the differences among them, and than this, in nanoseconds. Where each of eight ends later than the
/// one before by the same, as of a clock that drifts, it is 2.3 times, and with one that was disturbed 2.6.
const CLEAR: f64 = 2.6;
const SMALLEST: f64 = 1e6;
/// At most one in so many exchanges: of different jobs, each step ends at another time.
const SELDOM: usize = 20;

/// The settings of a rank's clock.
pub(super) fn find_settings(rank: usize, exchanges: &[ExchangeParts]) -> Vec<ClockSetting> {
    let together = exchanges.iter().filter(|parts| parts.iter().all(|part| part.operation.synchronises()));
    let end = |parts: &ExchangeParts, wanted: usize| Some(parts.iter().find(|part| part.rank == wanted)?.end);
    let mut ends: Vec<[i64; 2]> = together.filter_map(|parts| Some([end(parts, 0)?, end(parts, rank)?])).collect();
    ends.sort_unstable();
    let off: Vec<f64> = ends.iter().map(|[first, own]| own.saturating_sub(*first) as f64).collect();
    let least = SMALLEST.max(end_difference(rank, exchanges));
    let places = changes(&off, least);
    if places.len() * SELDOM > off.len() {
        return Vec::new();
    }
    let setting = |place: usize| ClockSetting {
        between: [ends[place - 1][1], ends[place][1]],
        by: (median(&off[place..place + AGREE]) - median(&off[place - AGREE..place])).round() as i64,
    };
    let settings: Vec<ClockSetting> = places.into_iter().map(setting).collect();
    // Of a clock that is set back, times before and after it are the same.
    let is_in_order = settings.iter().all(|one| one.between[0] < one.between[1]);
    if is_in_order { settings } else { Vec::new() }
}

/// The places before which values change, and stay as they are then.
fn changes(values: &[f64], least: f64) -> Vec<usize> {
    let mut found: Vec<(usize, f64)> = Vec::new();
    for place in AGREE..(values.len() + 1).saturating_sub(AGREE) {
        let sides = [&values[place - AGREE..place], &values[place..place + AGREE]];
        let [before, after] = sides.map(median);
        // One of them may have been disturbed.
        let spread =
            sides.iter().zip([before, after]).map(|(side, middle)| second_largest(side, middle)).fold(0.0, f64::max);
        if (after - before).abs() <= least + CLEAR * spread {
            continue;
        }
        let sum: f64 = sides
            .iter()
            .zip([before, after])
            .flat_map(|(side, middle)| side.iter().map(move |one| (one - middle).abs()))
            .sum();
        match found.last_mut().filter(|(other, _)| place - *other < AGREE) {
            Some(known) if sum < known.1 => *known = (place, sum),
            Some(_) => {}
            None => found.push((place, sum)),
        }
    }
    found.into_iter().map(|(place, _)| place).collect()
}

fn second_largest(values: &[f64], middle: f64) -> f64 {
    let mut off: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    off.sort_unstable_by(f64::total_cmp);
    off.get(off.len().saturating_sub(2)).copied().unwrap_or(0.0)
}

/// A moment as the clock would have shown it without its settings.
pub(super) fn without(settings: &[ClockSetting], moment: i64) -> i64 {
    let own = settings.iter().filter(|one| moment > one.between[0].midpoint(one.between[1]));
    own.fold(moment, |moment, one| moment.saturating_sub(one.by))
}

/// The steps during which a clock was set, by their index in [`TrainingJob::steps`]: when in them is not known.
pub(super) fn steps<'a>(
    job: &'a TrainingJob,
    rank: usize,
    settings: &'a [ClockSetting],
) -> impl Iterator<Item = usize> + 'a {
    let base = job.ranks[rank].trace.header.base;
    let is_during = move |step: &usize| {
        let (begin, end) = job.ranks[rank].steps[job.steps[*step].of[rank]].window;
        let [begin, end] = [begin, end].map(|moment| moment.saturating_add(base));
        settings.iter().any(|one| begin < one.between[1] && one.between[0] < end)
    };
    (0..job.steps.len()).filter(is_during)
}

/// The settings in a sentence.
pub(super) fn sentence(job: &TrainingJob, rank: usize, settings: &[ClockSetting]) -> Option<String> {
    let by: Vec<String> = settings
        .iter()
        .map(|one| format!("{} {}", Milliseconds(one.by.abs() as f64 / 1e6), if one.by > 0 { "on" } else { "back" }))
        .collect();
    (!by.is_empty()).then(|| {
        format!(
            "the clock of rank {} was set relative to that of the first rank during the recording, by {}: its times are corrected by that",
            job.ranks[rank].number,
            by.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends that differ by up to 40 us, and one by 100 ms; a clock that is set by 60 ms, one that drifts, and the ends of different jobs.
    #[test]
    fn a_clock_that_is_set_stays_so() {
        let noise = |at: u32| f64::from(at * 37 % 11) * 4_000.0 + if at == 17 { 1e8 } else { 0.0 };
        let ends = |off: &dyn Fn(u32) -> f64| (0..60).map(|at| off(at) + noise(at)).collect::<Vec<f64>>();
        assert_eq!(changes(&ends(&|at| if at < 31 { 5e9 } else { 5e9 + 6e7 }), 1e6), [31]);
        assert_eq!(changes(&ends(&|at| f64::from(at) * 5e5), 1e6), [0; 0]);
        assert_eq!(changes(&ends(&|_| 0.0), 1e6), [0; 0]);
        assert_eq!(changes(&ends(&|at| f64::from(at) * 3e7), 1e6), [0; 0]);
    }
}
