//! `plan = adaptive`: how it ends, goes on and refuses; and on a published device, how good it is.

use super::fixtures::{Sink, context, shared};
use super::profile::{LOGS, profile, rows, scene};
use perf4sight_base::units::{Bytes, Milliseconds};
use perf4sight_cost::device::Device;
use perf4sight_cost::device::recorded::RecordedDevice;
use perf4sight_cost::evaluation::Evaluation;
use perf4sight_cost::fingerprint::{
    Fingerprint, FingerprintSubject, FitMethod, FitRecipe, GatheredRows, LevelSelection, NetworkFolder, RowSelection,
    gather,
};
use perf4sight_cost::plan::{
    AdaptivePlan, Configuration, MeasurementLedger, OfferedConfiguration, Plan, PlanDecision, PlanInputs,
};
use perf4sight_cost::records::{MeasurementOutcome, MemoryColumns, ProfileProvenance, RowReading, RowRecord, Variant};
use perf4sight_cost::verbs::profile::{MeasurementRun, PlannedMeasurement, ProfileCounts, ProfileLog};
use perf4sight_network::Network;
use perf4sight_network::zoo::{Dataset, build};
use perf4sight_onnx as onnx;
use perf4sight_platform::Platform;
use perf4sight_report::OutputMode;
use perf4sight_step::workload::{Quantity, Stage, Step, Variable, Workload};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const BATCHES: &str = "bs = [1,2,4,8,16,24,32,40,48,56,64,72,80,88,96,104,112,120,128,136]";

fn count(records: &[RowRecord], outcome: MeasurementOutcome) -> usize {
    records.iter().filter(|record| record.outcome == outcome).count()
}

#[test]
fn a_few_rows_are_measured_and_nothing_is_measured_again() {
    let networks = ["squeezenet", "resnet18"];
    let scene = scene(&networks, &format!("{BATCHES}\nplan = adaptive"));
    // 12 rows of each network, for 15 % of 40 are fewer.
    scene
        .run("--config-file config.ini --check")
        .succeeds()
        .prints("[profile] 24 runs")
        .prints("measures at most 24 of 40 configurations");
    profile(&scene).succeeds().prints("configurations");
    let counted =
        |quantity| networks.map(|name| rows(&scene, quantity, &format!("{name}_0")).len()).iter().sum::<usize>();
    for quantity in Quantity::ALL {
        assert!((20..=24).contains(&counted(quantity)), "{} {quantity} rows", counted(quantity));
        for name in networks {
            let rows = rows(&scene, quantity, &format!("{name}_0"));
            assert!(rows.len() >= 8, "{name} has {} rows", rows.len());
            assert!(
                count(&rows, MeasurementOutcome::OutOfMemory) <= 2 && count(&rows, MeasurementOutcome::Skipped) == 0
            );
        }
    }
    let repeated = networks.map(|name| {
        let rows = rows(&scene, Quantity::Latency, &format!("{name}_0"));
        rows.len() - rows.iter().map(|row| row.workload.batch).collect::<BTreeSet<u64>>().len()
    });
    assert_eq!(repeated, [1, 1], "of each network something is measured twice, for the noise floor");
    let before = counted(Quantity::Latency);
    profile(&scene).succeeds();
    assert_eq!(counted(Quantity::Latency), before);
    assert_eq!(ProfileProvenance::load(&scene.path(LOGS)).unwrap().unwrap().runs.len(), 1, "a run that added nothing");
}

#[test]
fn a_budget_ends_the_profile_and_a_larger_one_goes_on() {
    let scene = scene(&["squeezenet"], &format!("{BATCHES}\nplan = adaptive\nbudget = 1ms"));
    profile(&scene).succeeds().prints("the budget of 1.00 ms is spent");
    let counted = || rows(&scene, Quantity::Latency, "squeezenet_0").len();
    let few = counted();
    assert!((1..12).contains(&few), "{few} rows in a millisecond");
    scene.run("--config-file config.ini --check").succeeds().prints("measures nothing: earlier runs spent");
    scene.run("--config-file config.ini --set profile.budget=2h").succeeds();
    assert!(counted() > few);
}

#[test]
fn bad_plans_and_budgets_are_refused() {
    let cases = [
        ("plan = adaptiv", "did you mean adaptive?"),
        ("plan = adaptive\nbudget = 20 parsecs", "a time above 0 such as 20 min, 90 s or 2 h"),
        ("plan = adaptive\nbudget = 20", "a time above 0 such as 20 min"),
        ("plan = adaptive\nbudget = -3 min", "a time above 0 such as 20 min"),
        ("plan = adaptive\nbudget = 0 s", "leaves no time to measure"),
        ("budget = 20 parsecs", "a time above 0 such as 20 min, 90 s or 2 h"),
        ("plan = adaptive\nrepeats = 2", "leave repeats out"),
        ("plan = adaptive\ntill_first_fail = True", "leave till_first_fail out"),
    ];
    for (more, message) in cases {
        let scene = scene(&["squeezenet"], &format!("bs = [2, 4]\n{more}"));
        profile(&scene).fails(3).says(message);
        assert!(!scene.path("profiling_csvs").exists(), "{more}");
    }
}

#[test]
fn a_recorded_device_is_asked_for_nothing_it_lacks() {
    let scene = scene(&["squeezenet", "resnet18"], BATCHES);
    profile(&scene).succeeds();
    let file = format!("{LOGS}/latency/squeezenet_0-gt.csv");
    let text: Vec<String> =
        scene.read(&file).lines().filter(|line| !line.contains("|latency|8|")).map(str::to_owned).collect();
    fs::write(scene.path(&file), text.join("\n") + "\n").unwrap();
    let recorded = "--config-file config.ini --set profile.device=recorded --set profile.log_dir=again \
                    --set profile.device_source=profiling_csvs/simulated/imagenet";
    scene.run(recorded).fails(5).says("there is no recorded latency of squeezenet_0, training, bs 8");
    scene.run(&format!("{recorded} --set profile.plan=adaptive")).succeeds();
    let again = |quantity: Quantity| {
        let file = scene.path("again").join(quantity.name()).join("squeezenet_0-gt.csv");
        perf4sight_cost::records::read(&file, quantity, Stage::Training).unwrap().records
    };
    let latency = again(Quantity::Latency);
    assert!(latency.len() >= 8 && latency.iter().all(|row| row.workload.batch != 8));
    let batches: BTreeSet<u64> = latency.iter().map(|row| row.workload.batch).collect();
    assert_eq!(batches.len(), latency.len(), "a recorded row says the same every time");
    // Of what it has nothing at all the device says so itself.
    let nothing = format!("{recorded} --set profile.plan=adaptive --set profile.stage=inference");
    scene.run(&nothing).fails(5).says("there is no recorded");
}

/// Four networks of the zoo at some batch sizes, and what a device of 2 GiB that follows the arithmetic says of each.
struct Bench {
    offers: Vec<OfferedConfiguration>,
}

impl Bench {
    fn new() -> Self {
        let networks =
            ["squeezenet", "resnet18", "mnasnet", "mobilenetv2"].map(|name| (name, build(name, Dataset::Imagenet)));
        let offers = networks.into_iter().flat_map(|(name, network)| {
            let network = Arc::new(network.unwrap());
            (1..=30u64).map(move |step| offer(&network, name, 4 * step))
        });
        Bench { offers: offers.collect() }
    }

    fn plan(&self) -> AdaptivePlan {
        let platform = Platform::for_name("cpu").unwrap();
        AdaptivePlan::new(self.offers.clone(), PlanInputs { platform, capacity: None, repeats: true, seed: 0 })
    }

    fn answer(&self, configuration: &Configuration) -> Vec<RowRecord> {
        let Configuration { variant, workload, .. } = configuration;
        let network = &self.offers.iter().find(|offer| offer.configuration.variant == *variant).unwrap().network;
        let used = Bytes(12 * workload.batch * network.activations() + (100 << 20));
        let latency = Milliseconds(30.0 + 1e-8 * (workload.batch * network.macs()) as f64);
        let fits = used.0 < 2 << 30;
        let memory = MemoryColumns { used: fits.then_some(used), ..MemoryColumns::default() };
        let readings = [RowReading::Latency(fits.then_some(latency)), RowReading::Memory(memory)];
        let outcome = if fits { MeasurementOutcome::Measured } else { MeasurementOutcome::OutOfMemory };
        readings.map(|reading| RowRecord::new(variant.clone(), *workload, outcome, reading)).into()
    }

    /// What is measured, in order, by a plan that knows these rows.
    fn run(&self, known: &[RowRecord]) -> Vec<Configuration> {
        let (mut plan, mut ledger, mut order) = (self.plan(), MeasurementLedger::from_records(known), Vec::new());
        while let PlanDecision::Measure(next) = plan.next(&ledger, 0.0).unwrap() {
            self.answer(&next).iter().for_each(|row| ledger.record(row));
            order.push(next);
            assert!(order.len() <= 120, "a plan ends");
        }
        order
    }
}

fn offer(network: &Arc<Network>, name: &str, batch: u64) -> OfferedConfiguration {
    let workload = Workload::published(Stage::Training, batch);
    let variables = vec![Variable::Latency, Variable::Memory];
    let configuration = Configuration { variant: Variant::new(name, 0), workload, variables, round: 1 };
    OfferedConfiguration { configuration, network: network.clone() }
}

#[test]
fn an_interrupted_plan_goes_on_as_if_it_had_not_been() {
    let bench = Bench::new();
    let whole = bench.run(&[]);
    assert_eq!(whole, bench.run(&[]), "the same answers lead to the same order");
    assert_eq!(whole.iter().filter(|one| one.round == 2).count(), whole.len().min(54) / 9);
    for done in [1, 10, 30] {
        let mut known: Vec<RowRecord> = whole[..done].iter().flat_map(|one| bench.answer(one)).collect();
        // Files keep rows by variant, not in the order in which they were measured.
        known.sort_by_key(|record| record.variant.clone());
        assert_eq!(bench.run(&known), whole[done..], "after {done}");
    }
}

#[test]
fn the_edge_of_memory_is_closed_in_on_with_few_failures() {
    let bench = Bench::new();
    let order = bench.run(&[]);
    for name in ["squeezenet", "resnet18", "mnasnet", "mobilenetv2"] {
        let own = order.iter().filter(|one| one.variant.network == name);
        let fits = |one: &&Configuration| bench.answer(one).iter().all(|row| row.outcome.passed());
        let (ran, failed): (Vec<_>, Vec<_>) = own.partition(fits);
        assert!(failed.len() <= 2, "{name} failed {} times", failed.len());
        assert!(ran.len() >= 5, "{name} ran {} times", ran.len());
    }
}

const NETWORKS: [&str; 5] = ["resnet18", "resnet50", "mobilenetv2", "squeezenet", "mnasnet"];

/// The levels that the published accuracy is fitted on.
const FITTED: [u8; 5] = [0, 30, 50, 70, 90];

/// The rows of a profile.
fn gathered(folder: &Path, quantity: Quantity, networks: &mut NetworkFolder) -> GatheredRows {
    let selection = RowSelection {
        folders: &[folder.join(quantity.name())],
        networks: &NETWORKS.map(str::to_owned),
        levels: LevelSelection::AllBut([].into()),
        step: Step::published(Stage::Training),
        quantity,
    };
    gather(&selection, networks).unwrap()
}

/// Everything the device has rows of, at some levels, where there is a network.
fn planned(tx2: &Path, wanted: impl Fn(&Variant) -> bool) -> Vec<PlannedMeasurement> {
    let mut networks = NetworkFolder::new(tx2.join("networks"));
    let mut variables: BTreeMap<(Variant, Workload), BTreeSet<Variable>> = BTreeMap::new();
    for quantity in Quantity::ALL {
        let GatheredRows { rows, failed, .. } = gathered(&tx2.join("profiling_csvs"), quantity, &mut networks);
        let records = rows.into_iter().map(|row| row.record).chain(failed.into_iter().map(|attempt| attempt.record));
        for record in records.filter(|record| wanted(&record.variant)) {
            variables.entry((record.variant, record.workload)).or_default().insert(quantity.into());
        }
    }
    let planned = variables.into_iter().map(|((variant, workload), variables)| PlannedMeasurement {
        file: tx2.join("networks").join(format!("{variant}.onnx")),
        dataset: "imagenet".into(),
        configuration: Configuration { variant, workload, variables: variables.into_iter().collect(), round: 1 },
    });
    planned.collect()
}

fn adaptive(planned: &[PlannedMeasurement], device: &dyn Device) -> AdaptivePlan {
    let mut read: BTreeMap<&Variant, Arc<Network>> = BTreeMap::new();
    let offers = planned.iter().map(|planned| {
        let variant = &planned.configuration.variant;
        let network = read.entry(variant).or_insert_with(|| Arc::new(onnx::read(&planned.file).unwrap().network));
        OfferedConfiguration { configuration: planned.configuration.clone(), network: network.clone() }
    });
    let platform = Platform::for_name("tx2").unwrap();
    let means = PlanInputs { platform, capacity: device.capacity(), repeats: false, seed: 1 };
    AdaptivePlan::new(offers.collect(), means)
}

/// Profiles into a folder by the adaptive plan.
fn measure(tx2: &Path, planned: &[PlannedMeasurement], folder: &Path) -> ProfileCounts {
    let device = RecordedDevice::open(&tx2.join("profiling_csvs"), NETWORKS, Stage::Training).unwrap();
    let (out, err) = (Sink::default(), Sink::default());
    let mut context = context(OutputMode::Quiet, &out, &err);
    let log = ProfileLog::open(folder, planned, (&device.setting(), 1), Duration::ZERO, &mut context).unwrap();
    let mut plan = adaptive(planned, &device);
    let run = MeasurementRun { devices: &[&device], planned, till_first_fail: false };
    let counts = run.run(&mut plan, Some(log), &mut context).unwrap();
    println!("{}", counts.ending.unwrap());
    for learned in plan.error_estimates() {
        println!("  after {}: {} {:.2} %", learned.measured, learned.quantity, learned.error);
    }
    counts
}

fn part(gathered: &GatheredRows, wanted: impl Fn(&Variant) -> bool) -> GatheredRows {
    GatheredRows {
        rows: gathered.rows.iter().filter(|row| wanted(&row.record.variant)).cloned().collect(),
        failed: gathered.failed.iter().filter(|attempt| wanted(&attempt.record.variant)).cloned().collect(),
        ..GatheredRows::default()
    }
}

fn fit(quantity: Quantity, gathered: &GatheredRows) -> Fingerprint {
    let subject = FingerprintSubject {
        device: "tx2".into(),
        dataset: "imagenet".into(),
        step: Step::published(Stage::Training),
        quantity,
    };
    let platform = Platform::for_name("tx2").unwrap();
    Fingerprint::fit(subject, FitRecipe::new(FitMethod::Hybrid, 1), &gathered.observations(&platform)).unwrap()
}

/// Every network, at all its rows of the whole grid, answered by a fit on the chosen rows of the others.
fn networks_left_out(quantity: Quantity, chosen: &GatheredRows, all: &GatheredRows) -> Evaluation {
    let cases = NETWORKS.iter().flat_map(|name| {
        let fingerprint = fit(quantity, &part(chosen, |variant| variant.network != *name));
        Evaluation::from_rows(&fingerprint, &part(all, |variant| variant.network == *name).rows).cases
    });
    Evaluation { cases: cases.collect() }
}

/// Every network, at all rows of levels that are not fitted on, answered by a fit on its own chosen rows at the others.
fn levels_left_out(quantity: Quantity, chosen: &GatheredRows, all: &GatheredRows) -> Evaluation {
    let fitted = |variant: &Variant| FITTED.contains(&variant.level);
    let cases = NETWORKS.iter().flat_map(|name| {
        let fingerprint = fit(quantity, &part(chosen, |variant| variant.network == *name && fitted(variant)));
        Evaluation::from_rows(&fingerprint, &part(all, |variant| variant.network == *name && !fitted(variant)).rows)
            .cases
    });
    Evaluation { cases: cases.collect() }
}

/// The runs that failed, a variant at a time.
fn failing_runs(rows: &[RowRecord]) -> BTreeMap<&Variant, BTreeSet<u64>> {
    let mut failing: BTreeMap<&Variant, BTreeSet<u64>> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.outcome.passed()) {
        failing.entry(&row.variant).or_default().insert(row.workload.batch);
    }
    failing
}

type Protocol = fn(Quantity, &GatheredRows, &GatheredRows) -> Evaluation;

/// Profiles what is `wanted` of the published device, and compares fits on the chosen rows with fits on all of them.
fn is_within_a_point(wanted: impl Fn(&Variant) -> bool, protocol: Protocol) {
    let Some(tx2) = shared("tx2") else { return };
    let (planned, folder) = (planned(&tx2, wanted), tempfile::TempDir::new().unwrap());
    let counts = measure(&tx2, &planned, folder.path());
    let failing = failing_runs(&counts.rows);
    let worst = failing.values().map(BTreeSet::len).max().unwrap_or_default();
    println!("{} failing runs, at most {worst} a variant", failing.values().map(BTreeSet::len).sum::<usize>());
    assert!(worst <= 2);
    for quantity in Quantity::ALL {
        let mut networks = NetworkFolder::new(tx2.join("networks"));
        let all = gathered(&tx2.join("profiling_csvs"), quantity, &mut networks);
        let chosen = gathered(folder.path(), quantity, &mut networks);
        let offered = planned.iter().filter(|one| one.configuration.variables.contains(&quantity.into())).count();
        let taken = chosen.rows.len() + chosen.failed.len();
        let share = 100.0 * taken as f64 / offered as f64;
        let [full, few] = [&all, &chosen].map(|rows| protocol(quantity, rows, &all).mean_over_networks().unwrap());
        println!(
            "{quantity}: {taken} of {offered} rows ({share:.1} %), error {few:.2} %, of the whole grid {full:.2} %"
        );
        assert!(share <= 15.0 && few <= full + 1.0);
    }
}

#[test]
fn a_tenth_of_the_rows_predicts_networks_nobody_profiled() {
    is_within_a_point(|_| true, networks_left_out);
}

#[test]
fn a_tenth_of_the_rows_predicts_levels_nobody_profiled() {
    is_within_a_point(|variant| FITTED.contains(&variant.level), levels_left_out);
}
