//! Watches the reports of running processes: shows their progress and detects when the recording is finished.

use super::process_reports::{self, ProcessReport, RecorderPhase};
use perf4sight_base::units::count_text;
use perf4sight_machine::foreground::CommandProgress;
use perf4sight_verb::Context;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Interval between two reads of the reports. Reading takes processor time from the script.
const LOOK: Duration = Duration::from_millis(500);
/// No progress is shown before this time: most recordings of small networks are finished by then.
const SILENCE: Duration = Duration::from_secs(2);
/// Interval between two progress messages of the same phase.
const AGAIN: Duration = Duration::from_secs(10);
/// The trace is written for so long before that is shown: mostly it is done sooner, after each period.
const WRITES: Duration = Duration::from_secs(3);
/// How long a script may continue after the recorder requested its end, for example to save its model.
const LINGER: Duration = Duration::from_secs(10);

pub(super) struct RecordingWatcher<'a> {
    folder: PathBuf,
    context: &'a Context,
    begun: SystemTime,
    looked: SystemTime,
    shown: Option<(RecorderPhase, SystemTime)>,
    /// Since when a trace is written.
    writes: Option<SystemTime>,
    finished: Option<SystemTime>,
    /// What the last look saw.
    progress: CommandProgress,
}

impl<'a> RecordingWatcher<'a> {
    pub fn new(folder: PathBuf, context: &'a Context) -> Self {
        let now = context.now();
        let progress = CommandProgress::Running;
        RecordingWatcher {
            folder,
            context,
            begun: now,
            looked: now,
            shown: None,
            writes: None,
            finished: None,
            progress,
        }
    }

    /// Done once all recordings have been finished for [`LINGER`] while the command still runs.
    pub fn look(&mut self) -> CommandProgress {
        let now = self.context.now();
        if since(self.looked, now) >= LOOK {
            self.looked = now;
            self.progress = self.progress_at(now);
        }
        self.progress
    }

    fn progress_at(&mut self, now: SystemTime) -> CommandProgress {
        let reports = process_reports::read(&self.folder);
        let phases: Vec<(RecorderPhase, &ProcessReport)> =
            reports.iter().filter_map(|one| Some((one.phase?, one))).collect();
        match phases.iter().find(|(phase, _)| *phase != RecorderPhase::Finished) {
            Some((phase, report)) => self.show(*phase, report, now),
            None if phases.is_empty() => {}
            None if since(*self.finished.get_or_insert(now), now) >= LINGER => return CommandProgress::Done,
            None => return CommandProgress::Running,
        }
        self.finished = None;
        match phases.iter().any(|(phase, _)| *phase == RecorderPhase::Writing) {
            true => CommandProgress::Writing,
            false => CommandProgress::Running,
        }
    }

    fn show(&mut self, phase: RecorderPhase, report: &ProcessReport, now: SystemTime) {
        match phase {
            RecorderPhase::Writing if since(*self.writes.get_or_insert(now), now) < WRITES => return,
            RecorderPhase::Writing => {}
            RecorderPhase::WarmUp | RecorderPhase::Iterations | RecorderPhase::Finished => self.writes = None,
        }
        let fresh = self.shown.is_none_or(|(shown, at)| shown != phase || since(at, now) >= AGAIN);
        if fresh && since(self.begun, now) >= SILENCE {
            self.shown = Some((phase, now));
            self.context.console.note(sentence(phase, report));
        }
    }
}

/// The elapsed time; zero if the clock was set back.
fn since(then: SystemTime, now: SystemTime) -> Duration {
    now.duration_since(then).unwrap_or_default()
}

fn sentence(phase: RecorderPhase, report: &ProcessReport) -> String {
    match phase {
        RecorderPhase::WarmUp => format!("record: warming up, {} to go", count_text(report.to_go, "iteration")),
        RecorderPhase::Iterations => {
            format!("record: {} of {}, with recording and without", report.done, count_text(report.of, "iteration"))
        }
        RecorderPhase::Writing => {
            "record: writing the trace, in which the script stands still (fewer --iterations make it smaller)"
                .to_owned()
        }
        RecorderPhase::Finished => "record: done".to_owned(),
    }
}
