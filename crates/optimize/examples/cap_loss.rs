//! What the proposed buckets lose against the best measured `bucket_cap_mb`: `cargo run --release -p perf4sight-optimize
//! --example cap_loss -- TRACES... MEASURED...`. `MEASURED` are the `rank*_measured.json` of the recorded ranks: seconds of steps by
//! `bucket_cap_mb`.

use perf4sight_base::error::{Error, Result};
use perf4sight_base::stats::median;
use perf4sight_optimize::changes::AutocastLists;
use perf4sight_optimize::passes::{PASSES, PassSettings};
use perf4sight_optimize::search::{SearchMethod, SearchOptions, SearchSettings};
use perf4sight_optimize::start::RecordedStart;
use perf4sight_replay::Analysis;
use perf4sight_replay::buckets::{BucketLimits, assign, gradient_sizes};
use perf4sight_replay::ranks::TrainingJob;
use perf4sight_replay::request::ReplayRequest;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let measured = arguments.iter().filter(|name| name.ends_with("_measured.json"));
    let seconds = measured_seconds(measured)?;
    let traces: Vec<PathBuf> =
        arguments.iter().filter(|name| !name.ends_with("_measured.json")).map(PathBuf::from).collect();
    let plain = std::env::var("PLAIN_CAP").ok().and_then(|cap| seconds.get(&cap)).map(|step| (1e9 * step) as u64);
    let request = ReplayRequest { plain, ..ReplayRequest::default() };
    let start = RecordedStart::new(&Analysis::new(TrainingJob::read(&traces)?), &request)?;
    println!("a step as it is: {:.1} ms", start.before as f64 / 1e6);
    let first = SearchOptions { optimizer: SearchMethod::Mcmc, seed: 0, moves: 20_000 };
    let folder = tempfile::tempdir().map_err(|cause| Error::io(".", "make a temporary folder", &cause))?;
    let wanted = PassSettings {
        searches: SearchSettings { first, count: 1, folder: folder.path().to_owned() },
        simulate: false,
        candidates: None,
        clusters: None,
        autocast: AutocastLists::default(),
        memory_budget: None,
        network: None,
    };
    for pass in PASSES {
        let found = pass.run(&start, &wanted, &|_| true)?;
        for proposal in found.proposals.iter().chain(&found.others) {
            let [gain, least, most] = proposal.gain();
            let after = proposal.outcome.after.time / 1e6;
            println!("{after:8.1} ms, {gain:5.1} % less ({least:.1} to {most:.1}): {}", proposal.change);
        }
        found.nothing.iter().for_each(|sentence| println!("{sentence}"));
        if let Some(cap) = found.proposals.iter().find_map(|proposal| proposed_cap(&proposal.change)) {
            loss(&start, cap, &seconds)?;
        }
    }
    Ok(())
}

fn proposed_cap(change: &str) -> Option<f64> {
    change.split("bucket_cap_mb=").nth(1)?.trim_end_matches(')').parse().ok()
}

/// Of the measured sizes, the one that makes the same buckets as the proposed one, else the nearest.
fn loss(start: &RecordedStart, cap: f64, seconds: &BTreeMap<String, f64>) -> Result<()> {
    let sizes = gradient_sizes(&start.recorded.typical)?;
    let buckets = |cap: f64| assign(&sizes, BucketLimits::of_cap(cap));
    let caps = || seconds.iter().filter_map(|(cap, time)| Some((cap.parse::<f64>().ok()?, *time)));
    let distance = |one: f64| (buckets(one) != buckets(cap), (one / cap).ln().abs());
    let near = caps().min_by(|(one, _), (other, _)| {
        distance(*one).partial_cmp(&distance(*other)).unwrap_or(std::cmp::Ordering::Equal)
    });
    let best = caps().min_by(|(_, one), (_, other)| one.total_cmp(other));
    if let Some(((near, time), (best, least))) = near.zip(best) {
        let same = if buckets(near) == buckets(cap) { "the same buckets" } else { "the nearest measured" };
        println!(
            "proposed {cap} MiB, {same} as {near}: {:.1} ms; best measured {best}: {:.1} ms; loses {:.2} %",
            1e3 * time,
            1e3 * least,
            100.0 * (time / least - 1.0)
        );
    }
    Ok(())
}

/// Seconds of a step by `bucket_cap_mb`, the longest of the ranks' in each step, the median of the steps.
fn measured_seconds<'a>(files: impl Iterator<Item = &'a String>) -> Result<BTreeMap<String, f64>> {
    let mut longest: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(file).map_err(|cause| Error::io(file, "read measured steps", &cause))?;
        let json: Value = serde_json::from_str(&text).map_err(|cause| Error::input(cause.to_string()).file(file))?;
        for (cap, rows) in json["seconds"].as_object().or(json["times"].as_object()).into_iter().flatten() {
            let steps = longest.entry(cap.clone()).or_default();
            let seconds = rows.as_array().into_iter().flatten().filter_map(|row| row.as_f64().or(row[0].as_f64()));
            for (step, seconds) in seconds.enumerate() {
                match steps.get_mut(step) {
                    Some(longest) => *longest = seconds.max(*longest),
                    None => steps.push(seconds),
                }
            }
        }
    }
    Ok(longest.into_iter().map(|(cap, steps)| (cap, median(&steps))).collect())
}
