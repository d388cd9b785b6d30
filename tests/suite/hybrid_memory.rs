//! Memory fingerprints of the hybrid method on a device whose rules are known: tensors plus 100 MiB, 1000 MiB for tensors.

use perf4sight_base::units::Bytes;
use perf4sight_cost::fingerprint::{
    FailedAttempt, Fingerprint, FingerprintSubject, FitDecision, FitMethod, FitRecipe, MeasuredRow, Observations,
    OutOfDistribution, PredictedValue, likelier_platform,
};
use perf4sight_cost::pruning::{FilterRanking, Pruner, PruningGoal, generator};
use perf4sight_cost::records::{MeasurementOutcome, MemoryColumns, RowReading, RowRecord, Variant};
use perf4sight_memory::Simulation;
use perf4sight_network::Network;
use perf4sight_network::zoo;
use perf4sight_network::zoo::Dataset;
use perf4sight_platform::Platform;
use perf4sight_step::workload::{Accumulate, Quantity, Stage, Step, Workload};
use std::sync::Arc;

const LIMIT: f64 = 1000.0;
const BESIDE: f64 = 100.0;

fn tensors(network: &Network, batch: u64) -> f64 {
    let platform = Platform::for_name("cpu").unwrap();
    Simulation::new(network, Step::published(Stage::Training), &platform).peak(batch).reserved.mib()
}

fn network(name: &str) -> Arc<Network> {
    Arc::new(zoo::build(name, Dataset::Imagenet).unwrap())
}

/// Batch sizes 1, 2, 4, ... 128 of a network: what fits passes.
fn tried(name: &str) -> (Vec<MeasuredRow>, Vec<FailedAttempt>) {
    let (network, mut rows, mut failed) = (network(name), Vec::new(), Vec::new());
    for batch in (0..8).map(|doublings| 1 << doublings) {
        let tensors = tensors(&network, batch);
        let fits = tensors <= LIMIT;
        let used = fits.then(|| Bytes::from_mib(tensors + BESIDE));
        let workload = Workload::published(Stage::Training, batch);
        let outcome = if fits { MeasurementOutcome::Measured } else { MeasurementOutcome::OutOfMemory };
        let reading = RowReading::Memory(MemoryColumns { used, ..Default::default() });
        let record = RowRecord::new(Variant::new(name, 0), workload, outcome, reading);
        match used {
            Some(used) => {
                rows.push(MeasuredRow { record, measured: used.mib(), network: network.clone(), layers: Vec::new() })
            }
            None => failed.push(FailedAttempt { record, network: network.clone() }),
        }
    }
    (rows, failed)
}

fn fit(names: &[&str]) -> Fingerprint {
    let (rows, failed): (Vec<_>, Vec<_>) = names.iter().map(|name| tried(name)).unzip();
    fit_rows(Step::published(Stage::Training), &rows.concat(), &failed.concat())
}

fn fit_rows(step: Step, rows: &[MeasuredRow], failed: &[FailedAttempt]) -> Fingerprint {
    let platform = Platform::for_name("cpu").unwrap();
    let observations = Observations { rows, taught: &[], failed, platform: &platform };
    let subject =
        FingerprintSubject { device: "known".into(), dataset: "imagenet".into(), step, quantity: Quantity::Memory };
    Fingerprint::fit(subject, FitRecipe::new(FitMethod::Hybrid, 1), &observations).unwrap()
}

#[test]
fn a_network_nobody_profiled_is_simulated() {
    let fingerprint = fit(&["resnet18", "squeezenet", "mnasnet"]);
    let unknown = network("resnet50");
    let about = fingerprint.about(&unknown);
    for batch in [1, 3, 8] {
        let prediction = about.predict(batch);
        let truth = tensors(&unknown, batch) + BESIDE;
        let error = prediction.value.value() / truth - 1.0;
        assert!(error.abs() < 0.02, "batch {batch}: {:?} is not {truth}", prediction.value);
    }
    // The rules know the answer: batch sizes one by one.
    let largest = (1..100).take_while(|batch| tensors(&unknown, *batch) <= LIMIT).last().unwrap();
    let said = about.max_batch().unwrap();
    assert!(said.likely.abs_diff(largest) <= 1 && said.safe <= largest, "{said:?} is not {largest}");
    assert_eq!(about.verdict(1).unwrap().call, FitDecision::Fits);
    assert_eq!(about.verdict(4 * largest).unwrap().call, FitDecision::DoesNotFit);
    assert!(
        about
            .predict(1_000_000_000)
            .out_of_distribution
            .iter()
            .any(|reason| matches!(reason, OutOfDistribution::Batch { .. }))
    );
    assert_eq!(about.predict(0), about.predict(1));
}

/// What a process takes in addition to its tensors is that of the samples that are there at a time, for steps of the profile and steps asked about.
#[test]
fn what_is_beside_the_tensors_goes_by_the_samples_of_a_pass() {
    let step = |passes| Step { accumulate: Accumulate::new(passes).unwrap(), ..Step::published(Stage::Training) };
    let simulated = |network: &Network, passes, batch| {
        Simulation::new(network, step(passes), &Platform::for_name("cpu").unwrap()).peak(batch).reserved.mib()
    };
    // 300 MiB with single samples, 100 with 128 of them, and as much less for every doubling between.
    let beside = |samples: u64| 300.0 - 200.0 * (samples as f64).log2() / 7.0;
    let fitted = |passes: u64| {
        let rows = ["resnet18", "squeezenet", "mnasnet"].map(|name| {
            let network = network(name);
            let row = |samples: u64| {
                let batch = passes * samples;
                let used = Bytes::from_mib(simulated(&network, passes, batch) + beside(samples));
                let reading = RowReading::Memory(MemoryColumns { used: Some(used), ..Default::default() });
                let workload = Workload { step: step(passes), batch };
                let record = RowRecord::new(Variant::new(name, 0), workload, MeasurementOutcome::Measured, reading);
                MeasuredRow { record, measured: used.mib(), network: network.clone(), layers: Vec::new() }
            };
            [1, 2, 8, 32, 128].map(row)
        });
        fit_rows(step(passes), &rows.concat(), &[])
    };
    let unknown = network("resnet50");
    for (profiled, asked, batch) in [(1, 1, 8), (1, 8, 8), (1, 8, 128), (4, 4, 16), (4, 1, 128)] {
        let truth = simulated(&unknown, asked, batch) + beside(batch / asked);
        let said = fitted(profiled).about_step(&unknown, step(asked), None).unwrap().predict(batch).value.value();
        let off = (said - truth).abs();
        assert!(off < 10.0, "profiled in {profiled} passes, {batch} in {asked}: {said} is not {truth}");
    }
}

#[test]
fn a_stored_fingerprint_says_the_same() {
    let (folder, fingerprint) = (tempfile::tempdir().unwrap(), fit(&["resnet18", "squeezenet"]));
    let file = fingerprint.save(folder.path()).unwrap();
    let loaded = Fingerprint::load(folder.path(), Stage::Training, Quantity::Memory).unwrap().unwrap();
    assert_eq!(loaded, fingerprint);
    // A row that was changed by hand would move a curve that nobody checks.
    let text = std::fs::read_to_string(&file).unwrap();
    let row = text.lines().find(|line| line.trim_start().starts_with("\"16 ")).unwrap();
    std::fs::write(&file, text.replace(row, &row.replace("\"16 ", "\"17 "))).unwrap();
    let refused = Fingerprint::load(folder.path(), Stage::Training, Quantity::Memory).unwrap_err().to_string();
    assert!(refused.contains("was edited") && refused.contains("overwrite = True"), "{refused}");
}

#[test]
fn calibration_takes_rows_that_do_not_contradict() {
    let fingerprint = fit(&["resnet18", "squeezenet"]);
    let (rows, _) = tried("mnasnet");
    let calibrated = fingerprint.calibrate(&rows[..2], &[]).unwrap();
    assert!(calibrated.knows("mnasnet", 0));
    let mut wrong = rows[0].clone();
    wrong.measured *= 11.0;
    let refused = fingerprint.calibrate(&[wrong], &[]).unwrap_err().to_string();
    assert!(refused.contains("within a factor of 10"), "{refused}");
    // A step that did not fit although it was said to makes the limit less sure; one that needs next to nothing contradicts.
    let limit = |fingerprint: &Fingerprint| fingerprint.about(&rows[0].network).max_batch().unwrap().safe;
    let mut failed = tried("mnasnet").1[..1].to_vec();
    failed[0].record.workload.batch = limit(&fingerprint) / 2;
    let lower = fingerprint.calibrate(&[], &failed).unwrap();
    assert!(limit(&lower) < limit(&fingerprint), "{} {}", limit(&lower), limit(&fingerprint));
    failed[0].record.workload.batch = 1;
    let refused = fingerprint.calibrate(&[], &failed).unwrap_err().to_string();
    assert!(refused.contains("did not fit, but"), "{refused}");
    let PredictedValue::Memory(_) = calibrated.predict(&rows[0].network, 1) else { panic!("memory is memory") };
}

/// Rows of a device on which nothing ever failed, and whose largest steps happen to use less than the others lead to expect: no more than
/// 300 MiB.
#[test]
fn the_largest_row_is_no_cap_and_what_is_alive_is_used() {
    let rows: Vec<MeasuredRow> = ["resnet18", "squeezenet", "mnasnet"].iter().flat_map(|name| tried(name).0).collect();
    let least = |row: &MeasuredRow| MeasuredRow { measured: row.measured.min(300.0), ..row.clone() };
    let fingerprint = fit_rows(Step::published(Stage::Training), &rows.iter().map(least).collect::<Vec<_>>(), &[]);
    for name in ["vgg11", "resnet50"] {
        let unknown = network(name);
        let used = fingerprint.predict(&unknown, 8).value();
        assert!(used >= tensors(&unknown, 8), "{name}: {used} is less than its {} of tensors", tensors(&unknown, 8));
    }
}

/// A network at a level, its rows at batch sizes 1, 2, 4 and 8.
fn pruned(name: &str, level: u8) -> Vec<MeasuredRow> {
    let whole = network(name);
    let pruner = Pruner::new(&whole);
    let ranking = FilterRanking::random(&pruner, &mut generator(7, name, level, 0));
    let network = Arc::new(pruner.prune(&ranking, PruningGoal::percent(&whole, f64::from(level))).unwrap().network);
    let row = |batch: u64| {
        let mut row = tried("squeezenet").0[0].clone();
        row.record.variant = Variant::new(name, level);
        row.record.workload.batch = batch;
        MeasuredRow { measured: tensors(&network, batch) + BESIDE, network: network.clone(), ..row }
    };
    [1, 2, 4, 8].map(row).to_vec()
}

#[test]
fn few_levels_are_corrected_no_further_than_they_reach() {
    let names = ["resnet18", "squeezenet", "mobilenetv2"];
    let rows = |level: u8| names.iter().flat_map(move |name| pruned(name, level)).collect::<Vec<MeasuredRow>>();
    let fingerprint = fit_rows(Step::published(Stage::Training), &[rows(0), rows(30)].concat(), &[]);
    for row in rows(80) {
        let used = fingerprint.predict(&row.network, row.record.workload.batch).value();
        let error = 100.0 * (used / row.measured - 1.0).abs();
        // The rules know the answer; a little is left for what the code of a network is taken to need.
        assert!(error < 2.1, "{} batch {}: off by {error:.1} %", row.record.variant, row.record.workload.batch);
    }
}

#[test]
fn rows_tell_whose_rules_they_were_measured_under() {
    let [cpu, tx2] = ["cpu", "tx2"].map(|name| Platform::for_name(name).unwrap());
    let mut rows: Vec<MeasuredRow> = ["resnet18", "mobilenetv2"].iter().flat_map(|name| tried(name).0).collect();
    for row in &mut rows {
        let simulation = Simulation::new(&row.network, Step::published(Stage::Training), &tx2);
        let allocated = Some(simulation.peak(row.record.workload.batch).allocated);
        row.record.reading = RowReading::Memory(MemoryColumns { allocated, ..Default::default() });
    }
    let found = likelier_platform(Step::published(Stage::Training), &rows, &cpu).unwrap();
    assert!(found.platform == "tx2" && found.error < 0.01 && found.assumed > 2.0, "{found:?}");
    assert_eq!(likelier_platform(Step::published(Stage::Training), &rows, &tx2), None);
}

/// A file that is resnet18 or resnet34, whoever knows: its interval is that of both, and what is safe is so for the larger one.
#[test]
fn a_file_of_several_readings_is_answered_for_all_of_them() {
    let fingerprint = fit(&["alexnet", "squeezenet", "mobilenetv2", "resnet50"]);
    let [small, large] = ["resnet18", "resnet34"].map(|name| (*network(name)).clone());
    let both = small.clone().with_readings(vec![large.clone()]);
    let [small, large, both] = [&small, &large, &both].map(|network| fingerprint.about(network));
    let ends = |about: &perf4sight_cost::fingerprint::PreparedStep| {
        let interval = about.predict(8).interval.unwrap();
        [interval.low.value(), interval.high.value()]
    };
    let ([low, _], [_, high], [lowest, highest]) = (ends(&small), ends(&large), ends(&both));
    assert!(
        (lowest / low - 1.0).abs() < 0.01 && (highest / high - 1.0).abs() < 0.01,
        "{lowest} {low} {highest} {high}"
    );
    assert_eq!(both.predict(8).value, small.predict(8).value);
    let [small, large, both] = [small, large, both].map(|about| about.max_batch().unwrap());
    assert_eq!((both.likely, both.safe), (small.likely, large.safe));
}
