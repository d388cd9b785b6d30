//! Sweeps on Slurm, against a real cluster on the loopback. Packages: slurm-wlm and munge; without them these tests say
//! that they were skipped.

use crate::fixtures::{Outcome, Scene};
use crate::slurm_cluster::{ARRAY_SIZE, Cluster, comes_about};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use perf4sight_network::zoo::{self, Dataset};
use perf4sight_onnx as onnx;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Simulated, so that rows are exact; with a limit that some configurations do not fit.
const SIMULATED: &str = "[profile]\ndevice= simulated\nmem_limit= 512\ndataset= imagenet\nlocal_model_loc= nets\n\
                         network= ['resnet18', 'squeezenet']\nbs= [1, 2, 4, 8, 16]\nstage= ['training', 'inference']\n\
                         [slurm]\npartition= orin\ntasks= 3\n";

fn networks(scene: Scene) -> Scene {
    let bytes = |name| onnx::to_bytes(&zoo::build(name, Dataset::Imagenet).unwrap());
    let names = ["resnet18_0", "resnet18_30", "resnet18_50", "squeezenet_0", "squeezenet_50", "squeezenet_70"];
    names
        .iter()
        .fold(scene, |scene, name| scene.file(&format!("nets/{name}.onnx"), bytes(name.split('_').next().unwrap())))
}

/// A program that measures for half a second and says so in one line of `measured`.
fn slow(more: &str) -> Scene {
    let about = crate::workers::TX2;
    let script = format!(
        "case \"$*\" in *--about*) echo '{about}';; *) read request; echo \"$request\" >> measured; sleep 0.3; echo '{}';; esac",
        crate::workers::MEASURED
    );
    let config = format!(
        "[profile]\ndevice= tx2\nworker= sh worker.sh\ndataset= imagenet\nlocal_model_loc= nets\n\
         network= ['resnet18', 'squeezenet']\nbs= [1, 2, 3, 4]\n[slurm]\ntasks= 3\n{more}"
    );
    networks(Scene::new()).file("worker.sh", script).file("config.ini", config)
}

/// The rows of a profile below this folder: one string each, sorted.
fn rows(log_dir: &Path) -> Vec<String> {
    let files =
        ["latency", "memory"].iter().flat_map(|name| fs::read_dir(log_dir.join(name)).into_iter().flatten().flatten());
    // A file that is being written has another name for a moment.
    let files = files.filter(|file| file.path().extension().is_some_and(|extension| extension == "csv"));
    let mut rows: Vec<String> = files
        .flat_map(|file| {
            fs::read_to_string(file.path()).unwrap().lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    rows.sort();
    rows
}

/// The rows as (variant, stage, variable, batch), which is what a row is about; columns by name.
fn identities(log_dir: &Path) -> (usize, usize) {
    let mut all = Vec::new();
    for name in ["latency", "memory"] {
        for file in fs::read_dir(log_dir.join(name)).into_iter().flatten().flatten() {
            let text = fs::read_to_string(file.path()).unwrap();
            let header: Vec<&str> = text.lines().next().unwrap().split('|').collect();
            let at = |column: &str| header.iter().position(|name| *name == column).unwrap();
            let about = ["test_var", "bs", "model", "stage"].map(at);
            for line in text.lines().skip(1) {
                let cells: Vec<&str> = line.split('|').collect();
                all.push(about.map(|at| cells[at].to_owned()));
            }
        }
    }
    (all.len(), all.into_iter().collect::<BTreeSet<_>>().len())
}

#[test]
fn a_sweep_on_three_boards_equals_one_on_this_machine_row_by_row() {
    let scene = networks(Scene::new()).file("config.ini", SIMULATED);
    let Some(cluster) = Cluster::start(&scene) else { return };
    scene.run("--config-file config.ini --set profile.device_name=local").succeeds();
    let local = rows(&scene.path("profiling_csvs/local/imagenet"));
    assert!(local.iter().any(|row| row.ends_with("skipped")) && local.len() == 120, "{} rows", local.len());
    cluster.run(&scene, "--config-file config.ini --slurm").succeeds().says("in 3 tasks").prints("120 rows");
    assert_eq!(rows(&scene.path("profiling_csvs/simulated/imagenet")), local);
    let nodes: BTreeSet<String> = (0..3).map(|task| note(&scene, task)["node"].as_str().unwrap().to_owned()).collect();
    assert!(nodes.iter().all(|node| node.starts_with("board")), "{nodes:?}");
    // Nothing is missing, so nothing is submitted.
    let again = cluster.run(&scene, "--config-file config.ini --slurm").succeeds();
    assert!(!again.stderr().contains("submitted"), "{again}");
    assert!(!scene.path("profiling_csvs/simulated/imagenet/slurm/2").exists());
    // More tasks than an array may have.
    let seven = "--config-file config.ini --slurm --set slurm.chunks=7 --set profile.device_name=seven";
    let words = cluster.run(&scene, seven).succeeds();
    assert!(7 > ARRAY_SIZE && words.stderr().contains("in 7 tasks as job"), "{words}");
    assert_eq!(rows(&scene.path("profiling_csvs/seven/imagenet")), local);
    hostile_words_stay_words(&scene, &cluster, &local);
    shown_and_left(&scene, &cluster, &local);
    rounds_and_removed_networks(&scene, &cluster);
}

/// Rounds in tasks of their own are measured once each; a network that the configuration no longer names keeps its rows.
fn rounds_and_removed_networks(scene: &Scene, cluster: &Cluster) {
    let twice = "--config-file config.ini --set profile.bs=[1,2] --set profile.repeats=2 --set profile.device_name=";
    scene.run(&format!("{twice}here")).succeeds();
    let here = rows(&scene.path("profiling_csvs/here/imagenet"));
    cluster.run(scene, &format!("{twice}there --set profile.repeats=1 --slurm")).succeeds();
    cluster.run(scene, &format!("{twice}there --set slurm.chunks=12 --slurm --detach")).succeeds();
    cluster.run(scene, &format!("{twice}there --set profile.network=['resnet18'] --slurm")).succeeds();
    // The noise of a simulated visit goes by the number of those before it in its folder.
    assert_eq!(rows(&scene.path("profiling_csvs/there/imagenet")).len(), here.len());
    cluster.run(scene, &format!("{twice}both --set slurm.chunks=12 --slurm")).succeeds();
    assert_eq!(rows(&scene.path("profiling_csvs/both/imagenet")), here);
    edited_while_it_runs(scene, cluster);
}

/// What the configuration asks for beyond a run that is under way waits for it; rows of a network whose file is gone are rows.
fn edited_while_it_runs(scene: &Scene, cluster: &Cluster) {
    let edited = "--config-file config.ini --slurm --set profile.bs=[1,2] --set profile.device_name=edited";
    cluster.run(scene, &format!("{edited} --set profile.profile_variables=['latency'] --detach")).succeeds();
    cluster.run(scene, edited).succeeds();
    let log_dir = scene.path("profiling_csvs/edited/imagenet");
    // 6 networks, 2 stages, 2 batches, 2 variables.
    assert_eq!(identities(&log_dir), (48, 48));
    let gone = edited.replace("=edited", "=gone");
    let mut command = cluster.command(scene, &format!("{gone} --detach"));
    let output = command.args(["--set", "slurm.prologue=['case $3 in slurm-merge) exit 1;; esac']"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    comes_about("the end of all jobs", || cluster.is_idle());
    fs::rename(scene.path("nets/squeezenet_70.onnx"), scene.path("squeezenet_70.onnx")).unwrap();
    cluster.run(scene, &gone).succeeds();
    assert_eq!(identities(&scene.path("profiling_csvs/gone/imagenet")), (48, 48));
    fs::rename(scene.path("squeezenet_70.onnx"), scene.path("nets/squeezenet_70.onnx")).unwrap();
}

fn run_name(run: &Path) -> String {
    let run: serde_json::Value = serde_json::from_str(&fs::read_to_string(run).unwrap()).unwrap();
    run["name"].as_str().unwrap().to_owned()
}

fn note(scene: &Scene, task: usize) -> serde_json::Value {
    let file = format!("profiling_csvs/simulated/imagenet/slurm/1/task-{task}.json");
    serde_json::from_str(&scene.read(&file)).unwrap()
}

/// Names that a shell, Slurm or sbatch's own options would take for something else.
fn hostile_words_stay_words(scene: &Scene, cluster: &Cluster, local: &[String]) {
    let name = "a $(touch pwned) 'b' %j ;x";
    let mut command = cluster.command(scene, "--config-file config.ini --slurm");
    // Filters of Slurm's commands, and a folder that is no run.
    command.envs([("SQUEUE_STATES", "RUNNING"), ("SBATCH_WAIT", "1"), ("SCANCEL_STATE", "SUSPENDED")]);
    fs::create_dir_all(scene.path(&format!("profiling_csvs/{name}/imagenet/slurm/18446744073709551615"))).unwrap();
    let output = command.args(["--set", &format!("profile.device_name=\"{name}\"")]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(rows(&scene.path(&format!("profiling_csvs/{name}/imagenet"))), local);
    assert!(!scene.path("pwned").exists());
    for (key, word, problem) in [
        ("partition", "\"orin;touch pwned\"", "there is no partition \"orin;touch pwned\""),
        ("partition", "orim", "did you mean \"orin\"?"),
        ("licence", "\"tx2 $(touch pwned)\"", "invalid license"),
        ("extra", "['pwned.sh']", "is not an option of sbatch"),
        ("extra", "['--constraint=none']", "invalid feature"),
        ("extra", "['--wait']", "keep sbatch from submitting"),
        ("extra", "['-p short']", "invalid partition"),
        ("extra", "['--nodelist=board9']", "sinfo -n lists them"),
        ("time", "60s", "leaves a task no time"),
        ("exclusive", "False", "nothing would keep other work away"),
    ] {
        let mut command = cluster.command(scene, "--config-file config.ini --slurm --set profile.device_name=refused");
        let output = command.args(["--set", &format!("slurm.{key}={word}")]).output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr).to_lowercase();
        assert!(!output.status.success() && words.contains(&problem.to_lowercase()), "{key} {word}: {words}");
    }
    assert!(!scene.path("pwned").exists() && cluster.is_idle());
}

fn shown_and_left(scene: &Scene, cluster: &Cluster, local: &[String]) {
    let other = "--config-file config.ini --set profile.device_name=left --slurm";
    let shown = cluster.run(scene, &format!("{other} --print-script")).succeeds();
    shown.prints("--array=0-2%3").prints("--signal=B:TERM@120").prints("nothing was submitted");
    assert!(cluster.is_idle() && !scene.path("profiling_csvs/left/imagenet/slurm").exists());
    cluster.run(scene, &format!("{other} --detach")).succeeds().prints("tasks: ");
    comes_about("the merged rows", || rows(&scene.path("profiling_csvs/left/imagenet")).len() == local.len());
    let merged = cluster.run(scene, &format!("{other} --detach")).succeeds();
    assert!(!merged.stderr().contains("submitted"), "{merged}");
    assert_eq!(rows(&scene.path("profiling_csvs/left/imagenet")), local);
    // Nobody waits for tasks that fail: the next command says so, and submits them again.
    let broken = || {
        let mut command = cluster.command(scene, "--config-file config.ini --slurm --detach");
        command.args(["--set", "profile.device_name=broken"]);
        command.args(["--set", "slurm.prologue=['case $3 in slurm-task) exit 7;; esac']"]);
        Outcome::of("broken", command.output().unwrap())
    };
    broken().succeeds();
    comes_about("the end of all jobs", || cluster.is_idle());
    let again = broken().fails(5).says("3 tasks failed and were submitted again");
    again
        .says("3 tasks (0 on board")
        .says("each ended before its work began (Slurm: FAILED, exit code 7:0), and printed nothing into");
    comes_about("the end of all jobs", || cluster.is_idle());
}

#[test]
fn whatever_happens_to_tasks_nothing_is_lost_and_nothing_measured_twice() {
    // The disk of one task of the first run is full after a few rows.
    let full = "prologue= ['case \"$4 $5\" in */1\\\\ 2) mkdir -p \"$4/${8}2\"; mount -t tmpfs -o size=20k none \"$4/${8}2\" || ulimit -f 1;; esac']\n\
                [create_network_dataset]\nnetworks = squeezenet\npruning_perc = [0]\nmodel_path = next\n";
    let scene = slow(full);
    let Some(mut cluster) = Cluster::start(&scene) else { return };
    let waiting = cluster.spawn(&scene, "--config-file config.ini --slurm --set slurm.chunks=3 --set slurm.tasks=2");
    let run = scene.folder().canonicalize().unwrap().join("profiling_csvs/tx2/imagenet/slurm/1");
    comes_about("two running tasks", || cluster.running() >= 2);
    comes_about("a measurement", || scene.path("measured").exists());
    cluster.slurm("scontrol", &["update", "nodename=board3", "state=drain", "reason=test"]);
    Cluster::kill_task(&run, 0);
    cluster.restart_controller();
    let output = waiting.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{words}");
    for expected in [
        "task 0 was killed on board",
        "task 2 failed on board",
        "have no result",
        "the same command submits them again",
    ] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
    assert!(words.contains("No space left") || words.contains("File too large"), "{words}");
    // 6 networks of 4 batches, latency and memory.
    let log_dir = scene.path("profiling_csvs/tx2/imagenet");
    let (before, _) = identities(&log_dir);
    assert!((1..48).contains(&before), "{before} rows after: {words}");
    // The next section would take a part of the rows for all of them.
    assert!(!scene.path("next").exists(), "{words}");
    cluster.slurm("scontrol", &["update", "nodename=board3", "state=resume"]);
    cluster.run(&scene, "--config-file config.ini --slurm").succeeds();
    assert!(identities(&log_dir) == (48, 48) && scene.path("next").exists(), "{words}");
    if geteuid().is_root() {
        let _ = Command::new("umount").arg(run.join(format!("{}2", run_name(&run.join("run.json"))))).status();
    }
}

#[test]
fn ctrl_c_cancels_the_array_and_a_requeued_task_goes_on() {
    let scene = slow("");
    let Some(cluster) = Cluster::start(&scene) else { return };
    let config = "--config-file config.ini --slurm --set slurm.chunks=1";
    let waiting = cluster.spawn(&scene, config);
    comes_about("three measurements", || measured(&scene) >= 3);
    kill(Pid::from_raw(waiting.id() as i32), Signal::SIGINT).unwrap();
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("cancelled 1 task"), "{output:?}");
    comes_about("an empty queue", || cluster.is_idle());
    let log_dir = scene.path("profiling_csvs/tx2/imagenet");
    let (before, different) = identities(&log_dir);
    assert!(before >= 2 && before == different, "{before} rows");
    // What the interrupted run measured is not measured again.
    let waiting = cluster.spawn(&scene, config);
    let count = measured(&scene);
    comes_about("a measurement of the second run", || measured(&scene) > count + 1);
    let job = cluster.slurm("squeue", &["-h", "-r", "-t", "R", "-o", "%i"]);
    cluster.slurm("scontrol", &["requeue", job.trim()]);
    // Slurm lets a requeued job wait for two minutes. It takes the late end of the earlier step for the end of a job that began
    // again at once, so that ten seconds remain.
    comes_about("a waiting task", || cluster.slurm("squeue", &["-h", "-t", "PD", "-o", "%r"]).contains("BeginTime"));
    cluster.slurm("scontrol", &["update", &format!("jobid={}", job.trim()), "starttime=now+10"]);
    let output = waiting.wait_with_output().unwrap();
    let printed = fs::read_to_string(log_dir.join("slurm/2/output/0+0"));
    assert!(output.status.success(), "{output:?} {printed:?}");
    assert_eq!(identities(&log_dir), (48, 48));
    // 24 configurations twice, those of the interrupted run at least once; an interrupted measurement of each run once more.
    assert!((48 - before / 2..=50).contains(&measured(&scene)), "{} measurements, {before} rows", measured(&scene));
}

/// `cargo test --test suite -- --ignored --nocapture slurm_costs`: takes minutes, and wants a quiet machine.
#[test]
#[ignore = "a measurement of minutes"]
fn slurm_costs_at_most_a_tenth_of_the_same_chunks_by_hand() {
    let batches: Vec<String> = (1..=50).map(|batch| batch.to_string()).collect();
    let scene = slow("");
    let config = scene.read("config.ini").replace("bs= [1, 2, 3, 4]", &format!("bs= [{}]", batches.join(", ")));
    assert!(config.contains("49, 50"));
    let scene = scene.file("config.ini", config);
    let Some(cluster) = Cluster::start(&scene) else { return };
    let mut seconds = Vec::new();
    for round in 0..3 {
        let began = Instant::now();
        let name = format!("--config-file config.ini --slurm --set profile.device_name=round{round}");
        cluster.run(&scene, &name).succeeds().says("submitted 300 configurations in 3 tasks");
        let by_slurm = began.elapsed().as_secs_f64();
        let run = scene.path(&format!("profiling_csvs/round{round}/imagenet/slurm/1"));
        let hand = scene.path(&format!("hand{round}"));
        fs::create_dir_all(&hand).unwrap();
        for file in ["run.json", "config.ini"] {
            fs::copy(run.join(file), hand.join(file)).unwrap();
        }
        let name = run_name(&run.join("run.json"));
        let began = Instant::now();
        let task = |number: usize| {
            cluster.spawn(&scene, &format!("--quiet slurm-task {} {number} here 0_{number} {name}", hand.display()))
        };
        let tasks = [0, 1, 2].map(task);
        tasks.into_iter().for_each(|task| assert!(task.wait_with_output().unwrap().status.success()));
        seconds.push([by_slurm, began.elapsed().as_secs_f64()]);
        println!("300 configurations: {by_slurm:.1} s by Slurm, {:.1} s by hand", seconds[round][1]);
    }
    let [slurm, hand] = [0, 1].map(|which| seconds.iter().map(|pair| pair[which]).fold(f64::INFINITY, f64::min));
    println!("at least {slurm:.1} s by Slurm, {hand:.1} s by hand: {:+.1} %", 100.0 * (slurm / hand - 1.0));
    assert!(slurm <= 1.1 * hand, "{slurm} s by Slurm, {hand} s by hand");
}

/// A task that lands on a node of another kind goes elsewhere, and takes the waiting ones with it.
#[test]
fn a_node_of_another_kind_does_not_take_the_tasks_of_others() {
    let scene = slow("");
    let worker = scene.read("worker.sh");
    let [other, third] = ["1.9.0", "1.8.0"].map(|version| crate::workers::TX2.replace("1.10.0", version));
    let scene = scene.file(
        "worker.sh",
        format!(
            "case \"$(ls all 2>/dev/null) $SLURMD_NODENAME $*\" in all*board*--about*) echo '{third}'; exit;; \
             *board3*--about*) echo '{other}'; exit;; esac\n{worker}"
        ),
    );
    let Some(cluster) = Cluster::start(&scene) else { return };
    let output = moving_at_once(&cluster, &scene, "--config-file config.ini --slurm --set slurm.chunks=8");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words}");
    assert!(words.contains("gets no more tasks") && words.contains("another kind of machine"), "{words}");
    assert_eq!(identities(&scene.path("profiling_csvs/tx2/imagenet")), (48, 48));
    let note = |task: usize| -> serde_json::Value {
        serde_json::from_str(&scene.read(&format!("profiling_csvs/tx2/imagenet/slurm/1/task-{task}.json"))).unwrap()
    };
    let third = (0..8).filter(|task| note(*task)["node"] == "board3").count();
    assert!([0, 8].contains(&third), "{third} of 8 tasks on board3");
    // Each of three nodes takes a task before it is known to be of another kind.
    let left: usize = (0..8).map(|task| note(task)["left"].as_array().map_or(0, Vec::len)).sum();
    assert!((1..=4).contains(&left), "{left} tasks were moved");
    // Where all nodes are of another kind, nothing is measured, and the tasks end.
    fs::write(scene.path("all"), "").unwrap();
    let before = measured(&scene);
    let output = moving_at_once(&cluster, &scene, "--config-file config.ini --slurm --set profile.bs=[5]");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && words.contains("it goes to no other node"), "{words}");
    assert!(words.contains("6 configurations have no result"), "{words}");
    assert_eq!((measured(&scene), identities(&scene.path("profiling_csvs/tx2/imagenet"))), (before, (48, 48)));
}

/// Runs the program while tasks move to other nodes: Slurm lets a requeued job wait for two minutes, which are cut short.
fn moving_at_once(cluster: &Cluster, scene: &Scene, arguments: &str) -> std::process::Output {
    let waiting = cluster.spawn(scene, arguments);
    let waits = || cluster.slurm("squeue", &["-h", "-r", "-t", "PD", "-o", "%i %r"]);
    comes_about("a submitted array", || !cluster.is_idle());
    let moved = || -> Vec<String> {
        let listed = waits();
        let lines = listed.lines().filter_map(|line| line.strip_suffix(" BeginTime"));
        lines.map(|job| format!("jobid={job}")).collect()
    };
    comes_about("the end", || {
        moved().iter().for_each(|job| drop(cluster.slurm("scontrol", &["update", job, "starttime=now+1"])));
        cluster.is_idle()
    });
    waiting.wait_with_output().unwrap()
}

/// Sections of other crates: each point of a job, each setting of a detector, each search.
#[test]
fn sensitivity_detection_and_searches_are_divided_as_well() {
    let job = "i=0; while :; do i=$((i+1)); sleep 0.02; echo \"{\\\"step\\\": $i, \\\"time\\\": $(date +%s.%N)}\" >> \"$PERF4SIGHT_STEPS\"; done\n";
    let config = "[sensitivity]\ncommand = sh job.sh\ncpu = 1\ncpu_step = 0.5\nwarm_up = 2\npoint_time = 4s\n\
                  [detection]\ndata = pets\npython = ./python.sh\nnum_workers = [0, 1]\nbatch_size = [2, 4, 8, 16]\n\
                  [optimize]\ntraces = ranks\npass = op_fusion\nsearches = 3\nmoves = 300\n[slurm]\ntasks = 3\n";
    let ranks = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/ranks/two");
    let scene = crate::detection::scene().file("job.sh", job).file("config.ini", config);
    std::os::unix::fs::symlink(ranks, scene.path("ranks")).unwrap();
    let Some(cluster) = Cluster::start(&scene) else { return };
    let all = cluster.run(&scene, "--config-file config.ini --slurm").succeeds();
    all.prints("2 points in sensitivity").prints("8 settings in detection").says("3 searches in 3 tasks");
    let profile: serde_json::Value = serde_json::from_str(&scene.read("sensitivity/profile.json")).unwrap();
    assert!(profile["provenance"]["complete"] == true && profile["points"].as_array().unwrap().len() == 2, "{profile}");
    // The most CPUs at first, on its own; then the other end.
    assert!(scene.path("sensitivity/slurm/2/run.json").exists() && !scene.path("sensitivity/slurm/3").exists());
    // A batch of 8 does not fit, so that nobody tries 16; one machine does not try it with more workers either.
    let tried = scene.read("asked").lines().count();
    scene.run("--config-file config.ini --only detection --set detection.out=alone").succeeds();
    assert_eq!((tried, scene.read("asked").lines().count()), (6, 11));
    // Up to the time of a training; what follows is measured of the worker.
    let settings = |folder: &str| -> Vec<String> {
        let text = scene.read(&format!("{folder}/settings.csv"));
        let ran = text.lines().filter(|line| line.contains(",ran,"));
        ran.map(|line| line.split(',').take(16).collect::<Vec<_>>().join(",")).collect()
    };
    assert_eq!(settings("detection"), settings("alone"));
    assert_eq!(settings("detection").len(), 4);
    let again = cluster.run(&scene, "--config-file config.ini --slurm").succeeds();
    assert!(!again.stderr().contains("submitted"), "{again}");
    searched_as_on_one_machine(&scene);
    nothing_that_fits_is_a_result(&scene, &cluster);
}

/// Nodes search, this machine only compares: not a move is evaluated twice.
fn searched_as_on_one_machine(scene: &Scene) {
    scene.run("--config-file config.ini --only optimize --set optimize.out=one").succeeds();
    let files = ["searches/mcmc-seed-0.json", "searches/mcmc-seed-2.json", "search_trajectory.txt", "optimize.json"];
    for file in files {
        assert_eq!(scene.read(&format!("optimize/{file}")), scene.read(&format!("one/{file}")), "{file}");
    }
    // Searches measure nothing, and share their nodes.
    let choice = scene.read("optimize/slurm/1/run.json");
    assert!(!choice.contains("--exclusive") && scene.read("detection/slurm/1/run.json").contains("--exclusive"));
}

fn nothing_that_fits_is_a_result(scene: &Scene, cluster: &Cluster) {
    let none =
        "--config-file config.ini --slurm --only detection --set detection.out=none --set detection.batch_size=[8]";
    let told = cluster.run(scene, none).fails(5).says("no setting of 2 fits into memory");
    assert!(!told.stderr().contains("failed on") && !told.stderr().contains("no result"), "{told}");
}

fn measured(scene: &Scene) -> usize {
    fs::read_to_string(scene.path("measured")).map_or(0, |text| text.lines().count())
}

#[test]
fn a_configuration_that_leaves_nothing_to_slurm_is_refused() {
    let scene = Scene::new().file(
        "config.ini",
        "[fingerprint]\ntrain_nets = ['resnet18']\ndevice_name = cpu\ndataset = imagenet\n[slurm]\ntasks = 2\n",
    );
    let refused = scene.run("--config-file config.ini --slurm").fails(2);
    refused.says("none of these sections can be divided").says("[profile], [detection], [sensitivity]");
    // One job on several nodes is one measurement.
    let scene = Scene::new().file("config.ini", "[sensitivity]\ncommand = touch ran\nnnodes = 2\n");
    scene.run("--config-file config.ini --slurm").fails(3).says("nnodes and --slurm at once");
    assert!(!scene.path("ran").exists());
}

/// As `pip install perf4sight` brings `perf4sight.torch_worker`: a wheel whose module is the worker, in the environment that submits.
#[test]
fn a_worker_that_pip_installed_is_found_on_nodes() {
    let about = crate::workers::TX2;
    let module = format!(
        "import sys\nprint({about:?} if '--about' in sys.argv else input() and {:?})\n",
        crate::workers::MEASURED
    );
    let config = "[profile]\ndevice= tx2\nworker= python3 -m board_worker\ndataset= imagenet\nlocal_model_loc= nets\nnetwork= resnet18\n\
                  bs= [1]\n[slurm]\ntasks= 3\n";
    let scene = networks(Scene::new())
        .file("config.ini", config)
        .file("wheel/board_worker.py", module)
        .file("wheel/board_worker-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: board_worker\nVersion: 1\n")
        .file(
            "wheel/board_worker-1.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        .file("wheel/board_worker-1.dist-info/RECORD", "");
    let Some(cluster) = Cluster::start(&scene) else { return };
    let python = |arguments: &str| {
        let output =
            Command::new("python3").args(arguments.split(' ')).current_dir(scene.path("wheel")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    python("-m zipfile -c board_worker-1-py3-none-any.whl board_worker.py board_worker-1.dist-info");
    python("-m pip install --quiet --no-index --target ../site board_worker-1-py3-none-any.whl");
    let mut command = cluster.command(&scene, "--config-file config.ini --slurm");
    let output = command.env("PYTHONPATH", scene.path("site").canonicalize().unwrap()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(identities(&scene.path("profiling_csvs/tx2/imagenet")), (6, 6));
}

#[test]
fn a_script_is_shown_without_running_what_comes_before_it() {
    let scene = Scene::new().file(
        "config.ini",
        "[create_network_dataset]\nnetworks = squeezenet\npruning_perc = [0, 50]\n[profile]\ndevice = simulated\ndataset = imagenet\n\
         network = squeezenet\nbs = [1, 2]\n[slurm]\ntasks = 2\n",
    );
    let shown = scene.run("--config-file config.ini --slurm --print-script").succeeds();
    shown
        .prints("--array=0-1%2")
        .prints("slurm-task")
        .prints("[profile] 4 configurations in 2 tasks; nothing was submitted");
    assert_eq!(fs::read_dir(scene.folder()).unwrap().count(), 1, "config.ini alone");
}

/// The words of Slurm's own commands, recorded from 22.05, without a cluster.
#[test]
fn what_slurm_refuses_is_said_with_what_to_do() {
    let scene = networks(Scene::new()).file("config.ini", SIMULATED);
    let empty = scene.path("bin");
    fs::create_dir_all(&empty).unwrap();
    let outcome = || {
        let mut command = scene.command();
        command.args(["--config-file", "config.ini", "--slurm"]).env("PATH", &empty);
        Outcome::of("--slurm", command.output().unwrap())
    };
    outcome().fails(5).says("there is no Slurm here").says("hosts");
    let fake = |program: &str, script: &str| {
        fs::write(empty.join(program), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(empty.join(program), fs::Permissions::from_mode(0o755)).unwrap();
    };
    fake("squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1");
    outcome().fails(5).says("controller does not answer squeue").says("nothing is lost");
    fake("squeue", "echo 'squeue: fatal: Could not establish a configuration source' >&2; exit 1");
    outcome().fails(5).says("knows of no cluster").says("SLURM_CONF");
    fake("squeue", "");
    fake("scontrol", "echo 'MaxArraySize            = 1001'");
    let refuse = |words: &str| fake("sbatch", &format!("echo \"sbatch: error: {words}\" >&2; exit 1"));
    for (words, remedy) in [
        ("Batch job submission failed: Invalid account or account/partition combination specified", "--account=NAME"),
        (
            "Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
            "submit fewer tasks",
        ),
        ("QOSMaxSubmitJobPerUserLimit", "submit fewer tasks"),
        ("Batch job submission failed: Requested node configuration is not available", "no node of the partition"),
    ] {
        refuse(words);
        outcome().fails(5).says("sbatch refuses").says(remedy);
    }
    // The controller was gone while it was asked: nothing was submitted, and nobody is blamed.
    fake("squeue", "[ -e gone ] && exit 1; exit 0");
    fake("sbatch", ": > gone; echo 'sbatch: error: Unable to contact slurm controller' >&2; exit 1");
    outcome().fails(5).says("controller does not answer sbatch");
    fs::remove_file(scene.path("gone")).unwrap();
    fake("sbatch", "echo $$ > asked; exec sleep 60");
    fake("sleep", "exec /bin/sleep \"$@\"");
    let mut command = scene.command();
    command.args(["--config-file", "config.ini", "--slurm"]).env("PATH", &empty).stderr(Stdio::piped());
    let waiting = command.stdout(Stdio::null()).spawn().unwrap();
    comes_about("sbatch", || fs::read_to_string(scene.path("asked")).is_ok_and(|id| id.ends_with('\n')));
    kill(Pid::from_raw(waiting.id() as i32), Signal::SIGINT).unwrap();
    let output = waiting.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(130) && !words.contains("left nothing"), "{words}");
    let id: i32 = scene.read("asked").trim().parse().unwrap();
    assert!(kill(Pid::from_raw(id), None).is_err(), "sbatch goes on");
    let last = fs::read_dir(scene.path("profiling_csvs/simulated/imagenet/slurm")).unwrap().count();
    let run = scene.path(&format!("profiling_csvs/simulated/imagenet/slurm/{last}"));
    assert!(
        run.join("cancelled").exists() && run.join("merged").exists(),
        "what comes of it all the same ends at once"
    );
    assert!(!scene.path("profiling_csvs/simulated/imagenet/latency").exists());
    adaptive_plans_and_hosts_are_refused(&scene);
}

fn adaptive_plans_and_hosts_are_refused(scene: &Scene) {
    scene.run("--config-file config.ini --slurm --set profile.plan=adaptive").fails(3).says("cannot be divided");
    scene.run("--config-file config.ini --slurm --set profile.save=False").fails(3).says("save = True");
    scene.run("--config-file config.ini --detach").fails(2).says("--slurm");
}

#[test]
fn a_node_of_another_kind_or_version_adds_no_rows() {
    let scene = networks(Scene::new()).file("config.ini", SIMULATED);
    let Some(cluster) = Cluster::start(&scene) else { return };
    let one = "--config-file config.ini --slurm --set slurm.chunks=1 --set slurm.extra=['--exclude=board2,board3']";
    cluster.run(&scene, &format!("{one} --set profile.bs=[1]")).succeeds();
    // The device is another one, as a board with another processor, and there is no other node.
    let other = cluster.run(&scene, &format!("{one} --set profile.mem_limit=500")).fails(5);
    other.says("another kind of machine").says("mem_limit was 512 MiB, is 500 MiB").says("it goes to no other node");
    assert_eq!(rows(&scene.path("profiling_csvs/simulated/imagenet")).len(), 24);
    let run = scene.path("profiling_csvs/simulated/imagenet/slurm/1/run.json");
    let text = fs::read_to_string(&run).unwrap();
    fs::write(&run, text.replace("\"version\": \"", "\"version\": \"9.")).unwrap();
    let task = |name: &str| format!("slurm-task {} 0 board1 7_0 {name}", run.parent().unwrap().display());
    scene.run(&task(&run_name(&run))).fails(5).says("submitted this").says("board1").says("same version");
    scene.run(&task("perf4sight-profile-0-")).fails(2).says("is another run's now");
    scene.run("slurm-task /nowhere 0 board1 7_0 name").fails(4).says("no run in this folder").says("NFS");
}
