//! `[profile]`: test configurations, sweeps, failures, resuming, provenance.

use crate::device::script_worker;
use crate::fixtures::{Outcome, Scene, Sink, context, shared};
use crate::workers::MEASURED;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use perf4sight_base::units::Bytes;
use perf4sight_cost::device::Device;
use perf4sight_cost::device::hardware::Hardware;
use perf4sight_cost::device::kind::DeviceKind;
use perf4sight_cost::device::protocol::StepRule;
use perf4sight_cost::plan::{Configuration, GridPlan, PlanEnding};
use perf4sight_cost::records;
use perf4sight_cost::records::{ProfileProvenance, RowAppender, RowRecord, Variant};
use perf4sight_cost::verbs::profile::{MeasurementRun, PlannedMeasurement, ProfileCounts, ProfileLog, test_config};
use perf4sight_machine::{LocalMachine, RunWatch, measurement_lock};
use perf4sight_network::zoo;
use perf4sight_network::zoo::Dataset;
use perf4sight_onnx as onnx;
use perf4sight_report::OutputMode;
use perf4sight_step::workload::{Quantity, Stage, Variable, Workload};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

/// A folder with level 0 of some networks of the zoo, and a configuration that profiles them on the simulated device.
pub fn scene(networks: &[&str], more: &str) -> Scene {
    let names: Vec<String> = networks.iter().map(|network| format!("'{network}'")).collect();
    let config = format!(
        "[profile]\ndevice = simulated\ndataset = imagenet\nlocal_model_loc = nets\nnetwork = [{}]\n{more}\n",
        names.join(", ")
    );
    let scene = Scene::new().file("config.ini", config);
    networks.iter().fold(scene, |scene, network| {
        let built = zoo::build(network, Dataset::Imagenet).unwrap();
        scene.file(&format!("nets/{network}_0.onnx"), onnx::to_bytes(&built))
    })
}

pub fn profile(scene: &Scene) -> Outcome {
    scene.run("--config-file config.ini")
}

pub const LOGS: &str = "profiling_csvs/simulated/imagenet";

pub fn rows(scene: &Scene, quantity: Quantity, variant: &str) -> Vec<RowRecord> {
    let file = scene.path(LOGS).join(quantity.name()).join(format!("{variant}-gt.csv"));
    records::read(&file, quantity, Stage::Inference).unwrap().records
}

/// `outcome@batch` of every row, by stage and batch size: in the file they stand in the random order they were measured in.
fn outcomes(rows: &[RowRecord]) -> Vec<String> {
    let mut rows: Vec<&RowRecord> = rows.iter().collect();
    rows.sort_by_key(|row| row.workload);
    rows.iter().map(|row| format!("{}@{}", row.outcome, row.workload.batch)).collect()
}

#[test]
fn a_profile_is_measured_shown_and_kept() {
    let scene = scene(&["squeezenet", "resnet18"], "bs = [4, 2]\nstage = ['training', 'inference']");
    profile(&scene).succeeds().prints("Rows of the profile").prints("squeezenet").prints("resnet18");
    for variant in ["squeezenet_0", "resnet18_0"] {
        for quantity in Quantity::ALL {
            let rows = rows(&scene, quantity, variant);
            assert_eq!(outcomes(&rows), ["measured@2", "measured@4", "measured@2", "measured@4"]);
            let cost = |stage| rows.iter().find(|row| row.workload == Workload::published(stage, 4))?.value();
            assert!(cost(Stage::Training).unwrap() > cost(Stage::Inference).unwrap(), "training costs more");
        }
    }
    let provenance = ProfileProvenance::load(&scene.path(LOGS)).unwrap().unwrap();
    assert_eq!(provenance.setting["device"], "simulated");
    assert_eq!(provenance.runs.len(), 1);
    assert_eq!(provenance.runs[0].rows, 2 * 2 * 2 * 2);
    assert!(provenance.runs[0].config.contains("bs = [4, 2]"));
}

#[test]
fn the_same_seed_gives_the_same_rows_and_another_one_does_not() {
    let file = format!("{LOGS}/latency/squeezenet_0-gt.csv");
    let text = |more: &str| {
        let scene = scene(&["squeezenet"], more);
        profile(&scene).succeeds();
        scene.read(&file)
    };
    let first = text("bs = [2, 4]\nseed = 3");
    assert_eq!(first, text("bs = [2, 4]\nseed = 3"));
    assert_ne!(first, text("bs = [2, 4]\nseed = 4"));
}

#[test]
fn a_second_run_measures_nothing_again_and_says_so() {
    let scene = scene(&["squeezenet"], "bs = [2, 4]");
    profile(&scene).succeeds();
    let file = format!("{LOGS}/latency/squeezenet_0-gt.csv");
    let first = scene.read(&file);
    profile(&scene).succeeds().says("skipping 2 of 2 configurations").prints("4 more from earlier runs");
    assert_eq!(scene.read(&file), first);
    assert_eq!(ProfileProvenance::load(&scene.path(LOGS)).unwrap().unwrap().runs.len(), 1, "a run that added nothing");
    scene.run("--config-file config.ini --set profile.bs=[2,3]").succeeds().says("skipping 1 of 2 configurations");
    assert_eq!(outcomes(&rows(&scene, Quantity::Latency, "squeezenet_0")), ["measured@2", "measured@3", "measured@4"]);
}

#[test]
fn rows_of_other_steps_lie_beside_those_of_the_published_one() {
    let scene = scene(&["squeezenet"], "bs = [2]");
    profile(&scene).succeeds();
    let adamw = "--config-file config.ini --set profile.optimizer=AdamW";
    scene.run(adamw).succeeds().prints("2 rows");
    scene.run(adamw).succeeds().says("skipping 1 of 1 configurations");
    let steps: Vec<String> =
        rows(&scene, Quantity::Memory, "squeezenet_0").iter().map(|row| row.workload.step.cell()).collect();
    assert_eq!(steps, ["published", "optimizer=adamw; zero_grad=free"]);
    // What is written down is what is measured.
    assert!(
        scene
            .read(&format!("{LOGS}/test_config/squeezenet.ini"))
            .contains("exec_step= ['optimizer=adamw; zero_grad=free']")
    );
    scene.run(&format!("{adamw} --set profile.create_config=False")).succeeds().says("skipping 1 of 1");
    scene.run("--config-file config.ini").succeeds().says("skipping 1 of 1");
}

#[test]
fn batch_sizes_run_in_random_order_unless_the_first_failure_ends_them() {
    let order = |more: &str| {
        let scene = scene(&["squeezenet"], &format!("bs = [1, 2, 3, 4, 5, 6, 7, 8]\n{more}"));
        profile(&scene).succeeds();
        rows(&scene, Quantity::Latency, "squeezenet_0").iter().map(|row| row.workload.batch).collect::<Vec<_>>()
    };
    let ascending: Vec<u64> = (1..=8).collect();
    assert_eq!(order("till_first_fail = True"), ascending);
    let shuffled = order("");
    assert!(shuffled != ascending && shuffled != order("seed = 1"));
}

#[test]
fn repeats_are_measured_in_rounds_and_only_as_far_as_they_are_missing() {
    let scene = scene(&["squeezenet"], "bs = [2, 64]\nprofile_variables = latency\nmem_limit = 1500");
    profile(&scene).succeeds();
    scene.run("--config-file config.ini --check --set profile.repeats=3").succeeds().prints("[profile] 2 runs");
    scene.run("--config-file config.ini --set profile.repeats=3").succeeds();
    let repeated = rows(&scene, Quantity::Latency, "squeezenet_0");
    // 64 images do not fit (tested below for resnet18 in the same way), and would not the second time.
    assert_eq!(outcomes(&repeated), ["measured@2", "measured@2", "measured@2", "out_of_memory@64"]);
    let times: Vec<f64> = repeated.iter().filter_map(RowRecord::value).collect();
    // The simulated noise is at most 2 % to either side.
    let (least, most) = (times.iter().copied().fold(f64::MAX, f64::min), times.iter().copied().fold(0.0, f64::max));
    assert!(least < most && most / least < 1.02 / 0.98, "{times:?}");
}

#[test]
fn a_failure_skips_the_larger_batches_of_that_variant_and_stage() {
    let more = "bs = [64, 1, 16, 256]\nmem_limit = 1000\nstage = ['training', 'inference']";
    let scene = scene(&["resnet18", "squeezenet"], more);
    profile(&scene).succeeds().prints("out of memory");
    // Beside 256 MiB at idle and 4 x 45 MiB of weights, training keeps about 30 MiB an image (2.5 million outputs of
    // convolutions, three times with batch-norm and relu): 16 images fit into 1000 MiB, 64 do not. Inference keeps 6 MiB
    // an image (the first convolution's output before and after), so that 64 fit and 256 do not.
    let expected = ["measured@1", "measured@16", "out_of_memory@64"].map(str::to_owned);
    let inference = ["measured@1", "measured@16", "measured@64", "out_of_memory@256"].map(str::to_owned);
    for quantity in Quantity::ALL {
        let found = outcomes(&rows(&scene, quantity, "resnet18_0"));
        assert_eq!(found[..3], expected);
        assert_eq!(found[4..], inference);
        // Where chance has it run before 64, it fails by itself.
        assert!(["skipped@256", "out_of_memory@256"].contains(&found[3].as_str()));
    }
    let other = outcomes(&rows(&scene, Quantity::Latency, "squeezenet_0"));
    assert_eq!(other[0], "measured@1", "the other network goes on");
}

#[test]
fn till_first_fail_leaves_no_rows_of_what_was_skipped() {
    let more = "bs = [1, 64, 256]\nmem_limit = 1000\ntill_first_fail = True";
    let scene = scene(&["resnet18"], more);
    profile(&scene).succeeds();
    assert_eq!(outcomes(&rows(&scene, Quantity::Memory, "resnet18_0")), ["measured@1", "out_of_memory@64"]);
    // Resuming knows the failure from its row.
    profile(&scene).succeeds();
    assert_eq!(outcomes(&rows(&scene, Quantity::Memory, "resnet18_0")), ["measured@1", "out_of_memory@64"]);
}

#[test]
fn without_save_rows_are_shown_and_forgotten() {
    let scene = scene(&["squeezenet"], "bs = [2]\nsave = False");
    profile(&scene)
        .succeeds()
        .says("save = False: rows are shown but not kept")
        .prints("squeezenet_0 training bs 2 latency: measured ")
        .prints("squeezenet_0 training bs 2 memory: measured ");
    assert!(!scene.path(LOGS).join("latency").exists());
}

#[test]
fn check_counts_the_runs_and_runs_none() {
    let scene = scene(&["squeezenet"], "bs = [2, 4]\nstage = ['training', 'inference']");
    scene
        .run("--config-file config.ini --check")
        .succeeds()
        .prints("[profile] 4 runs")
        .prints("measures 4 configurations");
    assert!(!scene.path("profiling_csvs").exists());
    scene.run("--config-file config.ini --set profile.bs=[2]").succeeds();
    scene.run("--config-file config.ini --check").succeeds().prints("[profile] 2 runs").prints("leaves out 2");
}

#[test]
fn what_is_pruned_is_profiled_without_naming_a_path() {
    let config = "[create_network_dataset]\nnetworks = ['squeezenet']\npruning_perc = [0, 50]\n\
         [profile]\nnetwork = squeezenet\nbs = [2]\ndevice = simulated\n";
    let scene = Scene::new().file("config.ini", config);
    scene.run("--config-file config.ini --check").succeeds().prints("[profile] 2 runs");
    profile(&scene).succeeds();
    for variant in ["squeezenet_0", "squeezenet_50"] {
        assert_eq!(outcomes(&rows(&scene, Quantity::Memory, variant)), ["measured@2"]);
    }
    assert!(
        scene.read(&format!("{LOGS}/test_config/squeezenet.ini")).contains("models/pruned/random_pruning/imagenet/")
    );
}

#[test]
fn the_test_configuration_is_as_published() {
    let more = "bs = [2, 8]\nstage = ['training', 'inference']\ndevice = tx2\nrun_profiling = False\n\
                device_model_loc = /home/nvidia/models\ntest_config = out/resnet18.ini";
    let scene = scene(&["resnet18"], "").file("nets/resnet18_30.onnx", "").file("nets/resnet18x_30.onnx", "");
    let text = format!("[profile]\ndataset = imagenet\nlocal_model_loc = nets\nnetwork = resnet18\n{more}\n");
    let scene = scene.file("config.ini", text);
    profile(&scene).succeeds();
    // The layout of the file published with the tool (profiling_configs/resnet18.ini).
    let expected = "[RESNET18]\n\
         test_var= ['memory', 'latency']\n\
         bs= [2, 8]\n\
         dataset= ['imagenet']\n\
         net_name= ['resnet18']\n\
         exec_stage= ['training', 'inference']\n\
         model= ['/home/nvidia/models/resnet18_0.onnx',\n        '/home/nvidia/models/resnet18_30.onnx']\n";
    assert_eq!(scene.read("out/resnet18.ini"), expected);
    assert!(!scene.path("profiling_csvs").exists());
}

#[test]
fn a_published_test_configuration_runs_with_the_networks_that_are_here() {
    let published = "[RESNET18]\ntest_var= ['latency']\nbs= [2]\ndataset= ['imagenet']\nnet_name= ['resnet18']\n\
         exec_stage= ['training']\nmodel= ['/home/somebody/models/resnet18_0.py']\n";
    let more = "bs = [64]\ncreate_config = False\ntest_config = published.ini";
    let scene = scene(&["resnet18"], more).file("published.ini", published);
    profile(&scene).succeeds();
    assert_eq!(outcomes(&rows(&scene, Quantity::Latency, "resnet18_0")), ["measured@2"]);
}

#[test]
fn a_bad_test_configuration_is_refused_with_its_place() {
    let good = "[RESNET18]\ntest_var= ['latency']\nbs= [2]\ndataset= ['imagenet']\nnet_name= ['resnet18']\n\
         exec_stage= ['training']\nmodel= ['nets/resnet18_0.onnx']\n";
    let cases = [
        ("bs= [2]", "bs= [0]", "bad.ini:3: [RESNET18] bs: a batch size is 0"),
        ("bs= [2]", "bs= ['two']", "bad.ini:3: [RESNET18] bs: ['two'] does not fit"),
        ("'latency'", "'latncy'", "bad.ini:2: unknown profile variable \"latncy\""),
        ("exec_stage", "exec_stag", "did you mean \"exec_stage\"?"),
        ("bs= [2]\n", "", "bad.ini:1: [RESNET18] bs: this key is missing"),
        ("['resnet18']", "['resnet18', 'vgg16']", "net_name: more than one"),
        ("resnet18_0.onnx", "vgg16_0.onnx", "bad.ini:7: \"vgg16_0\" names no variant"),
        (good, "", "bad.ini: there is nothing to measure"),
    ];
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("bad.ini");
    for (from, to, message) in cases {
        fs::write(&file, good.replace(from, to)).unwrap();
        let error = test_config::read(&file).unwrap_err().to_string();
        assert!(error.contains(message), "{error}\nlacks {message}");
    }
    fs::write(&file, good).unwrap();
    assert_eq!(test_config::read(&file).unwrap()[0].sweep.batches, [2]);
}

#[test]
fn nobodys_file_is_overwritten_by_a_test_configuration() {
    let scene = scene(&["squeezenet"], "bs = [2]\ntest_config = config.ini");
    profile(&scene).fails(3).says("no such key in a test configuration").says("set test_config");
    assert!(scene.read("config.ini").starts_with("[profile]"));
}

#[test]
fn the_recorded_device_gives_the_published_rows_back() {
    let Some(published) = shared("tx2") else { return };
    let config = format!(
        "[profile]\ndevice = recorded\ndevice_source = {0}/profiling_csvs\nlocal_model_loc = {0}/networks\n\
         dataset = imagenet\nnetwork = ['squeezenet']\nbs = [2, 8]\ndevice_name = tx2\n",
        published.canonicalize().unwrap().display()
    );
    let scene = Scene::new().file("config.ini", config);
    profile(&scene).succeeds();
    for quantity in Quantity::ALL {
        let name = format!("{}/squeezenet_50-gt.csv", quantity.name());
        let original = records::read(&published.join("profiling_csvs").join(&name), quantity, Stage::Training).unwrap();
        let copy = scene.path("profiling_csvs/tx2/imagenet").join(&name);
        let copy = records::read(&copy, quantity, Stage::Training).unwrap();
        let value = |records: &[RowRecord], batch: u64| {
            records.iter().find(|record| record.workload.batch == batch).and_then(RowRecord::value)
        };
        for batch in [2, 8] {
            assert_eq!(value(&copy.records, batch), value(&original.records, batch), "{name} bs {batch}");
        }
    }
    // Nothing runs when one of the rows is missing.
    let outcome = scene.run("--config-file config.ini --set profile.bs=[2,3] --set profile.device_name=other");
    outcome.fails(5).says("no recorded").says("recorded batch sizes 2, 4");
    assert!(!scene.path("profiling_csvs/other").exists());
}

#[test]
fn bad_values_are_refused_before_anything_runs() {
    let cases = [
        ("bs = [0]", 3, "a whole number from 1 to"),
        ("bs = [-4]", 3, "a whole number from 1 to"),
        ("bs = [2000000]", 3, "a whole number from 1 to 1000000"),
        ("bs = []", 3, "the list is empty"),
        ("bs = [8, 4, 8]", 3, "8 is there twice"),
        ("bs = [2]\nstage = ['training', 'training']", 3, "training is there twice"),
        ("bs = [2]\nstage = trainig", 3, "did you mean training?"),
        ("bs = [2]\nprofile_variables = latncy", 3, "did you mean latency?"),
        ("bs = [2]\ncreate_config = False\nrun_profiling = False", 3, "there is nothing to do"),
        ("bs = [2]\noptimizer = adan", 3, "did you mean adam?"),
        ("bs = [2]\nzero_grad = freed", 3, "did you mean free?"),
        ("bs = [2]\nprecision = fp16", 3, "precision: 'fp16' does not fit"),
        ("bs = [2, 8]\naccumulate = 4", 3, "accumulate = 4 leaves passes without a sample at batch size 2"),
        ("bs = [2]\ncheckpoint = blocks", 3, "or every block"),
        ("bs = [2]\ntrainable = 'last none'", 3, "names no weights"),
        ("bs = [2]\nmem_limit = 0", 3, "an amount of memory"),
        ("bs = [2]\nmem_limit = much", 3, "8GiB"),
        ("bs = [2]\ntimeout = 0", 3, "a number, 0.1 or more"),
        ("bs = [2]\ntimeout = 1e300", 3, "too long to wait"),
        ("bs = [2]\ndevice_name = ../elsewhere", 3, "cannot name a folder"),
        ("bs = [2]\ndevice_source = nowhere.json", 6, "nowhere.json"),
        ("bs = [2]\nlocal_model = nets", 3, "did you mean \"local_model_loc\"?"),
    ];
    for (more, code, message) in cases {
        let scene = scene(&["squeezenet"], more);
        profile(&scene).fails(code).says(message);
        assert!(!scene.path("profiling_csvs").exists(), "{more}");
    }
    let scene = scene(&["squeezenet"], "bs = [2]");
    let set = |assignment: &str| scene.run(&format!("--config-file config.ini --set profile.{assignment}"));
    set("device=tx2").fails(5).says("tx2 cannot be profiled by this program alone").says("run_profiling = False");
    set("device=simulatd").fails(3).says("did you mean \"simulated\"?");
    set("network=squeezent").fails(4).says("there is no level of squeezent here").says("did you mean \"squeezenet\"?");
    set("network=net_5").fails(4).says("ends in _5").says("net-5");
    let names = set("network=['shufflenet_v3_x2_0','squeezenet','net_5','ghostnet_100']").fails(4);
    let names = names.says("rename it, for example to \"shufflenet_v3_x2-0\"").says("refused too: net_5");
    assert!(!names.stderr().contains("too: net_5, ghostnet_100"), "100 is not a level: {names}");
    set("local_model_loc=nowhere").fails(4).says("nowhere");
}

#[test]
fn rows_of_another_setting_are_not_continued() {
    let scene = scene(&["squeezenet"], "bs = [2]");
    profile(&scene).succeeds();
    let again = "--config-file config.ini --set profile.bs=[2,4]";
    let before = scene.read(&format!("{LOGS}/latency/squeezenet_0-gt.csv"));
    let outcome = scene.run(&format!("{again} --set profile.mem_limit=2000"));
    outcome.fails(4).says("mem_limit was default, is 2000 MiB").says("start again with another device_name or log_dir");
    fs::remove_file(scene.path(LOGS).join("provenance.json")).unwrap();
    scene.run(again).fails(4).says("their machine is not recorded");
    assert_eq!(scene.read(&format!("{LOGS}/latency/squeezenet_0-gt.csv")), before);
}

#[test]
fn a_log_dir_that_cannot_be_written_fails_before_measuring() {
    // /proc takes no folders, not even root's; a file in the way takes none either.
    for log_dir in ["/proc/profile", "config.ini/logs"] {
        let scene = scene(&["squeezenet"], &format!("bs = [2]\nlog_dir = {log_dir}\ntest_config = tests"));
        let outcome = profile(&scene);
        assert!(!outcome.stdout().contains("measured"), "{outcome}");
        let said = outcome.to_string();
        assert!(said.contains("log_dir"), "{said}");
        assert!(!scene.path("tests").exists(), "{said}");
    }
}

#[test]
fn a_torn_row_is_mended_and_measured_again() {
    let scene = scene(&["squeezenet"], "bs = [2, 4, 8]");
    profile(&scene).succeeds();
    let file = scene.path(LOGS).join("latency/squeezenet_0-gt.csv");
    let whole = fs::read_to_string(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 20]).unwrap();
    profile(&scene).succeeds().says("squeezenet_0-gt.csv:4: the last row was cut off").says("skipping 2 of 3");
    assert_eq!(fs::read_to_string(&file).unwrap(), whole);
}

/// Many quick configurations, so that a signal meets the sweep under way; most of them do not fit.
fn long_scene() -> Scene {
    long_scene_within("500MiB")
}

fn long_scene_within(mem_limit: &str) -> Scene {
    let batches: Vec<String> = (1..=400).map(|batch| batch.to_string()).collect();
    scene(&["squeezenet"], &format!("bs = [{}]\nmem_limit = {mem_limit}\n", batches.join(",")))
}

fn start(scene: &Scene) -> Child {
    let mut command = scene.command();
    command.args(["--config-file", "config.ini"]).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Waits until some rows are there, then sends the signal.
fn interrupt(scene: &Scene, child: &Child, signal: Signal) {
    let file = scene.path(LOGS).join("memory/squeezenet_0-gt.csv");
    let deadline = Instant::now() + Duration::from_secs(60);
    while fs::read_to_string(&file).unwrap_or_default().lines().count() < 4 {
        assert!(Instant::now() < deadline, "no rows came");
        thread::sleep(Duration::from_millis(1));
    }
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}

fn all_rows(scene: &Scene) -> Vec<String> {
    Quantity::ALL.map(|quantity| scene.read(&format!("{LOGS}/{}/squeezenet_0-gt.csv", quantity.name()))).to_vec()
}

#[test]
fn a_killed_sweep_goes_on_where_it_stopped() {
    let uninterrupted = long_scene();
    profile(&uninterrupted).succeeds();
    let scene = long_scene();
    let mut child = start(&scene);
    interrupt(&scene, &child, Signal::SIGKILL);
    child.wait().unwrap();
    assert!(all_rows(&scene) != all_rows(&uninterrupted), "the sweep was over before it was killed");
    profile(&scene).succeeds().says("skipping ");
    for (resumed, whole) in all_rows(&scene).iter().zip(all_rows(&uninterrupted)) {
        let different = resumed.lines().zip(whole.lines()).find(|(resumed, whole)| resumed != whole);
        assert_eq!((different, resumed.len()), (None, whole.len()));
    }
}

#[test]
fn a_sweep_killed_between_visits_makes_those_that_are_left() {
    // All of them fit, so that hundreds of second visits follow the few that are waited for.
    let uninterrupted = long_scene_within("64GiB");
    profile(&uninterrupted).succeeds().prints("rows were measured twice or more");
    let scene = long_scene_within("64GiB");
    let mut child = start(&scene);
    let file = scene.path(LOGS).join("latency/squeezenet_0-gt.csv");
    let visited = || {
        let log = records::read(&file, Quantity::Latency, Stage::Training);
        log.map_or(0, |log| log.records.iter().filter(|row| row.visits.len() > 1).count())
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while visited() < 3 {
        assert!(Instant::now() < deadline, "no row was repeated");
        thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(all_rows(&scene) != all_rows(&uninterrupted), "the sweep was over before it was killed");
    profile(&scene).succeeds().says("skipping ");
    assert_eq!(all_rows(&scene), all_rows(&uninterrupted));
}

#[test]
fn a_budget_ends_any_plan_with_what_there_is() {
    let scene = scene(&["squeezenet"], "bs = [1, 2, 4, 8, 16]\nbudget = 1ms");
    profile(&scene).succeeds().prints("the budget of 1.00 ms is spent");
    let visits = |scene: &Scene| {
        rows(scene, Quantity::Latency, "squeezenet_0").iter().map(|row| row.visits.len()).collect::<Vec<_>>()
    };
    assert!((1..10).contains(&visits(&scene).iter().sum::<usize>()), "{:?} in a millisecond", visits(&scene));
    let again = profile(&scene).succeeds().says("configurations are unmeasured").says("--set \"profile.budget=1m\"");
    assert!(!again.stderr().contains("tries them again"), "{again}");
    scene.run("--config-file config.ini --check").succeeds().prints("measures nothing: earlier runs spent the budget");
    scene.run("--config-file config.ini --set profile.budget=2h").succeeds();
    assert!(visits(&scene).len() == 5 && visits(&scene).iter().all(|visits| *visits >= 2));
}

#[test]
fn ctrl_c_keeps_what_is_finished_and_says_how_to_go_on() {
    let scene = long_scene();
    let child = start(&scene);
    interrupt(&scene, &child, Signal::SIGINT);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("the same command does the rest"), "{said}");
    profile(&scene).succeeds().says("skipping ");
    let mut batches: Vec<u64> =
        rows(&scene, Quantity::Memory, "squeezenet_0").iter().map(|r| r.workload.batch).collect();
    batches.sort_unstable();
    assert_eq!(batches, (1..=400).collect::<Vec<u64>>());
}

#[test]
fn a_fit_that_lacks_rows_because_the_budget_ended_the_profile_says_so() {
    let scene =
        scene(&["squeezenet"], "bs = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16]\nbudget = 1ms\nprofile_variables = latency");
    let fit = "[fingerprint]\ndevice_name = simulated\ndataset = imagenet\nlatency_model = True\nmemory_model = False\n\
               train_nets = squeezenet\ntrain_logs = [0]\neval_nets = squeezenet\neval_logs = [0]\npruned_models_storedir = nets\n";
    let config = format!("{}\n{fit}", scene.read("config.ini"));
    let scene = scene.file("config.ini", config);
    let levels = "--config-file config.ini --check --set fingerprint.train_logs";
    scene.run(&format!("{levels}=[0,10]")).succeeds().prints("will find no latency rows of levels 10");
    assert!(!scene.run(&format!("{levels}=[0]")).succeeds().stdout().contains("will find no"));
    let outcome = profile(&scene).fails(4).says("are too few to fit on").says("the budget of 0.001 s ended");
    assert!(!outcome.stderr().contains("check the names"), "{outcome}");
}

#[test]
fn waiting_for_another_measurement_counts_towards_no_budget() {
    let folder = tempfile::TempDir::new().unwrap();
    let device = scripted(&format!("echo '{MEASURED}'"));
    let planned = [planned(&Variant::new("a", 0), 1), planned(&Variant::new("b", 0), 1)];
    let cancelled = AtomicBool::new(false);
    let lock = measurement_lock::take(&RunWatch::quiet(&cancelled)).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            thread::sleep(Duration::from_secs(3));
            drop(lock);
        });
        let (counts, said) = swept(folder.path(), &planned, &device);
        assert_eq!((counts.rows.len(), counts.ending, said.as_str()), (2, Some(PlanEnding::Complete), ""));
    });
    let run = &ProfileProvenance::load(folder.path()).unwrap().unwrap().runs[0];
    // Other tests measure, too, so that it may be more.
    assert!(run.waiting > 2.5 && run.seconds < 2.5, "waited {} s of {} s", run.waiting, run.seconds);
}

/// A device whose worker is a shell script that reads `$variant` and `$batch` out of its request.
fn scripted(script: &str) -> Hardware {
    let parse = r#"read request; batch=${request#*batch\":}; batch=${batch%%,*}"#;
    Hardware {
        kind: DeviceKind::Cpu,
        machine: Arc::new(LocalMachine),
        gpu: Default::default(),
        worker: script_worker(format!("{parse}; {script}")),
        threads: 1,
        mem_limit: Some(Bytes(1 << 30)),
        timeout: Duration::from_millis(500),
        seed: 0,
        steps: StepRule::default(),
    }
}

fn planned(variant: &Variant, batch: u64) -> PlannedMeasurement {
    let workload = Workload::published(Stage::Training, batch);
    let configuration =
        Configuration { variant: variant.clone(), workload, variables: vec![Variable::Latency], round: 1 };
    PlannedMeasurement { configuration, file: PathBuf::from(format!("{variant}.onnx")), dataset: "imagenet".into() }
}

#[test]
fn a_worker_that_goes_wrong_costs_one_configuration_and_the_sweep_goes_on() {
    let answer = r#"echo '{"outcome":"measured","latency":{"median":1.5,"spread":0.01,"steps":9,"discarded":0,"disturbed":false},"memory":null}'"#;
    // Networks a, b, c go wrong at batch 2, each in its way; d never does.
    let script = format!(
        "case $request in *a_0.onnx*) wrong='echo rubbish';; *b_0.onnx*) wrong='sleep 60';; \
         *c_0.onnx*) wrong='kill -SEGV $$';; *) wrong=;; esac; \
         if [ $batch = 2 ] && [ -n \"$wrong\" ]; then eval \"$wrong\"; else {answer}; fi"
    );
    let device = scripted(&script);
    let variants = ["a", "b", "c", "d"].map(|network| Variant::new(network, 0));
    let planned: Vec<PlannedMeasurement> =
        variants.iter().flat_map(|variant| [1, 2, 4].map(|batch| planned(variant, batch))).collect();
    let folder = tempfile::TempDir::new().unwrap();
    let (counts, said) = swept(folder.path(), &planned, &device);

    let file = |variant| records::log_file(folder.path(), Quantity::Latency, variant);
    let expected = [
        ["measured@1", "garbled@2", "measured@4"],
        ["measured@1", "timed_out@2", "measured@4"],
        ["measured@1", "crashed@2", "measured@4"],
        ["measured@1", "measured@2", "measured@4"],
    ];
    for (variant, expected) in variants.iter().zip(expected) {
        let log = records::read(&file(variant), Quantity::Latency, Stage::Training).unwrap();
        assert_eq!(outcomes(&log.records), expected, "{variant}");
        assert!(log.records[0].steps == Some(9) && log.records[0].spread == Some(0.01));
    }
    assert_eq!((counts.rows.len(), counts.ending), (12, Some(PlanEnding::Complete)));
    assert_eq!(counts.failures.count(), 3);
    for words in ["a_0 training bs 2: garbled", "rubbish", "b_0 training bs 2: timed_out", "SIGSEGV"] {
        assert!(said.contains(words), "{said}");
    }

    // The next run tries again what went wrong, and nothing else; then the failures say nothing any more.
    let asked = folder.path().join("asked");
    let mended = scripted(&format!("echo $request >> {}; {answer}", asked.display()));
    let (counts, said) = swept(folder.path(), &planned, &mended);
    assert_eq!((counts.failures.count(), said.as_str()), (0, ""));
    assert_eq!(fs::read_to_string(asked).unwrap().lines().count(), 3);
    for variant in &variants {
        let log = records::read(&file(variant), Quantity::Latency, Stage::Training).unwrap();
        assert!(log.warnings().is_empty());
        assert_eq!(outcomes(&log.settled_rows()), ["measured@1", "measured@2", "measured@4"], "{variant}");
    }
}

/// Sweeps everything there is on a device; the counts, and what was warned of.
fn swept(log_dir: &Path, planned: &[PlannedMeasurement], device: &Hardware) -> (ProfileCounts, String) {
    let (out, err) = (Sink::default(), Sink::default());
    let mut context = context(OutputMode::Normal, &out, &err);
    let log = ProfileLog::open(log_dir, planned, (&device.setting(), 0), Duration::ZERO, &mut context).unwrap();
    let run = MeasurementRun { devices: &[device], planned, till_first_fail: false };
    let mut plan = GridPlan::new(planned.iter().map(|planned| planned.configuration.clone()).collect());
    let counts = run.run(&mut plan, Some(log), &mut context).unwrap();
    (counts, context.warnings().join("\n"))
}

/// A profile of squeezenet whose worker does what `worker.sh` says.
fn scene_with_worker(script: &str) -> Scene {
    let more = "bs = [1, 2]\ndevice = cpu\nworker = sh worker.sh\ndevice_name = simulated";
    scene(&["squeezenet"], "")
        .file(
            "config.ini",
            format!("[profile]\ndataset = imagenet\nlocal_model_loc = nets\nnetwork = squeezenet\n{more}\n"),
        )
        .file("worker.sh", worker(script))
}

/// A worker that describes itself, and does `script` when it is to measure.
fn worker(script: &str) -> String {
    let about = r#"{"protocol":2,"software":{"shell":"1"},"places":{"cpu":{}},"layers":false}"#;
    format!("case \"$*\" in *--about*) echo '{about}';; *) read request; {script};; esac")
}

#[test]
fn a_sweep_that_measured_nothing_new_is_no_success_and_the_next_one_tries_again() {
    let scene = scene_with_worker("kill -KILL $$");
    let outcome = profile(&scene);
    let outcome = outcome.fails(5).says("nothing new was measured: 2 configurations failed").says("run again");
    outcome.prints("What failed").prints("squeezenet_0 training bs").prints("nothing shows that memory was the reason");
    for quantity in Quantity::ALL {
        assert_eq!(outcomes(&rows(&scene, quantity, "squeezenet_0")), ["crashed@1", "crashed@2"]);
    }
    scene.run("--config-file config.ini --check").succeeds().prints("[profile] 2 runs");
    fs::write(scene.path("worker.sh"), worker(&format!("echo '{MEASURED}'"))).unwrap();
    let outcome = profile(&scene).succeeds();
    assert!(!outcome.stdout().contains("What failed"), "{outcome}");
    // Nothing is left to do: a success without a new row.
    profile(&scene).succeeds().says("skipping 2 of 2");
}

#[test]
fn what_was_skipped_after_another_failure_than_memory_is_measured_by_the_next_run() {
    let scene = scene(&["squeezenet"], "bs = [2, 4, 8]");
    profile(&scene).succeeds();
    // As earlier versions left it: a worker crashed at 4, and 8 was skipped for that.
    for quantity in Quantity::ALL {
        let file = scene.path(LOGS).join(quantity.name()).join("squeezenet_0-gt.csv");
        let log = records::read(&file, quantity, Stage::Training).unwrap();
        fs::remove_file(&file).unwrap();
        let (appender, _) =
            RowAppender::open(&scene.path(LOGS), &Variant::new("squeezenet", 0), quantity, Stage::Training).unwrap();
        for mut row in log.records {
            row.outcome = match row.workload.batch {
                2 => row.outcome,
                4 => records::MeasurementOutcome::Crashed,
                _ => records::MeasurementOutcome::Skipped,
            };
            appender.append(&row).unwrap();
        }
    }
    let settled = |scene: &Scene, quantity: Quantity| {
        let file = scene.path(LOGS).join(quantity.name()).join("squeezenet_0-gt.csv");
        outcomes(&records::read(&file, quantity, Stage::Training).unwrap().settled_rows())
    };
    assert_eq!(settled(&scene, Quantity::Memory), ["measured@2", "crashed@4"]);
    profile(&scene).succeeds().says("skipping 1 of 3");
    for quantity in Quantity::ALL {
        assert_eq!(settled(&scene, quantity), ["measured@2", "measured@4", "measured@8"]);
    }
}

#[test]
fn a_profile_is_written_by_one_run_at_a_time() {
    let folder = tempfile::TempDir::new().unwrap();
    let device = scripted("exit 0");
    let planned = [planned(&Variant::new("a", 0), 1)];
    let (out, err) = (Sink::default(), Sink::default());
    let mut context = context(OutputMode::Normal, &out, &err);
    let _held =
        ProfileLog::open(folder.path(), &planned, (&device.setting(), 0), Duration::ZERO, &mut context).unwrap();
    let error = ProfileLog::open(folder.path(), &planned, (&device.setting(), 0), Duration::ZERO, &mut context)
        .unwrap_err()
        .to_string();
    assert!(error.contains("another perf4sight is writing into this folder"), "{error}");
}

#[test]
fn test_configurations_lie_in_one_file_or_in_one_folder() {
    let networks = ["a".to_owned(), "b".to_owned()];
    assert_eq!(test_config::files(Path::new("tests.ini"), &networks), [PathBuf::from("tests.ini")]);
    let expected = [PathBuf::from("tests/a.ini"), PathBuf::from("tests/b.ini")];
    assert_eq!(test_config::files(Path::new("tests"), &networks), expected);
}

/// Runs the program where `full/` is a disk of its own with so many KiB; `None`, said aloud, where mounting is forbidden.
fn on_a_small_disk(scene: &Scene, kib: usize) -> Option<Outcome> {
    fs::create_dir_all(scene.path("full")).unwrap();
    let mount = format!("mount -t tmpfs -o size={kib}k none full");
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", script]).current_dir(scene.path(""));
        command
    };
    if !unshare(&mount).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: this test mounts a small disk, which is forbidden here");
        return None;
    }
    let program = crate::program().display().to_string();
    // The disk goes with the process, so what it holds is copied out.
    let script = format!("{mount}; {program} --config-file config.ini; code=$?; cp -r full kept; exit $code");
    Some(Outcome::of("--config-file config.ini", unshare(&script).output().unwrap()))
}

#[test]
fn a_full_disk_fails_before_measuring_or_keeps_what_was_measured() {
    let batches: Vec<String> = (1..=400).map(|batch| batch.to_string()).collect();
    let more = format!("bs = [{}]\nlog_dir = full/logs\ntest_config = tests", batches.join(","));
    let full = scene(&["squeezenet"], &more);
    let Some(outcome) = on_a_small_disk(&full, 8) else { return };
    outcome.fails(6).says("cannot write here: No space left on device").says("help: make room");
    assert!(!full.path("kept/logs/provenance.json").exists());

    // Room for the probe, not for 800 rows of about 90 bytes.
    let filling = scene(&["squeezenet"], &more);
    let Some(outcome) = on_a_small_disk(&filling, 60) else { return };
    outcome.fails(6).says("No space left on device").says("help: make room");
    let file = filling.path("kept/logs/latency/squeezenet_0-gt.csv");
    let log = records::read(&file, Quantity::Latency, Stage::Training).unwrap();
    assert_eq!(log.torn, None);
    assert!(log.records.len() > 10 && log.records.len() < 400, "{} rows", log.records.len());
}
