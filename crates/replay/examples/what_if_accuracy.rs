//! Predicted against measured steps at other buckets and bandwidths: `cargo run --release -p perf4sight-replay --example
//! what_if_accuracy -- TRACES MEASURED [CHANGE ...]`. `TRACES` is a folder of traces, `MEASURED` one with the
//! `rank*_measured.json` of the same ranks: seconds of plain steps by `bucket_cap_mb`, the first of them the recorded one.

use perf4sight_base::error::{Error, Result};
use perf4sight_base::stats::median;
use perf4sight_replay::clocks::RankClocks;
use perf4sight_replay::collectives::RankExchanges;
use perf4sight_replay::communication::{CollectiveAlgorithm, fit};
use perf4sight_replay::graph::recorded::RecordedSteps;
use perf4sight_replay::plain_step::PlainStep;
use perf4sight_replay::ranks::TrainingJob;
use perf4sight_replay::what_if::{StepChange, parse, predict};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Seconds of the job's steps by bucket size: the longest of the ranks'.
type Measured = BTreeMap<String, Vec<f64>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [traces, measured, changes @ ..] = arguments.as_slice() else {
        return Err(Error::usage("expects TRACES MEASURED [CHANGE ...]"));
    };
    let job = TrainingJob::read(&[traces.into()])?;
    let exchanges = RankExchanges::find(&job);
    let clocks = RankClocks::estimate(&job, &exchanges);
    let mut recorded = RecordedSteps::build(&job, &exchanges, &clocks)?;
    let (own_cap, own) = read_measured(Path::new(traces), Path::new(measured), true)?;
    let plain = own.get(&own_cap).map(|seconds| median(seconds));
    if let Some(plain) = plain.filter(|_| std::env::var_os("KEEP_DISTORTION").is_none()) {
        let distortion = recorded.take_out_distortion(PlainStep::from_mean((1e9 * plain) as u64));
        println!("recorded {:+.1} % compared with plain, {:?}", distortion.percent(), distortion.correction);
    }
    let communication = fit(&recorded, CollectiveAlgorithm::Ring);
    println!("{communication:?}");
    let (_, others) = read_measured(Path::new(traces), Path::new(measured), false)?;
    let mut errors = Vec::new();
    for (cap, seconds) in &others {
        let mut texts: Vec<String> = changes.to_vec();
        if others.len() > 1 {
            texts.push(format!("bucket_cap_mb = {cap}"));
        }
        let parsed: Vec<Box<dyn StepChange>> = texts.iter().map(|text| parse(text)).collect::<Result<_>>()?;
        let outcome = predict(&recorded, &communication, &parsed)?;
        let error = 100.0 * (outcome.after.time / 1e9 / median(seconds) - 1.0);
        println!(
            "{cap:>5}: measured {:7.1} ms, predicted {:7.1} ({:.1} to {:.1}), {error:+.2} %",
            1e3 * median(seconds),
            outcome.after.time / 1e6,
            outcome.after.low / 1e6,
            outcome.after.high / 1e6
        );
        errors.push(error.abs());
    }
    println!("mean error {:.2} %", errors.iter().sum::<f64>() / errors.len() as f64);
    Ok(())
}

/// The recorded bucket size and the steps at all sizes: of the traces' own folder, or of the other one.
fn read_measured(traces: &Path, measured: &Path, own: bool) -> Result<(String, Measured)> {
    let folder = if own && traces.join("rank0_measured.json").exists() { traces } else { measured };
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .map_err(|cause| Error::io(folder, "look for measured steps", &cause))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with("_measured.json"))
        .collect();
    files.sort();
    let mut longest: Measured = BTreeMap::new();
    let mut recorded = String::new();
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(|cause| Error::io(&file, "read measured steps", &cause))?;
        let json: Value = serde_json::from_str(&text).map_err(|cause| Error::input(cause.to_string()).file(&file))?;
        for key in ["profiled", "pcap"] {
            recorded = json[key].as_f64().map_or(recorded, |cap| format!("{cap:.1}"));
        }
        for (cap, rows) in json["seconds"].as_object().or(json["times"].as_object()).into_iter().flatten() {
            if cap == "nocomm" {
                continue;
            }
            let seconds = rows.as_array().into_iter().flatten().filter_map(|row| row.as_f64().or(row[0].as_f64()));
            let steps = longest.entry(cap.clone()).or_default();
            for (step, seconds) in seconds.enumerate() {
                match steps.get_mut(step) {
                    Some(longest) => *longest = seconds.max(*longest),
                    None => steps.push(seconds),
                }
            }
        }
    }
    Ok((recorded, longest))
}
