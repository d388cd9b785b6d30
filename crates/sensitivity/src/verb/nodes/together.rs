//! Combines the runs of one point on all nodes: all wait for the slowest, and a failure of one is a failure of all.

use crate::verb::points::{Outcome, Run};

/// The combined run: the slowest one where all have a rate, otherwise that of the failed node, with the largest memory
/// of any. `names` are the nodes of the runs, in the same order.
pub(in super::super) fn together(runs: Vec<Run>, names: &[String]) -> Option<Run> {
    let named = runs.into_iter().zip(names).map(|(run, name)| Run { node: Some(name.clone()), ..run });
    let nodes: Vec<Run> = named.collect();
    let worst = nodes.iter().map(|run| severity(&run.outcome)).max()?;
    let failed: Vec<&Run> = nodes.iter().filter(|run| severity(&run.outcome) == worst).collect();
    let rate = |run: &&Run| run.measured.map_or(0.0, |measured| measured.rate.per_second);
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
    Some(Run { outcome, peak_memory, own_memory, rise, nodes: nodes.clone(), ..counts.clone() })
}

/// Whether the run has no rate.
pub(super) fn has_failed(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Sound | Outcome::Disturbed { .. } => false,
        Outcome::NoRate { .. } | Outcome::Crashed { .. } | Outcome::OutOfMemory => true,
    }
}

/// The order in which outcomes take precedence.
fn severity(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Sound => 0,
        Outcome::Disturbed { .. } => 1,
        Outcome::NoRate { .. } => 2,
        Outcome::Crashed { .. } => 3,
        // The other nodes fail when one has ended.
        Outcome::OutOfMemory => 4,
    }
}

/// The combined outcome: those of all nodes with the worst outcome, with their names, the first one first.
fn outcome(counts: &Run, failed: &[&Run]) -> Outcome {
    let mut failed = failed.to_vec();
    failed.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let name = |run: &Run| run.node.clone().unwrap_or_default();
    let how = || {
        let each: Vec<String> = failed.iter().map(|run| format!("{} on {}", how(&run.outcome), name(run))).collect();
        each.join(", ")
    };
    match &failed[0].outcome {
        Outcome::Sound => Outcome::Sound,
        Outcome::OutOfMemory => Outcome::OutOfMemory,
        Outcome::Disturbed { .. } => Outcome::Disturbed { how: how() },
        Outcome::Crashed { .. } => Outcome::Crashed { how: how(), last_lines: counts.outcome.last_lines().to_vec() },
        Outcome::NoRate { reported, .. } => {
            Outcome::NoRate { how: how(), reported: *reported, last_lines: counts.outcome.last_lines().to_vec() }
        }
    }
}

fn how(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Sound | Outcome::OutOfMemory => "",
        Outcome::Disturbed { how } | Outcome::Crashed { how, .. } | Outcome::NoRate { how, .. } => how,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verb::points::tests::run;
    use perf4sight_base::units::Bytes;

    fn failed(outcome: Outcome, seconds: f64) -> Run {
        Run { outcome, measured: None, ..run(1.0, seconds) }
    }

    fn crashed(seconds: f64) -> Run {
        failed(
            Outcome::Crashed { how: "exit code 1".to_owned(), last_lines: vec![format!("after {seconds} s")] },
            seconds,
        )
    }

    fn of(runs: &[Run]) -> Run {
        let names = ["node 0 (a)", "node 1 (b)", "node 2 (c)"].map(str::to_owned);
        together(runs.to_vec(), &names).unwrap()
    }

    #[test]
    fn the_slowest_counts_and_the_most_memory_does() {
        let all = of(&[run(20.0, 9.0), run(15.0, 3.0), run(30.0, 2.0)]);
        assert_eq!((all.outcome, all.measured.unwrap().rate.per_second), (Outcome::Sound, 15.0));
        assert_eq!((all.node.as_deref(), all.peak_memory), (Some("node 1 (b)"), Some(Bytes(9))));
        let rates = all.nodes.iter().map(|run| run.measured.unwrap().rate.per_second);
        assert_eq!(rates.collect::<Vec<_>>(), [20.0, 15.0, 30.0]);
    }

    #[test]
    fn who_was_disturbed_disturbs_all_though_another_is_the_slowest() {
        let disturbed = Run { outcome: Outcome::Disturbed { how: "others".to_owned() }, ..run(20.0, 1.0) };
        let all = of(&[run(15.0, 1.0), disturbed]);
        assert_eq!(all.outcome, Outcome::Disturbed { how: "others on node 1 (b)".to_owned() });
        assert_eq!(all.node.as_deref(), Some("node 0 (a)"));
    }

    #[test]
    fn memory_is_why_others_crash_and_of_crashes_the_first_is() {
        let all = of(&[crashed(1.0), failed(Outcome::OutOfMemory, 1.1), run(20.0, 2.0)]);
        assert_eq!((all.outcome, all.node.as_deref(), all.measured), (Outcome::OutOfMemory, Some("node 1 (b)"), None));
        let all = of(&[crashed(2.0), crashed(1.0), run(20.0, 2.0)]);
        let how = "exit code 1 on node 1 (b), exit code 1 on node 0 (a)".to_owned();
        assert_eq!(all.outcome, Outcome::Crashed { how, last_lines: vec!["after 1 s".to_owned()] });
        let silent = failed(Outcome::NoRate { how: "nothing".to_owned(), reported: 0, last_lines: Vec::new() }, 1.0);
        assert!(matches!(of(&[silent, crashed(2.0)]).outcome, Outcome::Crashed { .. }));
    }
}
