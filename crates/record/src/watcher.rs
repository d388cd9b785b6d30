//! Watches the reports of running processes: shows their progress and detects when the recording is finished.

use super::process_reports::{self, Phase, ProcessReport};
use perf4sight_base::units::counted;
use perf4sight_verb::Context;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Interval between two reads of the reports. Reading takes processor time from the script.
const LOOK: Duration = Duration::from_millis(500);
/// No progress is shown before this time: most recordings of small networks are finished by then.
const SILENCE: Duration = Duration::from_secs(2);
/// Interval between two progress messages of the same phase.
const AGAIN: Duration = Duration::from_secs(10);
/// How long a script may continue after the recorder requested its end, for example to save its model.
const LINGER: Duration = Duration::from_secs(10);

pub(super) struct Watcher<'a> {
    folder: PathBuf,
    context: &'a Context,
    begun: SystemTime,
    looked: SystemTime,
    said: Option<(Phase, SystemTime)>,
    finished: Option<SystemTime>,
}

impl<'a> Watcher<'a> {
    pub fn new(folder: PathBuf, context: &'a Context) -> Self {
        let now = context.now();
        Watcher { folder, context, begun: now, looked: now, said: None, finished: None }
    }

    /// Whether all recordings have been finished for [`LINGER`] while the command still runs.
    pub fn look(&mut self) -> bool {
        let now = self.context.now();
        if since(self.looked, now) < LOOK {
            return false;
        }
        self.looked = now;
        let told = process_reports::read(&self.folder);
        let phases: Vec<(Phase, &ProcessReport)> = told.iter().filter_map(|told| Some((told.phase?, told))).collect();
        match phases.iter().find(|(phase, _)| *phase != Phase::Finished) {
            Some((phase, told)) => self.say(*phase, told, now),
            None if phases.is_empty() => {}
            None => return since(*self.finished.get_or_insert(now), now) >= LINGER,
        }
        self.finished = None;
        false
    }

    fn say(&mut self, phase: Phase, told: &ProcessReport, now: SystemTime) {
        let fresh = self.said.is_none_or(|(said, at)| said != phase || since(at, now) >= AGAIN);
        if fresh && since(self.begun, now) >= SILENCE {
            self.said = Some((phase, now));
            self.context.console.note(sentence(phase, told));
        }
    }
}

/// The elapsed time; zero if the clock was set back.
fn since(then: SystemTime, now: SystemTime) -> Duration {
    now.duration_since(then).unwrap_or_default()
}

fn sentence(phase: Phase, told: &ProcessReport) -> String {
    match phase {
        Phase::WarmUp => format!("record: warming up, {} to go", counted(told.to_go, "iteration")),
        Phase::Iterations => {
            format!("record: {} of {}, with recording and without", told.done, counted(told.of, "iteration"))
        }
        Phase::Writing => "record: writing the trace".to_owned(),
        Phase::Finished => "record: done".to_owned(),
    }
}
