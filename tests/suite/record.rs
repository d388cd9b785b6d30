//! `perf4sight record` with real scripts under the real PyTorch, where there is one.

use crate::conformance::python;
use crate::fixtures::{Outcome, Scene, runs, within_patience};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use perf4sight_base::temporary_folder;
use perf4sight_breakdown::{Breakdown, BreakdownOptions, TimeCategory};
use serde_json::Value;
use std::fs;
use std::process::{Command, Output, Stdio};

/// A loop with an optimizer; `LATER` is what it does in each iteration beside training.
const TRAIN: &str = r#"
import os, sys, time, torch
torch.set_num_threads(1)
net = torch.nn.Linear(64, 10)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))
print("training", flush=True)
for iteration in range(int(sys.argv[1]) if len(sys.argv) > 1 else 10**6):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
    LATER
print("trained", flush=True)
"#;

/// The second file of a recording.
const TOLD: &str = include_str!("../../examples/training/before/rank0.recording.json");

/// A scene with a training script, and the Python to run it with.
fn scene(script: &str) -> Option<(Scene, &'static str)> {
    Some((Scene::new().file("train.py", script).file("tmp/.keep", ""), python()?))
}

/// Records few iterations of a command in the scene, with the scene's temporary folder.
fn record(scene: &Scene, options: &str, command: &str) -> Outcome {
    let arguments = format!("record --iterations 4 --warm-up 2 {options} -- {command}");
    Outcome::of(&arguments, recording(scene, &arguments).output().unwrap())
}

fn recording(scene: &Scene, arguments: &str) -> Command {
    let mut command = scene.command();
    command.args(arguments.split_whitespace()).env("TMPDIR", scene.path("tmp")).stdin(Stdio::null());
    command
}

fn listed(scene: &Scene, folder: &str) -> Vec<String> {
    let entries = fs::read_dir(scene.path(folder)).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The second file of a trace.
fn told(scene: &Scene, name: &str) -> Value {
    serde_json::from_str(&scene.read(&format!("recording/{name}.recording.json"))).unwrap()
}

/// How many iterations each period has that was timed, and each that was recorded.
fn counts(told: &Value) -> [Vec<usize>; 2] {
    ["plain", "recorded"].map(|kind| {
        let periods = told[kind].as_array().unwrap().iter().map(|times| times.as_array().unwrap());
        periods
            .map(|times| {
                assert!(times.iter().all(|time| time.as_u64().unwrap() > 0), "{told}");
                times.len()
            })
            .collect()
    })
}

/// Those of four iterations.
fn all_of_four() -> [Vec<usize>; 2] {
    [vec![1, 2, 1], vec![2, 2]]
}

/// How many events of a trace have a name that begins so.
fn events(python: &str, scene: &Scene, trace: &str, prefix: &str) -> usize {
    let count = "import gzip, json, sys\n\
        events = json.load(gzip.open(sys.argv[1]))['traceEvents']\n\
        print(sum(event['ph'] == 'X' and event['name'].startswith(sys.argv[2]) for event in events))";
    let file = scene.path(&format!("recording/{trace}.json.gz"));
    let output = Command::new(python).args(["-c", count]).arg(file).arg(prefix).output().unwrap();
    text(&output).trim().parse().unwrap()
}

/// Whether the PyTorch of a Python was built with Kineto, as Debian's is not.
fn has_kineto(python: &str) -> bool {
    let ask = "import torch; print(torch.autograd.kineto_available())";
    text(&Command::new(python).args(["-c", ask]).output().unwrap()).trim() == "True"
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn an_unmodified_script_is_recorded_and_ended() {
    let Some((scene, python)) = scene(&TRAIN.replace("LATER", "pass")) else { return };
    // PyTorch makes folders of its own, with or without us.
    let mut alone = Command::new(python);
    let alone = alone.args(["train.py", "3"]).current_dir(scene.folder()).env("TMPDIR", scene.path("tmp"));
    assert_eq!(text(&alone.output().unwrap()), "training\ntrained\n");
    let before = (listed(&scene, "tmp"), vec!["recording".to_owned(), "tmp".to_owned(), "train.py".to_owned()]);
    let run = record(&scene, "", &format!("{python} train.py")).succeeds();
    let run = run.prints("training\n").prints("optimizer steps").prints("are recorded in recording");
    assert!(!run.stdout().contains("trained"), "{run}");
    assert_eq!(listed(&scene, "recording"), ["rank0.json.gz", "rank0.recording.json"]);
    assert_eq!((listed(&scene, "tmp"), listed(&scene, "")), before);
    let told = told(&scene, "rank0");
    assert_eq!((counts(&told), counts(&told["processor"])), (all_of_four(), all_of_four()));
    assert!(told["faults"]["recorded"][1][1].is_u64(), "{told}");
    // One thread works: its own time is about that of the process.
    assert_eq!((counts(&told["thread"]), &told["python_threads"]), (all_of_four(), &Value::from(0)));
    for (word, value) in [("iterations_are", "optimizer steps"), ("ended", "as asked"), ("trace", "rank0.json.gz")] {
        assert_eq!(told[word], value);
    }
    // The windows are what was timed; the profiler's own clock starts a little earlier and ends a little later.
    assert_eq!(events(python, &scene, "rank0", "ProfilerStep#"), 4);
    assert_eq!(events(python, &scene, "rank0", "train.py"), 0, "stacks were not asked for");
}

#[test]
fn stacks_are_recorded_where_they_are_asked_for() {
    let Some((scene, python)) = scene(&TRAIN.replace("LATER", "pass")) else { return };
    let run = record(&scene, "--stacks", &format!("{python} train.py")).succeeds();
    assert!(!run.stdout().contains("stays unknown"), "{run}");
    assert!(events(python, &scene, "rank0", "torch/nn/modules/") > 0);
}

#[test]
fn a_recording_is_not_replaced_unasked() {
    let Some((scene, python)) = scene(&TRAIN.replace("LATER", "pass")) else { return };
    let scene = scene.file("recording/rank1.json.gz", "older").file("recording/rank1.recording.json", TOLD);
    let command = format!("{python} train.py");
    record(&scene, "", &command).fails(2).says("rank1.json.gz: a recording is stored here already").says("overwrite");
    // A command that records nothing leaves what there was.
    record(&scene, "--overwrite", &format!("{python} -c pass")).fails(5).says("nothing was recorded");
    assert_eq!(listed(&scene, "recording"), ["rank1.json.gz", "rank1.recording.json"]);
    record(&scene, "--overwrite", &command).succeeds();
    assert_eq!(listed(&scene, "recording"), ["rank0.json.gz", "rank0.recording.json"]);
}

/// Files of others are not replaced, whatever they are called, and not called a recording.
#[test]
fn a_file_with_the_name_of_a_recording_is_not_replaced() {
    let said = "a file of this name is here already, and it is not of a recording of perf4sight";
    for file in ["recording/rank0.json.gz", "recording/rank0.recording.json"] {
        let scene = Scene::new().file(file, "x");
        for options in ["", "--overwrite"] {
            record(&scene, options, "true").fails(2).says(said);
        }
        assert_eq!(scene.read(file), "x");
    }
}

/// A file of a recording that `record` had set aside.
fn set_aside(scene: &Scene, prefix: &str, file: &str, content: &str) {
    let folder = temporary_folder::make_marked(prefix, &scene.path("recording")).unwrap();
    fs::write(folder.join(file), content).unwrap();
}

/// What was set aside is back where nothing new came, and goes where something did.
#[test]
fn what_a_killed_recording_had_set_aside_is_settled() {
    let scene = Scene::new().file("recording/replaced.c3/rank0.json.gz", "own");
    set_aside(&scene, "replaced.", "rank0.json.gz", "older");
    record(&scene, "", "true").fails(2).says("rank0.json.gz: a file of this name is here already");
    assert_eq!(listed(&scene, "recording"), ["rank0.json.gz", "replaced.c3"]);
    let told = TOLD;
    let scene = Scene::new().file("recording/rank0.json.gz", "new").file("recording/rank0.recording.json", told);
    set_aside(&scene, "replaced.", "rank0.json.gz", "older");
    record(&scene, "--overwrite", "true").fails(5).says("nothing was recorded");
    assert_eq!(listed(&scene, "recording"), ["rank0.json.gz", "rank0.recording.json"]);
    assert_eq!(std::fs::read_to_string(scene.path("recording/rank0.json.gz")).unwrap(), "new");
    // Killed while it was set aside: what tells of the trace had gone already, of one rank or of the first of two.
    let scene = Scene::new().file("recording/rank0.json.gz", "older");
    set_aside(&scene, "replaced.", "rank0.recording.json", told);
    let scene = scene.file("recording/rank1.json.gz", "older").file("recording/rank1.recording.json", told);
    record(&scene, "--overwrite", "true").fails(5).says("nothing was recorded");
    let whole = ["rank0.json.gz", "rank0.recording.json", "rank1.json.gz", "rank1.recording.json"];
    assert_eq!(listed(&scene, "recording"), whole);
    // Killed while an older one was removed: nothing of it comes back, and no empty folder is left.
    let scene = Scene::new();
    fs::create_dir(scene.path("recording")).unwrap();
    set_aside(&scene, "removed.", "rank0.json.gz", "older");
    record(&scene, "", "true").fails(5).says("nothing was recorded");
    assert!(!scene.path("recording").exists());
}

/// Files of two at once would lie side by side as those of two ranks.
#[test]
fn a_folder_takes_one_recording_at_a_time() {
    let scene = Scene::new().file("recording/.keep", "");
    let held = std::fs::File::open(scene.path("recording")).unwrap();
    held.lock().unwrap();
    record(&scene, "", "true")
        .fails(5)
        .says("another perf4sight is writing into this folder")
        .says("another folder (out)");
}

#[test]
fn a_section_records_as_the_verb_does_and_json_stands_alone() {
    let Some((scene, python)) = scene(&TRAIN.replace("LATER", "pass")) else { return };
    let config = format!("[record]\ncommand = {python} train.py\niterations = 4\nwarm_up = 2\ntime_limit = 5min\n");
    let scene = scene.file("config.ini", config);
    scene.run("config.ini --check").succeeds().prints("records 4 iterations of");
    assert!(!scene.path("recording").exists());
    let run = scene.run("config.ini --json").succeeds().says("training\n");
    let json = run.json();
    assert_eq!(json["sections"]["record"]["ranks"][0]["recorded"], 4);
    assert_eq!(json["sections"]["record"]["exit_code"], 0);
    scene.run("config.ini --check").fails(3).says("a recording is stored here already");
    scene.run("config.ini --check --set record.time_limit=soon").fails(3).says("'soon' does not fit").says("10min");
}

/// Words that a shell would divide or replace, read back by one.
#[test]
fn a_command_is_shown_as_a_shell_reads_it() {
    let config = r#"[record]
command = ["sh", "-c", "exec $0", "a b", "it's", "*", "", "--name=x"]
iterations = 4
"#;
    let checked = Scene::new().file("config.ini", config).run("config.ini --check").succeeds();
    let (_, rest) = checked.stdout().split_once("records 4 iterations of ").unwrap();
    let (command, _) = rest.split_once(", and times as many").unwrap();
    let words = Command::new("sh").args(["-c", &format!("printf '%s\\n' {command}")]).output().unwrap();
    assert_eq!(String::from_utf8(words.stdout).unwrap(), "sh\n-c\nexec $0\na b\nit's\n*\n\n--name=x\n");
}

/// Batches are marks until an optimizer steps; workers of the loader are processes of their own, which record nothing.
#[test]
fn a_script_with_loaders_and_workers_is_recorded() {
    let script = r#"
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
net = torch.nn.Linear(8, 2)
optimizer = torch.optim.Adam(net.parameters())
data = TensorDataset(torch.randn(64, 8), torch.randint(0, 2, (64,)))
for epoch in range(1000):
    for batch, (x, y) in enumerate(DataLoader(data, batch_size=2, num_workers=2)):
        torch.nn.functional.cross_entropy(net(x), y).backward()
        if batch % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
"#;
    let Some((scene, python)) = scene(script) else { return };
    record(&scene, "", &format!("{python} train.py")).succeeds().prints("optimizer steps");
    assert_eq!(counts(&told(&scene, "rank0")), all_of_four());
    assert_eq!(listed(&scene, "recording").len(), 2);
    // Four batches to a step, each with a backward pass; with the profiler twice two steps count, after twice as many as the four batches that the
    // workers get ahead, and after five.
    let passes = events(python, &scene, "rank0", "autograd::engine::evaluate_function: AddmmBackward0");
    let expected = 4 * (2 * 4 + 2 + 5 + 2);
    assert!((expected..=expected + 2).contains(&passes), "{passes}");
    let inference = script.replace("        if batch % 4 == 3:", "        if False:").replace(".backward()", "");
    let scene = scene.file("train.py", inference);
    record(&scene, "--overwrite", &format!("{python} train.py")).succeeds().prints("DataLoader batches");
    assert_eq!(counts(&told(&scene, "rank0")), all_of_four());
}

/// A loader that gets eight batches ahead while the profiler starts and writes: iterations that find those ready tell nothing of the others, which
/// wait 20 ms for the one worker.
#[test]
fn what_a_loader_made_during_a_pause_is_used_up_before_iterations_count() {
    let script = r#"
import time, torch
torch.set_num_threads(1)
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 10**6
    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.zeros(8)
net = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for batch in torch.utils.data.DataLoader(Slow(), num_workers=1, prefetch_factor=8):
    net(batch).sum().backward()
    optimizer.step()
"#;
    let Some((scene, python)) = scene(script) else { return };
    record(&scene, "", &format!("{python} train.py")).succeeds();
    // Its processes end with it, and remove what they made.
    assert!(listed(&scene, "tmp").iter().all(|name| !name.starts_with("pymp-")), "{:?}", listed(&scene, "tmp"));
    let told = told(&scene, "rank0");
    assert_eq!(counts(&told), all_of_four());
    for kind in ["plain", "recorded"] {
        let mut times = told[kind].as_array().unwrap().iter().flat_map(|period| period.as_array().unwrap());
        assert!(times.all(|time| time.as_u64().unwrap() > 15_000_000), "{told}");
    }
}

/// A generator that steps once for every two steps of a discriminator: one of them marks iterations, not both.
#[test]
fn of_two_optimizers_one_marks_iterations() {
    let script = TRAIN
        .replace(
            "print(\"training\"",
            "other = torch.optim.Adam(torch.nn.Linear(2, 2).parameters())\nprint(\"training\"",
        )
        .replace("LATER", "other.step(); other.step()");
    let Some((scene, python)) = scene(&script) else { return };
    record(&scene, "", &format!("{python} train.py")).succeeds();
    assert_eq!(told(&scene, "rank0")["restarts"], 0);
    assert_eq!(events(python, &scene, "rank0", "Optimizer.step#Adam"), 2 * 2 * (5 + 2));
}

/// All record the same iterations, whatever one of them alone reads meanwhile: who ended before the others would wait for them, as they for it.
#[test]
fn ranks_of_torchrun_have_a_trace_each() {
    let script = r#"
import torch, torch.distributed as distributed
distributed.init_process_group("gloo")
torch.set_num_threads(1)
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for iteration in range(10**6):
    optimizer.zero_grad()
    net(torch.randn(32, 64)).sum().backward()
    optimizer.step()
    if iteration == 9 and distributed.get_rank() == 0:
        next(iter(torch.utils.data.DataLoader(range(64), num_workers=1, prefetch_factor=16)))
"#;
    let Some((scene, python)) = scene(script) else { return };
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let by_hand = format!(
        "export MASTER_ADDR=127.0.0.1 MASTER_PORT={port} WORLD_SIZE=2\nRANK=1 {python} train.py & RANK=0 {python} train.py; wait\n"
    );
    let scene = scene.file("nothing.py", "").file("ranks.sh", by_hand);
    // That of PyTorch 1.13 starts nothing under Python 3.11; there its variables are set by hand.
    let torchrun = "-m torch.distributed.run --standalone --nproc_per_node 2";
    let nothing = Command::new(python).args(torchrun.split(' ')).arg("nothing.py").current_dir(scene.folder()).output();
    let launch = if nothing.unwrap().status.success() {
        format!("{python} {torchrun} train.py")
    } else {
        "sh ranks.sh".to_owned()
    };
    let run = record(&scene, "--time-limit 2min", &launch).succeeds().prints("4 iterations of 2 ranks are recorded");
    assert!(!run.stderr().contains("Traceback"), "{run}");
    for rank in 0..2 {
        let told = told(&scene, &format!("rank{rank}"));
        assert_eq!((counts(&told), &told["rank"], &told["ranks"]), (all_of_four(), &rank.into(), &2.into()));
        // A reduction for each iteration with the profiler; the first of a period may have begun before it. 5 settle before the first recorded period and up to
        // 10 before the second.
        let reduced = events(python, &scene, &format!("rank{rank}"), "gloo:all_reduce");
        assert!((4..=5 + 2 + 10 + 2).contains(&reduced), "{reduced}");
    }
}

#[test]
fn the_published_calls_mark_iterations_and_do_nothing_elsewhere() {
    let script = r#"
import time, torch
from perf4sight import Profiler
profiler = Profiler("name", directory="elsewhere")
matrix = torch.randn(4, 4)
for iteration in range(30):
    time.sleep(0.1)
    profiler.enable_profiling()
    matrix @ matrix
    profiler.disable_profiling()
print("to the end")
"#;
    let Some((scene, python)) = scene(script) else { return };
    let run = record(&scene, "", &format!("{python} train.py")).succeeds().prints("Profiler calls");
    assert!(!run.stdout().contains("to the end"), "{run}");
    let told = told(&scene, "rank0");
    assert_eq!((counts(&told), events(python, &scene, "rank0", "ProfilerStep#")), (all_of_four(), 4));
    // What lies outside the calls is no part of an iteration.
    let times = ["plain", "recorded"]
        .map(|kind| told[kind].as_array().unwrap().iter().flat_map(|times| times.as_array().unwrap()));
    let least = times.map(|times| times.map(|time| time.as_u64().unwrap()).min().unwrap());
    assert!(least[0].max(least[1]) < 100_000_000, "{told}");
    let scene = scene.file("perf4sight.py", fs::read(recorder_file("perf4sight.py")).unwrap());
    let alone = Command::new(python).arg("train.py").current_dir(scene.folder()).output().unwrap();
    assert_eq!(text(&alone), "to the end\n");
    record(&scene, "--overwrite", &format!("{python} train.py")).succeeds().prints("Profiler calls");
}

#[test]
fn a_crash_keeps_its_traceback_its_exit_code_and_what_was_recorded() {
    // Two iterations of warm-up, one that is timed, five that settle, two recorded, five and two without, ten, and the 28th is recorded.
    let crash = TRAIN.replace("LATER", "assert iteration < 28, 'torn'");
    let Some((scene, python)) = scene(&crash) else { return };
    let command = format!("{python} train.py");
    let run = record(&scene, "", &command).fails(1).says("AssertionError: torn").says("what was recorded is kept");
    run.says("recorded 3 of 4 iterations, and timed 3 without").prints("3 iterations are recorded");
    let told = told(&scene, "rank0");
    assert_eq!((counts(&told), &told["ended"]), ([vec![1, 2], vec![2, 1]], &"by itself".into()));
    assert_eq!(["ProfilerStep#", "torn iteration"].map(|name| events(python, &scene, "rank0", name)), [3, 1]);
    let early = scene.file("train.py", TRAIN.replace("LATER", "assert iteration < 3, 'torn'"));
    let run = record(&early, "--out early", &command).fails(1).says("AssertionError: torn");
    run.says("iterations ended (optimizer steps), and none of the first 8 is recorded").says("warm_up");
    assert!(!early.path("early").exists());
}

#[test]
fn a_script_that_ends_by_itself_keeps_its_exit_code() {
    let script = format!("{}sys.exit(3)\n", TRAIN.replace("LATER", "pass"));
    let Some((scene, python)) = scene(&script) else { return };
    let run = record(&scene, "", &format!("{python} train.py 12")).fails(3).prints("trained\n");
    run.says("the command ended with exit code 3");
    let killed = TRAIN.replace("LATER", "iteration < 10 or os.kill(os.getpid(), 9)");
    let scene = scene.file("train.py", killed);
    let run = record(&scene, "--out killed", &format!("{python} train.py")).fails(128 + 9);
    run.says("the recording began, but what was recorded is lost").says("the command was killed by signal 9");
}

/// The profiler of a script is not stopped by ours, and what runs under it is not taken for an iteration.
#[test]
fn a_profiler_of_the_scripts_own_is_left_alone() {
    let training = TRAIN
        .replace("LATER", "pass")
        .replace("print(\"trained\"", "if own: own.stop(); print('own', len(own.events()) > 0)\nprint(\"trained\"");
    let (begin, rest) = training.split_once("print(\"training\"").unwrap();
    let profiled = |start: &str| format!("{begin}own = {start}\nprint(\"training\"{rest}");
    let all = profiled("torch.profiler.profile(); own.start()");
    let Some((scene, python)) = scene(&all) else { return };
    let run = record(&scene, "", &format!("{python} train.py 12")).fails(5).prints("own True").prints("trained");
    run.says("left alone, for the script's own profiler ran in them: ");
    let some = profiled("None; before = torch.profiler.profile(); before.start()")
        .replace("    pass\n", "    if iteration == 5: before.stop()\n");
    let scene = scene.file("train.py", some);
    let run = record(&scene, "", &format!("{python} train.py")).succeeds();
    run.says("not counted, for the script's own profiler ran in them: 6 iterations");
    assert_eq!(counts(&told(&scene, "rank0")), all_of_four());
}

/// It starts within the tenth iteration, which is recorded: ours gives way, what it recorded stays, and the rest is recorded later.
#[test]
fn a_profiler_that_the_script_starts_meanwhile_runs() {
    let own = "torch.profiler.profile(schedule=torch.profiler.schedule(wait=0, warmup=1, active=2, repeat=1))";
    for (own, step) in
        [("torch.profiler.profile()", "pass"), (own, "own.step()"), ("torch.autograd.profiler.profile()", "pass")]
    {
        let begin = format!("    if iteration == 10: own = {own}; own.__enter__()\n    optimizer.zero_grad()");
        let later = format!(
            "if 10 <= iteration < 14: {step}\n    if iteration == 14: own.__exit__(None, None, None); print('own', len(getattr(own, 'events', lambda: own.function_events)()) > 0)"
        );
        let Some((scene, python)) = scene(&TRAIN.replace("    optimizer.zero_grad()", &begin).replace("LATER", &later))
        else {
            return;
        };
        let run = record(&scene, "", &format!("{python} train.py")).succeeds().prints("own True");
        run.says("not counted, for the script's own profiler ran in them: ");
        assert_eq!(
            (counts(&told(&scene, "rank0")), events(python, &scene, "rank0", "ProfilerStep#")),
            (all_of_four(), 4)
        );
        assert_eq!(events(python, &scene, "rank0", "torn iteration"), 1);
        // A schedule marks iterations, whether its profiler runs or not; they are not taken for those that were timed.
        assert_eq!(step != "pass", events(python, &scene, "rank0", "script ProfilerStep#") > 0);
        let broken_down = scene.run("breakdown recording").succeeds();
        assert!(!broken_down.stderr().contains("not those of the trace"), "{broken_down}");
    }
}

/// One of another thread waits for the end of the iteration that is recorded: PyTorch's are stopped where they were started.
#[test]
fn a_profiler_of_another_thread_runs_too() {
    let script = TRAIN
        .replace(
            "print(\"training\"",
            "import threading\n\
             def other():\n\
             \x20   with torch.profiler.profile() as own: x + x\n\
             \x20   print('own', len(own.events()) > 0, flush=True)\n\
             print(\"training\"",
        )
        .replace(
            "    optimizer.zero_grad()",
            "    if iteration == 9: threading.Thread(target=other).start(); time.sleep(0.2)\n    optimizer.zero_grad()",
        );
    let Some((scene, python)) = scene(&script.replace("LATER", "time.sleep(0.01)")) else { return };
    let run = record(&scene, "", &format!("{python} train.py")).succeeds().prints("own True");
    assert!(!run.stderr().contains("Traceback"), "{run}");
    assert_eq!((counts(&told(&scene, "rank0")), events(python, &scene, "rank0", "ProfilerStep#")), (all_of_four(), 4));
}

/// PyTorch would write their end into memory of a profile that is gone, in which each of them began.
#[test]
fn ranges_that_are_open_over_several_periods_do_no_harm() {
    let begin = "    if iteration % 13 == 0:\n\
                 \x20       for epoch in epochs: epoch.__exit__(None, None, None)\n\
                 \x20       epochs = [torch.autograd.profiler.record_function('epoch').__enter__() for _ in range(100)]\n";
    let script = TRAIN
        .replace("print(\"training\"", "epochs = []\nprint(\"training\"")
        .replace("    optimizer.zero_grad()", &format!("{begin}    optimizer.zero_grad()"));
    let Some((scene, python)) = scene(&script.replace("LATER", "pass")) else { return };
    let arguments = format!("record --stacks --iterations 20 --warm-up 2 -- {python} train.py");
    Outcome::of(&arguments, recording(&scene, &arguments).output().unwrap()).succeeds();
    assert!(events(python, &scene, "rank0", "epoch") >= 100);
    // Nor is it recorded how the recorder looks for them among all objects there are.
    let calls = events(python, &scene, "rank0", "<built-in function issubclass>");
    assert!(calls < 10_000, "{calls}");
}

/// The folder is a file system of its own: too small for anything, for the first trace, for all of them together.
#[test]
fn a_full_disk_ends_the_recording_and_is_named() {
    let Some((scene, python)) = scene(&TRAIN.replace("LATER", "pass")) else { return };
    let mount = ["--user", "--map-root-user", "--mount", "sh", "-c"];
    let allowed = Command::new("unshare").args(mount).arg("mount -t tmpfs -o size=64k tmpfs /mnt").output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        return eprintln!("skipped: this test needs to mount a file system of its own");
    }
    // Each trace takes half a megabyte as Kineto writes it, and 200 kB without that.
    let both = if has_kineto(python) { "700k" } else { "400k" };
    for (size, says) in [("48k", "make room"), ("160k", "No space left on device"), (both, "No space left on device")] {
        let lines = format!(
            "mkdir -p small && mount -t tmpfs -o size={size} tmpfs small && \
             \"$0\" record --stacks --iterations 4 --warm-up 2 --out small -- {python} train.py; code=$?; ls small > listed; exit $code"
        );
        let arguments = [&mount[..], &[&lines, env!("CARGO_BIN_EXE_perf4sight")]].concat();
        let output = Command::new("unshare").args(&arguments).current_dir(scene.folder()).output().unwrap();
        let run = Outcome::of(&lines, output).fails(6).says(says).says("make room");
        assert!(!run.stderr().contains("Traceback"), "{run}");
        assert_eq!(scene.read("listed"), "", "{size}");
    }
}

/// Steps of optimizers by their letters, and which of them mark iterations: a critic that steps five times for each step of a generator,
/// two that step as often, one that steps at no regular times, and one that takes the place of another. The critic once marked them, of
/// which one in five then held a step of the generator.
#[test]
fn the_optimizer_that_steps_least_often_marks_iterations() {
    let list = "import sys\n\
        from perf4sight_recorder.marks import IGNORED, Marks, STEPS\n\
        for steps in sys.argv[1:]:\n\
        \x20   marks = Marks()\n\
        \x20   print(''.join(letter if marks.add(STEPS, letter) != IGNORED else '.' for letter in steps), marks.name())\n";
    let cases = [
        (
            "CCCCCGCCCCCGCCCCCGCCCCCGCCCCCG",
            "CCCCC.CCCCC.CCCCCG.....G.....G optimizer steps, 5 of another optimizer in each",
        ),
        (
            "GCCCCCGCCCCCGCCCCCGCCCCCGCCCCC",
            "G..CCC.CCCCC.CCCCCG.....G..... optimizer steps, 5 of another optimizer in each",
        ),
        ("CGCGCGCGCG", "C.C.C.C.C. optimizer steps"),
        ("CCCGCCGCCCCGCCG", "CCC.CC.CCCC.CC. optimizer steps"),
        ("AAAAABBBBB", "AAAAA..BBB optimizer steps"),
        // In no order: one that stepped twice as often by chance, and one that steps again after another had taken its place.
        ("CCGCCGCCGCCCGCCGG", "CC.CC.CCG...GCCGG steps of several optimizers"),
        ("AAABBBABAAABAB", "AAA..B.B..ABAB steps of several optimizers"),
        // Such as at the end of an epoch.
        ("CCGCCGCCGCCGCCGCCGCCCGCC", "CC.CC.CCG..G..G..G...G.. optimizer steps, 2 to 3 of another optimizer in each"),
    ];
    let steps = cases.map(|(steps, _)| steps);
    let python = Command::new("python3").args(["-c", list]).args(steps).env("PYTHONPATH", recorder_file("")).output();
    let Ok(output) = python else { return eprintln!("skipped: this test needs a python3") };
    let marked = text(&output);
    assert_eq!(marked.lines().collect::<Vec<_>>(), cases.map(|(_, marked)| marked), "{output:?}");
}

/// A child that works for 0.3 s of processor time, while it runs (it says so, and waits) and after it ended.
#[test]
fn processor_time_of_child_processes_is_seen() {
    let script = "import subprocess, sys\n\
        from perf4sight_recorder import rivals\n\
        child = 'import sys, time\\nwhile time.process_time() < 0.3: pass\\nprint(1, flush=True); sys.stdin.read()'\n\
        before = rivals.seen()\n\
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n\
        child = subprocess.Popen([sys.executable, '-c', child], **pipes)\n\
        child.stdout.readline()\n\
        print(rivals.between(before, rivals.seen())['children'])\n\
        child.communicate()\n\
        print(rivals.between(before, rivals.seen())['children'])\n";
    let python = Command::new("python3").args(["-c", script]).env("PYTHONPATH", recorder_file("")).output();
    let Ok(output) = python else { return eprintln!("skipped: this test needs a python3") };
    let seen: Vec<u64> = text(&output).lines().map(|line| line.parse().unwrap()).collect();
    // Linux counts ticks of 10 ms; starting and ending the interpreter takes some.
    assert!(seen.len() == 2 && seen.iter().all(|time| (280_000_000..600_000_000).contains(time)), "{output:?}");
}

/// Recorded and plain iterations take turns, as many of one as of the other, so that each is in the middle of the others.
#[test]
fn periods_take_turns() {
    let list = "from perf4sight_recorder.recording import turns\n\
        for asked in range(1, 300):\n\
        \x20   for ahead in 0, 8, 64:\n\
        \x20       print(asked, ' '.join('%s,%d' % turn for turn in turns(asked, ahead)))\n";
    let python = Command::new("python3").args(["-c", list]).env("PYTHONPATH", recorder_file("")).output();
    let Ok(output) = python else { return eprintln!("skipped: this test needs a python3") };
    for line in text(&output).lines() {
        let (asked, turns) = line.split_once(' ').unwrap();
        let turns: Vec<(&str, u64)> = turns
            .split(' ')
            .map(|turn| turn.split_once(',').unwrap())
            .map(|(kind, count)| (kind, count.parse().unwrap()))
            .collect();
        let of = |wanted: &str| turns.iter().filter(|(kind, _)| *kind == wanted).map(|(_, count)| count).sum::<u64>();
        assert_eq!([of("plain"), of("recorded")], [asked.parse::<u64>().unwrap(); 2], "{line}");
        assert!(turns.iter().all(|(_, count)| *count > 0), "{line}");
        assert!(turns.iter().enumerate().all(|(at, (kind, _))| *kind == ["plain", "recorded"][at % 2]), "{line}");
    }
    assert!(text(&output).contains(
        "\n20 plain,2 recorded,4 plain,4 recorded,4 plain,4 recorded,4 plain,4 recorded,4 plain,4 recorded,4 plain,2\n"
    ));
}

/// A new optimizer every seven steps: twelve iterations come before the first recorded one, and nothing was recorded. The older ones are freed, or kept:
/// then the first two steps of each new one do not count.
#[test]
fn new_optimizers_go_on_with_the_iterations() {
    let script = r#"
import torch
kept = []
for fold in range(60):
    net = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    KEEP
    for step in range(7):
        net(torch.randn(4, 8)).sum().backward()
        optimizer.step()
"#;
    for keep in ["pass", "kept.append(optimizer)"] {
        let Some((scene, python)) = scene(&script.replace("KEEP", keep)) else { return };
        record(&scene, "", &format!("{python} train.py")).succeeds();
        let told = told(&scene, "rank0");
        assert_eq!((counts(&told), &told["restarts"]), (all_of_four(), &Value::from(0)), "{keep}");
        assert_eq!(told["iterations_are"], "optimizer steps");
        assert_eq!(events(python, &scene, "rank0", "ProfilerStep#"), 4, "{keep}");
        // Five before each period behind the first plain one, and up to five more, which are drawn: 0, 5 and 4.
        assert_eq!(counts(&told["settled"]), [vec![0, 5, 9], vec![5, 10]], "{keep}");
    }
}

#[test]
fn optimizers_of_two_threads_do_not_meet() {
    let script = "import threading, torch\n\
        def train():\n\
        \x20   net = torch.nn.Linear(8, 8); optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n\
        \x20   for _ in range(400): net(torch.randn(4, 8)).sum().backward(); optimizer.step()\n\
        threads = [threading.Thread(target=train) for _ in range(4)]\n\
        [thread.start() for thread in threads]; [thread.join() for thread in threads]\n";
    let Some((scene, python)) = scene(script) else { return };
    let run = Outcome::of("record", recording(&scene, &format!("record -- {python} train.py")).output().unwrap());
    assert!(!run.to_string().contains("the recorder failed"), "{run}");
}

/// Each is recorded whole, forked before its first iteration or while one is recorded, and breakdown shows them side by side.
#[test]
fn processes_without_ranks_are_told_apart() {
    for at in [0, 9] {
        let fork = format!("if iteration == {at}: os.fork()");
        let script = TRAIN.replace("    optimizer.zero_grad()", &format!("    {fork}\n    optimizer.zero_grad()"));
        let Some((scene, python)) = scene(&script.replace("LATER", "pass")) else { return };
        let run = record(&scene, "", &format!("{python} train.py")).succeeds().prints("4 iterations of 2 ranks");
        run.says("2 processes without ranks were recorded; the files call them ranks 0 and 1");
        for rank in ["rank0", "rank1"] {
            assert_eq!(
                (counts(&told(&scene, rank)), events(python, &scene, rank, "ProfilerStep#")),
                (all_of_four(), 4)
            );
        }
        scene.run("breakdown recording").succeeds();
    }
}

/// Processes that `multiprocessing` forks end without what is registered with `atexit`; those that it spawns begin with Python anew.
#[test]
fn processes_of_multiprocessing_keep_what_they_recorded() {
    let (begin, rest) = TRAIN.split_once("net = ").unwrap();
    let body = format!("net = {rest}").replace("int(sys.argv[1]) if len(sys.argv) > 1 else 10**6", "12");
    let body: String = body.replace("LATER", "pass").lines().map(|line| format!("    {line}\n")).collect();
    let start = "    process = multiprocessing.get_context(sys.argv[1]).Process(target=train)\n    process.start(); process.join()\n";
    let script = format!("import multiprocessing\n{begin}def train():\n{body}if __name__ == '__main__':\n{start}");
    let Some((scene, python)) = scene(&script) else { return };
    for method in ["fork", "spawn"] {
        let run = record(&scene, "--overwrite", &format!("{python} train.py {method}")).succeeds().prints("trained");
        run.says("recorded 2 of 4 iterations, and timed");
        assert_eq!(counts(&told(&scene, "rank0")), [vec![1, 0], vec![2]]);
        scene.run("breakdown recording").succeeds();
    }
}

/// `sys.exit` is an exception, which a script may catch.
#[test]
fn a_script_that_will_not_end_is_ended() {
    let script = TRAIN.replace("    optimizer.step()\n", "    try: optimizer.step()\n    except BaseException: pass\n");
    let Some((scene, python)) = scene(&script.replace("LATER", "time.sleep(0.01)")) else { return };
    record(&scene, "", &format!("{python} train.py")).succeeds().prints("4 iterations are recorded");
}

#[test]
fn a_python_without_pytorch_is_named() {
    let script =
        "import sys\nsys.path[:] = [path for path in sys.path if not path.endswith('-packages')]\nimport torch\n";
    let scene = Scene::new().file("train.py", script).file("tmp/.keep", "").file("other.py", "print('no training')\n");
    if Command::new("python3").arg("--version").output().is_err() {
        return eprintln!("skipped: this test needs a python3");
    }
    let run = record(&scene, "", "python3 train.py").fails(1).says("ModuleNotFoundError").says("has no PyTorch");
    run.says("a Python that can import torch");
    let run = record(&scene, "", "python3 other.py").fails(5).prints("no training").says("(Python 3.");
    run.says(" ran, and never imported torch; the command ended").says("perf4sight record -- venv/bin/python train.py");
    record(&scene, "", "true").fails(5).says("ran no Python that loads the recorder").says("-- python3 train.py");
    record(&scene, "", "python3 -I other.py").fails(5).says("python -I, -E and -S load no recorder");
    record(&scene, "", "no-such-python train.py").fails(6).says("no-such-python: cannot start this command");
    assert!(!scene.path("recording").exists());
}

#[test]
fn a_script_without_iterations_is_told_how_to_mark_them() {
    let Some((scene, python)) = scene("import torch\n") else { return };
    record(&scene, "", &format!("{python} train.py"))
        .fails(5)
        .says("no step of an optimizer")
        .says("enable_profiling()");
}

#[test]
fn a_sitecustomize_of_ones_own_runs_too() {
    let own = "import sys\nprint('own', __name__, sys.modules['sitecustomize'].__file__, flush=True)\n";
    let Some((scene, python)) = scene(&TRAIN.replace("LATER", "pass")) else { return };
    let scene = scene.file("site/sitecustomize.py", own);
    let arguments = format!("record --iterations 2 -- {python} train.py");
    let output = recording(&scene, &arguments).env("PYTHONPATH", scene.path("site")).output().unwrap();
    let file = scene.path("site/sitecustomize.py");
    Outcome::of(&arguments, output).succeeds().prints(&format!("own sitecustomize {}\n", file.display()));
}

#[test]
fn a_time_limit_ends_the_command_and_keeps_what_is_recorded() {
    // The limit leaves time to import PyTorch; the tenth iteration takes longer than it.
    let script = TRAIN.replace("LATER", "time.sleep(0.0 if iteration < 9 else 60)");
    let Some((scene, python)) = scene(&script) else { return };
    let command = format!("{python} train.py");
    let run = record(&scene, "--time-limit 15", &command).succeeds().says("recorded 1 of 4 iterations, and timed");
    run.says("was ended by the time limit of 15s");
    assert_eq!(counts(&told(&scene, "rank0")), [vec![1], vec![1]]);
    record(&scene, "--time-limit soon", &command).fails(2).says("\"soon\" is not a time");
    // Whatever marks iterations comes later: that none was seen is the limit's doing.
    fs::write(scene.path("train.py"), "import time\ntime.sleep(60)\n").unwrap();
    let run = record(&scene, "--time-limit 2 --overwrite", &command).fails(5).says("no iteration had ended by then");
    run.says("was ended by the time limit of 2s").says("allow more time");
}

/// What comes while the trace is written, as where a job's time is up, once lost all that was recorded.
#[test]
fn signals_wait_until_the_trace_is_written() {
    let script = "import gzip, os, signal, sys\nopened = gzip.open\n\
        def interrupted(*arguments):\n\
        \x20   os.kill(os.getpid(), getattr(signal, sys.argv[2]))\n\
        \x20   return opened(*arguments)\n\
        gzip.open = interrupted\n"
        .to_owned()
        + TRAIN;
    for (signal, code) in [("SIGTERM", 143), ("SIGINT", 130)] {
        let Some((scene, python)) = scene(&script.replace("LATER", "pass")) else { return };
        let run = record(&scene, "", &format!("{python} train.py 1000 {signal}")).fails(code);
        run.says("what was recorded is kept");
        assert_eq!(counts(&told(&scene, "rank0")), all_of_four());
        assert_eq!(events(python, &scene, "rank0", "ProfilerStep#"), 4);
    }
}

#[test]
fn ctrl_c_ends_the_command_with_all_that_it_started() {
    let start = "import subprocess; print(subprocess.Popen(['sleep', '300'], start_new_session=True).pid, flush=True)";
    let script = format!("{start}\n{}", TRAIN.replace("LATER", "time.sleep(0.05)"));
    let Some((scene, python)) = scene(&script) else { return };
    let mut run = recording(&scene, &format!("record --iterations 1000 -- {python} train.py"));
    let log = scene.path("log");
    let mut run = run.stdout(fs::File::create(&log).unwrap()).stderr(Stdio::piped()).spawn().unwrap();
    within_patience("training", || fs::read_to_string(&log).unwrap().contains("training"));
    let stray: i32 = fs::read_to_string(&log).unwrap().lines().next().unwrap().parse().unwrap();
    kill(Pid::from_raw(run.id() as i32), Signal::SIGINT).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130));
    assert!(fs::read_to_string(&log).unwrap().contains("interrupted; nothing was recorded"));
    within_patience("the end of what was started", || !runs(stray));
    assert!(!scene.path("recording").exists());
}

fn recorder_file(name: &str) -> String {
    format!("{}/crates/record/recorder/{name}", crate::ROOT)
}

/// PyTorch up to 1.13 has no hook for all optimizers; there each class of them is wrapped.
#[test]
fn steps_are_heard_without_a_hook_for_all_optimizers() {
    let script = r#"
import torch
from perf4sight_recorder import hooks
steps = []
hooks.wrap_optimizers(torch.optim.Optimizer, steps.append)
class Own(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)
weights = [torch.nn.Parameter(torch.ones(2))]
first, second, own = torch.optim.SGD(weights, lr=0.1), torch.optim.SGD(weights, lr=0.1), Own(weights, lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(first, 1)
weights[0].grad = torch.ones(2)
for optimizer in (first, own, second, own, first):
    optimizer.step()
schedule.step()
print([(first, second, own).index(optimizer) for optimizer in steps])
"#;
    let Some((scene, python)) = scene(script) else { return };
    let output =
        Command::new(python).arg(scene.path("train.py")).env("PYTHONPATH", recorder_file("")).output().unwrap();
    assert_eq!(text(&output), "[0, 2, 1, 2, 0]\n");
}

/// One second of each: a loop in Python, operators, a sleep, and where there is a GPU, its kernels. The script tells how long each took in
/// each iteration; those that are not recorded are short.
const ONE_SECOND_OF_EACH: &str = r#"
import json, time, torch
from perf4sight import Profiler
torch.set_num_threads(1)
gpu = torch.cuda.is_available()
matrix = torch.randn(512, 512)
there = torch.randn(4096, 4096, device="cuda" if gpu else "meta")

def python(times):
    total = 0
    for number in range(times):
        total += number * number
    return total

def cpp(times):
    for number in range(times):
        torch.mm(matrix, matrix)

def on_gpu(times):
    for number in range(times):
        torch.mm(there, there)
    if gpu:
        torch.cuda.synchronize()

def took(part, times):
    begin = time.perf_counter()
    part(times)
    return time.perf_counter() - begin

def a_second(part, times):
    part(times)
    return int(times / took(part, times))

PARTS = {"Python": (python, a_second(python, 10**6)), "C++": (cpp, a_second(cpp, 20)), "wait": (time.sleep, 1)}
if gpu:
    PARTS["GPU"] = (on_gpu, a_second(on_gpu, 20))
profiler, truth = Profiler(), []
try:
    for iteration in range(100):
        short = 1 if 7 <= iteration < 9 else 100
        profiler.enable_profiling()
        truth.append({name: took(part, times // short) for name, (part, times) in PARTS.items()})
        profiler.disable_profiling()
finally:
    json.dump(truth, open("truth.json", "w"))
"#;

#[test]
fn one_second_of_each_is_told_apart() {
    let Some((scene, python)) = scene(ONE_SECOND_OF_EACH) else { return };
    // One iteration of warm-up, one that is timed, five that settle: the eighth and ninth are recorded.
    let arguments = format!("record --stacks --iterations 2 --warm-up 1 -- {python} train.py");
    Outcome::of(&arguments, recording(&scene, &arguments).output().unwrap()).succeeds();
    let truth: Vec<Value> = serde_json::from_str(&scene.read("truth.json")).unwrap();
    let ranks = perf4sight_traces::read_ranks(&[scene.path("recording")]).unwrap();
    let rank = Breakdown::from_traces(&ranks, &BreakdownOptions::default()).unwrap().ranks.remove(0);
    assert_eq!(rank.iterations.len(), 2);
    for (iteration, truth) in rank.iterations.iter().zip(&truth[7..9]) {
        for category in [TimeCategory::Python, TimeCategory::Cpp, TimeCategory::Wait] {
            let expected = truth[category.name()].as_f64().unwrap();
            let found = iteration.sets.category(category).unwrap() as f64 / 1e9;
            let within = (0.02 * expected).max(0.02);
            assert!((found - expected).abs() < within, "{category:?}: {found} s, not {expected}: {iteration:?}");
        }
        if let Some(expected) = truth["GPU"].as_f64() {
            let found = iteration.sets.gpu_busy() as f64 / 1e9;
            assert!((found - expected).abs() < (0.02 * expected).max(0.02), "GPU: {found} s, not {expected}");
        }
    }
}
