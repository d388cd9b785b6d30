//! `bucket_cap_mb = 8`: other buckets of `DistributedDataParallel`; `bucket_cap_mb = default` for PyTorch's own.

use super::clause::{Clause, positive};
use super::{Change, Scenario};
use crate::buckets::{Limits, with_limits};
use perf4sight_base::error::Result;

#[derive(Debug)]
struct BucketCap(Limits);

pub(super) fn parse(clause: &Clause) -> Option<Result<Box<dyn Change>>> {
    let limits = match clause.value_of("bucket_cap_mb")? {
        "default" => Ok(Limits::DEFAULT),
        cap => positive(cap).map(Limits::of_cap),
    };
    Some(limits.map(|limits| Box::new(BucketCap(limits)) as Box<dyn Change>))
}

impl Change for BucketCap {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        scenario.step = with_limits(&scenario.step, &scenario.communication, self.0)?;
        Ok(())
    }
}
