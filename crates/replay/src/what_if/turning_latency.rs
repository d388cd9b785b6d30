//! The latency of messages from which changes no longer make a step shorter.

use super::StepChange;
use super::outcome::{ratio, references};
use crate::communication::{CommunicationCosts, GroupCost};
use crate::graph::recorded::RecordedSteps;
use perf4sight_base::error::Result;

/// A latency of messages from which changes make a step longer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TurningLatency {
    /// Nanoseconds of a message.
    pub latency: f64,
    /// How many times as long the step takes with the longest latency that may be.
    pub longest: f64,
}

/// The latency from which changes that make the typical step shorter, with the latency that is assumed, make it longer; none where no latency
/// that may be does so, or where latencies are known.
///
/// # Errors
/// A change that cannot be made to the step.
pub fn turning_latency(
    recorded: &RecordedSteps,
    communication: &CommunicationCosts,
    changes: &[Box<dyn StepChange>],
) -> Result<Option<TurningLatency>> {
    let changes = &references(changes);
    let with = |groups: &[Option<GroupCost>]| -> Result<(f64, f64)> {
        let other = CommunicationCosts { groups: groups.to_vec(), ..communication.clone() };
        Ok((longest_assumed(groups), ratio(recorded.typical.clone(), other, changes)?))
    };
    let Some(slowest) = communication.slower_messages.last() else { return Ok(None) };
    let mut before = with(&communication.groups)?;
    let (_, longest) = with(slowest)?;
    if before.1 >= 1.0 || longest <= 1.0 {
        return Ok(None);
    }
    for groups in communication.alternatives.last().into_iter().chain(&communication.slower_messages) {
        let next = with(groups)?;
        if next.1 > 1.0 {
            return Ok(Some(TurningLatency { latency: crossing(before, next), longest }));
        }
        before = next;
    }
    Ok(None)
}

/// The greatest latency of the groups whose latency is not known.
fn longest_assumed(groups: &[Option<GroupCost>]) -> f64 {
    let assumed = groups.iter().flatten().filter(|cost| cost.unknown_latency.is_some());
    assumed.map(|cost| cost.latency.value).fold(0.0, f64::max)
}

/// Where the line between two points, each of a latency and a relative time, is at a relative time of 1.
fn crossing((latency, below): (f64, f64), (next, above): (f64, f64)) -> f64 {
    latency + (next - latency) * (1.0 - below) / (above - below)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fifth less at 1, a tenth more at 4: two thirds of the way.
    #[test]
    fn a_gain_turns_round_between_two_latencies() {
        assert!((crossing((1.0, 0.8), (4.0, 1.1)) - 3.0).abs() < 1e-12);
    }
}
