//! `perf4sight sensitivity --nnodes`: several profilers on the loopback, what they measure together, and what each says when another one
//! fails. On one machine they see each other's jobs as other programs, so that points may be marked as disturbed.

use crate::conformance::python;
use crate::fixtures::{Outcome, Scene, runs, within_patience};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

/// Each node tells where it was told to meet, and steps at its own pace: node 1 at most every 40 ms, the others every 20.
const STEPS: &str = r#"echo $$ > process
echo "$NODE_RANK of $NNODES at $MASTER_ADDR:$MASTER_PORT, rank $RANK of $WORLD_SIZE" > told
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

    fn arguments(&self, rank: usize, more: &str) -> Vec<String> {
        let (count, port) = (self.nodes.len(), self.port);
        let nodes = format!("--nnodes {count} --node_rank {rank} --master_addr 127.0.0.1 --master_port {port}");
        let job = if more.contains(" -- ") { "" } else { "-- sh job.sh" };
        let all = format!("sensitivity --cpu 1 --cpu-step 1 --warm-up 2 {} {nodes} {more} {job}", self.options);
        all.split_whitespace().map(str::to_owned).collect()
    }

    /// Starts a node; `more` may end with another job.
    fn start(&self, rank: usize, more: &str) -> Child {
        let mut command = self.nodes[rank.min(self.nodes.len() - 1)].command();
        command.args(self.arguments(rank, more)).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Starts the node that leads, and waits until it says this; the rest is found in the file.
    fn lead(&self, says: &str) -> (Child, PathBuf) {
        let said = self.nodes[0].path("said");
        let mut command = self.nodes[0].command();
        command.args(self.arguments(0, "")).stdout(Stdio::piped()).stderr(File::create(&said).unwrap());
        let leader = command.spawn().unwrap();
        within_patience(says, || fs::read_to_string(&said).is_ok_and(|text| text.contains(says)));
        (leader, said)
    }

    /// All nodes, the first of which leads.
    fn start_all(&self) -> Vec<Child> {
        (0..self.nodes.len()).map(|rank| self.start(rank, "")).collect()
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.nodes[0].read(name)).unwrap()
    }

    /// Waits for the job of each node, however long others measure before, and tells their processes.
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
        let told = format!("{rank} of 3 at 127.0.0.1:{}, rank {rank} of 3\n", cluster.port);
        assert_eq!(cluster.nodes[rank].read("told"), told);
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
fn ctrl_c_on_either_side_is_told_on_the_other() {
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

#[test]
fn a_job_that_fails_on_one_node_fails_there() {
    let job = "[ \"$NODE_RANK\" != 1 ] || { sleep 1; echo the disc is full >&2; exit 3; }\n".to_owned() + STEPS;
    let cluster = Cluster::new(2, "--point-time 60s", &job);
    let mut nodes = cluster.start_all();
    let follower = ended(nodes.pop().unwrap()).fails(5).says("node 0 has ended").says("exit code 3");
    let leader = ended(nodes.pop().unwrap()).fails(5).says("exit code 3 on node 1 (").says("the disc is full");
    assert!(!leader.stderr().contains("on node 0"), "its job was ended, and did not fail: {leader}\n{follower}");
}

#[test]
fn memory_that_runs_out_on_one_node_runs_out_there() {
    let job = "[ \"$NODE_RANK\" != 1 ] || { sleep 1; tail /dev/zero > /dev/null; exit 1; }\n".to_owned() + STEPS;
    let cluster = Cluster::new(2, "--point-time 60s --memory 64MiB", &job);
    let limits = cluster.nodes[0].run("sensitivity --dry-run -- sh job.sh").succeeds();
    if !limits.stdout().contains("  memory: control group") {
        eprintln!("skipped: this test fills memory, and no control group here would stop it");
        return;
    }
    let mut nodes = cluster.start_all();
    let follower = ended(nodes.pop().unwrap()).fails(5).says("node 0 has ended: ");
    ended(nodes.pop().unwrap()).fails(5).says("the job ran out of memory on node 1 (");
    follower.says("ran out of memory on node 1 (");
}

#[test]
fn whoever_does_not_belong_here_is_turned_away_on_both_sides() {
    let cluster = Cluster::new(3, "--point-time 60s --node_wait 30s", STEPS);
    let first = cluster.start(1, "");
    let (leader, said) = cluster.lead("node 1 (");
    let refused = |rank: usize, more: &str| ended(cluster.start(rank, more)).fails(5).says("has turned this node away");
    refused(1, "").says("has this node_rank already");
    refused(2, "-b 7").says("--batch is 7 there and none on node 0");
    refused(2, " -- sh other.sh").says("command is sh other.sh there and sh job.sh on node 0");
    // What is no profiler at all, and one of another version.
    let says = |line: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", cluster.port + 1)).unwrap();
        writeln!(stream, "{line}").unwrap();
        let lines = BufReader::new(stream).lines();
        lines.map(Result::unwrap).find(|line| !line.is_empty()).unwrap()
    };
    assert!(says("GET / HTTP/1.1").contains("no message"));
    let newer = says("{\"what\": \"hello\", \"perf4sight\": \"9.9.9\", \"secret\": 1}");
    assert!(newer.contains("it is perf4sight 9.9.9, and node 0 perf4sight"), "{newer}");
    ended(leader).fails(5);
    let told = fs::read_to_string(said).unwrap();
    let error = told.split_once("error: node_rank 2 of 3 nodes did not come within 30s").expect(&told).1;
    assert!(["other.sh", "perf4sight 9.9.9", "--node_rank 2"].iter().all(|word| error.contains(word)), "{told}");
    ended(first).fails(5).says("node 0 is gone");
}

#[test]
fn a_node_that_cannot_take_part_says_why_on_both_sides() {
    let cluster = Cluster::new(2, "--point-time 4s --data data", STEPS);
    fs::create_dir(cluster.nodes[0].path("data")).unwrap();
    fs::write(cluster.nodes[0].path("data/sample"), "1").unwrap();
    let (leader, said) = cluster.lead("waiting at");
    ended(cluster.start(1, "")).fails(6).says("data: cannot look at the data");
    ended(leader).fails(5);
    let told = fs::read_to_string(said).unwrap();
    assert!(told.contains("error: node 1 (") && told.contains("data: cannot look at the data"), "{told}");
}

#[test]
fn whoever_nobody_waits_for_says_so_and_a_dry_run_waits_for_nobody() {
    let cluster = Cluster::new(2, "--point-time 4s --node_wait 500ms", STEPS);
    ended(cluster.start(1, "")).fails(5).says("waiting for node 0").says("node 0 was not reached at 127.0.0.1:");
    ended(cluster.start(0, "")).fails(5).says("node_rank 1 of 2 nodes did not come within 500ms");
    let told = ended(cluster.start(1, "--dry-run")).succeeds();
    assert!(told.stdout().contains("as node 1 of 2 this one follows node 0 at 127.0.0.1:"), "{told}");
    let _taken = TcpListener::bind(("127.0.0.1", cluster.port + 1)).unwrap();
    ended(cluster.start(0, "")).fails(5).says("cannot be waited for at port").says("node_port");
    assert!(cluster.nodes.iter().all(|scene| !scene.path("sensitivity").exists()));
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

/// Two profilers, each with a torchrun of one process: their ranks meet by what the profilers tell torchrun, over and over at the same
/// port, and no rank is told to have failed because the other one was ended.
#[test]
fn two_profilers_with_torchrun_measure_the_same_steps() {
    let Some(python) = python() else { return };
    let cluster = Cluster::new(2, "--point-time 40s", TRAIN);
    let job =
        format!(" -- {python} -m torch.distributed.run --nnodes 7 --nproc_per_node 1 --redirects 1 --tee 2 job.sh");
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
