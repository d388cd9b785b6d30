//! A job on several nodes: the profiler runs on each of them with the same command. Node 0 leads the search and the
//! others follow: each enforces the limits on its own machine, all run a point at once, and the slowest counts.
//!
//! The steps of one run: `Point` to all, `Ready` from all, `Go`; then each reports by `Look` whether its rate is known.
//! When all rates are known, one node has failed, or the time is up, `Close` announces the end of the run, so that a
//! job which fails because another node's has ended counts as ended. When all have confirmed that (`Closing`), `Stop`
//! ends it, and each reports its run (`Ended`).

mod among;
mod follow;
mod gather;
mod member;
mod message;
mod rendezvous;
mod run;
mod team;
#[cfg(test)]
mod tests;
mod together;

pub use rendezvous::NodeSettings;

pub(super) use follow::follow;
pub(super) use gather::gather;
pub(super) use rendezvous::MOST;
pub(super) use team::NodeTeam;
pub(super) use together::combine_runs;

use super::Sensitivity;
use super::surroundings::JobSurroundings;
use message::NodeMachine;
use perf4sight_limit::LimitableResource;
use perf4sight_machine::MachineProperties;
use perf4sight_machine::description::MachineDescription;

/// The phase of a run, on the leader and on the followers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunPhase {
    Running,
    /// The end of the run was announced.
    Closing,
    /// All have confirmed that, and were ordered to stop.
    Stopped,
}

/// The properties that all nodes must share: the job and the way of measuring.
fn job(asked: &Sensitivity, nodes: &NodeSettings) -> MachineProperties {
    let number = |number: Option<u64>| number.map_or("none".to_owned(), |number| number.to_string());
    let job = [
        // Options that distinguish nodes are left out.
        ("command", nodes.leader().in_command(&asked.command).join(" ")),
        ("--batch", number(asked.batch)),
        ("--workers", number(asked.workers)),
        ("--max-iterations", number(asked.max_iterations)),
        ("--iterations", number(asked.iterations)),
        ("--warm-up", asked.warm_up.to_string()),
        ("--num-gpus", asked.processes().to_string()),
        ("--step-pattern", asked.step_pattern.as_ref().map_or("none", |pattern| pattern.0.as_str()).to_owned()),
        ("--docker-img", asked.docker_img.clone().unwrap_or_else(|| "none".to_owned())),
        ("--master_addr", nodes.master_addr.clone()),
        ("--master_port", nodes.master_port.to_string()),
    ];
    job.map(|(name, value)| (name.to_owned(), value)).into()
}

impl NodeMachine {
    fn here(around: &JobSurroundings) -> Self {
        let (here, survey) = (MachineDescription::here(), &around.survey);
        let of =
            |limitable: &LimitableResource| (limitable.resource.to_string(), limitable.by.map(ToString::to_string));
        let limits = survey.resources.iter().map(of).collect();
        let own =
            [("name", here.name()), ("cpus", survey.cpus.to_string())].map(|(name, fact)| (name.to_owned(), fact));
        let facts = around.hosts.iter().flatten().map(|(name, fact)| (name.clone(), fact.clone())).chain(own).collect();
        NodeMachine {
            name: here.name(),
            boot: here.boot(),
            cpus: survey.cpus,
            memory: survey.memory,
            limits,
            bandwidths: [around.storage, around.memory],
            data: around.size.map(|size| [size.bytes, size.files]),
            facts,
        }
    }
}

fn name(rank: u32, machine: &str) -> String {
    format!("node {rank} ({machine})")
}
