//! `perf4sight sensitivity` with small jobs: what it tells of them, what it keeps, and what it says of those that tell nothing.

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
fn a_job_that_waits_needs_the_fewest_cpus_and_points_are_never_measured_twice() {
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
    let again = sensitivity(&scene, "--json").succeeds();
    // A point that others disturbed is run once more, behind the runs that are kept.
    let again: Value = serde_json::from_str(again.stdout()).unwrap();
    for (kept, found) in points.iter().zip(again["points"].as_array().unwrap()) {
        let (kept, found) = (kept["runs"].as_array().unwrap(), found["runs"].as_array().unwrap());
        let sound = kept.iter().any(|run| run["outcome"]["what"] == "sound");
        assert_eq!((&found[..kept.len()], found.len()), (kept.as_slice(), kept.len() + usize::from(!sound)));
    }
    scene.run(&format!("sensitivity {SHORT} -- sh -x job.sh")).fails(2).says("those of another job");
    for otherwise in ["--storage-bandwidth 10MB", "--num-gpus 2"] {
        sensitivity(&scene, otherwise).fails(2).says("those of another job");
    }
}

/// A folder holds points of up to 1 CPU, and half of one is asked for: what happened at 1 CPU, out of memory or disturbed every time, is no part of
/// the answer, and is not run again.
#[test]
fn points_of_more_cpus_than_are_asked_for_are_neither_run_again_nor_told_of() {
    let mut scene = scene(STEPS);
    sensitivity(&scene, "").succeeds();
    let measured = json(&scene, "sensitivity/points.json");
    let kept = |cpus: &[f64], outcome: Value| {
        let mut kept = measured.clone();
        let points = kept["points"].as_array_mut().unwrap();
        points.retain(|point| cpus.contains(&point["cpus"].as_f64().unwrap()));
        for run in points
            .iter_mut()
            .filter(|point| point["cpus"] == 1.0)
            .flat_map(|point| point["runs"].as_array_mut().unwrap())
        {
            run["outcome"] = outcome.clone();
            if outcome["what"] == "out_of_memory" {
                run["measured"] = Value::Null;
            }
        }
        kept.to_string()
    };
    let half = "sensitivity --cpu 0.5 --cpu-step 0.5 --warm-up 2 --point-time 4s";
    let lacking = kept(&[1.0], serde_json::json!({"what": "out_of_memory"}));
    scene = scene.file("sensitivity/points.json", lacking);
    let told = scene.run(&format!("{half} -- sh job.sh")).succeeds();
    assert!(told.stdout().contains("1 point measured"), "{}", told.stdout());
    let disturbed = kept(&[0.5, 1.0], serde_json::json!({"what": "disturbed", "how": "others"}));
    let runs = |points: &Value| {
        let at = points["points"].as_array().unwrap().iter().find(|point| point["cpus"] == 1.0);
        at.unwrap()["runs"].as_array().unwrap().len()
    };
    scene = scene.file("sensitivity/points.json", disturbed);
    let told = scene.run(&format!("{half} --dry-run -- sh job.sh")).succeeds();
    assert!(told.stdout().contains("1 point of it lies in sensitivity"), "{}", told.stdout());
    scene.run(&format!("{half} -- sh job.sh")).succeeds();
    assert_eq!(runs(&json(&scene, "sensitivity/points.json")), runs(&measured));
    let profile = json(&scene, "sensitivity/profile.json");
    assert_eq!((&profile["request"]["cpus"], &profile["knees"][0]["cpus"]), (&0.5.into(), &0.5.into()));
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
fn jobs_that_tell_nothing_are_told_apart() {
    let of = |job: &str| scene(job).run(&format!("sensitivity {HASTY} -- sh job.sh"));
    of("echo so far; exit 0\n").fails(5).says("it ended by itself").says("no iteration was told").says("so far");
    of("sleep 60\n").fails(5).says("its time was up").says("PERF4SIGHT_STEPS");
    of("echo '{\"step\": 1, \"time\": 1}' >> \"$PERF4SIGHT_STEPS\"; sleep 60\n")
        .fails(5)
        .says("iterations that were told: 1,")
        .says("--point-time");
    of("for i in 3 2 1; do echo '{\"step\": 1, \"time\": '$i'}' >> \"$PERF4SIGHT_STEPS\"; done; sleep 60\n")
        .fails(5)
        .says("2 tell of a time no later than")
        .says("later than that of the line before");
    of("echo out of reach >&2; exit 3\n").fails(5).says("exit code 3").says("out of reach");
    of("head -c 100000 /dev/urandom >> \"$PERF4SIGHT_STEPS\"; sleep 60\n").fails(5).says("are none");
    let scene = scene("");
    scene.run("sensitivity --cpu 1 -- no-such-program").fails(6).says("no-such-program");
    assert!(!scene.path("sensitivity").exists(), "nothing is left behind");
}

#[test]
fn a_point_that_crashed_shows_what_its_job_wrote_last() {
    let scene = scene(&format!("[ ! -e once ] || {{ echo out of reach >&2; exit 3; }}\ntouch once\n{STEPS}"));
    let told = sensitivity(&scene, "").succeeds().says("with 0.5 CPUs: failed: it ended with exit code 3");
    told.says("its last lines:\n    out of reach");
}

#[test]
fn what_cannot_be_is_refused_before_anything_runs() {
    let scene = scene("touch it-ran\n").file("empty/.keep", "");
    let refused = |options: &str, code: i32, words: &str| {
        sensitivity(&scene, options).fails(code).says(words);
    };
    scene.run("sensitivity --cpu 100000 -- sh job.sh").fails(2).says("100000 CPUs");
    scene.run("sensitivity --cpu -1 -- sh job.sh").fails(2).says("cannot be given to a job");
    refused("--nnodes 2 --node_rank 2", 2, "node_rank 2 among 2 nodes");
    refused("--node_rank 1", 2, "node_rank 1 among 1 nodes");
    refused("--nnodes 2 --node_port 29500", 2, "node_port and master_port are both 29500");
    refused("--data nowhere", 6, "nowhere");
    refused("--data empty", 4, "there is no data in it");
    refused("--memory much", 2, "not an amount of memory");
    refused("--storage-bandwidth 500", 2, "no bandwidth");
    scene.run("sensitivity --point-time 1s -- sh job.sh").fails(2).says("no rate is known after 1s");
    refused("--step-pattern (", 2, "no regular expression");
    refused("--pass everything", 2, "nothing that is passed");
    scene.run("sensitivity").fails(2).says("there is no job");
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
    let told = Outcome::of(arguments, output).fails(5);
    told.says("docker cannot run the image: Cannot connect to the Docker daemon").says("start docker");
    assert!(!scene.path("it-ran").exists() && !scene.path("sensitivity").exists());
}

#[test]
fn of_two_profilers_one_waits_and_says_so() {
    let scene = scene(&format!("touch $OUT\n{STEPS}"));
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
    let told = sensitivity(&scene, "--dry-run -b 8 -j 3").succeeds();
    assert!(told.stdout().contains("would run sh job.sh --batch 8\n"), "{}", told.stdout());
    assert!(told.stdout().contains("limits:\n  CPUs: "), "{}", told.stdout());
    // What a real run would refuse at once.
    scene.run("sensitivity --dry-run -- no-such-program").fails(6).says("no-such-program").says("No such file");
    scene.run("sensitivity --dry-run -- ./").fails(6).says("Is a directory");
    scene.run("sensitivity --dry-run -- ./job.sh").fails(6).says("Permission denied").says("chmod +x");
    let told = sensitivity(&scene, "--dry-run --budget 6s").succeeds();
    assert!(told.stdout().contains("mostly in less than 6.00 s"), "{}", told.stdout());
    assert!(told.stdout().contains("ending after 6.00 s, the budget"), "{}", told.stdout());
    sensitivity(&scene, "--dry-run --data nowhere").fails(6).says("nowhere");
    sensitivity(&scene, "--dry-run --out job.sh").fails(6).says("keep points here");
    scene.run("sensitivity --dry-run --cpu 100000 -- sh job.sh").fails(2).says("100000 CPUs");
    let scene = scene.file("other/points.json", r#"{"format": 1, "job": "another", "points": []}"#);
    sensitivity(&scene, "--dry-run --out other").fails(2).says("those of another job");
    let scene = scene.file("config.ini", "[sensitivity]\ncommand = sh job.sh\ncpu = 100000\n");
    scene.run("--config-file config.ini --check").fails(3).says("100000 CPUs");
    let scene = scene.file("config.ini", "[sensitivity]\ncommand = no-such-program\n");
    scene.run("--config-file config.ini --check").fails(6).says("no-such-program");
    assert!(!scene.path("it-ran").exists() && !scene.path("sensitivity").exists());
}

/// A profile that was measured, one part of which somebody changed: each time it is said which.
#[test]
fn whoever_changes_what_follows_from_points_is_told_what() {
    let scene = scene(STEPS).file("data/one", "1").file("data/two", "2");
    sensitivity(&scene, "--data data -b 1 --storage-bandwidth 1MB").succeeds();
    let measured = json(&scene, "sensitivity/profile.json");
    let shown = scene.run("sensitivity sensitivity/profile.json").succeeds();
    assert!(!shown.stderr().contains("does not follow"), "{}", shown.stderr());
    let change = |part: &str, change: &dyn Fn(&mut Value)| {
        let mut changed = measured.clone();
        change(&mut changed);
        let scene = Scene::new().file("profile.json", changed.to_string());
        scene.run("sensitivity profile.json").succeeds().says(&format!("does not follow from its points ({part}"));
    };
    change("own_memory", &|profile| profile["own_memory"] = 1.into());
    change("request", &|profile| profile["request"]["memory"] = 7.into());
    change("request", &|profile| profile["request"]["slurm"] = "#SBATCH --mem=1M".into());
    change("matrix", &|profile| profile["matrix"][3]["seconds"]["most"] = 1e9.into());
    change("matrix", &|profile| profile["matrix"][3]["bound"] = "cpu".into());
    change("matrix", &|profile| profile["matrix"][3]["storage_needed"]["least"] = 7.into());
    change("storage_matrix", &|profile| profile["storage_matrix"][0]["storage_bandwidth"] = 7.into());
    change("knees", &|profile| profile["knees"][0]["cpus"] = 0.75.into());
    change("knees", &|profile| profile["knees"][0]["between"] = serde_json::json!([0.25, 4.0]));
    // A profile that was written before lines said what is not verified.
    let mut older = measured.clone();
    for lines in ["kubernetes", "slurm", "docker"] {
        let line = older["request"][lines].as_str().unwrap();
        let line = line.lines().filter(|line| !line.starts_with("# ")).collect::<Vec<_>>().join("\n");
        older["request"][lines] = line.into();
    }
    older["job"]["cpu_step"] = Value::Null;
    let older = Scene::new().file("profile.json", older.to_string());
    let told = older.run("sensitivity profile.json").succeeds();
    assert!(!told.stderr().contains("does not follow"), "{}", told.stderr());
}

#[test]
fn a_pattern_that_matches_nothing_is_told_and_what_is_no_text_is_not_shown() {
    let scene = scene("head -c 4000 /dev/urandom; echo; echo iteration 1; sleep 60\n");
    let told = scene.run(&format!("sensitivity {HASTY} --step-pattern step -- sh job.sh")).fails(5);
    let told = told.says("none matches \"step\"").says("a pattern is looked for in each line").says("that are no text");
    assert!(told.stderr().len() < 3000, "{}", told.stderr());
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

#[test]
fn a_budget_ends_it_and_says_what_is_not_verified() {
    let scene = scene(STEPS);
    let told = sensitivity(&scene, "--budget 1s").succeeds().says("the time was up");
    assert!(told.stdout().contains("not verified") && told.stdout().contains("1 point measured"), "{}", told.stdout());
    let scene = self::scene(STEPS);
    sensitivity(&scene, "--budget 1us").fails(5).says("before any point was measured");
    assert!(!scene.path("sensitivity").exists(), "nothing is left behind");
}

/// Runs have a minute, and the budget is spent before the first of them.
#[test]
fn a_budget_bounds_the_first_run_too() {
    let scene = scene("date +%s >> began; exec sleep 1000\n");
    let told = scene.run("sensitivity --cpu 1 --cpu-step 1 --budget 5s -- sh job.sh").fails(5);
    told.says("its time was up after 5").says("no iteration was told");
}

#[test]
fn a_first_point_that_ran_out_of_memory_is_kept_and_not_run_again() {
    let scene = scene("echo >> began; exec tail -c 400000000 /dev/zero\n");
    let run = || scene.run(&format!("sensitivity {HASTY} --memory 100MB -- sh job.sh")).fails(5);
    let told = run();
    if !told.stderr().contains("ran out of memory") {
        println!("not measured: nothing here limits memory");
        return;
    }
    assert_eq!(json(&scene, "sensitivity/points.json")["points"][0]["runs"][0]["outcome"]["what"], "out_of_memory");
    run().says("ran out of memory").says("--overwrite");
    assert_eq!(scene.read("began").lines().count(), 1, "a finished point never runs twice");
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
    let told = scene.run("sensitivity --compare measured.csv profile.json").succeeds();
    // 10 s for 10; 8 s for 10 is 20 % too little.
    assert!(told.stdout().contains("10.0 % off on average, at most 20.0 %; 1 of 2 epochs"), "{}", told.stdout());
    // Three CPUs were never measured, and there is no more than all data to be found in memory.
    let scene = scene.file("measured.csv", "cpus,memory_percent,epoch_seconds\n1,130,10\n3,0,1\n2,0,10\n");
    let told =
        scene.run("sensitivity --compare measured.csv profile.json").succeeds().says("1 of 3 rows, marked as beyond");
    assert!(told.stdout().contains("10.0 % off on average, at most 20.0 %; 1 of 2 epochs"), "{}", told.stdout());
    told.says("taken as 100 % in 1 of 3 rows");
    scene.run("sensitivity --cpu 4 profile.json").fails(2).says("--cpu").says("cannot be used with");
    let scene = scene.file("measured.csv", "cpus,memory_percent\n1,100\n");
    scene.run("sensitivity --compare measured.csv profile.json").fails(4).says("epoch_seconds");
    let scene = scene.file("measured.csv", "cpus,memory_percent,epoch_seconds\n1,100,soon\n");
    scene.run("sensitivity --compare measured.csv profile.json").fails(4).says("measured.csv:2").says("soon");
    scene.run("sensitivity --compare measured.csv measured.csv").fails(4).says("no profile of a job");
    // Whoever changes a profile is told: of numbers that nobody measures, and of what no longer follows.
    scene.run("sensitivity profile.json").succeeds().says("does not follow from its points");
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

/// A job that reads a file of 600 KB, and then computes for 0.2 s and what a shell takes: long enough for limits on storage, which even out
/// over 0.1 s.
const READER: &str = r#"i=0
while :; do
    for file in data/*; do
        i=$((i+1)); cat "$file" > /dev/null; sleep 0.2
        echo "{\"step\": $i, \"time\": $(date +%s.%N)}" >> "$PERF4SIGHT_STEPS"
    done
done
"#;

/// Where reading alone takes as long as computing, an epoch of a job that reads nothing ahead takes twice as long as either.
#[test]
fn storage_that_is_held_back_tells_that_a_job_reads_nothing_ahead() {
    let files = (0..40).map(|number| format!("data/{number:03}"));
    let scene =
        files.fold(Scene::in_target().file("job.sh", READER), |scene, file| scene.file(&file, vec![7; 600_000]));
    scene.run("sensitivity --cpu 1 --cpu-step 1 --warm-up 1 --data data -b 1 -- sh job.sh").succeeds();
    let profile = json(&scene, "sensitivity/profile.json");
    if profile["limits"][2]["by"].is_null() {
        println!("not measured: nothing here limits storage");
        assert!(profile["warnings"].to_string().contains("storage cannot be limited here"), "{}", profile["warnings"]);
        return;
    }
    let throttled = profile["throttled"].as_array().unwrap();
    let number = |held: &Value, name: &str| held[name].as_f64().unwrap();
    let slower = throttled.iter().map(|held| number(held, "seconds") / number(held, "side_by_side"));
    let slower: Vec<f64> = slower.collect();
    // 1 + 1 for 1, and 1 + 2 for 2.
    assert!(slower.len() == 2 && (1.6..2.4).contains(&slower[0]) && (1.3..1.7).contains(&slower[1]), "{throttled:?}");
    assert!(profile["model"]["overlap"]["in_turn"].as_f64().unwrap() > 0.65, "{}", profile["model"]);
    assert!(number(&throttled[0], "storage_bandwidth") / number(&throttled[1], "storage_bandwidth") > 1.99);
    assert!(scene.read("sensitivity/storage.csv").lines().count() == 67 && !profile["storage_matrix"][0].is_null());
    assert!(scene.read("sensitivity/report.html").contains("Epochs over storage and memory"));
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
