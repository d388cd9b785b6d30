//! How far predicted latencies are from a profile's: networks left out, refitted with two rows, unseen levels; the tables of
//! `src/fingerprint/latency/ACCURACY.md`.
//!
//! `cargo run --release --no-default-features --example latency_accuracy -- LATENCY_FOLDER NETWORK_FOLDER TARGET NAME,NAME,...`
//! where TARGET is a known device or a JSON file that describes one: variants of its priors are tried by editing a copy.

use perf4sight::error::Result;
use perf4sight::fingerprint::{Fingerprint, Levels, Method, Networks, Observations, Row, Selection, Subject, gather};
use perf4sight::stats::{mean, relative_errors};
use perf4sight::target::Target;
use perf4sight::workload::{Quantity, Stage};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The levels that unseen ones are predicted from.
const FITTED: [u8; 5] = [0, 30, 50, 70, 90];

/// The batch sizes of the rows that a fingerprint is refitted with.
const CALIBRATION: [u64; 2] = [2, 32];

struct Profile {
    rows: Vec<Row>,
    names: Vec<String>,
    target: Target,
}

impl Profile {
    fn read(arguments: &[String]) -> Result<Self> {
        let [latency, networks, target, names] = arguments else {
            panic!("expected LATENCY_FOLDER NETWORK_FOLDER TARGET NAME,NAME,...");
        };
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

    fn fit(&self, rows: &[Row]) -> Result<Fingerprint> {
        let subject = Subject {
            device: self.target.name.clone(),
            dataset: "imagenet".into(),
            stage: Stage::Training,
            quantity: Quantity::Latency,
        };
        let method = if std::env::var_os("PUBLISHED").is_some() { Method::Perf4sight } else { Method::Hybrid };
        Fingerprint::fit(subject, method, 1, &Observations { rows, failed: &[], target: &self.target })
    }
}

/// Mean absolute percentage error.
fn error(fingerprint: &Fingerprint, rows: &[Row]) -> f64 {
    let measured: Vec<f64> = rows.iter().map(|row| row.measured).collect();
    let predicted: Vec<f64> =
        rows.iter().map(|row| fingerprint.predict(&row.network, row.record.workload.batch).value()).collect();
    mean(&relative_errors(&measured, &predicted).into_iter().map(f64::abs).collect::<Vec<_>>())
}

fn main() -> Result<()> {
    let profile = Profile::read(&std::env::args().skip(1).collect::<Vec<_>>())?;
    let start = Instant::now();
    let all = profile.fit(&profile.rows)?;
    println!("{} rows fitted in {:.2?}", profile.rows.len(), start.elapsed());
    let folder = std::env::temp_dir();
    println!("{} bytes", std::fs::metadata(all.save(&folder)?).map_or(0, |file| file.len()));
    println!("{:12} {:>16} {:>16} {:>8} {:>16}", "", "left out (0)", "two rows (0)", "levels", "in sample (0)");
    let mut table: Vec<[f64; 7]> = Vec::new();
    for name in &profile.names {
        let own = profile.rows(|network, _| network == name);
        let intact = profile.rows(|network, level| network == name && level == 0);
        let others = profile.fit(&profile.rows(|network, _| network != name))?;
        let points: Vec<Row> =
            intact.iter().filter(|row| CALIBRATION.contains(&row.record.workload.batch)).cloned().collect();
        let refitted = others.calibrate(&points).unwrap_or(others.clone());
        let seen = profile.fit(&profile.rows(|network, level| network == name && FITTED.contains(&level)))?;
        let unseen = profile.rows(|network, level| network == name && !FITTED.contains(&level));
        let line = [
            error(&others, &own),
            error(&others, &intact),
            error(&refitted, &own),
            error(&refitted, &intact),
            error(&seen, &unseen),
            error(&all, &own),
            error(&all, &intact),
        ];
        print_line(name, &line);
        table.push(line);
    }
    print_line("mean", &std::array::from_fn(|column| mean(&table.iter().map(|line| line[column]).collect::<Vec<_>>())));
    Ok(())
}

fn print_line(name: &str, [out, out0, refit, refit0, levels, sample, sample0]: &[f64; 7]) {
    println!("{name:12} {out:8.2} ({out0:5.2}) {refit:8.2} ({refit0:5.2}) {levels:8.2} {sample:8.2} ({sample0:5.2})");
}
