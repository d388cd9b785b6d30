//! Looks at what processes tell while they run: says how far they are, and when they have done what was wanted.

use super::process_reports::{self, Phase, ProcessReport};
use perf4sight_base::units::counted;
use perf4sight_verb::Context;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// How often files are looked at: what that takes is taken from the script.
const LOOK: Duration = Duration::from_millis(500);
/// So long nothing is said: most recordings of small networks are done by then.
const SILENCE: Duration = Duration::from_secs(2);
/// How often it is said how far a phase is.
const AGAIN: Duration = Duration::from_secs(10);
/// So long a script may go on after the recorder asked it to end, as to save what it has learnt.
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

    /// Whether all that was begun has been finished for a while, though the command still runs.
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

/// A clock that was set back makes no time pass.
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
