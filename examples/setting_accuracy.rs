//! How far predictions are from a profile of any stage and image size: the tables "Stages and image sizes" of
//! `docs/accuracy/latency.md`.
//!
//! `cargo run --release --example setting_accuracy -- PROFILE NETWORKS STAGE TARGET NAME,NAME,... [PROFILE NETWORKS]`
//! where PROFILE holds the folders `latency` and `memory`, and TARGET is a known device (`cpu@1` on one thread) or a JSON file that
//! describes one. Fitted on levels 0 and 60, other levels are asked, and every network from all levels of the others, or from levels 0
//! and 60 of the others. With a second profile, of other image sizes, the first is asked about that one instead.

use perf4sight_base::error::Result;
use perf4sight_cost::evaluation::{ClassScores, Evaluation, FitProtocol, Trial};
use perf4sight_cost::fingerprint::{
    Fingerprint, FingerprintSubject, FitMethod, FitRecipe, GatheredRows, LevelSelection, MeasuredRow, NetworkFolder,
    RowSelection, gather,
};
use perf4sight_platform::Platform;
use perf4sight_step::workload::{Quantity, Stage, Step};
use std::path::{Path, PathBuf};

/// The levels that others are predicted from.
const FITTED: [u8; 2] = [0, 60];

/// Which rows: those of some networks, at one stage.
struct Asked {
    stage: Stage,
    platform: Platform,
    names: Vec<String>,
}

impl Asked {
    fn gather(&self, profile: &str, networks: &str, quantity: Quantity) -> Result<GatheredRows> {
        let selection = RowSelection {
            folders: &[PathBuf::from(profile).join(quantity.name())],
            networks: &self.names,
            levels: LevelSelection::AllBut([].into()),
            step: Step::published(self.stage),
            quantity,
        };
        gather(&selection, &mut NetworkFolder::new(networks))
    }

    fn protocol(&self, quantity: Quantity) -> FitProtocol {
        let subject = FingerprintSubject {
            device: self.platform.name.clone(),
            dataset: "imagenet".into(),
            step: Step::published(self.stage),
            quantity,
        };
        FitProtocol { subject, recipe: FitRecipe::new(FitMethod::Hybrid, 1) }
    }

    fn fit(&self, protocol: &FitProtocol, gathered: &GatheredRows) -> Result<Fingerprint> {
        let FitProtocol { subject, recipe } = protocol.clone();
        Fingerprint::fit(subject, recipe, &gathered.observations(&self.platform))
    }

    /// Other levels and networks left out.
    fn protocols(&self, quantity: Quantity, gathered: &GatheredRows) -> Result<()> {
        let protocol = self.protocol(quantity);
        let fitted = |row: &MeasuredRow| FITTED.contains(&row.record.variant.level);
        let known = GatheredRows {
            rows: gathered.rows.iter().filter(|row| fitted(row)).cloned().collect(),
            ..GatheredRows::default()
        };
        let others: Vec<MeasuredRow> = gathered.rows.iter().filter(|row| !fitted(row)).cloned().collect();
        let levels = Trial::run(&self.fit(&protocol, &known)?, &others, &[]);
        let left_out = protocol.networks_left_out(&gathered.observations(&self.platform))?;
        let few = protocol.networks_left_out(&known.observations(&self.platform))?;
        self.table(quantity, &[("levels", &levels), ("left out", &left_out), ("left out of few", &few)]);
        worst(&left_out);
        classes(&left_out);
        Ok(())
    }

    fn table(&self, quantity: Quantity, columns: &[(&str, &Trial)]) {
        let titles: Vec<String> = columns.iter().map(|(title, _)| format!("{title:>18}")).collect();
        println!("{:12}{}", quantity.name(), titles.concat());
        for name in self.names.iter().map(Some).chain([None]) {
            let cell = |(_, trial): &(&str, &Trial)| {
                let own = trial.evaluation.filter(|case| name.is_none_or(|name| case.variant.network == *name));
                let [error, inside] =
                    [own.mean_over_networks(), own.coverage_90()].map(|value| value.unwrap_or(f64::NAN));
                format!("{error:10.2} ({inside:3.0} %)")
            };
            println!("{:12}{}", name.map_or("mean", String::as_str), columns.iter().map(cell).collect::<String>());
        }
    }
}

/// The single steps furthest off.
fn worst(trial: &Trial) {
    for case in trial.evaluation.worst(6) {
        let [measured, predicted] = [case.measured, case.predicted.value()];
        println!("    {} at {}: measured {measured:.2}, predicted {predicted:.2}", case.variant, case.batch);
    }
}

/// Classes of operations, where the steps were timed operation by operation.
fn classes(trial: &Trial) {
    for (class, ClassScores { share, scores, .. }) in ClassScores::by_class(&trial.classes) {
        println!("    {class:24} {share:5.1} % of the time, {:5.1} % off", scores.mape);
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [profile, networks, stage, platform, names, rest @ ..] = arguments.as_slice() else {
        panic!("expected PROFILE NETWORKS STAGE TARGET NAME,NAME,... [PROFILE NETWORKS]");
    };
    let platform = match platform.split_once('@') {
        Some((name, threads)) => Platform::for_name(name)?.on_threads(threads.parse().expect("a number of threads")),
        None if platform.ends_with(".json") => Platform::read(Path::new(platform))?,
        None => Platform::for_name(platform)?,
    };
    let asked = Asked { stage: Stage::parse(stage)?, platform, names: names.split(',').map(str::to_owned).collect() };
    for quantity in [Quantity::Latency, Quantity::Memory] {
        let gathered = asked.gather(profile, networks, quantity)?;
        let [profile, networks] = rest else {
            asked.protocols(quantity, &gathered)?;
            continue;
        };
        let fingerprint = asked.fit(&asked.protocol(quantity), &gathered)?;
        let others = asked.gather(profile, networks, quantity)?;
        let evaluation = Evaluation::from_rows(&fingerprint, &others.rows);
        let trial = Trial { evaluation, ..Trial::default() };
        asked.table(quantity, &[("other images", &trial)]);
        worst(&trial);
    }
    Ok(())
}
