//! `--check` refuses what the run refuses before it does any work, at the key that names it, and nothing else.

use crate::ROOT;
use crate::fixtures::Scene;
use std::fs;
use std::os::unix::fs::symlink;

/// Files of others, links and traces to name in a configuration; `#` stands for recorded traces.
fn scene(config: &str) -> Scene {
    let scene = Scene::new()
        .file("config.ini", config.replace('#', &format!("{ROOT}/examples/training/before")))
        .file("notes.txt", "mine\n")
        .file("table.csv", "mine,too\n1,2\n")
        .file("data.json", r#"{"mine": 1}"#)
        .file("report/report.html", "<html>mine</html>")
        .file("settings/settings.csv", "mine\n")
        .file("bad.onnx", b"\x07 is not a field")
        .file("empty/x.json", "{}")
        .file("eventless.json", r#"{"traceEvents": []}"#)
        .file("plans.csv", "mine,too\n1,2\n")
        .file("empty.txt", "\n")
        .file("foreign/rank0.json.gz", b"recorded by others")
        .file("theirs/imagenet/resnet18_50.onnx", b"exported by others")
        .file("bad_0.onnx", b"\x07 is not a field")
        .file("kind.json", fs::read(format!("{ROOT}/crates/platform/src/data/orin.json")).unwrap());
    for (link, target) in
        [("page.html", "notes.txt"), ("dangling", "nowhere/x"), ("loop", "loop"), ("new.csv", "new/x.csv")]
    {
        symlink(target, scene.path(link)).unwrap();
    }
    scene
}

/// The check and the run both end with this exit code and say this, at this line of the configuration.
fn both_refuse(config: &str, code: i32, line: usize, words: &str) {
    for check in ["--check", ""] {
        let place = format!("config.ini:{line}: ");
        scene(config).run(&format!("--config-file config.ini {check}")).fails(code).says(&place).says(words);
    }
}

const PREDICT: &str = "[predict]\nnetworks = [\"resnet18\"]\ntarget = orin\nbs = [1]\n";

#[test]
fn results_in_the_places_of_others_files() {
    let others = "a file that this command did not write would be replaced";
    for output in ["page.html", "table.csv", "data.json", "report/report.html"] {
        both_refuse(&format!("{PREDICT}output = [\"{output}\"]\n"), 3, 5, others);
    }
    both_refuse("[advise]\nnetwork = resnet18\ntarget = orin\nbs = 4\noutput = [\"data.json\"]\n", 3, 5, others);
    both_refuse("[statistic]\ntraces = #\nout = notes.txt\n", 3, 3, others);
    both_refuse("[collect]\ntraces = #\nout = page.html\n", 3, 3, others);
    both_refuse("[breakdown]\ntraces = #\nout = report\n", 3, 3, others);
    both_refuse("[sensitivity]\ncommand = [\"true\"]\niterations = 10\nout = report\n", 3, 4, others);
}

#[test]
fn results_of_two_sections_in_one_place() {
    let advise = "[advise]\nnetwork = resnet18\ntarget = orin\nbs = 4\noutput = [\"new/../new.html\"]\n";
    let twice = |output: &str| format!("{PREDICT}output = [\"{output}\"]\n{advise}");
    both_refuse(&twice("new.html"), 3, 10, "[predict] writes new.html, too");
    both_refuse(&twice("new.html/x.json"), 3, 10, "[predict] writes new.html/x.json, too");
    both_refuse("[statistic]\ntraces = #\nout = new\n[collect]\ntraces = #\nout = ./new\n", 3, 6, "writes new, too");
    let reports = "[breakdown]\ntraces = #\nout = new\n[replay]\ntraces = #\nout = report/../new\n";
    both_refuse(reports, 3, 6, "[breakdown] writes new/report.html, too");
    for (section, name) in
        [("breakdown", "breakdown.csv"), ("replay", "operations.csv"), ("optimize", "spec/tensor_partition_spec.txt")]
    {
        let into = format!(
            "[statistic]\ntraces = #\nout = new/{name}\noverwrite = True\n[{section}]\ntraces = #\nout = new\n"
        );
        both_refuse(&into, 3, 7, &format!("[statistic] writes new/{name}, too"));
    }
    for (name, section) in [
        ("new/points.json", "[sensitivity]\ncommand = [\"true\"]\niterations = 10\nout = new\n"),
        ("new/searches/mcmc-seed-0.json", "[optimize]\ntraces = #\npass = op_fusion\nout = new\n"),
        ("new/rank3.json.gz", "[record]\ncommand = [\"true\"]\niterations = 10\nout = new\n"),
    ] {
        let into = format!("[statistic]\ntraces = #\nout = {name}\n{section}");
        both_refuse(&into, 3, 7, &format!("[statistic] writes {name}, too"));
    }
    let below = "[statistic]\ntraces = #\nout = new\n[replay]\ntraces = #\nout = new/replay\n";
    both_refuse(below, 3, 6, "[statistic] writes new, too");
    // What two sections write into a pipe stands one behind the other.
    let printed = "[statistic]\ntraces = #\nout = /dev/stdout\n[collect]\ntraces = #\nout = /dev/stdout\n";
    scene(printed).run("--config-file config.ini --check").succeeds();
}

/// `overwrite = True` replaces what is in the place of a result, and no input of this or another section, nor the configuration.
#[test]
fn inputs_are_not_replaced() {
    let others = |reader: &str| format!("would be replaced, and {reader} reads it");
    let statistic = |out: &str| format!("[statistic]\ntraces = #\nout = {out}\noverwrite = True\n");
    for (out, reads) in [
        ("bad.onnx", "[predict]\nnetworks = [\"./bad.onnx\"]\ntarget = orin\nbs = [1]\n"),
        ("bad.onnx", "[predict]\nnetworks = [\"ba*.onnx\"]\ntarget = orin\nbs = [1]\n"),
        ("foreign/rank0.json.gz", "[replay]\ntraces = foreign\nout = new\n"),
        ("plans.csv", "[cost_model]\nplans = plans.csv\nout = new.json\n"),
        ("notes.txt", "[record]\ncommand = [\"sh\", \"notes.txt\"]\nout = new\n"),
        ("bad_0.onnx", "[profile]\ndevice = simulated\nnetwork = bad\nbs = [1]\nlocal_model_loc = .\nlog_dir = new\n"),
    ] {
        let reader = &reads[..=reads.find(']').unwrap()];
        both_refuse(&format!("{}{reads}", statistic(out)), 3, 3, &others(reader));
    }
    both_refuse(&statistic("config.ini"), 3, 3, &others("this program"));
    let own = "[predict]\nnetworks = [\"resnet18\"]\nbs = [1]\ntarget = kind.json\noverwrite = True\noutput = [\"kind.json\"]\n";
    both_refuse(own, 3, 6, &others("[predict]"));
    let recorded = "[record]\ncommand = [\"true\"]\nout = foreign\noverwrite = True\n[replay]\nout = new\n";
    both_refuse(recorded, 3, 3, "is not of a recording of perf4sight");
    let networks = "[create_network_dataset]\nnetworks = [\"resnet18\"]\npruning_perc = [50]\nmodel_path = theirs\noverwrite = True\n\
                    [predict]\nnetworks = [\"theirs/imagenet\"]\ntarget = orin\nbs = [1]\n";
    both_refuse(networks, 3, 4, &others("[predict]"));
}

/// Nor what a section reads that is left out of this run.
#[test]
fn inputs_of_sections_that_do_not_run_are_not_replaced() {
    let config =
        "[statistic]\ntraces = #\nout = plans.csv\noverwrite = True\n[cost_model]\nplans = plans.csv\nout = new.json\n";
    let scene = scene(config);
    for check in ["--check", ""] {
        let run = scene.run(&format!("--config-file config.ini --only statistic {check}"));
        run.fails(3).says("config.ini:3: ").says("would be replaced, and [cost_model] reads it");
    }
}

#[test]
fn one_file_for_two_results() {
    both_refuse(&format!("{PREDICT}output = [\"new.json\", \"./new.json\"]\n"), 3, 5, "new.json is written twice");
}

/// The answer to this change alone would be missing, after all traces were read.
#[test]
fn another_gpu_without_a_model() {
    let replay = "[replay]\ntraces = #\nout = new\nwhat_if = [\"bandwidth x 2\", \"cpu x 2; gpu = H100\"]\n";
    both_refuse(replay, 3, 4, "give one (cost_model)");
}

/// What the first run wrote is replaced by the second one, and read by the next section.
#[test]
fn results_of_the_run_before_are_no_inputs_from_outside() {
    let config = "[create_network_dataset]\nnetworks = [\"resnet18\"]\npruning_perc = [50]\nmodel_path = made\noverwrite = True\n\
                  [predict]\nnetworks = [\"made/imagenet\"]\ntarget = orin\nbs = [1]\noutput = [\"new.csv\"]\noverwrite = True\n";
    let scene = scene(config);
    for _ in 0..2 {
        scene.run("--config-file config.ini --check").succeeds();
        scene.run("--config-file config.ini").succeeds();
    }
    let recorded = format!("{ROOT}/examples/training/before");
    for file in fs::read_dir(recorded).unwrap().flatten() {
        fs::copy(file.path(), scene.path("new").join(file.file_name())).unwrap();
    }
    let record = "[record]\ncommand = [\"true\"]\nout = new\noverwrite = True\n[replay]\ntraces = new/rank0.json.gz\nout = replay\n";
    fs::write(scene.path("config.ini"), record).unwrap();
    scene.run("--config-file config.ini --check").succeeds();
}

#[test]
fn results_where_none_can_be_written() {
    for (folder, words) in [
        ("notes.txt", "it is a file"),
        ("notes.txt/below", "notes.txt is a file"),
        ("loop", "Too many levels of symbolic links"),
        ("dangling", "dangling is a link that leads nowhere"),
        ("dangling/below", "dangling is a link that leads nowhere"),
    ] {
        both_refuse(&format!("[breakdown]\ntraces = #\nout = {folder}\n"), 3, 3, words);
        both_refuse(&format!("[record]\ncommand = [\"true\"]\nout = {folder}\n"), 3, 3, words);
        both_refuse(&format!("[sensitivity]\ncommand = [\"true\"]\niterations = 10\nout = {folder}\n"), 3, 4, words);
    }
    both_refuse("[collect]\ntraces = #\nout = report\n", 3, 3, "it is a folder");
    let folders = [
        "variants.csv",
        "unprunable.csv",
        "breakdown.csv",
        "time_breakdown.svg",
        "replay.json",
        "points.json",
        "settings.csv",
        "searches/mcmc-seed-0.json",
        "rank0.json.gz",
    ];
    for (section, names) in [
        ("create_network_dataset]\nnetworks = [\"resnet18\"]\nmodel_path = taken\ndataset = imagenet", &folders[..2]),
        ("breakdown]\ntraces = #\nout = taken/imagenet", &folders[2..4]),
        ("replay]\ntraces = #\nout = taken/imagenet", &folders[4..5]),
        ("sensitivity]\ncommand = [\"true\"]\nout = taken/imagenet", &folders[5..6]),
        ("detection]\ndata = report\nout = taken/imagenet", &folders[6..7]),
        ("optimize]\ntraces = #\nout = taken/imagenet", &folders[7..8]),
        ("record]\ncommand = [\"true\"]\nout = taken/imagenet", &folders[8..]),
    ] {
        for name in names {
            let scene = scene(&format!("[{section}\n"));
            fs::create_dir_all(scene.path("taken/imagenet").join(name)).unwrap();
            for check in ["--check", ""] {
                let refused = scene.run(&format!("--config-file config.ini {check}"));
                refused.fails(3).says("config.ini:3: ").says(&format!("{name}: it is a folder"));
            }
        }
    }
    both_refuse("[collect]\ntraces = #\nout = new/all/\n", 3, 3, "its name ends as that of a folder");
    both_refuse("[collect]\ntraces = #\nout = loop\n", 3, 3, "too many links");
    // NAME_MAX of Linux is 255 bytes.
    both_refuse(&format!("[collect]\ntraces = #\nout = new/{}\n", "x".repeat(256)), 3, 3, "longer than 255 bytes");
}

#[test]
fn inputs_that_cannot_be_used() {
    let predict = |line: &str| format!("[predict]\nbs = [1]\ntarget = orin\n{line}\n");
    both_refuse(&predict("networks = [\"bad.onnx\"]"), 4, 4, "is not an ONNX file");
    both_refuse(&predict("networks = [\"report\"]"), 4, 4, "holds no .onnx file");
    // torchvision's squeezenet begins with a 7x7 convolution.
    both_refuse(&predict("networks = [\"squeezenet\"]\ninput = 3x5x5"), 4, 4, "does not fit the 3x5x5 images");
    both_refuse(&predict("networks = [\"resnet18\"]\ntrainable = none.*"), 4, 4, "leaves nothing of resnet18 to train");
    let fingerprint = "[predict]\nnetworks = [\"resnet18\"]\nbs = [1]\nfingerprint = report\n";
    both_refuse(fingerprint, 4, 4, "there is no fingerprint of training here");
    both_refuse("[breakdown]\ntraces = empty\nout = new\n", 4, 2, "has no list of traceEvents");
    both_refuse("[replay]\ntraces = eventless.json\nout = new\n", 4, 2, "without events");
    both_refuse("[record]\ncommand = [\"no-such-program\"]\nout = new\n", 6, 2, "cannot start this command");
    both_refuse("[record]\ncommand = [\"python3\", \"none.py\"]\nout = new\n", 3, 2, "none.py, which does not exist");
    both_refuse("[detection]\ndata = report\nout = new\n", 4, 2, "not a data set to train detectors with");
    let sensitivity = "[sensitivity]\ncommand = [\"true\"]\niterations = 10\nout = new\ncpu = 9000\n";
    both_refuse(sensitivity, 3, 5, "9000");
    let profile = "[profile]\ndevice = simulated\nnetwork = resnet18\nprofile_variables = [\"latency\"]\nbs = [1]\n\
                   log_dir = new\ntest_config = notes.txt\nlocal_model_loc = ";
    both_refuse(&format!("{profile}report\n"), 4, 1, "there is no level of resnet18 here");
    let dataset = "[create_network_dataset]\nnetworks = resnet18\npruning_perc = [0]\nmodel_path = new\n";
    let elsewhere = format!("{dataset}{profile}report\n");
    both_refuse(&elsewhere, 4, 5, "an earlier section writes it: local_model_loc = new/imagenet");
    let scene = scene(&format!("{profile}.\n"));
    fs::copy(format!("{ROOT}/models/imagenet/resnet18.onnx"), scene.path("resnet18_0.onnx")).unwrap();
    for check in ["--check", ""] {
        let refused = scene.run(&format!("--config-file config.ini {check}"));
        refused.fails(3).says("config.ini:7: [profile] test_config: notes.txt: line 1: neither a section");
    }
    let optimize = "[optimize]\ntraces = #\nout = new\nnetwork = bad.onnx\nbatch = 4\n";
    both_refuse(optimize, 4, 4, "is not an ONNX file");
    both_refuse("[cost_model]\nplans = plans.csv\nout = new.json\n", 4, 2, "there is no column gpus");
    let dataset =
        "[create_network_dataset]\nnetworks = [\"bad\"]\nmodel_desc_dir = .\npruning_perc = [0]\nmodel_path = new\n";
    both_refuse(dataset, 4, 2, "is not an ONNX file");
}

/// Inputs that say nothing, or that contradict each other, and several networks where one is advised on.
#[test]
fn values_that_mean_nothing_here() {
    let advise = |network: &str| format!("[advise]\ntarget = orin\nbs = 4\nnetwork = \"{network}\"\n");
    for several in ["empty", "*.onnx"] {
        both_refuse(&advise(several), 3, 4, "advice is of one network");
    }
    let written = "[create_network_dataset]\nnetworks = [\"resnet18\"]\npruning_perc = [50]\nmodel_path = made\n";
    both_refuse(&format!("{written}{}", advise("made/imagenet")), 3, 8, "advice is of one network");
    for section in ["record", "sensitivity"] {
        both_refuse(&format!("[{section}]\ncommand = ['']\n"), 3, 2, "the first word of the command is empty");
    }
    let optimize = |line: &str| format!("[optimize]\ntraces = #\nout = new\n{line}\n");
    both_refuse(&optimize("xla_candidate_path = empty.txt"), 4, 4, "no operation is named");
    both_refuse(&optimize("clusters = empty.txt"), 4, 4, "it names no group");
    both_refuse(&optimize("batch = 4"), 3, 4, "it means nothing without network");
    let plans = "[optimize]\nmodel = data.json\nplans = plans.csv\nnetwork = bad.onnx\nbatch = 4\n";
    both_refuse(plans, 3, 3, "network is given, too");
    let job = "[sensitivity]\ncommand = [\"true\"]\niterations = 10\nout = new\n";
    both_refuse(&format!("{job}container_mnt = new\n"), 3, 5, "it means nothing without docker_img");
    both_refuse("[breakdown]\ntraces = [\"#/rank0.json.gz\", \"#\"]\nout = new\n", 3, 2, "named twice");
    both_refuse("[breakdown]\ntraces = #\nout = new\niteration = none\n", 3, 4, "no event named");
}

/// What a section needs and no earlier one will write: rows of its step, networks and levels, networks in that folder.
#[test]
fn what_will_not_be_there() {
    let fingerprint = |batches: &str, lines: &str| {
        format!(
            "[profile]\ndevice = simulated\nnetwork = bad\nlocal_model_loc = .\nlog_dir = new\nbs = {batches}\n\
             [fingerprint]\nlatency_logs = [\"new/latency\"]\npruned_models_storedir = .\nmodel_storedir = fitted\ntarget = cpu\n\
             memory_model = False\n{lines}\n"
        )
    };
    let (few, many) = ("[1,2,4]", "[1,2,3,4,5,6,7,8,9,10]");
    let fitted = "train_nets = [\"bad\"]\ntrain_logs = [0]";
    scene(&fingerprint(many, fitted)).run("--config-file config.ini --check").succeeds();
    both_refuse(&fingerprint(few, fitted), 3, 8, "there will be at most 3 training latency rows of bad at levels 0");
    both_refuse(&fingerprint(many, &format!("{fitted}\nstage = inference")), 3, 8, "at most 0 inference latency rows");
    both_refuse(
        &fingerprint(many, "train_nets = [\"vgg11\"]\ntrain_logs = [0]"),
        3,
        8,
        "at most 0 training latency rows",
    );
    both_refuse(&fingerprint(many, "train_nets = [\"bad\"]\ntrain_logs = [50]"), 3, 8, "at levels 50");
    let networks = "[create_network_dataset]\nnetworks = [\"resnet18\"]\npruning_perc = [50]\nmodel_path = made\n\
                    [predict]\nnetworks = [\"made\"]\ntarget = orin\nbs = [1]\n";
    both_refuse(networks, 4, 6, "holds no .onnx file");
}

/// An error stands at the line of its key, and names keys, not options of the command line.
#[test]
fn errors_stand_at_their_keys() {
    both_refuse("[predict]\nbs = [1]\ntarget = orin\nnetworks = [\"resnet81\"]\n", 3, 4, "unknown network");
    let job = "[sensitivity]\ncommand = [\"true\"]\niterations = 10\nout = new\n";
    both_refuse(&format!("{job}nnodes = 2\nnode_rank = 3\n"), 3, 6, "there is no node_rank 3 among 2 nodes");
    both_refuse("[sensitivity]\ncommand = [\"true\"]\nout = new\npoint_time = 1s\n", 3, 4, "(point_time)");
    both_refuse("[cost_model]\nout = new.json\nplans = report\n", 6, 3, "Is a directory");
    let missing =
        scene("[optimize]\ntraces = #\nnetwork = bad.onnx\n").run("--config-file config.ini --check").fails(3);
    missing.says("config.ini:3: ").says("add batch");
}

/// What a name holds cannot pass for another message, and a long one leaves it readable.
#[test]
fn names_are_shown_in_one_line_of_a_message() {
    let name = |name: &str| {
        scene(&format!("[collect]\ntraces = #\nout = \"{name}\"\n")).run("--config-file config.ini --check")
    };
    let said = name(&format!("new/\u{200b}{}", "x".repeat(900_000))).fails(3).says(r"new/\u{200b}xxx").stderr().len();
    assert!(said < 2_000, "{said} bytes");
}

/// However the path to it is spelled.
#[test]
fn what_an_earlier_section_will_write_is_there_for_a_later_one() {
    let dataset =
        "[create_network_dataset]\nnetworks = [\"resnet18\"]\npruning_perc = [50]\nmodel_path = report/../made/nets\n";
    for networks in ["./made/nets/imagenet", "$/report/../made/nets/imagenet", "made/nets/../nets/imagenet"] {
        let scene = scene("");
        let networks = networks.replace('$', &scene.path("").display().to_string());
        let predict = format!("[predict]\nnetworks = [\"{networks}\"]\ntarget = orin\nbs = [1]\n");
        fs::write(scene.path("config.ini"), format!("{dataset}{predict}")).unwrap();
        scene.run("--config-file config.ini --check").succeeds();
    }
}

/// What an earlier section writes is not there yet, or is there from the run before.
#[test]
fn what_is_or_will_be_written_by_the_program_is_no_obstacle() {
    let config = "[create_network_dataset]\nnetworks = [\"resnet18\"]\npruning_perc = [50]\nmodel_path = nets\n\
                  [predict]\nnetworks = [\"nets/imagenet\"]\ntarget = orin\nbs = [1]\noutput = [\"new.csv\", \"new.json\", \"new.html\"]\n\
                  [advise]\nnetwork = nets/imagenet/resnet18_50.onnx\ntarget = orin\nbs = 4\noutput = [\"advice.json\", \"advice.html\"]\n";
    let scene = scene(config);
    for _ in 0..2 {
        scene.run("--config-file config.ini --check").succeeds();
        scene.run("--config-file config.ini").succeeds();
    }
    assert!(
        fs::metadata(scene.path("new/x.csv")).unwrap().is_file(),
        "a link may lead to a file that is not there yet"
    );
}
