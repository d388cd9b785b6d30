//! A following node, as the leader sees it.

use super::message::{self, LeaderOrder, NodeMachine, NodeReport};
use perf4sight_base::error::{Error, Result};
use perf4sight_machine::link::{LineLink, ReceivedLine};
use std::time::Duration;

/// A node that takes part.
pub(super) struct NodeMember {
    pub rank: u32,
    pub name: String,
    pub machine: NodeMachine,
    pub link: LineLink,
}

impl NodeMember {
    pub fn order(&self, order: &LeaderOrder) -> Result<()> {
        // The node's last report is more useful than the broken connection.
        match self.link.send_line(&message::line(order)) {
            Ok(()) => Ok(()),
            Err(cause) => Err(self.last_words().unwrap_or_else(|| self.gone(&cause.to_string()))),
        }
    }

    /// Its next report; none where none arrives within this time.
    ///
    /// # Errors
    /// A node that disconnects or leaves, or an invalid report.
    pub fn receive(&self, patience: Duration) -> Result<Option<NodeReport>> {
        let line = match self.link.receive(patience) {
            None => return Ok(None),
            Some(ReceivedLine::Lost(why)) => return Err(self.gone(&why)),
            Some(ReceivedLine::Line(line)) => line,
        };
        match message::message(&line) {
            Err(why) => Err(self.gone(&why)),
            Ok(NodeReport::Leaving { why }) => Err(Error::device(format!("{} has left: {why}", self.name)).help(AGAIN)),
            Ok(report) => Ok(Some(report)),
        }
    }

    /// Why it left, if it reported that.
    fn last_words(&self) -> Option<Error> {
        loop {
            match self.receive(Duration::ZERO) {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(error) => return Some(error),
            }
        }
    }

    /// The error for a report that is invalid in this state.
    pub fn unexpected(&self) -> Error {
        self.gone("it reports something that was not requested")
    }

    fn gone(&self, why: &str) -> Error {
        Error::device(format!("{} is gone: {why}", self.name)).help(AGAIN)
    }
}

/// The help text for that case.
const AGAIN: &str = "points that were finished are kept: start the same command on all nodes again";
