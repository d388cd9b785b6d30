//! The jobs of this user that Slurm still holds, as `squeue` lists them.

use perf4sight_base::error::{Error, Result};

/// What `squeue` prints of a task: job, task, state, reason, node, name. Names cannot hold the separator: ours have none,
/// and others are ignored.
pub(crate) const FORMAT: &str = "%F|%K|%T|%r|%N|%j";

/// One task, or one job that is no array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueuedTask {
    /// The job, or the array.
    pub job: u64,
    /// The index in its array.
    pub task: Option<usize>,
    /// Whether it waits for nodes.
    pub pending: bool,
    /// Why it waits, in Slurm's word.
    pub reason: String,
    /// Where it runs.
    pub node: String,
    /// The name of the job.
    pub name: String,
}

/// Parses the output of `squeue --array` with [`FORMAT`]. The name of a job of others may hold several lines, and a site may let it greet.
///
/// # Errors
/// Another format.
pub(crate) fn parse(text: &str) -> Result<Vec<QueuedTask>> {
    let mut lines = text.lines().filter(|line| line.contains('|')).peekable();
    let first = lines.peek().copied();
    let queued: Vec<QueuedTask> = lines.flat_map(parse_line).collect();
    match first.filter(|_| queued.is_empty()) {
        Some(line) => Err(unknown(line)),
        None => Ok(queued),
    }
}

fn parse_line(line: &str) -> Result<QueuedTask> {
    let cells: Vec<&str> = line.trim().splitn(6, '|').collect();
    let [job, task, state, reason, node, name] = cells[..] else { return Err(unknown(line)) };
    Ok(QueuedTask {
        job: job.parse().map_err(|_| unknown(line))?,
        task: task.parse().ok(),
        // A requeued task is COMPLETING until its node is free again.
        pending: matches!(state, "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT"),
        reason: reason.trim_matches(['(', ')']).to_owned(),
        node: node.to_owned(),
        name: name.to_owned(),
    })
}

fn unknown(line: &str) -> Error {
    Error::device(format!("squeue printed {line:?}")).expected(format!("lines of {FORMAT}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from squeue 22.05.
    #[test]
    fn tasks_and_jobs_are_read() -> Result<()> {
        let text = "7|2|PENDING|Resources||perf4sight-profile-a-0\n7|0|RUNNING|None|board1|perf4sight-profile-a-0\n8|N/A|PENDING|Dependency||a|b\n";
        let queued = parse(text)?;
        let seen: Vec<_> = queued.iter().map(|one| (one.job, one.task, one.pending, one.node.as_str())).collect();
        assert_eq!(seen, [(7, Some(2), true, ""), (7, Some(0), false, "board1"), (8, None, true, "")]);
        assert_eq!((queued[0].reason.as_str(), queued[2].name.as_str()), ("Resources", "a|b"));
        assert!(parse("7|RUNNING").is_err());
        assert_eq!(parse("Welcome")?, []);
        let several_lines = "9|N/A|PENDING|None||evil\nname\n7|0|RUNNING|None|board1|perf4sight-profile-a-0\n";
        assert_eq!(parse(several_lines)?.len(), 2);
        assert_eq!(parse(&format!("Welcome\n{text}"))?, queued);
        Ok(())
    }
}
