//! Measuring what a plan asks for, configuration by configuration; whatever a single one does, the next one follows.

use super::crew::{Assignment, Crew, Done, Message};
use super::failures::Failure;
use super::journal::{Entry, Journal};
use super::planned::Planned;
use super::tally::{Spent, Tally};
use super::visits;
use crate::device::{Device, Job, Measurement};
use crate::plan::{Configuration, Decision, Ledger, Pace, Plan, Turn};
use crate::records::{Attempt, Identity, Outcome, Reading, Record};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Bytes;
use perf4sight_report::Progress;
use perf4sight_step::workload::Variable;
use perf4sight_verb::Context;
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
    /// How fast the plan wants it.
    pace: Option<Pace>,
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
                    Some(Message::Waiting(what)) => context.console.note(format_args!("waiting: {what}")),
                    Some(Message::Done(done)) => self.take_in(*done, crew.size(), &mut course, context)?,
                    None => return Ok(()),
                }
            }
        })?;
        course.tally.interrupted = context.cancelled();
        course.close()
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
        let tally = Tally::new(ledger.rows().len());
        let pace = plan.pace(&ledger, before);
        Course { ledger, tally, journal, progress, before, pace }
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
            let seconds = course.before + course.tally.spent().seconds;
            let turn = plan.next(&course.ledger, seconds)?;
            course.progress.expect(plan.left(&course.ledger) as u64);
            course.journal.iter_mut().try_for_each(|journal| journal.learn(plan.learned()))?;
            course.pace = plan.pace(&course.ledger, seconds);
            match turn {
                Turn::Measure(configuration) => crew.start(self.assignment(configuration, None, course, context)?),
                Turn::Visit { configuration, place } => {
                    crew.start(self.assignment(configuration, Some(place), course, context)?);
                }
                Turn::Skip(configuration) => self.skip(&self.find(configuration)?, course, context)?,
                Turn::Wait => return Ok(()),
                Turn::Stop(ending) => course.tally.ending = Some(ending),
            }
        }
        Ok(())
    }

    /// A configuration to measure, or to time again for the row at a place.
    fn assignment(
        &self,
        configuration: Configuration,
        place: Option<usize>,
        course: &mut Course,
        context: &Context,
    ) -> Result<Assignment> {
        course.ledger.begin(&configuration);
        course.progress.doing(configuration.to_string());
        let planned = self.find(configuration)?;
        let run = course.ledger.runs(&planned.configuration) + 1;
        let round = planned.configuration.round.max(run);
        let job = planned.job();
        let job = Job { round, allowance: visits::allowance(course.pace, job.layers), ..job };
        Ok(Assignment { planned, place, job, began: context.now() })
    }

    /// Keeps what became of an assignment of one of so many devices.
    fn take_in(&self, done: Done, devices: usize, course: &mut Course, context: &mut Context) -> Result<()> {
        let Done { device, assignment: Assignment { planned, place, job, began }, waited, measurement } = done;
        let name = planned.configuration.to_string();
        course.ledger.end(&planned.configuration);
        let measurement = match measurement {
            Ok(measurement) => measurement,
            Err(error) if devices == 0 => return Err(error),
            Err(error) => {
                context.warn(format!("{name} is left to the other devices: {error}"));
                // The plan may have seen nothing more to do.
                course.tally.ending = None;
                return Ok(());
            }
        };
        let worked = context.now().duration_since(began).unwrap_or_default().saturating_sub(waited);
        match &measurement {
            Measurement::Interrupted => return Ok(()),
            Measurement::Broken { outcome, reason } => {
                let failure = Failure::of(*outcome, reason, &job.allowance, worked);
                context.warn(format!("{name}: {outcome}: {}", failure.reason));
                course.tally.failures.add(&planned.configuration, failure);
            }
            Measurement::OutOfMemory { .. } if place.is_some() => {
                let reason = "it ran out of memory at a later visit, although it had fitted before".to_owned();
                context.warn(format!("{name}: {reason}"));
                let failure = Failure { outcome: Outcome::OutOfMemory, reason, of_budget: false };
                course.tally.failures.add(&planned.configuration, failure);
            }
            Measurement::Measured { .. } | Measurement::OutOfMemory { .. } => {}
        }
        let [seconds, waiting] = [worked, waited].map(|time| time.as_secs_f64());
        let spent = Spent { seconds, measuring: measurement.seconds(), waiting };
        match place {
            Some(place) => course.visit(&planned, place, &measurement, spent),
            None => {
                let entry = self.entry(&planned, &measurement, self.devices[device].capacity(), context);
                course.keep(&planned, &entry, spent, context)
            }
        }
    }

    /// Rows for what is not run, where they are wanted.
    fn skip(&self, planned: &Planned, course: &mut Course, context: &Context) -> Result<()> {
        let capacity = self.devices.first().and_then(|device| device.capacity());
        let entry = Entry { records: planned.job().skipped(&planned.dataset, capacity), ..Entry::default() };
        match course.journal {
            Some(_) if self.till_first_fail => {
                course.enter(planned, &entry, Spent::default());
                Ok(())
            }
            _ => course.keep(planned, &entry, Spent::default(), context),
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

    /// What one configuration adds to the profile.
    fn entry(
        &self,
        planned: &Planned,
        measurement: &Measurement,
        capacity: Option<Bytes>,
        context: &mut Context,
    ) -> Entry {
        let (job, dataset) = (planned.job(), &planned.dataset);
        let layers = measurement.layers(&job, dataset).unwrap_or_else(|error| {
            context.warn(error);
            Vec::new()
        });
        let attempts = visits::told(planned, measurement, true).into_iter().collect();
        Entry { records: measurement.rows(&job, dataset, capacity), layers, attempts }
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
    fn keep(&mut self, planned: &Planned, entry: &Entry, spent: Spent, context: &Context) -> Result<()> {
        match self.journal.as_mut() {
            Some(journal) => journal.add(entry, spent)?,
            None => entry.records.iter().for_each(|row| context.console.line(shown(row))),
        }
        self.enter(planned, entry, spent);
        Ok(())
    }

    /// Takes note of what became of a configuration. Layers count as timed even where no row came of it: they are tried once a run.
    fn enter(&mut self, planned: &Planned, entry: &Entry, spent: Spent) {
        let Configuration { variant, workload, variables, .. } = &planned.configuration;
        entry.records.iter().for_each(|row| self.ledger.enter(row));
        if variables.contains(&Variable::Layers) {
            self.ledger.enter_layers(variant, *workload);
        }
        self.tally.add(&variant.network, entry, spent);
        self.progress.advance(1);
    }

    /// Keeps what became of a row by another visit.
    fn visit(&mut self, planned: &Planned, place: usize, run: &Measurement, spent: Spent) -> Result<()> {
        self.ledger.visit(place);
        if !matches!(run, Measurement::Measured { .. }) {
            self.ledger.give_up(place);
        }
        let old = self.ledger.rows()[place].clone();
        let new = visits::revised(&old, run);
        let told: Vec<Attempt> = visits::told(planned, run, new.is_some()).into_iter().collect();
        if let Some(journal) = &mut self.journal {
            journal.visit(new.as_ref().map(|new| (&old, new)), &told, spent)?;
        }
        self.tally.visit(&old.variant.network, new.is_some(), spent);
        new.into_iter().for_each(|new| self.ledger.revise(place, new));
        self.progress.advance(1);
        Ok(())
    }

    /// What all came to.
    fn close(mut self) -> Result<Tally> {
        let visits = self.pace.map_or(1, |pace| pace.visits as usize);
        if visits > 1 {
            for (place, new) in visits::marks(self.ledger.rows()) {
                if let Some(journal) = &self.journal {
                    journal.mark(&self.ledger.rows()[place], &new)?;
                }
                self.ledger.revise(place, new);
            }
            self.tally.wander = visits::wander(self.ledger.rows(), visits);
            self.journal.iter_mut().try_for_each(|journal| journal.close(self.tally.wander))?;
        }
        self.tally.rows = self.ledger.rows().to_vec();
        Ok(self.tally)
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
