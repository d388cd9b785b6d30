//! The unmeasured configurations of a profile, and the command to continue.

use super::counts::ProfileCounts;
use crate::plan::PlanEnding;
use std::collections::BTreeSet;
use std::time::Duration;

/// The factor by which a suggested budget exceeds the estimate from the measurements so far.
const MARGIN: f64 = 1.25;

impl ProfileCounts {
    /// The configurations that are unmeasured although they could be measured, and the command that measures them;
    /// none if nothing is left, or only because of Ctrl-C.
    pub(super) fn shortfall(&self) -> Option<String> {
        let failed = self.failures.count();
        match self.ending {
            Some(PlanEnding::Budget { seconds, unmeasured }) if unmeasured + failed > 0 => {
                let all = unmeasured + failed + self.measured_count();
                let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
                let once = self.rows.iter().filter(|row| row.visits.len() == 1).count();
                let once = if once > 0 { format!(", {once} rows were timed only once") } else { String::new() };
                let enough = humantime::format_duration(self.sufficient_budget(seconds, unmeasured));
                Some(format!(
                    "the budget of {seconds} s ended the profile early: {unmeasured} of {all} configurations are unmeasured{failed}{once}. \
                     To measure them, run the same command with a larger budget, as by --set \"profile.budget={enough}\"; earlier runs \
                     count towards it"
                ))
            }
            _ if failed > 0 && !self.interrupted => {
                Some(format!("{failed} configurations could not be measured; the same command tries them again"))
            }
            _ => None,
        }
    }

    /// The number of configurations that need no further try.
    fn measured_count(&self) -> usize {
        let settled = self.rows.iter().filter(|row| !row.outcome.broken());
        settled.map(|row| (&row.variant, row.workload)).collect::<BTreeSet<_>>().len()
    }

    /// A budget that is enough for the unmeasured configurations: whole minutes, at least twice the one that was
    /// spent.
    fn sufficient_budget(&self, budget: f64, unmeasured: usize) -> Duration {
        let each = budget / self.measured_count().max(1) as f64;
        let seconds = (MARGIN * (budget + each * unmeasured as f64)).max(2.0 * budget);
        Duration::try_from_secs_f64(60.0 * (seconds / 60.0).ceil()).unwrap_or(Duration::MAX)
    }
}
