//! A sweep: every setting that is not known yet is measured in a process of its own, and disturbed ones once more.

use super::store::{Circumstances, Outcome, Row, Store};
use super::tables::words;
use super::trainer::{Trained, Trainer};
use super::{Became, Detection, Setting, Tried};
use perf4sight_base::error::{Error, Result};
use perf4sight_machine::Watch;
use perf4sight_report::{Progress, significant};
use perf4sight_step::detection::{Reply, Step};
use perf4sight_verb::Context;
use std::cell::Cell;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

/// How often a disturbed setting is measured.
const MOST_VISITS: u32 = 2;

/// Everything that measuring takes.
pub(super) struct Campaign<'a> {
    asked: &'a Detection,
    trainer: &'a Trainer,
    store: &'a mut Store,
    circumstances: Circumstances,
    /// Settings that were found measured.
    pub found: usize,
    /// Those that were measured now.
    pub measured: usize,
    cancel: Arc<AtomicBool>,
}

impl<'a> Campaign<'a> {
    pub fn new(asked: &'a Detection, trainer: &'a Trainer, store: &'a mut Store, context: &Context) -> Self {
        let circumstances = asked.circumstances(trainer);
        Campaign { asked, trainer, store, circumstances, found: 0, measured: 0, cancel: Arc::clone(&context.cancel) }
    }

    /// Measures what is not known; after Ctrl-C what is known until then.
    ///
    /// # Errors
    /// A machine that is gone; a folder that cannot be written.
    pub fn run(&mut self, context: &mut Context) -> Result<Vec<Tried>> {
        if let Some(folder) = &self.asked.trace {
            fs::create_dir_all(folder).map_err(|cause| Error::io(folder, "make this folder", &cause))?;
        }
        let steps = self.asked.task.warm_up + 2 * self.asked.task.steps;
        let progress = context.console.progress(steps * self.asked.settings.len() as u64, "measuring");
        let mut tried: Vec<Tried> = Vec::new();
        for &setting in &self.asked.settings {
            let became = match self.known(setting) {
                Some(became) => Some(became),
                None if tried.iter().any(|one| one.rules_out(setting)) => Some(Became::Spared),
                None => self.visit(setting, 1, &progress, context)?,
            };
            let Some(became) = became else { break };
            tried.push(Tried { setting, became });
            progress.expect(steps * (self.asked.settings.len() - tried.len()) as u64);
        }
        self.revisit(&mut tried, &progress, context)?;
        Ok(tried)
    }

    /// What was measured before, as it is asked now.
    fn known(&mut self, setting: Setting) -> Option<Became> {
        if self.asked.overwrite {
            return None;
        }
        let row = self.store.row(&self.circumstances, &self.asked.task_of(setting))?;
        let became = row.outcome.became(setting, &row.seen);
        self.found += 1;
        Some(became)
    }

    /// Measures once more what others disturbed, and keeps the visit that was disturbed less.
    fn revisit(&mut self, tried: &mut [Tried], progress: &Progress, context: &Context) -> Result<()> {
        for one in tried {
            let visits =
                self.store.row(&self.circumstances, &self.asked.task_of(one.setting)).map_or(0, |row| row.visits);
            if !one.is_disturbed() || visits == 0 || visits >= MOST_VISITS || context.cancelled() {
                continue;
            }
            progress.expect(self.asked.task.warm_up + 2 * self.asked.task.steps);
            one.became = match self.visit(one.setting, visits + 1, progress, context)? {
                Some(again) => again,
                None => return Ok(()),
            };
        }
        Ok(())
    }

    /// Measures a setting and keeps what came of it; none after Ctrl-C.
    fn visit(
        &mut self,
        setting: Setting,
        visits: u32,
        progress: &Progress,
        context: &Context,
    ) -> Result<Option<Became>> {
        let told = Telling { setting, progress, clock: context.clock, first: Cell::new(None), done: Cell::new(0) };
        progress.doing(words(setting));
        let watch = Watch { waiting: &|why| context.console.note(why), ..Watch::quiet(&self.cancel) };
        let Some(trained) = self.trainer.train(self.asked, setting, &watch, &|step| told.step(step))? else {
            return Ok(None);
        };
        let Trained { reply, seen, conditions } = trained;
        self.measured += usize::from(visits == 1);
        let reply = looked(reply, *conditions);
        let outcome = match Outcome::of(reply) {
            Ok(outcome) => outcome,
            Err(reason) if visits == 1 => return Ok(Some(Became::Failed(reason))),
            // What the first visit told stands.
            Err(_) => {
                return Ok(self
                    .store
                    .row(&self.circumstances, &self.asked.task_of(setting))
                    .map(|row| row.outcome.became(setting, &row.seen)));
            }
        };
        let task = self.asked.task_of(setting);
        let now = Row {
            circumstances: self.circumstances.clone(),
            task: task.clone(),
            visits,
            outcome,
            seen,
            date: humantime::format_rfc3339_seconds(context.now()).to_string(),
        };
        let row = match self.store.row(&self.circumstances, &task).filter(|_| visits > 1) {
            Some(before) if before.disturbed_steps() < now.disturbed_steps() => Row { visits, ..before.clone() },
            _ => now,
        };
        let became = row.outcome.became(setting, &row.seen);
        self.store.keep(row)?;
        Ok(Some(became))
    }
}

impl Row {
    /// How many of the free steps others disturbed.
    fn disturbed_steps(&self) -> u64 {
        match &self.outcome {
            Outcome::Measured(measured) => measured.plain.disturbed,
            Outcome::OutOfMemory(_) => 0,
        }
    }
}

/// The answer with what was seen of the machine from here, where the worker told nothing.
fn looked(mut reply: Reply, here: perf4sight_machine::Conditions) -> Reply {
    if let Reply::Measured(measured) = &mut reply
        && measured.conditions.is_empty()
    {
        *measured.conditions = here;
    }
    reply
}

/// Tells how far a setting is: epoch, step, images a second.
struct Telling<'a> {
    setting: Setting,
    progress: &'a Progress,
    clock: fn() -> SystemTime,
    /// When its first step was over.
    first: Cell<Option<SystemTime>>,
    done: Cell<u64>,
}

impl Telling<'_> {
    fn step(&self, step: Step) {
        let now = (self.clock)();
        let Step { step, of, epoch } = step;
        let first = self.first.get().unwrap_or(now);
        self.first.set(Some(first));
        let seconds = now.duration_since(first).unwrap_or(Duration::ZERO).as_secs_f64();
        let images = step.saturating_sub(1) as f64 * self.setting.batch as f64;
        let rate = if images > 0.0 && seconds > 0.0 {
            format!(", {} images/s", significant(images / seconds))
        } else {
            String::new()
        };
        self.progress.doing(format!("{}: epoch {epoch}, step {step} of {of}{rate}", words(self.setting)));
        self.progress.advance(step.saturating_sub(self.done.replace(step)));
    }
}
