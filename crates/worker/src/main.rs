//! perf4sight's own worker: one line of JSON in, a step of a network with libtorch, one line out (`perf4sight_step::protocol`).

mod about;
mod allocator;
mod answer;
mod autocast;
mod checkpoint;
mod clock;
mod cuda;
mod driver;
mod executable;
mod gpu;
mod laps;
mod library;
mod measure;
mod memory;
mod ops;
mod places;
mod process;
mod shim;
mod step;
mod tape;
mod weights;

use clap::Parser;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Measures one configuration: reads one line of JSON, writes one.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Tell about this worker instead
    #[arg(long)]
    about: bool,

    /// Also use GPUs, with the CUDA libtorch at PATH; without one, at LIBTORCH_CUDA or where python3 finds PyTorch
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true)]
    cuda: Option<Option<PathBuf>>,
}

fn main() -> ExitCode {
    let Arguments { about, cuda } = Arguments::parse();
    let done = match about {
        true => about::report(io::stdout(), cuda.as_ref().map(Option::as_deref)),
        false => answer::answer_request(io::stdin().lock(), io::stdout(), cuda.flatten().as_deref()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Not eprintln!, which panics where standard error is closed.
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::from(error.kind().exit_code())
        }
    }
}
