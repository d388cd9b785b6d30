//! Combines the runs of one point on all nodes: all wait for the slowest, and a failure of one is a failure of all.

use crate::verb::points::{PointOutcome, PointRun};

/// The combined run: the slowest one where all have a rate, otherwise that of the failed node, with the largest memory
/// of any. `names` are the nodes of the runs, in the same order.
pub(in super::super) fn combine_runs(runs: Vec<PointRun>, names: &[String]) -> Option<PointRun> {
    let named = runs.into_iter().zip(names).map(|(run, name)| PointRun { node: Some(name.clone()), ..run });
    let nodes: Vec<PointRun> = named.collect();
    let worst = nodes.iter().map(|run| severity(&run.outcome)).max()?;
    let failed: Vec<&PointRun> = nodes.iter().filter(|run| severity(&run.outcome) == worst).collect();
    let rate = |run: &&PointRun| run.measured.map_or(0.0, |measured| measured.rate.per_second);
    let counts = if has_failed(&failed.first()?.outcome) {
        // The first failure may be the cause of the others.
        failed.iter().copied().min_by(|a, b| a.seconds.total_cmp(&b.seconds))?
    } else {
        nodes.iter().min_by(|a, b| rate(a).total_cmp(&rate(b)))?
    };
    let outcome = outcome(counts, &failed);
    let peak_memory = nodes.iter().filter_map(|run| run.peak_memory).max();
    let own_memory = nodes.iter().filter_map(|run| run.own_memory).max();
    let rise = nodes.iter().filter_map(|run| run.rise).max_by_key(|rise| rise.bytes);
    Some(PointRun { outcome, peak_memory, own_memory, rise, nodes: nodes.clone(), ..counts.clone() })
}

/// Whether the run has no rate.
pub(super) fn has_failed(outcome: &PointOutcome) -> bool {
    match outcome {
        PointOutcome::Sound | PointOutcome::Disturbed { .. } => false,
        PointOutcome::NoRate { .. } | PointOutcome::Crashed { .. } | PointOutcome::OutOfMemory => true,
    }
}

/// The order in which outcomes take precedence.
fn severity(outcome: &PointOutcome) -> u8 {
    match outcome {
        PointOutcome::Sound => 0,
        PointOutcome::Disturbed { .. } => 1,
        PointOutcome::NoRate { .. } => 2,
        PointOutcome::Crashed { .. } => 3,
        // The other nodes fail when one has ended.
        PointOutcome::OutOfMemory => 4,
    }
}

/// The combined outcome: those of all nodes with the worst outcome, with their names, the first one first.
fn outcome(counts: &PointRun, failed: &[&PointRun]) -> PointOutcome {
    let mut failed = failed.to_vec();
    failed.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let name = |run: &PointRun| run.node.clone().unwrap_or_default();
    let how = || {
        let each: Vec<String> =
            failed.iter().map(|run| format!("{} on {}", outcome_reason(&run.outcome), name(run))).collect();
        each.join(", ")
    };
    match &failed[0].outcome {
        PointOutcome::Sound => PointOutcome::Sound,
        PointOutcome::OutOfMemory => PointOutcome::OutOfMemory,
        PointOutcome::Disturbed { .. } => PointOutcome::Disturbed { how: how() },
        PointOutcome::Crashed { .. } => {
            PointOutcome::Crashed { how: how(), last_lines: counts.outcome.last_lines().to_vec() }
        }
        PointOutcome::NoRate { reported, .. } => {
            PointOutcome::NoRate { how: how(), reported: *reported, last_lines: counts.outcome.last_lines().to_vec() }
        }
    }
}

fn outcome_reason(outcome: &PointOutcome) -> &str {
    match outcome {
        PointOutcome::Sound | PointOutcome::OutOfMemory => "",
        PointOutcome::Disturbed { how } | PointOutcome::Crashed { how, .. } | PointOutcome::NoRate { how, .. } => how,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verb::points::tests::run;
    use perf4sight_base::units::Bytes;

    fn failed(outcome: PointOutcome, seconds: f64) -> PointRun {
        PointRun { outcome, measured: None, ..run(1.0, seconds) }
    }

    fn crashed(seconds: f64) -> PointRun {
        failed(
            PointOutcome::Crashed { how: "exit code 1".to_owned(), last_lines: vec![format!("after {seconds} s")] },
            seconds,
        )
    }

    fn combined(runs: &[PointRun]) -> PointRun {
        let names = ["node 0 (a)", "node 1 (b)", "node 2 (c)"].map(str::to_owned);
        combine_runs(runs.to_vec(), &names).unwrap()
    }

    #[test]
    fn the_slowest_counts_and_the_most_memory_does() {
        let all = combined(&[run(20.0, 9.0), run(15.0, 3.0), run(30.0, 2.0)]);
        assert_eq!((all.outcome, all.measured.unwrap().rate.per_second), (PointOutcome::Sound, 15.0));
        assert_eq!((all.node.as_deref(), all.peak_memory), (Some("node 1 (b)"), Some(Bytes(9))));
        let rates = all.nodes.iter().map(|run| run.measured.unwrap().rate.per_second);
        assert_eq!(rates.collect::<Vec<_>>(), [20.0, 15.0, 30.0]);
    }

    #[test]
    fn who_was_disturbed_disturbs_all_though_another_is_the_slowest() {
        let disturbed = PointRun { outcome: PointOutcome::Disturbed { how: "others".to_owned() }, ..run(20.0, 1.0) };
        let all = combined(&[run(15.0, 1.0), disturbed]);
        assert_eq!(all.outcome, PointOutcome::Disturbed { how: "others on node 1 (b)".to_owned() });
        assert_eq!(all.node.as_deref(), Some("node 0 (a)"));
    }

    #[test]
    fn memory_is_why_others_crash_and_of_crashes_the_first_is() {
        let all = combined(&[crashed(1.0), failed(PointOutcome::OutOfMemory, 1.1), run(20.0, 2.0)]);
        assert_eq!(
            (all.outcome, all.node.as_deref(), all.measured),
            (PointOutcome::OutOfMemory, Some("node 1 (b)"), None)
        );
        let all = combined(&[crashed(2.0), crashed(1.0), run(20.0, 2.0)]);
        let how = "exit code 1 on node 1 (b), exit code 1 on node 0 (a)".to_owned();
        assert_eq!(all.outcome, PointOutcome::Crashed { how, last_lines: vec!["after 1 s".to_owned()] });
        let silent =
            failed(PointOutcome::NoRate { how: "nothing".to_owned(), reported: 0, last_lines: Vec::new() }, 1.0);
        assert!(matches!(combined(&[silent, crashed(2.0)]).outcome, PointOutcome::Crashed { .. }));
    }
}
