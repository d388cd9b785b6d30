//! `perf4sight advise`: beside `predict`, which asks the same of one step after the other, and beside arithmetic by hand.

use crate::fixtures::{Outcome, Scene};
use serde_json::Value;

fn advise(arguments: &str) -> Outcome {
    Scene::new().run(&format!("advise {arguments}"))
}

/// What was found, with the options that ask for it by themselves.
fn rows(json: &Value) -> impl Iterator<Item = &Value> {
    json.as_array().unwrap().iter()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// What `predict` says of a step of 128 samples of resnet18 with AdamW, with changes.
fn predicted(changes: &[(&str, &str)], limit: &str) -> Value {
    let asked = [("batch", "128"), ("optimizer", "adamw"), ("zero_grad", "free")];
    let asked = asked.iter().filter(|(key, _)| !changes.iter().any(|(changed, _)| changed == key));
    let option = |(key, word): &(&str, &str)| {
        let option = if *key == "batch" { "--bs".to_owned() } else { format!("--{}", key.replace('_', "-")) };
        [option, (*word).to_owned()]
    };
    let words = ["predict", "resnet18", "--target", "cpu", "--mem-limit", limit, "--json"];
    let output = Scene::new().command().args(words).args(asked.chain(changes).flat_map(option)).output().unwrap();
    Outcome::of("predict", output).succeeds().json()["networks"][0]["predictions"][0].take()
}

fn changes(row: &Value) -> Vec<(&str, &str)> {
    row["changes"].as_object().unwrap().iter().map(|(key, word)| (key.as_str(), word.as_str().unwrap())).collect()
}

/// `predict` says the same of each step, and that none of its changes can be left out.
#[test]
fn what_is_advised_fits_and_changes_no_more_than_that_takes() {
    let limit = "2560MiB";
    let json = advise(&format!("resnet18 --target cpu --batch 128 --optimizer adamw --mem-limit {limit} --json"))
        .succeeds()
        .json();
    assert_eq!(json["asked"]["verdict"], "does not fit", "{}", json["asked"]);
    let fits = &json["fits"];
    let all: Vec<&Value> = rows(&fits["learns_the_same"]).chain(rows(&fits["learns_otherwise"])).collect();
    assert!(all.len() > 2, "{fits}");
    for row in all {
        let changes = changes(row);
        let reply = predicted(&changes, limit);
        for key in ["memory_bytes", "latency_ms", "verdict", "fits_probability"] {
            assert_eq!(row[key], reply[key], "{key} of {row}");
        }
        assert_eq!(row["verdict"], "fits", "{row}");
        // What was asked is said again beside another optimizer, which has its own way to clear gradients.
        for left_out in (0..changes.len()).filter(|at| changes[*at] != ("zero_grad", "free")) {
            let fewer: Vec<(&str, &str)> =
                (0..changes.len()).filter(|at| *at != left_out).map(|at| changes[at]).collect();
            assert_ne!(predicted(&fewer, limit)["verdict"], "fits", "{} of {row} is not needed", changes[left_out].0);
        }
        // resnet18 has batch normalisation, which sees the samples of one pass alone.
        let learns = |(key, _): &(&str, &str)| ["zero_grad", "checkpoint"].contains(key);
        assert_eq!(row["learns"] == "the same", changes.iter().all(learns), "{row}");
    }
    // The cheapest first; what it costs is shown next to what was asked. Last comes what takes nobody knows how long.
    for part in ["learns_the_same", "learns_otherwise"] {
        let cost = |row: &Value| row["longer_percent"].as_f64().unwrap_or(f64::INFINITY);
        let costs: Vec<f64> = rows(&fits[part]).map(cost).collect();
        assert!(costs.is_sorted() && costs.first().is_none_or(|cost| cost.is_finite()), "{costs:?}");
    }
}

/// By hand: AdamW remembers two numbers of each of resnet18's 11,689,512 weights and borrows two of the largest; without momentum nothing is
/// remembered. While backward begins, with all activations there, both differ by what is remembered: 89.2 MiB.
#[test]
fn a_single_change_saves_what_it_no_longer_remembers() {
    let json = advise("resnet18 --target cpu --batch 64 --optimizer adamw --mem-limit 8GiB --json").succeeds().json();
    let change = rows(&json["single"]).find(|row| row["change"] == "optimizer = sgd_without_momentum").unwrap();
    let saved = number(&json["asked"]["need_bytes"]) - number(&change["need_bytes"]);
    assert!((saved / f64::from(2 * 4 * 11_689_512) - 1.0).abs() < 0.01, "{saved}");
    // As asked it fits, and no other combination is needed.
    assert_eq!(
        (rows(&json["fits"]["learns_the_same"]).count(), rows(&json["fits"]["learns_otherwise"]).count()),
        (1, 0)
    );
    assert_eq!(json["fits"]["learns_the_same"][0]["change"], "as asked");
    // 64 samples in two passes keep the activations of 32 at a time, as a batch of 32 does.
    let of = |words: &str| number(&rows(&json["single"]).find(|row| row["change"] == words).unwrap()["need_bytes"]);
    assert!((of("accumulate = 2") / of("batch = 32") - 1.0).abs() < 0.1);
    assert!(of("accumulate = 2") < of("accumulate = 4") * 2.0 && of("accumulate = 4") < of("accumulate = 2"));
    let most = &json["helps_most"]["learns_the_same"];
    let least = rows(&json["single"]).filter(|row| row["learns"] == "the same").map(|row| number(&row["need_bytes"]));
    assert_eq!(number(&most["need_bytes"]), least.fold(f64::INFINITY, f64::min));
}

/// A second pass makes the gradient of alexnet's widest layer, 9216 x 4096 numbers or 144 MiB, in addition to that of the first: between what a step needs
/// that frees its gradients and what the same needs in four passes, the former is the advice.
#[test]
fn what_fits_is_found_though_more_of_the_same_kind_needs_more() {
    let needs = |more: &str| {
        let step = "--bs 4 --optimizer sgd_without_momentum --zero-grad free";
        let run = Scene::new().run(&format!("predict alexnet --target cpu {step} {more} --json")).succeeds();
        number(&run.json()["networks"][0]["predictions"][0]["memory_high_bytes"])
    };
    let [free, passes] = ["", "--accumulate 4"].map(needs);
    assert!(passes > free + 16e6, "{free} {passes}");
    let limit = format!("{}B", (free + 8e6) as u64);
    let asked = "alexnet --target cpu --batch 4 --optimizer sgd_without_momentum --zero-grad keep";
    let json = advise(&format!("{asked} --mem-limit {limit} --json")).succeeds().json();
    let single = rows(&json["single"]).find(|row| row["change"] == "zero_grad = free").unwrap();
    assert_eq!(single["verdict"], "fits");
    assert!(rows(&json["fits"]["learns_the_same"]).any(|row| row["change"] == "zero_grad = free"), "{}", json["fits"]);
}

#[test]
fn people_see_first_what_keeps_training_as_it_is() {
    let reply = advise("resnet18 --target cpu --batch 128 --optimizer adamw --mem-limit 2560MiB").succeeds();
    let reply = reply.prints("as asked, training (optimizer = adamw, zero_grad = free) with 128 samples");
    let reply =
        reply.prints("Fits, and learns the same").prints("Fits, but learns otherwise").prints("Every change by itself");
    let (text, first) = (reply.stdout(), |words: &str| reply.stdout().find(words).unwrap());
    assert!(first("Fits, and learns the same") < first("Fits, but learns otherwise"), "{text}");
    reply.prints("batch normalisation sees only the samples of one pass").prints("a prior");
}

/// People see ten of a kind, and how many there are; programs see all.
#[test]
fn a_table_that_is_cut_says_so() {
    let asked = "resnet18 --target cpu --batch 64 --optimizer adamw --mem-limit 1500MiB";
    let json = advise(&format!("{asked} --json")).succeeds().json();
    let all: Vec<&str> = rows(&json["fits"]["learns_otherwise"]).map(|row| row["change"].as_str().unwrap()).collect();
    assert!(all.len() > 10, "{all:?}");
    let reply = advise(asked).succeeds();
    let reply = reply.prints(&format!("Fits, but learns otherwise: 10 of {}, all with --json", all.len()));
    let fitting = reply.stdout().split("Fits, but learns otherwise").nth(1).unwrap();
    let fitting = fitting.split("Every change by itself").next().unwrap();
    let is_shown = |change: &&&str| fitting.lines().any(|line| line.starts_with(&format!("{change}  ")));
    assert_eq!(all.iter().filter(is_shown).collect::<Vec<_>>(), all[..10].iter().collect::<Vec<_>>(), "{fitting}");
}

#[test]
fn where_nothing_fits_the_nearest_is_told_with_what_it_misses_by() {
    let json = advise("vgg11 --target cpu --batch 8 --mem-limit 300MiB --json").succeeds().json();
    assert_eq!(json["fits"]["learns_the_same"].as_array().map(Vec::len), Some(0));
    assert_eq!(json["fits"]["learns_otherwise"].as_array().map(Vec::len), Some(0));
    // 506.8 MiB of weights alone.
    let nearest = number(&json["nearest"]["need_bytes"]);
    assert!(nearest > 506.8 * 1048576.0 && nearest < number(&json["asked"]["need_bytes"]), "{}", json["nearest"]);
    let reply =
        json["answer"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect::<Vec<_>>().join("\n");
    assert!(
        reply.contains("nothing that was tried fits") && reply.contains("and does not fit into 300 MiB"),
        "{reply}"
    );
}

#[test]
fn what_cannot_be_tried_is_left_out_with_a_word() {
    let json = advise("alexnet --target cpu --batch 4 --mem-limit 2GiB --json").succeeds().json();
    let reply = |key: &str| -> Vec<(&str, &str)> {
        rows(&json[key]).map(|one| (one["change"].as_str().unwrap(), one["reason"].as_str().unwrap())).collect()
    };
    let [(half, no_half), (normalisation, no_normalisation)] = reply("left_out")[..] else { panic!("{json}") };
    assert_eq!((half, normalisation), ("precision = amp_fp16", "trainable = normalisation"));
    assert!(no_half.contains("precision = amp_fp16 takes on cpu"), "{no_half}");
    assert!(no_normalisation.contains("leaves nothing of alexnet to train"), "{no_normalisation}");
    let [(amp, no_time), (bf16, _)] = reply("untimed")[..] else { panic!("{json}") };
    assert_eq!((amp, bf16), ("precision = amp_bf16", "precision = bf16"));
    assert!(no_time.contains("how long a step takes with precision = amp_bf16 is not known here"), "{no_time}");
}

/// Of a kind of device nothing says how long steps take at another precision than fp32. What they need is known all the same.
#[test]
fn what_takes_nobody_knows_how_long_is_tried_by_itself_alone() {
    let limit = "1500MiB";
    let json = advise(&format!("resnet18 --target cpu --batch 64 --optimizer adamw --mem-limit {limit} --json"))
        .succeeds()
        .json();
    let reply = json["fits"]["learns_otherwise"].as_array().unwrap();
    let untimed: Vec<&Value> = reply.iter().filter(|row| row["latency_ms"].is_null()).collect();
    assert_eq!(untimed.iter().map(|row| changes(row)).collect::<Vec<_>>(), [[("precision", "bf16")]], "{json}");
    assert_eq!(reply.last(), Some(untimed[0]), "those whose time is known come first");
    let output = format!(
        "predict resnet18 --target cpu --bs 64 --optimizer adamw --zero-grad free --precision bf16 --mem-limit {limit} --json"
    );
    let predicted = Scene::new().run(&output).succeeds().json()["networks"][0]["predictions"][0].take();
    for key in ["memory_bytes", "verdict", "fits_probability"] {
        assert_eq!(untimed[0][key], predicted[key], "{key}");
    }
    let reply = advise(&format!("resnet18 --target cpu --batch 64 --optimizer adamw --mem-limit {limit}")).succeeds();
    reply
        .prints("as it is not known how long a step takes then: ")
        .prints("precision = bf16")
        .prints("taken to run on 2 threads");
}

/// The other way round: of the step that was asked for nobody knows the time, but of one change of it.
#[test]
fn a_change_whose_time_is_known_has_it_though_the_step_asked_for_has_none() {
    let asked = "resnet18 --target cpu --batch 64 --precision amp_bf16 --mem-limit";
    let json = advise(&format!("{asked} 8GiB --json")).succeeds().json();
    let timed: Vec<&Value> = rows(&json["single"]).filter(|row| !row["latency_ms"].is_null()).collect();
    assert_eq!(timed.iter().map(|row| changes(row)).collect::<Vec<_>>(), [[("precision", "fp32")]], "{json}");
    let predicted = Scene::new().run("predict resnet18 --target cpu --bs 64 --json").succeeds().json();
    assert_eq!(timed[0]["latency_ms"], predicted["networks"][0]["predictions"][0]["latency_ms"]);
    // Nothing is withheld for want of a time that nothing else has either.
    assert!(rows(&json["untimed"]).next().is_none(), "{json}");
    let combined = advise(&format!("{asked} 600MiB --json")).succeeds().json();
    assert!(rows(&combined["fits"]["learns_otherwise"]).any(|row| changes(row).len() > 1), "{combined}");
}

#[test]
fn what_nothing_can_answer_is_refused_with_what_would() {
    advise("resnet18 --target cpu,orin --batch 4").fails(3).says("cpu,orin");
    advise("resnet18 --target all --batch 4 --mem-limit 1GiB")
        .fails(2)
        .says("advice is of one device")
        .says("predict --target all");
    advise("resnet18 --target cpu --batch 4 --accumulate 8")
        .fails(2)
        .says("accumulate = 8 leaves passes without a sample");
    advise("alexnet --target cpu --batch 4 --trainable normalisation")
        .fails(4)
        .says("leaves nothing of alexnet to train");
    advise("resnet18 --batch 4").fails(2).says("--fingerprint <DIR>|--target <NAME|FILE.json>");
    advise("resnet18 --target cpu").fails(2).says("--batch");
    let reply =
        advise("resnet18 --target cpu --batch 4").succeeds().prints("its memory limit is unknown: give --mem-limit");
    assert!(!reply.stdout().contains("Fits"), "{reply}");
}

/// A page shows time against memory, and what is in memory over the step.
#[test]
fn a_page_shows_what_was_found() {
    let scene = Scene::new();
    scene.run("advise resnet18 --target orin --batch 16 --mem-limit 1300MiB --html page.html").succeeds();
    let page = scene.read("page.html");
    for words in ["Time against memory", "Simulated memory of resnet18", "The largest tensors at the peak"] {
        assert!(page.contains(words), "{words} is missing");
    }
    assert!(page.matches("role=\"img\"").count() >= 2);
}

/// A section says what the verb does, in a chain that ends with it.
#[test]
fn a_section_advises_as_the_verb_does() {
    let config = "[advise]\nnetwork = resnet18\ntarget = cpu\nbs = 128\noptimizer = adamw\nmem_limit = 2560MiB\noutput = ['reply.json', 'reply.html']\n";
    let scene = Scene::new().file("config.ini", config);
    scene
        .run("--config-file config.ini --check")
        .succeeds()
        .prints("advises on training of resnet18 for cpu, without any measurement");
    scene.run("--config-file config.ini").succeeds().prints("Fits, and learns the same");
    let reply: Value = serde_json::from_str(&scene.read("reply.json")).unwrap();
    let verb =
        advise("resnet18 --target cpu --batch 128 --optimizer adamw --mem-limit 2560MiB --json").succeeds().json();
    for key in ["asked", "fits", "single", "helps_most", "left_out", "answer"] {
        assert_eq!(reply[key], verb[key], "{key}");
    }
    assert!(scene.read("reply.html").contains("Time against memory"));
    let wrong = |set: &str| scene.run(&format!("--config-file config.ini --set advise.{set}")).fails(3);
    wrong("fingerprint=somewhere").says("config.ini:3: [advise] target: fingerprint is there, too");
    wrong("target=all").says("advise.target=all: advice is of one device");
    wrong("network=resnet81").says("did you mean \"resnet18\"?");
    wrong("bs=0").says("[advise] bs");
    wrong("accumulate=256").says("accumulate = 256 leaves passes without a sample");
    wrong("output=reply.csv").says("reply.csv has an unknown ending");
}

/// Who profiled nothing gets what PyTorch does by default: gradients that are freed (`zero_grad(set_to_none=True)`).
#[test]
fn without_a_profile_gradients_are_freed_by_default() {
    let step =
        |arguments: &str| advise(&format!("resnet18 --target cpu --batch 4 {arguments} --json")).succeeds().json();
    assert_eq!(step("")["step"], "zero_grad=free");
    assert_eq!(step("--zero-grad keep")["step"], "published");
    let fingerprint =
        format!("resnet18 --fingerprint {}/fingerprinting/epyc-1-core/imagenet --batch 4 --json", crate::ROOT);
    assert_eq!(advise(&fingerprint).succeeds().json()["step"], "published");
}

/// What the network reads and tells apart is as asked, in arguments and in the keys of a section, as `predict` has it.
#[test]
fn a_network_of_other_images_and_classes_is_advised_on() {
    let size = "--input 3x96x96 --classes 7";
    let advised = advise(&format!("resnet18 --target cpu --batch 4 {size} --json")).succeeds().json();
    let reply = Scene::new().run(&format!("predict resnet18 --target cpu --bs 4 --zero-grad free {size} --json"));
    let reply = &reply.succeeds().json()["networks"][0]["predictions"][0];
    assert_eq!(advised["asked"]["memory_bytes"], reply["memory_bytes"]);
    assert!(number(&reply["memory_bytes"]) > 0.0, "{reply}");
    let section =
        "[advise]\nnetwork = resnet18\ntarget = cpu\nbs = 4\ninput = 3x96x96\nclasses = 7\noutput = ['advice.json']\n";
    let scene = Scene::new().file("config.ini", section);
    scene.run("--config-file config.ini").succeeds();
    let configured: Value = serde_json::from_str(&scene.read("advice.json")).unwrap();
    assert_eq!(configured["asked"], advised["asked"]);
}
