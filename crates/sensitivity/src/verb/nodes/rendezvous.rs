//! The rendezvous of a job's processes on several nodes, as published: the four options of PyTorch's launchers, and the
//! environment of the job.

use perf4sight_base::error::{Error, Result};
use std::ffi::OsString;
use std::time::Duration;

pub(in super::super) const MOST: u32 = 4096;

/// The settings of a job on several nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSettings {
    /// The number of nodes, at least two.
    pub count: u32,
    /// The rank of this node, counted from 0; node 0 leads.
    pub rank: u32,
    /// The address of node 0.
    pub master_addr: String,
    /// The port of the job's processes on node 0.
    pub master_port: u16,
    /// The port of the profilers on node 0; none for the next port after `master_port`.
    pub port: Option<u16>,
    /// How long to wait for all nodes.
    pub wait: Duration,
}

impl NodeSettings {
    pub(in super::super) fn check_rank(&self) -> Result<()> {
        let NodeSettings { count, rank, .. } = self;
        match rank < count {
            true => Ok(()),
            false => Err(Error::usage(format!("there is no node_rank {rank} among {count} nodes"))
                .expected(format!("from 0 to {}", count - 1))),
        }
    }

    pub(in super::super) fn check_ports(&self) -> Result<()> {
        let master_port = self.master_port;
        match self.port() != master_port {
            true => Ok(()),
            false => Err(Error::usage(format!("node_port and master_port are both {master_port}"))
                .expected("two ports: one is the job's, the other the profiler's")),
        }
    }

    /// None for a single node.
    pub fn if_several(self) -> Option<Self> {
        (self.count > 1 || self.rank > 0).then_some(self)
    }

    /// Whether this node follows another one, which leads.
    pub fn follows(&self) -> bool {
        self.rank > 0
    }

    pub(in super::super) fn to_text(&self) -> String {
        let NodeSettings { count, rank, master_addr, .. } = self;
        let port = self.port();
        let does = match rank {
            0 => format!("leads, and waits for the others at {master_addr}:{port}"),
            _ => format!("follows node 0 at {master_addr}:{port}, which decides what is measured"),
        };
        format!("as node {rank} of {count} this one {does}; this plan is for this node alone")
    }

    /// The port of the profilers.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(self.master_port.checked_add(1).unwrap_or(self.master_port - 1))
    }

    /// The settings of the leader.
    pub fn leader(&self) -> Self {
        NodeSettings { rank: 0, ..self.clone() }
    }

    /// The value of a launcher's option, in either spelling; none for other words.
    fn option(&self, name: &str) -> Option<String> {
        match name {
            "--nnodes" => Some(self.count.to_string()),
            "--node_rank" | "--node-rank" => Some(self.rank.to_string()),
            "--master_addr" | "--master-addr" => Some(self.master_addr.clone()),
            "--master_port" | "--master-port" => Some(self.master_port.to_string()),
            _ => None,
        }
    }

    /// A command in which the profiler's values replace those of the same options.
    pub fn in_command(&self, words: &[String]) -> Vec<String> {
        let before = std::iter::once("").chain(words.iter().map(String::as_str));
        let replaced = before.zip(words).map(|(before, word)| {
            let named = |(name, _): (&str, &str)| Some(format!("{name}={}", self.option(name)?));
            self.option(before).or_else(|| word.split_once('=').and_then(named)).unwrap_or_else(|| word.clone())
        });
        replaced.collect()
    }

    /// The environment variables of the job: the names that `env://` and scripts read, and those that torchrun uses for
    /// missing options (`torch.distributed.argparse_util`). A script that starts without a launcher is one process on
    /// each node, and also gets its rank, as from the published launcher.
    pub fn environment(&self, processes: usize) -> Vec<(String, OsString)> {
        let (count, rank) = (self.count.to_string(), self.rank.to_string());
        let (address, port) = (self.master_addr.clone(), self.master_port.to_string());
        let mut variables = vec![
            ("MASTER_ADDR", address.clone()),
            ("MASTER_PORT", port.clone()),
            ("NNODES", count.clone()),
            ("NODE_RANK", rank.clone()),
            ("PET_MASTER_ADDR", address),
            ("PET_MASTER_PORT", port),
            ("PET_NNODES", count.clone()),
            ("PET_NODE_RANK", rank.clone()),
        ];
        if processes == 1 {
            variables.extend([("WORLD_SIZE", count), ("RANK", rank), ("LOCAL_RANK", "0".to_owned())]);
        }
        variables.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> NodeSettings {
        NodeSettings {
            count: 2,
            rank: 1,
            master_addr: "10.0.0.1".to_owned(),
            master_port: 29500,
            port: None,
            wait: Duration::from_secs(1),
        }
    }

    fn words(words: &str) -> Vec<String> {
        words.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn what_a_launcher_is_given_is_what_the_profiler_was_given() {
        let given =
            "torchrun --nnodes=1:4 --node-rank 0 --master_addr x --master-port=1 --nproc-per-node 8 train.py -b 2";
        let expected = "torchrun --nnodes=2 --node-rank 1 --master_addr 10.0.0.1 --master-port=29500 --nproc-per-node 8 train.py -b 2";
        assert_eq!(nodes().in_command(&words(given)), words(expected));
        assert_eq!(nodes().in_command(&words("python3 train.py --nnodes")), words("python3 train.py --nnodes"));
        assert_eq!(nodes().leader().in_command(&words("torchrun --node_rank 1")), words("torchrun --node_rank 0"));
    }

    #[test]
    fn a_process_without_a_launcher_is_a_rank_and_launchers_make_their_own() {
        let variable = |processes: usize, name: &str| {
            nodes().environment(processes).into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
        };
        assert_eq!(variable(1, "RANK"), Some("1".into()));
        assert_eq!((variable(8, "RANK"), variable(8, "PET_NODE_RANK")), (None, Some("1".into())));
        assert_eq!(variable(8, "MASTER_PORT"), Some("29500".into()));
    }

    #[test]
    fn profilers_and_job_meet_at_ports_of_their_own() {
        assert_eq!(nodes().port(), 29501);
        assert_eq!(NodeSettings { master_port: 65535, ..nodes() }.port(), 65534);
        assert!(NodeSettings { port: Some(29500), ..nodes() }.check_ports().is_err());
        assert!(
            NodeSettings { rank: 2, ..nodes() }.check_rank().unwrap_err().to_string().contains("node_rank 2 among 2")
        );
    }
}
