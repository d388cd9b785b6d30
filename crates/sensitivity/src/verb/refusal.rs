//! Ends a search at its first point if the job fails or reports no iterations, with a remedy.

use super::Sensitivity;
use super::points::{MeasuredPoint, PointOutcome, last_lines, node_suffix};
use perf4sight_base::error::{Error, Result};

/// Rejects a job without a result at the most CPUs, because fewer will hardly help.
pub(super) fn check_runs(point: &MeasuredPoint, asked: &Sensitivity) -> Result<()> {
    let Some(run) = point.runs.last().filter(|_| point.rate().is_none()) else { return Ok(()) };
    let with = point.configuration.to_text();
    let (how, lines) = match &run.outcome {
        PointOutcome::Sound | PointOutcome::Disturbed { .. } => return Ok(()),
        PointOutcome::OutOfMemory => {
            return Err(Error::device(format!("with {with} the job ran out of memory{}", node_suffix(point)))
                .help("give it more memory (memory), or let it need less, as with a smaller batch; this point is stored, and is measured again only with overwrite"));
        }
        PointOutcome::Crashed { how, last_lines: lines } => (format!("with {with} the job failed: {how}"), lines),
        PointOutcome::NoRate { how, last_lines: lines, .. } => (format!("with {with} no rate is known: {how}"), lines),
    };
    let error = Error::device(format!("{how}{}", last_lines(lines)));
    Err(match run.outcome {
        PointOutcome::NoRate { reported: 0, .. } if asked.step_pattern.is_some() => error.help(PATTERN),
        PointOutcome::NoRate { reported: 0, .. } => error.help(WAYS),
        PointOutcome::NoRate { .. } if !run.doubts.is_empty() => error.help(LINES),
        PointOutcome::NoRate { .. } => error.help(LONGER),
        PointOutcome::Sound
        | PointOutcome::Disturbed { .. }
        | PointOutcome::OutOfMemory
        | PointOutcome::Crashed { .. } => error,
    })
}

/// The remedy for too few iterations.
const LONGER: &str = "give a run more time (--point-time, and --budget where less is left of it), leave out fewer iterations (--warm-up), or let the job go on for longer";
/// The remedy for invalid lines.
const LINES: &str = "each line is to be of the form {\"step\": 12, \"time\": 3.25, \"wait\": 0.01, \"rank\": 0}, wait and rank being optional: time in seconds, as RecorderFolder's time.time(), and not in milliseconds, later than that of \
the line before of its rank, and wait no longer than the time between the two; processes that share the file take a rank each";
/// The remedy for a pattern without matches.
const PATTERN: &str = "a pattern is looked for in each line of output and of errors, and what is written over a carriage return is a line: compare it with what the job \
writes";
/// The remedy for a job that reports no iteration.
const WAYS: &str = "PyTorch's optimizers and loaders report by themselves; else have the job append {\"step\": 1, \"time\": 0.5} to the file that PERF4SIGHT_STEPS names, \
or say what its output matches (--step-pattern), or how many iterations the whole of it makes (--iterations)";
