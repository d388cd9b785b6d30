//! Tests of the noise estimated from repeated measurements, and of how many are taken in the given time.

use super::floor::NoiseFloor;
use super::rounds::{NoiseMeasurement, NoiseRounds};
use crate::device::protocol::LatencyReading;
use crate::device::{Device, Measurement, MeasurementJob};
use crate::records::Variant;
use perf4sight_base::error::Result;
use perf4sight_base::units::Bytes;
use perf4sight_machine::{Conditions, MachineProperties, RunWatch};
use perf4sight_report::{Console, ConsoleSettings, OutputMode};
use perf4sight_step::workload::{Stage, Workload};
use perf4sight_verb::Context;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

fn measurement(batch: u64, at: f64, milliseconds: f64) -> NoiseMeasurement {
    let conditions = Conditions::default();
    let took = Duration::from_secs(1);
    NoiseMeasurement {
        batch,
        at,
        took,
        milliseconds,
        spread: 0.01,
        steps: 9,
        disturbed_steps: 1,
        doubtful: false,
        conditions,
    }
}

#[test]
fn the_floor_is_the_mean_scatter_of_the_configurations() {
    let times = [(1, 98.0), (8, 500.0), (8, 500.0), (1, 100.0), (1, 102.0), (8, 500.0)];
    let all: Vec<NoiseMeasurement> =
        (0..).zip(times).map(|(at, (batch, time))| measurement(batch, f64::from(at), time)).collect();
    let noise = NoiseFloor::from_measurements(&all).unwrap();
    // Deviations 2, 0, 2 of 100: 4 / 3 % times the root of 3 / 2; the other configuration has none.
    let one = 4.0 / 3.0 * 1.5f64.sqrt();
    assert!((noise.configurations[0].between - one).abs() < 1e-12 && noise.configurations[1].between == 0.0);
    assert!((noise.floor - one / 2.0).abs() < 1e-12);
    assert_eq!((noise.configurations[0].worst, noise.configurations[0].milliseconds), (2.0, 100.0));
    assert_eq!((noise.within, noise.stolen, noise.doubtful, noise.seconds), (1.0, None, 0, 5.0));
}

#[test]
fn disturbed_steps_are_counted_among_all() {
    let lasting = NoiseMeasurement { disturbed_steps: 9, ..measurement(1, 0.0, 10.0) };
    let noise = NoiseFloor::from_measurements(&[lasting, measurement(1, 1.0, 10.0)]).unwrap();
    assert!((noise.disturbed_steps - 100.0 * 10.0 / 18.0).abs() < 1e-9, "{}", noise.disturbed_steps);
}

#[test]
fn a_device_that_gets_slower_drifts() {
    // 1 % from the first to the last of five, for both sizes alike.
    let warming = |batch: u64, base: f64| {
        (0..5).map(move |at| measurement(batch, f64::from(at), base * (1.0 + f64::from(at) / 400.0)))
    };
    let all: Vec<NoiseMeasurement> = warming(1, 10.0).chain(warming(8, 70.0)).collect();
    let drift = NoiseFloor::from_measurements(&all).unwrap().drift.unwrap();
    assert!((drift.percent - 1.0).abs() < 0.01 && drift.is_significant(), "{drift:?}");
    let steady: Vec<NoiseMeasurement> =
        (0..6).map(|at| measurement(1, f64::from(at), if at % 2 == 0 { 99.0 } else { 101.0 })).collect();
    assert!(!NoiseFloor::from_measurements(&steady).unwrap().drift.unwrap().is_significant());
}

#[test]
fn repeats_shrink_noise_with_the_root_of_their_number() {
    let noise = |floor| NoiseFloor {
        floor,
        ..NoiseFloor::from_measurements(&[measurement(1, 0.0, 1.0), measurement(1, 1.0, 1.0)]).unwrap()
    };
    assert_eq!([0.0, 0.4, 1.0, 1.1, 3.0].map(|floor| noise(floor).repeats()), [1, 1, 1, 2, 9].map(Some));
    assert_eq!(noise(22.0).repeats(), None);
}

#[test]
fn nothing_measured_twice_says_nothing() {
    assert_eq!(NoiseFloor::from_measurements(&[]), None);
    assert_eq!(NoiseFloor::from_measurements(&[measurement(1, 0.0, 1.0), measurement(8, 1.0, 5.0)]), None);
}

/// Milliseconds of a clock that only measurements advance.
static CLOCK: AtomicU64 = AtomicU64::new(0);

/// A device on which every measurement takes this many milliseconds.
struct SlowDevice(u64);

impl Device for SlowDevice {
    fn name(&self) -> &str {
        "slow"
    }

    fn capacity(&self) -> Option<Bytes> {
        None
    }

    fn setting(&self) -> MachineProperties {
        MachineProperties::new()
    }

    fn check(&self, _: &MeasurementJob) -> Result<()> {
        Ok(())
    }

    fn measure(&self, _: &MeasurementJob, _: &RunWatch<'_>) -> Result<Measurement> {
        CLOCK.fetch_add(self.0, Ordering::Relaxed);
        let latency = LatencyReading { median: 1.0, spread: 0.0, steps: 3, discarded: 0, disturbed: false };
        let conditions = Box::default();
        Ok(Measurement::Measured { latency: Some(latency), memory: None, layers: None, seconds: 0.0, conditions })
    }
}

#[test]
fn it_takes_the_time_it_was_given() {
    let settings = ConsoleSettings { mode: OutputMode::Quiet, colour: false, bars: false, width: None };
    let console = Console::writing_to(settings, io::sink(), io::sink());
    let clock = || SystemTime::UNIX_EPOCH + Duration::from_millis(CLOCK.load(Ordering::Relaxed));
    let context = Context::new(console, clock, Arc::default(), PathBuf::new(), String::new());
    let jobs = [1, 8].map(|batch| {
        let step = Workload::published(Stage::Training, batch);
        MeasurementJob { latency: true, ..MeasurementJob::new(&Variant::new("net", 0), Path::new(""), step) }
    });
    // Six measurements of 1.5 s fit into ten seconds; of 4 s, three are needed to measure one size twice; without any
    // time, 20 rounds are enough.
    for (milliseconds, batches) in [(1500, vec![1, 8, 8, 1, 1, 8]), (4000, vec![1, 8, 8]), (0, [1, 8, 8, 1].repeat(10))]
    {
        let rounds = NoiseRounds { device: &SlowDevice(milliseconds), jobs: &jobs, time: Duration::from_secs(10) };
        let taken: Vec<u64> = rounds.take(&context).unwrap().iter().map(|one| one.batch).collect();
        assert_eq!(taken, batches, "{milliseconds} ms each");
    }
}
