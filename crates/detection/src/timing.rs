//! What the steps of a detector say: rate, parts, percentiles, and whether data or the device is what it waits for.

use perf4sight_base::stats::{mean, percentile};
use perf4sight_base::units::counted;
use perf4sight_step::detection::{Measured, Parts, Phase};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The share of a step spent waiting for data from which on loading it is worth changing.
const WORTH_MENDING: f64 = 0.1;
/// A loss that many times the first one is that of a training which diverges.
const DIVERGED: f64 = 10.0;

/// Steps of one setting.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Timing {
    /// Images a second, of steps that ran freely.
    pub rate: f64,
    /// Where it lies in 19 of 20 such runs, if steps differ by chance; none of fewer than three steps.
    pub interval: Option<(f64, f64)>,
    /// Mean seconds of each part of an exact step.
    pub parts: [f64; 6],
    /// Mean seconds of an exact step.
    pub exact: f64,
    /// Mean seconds of a step that ran freely.
    pub plain: f64,
    /// Seconds of a free step that nine of ten and 99 of 100 stay below; none of fewer steps than ten and a hundred.
    pub percentiles: [Option<f64>; 2],
    /// Mean seconds of the first steps.
    pub first: f64,
    /// Mean seconds that an epoch takes to begin.
    pub epoch_start: f64,
}

impl Timing {
    /// Of steps of `batch` images; none where there are none.
    pub fn of(measured: &Measured, batch: u64) -> Option<Self> {
        let steps: Vec<f64> = measured.plain.parts.iter().map(Parts::sum).collect();
        let (plain, exact, first) = (each(&measured.plain)?, each(&measured.exact)?, each(&measured.first)?);
        let images = batch as f64;
        Some(Timing {
            rate: images / plain,
            interval: half_width(&steps).map(|half| (images / (plain + half), images / (plain - half).max(0.0))),
            parts: part_means(&measured.exact),
            exact,
            plain,
            percentiles: [(10, 90.0), (100, 99.0)]
                .map(|(least, percent)| (steps.len() >= least).then(|| percentile(&steps, percent))),
            first,
            epoch_start: mean(&measured.epoch_starts),
        })
    }

    /// The share of a free step that waits for data: exact ones leave loaders time to get ahead.
    pub fn waiting(&self, measured: &Measured) -> f64 {
        part_means(&measured.plain)[0] / self.plain
    }

    /// Seconds of an epoch of so many images, of which whole batches are taken.
    pub fn epoch(&self, images: u64, batch: u64) -> f64 {
        (images / batch) as f64 * self.plain + self.epoch_start
    }

    /// How many processes that load data would keep up with the device, by what they deliver now: one loads a batch while the device computes
    /// with another; `num_workers` that the device waits for deliver as many batches in that step as there are of them.
    pub fn workers_needed(&self, measured: &Measured, num_workers: u64) -> u64 {
        let waiting = part_means(&measured.plain)[0];
        let loading = if num_workers == 0 { waiting } else { self.plain * num_workers as f64 };
        (loading / (self.plain - waiting).max(f64::MIN_POSITIVE)).ceil().min(1e6) as u64
    }
}

/// What made a setting's steps slower than they are: other programs in most of them, a hypervisor, clocks that were held down.
pub(super) fn disturbance(measured: &Measured) -> Option<String> {
    let Phase { parts, disturbed, .. } = &measured.plain;
    let steps = parts.len() as u64;
    let others = (2 * disturbed > steps).then(|| {
        format!("other programs had processors that it waited for in {disturbed} of {}", counted(steps, "free step"))
    });
    others.or_else(|| measured.conditions.disturbance()).or_else(|| measured.conditions.throttling())
}

/// Whether loading data is worth changing.
pub(super) fn waits_for_data(share: f64) -> bool {
    share > WORTH_MENDING
}

/// What is wrong with the losses of a training, whose times are then not those of one that learns.
pub(super) fn doubt(losses: &[Option<f64>]) -> Option<String> {
    if let Some(step) = losses.iter().position(Option::is_none) {
        return Some(format!("the loss of step {} is no finite number", step + 1));
    }
    let first = losses.first().copied().flatten()?;
    let highest = losses.iter().flatten().fold(first, |highest, loss| highest.max(*loss));
    // A loss of a user's own may be negative, or begin with nothing.
    (first != 0.0 && highest > DIVERGED * first.abs())
        .then(|| format!("the loss rose from {first:.3} to {highest:.3}: training diverges"))
}

/// Mean seconds of a step, by the clock around all of them.
fn each(phase: &Phase) -> Option<f64> {
    (!phase.parts.is_empty()).then(|| phase.seconds / phase.parts.len() as f64)
}

fn part_means(phase: &Phase) -> [f64; 6] {
    std::array::from_fn(|part| mean(&phase.parts.iter().map(|parts| parts.each()[part]).collect::<Vec<_>>()))
}

/// Half of Student's 95 % interval of a mean.
fn half_width(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let student = (count >= 3.0).then(|| StudentsT::new(0.0, 1.0, count - 1.0)).and_then(Result::ok)?;
    let middle = mean(values);
    let variance = values.iter().map(|value| (value - middle).powi(2)).sum::<f64>() / (count - 1.0);
    Some(student.inverse_cdf(0.975) * (variance / count).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_step::detection::Memory;
    use std::collections::BTreeMap;

    fn phase(waits: &[f64]) -> Phase {
        let parts: Vec<Parts> =
            waits.iter().map(|wait| Parts { wait: *wait, forward: 0.2, backward: 0.3, ..Parts::default() }).collect();
        Phase { seconds: parts.iter().map(Parts::sum).sum(), parts, disturbed: 0 }
    }

    fn measured() -> Measured {
        Measured {
            first: phase(&[1.0]),
            plain: phase(&[0.4, 0.5, 0.6]),
            exact: phase(&[0.0, 0.1]),
            losses: Vec::new(),
            memory: Memory { resident: 0, used: 0, heap: None, loaders: 0, allocated: None, reserved: None },
            images: 32,
            epoch_starts: vec![2.0, 4.0],
            damaged: BTreeMap::new(),
            seconds: 9.0,
            batches: Vec::new(),
            largest: None,
            weights: 0,
            conditions: Box::default(),
        }
    }

    #[test]
    fn rates_come_with_students_interval() {
        let timing = Timing::of(&measured(), 4).unwrap();
        assert!((timing.rate - 4.0).abs() < 1e-12 && (timing.exact - 0.55).abs() < 1e-12);
        // Steps of 0.9, 1.0 and 1.1 s: deviation 0.1, 4.3027 of its errors of the mean (two degrees of freedom).
        let half = 4.302_652_7 * 0.1 / 3f64.sqrt();
        let (low, high) = timing.interval.unwrap();
        assert!((low - 4.0 / (1.0 + half)).abs() < 1e-6 && (high - 4.0 / (1.0 - half)).abs() < 1e-6);
        assert!((timing.waiting(&measured()) - 0.5).abs() < 1e-12);
        // 33 images: eight whole batches of four, and three seconds to begin.
        assert!((timing.epoch(33, 4) - 11.0).abs() < 1e-12);
        assert_eq!(Timing::of(&Measured { plain: phase(&[0.1, 0.2]), ..measured() }, 4).unwrap().interval, None);
        assert_eq!(timing.percentiles, [None, None]);
        let ten: Vec<f64> = (0..10).map(f64::from).collect();
        // Steps of 0.5, 1.5, ... 9.5 s: a tenth of the way from the ninth to the tenth.
        let [nine_of_ten, _] = Timing::of(&Measured { plain: phase(&ten), ..measured() }, 4).unwrap().percentiles;
        assert!((nine_of_ten.unwrap() - 8.6).abs() < 1e-12);
        assert_eq!(Timing::of(&Measured { exact: phase(&[]), ..measured() }, 4), None);
    }

    #[test]
    fn as_many_load_as_keep_up() {
        // Steps of 0.9, 1.0 and 1.1 s, of which 0.4, 0.5 and 0.6 s wait: half a second of computing.
        let timing = Timing::of(&measured(), 4).unwrap();
        assert_eq!(timing.workers_needed(&measured(), 0), 1, "half a second to load, half a second to compute");
        assert_eq!(timing.workers_needed(&measured(), 2), 4, "two deliver two batches in a step of a second");
    }

    #[test]
    fn most_steps_make_a_disturbance() {
        let disturbed = |disturbed| Measured { plain: Phase { disturbed, ..phase(&[0.4, 0.5, 0.6]) }, ..measured() };
        assert_eq!(disturbance(&disturbed(1)), None);
        assert!(disturbance(&disturbed(2)).unwrap().contains("2 of 3 free steps"));
    }

    #[test]
    fn losses_that_are_none_or_grow_are_doubted() {
        assert_eq!(doubt(&[Some(1.4), Some(1.0)]), None);
        assert!(doubt(&[Some(1.4), None]).unwrap().contains("step 2"));
        assert!(doubt(&[None, None]).unwrap().contains("step 1"));
        assert_eq!(doubt(&[Some(-5.0), Some(-5.0)]), None);
        assert!(doubt(&[Some(-5.0), Some(51.0)]).unwrap().contains("diverges"));
        assert!(doubt(&[Some(1.4), Some(2345.0), Some(2.0)]).unwrap().contains("diverges"));
    }
}
