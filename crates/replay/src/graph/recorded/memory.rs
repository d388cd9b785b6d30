//! The memory that the graph of recorded steps takes, known before it is built.

use super::rows::Row;
use crate::graph::Builder;
use crate::ranks::Job;
use perf4sight_base::error::Result;

/// Edges of a node: most have one to the next on their thread, some another one.
const EDGES: u64 = 2;
/// Graphs at a time: that of all steps, and one that some are left out of.
const GRAPHS: usize = 2;

/// Refuses steps whose rows, durations and graph take more than `available` bytes.
pub(super) fn check(job: &Job, steps: &[usize], available: u64) -> Result<()> {
    let rows: Vec<u64> = steps.iter().map(|step| rows(job, *step)).collect();
    let largest = rows.iter().copied().max().unwrap_or(0);
    // Of every step all rows are read, and of every row the duration is kept: for the graph, and for one without some steps.
    let kept = rows.iter().sum::<u64>() * (size_of::<Row>() + GRAPHS * size_of::<u64>()) as u64;
    Builder::check_memory(largest, EDGES * largest, available.saturating_sub(kept) / GRAPHS as u64)
}

/// The most rows that a step can have: one before and one after the begin of each event.
fn rows(job: &Job, step: usize) -> u64 {
    let of_rank = |(rank, step): (&crate::ranks::Rank, &usize)| {
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
    use crate::synthetic::{Cluster, cluster, write_traces};

    #[test]
    fn what_does_not_fit_is_refused_before_it_is_built() -> Result<()> {
        let folder =
            tempfile::tempdir().map_err(|cause| perf4sight_base::error::Error::io(".", "make a folder", &cause))?;
        write_traces(&[cluster(&Cluster::default(), 1)?], &[], folder.path())?;
        let job = Job::read(&[folder.path().to_owned()])?;
        check(&job, &[0], 1_000_000_000)?;
        let error = check(&job, &[0], 100_000).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("of memory") && error.contains("read fewer steps"), "{error}");
        Ok(())
    }
}
