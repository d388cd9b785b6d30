//! `perf4sight sensitivity` with small jobs that run for real; what a search does with what they report is tested without waiting, with
//! simulated ones (`crates/sensitivity/tests/simulated.rs`).

use crate::conformance::python;
use crate::fixtures::{Outcome, Scene, within_patience};
use crate::program;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// Fifty iterations a second, whatever the CPUs.
const STEPS: &str = r#"i=0
while :; do
    i=$((i+1)); sleep 0.02
    echo "{\"step\": $i, \"time\": $(date +%s.%N), \"wait\": 0.005}" >> "$PERF4SIGHT_STEPS"
done
"#;

/// Both ends of a curve, each in a few seconds.
const SHORT: &str = "--cpu 1 --cpu-step 0.5 --warm-up 2 --point-time 4s";
/// The same, and no patience.
const HASTY: &str = "--cpu 1 --cpu-step 0.5 --warm-up 2 --point-time 2s";

fn scene(job: &str) -> Scene {
    Scene::new().file("job.sh", job)
}

fn sensitivity(scene: &Scene, options: &str) -> Outcome {
    scene.run(&format!("sensitivity {SHORT} {options} -- sh job.sh"))
}

fn json(scene: &Scene, name: &str) -> Value {
    serde_json::from_str(&scene.read(name)).unwrap()
}

#[test]
fn a_job_is_measured_by_the_lines_of_its_file_and_all_files_are_written() {
    let scene = scene(STEPS);
    let first = sensitivity(&scene, "").succeeds();
    assert!(first.stdout().contains("#SBATCH --cpus-per-task="), "{}", first.stdout());
    assert!(first.stdout().contains("0 found in sensitivity"), "{}", first.stdout());
    let profile = json(&scene, "sensitivity/profile.json");
    let points = profile["points"].as_array().unwrap();
    for measured in points.iter().map(|point| &point["runs"][0]["measured"]) {
        let rate = measured["rate"]["per_second"].as_f64().unwrap();
        assert!((5.0..50.0).contains(&rate), "a step of at least 20 ms: {measured}");
        assert!((0.02..0.25).contains(&measured["waiting"].as_f64().unwrap()), "5 ms of at least 20: {measured}");
    }
    assert_eq!(profile["points"][0]["runs"][0]["way"], "file");
    let rates = json(&scene, "sensitivity/published.json");
    assert!(rates.as_array().unwrap().len() == 3 && rates[0]["1"].as_f64().unwrap() > 0.02, "{rates}");
    let report = scene.read("sensitivity/report.html");
    assert!(report.contains("Rate over CPUs") && report.contains("job"), "{report}");
    for file in ["throughput.csv", "curve.csv", "matrix.csv"] {
        assert!(scene.read(&format!("sensitivity/{file}")).contains("cpus"), "{file}");
    }
}

/// A shell that is no terminal's starts background jobs with SIGINT ignored, and what it starts cannot trap it any more.
#[test]
fn a_job_of_a_profiler_in_the_background_is_interrupted_as_any_other() {
    let scene = scene(&format!("trap 'touch interrupted; exit' INT\n{STEPS}"));
    let line = format!("trap '' INT; exec \"$0\" sensitivity {SHORT} -- sh job.sh");
    let output = Command::new("sh").current_dir(scene.path("")).args(["-c", &line]).arg(program()).output().unwrap();
    Outcome::of("sensitivity in the background", output).succeeds();
    assert!(scene.path("interrupted").exists());
}

/// It goes on writing lines for as long as it is given to end; its clock is right nevertheless.
#[test]
fn a_job_that_ignores_the_interrupt_is_measured_until_then() {
    let scene = scene(&format!("trap '' INT\n{STEPS}"));
    let answer = sensitivity(&scene, "").succeeds();
    assert!(!answer.stderr().contains("not in seconds"), "{}", answer.stderr());
    let profile = json(&scene, "sensitivity/profile.json");
    for run in profile["points"].as_array().unwrap().iter().map(|point| &point["runs"][0]) {
        let [counted, passed] = [&run["measured"]["seconds"], &run["seconds"]].map(|seconds| seconds.as_f64().unwrap());
        assert!(counted <= passed, "{run}");
    }
}

#[test]
fn lines_of_output_tell_of_iterations_too_and_a_whole_run_at_last() {
    let scene = scene("for i in $(seq 300); do sleep 0.02; echo \"step $i\"; done\n");
    let arguments =
        ["sensitivity", "--cpu", "1", "--cpu-step", "1", "--step-pattern", r"^step (?<step>\d+)$", "--out", "lines"];
    let output = scene.command().args(arguments).args(["--", "sh", "job.sh"]).output().unwrap();
    Outcome::of("sensitivity --step-pattern", output).succeeds();
    assert_eq!(json(&scene, "lines/profile.json")["points"][0]["runs"][0]["way"], "output");
    let whole = scene.run("sensitivity --cpu 1 --cpu-step 1 --iterations 300 --out whole -- sh job.sh").succeeds();
    assert_eq!(json(&scene, "whole/profile.json")["points"][0]["runs"][0]["way"], "division");
    whole.says("starting up counts").prints("(not verified)");
    let curve = scene.read("whole/curve.csv");
    let cells: Vec<&str> = curve.lines().nth(1).unwrap().split(',').collect();
    assert_eq!(cells[2..4], ["", ""], "nobody knows how sure it is: {curve}");
}

#[test]
fn what_cannot_be_is_refused_before_anything_runs() {
    let scene = scene("touch it-ran\n").file("empty/.keep", "");
    let refused = |options: &str, code: i32, words: &str| {
        sensitivity(&scene, options).fails(code).says(words);
    };
    scene.run("sensitivity --cpu 100000 -- sh job.sh").fails(2).says("100000 CPUs");
    scene.run("sensitivity --cpu -1 -- sh job.sh").fails(2).says("\"-1\" is not a number, 0.01 or more");
    refused("--nnodes 2 --node_rank 2", 2, "node_rank 2 among 2 nodes");
    refused("--node_rank 1", 2, "node_rank 1 among 1 nodes");
    refused("--nnodes 2 --node_port 29500", 2, "node_port and master_port are both 29500");
    refused("--data nowhere", 6, "nowhere");
    refused("--data empty", 4, "there is no data in it");
    refused("--memory much", 2, "not an amount of memory");
    refused("--storage-bandwidth 500", 2, "not a bandwidth");
    scene.run("sensitivity --point-time 1s -- sh job.sh").fails(2).says("no rate is known after 1s");
    refused("--step-pattern (", 2, "not a regular expression");
    refused("--step-pattern (?<stap>[0-9]+)", 2, "one of step");
    // Two of the warm-up, and nine ends of iterations for eight intervals.
    refused("--max-iterations 10", 2, "11 at the least");
    scene.run("sensitivity nowhere.json").fails(6).says("perf4sight sensitivity -- python3 train.py");
    refused("--pass everything", 2, "\"everything\" is not batch or workers or max-iterations or data or none");
    scene.run("sensitivity").fails(2).says("there is no job");
    scene.run("sensitivity --cpu 1 -- no-such-program").fails(6).says("no-such-program");
    assert!(!scene.path("it-ran").exists() && !scene.path("sensitivity").exists());
}

/// A disk that is full refuses to write, as a limit on the size of files does.
#[test]
fn a_full_disk_is_told_before_anything_runs_and_nothing_is_left() {
    let scene = scene("touch it-ran\n");
    let line = format!("trap '' XFSZ; ulimit -f 1; exec \"$0\" sensitivity {HASTY} -- sh job.sh");
    let mut command = Command::new("sh");
    let output = command.current_dir(scene.path("")).args(["-c", &line]).arg(program()).output().unwrap();
    Outcome::of("sensitivity on a full disk", output).fails(6).says("keep points here").says("make room");
    assert!(!scene.path("it-ran").exists() && !scene.path("sensitivity").exists());
}

#[test]
fn daemons_end_with_their_job_and_one_that_wants_a_terminal_says_so() {
    let daemons = scene(&format!("setsid sleep 300 & echo $! >> daemons\n{STEPS}"));
    sensitivity(&daemons, "--budget 1s").succeeds();
    for daemon in daemons.read("daemons").lines() {
        let daemon = daemon.parse().unwrap();
        within_patience("the end of a daemon", || !crate::fixtures::runs(daemon));
    }
    let asking = scene("read answer < /dev/tty || exit 4\n");
    asking.run(&format!("sensitivity {HASTY} -- sh job.sh")).fails(5).says("exit code 4").says("/dev/tty");
    assert!(!asking.path("sensitivity").exists(), "nothing is left behind");
}

/// The job puts a pipe where its steps belong, and floods its standard error without ever ending a line.
#[test]
fn a_job_that_floods_and_leaves_a_pipe_for_its_steps_ends_in_time() {
    let scene = scene("rm -f \"$PERF4SIGHT_STEPS\"; mkfifo \"$PERF4SIGHT_STEPS\"; exec tr '\\0' x < /dev/zero >&2\n");
    let reply = scene.run(&format!("sensitivity {HASTY} -- sh job.sh")).fails(5);
    reply.says("its time was up after 2").says("no iteration was reported");
}

/// The client's own words, where no daemon runs.
const NO_DAEMON: &str = "#!/bin/sh
echo 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?' >&2
exit 1
";

#[test]
fn a_docker_client_without_a_daemon_is_told_in_its_words_and_nothing_is_left() {
    let scene = scene("touch it-ran\n").file("bin/docker", NO_DAEMON);
    fs::set_permissions(scene.path("bin/docker"), Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", scene.path("bin").display(), std::env::var("PATH").unwrap());
    let arguments = "sensitivity --cpu 1 --docker-img pytorch -- sh job.sh";
    let output = scene.command().env("PATH", path).args(arguments.split(' ')).output().unwrap();
    let reply = Outcome::of(arguments, output).fails(5);
    reply.says("docker cannot run the image: Cannot connect to the Docker daemon").says("start docker");
    assert!(!scene.path("it-ran").exists() && !scene.path("sensitivity").exists());
}

#[test]
fn of_two_profilers_one_waits_and_says_so() {
    let scene = scene(&format!("touch $OUT\n{STEPS}")).file("taken/report.html", "mine");
    let start = |out: &str| {
        let arguments = format!("sensitivity {SHORT} --out {out} -- sh job.sh");
        let mut command = scene.command();
        command
            .args(arguments.split(' '))
            .env("OUT", format!("{out}-ran"))
            .stderr(Stdio::piped())
            .stdout(Stdio::piped());
        command.spawn().unwrap()
    };
    let first = start("first");
    // Others may measure first, for as long as they like.
    while !scene.path("first-ran").exists() {
        thread::sleep(Duration::from_millis(20));
    }
    // What cannot be measured is refused at once.
    scene.run(&format!("sensitivity {SHORT} --out taken -- sh job.sh")).fails(2).says("taken/report.html");
    let second = start("second");
    thread::sleep(Duration::from_secs(1));
    let interrupted = |child: Child, words: &str| {
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
        Outcome::of(words, child.wait_with_output().unwrap()).fails(130)
    };
    interrupted(second, "the second").says("another measurement is running on this machine");
    interrupted(first, "the first");
    assert!(!scene.path("second-ran").exists() && !scene.path("second").exists(), "nothing is left behind");
}

#[test]
fn a_dry_run_says_what_would_run_and_runs_nothing() {
    let scene = scene("touch it-ran # --batch\n");
    let reply = sensitivity(&scene, "--dry-run -b 8 -j 3").succeeds();
    assert!(reply.stdout().contains("would run sh job.sh --batch 8\n"), "{}", reply.stdout());
    assert!(reply.stdout().contains("limits:\n  CPUs: "), "{}", reply.stdout());
    // What a real run would refuse at once.
    scene.run("sensitivity --dry-run -- no-such-program").fails(6).says("no-such-program").says("No such file");
    scene.run("sensitivity --dry-run -- ./").fails(6).says("Is a directory");
    scene.run("sensitivity --dry-run -- ./job.sh").fails(6).says("Permission denied").says("chmod +x");
    let reply = sensitivity(&scene, "--dry-run --budget 6s").succeeds();
    assert!(reply.stdout().contains("mostly in less than 6.00 s"), "{}", reply.stdout());
    assert!(reply.stdout().contains("ending after 6.00 s, the budget"), "{}", reply.stdout());
    sensitivity(&scene, "--dry-run --data nowhere").fails(6).says("nowhere");
    sensitivity(&scene, "--dry-run --out job.sh").fails(6).says("keep points here");
    scene.run("sensitivity --dry-run --cpu 100000 -- sh job.sh").fails(2).says("100000 CPUs");
    let reply = sensitivity(&scene, "--dry-run --budget 1s").succeeds();
    assert!(reply.stdout().contains("mostly in less than 5.00 s"), "{}", reply.stdout());
    let scene = scene.file("other/points.json", r#"{"format": 1, "job": "another", "points": []}"#);
    sensitivity(&scene, "--dry-run --out other").fails(2).says("those of another job");
    let scene = scene.file("config.ini", "[sensitivity]\ncommand = sh job.sh\ncpu = 100000\n");
    scene.run("--config-file config.ini --check").fails(3).says("100000 CPUs");
    // As many runs, and as long, as --dry-run says.
    let lines = "command = sh job.sh\ncpu = 1\ncpu_step = 0.25\npoint_time = 30s\n";
    let scene = scene.file("config.ini", format!("[sensitivity]\n{lines}"));
    let checked = scene.run("--config-file config.ini --check --json").succeeds().json();
    let dry = scene.run("sensitivity --cpu 1 --cpu-step 0.25 --point-time 30s --dry-run --json -- sh job.sh");
    let dry = dry.succeeds().json();
    assert_eq!((&checked["runs"], &checked["seconds"]), (&dry["points"][1], &120.into()), "{checked} {dry}");
    assert_eq!(dry["seconds_mostly_below"], 120.0, "four numbers of CPUs, 30 s each: {dry}");
    let scene = scene.file("config.ini", "[sensitivity]\ncommand = sh job.sh\nmemory = 1000000GiB\n");
    scene.run("--config-file config.ini --check").fails(3).says("of memory");
    let scene = scene.file("config.ini", "[sensitivity]\ncommand = no-such-program\n");
    scene.run("--config-file config.ini --check").fails(6).says("no-such-program");
    assert!(!scene.path("it-ran").exists() && !scene.path("sensitivity").exists());
}

#[test]
fn after_ctrl_c_what_was_finished_is_kept_and_the_job_is_gone() {
    let scene = scene(&format!("echo $$ > process\n{STEPS}"));
    let arguments = format!("sensitivity {SHORT} -- sh job.sh");
    let mut command = scene.command();
    let mut child = command.args(arguments.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Others may measure first, for as long as they like.
    while !scene.path("process").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before its job began");
        thread::sleep(Duration::from_millis(20));
    }
    // One that others disturbed is kept too, and is none that is finished.
    let finished = |text: String| !text.contains("\"points\": []");
    within_patience("a finished point", || {
        fs::read_to_string(scene.path("sensitivity/points.json")).is_ok_and(finished)
    });
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    let outcome = Outcome::of(&arguments, child.wait_with_output().unwrap()).fails(130);
    assert!(outcome.stdout().contains("goes on from there"), "{}", outcome.stdout());
    let job: i32 = scene.read("process").trim().parse().unwrap();
    within_patience("the end of the job", || !crate::fixtures::runs(job));
    let found = sensitivity(&scene, "").succeeds();
    assert!(!found.stdout().contains(" 0 found in"), "{}", found.stdout());
}

/// A profile by hand: one CPU makes 10 iterations a second, two make 20; storage takes 8 s for all data.
#[test]
fn a_profile_is_held_against_measured_epochs() {
    let point = |cpus: f64, rate: f64| {
        format!(
            r#"{{"cpus":{cpus},"memory":null,"runs":[{{"outcome":{{"what":"sound"}},"way":"file","measured":{{"rate":{{"per_second":{rate},"interval":[{rate},{rate}]}},"iterations":100,"seconds":10.0,"blocks":12,"waiting":null}},"seconds":10.0,"cpu_seconds":null,"throttled_seconds":null,"peak_memory":null,"bytes_read":null,"pressure":null}}]}}"#
        )
    };
    let profile = format!(
        r#"{{"format":1,"job":{{"name":"job","command":["job"],"gpus":0,"batch":1,"most_cpus":2.0,"memory":null,"data":null}},"host":{{}},"limits":[],"points":[{},{}],"knees":[],"oddities":[],"own_memory":null,"model":{{"iterations":100.0,"data":{{"bytes":8e8,"memory_bandwidth":1e12,"storage_bandwidth":1e8}},"cache":null,"overlap":{{"in_turn":0.0,"between":[0.0,0.0]}}}},"matrix":[],"request":null,"warnings":[],"provenance":{{"perf4sight":"0","date":"","complete":true}}}}"#,
        point(1.0, 10.0),
        point(2.0, 20.0)
    );
    let scene = Scene::new().file("profile.json", profile);
    let scene = scene.file("measured.csv", "cpus,memory_percent,epoch_seconds\n1,100,10\n2,0,10\n");
    let reply = scene.run("sensitivity --compare measured.csv profile.json").succeeds();
    // 10 s for 10; 8 s for 10 is 20 % too little.
    assert!(reply.stdout().contains("10.0 % off on average, at most 20.0 %; 1 of 2 epochs"), "{}", reply.stdout());
    // Three CPUs were never measured, and there is no more than all data to be found in memory.
    let scene = scene.file("measured.csv", "cpus,memory_percent,epoch_seconds\n1,130,10\n3,0,1\n2,0,10\n");
    let reply =
        scene.run("sensitivity --compare measured.csv profile.json").succeeds().says("1 of 3 rows, marked as beyond");
    assert!(reply.stdout().contains("10.0 % off on average, at most 20.0 %; 1 of 2 epochs"), "{}", reply.stdout());
    reply.says("1 of 3 rows have more memory than all data take");
    scene.run("sensitivity --cpu 4 profile.json").fails(2).says("--cpu").says("cannot be used with");
    let scene = scene.file("measured.csv", "cpus,memory_percent\n1,100\n");
    scene.run("sensitivity --compare measured.csv profile.json").fails(4).says("epoch_seconds");
    let scene = scene.file("measured.csv", "cpus,memory_percent,epoch_seconds\n1,100,soon\n");
    scene.run("sensitivity --compare measured.csv profile.json").fails(4).says("measured.csv:2").says("soon");
    let scene = scene.file("folder/profile.json", "");
    scene.run("sensitivity folder").fails(2).says("perf4sight sensitivity folder/profile.json");
    scene.run("sensitivity --compare measured.csv measured.csv").fails(4).says("not a profile of a job");
    // Whoever changes a profile is told: of numbers that nobody measures, and of what no longer follows.
    scene.run("sensitivity profile.json").succeeds().says("do not follow from its points");
    let text = scene.read("profile.json");
    for (number, other) in [
        ("\"per_second\":10", "\"per_second\":-10"),
        ("\"per_second\":10", "\"per_second\":99"),
        ("\"cpus\":1", "\"cpus\":0"),
        ("8e8", "-8e8"),
        ("\"knees\":[]", "\"knees\":[{\"share\":0.9,\"cpus\":-4,\"verified\":false,\"between\":[1,2]}]"),
        ("\"host\":{}", "\"hosts\":[]"),
    ] {
        let scene = Scene::new().file("profile.json", text.replacen(number, other, 1));
        scene.run("sensitivity profile.json").fails(4).says("profile.json").says("cannot");
    }
    let mut value: Value = serde_json::from_str(&text).unwrap();
    value["points"] = serde_json::json!([]);
    let scene = Scene::new().file("profile.json", value.to_string());
    scene.run("sensitivity profile.json").fails(4).says("cannot be without any point");
}

/// Batches take 10 ms to come, and as long to be learnt from.
const TRAIN: &str = r#"
import time, torch
from torch.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self):
        return 10**6
    def __getitem__(self, at):
        time.sleep(0.01)
        return torch.zeros(4)
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for batch in DataLoader(Slow()):
    optimizer.zero_grad()
    net(batch).sum().backward()
    time.sleep(0.01)
    optimizer.step()
"#;

#[test]
fn pytorch_tells_of_steps_and_of_waiting_by_itself() {
    let Some(python) = python() else { return };
    let scene = Scene::new().file("train.py", TRAIN);
    let options = "--cpu 1 --cpu-step 1 --point-time 20s";
    scene.run(&format!("sensitivity {options} -- {python} train.py")).succeeds();
    let profile = json(&scene, "sensitivity/profile.json");
    let run = &profile["points"][0]["runs"][0];
    assert_eq!(run["way"], "hook", "{run}");
    let waiting = run["measured"]["waiting"].as_f64().unwrap();
    assert!((0.3..0.7).contains(&waiting), "half of the time: {run}");
}

/// The same batches without a DataLoader: nothing measures how long the job waits for them.
#[test]
fn without_a_loader_of_pytorch_waiting_is_not_known() {
    let Some(python) = python() else { return };
    let train = TRAIN.replace("in DataLoader(Slow())", "in map(Slow().__getitem__, range(10**6))");
    let scene = Scene::new().file("train.py", train);
    let options = "--cpu 1 --cpu-step 1 --point-time 20s";
    let answer = scene.run(&format!("sensitivity {options} -- {python} train.py")).succeeds();
    assert!(!answer.stdout().contains("waits for data"), "{}", answer.stdout());
    let profile = json(&scene, "sensitivity/profile.json");
    let run = &profile["points"][0]["runs"][0];
    assert_eq!((&run["way"], &run["measured"]["waiting"]), (&Value::from("hook"), &Value::Null), "{run}");
}
