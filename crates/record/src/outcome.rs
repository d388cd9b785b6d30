//! The result of a recorded command: what was recorded, what was lost, or why nothing was recorded.

use super::RecordSettings;
use super::process_reports::{ProcessReport, RecorderPhase};
use crate::overhead::average;
use crate::{ChangedIterations, Recording, RecordingOverhead};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::shell::command_text;
use perf4sight_base::units::{Milliseconds, Percent, count_text};
use perf4sight_machine::foreground::{EndReason, ForegroundEnd};
use perf4sight_report::{Table, TableBuilder};
use perf4sight_verb::{Context, Summary};
use serde_json::json;
use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::ExitStatusExt;

const SIGNALLED: i32 = 128;

/// Seconds of writing that are said to have made the command longer.
const SLOW: f64 = 10.0;

pub(super) struct RecordOutcome<'a> {
    pub settings: &'a RecordSettings,
    pub ended: ForegroundEnd,
    pub reports: Vec<ProcessReport>,
    pub recordings: Vec<Recording>,
    /// Whether the recorder's own folder was removed meanwhile.
    pub removed: bool,
}

impl RecordOutcome<'_> {
    /// The summary of the run.
    ///
    /// # Errors
    /// Nothing was recorded, and the run was not interrupted.
    pub fn summary(&self, context: &mut Context) -> Result<Summary> {
        if self.recordings.is_empty() {
            let interrupted = self.ended.asked == Some(EndReason::Cancelled);
            let headline = "interrupted; nothing was recorded".to_owned();
            return if interrupted {
                Ok(Summary { headline, ..Summary::default() })
            } else {
                Err(self.nothing_recorded())
            };
        }
        self.doubts().into_iter().for_each(|doubt| context.warn(doubt));
        let table = self.table();
        let json = json!({
            "out": self.settings.out,
            "ranks": table.to_json(),
            "exit_code": self.code(),
            "warnings": context.warnings(),
        });
        let kept = |code| Error::command(code, format!("the command {}; what was recorded is kept", self.end()));
        Ok(Summary {
            headline: self.headline(),
            tables: vec![table],
            failure: self.exit_code().map(kept),
            json,
            ..Summary::default()
        })
    }

    /// The exit code of a command that failed by itself, as a shell reports it.
    fn exit_code(&self) -> Option<u8> {
        self.code().filter(|&code| code != 0 && self.ended.asked.is_none())
    }

    /// The exit code of the command, as a shell reports it: also of one that was ended, or that succeeded.
    fn code(&self) -> Option<u8> {
        let status = self.ended.status?;
        u8::try_from(status.code().or_else(|| Some(SIGNALLED + status.signal()?))?).ok()
    }

    /// "ended with exit code 1"
    fn end(&self) -> String {
        let limit = humantime::format_duration(self.settings.time_limit.unwrap_or_default());
        match (self.ended.asked, self.ended.status.and_then(|status| status.signal()), self.exit_code()) {
            (Some(EndReason::TimeUp), _, _) => format!("was ended by the time limit of {limit}"),
            (Some(EndReason::Cancelled), _, _) => "was interrupted".to_owned(),
            (Some(EndReason::Done), _, _) => "was ended, for it did not end by itself".to_owned(),
            (None, Some(signal), _) => format!("was killed by signal {signal}"),
            (None, None, Some(code)) => format!("ended with exit code {code}"),
            (None, None, None) => "ended".to_owned(),
        }
    }

    /// Warnings about processes with iterations and without a trace, and about missing iterations.
    fn doubts(&self) -> Vec<String> {
        let begun = self.reports.iter().filter(|report| report.iterations_are.is_some() && report.trace.is_none());
        let lost = begun.map(|report| match &report.problem {
            Some(problem) => format!("a process of {} was not recorded: {problem}", report.executable),
            None => format!("a process of {} ended before its recording was written, which is lost", report.executable),
        });
        let asked = self.settings.iterations;
        let short = self.recordings.iter().filter(|one| count(&one.wall.plain) < asked).map(|one| {
            let (recorded, plain) = (count(&one.wall.recorded), count(&one.wall.plain));
            format!(
                "rank {}: recorded {recorded} of {}, and timed {plain} without: the command {}",
                one.rank,
                count_text(asked, "iteration"),
                self.end()
            )
        });
        let poor = self.recordings.iter().filter(|one| !one.kineto).map(|one| {
            format!(
                "rank {}: this PyTorch was built without Kineto, so its trace has nothing of GPUs, and of Python the thread of the iterations alone",
                one.rank
            )
        });
        let mute = self.recordings.iter().filter(|one| self.settings.stacks && one.calls == Some(false)).map(|one| {
            format!(
                "rank {}: the profiler of this PyTorch records no calls of Python (1.12 and newer do): the share of Python stays unknown",
                one.rank
            )
        });
        let unsure = self.recordings.iter().flat_map(unsure);
        let own = self.reports.iter().filter(|report| report.own_profiler > 0);
        let own = own.map(|report| {
            let left = count_text(report.own_profiler, "iteration");
            format!("not counted, for the script's own profiler ran in them: {left}")
        });
        let slow = self.reports.iter().filter(|report| report.writing_seconds > SLOW);
        let slow = slow.map(|report| {
            format!(
                "writing what was recorded took {:.0} s, in which the script stood still: a trace of many events; fewer iterations (iterations) take less",
                report.writing_seconds
            )
        });
        let cut = self.ended.asked == Some(EndReason::TimeUp);
        let limited = cut.then(|| format!("the command {}", self.end()));
        lost.chain(self.shared())
            .chain(self.without_ranks())
            .chain(own)
            .chain(slow)
            .chain(limited)
            .chain(short)
            .chain(poor)
            .chain(mute)
            .chain(unsure)
            .collect()
    }

    /// Warns about ranks that several processes share, for example after a fork.
    fn shared(&self) -> Option<String> {
        let ranks: BTreeSet<u32> = self.recordings.iter().map(|one| one.rank).collect();
        let processes = self.recordings.len();
        (ranks.len() < processes).then(|| {
            format!(
                "{processes} processes were recorded that have {} together: breakdown gives the further ones, whose files carry \
                 the process number, numbers behind the last rank",
                count_text(ranks.len() as u64, "rank")
            )
        })
    }

    /// Warns about several processes without ranks, for example after a fork: each gets a number of its own.
    fn without_ranks(&self) -> Option<String> {
        let numbers: Vec<String> =
            self.recordings.iter().filter(|one| one.ranks == 1).map(|one| one.rank.to_string()).collect();
        let (last, first) = numbers.split_last().filter(|(_, first)| !first.is_empty())?;
        let processes = numbers.len();
        Some(format!(
            "{processes} processes without ranks were recorded; the files call them ranks {} and {last}",
            first.join(", ")
        ))
    }

    fn table(&self) -> Table {
        let overheads = self.recordings.iter().map(|one| (one, RecordingOverhead::from_recording(one)));
        // Means over the iterations that the overhead was measured with, if it was.
        let mean = |overhead: &Option<RecordingOverhead>, of: fn(&RecordingOverhead) -> f64, all: &[Vec<u64>]| {
            let mean = overhead.as_ref().map(of).or_else(|| average(&all.concat()));
            mean.map(|mean| Milliseconds(mean / 1e6))
        };
        let percent = |overhead: &Option<RecordingOverhead>, of: fn(&RecordingOverhead) -> f64| {
            overhead.as_ref().map(|overhead| Percent(overhead.percent(of(overhead))))
        };
        let title = format!("Iterations of {}", command_text(&self.settings.command));
        TableBuilder::new(title, overheads)
            .number("rank", "rank", |(one, _)| u64::from(one.rank))
            .text("iterations_are", "iterations are", |(one, _)| one.iterations_are.as_str())
            .number("recorded", "recorded", |(one, _)| count(&one.wall.recorded))
            .number("recorded_ms", "mean without long ones", |(one, of)| mean(of, |of| of.recorded, &one.wall.recorded))
            .number("plain", "without recording", |(one, _)| count(&one.wall.plain))
            .number("plain_ms", "mean without long ones", |(one, of)| mean(of, |of| of.plain, &one.wall.plain))
            .number("all_ms", "mean of all", |(one, of)| mean(of, |of| of.measured.mean, &one.wall.plain))
            .number("overhead_percent", "recording costs", |(_, of)| percent(of, |of| of.added))
            .number("overhead_at_least_percent", "at least", |(_, of)| percent(of, |of| of.interval[0]))
            .number("overhead_at_most_percent", "at most", |(_, of)| percent(of, |of| of.interval[1]))
            .text("trace", "trace", |(one, _)| one.trace.as_str())
            .table()
    }

    fn headline(&self) -> String {
        let out = self.settings.out.display();
        let ranks = match self.recordings.len() {
            1 => String::new(),
            processes if self.shared().is_some() => format!(" of {processes} processes"),
            ranks => format!(" of {ranks} ranks"),
        };
        let all: BTreeSet<u64> = self.recordings.iter().map(|one| count(&one.wall.recorded)).collect();
        let iterations: Vec<String> = all.iter().map(ToString::to_string).collect();
        let (noun, are) = if all.iter().eq(&[1]) { ("iteration", "is") } else { ("iterations", "are") };
        let python = match self.settings.stacks {
            true => "",
            false => " (without --stacks the share of Python stays unknown)",
        };
        let changed = self.changed().map_or(String::new(), |changed| {
            format!("; {}, so that a mean of them is what neither the first nor the last ones take", changed.sentence())
        });
        let cut = match self.recordings.iter().any(|one| one.ended.as_deref() == Some("as asked")) {
            true => "; the script was ended then, and what it does at its end was not done",
            false => "",
        };
        format!("{} {noun}{ranks} {are} recorded in {out}{python}{cut}{changed}", iterations.join(" to "))
    }

    /// Of several ranks, which wait for each other, the largest change.
    fn changed(&self) -> Option<ChangedIterations> {
        let overheads = self.recordings.iter().filter_map(RecordingOverhead::from_recording);
        overheads.filter_map(|overhead| overhead.changed).max_by(ChangedIterations::compare_sizes)
    }

    fn nothing_recorded(&self) -> Error {
        let sentence = |why: &str| format!("nothing was recorded: {why}; the command {}", self.end());
        let failed = |why: &str| match self.exit_code() {
            Some(code) => Error::command(code, sentence(why)),
            None => Error::device(sentence(why)),
        };
        if self.removed {
            return failed("the folder of the recording was removed while the command ran")
                .help(format!("record into a folder that the command leaves alone ({})", self.settings.out_key));
        }
        let with_torch =
            || self.reports.iter().filter(|report| report.torch.as_deref().is_some_and(|torch| torch != MISSING));
        let failures = self.reports.iter().filter_map(|report| Some((report.problem.as_deref()?, report.unwritten)));
        if let Some((problem, unwritten)) = failures.max_by_key(|(_, unwritten)| *unwritten) {
            let unwritten = unwritten && self.exit_code().is_none();
            return if unwritten { self.unwritten(sentence(problem)) } else { failed(problem) };
        }
        if let Some(report) = self.reports.iter().find(|report| report.own_profiler > 0) {
            let left = count_text(report.own_profiler, "iteration");
            return failed(&format!("left alone, for the script's own profiler ran in them: {left}"))
                .help("the script has a trace already, or let it not use its profiler");
        }
        if let Some(begun) = self.reports.iter().find(|report| report.iterations_are.is_some()) {
            let error = failed(&too_few(begun));
            // A killed process did not report its end.
            let ended = begun.phase == Some(RecorderPhase::Finished);
            if self.ended.asked == Some(EndReason::TimeUp) {
                return error.help("allow more time (time_limit), or request fewer iterations or a shorter warm-up");
            }
            return if ended { error.help(self.more_marks(begun)) } else { error };
        }
        if self.ended.asked == Some(EndReason::TimeUp) && !self.reports.is_empty() {
            return failed("no iteration had ended by then, nor perhaps had PyTorch been imported").help(
                "allow more time (time_limit); where iterations take no more than it, mark them (docs/recording.md)",
            );
        }
        if with_torch().next().is_some() {
            let error = failed("no step of an optimizer and no batch of a DataLoader was seen");
            return error.help(match self.exit_code() {
                Some(_) => "the command failed: see what it printed above",
                None => "put profiler.enable_profiling() and profiler.disable_profiling() around an iteration (docs/recording.md); what it starts with a PYTHONPATH of its own loads no recorder",
            });
        }
        match self.reports.iter().find(|report| report.torch.is_some()) {
            Some(without) => failed(&format!("{} has no PyTorch", without.executable))
                .expected("a Python that can import torch, 1.8 or later")
                .help("name that Python in the command, such as venv/bin/python train.py"),
            None => self.without_torch(&failed),
        }
    }

    /// The error for a command that never imported PyTorch: names the Python interpreters that ran, if any.
    fn without_torch(&self, failed: &dyn Fn(&str) -> Error) -> Error {
        let pythons: BTreeSet<String> =
            self.reports.iter().map(|one| format!("{} (Python {})", one.executable, one.python)).collect();
        let pythons: Vec<String> = pythons.into_iter().collect();
        let elsewhere = "what runs in a container or on another machine is recorded by a perf4sight in there";
        if pythons.is_empty() {
            return failed("the command ran no Python that loads the recorder")
                .expected("a command that runs a Python script, such as perf4sight record -- python3 train.py")
                .help(format!("python -I, -E and -S load no recorder, nor does what is started with a PYTHONPATH of its own; {elsewhere}"));
        }
        failed(&format!("{} ran, and never imported torch", pythons.join(" and ")))
            .expected("a script that trains with PyTorch, and the Python that has it")
            .help(format!("name them as you do without perf4sight, such as perf4sight record -- venv/bin/python train.py; {elsewhere}"))
    }

    /// The error for a recording that could not be read or written, for example on a full disk.
    fn unwritten(&self, problem: String) -> Error {
        Error::io(&self.settings.out, "record here", &io::Error::other(problem))
            .help(format!("make room or permit writing, or choose another folder ({})", self.settings.out_key))
    }

    /// What helps where there are too few iterations. Shorter options help by so much, and may be as short as they can.
    fn more_marks(&self, begun: &ProcessReport) -> String {
        let longer = "let the command run for more iterations, such as more epochs";
        match self.settings.warm_up.min(begun.before_recorded) {
            0 => longer.to_owned(),
            warm_up => {
                format!("{longer}, or leave out the warm-up (warm_up): it takes {}", count_text(warm_up, "iteration"))
            }
        }
    }
}

/// How far a process without a trace got.
fn too_few(begun: &ProcessReport) -> String {
    let marks = begun.iterations_are.as_deref().unwrap_or_default();
    if begun.recorded > 0 {
        return format!("{marks} were seen, and the recording began, but what was recorded is lost");
    }
    let ended = count_text(begun.ended, "iteration");
    let anew = match begun.restarts {
        0 => String::new(),
        times => format!(", counted anew {} since something else marks them", count_text(times, "time")),
    };
    format!(
        "{ended} ended ({marks}{anew}), and none of the first {} is recorded: they warm up, are timed without recording, or settle",
        begun.before_recorded
    )
}

/// The value of [`ProcessReport::torch`] if PyTorch is not installed.
const MISSING: &str = "missing";

fn count(periods: &[Vec<u64>]) -> u64 {
    periods.iter().map(|period| period.len() as u64).sum()
}

/// Reasons to doubt the measured overhead of a recording.
fn unsure(one: &Recording) -> Vec<String> {
    let Some(overhead) = RecordingOverhead::from_recording(one) else { return Vec::new() };
    let contradiction = overhead.contradiction().map(|why| format!("what recording costs is not known: {why}"));
    overhead.doubts.into_iter().chain(contradiction).map(|doubt| format!("rank {}: {doubt}", one.rank)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::process::ExitStatus;

    fn outcome(settings: &RecordSettings, reports: Vec<ProcessReport>, status: i32) -> RecordOutcome<'_> {
        // As wait(2) gives it: the exit code in the second byte.
        let ended = ForegroundEnd { status: Some(ExitStatus::from_raw(status << 8)), asked: None };
        RecordOutcome { settings, ended, reports, recordings: Vec::new(), removed: false }
    }

    fn settings() -> RecordSettings {
        RecordSettings {
            command: vec!["true".to_owned()],
            iterations: 20,
            warm_up: 5,
            stacks: false,
            out_key: "out",
            out: PathBuf::from("recording"),
            time_limit: None,
            overwrite: false,
        }
    }

    #[test]
    fn a_command_that_writing_made_much_longer_is_told() {
        let settings = settings();
        for (seconds, told) in [(98.2, true), (2.0, false)] {
            let report = ProcessReport { writing_seconds: seconds, ..ProcessReport::default() };
            let doubts = outcome(&settings, vec![report], 0).doubts();
            let known = "writing what was recorded took 98 s";
            assert_eq!(doubts.iter().any(|doubt| doubt.starts_with(known)), told, "{doubts:?}");
        }
    }

    #[test]
    fn the_exit_code_of_a_command_that_succeeds_is_known_and_no_failure() {
        let settings = settings();
        let codes = |status| {
            let outcome = outcome(&settings, Vec::new(), status);
            (outcome.code(), outcome.exit_code())
        };
        assert_eq!((codes(0), codes(3)), ((Some(0), None), (Some(3), Some(3))));
    }
}
