//! Gradients in any buckets of neighbours.

use perf4sight_base::error::Result;
use perf4sight_replay::buckets::with_buckets;
use perf4sight_replay::what_if::{Scenario, StepChange};
use std::ops::Range;

/// The places of each bucket's gradients, in the order in which they are ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GradientBuckets(pub Vec<Range<usize>>);

impl StepChange for GradientBuckets {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        scenario.step = with_buckets(&scenario.step, &scenario.communication, &self.0)?;
        Ok(())
    }
}
