//! How far predicted latencies are from a profile's: the tables of `src/fingerprint/latency/ACCURACY.md`.
//!
//! `cargo run --release --no-default-features --example latency_accuracy -- LATENCY_FOLDER NETWORK_FOLDER TARGET NAME,NAME,... [variants]`
//! where TARGET is a known device or a JSON file that describes one. `variants` compares changed descriptions of the device, and
//! chooses among them by leaving out once more.

use perf4sight::error::Result;
use perf4sight::fingerprint::{Fingerprint, Levels, Method, Networks, Observations, Row, Selection, Subject, gather};
use perf4sight::stats::{mean, relative_errors};
use perf4sight::target::{Parameter, Target};
use perf4sight::workload::{Quantity, Stage};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The levels that unseen ones are predicted from: of the published profile; a profile made here has levels 0, 20, ..., 80.
const FITTED: [u8; 5] = [0, 30, 50, 70, 90];
const FITTED_OF_FEW: [u8; 3] = [0, 40, 80];

/// The batch sizes of the rows that a fingerprint is refitted with.
const CALIBRATION: [u64; 2] = [2, 32];

struct Profile {
    rows: Vec<Row>,
    names: Vec<String>,
    target: Target,
}

impl Profile {
    fn read(latency: &str, networks: &str, target: &str, names: &str) -> Result<Self> {
        let target = if target.ends_with(".json") { Target::read(Path::new(target)) } else { Target::named(target) }?;
        let names: Vec<String> = names.split(',').map(str::to_owned).collect();
        let selection = Selection {
            folders: &[PathBuf::from(latency)],
            networks: &names,
            levels: Levels::AllBut([].into()),
            stage: Stage::Training,
            quantity: Quantity::Latency,
        };
        let rows = gather(&selection, &mut Networks::new(networks))?.rows;
        Ok(Profile { rows, names, target })
    }

    fn rows(&self, wanted: impl Fn(&str, u8) -> bool) -> Vec<Row> {
        let variant = |row: &&Row| wanted(&row.record.variant.network, row.record.variant.level);
        self.rows.iter().filter(variant).cloned().collect()
    }

    /// The error for one network of a fit on those that `known` names.
    fn left_out(&self, target: &Target, name: &str, known: impl Fn(&str) -> bool) -> Result<f64> {
        let fingerprint = fit(target, &self.rows(|network, _| known(network)))?;
        Ok(error(&fingerprint, &self.rows(|network, _| network == name)))
    }
}

fn fit(target: &Target, rows: &[Row]) -> Result<Fingerprint> {
    let subject = Subject {
        device: target.name.clone(),
        dataset: "imagenet".into(),
        stage: Stage::Training,
        quantity: Quantity::Latency,
    };
    Fingerprint::fit(subject, Method::Hybrid, 1, &Observations { rows, failed: &[], target })
}

/// Mean absolute percentage error.
fn error(fingerprint: &Fingerprint, rows: &[Row]) -> f64 {
    let measured: Vec<f64> = rows.iter().map(|row| row.measured).collect();
    let predicted: Vec<f64> =
        rows.iter().map(|row| fingerprint.predict(&row.network, row.record.workload.batch).value()).collect();
    mean(&relative_errors(&measured, &predicted).into_iter().map(f64::abs).collect::<Vec<_>>())
}

/// Left out, refitted, unseen levels, in sample; in brackets level 0 only.
fn protocols(profile: &Profile) -> Result<()> {
    println!("{:12} {:>16} {:>16} {:>8} {:>16}", "", "left out (0)", "two rows (0)", "levels", "in sample (0)");
    let all = fit(&profile.target, &profile.rows)?;
    let published = profile.rows.iter().any(|row| row.record.variant.level == 30);
    let fitted: &[u8] = if published { &FITTED } else { &FITTED_OF_FEW };
    let mut table: Vec<[f64; 7]> = Vec::new();
    for name in &profile.names {
        let own = profile.rows(|network, _| network == name);
        let intact = profile.rows(|network, level| network == name && level == 0);
        let others = fit(&profile.target, &profile.rows(|network, _| network != name))?;
        let points: Vec<Row> =
            intact.iter().filter(|row| CALIBRATION.contains(&row.record.workload.batch)).cloned().collect();
        let refitted = if points.is_empty() { others.clone() } else { others.calibrate(&points)? };
        let seen = fit(&profile.target, &profile.rows(|network, level| network == name && fitted.contains(&level)))?;
        let unseen = profile.rows(|network, level| network == name && !fitted.contains(&level));
        let line = [
            error(&others, &own),
            error(&others, &intact),
            error(&refitted, &own),
            error(&refitted, &intact),
            error(&seen, &unseen),
            error(&all, &own),
            error(&all, &intact),
        ];
        print(name, &line);
        table.push(line);
    }
    let means = std::array::from_fn(|column| mean(&table.iter().map(|line| line[column]).collect::<Vec<_>>()));
    print("mean", &means);
    Ok(())
}

fn print(name: &str, [out, out0, refit, refit0, levels, sample, sample0]: &[f64; 7]) {
    println!("{name:12} {out:8.2} ({out0:5.2}) {refit:8.2} ({refit0:5.2}) {levels:8.2} {sample:8.2} ({sample0:5.2})");
}

/// What is changed in the description of the device, by name.
fn variants(target: &Target) -> Vec<(&'static str, Target)> {
    let with = |change: &dyn Fn(&mut Target)| {
        let mut changed = target.clone();
        change(&mut changed);
        changed
    };
    let without = |parameters: &'static [Parameter]| {
        with(&|target| parameters.iter().for_each(|parameter| pin(target, *parameter, 1e-9)))
    };
    let looser =
        |factor: f64| with(&|target| target.speed.priors.values_mut().for_each(|prior| prior.spread *= factor));
    use Parameter::{InnerLoss, RaggedLoss, RowLoss, SmallBatchLoss, TileLoss};
    vec![
        ("as landed", target.clone()),
        ("launches and kernels added", with(&|target| target.speed.overlap = 1.0)),
        ("the longer of launches and kernels", with(&|target| target.speed.overlap = 12.0)),
        ("no Winograd", with(&|target| target.workspaces.clear())),
        ("no small-batch loss", without(&[SmallBatchLoss])),
        ("no loss of ragged channels", without(&[RaggedLoss])),
        ("no losses of utilisation", without(&[RowLoss, InnerLoss, TileLoss])),
        ("rows not padded", with(&|target| target.speed.quantum = 1.0)),
        ("rows padded to 16", with(&|target| target.speed.quantum = 16.0)),
        ("tiles of 64", with(&|target| target.speed.tile = 64.0)),
        ("priors half as wide", looser(0.5)),
        ("priors twice as wide", looser(2.0)),
        ("priors only", looser(0.0)),
    ]
}

fn pin(target: &mut Target, parameter: Parameter, value: f64) {
    if let Some(prior) = target.speed.priors.get_mut(&parameter) {
        (prior.typical, prior.spread) = (value, 0.0);
    }
}

/// Every variant with each network left out, and the variant that is chosen without having seen it.
fn compare(profile: &Profile) -> Result<()> {
    let variants = variants(&profile.target);
    let names = &profile.names;
    let mut errors = Vec::new();
    for (title, target) in &variants {
        let line: Vec<f64> = names
            .iter()
            .map(|name| profile.left_out(target, name, |network| network != name))
            .collect::<Result<_>>()?;
        println!("{title:36} {:6.2}   {line:5.1?}", mean(&line));
        errors.push(line);
    }
    let mut nested = Vec::new();
    for (column, name) in names.iter().enumerate() {
        let inner = |target: &Target| -> Result<f64> {
            let others = names.iter().filter(|other| *other != name);
            let errors =
                others.map(|other| profile.left_out(target, other, |network| network != other && network != name));
            Ok(mean(&errors.collect::<Result<Vec<f64>>>()?))
        };
        let scores = variants.iter().map(|(_, target)| inner(target)).collect::<Result<Vec<f64>>>()?;
        let best = (0..scores.len()).min_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap_or(0);
        println!("without {name}: \"{}\" is chosen", variants[best].0);
        nested.push(errors[best][column]);
    }
    println!("{:36} {:6.2}   {nested:5.1?}", "chosen by leaving out once more", mean(&nested));
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [latency, networks, target, names, rest @ ..] = arguments.as_slice() else {
        panic!("expected LATENCY_FOLDER NETWORK_FOLDER TARGET NAME,NAME,... [variants]");
    };
    let profile = Profile::read(latency, networks, target, names)?;
    let start = Instant::now();
    let fingerprint = fit(&profile.target, &profile.rows)?;
    let bytes = serde_json::to_string(&fingerprint).map_or(0, |text| text.len());
    println!("{} rows fitted in {:.2?}, {bytes} bytes", profile.rows.len(), start.elapsed());
    if rest.first().is_some_and(|word| word == "variants") { compare(&profile) } else { protocols(&profile) }
}
