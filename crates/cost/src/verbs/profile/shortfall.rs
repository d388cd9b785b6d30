//! What a profile leaves undone, and how to go on.

use super::tally::Tally;
use crate::plan::Ending;
use std::collections::BTreeSet;
use std::time::Duration;

/// A budget that is proposed has this much more than what was measured lets expect.
const MARGIN: f64 = 1.25;

impl Tally {
    /// What is not measured although it could be, and the command that measures it; none where nothing is left, or only Ctrl-C is why.
    pub(super) fn shortfall(&self) -> Option<String> {
        let failed = self.failures.count();
        match self.ending {
            Some(Ending::Budget { seconds, unmeasured }) if unmeasured + failed > 0 => {
                let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
                let enough = humantime::format_duration(self.enough(seconds, unmeasured));
                Some(format!(
                    "the budget of {seconds} s ended the profile early: {unmeasured} configurations are unmeasured{failed}. The same \
                     command goes on with a larger budget, as by --set \"profile.budget={enough}\", and with the same one measures \
                     nothing more, for earlier runs count"
                ))
            }
            _ if failed > 0 && !self.interrupted => {
                Some(format!("{failed} configurations could not be measured; the same command tries them again"))
            }
            _ => None,
        }
    }

    /// A budget that what is left would fit into: whole minutes, at least twice the one that was spent.
    fn enough(&self, budget: f64, unmeasured: usize) -> Duration {
        let settled = self.rows.iter().filter(|row| !row.outcome.broken());
        let measured: BTreeSet<_> = settled.map(|row| (&row.variant, row.workload)).collect();
        let each = budget / measured.len().max(1) as f64;
        let seconds = (MARGIN * (budget + each * unmeasured as f64)).max(2.0 * budget);
        Duration::try_from_secs_f64(60.0 * (seconds / 60.0).ceil()).unwrap_or(Duration::MAX)
    }
}
