//! How far predictions are from a profile's rows: tables of `docs/accuracy/latency.md` and `docs/accuracy/memory.md`.
//!
//! `cargo run --release --example profile_accuracy -- ROW_FOLDER NETWORK_FOLDER TARGET NAME,NAME,... [MORE]`
//! where ROW_FOLDER is the profile's `latency` or `memory`, and TARGET is a known device (`cpu@1` on one thread) or a JSON file that describes one. MORE is one of three words: `variants` compares changed
//! descriptions of the device, and chooses among them by leaving out once more; `intervals 3 4` fits on every set of 3 and of 4 of the
//! networks, or on twenty of them, and asks about the others; `drift 0.08` leaves out each network, and takes its rows to last
//! (batch / middle)^0.08 times as long. Each takes some minutes.

use perf4sight_base::error::Result;
use perf4sight_cost::evaluation::{Evaluation, FitCandidate, FitProtocol, IntervalCoverage, RowScatter};
use perf4sight_cost::fingerprint::{
    Fingerprint, FingerprintSubject, FitMethod, FitRecipe, GatheredRows, LevelSelection, MeasuredRow, NetworkFolder,
    Observations, RowSelection, gather,
};
use perf4sight_platform::{Platform, SpeedParameter};
use perf4sight_step::workload::{Quantity, Stage, Step};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The levels that unseen ones are predicted from: of the published profile; a profile made here has levels 0, 20, ..., 80.
const FITTED: [u8; 5] = [0, 30, 50, 70, 90];
const FITTED_OF_FEW: [u8; 3] = [0, 40, 80];

/// The batch sizes of the rows that a fingerprint is calibrated with, at level 0: two or four; of a profile made here, which ends at 16 and
/// has every step twice, two make the four rows that one may calibrate with.
const CALIBRATION: &[(&str, &[u64])] = &[("two rows (0)", &[2, 32]), ("four rows (0)", &[2, 8, 32, 70])];
const CALIBRATION_OF_FEW: &[(&str, &[u64])] = &[("two steps (0)", &[2, 16])];

/// No more sets of networks of one size are fitted.
const SETS: usize = 20;

struct Profile {
    gathered: GatheredRows,
    names: Vec<String>,
    platform: Platform,
    protocol: FitProtocol,
}

impl Profile {
    fn read(rows: &str, networks: &str, platform: &str, names: &str) -> Result<Self> {
        let platform = match platform.split_once('@') {
            Some((name, threads)) => {
                Platform::for_name(name)?.on_threads(threads.parse().expect("a number of threads"))
            }
            None if platform.ends_with(".json") => Platform::read(Path::new(platform))?,
            None => Platform::for_name(platform)?,
        };
        let names: Vec<String> = names.split(',').map(str::to_owned).collect();
        let folder = PathBuf::from(rows);
        let quantity = if folder.ends_with("memory") { Quantity::Memory } else { Quantity::Latency };
        let stage = Stage::Training;
        let selection = RowSelection {
            folders: &[folder],
            networks: &names,
            levels: LevelSelection::AllBut([].into()),
            step: Step::published(stage),
            quantity,
        };
        let gathered = gather(&selection, &mut NetworkFolder::new(networks))?;
        let subject = FingerprintSubject {
            device: platform.name.clone(),
            dataset: "imagenet".into(),
            step: Step::published(stage),
            quantity,
        };
        Ok(Profile {
            gathered,
            names,
            platform,
            protocol: FitProtocol { subject, recipe: FitRecipe::new(FitMethod::Hybrid, 1) },
        })
    }

    fn fit(&self) -> Result<Fingerprint> {
        let FitProtocol { subject, recipe } = self.protocol.clone();
        Fingerprint::fit(subject, recipe, &self.gathered.observations(&self.platform))
    }

    /// A line per network and one for their mean; in brackets level 0 only.
    fn table(&self, columns: &[(&str, Evaluation)]) {
        let titles: Vec<String> = columns.iter().map(|(title, _)| format!("{title:>16}")).collect();
        println!("{:12}{}", "", titles.concat());
        for name in self.names.iter().map(Some).chain([None]) {
            let error = |all: &Evaluation| {
                let wanted = all.filter(|case| name.is_none_or(|name| case.variant.network == *name));
                let parts = [wanted.clone(), wanted.at_level_0(true)].map(|part| part.mean_over_networks());
                let [all, intact] = parts.map(|error| error.map_or("-".to_owned(), |error| format!("{error:.2}")));
                format!("{all:>8} ({intact:>5})")
            };
            let cells: Vec<String> = columns.iter().map(|(_, evaluation)| error(evaluation)).collect();
            println!("{:12}{}", name.map_or("mean", String::as_str), cells.concat());
        }
        let coverage = columns.iter().map(|(_, evaluation)| evaluation.coverage_90().unwrap_or(f64::NAN));
        println!("{:12}{}", "inside 90 %", coverage.map(|share| format!("{share:16.1}")).collect::<String>());
    }
}

/// Two and four batch sizes to calibrate with.
fn calibration(rows: &[MeasuredRow]) -> &'static [(&'static str, &'static [u64])] {
    let largest = rows.iter().map(|row| row.record.workload.batch).max();
    if largest < Some(32) { CALIBRATION_OF_FEW } else { CALIBRATION }
}

/// Whether a row is one of those to calibrate with.
fn among(batches: &'static [u64]) -> impl Fn(&MeasuredRow) -> bool {
    move |row| row.record.variant.level == 0 && batches.contains(&row.record.workload.batch)
}

/// How intervals hold for networks not fitted on, and for the same calibrated with two rows.
fn intervals(profile: &Profile, sizes: &[usize]) -> Result<()> {
    let observations = profile.gathered.observations(&profile.platform);
    let (_, two) = calibration(observations.rows)[0];
    for &size in sizes {
        for (title, batches) in [("left out", [].as_slice()), ("two rows", two)] {
            let evaluation = profile.protocol.subsets(&observations, [size, SETS], among(batches))?;
            let Some(IntervalCoverage { coverage, networks, width, needed }) = evaluation.intervals() else { continue };
            let networks: Vec<String> = networks.iter().map(|(name, share)| format!("{name} {share:.0}")).collect();
            let [width, needed] = [width, needed].map(|log| 100.0 * log);
            println!(
                "{size} networks, {title}: {coverage:.1} % inside; width {width:.1} %, needed {needed:.1} %; {}",
                networks.join(", ")
            );
        }
    }
    Ok(())
}

/// How networks left out are predicted that drift over batch sizes as no profiled one does, before and after two of their rows.
fn drifting(profile: &Profile, slopes: &[f64]) -> Result<()> {
    let Profile { gathered: GatheredRows { rows, .. }, names, platform, .. } = profile;
    let (_, two) = calibration(rows)[0];
    let batches = rows.iter().map(|row| row.record.workload.batch as f64);
    let middle = (batches.clone().fold(f64::INFINITY, f64::min) * batches.fold(1.0, f64::max)).sqrt();
    let mut cases = vec![[Vec::new(), Vec::new()]; slopes.len()];
    for name in names {
        let (own, others): (Vec<MeasuredRow>, Vec<MeasuredRow>) =
            rows.iter().cloned().partition(|row| row.record.variant.network == *name);
        let observations = Observations { rows: &others, taught: &[], failed: &[], platform };
        let FitProtocol { subject, recipe } = profile.protocol.clone();
        let fingerprint = Fingerprint::fit(subject, recipe, &observations)?;
        for (slope, cases) in slopes.iter().zip(&mut cases) {
            let drifted = own.iter().cloned().map(|mut row| {
                row.measured *= (row.record.workload.batch as f64 / middle).powf(*slope);
                row
            });
            let (known, others): (Vec<MeasuredRow>, Vec<MeasuredRow>) = drifted.partition(|row| among(two)(row));
            let calibrated = fingerprint.calibrate(&known, &[])?;
            for (fingerprint, cases) in [&fingerprint, &calibrated].into_iter().zip(cases) {
                cases.extend(Evaluation::from_rows(fingerprint, &others).cases);
            }
        }
    }
    for (slope, cases) in slopes.iter().zip(cases) {
        let [before, after] = cases.map(|cases| {
            let evaluation = Evaluation { cases };
            let error = evaluation.mean_over_networks().unwrap_or(f64::NAN);
            format!("{error:.2} % off, {:.1} % inside", evaluation.coverage_90().unwrap_or(f64::NAN))
        });
        println!("slope {slope}: left out {before}; two rows {after}");
    }
    Ok(())
}

/// Left out, calibrated, unseen levels, in sample.
fn protocols(profile: &Profile) -> Result<()> {
    let observations = profile.gathered.observations(&profile.platform);
    let rows = observations.rows;
    let published = rows.iter().any(|row| row.record.variant.level == 30);
    let fitted = if published { FITTED.to_vec() } else { FITTED_OF_FEW.to_vec() };
    let protocol = &profile.protocol;
    let mut columns = vec![("left out (0)", protocol.networks_left_out(&observations)?.evaluation)];
    for (title, batches) in calibration(rows) {
        columns.push((title, protocol.networks_calibrated(&observations, among(batches))?.evaluation));
    }
    columns.push(("levels (0)", protocol.levels_left_out(&observations, &fitted.into_iter().collect())?));
    columns.push(("in sample (0)", Evaluation::from_rows(&profile.fit()?, rows)));
    profile.table(&columns);
    match RowScatter::from_rows(rows) {
        Some(RowScatter { repeated, mape }) => {
            println!("noise floor: {mape:.2} % ({repeated} steps measured more than once)")
        }
        None => println!("noise floor: not known, nothing was measured twice"),
    }
    Ok(())
}

/// What is changed in the description of the device, by name.
fn variants(platform: &Platform) -> Vec<(&'static str, Platform)> {
    let with = |change: &dyn Fn(&mut Platform)| {
        let mut changed = platform.clone();
        change(&mut changed);
        changed
    };
    let without = |parameters: &'static [SpeedParameter]| {
        with(&|platform| parameters.iter().for_each(|parameter| pin(platform, *parameter, 1e-9)))
    };
    let looser =
        |factor: f64| with(&|platform| platform.speed.priors.values_mut().for_each(|prior| prior.spread *= factor));
    use SpeedParameter::{InnerLoss, RaggedLoss, RowLoss, SmallBatchLoss, TileLoss};
    vec![
        ("as landed", platform.clone()),
        ("launches and kernels added", with(&|platform| platform.speed.overlap = 1.0)),
        ("the longer of launches and kernels", with(&|platform| platform.speed.overlap = 12.0)),
        ("no Winograd", with(&|platform| platform.workspaces.clear())),
        ("no small-batch loss", without(&[SmallBatchLoss])),
        ("no loss of ragged channels", without(&[RaggedLoss])),
        ("no losses of utilisation", without(&[RowLoss, InnerLoss, TileLoss])),
        ("rows not padded", with(&|platform| platform.speed.quantum = 1.0)),
        ("rows padded to 16", with(&|platform| platform.speed.quantum = 16.0)),
        ("tiles of 64", with(&|platform| platform.speed.tile = 64.0)),
        ("priors half as wide", looser(0.5)),
        ("priors twice as wide", looser(2.0)),
        ("priors only", looser(0.0)),
    ]
}

fn pin(platform: &mut Platform, parameter: SpeedParameter, value: f64) {
    if let Some(prior) = platform.speed.priors.get_mut(&parameter) {
        (prior.typical, prior.spread) = (value, 0.0);
    }
}

/// Every variant with each network left out, and the variants that are chosen for each network without having seen it.
fn compare(profile: &Profile) -> Result<()> {
    let variants = variants(&profile.platform);
    let mut columns = Vec::new();
    for (title, platform) in &variants {
        let trial = profile.protocol.networks_left_out(&profile.gathered.observations(platform))?;
        println!("{title}");
        profile.table(&[("left out (0)", trial.evaluation)]);
    }
    let candidates: Vec<FitCandidate> = variants
        .iter()
        .map(|(_, platform)| FitCandidate { recipe: FitRecipe::new(FitMethod::Hybrid, 1), platform })
        .collect();
    for chosen in profile.protocol.choose_nested(&candidates, &profile.gathered.observations(&profile.platform))? {
        println!("without {}: \"{}\" is chosen", chosen.network, variants[chosen.candidate].0);
        columns.extend(chosen.trial.evaluation.cases);
    }
    profile.table(&[("nested (0)", Evaluation { cases: columns })]);
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rows, networks, platform, names, rest @ ..] = arguments.as_slice() else {
        panic!(
            "expected ROW_FOLDER NETWORK_FOLDER TARGET NAME,NAME,... [variants | intervals SIZE... | drift SLOPE...]"
        );
    };
    let profile = Profile::read(rows, networks, platform, names)?;
    let start = Instant::now();
    let bytes = serde_json::to_string(&profile.fit()?).map_or(0, |text| text.len());
    println!("{} rows fitted in {:.2?}, {bytes} bytes", profile.gathered.rows.len(), start.elapsed());
    match rest.first().map(String::as_str) {
        Some("variants") => compare(&profile),
        Some("intervals") => {
            let sizes: Vec<usize> = rest[1..].iter().filter_map(|size| size.parse().ok()).collect();
            intervals(&profile, &sizes)
        }
        Some("drift") => {
            let slopes: Vec<f64> = rest[1..].iter().filter_map(|slope| slope.parse().ok()).collect();
            drifting(&profile, &slopes)
        }
        _ => protocols(&profile),
    }
}
