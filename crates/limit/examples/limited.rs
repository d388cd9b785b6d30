//! Runs a command under limits, and reports as JSON how it ended and which back-ends held the limits:
//!
//!     cargo run --release -p perf4sight-limit --example limited -- DATA CPUS MEMORY STORAGE COMMAND...
//!
//! MEMORY is in bytes, with the page cache; STORAGE in bytes a second; a dash stands for no limit.

use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Bytes;
use perf4sight_limit::{LimitedJob, Limiter, LimiterSettings, Resource};
use perf4sight_machine::ResourceLimits;
use perf4sight_machine::RunWatch;
use std::env;
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

fn main() -> ExitCode {
    match limited(&env::args().skip(1).collect::<Vec<_>>()) {
        Ok(ended) => {
            println!("{ended}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn limited(arguments: &[String]) -> Result<String> {
    let [data, cpus, memory, storage, words @ ..] = arguments else {
        return Err(Error::usage("DATA CPUS MEMORY STORAGE COMMAND... are needed"));
    };
    let limits = ResourceLimits {
        cpus: number(cpus)?,
        memory: number(memory)?.map(Bytes),
        storage: number(storage)?.map(Bytes),
    };
    let cancelled = AtomicBool::new(false);
    let watch = RunWatch::quiet(&cancelled);
    let around = LimiterSettings { data: Some(Path::new(data)), ..LimiterSettings::default() };
    let limiter = Limiter::open(around, &watch)?.expect("nothing cancels this");
    let job = LimitedJob { words, limits, ..LimitedJob::default() };
    let ended = limiter.run(&job, &watch, &mut |_| false)?.expect("nothing cancels this");
    let by = |resource: Resource| limiter.survey().by(resource).map(ToString::to_string);
    Ok(serde_json::json!({
        "verdict": format!("{:?}", ended.verdict()),
        "seconds": ended.wall.as_secs_f64(),
        "held_by": Resource::ALL.map(by),
        "last_lines": ended.last_lines,
    })
    .to_string())
}

fn number<T: FromStr>(word: &str) -> Result<Option<T>> {
    let wrong = || Error::usage(format!("\"{word}\" is not a limit")).expected("a number, or a dash");
    if word == "-" { Ok(None) } else { word.parse().map(Some).map_err(|_| wrong()) }
}
