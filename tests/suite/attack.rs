//! Under attack: kills, orphans, strays, names and replies that are meant to do harm, and inputs changed at random.

use crate::conformance::{job, measure};
use crate::device::script_worker;
use crate::fixtures::{Outcome as Ended, PATIENCE, Scene, runs, within_patience};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use perf4sight_base::units::Bytes;
use perf4sight_cost::device::Measurement;
use perf4sight_cost::device::hardware::Hardware;
use perf4sight_cost::device::kind::DeviceKind;
use perf4sight_cost::device::protocol::StepRule;
use perf4sight_cost::records::MeasurementOutcome;
use perf4sight_machine::LocalMachine;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// What a worker says of itself, and of a step.
const ABOUT: &str = r#"{"protocol":2,"software":{},"places":{"cpu":{}},"layers":true}"#;
const MEASURED: &str = r#"{"outcome":"measured","latency":{"median":12.5,"spread":0.01,"steps":40,"discarded":2,"disturbed":false},"memory":{"allocated":1048576,"reserved":2097152,"used":3145728,"available":4194304,"free":4194304},"seconds":0.6}"#;

/// A device whose worker is a line of shell.
fn scripted(script: &str) -> Hardware {
    Hardware {
        kind: DeviceKind::Cpu,
        machine: Arc::new(LocalMachine),
        gpu: Default::default(),
        worker: script_worker(script.to_owned()),
        threads: 1,
        mem_limit: Some(Bytes(1 << 30)),
        timeout: Duration::from_secs(60),
        seed: 0,
        steps: StepRule::default(),
    }
}

fn outcome_of(script: &str) -> (Option<MeasurementOutcome>, String) {
    let measurement = measure(&scripted(script), &job(Path::new("x")));
    let reason = match &measurement {
        Measurement::Broken { reason, .. } => reason.clone(),
        _ => String::new(),
    };
    (measurement.outcome(), reason)
}

/// Whether the worker's answer counts; other work of this machine may have disturbed it.
fn is_answered(script: &str) -> bool {
    matches!(outcome_of(script).0, Some(MeasurementOutcome::Measured | MeasurementOutcome::Disturbed))
}

/// A profile of squeezenet by a worker in shell; `script` runs for every measurement, with the request in `$request`.
fn profiled(script: &str) -> Scene {
    let worker = format!("case \"$*\" in *--about*) echo '{ABOUT}'; exit;; esac\nread -r request\n{script}\n");
    let config = "[profile]\ndevice = cpu\nworker = sh worker.sh\ndevice_name = board\ndataset = imagenet\n\
                  network = squeezenet\nbs = [1, 2]\nlocal_model_loc = nets\n";
    let squeezenet = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/models/imagenet/squeezenet.onnx")).unwrap();
    Scene::new().file("worker.sh", worker).file("config.ini", config).file("nets/squeezenet_0.onnx", squeezenet)
}

/// The process whose id stands in a file of the scene, once it does.
fn process(scene: &Scene, file: &str) -> i32 {
    let read = || fs::read_to_string(scene.path(file)).ok()?.trim().parse().ok();
    within_patience(file, || read().is_some());
    read().unwrap()
}

#[test]
fn a_worker_and_what_it_started_die_with_the_program_however_it_ends() {
    // The second is in a session of its own; neither reads its input nor asks for a signal.
    let script = "setsid sleep 300 & echo $! > stray; sleep 300 & echo $! > child; echo $$ > worker; wait";
    for signal in [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT] {
        let scene = profiled(script);
        let mut program = scene.start();
        let started = ["worker", "child", "stray"].map(|file| process(&scene, file));
        kill(Pid::from_raw(program.id() as i32), signal).unwrap();
        let status = program.wait().unwrap();
        within_patience(&format!("the end of the worker after {signal}"), || !started.iter().any(|one| runs(*one)));
        if matches!(signal, Signal::SIGTERM | Signal::SIGHUP | Signal::SIGINT) {
            assert_eq!(status.code(), Some(130), "{signal} ends it in order");
        }
    }
}

/// A process that is executing another program shows no environment for a moment, by which it would be known. This one executes eight before it
/// sleeps, which takes some milliseconds.
#[test]
fn what_is_executing_another_program_in_its_own_session_dies_too() {
    let again = "[ $1 = 0 ] && exec sleep 300; exec sh again.sh $(($1 - 1))";
    let scene = profiled("setsid sh again.sh 8 & echo $! > stray; sleep 300").file("again.sh", again);
    let mut program = scene.start();
    let stray = process(&scene, "stray");
    kill(Pid::from_raw(program.id() as i32), Signal::SIGKILL).unwrap();
    program.wait().unwrap();
    within_patience("the end of what the worker started", || !runs(stray));
    let folder = Scene::new().file("again.sh", again);
    for round in 0..20 {
        let (place, file) = (folder.path(""), format!("stray{round}"));
        let script = format!("cd {}; setsid sh again.sh 8 & echo $! > {file}; echo '{MEASURED}'", place.display());
        assert!(is_answered(&script));
        let stray = process(&folder, &file);
        within_patience("the end of what the worker started", || !runs(stray));
    }
}

#[test]
fn a_stray_in_its_own_session_costs_no_answer_and_dies() {
    let scene = Scene::new();
    let stray = scene.path("stray");
    let began = Instant::now();
    for escape in ["setsid sleep 300 &", "env -i setsid sleep 3 &"] {
        let script = format!("{escape} echo $! > {}; echo '{MEASURED}'", stray.display());
        assert!(is_answered(&script), "{escape}");
    }
    assert!(began.elapsed() < PATIENCE);
    let script = format!("setsid sleep 300 & echo $! > {}; echo '{MEASURED}'", stray.display());
    outcome_of(&script);
    assert!(!runs(process(&scene, "stray")));
}

#[test]
fn a_worker_that_answered_and_hangs_keeps_its_answer_and_not_the_machine() {
    let began = Instant::now();
    assert!(is_answered(&format!("echo '{MEASURED}'; sleep 300")));
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn replies_that_no_machine_gives_are_garbled() {
    let most = u64::MAX.to_string();
    let layers = r#""layers":{"step":2.0,"step_spread":0.1,"steps":4,"disturbed":false,"times":[]},"seconds""#;
    let cases = [
        ("12.5", "1e308"),
        ("12.5", "61000.0"),
        ("12.5", "0.0"),
        ("12.5", "1e-300"),
        (
            "1048576,\"reserved\":2097152,\"used\":3145728,\"available\":4194304",
            "1,\"reserved\":1,\"used\":1,\"available\":1",
        ),
        ("2097152", "1048575"),
        ("3145728", "900000000000000"),
        ("2097152", "900000000000000"),
        ("\"seconds\"", r#""conditions":{"start":{"clocks":{"cpu":1e308}}},"seconds""#),
        ("\"seconds\"", r#""conditions":{"end":{"temperatures":{"cpu":-1e300}}},"seconds""#),
        ("\"seconds\"", r#""conditions":{"end":{"busy":-1}},"seconds""#),
        ("\"seconds\"", r#""conditions":{"end":{"clocks":{"cpu\u0007":1000}}},"seconds""#),
        ("12.5", "-3.0"),
        ("\"spread\":0.01", "\"spread\":-0.01"),
        ("\"spread\":0.01", "\"spread\":1e300"),
        ("\"steps\":40", "\"steps\":0"),
        ("\"steps\":40", &format!("\"steps\":{most}")),
        ("\"seconds\":0.6", "\"seconds\":-1e9"),
        ("\"seconds\":0.6", "\"seconds\":1e9"),
        ("1048576", "0"),
        ("1048576", &most),
        ("3145728", "0"),
        ("3145728", &most),
        ("\"available\":4194304", "\"available\":0"),
        ("\"free\":4194304", &format!("\"free\":{most}")),
        ("\"seconds\"", &layers.replace("2.0", "-2.0")),
        ("\"seconds\"", &layers.replace("0.1", "-0.1")),
        ("\"seconds\"", &layers.replace("4,", "0,")),
        ("\"seconds\"", &layers.replace("[]", r#"[{"node":null,"pass":"step","milliseconds":1,"spread":0}]"#)),
        ("\"seconds\"", &layers.replace("[]", r#"[{"node":null,"pass":"forward","milliseconds":1,"spread":0}]"#)),
        ("\"seconds\"", &layers.replace("[]", r#"[{"node":"a","pass":"loss","milliseconds":1,"spread":0}]"#)),
        ("\"seconds\"", &layers.replace("[]", r#"[{"node":"a","pass":"forward","milliseconds":1e308,"spread":0}]"#)),
    ];
    assert!(is_answered(&format!("echo '{MEASURED}'")));
    assert!(is_answered(&format!("echo '{}'", MEASURED.replace("\"seconds\"", layers))));
    for (from, to) in cases {
        let reply = MEASURED.replacen(from, to, 1);
        assert_ne!(reply, MEASURED);
        let (outcome, reason) = outcome_of(&format!("echo '{reply}'"));
        assert_eq!(outcome, Some(MeasurementOutcome::Garbled), "{from} became {to}");
        assert!(reason.contains("impossible") || reason.contains("more memory"), "{reason}");
    }
    let failed = format!(
        r#"{{"outcome":"out_of_memory","memory":{{"allocated":{most},"reserved":0,"used":0,"available":0,"free":0}}}}"#
    );
    assert_eq!(outcome_of(&format!("echo '{failed}'")).0, Some(MeasurementOutcome::Garbled));
}

#[test]
fn a_worker_forges_no_lines() {
    let reply = r#"printf '%s\n' '{"outcome":"failed","reason":"a\nwarning: forged"}'"#;
    for script in [reply, "printf 'a\nwarning: forged\n' >&2; exit 3"] {
        let (_, reason) = outcome_of(script);
        assert!(reason.contains("a\\nwarning: forged") && !reason.contains('\n'), "{reason:?}");
    }
}

#[test]
fn what_is_blocked_ends_with_sigterm_and_what_is_no_file_is_not_waited_for() {
    let scene = Scene::new();
    let mut waiting = scene.command();
    waiting.args(["--config-file", "/dev/stdin"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut waiting = waiting.spawn().unwrap();
    thread::sleep(Duration::from_secs(1));
    kill(Pid::from_raw(waiting.id() as i32), Signal::SIGTERM).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match waiting.try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(Instant::now() < deadline, "it goes on"),
        }
        thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(130));

    let pipe = scene.path("pipe");
    fs::create_dir(scene.path("store")).unwrap();
    for pipe in [&pipe, &scene.path("store/training_stage_latency.json")] {
        assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    }
    let fingerprint = concat!(env!("CARGO_MANIFEST_DIR"), "/fingerprinting/epyc-1-core/imagenet");
    for arguments in [
        "--config-file pipe".to_owned(),
        "predict resnet18 --fingerprint store".to_owned(),
        format!("calibrate resnet18 --fingerprint {fingerprint} --rows pipe"),
    ] {
        scene.run(&arguments).fails(4).says("not a regular file");
    }
}

#[test]
fn a_file_that_may_not_grow_is_a_failed_write() {
    let scene = profiled("exit 3");
    let batches: Vec<String> = (1..=400).map(|batch| batch.to_string()).collect();
    let set = format!("profile.bs=[{}]", batches.join(","));
    let program = crate::program();
    let script = "ulimit -f 8; exec \"$@\"";
    let mut limited = Command::new("sh");
    limited.args(["-c", script, "sh"]).arg(program).args(["--config-file", "config.ini", "--set", &set]);
    limited.args(["--set", "profile.device=simulated", "--set", "profile.worker=None"]).current_dir(scene.folder());
    let output = limited.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(said.contains("File too large"), "{said}");
    let left = Command::new("find").arg(scene.folder()).args(["-name", ".*.new"]).output().unwrap();
    assert!(left.stdout.is_empty(), "{}", String::from_utf8_lossy(&left.stdout));
}

#[test]
fn of_many_runs_at_once_one_measures_and_the_others_say_why_they_do_not() {
    let scene = profiled(&format!("while [ ! -e enough ]; do sleep 0.05; done; echo '{MEASURED}'"));
    for round in 0..3 {
        let mut running: Vec<Child> = (0..6).map(|_| scene.start()).collect();
        // Whoever has the folder measures until there is enough; the others end.
        let deadline = Instant::now() + PATIENCE;
        while running.iter_mut().filter_map(|program| program.try_wait().unwrap()).count() < 5 {
            assert!(Instant::now() < deadline, "they wait for one another");
            thread::sleep(Duration::from_millis(5));
        }
        fs::write(scene.path("enough"), "").unwrap();
        let output = |program: Child| {
            let output = program.wait_with_output().unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        let ended: Vec<_> = running.into_iter().map(output).collect();
        let refused =
            ended.iter().filter(|(code, said)| *code == Some(5) && said.contains("another perf4sight is writing"));
        let done = ended.iter().filter(|(code, _)| *code == Some(0));
        assert_eq!((done.count(), refused.count()), (1, 5), "round {round}: {ended:#?}");
        fs::remove_dir_all(scene.path("profiling_csvs")).unwrap();
        fs::remove_file(scene.path("enough")).unwrap();
    }
}

#[test]
fn names_that_rows_cannot_hold_are_refused_before_anything_runs() {
    let scene = profiled("exit 3");
    let sets = [
        "profile.dataset='image|net'",
        "profile.dataset='image\nnet'",
        "profile.network=['squeeze|net']",
        "profile.network=['squeeze\rnet']",
        "profile.network=['=HYPERLINK(\"http://example.org\")']",
        "profile.device_model_loc='nets|more'",
        "profile.local_model_loc='nets\nmore'",
    ];
    for set in sets {
        let output = scene.command().args(["--config-file", "config.ini", "--check", "--set", set]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{set}: {said}");
        assert!(said.contains("ends a cell of a profile") || said.contains("cannot name a network"), "{set}: {said}");
        assert!(!said.contains('\r'), "{said:?}");
    }
}

#[test]
fn what_a_worker_says_cannot_steer_a_terminal() {
    let reason =
        r#"{"outcome":"failed","reason":"\u001b]0;owned\u0007\u001b[2J\u009b31m no\r\n such \u202eoperation"}"#;
    let scene = profiled(&format!("printf '%s\\n' '{reason}'"));
    let outcome = scene.run("--config-file config.ini");
    let said = format!("{}{}", outcome.stdout(), outcome.stderr());
    assert!(said.contains("owned"), "{outcome}");
    let steers = |c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{202e}';
    assert!(!said.contains(steers), "{said:?}");
}

/// In a file system of its own, where /tmp holds what somebody else may have put there.
#[test]
fn what_others_put_into_the_temporary_folder_stops_nobody() {
    let scene = Scene::in_target().file("worker.sh", "").file("config.ini", "");
    let made = profiled(&format!("echo '{MEASURED}'"));
    let scene = ["worker.sh", "config.ini", "nets/squeezenet_0.onnx"]
        .iter()
        .fold(scene, |scene, file| scene.file(file, fs::read(made.path(file)).unwrap()));
    let run = |command: &str| {
        let script = format!("mount -t tmpfs tmpfs /tmp && {command}");
        let mut unshare = Command::new("unshare");
        unshare.args(["--map-root-user", "--mount", "sh", "-c", &script]).current_dir(scene.folder()).output()
    };
    if !run("true").is_ok_and(|output| output.status.success()) {
        return eprintln!("skipped: this test needs an unshare that may mount");
    }
    let program = env!("CARGO_BIN_EXE_perf4sight");
    if Path::new(program).starts_with("/tmp") {
        return eprintln!("skipped: this test hides /tmp, where this checkout lies");
    }
    for lock in ["mkfifo", "mkdir -m 0", "ln -s /etc/passwd", "install -m 0 /dev/null"] {
        let command = format!("{lock} /tmp/perf4sight-measuring.lock && timeout 20 {program} --config-file config.ini");
        let output = run(&command).unwrap();
        assert!(output.status.success(), "{lock}: {output:?}");
        fs::remove_dir_all(scene.path("profiling_csvs")).unwrap();
    }
}

#[test]
fn a_program_whose_folder_has_a_name_that_is_no_text_finds_its_worker() {
    let scene = Scene::in_target();
    let folder = scene.folder().join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&folder).unwrap();
    let program = folder.join("perf4sight");
    fs::hard_link(env!("CARGO_BIN_EXE_perf4sight"), &program).unwrap();
    let script =
        format!("#!/bin/sh\ncase \"$*\" in *--about*) echo '{ABOUT}';; *) read request; echo '{MEASURED}';; esac\n");
    fs::write(folder.join("perf4sight-worker"), script).unwrap();
    fs::set_permissions(folder.join("perf4sight-worker"), Permissions::from_mode(0o700)).unwrap();
    let profiled = profiled("");
    let config = profiled.read("config.ini").replace("worker = sh worker.sh\n", "threads = 1\n");
    let scene = profiled.file("config.ini", config);
    let output =
        Command::new(&program).args(["--config-file", "config.ini"]).current_dir(scene.folder()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Whatever the moment of a kill, the same command ends what was begun, and the rows are those of a run that nobody disturbed.
#[test]
fn a_run_that_is_killed_anywhere_goes_on() {
    let rows = |scene: &Scene| {
        let read = |file: &str| {
            let mut lines: Vec<String> = scene.read(file).lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        ["latency", "memory"].map(|name| read(&format!("profiling_csvs/simulated/imagenet/{name}/squeezenet_0-gt.csv")))
    };
    let config = "[create_network_dataset]\nnetworks = squeezenet\npruning_perc = [0, 30]\n\
                  [profile]\ndevice = simulated\ndataset = imagenet\nnetwork = squeezenet\nbs = [1, 2, 4, 8, 16, 32]\n";
    let scene = || Scene::new().file("config.ini", config);
    let undisturbed = scene();
    let began = Instant::now();
    undisturbed.run("--config-file config.ini").succeeds();
    let whole = began.elapsed();
    for kills in [1, 3, 6] {
        let scene = scene();
        for kill in 1..=kills {
            let mut program = scene.start();
            thread::sleep(whole * kill / (kills + 1));
            program.kill().unwrap();
            program.wait().unwrap();
        }
        scene.run("--config-file config.ini").succeeds();
        assert_eq!(rows(&scene), rows(&undisturbed), "{kills} kills");
    }
}

/// Clones and notes of others are called as the program's own folders are.
#[test]
fn folders_of_others_stay_whatever_they_are_called() {
    let scene = Scene::new()
        .file("proj/perf4sight.git/HEAD", "ref: refs/heads/main\n")
        .file("proj/removed.1/rank0.recording.json", "{}")
        .file("proj/replaced.1/rank0.recording.json", "{}")
        .file("tmp/perf4sight.notes/thesis.tex", "\\begin{document}\n");
    fs::set_permissions(scene.path("proj/perf4sight.git"), Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(scene.path("tmp/perf4sight.notes"), Permissions::from_mode(0o700)).unwrap();
    let run = |arguments: &str| {
        let mut command = scene.command();
        command.current_dir(scene.path("proj")).env("TMPDIR", scene.path("tmp"));
        Ended::of(arguments, command.args(arguments.split_whitespace()).output().unwrap())
    };
    for out in [".", "below", "../tmp"] {
        run(&format!("record --out {out} -- true")).fails(5).says("nothing was recorded");
    }
    assert_eq!(scene.read("proj/perf4sight.git/HEAD"), "ref: refs/heads/main\n");
    assert_eq!(scene.read("tmp/perf4sight.notes/thesis.tex"), "\\begin{document}\n");
    assert!(scene.path("proj/removed.1/rank0.recording.json").exists());
    assert!(scene.path("proj/replaced.1/rank0.recording.json").exists());
}

/// `timeout` of GNU coreutils signals its child and then its whole group (`send_sig` in timeout.c): one signal comes twice. A second one that
/// comes later finds a command that does not end.
#[test]
fn folders_of_a_recording_go_on_every_ordered_end() {
    for (script, pause) in [("sleep 300", 20), ("trap '' TERM INT; while :; do sleep 1; done", 500)] {
        let scene = Scene::new().file("train.sh", script);
        let mut program = scene.command();
        let program = program.args(["record", "--out", "rec", "--", "sh", "train.sh"]).stdout(Stdio::null());
        let mut program = program.stderr(Stdio::null()).spawn().unwrap();
        let ours = || fs::read_dir(scene.path("rec")).map_or(0, |entries| entries.count());
        within_patience("the folder of the recorder", || ours() > 0);
        let signal = || _ = kill(Pid::from_raw(program.id() as i32), Signal::SIGTERM);
        signal();
        thread::sleep(Duration::from_millis(pause));
        signal();
        assert_eq!(program.wait().unwrap().code(), Some(130), "{script}");
        assert!(!scene.path("rec").exists(), "{script}");
    }
}

/// A name with a line end may not look like a message of the program's own.
#[test]
fn names_forge_no_messages() {
    let scene = Scene::new();
    let output = scene.command().args(["inspect", "none\nwarning: all is well\nerror: none.onnx"]).output().unwrap();
    let answer = Ended::of("inspect", output);
    assert!(answer.stderr().lines().skip(1).all(|line| line.starts_with("  ")), "{answer}");
}

/// The Python module makes such folders too, and leaves one behind when it is killed.
#[test]
fn what_a_killed_python_module_left_goes() {
    let scene = Scene::new().file("tmp/.keep", "");
    let module = concat!(env!("CARGO_MANIFEST_DIR"), "/python/perf4sight/_private.py");
    let script = format!(
        "import os, runpy\nheld = runpy.run_path('{module}')['folder']()\nheld.__enter__()\nos.kill(os.getpid(), 9)\n"
    );
    let left = || {
        let entries = fs::read_dir(scene.path("tmp")).unwrap();
        entries.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("perf4sight.")).count()
    };
    Command::new("python3").args(["-c", &script]).env("TMPDIR", scene.path("tmp")).status().unwrap();
    assert_eq!(left(), 1);
    scene.run("record --out tmp -- true").fails(5).says("nothing was recorded");
    assert_eq!(left(), 0);
}
