//! Execution traces (`torch.profiler.ExecutionTraceObserver`) beside profilers' traces: which operator reads what another
//! wrote, and the process groups that exchanges belong to.

use perf4sight_base::error::Result;
use perf4sight_traces::Ranked;
use std::path::PathBuf;

pub(super) fn add(_files: &[PathBuf], _ranks: &mut [Ranked]) -> Result<()> {
    Ok(())
}
