//! `perf4sight sensitivity --nnodes`: several profilers on the loopback, what they measure together, and what each says when another one
//! fails. On one machine they see each other's jobs as other programs, so that points may be marked as disturbed. Whom the leader refuses is
//! tested in the crate, without processes.

use crate::conformance::python;
use crate::fixtures::{Outcome, Scene, runs, within_patience};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

/// Each node writes where it is to meet the others, and steps at its own pace: node 1 at most every 40 ms, the others every 20.
const STEPS: &str = r#"echo $$ > process
echo "$NODE_RANK of $NNODES at $MASTER_ADDR:$MASTER_PORT, rank $RANK of $WORLD_SIZE" > meeting
pause=0.02
[ "$NODE_RANK" != 1 ] || pause=0.04
i=0
while :; do
    i=$((i+1)); sleep $pause
    echo "{\"step\": $i, \"time\": $(date +%s.%N), \"wait\": 0.005}" >> "$PERF4SIGHT_STEPS"
done
"#;

/// Several nodes, each in a folder of its own.
struct Cluster {
    nodes: Vec<Scene>,
    /// A free port with a free one behind it.
    port: u16,
    options: &'static str,
}

impl Cluster {
    fn new(count: usize, options: &'static str, job: &str) -> Self {
        let nodes = (0..count).map(|_| Scene::new().file("job.sh", job)).collect();
        Cluster { nodes, port: free_ports(), options }
    }

    fn arguments(&self, rank: usize, job: &str) -> Vec<String> {
        let (count, port) = (self.nodes.len(), self.port);
        let nodes = format!("--nnodes {count} --node_rank {rank} --master_addr 127.0.0.1 --master_port {port}");
        let all = format!("sensitivity --cpu 1 --cpu-step 1 --warm-up 2 {} {nodes} -- {job}", self.options);
        all.split_whitespace().map(str::to_owned).collect()
    }

    fn start(&self, rank: usize) -> Child {
        let mut command = self.nodes[rank].command();
        command.args(self.arguments(rank, "sh job.sh")).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// All nodes, the first of which leads.
    fn start_all(&self) -> Vec<Child> {
        (0..self.nodes.len()).map(|rank| self.start(rank)).collect()
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.nodes[0].read(name)).unwrap()
    }

    /// Waits for the job of each node, however long others measure before, and returns their processes.
    fn jobs(&self, nodes: &mut [Child]) -> Vec<i32> {
        let written = |scene: &Scene| fs::read_to_string(scene.path("process")).is_ok_and(|text| text.ends_with('\n'));
        while !self.nodes.iter().all(written) {
            for node in nodes.iter_mut() {
                assert!(node.try_wait().unwrap().is_none(), "a node ended before its job began");
            }
            thread::sleep(Duration::from_millis(20));
        }
        self.nodes.iter().map(|scene| scene.read("process").trim().parse().unwrap()).collect()
    }
}

fn free_ports() -> u16 {
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).ok();
    let found = (0..100).find_map(|_| {
        let port = free(0)?.local_addr().ok()?.port();
        free(port.checked_add(1)?).map(|_| port)
    });
    found.expect("two free ports side by side")
}

fn signal(node: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(node.id()).unwrap()), signal).unwrap();
}

fn ended(node: Child) -> Outcome {
    Outcome::of("sensitivity --nnodes", node.wait_with_output().unwrap())
}

fn are_gone(jobs: &[i32]) {
    within_patience("the end of all jobs", || !jobs.iter().any(|job| runs(*job)));
}

#[test]
fn the_slowest_node_counts_and_only_the_first_writes() {
    let cluster = Cluster::new(3, "--point-time 4s", STEPS);
    let mut nodes = cluster.start_all();
    cluster.jobs(&mut nodes);
    let mut ended: Vec<Outcome> = nodes.into_iter().map(|node| ended(node).succeeds()).collect();
    let led = ended.remove(0);
    assert!(led.stdout().contains("1 point measured") && led.stdout().contains("on each of 3 nodes"), "{led}");
    for (rank, followed) in (1..).zip(&ended) {
        assert!(followed.stdout().contains(&format!("node {rank} of 3 made ")), "{followed}");
        assert!(!cluster.nodes[rank].path("sensitivity").exists());
        let meeting = format!("{rank} of 3 at 127.0.0.1:{}, rank {rank} of 3\n", cluster.port);
        assert_eq!(cluster.nodes[rank].read("meeting"), meeting);
    }
    let profile = cluster.json("sensitivity/profile.json");
    assert_eq!(profile["hosts"].as_array().unwrap().len(), 3);
    let run = &profile["points"][0]["runs"][0];
    assert!(run["node"].as_str().unwrap().starts_with("node 1 ("), "{run}");
    let rate = |run: &Value| run["measured"]["rate"]["per_second"].as_f64().unwrap();
    let each: Vec<f64> = run["nodes"].as_array().unwrap().iter().map(rate).collect();
    assert!(rate(run) == each[1] && each[1] <= 25.0 && each[1] < each[0] && each[1] < each[2], "{each:?}");
    let shown = cluster.nodes[0].run("sensitivity sensitivity/profile.json").succeeds();
    assert!(shown.stdout().contains("on each of 3 nodes"), "{shown}");
    // Nothing is measured twice but what others disturbed, once, and nobody waits for those that have nothing to do.
    let runs = profile["points"][0]["runs"].as_array().unwrap();
    let sound = runs.iter().any(|run| run["outcome"]["what"] == "sound");
    let (measured, made) = if sound { ("0 points", "made 0 runs") } else { ("1 point", "made 1 run") };
    let again: Vec<Outcome> = cluster.start_all().into_iter().map(|node| self::ended(node).succeeds()).collect();
    assert!(again[0].stdout().contains(&format!("{measured} measured, 1 found")), "{}", again[0]);
    assert!(again[1].stdout().contains(made), "{}", again[1]);
}

#[test]
fn a_node_that_is_killed_ends_the_point_as_what_it_is() {
    let cluster = Cluster::new(2, "--point-time 60s --max-iterations 100000", STEPS);
    let mut nodes = cluster.start_all();
    let jobs = cluster.jobs(&mut nodes);
    let (follower, leader) = (nodes.pop().unwrap(), nodes.pop().unwrap());
    signal(&follower, Signal::SIGKILL);
    ended(leader).fails(5).says("node 1 (").says("is gone: ").says("start the same command on all nodes again");
    are_gone(&jobs);
    assert!(!cluster.nodes[0].path("sensitivity").exists(), "nothing is known of a point that one node lost");
    drop(ended(follower));
}

#[test]
fn a_leader_that_is_killed_ends_the_others() {
    let cluster = Cluster::new(2, "--point-time 60s --max-iterations 100000", STEPS);
    let mut nodes = cluster.start_all();
    let jobs = cluster.jobs(&mut nodes);
    let (follower, leader) = (nodes.pop().unwrap(), nodes.pop().unwrap());
    signal(&leader, Signal::SIGKILL);
    ended(follower).fails(5).says("node 0 is gone: ");
    are_gone(&jobs);
    drop(ended(leader));
}

#[test]
fn ctrl_c_on_either_side_is_reported_on_the_other() {
    for interrupted in [0, 1] {
        let cluster = Cluster::new(2, "--point-time 60s --max-iterations 100000", STEPS);
        let mut nodes = cluster.start_all();
        let jobs = cluster.jobs(&mut nodes);
        signal(&nodes[interrupted], Signal::SIGINT);
        let other = ended(nodes.remove(1 - interrupted)).fails(5).says("it was interrupted");
        other.says(if interrupted == 0 { "node 0 has ended" } else { "node 1 (" });
        ended(nodes.remove(0)).fails(130);
        are_gone(&jobs);
    }
}

/// A small convolutional network, its gradients averaged over all ranks in each step.
const TRAIN: &str = r#"
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
assert dist.get_world_size() == 2
torch.set_num_threads(1)
data = TensorDataset(torch.randn(4096, 3, 8, 8), torch.randint(0, 10, (4096,)))
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
net = DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(10**6):
    for images, labels in DataLoader(data, batch_size=16, sampler=DistributedSampler(data)):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(images), labels).backward()
        optimizer.step()
"#;

/// Two profilers, each with a torchrun of one process: their ranks meet by the options that the profilers give torchrun, over and over at the same
/// port, and no rank is reported to have failed because the other one was ended.
#[test]
fn two_profilers_with_torchrun_measure_the_same_steps() {
    let Some(python) = python() else { return };
    let cluster = Cluster::new(2, "--point-time 40s", TRAIN);
    let job = format!("{python} -m torch.distributed.run --nnodes 7 --nproc_per_node 1 --redirects 1 --tee 2 job.sh");
    let start = |rank: usize| {
        let mut command = cluster.nodes[rank].command();
        command.args(cluster.arguments(rank, &job)).env("GLOO_SOCKET_IFNAME", "lo");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let (leader, follower) = (start(0), start(1));
    ended(leader).succeeds();
    ended(follower).succeeds();
    let profile = cluster.json("sensitivity/profile.json");
    for run in profile["points"][0]["runs"].as_array().unwrap() {
        assert!(matches!(run["outcome"]["what"].as_str(), Some("sound" | "disturbed")), "{run}");
        let each = run["nodes"].as_array().unwrap();
        assert!(each.len() == 2 && each.iter().all(|run| run["way"] == "hook"), "{run}");
        let rate = |node: usize| each[node]["measured"]["rate"]["per_second"].as_f64().unwrap();
        // A step is over on both when it is on either; blocks are cut at other places.
        assert!((rate(0) / rate(1) - 1.0).abs() < 0.1, "{} and {}", rate(0), rate(1));
    }
}
