//! Restricts the resources of this node to those of the other nodes: a limit is possible only where every node can
//! enforce it, and the CPUs are those of the smallest node.

use super::message::NodeMachine;
use super::team::NodeTeam;
use crate::verb::Sensitivity;
use crate::verb::points::cpus_words;
use crate::verb::surroundings::{JobSurroundings, grid};
use perf4sight_base::error::Result;
use perf4sight_base::units::Bytes;
use perf4sight_limit::{Resource, limits_page_cache_only};
use perf4sight_machine::ResourceLimits;

impl JobSurroundings {
    /// Restricts it to the other nodes.
    ///
    /// # Errors
    /// A request for more CPUs or memory than some node has.
    pub(in super::super) fn restrict_to_team(mut self, asked: &Sensitivity, team: &NodeTeam) -> Result<Self> {
        let machines: Vec<(&str, &NodeMachine)> = team.machines().collect();
        let least = |of: fn(&NodeMachine) -> f64| machines.iter().min_by(|a, b| of(a.1).total_cmp(&of(b.1)));
        let (fewest, smallest) = (least(|machine| machine.cpus), least(|machine| machine.memory.0 as f64));
        let Some((fewest, smallest)) = fewest.zip(smallest) else { return Ok(self) };
        let lacking: Vec<(Resource, String)> = Resource::ALL
            .into_iter()
            .filter_map(|resource| Some((resource, unlimitable_reason(resource, &machines)?)))
            .collect();
        let here = self.survey.cpus;
        self.survey.hold_back(fewest.1.cpus, smallest.1.memory, &lacking);
        self.most = asked.cpu.unwrap_or(fewest.1.cpus);
        let limits = ResourceLimits { cpus: Some(self.most), memory: asked.memory, storage: None };
        self.survey.check(&limits).map_err(|error| {
            let (cpus, memory) = (cpus_words(fewest.1.cpus), smallest.1.memory);
            error.help(format!(
                "{} has {cpus}, {} has {memory}: no node may have less than requested",
                fewest.0, smallest.0
            ))
        })?;
        if asked.cpu.is_none() && fewest.1.cpus < here {
            let cpus = cpus_words(fewest.1.cpus);
            self.doubts.push(format!("{} has the fewest, {cpus}: no more were tried on any node", fewest.0));
        }
        self.grid = grid(asked, self.most, &self.survey);
        [self.storage, self.memory] = [0, 1].map(|which| summed_bandwidth(which, &machines));
        // Other nodes report only the most likely value of their measurement.
        if self.storage_between.take().is_some() {
            self.doubts.push("how sure the bandwidth of storage of all nodes together is, is not known".to_owned());
        }
        self.hosts = machines.iter().map(|(_, machine)| machine.facts.clone()).collect();
        self.doubts.extend(other_data(&machines));
        if self.size.is_some() {
            let nodes = machines.len();
            self.doubts.push(format!(
                "each of the {nodes} nodes is taken to read its share of the same data in an epoch; bandwidths are those of all nodes together"
            ));
        }
        Ok(self)
    }
}

/// Bytes a second of all nodes together, each as slow as the slowest, because they wait for each other. None where any
/// is unknown.
fn summed_bandwidth(which: usize, machines: &[(&str, &NodeMachine)]) -> Option<f64> {
    let all: Option<Vec<f64>> = machines.iter().map(|(_, machine)| machine.bandwidths[which]).collect();
    all?.into_iter().min_by(f64::total_cmp).map(|slowest| slowest * machines.len() as f64)
}

/// Warnings about nodes whose data differs from that of node 0, or whose data or bandwidth is unknown.
fn other_data(machines: &[(&str, &NodeMachine)]) -> Vec<String> {
    let own = machines.first().and_then(|(_, machine)| machine.data);
    let described = |data: Option<[u64; 2]>| match data {
        Some([bytes, files]) => format!("{} in {files} files", Bytes(bytes)),
        None => "none".to_owned(),
    };
    let differ = machines.iter().filter(|(_, machine)| machine.data != own).map(|(name, machine)| {
        let (other, own) = (described(machine.data), described(own));
        format!("{name} has other data than node 0 (--data): {other}, and not {own}, which counts")
    });
    let slow = machines.iter().filter(|(_, machine)| own.is_some() && machine.bandwidths[0].is_none());
    let unknown = slow.map(|(name, _)| {
        format!("{name} does not know how fast its data is read, so no epochs are computed (give --data or --storage-bandwidth there)")
    });
    differ.chain(unknown).collect()
}

/// Why a resource cannot be limited alike on all nodes; none where it can.
fn unlimitable_reason(resource: Resource, machines: &[(&str, &NodeMachine)]) -> Option<String> {
    let by = |machine: &NodeMachine| machine.limits.get(&resource.to_string()).cloned().flatten();
    let governed = |by: &String| limits_page_cache_only(by);
    let own = machines.first().and_then(|(_, machine)| by(machine));
    machines.iter().find_map(|(name, machine)| match (by(machine), &own) {
        (None, _) => Some(format!("{name} cannot limit {resource}")),
        // One includes the job's own memory, the other does not.
        (Some(other), Some(own)) if governed(&other) != governed(own) => {
            Some(format!("{name} has a {other} for {resource}, and node 0 a {own}"))
        }
        (Some(_), _) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_machine::MachineProperties;

    fn machine(memory: Option<&str>, storage: Option<f64>) -> NodeMachine {
        NodeMachine {
            name: String::new(),
            boot: None,
            cpus: 1.0,
            memory: Bytes(1),
            limits: [("memory".to_owned(), memory.map(str::to_owned))].into(),
            bandwidths: [storage, None],
            data: None,
            facts: MachineProperties::new(),
        }
    }

    #[test]
    fn a_limit_is_possible_where_all_nodes_hold_it_alike() {
        let lacks = |others: [Option<&str>; 2]| {
            let machines = others.map(|means| machine(means, None));
            unlimitable_reason(Resource::Memory, &[("node 0", &machines[0]), ("node 1", &machines[1])])
        };
        assert_eq!(lacks([Some("control group v2"), Some("control group v1")]), None);
        assert_eq!(lacks([Some("residency governor"), Some("residency governor")]), None);
        assert_eq!(lacks([Some("control group v2"), None]), Some("node 1 cannot limit memory".to_owned()));
        let mixed = lacks([Some("control group v2"), Some("residency governor")]).unwrap();
        assert!(mixed.contains("node 1 has a residency governor"), "{mixed}");
    }

    #[test]
    fn nodes_that_read_other_data_are_told() {
        let with = |data: Option<[u64; 2]>, storage: Option<f64>| NodeMachine { data, ..machine(None, storage) };
        let described = |other: NodeMachine| {
            let own = with(Some([600, 2]), Some(1e6));
            other_data(&[("node 0", &own), ("node 1", &other)]).join("; ")
        };
        assert_eq!(described(with(Some([600, 2]), Some(2e6))), "");
        assert!(
            described(with(Some([300, 1]), Some(1e6)))
                .contains("node 1 has other data than node 0 (--data): 300 B in 1 files")
        );
        let nothing = described(with(None, None));
        assert!(nothing.contains("(--data): none") && nothing.contains("node 1 does not know how fast"), "{nothing}");
    }

    /// Two nodes that read 100 and 80 MB/s wait for each other: 160 MB/s.
    #[test]
    fn bandwidths_are_those_of_all_nodes_at_the_pace_of_the_slowest() {
        let of = |storage: [Option<f64>; 2]| {
            let machines = storage.map(|storage| machine(None, storage));
            summed_bandwidth(0, &[("node 0", &machines[0]), ("node 1", &machines[1])])
        };
        assert_eq!(of([Some(100e6), Some(80e6)]), Some(160e6));
        assert_eq!(of([Some(100e6), None]), None);
    }
}
