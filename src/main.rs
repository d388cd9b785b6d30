//! Reads the arguments, runs, prints the error, picks the exit code.

use perf4sight::cli;
use perf4sight::pipeline::Ending;
use perf4sight::report::printable;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What a shell reports for a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let arguments = cli::arguments();
    let cancel = Arc::new(AtomicBool::new(false));
    cancel_on_signals(&cancel);
    match cli::run(arguments, cancel) {
        Ok(Ending::Finished) => ExitCode::SUCCESS,
        Ok(Ending::Interrupted) => ExitCode::from(INTERRUPTED),
        Err(error) => {
            complain(&format!("error: {error}"));
            ExitCode::from(error.kind().exit_code())
        }
    }
}

/// Has `cancel` set by the first Ctrl-C, SIGTERM or SIGHUP, after which the rows there are stay and the run ends in order; the second
/// ends the program at once.
fn cancel_on_signals(cancel: &Arc<AtomicBool>) {
    for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal)) {
        let second = flag::register_conditional_shutdown(signal, INTERRUPTED.into(), Arc::clone(cancel));
        if let Err(cause) = second.and_then(|_| flag::register(signal, Arc::clone(cancel))) {
            complain(&format!("warning: signal {signal} will lose the row at hand: {cause}"));
        }
    }
}

/// Whether whoever started this program wants it to go on in spite of a signal, as `nohup` does. Unknown: no.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << (signal - 1) != 0)
}

fn complain(words: &str) {
    // Not eprintln!, which panics where nobody reads.
    let _ = writeln!(io::stderr(), "{}", printable(words));
}
