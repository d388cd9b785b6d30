//! Measuring planned configurations one by one; whatever a single one does, the next one follows.

use super::journal::Journal;
use super::planned::Planned;
use super::remeasure::Attempts;
use super::rows::{self, Rows};
use super::tally::{Spent, Tally};
use crate::device::{Device, Measurement, Watch};
use crate::error::Result;
use crate::plan::{Configuration, Decision, Ledger};
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
    /// What to measure, in this order.
    pub planned: &'a [Planned],
    /// Whether batch sizes skipped after a failure leave no row.
    pub till_first_fail: bool,
}

impl Campaign<'_> {
    /// Measures what has no row in `journal` yet, and keeps every row there at once; without a journal it measures
    /// everything and shows the rows instead. Ends early, with what it has, after Ctrl-C.
    ///
    /// # Errors
    /// When a row cannot be kept or the device as a whole fails; rows kept until then stay.
    pub fn run(&self, mut journal: Option<Journal>, context: &mut Context) -> Result<Tally> {
        let earlier = journal.as_ref().map_or(Vec::new(), |journal| self.asked(journal.earlier()));
        let mut ledger = Ledger::of(&earlier);
        if let Some(journal) = &journal {
            journal.timed_layers().for_each(|(variant, workload)| ledger.enter_layers(variant, workload));
        }
        let mut tally = Tally::new(earlier);
        self.announce(&ledger, journal.as_ref(), context);
        let ahead =
            self.planned.iter().filter(|planned| ledger.decide(&planned.configuration) != Decision::Done).count();
        let progress = context.console.progress(ahead as u64, "profile");
        for planned in self.planned {
            let began = context.now();
            let (rows, measuring, kept) = match ledger.decide(&planned.configuration) {
                Decision::Done => continue,
                Decision::Skip { missing, .. } => (self.skip(planned, &missing), 0.0, !self.till_first_fail),
                Decision::Measure(variables) => {
                    let attempts = self.measure(planned, &variables, &progress, context)?;
                    if *attempts.kept() == Measurement::Interrupted {
                        break;
                    }
                    (self.rows(planned, &variables, &attempts, context), attempts.seconds(), true)
                }
            };
            let seconds = context.now().duration_since(began).unwrap_or_default().as_secs_f64();
            let spent = Spent { seconds, measuring };
            match journal.as_mut() {
                Some(journal) if kept => journal.add(&rows, spent)?,
                Some(_) => {}
                None => rows.records.iter().for_each(|row| context.console.line(shown(row))),
            }
            rows.records.iter().for_each(|row| ledger.enter(row));
            tally.add(&planned.configuration.variant.network, rows, spent);
            progress.advance(1);
            if context.cancelled() {
                break;
            }
        }
        tally.interrupted = context.cancelled();
        Ok(tally)
    }

    fn skip(&self, planned: &Planned, missing: &[Variable]) -> Rows {
        Rows { records: rows::skipped(planned, missing, self.device.capacity()), ..Rows::default() }
    }

    /// The rows of one configuration.
    fn rows(&self, planned: &Planned, variables: &[Variable], attempts: &Attempts, context: &mut Context) -> Rows {
        let measurement = attempts.kept();
        let records = rows::measured(planned, variables, measurement, self.device.capacity());
        let layers = rows::layers(planned, measurement).unwrap_or_else(|error| {
            context.warn(error);
            Vec::new()
        });
        Rows { records, layers, attempts: attempts.told(planned) }
    }

    fn measure(
        &self,
        planned: &Planned,
        variables: &[Variable],
        progress: &Progress,
        context: &mut Context,
    ) -> Result<Attempts> {
        let Configuration { variant, workload, .. } = &planned.configuration;
        let name = format!("{variant} {} bs {}", workload.stage, workload.batch);
        progress.doing(&name);
        let waiting = |what: &str| context.console.note(format_args!("waiting: {what}"));
        let watch = Watch { cancelled: &context.cancel, waiting: &waiting };
        let attempts = Attempts::of(self.device, &planned.job_for(variables), &watch)?;
        if let Measurement::Broken { outcome, reason } = attempts.kept() {
            context.warn(format!("{name}: {outcome}: {reason}"));
        }
        attempts.remark().into_iter().for_each(|remark| context.warn(format!("{name}: {remark}")));
        Ok(attempts)
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

/// A row that is not kept, for people.
fn shown(row: &Record) -> String {
    let value = match row.reading {
        _ if !row.outcome.passed() => String::new(),
        Reading::Latency(latency) => latency.map_or(String::new(), |latency| format!(" {latency}")),
        Reading::Memory(memory) => memory.used.map_or(String::new(), |used: Bytes| format!(" {used}")),
    };
    format!("{}: {}{value}", row.identity(), row.outcome)
}
