//! The real program: arguments, exit codes, help, and messages for what cannot work.

use crate::fixtures::{Outcome, Scene, shipped, simulated_fingerprint};
use crate::workers::{TX2, scripted};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

#[test]
fn nothing_asked_is_answered_with_what_to_type() {
    Scene::new().run("").fails(2).says("nothing to do").says("--config-file FILE");
    Scene::new().file("config.ini", "").run("").fails(2).says("perf4sight --config-file config.ini");
}

#[test]
fn help_shows_examples_and_every_exit_code() {
    let help = Scene::new().run("--help").succeeds().prints("Examples:").prints("--set profile.bs=[1,8]");
    for code in ["0 ", "2 ", "3 ", "4 ", "5 ", "6 ", "130 "] {
        assert!(help.stdout().contains(&format!("\n  {code}")), "exit code {code} is undocumented in {help}");
    }
}

#[test]
fn the_version_tells_whether_libtorch_is_in() {
    let scene = Scene::in_target();
    let program = scene.path("perf4sight");
    fs::hard_link(crate::program(), &program).unwrap();
    let version = || String::from_utf8(Command::new(&program).arg("--version").output().unwrap().stdout).unwrap();
    assert_eq!(version(), format!("perf4sight {} (libtorch: no)\n", env!("CARGO_PKG_VERSION")));
    let _scene = scene.file("perf4sight-worker", "");
    assert_eq!(version(), format!("perf4sight {} (libtorch: yes)\n", env!("CARGO_PKG_VERSION")));
}

/// Loading libtorch takes longer than most of what the program is asked; only its worker does.
#[test]
fn the_program_loads_no_libtorch() {
    // ld.so(8): the loader lists what it would load, and runs nothing.
    let output = Command::new(crate::program()).env("LD_TRACE_LOADED_OBJECTS", "1").output().unwrap();
    let libraries = String::from_utf8(output.stdout).unwrap();
    assert!(libraries.contains("libc.so"), "{libraries}");
    assert!(["libtorch", "libc10", "libstdc++"].iter().all(|name| !libraries.contains(name)), "{libraries}");
}

#[test]
fn help_that_cannot_be_written_is_no_success() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = Command::new(crate::program()).arg("--help").stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(said.contains("cannot write the help"), "{said}");
}

/// Without the worker, what runs no networks runs, and what does says what is missing.
#[test]
fn a_missing_worker_is_told_where_it_is_needed() {
    let scene = Scene::in_target().file("config.ini", shipped().read("config.ini"));
    let program = scene.path("perf4sight");
    fs::hard_link(crate::program(), &program).unwrap();
    let run = |arguments: &str| {
        let output =
            Command::new(&program).args(arguments.split_whitespace()).current_dir(scene.folder()).output().unwrap();
        Outcome::of(arguments, output)
    };
    run("config.ini --check").succeeds();
    for arguments in ["config.ini --check --set profile.device=cpu", "profile --check-noise", "worker --about"] {
        run(arguments).fails(5).says("perf4sight-worker is missing").says("build it with ./main");
    }
    // A Python beside the program is asked instead; one that perf4sight was not installed into cannot know.
    let python = scene.path("python3");
    fs::write(&python, "#!/bin/sh\necho 'No module named perf4sight' >&2\nexit 1\n").unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let asked = run("profile --check-noise").fails(5).says("No module named perf4sight");
    asked.says("there is no perf4sight-worker in the folder of this program").says("pip install .");
}

#[test]
fn completions_know_the_arguments() {
    for shell in ["bash", "zsh", "fish"] {
        Scene::new().run(&format!("completions {shell}")).succeeds().prints("config-file");
    }
    let bash = Scene::new().run("completions bash").succeeds();
    let words: Vec<&str> = bash.stdout().split(|c: char| c.is_whitespace() || c == '"').collect();
    for word in ["resnet18", "mobilenetv2", "create_network_dataset", "profile.bs=", "fingerprint.train_nets="] {
        assert!(words.contains(&word), "{word:?} cannot be completed");
    }
    Scene::new().run("completions tcsh").fails(2).says("possible values");
}

#[test]
fn unknown_arguments_are_refused_with_the_nearest_one() {
    Scene::new().run("--config-fil config.ini").fails(2).says("--config-file");
    Scene::new().run("--check").fails(2).says("--config-file");
    Scene::new().run("--only profile completions bash").fails(2);
    Scene::new().run("predcit resnet18 --fingerprint store").fails(2).says("did you mean \"predict\"?");
}

#[test]
fn a_configuration_needs_no_flag() {
    let scene = shipped();
    scene.run("config.ini --check").succeeds().prints("[profile] 120 runs");
    scene.run("config.ini --check --only create_network_dataset --set profile.bs=[2]").succeeds();
    scene.run("absent.ini").fails(6).says("absent.ini: cannot read this file");
    scene.run("config.ini --config-file config.ini").fails(2).says("cannot be used");
    scene.run("config.ini networks").fails(2).says("at once");
    scene.run("--config-file config.ini networks").fails(2).says("at once");
}

#[test]
fn quiet_and_json_stand_anywhere_and_together() {
    for arguments in ["--quiet --json networks", "networks --json --quiet", "--json networks --quiet"] {
        let run = Scene::new().run(arguments).succeeds();
        assert!(run.json().as_array().is_some_and(|all| all.len() > 10) && run.stderr().is_empty(), "{run}");
    }
    Scene::new().run("--quiet networks").succeeds().prints("resnet18");
}

#[test]
fn names_levels_and_files_have_the_exit_codes_of_the_help() {
    let folder = simulated_fingerprint();
    let scene = Scene::new().file("nets/readme.txt", "").file("broken.onnx", "no network");
    let config = format!("[predict]\nnetworks = resnet18\nfingerprint = {}\n", folder.display());
    let scene = scene.file("predict.ini", config);
    for (word, code, in_configuration) in
        [("vgg61", 3, 3), ("resnet18@100", 2, 3), ("absent.onnx", 6, 3), ("broken.onnx", 4, 4), ("nets", 4, 4)]
    {
        for verb in ["predict", "calibrate"] {
            if (verb, word) != ("calibrate", "nets") {
                scene.run(&format!("{verb} {word} --fingerprint {}", folder.display())).fails(code);
            }
        }
        scene.run(&format!("predict.ini --set predict.networks={word}")).fails(in_configuration);
    }
    // Names are wrong before anything runs.
    scene.run("predict.ini --check --set predict.networks=vgg61").fails(3).says("vgg11");
    scene.run("predict.ini --check --set predict.networks=resnet18@100").fails(3).says("\"100\" is not a level");
}

#[test]
fn empty_lists_are_refused_where_they_would_ask_for_nothing() {
    let scene = shipped();
    for key in [
        "create_network_dataset.networks",
        "create_network_dataset.pruning_perc",
        "profile.network",
        "profile.bs",
        "profile.stage",
        "profile.profile_variables",
        "fingerprint.train_nets",
        "fingerprint.train_logs",
        "fingerprint.eval_nets",
    ] {
        scene
            .run(&format!("config.ini --check --set {key}=[]"))
            .fails(3)
            .says("the list is empty")
            .says("at least one");
    }
    // Here nothing listed means whatever there is.
    scene.run("config.ini --check --set fingerprint.eval_logs=[] --set fingerprint.eval_memory_logs=[]").succeeds();
}

#[test]
fn more_threads_than_the_machine_runs_are_refused() {
    let scene = scripted("cpu", TX2, "");
    let check = scene.run("config.ini --check --set profile.threads=4096").fails(3);
    // What is wrong with the device is said with the section.
    check.says("threads = 4096, but this machine runs ").says("error: config.ini:");
    let many = scene.run("config.ini --check --set profile.cpus=4096").fails(3);
    many.says("error: config.ini:").says("a job cannot be given 4096 CPUs");
    let beyond = scene.run("config.ini --check --set profile.mem_limit=500TiB");
    beyond.says("mem_limit is 512000.00 GiB").says("the limit holds nothing");
    let mut noise = scene.command();
    noise.args(["profile", "--check-noise", "--threads", "4096", "--worker", "sh worker.sh"]);
    let noise = Outcome::of("profile --check-noise", noise.output().unwrap()).fails(3);
    noise.says("threads = 4096, but this machine runs ");
}

#[test]
fn stored_fingerprints_are_listed() {
    let folder = simulated_fingerprint();
    let root = folder.ancestors().nth(2).unwrap();
    let list = Scene::new().run(&format!("fingerprints {} --json", root.display())).succeeds().json();
    let [row] = list.as_array().unwrap().as_slice() else { panic!("{list}") };
    assert_eq!(row["folder"], folder.display().to_string());
    for (key, value) in [
        ("device", "simulated"),
        ("dataset", "imagenet"),
        ("stage", "training"),
        ("quantities", "latency, memory"),
        ("networks", "mobilenetv2, resnet18, squeezenet"),
    ] {
        assert_eq!(row[key], value);
    }
    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.join("report.json")).unwrap()).unwrap();
    for quantity in ["latency", "memory"] {
        let error = &row[format!("{quantity}_left_out_mape").as_str()];
        assert!(error.is_number() && *error == report[quantity]["left_out"]["mape"], "{row}");
    }
    assert_eq!(row["fitted"].as_str().unwrap().len(), "2026-01-01".len());
}

#[test]
fn fingerprints_that_cannot_be_listed_are_named_and_the_others_stand() {
    let good = simulated_fingerprint();
    let read = |name: &str| fs::read(good.join(name)).unwrap();
    let scene = Scene::new()
        .file("store/a/training_stage_latency.json", read("training_stage_latency.json"))
        .file("store/b/training_stage_latency.json", "{}");
    let run =
        scene.run("fingerprints store").fails(4).says("store/b/training_stage_latency.json").says("not a fingerprint");
    assert!(run.stdout().contains("store/a") && run.stdout().contains("latency"), "{run}");
    // Without a report of this fit nothing is said of its error.
    assert!(scene.run("fingerprints store/a --json").succeeds().json()[0]["latency_left_out_mape"].is_null());
    Scene::new().run("fingerprints").fails(6).says("fingerprinting").says("[fingerprint] fits them");
    Scene::new().file("store/notes.txt", "").run("fingerprints store").succeeds().prints("no fingerprints below store");
}

#[test]
fn a_missing_configuration_is_named() {
    Scene::new().run("--config-file absent.ini").fails(6).says("absent.ini: cannot read this file");
    Scene::new().run("--config-file .").fails(6).says("cannot read this file");
}

#[test]
fn an_empty_configuration_has_nothing_to_run() {
    let scene = Scene::new().file("config.ini", "# nothing\n");
    scene.run("--config-file config.ini").fails(3).says("config.ini: no section to run");
}

#[test]
fn bytes_that_are_no_text_are_refused_with_their_line() {
    let scene = Scene::new().file("config.ini", b"[profile]\n\xff\xfe = 1\n");
    scene.run("--config-file config.ini").fails(3).says("config.ini:2: ");
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let scene = Scene::new();
    let mut child = scene.command().args(["completions", "zsh"]).stdout(Stdio::piped()).spawn().unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_check_of_the_shipped_configuration_plans_its_runs_and_writes_nothing() {
    let scene = shipped();
    let check = scene.run("--config-file config.ini --check").succeeds();
    // 3 networks x 10 levels x 4 batch sizes; latency and memory come from the same run.
    for line in ["[create_network_dataset] no runs on a device\n", "[profile] 120 runs", "[fingerprint] no runs"] {
        assert!(check.stdout().contains(line), "{line:?} is not in {check}");
    }
    let left: Vec<_> = fs::read_dir(scene.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["config.ini"]);
}

#[test]
fn the_shipped_configuration_goes_from_networks_to_a_report() {
    let scene = shipped();
    let run = scene.run("--config-file config.ini").succeeds();
    let (_, closing) = run.stdout().split_once("\nResult\n").unwrap_or_else(|| panic!("no closing table in {run}"));
    let lines: Vec<&str> = closing.lines().collect();
    let columns: Vec<&str> = lines[0].split("  ").map(str::trim).filter(|column| !column.is_empty()).collect();
    assert_eq!(columns, ["network", "rows measured", "out of memory", "latency error", "memory error"]);
    for (line, network) in lines[2..].iter().zip(["resnet18", "mobilenetv2", "squeezenet"]) {
        assert!(line.starts_with(network), "{line:?} is not about {network}");
    }
    let report = lines.last().and_then(|line| line.strip_prefix("report: ")).expect("the report on the last line");
    assert!(scene.read(report).starts_with("<!DOCTYPE html>"));
}

#[test]
fn a_json_summary_holds_every_section_and_network() {
    let run = shipped().run("--config-file config.ini --json").succeeds();
    let summary = run.json();
    assert_eq!(summary["finished"], true);
    for section in ["create_network_dataset", "profile", "fingerprint"] {
        assert!(summary["sections"][section].is_object(), "[{section}] is not in {run}");
    }
    for network in ["resnet18", "mobilenetv2", "squeezenet"] {
        let found = summary["networks"][network].as_object().unwrap();
        assert!(found.values().all(|value| value.is_number()) && found.len() == 4, "{network}: {found:?}");
    }
}

#[test]
fn quiet_leaves_the_results() {
    let scene = shipped();
    let run = scene.run("--config-file config.ini --only create_network_dataset --quiet").succeeds();
    assert!(run.stdout().contains("resnet18_90") && !run.to_string().contains("pruning:"), "{run}");
}

#[test]
fn what_is_wrong_with_any_section_is_told_before_the_first_one_runs() {
    for (wrong, code, messages) in [
        ("profile.bs=many", 3, ["[profile] bs: 'many' does not fit", "a whole number from 1 to"]),
        ("profile.save=['True']", 3, ["[profile] save: ['True'] is a list", "True or False"]),
        ("profile.device=tx3", 3, ["tx3", "tx2"]),
        ("profile.netwrk=resnet18", 3, ["[profile] netwrk: no such key", "\"network\""]),
        ("profile.network=vgg61", 4, ["vgg61", "mobilenetv2"]),
        ("profile.log_dir=config.ini/logs", 3, ["[profile] log_dir: cannot write", "config.ini is a file"]),
        ("profile.stage=trainig", 3, ["stage", "training"]),
        ("create_network_dataset.networks=resnet81", 3, ["resnet81", "\"resnet18\""]),
        ("create_network_dataset.pruning_perc=[0,100]", 3, ["pruning_perc", "from 0 to 99"]),
        ("create_network_dataset.mode=randm", 3, ["mode", "did you mean random?"]),
        ("create_network_dataset.mode=l1", 3, ["weights", "l1"]),
        ("fingerprint.stage=train", 3, ["stage", "training"]),
        ("fingerprint.train_logs=[0,-5]", 3, ["train_logs", "from 0 to 99"]),
        ("fingerprint.method=perf5sight", 3, ["method", "perf4sight"]),
        ("fingerprint.target=orni", 3, ["a device called \"orni\"", "did you mean \"orin\"?"]),
        ("fingerprint.target=orni.json", 6, ["orni.json", "cannot read the device"]),
    ] {
        let scene = shipped();
        let run = scene.run(&format!("--config-file config.ini --set {wrong}")).fails(code);
        messages.iter().for_each(|message| assert!(run.stderr().contains(message), "{message:?} is not said by {run}"));
        assert!(!scene.path("models").exists(), "something ran before {run}");
    }
}

#[test]
fn a_badly_described_device_is_refused_before_anything_is_measured() {
    let good = include_str!("../../crates/platform/src/data/tx2.json");
    for (from, to, place, message) in [
        ("\"memory\": \"unified\",", "\"memory\": \"shared\",", "board.json:4: ", "unknown variant `shared`"),
        ("\"readings\": \"published\",\n", "", "board.json:", "missing field `readings`"),
        ("\"name\": \"tx2\"", "\"nmae\": \"tx2\"", "board.json:2: ", "unknown field `nmae`"),
        ("\"round\": 512", "\"round\": 0", "board.json: ", "its allocator has a size of 0"),
        ("[2, 4, 8", "[8, 4, 2", "board.json: ", "its batch sizes are not ascending"),
        ("\"batches\": [2,", "\"batches\": [-1,", "board.json:6: ", "invalid value"),
        ("{\n", "", "board.json:1: ", "no description of a device"),
    ] {
        assert!(good.contains(from), "the description no longer says {from}");
        let scene = shipped().file("board.json", good.replacen(from, to, 1));
        let run = scene.run("--config-file config.ini --set fingerprint.target=board.json").fails(4);
        assert!(
            run.stderr().contains(place) && run.stderr().contains(message),
            "{place}{message} is not said by {run}"
        );
        assert!(!scene.path("models").exists(), "something ran before {run}");
    }
}

/// A number alone was MiB in one place and GB in another.
#[test]
fn an_amount_of_memory_without_its_unit_is_refused_and_the_usual_spellings_are_understood() {
    let scene = Scene::new();
    for arguments in [
        "predict squeezenet --target orin --mem-limit 8",
        "sensitivity --memory 8 --dry-run -- true",
        "detection --mem-limit 8",
    ] {
        scene.run(arguments).fails(2).says("8 has no unit; write 8GiB or 8MiB (of 1024), 8GB or 8MB (of 1000)");
    }
    let limit = |amount: &str| {
        let mut command = scene.command();
        command.args(["predict", "squeezenet", "--target", "orin", "--json", "--mem-limit", amount]);
        let answer = Outcome::of(amount, command.output().unwrap()).succeeds().json();
        answer["networks"][0]["limit"]["bytes"].as_u64().unwrap()
    };
    for (amount, bytes) in
        [("8GiB", 8 << 30), ("8 GiB", 8 << 30), ("8Gi", 8 << 30), ("8G", 8 << 30), ("8GB", 8_000_000_000)]
    {
        assert_eq!(limit(amount), bytes, "{amount}");
    }
    // In a configuration a number alone is what it was when keys were published.
    let config = "[predict]\nnetworks = squeezenet\ntarget = orin\nmem_limit = 8192\noutput = out.json\n";
    let scene = scene.file("predict.ini", config);
    scene.run("predict.ini").succeeds();
    let written: serde_json::Value = serde_json::from_str(&scene.read("out.json")).unwrap();
    assert_eq!(written["networks"][0]["limit"]["bytes"], 8_u64 << 30);
}

#[test]
fn what_is_typed_by_mistake_is_answered_with_what_was_meant() {
    let scene = Scene::new().file("train.py", "").file("empty.onnx", "").file("net.pt", "weights");
    for (arguments, code, messages) in [
        ("prune squeezenet --level 0.5", 2, &["--level: 0.5 is less than one percent", "did you mean 50?"][..]),
        ("inspect resnet18 --input 320x320x3", 2, &["has its channels last", "write 3x320x320"]),
        ("inspect resnet18 --input 320x320", 2, &["resnet18 reads images, not 320x320"]),
        ("inspect resnet18@0.5", 2, &["did you mean resnet18@50?"]),
        ("predict resnet18 --target orin --dataset ImageNet", 4, &["did you mean the dataset \"imagenet\"?"]),
        ("predict resnet18 --target xavier", 3, &["jetson all others, as Xavier and Nano"]),
        ("record -- A=1 python3 train.py", 2, &["A=1 sets a variable", "write env A=1 python3 train.py"]),
        ("predict resnet18 --target orin --bs -4", 2, &["\"-4\" is not a whole number from 1 to 1000000"]),
        ("predict resnet18 --target orin --bs x", 2, &["\"x\" is not a whole number from 1 to 1000000"]),
        ("profile --check-noise --seconds soon", 2, &["\"soon\" is not a whole number"]),
        ("predict resnet18 --target orin --batch 4", 2, &["predict has no --batch", "did you mean --bs?"]),
        ("--quiet predict resnet18 --target orin --batch 4", 2, &["predict has no --batch", "did you mean --bs?"]),
        ("predict resnet18 --target orin -bs 4", 2, &["predict has no -b", "did you mean --bs?"]),
        ("predict resnet18 --target orin --mem-limt 4GiB", 2, &["did you mean --mem-limit?"]),
        ("predict resnet18 --target orin --mem 4GiB", 2, &["did you mean --mem-limit?"]),
        ("predict resnet18 --target orin --memory 4GiB", 2, &["did you mean --mem-limit?"]),
        ("predict resnet18 --target orin --precision fp16", 2, &["did you mean amp_fp16?"]),
        ("predict resnet18 --target orin --precision float32", 2, &["did you mean fp32?"]),
        ("predict resnet18 --target orin --mem-limit -8", 2, &["\"-8\" is not an amount of memory"]),
        ("-x predict resnet18", 2, &["perf4sight has no -x", "perf4sight --help"]),
        ("--json prdict resnet18", 2, &["did you mean \"predict\"?"]),
        (
            "replay traces --overwrite",
            2,
            &["--overwrite is about --record, which is not given", "leave out --overwrite"],
        ),
        (
            "replay --record torchrun --nproc-per-node 2 train.py",
            2,
            &["perf4sight replay --record -- torchrun --nproc-per-node 2 train.py"],
        ),
        ("record python3 train.py", 2, &["behind two dashes", "perf4sight record -- python3 train.py"]),
        ("--json record python3 train.py", 2, &["behind two dashes", "perf4sight --json record -- python3 train.py"]),
        ("record -- train.py --lr 1", 2, &["train.py is a script of Python", "write python3 train.py --lr 1"]),
        ("sensitivity --cpu 4 train.py --dali", 2, &["perf4sight sensitivity --cpu 4 -- python3 train.py --dali"]),
        ("sensitivity train.py", 2, &["train.py is not a profile", "perf4sight sensitivity -- python3 train.py"]),
        ("inspect ./empty.onnx", 4, &["empty.onnx: is empty", "torch.onnx.export"]),
        ("predict ./net.pt --target orin", 4, &["net.pt: is a .pt file, not ONNX", "torch.onnx.export"]),
    ] {
        let run = scene.run(arguments).fails(code);
        messages.iter().for_each(|message| assert!(run.stderr().contains(message), "{message:?} is not said by {run}"));
        assert!(!run.stderr().contains("use '-- "), "{run}");
    }
}

#[test]
fn words_may_be_written_in_capital_letters() {
    let scene = Scene::new();
    let asked = |optimizer: &str| {
        let arguments = format!("predict squeezenet --target orin --json --optimizer {optimizer}");
        scene.run(&arguments).succeeds().stdout().to_owned()
    };
    assert_eq!(asked("adamW"), asked("adamw"));
    assert_ne!(asked("ADAMW"), asked("sgd"));
    let scene = shipped();
    scene.run("config.ini --check --set profile.optimizer=AdamW --set create_network_dataset.mode=Random").succeeds();
}
