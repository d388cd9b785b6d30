//! The memory that the graph of recorded steps takes, known before it is built.

use super::rows::WorkRow;
use crate::graph::{GraphBuilder, TaskGraph};
use crate::ranks::TrainingJob;
use crate::simulate;
use perf4sight_base::error::Result;

/// Edges of a node: most have one to the next on their thread, some another one.
const EDGES: u64 = 2;
/// Graphs at a time: that of all steps, and one that some are left out of.
const GRAPHS: u64 = 2;

/// Bytes that the rows, durations and graphs of steps take at most, to be said before they are taken.
pub(super) fn bytes_needed(job: &TrainingJob, steps: &[usize]) -> u64 {
    let [largest, all] = largest_and_all(job, steps);
    bytes_kept(all) + GRAPHS * (TaskGraph::bytes_of(largest, EDGES * largest) + simulate::bytes_of(largest, 0))
}

/// Refuses steps whose rows, durations and graphs take more than `available` bytes.
pub(super) fn check(job: &TrainingJob, steps: &[usize], available: u64) -> Result<()> {
    let [largest, all] = largest_and_all(job, steps);
    GraphBuilder::check_memory(largest, EDGES * largest, available.saturating_sub(bytes_kept(all)) / GRAPHS)
}

/// The rows of the largest of the steps, and of all of them.
fn largest_and_all(job: &TrainingJob, steps: &[usize]) -> [u64; 2] {
    let rows = steps.iter().map(|step| rows(job, *step));
    rows.fold([0, 0], |[largest, all], rows| [largest.max(rows), all + rows])
}

/// Bytes of the rows of all steps, and of the duration of each row: for the graph, and for one without some steps.
fn bytes_kept(rows: u64) -> u64 {
    rows * (size_of::<WorkRow>() as u64 + GRAPHS * size_of::<u64>() as u64)
}

/// The most rows that a step can have: one before and one after the begin of each event.
fn rows(job: &TrainingJob, step: usize) -> u64 {
    let of_rank = |(rank, step): (&crate::ranks::JobRank, &usize)| {
        let (begin, end) = rank.steps[*step].window;
        let events = &rank.trace.events;
        let [first, last] = [begin, end].map(|moment| events.partition_point(|event| event.start < moment));
        2 * (last - first) as u64 + 2
    };
    job.ranks.iter().zip(&job.steps[step].of).map(of_rank).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{SyntheticCluster, cluster, write_traces};

    #[test]
    fn what_does_not_fit_is_refused_before_it_is_built() -> Result<()> {
        let folder =
            tempfile::tempdir().map_err(|cause| perf4sight_base::error::Error::io(".", "make a folder", &cause))?;
        write_traces(&[cluster(&SyntheticCluster::default(), 1)?], &[], folder.path())?;
        let job = TrainingJob::read(&[folder.path().to_owned()])?;
        check(&job, &[0], 1_000_000_000)?;
        let error = check(&job, &[0], 100_000).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("of memory") && error.contains("read fewer steps"), "{error}");
        Ok(())
    }
}
