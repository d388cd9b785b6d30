//! Reads the arguments, runs, prints the error, picks the exit code.

use clap::Parser;
use perf4sight::cli::{self, Arguments};
use perf4sight::pipeline::Ending;
use std::io::Write;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a shell reports for a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    match cli::run(Arguments::parse(), cancelled_by_ctrl_c()) {
        Ok(Ending::Finished) => ExitCode::SUCCESS,
        Ok(Ending::Interrupted) => ExitCode::from(INTERRUPTED),
        Err(error) => {
            // Not eprintln!, which panics where nobody reads.
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::from(error.kind().exit_code())
        }
    }
}

/// Set by the first Ctrl-C, after which the row at hand is finished and kept; the second ends the program at once.
fn cancelled_by_ctrl_c() -> Arc<AtomicBool> {
    let cancel = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&cancel);
    let installed = ctrlc::set_handler(move || {
        if seen.swap(true, Ordering::Relaxed) {
            process::exit(INTERRUPTED.into());
        }
    });
    if let Err(cause) = installed {
        let _ = writeln!(std::io::stderr(), "warning: Ctrl-C will lose the row at hand: {cause}");
    }
    cancel
}
