//! `[predict]` and `perf4sight predict` through the real program: pages, lists, files, and what is refused. Values belong to the
//! fingerprint; here only what holds for every fingerprint is asserted.

use crate::fixtures::{self, Outcome, Scene, Sink, simulated_fingerprint};
use perf4sight_cost::fingerprint::DeviceFingerprints;
use perf4sight_cost::verbs::predict::VERB;
use perf4sight_network::zoo;
use perf4sight_network::zoo::Dataset;
use perf4sight_network::{Activation, Conv, Linear, NetworkBuilder, Op, ReductionKind, Shape, Window};
use perf4sight_onnx as onnx;
use perf4sight_report::{Console, ConsoleSettings, OutputMode};
use perf4sight_step::workload::Stage;
use perf4sight_verb::config::{ConfigDocument, ConfigEntry, SettingValues, Value as Given, ValueOrigin};
use serde_json::Value;
use std::fs;
use std::path::Path;

fn predict(scene: &Scene, arguments: &str) -> Outcome {
    scene.run(&format!("predict --fingerprint {} {arguments}", simulated_fingerprint().display()))
}

/// The file of a known network.
fn file(network: &str, dataset: Dataset) -> Vec<u8> {
    onnx::to_bytes(&zoo::build(network, dataset).unwrap())
}

/// Squeezenet with so many of its 26 rectifiers renamed to what no reader knows.
fn strange(unknown: usize) -> Vec<u8> {
    let mut bytes = file("squeezenet", Dataset::Imagenet);
    let known: Vec<usize> = (0..bytes.len() - 4).filter(|&at| &bytes[at..at + 4] == b"Relu").collect();
    known.iter().take(unknown).for_each(|&at| bytes[at..at + 4].copy_from_slice(b"Rulo"));
    bytes
}

#[test]
fn one_network_gets_a_page() {
    let page = predict(&Scene::new(), "resnet50@30 --bs 1,4").succeeds().says("of the parameters are gone");
    for text in ["training of resnet50@30 on simulated", "batch size", "samples/s", "Simulated memory at its peak"] {
        assert!(page.stdout().contains(text), "{text:?} is not on {page}");
    }
    let page = page.prints("largest batch: ").prints("memory intervals: estimated 90 %");
    page.prints("unlike what was profiled: parameters");
}

/// PyTorch: "Expected more than 1 value per channel when training, got input size torch.Size([1, 512, 1, 1])".
#[test]
fn a_batch_of_one_that_pytorch_refuses_to_train_is_told() {
    let warnings = |more: &str| {
        let asked = format!("predict resnet18 --target cpu --input 3x32x32 {more} --json");
        Scene::new().run(&asked).succeeds().json()["warnings"].to_string()
    };
    for refused in ["--bs 1", "--bs 4 --accumulate 4"] {
        assert!(warnings(refused).contains("resnet18: PyTorch refuses to train with 1 sample"), "{refused}");
    }
    for possible in ["--bs 2", "--bs 1 --stage inference"] {
        assert!(!warnings(possible).contains("PyTorch refuses"), "{possible}");
    }
}

#[test]
fn everything_is_in_the_json() {
    let answer = predict(&Scene::new(), "resnet18@45 --bs 1,8 --json").succeeds().json();
    let network = &answer["networks"][0];
    assert!(answer["remarks"].as_array().is_some_and(|remarks| !remarks.is_empty()), "{answer}");
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value} is not a number in {answer}"));
    for point in network["predictions"].as_array().unwrap() {
        assert!(number(&point["memory_low_bytes"]) < number(&point["memory_bytes"]));
        assert!(number(&point["memory_bytes"]) < number(&point["memory_high_bytes"]));
        assert_eq!(point["memory_interval"], "estimated");
        let throughput = 1000.0 * number(&point["bs"]) / number(&point["latency_ms"]);
        assert!((number(&point["throughput_per_s"]) / throughput - 1.0).abs() < 1e-9);
        assert!(["fits", "borderline", "does not fit"].iter().any(|call| point["verdict"] == *call));
        assert!((0.0..=1.0).contains(&number(&point["fits_probability"])));
    }
    assert!(number(&network["max_batch"]["safe"]) <= number(&network["max_batch"]["likely"]));
    let parts = network["breakdown"]["by"]["component"].as_array().unwrap();
    let shares: f64 = parts.iter().map(|part| number(&part["share_percent"])).sum();
    assert!((shares - 100.0).abs() < 1e-6, "{shares} %");
    assert_eq!((&network["unlike"], &answer["skipped"]), (&Value::Array(vec![]), &Value::Array(vec![])));
}

#[test]
fn folders_patterns_and_names_are_answered_together_and_what_is_broken_is_skipped() {
    let scene = Scene::new()
        .file("nets/a.onnx", file("squeezenet", Dataset::Imagenet))
        .file("nets/b.onnx", file("resnet18", Dataset::Imagenet))
        .file("nets/notes.txt", "no network")
        .file("more/c.onnx", file("squeezenet", Dataset::Imagenet));
    let rows = |run: &Outcome| -> Vec<String> { run.stdout().lines().map(str::to_owned).collect() };
    let all = predict(&scene, "nets mor?/*.onnx squeezenet@30 --bs 1,2 --csv").succeeds();
    assert!(rows(&all)[0].starts_with("network,device,dataset,stage,bs,latency_ms,"), "{all}");
    let names: Vec<String> = rows(&all)[1..].iter().map(|row| row.split(',').next().unwrap().to_owned()).collect();
    let once = ["nets/a.onnx", "nets/b.onnx", "more/c.onnx", "squeezenet@30"];
    assert_eq!(names, once.map(|name| [name, name]).concat());

    let scene = scene.file("nets/broken.onnx", &file("resnet18", Dataset::Imagenet)[..900]);
    let run = predict(&scene, "nets --csv").fails(4).says("nets/broken.onnx is skipped").says("1 of 3 networks");
    assert_eq!(rows(&run).len(), 3);
    predict(&scene, "nets/broken.onnx").fails(4).says("nets/broken.onnx: is not an ONNX file, or a damaged one");
    predict(&scene, "absent/*.onnx").fails(4).says("no file matches");
    predict(&scene, "squeezenet absent/net").fails(4).says("absent/net is skipped").prints("squeezenet");
    fs::create_dir(scene.path("empty")).unwrap();
    predict(&scene, "empty").fails(4).says("empty: this folder holds no .onnx file");
}

#[test]
#[cfg(unix)]
fn a_name_that_is_no_text_is_told_so() {
    use std::os::unix::ffi::OsStrExt;
    let scene = Scene::new().file("nets/some.onnx", file("resnet18", Dataset::Imagenet));
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.onnx");
    std::fs::rename(scene.path("nets/some.onnx"), scene.path("nets").join(name)).unwrap();
    predict(&scene, "nets").fails(4).says("has a name that is not UTF-8").says("rename the file");
    let scene = scene.file("nets/OTHER.ONNX", file("squeezenet", Dataset::Imagenet));
    predict(&scene, "nets").fails(4).says("1 of 2 networks were skipped").prints("nets/OTHER.ONNX");
    predict(&scene, "nets/OTHER.ONNX@45").fails(2).says("is a file, which has no levels").says("perf4sight prune");
}

#[test]
fn the_section_writes_files_and_takes_its_folder_from_the_fingerprint_section() {
    let config = "[predict]\nnetworks= ['squeezenet', 'nets']\nbs= [1,2]\noutput= ['out/all.csv', 'out/all.json']\n";
    let place = format!("fingerprint= {}\n", simulated_fingerprint().display());
    let scene = Scene::new()
        .file("config.ini", config.to_owned() + &place)
        .file("nets/a.onnx", file("resnet18", Dataset::Imagenet));
    scene.run("--config-file config.ini --check").succeeds().prints("predicts training of squeezenet, nets");
    scene.run("--config-file config.ini").succeeds().prints("predictions: out/all.csv");
    assert_eq!(scene.read("out/all.csv").lines().count(), 5);
    let json: Value = serde_json::from_str(&scene.read("out/all.json")).unwrap();
    assert_eq!(json["networks"][1]["network"], "nets/a.onnx");
    let wrong = |set: &str| scene.run(&format!("--config-file config.ini --set predict.{set}")).fails(3);
    wrong("bs=[0]").says("from 1 to 1000000");
    wrong("output=['a.txt']").says(".csv, .json, .html");
    wrong("networks=['absent/net.onnx']").says("absent/net.onnx does not exist");
    // Without the key the folder is where [fingerprint] would have written.
    let scene = Scene::new().file("config.ini", config).file("nets/a.onnx", file("resnet18", Dataset::Imagenet));
    scene.run("--config-file config.ini").fails(3).says("fingerprinting/cpu/imagenet does not exist");
}

#[test]
fn a_fingerprint_of_something_else_is_refused() {
    let scene = Scene::new();
    let refused = |more: &str| predict(&scene, &format!("squeezenet {more}")).fails(4);
    refused("--device tx2")
        .says("training_stage_latency.json: this fingerprint is of the device simulated")
        .says("tx2");
    refused("--dataset cifar10").says("is of the dataset imagenet").says("help: ");
    refused("--stage inference").says("there is no fingerprint of inference here");
    predict(&scene, "squeezenet --device simulated --dataset imagenet").succeeds();
}

#[test]
fn a_file_and_a_folder_above_are_understood() {
    let (scene, folder) = (Scene::new(), simulated_fingerprint());
    let ask =
        |place: &Path, more: &str| scene.run(&format!("predict squeezenet --fingerprint {} {more}", place.display()));
    let [plain, file, above] = [&folder, &folder.join("training_stage_latency.json"), folder.parent().unwrap()]
        .map(|place| ask(place, "").succeeds().stdout().to_owned());
    assert!(plain == file && plain == above, "{plain}{file}{above}");
    ask(&folder.join("report.html"), "").fails(4).says("report.html: this file is not a fingerprint of training");
    for copy in ["many/a", "many/b"] {
        let one = DeviceFingerprints::load(&folder, Stage::Training).unwrap();
        one.memory.unwrap().save(&scene.path(copy)).unwrap();
    }
    ask(&scene.path("many"), "").fails(4).says("2 folders below this one hold fingerprints").says("many/b");
}

#[test]
fn what_another_program_did_to_a_fingerprint_is_told() {
    let name = "training_stage_memory.json".replace("memory", "mem_used");
    let text = fs::read_to_string(simulated_fingerprint().join(&name)).unwrap();
    let ask = |text: String| {
        let scene = Scene::new().file(&format!("store/{name}"), text);
        scene.run("predict squeezenet --fingerprint store")
    };
    // Other blanks and another order of keys say the same.
    let value: Value = serde_json::from_str(&text).unwrap();
    ask(serde_json::to_string(&value).unwrap()).succeeds();
    let mut rounded = value.clone();
    rounded["seed"] = 17.into();
    ask(rounded.to_string()).fails(4).says("edited, or re-written by a program that rounds numbers");
    let mut bare = value;
    bare.as_object_mut().unwrap().remove("checksum");
    ask(bare.to_string()).fails(4).says("has no checksum");
    let newer = ask(text.replace("\"format\": ", "\"format\": 9")).fails(4);
    newer
        .says("newer than this program's")
        .says("another version wrote it (perf4sight 0.1.0)")
        .says("use the newer perf4sight");
    ask(text.replacen("\"format\": ", "\"format\": 0.", 1)).fails(4);
}

#[test]
fn the_error_to_expect_is_that_of_networks_nobody_profiled() {
    let scene = Scene::new();
    let json = predict(&scene, "resnet50 --json").succeeds().json();
    for quantity in ["latency", "memory"] {
        let errors = json["fingerprints"][quantity]["left_out"].as_object().unwrap();
        let errors: Vec<f64> = errors.values().map(|error| error.as_f64().unwrap()).collect();
        assert_eq!(errors.len(), 3);
        let reply = &json["networks"][0]["expected_error"][quantity];
        assert!((reply["mape"].as_f64().unwrap() - errors.iter().sum::<f64>() / 3.0).abs() < 1e-9, "{reply}");
        assert_eq!(reply["worst_mape"].as_f64().unwrap(), errors.iter().copied().fold(0.0, f64::max));
    }
    predict(&scene, "resnet50").succeeds().prints("for networks nobody profiled but like those profiled, at worst by");
}

#[test]
fn damaged_and_edited_fingerprints_are_refused() {
    let name = "training_stage_mem_used.json";
    let text = fs::read_to_string(simulated_fingerprint().join(name)).unwrap();
    let refused = |text: String, says: &str| {
        let scene = Scene::new().file(&format!("store/{name}"), text);
        scene.run("predict squeezenet --fingerprint store").fails(4).says(name).says(says).says("fit it again");
    };
    refused(text[..text.len() / 2].to_owned(), "damaged");
    refused(text.replace("\"format\": ", "\"format\": 9"), "format version 9");
    refused(text.replace("\"stage\": \"training\"", "\"stage\": \"inference\""), "is of inference memory");
    refused(text.replace("\"seed\"", "\"sed\""), "unknown field `sed`");
    refused(String::new(), "damaged");
}

#[test]
fn the_answer_comes_first_in_a_sentence() {
    let scene = Scene::new();
    let first = |arguments: &str| -> String {
        let run = predict(&scene, arguments).succeeds();
        run.stdout().lines().next().unwrap().to_owned()
    };
    let fits = first("resnet18 --bs 1,4 --mem-limit 8GiB");
    assert!(
        fits.starts_with("a step of 4 samples needs ") && fits.contains(" and fits into 8 GiB (> 99.9 % sure)"),
        "{fits}"
    );
    let largest = fits.rsplit_once("; the largest safe batch is ").unwrap().1.to_owned();
    // A sample more is no longer safe, and far more does not fit: said after what does, and forwards.
    predict(&scene, "resnet18 --mem-limit 500GiB").succeeds().says("mem_limit is 500.00 GiB").says("was profiled with");
    let far = first(&format!("resnet18 --bs {largest},1000000 --mem-limit 8192MiB"));
    assert!(far.contains("does not fit into 8 GiB (> 99.9 % sure)") && far.contains(&largest), "{far}");
    let none = first("resnet18 --mem-limit 20MiB");
    assert!(none.ends_with("not even a single sample is safe"), "{none}");
    // Without a limit of one's own it is what the device had: 512 MiB in all.
    assert!(first("resnet18").contains(" 512 MiB "), "{}", first("resnet18"));
    let many = first("resnet18 squeezenet --mem-limit 8GiB");
    assert_eq!(many, "2 of 2 networks fit into 8 GiB at every requested batch size");
    predict(&scene, "resnet18 --mem-limit much").fails(2).says("8GiB");
    let json = predict(&scene, "resnet18 --bs 4 --mem-limit 8GiB --json").succeeds().json();
    assert_eq!(json["networks"][0]["answer"], *fits);
    assert_eq!(json["networks"][0]["limit"]["bytes"], 8_589_934_592u64);
}

#[test]
fn more_memory_never_fits_less() {
    let scene = Scene::new();
    let mut before = (0, 0.0);
    for limit in ["64MiB", "256MiB", "1GiB", "16GiB"] {
        let json = predict(&scene, &format!("resnet50 --bs 4 --mem-limit {limit} --json")).succeeds().json();
        let network = &json["networks"][0];
        let [safe, likely] = ["safe", "likely"].map(|key| network["max_batch"][key].as_u64().unwrap());
        let fits = network["predictions"][0]["fits_probability"].as_f64().unwrap();
        assert!(safe <= likely && safe >= before.0 && fits >= before.1, "{limit}: {network}");
        before = (safe, fits);
    }
    assert!(before.0 > 40 && before.1 > 0.999);
}

#[test]
fn a_step_that_may_not_fit_has_an_exit_code_of_its_own() {
    let scene = Scene::new();
    predict(&scene, "squeezenet --bs 1 --mem-limit 8GiB --require-fit").succeeds();
    let refused = predict(&scene, "squeezenet --bs 1,100000 --mem-limit 8GiB --require-fit").fails(7);
    refused.says("squeezenet may not fit at batch size 100000").prints("the largest safe batch is");
    let several = predict(&scene, "squeezenet resnet18 --bs 100000 --mem-limit 8GiB --require-fit").fails(7);
    several.says("squeezenet may not fit at batch size 100000, nor may 1 other network");
    let config = "[predict]\nnetworks= squeezenet\nbs= 100000\nmem_limit= 1.5 GiB\nrequire_fit= True\n";
    let place = format!("fingerprint= {}\n", simulated_fingerprint().display());
    let scene = Scene::new().file("config.ini", config.to_owned() + &place);
    scene.run("--config-file config.ini").fails(7).prints("1536 MiB");
    let empty = scene.run("--config-file config.ini --set predict.bs=[]");
    empty.fails(3).says("the list is empty");
}

#[test]
fn at_eighty_columns_nothing_of_a_verdict_is_cut() {
    let (out, err) = (Sink::default(), Sink::default());
    let settings = ConsoleSettings { width: Some(80), ..fixtures::settings(OutputMode::Normal) };
    let console = Console::writing_to(settings, out.clone(), err.clone());
    let mut context = fixtures::context(OutputMode::Normal, &out, &err);
    context.console = console;
    let folder = simulated_fingerprint();
    for networks in [vec!["resnet18@45"], vec!["resnet18@45", "squeezenet"]] {
        let typed = [
            ("networks", networks.into_iter().collect()),
            ("fingerprint", Given::from(folder.to_str().unwrap())),
            ("bs", [1, 8, 1000].into_iter().collect()),
            ("mem_limit", Given::from("1GiB")),
        ];
        let entry = |(key, value): (&str, Given)| ConfigEntry {
            key: key.to_owned(),
            value,
            origin: ValueOrigin::Argument(format!("--{key}")),
        };
        let document = ConfigDocument::of_arguments("predict", typed.map(entry).to_vec());
        let predict = (VERB.parse)(&SettingValues::of_arguments(&document, &VERB.table).unwrap()).unwrap();
        perf4sight::pipeline::run_verb(&*predict, &mut context).unwrap();
    }
    let text = out.text();
    // Three lines on the page of one network, twice three in the list of two.
    let called = |line: &&str| ["fits (", "does not fit (", "open ("].iter().any(|call| line.contains(call));
    assert_eq!(text.lines().filter(called).count(), 9, "{text}");
    assert_eq!(text.matches("does not fit (> 99.9 %)").count(), 3, "{text}");
    let table = |line: &&str| line.starts_with(|c: char| c == ' ' || c.is_ascii_digit() || c == 'r' || c == 's');
    let sentence = |line: &&str| line.contains(" networks ");
    assert!(text.lines().filter(table).filter(|line| !sentence(line)).all(|line| line.chars().count() <= 80), "{text}");
}

/// What is said of many networks: intervals in the table, reasons below it, once for each and not all of them.
#[test]
fn lists_hold_intervals_and_tell_reasons_below() {
    let run = predict(&Scene::new(), "vgg11 resnet18@45 resnet50 --bs 1,8 --json").succeeds();
    let json = run.json();
    let point = &json["networks"][1]["predictions"][0];
    let number = |key: &str| point[key].as_f64().unwrap();
    let end = |key: &str| {
        let percent = 100.0 * (number(key) / number("latency_ms") - 1.0);
        if percent.abs() < 9.95 { format!("{percent:+.1}") } else { format!("{percent:+.0}") }
    };
    let list = predict(&Scene::new(), "vgg11 resnet18@45 resnet50 --bs 1,8").succeeds();
    let list = list.prints(&format!("{}/{} %", end("latency_low_ms"), end("latency_high_ms")));
    let unlike = |network: &str| list.stdout().matches(&format!("unlike what was profiled, {network}: ")).count();
    assert_eq!(["vgg11", "resnet18@45", "resnet50"].map(unlike), [1, 0, 1], "{list}");
    let reasons = json["networks"][0]["unlike"].as_array().unwrap();
    assert!(reasons.len() > 3, "{reasons:?}");
    let list = list.prints(&format!("; and {} more, in --json", reasons.len() - 3));
    assert!(!list.stdout().contains(reasons[3].as_str().unwrap()), "{list}");
    let is_row = |line: &&str| line.starts_with(['─', 'v', 'r']) && !line.contains("profiled");
    assert!(list.stdout().lines().filter(is_row).all(|line| line.chars().count() <= 80), "{list}");
    // Errors are those of networks like the profiled ones; who is unlike them is named.
    list.prints("unlike the networks that these errors are of, go by the intervals: vgg11, resnet50");
    predict(&Scene::new(), "vgg11").succeeds().prints("this network is unlike those that these errors are of");
    let known = predict(&Scene::new(), "resnet18@45").succeeds();
    assert!(!known.stdout().contains("unlike"), "{known}");
}

#[test]
fn lists_as_configurations_write_them_are_understood() {
    let scene = Scene::new();
    let sizes = |bs: &str| -> Vec<u64> {
        let json = predict(&scene, &format!("squeezenet --bs {bs} --json")).succeeds().json();
        let points = json["networks"][0]["predictions"].as_array().unwrap().clone();
        points.iter().map(|point| point["bs"].as_u64().unwrap()).collect()
    };
    assert_eq!(sizes("[1,2]"), [1, 2]);
    assert_eq!(sizes("1,2 --bs 8"), [1, 2, 8]);
    predict(&scene, "squeezenet --bs []").fails(2).says("there is no value in it");
    predict(&scene, "squeezenet --bs [1,two]").fails(2).says("\"two\" is not a whole number from 1 to 1000000");
    scene.run("inspect squeezenet --bs 18446744073709551615").fails(2).says("from 1 to 1000000");
}

#[test]
fn absurd_batches_are_refused_and_never_overflow() {
    let scene = Scene::new();
    predict(&scene, "squeezenet --bs 0").fails(2).says("from 1 to 1000000");
    predict(&scene, "squeezenet --bs 1,1000000000")
        .fails(2)
        .says("\"1000000000\" is not a whole number from 1 to 1000000");
    predict(&scene, "squeezenet --bs 1000000").succeeds().prints("does not fit").prints("beyond the 8 profiled");
    let network = zoo::build("resnet18", Dataset::Imagenet).unwrap();
    for fingerprint in DeviceFingerprints::load(&simulated_fingerprint(), Stage::Training).unwrap().iter() {
        let about = fingerprint.about(&network);
        for batch in [0, 1_000_000_000, u64::MAX] {
            let value = about.predict(batch).value.value();
            assert!(value.is_finite() && value > 0.0, "{value} at {batch}");
        }
    }
}

/// What was profiled decides, not what the folder is called: a family of one's own, of 64 x 64 images, in the dataset `tiny64` or in none,
/// which is imagenet.
#[test]
fn images_are_judged_by_those_that_were_profiled() {
    let tiny = |channels: usize, side: usize| {
        let mut builder = NetworkBuilder::new("tiny", Shape::new([3, side, side]));
        let conv =
            |out_channels| Op::Conv(Conv { out_channels, window: Window::square(3, 1, 1), groups: 1, bias: false });
        let mut at = builder.add("first", conv(channels), &[builder.input()]).unwrap();
        at = builder.add("relu", Op::Activation(Activation::Relu), &[at]).unwrap();
        at = builder.add("second", conv(2 * channels), &[at]).unwrap();
        at = builder
            .add("pool", Op::Reduce { reduction: ReductionKind::Mean, axes: vec![1, 2], keep: false }, &[at])
            .unwrap();
        at = builder.add("fc", Op::Linear(Linear { out_features: 10, bias: true }), &[at]).unwrap();
        onnx::to_bytes(&builder.finish(at))
    };
    let scene = Scene::new().file("base/tiny-a.onnx", tiny(16, 64)).file("other.onnx", tiny(16, 96));
    let scene = [0, 30, 60]
        .into_iter()
        .fold(scene, |scene, level| scene.file(&format!("models/tiny-a_{level}.onnx"), tiny(16 - level / 10, 64)));
    let config = "[profile]\nnetwork = tiny-a\nlocal_model_loc = models\nlog_dir = logs\ndevice = simulated\nbs = [2,4,8,12,16]\n\n\
                  [fingerprint]\ntrain_nets = tiny-a\ntrain_logs = [0,60]\n";
    let scene = scene.file("imagenet.ini", config);
    scene.run("imagenet.ini").succeeds();
    scene.run("imagenet.ini --set profile.dataset=tiny64 --set profile.log_dir=rows").succeeds();
    for dataset in ["imagenet", "tiny64"] {
        let ask =
            |word: &str| scene.run(&format!("predict {word} --fingerprint fingerprinting/simulated/{dataset} --bs 4"));
        let own = ask("base/tiny-a.onnx").succeeds();
        assert!(!own.stdout().contains("unlike"), "{own}");
        ask("other.onnx").succeeds().prints("an input of 3x96x96, profiled 3x64x64");
        ask("tiny-a@30").fails(3).says("unknown network \"tiny-a\"").says("base/tiny-a.onnx");
    }
    let both =
        scene.run("imagenet.ini --set profile.stage=[training,inference] --set fingerprint.overwrite=True").succeeds();
    both.says("10 latency rows of inference are left out: [fingerprint] with that stage and these settings fits them");
    let ask = |word: &str| scene.run(&format!("predict {word} --fingerprint fingerprinting/simulated/tiny64"));
    ask("resnet18@30").fails(4).says("how large the images of \"tiny64\" are").says("nets/mine.onnx");
}

#[test]
fn a_fingerprint_answers_for_other_steps_than_those_that_were_profiled() {
    let scene = Scene::new();
    let ask = |more: &str| predict(&scene, &format!("resnet18 --bs 8 {more}"));
    let own = ask("").succeeds();
    assert!(!own.stdout().contains("asked about"), "{own}");
    let adamw =
        ask("--optimizer adamw").succeeds().prints("training (optimizer = adamw, zero_grad = free) of resnet18");
    adamw.prints("memory: asked about training (optimizer = adamw, zero_grad = free), profiled with training");
    // Errors that were tested are those of the profiled step.
    let json = |more: &str| ask(&format!("{more} --json")).json()["networks"][0].clone();
    for (more, basis, tested) in [("", "estimated", true), ("--optimizer adamw", "other_step", false)] {
        let reply = json(more);
        assert_eq!(reply["predictions"][0]["memory_interval"], basis);
        assert_eq!(reply["predictions"][0]["latency_interval"] == "other_step", !tested);
        assert!(["latency", "memory"].iter().all(|quantity| reply["expected_error"][quantity].is_null() != tested));
    }
    assert!(ask("").stdout().contains("off by") && !ask("--optimizer adamw").stdout().contains("off by"));
    let bytes = |more: &str| {
        ask(&format!("{more} --json")).json()["networks"][0]["predictions"][0]["memory_bytes"].as_f64().unwrap()
    };
    // 11,689,512 weights of four bytes, 44.6 MiB: AdamW keeps a state more of each. Gradients that are freed are as much less where the peak is
    // in the forward pass, and no more where it is in the update.
    let (own, kept, freed) = (bytes(""), bytes("--optimizer adamw --zero-grad keep"), bytes("--optimizer adamw"));
    let state = (kept - own) / 1048576.0;
    assert!((state - 44.6).abs() < 1.0, "{state} MiB");
    assert!(freed < kept && kept - freed < 45.6 * 1048576.0, "{own} {kept} {freed}");
    ask("--stage inference --optimizer adam").fails(2).says("--optimizer: a step of inference has no such setting");
    ask("--optimizer adan").fails(2).says("adam");
    // Nothing is kept below the classifier, and half as many samples lie there at a time.
    let (last, halved) = (bytes("--trainable classifier"), bytes("--accumulate 2"));
    assert!(last < 0.8 * own && halved < own, "{last} {halved} {own}");
    let time = |more: &str| {
        ask(&format!("{more} --json")).json()["networks"][0]["predictions"][0]["latency_ms"].as_f64().unwrap()
    };
    assert!(time("--trainable classifier") < 0.6 * time(""));
    ask("--trainable layer9.*").fails(4).says("trainable = layer9.* leaves nothing of").says("layer4");
    ask("--trainable a=b").fails(2).says("names no weights");
    // Segments that keep their inputs alone take less memory, and most of a forward pass, about a third of a step, once more.
    let segments = "--checkpoint 4";
    assert!(bytes(segments) < own, "{} {own}", bytes(segments));
    let longer = time(segments) / time("");
    assert!((1.1..1.5).contains(&longer), "{longer}");
    ask("--checkpoint 99")
        .fails(4)
        .says("checkpoint = 99 segments cannot be done with resnet18")
        .says("segments or fewer");
    ask("--checkpoint 1").fails(2).says("from 2");
    ask("--accumulate 9").fails(2).says("accumulate = 9 leaves passes without a sample at batch size 8");
    let config = "[predict]\nnetworks = resnet18\nfingerprint = .\noptimizer = adan\n";
    scene.file("config.ini", config).run("--config-file config.ini").fails(3).says("did you mean adam?");
}

#[test]
fn what_a_step_cannot_be_is_refused_before_anything_runs() {
    let scene = Scene::new().file("config.ini", "[predict]\nnetworks = resnet18\nfingerprint = .\nbs = [4,8]\n");
    let set = |more: &str| scene.run(&format!("--config-file config.ini --check {more}"));
    set("--set predict.stage=inference --set predict.optimizer=adam")
        .fails(3)
        .says("optimizer: a step of inference has no such setting");
    set("--set predict.accumulate=5").fails(3).says("accumulate = 5 leaves passes without a sample at batch size 4");
    set("--set predict.stage=inference --set predict.precision=fp32 --set predict.accumulate=None")
        .fails(4)
        .says("there is no fingerprint of inference here");
    // A list of no targets is none: fingerprints are asked.
    set("--set predict.target=[]").fails(4).says("there is no fingerprint of training here");
    let profile = "[profile]\nnetwork = resnet18\nbs = 4\nstage = inference\ntrainable = classifier\n";
    let refused = scene.file("profile.ini", profile).run("--config-file profile.ini --check");
    refused.fails(3).says("trainable: a step of inference has no such setting");
}

#[test]
fn what_may_have_been_meant_is_said_once() {
    let scene = Scene::new().file("nets/regnet_x_400mf.onnx", file("resnet18", Dataset::Imagenet));
    let unknown = predict(&scene, "quixote").fails(3).says("name a network of your own by its file");
    assert_eq!(unknown.stderr().matches("mobilenetv2").count(), 1, "{unknown}");
    predict(&scene, "regnet_x_400mf").fails(3).says("with path and ending: nets/regnet_x_400mf.onnx");
    predict(&scene, "resnet81").fails(3).says("did you mean \"resnet18\"?");
    predict(&scene, "resnet18 --bs 1 4 8").fails(2).says("\"4\" is not a network").says("--bs 1,4,8");
}

#[test]
fn unknown_operations_widen_the_interval_until_too_few_are_left() {
    let scene =
        Scene::new().file("whole.onnx", strange(0)).file("strange.onnx", strange(4)).file("alien.onnx", strange(26));
    let width = |name: &str| -> f64 {
        let run = predict(&scene, &format!("{name} --json")).succeeds();
        let point = run.json()["networks"][0]["predictions"][0].clone();
        point["memory_high_bytes"].as_f64().unwrap() / point["memory_low_bytes"].as_f64().unwrap()
    };
    assert!(width("strange.onnx") > 1.02 * width("whole.onnx"));
    predict(&scene, "strange.onnx").succeeds().says("Rulo x4").prints("4 of 66 operations are not understood");
    predict(&scene, "alien.onnx").fails(4).says("unknown: Rulo").says("at least 80.0 %");
}

#[test]
fn a_page_draws_the_limit_where_it_is_near() {
    let scene = Scene::new();
    let page = |asked: &str| {
        scene.run(&format!("predict resnet18 {asked} --bs 16 --html page.html")).succeeds();
        scene.read("page.html")
    };
    assert!(page("--target cpu --mem-limit 1GiB").contains(">limit 1 GiB<"));
    // 1,024 times as much as the step takes: a line there would flatten everything else.
    assert!(!page("--target cpu --mem-limit 512GiB").contains("limit 512 GiB"));
}
