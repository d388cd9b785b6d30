//! How far predicted latencies are for networks that are nothing like those profiled, without and with the rows of the networks that
//! teach operations, and with one of those asked about profiled too; and how far they are for those profiled, each left out, without and
//! with the same rows: tables of `docs/accuracy/latency.md`.
//!
//! `cargo run --release --example taught_accuracy -- LATENCY_FOLDERS NETWORK_FOLDER TARGET STAGE KNOWN,... ASKED,... [classes]`
//! where TARGET is a known device (`cpu@1` on one thread), KNOWN are the networks fitted on and ASKED those asked about; `classes` adds
//! the time of every class of operations, measured and predicted, without and with what is taught.

use perf4sight_base::error::Result;
use perf4sight_cost::evaluation::{Evaluation, IntervalCoverage};
use perf4sight_cost::fingerprint::{
    Fingerprint, FingerprintSubject, FitMethod, FitRecipe, GatheredRows, LevelSelection, MeasuredRow, NetworkFolder,
    RowSelection, gather,
};
use perf4sight_platform::Platform;
use perf4sight_step::workload::{Quantity, Stage, Step};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

struct Study {
    platform: Platform,
    step: Step,
    known: GatheredRows,
    asked: Vec<MeasuredRow>,
}

impl Study {
    fn read([folders, networks, platform, stage, known, asked]: [&str; 6]) -> Result<Self> {
        let (name, threads) = platform.split_once('@').unwrap_or((platform, "1"));
        let platform = Platform::for_name(name)?.on_threads(threads.parse().expect("a number of threads"));
        let step = Step::published(Stage::parse(stage)?);
        let folders: Vec<PathBuf> = folders.split(',').map(PathBuf::from).collect();
        let mut networks = NetworkFolder::new(networks);
        let mut rows = |names: &str| {
            let names: Vec<String> = names.split(',').map(str::to_owned).collect();
            let levels = LevelSelection::AllBut([].into());
            let quantity = Quantity::Latency;
            gather(&RowSelection { folders: &folders, networks: &names, levels, step, quantity }, &mut networks)
        };
        Ok(Study { platform, step, known: rows(known)?, asked: rows(asked)?.rows })
    }

    /// A fit on the known rows, some more, and what is taught if wanted.
    fn fit(&self, more: &[MeasuredRow], taught: bool) -> Result<Fingerprint> {
        let mut known = self.known.clone();
        known.rows.extend_from_slice(more);
        if !taught {
            known.taught.clear();
        }
        let (quantity, step) = (Quantity::Latency, self.step);
        let subject = FingerprintSubject { device: self.platform.name.clone(), dataset: "any".into(), step, quantity };
        Fingerprint::fit(subject, FitRecipe::new(FitMethod::Hybrid, 1), &known.observations(&self.platform))
    }

    /// Every known network left out: a fit on the others without and with what is taught, and what each says of it.
    fn left_out(&self, wants_classes: bool) -> Result<[Evaluation; 2]> {
        let mut cases = [Vec::new(), Vec::new()];
        let names: BTreeSet<&String> = self.known.rows.iter().map(|row| &row.record.variant.network).collect();
        for name in names {
            let mut others =
                Study { known: self.known.clone(), asked: Vec::new(), platform: self.platform.clone(), ..*self };
            let (own, rest): (Vec<MeasuredRow>, Vec<MeasuredRow>) =
                self.known.rows.iter().cloned().partition(|row| row.record.variant.network == *name);
            others.known.rows = rest;
            let fits = [others.fit(&[], false)?, others.fit(&[], true)?];
            for (cases, fit) in cases.iter_mut().zip(&fits) {
                cases.extend(Evaluation::from_rows(fit, &own).cases);
            }
            if wants_classes {
                classes(&own, &fits);
            }
        }
        Ok(cases.map(|cases| Evaluation { cases }))
    }

    /// Every network asked about once among those fitted on, and what is then said of the others.
    fn with_each(&self) -> Result<BTreeMap<String, Evaluation>> {
        let names: BTreeSet<&String> = self.asked.iter().map(|row| &row.record.variant.network).collect();
        let one = |name: &String| {
            let (own, others): (Vec<MeasuredRow>, Vec<MeasuredRow>) =
                self.asked.iter().cloned().partition(|row| row.record.variant.network == *name);
            Ok((name.clone(), Evaluation::from_rows(&self.fit(&own, true)?, &others)))
        };
        names.into_iter().map(one).collect()
    }
}

/// A line per row: measured, and how far off each fit is, with an exclamation mark outside its interval.
fn table(rows: &[MeasuredRow], fits: &[(&str, Evaluation)]) {
    println!("{:28}{:>10}{}", "", "ms", fits.iter().map(|(title, _)| format!("{title:>12}")).collect::<String>());
    for (index, row) in rows.iter().enumerate() {
        let cell = |(_, evaluation): &(&str, Evaluation)| {
            let case = &evaluation.cases[index];
            let inside = case
                .interval
                .is_some_and(|interval| (interval.low.value()..=interval.high.value()).contains(&case.measured));
            format!(
                "{:+11.1}{}",
                100.0 * (case.predicted.value() / case.measured - 1.0),
                if inside { ' ' } else { '!' }
            )
        };
        let step = format!("{} batch {}", row.record.variant, row.record.workload.batch);
        println!("{step:28}{:10.1}{}", row.measured, fits.iter().map(cell).collect::<String>());
    }
    for (title, evaluation) in fits {
        println!("{title}: {}", summary(evaluation));
    }
}

fn summary(evaluation: &Evaluation) -> String {
    let worst = evaluation.cases.iter().map(|case| (case.predicted.value() / case.measured - 1.0).abs());
    let worst = 100.0 * worst.fold(0.0, f64::max);
    let mean = evaluation.mean_over_networks().unwrap_or(f64::NAN);
    let intervals = evaluation.intervals().map_or(String::new(), |IntervalCoverage { coverage, width, .. }| {
        format!(", {coverage:.0} % inside intervals whose half is {:.0} %", 100.0 * width)
    });
    format!("mean {mean:.1} %, worst {worst:.1} %{intervals}")
}

/// Mean error of every network, at all its levels and unpruned, by fits that did not see it.
fn by_network(fits: &[(&str, Evaluation)]) {
    let names: BTreeSet<&String> = fits[0].1.cases.iter().map(|case| &case.variant.network).collect();
    for name in names {
        let error = |(_, all): &(&str, Evaluation)| {
            let own = all.filter(|case| case.variant.network == *name);
            let [all, intact] = [own.clone(), own.at_level_0(true)].map(|part| part.mean_over_networks());
            format!("{:8.1} ({:4.1})", all.unwrap_or(f64::NAN), intact.unwrap_or(f64::NAN))
        };
        println!("{name:28}{}", fits.iter().map(error).collect::<String>());
    }
    for (title, evaluation) in fits {
        let intact = evaluation.at_level_0(true).mean_over_networks().unwrap_or(f64::NAN);
        println!("{title}, each left out: {}; unpruned {intact:.1} %", summary(evaluation));
    }
}

/// Milliseconds of every class of operations of every network's rows, and how far off each fit is.
fn classes(rows: &[MeasuredRow], fits: &[Fingerprint; 2]) {
    let mut classes: BTreeMap<(String, &str), [f64; 3]> = BTreeMap::new();
    for row in rows {
        for (index, fit) in fits.iter().enumerate() {
            for timed in fit.about(&row.network).operations(row) {
                let class = classes.entry((row.record.variant.network.clone(), timed.class)).or_default();
                class[0] += timed.measured.0 / fits.len() as f64;
                class[1 + index] += timed.predicted.0;
            }
        }
    }
    for ((network, class), [measured, without, taught]) in classes {
        let [without, taught] = [without, taught].map(|predicted| 100.0 * (predicted / measured - 1.0));
        println!("{network:20}{class:24}{measured:10.1} ms{without:+8.1} %{taught:+8.1} %");
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folders, networks, platform, stage, known, asked, rest @ ..] = arguments.as_slice() else {
        panic!("expected LATENCY_FOLDERS NETWORK_FOLDER TARGET STAGE KNOWN,... ASKED,... [classes]");
    };
    let wants_classes = rest.iter().any(|word| word == "classes");
    let study = Study::read([folders, networks, platform, stage, known, asked].map(String::as_str))?;
    let fits = [study.fit(&[], false)?, study.fit(&[], true)?];
    let [without, taught] = [&fits[0], &fits[1]].map(|fit| Evaluation::from_rows(fit, &study.asked));
    table(&study.asked, &[("without", without), ("taught", taught)]);
    for (name, others) in study.with_each()? {
        println!("with {name} profiled too, the others: {}", summary(&others));
    }
    if wants_classes {
        classes(&study.asked, &fits);
    }
    let [without, taught] = study.left_out(wants_classes)?;
    by_network(&[("without", without), ("taught", taught)]);
    Ok(())
}
