//! What a run could not measure although memory was not why: told at its end, with what to do about it.

use crate::error::Error;
use crate::plan::Configuration;
use crate::records::Outcome;
use crate::report::{Column, Table};

/// So many configurations are named before the rest is only counted.
const NAMED: usize = 3;

/// Failures of one run, in the order they came.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Failures(Vec<Alike>);

/// Failures of one kind, for one reason.
#[derive(Debug, Clone, PartialEq)]
struct Alike {
    outcome: Outcome,
    reason: String,
    configurations: Vec<String>,
}

impl Failures {
    /// Takes note of one.
    pub(super) fn add(&mut self, configuration: &Configuration, outcome: Outcome, reason: &str) {
        let name = configuration.to_string();
        match self.0.iter_mut().find(|alike| alike.outcome == outcome && alike.reason == reason) {
            Some(alike) => alike.configurations.push(name),
            None => self.0.push(Alike { outcome, reason: reason.to_owned(), configurations: vec![name] }),
        }
    }

    /// How many there were.
    pub fn count(&self) -> usize {
        self.0.iter().map(|alike| alike.configurations.len()).sum()
    }

    /// What failed, why, and what to do; none where nothing did.
    pub(super) fn table(&self) -> Option<Table> {
        if self.0.is_empty() {
            return None;
        }
        let columns = [
            Column::text("outcome", "what"),
            Column::number("configurations", "how many"),
            Column::text("which", "which"),
            Column::text("why", "why"),
            Column::text("remedy", "what to do"),
        ];
        let mut table = Table::new("What failed, and is tried again when the same command is run again", columns);
        for Alike { outcome, reason, configurations } in &self.0 {
            let count = configurations.len();
            let named = configurations[..count.min(NAMED)].join(", ");
            let more = if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
            let cells = [format!("{named}{more}"), reason.clone(), remedy(*outcome).to_owned()];
            table.row([outcome.to_string().into(), count.into()].into_iter().chain(cells.map(Into::into)));
        }
        Some(table)
    }

    /// The failure of a run that measured nothing.
    pub(super) fn error(&self) -> Option<Error> {
        let first = self.0.first()?;
        let problem = format!("nothing new was measured: {} configurations failed", self.count());
        Some(Error::device(format!("{problem}, the first because {}", first.reason)).help(remedy(first.outcome)))
    }
}

/// What helps against a failure.
fn remedy(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::TimedOut => "set a longer timeout, or leave this batch size out",
        Outcome::Garbled => "the worker has to write one line of JSON to its standard output, and nothing else",
        Outcome::Crashed => "run again; if it dies every time, a lower mem_limit shows whether memory is why",
        _ => "mend what the worker names, then run again",
    }
}
