//! Measures the configurations that a plan chooses, one after another; a failure of one does not stop the others.

use super::counts::{ProfileCounts, TimeSpent};
use super::device_pool::{Assignment, DevicePool, FinishedAssignment, PoolMessage};
use super::failures::RunFailure;
use super::planned::PlannedMeasurement;
use super::profile_log::{ProfileEntry, ProfileLog};
use super::repetitions;
use crate::device::{Device, Measurement, MeasurementJob};
use crate::plan::{Configuration, ConfigurationStatus, MeasurementLedger, MeasurementPace, Plan, PlanDecision};
use crate::records::{MeasurementIdentity, MeasurementOutcome, RowReading, RowRecord, WorkerRun};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Bytes;
use perf4sight_report::Progress;
use perf4sight_step::workload::Variable;
use perf4sight_verb::Context;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread;

/// Configurations and the devices to measure them on.
#[derive(Clone, Copy)]
pub struct MeasurementRun<'a> {
    /// The devices: one, or several of one kind that share the configurations; none to complete rows that are there.
    pub devices: &'a [&'a dyn Device],
    /// The configurations that the plan chooses from.
    pub planned: &'a [PlannedMeasurement],
    /// Whether batch sizes skipped after one that ran out of memory leave no row.
    pub till_first_fail: bool,
}

struct RunState {
    ledger: MeasurementLedger,
    counts: ProfileCounts,
    log: Option<ProfileLog>,
    progress: Progress,
    /// Seconds that earlier runs took.
    before: f64,
    /// The pace that the remaining time allows.
    pace: Option<MeasurementPace>,
}

impl MeasurementRun<'_> {
    /// Measures the choices of `plan`, and saves every row to `log` immediately; without a log it shows the rows
    /// instead. Ctrl-C ends it early, with the rows so far. A device that cannot measure any more leaves its work to
    /// the others.
    ///
    /// # Errors
    /// When a row cannot be saved or the last device as a whole fails; rows saved until then are kept.
    pub fn run(&self, plan: &mut dyn Plan, log: Option<ProfileLog>, context: &mut Context) -> Result<ProfileCounts> {
        let mut state = self.state(plan, log, context);
        let cancelled = Arc::clone(&context.cancel);
        thread::scope(|scope| -> Result<()> {
            let mut pool = DevicePool::new(scope, self.devices, &cancelled);
            loop {
                self.assign(plan, &mut pool, &mut state, context)?;
                match pool.next_message() {
                    Some(PoolMessage::Waiting(what)) => context.console.note(format_args!("waiting: {what}")),
                    Some(PoolMessage::Done(done)) => self.finish(*done, pool.size(), &mut state, context)?,
                    None => return Ok(()),
                }
            }
        })?;
        state.counts.interrupted = context.cancelled();
        state.finish()
    }

    /// The first round of each row that is measured here: of a divided profile, others measure those before it.
    fn first_rounds(&self) -> BTreeMap<MeasurementIdentity, u32> {
        let mut first: BTreeMap<MeasurementIdentity, u32> = BTreeMap::new();
        for planned in self.planned {
            let round = planned.configuration.round;
            for row in planned.identities() {
                first.entry(row).and_modify(|first| *first = round.min(*first)).or_insert(round);
            }
        }
        first
    }

    fn state(&self, plan: &dyn Plan, log: Option<ProfileLog>, context: &mut Context) -> RunState {
        let earlier = log.as_ref().map_or(Vec::new(), |log| self.requested_rows(&log.earlier));
        let mut ledger = MeasurementLedger::from_records(&earlier);
        if let Some(log) = &log {
            log.timed_layers().for_each(|(variant, workload)| ledger.enter_layers(variant, workload));
        }
        self.first_rounds().into_iter().for_each(|(row, first)| ledger.assume(row, first - 1));
        self.announce(&ledger, log.as_ref(), context);
        let progress = context.console.progress(plan.remaining(&ledger) as u64, "profile");
        let before = log.as_ref().map_or(0.0, ProfileLog::seconds);
        let counts = ProfileCounts::new(ledger.rows().len());
        let pace = plan.pace(&ledger, before);
        RunState { ledger, counts, log, progress, before, pace }
    }

    /// Gives every free device an assignment, until there is nothing to do for now.
    fn assign(
        &self,
        plan: &mut dyn Plan,
        pool: &mut DevicePool<'_, '_>,
        state: &mut RunState,
        context: &Context,
    ) -> Result<()> {
        while pool.has_free() && !context.cancelled() && state.counts.ending.is_none() {
            let seconds = state.before + state.counts.time_spent().seconds;
            let decision = plan.next(&state.ledger, seconds)?;
            state.progress.expect(plan.remaining(&state.ledger) as u64);
            state.log.iter_mut().try_for_each(|log| log.learn(plan.error_estimates()))?;
            state.pace = plan.pace(&state.ledger, seconds);
            match decision {
                PlanDecision::Measure(configuration) => {
                    pool.start(self.assignment(configuration, None, state, context)?)
                }
                PlanDecision::Repeat { configuration, place } => {
                    pool.start(self.assignment(configuration, Some(place), state, context)?);
                }
                PlanDecision::Skip(configuration) => self.skip(&self.find(configuration)?, state, context)?,
                PlanDecision::Wait => return Ok(()),
                PlanDecision::Stop(ending) => state.counts.ending = Some(ending),
            }
        }
        Ok(())
    }

    /// The assignment to measure a configuration, or to repeat it for the row at an index.
    fn assignment(
        &self,
        configuration: Configuration,
        place: Option<usize>,
        state: &mut RunState,
        context: &Context,
    ) -> Result<Assignment> {
        state.ledger.begin(&configuration);
        state.progress.set_item(configuration.to_string());
        let planned = self.find(configuration)?;
        let run = state.ledger.runs(&planned.configuration) + 1;
        let round = planned.configuration.round.max(run);
        let job = planned.job();
        let job = MeasurementJob { round, allowance: repetitions::allowance(state.pace, job.layers), ..job };
        Ok(Assignment { planned, place, job, began: context.now() })
    }

    /// Saves the result of an assignment; `devices` is their number.
    fn finish(
        &self,
        done: FinishedAssignment,
        devices: usize,
        state: &mut RunState,
        context: &mut Context,
    ) -> Result<()> {
        let FinishedAssignment { device, assignment: Assignment { planned, place, job, began }, waited, measurement } =
            done;
        let name = planned.configuration.to_string();
        state.ledger.end(&planned.configuration);
        let measurement = match measurement {
            Ok(measurement) => measurement,
            Err(error) if devices == 0 => return Err(error),
            Err(error) => {
                context.warn(format!("{name} is left to the other devices: {error}"));
                // The plan may have ended too early: this configuration is unmeasured again.
                state.counts.ending = None;
                return Ok(());
            }
        };
        let worked = context.now().duration_since(began).unwrap_or_default().saturating_sub(waited);
        match &measurement {
            Measurement::Interrupted => return Ok(()),
            // A signal to this program may have reached the worker, too (scancel).
            Measurement::Broken { .. } if context.cancelled() => return Ok(()),
            Measurement::Broken { outcome, reason } => {
                let failure = RunFailure::new(*outcome, reason, &job.allowance, worked);
                context.warn(format!("{name}: {outcome}: {}", failure.reason));
                state.counts.failures.add(&planned.configuration, failure);
            }
            Measurement::OutOfMemory { .. } if place.is_some() => {
                let reason = "it ran out of memory when it was repeated, although it had fitted before".to_owned();
                context.warn(format!("{name}: {reason}"));
                let failure = RunFailure { outcome: MeasurementOutcome::OutOfMemory, reason, of_budget: false };
                state.counts.failures.add(&planned.configuration, failure);
            }
            Measurement::Measured { .. } | Measurement::OutOfMemory { .. } => {}
        }
        let [seconds, waiting] = [worked, waited].map(|time| time.as_secs_f64());
        // The clock of a board without a battery may stand still, at 1970.
        let measuring = measurement.seconds();
        let spent = TimeSpent { seconds: seconds.max(measuring), measuring, waiting };
        match place {
            Some(place) => state.repeat(&planned, place, &measurement, spent),
            None => {
                let entry = self.entry(&planned, &measurement, self.devices[device].capacity(), context);
                state.keep(&planned, &entry, spent, context)
            }
        }
    }

    /// Adds rows for a skipped configuration, if requested.
    fn skip(&self, planned: &PlannedMeasurement, state: &mut RunState, context: &Context) -> Result<()> {
        let capacity = self.devices.first().and_then(|device| device.capacity());
        let entry =
            ProfileEntry { records: planned.job().skipped_rows(&planned.dataset, capacity), ..ProfileEntry::default() };
        match state.log {
            Some(_) if self.till_first_fail => {
                state.record(planned, &entry, TimeSpent::default());
                Ok(())
            }
            _ => state.keep(planned, &entry, TimeSpent::default(), context),
        }
    }

    fn find(&self, configuration: Configuration) -> Result<PlannedMeasurement> {
        let same = |planned: &&PlannedMeasurement| {
            let Configuration { variant, workload, .. } = &planned.configuration;
            (variant, workload) == (&configuration.variant, &configuration.workload)
        };
        let found = self.planned.iter().find(same).ok_or_else(|| {
            Error::input(format!("{} at {:?} was not planned", configuration.variant, configuration.workload))
        })?;
        Ok(PlannedMeasurement { configuration, ..found.clone() })
    }

    fn entry(
        &self,
        planned: &PlannedMeasurement,
        measurement: &Measurement,
        capacity: Option<Bytes>,
        context: &mut Context,
    ) -> ProfileEntry {
        let (job, dataset) = (planned.job(), &planned.dataset);
        let layers = measurement.layers(&job, dataset).unwrap_or_else(|error| {
            context.warn(error);
            Vec::new()
        });
        let attempts = repetitions::attempt(planned, measurement, true).into_iter().collect();
        ProfileEntry { records: measurement.rows(&job, dataset, capacity), layers, attempts }
    }

    /// The requested rows among those of the profile.
    fn requested_rows(&self, rows: &[RowRecord]) -> Vec<RowRecord> {
        let asked: BTreeSet<MeasurementIdentity> =
            self.planned.iter().flat_map(PlannedMeasurement::identities).collect();
        rows.iter().filter(|row| asked.contains(&row.identity())).cloned().collect()
    }

    /// Reports the configurations that will not be measured again.
    fn announce(&self, ledger: &MeasurementLedger, log: Option<&ProfileLog>, context: &Context) {
        let decisions = self.planned.iter().map(|planned| ledger.status(&planned.configuration));
        let done = decisions.filter(|decision| *decision == ConfigurationStatus::Done).count();
        if let (1.., Some(log), false) = (done, log, self.devices.is_empty()) {
            let (all, log_dir) = (self.planned.len(), log.log_dir.display());
            context.console.note(format_args!(
                "skipping {done} of {all} configurations whose rows are in {log_dir} already; delete a row to measure it again"
            ));
        }
    }
}

impl RunState {
    /// Saves the rows of a configuration, or shows them if there is no log.
    fn keep(
        &mut self,
        planned: &PlannedMeasurement,
        entry: &ProfileEntry,
        spent: TimeSpent,
        context: &Context,
    ) -> Result<()> {
        match self.log.as_mut() {
            Some(log) => log.add(entry, spent)?,
            None => entry.records.iter().for_each(|row| context.console.line(reading_text(row))),
        }
        self.record(planned, entry, spent);
        Ok(())
    }

    /// Records the result of a configuration. Its layers count as timed even without a row: they are tried once per
    /// run.
    fn record(&mut self, planned: &PlannedMeasurement, entry: &ProfileEntry, spent: TimeSpent) {
        let Configuration { variant, workload, variables, .. } = &planned.configuration;
        entry.records.iter().for_each(|row| self.ledger.record(row));
        if variables.contains(&Variable::Layers) {
            self.ledger.enter_layers(variant, *workload);
        }
        self.counts.add(&variant.network, entry, spent);
        self.progress.advance(1);
    }

    fn repeat(
        &mut self,
        planned: &PlannedMeasurement,
        place: usize,
        run: &Measurement,
        spent: TimeSpent,
    ) -> Result<()> {
        self.ledger.repeat(place);
        if !matches!(run, Measurement::Measured { .. }) {
            self.ledger.give_up(place);
        }
        let old = self.ledger.rows()[place].clone();
        let new = repetitions::revise_row(&old, run);
        let attempts: Vec<WorkerRun> = repetitions::attempt(planned, run, new.is_some()).into_iter().collect();
        if let Some(log) = &mut self.log {
            log.repeat(new.as_ref().map(|new| (&old, new)), &attempts, spent)?;
        }
        self.counts.repeat(&old.variant.network, new.is_some(), spent);
        new.into_iter().for_each(|new| self.ledger.revise(place, new));
        self.progress.advance(1);
        Ok(())
    }

    /// Marks the rows that stayed noisy, and counts.
    fn finish(mut self) -> Result<ProfileCounts> {
        let repetitions = self.pace.map_or(1, |pace| pace.repetitions as usize);
        if repetitions > 1 {
            for (place, new) in repetitions::changed_marks(self.ledger.rows()) {
                if let Some(log) = &self.log {
                    log.mark(&self.ledger.rows()[place], &new)?;
                }
                self.ledger.revise(place, new);
            }
            self.counts.repeatability = repetitions::repeatability(self.ledger.rows(), repetitions);
            self.log.iter_mut().try_for_each(|log| log.finish(self.counts.repeatability))?;
        }
        self.counts.rows = self.ledger.rows().to_vec();
        Ok(self.counts)
    }
}

fn reading_text(row: &RowRecord) -> String {
    let value = match row.reading {
        _ if !row.outcome.passed() => String::new(),
        RowReading::Latency(latency) => latency.map_or(String::new(), |latency| format!(" {latency}")),
        RowReading::Memory(memory) => memory.used.map_or(String::new(), |used: Bytes| format!(" {used}")),
    };
    format!("{}: {}{value}", row.identity(), row.outcome)
}
