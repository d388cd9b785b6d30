//! The outcome of a worker on a machine, which `run.sh` reports after the worker's own output.

use super::connection::ScriptReply;
use super::failure::RemoteFailure;
use crate::process::{LONGEST_OUTPUT, ProcessEnd, ProcessOutput};
use nix::sys::signal::Signal;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// The prefix of the last line of `run.sh`.
const MARK: &str = "\nperf4sight ";
/// A shell adds this to the number of the signal that ended a process.
const SIGNALLED: i32 = 128;
/// The resolution of the times that `run.sh` reports.
const CENTISECOND: Duration = Duration::from_millis(10);

#[derive(Debug, PartialEq)]
pub(super) enum RunOutcome {
    Ended {
        output: ProcessOutput,
        took: Duration,
    },
    /// It was not started: another measurement held the lock all the time.
    Busy,
}

impl RunOutcome {
    /// Parses the reply for a worker with the time limit `limit`.
    ///
    /// # Errors
    /// The last line is missing: the machine went down with the worker.
    pub fn read(reply: &ScriptReply, limit: Duration) -> Result<Self, RemoteFailure> {
        let lost = || match reply.stderr.trim() {
            "" => RemoteFailure::Lost("the machine ended in the middle of a measurement".to_owned()),
            words => RemoteFailure::Lost(words.to_owned()),
        };
        let answer = reply.answer.as_deref().ok_or_else(lost)?;
        let ended = |end, said: &str, killed_for_memory, took| RunOutcome::Ended {
            output: ProcessOutput {
                killed_for_memory,
                ..ProcessOutput::new(end, said.to_owned(), reply.stderr.clone())
            },
            took,
        };
        let Some((said, last)) = answer.rsplit_once(MARK) else {
            // Output beyond the limit is cut off, together with the last line.
            let endless = answer.len() as u64 > LONGEST_OUTPUT / 2;
            let whole = || ended(ProcessEnd::Exited(exited(0)), answer, false, Duration::ZERO);
            return if endless { Ok(whole()) } else { Err(lost()) };
        };
        let words: Vec<&str> = last.split_whitespace().collect();
        match words.as_slice() {
            ["busy"] => Ok(RunOutcome::Busy),
            ["ended", code, centiseconds, memory] => {
                let (Ok(code), Ok(centiseconds)) = (code.parse(), centiseconds.parse::<u64>()) else {
                    return Err(lost());
                };
                // `timeout` kills with a signal that cannot be distinguished from others.
                let took = Duration::from_millis(centiseconds.saturating_mul(10));
                let late = code == SIGNALLED + Signal::SIGKILL as i32 && took.saturating_add(CENTISECOND) >= limit;
                let end = if late { ProcessEnd::TimedOut } else { ProcessEnd::Exited(exited(code)) };
                Ok(ended(end, said, *memory == "1", took))
            }
            _ => Err(lost()),
        }
    }
}

/// A status as returned by `wait`: the signal in the low bits, the code shifted by 8.
fn exited(code: i32) -> ExitStatus {
    match Signal::try_from(code - SIGNALLED) {
        Ok(signal) => ExitStatus::from_raw(signal as i32),
        Err(_) => ExitStatus::from_raw(code << 8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answer: &str) -> Result<RunOutcome, RemoteFailure> {
        let reply = ScriptReply { answer: Some(answer.to_owned()), stderr: "Connection closed".to_owned() };
        RunOutcome::read(&reply, Duration::from_secs(2))
    }

    fn end(answer: &str) -> (ProcessEnd, bool) {
        match read(answer) {
            Ok(RunOutcome::Ended { output, .. }) => (output.end, output.killed_for_memory),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_last_line_tells_how_a_worker_ended() {
        let half = Duration::from_millis(500);
        let valid =
            |ran| matches!(ran, Ok(RunOutcome::Ended { output, took }) if output.stdout == "{}\n" && took == half);
        assert!(valid(read("{}\n\nperf4sight ended 0 50 0\n")));
        assert_eq!(end("\nperf4sight ended 3 50 0\n").0, ProcessEnd::Exited(ExitStatus::from_raw(3 << 8)));
        // 137 = 128 + SIGKILL: by the kernel, by another process, at the limit of 2 s.
        assert_eq!(end("\nperf4sight ended 137 50 1\n"), (ProcessEnd::Exited(ExitStatus::from_raw(9)), true));
        assert_eq!(end("\nperf4sight ended 137 50 0\n"), (ProcessEnd::Exited(ExitStatus::from_raw(9)), false));
        assert_eq!(end("\nperf4sight ended 137 200 0\n").0, ProcessEnd::TimedOut);
        assert_eq!(read("\nperf4sight busy\n").unwrap(), RunOutcome::Busy);
        assert_eq!(end(&"y\n".repeat(2 << 20)).0, ProcessEnd::Exited(ExitStatus::from_raw(0)));
    }

    #[test]
    fn without_it_the_board_is_gone() {
        for answer in ["", "{\"outcome\":", "\nperf4sight ended 1", "\nperf4sight ended a b c\n"] {
            assert!(matches!(read(answer), Err(RemoteFailure::Lost(why)) if why == "Connection closed"), "{answer}");
        }
    }
}
