//! Reads the arguments, runs, prints the error, picks the exit code.

use mimalloc::MiMalloc;
use perf4sight::cli;
use perf4sight::pipeline::RunEnding;
use perf4sight_base::{output_folder, temporary_folder};
use perf4sight_report::paragraph;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::fs;
use std::io::{self, Write};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

/// Networks from files are hundreds of thousands of small allocations, and simulations free large ones by the hundred.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The exit code that a shell reports for a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Time for a run to end in order. Files of a longer piece of work are complete: they are renamed into place, or not
/// written at all.
const GRACE: Duration = Duration::from_secs(5);

/// `timeout` sends its signal to the program and then to its whole group: a second signal this soon after the first is
/// the same one.
const ONE_SIGNAL: Duration = Duration::from_millis(300);

fn main() -> ExitCode {
    let cancel = Arc::new(AtomicBool::new(false));
    cancel_on_signals(&cancel);
    fail_where_files_may_not_grow();
    match cli::arguments().and_then(|typed| typed.map_or(Ok(RunEnding::Finished), |typed| cli::run(&typed, cancel))) {
        Ok(RunEnding::Finished) => ExitCode::SUCCESS,
        Ok(RunEnding::Interrupted) => ExitCode::from(INTERRUPTED),
        Err(error) => {
            complain(&format!("error: {error}"));
            ExitCode::from(error.kind().exit_code())
        }
    }
}

/// Has `cancel` set by the first Ctrl-C, SIGTERM or SIGHUP, after which the rows there are stay and the run ends in order, or after a
/// while wherever it is; the second ends the program at once.
fn cancel_on_signals(cancel: &Arc<AtomicBool>) {
    let signals: Vec<i32> = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal)).collect();
    match Signals::new(&signals) {
        Ok(heard) => drop(thread::spawn(move || end_on(heard))),
        Err(cause) => complain(&format!("warning: a signal will not end blocked operations: {cause}")),
    }
    for signal in signals {
        if let Err(cause) = flag::register(signal, Arc::clone(cancel)) {
            complain(&format!("warning: signal {signal} will lose the row at hand: {cause}"));
        }
    }
}

/// Ends the program on a second signal, or when there was time to end in order.
fn end_on(mut signals: Signals) {
    signals.wait().for_each(drop);
    thread::spawn(|| {
        thread::sleep(GRACE);
        complain("interrupted; what was written, if anything, is whole, and the same command does the rest");
        end();
    });
    thread::sleep(ONE_SIGNAL);
    signals.pending().for_each(drop);
    signals.wait().for_each(drop);
    end();
}

/// Ends the program wherever it is blocked or at work.
fn end() {
    temporary_folder::remove_all();
    output_folder::remove_empty();
    process::exit(INTERRUPTED.into());
}

/// Has a write past `ulimit -f` fail, as on a full disk; the signal would end the program without a word.
fn fail_where_files_may_not_grow() {
    if let Err(cause) = flag::register(SIGXFSZ, Arc::default()) {
        complain(&format!("warning: a file that may not grow will end the program: {cause}"));
    }
}

/// Whether the parent process wants this program to go on in spite of a signal, as `nohup` does. Unknown: no.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << (signal - 1) != 0)
}

fn complain(words: &str) {
    // Not eprintln!, which panics where standard error is closed.
    let _ = writeln!(io::stderr(), "{}", paragraph(words));
}
