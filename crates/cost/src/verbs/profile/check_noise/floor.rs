//! What repeated measurements say about the device they were made on.

use super::rounds::Taken;
use perf4sight_base::stats::{mean, median, scatter, trend};
use perf4sight_machine::Conditions;
use std::collections::BTreeMap;

/// The noise in percent at which more repeats are not worth their time: predictions are several percent off for other reasons.
const GOOD_ENOUGH: f64 = 1.0;
/// With more repeats than this a quieter device is cheaper.
const MOST_REPEATS: f64 = 10.0;
/// A slope of more than so many standard errors is no chance (two-sided 5 %).
const SIGNIFICANT: f64 = 2.0;

/// A device against itself. Everything is in percent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Noise {
    /// Each batch size.
    pub configurations: Vec<Repeated>,
    /// How far one measurement lies from the truth on average: no prediction can be closer to single measurements.
    pub floor: f64,
    /// The same within a worker: the half-width of a median's 95 % interval, middle of all runs.
    pub within: f64,
    /// How much slower the device got from beginning to end.
    pub drift: Option<Drift>,
    /// Steps that others disturbed.
    pub disturbed_steps: f64,
    /// Processor time that a hypervisor gave to others; none where the machine does not tell.
    pub stolen: Option<f64>,
    /// Measurements that a profile would make once more.
    pub doubtful: usize,
    /// What the machine told before the first and after the last.
    pub conditions: Conditions,
    /// Seconds it all took.
    pub seconds: f64,
}

/// One configuration, measured several times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Repeated {
    pub batch: u64,
    /// Measurements.
    pub runs: usize,
    /// Median of their medians.
    pub milliseconds: f64,
    /// As [`Noise::within`].
    pub within: f64,
    /// As [`Noise::floor`].
    pub between: f64,
    /// The measurement farthest from the middle.
    pub worst: f64,
}

/// A change over the time of the check.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Drift {
    /// In percent, from beginning to end; negative: the device got faster.
    pub percent: f64,
    /// Its standard error.
    pub error: f64,
}

impl Drift {
    /// Whether it is more than chance.
    pub fn is_significant(&self) -> bool {
        self.percent.abs() > SIGNIFICANT * self.error
    }
}

impl Noise {
    /// From all measurements in the order they were made; none where nothing was measured twice.
    pub fn of(taken: &[Taken]) -> Option<Self> {
        let mut groups: BTreeMap<u64, Vec<&Taken>> = BTreeMap::new();
        taken.iter().for_each(|one| groups.entry(one.batch).or_default().push(one));
        groups.retain(|_, group| group.len() > 1);
        let configurations: Vec<Repeated> = groups.iter().map(|(batch, group)| Repeated::of(*batch, group)).collect();
        let mut conditions = Conditions::default();
        taken.iter().for_each(|one| conditions.extend(&one.conditions));
        let steps: usize = taken.iter().map(|one| one.steps).sum();
        let disturbed: usize = taken.iter().map(|one| one.disturbed_steps).sum();
        Some(Noise {
            floor: mean(&configurations.iter().map(|one| one.between).collect::<Vec<_>>()),
            within: 100.0 * median(&taken.iter().map(|one| one.spread).collect::<Vec<_>>()),
            drift: drift(&groups),
            disturbed_steps: 100.0 * disturbed as f64 / steps.max(1) as f64,
            stolen: conditions.stolen_share().map(|share| 100.0 * share),
            doubtful: taken.iter().filter(|one| one.doubtful).count(),
            seconds: taken.last()?.at,
            conditions,
            configurations,
        })
        .filter(|noise| !noise.configurations.is_empty())
    }

    /// How often to measure every configuration so that the mean of its rows is off by [`GOOD_ENOUGH`] at most: noise shrinks with
    /// the root of their number. None where that would be too often.
    pub fn repeats(&self) -> Option<u32> {
        let needed = (self.floor / GOOD_ENOUGH).powi(2).ceil().max(1.0);
        (needed <= MOST_REPEATS).then_some(needed as u32)
    }
}

impl Repeated {
    fn of(batch: u64, group: &[&Taken]) -> Self {
        let times: Vec<f64> = group.iter().map(|one| one.milliseconds).collect();
        let middle = median(&times);
        Repeated {
            batch,
            runs: group.len(),
            milliseconds: middle,
            within: 100.0 * median(&group.iter().map(|one| one.spread).collect::<Vec<_>>()),
            between: scatter(&times),
            worst: times.iter().map(|time| 100.0 * (time - middle).abs() / middle).fold(0.0, f64::max),
        }
    }
}

/// The slope of all times relative to the middle of their configuration.
fn drift(groups: &BTreeMap<u64, Vec<&Taken>>) -> Option<Drift> {
    let relative = groups.values().flat_map(|group| {
        let middle = median(&group.iter().map(|one| one.milliseconds).collect::<Vec<_>>());
        group.iter().map(move |one| (one.at, 100.0 * one.milliseconds / middle))
    });
    let points: Vec<(f64, f64)> = relative.collect();
    let (slope, error) = trend(&points)?;
    let ends = points.iter().map(|(at, _)| *at);
    let span = ends.clone().fold(f64::MIN, f64::max) - ends.fold(f64::MAX, f64::min);
    Some(Drift { percent: slope * span, error: error * span })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn taken(batch: u64, at: f64, milliseconds: f64) -> Taken {
        let conditions = Conditions::default();
        let took = Duration::from_secs(1);
        Taken { batch, at, took, milliseconds, spread: 0.01, steps: 9, disturbed_steps: 1, doubtful: false, conditions }
    }

    #[test]
    fn the_floor_is_the_mean_scatter_of_the_configurations() {
        let times = [(1, 98.0), (8, 500.0), (8, 500.0), (1, 100.0), (1, 102.0), (8, 500.0)];
        let all: Vec<Taken> = (0..).zip(times).map(|(at, (batch, time))| taken(batch, f64::from(at), time)).collect();
        let noise = Noise::of(&all).unwrap();
        // Deviations 2, 0, 2 of 100: 4 / 3 % times the root of 3 / 2; the other configuration has none.
        let one = 4.0 / 3.0 * 1.5f64.sqrt();
        assert!((noise.configurations[0].between - one).abs() < 1e-12 && noise.configurations[1].between == 0.0);
        assert!((noise.floor - one / 2.0).abs() < 1e-12);
        assert_eq!((noise.configurations[0].worst, noise.configurations[0].milliseconds), (2.0, 100.0));
        assert_eq!((noise.within, noise.stolen, noise.doubtful, noise.seconds), (1.0, None, 0, 5.0));
    }

    #[test]
    fn disturbed_steps_are_counted_among_all() {
        let lasting = Taken { disturbed_steps: 9, ..taken(1, 0.0, 10.0) };
        let noise = Noise::of(&[lasting, taken(1, 1.0, 10.0)]).unwrap();
        assert!((noise.disturbed_steps - 100.0 * 10.0 / 18.0).abs() < 1e-9, "{}", noise.disturbed_steps);
    }

    #[test]
    fn a_device_that_gets_slower_drifts() {
        // 1 % from the first to the last of five, both sizes alike.
        let warming = |batch: u64, base: f64| {
            (0..5).map(move |at| taken(batch, f64::from(at), base * (1.0 + f64::from(at) / 400.0)))
        };
        let all: Vec<Taken> = warming(1, 10.0).chain(warming(8, 70.0)).collect();
        let drift = Noise::of(&all).unwrap().drift.unwrap();
        assert!((drift.percent - 1.0).abs() < 0.01 && drift.is_significant(), "{drift:?}");
        let steady: Vec<Taken> =
            (0..6).map(|at| taken(1, f64::from(at), if at % 2 == 0 { 99.0 } else { 101.0 })).collect();
        assert!(!Noise::of(&steady).unwrap().drift.unwrap().is_significant());
    }

    #[test]
    fn repeats_shrink_noise_with_the_root_of_their_number() {
        let noise = |floor| Noise { floor, ..Noise::of(&[taken(1, 0.0, 1.0), taken(1, 1.0, 1.0)]).unwrap() };
        assert_eq!([0.0, 0.4, 1.0, 1.1, 3.0].map(|floor| noise(floor).repeats()), [1, 1, 1, 2, 9].map(Some));
        assert_eq!(noise(22.0).repeats(), None);
    }

    #[test]
    fn nothing_measured_twice_says_nothing() {
        assert_eq!(Noise::of(&[]), None);
        assert_eq!(Noise::of(&[taken(1, 0.0, 1.0), taken(8, 1.0, 5.0)]), None);
    }
}
