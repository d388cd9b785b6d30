//! `bucket_cap_mb = 8`: other buckets of `DistributedDataParallel`; `bucket_cap_mb = default` for PyTorch's own.

use super::clause::{WhatIfClause, positive};
use super::{Scenario, StepChange};
use crate::buckets::{BucketLimits, with_limits};
use perf4sight_base::error::Result;

#[derive(Debug)]
struct BucketCap(BucketLimits);

pub(super) fn parse(clause: &WhatIfClause) -> Option<Result<Box<dyn StepChange>>> {
    let limits = match clause.value_of("bucket_cap_mb")? {
        "default" => Ok(BucketLimits::DEFAULT),
        cap => positive(cap).map(BucketLimits::of_cap),
    };
    Some(limits.map(|limits| Box::new(BucketCap(limits)) as Box<dyn StepChange>))
}

impl StepChange for BucketCap {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        scenario.step = with_limits(&scenario.step, &scenario.communication, self.0)?;
        Ok(())
    }
}
