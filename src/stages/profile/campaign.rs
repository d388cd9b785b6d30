//! Measuring what a plan asks for, one configuration after the other; whatever a single one does, the next one follows.

use super::journal::Journal;
use super::planned::Planned;
use super::remeasure::Attempts;
use super::rows::{self, Rows};
use super::tally::{Spent, Tally};
use crate::device::{Device, Measurement, Watch};
use crate::error::{Error, Result};
use crate::plan::{Configuration, Decision, Ledger, Plan, Turn};
use crate::records::{Identity, Reading, Record};
use crate::report::Progress;
use crate::stages::Context;
use crate::units::Bytes;
use crate::workload::Variable;
use std::collections::BTreeSet;

/// Configurations and the device to measure them on.
#[derive(Clone, Copy)]
pub struct Campaign<'a> {
    /// The device.
    pub device: &'a dyn Device,
    /// What the plan chooses from.
    pub planned: &'a [Planned],
    /// Whether batch sizes skipped after a failure leave no row.
    pub till_first_fail: bool,
}

impl Campaign<'_> {
    /// Measures what `plan` asks for, and keeps every row in `journal` at once; without a journal it shows the rows instead. Ends
    /// early, with what it has, after Ctrl-C.
    ///
    /// # Errors
    /// When a row cannot be kept or the device as a whole fails; rows kept until then stay.
    pub fn run(&self, plan: &mut dyn Plan, mut journal: Option<Journal>, context: &mut Context) -> Result<Tally> {
        let earlier = journal.as_ref().map_or(Vec::new(), |journal| self.asked(journal.earlier()));
        let before = journal.as_ref().map_or(0.0, Journal::seconds);
        let mut ledger = Ledger::of(&earlier);
        if let Some(journal) = &journal {
            journal.timed_layers().for_each(|(variant, workload)| ledger.enter_layers(variant, workload));
        }
        let mut tally = Tally::new(earlier);
        self.announce(&ledger, journal.as_ref(), context);
        let progress = context.console.progress(plan.left(&ledger) as u64, "profile");
        while !context.cancelled() {
            let began = context.now();
            let turn = plan.next(&ledger, before + tally.spent().seconds)?;
            journal.iter_mut().try_for_each(|journal| journal.learn(plan.learned()))?;
            let (planned, runs) = match turn {
                Turn::Measure(configuration) => (self.find(configuration)?, true),
                Turn::Skip(configuration) => (self.find(configuration)?, false),
                Turn::Stop(ending) => {
                    tally.ending = Some(ending);
                    break;
                }
            };
            let taken =
                if runs { self.measure(&planned, &progress, context)? } else { Some((self.skip(&planned), 0.0)) };
            let Some((rows, measuring)) = taken else { break };
            let seconds = context.now().duration_since(began).unwrap_or_default().as_secs_f64();
            let spent = Spent { seconds, measuring };
            match journal.as_mut() {
                Some(journal) if runs || !self.till_first_fail => journal.add(&rows, spent)?,
                Some(_) => {}
                None => rows.records.iter().for_each(|row| context.console.line(shown(row))),
            }
            enter(&mut ledger, &planned.configuration, &rows);
            tally.add(&planned.configuration.variant.network, rows, spent);
            progress.advance(1);
        }
        tally.interrupted = context.cancelled();
        Ok(tally)
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

    fn skip(&self, planned: &Planned) -> Rows {
        Rows { records: rows::skipped(planned, self.device.capacity()), ..Rows::default() }
    }

    /// The rows of one configuration.
    fn rows(&self, planned: &Planned, attempts: &Attempts, context: &mut Context) -> Rows {
        let measurement = attempts.kept();
        let records = rows::measured(planned, measurement, self.device.capacity());
        let layers = rows::layers(planned, measurement).unwrap_or_else(|error| {
            context.warn(error);
            Vec::new()
        });
        Rows { records, layers, attempts: attempts.told(planned) }
    }

    /// Its rows, and the seconds the device spent in steps; none after Ctrl-C.
    fn measure(&self, planned: &Planned, progress: &Progress, context: &mut Context) -> Result<Option<(Rows, f64)>> {
        let Configuration { variant, workload, .. } = &planned.configuration;
        let name = format!("{variant} {} bs {}", workload.stage, workload.batch);
        progress.doing(&name);
        let waiting = |what: &str| context.console.note(format_args!("waiting: {what}"));
        let watch = Watch { cancelled: &context.cancel, waiting: &waiting };
        let attempts = Attempts::of(self.device, &planned.job(), &watch)?;
        match attempts.kept() {
            Measurement::Interrupted => return Ok(None),
            Measurement::Broken { outcome, reason } => context.warn(format!("{name}: {outcome}: {reason}")),
            Measurement::Measured { .. } | Measurement::OutOfMemory { .. } => {}
        }
        attempts.remark().into_iter().for_each(|remark| context.warn(format!("{name}: {remark}")));
        Ok(Some((self.rows(planned, &attempts, context), attempts.seconds())))
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

/// Takes note of what became of a configuration. Layers count as timed even where no row came of it: they are tried once a run.
fn enter(ledger: &mut Ledger, configuration: &Configuration, rows: &Rows) {
    rows.records.iter().for_each(|row| ledger.enter(row));
    if configuration.variables.contains(&Variable::Layers) {
        ledger.enter_layers(&configuration.variant, configuration.workload);
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
