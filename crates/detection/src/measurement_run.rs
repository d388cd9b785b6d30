//! Measures every setting without a known result in a process of its own, and disturbed ones once more.

use super::store::{Circumstances, RowStore, StoredOutcome, StoredRow};
use super::tables::setting_text;
use super::trainer::{DetectorTrainer, TrainedSetting};
use super::{Detection, SettingResult, SweepSetting, TriedSetting};
use perf4sight_base::error::Result;
use perf4sight_base::output_folder;
use perf4sight_machine::{Conditions, RunWatch};
use perf4sight_report::{Progress, significant};
use perf4sight_step::detection::{DetectionReply, WorkerProgress};
use perf4sight_verb::Context;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

/// How often a disturbed setting is measured.
const MOST: u32 = 2;

pub(super) struct SweepRun<'a> {
    asked: &'a Detection,
    trainer: &'a DetectorTrainer,
    store: &'a mut RowStore,
    circumstances: Circumstances,
    pub found: usize,
    /// Those that were measured now.
    pub measured: usize,
    cancel: Arc<AtomicBool>,
}

impl<'a> SweepRun<'a> {
    pub fn new(asked: &'a Detection, trainer: &'a DetectorTrainer, store: &'a mut RowStore, context: &Context) -> Self {
        let circumstances = asked.circumstances(trainer);
        let cancel = Arc::clone(&context.cancel);
        SweepRun { asked, trainer, store, circumstances, found: 0, measured: 0, cancel }
    }

    /// Measures settings without a known result; after Ctrl-C returns the results so far.
    ///
    /// # Errors
    /// A machine that cannot be reached any more; a folder that cannot be written.
    pub fn run(&mut self, context: &mut Context) -> Result<Vec<TriedSetting>> {
        if let Some(folder) = &self.asked.trace {
            output_folder::make(folder)?;
        }
        let steps = self.steps();
        let progress = context.console.progress(steps * self.asked.settings.len() as u64, "measuring");
        let mut tried: Vec<TriedSetting> = Vec::new();
        for &setting in &self.asked.settings {
            let became = match self.stored_result(setting) {
                Some(became) => Some(became),
                None if tried.iter().any(|one| one.rules_out(setting)) => Some(SettingResult::Spared),
                None => self.measure(setting, 1, &progress, context)?,
            };
            let Some(became) = became else { break };
            tried.push(TriedSetting { setting, became });
            progress.expect(steps * (self.asked.settings.len() - tried.len()) as u64);
        }
        self.repeat_disturbed(&mut tried, &progress, context)?;
        Ok(tried)
    }

    fn steps(&self) -> u64 {
        self.asked.task.warm_up + 2 * self.asked.task.steps
    }

    fn row(&self, setting: SweepSetting) -> Option<&StoredRow> {
        self.store.row(&self.circumstances, &self.asked.task_of(setting))
    }

    /// The stored result of the same task.
    fn stored_result(&mut self, setting: SweepSetting) -> Option<SettingResult> {
        let became = self.row(setting).filter(|_| !self.asked.overwrite)?.to_result(setting);
        self.found += 1;
        Some(became)
    }

    /// Measures disturbed settings once more, and keeps the less disturbed of both results.
    fn repeat_disturbed(&mut self, tried: &mut [TriedSetting], progress: &Progress, context: &Context) -> Result<()> {
        for one in tried.iter_mut().filter(|one| one.is_disturbed()) {
            let times = self.row(one.setting).map_or(MOST, |row| row.visits);
            if times >= MOST || context.cancelled() {
                continue;
            }
            progress.expect(self.steps());
            let Some(again) = self.measure(one.setting, times + 1, progress, context)? else { return Ok(()) };
            one.became = again;
        }
        Ok(())
    }

    /// Measures a setting for the given time and stores the result; none after Ctrl-C.
    fn measure(
        &mut self,
        setting: SweepSetting,
        times: u32,
        progress: &Progress,
        context: &Context,
    ) -> Result<Option<SettingResult>> {
        let steps =
            StepProgress { setting, progress, clock: context.clock, first: Cell::new(None), done: Cell::new(0) };
        progress.set_item(setting_text(setting));
        let watch = RunWatch { waiting: &|why| context.console.note(why), ..RunWatch::quiet(&self.cancel) };
        let Some(trained) = self.trainer.train(self.asked, setting, &watch, &|step| steps.show(step))? else {
            return Ok(None);
        };
        let TrainedSetting { reply, seen, conditions } = trained;
        self.measured += usize::from(times == 1);
        let before = self.row(setting).filter(|_| times > 1).cloned();
        let row = match (StoredOutcome::from_reply(with_conditions(reply, *conditions)), before) {
            (Err(reason), None) => return Ok(Some(SettingResult::Failed(reason))),
            (Err(_), Some(before)) => return Ok(Some(before.to_result(setting))),
            (Ok(outcome), Some(before)) if before.outcome.disturbed_steps() < outcome.disturbed_steps() => {
                StoredRow { visits: times, ..before }
            }
            (Ok(outcome), _) => StoredRow {
                circumstances: self.circumstances.clone(),
                task: self.asked.task_of(setting),
                visits: times,
                outcome,
                seen,
                processors_left: Some(self.trainer.processors_left(self.asked)),
                date: humantime::format_rfc3339_seconds(context.now()).to_string(),
            },
        };
        let became = row.to_result(setting);
        self.store.keep(row)?;
        Ok(Some(became))
    }
}

/// The reply, with conditions observed from here where the worker reported none.
fn with_conditions(mut reply: DetectionReply, here: Conditions) -> DetectionReply {
    if let DetectionReply::Measured(measured) = &mut reply
        && measured.conditions.is_empty()
    {
        *measured.conditions = here;
    }
    reply
}

/// Shows how far a setting is: epoch, step, images a second.
struct StepProgress<'a> {
    setting: SweepSetting,
    progress: &'a Progress,
    clock: fn() -> SystemTime,
    /// When its first step was over.
    first: Cell<Option<SystemTime>>,
    done: Cell<u64>,
}

impl StepProgress<'_> {
    fn show(&self, WorkerProgress { step, of, epoch }: WorkerProgress) {
        let now = (self.clock)();
        let first = self.first.get().unwrap_or(now);
        self.first.set(Some(first));
        let seconds = now.duration_since(first).unwrap_or(Duration::ZERO).as_secs_f64();
        let images = step.saturating_sub(1) as f64 * self.setting.batch as f64;
        let known = images > 0.0 && seconds > 0.0;
        let rate = if known { format!(", {} images/s", significant(images / seconds)) } else { String::new() };
        self.progress.set_item(format!("{}: epoch {epoch}, step {step} of {of}{rate}", setting_text(self.setting)));
        self.progress.advance(step.saturating_sub(self.done.replace(step)));
    }
}
