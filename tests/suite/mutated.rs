//! Inputs changed at random: whatever stands in a file, it is read or refused, and never panics or takes long. The numbers of inputs are
//! those of every run of the tests; `PERF4SIGHT_MUTATIONS=100` tries a hundred times as many, with other seeds.

use crate::fixtures::{Scene, Sink, context};
use crate::mutation::{Mutator, survives};
use perf4sight::pipeline::{self, RunOptions};
use perf4sight::verbs::SPECS;
use perf4sight_base::checksum::checksum;
use perf4sight_cost::fingerprint::{DeviceFingerprints, file_name};
use perf4sight_cost::records;
use perf4sight_cost::records::{ProfileProvenance, Variant, layers, log_file};
use perf4sight_memory::Simulation;
use perf4sight_network::Network;
use perf4sight_network::zoo;
use perf4sight_network::zoo::Dataset;
use perf4sight_onnx as onnx;
use perf4sight_platform::Platform;
use perf4sight_report::OutputMode;
use perf4sight_step::workload::{Quantity, Stage, Step};
use serde_json::{Map, Value, json};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// How many times the usual number of inputs are tried.
fn times() -> usize {
    env::var("PERF4SIGHT_MUTATIONS").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

fn committed(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A seed for each number of times, so that more tries are other tries.
fn mutator() -> Mutator {
    Mutator::new(times() as u64)
}

#[test]
fn configurations() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("config.ini");
    let base = fs::read(committed("config.ini")).unwrap();
    let mut mutator = mutator();
    survives(
        300 * times(),
        |_| mutator.bytes(&base),
        |bytes| {
            fs::write(&file, bytes).unwrap();
            let options = RunOptions { config_file: file.clone(), check: true, ..RunOptions::default() };
            drop(pipeline::run(SPECS, &options, &mut context(OutputMode::Quiet, &Sink::default(), &Sink::default())));
        },
    );
}

#[test]
fn rows() {
    let profile = committed("profiling_csvs/epyc-1-core/imagenet");
    let variant = Variant::new("squeezenet", 40);
    let mut mutator = mutator();
    for quantity in Quantity::ALL {
        let folder = TempDir::new().unwrap();
        let copy = log_file(folder.path(), quantity, &variant);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        let base = fs::read(log_file(&profile, quantity, &variant)).unwrap();
        survives(
            500 * times(),
            |_| mutator.bytes(&base),
            |bytes| {
                fs::write(&copy, bytes).unwrap();
                drop(records::read(&copy, quantity, Stage::Training));
                // Opening mends what a crash left; what it leaves is read the same once more.
                if let Ok((_, Some(log))) =
                    records::RowAppender::open(folder.path(), &variant, quantity, Stage::Training)
                {
                    let again = records::read(&copy, quantity, Stage::Training).unwrap();
                    assert_eq!((again.records, again.torn), (log.records, None));
                }
            },
        );
    }
}

#[test]
fn layer_rows() {
    let folder = TempDir::new().unwrap();
    let copy = folder.path().join("squeezenet_40-gt.csv");
    let base =
        fs::read(layers::file(&committed("profiling_csvs/epyc-1-core/imagenet"), &Variant::new("squeezenet", 40)));
    let base = base.unwrap();
    let mut mutator = mutator();
    survives(
        150 * times(),
        |_| mutator.bytes(&base[..8000]),
        |bytes| {
            fs::write(&copy, bytes).unwrap();
            drop(layers::read(&copy));
        },
    );
}

#[test]
fn provenance() {
    let folder = TempDir::new().unwrap();
    let text = fs::read_to_string(committed("profiling_csvs/epyc-1-core/imagenet/provenance.json")).unwrap();
    let base: Value = serde_json::from_str(&text).unwrap();
    let mut mutator = mutator();
    survives(
        400 * times(),
        |number| shaken(&mut mutator, &base, number),
        |bytes| {
            fs::write(folder.path().join(records::PROVENANCE_FILE), bytes).unwrap();
            if let Ok(Some(provenance)) = ProfileProvenance::load(folder.path()) {
                provenance.save(folder.path()).unwrap();
                assert_eq!(ProfileProvenance::load(folder.path()).unwrap(), Some(provenance));
            }
        },
    );
}

/// JSON with changed parts, and every fourth time with changed bytes.
fn shaken(mutator: &mut Mutator, base: &Value, number: usize) -> Vec<u8> {
    match number % 4 {
        0 => mutator.bytes(base.to_string().as_bytes()),
        _ => mutator.json(base).to_string().into_bytes(),
    }
}

fn squeezenet() -> Network {
    zoo::build("squeezenet", Dataset::Imagenet).unwrap()
}

#[test]
fn devices() {
    let folder = TempDir::new().unwrap();
    let (file, network, mut mutator) = (folder.path().join("device.json"), squeezenet(), mutator());
    for name in Platform::names() {
        let text = fs::read_to_string(committed(&format!("crates/platform/src/data/{name}.json"))).unwrap();
        let base: Value = serde_json::from_str(&text).unwrap();
        survives(
            60 * times(),
            |number| shaken(&mut mutator, &base, number),
            |bytes| {
                fs::write(&file, bytes).unwrap();
                if let Ok(platform) = Platform::read(&file) {
                    let simulation = Simulation::new(&network, Step::published(Stage::Training), &platform);
                    assert!(simulation.peak(4).reserved >= simulation.peak(1).allocated);
                }
            },
        );
    }
}

/// The part of a fingerprint's text that its checksum speaks of.
fn content(fields: &Map<String, Value>) -> String {
    let mut fields = fields.clone();
    fields.retain(|key, _| key != "checksum" && key != "provenance");
    let text = serde_json::to_string_pretty(&fields).unwrap();
    text.strip_suffix("\n}").unwrap_or_default().to_owned()
}

/// A fingerprint as its program would have sealed it.
fn sealed(content: &str) -> String {
    let (sum, provenance) = (checksum(content.bytes()), json!({ "date": "", "seconds": 0.0 }));
    let provenance = format!("{provenance:#}").replace('\n', "\n  ");
    format!("{content},\n  \"checksum\": \"{sum}\",\n  \"provenance\": {provenance}\n}}\n")
}

#[test]
fn fingerprints() {
    let networks = [squeezenet(), zoo::build("resnet18", Dataset::Imagenet).unwrap()];
    let mut mutator = mutator();
    for quantity in Quantity::ALL {
        let folder = TempDir::new().unwrap();
        let name = file_name(Stage::Training, quantity);
        let text = fs::read_to_string(committed("fingerprinting/epyc-1-core/imagenet").join(&name)).unwrap();
        let Ok(Value::Object(base)) = serde_json::from_str(&text) else { panic!("{name} is not an object") };
        fs::write(folder.path().join(&name), sealed(&content(&base))).unwrap();
        DeviceFingerprints::load(folder.path(), Stage::Training).unwrap();
        // Every fourth has other bytes, which in packed trees are other numbers.
        let input = |number| match mutator.json(&Value::Object(base.clone())) {
            Value::Object(fields) if number % 4 != 0 => sealed(&content(&fields)),
            _ => sealed(&String::from_utf8_lossy(&mutator.bytes(content(&base).as_bytes()))),
        };
        survives(150 * times(), input, |bytes| {
            fs::write(folder.path().join(&name), bytes).unwrap();
            if let Ok(fingerprints) = DeviceFingerprints::load(folder.path(), Stage::Training) {
                networks.iter().for_each(|network| answers(&fingerprints, network));
            }
        });
    }
}

/// Everything a prediction says is a number, and lies in its own interval.
fn answers(fingerprints: &DeviceFingerprints, network: &Network) {
    for fingerprint in fingerprints.iter() {
        let about = fingerprint.about(network);
        for batch in [1, 2, 17, 1 << 20] {
            let prediction = about.predict(batch);
            let value = prediction.value.value();
            assert!(value.is_finite() && value >= 0.0, "{value} at {batch}");
            if let Some(interval) = prediction.interval {
                assert!(interval.contains(value), "{interval:?} without {value} at {batch}");
            }
            let _ = (about.verdict(batch), about.alive(batch), about.shares(batch));
        }
        let _ = about.max_batch();
    }
}

/// What a worker measured of squeezenet's first convolution.
const REPLY: &str = r#"{"outcome":"measured",
    "latency":{"median":12.5,"spread":0.01,"steps":40,"discarded":2,"disturbed":false},
    "memory":{"allocated":1048576,"reserved":2097152,"used":3145728,"available":4194304,"free":4194304,"heap":3145728},
    "layers":{"step":13.0,"step_spread":0.02,"steps":4,"disturbed":false,"times":[
        {"node":"NODE","pass":"forward","milliseconds":6.1,"spread":0.03},
        {"node":"NODE","pass":"backward","milliseconds":6.1,"spread":0.03},
        {"node":null,"pass":"loss","milliseconds":0.1,"spread":0.2}]},
    "seconds":1.9,
    "conditions":{"start":{"clocks":{"cpu":2000.0},"temperatures":{"zone":41.5},"busy":10.0,"stolen":0.0},
                  "end":{"clocks":{"cpu":2000.0},"promised":{"cpu":1500.0},"temperatures":{"zone":52.0},"busy":12.0,"stolen":0.0}}}"#;

/// Whatever a worker says, the rows that are kept of it can be read again.
#[test]
fn replies() {
    const VARIANTS: usize = 60;
    let worker = "case \"$*\" in *--about*) echo '{\"protocol\":2,\"software\":{},\"places\":{\"cpu\":{}},\"layers\":true}'; exit;;\n\
                  esac\nread -r request\nvariant=${request#*squeezenet_}\ncat \"replies/${variant%%.onnx*}\"\n";
    let config = "[profile]\ndevice = cpu\nworker = sh worker.sh\ndevice_name = board\ndataset = imagenet\nnetwork = squeezenet\n\
                  bs = [1]\nlocal_model_loc = nets\nprofile_variables = ['latency', 'memory', 'layers']\n";
    let bytes = fs::read(committed("models/imagenet/squeezenet.onnx")).unwrap();
    let network = onnx::from_bytes("squeezenet", &bytes).unwrap().network;
    let node = &network.nodes()[1].name;
    let base: Value = serde_json::from_str(&REPLY.replace("NODE", node)).unwrap();
    let mut mutator = mutator();
    for _ in 0..times() {
        let scene = Scene::new().file("worker.sh", worker).file("config.ini", config);
        let scene = (0..VARIANTS).fold(scene, |scene, variant| {
            let scene = scene.file(&format!("nets/squeezenet_{variant}.onnx"), &bytes);
            scene.file(&format!("replies/{variant}"), shaken(&mut mutator, &base, variant))
        });
        let first = scene.run("--config-file config.ini");
        assert!(!first.stderr().contains("panicked"), "{first}");
        let profile = scene.path("profiling_csvs/board/imagenet");
        for variant in (0..VARIANTS).map(|level| Variant::new("squeezenet", level as u8)) {
            for quantity in Quantity::ALL {
                let file = log_file(&profile, quantity, &variant);
                let read = file.exists().then(|| records::read(&file, quantity, Stage::Training).map(|log| log.torn));
                assert!(
                    read.is_none_or(|read| read == Ok(None)),
                    "{} after {}",
                    file.display(),
                    scene.read(&format!("replies/{}", variant.level))
                );
            }
            let file = layers::file(&profile, &variant);
            assert!(!file.exists() || layers::read(&file).unwrap().torn.is_none(), "{}", file.display());
        }
        let again = scene.run("--config-file config.ini --check");
        assert!(again.stderr().is_empty(), "{again}");
    }
}

#[test]
fn networks() {
    let mut mutator = mutator();
    for name in ["squeezenet", "mobilenetv2"] {
        let base = fs::read(committed(&format!("models/imagenet/{name}.onnx"))).unwrap();
        survives(
            150 * times(),
            |_| mutator.bytes(&base),
            |bytes| {
                let Ok(loaded) = onnx::from_bytes("mutated", bytes) else { return };
                let network = loaded.network;
                let platform = Platform::for_name("cpu").unwrap();
                drop((network.macs(), network.parameters(), network.activations(), network.coverage()));
                let _ = Simulation::new(&network, Step::published(Stage::Training), &platform).peak(2);
                let written = onnx::to_bytes(&network);
                onnx::from_bytes("written", &written).unwrap();
            },
        );
    }
}
