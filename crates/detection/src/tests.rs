//! Tests of the list of settings, of settings that can be skipped, and of the evaluation of steps.

use super::timing::{StepTiming, disturbance, losses_doubt};
use super::{SettingResult, SweepSetting, TriedSetting};
use perf4sight_step::detection::{MeasuredDetection, MemoryPeaks, StepSeconds, StepSeries};
use std::collections::BTreeMap;

#[test]
fn prefetching_matters_where_somebody_loads_ahead() {
    let all = SweepSetting::all(&[2], &[0, 1], &[2, 4]);
    let pairs: Vec<(u64, u64)> = all.iter().map(|one| (one.num_workers, one.prefetch_factor)).collect();
    assert_eq!(pairs, [(0, 2), (1, 2), (1, 4)]);
}

#[test]
fn what_needs_as_much_as_what_did_not_fit_is_spared() {
    let setting = |batch, num_workers| SweepSetting { batch, num_workers, prefetch_factor: 2 };
    let failed = TriedSetting { setting: setting(8, 2), became: SettingResult::OutOfMemory(None) };
    assert!(failed.rules_out(setting(8, 4)) && failed.rules_out(setting(16, 2)));
    assert!(!failed.rules_out(setting(8, 0)) && !failed.rules_out(setting(4, 2)));
}

fn phase(waits: &[f64]) -> StepSeries {
    let parts: Vec<StepSeconds> = waits
        .iter()
        .map(|wait| StepSeconds { wait: *wait, forward: 0.2, backward: 0.3, ..StepSeconds::default() })
        .collect();
    StepSeries { seconds: parts.iter().map(StepSeconds::sum).sum(), parts, disturbed: 0 }
}

fn measured() -> MeasuredDetection {
    MeasuredDetection {
        first: phase(&[1.0]),
        plain: phase(&[0.4, 0.5, 0.6]),
        exact: phase(&[0.0, 0.1]),
        losses: Vec::new(),
        memory: MemoryPeaks { resident: 0, used: 0, heap: None, loaders: 0, allocated: None, reserved: None },
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
    let timing = StepTiming::from_measured(&measured(), 4).unwrap();
    assert!((timing.rate - 4.0).abs() < 1e-12 && (timing.exact - 0.55).abs() < 1e-12);
    // Steps of 0.9, 1.0 and 1.1 s: deviation 0.1, 4.3027 of its errors of the mean (two degrees of freedom).
    let half = 4.302_652_7 * 0.1 / 3f64.sqrt();
    let (low, high) = timing.interval.unwrap();
    assert!((low - 4.0 / (1.0 + half)).abs() < 1e-6 && (high - 4.0 / (1.0 - half)).abs() < 1e-6);
    assert!((timing.waiting(&measured()) - 0.5).abs() < 1e-12);
    // 33 images: eight whole batches of four, and three seconds to begin.
    assert!((timing.epoch(33, 4) - 11.0).abs() < 1e-12);
    assert_eq!(
        StepTiming::from_measured(&MeasuredDetection { plain: phase(&[0.1, 0.2]), ..measured() }, 4).unwrap().interval,
        None
    );
    assert_eq!(timing.percentiles, [None, None]);
    let ten: Vec<f64> = (0..10).map(f64::from).collect();
    // Steps of 0.5, 1.5, ... 9.5 s: a tenth of the way from the ninth to the tenth.
    let [nine_of_ten, _] =
        StepTiming::from_measured(&MeasuredDetection { plain: phase(&ten), ..measured() }, 4).unwrap().percentiles;
    assert!((nine_of_ten.unwrap() - 8.6).abs() < 1e-12);
    assert_eq!(StepTiming::from_measured(&MeasuredDetection { exact: phase(&[]), ..measured() }, 4), None);
}

#[test]
fn as_many_load_as_keep_up() {
    // Steps of 0.9, 1.0 and 1.1 s, of which 0.4, 0.5 and 0.6 s wait: half a second of computing.
    let timing = StepTiming::from_measured(&measured(), 4).unwrap();
    assert_eq!(timing.workers_needed(&measured(), 0), 1, "half a second to load, half a second to compute");
    assert_eq!(timing.workers_needed(&measured(), 2), 4, "two deliver two batches in a step of a second");
}

#[test]
fn most_steps_make_a_disturbance() {
    let disturbed =
        |disturbed| MeasuredDetection { plain: StepSeries { disturbed, ..phase(&[0.4, 0.5, 0.6]) }, ..measured() };
    assert_eq!(disturbance(&disturbed(1)), None);
    assert!(disturbance(&disturbed(2)).unwrap().contains("2 of 3 free steps"));
}

#[test]
fn losses_that_are_none_or_grow_are_doubted() {
    assert_eq!(losses_doubt(&[Some(1.4), Some(1.0)]), None);
    assert!(losses_doubt(&[Some(1.4), None]).unwrap().contains("step 2"));
    assert!(losses_doubt(&[None, None]).unwrap().contains("step 1"));
    assert_eq!(losses_doubt(&[Some(-5.0), Some(-5.0)]), None);
    assert!(losses_doubt(&[Some(-5.0), Some(51.0)]).unwrap().contains("diverges"));
    assert!(losses_doubt(&[Some(1.4), Some(2345.0), Some(2.0)]).unwrap().contains("diverges"));
}
