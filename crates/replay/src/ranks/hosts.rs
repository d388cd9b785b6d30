//! Which ranks share a clock, since their traces are of one host.

use super::{JobRank, TrainingJob};
use perf4sight_record::Recording;
use std::collections::BTreeSet;

/// For each rank, whether it ran on the host of the first one. Traces do not contain the host; what `perf4sight record` writes next to
/// them does, and the names that `torch.profiler.tensorboard_trace_handler` gives their files.
pub(crate) fn of_first(job: &TrainingJob) -> Vec<bool> {
    if job.ranks.iter().all(|rank| rank.trace.header.calculated) {
        return vec![true; job.ranks.len()];
    }
    let boots: Vec<Option<String>> = job.ranks.iter().map(boot).collect();
    if boots.iter().all(Option::is_some) {
        return boots.iter().map(|boot| *boot == boots[0]).collect();
    }
    let named: Vec<Option<(&str, &str)>> = job.ranks.iter().map(host_and_process).collect();
    let Some((host, _)) = named[0] else { return vec![false; named.len()] };
    let on_it = |name: &Option<(&str, &str)>| name.is_some_and(|(own, _)| own == host);
    let processes: Vec<&str> = named.iter().filter(|name| on_it(name)).flatten().map(|(_, process)| *process).collect();
    // Containers may all have the same name and the same numbers of processes.
    let is_one = processes.iter().collect::<BTreeSet<_>>().len() == processes.len();
    named.iter().map(|name| is_one && on_it(name)).collect()
}

/// The start of the system that a rank was recorded in.
fn boot(rank: &JobRank) -> Option<String> {
    Recording::next_to(&rank.trace.file).ok()??.boot
}

/// Host and process in a name such as `node1_4711.1795722663321054322.pt.trace.json`, if a thread of the trace is of that
/// process: names can be chosen.
fn host_and_process(rank: &JobRank) -> Option<(&str, &str)> {
    let name = rank.trace.file.file_name()?.to_str()?;
    let (own, moment) = name.strip_suffix(".gz").unwrap_or(name).strip_suffix(".pt.trace.json")?.rsplit_once('.')?;
    let (host, process) = own.rsplit_once('_')?;
    let is_its = moment.parse::<u64>().is_ok() && rank.trace.tracks.iter().any(|track| track.process == process);
    is_its.then_some((host, process))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_base::error::Result;
    use perf4sight_traces::{EventCategory, NewEvent, RankTrace, TraceBuilder};

    fn on_first(names: [&str; 3]) -> Result<Vec<bool>> {
        let rank = |(number, name): (u32, &str)| {
            let mut builder = TraceBuilder::new(name.as_ref());
            let process = format!("{}", 4711 + number);
            builder.add(NewEvent {
                name: "aten::mm",
                category: EventCategory::Operator,
                track: [&process, "1"],
                time: (0, 1_000),
                collective: None,
            });
            RankTrace { rank: number, trace: builder.finish() }
        };
        Ok(of_first(&TrainingJob::from_traces((0..).zip(names).map(rank).collect())?))
    }

    #[test]
    fn ranks_of_one_host_are_known_by_what_was_recorded_next_to_their_traces() {
        let folder = tempfile::tempdir().unwrap();
        for (rank, boot) in ["a", "a", "b"].into_iter().enumerate() {
            let text = format!(
                r#"{{"format":2,"trace":"rank{rank}.json.gz","rank":{rank},"ranks":3,"iterations_are":"steps","kineto":true,"plain":[[9]],"recorded":[[9]],"boot":"{boot}"}}"#
            );
            std::fs::write(folder.path().join(format!("rank{rank}.recording.json")), text).unwrap();
        }
        let names = [0, 1, 2].map(|rank| folder.path().join(format!("rank{rank}.json.gz")).display().to_string());
        assert_eq!(on_first([&names[0], &names[1], &names[2]]).unwrap(), [true, true, false]);
    }

    #[test]
    fn ranks_of_one_host_are_known_by_the_names_of_their_files() -> Result<()> {
        let names = ["a_4711.17.pt.trace.json", "a_4712.18.pt.trace.json.gz", "b_4713.17.pt.trace.json"];
        assert_eq!(on_first(names)?, [true, true, false]);
        assert_eq!(on_first(["rank0.json", names[1], names[2]])?, [false; 3]);
        // A name that was chosen.
        assert_eq!(on_first(["a_1.17.pt.trace.json", "a_2.17.pt.trace.json", names[2]])?, [false; 3]);
        Ok(())
    }
}
