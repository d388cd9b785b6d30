//! Measuring what a plan asks for, configuration by configuration; whatever a single one does, the next one follows.

use super::crew::{Crew, Done, Word};
use super::journal::Journal;
use super::planned::Planned;
use super::remeasure::Attempts;
use super::rows::{self, Rows};
use super::tally::{Spent, Tally};
use crate::device::{Device, Measurement};
use crate::error::{Error, Result};
use crate::plan::{Configuration, Decision, Ledger, Plan, Turn};
use crate::records::{Identity, Reading, Record};
use crate::report::Progress;
use crate::stages::Context;
use crate::units::Bytes;
use crate::workload::Variable;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

/// Configurations and the devices to measure them on.
#[derive(Clone, Copy)]
pub struct Campaign<'a> {
    /// The devices: one, or several of one kind, among which the configurations are shared out.
    pub devices: &'a [&'a dyn Device],
    /// What the plan chooses from.
    pub planned: &'a [Planned],
    /// Whether batch sizes skipped after one that ran out of memory leave no row.
    pub till_first_fail: bool,
}

/// What a campaign has come to.
struct Course {
    ledger: Ledger,
    tally: Tally,
    journal: Option<Journal>,
    progress: Progress,
    /// Seconds that earlier runs took.
    before: f64,
}

impl Campaign<'_> {
    /// Measures what `plan` asks for, and keeps every row in `journal` at once; without a journal it shows the rows instead. Ends
    /// early, with what it has, after Ctrl-C. A device that cannot measure any more leaves its work to the others.
    ///
    /// # Errors
    /// When a row cannot be kept or the last device as a whole fails; rows kept until then stay.
    pub fn run(&self, plan: &mut dyn Plan, journal: Option<Journal>, context: &mut Context) -> Result<Tally> {
        let mut course = self.course(plan, journal, context);
        let cancelled = Arc::clone(&context.cancel);
        thread::scope(|scope| -> Result<()> {
            let mut crew = Crew::new(scope, self.devices, &cancelled);
            loop {
                self.hand_out(plan, &mut crew, &mut course, context)?;
                match crew.listen() {
                    Some(Word::Waiting(what)) => context.console.note(format_args!("waiting: {what}")),
                    Some(Word::Done(done)) => self.take_in(*done, crew.size(), &mut course, context)?,
                    None => return Ok(()),
                }
            }
        })?;
        course.tally.interrupted = context.cancelled();
        Ok(course.tally)
    }

    /// What earlier runs left.
    fn course(&self, plan: &dyn Plan, journal: Option<Journal>, context: &mut Context) -> Course {
        let earlier = journal.as_ref().map_or(Vec::new(), |journal| self.asked(journal.earlier()));
        let mut ledger = Ledger::of(&earlier);
        if let Some(journal) = &journal {
            journal.timed_layers().for_each(|(variant, workload)| ledger.enter_layers(variant, workload));
        }
        self.announce(&ledger, journal.as_ref(), context);
        let progress = context.console.progress(plan.left(&ledger) as u64, "profile");
        let before = journal.as_ref().map_or(0.0, Journal::seconds);
        Course { ledger, tally: Tally::new(earlier), journal, progress, before }
    }

    /// Gives every free device something to do, until there is nothing to do for now.
    fn hand_out(
        &self,
        plan: &mut dyn Plan,
        crew: &mut Crew<'_, '_>,
        course: &mut Course,
        context: &Context,
    ) -> Result<()> {
        while crew.has_free() && !context.cancelled() && course.tally.ending.is_none() {
            let turn = plan.next(&course.ledger, course.before + course.tally.spent().seconds)?;
            course.journal.iter_mut().try_for_each(|journal| journal.learn(plan.learned()))?;
            match turn {
                Turn::Measure(configuration) => {
                    course.ledger.begin(&configuration);
                    course.progress.doing(configuration.to_string());
                    crew.start(self.find(configuration)?, context.now());
                }
                Turn::Skip(configuration) => self.skip(&self.find(configuration)?, course, context)?,
                Turn::Wait => return Ok(()),
                Turn::Stop(ending) => course.tally.ending = Some(ending),
            }
        }
        Ok(())
    }

    /// Keeps what became of a configuration that one of so many devices measured.
    fn take_in(&self, done: Done, devices: usize, course: &mut Course, context: &mut Context) -> Result<()> {
        let Done { device, planned, began, attempts } = done;
        let name = planned.configuration.to_string();
        course.ledger.end(&planned.configuration);
        let attempts = match attempts {
            Ok(attempts) => attempts,
            Err(error) if devices == 0 => return Err(error),
            Err(error) => {
                context.warn(format!("{name} is left to the other devices: {error}"));
                // The plan may have seen nothing more to do.
                course.tally.ending = None;
                return Ok(());
            }
        };
        match attempts.kept() {
            Measurement::Interrupted => return Ok(()),
            Measurement::Broken { outcome, reason } => {
                context.warn(format!("{name}: {outcome}: {reason}"));
                course.tally.failures.add(&planned.configuration, *outcome, reason);
            }
            Measurement::Measured { .. } | Measurement::OutOfMemory { .. } => {}
        }
        attempts.remark().into_iter().for_each(|remark| context.warn(format!("{name}: {remark}")));
        let rows = self.rows(&planned, &attempts, self.devices[device].capacity(), context);
        let seconds = context.now().duration_since(began).unwrap_or_default().as_secs_f64();
        course.keep(&planned, rows, Spent { seconds, measuring: attempts.seconds() }, context)
    }

    /// Rows for what is not run, where they are wanted.
    fn skip(&self, planned: &Planned, course: &mut Course, context: &Context) -> Result<()> {
        let capacity = self.devices.first().and_then(|device| device.capacity());
        let rows = Rows { records: rows::skipped(planned, capacity), ..Rows::default() };
        match course.journal {
            Some(_) if self.till_first_fail => {
                course.enter(planned, rows, Spent::default());
                Ok(())
            }
            _ => course.keep(planned, rows, Spent::default(), context),
        }
    }

    /// What a plan chose, with all that its measurement and its rows need.
    fn find(&self, configuration: Configuration) -> Result<Planned> {
        let same = |planned: &&Planned| {
            let Configuration { variant, workload, .. } = &planned.configuration;
            (variant, workload) == (&configuration.variant, &configuration.workload)
        };
        let found = self.planned.iter().find(same).ok_or_else(|| {
            Error::input(format!("{} at {:?} was not planned", configuration.variant, configuration.workload))
        })?;
        Ok(Planned { configuration, ..found.clone() })
    }

    /// The rows of one configuration.
    fn rows(&self, planned: &Planned, attempts: &Attempts, capacity: Option<Bytes>, context: &mut Context) -> Rows {
        let measurement = attempts.kept();
        let records = rows::measured(planned, measurement, capacity);
        let layers = rows::layers(planned, measurement).unwrap_or_else(|error| {
            context.warn(error);
            Vec::new()
        });
        Rows { records, layers, attempts: attempts.told(planned) }
    }

    /// The rows that were asked for among those of the profile.
    fn asked(&self, rows: &[Record]) -> Vec<Record> {
        let asked: BTreeSet<Identity> = self.planned.iter().flat_map(Planned::identities).collect();
        rows.iter().filter(|row| asked.contains(&row.identity())).cloned().collect()
    }

    /// Says what will not be measured again.
    fn announce(&self, ledger: &Ledger, journal: Option<&Journal>, context: &Context) {
        let decisions = self.planned.iter().map(|planned| ledger.decide(&planned.configuration));
        let done = decisions.filter(|decision| *decision == Decision::Done).count();
        if let (1.., Some(journal)) = (done, journal) {
            let (all, log_dir) = (self.planned.len(), journal.log_dir().display());
            context.console.note(format_args!(
                "skipping {done} of {all} configurations whose rows are in {log_dir} already; delete a row to measure it again"
            ));
        }
    }
}

impl Course {
    /// Keeps the rows of a configuration, or shows them where nothing is kept.
    fn keep(&mut self, planned: &Planned, rows: Rows, spent: Spent, context: &Context) -> Result<()> {
        match self.journal.as_mut() {
            Some(journal) => journal.add(&rows, spent)?,
            None => rows.records.iter().for_each(|row| context.console.line(shown(row))),
        }
        self.enter(planned, rows, spent);
        Ok(())
    }

    /// Takes note of what became of a configuration. Layers count as timed even where no row came of it: they are tried once a run.
    fn enter(&mut self, planned: &Planned, rows: Rows, spent: Spent) {
        let Configuration { variant, workload, variables, .. } = &planned.configuration;
        rows.records.iter().for_each(|row| self.ledger.enter(row));
        if variables.contains(&Variable::Layers) {
            self.ledger.enter_layers(variant, *workload);
        }
        self.tally.add(&variant.network, rows, spent);
        self.progress.advance(1);
    }
}

/// A row that is not kept, for people.
fn shown(row: &Record) -> String {
    let value = match row.reading {
        _ if !row.outcome.passed() => String::new(),
        Reading::Latency(latency) => latency.map_or(String::new(), |latency| format!(" {latency}")),
        Reading::Memory(memory) => memory.used.map_or(String::new(), |used: Bytes| format!(" {used}")),
    };
    format!("{}: {}{value}", row.identity(), row.outcome)
}
