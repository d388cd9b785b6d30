//! Tests of how a budget is spent, on a simulated device in virtual time: the shipped configuration on a quiet machine
//! and on a busy one.

use super::planned::cheapest_first;
use super::{MeasurementRun, PlannedMeasurement, ProfileCounts, estimate};
use crate::device::kind::DeviceKind;
use crate::device::simulated::{SimulatedDevice, SimulatedPerformance};
use crate::device::{Device, DeviceOptions, Measurement, MeasurementJob};
use crate::plan::{Configuration, GridPlan, PlanEnding, Repetitions};
use crate::records::{RowReading, RowRecord, Variant};
use perf4sight_base::error::Result;
use perf4sight_base::units::Bytes;
use perf4sight_machine::{MachineProperties, RunWatch};
use perf4sight_network::zoo::{self, Dataset};
use perf4sight_onnx as onnx;
use perf4sight_report::{Console, ConsoleSettings, OutputMode};
use perf4sight_step::workload::{Stage, Variable, Workload};
use perf4sight_verb::Context;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// The networks of config.ini, its budget, and the levels that it fits on.
const NETWORKS: [&str; 3] = ["resnet18", "mobilenetv2", "squeezenet"];
const BATCHES: [u64; 3] = [1, 2, 4];
const BUDGET: f64 = 180.0;
const FITTED_LEVELS: [u8; 6] = [0, 10, 30, 50, 70, 90];

/// Milliseconds of a clock that only measurements advance.
static CLOCK: AtomicU64 = AtomicU64::new(0);

/// A simulated device on which every measurement takes this many milliseconds.
struct SlowDevice {
    device: SimulatedDevice,
    milliseconds: u64,
    /// The minimum number of steps of each measurement.
    steps: Mutex<Vec<usize>>,
}

impl Device for SlowDevice {
    fn name(&self) -> &str {
        self.device.name()
    }

    fn capacity(&self) -> Option<Bytes> {
        self.device.capacity()
    }

    fn setting(&self) -> MachineProperties {
        self.device.setting()
    }

    fn check(&self, job: &MeasurementJob) -> Result<()> {
        self.device.check(job)
    }

    fn measure(&self, job: &MeasurementJob, watch: &RunWatch<'_>) -> Result<Measurement> {
        CLOCK.fetch_add(self.milliseconds, Ordering::Relaxed);
        self.steps.lock().unwrap().extend(job.allowance.steps.map(|steps| steps.minimum));
        self.device.measure(job, watch)
    }
}

fn planned(folder: &Path) -> Vec<PlannedMeasurement> {
    let mut planned = Vec::new();
    for network in NETWORKS {
        let file = folder.join(network).with_extension("onnx");
        onnx::write(&zoo::build(network, Dataset::Imagenet).unwrap(), &file).unwrap();
        for (level, batch) in (0..10).flat_map(|tenth| BATCHES.map(|batch| (10 * tenth, batch))) {
            let variables = vec![Variable::Latency, Variable::Memory];
            let workload = Workload::published(Stage::Training, batch);
            let configuration = Configuration { variant: Variant::new(network, level), workload, variables, round: 1 };
            planned.push(PlannedMeasurement { configuration, file: file.clone(), dataset: "imagenet".into() });
        }
    }
    planned
}

/// Runs with the budget, and returns the counts and the minimum number of steps of each measurement.
fn run(planned: &[PlannedMeasurement], milliseconds: u64) -> (ProfileCounts, Vec<usize>) {
    let seconds = estimate::estimate_seconds(planned.iter(), &DeviceOptions::new(DeviceKind::Cpu));
    let (all, least) = cheapest_first(planned, &seconds);
    let mut plan = Repetitions::new(Box::new(GridPlan::new(all.clone())), &all, 2, Some(BUDGET)).repeating_after(least);
    let device = SimulatedDevice { abilities: SimulatedPerformance::default(), mem_limit: None, seed: 0 };
    let slow = SlowDevice { device, milliseconds, steps: Mutex::default() };
    let settings = ConsoleSettings { mode: OutputMode::Quiet, colour: false, bars: false, width: None };
    let console = Console::writing_to(settings, io::sink(), io::sink());
    let clock = || SystemTime::UNIX_EPOCH + Duration::from_millis(CLOCK.load(Ordering::Relaxed));
    let mut context = Context::new(console, clock, Arc::default(), PathBuf::new(), String::new());
    let run = MeasurementRun { devices: &[&slow], planned, till_first_fail: false };
    let counts = run.run(&mut plan, None, &mut context).unwrap();
    (counts, slow.steps.into_inner().unwrap())
}

fn latency(counts: &ProfileCounts) -> Vec<&RowRecord> {
    counts.rows.iter().filter(|row| matches!(row.reading, RowReading::Latency(_))).collect()
}

#[test]
fn a_busy_machine_measures_what_a_fit_needs_first_and_a_quiet_one_everything_twice() {
    let folder = tempfile::TempDir::new().unwrap();
    let planned = planned(folder.path());

    let (quiet, steps) = run(&planned, 900);
    assert_eq!((quiet.rows.len(), quiet.ending, quiet.shortfall()), (180, Some(PlanEnding::Complete), None));
    assert!(latency(&quiet).iter().all(|row| row.visits.len() >= 2) && steps.iter().all(|steps| *steps == 2));

    // Twelve seconds each: fifteen of ninety configurations.
    let (busy, steps) = run(&planned, 12_000);
    assert_eq!(busy.ending, Some(PlanEnding::Budget { seconds: BUDGET, unmeasured: 75 }));
    let rows = latency(&busy);
    let of = |network: &str| rows.iter().filter(|row| row.variant.network == network).count();
    assert_eq!(NETWORKS.map(of), [5; 3]);
    // The tenth row is the first that can be fitted to.
    assert!(rows.iter().filter(|row| FITTED_LEVELS.contains(&row.variant.level)).count() >= 10, "{rows:?}");
    assert_eq!(rows.iter().map(|row| row.workload.batch).collect::<BTreeSet<_>>(), BTreeSet::from(BATCHES));
    assert!(rows.iter().all(|row| row.visits.len() == 1));
    // Before the first measurement the speed is unknown.
    assert_eq!((steps[0], &steps[1..]), (2, [1; 14].as_slice()));
    let words = busy.shortfall().unwrap();
    assert!(words.contains("75 of 90 configurations are unmeasured, 15 rows were timed only once"), "{words}");
}
