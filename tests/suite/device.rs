//! Devices: one conformance suite for every backend, and workers that misbehave.

use crate::conformance::{conforms, job, measure};
use crate::fixtures::shared;
use perf4sight_base::units::Bytes;
use perf4sight_cost::device::hardware::Hardware;
use perf4sight_cost::device::kind::DeviceKind;
use perf4sight_cost::device::program::WorkerProgram;
use perf4sight_cost::device::protocol;
use perf4sight_cost::device::protocol::{
    GpuInfo, PROTOCOL, StepRule, StepTask, WorkerAbout, WorkerRequest, WorkerTask,
};
use perf4sight_cost::device::recorded::RecordedDevice;
use perf4sight_cost::device::simulated::{SimulatedDevice, SimulatedPerformance};
use perf4sight_cost::device::{Device, GpuOptions, Measurement, MeasurementJob, RunAllowance, check_all};
use perf4sight_cost::records::MeasurementOutcome;
use perf4sight_machine::{LocalMachine, MachineProperties, RunWatch};
use perf4sight_network::{Conv, NetworkBuilder, Op, Shape, Window};
use perf4sight_onnx as onnx;
use perf4sight_step::workload::{Accumulate, Checkpoint, Precision, Stage, Step, Trainable, Workload, ZeroGrad};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What a worker that measured both quantities says.
const MEASURED: &str = r#"{"outcome":"measured","latency":{"median":12.5,"spread":0.01,"steps":40,"discarded":2,"disturbed":false},"memory":{"allocated":1048576,"reserved":2097152,"used":3145728,"available":4194304,"free":4194304}}"#;

/// A worker in a line of shell, about which nothing was asked.
pub(crate) fn script_worker(script: String) -> WorkerProgram {
    let about = WorkerAbout {
        protocol: PROTOCOL,
        software: MachineProperties::new(),
        places: BTreeMap::new(),
        tasks: vec![WorkerTask::STEP.to_owned()],
        settings: Vec::new(),
        precisions: BTreeMap::new(),
        layers: true,
        gpus: BTreeMap::new(),
        no_gpu: None,
    };
    WorkerProgram { words: vec!["/bin/sh".into(), "-c".into(), script], about }
}

/// Whether the worker's answer counts; other work of this machine may have disturbed it.
fn is_answered(script: &str) -> bool {
    let outcome = measure(&scripted(script), &job(Path::new("x"))).outcome();
    matches!(outcome, Some(MeasurementOutcome::Measured | MeasurementOutcome::Disturbed))
}

/// A device whose worker is a shell script: as real a worker as any, for the protocol is a line each way.
fn scripted(script: &str) -> Hardware {
    Hardware {
        kind: DeviceKind::Cpu,
        machine: Arc::new(LocalMachine),
        gpu: Default::default(),
        worker: script_worker(script.into()),
        threads: 2,
        mem_limit: Some(Bytes(1 << 30)),
        timeout: Duration::from_secs(20),
        seed: 7,
        steps: StepRule::default(),
    }
}

#[test]
fn a_local_device_conforms() {
    conforms(&scripted(&format!("read request; echo '{MEASURED}'")), &job(Path::new("Cargo.toml")));
}

#[test]
fn numbers_that_a_place_lacks_are_refused_before_anything_runs() {
    let mut device = scripted("exit 3");
    device.worker.about.settings = vec!["precision".into()];
    device.worker.about.precisions = BTreeMap::from([("cpu".into(), vec!["fp32".into(), "amp_bf16".into()])]);
    let asked = |precision| {
        let step = Step { precision, ..Step::published(Stage::Training) };
        device.check(&MeasurementJob { workload: Workload { step, batch: 2 }, ..job(Path::new("Cargo.toml")) })
    };
    assert!(asked(Precision::Fp32).is_ok() && asked(Precision::AmpBf16).is_ok());
    let problem = asked(Precision::AmpFp16).unwrap_err().to_string();
    assert!(problem.contains("precision = amp_fp16 on cpu") && problem.contains("fp32, amp_bf16"), "{problem}");
}

#[test]
fn a_recorded_device_conforms() {
    let profile = recorded_profile();
    conforms(&RecordedDevice::open(profile.path(), ["resnet18"], Stage::Training).unwrap(), &job(Path::new("")));
}

/// A network of one convolution: 2 filters of 1x1 over 3 channels of 8x8.
fn one_convolution(folder: &TempDir) -> PathBuf {
    let mut builder = NetworkBuilder::new("resnet18_0", Shape::new([3, 8, 8]));
    let conv = Conv { out_channels: 2, window: Window::square(1, 1, 0), groups: 1, bias: false };
    let conv = builder.add("conv", Op::Conv(conv), &[builder.input()]).unwrap();
    let file = folder.path().join("resnet18_0.onnx");
    fs::write(&file, onnx::to_bytes(&builder.finish(conv))).unwrap();
    file
}

fn simulated(abilities: SimulatedPerformance) -> SimulatedDevice {
    SimulatedDevice { abilities, mem_limit: None, seed: 1 }
}

#[test]
fn a_simulated_device_conforms() {
    let folder = TempDir::new().unwrap();
    conforms(&simulated(SimulatedPerformance::default()), &job(&one_convolution(&folder)));
}

#[test]
fn a_simulated_device_follows_its_physics() {
    let folder = TempDir::new().unwrap();
    let job = job(&one_convolution(&folder));
    let abilities =
        SimulatedPerformance { start_microseconds: 0.0, idle_mib: 0.0, noise: 0.0, ..SimulatedPerformance::default() };
    let milliseconds = |abilities, job: &MeasurementJob| match measure(&simulated(abilities), job) {
        Measurement::Measured { latency: Some(latency), .. } => latency.median,
        other => panic!("{other:?}"),
    };
    // 4 images x 64 positions x 3 channels x 2 filters = 1536 multiply-accumulates, at 1e9 a second: 1.536 us, three
    // times for a training step; with memory so fast that it does not count.
    let slow = SimulatedPerformance { gmacs_per_second: 1.0, gigabytes_per_second: 1e9, ..abilities };
    assert!((milliseconds(slow, &job) - 3.0 * 1.536e-3).abs() < 1e-6);
    // The convolution reads 4 x 192 inputs and 6 weights and writes 4 x 128 outputs; the input node writes 4 x 192: in
    // all 2054 elements of 4 bytes, at 1e9 bytes a second 8.216 us, three times.
    let narrow = SimulatedPerformance { gmacs_per_second: 1e9, gigabytes_per_second: 1.0, ..abilities };
    assert!((milliseconds(narrow, &job) - 3.0 * 8.216e-3).abs() < 1e-6);

    let Measurement::Measured { memory: Some(memory), .. } = measure(&simulated(abilities), &job) else {
        panic!("8 kB fit into 4 GiB");
    };
    // Weights four times, and every output: 4 x 6 + 4 x 192 + 4 x 128 elements.
    assert_eq!(memory.allocated, 4 * (4 * 6 + 4 * 192 + 4 * 128));
    let tiny = SimulatedPerformance { capacity_mib: 1.0, ..abilities };
    assert!(matches!(measure(&simulated(tiny), &job), Measurement::OutOfMemory { memory: Some(_), .. }));
}

#[test]
fn a_simulated_device_leaves_out_what_a_step_does_not_do() {
    let folder = TempDir::new().unwrap();
    let mut builder = NetworkBuilder::new("chain", Shape::new([2, 8, 8]));
    let conv = || Op::Conv(Conv { out_channels: 2, window: Window::square(1, 1, 0), groups: 1, bias: false });
    let mut last = builder.input();
    for name in ["a", "b", "c", "d"] {
        last = builder.add(name, conv(), &[last]).unwrap();
    }
    let file = folder.path().join("chain_0.onnx");
    fs::write(&file, onnx::to_bytes(&builder.finish(last))).unwrap();
    let abilities = SimulatedPerformance {
        start_microseconds: 0.0,
        idle_mib: 0.0,
        noise: 0.0,
        gmacs_per_second: 1.0,
        gigabytes_per_second: 1e9,
        ..SimulatedPerformance::default()
    };
    let measured = |step: Step| match measure(
        &simulated(abilities),
        &MeasurementJob { workload: Workload { step, batch: 4 }, ..job(&file) },
    ) {
        Measurement::Measured { latency: Some(latency), memory: Some(memory), .. } => {
            (latency.median, memory.allocated)
        }
        other => panic!("{other:?}"),
    };
    let published = Step::published(Stage::Training);
    // A convolution multiplies 4 x 64 x 2 x 2 = 1024 times, 1.024 us at 1e9 a second. Each has 4 weights, an output has 4 x 128 elements.
    let expect = |step: Step, runs: f64, elements: u64| {
        let (milliseconds, bytes) = measured(step);
        assert!((milliseconds - runs * 1.024e-3).abs() < 1e-9, "{step}: {milliseconds} ms");
        assert_eq!(bytes, 4 * elements, "{step}");
    };
    expect(published, 12.0, 16 * 4 + 5 * 512);
    expect(Step { zero_grad: ZeroGrad::Free, ..published }, 12.0, 16 * 3 + 5 * 512);
    // One sample at a time.
    expect(Step { accumulate: Accumulate::new(4).unwrap(), ..published }, 12.0, 16 * 4 + 5 * 128);
    // Two samples, and two times one: four times as many multiplications as of one sample in all.
    expect(Step { accumulate: Accumulate::new(3).unwrap(), ..published }, 12.0, 16 * 4 + 5 * 256);
    // Three run forward alone and are not kept; the last passes no gradient on that anybody wants, but is said to.
    let classifier = Step { trainable: Trainable::Classifier, ..published };
    expect(classifier, 3.0 + 3.0, 16 + 4 * 3 + 2 * 512);
    // Cut behind b: the input and what b, c and d made is kept, and what a and b make again. b has what it reads when it would run again.
    let checkpoint = Step { checkpoint: Checkpoint::Segments(2), ..published };
    expect(checkpoint, 12.0 + 1.0, 16 * 4 + 4 * 512 + 2 * 512);
    let some = MeasurementJob {
        workload: Workload { step: Step { checkpoint: Checkpoint::Segments(9), ..published }, batch: 4 },
        ..job(&file)
    };
    let problem = check_all(&simulated(abilities), &[some]).unwrap_err().to_string();
    assert!(problem.contains("cannot be done with chain"), "{problem}");
}

#[test]
fn simulated_noise_depends_on_the_seed_and_the_job_alone() {
    let folder = TempDir::new().unwrap();
    let job = job(&one_convolution(&folder));
    let device = simulated(SimulatedPerformance::default());
    let first = measure(&device, &job);
    let larger = MeasurementJob { workload: Workload { batch: 8, ..job.workload }, ..job.clone() };
    measure(&device, &larger);
    assert_eq!(measure(&device, &job), first);
    assert_ne!(measure(&SimulatedDevice { seed: 2, ..device }, &job), first);
}

#[test]
fn a_simulated_device_is_described_by_a_file() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("device.json");
    fs::write(&file, r#"{"capacity_mib": 100, "noise": 0}"#).unwrap();
    let abilities = SimulatedPerformance { capacity_mib: 100.0, noise: 0.0, ..SimulatedPerformance::default() };
    assert_eq!(SimulatedPerformance::load(&file).unwrap(), abilities);
    for (text, message) in [
        (r#"{"capacity": 100}"#, "unknown field `capacity`"),
        (r#"{"capacity_mib": -1}"#, "a capacity above 0"),
        (r#"{"noise": 1.5}"#, "noise from 0 to below 1"),
        ("{", "device.json:1: "),
    ] {
        fs::write(&file, text).unwrap();
        let error = SimulatedPerformance::load(&file).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_damaged_network_fails_alone() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("resnet18_0.onnx");
    fs::write(&file, "garbage").unwrap();
    let Measurement::Broken { outcome, reason } = measure(&simulated(SimulatedPerformance::default()), &job(&file))
    else {
        panic!("garbage was measured");
    };
    assert_eq!((outcome, reason.contains("resnet18_0.onnx")), (MeasurementOutcome::Failed, true), "{reason}");
}

/// A profile with one batch size that fits and one that does not.
fn recorded_profile() -> TempDir {
    let folder = TempDir::new().unwrap();
    let asked = "imagenet|resnet18|/on/the/device/resnet18_0.py";
    let latency = format!(
        "passed|latency|test_var|bs|dataset|net_name|model\n\
         True|164.3|latency|4|{asked}\nTrue|170.0|latency|4|{asked}\nFalse|None|latency|180|{asked}\n"
    );
    let memory = format!(
        "passed|mem_alloc|mem_reserved|mem_used|mem_avail|capacity|test_var|bs|dataset|net_name|model\n\
         True|240.5|283.2|1631.4|7174.8|7859.0|memory|4|{asked}\n\
         False|4022.3|5590.0|-5.7|7229.2|7859.0|memory|180|{asked}\n"
    );
    for (name, text) in [("latency", latency), ("memory", memory)] {
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join("resnet18_0-gt.csv"), text).unwrap();
    }
    folder
}

#[test]
fn a_recorded_device_repeats_the_marks_of_its_rows() {
    let profile = recorded_profile();
    let file = profile.path().join("latency/resnet18_0-gt.csv");
    for (word, outcome) in [
        ("measured", MeasurementOutcome::Measured),
        ("disturbed", MeasurementOutcome::Disturbed),
        ("throttled", MeasurementOutcome::Throttled),
    ] {
        let row = format!("True|164.3|latency|4|imagenet|resnet18|/on/the/device/resnet18_0.py|{word}");
        fs::write(&file, format!("passed|latency|test_var|bs|dataset|net_name|model|outcome\n{row}\n")).unwrap();
        let device = RecordedDevice::open(profile.path(), ["resnet18"], Stage::Training).unwrap();
        assert_eq!(measure(&device, &job(Path::new(""))).outcome(), Some(outcome));
    }
}

#[test]
fn a_recorded_device_repeats_its_rows() {
    let profile = recorded_profile();
    let device = RecordedDevice::open(profile.path(), ["resnet18"], Stage::Training).unwrap();
    assert_eq!(device.capacity(), Some(Bytes::from_mib(7859.0)));
    let fits = job(Path::new(""));
    let Measurement::Measured { latency: Some(latency), memory: Some(memory), .. } = measure(&device, &fits) else {
        panic!("the recorded step passed");
    };
    assert_eq!((latency.median, memory.used), (164.3, Bytes::from_mib(1631.4).0));
    let too_large = MeasurementJob { workload: Workload { batch: 180, ..fits.workload }, ..fits.clone() };
    assert_eq!(measure(&device, &too_large).outcome(), Some(MeasurementOutcome::OutOfMemory));

    let unrecorded = MeasurementJob { workload: Workload { batch: 5, ..fits.workload }, ..fits };
    let error = device.check(&unrecorded).unwrap_err().to_string();
    assert!(error.contains("no recorded latency of resnet18_0, training, bs 5"), "{error}");
    assert!(error.contains("batch sizes 4, 180"), "{error}");
    let error = RecordedDevice::open(profile.path(), ["vgg16"], Stage::Training).unwrap_err().to_string();
    assert!(error.contains("no rows of vgg16"), "{error}");
}

#[test]
fn the_published_profile_can_be_asked() {
    let Some(profile) = shared("tx2/profiling_csvs") else { return };
    let device = RecordedDevice::open(&profile, ["resnet18", "mnasnet"], Stage::Training).unwrap();
    // First rows of resnet18_0-gt.csv in both folders.
    let job = MeasurementJob { workload: Workload::published(Stage::Training, 2), ..job(Path::new("")) };
    let Measurement::Measured { latency: Some(latency), memory: Some(memory), .. } = measure(&device, &job) else {
        panic!("the published step passed");
    };
    assert_eq!(latency.median, 102.57535044352214);
    assert_eq!(memory.allocated, Bytes::from_mib(179.6888671875).0);
}

#[test]
fn a_worker_is_told_everything_it_needs() {
    let folder = TempDir::new().unwrap();
    let heard = folder.path().join("heard");
    let script = format!(
        "read request; {{ echo \"$request\"; echo $OMP_NUM_THREADS; cat /proc/self/oom_score_adj; }} > {}; echo '{MEASURED}'",
        heard.display()
    );
    let network = folder.path().join("resnet18_0.onnx");
    measure(&scripted(&script), &MeasurementJob { memory: false, ..job(&network) });
    let heard = fs::read_to_string(heard).unwrap();
    let lines: Vec<&str> = heard.lines().collect();
    let request: WorkerRequest = serde_json::from_str(lines[0]).unwrap();
    let expected = WorkerRequest {
        protocol: PROTOCOL,
        place: "cpu".into(),
        threads: 2,
        mem_limit: Some(1 << 30),
        seed: 7,
        task: WorkerTask::Step(StepTask {
            network,
            workload: Workload::published(Stage::Training, 4),
            cuts: Vec::new(),
            latency: true,
            memory: false,
            layers: false,
            tf32: false,
            cudnn_benchmark: false,
            steps: StepRule::default(),
        }),
    };
    assert_eq!(request, expected);
    // Workers that know no tasks look for the fields of a step among the others.
    let line: serde_json::Value = serde_json::from_str(lines[0]).unwrap();
    for field in ["task", "place", "network", "stage", "batch", "latency", "memory", "layers", "steps"] {
        assert!(line.get(field).is_some(), "{field} is not in {line}");
    }
    // Its compute library starts with that many threads, and the kernel's killer takes it before anything else.
    assert_eq!(lines[1..], ["2", "1000"]);
}

#[test]
fn a_request_without_a_task_is_of_a_step() {
    let before = r#"{"protocol":2,"place":"cuda:0","network":"x","stage":"inference","batch":3,"latency":true,"memory":true,
        "layers":false,"threads":1,"mem_limit":null,"seed":5,
        "steps":{"minimum":1,"minimum_seconds":0.5,"spread":0.02,"maximum_seconds":5.0}}"#;
    let now = before.replacen('{', r#"{"task":"step","#, 1);
    let request = protocol::read_request(before).unwrap();
    assert_eq!(request, protocol::read_request(&now).unwrap());
    let WorkerTask::Step(step) = &request.task else { panic!("{request:?}") };
    assert_eq!((request.seed, step.workload), (5, Workload::published(Stage::Inference, 3)));
    let refusal = protocol::read_request(&before.replacen('{', r#"{"task":"paint","#, 1)).unwrap_err();
    assert!(refusal.contains("unknown variant `paint`"), "{refusal}");
}

#[test]
fn a_worker_that_does_not_know_a_task_is_refused_it() {
    let worker = script_worker(String::new());
    worker.check_task(WorkerTask::STEP).unwrap();
    let refusal = worker.check_task("paint").unwrap_err().to_string();
    assert!(refusal.contains("does not know the task paint") && refusal.contains("expected: step"), "{refusal}");
}

#[test]
fn an_answer_counts_however_the_worker_behaves_around_it() {
    let noisy = format!("head -c 3000000 /dev/zero | tr '\\0' x >&2; echo '{MEASURED}'");
    let unread = format!("exec <&-; printf '%s' '{MEASURED}'; exit 3");
    for script in [noisy, unread] {
        assert!(is_answered(&script), "{script}");
    }
    let disturbed = format!("echo '{}'", MEASURED.replace("\"disturbed\":false", "\"disturbed\":true"));
    assert_eq!(measure(&scripted(&disturbed), &job(Path::new("x"))).outcome(), Some(MeasurementOutcome::Disturbed));
}

#[test]
fn among_other_programs_the_threads_of_a_worker_sleep_while_they_wait() {
    let device = scripted(&format!("[ \"$OMP_WAIT_POLICY\" = passive ] && echo '{MEASURED}'"));
    let outcome = |among_others| {
        let allowance = RunAllowance { among_others, ..RunAllowance::default() };
        measure(&device, &MeasurementJob { allowance, ..job(Path::new("x")) }).outcome()
    };
    assert_eq!(
        [outcome(true), outcome(false)],
        [Some(MeasurementOutcome::Measured), Some(MeasurementOutcome::Crashed)]
    );
}

#[test]
fn out_of_memory_keeps_what_was_counted() {
    let reading = r#"{"allocated":5,"reserved":5,"used":7,"available":9,"free":8}"#;
    let script = format!("echo '{{\"outcome\":\"out_of_memory\",\"memory\":{reading}}}'");
    let Measurement::OutOfMemory { memory: Some(memory), .. } = measure(&scripted(&script), &job(Path::new("x")))
    else {
        panic!("the worker said out of memory");
    };
    assert_eq!((memory.allocated, memory.used), (5, 7));
}

#[test]
fn a_worker_that_misbehaves_is_reported_as_what_it_did() {
    let half = r#"{"outcome":"measured","latency":null,"memory":null}"#;
    let never = MEASURED.replace("12.5", "-1.0");
    let cases = [
        ("echo 'Segmentation fault, maybe'".to_owned(), MeasurementOutcome::Garbled, "Segmentation fault, maybe"),
        (format!("echo '{half}'"), MeasurementOutcome::Garbled, "the answer lacks requested values"),
        (format!("echo '{never}'"), MeasurementOutcome::Garbled, "impossible time"),
        (format!("echo '{MEASURED}'; echo '{MEASURED}'"), MeasurementOutcome::Garbled, "trailing characters"),
        ("yes".to_owned(), MeasurementOutcome::Garbled, "\"y\\ny\\n"),
        ("exit 0".to_owned(), MeasurementOutcome::Garbled, "ended without an answer"),
        (
            "echo no such operation >&2; exit 3".to_owned(),
            MeasurementOutcome::Crashed,
            "exit code 3: no such operation",
        ),
        ("kill -SEGV $$".to_owned(), MeasurementOutcome::Crashed, "signal SIGSEGV"),
        ("kill -KILL $$".to_owned(), MeasurementOutcome::Crashed, "signal SIGKILL"),
        (
            r#"echo '{"outcome":"failed","reason":"op Foo is unknown"}'"#.to_owned(),
            MeasurementOutcome::Failed,
            "op Foo is unknown",
        ),
    ];
    for (script, expected, words) in cases {
        let Measurement::Broken { outcome, reason } = measure(&scripted(&script), &job(Path::new("x"))) else {
            panic!("{script} is not broken");
        };
        assert_eq!(outcome, expected, "{script}: {reason}");
        assert!(reason.contains(words), "{script}: {reason}");
    }
}

#[test]
fn a_worker_that_hangs_is_killed_with_what_it_started() {
    let folder = TempDir::new().unwrap();
    let child = folder.path().join("child");
    for hang in ["read request; sleep 60", "exec >&-; sleep 60", "sleep 60 & wait"] {
        let script = format!("echo $$ > {}; {hang}", child.display());
        let device = Hardware { timeout: Duration::from_millis(400), ..scripted(&script) };
        let began = Instant::now();
        let Measurement::Broken { outcome, reason } = measure(&device, &job(Path::new("x"))) else {
            panic!("{hang} ended");
        };
        assert_eq!(
            (outcome, reason.contains("still running after 400 ms")),
            (MeasurementOutcome::TimedOut, true),
            "{reason}"
        );
        assert!(began.elapsed() < Duration::from_secs(30));
        assert!(!alive(&child), "{hang}");
    }
}

#[test]
fn a_stray_child_does_not_hold_up_the_answer() {
    let script = format!("sleep 60 & echo '{MEASURED}'");
    let began = Instant::now();
    // The child has the worker's pipe, so the answer only ends when the child is dead too.
    assert!(is_answered(&script));
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[test]
fn ctrl_c_ends_the_worker() {
    let folder = TempDir::new().unwrap();
    let child = folder.path().join("child");
    let device = scripted(&format!("echo $$ > {}; sleep 60", child.display()));
    let cancelled = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !child.exists() {
                thread::sleep(Duration::from_millis(10));
            }
            cancelled.store(true, Ordering::Relaxed);
        });
        let watch = RunWatch::quiet(&cancelled);
        assert_eq!(device.measure(&job(Path::new("x")), &watch).unwrap(), Measurement::Interrupted);
    });
    assert!(!alive(&child));
}

/// Whether the process whose id `file` holds runs.
fn alive(file: &Path) -> bool {
    let id = fs::read_to_string(file).unwrap();
    fs::read_to_string(format!("/proc/{}/stat", id.trim())).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn measurements_never_overlap() {
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("log");
    let script = format!("echo begin >> {0}; sleep 0.2; echo end >> {0}; echo '{MEASURED}'", log.display());
    let device = scripted(&script);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let told = RefCell::new(Vec::new());
                let cancelled = AtomicBool::new(false);
                let waiting = |whom: &str| told.borrow_mut().push(whom.to_owned());
                device
                    .measure(&job(Path::new("x")), &RunWatch { waiting: &waiting, ..RunWatch::quiet(&cancelled) })
                    .unwrap();
                // Another test's program may measure in between, which is news.
                assert!(told.borrow().windows(2).all(|pair| pair[0] != pair[1]), "{told:?}");
            });
        }
    });
    assert_eq!(fs::read_to_string(log).unwrap(), "begin\nend\n".repeat(3));
}

#[test]
fn a_worker_that_cannot_be_started_is_an_error() {
    let mut device = scripted("");
    device.worker.words[0] = "/nonexistent/worker".into();
    let cancelled = AtomicBool::new(false);
    let error = device.measure(&job(Path::new("x")), &RunWatch::quiet(&cancelled)).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/worker"), "{error}");
}

#[test]
fn capacity_is_never_more_than_the_machine_has() {
    let all = Hardware { mem_limit: Some(Bytes(u64::MAX)), ..scripted("") };
    let little = Hardware { mem_limit: Some(Bytes(1 << 20)), ..scripted("") };
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let total: u64 = meminfo.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(all.capacity().unwrap() <= Bytes(total * 1024));
    assert_eq!(little.capacity(), Some(Bytes(1 << 20)));
}

#[test]
fn the_memory_of_a_gpu_is_its_own_unless_it_shares_the_machines() {
    let gpu = |memory, unified| GpuInfo { name: "GPU".into(), memory, unified, ..GpuInfo::default() };
    let device = |name, mem_limit, gpus: &[(&str, GpuInfo)]| {
        let mut device = Hardware { kind: DeviceKind::parse(name).unwrap(), mem_limit, ..scripted("") };
        device.worker.about.gpus = gpus.iter().map(|(place, gpu)| ((*place).to_owned(), gpu.clone())).collect();
        device
    };
    let large = [("cuda:0", gpu(1 << 50, false)), ("cuda:1", gpu(1 << 40, false))];
    assert_eq!(device("cuda", None, &large).capacity(), Some(Bytes(1 << 50)));
    assert_eq!(device("cuda", Some(Bytes(8 << 30)), &large).capacity(), Some(Bytes(8 << 30)));
    assert_eq!(device("2080ti", None, &[]).capacity(), None, "its worker does not report it");
    let second = Hardware { gpu: GpuOptions { index: 1, ..GpuOptions::default() }, ..device("cuda", None, &large) };
    assert_eq!(second.capacity(), Some(Bytes(1 << 40)));
    let board = device("orin", None, &[("cuda:0", gpu(1 << 50, true))]);
    assert!(board.capacity().unwrap() < Bytes(1 << 50), "a share of what this machine has available");
}

#[test]
fn devices_that_need_a_worker_of_their_own_say_so() {
    let error = DeviceKind::parse("tx2").unwrap().check_runnable().unwrap_err().to_string();
    assert!(
        error.contains("tx2 cannot be profiled by this program alone: ") && error.contains("worker = python3"),
        "{error}"
    );
    for name in ["jetson", "orin", "2080ti", "cuda", "cpu", "simulated", "recorded"] {
        DeviceKind::parse(name).unwrap().check_runnable().unwrap();
    }
    let error = DeviceKind::parse("cdua").unwrap_err().to_string();
    assert!(error.contains("did you mean \"cuda\"?"), "{error}");
}
