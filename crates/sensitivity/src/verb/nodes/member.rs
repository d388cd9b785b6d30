//! A node that follows, as the node that leads sees it.

use super::message::{self, Machine, Order, Report};
use perf4sight_base::error::{Error, Result};
use perf4sight_machine::link::{Heard, Link};
use std::time::Duration;

/// A node that takes part.
pub(super) struct Member {
    pub rank: u32,
    /// What it is called.
    pub name: String,
    pub machine: Machine,
    pub link: Link,
}

impl Member {
    /// Tells it what to do.
    ///
    /// # Errors
    /// A node that is gone.
    pub fn order(&self, order: &Order) -> Result<()> {
        // What came before the connection broke is worth more than that it did.
        match self.link.say(&message::line(order)) {
            Ok(()) => Ok(()),
            Err(cause) => Err(self.last_words().unwrap_or_else(|| self.gone(&cause.to_string()))),
        }
    }

    /// What it reports next; none where it reports nothing within this time.
    ///
    /// # Errors
    /// A node that is gone, or leaves, or sends what is no report.
    pub fn hear(&self, patience: Duration) -> Result<Option<Report>> {
        let line = match self.link.hear(patience) {
            None => return Ok(None),
            Some(Heard::Lost(why)) => return Err(self.gone(&why)),
            Some(Heard::Line(line)) => line,
        };
        match message::message(&line) {
            Err(why) => Err(self.gone(&why)),
            Ok(Report::Leaving { why }) => Err(Error::device(format!("{} has left: {why}", self.name)).help(AGAIN)),
            Ok(report) => Ok(Some(report)),
        }
    }

    /// Why it left, where it said so.
    fn last_words(&self) -> Option<Error> {
        loop {
            match self.hear(Duration::ZERO) {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(error) => return Some(error),
            }
        }
    }

    /// It did what makes no sense now.
    pub fn unexpected(&self) -> Error {
        self.gone("it reports what it was not asked for")
    }

    fn gone(&self, why: &str) -> Error {
        Error::device(format!("{} is gone: {why}", self.name)).help(AGAIN)
    }
}

/// What to do then.
const AGAIN: &str = "points that were finished are kept: start the same command on all nodes again";
